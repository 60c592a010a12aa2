"""Declared movements on lattices so coarse that rounding is a large part of what a row moves.

On the lattices of a release rounding is a billionth of the movement, and a missing allowance for it would show in no
test. With a few bits it is a tenth. The plans of the registry are made again on such lattices, and a search over
neighboring datasets must find no pair that moves a stage by more than its plan declares.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from registry import adaptive_mean, clipped_mean, groups, regression, regression_simple, sparse_mean, variance
from registry.search import Search

from dpstats.auditing.movement import measure_change, stated_sensitivity
from dpstats.errors import DPStatsError
from dpstats.groups.mean_per_row import UnitTotals
from dpstats.means.ratio import GaussianTotals, LaplaceTotals
from dpstats.privacy import Neighbors
from dpstats.privacy import additive_stages as private_scale
from dpstats.privacy.stages import Smooth
from dpstats.queries import workload as gaussian_release

FAMILIES = {
    "clipped mean": clipped_mean,
    "adaptive mean": adaptive_mean,
    "sparse mean": sparse_mean,
    "variance": variance,
    "groups": groups,
    "regression": regression,
    "simple regression": regression_simple,
}


@pytest.fixture
def on_lattice(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return what makes every plan use a lattice of so many bits."""

    def coarsen(bits: int) -> None:
        for name, module in list(sys.modules.items()):
            if name.startswith("dpstats.") and callable(getattr(module, "finest", None)):
                monkeypatch.setattr(module, "finest", lambda made, *_: made(bits))

    return coarsen


def check_family(family: str, bits: int, steps: int, pairs: int) -> None:
    for entry in FAMILIES[family].entries():
        worst = Search(entry, steps=steps, pairs=pairs, seed=bits).run()
        assert max(worst.values()) <= 1, f"{entry.name} at {bits} bits: {worst}"


@pytest.mark.parametrize("family", ["clipped mean", "variance", "groups", "regression", "simple regression"])
def test_no_pair_moves_a_stage_further_than_declared(family: str, on_lattice: Callable[[int], None]) -> None:
    on_lattice(4)
    check_family(family, 4, steps=30, pairs=700)


@pytest.mark.parametrize("bits", [4, 5, 6])
@pytest.mark.parametrize("family", FAMILIES)
def test_no_pair_moves_a_stage_further_by_a_long_search(
    family: str, bits: int, on_lattice: Callable[[int], None]
) -> None:
    on_lattice(bits)
    check_family(family, bits, steps=150, pairs=4000)


@pytest.mark.parametrize("bits", [1, 2, 3])
@pytest.mark.parametrize("kind", [GaussianTotals, LaplaceTotals])
def test_all_pairs_of_rows_move_totals_by_no_more_than_declared(kind: Any, bits: int) -> None:
    totals = kind(2, 1, bits)
    joint = totals.integers()
    stage = joint.stage("gaussian" if kind is GaussianTotals else "laplace", 10.0, Neighbors.REPLACE_ONE)
    rows = [totals.rows(np.array([[k]])) for k in range(-(2**bits), 2**bits + 1)]
    nothing = {name: np.zeros(2, dtype=np.int64) for name in rows[0]}
    datasets = [nothing]
    for row, group in itertools.product(rows, range(2)):
        datasets.append({name: np.eye(2, dtype=np.int64)[group] * int(value[0, 0]) for name, value in row.items()})
    most = max(measure_change(stage, first, second) for first, second in itertools.combinations(datasets, 2))
    assert most <= stated_sensitivity(stage)
    assert float(most / stated_sensitivity(stage)) ** (0.5 if stage.noise == "gaussian" else 1) > 0.9


@pytest.mark.parametrize(("rows", "bits"), [(1, 1), (1, 3), (2, 1), (3, 2), (5, 1)])
def test_all_pairs_of_units_move_totals_by_no_more_than_declared(rows: int, bits: int) -> None:
    totals = UnitTotals(1, rows, bits)
    stage = totals.integers().stage("gaussian", 10.0, Neighbors.REPLACE_ONE)
    units = []
    for count in range(rows + 1):
        for total in range(-(count << bits), (count << bits) + 1):
            found = totals.contribute(np.array([[total]]), np.array([count]))
            units.append({name: np.ravel(value) for name, value in found.items()})
    most = max(measure_change(stage, first, second) for first, second in itertools.combinations(units, 2))
    assert most <= stated_sensitivity(stage)


@pytest.mark.parametrize("bits", [20, 26])
def test_the_distance_of_columns_is_never_below_the_exact_one(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Products of 2 x 26 bits leave none for the sum of many, so that floating point rounds it.
    monkeypatch.setattr(gaussian_release, "FRACTION_BITS", bits)
    monkeypatch.setattr(gaussian_release, "_BLOCK", 40)  # of four queries
    rng = np.random.default_rng(bits)
    for count in (1, 4, 5, 9, 64):
        for _ in range(5):
            steps = rng.integers(0, 2**bits + 1, (count, 10))
            steps[-1] = np.where(np.arange(10) == rng.integers(10), 2**bits, 0)  # the last query counts
            queries = _Queries(steps * 2.0**-bits)
            columns = [[int(k) for k in column] for column in steps.T]
            exact = max(
                sum((a - b) ** 2 for a, b in zip(*pair, strict=True)) for pair in itertools.combinations(columns, 2)
            )
            found = gaussian_release.squared_column_distance(queries)
            assert exact <= found <= exact * (1 + 1e-9) + 1


class _Queries:
    is_counting = False

    def __init__(self, matrix: np.ndarray) -> None:
        self.matrix, self.size = matrix, matrix.shape[1]

    def __len__(self) -> int:
        return len(self.matrix)

    def query(self, place: int) -> np.ndarray:
        return np.asarray(self.matrix[place])


@pytest.mark.parametrize("noise", ["cauchy", "student"])
@pytest.mark.parametrize("size", [1, 2])
def test_heavy_noise_on_coarse_integers_costs_no_more_than_declared(
    noise: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On the integers these laws are not those on the line: from one step on, by at most this much.
    monkeypatch.setattr(private_scale, "LEAST_HEAVY", 1.0)
    monkeypatch.setattr(private_scale, "HEAVY_SLACK", Fraction(1, 20))
    power = (private_scale.SMOOTH_LAWS[noise] + 1) // 2
    reach = np.arange(-4000, 4001, dtype=np.float64)

    def log_law(scale: float) -> np.ndarray:
        weights = (scale**2 + reach**2) ** -power
        # What is beyond 4,000 steps adds less than a thousandth to the sum for Cauchy's law.
        beyond = 2 / 4000.5 if power == 1 else 0.0
        return np.asarray(np.log(weights / (weights.sum() + beyond)))

    levels = (1.0, 1.25)
    stage = Smooth("x", 1.0, levels, 1.0, 1.0, size=size, noise=noise)
    shift = int(stage.limits[0])
    worst = 0.0
    for first, second in itertools.product(levels, repeat=2):
        one, other = log_law(first), log_law(second)
        loss = np.abs(one[shift:] - other[: len(other) - shift])[2000:-2000].max()
        still = np.abs(one - other)[2000:-2000].max()
        # A row moves the numbers by the limit in l1 together: one of them by all of it.
        worst = max(worst, float(loss + (size - 1) * still))
    assert worst <= float(stage.event.pure_cost() or math.inf)


def test_levels_cost_what_is_set_aside_or_are_refused() -> None:
    rng = np.random.default_rng(0)
    accepted = 0
    for _ in range(300):
        size, ratio = int(rng.integers(1, 6)), float(rng.uniform(1.01, 1.5))
        stage = Smooth("x", 1.0, (10.0, 10.0 * ratio), 0.5, float(rng.uniform(0, 2)), size=size)
        with contextlib.suppress(DPStatsError):  # refused: set aside is less than levels cost
            # In the middle the density of one level is the ratio of scales, in every number, times the other's.
            assert size * math.log(ratio) <= stage.event.epsilon
            accepted += 1
    assert 50 < accepted < 300
