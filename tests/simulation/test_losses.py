"""Losses: one number of a fit and the truth, against their definitions."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from dpstats.errors import DPStatsError, InvalidParameter
from dpstats.simulation.samplers import LOSSES, estimate_of, named_losses

TRUTH = np.array([0.0, 2.0, -1.0])


def fitted(**attributes: object) -> SimpleNamespace:
    intervals = {False: ([-1.0, 1.0, 0.0], [1.0, 3.0, 1.0]), True: ([-1.0, 1.0, -2.0], [1.0, 3.0, 1.0])}
    return SimpleNamespace(
        confidence_interval=lambda simultaneous=False: intervals[simultaneous], reject_=True, **attributes
    )


def test_losses_by_their_definitions() -> None:
    found = fitted(mean_=[1.0, 2.0, 1.0], released_mean_=[1.0, 2.0, 4.0], support_=np.array([1]))
    values = {name: loss(found, None, TRUTH) for name, loss in LOSSES.items()}
    # 1 + 0 + 4; one of two signals; two of three intervals; all three simultaneous ones.
    assert values == {
        "squared_error": 5.0,
        "released_squared_error": 5.0 - (1.0 - TRUTH[2]) ** 2 + (4.0 - TRUTH[2]) ** 2,
        "support_recovery": 0.5,
        "coverage": pytest.approx(2 / 3),
        "simultaneous_coverage": 1.0,
        "rejection": 1.0,
    }
    mask = fitted(support_=np.array([False, True, True]))
    assert LOSSES["support_recovery"](mask, None, TRUTH) == 1.0
    with pytest.raises(DPStatsError, match="at least one entry other than 0"):
        LOSSES["support_recovery"](mask, None, np.zeros(3))


def test_the_estimate_is_the_first_attribute_that_is_there() -> None:
    assert estimate_of(fitted(coef_=[3.0], mean_=[1.0])).tolist() == [1.0]
    with pytest.raises(DPStatsError, match="has none of mean_, location_, coef_, estimate_"):
        estimate_of(fitted())


def test_losses_are_named() -> None:
    assert list(named_losses(["coverage", estimate_of])) == ["coverage", "estimate_of"]
    assert named_losses({"risk": "squared_error"}) == {"risk": LOSSES["squared_error"]}
    with pytest.raises(InvalidParameter, match="loss must"):
        named_losses({})


def test_simultaneous_intervals_cover_only_together() -> None:
    # Two of three simultaneous intervals cover: that is no coverage.
    assert LOSSES["simultaneous_coverage"](fitted(), None, np.array([0.0, 2.0, 5.0])) == 0.0
