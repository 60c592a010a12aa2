"""The study of means of groups, reduced: intervals cover, levels hold, and a planted defect shows in the same cells."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "validation" / "studies"))
import adjusted_means
import group_means as study
import group_quantiles

# Two hundred runs: a standard error of .015 for a level, and less for coverage over groups.
RUNS = 200


@pytest.mark.parametrize("law", study.LAWS)
@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_cells_hold(law: str, delta: float) -> None:
    rng = np.random.default_rng(1)
    for K, shape, n in ((2, "equal", 500), (8, "1/k", 5000)):
        for found in study.cell(K, shape, law, n, (1.0,), RUNS, delta, rng).values():
            assert found.means > 0.92 and found.differences > 0.92 and found.level < 0.11
            # Wider than without privacy, the more so the smaller the group.
            assert 1.0 < found.largest_width < found.smallest_width * 1.1


def test_half_the_noise_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = study.anova.draw

    def twice(*given: object) -> tuple[np.ndarray, ...]:
        return tuple(2 * part for part in draw(*given))  # type: ignore[arg-type]

    monkeypatch.setattr(study.anova, "draw", twice)
    (found,) = study.cell(8, "equal", "normal", 500, (1.0,), RUNS, 1e-6, np.random.default_rng(2)).values()
    assert found.means < 0.9


def test_sizes_and_exact_totals() -> None:
    sizes = study.sizes_of(8, "1/k", 500)
    assert sizes.sum() == 500 and np.all(np.diff(sizes) <= 0) and study.sizes_of(50, "equal", 500).tolist() == [10] * 50
    sums, squares = study.exact_totals(study.LAWS["Bernoulli(.1)"], sizes, 3, np.random.default_rng(0))
    # Rows of -1 and 1.
    assert np.all(squares == sizes) and np.all((sums + sizes) % 2 == 0)


def test_the_report_has_every_cell() -> None:
    cells = study.study((2,), (500,), (1.0,), 40)
    report = study.as_markdown(cells, 40, 1e-6, "command")
    assert report.count("\n| ") == 1 + len(cells) == 7 and "Over cells" in report


def test_the_study_of_quantiles_of_groups_counts_coverage(monkeypatch: pytest.MonkeyPatch) -> None:
    found = group_quantiles.cell("lognormal", (1000, 300), 0.5, 1.0, 40, 0)
    # 80 intervals: fewer than 65 cover with probability below 1e-5.
    assert found.groups > 0.8 and found.difference > 0.75 and found.missing == 0.0
    assert 0.9 < found.length < 1.6
    few = group_quantiles.cell("lognormal", (300, 300), 0.9, 0.5, 4, 0)
    assert (few.groups, few.missing, few.warned) == (1.0, 1.0, 1.0)
    monkeypatch.setattr(group_quantiles, "SIZES", ((300, 300),))
    page = group_quantiles.report(2, 0, ["Poisson(4)"])
    assert page.count("| Poisson(4) |") == len(group_quantiles.CASES)
    # Order statistics of 1, ..., 100 without privacy.
    assert group_quantiles.without_privacy(np.arange(1.0, 101.0), 0.5) == 20.0


def test_adjusted_differences_hold_and_are_shorter() -> None:
    # So many rows that the sampling error exceeds the noise: it is Gaussian, and Laplace noise of one mean is less.
    found = adjusted_means.study(adjusted_means.Cell(20_000, 1.0), 12, seed=3)
    assert found.adjusted and (found.coverage > 0.7).all()
    assert found.widths[0] < 0.85 * found.plain[0] and found.widths[0] > found.exact[0]
