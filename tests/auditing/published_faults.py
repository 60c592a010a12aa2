"""Faults that were published of other packages' releases, each planted as a small release, beside one that is right.

All but the last three are faults of sensitivity: a neighbor shows them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Release = Callable[[Any, Any], Any]
RNG = np.random.default_rng(7)


class Fault(NamedTuple):
    """A release with a fault and one without, neighbors that show it, and how it shows."""

    name: str
    broken: Release
    mended: Release
    dataset: Any
    neighbor: Any
    shows: str


def _with(rows: np.ndarray, row: Any, place: int = 0) -> np.ndarray:
    changed = rows.copy()
    changed[place] = row
    return changed


# Columns x and y of [0, 1]; the sensitivity of x'y is the largest product, and not that of the lower bounds.
PAIRS = RNG.random((30, 2))


def lower_bound_twice(rows: Any, source: Any) -> Any:
    (low, _), (other, _) = (0.0, 1.0), (0.0, 1.0)
    return source.laplace(rows[:, 0] @ rows[:, 1], sensitivity=abs(low * other))


def upper_bounds(rows: Any, source: Any) -> Any:
    return source.laplace(rows[:, 0] @ rows[:, 1], sensitivity=1.0)


# Rows of norm 1: one that is added moves X'X by 1, one that is replaced by another of right angles by sqrt 2.
UNIT = RNG.normal(size=(30, 3))
UNIT /= np.linalg.norm(UNIT, axis=1, keepdims=True)


def moments(stated: float) -> Release:
    def release(rows: Any, source: Any) -> Any:
        return source.gaussian(rows.T @ rows, sensitivity=stated)

    return release


def noise_by_lambda_min(rows: Any, source: Any) -> Any:
    gram = rows.T @ rows
    slope = np.linalg.solve(gram, rows.sum(axis=1) @ rows)
    stated = 4 / np.linalg.eigvalsh(gram)[0]
    return source.gaussian(slope, sensitivity=stated, scale=5 * stated)


def noise_by_a_bound(rows: Any, source: Any) -> Any:
    gram = rows.T @ rows + 4 * np.eye(3)
    # (G + E)^-1 (b + e) - G^-1 b, with G at least 4: |e| <= 2 sqrt 3, |E| <= 2 and |G^-1 b| <= 30 sqrt 3/4.
    stated = (2 * np.sqrt(3) + 2 * 30 * np.sqrt(3) / 4) / 4
    return source.gaussian(np.linalg.solve(gram, rows.sum(axis=1) @ rows), sensitivity=stated, scale=5 * stated)


INCOMES = RNG.uniform(0, 60, size=40)


def bounds_of_the_data(x: Any, source: Any) -> Any:
    low, high = x.min(), x.max()
    return source.laplace(np.clip(x, low, high).mean(), sensitivity=(high - low) / x.size)


def declared_bounds(x: Any, source: Any) -> Any:
    return source.laplace(np.clip(x, 0, 100).mean(), sensitivity=100 / x.size)


def interval_without_noise(x: Any, source: Any) -> Any:
    clipped = np.clip(x, 0, 100)
    middle = source.laplace(clipped.mean(), sensitivity=100 / x.size)
    half = 1.96 * clipped.std() / np.sqrt(x.size)
    return middle - half, middle + half


def interval_from_what_is_released(x: Any, source: Any) -> Any:
    clipped = np.clip(x, 0, 100)
    middle = source.laplace(clipped.mean(), sensitivity=100 / x.size)
    square = source.laplace((clipped**2).mean(), sensitivity=100**2 / x.size)
    half = 1.96 * np.sqrt(max(square - middle**2, 0.0) / x.size)
    return middle - half, middle + half


def covariance(then: str) -> Release:
    def release(rows: Any, source: Any) -> Any:
        clipped = np.clip(rows, 0, 1)
        used = clipped if then == "clipped" else rows
        # One row moves x'y by at most 1.
        return source.laplace(used[:, 0] @ used[:, 1], sensitivity=1.0)

    return release


def refuses_ties(x: Any, source: Any) -> Any:
    gaps = np.diff(np.sort(x))
    if (gaps == 0).any():
        raise ZeroDivisionError("an interval of length 0")
    return source.laplace((x > 30).sum(), sensitivity=1.0)


def takes_ties(x: Any, source: Any) -> Any:
    return source.laplace((x > 30).sum(), sensitivity=1.0)


# A row is added: it belongs to one half, of which it moves the sum by 1.
SHARES = np.ones(5)


def halves_by_position(x: Any, source: Any) -> Any:
    half = len(x) // 2  # and the last row is dropped where their number is odd
    return source.laplace([x[:half].sum(), x[half : 2 * half].sum()], sensitivity=1.0)


def halves_by_turns(x: Any, source: Any) -> Any:
    return source.laplace([x[0::2].sum(), x[1::2].sum()], sensitivity=1.0)


def mean_without_its_count(x: Any, source: Any) -> Any:
    # A row is added or removed: how many there are is private, too.
    return source.laplace(np.clip(x, 0, 1).sum(), sensitivity=1.0) / len(x)


def mean_with_its_count(x: Any, source: Any) -> Any:
    total = source.laplace(np.clip(x, 0, 1).sum(), sensitivity=1.0)
    return total / max(source.laplace(len(x), sensitivity=1.0), 1.0)


def k_aggregates_at_full_budget(x: Any, source: Any) -> Any:
    sums = [np.clip(x, 0, bound).sum() for bound in (25, 50, 100)]
    return source.laplace(sums, sensitivity=100.0, scale=100.0)


def k_aggregates_together(x: Any, source: Any) -> Any:
    sums = [np.clip(x, 0, bound).sum() for bound in (25, 50, 100)]
    return source.laplace(sums, sensitivity=175.0, scale=175.0)


RIGHT_ANGLE = np.linalg.svd(UNIT[:1])[2][1]

FAULTS = [
    Fault(
        "lower bound used twice in the sensitivity of X'y",
        lower_bound_twice,
        upper_bounds,
        _with(PAIRS, (0.0, 0.0)),
        _with(PAIRS, (1.0, 1.0)),
        "moved",
    ),
    Fault(
        "constants of rows added or removed, where one is replaced",
        moments(1.0),
        moments(np.sqrt(2)),
        UNIT,
        _with(UNIT, RIGHT_ANGLE),
        "moved",
    ),
    Fault(
        "noise scaled by the private smallest eigenvalue",
        noise_by_lambda_min,
        noise_by_a_bound,
        UNIT,
        _with(UNIT, RIGHT_ANGLE),
        "from the data",
    ),
    Fault(
        "intervals from the covariance that is not private",
        interval_without_noise,
        interval_from_what_is_released,
        INCOMES,
        _with(INCOMES, 95.0),
        "output",
    ),
    Fault(
        "bounds that default to the range of the data",
        bounds_of_the_data,
        declared_bounds,
        INCOMES,
        _with(INCOMES, 95.0),
        "from the data",
    ),
    Fault(
        "a covariance that clips, and uses the raw columns",
        covariance("raw"),
        covariance("clipped"),
        PAIRS,
        _with(PAIRS, (9.0, 9.0)),
        "moved",
    ),
    Fault(
        "a quantile that refuses ties",
        refuses_ties,
        takes_ties,
        INCOMES,
        _with(INCOMES, INCOMES[np.argmax(INCOMES)], int(np.argmin(INCOMES))),
        "refused",
    ),
    Fault(
        "the last row dropped where their number is odd",
        halves_by_position,
        halves_by_turns,
        SHARES,
        np.ones(6),
        "moved",
    ),
    Fault(
        "a mean charged for its sum and not for its count",
        mean_without_its_count,
        mean_with_its_count,
        SHARES,
        np.ones(6),
        "output",
    ),
    Fault(
        "several aggregates at the full budget each",
        k_aggregates_at_full_budget,
        k_aggregates_together,
        _with(INCOMES, 0.0),
        _with(INCOMES, 100.0),
        "moved",
    ),
]
