"""Rank tests in one call each, as scipy.stats has them."""

from __future__ import annotations

from typing import Any

from dpstats.privacy.budget import PrivacyBudget
from dpstats.ranks.rank_tests import KruskalWallisTest, MannWhitneyTest, SignedRankTest
from dpstats.ranks.result import RankTestResult


def wilcoxon_signed_rank(
    x: Any,
    *,
    epsilon: float = 1.0,
    alternative: str = "two-sided",
    n_simulations: int = 9999,
    random_state: Any = None,
    budget: PrivacyBudget | None = None,
) -> RankTestResult:
    """Test privately whether differences are symmetric about 0; see `SignedRankTest`.

    Parameters
    ----------
    x : sequence of numbers
        Private differences of pairs, or values less a public one.
    epsilon, alternative, n_simulations, random_state, budget
        As for `SignedRankTest`.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.ranks import wilcoxon_signed_rank
    >>> x = np.random.default_rng(1).normal(0.0, 1.0, size=200)
    >>> wilcoxon_signed_rank(x, epsilon=1.0, random_state=0).pvalue > 0.05
    True
    """
    test = SignedRankTest(
        epsilon=epsilon,
        alternative=alternative,
        n_simulations=n_simulations,
        random_state=random_state,
        budget=budget,
    )
    return test.fit(x).result_


def mann_whitney(
    x: Any,
    labels: Any,
    *,
    groups: Any,
    sizes: Any = None,
    epsilon: float = 1.0,
    alternative: str = "two-sided",
    n_simulations: int = 9999,
    random_state: Any = None,
    budget: PrivacyBudget | None = None,
) -> RankTestResult:
    """Test privately whether one of two groups tends to larger values than the other; see `MannWhitneyTest`.

    Parameters
    ----------
    x : sequence of numbers
        Private.
    labels : sequence of the same length
        The group of each row.
    groups : pair of labels
        Public and declared.
    sizes, epsilon, alternative, n_simulations, random_state, budget
        As for `MannWhitneyTest`.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.ranks import mann_whitney
    >>> x = np.random.default_rng(0).exponential(np.repeat([1.0, 2.0], 150))
    >>> labels = np.repeat(["old", "new"], 150)
    >>> mann_whitney(x, labels, groups=("old", "new"), epsilon=1.0, n_simulations=999, random_state=0).pvalue < 0.01
    True
    """
    test = MannWhitneyTest(
        groups=groups,
        sizes=sizes,
        epsilon=epsilon,
        alternative=alternative,
        n_simulations=n_simulations,
        random_state=random_state,
        budget=budget,
    )
    return test.fit(x, labels).result_


def kruskal_wallis(
    x: Any,
    labels: Any,
    *,
    groups: Any,
    sizes: Any = None,
    epsilon: float = 1.0,
    n_simulations: int = 9999,
    random_state: Any = None,
    budget: PrivacyBudget | None = None,
) -> RankTestResult:
    """Test privately whether any of several groups tends to larger values than others; see `KruskalWallisTest`.

    Parameters
    ----------
    x : sequence of numbers
        Private.
    labels : sequence of the same length
        The group of each row.
    groups : sequence of labels
        Public and declared.
    sizes, epsilon, n_simulations, random_state, budget
        As for `KruskalWallisTest`.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.ranks import kruskal_wallis
    >>> x = np.random.default_rng(0).exponential(np.repeat([1.0, 2.0, 3.0], 150))
    >>> labels = np.repeat(["a", "b", "c"], 150)
    >>> kruskal_wallis(x, labels, groups=("a", "b", "c"), epsilon=1.0, n_simulations=999, random_state=0).pvalue < 0.01
    True
    """
    test = KruskalWallisTest(
        groups=groups,
        sizes=sizes,
        epsilon=epsilon,
        n_simulations=n_simulations,
        random_state=random_state,
        budget=budget,
    )
    return test.fit(x, labels).result_
