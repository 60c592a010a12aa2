"""Rank tests in one call: what the estimators say."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.errors import InvalidData, InvalidParameter
from dpstats.privacy import PrivacyBudget
from dpstats.ranks import (
    KruskalWallisTest,
    MannWhitneyTest,
    SignedRankTest,
    kruskal_wallis,
    mann_whitney,
    wilcoxon_signed_rank,
)

RNG = np.random.default_rng(0)
X, LABELS = RNG.normal(size=80), RNG.integers(2, size=80)
GIVEN = {"epsilon": 0.7, "n_simulations": 199, "random_state": 4}


@pytest.mark.parametrize("more", [{}, {"alternative": "less"}], ids=str)
def test_one_sample_and_two_groups(more: dict[str, str]) -> None:
    assert wilcoxon_signed_rank(X, **GIVEN, **more) == SignedRankTest(**GIVEN, **more).fit(X).result_
    sizes = np.bincount(LABELS).tolist()
    for given in ({}, {"sizes": sizes}):
        found = mann_whitney(X, LABELS, groups=[0, 1], **given, **GIVEN, **more)
        assert found == MannWhitneyTest(groups=[0, 1], **given, **GIVEN, **more).fit(X, LABELS).result_
    assert found.alternative == more.get("alternative", "two-sided") and found.privacy.epsilon == 0.7


def test_several_groups_and_a_budget() -> None:
    found = kruskal_wallis(X, LABELS, groups=[0, 1], **GIVEN)
    assert found == KruskalWallisTest(groups=[0, 1], **GIVEN).fit(X, LABELS).result_
    budget = PrivacyBudget(3.0)
    wilcoxon_signed_rank(X, n_simulations=99, budget=budget)
    mann_whitney(X, LABELS, groups=[0, 1], n_simulations=99, budget=budget)
    kruskal_wallis(X, LABELS, groups=[0, 1], n_simulations=99, budget=budget)
    assert [charge.label for charge in budget.history()] == ["SignedRankTest", "MannWhitneyTest", "KruskalWallisTest"]


def test_two_samples_as_scipy_takes_them() -> None:
    x, y = X[LABELS == 0], X[LABELS == 1]
    known = MannWhitneyTest(groups=[0, 1], unknown="error", **GIVEN).fit(np.r_[x, y], np.sort(LABELS)).result_
    assert mann_whitney(x, y, **GIVEN) == known == mann_whitney(list(x), tuple(y), **GIVEN)
    sizes = (x.size, y.size)
    assert mann_whitney(x, y, sizes=sizes, **GIVEN).sizes == sizes
    pre, post = X[:40], X[40:]
    assert wilcoxon_signed_rank(pre, post, **GIVEN) == wilcoxon_signed_rank(pre - post, **GIVEN)


def test_samples_that_cannot_be_read_charge_nothing() -> None:
    budget = PrivacyBudget(3.0)
    for call in (
        lambda: mann_whitney(X, ["secret"] * 80, budget=budget),
        lambda: mann_whitney(X, np.ones((80, 2)), budget=budget),
        lambda: wilcoxon_signed_rank(X, X[:-1], budget=budget),
        lambda: wilcoxon_signed_rank(X, "secret", budget=budget),
    ):
        with pytest.raises(InvalidData) as caught:
            call()
        assert "secret" not in str(caught.value) and "must" in str(caught.value)
    with pytest.raises(InvalidParameter, match="labels must"):
        mann_whitney(X, budget=budget)
    assert budget.history() == ()


def test_functions_drop_missing_entries_as_their_estimators_do() -> None:
    x = np.random.default_rng(0).exponential(np.repeat([1.0, 2.0], 150))
    x[::7] = np.nan
    labels, options = np.repeat(["a", "b"], 150), {"n_simulations": 99, "random_state": 0}
    coded = np.where(np.isnan(x), -999.0, x)
    for test, groups in ((mann_whitney, ("a", "b")), (kruskal_wallis, ("a", "b"))):
        found = test(x, labels, groups=groups, missing="drop", **options)
        same = test(coded, labels, groups=groups, missing="drop", missing_codes=[-999], **options)
        assert found.missing and same.statistic == found.statistic
        with pytest.raises(InvalidData):
            test(x, labels, groups=groups, **options)
    assert mann_whitney(x[:150], x[150:], missing="drop", **options).missing
    assert wilcoxon_signed_rank(x[:150], x[150:], missing="drop", **options).missing
    with pytest.raises(InvalidParameter, match="missing_codes must be None with y"):
        wilcoxon_signed_rank(coded[:150], coded[150:], missing="drop", missing_codes=[-999])
