"""Pictures: an audit's points below the claimed curve only where the claim is broken; intervals where they are."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.auditing import AuditResult, audit
from dpstats.errors import InvalidParameter
from dpstats.inference.figures import new_figure
from dpstats.inference.results import ConfidenceInterval
from dpstats.mechanisms import Histogram
from dpstats.plots import (
    plot_answers,
    plot_audit,
    plot_counts,
    plot_density,
    plot_intervals_by_epsilon,
    plot_proportion,
    plot_table,
)
from dpstats.queries import WorkloadAnswers
from dpstats.tables import ContingencyTable, PrivateProportion


def laplace(value, rng, size):
    return value + rng.laplace(size=size)


@pytest.mark.parametrize(("epsilon", "broken"), [(1.0, False), (0.5, True)])
def test_points_below_the_claimed_curve_show_a_violation(epsilon: float, broken: bool) -> None:
    result = audit(laplace, 0.0, 1.0, epsilon=epsilon, n_trials=40_000, batched=True, random_state=0)
    figure = plot_audit(result, title="Laplace noise")
    left, right = figure.axes
    labels = [text.get_text() for text in left.get_legend().get_texts()]
    # The bounds hold for all points together at 95%.
    assert ("attack, below the claim" in labels) == broken == result.violated
    assert left.get_xlabel() == "type I error of the attack" and right.get_ylabel() == "epsilon proved"
    ax = new_figure().subplots()
    assert result.plot(ax, ms=2) is ax and ax.get_ylabel() == "type II error of the attack"
    assert figure.get_suptitle().startswith(f"Laplace noise: claim {'' if broken else 'not '}violated")


def test_a_result_without_counts_has_no_picture() -> None:
    result = AuditResult(0.0, 1.0, 0.0, False, 0.95, 100, "", (0, 0))
    with pytest.raises(InvalidParameter, match="result must hold a curve"):
        plot_audit(result)


def test_intervals_by_epsilon_are_where_they_are() -> None:
    names, epsilons = ["a", "b"], [0.5, 1.0]
    estimates = [np.array([1.0, 2.0]), np.array([3.0, 4.0])]
    intervals = [
        ConfidenceInterval(value - half, value + 3 * half) for value, half in zip(estimates, (2, 1), strict=True)
    ]
    band = ConfidenceInterval(np.array([0.0, 5.0]), np.array([1.0, 7.0]))
    figure = plot_intervals_by_epsilon(
        names, epsilons, estimates, intervals, reference=[0.5, 6.0], reference_interval=band
    )
    for j, axis in enumerate(figure.axes):
        assert axis.get_title() == names[j]
        (drawn,) = axis.containers
        ends = [segment[:, 1].tolist() for segment in drawn.lines[2][0].get_segments()]
        assert ends == [[interval.low[j], interval.high[j]] for interval in intervals]
        box = axis.patches[0].get_extents().transformed(axis.transData.inverted())
        assert (box.y0, box.y1) == pytest.approx((band.low[j], band.high[j]))
    words = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert words == ["not private", "its interval", "private"]
    # Without a reference there is no band.
    assert not plot_intervals_by_epsilon(names, epsilons, estimates, intervals).axes[0].patches


def test_the_curve_of_a_proportion_crosses_its_interval() -> None:
    made = PrivateProportion(random_state=0).fit([1] * 30 + [0] * 70)
    (axis,) = plot_proportion(made, confidence_level=0.9).axes
    x, p = axis.lines[0].get_data()
    low, high = made.confidence_interval(0.9)
    assert np.interp(low, x, p) == pytest.approx(0.1, abs=5e-3) == np.interp(high, x, p)
    assert "90%" in axis.get_legend().get_texts()[1].get_text()
    # The interval is drawn at the height at which the curve crosses it.
    (drawn,) = axis.collections[0].get_segments()
    np.testing.assert_allclose(drawn, [[low, 0.1], [high, 0.1]])


def test_a_mosaic_has_the_areas_of_the_proportions() -> None:
    rows = [("a", 0)] * 40 + [("a", 1)] * 20 + [("b", 1)] * 140
    made = ContingencyTable(levels={"g": ["a", "b"], "y": [0, 1]}, epsilon=60.0).fit(rows)
    left, right = plot_table(made).axes
    areas = [patch.get_width() * patch.get_height() for patch in left.patches]
    assert areas == pytest.approx([0.2, 0.1, 0.0, 0.7])
    ends = [segment[:, 0].tolist() for segment in right.containers[0].lines[2][0].get_segments()]
    interval = made.confidence_interval(axis="y")
    assert np.allclose(ends, np.stack([interval.low[:, 0], interval.high[:, 0]], axis=1))
    (bars,) = plot_table(made, attributes=["g"]).axes
    assert [label.get_text() for label in bars.get_yticklabels()] == ["a", "b"]
    # Nothing left of a group is drawn, too.
    noisy = ContingencyTable(levels={"g": ["a", "b"], "y": [0, 1]}, epsilon=0.01, random_state=0).fit(rows)
    assert len(plot_table(noisy).axes) == 2


def test_histograms_are_drawn() -> None:
    numbers = Histogram(bins=[0, 1, 3], epsilon=60.0).release([0.5] * 3 + [2.0])
    (axis,) = plot_density(numbers, title="x").axes
    assert axis.patches[0].get_data().values.tolist() == [0.75, 0.125] and axis.get_title() == "x"
    words = Histogram(["u", "v"], epsilon=60.0).release(["u", "u", "v"])
    (axis,) = plot_counts(words, title="y").axes
    assert [patch.get_width() for patch in axis.patches] == [2.0, 1.0]


def test_answers_are_drawn_with_their_intervals_and_what_other_budgets_buy() -> None:
    rows = np.random.default_rng(0).integers(0, [2, 3], size=(400, 2))
    made = WorkloadAnswers(domain=(2, 3), workload=2, random_state=0).fit(rows)
    exact = np.bincount(rows @ [3, 1], minlength=6) / 400
    left, right = plot_answers(made, reference=exact).axes
    x, y = left.lines[0].get_data()
    assert np.array_equal(x, exact) and np.array_equal(y, made.answers_ - exact)
    ends = np.array([segment[:, 1] for segment in left.collections[0].get_segments()])
    assert np.array_equal(ends.T, np.array(list(made.confidence_interval())) - exact)
    epsilons, errors = right.lines[0].get_data()
    assert np.all(np.diff(errors) < 0) and epsilons[3] == pytest.approx(1.0)
    assert errors[3] == pytest.approx(np.sqrt(np.mean(made.noise_std_**2)))
    assert plot_answers(made).axes[0].get_xlabel().startswith("unbiased answer")
    with pytest.raises(InvalidParameter, match=r"reference must have an answer for each query \(6,\)"):
        plot_answers(made, reference=[0.5])
