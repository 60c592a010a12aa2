"""Declared bins of numbers, which are public: in which of them each private number is, by that number alone."""

from __future__ import annotations

import reprlib
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64
from dpstats.data.rows import column_of
from dpstats.errors import InvalidParameter


class Bins:
    """Public edges, and the bin of each number between them.

    Parameters
    ----------
    edges : sequence of two finite numbers or more, increasing

    Attributes
    ----------
    edges : ndarray
    values : tuple of str
        The bins in words: "[0, 10)", the last one closed.

    Examples
    --------
    >>> from dpstats.queries import Bins
    >>> Bins([0, 18, 65, 120]).values
    ('[0, 18)', '[18, 65)', '[65, 120]')
    """

    kind: ClassVar[str] = "bins"

    def __init__(self, edges: Any) -> None:
        try:
            self.edges: NDArray[np.float64] = np.array(edges, dtype=np.float64)
        except (TypeError, ValueError):
            self.edges = np.zeros(0)
        increasing = self.edges.ndim == 1 and self.edges.size >= 2 and bool((np.diff(self.edges) > 0).all())
        if not increasing or not np.isfinite(self.edges).all():
            raise InvalidParameter(
                f"bins must be the edges of bins, two finite and increasing numbers or more, got {reprlib.repr(edges)}"
            )
        pairs = list(zip(self.edges[:-1], self.edges[1:], strict=True))
        self.values = tuple(
            f"[{low:g}, {high:g}{']' if place == len(pairs) else ')'}"
            for place, (low, high) in enumerate(pairs, 1)
        )

    def __len__(self) -> int:
        return self.edges.size - 1

    def codes(self, data: Any, name: str = "data") -> NDArray[np.int64]:
        """Return the position of each number's bin; -1 for one outside all of them, or missing.

        Parameters
        ----------
        data : 1-d sequence of numbers
            Private: as for `dpstats.data.rows.column_of`.

        Raises
        ------
        InvalidData
            If ``data`` is no sequence of numbers.
        """
        numbers = column_of(name, data)
        with np.errstate(invalid="ignore"):
            inside = (numbers >= self.edges[0]) & (numbers <= self.edges[-1])
        places = np.searchsorted(self.edges, np.where(inside, numbers, self.edges[0]), side="right") - 1
        return as_int64(np.where(inside, np.minimum(places, len(self) - 1), -1))
