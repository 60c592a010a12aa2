"""Comparisons of groups in a table: what they compare, and what they refuse."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dpstats.errors import InvalidParameter
from dpstats.tables import ContingencyTable
from tests.tables.test_contingency import ROWS, exact


def test_effects_compare_what_is_asked() -> None:
    made = exact().fit(ROWS)
    found = made.difference(outcome=0)
    assert found.estimate == pytest.approx(5 / 25 - 30 / 40) and "visits = 0" in found.estimand
    assert made.difference(groups=("free", "paid"), outcome=0).estimate == pytest.approx(-found.estimate)
    assert made.risk_ratio(outcome=0).estimate == pytest.approx(1 / 3.75)
    assert made.odds_ratio(outcome=0).estimate == pytest.approx(0.25 / 3)
    assert made.cohens_h(outcome=0).estimate == pytest.approx(2 * (np.arcsin(0.2**0.5) - np.arcsin(0.75**0.5)))
    by_visits = made.difference(groups=(0, 1), outcome="free", attributes=("visits", "plan"))
    assert by_visits.estimate == pytest.approx(30 / 35)
    assert "p-value" in str(found.summary())


def test_a_number_needed_to_treat_is_the_reciprocal_of_a_difference() -> None:
    made = exact().fit(ROWS)
    assert made.number_needed_to_treat(outcome=0).estimate == pytest.approx(1 / (5 / 25 - 30 / 40))


def test_bad_comparisons_are_refused() -> None:
    made = exact().fit(ROWS)
    for call, words in (
        (lambda: made.difference(), "groups and outcome must"),
        (lambda: made.difference(groups=("free", "free"), outcome=0), "different"),
        (lambda: made.difference(groups="free", outcome=0), "pair"),
        (lambda: made.difference(outcome=5), "outcome must"),
        (lambda: made.difference(outcome=0, attributes=("plan",)), "attributes must"),
        (lambda: made.homogeneity("ratio", strata="plan"), "measure"),
        (lambda: made.homogeneity(strata=None), "strata must"),
    ):
        with pytest.raises(InvalidParameter, match=words):
            call()


def test_an_effect_without_an_estimate_says_why() -> None:
    rows = pd.DataFrame({"g": ["a"] * 60, "y": ["no", "yes"] * 30})
    made = [
        ContingencyTable(levels=[["a", "b"], ["no", "yes"]], epsilon=1.0, random_state=seed).fit(rows)
        for seed in range(12)
    ]
    asked = [found for table in made for found in (table.difference(), table.odds_ratio(), table.trend())]
    unknown = [bool(np.isnan(found.estimate)) for found in asked]
    assert any(unknown) and not all(unknown)
    assert ["Not estimated" in " ".join(str(found).split()) for found in asked] == unknown


def test_the_first_level_is_the_reference_as_in_regressions() -> None:
    # Public rows: 30 of 100 in "a" and 60 of 100 in "b" have the outcome.
    rows = pd.DataFrame({"g": ["a"] * 100 + ["b"] * 100, "y": [1] * 30 + [0] * 70 + [1] * 60 + [0] * 40})
    made = ContingencyTable(levels={"g": ["a", "b"], "y": [0, 1]}, epsilon=1e6, random_state=0).fit(rows)
    assert made.difference().estimate == pytest.approx(0.6 - 0.3, abs=1e-3)
    assert made.risk_ratio().estimate == pytest.approx(2.0, rel=1e-2)
    assert made.odds_ratio().estimate == pytest.approx((60 / 40) / (30 / 70), rel=1e-2)
    assert made.trend().estimate == pytest.approx(0.3, abs=1e-3)
    # Named groups stay as they are given: the first against the second.
    assert made.difference(("a", "b"), 1).estimate == pytest.approx(-0.3, abs=1e-3)


def test_pairs_of_groups_are_compared_together() -> None:
    rng = np.random.default_rng(0)
    arms = rng.choice(["control", "low", "high"], 3000)
    rows = np.array([arms, (rng.random(3000) < np.where(arms == "high", 0.6, 0.4)).astype(int)], dtype=object).T
    table = ContingencyTable(levels=[["control", "low", "high"], [0, 1]], random_state=0).fit(rows)
    for measure, single in (
        ("difference", table.difference),
        ("risk ratio", table.risk_ratio),
        ("odds ratio", table.odds_ratio),
    ):
        found = table.pairwise(measure, "control")
        pairs = [single((arm, "control")) for arm in ("low", "high")]
        assert found.estimate.tolist() == [one.estimate for one in pairs]
        plain = np.array([one.pvalue for one in pairs])
        np.testing.assert_allclose(found.pvalue, np.maximum.accumulate(np.sort(plain) * [2, 1])[::-1])
        assert found.statistic == pytest.approx([one.statistic for one in pairs])
        for j, one in enumerate(pairs):
            low, high = found.confidence_interval()
            assert (low[j], high[j]) == pytest.approx(tuple(one.confidence_interval(0.975)))
    assert table.pairwise().names == ("control - low", "control - high", "low - high")
    assert table.pairwise(outcome=0).estimate == pytest.approx(-table.pairwise().estimate)
    for call, wrong in (
        (lambda: table.pairwise("ratio"), "measure"),
        (lambda: table.pairwise(reference="drug"), "reference"),
        (lambda: table.pairwise(outcome=2), "outcome"),
        (lambda: ContingencyTable(levels=[["a"], [0, 1]], random_state=0).fit([["a", 1]] * 9).pairwise(), "levels"),
    ):
        with pytest.raises(InvalidParameter, match=wrong):
            call()
