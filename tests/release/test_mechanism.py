"""What every mechanism shares: its plan, its charge, and a session for each release."""

from __future__ import annotations

import pytest

from dpstats.errors import BudgetExceeded, DPStatsError, InvalidData, InvalidParameter
from dpstats.mechanisms import (
    AboveThreshold,
    Count,
    ExponentialMechanism,
    GaussianMechanism,
    Histogram,
    LaplaceMechanism,
    NoisyTopK,
    PermuteAndFlip,
    RandomizedResponse,
    ReportNoisyMax,
)
from dpstats.privacy import Plan, PrivacyBudget
from dpstats.release.mechanism import Mechanism
from dpstats.release.session import Session

# Of each: how to make it, a release, and one of data that are refused.
RELEASES = {
    "Laplace": (LaplaceMechanism, (1.0, 0.5), lambda made: made.release(2.0), lambda made: made.release("x")),
    "Gaussian": (
        GaussianMechanism,
        (1.0, 0.5, 1e-6),
        lambda made: made.release([1.0, 2.0]),
        lambda made: made.release(None),
    ),
    "histogram": (Histogram, ([0, 1], 0.5), lambda made: made.release([0, 1, 1]), lambda made: made.release("x")),
    "count": (Count, (0.5,), lambda made: made.release([True]), lambda made: made.release(["x"])),
    "response": (RandomizedResponse, (0.5,), lambda made: made.randomize([0, 1]), lambda made: made.randomize([7])),
    "exponential": (
        ExponentialMechanism,
        (1.0, 0.5),
        lambda made: made.select([1.0, 2.0]),
        lambda made: made.select([float("nan")]),
    ),
    "noisy max": (ReportNoisyMax, (1.0, 0.5), lambda made: made.select([1.0, 2.0]), lambda made: made.select([])),
    "flip": (PermuteAndFlip, (1.0, 0.5), lambda made: made.select([1.0, 2.0]), lambda made: made.select("ab")),
    "top": (NoisyTopK, (1, 1.0, 0.5), lambda made: made.select([1.0, 2.0]), lambda made: made.select([-1j])),
    "stream": (AboveThreshold, (5, 0.5), lambda made: made.query(1.0), lambda made: made.query("x")),
}
every = pytest.mark.parametrize(("kind", "args", "release", "refused"), RELEASES.values(), ids=RELEASES)


@every
def test_a_release_is_one_session_of_the_plan_and_one_charge(kind, args, release, refused, monkeypatch):
    opened = []
    run = Session.open
    monkeypatch.setattr(Session, "open", lambda self: opened.append(self.plan) or run(self))
    budget = PrivacyBudget(10.0, 1e-5)
    made = kind(*args, budget=budget)
    assert isinstance(made, Mechanism) and isinstance(made.plan, Plan)
    # A plan is for one number where nothing else is said.
    assert made.plan.guarantee == made.guarantee and made.plan.events == made.events
    release(made)
    assert len(opened) == 1 and opened[0].guarantee == made.guarantee
    (entry,) = budget.history()
    assert (entry.guarantee, entry.label) == (made.guarantee, kind.__name__)


@every
def test_bad_data_are_refused_before_the_charge(kind, args, release, refused):
    budget = PrivacyBudget(10.0, 1e-5)
    made = kind(*args, budget=budget)
    with pytest.raises(InvalidData):
        refused(made)
    assert budget.history() == ()


@every
def test_a_budget_that_cannot_pay_is_asked_before_the_data_are_looked_at(kind, args, release, refused):
    # Were the data looked at first, the answer would depend on them.
    made = kind(*args, budget=PrivacyBudget(0.1, 1e-7))
    for call in (release, refused):
        with pytest.raises(BudgetExceeded):
            call(made)


@every
def test_a_simulation_says_so_and_charges_nothing(kind, args, release, refused):
    made = kind(*args, random_state=0)
    assert made.guarantee.simulated and made.plan.guarantee.simulated
    release(made)
    with pytest.raises(InvalidParameter, match="random_state and budget"):
        kind(*args, random_state=0, budget=PrivacyBudget(10.0, 1e-5))


def test_a_plan_that_costs_more_than_is_claimed_is_not_released():
    class Wrong(Histogram):
        """Planted bug: a plan for half of the noise."""

        @property
        def plan(self):
            (stage,) = super().plan.stages
            return self._planned(type(stage)(**{**fields(stage), "scale_steps": stage.scale_steps / 2}))

    def fields(stage):
        return {name: getattr(stage, name) for name in type(stage).__slots__}

    budget = PrivacyBudget(10.0)
    with pytest.raises(DPStatsError, match="defect"):
        Wrong([0, 1], 0.5, budget=budget).release([0])
    assert budget.history() == ()


@every
def test_the_plan_of_a_seeded_mechanism_says_so(kind, args, release, refused):
    seeded, exact = kind(*args, random_state=0), kind(*args)
    mark = "[simulated noise, not a private release]"
    for text in (seeded.plan, seeded.plan.guarantee, seeded.guarantee):
        assert mark in str(text)
    assert mark not in str(exact.plan) and not exact.plan.guarantee.simulated
    with pytest.raises(InvalidParameter, match="simulated release is not private"):
        PrivacyBudget(100.0, 0.1, neighbors=seeded.guarantee.neighbors).charge(seeded.plan)
