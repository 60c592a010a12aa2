"""What every lattice of rows is: public numbers, a bound on the distance of two rows, a row map, exact sums."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import InvalidData, InvalidParameter
from dpstats.lattice.rounding import SHIFT, pattern
from dpstats.lattice.sums import BLOCK, Reading, Sums, default_threads, rounded, sums_by_rows

if TYPE_CHECKING:
    from dpstats.data.parameters import Columns

BITS = 30
"""Steps from the centre to the bound, as a power of two: rounding moves an entry by at most 2^-31 of its
bound. Coarser lattices serve where noise of that many steps could not be drawn."""

_MAX_SUM = 2**62  # bound on any integer formed, leaving room in int64 for the noise

# Bounds and centres in the units of the data. Inside these neither the spacing, nor its inverse, nor
# its square leaves floating point, so that a finite entry can never become NaN.
_SMALLEST, _LARGEST = 1e-140, 1e140


def check_region(clip: Columns, center: Columns) -> None:
    """Refuse a region whose numbers leave no room in floating point."""
    sizes = np.atleast_1d(clip)
    if not np.all((sizes >= _SMALLEST) & (sizes <= _LARGEST)):
        raise InvalidParameter(
            f"clip must be between {_SMALLEST:g} and {_LARGEST:g} for exact arithmetic, got {sizes.min():g} "
            f"to {sizes.max():g}; change the units of the data"
        )
    if not np.all(np.abs(center) <= _LARGEST):
        raise InvalidParameter(f"center must be between -{_LARGEST:g} and {_LARGEST:g} for exact arithmetic")


@dataclass(frozen=True, eq=False)
class RowLattice(ABC):
    """A public lattice and the row map onto it; subclasses say which norm is bounded.

    Attributes
    ----------
    center : float or array of shape (n_features,)
        The point that is zero steps away from itself.
    spacing : float or array of shape (n_features,)
        The length of a step, in the units of the data.
    n_features : int
        The length of a row.
    bits : int
        The largest bound is 2^bits steps.
    """

    center: Columns
    spacing: Columns
    n_features: int
    bits: int

    @abstractmethod
    def sensitivity(self, norm: str) -> int:
        """Return the largest distance, in steps, of two rows of the lattice."""

    @abstractmethod
    def square_sensitivity(self, norm: str) -> int:
        """Return the largest distance of two rows of squares (see `sums`), in their steps."""

    @property
    def square_spacing(self) -> Columns:
        """The length of a step of a square, in squared units of the data."""
        return self.spacing**2 * 2.0**self.bits

    def round_rows(self, X: NDArray[Any]) -> NDArray[np.int64]:
        """Return the lattice points of the rows of ``X``, of shape (n, n_features), in steps.

        Entries should be finite: others become some point of the region. This is the row map itself, one block
        of `sums`; use it to look at single rows, to compare with brute force and to build other sums of
        small data.
        """
        return rounded(self, X)

    def sums(
        self,
        X: Any,
        *,
        squares: bool = False,
        missing: str = "error",
        threads: int | None = None,
        block: int = BLOCK,
    ) -> Sums:
        """Return the exact column sums of the lattice points of the rows of ``X``.

        Parameters
        ----------
        X : array of shape (n, n_features)
            Real numbers of any numeric dtype and memory order; never changed, never copied whole.
        squares : bool
            Also return the column sums of ``k*k >> bits``, the squared distances from the centre.
        missing : {"error", "center"}
            What a NaN or infinite entry does: raise, or count as the centre.
        threads, block : int
            Number of threads (default: the processors, at most 8) and entries in a block. The
            sums do not depend on either.

        Raises
        ------
        InvalidData
            If an entry is NaN or infinite and ``missing="error"``.
        """
        self._check_count(X.shape[0])
        threads = default_threads(X.size) if threads is None else threads
        return self._sums(X, Reading(squares, missing, threads, block))

    def _check_count(self, n: int) -> None:
        if n << self.bits > _MAX_SUM:
            raise InvalidData(
                f"X has too many rows for exact 64-bit sums: {n}, at most {_MAX_SUM >> self.bits}"
            )

    def _sums(self, X: NDArray[Any], how: Reading) -> Sums:
        return sums_by_rows(X, self, how)

    @property
    def _zero_pattern(self) -> int:
        """The pattern of zero steps in the blocks that `_round_block` writes."""
        return pattern(SHIFT)

    @abstractmethod
    def _round_block(self, rows: NDArray[Any], out: NDArray[np.float64]) -> None:
        """Write the rows' lattice points, shifted by `SHIFT`, to ``out``."""
