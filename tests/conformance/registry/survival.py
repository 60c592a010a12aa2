"""Survival tables and log-rank tests: rows that change their tree or group, and edges that know data."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dpstats.data.rows import Table
from dpstats.privacy import Plan
from dpstats.release.session import Session
from dpstats.survival import LogRankTest, PrivateSurvival
from dpstats.survival.cells import CELLS, POSITIONS, TABLE
from dpstats.survival.hazard_ratios import Reference
from dpstats.survival.log_rank import RESIDUALS, Residuals
from dpstats.survival.table import SurvivalTable
from dpstats.survival.table_plan import expected_cells
from registry.entry import Dataset, Draw, Entry, PlantedBug, Traits, Understated, having, less_noise
from registry.reading import fit_rows, subjects, table_of

LAPLACE = {"horizon": 3.0, "bins": 2, "groups": [0, 1], "causes": [1, 2], "epsilon": 1.0}
GAUSSIAN = {"horizon": 5.0, "bins": 5, "groups": [0, 1], "causes": [1, 2], "epsilon": 1.0, "delta": 0.1}
PLACED = {"horizon": 3.0, "bins": 2, "groups": [0, 1], "causes": [1, 2], "epsilon": 1.0}
PLACED_GAUSSIAN = {**PLACED, "epsilon": 1.0, "delta": 0.1}
FROM_ZERO = {"edges": [0, 1, 3], "discrete": True, "groups": [0, 1], "causes": [1, 2], "epsilon": 1.0}
STAYING = [(0.5, 1, 0), (1.5, 0, 1), (2.5, 2, 1), (2.9, 0, 0)] * 60
"""Rows of a table that is large enough for positions inside the bins."""
TIMES = (0.0, 0.3, 1.0, 1.5, 2.99, 3.0, 4.1, 7.0)

Pair = tuple[Dataset, Dataset]


def rows(*given: tuple[float, int, int]) -> Dataset:
    """Return rows of a time to two decimals, an event code and a group, and two more that stay.

    The third decimal of a number holds the event and the group (`registry.reading.subjects`).
    """
    subjects = [*given, (2.2, 1, 0), (0.7, 0, 1)]
    return np.array([[time + (code + 3 * group) / 1000] for time, code, group in subjects])


def pairs() -> Iterator[Pair]:
    """Return neighbors with a row of every kind in place of a row of every kind."""
    kinds = list(itertools.product(TIMES, (0, 1, 2), (0, 1)))
    for first, second in itertools.product(kinds, kinds):
        yield rows(first), rows(second)


def read(estimator: PrivateSurvival, plan: Plan, data: Dataset) -> np.ndarray:
    """Return the integers of the table."""
    return np.asarray(estimator._read(table_of(estimator, data), plan)[TABLE])


def integers_of(estimator: PrivateSurvival, plan: Plan) -> Callable[[Dataset], list[Any]]:
    return lambda data: [read(estimator, plan, data)]


def likelihood(estimator: PrivateSurvival, pair: Pair) -> Draw:
    """Return the core of a fit as an attacker sees it who knows both datasets: the log of a likelihood ratio."""
    plan = estimator.plan(len(pair[0]))
    (stage,) = plan.additive
    first, second = (read(estimator, plan, data) for data in pair)

    def draw(data: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        with Session.simulated(plan, rng, size) as session:
            released = session.add(TABLE, read(estimator, plan, data), units=False)
        a, b = ((released - steps) / stage.scale_steps for steps in (first, second))
        apart = np.abs(b) - np.abs(a) if stage.noise == "laplace" else (b**2 - a**2) / 2
        return np.asarray(apart.sum(axis=1))[:, None]

    return draw


def public(estimator: PrivateSurvival) -> Callable[[Dataset, Any], tuple[Plan, np.ndarray]]:
    def call(data: Dataset, budget: Any) -> tuple[Plan, np.ndarray]:
        made = type(estimator)(**{**estimator.get_params(), "random_state": None, "budget": budget})
        fit_rows(made, data)
        return made.plan_, np.ravel(made.at_risk_)

    return call


# Planted bugs.


class HalfNoise(PrivateSurvival):
    """Planted bug: half the noise."""

    def plan(self, n_samples: int, n_features: int = 1) -> Any:
        return less_noise(super().plan(n_samples, n_features))


class OneTree(PrivateSurvival):
    """Planted bug: the two trees are charged as if they were about different rows, or one row were added."""

    def plan(self, n_samples: int, n_features: int = 1) -> Any:
        plan = super().plan(n_samples, n_features)
        (stage,) = plan.additive
        factor = 2 if stage.noise == "laplace" else np.sqrt(2)
        steps, scale = round(stage.sensitivity_steps / factor), stage.scale_steps / factor
        return replace(plan, stages=(replace(stage, sensitivity_steps=steps, scale_steps=scale),))


class CountedTwice(PrivateSurvival):
    """Planted bug: a censored row counts whole at both edges of its bin."""

    def _read(self, table: Table, plan: Any) -> Any:  # type: ignore[override]
        cells = plan.cells
        counts = table.total(cells)[CELLS].copy()
        for time, code, group in zip(table.X[:, 0], table.event, table.groups, strict=True):  # type: ignore[arg-type]
            if code == 0 and 0 < time < cells.edges[-1]:
                place = int(np.searchsorted(cells.edges, time))
                counts[group, cells.n_causes * cells.n_bins + place - 1] += 1 << cells.bits
        return {TABLE: plan.levels.steps({CELLS: counts})}


class EdgesFromTheData(PrivateSurvival):
    """Planted bug: the last edge is the largest time."""

    def _read(self, table: Table, plan: Any) -> Any:  # type: ignore[override]
        edges = np.linspace(0.0, float(table.X[:, 0].max()), plan.cells.n_bins + 1)
        cells = replace(plan.cells, edges=tuple(edges.tolist()))
        return {TABLE: plan.levels.steps(table.total(cells))}


def sizes_of_groups_are_public(data: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
    """Planted bug: each group's cells add up to its number of rows, as if that were public."""
    estimator = PrivateSurvival(**LAPLACE)
    plan = estimator.plan(len(data))
    with Session.simulated(plan, rng, size) as session:
        released = session.add(TABLE, read(estimator, plan, data))
    cells = SurvivalTable.from_release(plan, released).cells
    counts = np.bincount(subjects(estimator, data)[2], minlength=cells.shape[1])
    excess = cells.sum(axis=2) - counts
    return np.asarray((cells - excess[..., None] / cells.shape[2]).sum(axis=2))


class Uncharged(PrivateSurvival):
    """Planted bug: positions inside the bins are not charged."""

    def plan(self, n_samples: int, n_features: int = 1) -> Any:
        plan = super().plan(n_samples, n_features)
        (stage,) = plan.additive
        place, one = plan.levels.position_weight, 1 << plan.cells.bits
        steps = stage.sensitivity_steps - 2 * place * one
        if stage.noise == "gaussian":
            steps = round(np.sqrt(stage.sensitivity_steps**2 - 4 * (place * one) ** 2))
        scale = stage.scale_steps * steps / stage.sensitivity_steps
        return replace(plan, stages=(replace(stage, sensitivity_steps=steps, scale_steps=scale),))


class Uncentered(PrivateSurvival):
    """Planted bug: an event adds its position from the start of the bin, up to twice what one row may add."""

    def _read(self, table: Table, plan: Any) -> Any:  # type: ignore[override]
        totals = dict(table.total(plan.cells))
        events = totals[CELLS][:, : plan.cells.n_causes * plan.cells.n_bins]
        positions = totals[POSITIONS].copy()
        positions[:, 0] += events.reshape(len(events), plan.cells.n_causes, -1).sum(axis=1)
        return {TABLE: plan.levels.steps({**totals, POSITIONS: positions})}


class FullWeight(PrivateSurvival):
    """Planted bug: positions are released with the weight of the whole privacy."""

    def _read(self, table: Table, plan: Any) -> Any:  # type: ignore[override]
        totals = table.total(plan.cells)
        factor = round(1 / plan.cells.position_share)
        return {TABLE: plan.levels.steps({**totals, POSITIONS: factor * totals[POSITIONS]})}


def placed_entries() -> Iterator[Entry]:
    """Return the entries of tables that are large enough for positions inside the bins."""
    pair = tuple(np.vstack([rows(kind)[:1], rows(*STAYING)]) for kind in ((1.5, 1, 0), (0.75, 0, 1)))
    for noise, options in (("Laplace", PLACED), ("Gaussian", PLACED_GAUSSIAN)):
        estimator = PrivateSurvival(**options)
        plan = estimator.plan(len(pair[0]))
        assert plan.cells.position_share
        claim = float(options["epsilon"]), float(options.get("delta", 0.0))  # type: ignore[arg-type]
        bugs = [PlantedBug("half the noise", likelihood(HalfNoise(**options), pair), *pair, *claim)]
        if noise == "Laplace":
            full = likelihood(FullWeight(**options), pair)
            bugs.append(PlantedBug("positions at full weight", full, *pair, *claim))
        understated = []
        for name, kind in (("positions not charged", Uncharged), ("positions not centered", Uncentered)):
            wrong = kind(**options)
            own = wrong.plan(len(pair[0]))
            understated.append(Understated(name, own, integers_of(wrong, own), pairs))
        yield Entry(
            name=f"survival with positions, {noise}",
            covers=PrivateSurvival,
            proof="survival.md",
            plan=plan,
            integers=integers_of(estimator, plan),
            pairs=pairs,
            draw=likelihood(estimator, pair),
            dataset=pair[0],
            neighbor=pair[1],
            power=0.3,
            public=public(estimator),
            bugs=tuple(bugs),
            understated=tuple(understated),
            estimator=PrivateSurvival(**options),
        )


# Log-rank tests: a table, and residuals about what it released.

TWO = {"horizon": 3.0, "bins": 2, "groups": [0, 1], "epsilon": 3.0}
THREE = {"horizon": 3.0, "bins": 3, "groups": [0, 1, 2], "epsilon": 1.0, "delta": 0.1}
MANY = [(0.5, 1, 0), (1.5, 0, 1), (2.5, 1, 1), (2.9, 0, 0)] * 30


def as_rows(estimator: LogRankTest, *given: tuple[float, int, int]) -> Dataset:
    """Return rows as `rows` does, of an event with one cause."""
    return np.array([[time + (code + 2 * group) / 1000] for time, code, group in [*given, *MANY]])


def subjects_moved(estimator: LogRankTest) -> Iterator[Pair]:
    """Return neighbors with a row of every kind in place of a row of every kind."""
    kinds = list(itertools.product(TIMES, (0, 1), range(len(estimator.groups))))
    for first, second in itertools.product(kinds, kinds):
        yield as_rows(estimator, first)[:3], as_rows(estimator, second)[:3]


def fixed_residuals(estimator: LogRankTest, plan: Any) -> Residuals:
    """Return what the second stage adds up, given a table that was released of many rows."""
    edges = np.asarray(plan.cells.edges)
    K = len(plan.groups)
    each = np.array([1000 * expected_cells(0.2 ** (edges / 3), 0.7 ** (edges / 3)) * (k + 1) for k in range(K)])
    std = None
    positions = None
    if plan.cells.position_share:
        # Early events in the first bin, late ones in the others.
        std, positions = np.ones(2), np.zeros((1, 1, 2, plan.cells.n_bins))
        positions[:, :, 0] = 100.0
        positions[:, :, 0, 0] = -100.0
        positions[:, :, 1] = 30.0
    return plan.residuals(Reference(each[None], plan.least_squares, 0.0, 0.0, positions, std))


def both_integers(estimator: LogRankTest, plan: Any, factor: float = 1.0) -> Callable[[Dataset], list[Any]]:
    residuals = fixed_residuals(estimator, plan)

    def integers(data: Dataset) -> list[Any]:
        table = table_of(estimator, data)
        sums = residuals(table)[RESIDUALS][0]
        first = np.asarray(estimator._read(table, plan).table)
        return [first, np.rint(factor * sums).astype(np.int64)]

    return integers


def likelihood_of_both(estimator: LogRankTest, pair: Pair) -> Draw:
    """Return the log of the likelihood ratio of both stages, for an attacker who knows both datasets."""
    plan = estimator.plan(len(pair[0]))
    first, second = plan.additive
    tables = [table_of(estimator, data) for data in pair]
    counts = [estimator._read(table, plan).table for table in tables]

    def apart(stage: Any, noisy: np.ndarray, steps: list[np.ndarray]) -> np.ndarray:
        a, b = ((noisy - exact) / stage.scale_steps for exact in steps)
        found = np.abs(b) - np.abs(a) if stage.noise == "laplace" else (b**2 - a**2) / 2
        return np.asarray(found.sum(axis=1))

    def draw(data: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        table = table_of(estimator, data)
        with Session.simulated(plan, rng, size) as session:
            released = session.add(TABLE, estimator._read(table, plan).table, units=False)
            residuals = estimator._residuals(plan, session.released[TABLE])
            sums = [residuals(one)[RESIDUALS] for one in tables]
            noisy = session.add(RESIDUALS, residuals(table)[RESIDUALS], units=False)
        return (apart(first, released, counts) + apart(second, noisy, sums))[:, None]

    return draw


class HalfNoiseOfBoth(LogRankTest):
    """Planted bug: half the noise in both stages."""

    def plan(self, n_samples: int, n_features: int = 1) -> Any:
        return less_noise(super().plan(n_samples, n_features))


class Endless(Residuals):
    """Residuals that go on after the horizon, at the mean hazard."""

    def sums(self, times: Any, codes: Any, groups: Any) -> Any:
        later = np.maximum(times - self.edges[-1], 0.0) / self.edges[-1]
        more = later * self.reference.heights[:, -1:] / self.divisor[:, None] * (1 << self.bits)
        return super().sums(times, codes, groups) - np.rint(more.sum(axis=1, keepdims=True)).astype(np.int64)


class UnclippedTime(LogRankTest):
    """Planted bug: the time of a row is not cut at the horizon."""

    def _residuals(self, plan: Any, released: Any) -> Residuals:
        found = super()._residuals(plan, released)
        return Endless(found.reference, found.edges, found.bits, found.pure)


def log_rank_entries() -> Iterator[Entry]:
    for noise, options in (("two groups, Laplace", TWO), ("three groups, Gaussian", THREE)):
        estimator = LogRankTest(**options)
        pair = as_rows(estimator, (0.3, 1, 0)), as_rows(estimator, (2.9, 0, 0))
        far = as_rows(estimator, (3.0, 0, 0)), as_rows(estimator, (60.0, 0, 0))
        claim = float(options["epsilon"]), float(options.get("delta", 0.0))  # type: ignore[arg-type]
        plan = estimator.plan(len(pair[0]))
        small = estimator.plan(3)
        bugs = [PlantedBug("half the noise", likelihood_of_both(HalfNoiseOfBoth(**options), pair), *pair, *claim)]
        if noise.startswith("two"):
            endless = likelihood_of_both(UnclippedTime(**options), far)
            bugs.append(PlantedBug("times are not cut", endless, *far, *claim))
        wrong = Understated(
            "residuals divided by half of their range",
            small,
            both_integers(estimator, small, 2.0),
            lambda estimator=estimator: subjects_moved(estimator),
        )
        yield Entry(
            name=f"log-rank, {noise}",
            covers=LogRankTest,
            proof="survival.md",
            plan=plan,
            integers=both_integers(estimator, plan),
            pairs=lambda estimator=estimator: subjects_moved(estimator),
            draw=likelihood_of_both(estimator, pair),
            dataset=pair[0],
            neighbor=pair[1],
            power=0.3,
            public=public_test(estimator),
            bugs=tuple(bugs),
            understated=(wrong,),
            estimator=LogRankTest(**options),
            most_trials=200_000,
        )


def public_test(estimator: LogRankTest) -> Callable[[Dataset, Any], tuple[Plan, np.ndarray]]:
    def call(data: Dataset, budget: Any) -> tuple[Plan, np.ndarray]:
        made = type(estimator)(**{**estimator.get_params(), "random_state": None, "budget": budget})
        fit_rows(made, data)
        return made.plan_, made.observed_minus_expected_

    return call


@having(
    {LogRankTest: Traits(additive=False)},
    {
        "survival, Gaussian": {"not_replayed": "events, groups and times are in one number"},
        "survival, discrete from 0": {"not_replayed": "events, groups and times are in one number"},
        "survival with positions, Laplace": {"not_replayed": "events, groups and times are in one number"},
        "survival with positions, Gaussian": {"not_replayed": "events, groups and times are in one number"},
        "log-rank, two groups, Laplace": {"not_replayed": "events, groups and times are in one number"},
        "log-rank, three groups, Gaussian": {"not_replayed": "events, groups and times are in one number"},
        "survival, Laplace": {"not_replayed": "events, groups and times are in one number", "exact_audit": True},
    },
)
def entries() -> Iterator[Entry]:
    yield from log_rank_entries()
    yield from placed_entries()
    across = rows((1.5, 1, 0)), rows((1.5, 0, 1))
    rest = [(1.6, 1, 0)] * 6
    last = rows((2.9, 0, 0), *rest), rows((7.0, 0, 0), *rest)
    for noise, options in (("Laplace", LAPLACE), ("Gaussian", GAUSSIAN), ("discrete from 0", FROM_ZERO)):
        estimator = PrivateSurvival(**options)
        plan = estimator.plan(len(across[0]))
        claim = float(options["epsilon"]), float(options.get("delta", 0.0))  # type: ignore[arg-type]
        bugs = [PlantedBug("half the noise", likelihood(HalfNoise(**options), across), *across, *claim)]
        bugs.append(PlantedBug("one tree", likelihood(OneTree(**options), across), *across, *claim, 200_000))
        if noise == "Laplace":
            moved = likelihood(EdgesFromTheData(**options), last)
            bugs += [
                PlantedBug("edges from the data", moved, *last, *claim),
                PlantedBug("sizes of groups", sizes_of_groups_are_public, *across, *claim),
            ]
        understated = []
        for name, kind in (("one tree", OneTree), ("censored rows counted twice", CountedTwice)):
            wrong = kind(**options)
            own = wrong.plan(len(across[0]))
            understated.append(Understated(name, own, integers_of(wrong, own), pairs))
        yield Entry(
            name=f"survival, {noise}",
            covers=PrivateSurvival,
            proof="survival.md",
            plan=plan,
            integers=integers_of(estimator, plan),
            pairs=pairs,
            draw=likelihood(estimator, across),
            dataset=across[0],
            neighbor=across[1],
            power=0.3,
            public=public(estimator),
            bugs=tuple(bugs),
            understated=tuple(understated),
            estimator=PrivateSurvival(**options),
        )
