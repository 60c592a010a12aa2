"""What all answers to workloads share: what is asked, of what, and refusals before anything is charged."""

from __future__ import annotations

import pickle
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from dpstats.errors import BudgetExceeded, InvalidData, InvalidParameter
from dpstats.privacy import PrivacyBudget
from dpstats.queries import Domain, LinearQueries, MarginalMWEM, WorkloadAnswers

DOMAIN = Domain({"a": ["x", "y"], "b": 3})
FRAME = pd.DataFrame({"b": [0, 1, 2, 2], "a": ["x", "x", "y", "x"], "more": 1})

RELATION = duckdb.sql("SELECT * FROM (VALUES (0, 'x'), (1, 'x'), (2, 'y'), (2, 'x')) r(b, a)")


def test_rows_of_a_frame_or_their_counts_make_the_same_fit() -> None:
    given: dict[str, Any] = {"domain": DOMAIN, "workload": 1, "random_state": 3}
    first = WorkloadAnswers(**given).fit(FRAME)
    counts = DOMAIN.histogram(FRAME)
    tables = LinearQueries.marginals(DOMAIN, 1)
    for made in (
        WorkloadAnswers(**given).fit(counts),
        WorkloadAnswers(workload=tables, random_state=3).fit(counts),
        WorkloadAnswers(**{**given, "domain": {"a": ["x", "y"], "b": 3}}).fit(FRAME),
        WorkloadAnswers(**given).fit(
            duckdb.sql("SELECT * FROM (VALUES (0, 'x'), (1, 'x'), (2, 'y'), (2, 'x')) r(b, a)")
        ),
    ):
        assert np.array_equal(made.linear_, first.linear_)
        assert made.feature_names_in_.tolist() == ["a", "b"] and made.n_features_in_ == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"workload": 2}, "domain must be declared for tables of attributes"),
        ({"domain": DOMAIN, "workload": 3}, "workload must be an integer at least 1 and at most 2, got 3"),
        ({"domain": DOMAIN, "workload": LinearQueries.prefixes(5)}, "on the domain's 6 cells, got queries on 5"),
        ({"domain": DOMAIN, "delta": 0.0}, "delta must be greater than 0"),
        ({"domain": DOMAIN, "epsilon": -1}, "epsilon must be"),
        ({"domain": 3, "workload": 1}, "attributes must be declared"),
    ],
)
def test_bad_parameters_are_refused(given: dict[str, Any], message: str) -> None:
    for kind in (WorkloadAnswers, MarginalMWEM):
        budget = PrivacyBudget(10.0, 1e-3)
        with pytest.raises(InvalidParameter, match=message):
            kind(**given, budget=budget).fit(FRAME)
        assert budget.history() == ()
    with pytest.raises(InvalidParameter, match="n_features must"):
        WorkloadAnswers(domain=DOMAIN).plan(10, 3)


@pytest.mark.parametrize(
    "other",
    [
        Domain({"b": 3, "a": ["x", "y"]}),
        Domain({"a": 3, "b": 2}),
        Domain({"a": ["y", "x"], "b": 3}),
        Domain({"a": ["x", "y"], "c": 3}),
    ],
)
def test_a_workload_is_of_the_same_domain(other: Domain) -> None:
    # As many cells, and others: answers would have been of the wrong attributes.
    for kind in (WorkloadAnswers, MarginalMWEM):
        budget = PrivacyBudget(10.0, 1e-3)
        made = kind(domain=DOMAIN, workload=LinearQueries.marginals(other, 1), budget=budget)
        with pytest.raises(InvalidParameter, match="workload must"):
            made.fit(FRAME)
        assert budget.history() == ()
    again = LinearQueries.marginals(Domain({"a": ["x", "y"], "b": 3}), 1)
    fitted = WorkloadAnswers(domain=DOMAIN, workload=again, random_state=0).fit(FRAME)
    with pytest.raises(InvalidParameter, match="queries must"):
        fitted.predict(LinearQueries.marginals(other, 1))


def test_what_cannot_be_paid_is_refused_before_the_rows_are_read() -> None:
    budget = PrivacyBudget(0.5, 1e-3)
    with pytest.raises(BudgetExceeded):
        WorkloadAnswers(domain=DOMAIN, epsilon=1.0, budget=budget).fit(FRAME)
    budget = PrivacyBudget(1.0, 1e-3)
    with pytest.raises(InvalidData, match="declared levels only"):
        WorkloadAnswers(domain=DOMAIN, budget=budget).fit([("x", 7)])
    assert budget.history() == ()


def test_other_queries_are_answered_by_the_same_distribution() -> None:
    made = WorkloadAnswers(domain=DOMAIN, workload=1, epsilon=50.0, error="max", random_state=0).fit(FRAME)
    assert made.predict() == pytest.approx([0.75, 0.25, 0.25, 0.25, 0.5], abs=0.2)
    both = made.predict([("a", "b")])
    assert both.shape == (6,) and both.sum() == pytest.approx(1.0)
    assert made.predict(LinearQueries.prefixes(6))[-1] == pytest.approx(1.0)


def test_fits_are_copied_and_pickled_with_their_answers() -> None:
    for made in (WorkloadAnswers(domain=DOMAIN, random_state=0), MarginalMWEM(domain=DOMAIN, random_state=0)):
        made.fit(FRAME)
        again = pickle.loads(pickle.dumps(made))
        assert np.array_equal(again.predict(), made.predict()) and str(again.summary()) == str(made.summary())
        assert clone(made).get_params().keys() == made.get_params().keys()


def test_counts_of_a_large_domain_are_not_read_as_rows() -> None:
    # More cells than a distribution is fitted on: tables are made without the whole one.
    domain = Domain([3] + [2] * 19)
    assert domain.size > 2**20
    counts = np.zeros(domain.size, np.int64)
    counts[[0, 1, domain.size // 3, domain.size - 1]] = 4, 2, 3, 1
    for tables in ([("x0",)], [("x0", "x19")]):
        queries = LinearQueries.marginals(domain, tables)
        for given in ({"domain": domain, "workload": tables}, {"workload": queries}):
            made = WorkloadAnswers(**given, epsilon=1e6, random_state=0).fit(counts)
            assert made.plan_.n_samples == 10
            assert made.linear_ * 10 == pytest.approx(queries.answers(counts), abs=0.1)


@pytest.mark.parametrize("d", [1, 3])
def test_a_table_has_as_many_attributes_as_the_domain(d: int) -> None:
    with pytest.raises(InvalidParameter, match="n_features must"):
        WorkloadAnswers(domain=DOMAIN, workload=1).plan(100, d)
