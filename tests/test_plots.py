"""The picture of an audit: points below the claimed curve only where the claim is broken."""

from __future__ import annotations

import pytest

from dpstats.auditing import AuditResult, audit
from dpstats.errors import InvalidParameter
from dpstats.plots import plot_audit


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
