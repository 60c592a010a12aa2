"""The study of intervals, reduced: what is true of the laws, and verdicts that can fail."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "validation" / "studies"))
import interval_coverage as study
from interval_cases import CASES, SIGNAL, TRUTHS, Case, Runs, Sample, n_nonzero
from interval_laws import LAWS, ball_mean

DATASETS = 150


def case_of(estimator: str, *words: str) -> Case:
    """Return the one case whose name has these words."""
    (found,) = (c for c in CASES if c.estimator == estimator and all(word in c.name for word in words))
    return found


def cells_of(*cases: Case, law: str, size: tuple[int, int], epsilon: float = 1.0) -> dict[Any, study.Cell]:
    """Return the cells of one law and size."""
    (found,) = study.study(cases, laws=[law], sizes=[size], epsilons=[epsilon], datasets=DATASETS, again=1, seed=1)
    return found


@pytest.mark.parametrize("name", LAWS)
def test_moments_of_laws_are_those_of_their_rows(name: str) -> None:
    # Five standard errors of 200,000 rows: a false alarm below 1e-6 each.
    law, n = LAWS[name], 200_000
    rows = law.draw(n, 1, np.random.default_rng(0))[:, 0]
    boxed = law.boxed(rows)
    for values, expected in (
        (rows, law.mean),
        (boxed, law.clipped_mean),
        ((boxed - law.clipped_mean) ** 2, law.clipped_variance),
        ((boxed - law.center) ** 2, law.clipped_square),
    ):
        assert abs(values.mean() - expected) < 5 * values.std() / np.sqrt(n) + 1e-12
    if name not in ("t3", "lognormal"):  # without a fourth moment, or with a very large one
        squares = (rows - law.mean) ** 2
        assert abs(squares.mean() - law.std**2) < 5 * squares.std() / np.sqrt(n)


@pytest.mark.parametrize("name", LAWS)
def test_parts_of_laws_have_their_means(name: str) -> None:
    law = LAWS[name]
    means = [(weight, float(masses @ values)) for weight, (values, masses) in law.parts()]
    assert sum(weight for weight, _ in means) == pytest.approx(1, abs=1e-12)
    assert sum(weight * mean for weight, mean in means) == pytest.approx(law.mean, abs=1e-9)


@pytest.mark.parametrize("name", ["normal", "lognormal", "Poisson(.2)", "contaminated 5%", "exponential factor"])
def test_means_of_projected_rows(name: str) -> None:
    # Five standard errors of 20,000 rows: a false alarm below 1e-6 each.
    law, n, d = LAWS[name], 20_000, 10
    sample = Sample.draw(law, n, d, 1, np.random.default_rng(1))
    expected = TRUTHS["ball"](sample)
    means = sample.projected[:, 0].mean(axis=1)
    assert abs(means.mean() - expected) < 5 * means.std() / np.sqrt(n)
    assert np.linalg.norm(sample.projected - sample.raw) > 0


def test_a_ball_of_one_column_is_a_box() -> None:
    law = LAWS["normal"]
    box = replace(law, low=-1.0, high=3.0)
    assert ball_mean(law, 1, 1.0, 2.0) == pytest.approx(box.clipped_mean, abs=1e-5)


def test_sparse_rows_have_their_signal() -> None:
    law = LAWS["exponential"]
    rows = Sample.draw(law, 20_000, 40, 1, np.random.default_rng(2)).sparse[:, 0]
    expected = np.where(np.arange(40) < n_nonzero(40), SIGNAL, 0.0)
    assert n_nonzero(40) == 2 and np.all(np.abs(rows.mean(axis=0) - expected) < 5 / np.sqrt(20_000))


def test_intervals_cover_and_intervals_of_half_the_width_do_not() -> None:
    case = case_of("ClippedMean", "box", "private", "Gaussian")

    class Halved(Case):
        def ends(self, *asked: Any, **options: Any) -> Any:
            low, high = super().ends(*asked, **options)
            return low + (high - low) / 4, high - (high - low) / 4

    broken = Halved(**(vars(case) | {"name": "half the width"}))
    # 1500 intervals; of half the width they cover about 2/3.
    found = {key.case: cell for key, cell in cells_of(case, broken, law="normal", size=(1000, 10)).items()}
    whole, halved = found[case.name], found[broken.name]
    assert whole.verdict == "covers" and abs(whole.coverage - 0.95) < 5 * whole.error
    assert halved.verdict == "BELOW" and halved.coverage < 0.8
    assert halved.width == pytest.approx(whole.width / 2, rel=0.02)


def test_intervals_about_something_else_do_not() -> None:
    case = replace(case_of("ClippedMean", "box", "private", "Gaussian"), estimands=("clipped",))

    class Elsewhere(Case):
        def ends(self, *asked: Any, **options: Any) -> Any:
            low, high = super().ends(*asked, **options)
            return low + 0.2, high + 0.2

    wrong = Elsewhere(**vars(case))
    (cell,) = cells_of(wrong, law="normal", size=(1000, 10)).values()
    assert cell.verdict == "BELOW" and cell.coverage < 0.8


def test_an_interval_for_normal_rows_fails_on_others_and_is_excused_by_its_assumption() -> None:
    case = case_of("PrivateVariance", "normal, about center", "Gaussian")
    (cell,) = cells_of(case, law="t3", size=(1000, 10)).values()
    assert not cell.holds and cell.verdict in ("assumption fails", "covers")
    # Not excused where the law is normal.
    assert case.holds(LAWS["normal"]) and case.holds(LAWS["normal factor"]) and not case.holds(LAWS["lognormal"])


def test_what_the_output_says_excuses() -> None:
    cell = study.Cell(True, 0.5, 0.01, 0.5, 0.5, 1.0, 0.95, 0.0, 0.0, 1.0, 1.0, 100, "2026-01-01")
    assert cell.verdict == "said"
    assert replace(cell, told=0.5).verdict == "BELOW"
    assert replace(cell, told=0.5, holds=False).verdict == "assumption fails"
    assert replace(cell, told=0.5, coverage=0.92).verdict == "unclear"


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.packed and case.name.endswith("Gaussian")],
    ids=lambda case: f"{case.estimator} {case.name}",
)
def test_intervals_found_together_are_those_of_each_fit(case: Case) -> None:
    law, count, estimand = LAWS["exponential"], 60, case.estimands[0]
    sample = Sample.draw(law, 200, 3, count, np.random.default_rng(0))
    packed, single = (Runs(replace(case, packed=kind), law, 200, 3, 1.0) for kind in (True, False))
    packed.fit(sample, np.random.default_rng(1))
    single.fit(sample, np.random.default_rng(2))
    together, apart = packed.intervals(estimand), single.intervals(estimand)
    assert len(together) == len(apart) == count
    for one, other in zip(together, apart, strict=True):
        assert np.shape(one.each) == np.shape(other.each) == (2, 3)
        assert np.array_equal(one.plain, other.plain) and np.array_equal(one.truth, other.truth)
    # The same rows, other noise: sums and differences of the ends have the same law. Means of 180 numbers, within six
    # standard errors: a false alarm below 1e-6.
    for of_ends in (np.add, np.subtract):
        first, second = (np.array([of_ends(*found.each) for found in runs]) for runs in (together, apart))
        error = np.hypot(first.std(), second.std()) / np.sqrt(3 * count)
        assert abs(first.mean() - second.mean()) < 6 * error + 1e-9


def test_a_fit_that_fails_does_not_cover() -> None:
    case = case_of("ClippedMean", "box", "private", "Gaussian")
    missing = replace(LAWS["normal"], draw=lambda n, d, rng: np.full((n, d), np.nan))
    tallies = study.block(missing, 50, 1, [(case, 1.0)], 3, np.random.default_rng(0))
    cell = study.cell_of(list(tallies.values()), True)
    assert cell.failed == 1.0 and cell.datasets == 3 and cell.coverage == 0.0 and cell.verdict == "BELOW"


def test_cells_do_not_depend_on_what_else_is_run_and_survive_the_store(tmp_path: Path) -> None:
    cases = [case_of("ClippedMean", "box", "private", "Gaussian"), case_of("SparseMean", "public", "Gaussian")]
    both = study.study(cases, laws=["normal"], sizes=[(50, 1)], datasets=10, epsilons=[1.0], again=1)
    alone = study.study(cases[1:], laws=["normal"], sizes=[(50, 1)], datasets=10, epsilons=[1.0], again=1)
    (both,), (alone,) = both, alone
    assert {key: repr(cell) for key, cell in alone.items()} == {key: repr(both[key]) for key in alone}

    study.write_cells(both, tmp_path / "cells.csv")
    kept = study.read_cells(tmp_path / "cells.csv")
    assert kept.keys() == both.keys()
    for key, cell in both.items():
        assert kept[key].coverage == pytest.approx(cell.coverage, rel=1e-4) and kept[key].date == cell.date
    text = study.as_markdown(kept)
    assert text.count("| normal | 1 |") >= 2 and "python validation/studies/interval_coverage.py" in text
