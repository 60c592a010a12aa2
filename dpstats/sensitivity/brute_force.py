"""Sensitivities by trying all datasets of a finite domain: what closed forms are checked against."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_choice, check_integer
from dpstats.errors import refuse

Dataset = tuple[Any, ...]
Function = Callable[[Dataset], Any]

_NORMS = {"l1": 1.0, "l2": 2.0, "linf": np.inf}


def global_sensitivity(function: Function, domain: Iterable[Any], n_rows: int, *, norm: str = "l1") -> float:
    """Return the largest change of a function by replacing one row, over all datasets of ``n_rows`` rows.

    Parameters
    ----------
    function : callable
        Of a tuple of rows; returns a number, or numbers of a fixed shape.
    domain : iterable
        All values that a row can have: finite, and hashable.
    n_rows : int
        Number of rows, at least 1. All ``len(domain) ** n_rows`` datasets are tried.
    norm : {"l1", "l2", "linf"}, default="l1"
        Norm of the distance of two results.

    Returns
    -------
    float

    Examples
    --------
    >>> from dpstats.sensitivity import global_sensitivity
    >>> global_sensitivity(sum, range(7), 3)
    6.0
    """
    values, power = _values(domain), _power(norm)
    n = check_integer("n_rows", n_rows, at_least=1)
    results = _Remembered(function)
    return max(_moved(results, data, values, power) for data in itertools.product(values, repeat=n))


def local_sensitivity(
    function: Function, dataset: Sequence[Any], domain: Iterable[Any], *, distance: int = 0, norm: str = "l1"
) -> float:
    """Return the largest change of a function by replacing one row, over data that differ from these in few rows.

    Parameters
    ----------
    function, domain, norm
        As for `global_sensitivity`.
    dataset : sequence
        The rows. If they are private, the result is private.
    distance : int, default=0
        Number of rows in which data may differ from these: 0 gives the local sensitivity, k the A(k) of
        smooth sensitivity.

    Returns
    -------
    float

    Notes
    -----
    Nissim, Raskhodnikova and Smith (2007), definitions 1.4 and 3.1.

    Examples
    --------
    >>> from statistics import median_low
    >>> from dpstats.sensitivity import local_sensitivity
    >>> [local_sensitivity(median_low, (1, 2, 4), range(7), distance=k) for k in range(3)]
    [2.0, 4.0, 5.0]
    """
    values, power, data = _values(domain), _power(norm), tuple(dataset)
    if not data or not set(data) <= set(values):
        raise refuse("dataset", allowed="one row or more, each a value of the domain")
    k = check_integer("distance", distance, at_least=0)
    results = _Remembered(function)
    return max(_moved(results, near, values, power) for near in _within(data, values, min(k, len(data))))


class _Remembered:
    """A function whose results are kept: a dataset has many neighbors."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self._known: dict[Dataset, NDArray[np.float64]] = {}

    def __call__(self, data: Dataset) -> NDArray[np.float64]:
        if data not in self._known:
            self._known[data] = np.ravel(np.asarray(self._function(data), dtype=np.float64))
        return self._known[data]


def _values(domain: Iterable[Any]) -> list[Any]:
    values = list(dict.fromkeys(domain))
    if not values:
        raise refuse("domain", allowed="have at least one value")
    return values


def _power(norm: str) -> float:
    return _NORMS[check_choice("norm", norm, list(_NORMS))]


def _moved(function: _Remembered, data: Dataset, values: list[Any], power: float) -> float:
    here = function(data)
    return max(
        float(np.linalg.norm(function((*data[:i], value, *data[i + 1 :])) - here, power))
        for i in range(len(data))
        for value in values
    )


def _within(data: Dataset, values: list[Any], k: int) -> Iterator[Dataset]:
    """Yield all datasets that differ in at most k rows."""
    for places in itertools.combinations(range(len(data)), k):
        for new in itertools.product(values, repeat=k):
            changed = dict(zip(places, new, strict=True))
            yield tuple(changed.get(i, row) for i, row in enumerate(data))
