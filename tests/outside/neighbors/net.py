"""Random pairs of neighbors, replayed: nothing that is given to noise moves more than the plan declares.

A case draws an estimator with random options, bounds of any size and distance, a few rows at their ends and far beyond,
and one row, or all rows of a unit, that differs. Distributions of tests are drawn from all that scipy has.
"""

from __future__ import annotations

import math
import time
import warnings
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from dpstats.auditing import check_sensitivity
from dpstats.auditing.movement import SensitivityCheck
from dpstats.auditing.sensitivity import Replay, fit_copy
from dpstats.covariance import PrivateCorrelation, PrivateCovariance
from dpstats.errors import DPStatsError
from dpstats.groups import GroupMeans, GroupQuantiles, MeanPerRow
from dpstats.means import AdaptiveMean, ClippedMean, PrivateVariance, SparseMean
from dpstats.quantiles import PrivateDistribution, PrivateMedian, PrivateQuantile
from dpstats.ranks import GoodnessOfFitTest, KolmogorovSmirnovTest, KruskalWallisTest, MannWhitneyTest, SignedRankTest
from dpstats.ranks.statistics import find_probabilities
from dpstats.regression import (
    PrivateCountRegression,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    SufficientStatisticsRegression,
)
from dpstats.tables import PrivateProportion

Bounds = tuple[float, ...]
LABELS = ("a", "b", "c", None)
FAR = [
    *(0.0, -0.0, 1.0, -1.0, 0.1, 1e300, -1e300, 5e-324, 1.7976931348623157e308, 2.0**53, 2.0**63),
    *(math.inf, -math.inf, math.nan),
]
LAWS = [
    stats.kappa3(1.0), stats.truncpareto(2.0, 5.3), stats.pareto(2.6), stats.burr(10.5, 4.3), stats.weibull_min(1.8),
    stats.beta(2.3, 0.6), stats.gamma(2.0), stats.norm(), stats.t(2.7), stats.lognorm(0.9), stats.powerlaw(1.7),
    stats.genpareto(0.1), stats.truncnorm(-1.0, 2.0), stats.poisson(0.6), stats.binom(5, 0.4), stats.nbinom(5, 0.5),
]  # fmt: skip


class Case(NamedTuple):
    """An estimator, the bounds of its columns, and what the entries beside them are drawn from."""

    estimator: Any
    bounds: list[Bounds]
    beside: Any = None


class Draw:
    """Draws options, bounds and rows."""

    def __init__(self, random: Random) -> None:
        self.random, self.one = random, random.choice

    def bounds(self) -> Bounds:
        """Return bounds of any size, far from 0 or nearly equal."""
        start = self.one([0.0, 1.0, 0.1, -3.0, 1e8, 1e15, 1e16, -1e10])
        width = self.one([1.0, 7.0, 1e-12, 0.125, 1e6])
        some = [(0.0, 1.0), (-1.0, 1.0), (0.0, self.one([1e-138, 1e138])), (-1e139, 1e-139), (start, start + width)]
        low, high = self.one([*some, (start, float(np.nextafter(start, math.inf)))])
        return (low, high) if low < high else (low, float(np.nextafter(low, math.inf)))

    def options(self, *missing: str, delta: bool | None = None) -> dict[str, Any]:
        """Return epsilon, delta and what happens to missing entries."""
        found = {"epsilon": self.one([1e-4, 0.05, 0.5, 1.0, 3.0, 50.0, 1e6])}
        if delta is not None:
            found["delta"] = self.one([1e-300, 1e-30, 1e-6, 1e-2, *([0.0] if delta else [])])
        return found | ({"missing": self.one(missing)} if missing else {})

    def entry(self, bounds: Bounds) -> float:
        """Return a number at the ends of bounds, next to them, between or far beyond; or one of several."""
        if len(bounds) > 2:
            return float(self.one(bounds))
        low, high = bounds
        near = [
            low,
            high,
            low / 2 + high / 2,
            *(float(np.nextafter(end, to)) for end in bounds for to in (-9e99, 9e99)),
        ]
        return float(self.one([*near, *near, *FAR]))

    def rows(self, n: int, case: Case) -> Any:
        """Return rows of a case, with what is beside them."""
        X = np.array([[self.entry(bounds) for bounds in case.bounds] for _ in range(n)])
        if case.beside is None:
            return (X,)
        if isinstance(case.beside, tuple) and isinstance(case.beside[0], float):
            return X, np.array([self.entry(case.beside) for _ in range(n)])
        return X, np.array([self.one(case.beside) for _ in range(n)], dtype=object)


def _columns(draw: Draw, most: int = 3) -> list[Bounds]:
    return [draw.bounds() for _ in range(draw.random.randint(1, most))]


def _private_size(draw: Draw) -> dict[str, Any]:
    return {"neighbors": draw.one(["replace_one", "add_or_remove"])}


def _means(draw: Draw) -> Case:
    found, policy = _columns(draw), draw.options("error", "center", "drop", delta=True)
    kind = draw.one([ClippedMean, PrivateVariance])
    return Case(kind(bounds=found, **policy, **_private_size(draw)), found)


def _other_means(draw: Draw) -> Case:
    bound = draw.one([1.0, 1e6, 1e130, 1e-100])
    columns = draw.random.randint(2, 4)
    policy = draw.options("error", "center", delta=False)
    one: Any = draw.one([
        AdaptiveMean(bound=bound, std=bound / 10, **policy),
        SparseMean(n_nonzero=1, clip=bound, std=bound / 3, split=True, **policy),
        ClippedMean(clip=bound, clip_norm="l2", center=bound / 3, **policy),
    ])  # fmt: skip
    return Case(one, [(-bound, bound)] * columns)


def _groups(draw: Draw) -> Case:
    if draw.random.random() < 0.3:
        found = [draw.bounds()]
        return Case(
            GroupQuantiles(0.4, groups=["a", "b"], bounds=found[0], **draw.options("error", "drop")), found, LABELS
        )
    found, policy = _columns(draw, 2), draw.options("error", "center", "drop", delta=True)
    return Case(GroupMeans(groups=["a", "b"], bounds=found, **policy, **_private_size(draw)), found, LABELS)


def _units(draw: Draw) -> Case:
    found = [draw.bounds()]
    policy = draw.options("error", "drop", delta=True)
    return Case(
        MeanPerRow(bounds=found[0], max_rows=draw.one([1, 2, 3]), **policy, **_private_size(draw)),
        found,
        ("p", "q", "r", 1),
    )


def _quantiles(draw: Draw) -> Case:
    bounds = draw.bounds()
    step = draw.one([None, None, (bounds[1] - bounds[0]) / draw.one([2, 7, 100])])
    kind: Any = draw.one([PrivateQuantile, PrivateDistribution, PrivateMedian])
    return Case(
        kind(bounds=bounds, step=step, **draw.options("error", "drop", delta=kind is PrivateQuantile)), [bounds]
    )


def _regressions(draw: Draw) -> Case:
    found, outcome = _columns(draw, 2), draw.one([(0.0, 5.0), (0.0, 1e6)])
    kind: Any = draw.one(
        [PrivateLinearRegression, SufficientStatisticsRegression, PrivateLogisticRegression, PrivateCountRegression]
    )
    policy = draw.options("error", "drop", delta=False)
    if kind is PrivateLogisticRegression:
        return Case(kind(x_bounds=found, **policy), found, (0, 1))
    return Case(kind(x_bounds=found, y_bounds=outcome, **policy), found, outcome)


def _products(draw: Draw) -> Case:
    found = [draw.bounds() for _ in range(draw.random.randint(2, 3))]
    if draw.random.random() < 0.5:
        return Case(PrivateCovariance(bounds=found, **draw.options("error", delta=True)), found)
    return Case(PrivateCorrelation(method="kendall", **draw.options("error", "drop", delta=False)), found)


def _tests(draw: Draw) -> Case:
    found, policy = [draw.bounds()], draw.options("error", "drop") | {"n_simulations": 99}
    kind: Any = draw.one([MannWhitneyTest, KruskalWallisTest, KolmogorovSmirnovTest, SignedRankTest, GoodnessOfFitTest])
    if kind is GoodnessOfFitTest:
        return Case(kind(distribution=draw.one(LAWS), **policy), [(-1.0, 20.0)])
    return (
        Case(kind(**policy), found)
        if kind is SignedRankTest
        else Case(kind(groups=["a", "b"], **policy), found, LABELS)
    )


def _shares(draw: Draw) -> Case:
    return Case(
        PrivateProportion(**draw.options("error", "drop", delta=True), **_private_size(draw)), [(0.0, 1.0, 1.0)]
    )


KINDS: tuple[Callable[[Draw], Case], ...] = (
    *(_means, _other_means, _groups, _units, _quantiles, _regressions, _products, _tests, _shares),
)


class Net:
    """Draw pairs, replay them, and count the verdicts.

    Attributes
    ----------
    counts : Counter
        Verdicts, or refusals.
    faults : list of str
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []

    def run(self, seconds: float, cases: int = 10**9) -> Net:
        """Try pairs until the time is over."""
        end = time.monotonic() + seconds
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for case in range(cases):
                if time.monotonic() > end:
                    break
                self.try_pair(case)
        return self

    def try_pair(self, case: int) -> None:
        """Draw one pair, or the probabilities of rows under a distribution."""
        random = Random(self.seed * 1_000_003 + case)
        if random.random() < 0.1:
            self._try_law(case, random)
            return
        draw = Draw(random)
        name = "refused"
        try:
            drawn = random.choice(KINDS)(draw)
            name = type(drawn.estimator).__name__
            verdict = self._replay(draw, drawn)
        except DPStatsError:
            self.counts[f"{name}: refused"] += 1
            return
        except Exception as error:
            self.faults.append(f"case {case}, {name}: {type(error).__name__}")
            return
        self.counts[f"{name}: {verdict.verdict}"] += 1
        if verdict.violated:
            self.faults.append(f"case {case}, {drawn.estimator}: {verdict}")

    def _replay(self, draw: Draw, case: Case) -> SensitivityCheck:
        """Return the check of random rows and a neighbor of them."""
        random, estimator = draw.random, case.estimator
        n = draw.one([2, 2, 3, 5, 20])
        rows, others = draw.rows(n, case), draw.rows(draw.one([1, 2, 5]), case)
        if estimator.get_params().get("missing") == "error" and random.random() < 0.9:
            rows, others = _finite(rows), _finite(others)
        added = getattr(estimator, "neighbors", "replace_one") == "add_or_remove"
        if isinstance(estimator, MeanPerRow):
            # All rows of a unit, for any number of other ones of the same unit, or for none.
            unit = random.choice(list(rows[1]))
            others = others[0], np.array([unit] * len(others[0]), dtype=object)
            left = rows[1] != unit
            near = tuple(part[left] for part in rows)
            near = near if added else _joined(near, others)
            return Replay(estimator, fit_copy, _one(rows), self.seed, n + 5).compare_neighbor(_one(near), "")
        place = random.randrange(n)
        near = tuple(np.delete(part, place, axis=0) for part in rows)
        near = near if added else _joined(near, tuple(part[:1] for part in others), place)
        return check_sensitivity(estimator, _one(rows), _one(near), seed=self.seed)

    def _try_law(self, case: int, random: Random) -> None:
        """Change one row under a distribution: the probabilities of the others must keep their bits."""
        law = random.choice(LAWS)
        rows = np.array(law.rvs(size=random.choice([5, 40, 300]), random_state=case), dtype=np.float64)
        place, before = random.randrange(rows.size), None
        with np.errstate(all="ignore"):
            before = find_probabilities(law, rows)
            rows[place] = random.choice(FAR)
            after = find_probabilities(law, rows)
        self.counts["probabilities: compared"] += 1
        for one, two in zip(before, after, strict=True):
            if one is not None and not np.array_equal(np.delete(one, place), np.delete(two, place)):
                self.faults.append(f"case {case}, {law.dist.name}: one row moves probabilities of others")


def _finite(rows: Any) -> Any:
    return tuple(
        np.nan_to_num(part, nan=0.5, posinf=1e308, neginf=-1e308) if part.dtype.kind == "f" else part for part in rows
    )


def _joined(rows: Any, more: Any, place: int = 0) -> Any:
    return tuple(np.concatenate([part[:place], new, part[place:]]) for part, new in zip(rows, more, strict=True))


def _one(rows: Any) -> Any:
    return rows[0] if len(rows) == 1 else rows
