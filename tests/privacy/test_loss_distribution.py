"""Totals by loss distributions."""

import itertools

import pytest

from dpstats.privacy import (
    compose,
)
from dpstats.privacy.events import (
    Approximate,
    BoundedRange,
    DiscreteLaplace,
    Pure,
)
from dpstats.privacy.loss_distribution import _coarse_step


def test_the_order_hardly_matters_to_loss_distributions():
    events = [Pure(0.263), DiscreteLaplace(2, 1.0327), Approximate(0.0861, 1e-9), BoundedRange(0.11)]
    totals = [compose(order, 3.8e-5).epsilon for order in itertools.permutations(events)]
    assert max(totals) <= min(totals) * (1 + 2e-4)


def test_the_order_does_not_matter_to_loss_distributions():
    events = [Pure(0.263), DiscreteLaplace(2, 1.0327), Approximate(0.0861, 1e-9), BoundedRange(0.11)]
    assert len({compose(order, 3.8e-5).epsilon for order in itertools.permutations(events)}) == 1


@pytest.mark.parametrize("ceiling", [0.7, 3.0, 40.0])
def test_a_coarse_grid_has_every_loss_that_is_a_multiple_of_the_smallest(ceiling: float) -> None:
    losses = [0.3, 0.1, 0.2]
    step = _coarse_step(losses, ceiling, 0.3)
    assert [loss / step for loss in losses] == pytest.approx(
        [round(loss / step) for loss in losses], abs=1e-9
    )
    assert ceiling / 4000 <= step <= ceiling / 1000
    # Other losses share a grid of one of them only.
    other = _coarse_step([0.1, 0.2718], ceiling, 0.2718)
    assert 0.2718 / other == pytest.approx(round(0.2718 / other), abs=1e-9)
    assert ceiling / 4000 <= other <= ceiling / 1000
