"""From sensitivities in lattice steps to calibrated stages of a plan, also where the number of rows is private.

Proofs: docs/proofs/laplace.md, docs/proofs/gaussian.md, docs/proofs/complete-cases.md and docs/proofs/private-size.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Protocol, TypeVar, overload

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpstats.data.parameters import check_integer
from dpstats.data.rows import Rows, Table
from dpstats.data.schema import Schema
from dpstats.errors import DPStatsError, InvalidParameter, NotPrivate, ScaleOutOfRange, refuse, refuse_data
from dpstats.inference.error_distributions import usual_level
from dpstats.inference.results import ConfidenceInterval, observed_rows
from dpstats.lattice.rounding import finite_rows
from dpstats.privacy.events import lattice_slack
from dpstats.privacy.gaussian import (
    LARGEST_LATTICE_SHARE,
    LATTICE_SHARE,
    SMALLEST_STEPS,
    TOTAL_VARIATION,
    gaussian_sigma,
    zcdp_rho,
)
from dpstats.privacy.guarantee import Neighbors, PrivacyGuarantee, parse_neighbors, quotient_up, up
from dpstats.privacy.plan import Plan, ReleasePlan
from dpstats.privacy.stages import Block, Discovery, JointStage, KeyCounts, Stage, count_keys
from dpstats.release.noise import MIN_SCALE, check_scale
from dpstats.release.session import Session


@dataclass(frozen=True)
class Integers:
    """Input of a stage: a vector of integers with a known sensitivity.

    ``l1`` and ``l2`` are sensitivities in steps, and ``spacing`` is the length of a step in the units of the
    release. ``share`` is its budget fraction (of epsilon, or of mu^2).
    """

    name: str
    size: int
    spacing: float | tuple[float, ...]
    l1: int
    l2: int
    share: float = 1.0

    def sizes(self, scale: float) -> list[tuple[int, float]]:
        """Return pairs of a number of values and the scale of their noise in steps."""
        return [(self.size, scale)]

    def stage(self, noise: str, scale: float, neighbors: Neighbors, concentrated: bool = False) -> Stage:
        """Return the stage that releases them."""
        sensitivity = self.l1 if noise == "laplace" else self.l2
        return Stage(
            self.name,
            noise,
            self.size,
            self.spacing,
            sensitivity,
            scale,
            neighbors=neighbors,
            concentrated=concentrated,
        )


@dataclass(frozen=True)
class JointIntegers:
    """Several vectors of integers that one stage will release together.

    ``l1`` and ``l2`` are joint sensitivities of all blocks, each block in its ``unit_steps``. They are maxima
    over pairs of rows, and smaller than the sum of the separate maxima.
    """

    name: str
    blocks: tuple[Block, ...]
    l1: float
    l2: float
    share: float = 1.0

    def sizes(self, scale: float) -> list[tuple[int, float]]:
        """Return pairs of a number of values and the scale of their noise in steps."""
        return [(block.size, scale * block.unit_steps) for block in self.blocks]

    def stage(self, noise: str, scale: float, neighbors: Neighbors, concentrated: bool = False) -> JointStage:
        """Return the stage that releases them."""
        sensitivity = self.l1 if noise == "laplace" else self.l2
        return JointStage(
            self.name, noise, self.blocks, sensitivity, scale, neighbors=neighbors, concentrated=concentrated
        )


@overload
def additive_stages(
    items: Sequence[Integers], epsilon: float, delta: float, *, neighbors: Neighbors = ..., calibration: str = ...
) -> tuple[Stage, ...]: ...


@overload
def additive_stages(
    items: Sequence[Integers | JointIntegers],
    epsilon: float,
    delta: float,
    *,
    neighbors: Neighbors = ...,
    calibration: str = ...,
) -> tuple[Stage | JointStage, ...]: ...


def additive_stages(
    items: Sequence[Integers | JointIntegers],
    epsilon: float,
    delta: float,
    *,
    neighbors: Neighbors = Neighbors.REPLACE_ONE,
    calibration: str = "exact",
) -> tuple[Stage | JointStage, ...]:
    """Return the stages that release the integers at a total of (epsilon, delta).

    delta = 0 gives Laplace noise; delta > 0 gives Gaussian noise from the exact curve, or through
    zero-concentrated privacy where the lattice is too coarse for that curve.
    ``calibration="textbook"`` gives the constants of the source texts (docs/sources.md), where they are private. A
    scale that cannot be drawn raises here, long before a charge.
    """
    if delta == 0:
        noise, concentrated = "laplace", False
        # Shares of a float epsilon can add up to one unit in the last place too much.
        several = (1 - 2.0**-50) if len(items) > 1 else 1.0
        scales = [_drawable(item, quotient_up(item.l1, item.share * epsilon * several)) for item in items]
    elif calibration == "textbook":
        noise, concentrated = "gaussian", False
        scales = [_textbook_scale(items, epsilon, delta)]
    else:
        noise = "gaussian"
        scales, concentrated = _gaussian_scales(items, epsilon, delta)
    for item, scale in zip(items, scales, strict=True):
        for _, drawn in item.sizes(scale):
            check_scale(drawn)
    return tuple(item.stage(noise, scale, neighbors, concentrated) for item, scale in zip(items, scales, strict=True))


Planned = TypeVar("Planned", bound=Plan)

_ADDS_SQUARES = ("gdp", "zcdp")
"""Methods of a budget under which Gaussian noise of (epsilon, delta) costs less than a pure release of epsilon."""


def smaller_noise(
    make_plan: Callable[[float], Planned], delta: float, noise: Callable[[Planned], Any], budget: Any = None
) -> Planned:
    """Return the plan with the smaller noise: Laplace noise at delta = 0, or Gaussian noise at ``delta``.

    The choice is a function of public facts, so either plan keeps (epsilon, delta): docs/proofs/session.md.

    Parameters
    ----------
    make_plan : callable
        Maps a delta to the plan at that delta. At 0 the noise is Laplace, otherwise Gaussian. It may refuse 0.
    delta : float
        The requested delta.
    noise : callable
        Maps a plan to the standard deviations of the noise in the estimate that its reader wants.
    budget : PrivacyBudget, optional
        A budget that adds up squares keeps Gaussian noise, which it charges less for than for a pure release.
    """
    if delta == 0:
        return make_plan(delta)

    def make_pure() -> Planned:
        return replace(make_plan(0.0), delta_asked=delta)

    return choose_smaller(make_plan(delta), make_pure, noise, budget)


def choose_smaller(
    gaussian: Planned, make_laplace: Callable[[], Planned], noise: Callable[[Planned], Any], budget: Any = None
) -> Planned:
    """Return the plan with the smaller noise of two with the same guarantee: see `smaller_noise`."""
    if getattr(budget, "method", "basic") in _ADDS_SQUARES:
        return gaussian
    try:
        laplace = make_laplace()
    except DPStatsError:  # An option, or a lattice, that Laplace noise does not have.
        return gaussian
    return gaussian if _total_square(noise(laplace)) > _total_square(noise(gaussian)) else laplace


def _total_square(values: Any) -> float:
    return float(np.sum(np.square(np.asarray(values, dtype=np.float64))))


def _drawable(item: Integers | JointIntegers, scale: float) -> float:
    """Return the scale, or the smallest one that can be drawn: more noise than a very large epsilon needs."""
    least = min((drawn for _, drawn in item.sizes(1.0)), default=1.0)
    return max(scale, MIN_SCALE / least)


def concentrated_stage(item: Integers | JointIntegers, rho: float) -> Stage | JointStage:
    """Return Gaussian noise that costs the integers' fraction of rho, on any lattice."""
    scale = _concentrated_scale(item, rho)
    for _, drawn in item.sizes(scale):
        check_scale(drawn)
    return item.stage("gaussian", scale, Neighbors.REPLACE_ONE, concentrated=True)


def _gaussian_scales(
    items: Sequence[Integers | JointIntegers], epsilon: float, delta: float
) -> tuple[list[float], bool]:
    """Return the scales of the exact curve or of zero-concentrated privacy, and which of the two they are."""
    # The part of delta for discrete noise is the same as a budget's, so that a plan for a whole budget fits.
    # It is larger only if this lattice requires it.
    for share in (LATTICE_SHARE, LARGEST_LATTICE_SHARE):
        # The first factor is for the rounding of the stages' scales.
        mu = (1 - 1e-14) / gaussian_sigma(epsilon, delta * (1 - share))
        scales = [item.l2 / (math.sqrt(item.share) * mu) for item in items]
        drawn = [size for item, scale in zip(items, scales, strict=True) for size in item.sizes(scale)]
        if lattice_slack(epsilon, _total_variation(drawn)) <= share * delta:
            if min(scale for _, scale in drawn) >= SMALLEST_STEPS:
                return scales, False
            break
    rho = zcdp_rho(epsilon, delta) * (1 - 1e-12)
    return [_concentrated_scale(item, rho) for item in items], True


def _concentrated_scale(item: Integers | JointIntegers, rho: float) -> float:
    return item.l2 / math.sqrt(2 * rho * item.share)


def _total_variation(sizes: list[tuple[int, float]]) -> float:
    # The events round up. A part in 10^12 keeps them inside the reserve.
    return math.fsum(TOTAL_VARIATION * size / scale**2 for size, scale in sizes) * (1 + 1e-12)


def _textbook_scale(items: Sequence[Integers | JointIntegers], epsilon: float, delta: float) -> float:
    """Return algorithm 9.2.1's noise, sensitivity * sqrt(log(1/delta))/epsilon, where it is private."""
    if len(items) > 1:
        raise refuse("calibration", given="textbook", allowed="'exact' for more than a single release")
    item = items[0]
    scale = item.l2 * math.sqrt(math.log(1 / delta)) / epsilon
    actual = math.inf
    if scale >= SMALLEST_STEPS:
        actual = item.stage("gaussian", scale, Neighbors.REPLACE_ONE).event.profile(epsilon)
    if actual > delta:
        raise NotPrivate(
            f"calibration='textbook' is not private at epsilon = {epsilon:g}, delta = {delta:g}: the printed noise of "
            f"algorithm 9.2.1 has an actual delta of {actual:.3g}, {actual / delta:.3g} times the one claimed "
            "(docs/errata.md); use calibration='exact'"
        )
    return scale


# Undeclared keys: their noise, and the thresholds of their counts. Proof: docs/proofs/discovery.md.


THRESHOLD_SHARE = 0.5
"""Fraction of delta for the threshold. It nearly minimizes the threshold."""
LARGEST_EPSILON = 20.0
"""A larger epsilon is lowered to this one, where the threshold is a few rows."""

_HALVINGS = 4
_FURTHEST = 40  # standard deviations of the noise of a count
_FURTHEST_LOG = 700.0  # means of an exponential tail
_UPPER_SHARE = 0.7
"""Fraction of epsilon for the upper tail of counts alone, which is the lighter one: so the threshold is lower."""

Kind = TypeVar("Kind", bound=Discovery)


def discovery_stage(
    touched: JointIntegers, row_steps: int, epsilon: float, delta: float, neighbors: Neighbors = Neighbors.REPLACE_ONE
) -> Discovery:
    """Return the stage that releases integers of keys at a total of (epsilon, delta).

    Parameters
    ----------
    touched : JointIntegers
        The numbers of the keys that a row can touch, counts first: two keys of a replaced row, and one of a row that is
        added or removed.
    row_steps : int
        The steps that a row adds to the count of its key.
    epsilon, delta : float
        delta must be positive: without it no key can be shown.
    """
    of_noise = delta * (1 - THRESHOLD_SHARE)
    for halvings in range(_HALVINGS):
        # Where delta is small, the lattice is fine enough for a smaller epsilon only.
        (stage,) = additive_stages(
            [touched], min(epsilon, LARGEST_EPSILON) / 2**halvings, of_noise, neighbors=neighbors
        )
        assert isinstance(stage, JointStage)
        if not stage.concentrated:
            break
    else:
        raise ScaleOutOfRange(
            f"delta must be larger to discover labels, got {delta:g}: no lattice is fine enough for its exact curve. "
            "Give delta=1e-6 for example"
        )
    far = row_steps + 1 + int(_FURTHEST * stage.scale_steps(stage.blocks[0]))
    return _lower(Discovery(stage, row_steps, far), (delta - of_noise) * (1 - 1e-9))


def count_discovery(
    name: str,
    block: str,
    guarantee: PrivacyGuarantee,
    bits: int = 30,
    others: JointIntegers | None = None,
    share: float = 1.0,
) -> KeyCounts:
    """Return the stage that releases counts of keys at a total of (epsilon, delta). A row has one key.

    Parameters
    ----------
    name, block : str
        Names of the stage and of its first block, the rows of each key.
    guarantee : PrivacyGuarantee
        delta must be positive. All of it is for the threshold.
    bits : int, default=30
        A row has two to this power of steps.
    others : JointIntegers, optional
        Other numbers of the keys that a row can touch, with Laplace noise.
    share : float, default=1
        Fraction of epsilon for the counts. The rest is for the other numbers.
    """
    row, keys = 1 << bits, count_keys(guarantee.neighbors)
    epsilon = min(share * guarantee.epsilon, LARGEST_EPSILON) * (1 - 2.0**-40)
    # A row that is added or removed moves one key, in either direction: both tails have the same cost.
    above = _UPPER_SHARE * epsilon if keys > 1 else epsilon
    below = epsilon - above if keys > 1 else epsilon
    gap = math.inf if above == below else row / (above - below)
    blocks, moved, scale = [Block(block, keys, 1 / row, 1.0)], float(keys * row), row / below
    if others is not None:
        # The unit of the other numbers is such that noise of one scale spends the rest of epsilon on them.
        unit = quotient_up(others.l1, (guarantee.epsilon - epsilon) * (1 - 2.0**-40)) / scale
        blocks += [replace(each, unit_steps=unit * each.unit_steps) for each in others.blocks]
        moved = up(Fraction(moved) + Fraction(others.l1) / Fraction(unit))
    touched = JointStage(name, "laplace", tuple(blocks), moved, scale, neighbors=guarantee.neighbors)
    for each in touched.blocks:
        check_scale(touched.scale_steps(each))
    far = row + 1 + int(_FURTHEST_LOG * row / above)
    return _lower(KeyCounts(touched, row, far, gap), guarantee.delta)


def _lower(stage: Kind, delta: float) -> Kind:
    """Return a stage with the lowest threshold that costs at most delta."""
    least, far = stage.row_steps + 1, stage.threshold_steps
    while least < far:
        middle = (least + far) // 2
        enough = replace(stage, threshold_steps=middle).threshold_delta <= delta
        least, far = (least, middle) if enough else (middle + 1, far)
    lowest = replace(stage, threshold_steps=far)
    if lowest.threshold_delta > delta:
        raise ScaleOutOfRange(
            f"delta must be larger to discover labels, got a threshold at {delta:g}: no threshold costs that little"
        )
    return lowest


# Samples of complete rows

# The number of complete rows is released first. A random sample of them follows, of a public size, in random order.

ROWS = "number of complete rows"
TOO_MANY = 0.005
"""Probability that more rows are used than are complete, and the others are filled."""
_LEAST, _MOST = 0.01, 0.25  # part of epsilon that counts the complete rows


def plan_count(n: int, d: int, epsilon: float) -> ReleasePlan:
    """Return the plan of the count that precedes a release of ``epsilon`` in all.

    The part s of epsilon is public. It minimizes s + log(100)/(s n epsilon): the noise that the release
    gains, and the proportion of rows that the sample loses.

    Examples
    --------
    >>> from dpstats.release.additive import plan_count
    >>> print(plan_count(10_000, 2, 1.0))
    Release plan for n = 10000, d = 2: (epsilon = 0.0214597, delta = 0), one row replaced
      number of complete rows: 1 number, Laplace noise of scale 46.5991
    """
    part = min(max(math.sqrt(-math.log(2 * TOO_MANY) / (n * epsilon)), _LEAST), _MOST)
    # The difference is exact, so that both parts add up to epsilon.
    count = epsilon - epsilon * (1 - part)
    stages = additive_stages([Integers(ROWS, 1, 1.0, 1, 1)], count, 0.0)
    return ReleasePlan(stages, PrivacyGuarantee(count), n, d)


def usable_rows(plan: ReleasePlan, rows: float) -> int:
    """Return the public size of the sample after a noisy count of ``rows`` complete rows."""
    noise = plan.noise(ROWS)
    scale = float(np.max(noise.scale))
    margin = scale * (-math.log(2 * TOO_MANY) if noise.law == "laplace" else -ndtri(TOO_MANY))
    return int(np.clip(math.floor(rows - margin), 0, plan.n_samples))


def count_complete(rows: Rows) -> NDArray[np.int64]:
    """Return the exact number of complete rows: private."""

    def count(table: Table) -> dict[str, NDArray[np.int64]]:
        return {ROWS: np.array([np.count_nonzero(complete_rows(table))], dtype=np.int64)}

    return rows.total(count)[ROWS]


def complete_rows(table: Table) -> NDArray[np.bool_]:
    """Return whether each row has finite numbers, and a declared label if there are labels."""
    finite = finite_rows(table.X)
    return finite if table.groups is None else finite & (table.groups >= 0)


def release_count(rows: Rows, session: Session) -> float:
    """Release the number of complete rows."""
    exact = count_complete(rows)
    with session:
        return float(session.add(ROWS, exact)[0])


def sample_complete(table: Table, orders: Sequence[NDArray[np.intp]], fill: Any) -> Table:
    """Return complete rows, chosen at random, in random order: private.

    ``orders`` has a random order of the rows of the table, and one of the rows to return. If there are fewer
    complete rows, copies of the public row ``fill`` are added, with the first label.
    """
    first, second = orders
    chosen = first[complete_rows(table)[first]][: len(second)]
    groups = None
    if table.groups is not None:
        groups = np.zeros(len(second), dtype=np.int64)
        groups[: len(chosen)] = table.groups[chosen]
        groups = groups[second]
    return Table(_sample(table.X, chosen, second, fill), groups=groups, names=table.names)


def _sample(X: Any, chosen: NDArray[np.intp], second: NDArray[np.intp], fill: Any) -> Any:
    """Return the chosen rows of a dense or sparse table, filled up, in another order."""
    from scipy.sparse import csr_array, issparse, vstack

    if issparse(X):  # filled with zeros
        places = np.full(len(second), X.shape[0])
        places[: len(chosen)] = chosen
        return csr_array(vstack([X, csr_array((1, X.shape[1]))]).tocsr()[places[second]])
    filled = np.empty((len(second), X.shape[1]))
    filled[:] = fill
    filled[: len(chosen)] = X[chosen]
    return filled[second]


# Private numbers of rows

# The number of rows is private if neighboring datasets differ by one row added or removed. The plan, charge and errors
# then do not depend on it, and no number of rows is too small.


class SizeNoise(Protocol):
    """Noise of a released number of rows."""

    @property
    def std(self) -> float:
        """Standard deviation."""

    def quantile(self, tail: float) -> float:
        """Return the smallest distance that the noise exceeds with at most this probability, on one side."""


@dataclass(frozen=True)
class ReleasedSize:
    """A released number of rows and its noise."""

    rows: float
    noise: SizeNoise

    @property
    def words(self) -> str:
        """The number of rows as a summary states it."""
        return f"{observed_rows(self.rows, self.noise.std)}, private"

    def interval(self, confidence_level: float | None = None) -> ConfidenceInterval:
        """Return an interval for the number of rows that count in these data."""
        level = usual_level(confidence_level)
        half = self.noise.quantile((1 - level) / 2)
        low, high = (max(self.rows + side * half, 0.0) for side in (-1, 1))
        return ConfidenceInterval(low, high, level, "the number of rows that count in these data")


@dataclass(frozen=True)
class HiddenSize:
    """A private number of rows that no release contains."""

    advice: str
    words: str = "private, not released"

    def interval(self, confidence_level: float | None = None) -> ConfidenceInterval:
        """Raise an error."""
        raise InvalidParameter(f"n_interval needs a number of rows that was released. {self.advice}")


def has_private_size(estimator: Any) -> bool:
    """Return whether an estimator, or a mechanism, treats the number of rows as private."""
    neighbors = getattr(estimator, "neighbors", Neighbors.REPLACE_ONE)
    return parse_neighbors(neighbors) is Neighbors.ADD_OR_REMOVE_ONE


def check_container(X: Any, schema: Schema) -> Schema:
    """Return the schema of a private number of rows, or refuse a container that has no columns without rows."""
    if schema.levels is None and isinstance(X, list | tuple):
        raise refuse_data(
            "X",
            got=f"a {type(X).__name__}",
            allowed="an array, a data frame, a file or a relation with neighbors='add_or_remove'",
            remedy="Convert it with numpy.array, because a list without rows has no columns.",
        )
    return replace(schema, private_size=True)


def check_size(estimator: Any, n_samples: Any, *, at_least: int = 2, at_most: int | None = None) -> int | None:
    """Return the number of rows of a plan, which may be None if it is private."""
    private = has_private_size(estimator)
    if private and n_samples is None:
        return None
    return check_integer("n_samples", n_samples, at_least=1 if private else at_least, at_most=at_most)


def record_size(estimator: Any, rows: float, noise: SizeNoise) -> None:
    """Set the released number of rows of a fit."""
    estimator._released_size = ReleasedSize(rows, noise)
    estimator.n_, estimator.n_noise_std_ = rows, noise.std
