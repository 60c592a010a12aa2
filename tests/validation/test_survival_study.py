"""The study of survival, reduced: every part runs, and says what is known of it."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "validation" / "studies"))
import survival
import survival_levels
import survival_shapes


@pytest.mark.parametrize(
    "cell",
    [
        survival.Cell("exponential", 1000, 1.0, 10),
        survival.Cell("discrete", 1000, 1.0, 24, 0.2),
        survival.Cell("exponential", 2000, 1.0, 20, 0.1, 0.525),
        survival.Cell("Weibull(0.5)", 2000, 1.0, 10, 0.3, None, (0.3, 0.7)),
    ],
    ids=lambda cell: cell.words,
)
def test_a_cell_covers_and_is_wider_than_exact_tables(cell: survival.Cell) -> None:
    found, plain, censored = survival.run(cell, 60, 0)
    # 60 datasets: a coverage of 0.93 is below 0.8 in fewer than 1e-3 of runs.
    assert found["band"] >= 0.8 and found["point"] > 0.88 and found["median"] >= 0.8
    # With positions restricted means need no grid term, which that of the exact table has.
    assert found["band width"] > plain["band width"] and found["rmst width"] > 0.8 * plain["rmst width"]
    assert censored == pytest.approx(cell.censored + 0.4 * (cell.atom is not None), abs=0.01)


def test_probabilities_are_those_of_drawn_rows() -> None:
    cell = survival.Cell("exponential", 1, 1.0, 10, 0.3)
    each, added, _ = survival.probabilities(cell)
    assert each.sum() == pytest.approx(1) and (added[:, :21].sum(axis=1) == pytest.approx(1))
    # Events are a little early in each bin, and v (1 - v) of censored rows is 1/6 on average.
    events, offsets, squares = each @ added[:, :10], each @ added[:, 21:31], each @ added[:, 31:]
    assert (offsets < 0).all() and (offsets > -0.02 * events).all()
    assert squares.sum() == pytest.approx(0.3 / 6, rel=0.01)
    assert events.sum() < 1 - np.exp(-survival.HORIZON) and (np.diff(events) < 0).all()


def test_peers_have_larger_errors_and_cover_less() -> None:
    *others, own = survival.peers(30, 0)
    assert own[0] == "PrivateSurvival" and own[2] > 0.9
    assert all(error > own[1] and inside < own[2] for _, error, inside in others)


def test_a_log_rank_cell_gives_three_rates() -> None:
    own, of_table, plain = survival.rejected(300, (0.5, 0.5), (1.0, 3.0), (0.3, 0.3), 30, 0)
    assert plain > 0.9 and own > 0.7 and of_table > 0.5


@pytest.mark.parametrize("n_groups", [2, 3])
def test_sums_by_bin_give_the_integers_of_the_test(n_groups: int) -> None:
    rng = np.random.default_rng(0)
    shape = (2, 400)
    group = rng.integers(n_groups, size=shape)
    times, events = rng.exponential(size=shape), rng.random(shape) < 0.7
    drawn = survival.Drawn.of_rows(times, events, group, n_groups, 10)
    plan = survival.LogRankTest(groups=range(n_groups), horizon=survival.HORIZON, unknown="error").plan(400)
    for i in range(2):
        rows = times[i], events[i].astype(np.int64), group[i]
        counts = plan.cells.count(*rows) / 2.0**plan.cells.bits
        np.testing.assert_allclose(drawn.cells[i], counts, atol=0.02)
        reference = plan.reference(plan.levels.steps(plan.cells.totals(*rows)) * plan.stage("survival table").spacing)
        residuals = plan.residuals(reference)
        found = survival.Drawn(*(part[i : i + 1] for part in vars(drawn).values())).residual_sums(reference)
        steps = residuals.sums(*rows) * np.asarray(plan.stage("residuals").spacing)
        np.testing.assert_allclose(found / residuals.divisor[:, None], steps, atol=1e-3)


def test_differences_causes_and_whole_fits_cover() -> None:
    # 40 datasets: a coverage of 0.94 is below 0.75 in fewer than 1e-4 of runs.
    found = survival.compared(2000, 1.0, 10, (0.5, 0.5), 40, 0)
    found |= survival.competing(2000, 1.0, 10, 0.7, 40, 0)
    found |= survival.fitted(1000, 1.0, 10, 20, 0)
    assert len(found) == 8 and min(found.values()) >= 0.75


def test_the_page_has_all_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survival, "study_cells", lambda: [survival.Cell("exponential", 500, 1.0, 10)])
    monkeypatch.setattr(survival, "LEVELS", survival.LEVELS[6:7])
    monkeypatch.setattr(survival, "POWERS", survival.POWERS[:1])
    monkeypatch.setattr(survival, "COMPARED", survival.COMPARED[:1])
    monkeypatch.setattr(survival, "FITS", 2)
    page = survival.as_markdown(10, 10, 0, "command")
    for words in (
        "Bands cover",
        "## Differences of two groups",
        "## Whole fits",
        "## Peers",
        "level of tests",
        "## Log-rank tests: power",
        "| exponential, 30% censored | 500",
    ):
        assert words in page


@pytest.mark.parametrize("arms", [(0.5, 0.5), (0.5, 0.3, 0.2)])
def test_a_cell_of_levels_gives_three_rates(arms: tuple[float, ...]) -> None:
    cell = survival_levels.steep_cells()[0]
    cell = dataclasses.replace(cell, shares=arms)
    assert all(rate <= 0.2 for rate in survival_levels.rates(cell, 60, 0))


@pytest.mark.parametrize("curve", survival_shapes.STEEP)
def test_where_a_straight_line_is_not_the_shape_the_output_says_so(curve: str) -> None:
    hazard, staying = survival_shapes.STEEP[curve], [survival_shapes.HALVED["half early"]]
    cell = survival_shapes.Cell(curve, 5000, 1.0, 4, (1.0,), hazard, staying)
    assert survival_shapes.curves_of(cell, 40, 0)["warned"] > 0.9
    straight = dataclasses.replace(cell, hazard=survival_shapes.CURVES["constant"])
    found = survival_shapes.curves_of(straight, 40, 0)
    assert found["warned"] < 0.2 and found["edges"] > 0.88 and found["first edge"] > 0.8


def test_hazard_ratios_are_nearly_as_short_as_those_of_cox() -> None:
    row = survival_shapes.ratio_row(survival_shapes.RATIOS[0], 30, 0).split(" | ")
    assert float(row[6]) >= 0.8 and 1 < float(row[7]) < 1.1
