"""Contingency tables: exact counts, every container, questions to one release, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from dpstats.errors import BudgetExceeded, InvalidData, InvalidParameter
from dpstats.privacy import PrivacyBudget
from dpstats.tables import ContingencyTable

LEVELS = {"plan": ["free", "paid"], "visits": [0, 1, 2]}
ROWS = [("free", 0)] * 30 + [("free", 2)] * 10 + [("paid", 1)] * 20 + [("paid", 0)] * 5
COUNTS = [[30, 0, 10], [5, 20, 0]]
FRAME = pd.DataFrame(ROWS, columns=["plan", "visits"]).assign(name="secret")


def exact(**given: Any) -> ContingencyTable:
    """Return a table whose noise is 0 but for a probability below 1e-12 a cell."""
    return ContingencyTable(**{"levels": LEVELS, "epsilon": 60.0, **given})


@pytest.mark.parametrize(
    "X",
    [ROWS, FRAME, pl.DataFrame(ROWS, schema=["plan", "visits"], orient="row"), np.array(ROWS, dtype=object)],
    ids=["list", "pandas", "polars", "array"],
)
def test_counts_are_exact_whatever_the_container(X: Any) -> None:
    made = exact().fit(X)
    assert made.counts_.tolist() == COUNTS and made.n_features_in_ == 2
    assert list(made.feature_names_in_) == ["plan", "visits"]
    assert made.counts_.sum() == made.plan_.n_samples == 65


def test_levels_without_names() -> None:
    made = exact(levels=list(LEVELS.values())).fit(ROWS)
    assert made.counts_.tolist() == COUNTS and not hasattr(made, "feature_names_in_")
    assert made.independence([0, 1]).null == "x0, x1: independent"
    alone = exact(levels=[["free", "paid"]]).fit([plan for plan, _ in ROWS])
    assert alone.counts_.tolist() == [40, 25]
    assert alone.goodness_of_fit([0.5, 0.5], n_simulations=99).pvalue > 0.02
    with pytest.raises(InvalidParameter, match="goodness_of_fit"):
        alone.independence()


def test_three_attributes_and_their_margins() -> None:
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(2, size=400), rng.integers(3, size=400), np.zeros(400, dtype=int)])
    X[:, 2] = X[:, 0]
    made = exact(levels=[[0, 1], [0, 1, 2], [0, 1]]).fit(X)
    assert made.counts_.shape == (2, 3, 2) and made.counts_[0, :, 1].sum() == 0
    assert made.independence(n_simulations=99).pvalue == made.independence([0, 2], n_simulations=99).pvalue == 0.01
    assert made.independence([0, 1], n_simulations=99).pvalue > 0.02
    assert made.cells([2, 1]).counts.shape == (2, 3)
    assert made.difference(attributes=[0, 2]).estimate == 1.0
    with pytest.raises(InvalidParameter, match="attributes must"):
        made.difference()


def test_proportions_add_up_over_what_is_asked() -> None:
    made = exact().fit(ROWS)
    assert np.allclose(made.proportions(), np.array(COUNTS) / 65)
    assert np.allclose(made.proportions("visits"), made.proportions(1))
    assert np.allclose(made.proportions(1).sum(axis=1), 1)
    assert np.allclose(made.proportions(0).sum(axis=0), 1)
    low, high = made.confidence_interval(axis="visits")
    assert np.all((low <= made.proportions(1)) & (made.proportions(1) <= high))
    wide = made.confidence_interval(simultaneous=True)
    each = made.confidence_interval()
    assert np.all(wide.low <= each.low) and np.all(wide.high >= each.high) and wide.simultaneous
    noisy = ContingencyTable(levels=LEVELS, epsilon=0.05, random_state=3).fit(ROWS)
    assert noisy.counts_.min() < 0 <= noisy.proportions().min() and noisy.proportions().sum() == pytest.approx(1)


def test_rows_at_no_level() -> None:
    rows = [*ROWS, ("other", 0), ("free", None), ("free", 7)]
    budget = PrivacyBudget(100.0)
    with pytest.raises(InvalidData, match="declared levels only"):
        exact(unknown="error", budget=budget).fit(rows)
    assert budget.history() == ()
    made = exact().fit(rows)
    assert made.counts_.tolist() == COUNTS and made.dropped_ == 3.0
    assert np.allclose(made.proportions(), np.array(COUNTS) / 65)
    assert np.all(made.confidence_interval().low <= np.array(COUNTS) / 65)
    assert made.independence(n_simulations=99).pvalue == 0.01
    assert made.goodness_of_fit(np.full((2, 3), 1 / 6), n_simulations=99).pvalue == 0.01
    assert "Rows with an undeclared label are left out. Their noisy number is 3." in made.summary().notes
    # Expected counts add up to the rows in cells, and not to all rows.
    assert made.independence(n_simulations=99).expected.sum() == pytest.approx(65)
    assert made.goodness_of_fit(np.full((2, 3), 1 / 6), n_simulations=99).expected.sum() == pytest.approx(65)
    assert exact(levels={**LEVELS, "visits": [0, None]}).fit(rows).counts_[0, 1] == 1


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        (None, "levels must"),
        ("ab", "levels must"),
        ({}, "levels must"),
        (np.array(3), "levels must"),
        ({"a": ["x"]}, r"levels\['a'\] must have two levels"),
        ({"a": ["x", "x"]}, "distinct"),
        ([[0, 1], [1, 1.0]], "distinct"),
        ({"a": "xy"}, "sequence"),
        ([range(1001), range(1000)], "cells"),
    ],
    ids=str,
)
def test_bad_levels(levels: Any, words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        ContingencyTable(levels=levels).plan(100)


def test_bad_questions() -> None:
    made = exact().fit(ROWS)
    for call, words in (
        (lambda: made.proportions("age"), "'plan', 'visits'"),
        (lambda: made.independence(["plan"]), "two or more"),
        (lambda: made.independence(n_simulations=5), "n_simulations"),
        (lambda: made.goodness_of_fit(np.full((2, 2), 0.25)), "shape"),
        (lambda: made.goodness_of_fit(np.full((2, 3), 0.2)), "adding up"),
        (lambda: made.goodness_of_fit([[0.5, 0.6, -0.1], [0, 0, 0]]), "not negative"),
        (lambda: made.goodness_of_fit("x"), "proportions"),
        (lambda: made.confidence_interval(95), "confidence_level"),
        (lambda: made.confidence_interval(simultaneous="yes"), "simultaneous"),
        (lambda: ContingencyTable(levels=LEVELS, unknown="skip").plan(5), "unknown"),
        (lambda: ContingencyTable(levels=LEVELS).plan(5, 3), "n_features"),
    ):
        with pytest.raises(InvalidParameter, match=words):
            call()
    with pytest.raises(InvalidData, match="at least one row"):
        exact().fit([])
    with pytest.raises(InvalidParameter, match="got another at position 1"):
        exact().fit(FRAME[["plan"]])


def test_a_budget_that_cannot_pay_refuses_before_the_rows_are_read() -> None:
    with pytest.raises(BudgetExceeded):
        ContingencyTable(levels=LEVELS, budget=PrivacyBudget(0.5)).fit([("nothing", "declared")])


def test_plan_and_summary() -> None:
    plan = ContingencyTable(levels=LEVELS, unknown="error", epsilon=0.5).plan(1000)
    assert plan.cell_noise.scale == 4.0 and plan.additive[0].size == 6
    assert plan.expected_error() == pytest.approx(6 * plan.cell_noise.variance)
    assert ContingencyTable(levels=LEVELS).plan(9).additive[0].size == 7
    made = ContingencyTable(levels=LEVELS, unknown="error", random_state=0).fit(ROWS)
    text = str(made.summary())
    assert "free, 2" in text and "plan (2), visits (3)" in text and "not a private release" in text
    test = made.goodness_of_fit(np.full((2, 3), 1 / 6), n_simulations=99)
    assert test.expected.sum() == pytest.approx(65) and "99 simulated" in str(test.summary())
    assert "not a private release" in str(test.summary()) and "<table" in test._repr_html_()
    large = ContingencyTable(levels=[range(10), range(10)], random_state=0).fit([(1, 2)] * 50)
    assert "the first 60 of 100 cells" in str(large.summary())
    gaussian = ContingencyTable(levels=LEVELS, delta=1e-6, random_state=0).fit(ROWS)
    assert "Gaussian" in str(gaussian.summary()) and gaussian.independence(n_simulations=99).pvalue <= 1


def test_a_relation_of_duckdb_is_a_table_of_labels() -> None:
    import duckdb

    rows = duckdb.sql("SELECT * FROM (VALUES (1, 'x'), (0, 'y'), (1, 'x')) r(well, plan)")
    levels = {"plan": ["x", "y"], "well": [0, 1]}
    made = ContingencyTable(levels=levels, random_state=0).fit(rows)
    same = ContingencyTable(levels=levels, random_state=0).fit([("x", 1), ("y", 0), ("x", 1)])
    assert np.array_equal(made.counts_, same.counts_)


@pytest.mark.parametrize(
    ("options", "conservative"),
    [({"unknown": "error"}, True), ({}, False), ({"neighbors": "add_or_remove"}, False)],
    ids=str,
)
def test_only_intervals_with_a_public_total_are_called_conservative(
    options: dict[str, Any], conservative: bool
) -> None:
    made = ContingencyTable(levels=LEVELS, random_state=0, **options).fit(ROWS)
    for summary, expected in ((made.summary(), conservative), (made.estimates(axis="plan").summary(), False)):
        assert any("They are conservative." in note for note in summary.notes) is expected
