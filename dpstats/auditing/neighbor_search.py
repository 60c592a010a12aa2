"""Search for the neighbor with the largest change, among replacements of a row by a candidate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from dpstats.auditing.apart import split_parts
from dpstats.auditing.replay import Replay, runner
from dpstats.auditing.sensitivity_check import LEFT_OPEN, SensitivityCheck
from dpstats.data.parameters import check_integer
from dpstats.errors import attempt, refuse


def worst_neighbor(
    release: Any,
    dataset: Any,
    candidates: Any,
    *,
    rows: Iterable[int] | None = None,
    sensitivity: float | None = None,
    norm: str = "l1",
    seed: int = 0,
) -> SensitivityCheck:
    """Replace each row by each candidate in turn, and return the check of the pair that moved most.

    Parameters
    ----------
    release, sensitivity, norm, seed
        As for `check_sensitivity`.
    dataset : array of shape (n, d) or (n,), or a pair of these ``(X, y)``
    candidates : array of shape (m, d) or (m,), or a pair of these
        Replacement rows: rows at the bounds, rows far outside, NaN if it is allowed. Rows and candidates are
        converted to a common type, such as floating point for integers and fractions.
    rows : iterable of int, optional
        Indices of the replaced rows; default: all.

    Returns
    -------
    SensitivityCheck
        The worst of all tried pairs. Other rows, and other datasets, may be worse.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.auditing import worst_neighbor
    >>> def mean_of_odd(x):  # drops the last row where n is even
    ...     return x[: len(x) - (len(x) + 1) % 2].mean()
    >>> worst = worst_neighbor(mean_of_odd, np.full(8, -1.0), [-1.0, 1.0], sensitivity=2 / 8)
    >>> worst.violated, worst.neighbor
    (True, 'row 0 replaced by candidate 1')
    """
    run = runner(release, sensitivity, norm)
    data, others = _alike(dataset, candidates)
    size = len(data[0])
    places = (
        range(size)
        if rows is None
        else [check_integer("rows", i, at_least=0, at_most=size - 1, of=rows) for i in rows]
    )
    if not len(places) or not len(others[0]):
        raise refuse(
            "rows",
            got=f"{len(places)} rows and {len(others[0])} candidates",
            allowed="a row and a candidate",
        )
    replay = Replay(release, run, _join_parts(data), check_integer("seed", seed, at_least=0))
    found: list[SensitivityCheck] = []
    for i in places:
        for k in range(len(others[0])):
            near = [part.copy() for part in data]
            for part, other in zip(near, others, strict=True):
                part[i] = other[k]
            found.append(replay.compare_neighbor(_join_parts(near), f"row {i} replaced by candidate {k}"))
    # The first of the worst.
    return max(
        found, key=lambda check: (check.violated, check.verdict == LEFT_OPEN, not check.refused, check.ratio)
    )


def _alike(dataset: Any, candidates: Any) -> tuple[list[np.ndarray[Any, Any]], list[np.ndarray[Any, Any]]]:
    """Return rows and candidates, part by part of one type that holds both."""
    found = attempt(
        lambda: [[np.asarray(part) for part in split_parts(given)] for given in (dataset, candidates)],
        Exception,
    )
    if found is None:
        raise refuse("candidates", allowed="an array of rows, as dataset is")
    data, others = found
    if (
        len(data) != len(others)
        or any(a.ndim == 0 or b.ndim == 0 for a, b in zip(data, others, strict=True))
        or any(a.shape[1:] != b.shape[1:] for a, b in zip(data, others, strict=True))
    ):
        raise refuse("candidates", allowed="have the same number of columns as dataset")
    pairs = [_promote_types(part, other) for part, other in zip(data, others, strict=True)]
    return [part for part, _ in pairs], [other for _, other in pairs]


def _promote_types(
    part: np.ndarray[Any, Any], other: np.ndarray[Any, Any]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    if part.dtype == other.dtype:  # nothing is changed, of objects neither
        return part, other
    refusal = refuse(
        "candidates", got=str(other.dtype), allowed=f"of a type that holds them and {part.dtype} exactly"
    )
    numbers = [array.dtype.kind in "biuf" for array in (part, other)]
    if part.dtype.kind != other.dtype.kind and not all(numbers):
        raise refusal
    kind = np.result_type(part, other)
    held = part.astype(kind), other.astype(kind)
    for before, after in zip((part, other), held, strict=True):
        # Python's numbers are compared exactly: int(2**53 + 1) is not a float.
        pairs = zip(before.ravel().tolist(), after.ravel().tolist(), strict=True)
        if kind.hasobject or not all(a == b or (a != a and b != b) for a, b in pairs):
            raise refusal
    return held


def _join_parts(parts: Sequence[Any]) -> Any:
    return parts[0] if len(parts) == 1 else tuple(parts)
