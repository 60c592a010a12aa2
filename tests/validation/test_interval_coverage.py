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
    (found,) = study.study(
        cases, laws=[law], sizes=[size], epsilons=[epsilon], datasets=DATASETS, again=1, seed=1
    )
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


@pytest.mark.parametrize(
    "name", ["normal", "lognormal", "Poisson(.2)", "contaminated 5%", "exponential factor"]
)
def test_means_of_projected_rows(name: str) -> None:
    # Five standard errors of 20,000 rows: a false alarm below 1e-6 each.
    law, n, d = LAWS[name], 20_000, 10
    sample = Sample(law, law.draw(n, d, np.random.default_rng(1)))
    expected = TRUTHS["ball"](sample, None)
    means = sample.projected.mean(axis=1)
    assert abs(means.mean() - expected) < 5 * means.std() / np.sqrt(n)
    assert np.linalg.norm(sample.projected - sample.raw) > 0


def test_a_ball_of_one_column_is_a_box() -> None:
    law = LAWS["normal"]
    box = replace(law, low=-1.0, high=3.0)
    assert ball_mean(law, 1, 1.0, 2.0) == pytest.approx(box.clipped_mean, abs=1e-5)


def test_sparse_rows_have_their_signal() -> None:
    law = LAWS["exponential"]
    rows = Sample(law, law.draw(20_000, 40, np.random.default_rng(2))).sparse
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


def test_a_wrong_truth_is_noticed() -> None:
    case = replace(case_of("ClippedMean", "box", "private", "Gaussian"), estimands=("clipped",))

    class Elsewhere(Case):
        def truth(self, sample: Sample, fitted: Any, estimand: str) -> Any:
            return super().truth(sample, fitted, estimand) + 0.2

    wrong = Elsewhere(**vars(case))
    (cell,) = cells_of(wrong, law="normal", size=(1000, 10)).values()
    assert cell.verdict == "BELOW" and cell.coverage < 0.8


def test_an_interval_for_normal_rows_fails_on_others_and_is_excused_by_its_assumption() -> None:
    case = case_of("PrivateVariance", "normal, about center", "Gaussian")
    (cell,) = cells_of(case, law="t3", size=(1000, 10)).values()
    assert not cell.holds and cell.verdict in ("assumption fails", "covers")
    # Not excused where the law is normal.
    assert (
        case.holds(LAWS["normal"]) and case.holds(LAWS["normal factor"]) and not case.holds(LAWS["lognormal"])
    )


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
    law, runs = LAWS["exponential"], {}
    for packed in (True, False):
        runs[packed] = Runs(replace(case, packed=packed), law, 200, 3, 1.0)
        for seed in range(3):
            sample = Sample(law, law.draw(200, 3, np.random.default_rng(seed)))
            runs[packed].fit(sample, np.random.default_rng(100 + seed))
    packed, single = (runs[kind].ends(case.estimands[0]) for kind in (True, False))
    assert len(packed) == len(single) == 3
    for (one, one_together), (other, other_together) in zip(packed, single, strict=True):
        assert np.shape(one) == (2, 3) and np.allclose(one, other, rtol=1e-9, atol=1e-12)
        if other_together is not None:
            # Bonferroni's level and Sidak's are within 0.0004 of each other.
            assert np.allclose(one_together, other_together, rtol=0.003, atol=0.003)


def test_a_fit_that_fails_does_not_cover() -> None:
    case = case_of("ClippedMean", "box", "private", "Gaussian")
    missing = replace(LAWS["normal"], draw=lambda n, d, rng: np.full((n, d), np.nan))
    tallies = study.block(missing, 50, 1, [(case, 1.0)], 3, np.random.default_rng(0))
    cell = study.cell_of(list(tallies.values()), True)
    assert cell.failed == 1.0 and cell.coverage == 0.0 and cell.verdict == "BELOW"


def test_cells_do_not_depend_on_what_else_is_run_and_survive_the_store(tmp_path: Path) -> None:
    cases = [case_of("ClippedMean", "box", "private", "Gaussian"), case_of("SparseMean", "Gaussian")]
    both = study.study(cases, laws=["normal"], sizes=[(50, 1)], datasets=10, epsilons=[1.0], again=1)
    alone = study.study(cases[1:], laws=["normal"], sizes=[(50, 1)], datasets=10, epsilons=[1.0], again=1)
    (both,), (alone,) = both, alone
    assert alone.items() <= both.items()

    study.write_cells(both, tmp_path / "cells.csv")
    kept = study.read_cells(tmp_path / "cells.csv")
    assert kept.keys() == both.keys()
    for key, cell in both.items():
        assert kept[key].coverage == pytest.approx(cell.coverage, rel=1e-4) and kept[key].date == cell.date
    text = study.as_markdown(kept)
    assert text.count("| normal | 1 |") >= 2 and "python validation/studies/interval_coverage.py" in text
