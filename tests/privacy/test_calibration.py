"""Composition, inverted: tight, certified, and refused where it cannot start."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dpstats.errors import InvalidParameter
from dpstats.privacy import PrivacyGuarantee, compose
from dpstats.privacy import plan as calibration
from dpstats.privacy.events import BoundedRange, Gaussian, Pure
from dpstats.privacy.gaussian import gaussian_sigma
from dpstats.privacy.plan import largest_cost
from dpstats.privacy.totals import covers


@pytest.mark.parametrize(
    "events",
    [
        lambda x: [Pure(x)] * 30,
        lambda x: [Pure(x)] * 5 + [Pure(x / 2)] * 5,
        lambda x: [BoundedRange(x)] * 8 + [Gaussian(x)],
    ],
)
def test_the_total_is_the_guarantee(events) -> None:
    guarantee = PrivacyGuarantee(1.0, 1e-6)
    cost = largest_cost(events, guarantee, 1e-3)
    assert 1 - 1e-6 <= compose(events(cost), 1e-6).epsilon <= 1.0
    assert compose(events(cost * 1.001), 1e-6).epsilon > 1.0


def test_one_gaussian_is_the_exact_curve() -> None:
    cost = largest_cost(lambda x: [Gaussian(x)], PrivacyGuarantee(1.0, 1e-6), 1e-3)
    assert cost == pytest.approx(1 / gaussian_sigma(1.0, 1e-6), rel=1e-8)


def test_a_start_beyond_the_guarantee_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="start must"):
        largest_cost(lambda x: [Pure(x)], PrivacyGuarantee(1.0), 2.0)
    assert largest_cost(lambda x: [Pure(x)] * 4, PrivacyGuarantee(1.0), 0.1) == pytest.approx(0.25, rel=1e-6)
    assert math.isfinite(largest_cost(lambda x: [Pure(x)], PrivacyGuarantee(50.0), 1e-9))


def test_a_guarantee_of_nothing_has_nothing_to_look_for() -> None:
    # Its epsilon was divided by.
    cost = largest_cost(lambda x: [Gaussian(x * 1e-9)], PrivacyGuarantee(0.0, 0.1), 1.0)
    assert cost == 1.0


def test_what_is_returned_is_certified() -> None:
    for target in (1.0, 1.9999999999999998, 0.3, 7.1):
        cost = largest_cost(lambda x: [Pure(x)] * 7, PrivacyGuarantee(target), 1e-3)
        assert covers([Pure(cost)] * 7, PrivacyGuarantee(target))
        assert cost == pytest.approx(target / 7, rel=1e-9)


def test_a_cost_that_no_total_certifies_is_not_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    # The search may err: only the certificate counts.
    seen = []

    def covered(events: Any, guarantee: Any) -> bool:
        seen.append(events)
        return len(seen) == 1

    monkeypatch.setattr(calibration, "covers", covered)
    assert largest_cost(lambda x: [Pure(x)] * 30, PrivacyGuarantee(1.0, 1e-6), 1e-3) == 1e-3
    assert len(seen) > 2
