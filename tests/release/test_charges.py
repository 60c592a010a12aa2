"""After a charge every error states it, keeps the releases and shows no data; before it errors are as they were."""

from __future__ import annotations

import pytest

from dpstats.errors import ChargedError, InvalidParameter, running_accounts, state_charges
from dpstats.means import AdaptiveMean, ClippedMean
from dpstats.mechanisms import AboveThreshold, LaplaceMechanism
from dpstats.privacy import Plan, PrivacyBudget, PrivacyGuarantee, Stage
from dpstats.release.noise import ExactNoise
from dpstats.release.session import Session

ROWS = [[1.0], [2.0], [4711.0]]
SUM = Stage("sum", "laplace", 1, 0.5, 10, 100.0)


class Failing(ClippedMean):
    failure: BaseException = ValueError("entry 4711")

    def _report(self, released, plan):
        raise self.failure


def fail(failure, budget, kind=Failing):
    kind.failure = failure
    with pytest.raises(BaseException) as found:  # noqa: PT011
        kind(bounds=(0, 9), epsilon=0.5, budget=budget).fit(ROWS)
    return found.value


@pytest.mark.parametrize("failure", [ValueError("entry 4711"), MemoryError(), OSError(28, "4711"), ImportError("4711")])
def test_an_error_after_the_charge_states_it_and_keeps_the_releases(failure):
    budget = PrivacyBudget(1.0, 1e-5)
    failure.__context__ = KeyError("4711")
    error = fail(failure, budget)
    assert type(error) is ChargedError and budget.spent.epsilon == 0.5
    assert "(epsilon = 0.5, delta = 0), one row replaced for 'Failing'" in str(error)
    assert type(failure).__name__ in str(error) and "4711" not in str(error)
    assert list(error.released) == ["clipped moments"] and error.released["clipped moments"]["clipped mean"].shape == (
        1,
    )
    assert error.__cause__ is None and error.__context__ is None


def test_words_of_this_package_are_kept_without_saying_that_nothing_was_charged():
    error = fail(InvalidParameter("low must be below high, got 3. Nothing was charged."), PrivacyBudget(1.0, 1e-5))
    assert str(error).startswith("low must be below high, got 3. The charge stands: ")


def test_an_interrupt_stays_one_and_has_a_note():
    interrupt = KeyboardInterrupt()
    interrupt.__context__ = KeyError("4711")
    error = fail(interrupt, PrivacyBudget(1.0, 1e-5))
    assert error is interrupt and error.__context__ is None
    (note,) = error.__notes__
    assert note.startswith("The charge stands: (epsilon = 0.5") and list(error.released) == ["clipped moments"]


def test_without_a_charge_an_error_is_as_it_was():
    failure, before = ValueError("words"), running_accounts()
    assert fail(failure, None) is failure
    assert running_accounts() == before


def test_an_interrupted_charge_may_have_been_stored(monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    budget = PrivacyBudget(1.0)
    monkeypatch.setattr(budget._store, "charge", interrupted)
    with pytest.raises(KeyboardInterrupt) as found:
        LaplaceMechanism(1.0, 0.5, budget=budget).release(1.0)
    assert found.value.__notes__[0].startswith("An interrupted charge may have been stored: (epsilon = 0.5")


def test_a_call_states_the_charges_of_the_calls_within_it():
    budget = PrivacyBudget(1.0)

    @state_charges
    def report():
        LaplaceMechanism(1.0, 0.25, budget=budget).release(1.0)
        LaplaceMechanism(1.0, 0.5, budget=budget).release(1.0)
        raise KeyError(4711)

    with pytest.raises(ChargedError, match=r"epsilon = 0.25, .*; \(epsilon = 0.5, ") as found:
        report()
    assert list(found.value.released) == ["value"] and "4711" not in str(found.value)


def test_a_refused_charge_is_not_stated():
    budget = PrivacyBudget(0.25)
    made = Plan((SUM,), PrivacyGuarantee(0.5))
    seen = []

    @state_charges
    def release():
        session = Session(made, ExactNoise(), budget)
        try:
            session.open()
        except Exception as error:
            seen.append(error)
        raise ValueError("words")

    with pytest.raises(ValueError, match="words"):
        release()
    assert "Nothing was charged" in str(seen[0])


def test_a_count_that_was_charged_is_stated_where_the_release_cannot_follow():
    budget = PrivacyBudget(10.0, 1e-5)
    rows = [[1.0]] * 3 + [[float("nan")]] * 197
    with pytest.raises(ChargedError, match=r"more complete rows: .* The charge stands: ") as found:
        AdaptiveMean(bound=9.0, std=1.0, missing="drop", epsilon=0.5, budget=budget).fit(rows)
    assert list(found.value.released) == ["number of complete rows"] and 0 < budget.spent.epsilon < 0.5


def test_the_first_question_of_a_stream_states_its_charge(monkeypatch):
    def broken(*arguments):
        raise MemoryError

    budget = PrivacyBudget(1.0)
    stream = AboveThreshold(1e9, 1.0, budget=budget)
    with monkeypatch.context() as patch:
        patch.setattr("dpstats.release.session.Stream.ask", broken)
        with pytest.raises(ChargedError, match=r"MemoryError.*Nothing was released"):
            stream.query(1.0)
        with pytest.raises(MemoryError):
            stream.query(1.0)
    assert stream.query(1.0) is False and budget.spent.epsilon == 1.0
