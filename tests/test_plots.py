"""Pictures: an audit's points below the claimed curve only where the claim is broken; intervals where they are."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.auditing import AuditResult, audit
from dpstats.errors import InvalidParameter
from dpstats.plots import plot_audit, plot_intervals_by_epsilon
from dpstats.results import ConfidenceInterval


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
    assert figure.get_suptitle().startswith(f"Laplace noise: claim {'' if broken else 'not '}violated")


def test_a_result_without_counts_has_no_picture() -> None:
    result = AuditResult(0.0, 1.0, 0.0, False, 0.95, 100, "", (0, 0))
    with pytest.raises(InvalidParameter, match="result must hold a curve"):
        plot_audit(result)


def test_intervals_by_epsilon_are_where_they_are() -> None:
    names, epsilons = ["a", "b"], [0.5, 1.0]
    estimates = [np.array([1.0, 2.0]), np.array([3.0, 4.0])]
    intervals = [
        ConfidenceInterval(value - half, value + half) for value, half in zip(estimates, (2, 1), strict=True)
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
