"""The one fit: what it does, in which order, and what is left when it breaks off."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

from dpstats.covariance import PrivatePCA
from dpstats.errors import BudgetExceeded, ChargedError, DPStatsError, InvalidData
from dpstats.means import ClippedMean
from dpstats.privacy import PrivacyBudget
from dpstats.regression import PrivateLinearRegression
from dpstats.release.session import Session

ROWS = np.random.default_rng(0).normal(size=(41, 3))


class Watched(ClippedMean):
    """Notes every step of a fit; ``fails`` names one that raises."""

    fails = ""

    def __init__(self, *, clip: Any, delta: float = 0.0, budget: Any = None, random_state: Any = None) -> None:
        super().__init__(clip=clip, delta=delta, budget=budget, random_state=random_state)
        self._steps: list[tuple[str, int]] = []

    def _note(self, step: str) -> None:
        charges = 0 if self.budget is None else len(self.budget.history())
        self._steps.append((step, charges))
        if step == self.fails:
            raise RuntimeError(f"in {step}")

    def plan(self, *size: int) -> Any:
        self._note("plan")
        return super().plan(*size)

    def _prepare(self, plan: Any) -> Any:
        self._note("prepare")
        return super()._prepare(plan)

    def _read(self, table: Any, plan: Any) -> Any:
        self._note("read")
        return super()._read(table, plan)

    def _release(self, *args: Any) -> None:
        self._note("release")
        super()._release(*args)

    def _report(self, *args: Any) -> None:
        self._note("report")
        super()._report(*args)


def test_the_order_of_a_fit_and_a_plan_made_once():
    made = Watched(clip=2.0, budget=PrivacyBudget(10.0))
    made.fit(ROWS)
    # The plan is made once, and the charge stands between reading and releasing.
    assert made._steps == [("plan", 0), ("prepare", 0), ("read", 0), ("release", 1), ("report", 1)]
    free = Watched(clip=2.0).fit(ROWS)
    assert [step for step, _ in free._steps] == ["plan", "prepare", "read", "release", "report"]


@pytest.mark.parametrize(("step", "charges"), [("plan", 0), ("prepare", 0), ("read", 0), ("release", 1), ("report", 1)])
def test_what_breaks_off_before_the_charge_costs_nothing(step, charges):
    budget = PrivacyBudget(10.0)
    made = Watched(clip=2.0, budget=budget)
    made.fails = step
    with pytest.raises(ChargedError if charges else RuntimeError, match="RuntimeError" if charges else f"in {step}"):
        made.fit(ROWS)
    assert len(budget.history()) == charges
    assert not hasattr(made, "mean_")


def test_a_budget_that_cannot_pay_is_asked_before_the_data_are_touched():
    class Untouchable:
        shape = (41, 3)

        def __array__(self, *args: Any, **options: Any) -> Any:
            raise AssertionError("the data were looked at")

    with pytest.raises(BudgetExceeded):
        Watched(clip=2.0, budget=PrivacyBudget(0.5)).fit(Untouchable())
    # Where the size is not stated, it is asked once the table has one, and before it is read.
    poor = Watched(clip=2.0, budget=PrivacyBudget(0.5))
    with pytest.raises(BudgetExceeded):
        poor.fit(tuple(tuple(row) for row in ROWS.tolist()))
    assert [step for step, _ in poor._steps] == ["plan"]


def test_a_table_of_another_size_than_it_said_is_planned_for_as_it_is():
    class Grows:
        """Says that it has fewer rows than it has."""

        shape = (10, 3)

        def __array__(self, *args: Any, **options: Any) -> Any:
            return ROWS

    budget = PrivacyBudget(10.0)
    made = ClippedMean(clip=2.0, budget=budget)
    try:
        made.fit(Grows())
    except InvalidData:
        assert budget.history() == ()
    else:
        assert (made.plan_.n_samples, len(budget.history())) == (41, 1)


def test_a_stage_that_a_release_forgets_is_an_error_and_leaves_nothing():
    class Forgets(ClippedMean):
        def _release(self, private: Any, plan: Any, session: Session) -> None:
            session.add(plan.stages[0].name, private[plan.stages[0].name])

    made = Forgets(clip=2.0, clip_norm="l2", std="private")  # pure privacy in a ball: two stages
    with pytest.raises(DPStatsError, match="neither released nor skipped: second moment"):
        made.fit(ROWS)
    assert not hasattr(made, "plan_")


def test_a_plan_that_costs_more_than_it_claims_is_not_released(monkeypatch):
    from dataclasses import replace

    class HalfNoise(ClippedMean):
        def plan(self, *size: int) -> Any:
            plan = super().plan(*size)
            return replace(plan, stages=tuple(replace(s, scale_steps=s.scale_steps / 2) for s in plan.stages))

    budget = PrivacyBudget(10.0)
    with pytest.raises(DPStatsError, match="defect"):
        HalfNoise(clip=2.0, std=None, budget=budget).fit(ROWS)
    assert budget.history() == ()
    # Without a budget nothing is charged, and nothing is drawn for a guarantee that cannot be stated.
    monkeypatch.setattr(Session, "open", lambda self: pytest.fail("the session was opened"))
    with pytest.raises(DPStatsError, match="defect"):
        HalfNoise(clip=2.0, std=None).fit(ROWS)


def test_the_mark_of_a_simulation_is_that_of_what_was_released() -> None:
    seeded = ClippedMean(clip=2.0, std=None, random_state=3)
    mark = "[simulated noise, not a private release]"
    assert mark in repr(seeded)
    seeded.fit(ROWS)
    assert mark in repr(seeded) and mark in str(seeded.plan_) and seeded.plan_.guarantee.simulated
    seeded.set_params(random_state=None)
    assert mark in repr(seeded) and seeded.privacy_.simulated
    released = seeded.fit(ROWS)
    assert mark not in repr(released) and mark not in str(released.plan_)
    released.set_params(random_state=5)
    assert mark not in repr(released) and not released.privacy_.simulated
    # A copy without a fit goes by its parameters.
    assert mark in repr(clone(released))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_labeled_bounds_choose_the_columns_of_more_rows_in_the_order_of_the_fit(frame: Any) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random(500), 5 * rng.random(500)
    rows = frame({"a": a, "b": b, "y": a + b})
    bounds = {"b": (0, 5), "a": (0, 1)}  # in another order than the columns
    for model in (
        PrivateLinearRegression(x_bounds=bounds, y_bounds=(0, 6), epsilon=1e4, random_state=0).fit(
            rows[["a", "b"]], rows["y"]
        ),
        PrivateLinearRegression(x_bounds=bounds, y_bounds=(0, 6), epsilon=1e4, random_state=0).fit(rows, "y"),
        PrivatePCA(bounds=bounds, random_state=0).fit(rows[["a", "b"]]),
    ):
        answer = model.predict if hasattr(model, "predict") else model.transform
        wanted = np.asarray(answer(rows[["a", "b"]]))
        for other in (["b", "a"], ["b", "y", "a"], ["a", "b", "y"]):
            assert np.array_equal(np.asarray(answer(rows[other])), wanted)
        with pytest.raises(InvalidData, match="now missing:\n- b"):
            answer(rows[["a"]])


def test_columns_without_labels_must_be_in_the_order_of_the_fit() -> None:
    rows = pd.DataFrame(np.random.default_rng(0).random((500, 2)), columns=["a", "b"])
    model = PrivatePCA(bounds=(0, 1), random_state=0).fit(rows)
    with pytest.raises(InvalidData, match="same order"):
        model.transform(rows[["b", "a"]])
