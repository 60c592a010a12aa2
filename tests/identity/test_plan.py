"""The plan of a test: what travels with it, and what is not kept."""

from __future__ import annotations

import pickle
from dataclasses import fields

import pytest

from dpstats.identity import SpatialSignTest
from tests.identity.every_test import NULL_ROWS


def test_a_null_distribution_is_not_pickled() -> None:
    test = SpatialSignTest(random_state=0, n_calibration=9999).fit(NULL_ROWS)
    assert test.plan_.null.nbytes == 8 * 9999
    kept = pickle.dumps(test)
    assert len(kept) < 10_000
    again = pickle.loads(kept)
    assert again.plan_.null is None and again.plan_.law == test.plan_.law
    # What it is needed for brings its own.
    assert again.power(0.5, 60, 3, n_simulations=50) == test.power(0.5, 60, 3, n_simulations=50)


def test_only_what_costs_nothing_can_be_changed() -> None:
    plan = SpatialSignTest(n_calibration=199).plan(100, 3)
    for name in {item.name for item in fields(plan)} - {"null", "attainable_power"}:
        with pytest.raises(TypeError, match=f"cannot change {name}"):
            plan.having(**{name: getattr(plan, name)})
