"""Every release of the registry, twice under one key: one charge, one draw, one answer.

A release that reports anything that is not in what its session released would differ here, because the second call
draws nothing.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from registry import ENTRIES, Entry

from dpstats.errors import InvalidParameter
from dpstats.privacy import PrivacyBudget
from dpstats.release.noise import ExactNoise
from dpstats.release.once import OnceSession, decode_answer

RELEASES = [entry for entry in ENTRIES if entry.public is not None]

STREAMS = {
    entry.name
    for entry in RELEASES
    if entry.covers.__name__
    in (
        "AboveThreshold",
        "ContinualCounts",
        "ContinualMeans",
        "SparseVector",
        "NumericSparseVector",
        "OnlineMultiplicativeWeights",
        "OnlineAnswers",
    )
}
"""Interactive releases, which answer one question after another."""


def draws() -> Any:
    """Refuse every draw from the exact source."""

    def refuse(*arguments: object, **options: object) -> None:
        raise AssertionError("noise was drawn for an answer that is kept")

    names = [name for name in vars(ExactNoise) if not name.startswith("_") and name != "rehearse"]
    # A secret order is drawn for a sample, depends on no row, and is in no answer.
    return patch.multiple(ExactNoise, **{name: refuse for name in names if name not in ("simulated", "integers")})


@pytest.mark.parametrize("entry", RELEASES, ids=lambda entry: str(entry.name))
def test_a_key_is_charged_once_and_answers_again(entry: Entry) -> None:
    assert entry.public is not None
    budget = PrivacyBudget(1e6, 0.99, neighbors=entry.claim.neighbors)
    once = budget.once("2026-11-28")
    if entry.name in STREAMS:
        with pytest.raises(InvalidParameter, match="stream"):
            entry.public(entry.dataset, once)
        assert not budget.history()
        return
    _, first = entry.public(entry.dataset, once)
    spent, charges = budget.spent, len(budget.history())
    # The neighbor stands for data that have changed: neither a refusal nor the answer may say so.
    with draws():
        _, second = entry.public(entry.neighbor, once)
    np.testing.assert_array_equal(first, second)
    assert budget.spent == spent and len(budget.history()) == charges == len(budget.answers())
    for kept in budget.answers():
        assert kept.answer is not None and decode_answer(kept.answer)


def test_a_release_that_reports_more_than_it_released_is_noticed() -> None:
    from dpstats.means import ClippedMean

    class Noisy(ClippedMean):
        def _report(self, released: Any, plan: Any) -> None:
            super()._report(released, plan)
            self.mean_ = self.mean_ + np.random.default_rng().normal()

    fit = Noisy(bounds=(0, 1), budget=PrivacyBudget(1.0).once("a"))
    assert fit.fit([0.0, 1.0]).mean_ != fit.fit([0.0, 1.0]).mean_


def test_every_way_of_drawing_is_kept() -> None:
    from dpstats.release.session import Session

    drawing = {name for name, method in vars(Session).items() if callable(method) and hasattr(method, "__wrapped__")}
    assert drawing == {"add", "discover", "select", "choose", "smooth", "add_one", "respond", "coins", "shuffle"}
    streams = {"stream", "numbers"}
    assert "_obtain" in vars(OnceSession) and streams < vars(OnceSession).keys()
    others = {"open", "resume", "take_units", "check", "skip", "simulated", "is_answered", "plan", "size", "released"}
    assert {name for name in vars(Session) if not name.startswith("_")} == drawing | streams | others


def test_an_account_that_an_interrupt_left_behind_does_not_charge_again() -> None:
    from dpstats.errors import state_charges
    from dpstats.means import ClippedMean

    budget = PrivacyBudget(9.0)
    fit = ClippedMean(bounds=(0, 1), budget=budget.once("a"))

    @state_charges
    def call() -> list[float]:
        return [float(fit.fit([0.0, 1.0]).mean_[0]) for _ in range(3)]

    assert len(set(call())) == 1 and len(budget.history()) == 1
