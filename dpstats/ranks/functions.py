"""Rank tests as single function calls, similar to scipy.stats."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpstats.data.opening import check_indexes
from dpstats.data.rows import column_of
from dpstats.errors import refuse, refuse_data
from dpstats.privacy.budget import PrivacyBudget
from dpstats.ranks.distribution_tests import DistributionTestResult, GoodnessOfFitTest, KolmogorovSmirnovTest
from dpstats.ranks.rank_tests import KruskalWallisTest, MannWhitneyTest, RankTestResult, SignedRankTest


def wilcoxon_signed_rank(
    x: Any,
    y: Any = None,
    *,
    missing: str = "error",
    missing_codes: Any = None,
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
        Private differences of pairs, or values minus a public value.
    y : sequence of the same length, optional
        Private second values of the pairs. The test then uses the differences x - y, as in scipy.stats.
    missing, missing_codes, epsilon, alternative, n_simulations, random_state, budget
        The same as in `SignedRankTest`. Codes need differences: a difference of a code is none.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.ranks import wilcoxon_signed_rank
    >>> x = np.random.default_rng(1).normal(0.0, 1.0, size=200)
    >>> wilcoxon_signed_rank(x, epsilon=1.0, random_state=0).pvalue > 0.05
    True
    """
    if y is not None and missing_codes is not None:
        allowed, remedy = "None with y", "Give the differences as x, with missing entries as NaN."
        raise refuse("missing_codes", given=missing_codes, allowed=allowed, remedy=remedy)
    test = SignedRankTest(
        missing=missing,
        missing_codes=missing_codes,
        epsilon=epsilon,
        alternative=alternative,
        n_simulations=n_simulations,
        random_state=random_state,
        budget=budget,
    )
    return test.fit(x if y is None else _subtract(x, y)).result_


def mann_whitney(
    x: Any,
    labels: Any = None,
    *,
    groups: Any = None,
    sizes: Any = None,
    missing: str = "error",
    missing_codes: Any = None,
    unknown: str = "drop",
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
    labels : sequence
        With ``groups``: the group of each row of x. Without: the second sample, as in scipy.stats. Then only the total
        number of rows of both samples is public, unless ``sizes`` are given.
    groups : pair of labels, optional
        Declared public labels. None: the arguments are two samples.
    sizes, missing, missing_codes, unknown, epsilon, alternative, n_simulations, random_state, budget
        The same as in `MannWhitneyTest`.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.ranks import mann_whitney
    >>> x = np.random.default_rng(0).exponential(np.repeat([1.0, 2.0], 150))
    >>> labels = np.repeat(["old", "new"], 150)
    >>> mann_whitney(x, labels, groups=("old", "new"), epsilon=1.0, n_simulations=999, random_state=0).pvalue < 0.01
    True
    """
    # Two samples have no other labels.
    unknown = unknown if groups is not None else "error"
    x, labels, groups = _two_samples(x, labels, groups)
    test = MannWhitneyTest(
        groups=groups,
        sizes=sizes,
        missing=missing,
        missing_codes=missing_codes,
        unknown=unknown,
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
    missing: str = "error",
    missing_codes: Any = None,
    unknown: str = "drop",
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
        Declared public labels.
    sizes, missing, missing_codes, unknown, epsilon, n_simulations, random_state, budget
        The same as in `KruskalWallisTest`.

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
        missing=missing,
        missing_codes=missing_codes,
        unknown=unknown,
        epsilon=epsilon,
        n_simulations=n_simulations,
        random_state=random_state,
        budget=budget,
    )
    return test.fit(x, labels).result_


def ks_test(
    x: Any,
    labels: Any = None,
    *,
    groups: Any = None,
    sizes: Any = None,
    statistic: str = "ks",
    missing: str = "error",
    missing_codes: Any = None,
    unknown: str = "drop",
    epsilon: float = 1.0,
    n_simulations: int = 9999,
    random_state: Any = None,
    budget: PrivacyBudget | None = None,
) -> DistributionTestResult:
    """Test privately whether two groups have the same distribution; see `KolmogorovSmirnovTest`.

    Parameters
    ----------
    x : sequence of numbers
        Private.
    labels : sequence
        With ``groups``: the group of each row of x. Without: the second sample, as in scipy.stats. Then only the total
        number of rows of both samples is public, unless ``sizes`` are given.
    groups : pair of labels, optional
        Declared public labels. None: the arguments are two samples.
    sizes, statistic, missing, missing_codes, unknown, epsilon, n_simulations, random_state, budget
        The same as in `KolmogorovSmirnovTest`.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.ranks import ks_test
    >>> x = np.random.default_rng(0).exponential(np.repeat([1.0, 2.0], 150))
    >>> labels = np.repeat(["old", "new"], 150)
    >>> ks_test(x, labels, groups=("old", "new"), epsilon=1.0, n_simulations=999, random_state=0).pvalue < 0.01
    True
    """
    # Two samples have no other labels.
    unknown = unknown if groups is not None else "error"
    x, labels, groups = _two_samples(x, labels, groups)
    test = KolmogorovSmirnovTest(
        groups=groups,
        sizes=sizes,
        statistic=statistic,
        missing=missing,
        missing_codes=missing_codes,
        unknown=unknown,
        epsilon=epsilon,
        n_simulations=n_simulations,
        random_state=random_state,
        budget=budget,
    )
    result: DistributionTestResult = test.fit(x, labels).result_
    return result


def goodness_of_fit(
    x: Any,
    *,
    distribution: Any,
    args: Any = (),
    statistic: str = "ks",
    missing: str = "error",
    missing_codes: Any = None,
    epsilon: float = 1.0,
    n_simulations: int = 9999,
    random_state: Any = None,
    budget: PrivacyBudget | None = None,
) -> DistributionTestResult:
    """Test privately whether rows have a given distribution; see `GoodnessOfFitTest`.

    Parameters
    ----------
    x : sequence of numbers
        Private.
    distribution : str or frozen distribution of scipy.stats
        Public.
    args, statistic, missing, missing_codes, epsilon, n_simulations, random_state, budget
        The same as in `GoodnessOfFitTest`.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.ranks import goodness_of_fit
    >>> x = np.random.default_rng(0).poisson(3.0, size=500)
    >>> goodness_of_fit(x, distribution="poisson", args=(2.0,), n_simulations=999, random_state=0).pvalue
    0.001
    """
    test = GoodnessOfFitTest(
        distribution=distribution,
        args=args,
        statistic=statistic,
        missing=missing,
        missing_codes=missing_codes,
        epsilon=epsilon,
        n_simulations=n_simulations,
        random_state=random_state,
        budget=budget,
    )
    result: DistributionTestResult = test.fit(x).result_
    return result


def _two_samples(x: Any, labels: Any, groups: Any) -> tuple[Any, Any, Any]:
    """Return values, labels and groups, also if labels are a second sample."""
    if groups is not None:
        return x, labels, groups
    if labels is None:
        raise refuse("labels", given=None, allowed="given: the second sample, or with groups the group of each row")
    first, second = column_of("x", x), column_of("without groups, the second sample", labels)
    return np.concatenate([first, second]), np.repeat([0, 1], [first.size, second.size]), (0, 1)


def _subtract(x: Any, y: Any) -> Any:
    check_indexes({"x": x, "y": y})
    first, second = column_of("x", x), column_of("y", y)
    if first.shape != second.shape:
        raise refuse_data("y", allowed="have as many rows as x, one per pair")
    with np.errstate(over="ignore", invalid="ignore"):
        return first - second
