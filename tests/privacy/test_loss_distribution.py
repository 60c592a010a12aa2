"""Totals by loss distributions."""

import itertools

from dpstats.privacy import (
    compose,
)
from dpstats.privacy.events import (
    Approximate,
    BoundedRange,
    DiscreteLaplace,
    Pure,
)


def test_the_order_hardly_matters_to_loss_distributions():
    events = [Pure(0.263), DiscreteLaplace(2, 1.0327), Approximate(0.0861, 1e-9), BoundedRange(0.11)]
    totals = [compose(order, 3.8e-5).epsilon for order in itertools.permutations(events)]
    assert max(totals) <= min(totals) * (1 + 2e-4)


def test_the_order_does_not_matter_to_loss_distributions():
    events = [Pure(0.263), DiscreteLaplace(2, 1.0327), Approximate(0.0861, 1e-9), BoundedRange(0.11)]
    assert len({compose(order, 3.8e-5).epsilon for order in itertools.permutations(events)}) == 1
