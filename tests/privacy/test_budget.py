"""The budget: exact decimals, refusals that charge nothing, sharing, threads."""

import contextlib
import copy
import math
import os
import pickle
import threading
import time
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from dpstats.errors import BudgetExceeded, DPStatsError, InvalidParameter
from dpstats.means import ClippedMean
from dpstats.privacy import Neighbors, PrivacyBudget, PrivacyGuarantee

# Fixed examples, no clock: the same run every time.
FIXED = settings(derandomize=True, deadline=None, database=None, max_examples=60)


def test_a_tenth_and_two_tenths_fit_three_tenths():
    assert 0.1 + 0.2 > 0.3  # in floating point they do not
    budget = PrivacyBudget(0.3)
    budget.charge(PrivacyGuarantee(0.1))
    budget.charge(PrivacyGuarantee(0.2))
    assert budget.remaining == PrivacyGuarantee(0.0)
    assert budget.spent == PrivacyGuarantee(0.3)


def test_ten_tenths_fit_one_and_the_eleventh_does_not():
    budget = PrivacyBudget(1.0, 1e-5)
    for _ in range(10):
        budget.charge(PrivacyGuarantee(0.1, 1e-6))
    assert budget.spent == PrivacyGuarantee(1.0, 1e-5)
    with pytest.raises(BudgetExceeded):
        budget.charge(PrivacyGuarantee(1e-15))


@FIXED
@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=30), st.integers(1, 10**7))
def test_charges_fit_exactly_when_their_decimals_do(charges, total):
    # Millionths: k * 1e-6 written as a decimal; the sum in integers decides.
    budget, spent = PrivacyBudget(float(f"{total}e-6")), 0
    for charge in charges:
        guarantee = PrivacyGuarantee(float(f"{charge}e-6"))
        if spent + charge <= total:
            budget.charge(guarantee)
            spent += charge
        else:
            with pytest.raises(BudgetExceeded):
                budget.charge(guarantee)
    assert Fraction(repr(budget.spent.epsilon)) == Fraction(spent, 10**6)
    assert Fraction(repr(budget.remaining.epsilon)) == Fraction(total - spent, 10**6)


@pytest.mark.parametrize("asked", [PrivacyGuarantee(0.5001), PrivacyGuarantee(0.1, 2e-6), PrivacyGuarantee(9, 0.5)])
def test_a_refusal_charges_nothing(asked):
    budget = PrivacyBudget(1.0, 2e-6)
    budget.charge(PrivacyGuarantee(0.5, 1e-6), label="first")
    before = budget.spent, budget.remaining, budget.history()
    message = (
        r"Requested .*; already spent \(epsilon = 0.5, delta = 1e-06\) of \(epsilon = 1, delta = 2e-06\) "
        r"by method 'basic', and the largest single charge that fits is \(epsilon = 0.5, delta = 1e-06\)\."
        "( Too little delta remains.*)? Nothing was charged"
    )
    with pytest.raises(BudgetExceeded, match=message):
        budget.charge(asked)
    with pytest.raises(BudgetExceeded, match=message):
        budget.check(asked)
    assert (budget.spent, budget.remaining, budget.history()) == before


def test_check_charges_nothing_when_it_fits():
    budget = PrivacyBudget(1.0)
    budget.check(PrivacyGuarantee(1.0))
    assert budget.history() == () and budget.spent == PrivacyGuarantee(0.0)


def test_history_keeps_order_labels_and_times():
    budget, start = PrivacyBudget(1.0, 1e-6), time.time()
    budget.charge(PrivacyGuarantee(0.25), label="age")
    budget.charge(PrivacyGuarantee(0.5, 1e-6), label="income")
    first, second = budget.history()
    assert (first.label, first.guarantee) == ("age", PrivacyGuarantee(0.25))
    assert (second.label, second.guarantee) == ("income", PrivacyGuarantee(0.5, 1e-6))
    assert start <= first.time <= second.time <= time.time()
    assert repr(budget) == "PrivacyBudget(epsilon=1, delta=1e-06, method='basic', spent=(0.75, 1e-06))"


def test_a_plan_is_charged_its_guarantee():
    budget = PrivacyBudget(1.0, 1e-6)
    plan = ClippedMean(epsilon=0.5, delta=1e-6, clip=1.0).plan(1000, 60)  # Gaussian noise
    budget.charge(plan)
    assert budget.spent == plan.guarantee == PrivacyGuarantee(0.5, 1e-6)


def test_remaining_can_be_charged_whole():
    budget = PrivacyBudget(1.0, 1e-5)
    budget.charge(PrivacyGuarantee(0.3, 3e-6))
    assert budget.remaining == PrivacyGuarantee(0.7, 7e-6)
    budget.charge(budget.remaining)
    assert budget.remaining == PrivacyGuarantee(0.0, 0.0)


def test_remaining_can_be_charged_whole_where_a_float_cannot_hold_it():
    # Left is 1 - 1e-20, whose nearest float is 1: the largest charge that fits is the float below.
    budget = PrivacyBudget(1.0)
    budget.charge(PrivacyGuarantee(1e-20))
    budget.charge(budget.remaining)


def test_spent_is_never_below_the_sum():
    budget = PrivacyBudget(2.0)
    budget.charge(PrivacyGuarantee(1.0))
    budget.charge(PrivacyGuarantee(1e-20))
    assert Fraction(repr(budget.spent.epsilon)) >= 1 + Fraction(1, 10**20)


class _Hesitant(PrivacyBudget):
    """Waits between the check and the charge, so that a missing lock is noticed."""

    def _admit(self, cost, spent):
        after = super()._admit(cost, spent)
        time.sleep(1e-3)
        return after


def _successes(budget, threads, attempts):
    barrier, successes = threading.Barrier(threads), []

    def spend():
        barrier.wait()
        for _ in range(attempts):
            with contextlib.suppress(BudgetExceeded):
                budget.charge(PrivacyGuarantee(0.1, 1e-7))
                successes.append(1)

    workers = [threading.Thread(target=spend) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return len(successes)


@pytest.mark.parametrize("kind", [PrivacyBudget, _Hesitant])
def test_threads_never_overspend(kind):
    # 16 threads try 10 charges of 0.1 each on a budget of 5: exactly 50 of 160 fit.
    budget = kind(5.0, 1e-3)
    assert _successes(budget, threads=16, attempts=10) == 50
    assert len(budget.history()) == 50
    assert budget.spent == PrivacyGuarantee(5.0, 5e-6)


class _Meeting(PrivacyBudget):
    """Waits after the check until another thread has checked, too."""

    meeting = threading.Barrier(2)

    def _admit(self, cost, spent):
        after = super()._admit(cost, spent)
        self.meeting.wait(timeout=30)
        return after


def test_threads_overspend_without_the_lock():
    # Power control: the same count notices when check and charge are not one step. Both threads check the
    # last tenth before either charges it.
    budget = _Meeting(0.1, 1e-3)
    budget._store._lock = contextlib.nullcontext()
    assert _successes(budget, threads=2, attempts=1) == 2


def test_clones_and_copies_share_one_budget():
    budget = PrivacyBudget(1.0)
    estimator = ClippedMean(clip=1.0, budget=budget)
    assert clone(estimator).budget is budget
    assert copy.copy(budget) is budget and copy.deepcopy(budget) is budget
    assert copy.deepcopy(estimator).budget is budget
    assert clone(budget) is budget
    copy.deepcopy([budget, budget])[0].charge(PrivacyGuarantee(1.0))
    assert budget.remaining == PrivacyGuarantee(0.0)


def test_pickling_is_refused():
    with pytest.raises(DPStatsError, match="cannot be pickled"):
        pickle.dumps(PrivacyBudget(1.0))
    # An estimator leaves it behind: tests/release/test_saved.py.


def test_simulated_releases_are_refused():
    budget = PrivacyBudget(1.0)
    with pytest.raises(InvalidParameter, match="simulated"):
        budget.charge(PrivacyGuarantee(0.1, simulated=True))
    assert budget.history() == ()


def test_another_relation_is_refused():
    charge = PrivacyGuarantee(0.1, neighbors=Neighbors.ADD_OR_REMOVE_ONE)
    budget = PrivacyBudget(1.0)
    with pytest.raises(InvalidParameter, match="REPLACE_ONE, got ADD_OR_REMOVE_ONE"):
        budget.charge(charge)
    assert budget.history() == ()
    other = PrivacyBudget(1.0, neighbors=Neighbors.ADD_OR_REMOVE_ONE)
    other.charge(charge)
    assert other.spent == charge


@pytest.mark.parametrize("item", [0.1, "0.1", None, (0.1, 0.0)])
def test_a_charge_is_a_guarantee_or_a_plan(item):
    with pytest.raises(InvalidParameter, match="charge must"):
        PrivacyBudget(1.0).charge(item)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": float("inf")}, "epsilon"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta"),
        ({"epsilon": 1.0, "delta": -0.1}, "delta"),
        ({"epsilon": 1.0, "method": "hope"}, "method"),
        ({"epsilon": 1.0, "neighbors": "replace"}, "neighbors"),
    ],
)
def test_bad_parameters_are_named(arguments, name):
    with pytest.raises(InvalidParameter, match=f"^{name} must be"):
        PrivacyBudget(**arguments)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_copy_cannot_be_spent():
    budget = PrivacyBudget(1.0)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            budget.charge(PrivacyGuarantee(1.0))
            os.write(write, b"charged")
        except DPStatsError:
            os.write(write, b"refused")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 100) == b"refused"
    budget.charge(PrivacyGuarantee(1.0))


def test_a_budget_and_a_guarantee_have_a_table_and_html() -> None:
    budget = PrivacyBudget(1.0, 1e-6)
    budget.charge(PrivacyGuarantee(0.25), label="mean <age>")
    text, page = str(budget.summary()), budget._repr_html_()
    for part in ("Privacy budget", "mean <age>", "0.25", "Spent:", "basic", "(epsilon = 0.75, delta = 1e-06)"):
        assert part in text
    assert "mean &lt;age&gt;" in page and "mean <age>" not in page and "<table" in page
    guarantee = PrivacyGuarantee(1.0, 1e-6)._repr_html_()
    assert "one row replaced" in guarantee and "2.72 times as probable" in guarantee
    assert guarantee.count("<tr>") == 2  # the header and one row


def test_a_label_says_what_charges_are_for() -> None:
    budget = PrivacyBudget(1.0)
    report = budget.labelled("report").labelled("a.csv (age)")
    ClippedMean(bounds=(0, 1), epsilon=0.25, budget=report).fit([[0.0], [1.0]])
    budget.charge(PrivacyGuarantee(0.25))
    assert [entry.label for entry in budget.history()] == ["report: a.csv (age): ClippedMean", ""]
    assert report.remaining == budget.remaining and report.remaining.epsilon == 0.5
    assert clone(report) is report


@pytest.mark.parametrize(("method", "delta"), [("basic", 0.0), ("gdp", 1e-6), ("zcdp", 1e-6)])
def test_what_would_remain_is_what_remains(method: str, delta: float) -> None:
    budget, guarantee = PrivacyBudget(1.0, delta, method=method), PrivacyGuarantee(0.1)
    expected = budget.remaining_after(guarantee)
    assert not budget.history()
    budget.charge(guarantee)
    assert budget.remaining == expected
    with pytest.raises(BudgetExceeded, match="Nothing was charged"):
        budget.remaining_after(PrivacyGuarantee(0.95))


def charge_often(budget, guarantee, times):
    for _ in range(times):
        budget.charge(guarantee)


def test_equal_shares_use_a_budget_up():
    for total, spent in ((1.0, 0.0), (0.3, 0.1), (7.7, 1.1)):
        for times in range(1, 101):
            budget = PrivacyBudget(total, 1e-6)
            budget.charge(PrivacyGuarantee(spent))
            share = budget.share(times)
            charge_often(budget, share, times)
            # The next larger float would not have fitted.
            more = PrivacyBudget(total)
            more.charge(PrivacyGuarantee(spent))
            with pytest.raises(BudgetExceeded):
                charge_often(more, PrivacyGuarantee(math.nextafter(share.epsilon, math.inf)), times)


@pytest.mark.parametrize("times", [1, 2, 7, 49])
def test_equal_shares_by_other_methods(times):
    gdp, zcdp = (PrivacyBudget(1.0, 1e-6, method=method) for method in ("gdp", "zcdp"))
    first, second = gdp.share(times), zcdp.share(times)
    for _ in range(times):
        gdp.charge(ClippedMean(clip=1.0, epsilon=first.epsilon, delta=first.delta, budget=gdp).plan(100, 2))
        zcdp.charge(second)
    assert gdp.remaining.epsilon < 1e-3 and zcdp.remaining.epsilon < 1e-3
    with pytest.raises(InvalidParameter, match="times must"):
        PrivacyBudget(1.0, method="pld").share(2)
    with pytest.raises(InvalidParameter, match="times must"):
        gdp.share(0)


def test_a_refusal_tells_the_charge_from_what_fits():
    budget = PrivacyBudget(1.0)
    words = r"Requested \(epsilon = 0.0101010101010101, .* is \(epsilon = 0.01010101010101,"
    with pytest.raises(BudgetExceeded, match=words):
        charge_often(budget, PrivacyGuarantee(1 / 99), 99)
