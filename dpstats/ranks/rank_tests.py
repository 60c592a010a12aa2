"""Private rank tests: Wilcoxon's signed rank, Mann and Whitney's, Kruskal and Wallis's.

Proof: docs/proofs/rank-tests.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dpstats.data.parameters import check_choice, check_integer, check_real, check_simulations
from dpstats.data.rows import Rows
from dpstats.data.schema import Categories, Column, Schema
from dpstats.data.undeclared import LEFT_OUT, refuse_undeclared
from dpstats.errors import refuse, refuse_data
from dpstats.inference.estimates import Estimates
from dpstats.inference.noisy_counts import CountNoise
from dpstats.inference.reports import SIMULATED
from dpstats.inference.results import HasResult, HypothesisTest, Summary, about_missing, significant
from dpstats.privacy.budget import PrivacyBudget
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan
from dpstats.ranks.statistics import MiddleRankSum, RankSum, balanced, middle_rank_sum, superiority
from dpstats.release.additive import Integers, additive_stages
from dpstats.release.estimator import PrivateEstimator, parameters, plan_on_sample
from dpstats.release.session import Released

# Results


@dataclass(frozen=True, slots=True)
class RankTestResult(HypothesisTest):
    """Result of a private rank test.

    Attributes
    ----------
    test : str
        Name of the test.
    statistic : float
        Released statistic including noise, in ranks.
    pvalue : float
        (1 + #{simulated at least as extreme}) / (n_simulations + 1), for the noisy statistic.
    alternative : str
        Alternative hypothesis.
    null : str
        Null hypothesis as text.
    n_samples : int
        Public number of rows in the test.
    sizes : tuple of int or None
        Sizes of the groups, if they are public.
    noise_std : float
        Standard deviation of the noise in the statistic.
    privacy : PrivacyGuarantee
        Guarantee of the release.
    n_simulations : int
        Number of simulations of the null distribution.
    missing : str
        Treatment of missing entries as text. Empty if they raise an error.
    released_sizes : pair of float, or None
        Noisy sizes of two groups with private sizes, where they are released.
    sizes_std : float
        Standard deviation of their noise.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.ranks import wilcoxon_signed_rank
    >>> x = np.random.default_rng(0).normal(0.5, 1.0, size=300)
    >>> result = wilcoxon_signed_rank(x, epsilon=1.0, n_simulations=999, random_state=0)
    >>> result.test, result.pvalue < 0.01
    ('Signed-rank test', True)
    """

    _numbers: ClassVar[tuple[str, ...]] = ("statistic", "noise_std", "pvalue")

    test: str
    statistic: float
    pvalue: float
    alternative: str
    null: str
    n_samples: int
    sizes: tuple[int, ...] | None
    noise_std: float
    privacy: PrivacyGuarantee
    n_simulations: int
    missing: str = ""
    released_sizes: tuple[float, float] | None = None
    sizes_std: float = 0.0

    def summary(self) -> Summary:
        """Return a table. It prints as text, and shows as HTML in a notebook."""
        notes = [
            f"The p-value accounts for sampling and noise, by {self.n_simulations:,} simulations of the release. It is "
            "exact without ties. With ties it is mostly conservative, except for few rows at a large epsilon."
        ]
        if self.sizes is not None:
            notes.append("The group of every row is public. Only its value is protected.")
        elif self.released_sizes is not None:
            notes.append(
                "The group sizes are private. The p-value is the largest over all sizes near the released ones."
            )
        elif self.test != "Signed-rank test":
            notes.append(
                "The group sizes are private, so the p-value is for equal sizes and conservative for others. If the "
                "sizes are public, declare them: unequal groups then have smaller p-values."
            )
        numbers = significant(self.statistic, self.noise_std), significant(self.noise_std)
        row = (self.test, *numbers, f"{self.pvalue:.4g}")
        columns = ["", "statistic", "noise sd", "p-value"]
        return summarize(self, [("Alternative", self.alternative)], columns, row, notes)


def summarize(
    result: Any, facts: list[tuple[str, str]], columns: list[str], row: tuple[str, ...], notes: list[str]
) -> Summary:
    """Return the table of a test with the facts and the notes that rank tests and tests of distributions share."""
    if result.sizes:
        sizes = [f"{', '.join(map(str, result.sizes))} (public)"]
    else:
        about = ", ".join(significant(size, result.sizes_std) for size in result.released_sizes or ())
        sizes = [f"{about} (noise sd {significant(result.sizes_std)})"] if about else []
    facts = [
        ("Null hypothesis", result.null),
        *facts,
        ("Rows", f"{result.n_samples:,} (public)"),
        *[("Group sizes", text) for text in sizes],
        ("Privacy", str(result.privacy)),
    ]
    notes = [*notes, *filter(None, [result.missing]), *[SIMULATED] * result.privacy.simulated]
    return Summary(f"Private {result.test}", facts, columns, [row], notes)


# Tests

STATISTIC = "rank statistic"
_MOST_ROWS = 10**9  # so that n times a number of rows, and the sum of the ranks, are below 2^63
PUBLIC_SIZES = "the group of every row is public: one value is replaced, and stays in its group"
_ALTERNATIVES = ["two-sided", "less", "greater"]


@dataclass(frozen=True)
class RankPlan(ReleasePlan):
    """The plan of a rank test: one number.

    Attributes
    ----------
    sizes : tuple of int
        Sizes of the groups in the null distribution.
    public_sizes : bool
        Whether the sizes of the groups in the data are public. ``sizes`` then contains them.
    missing : str
        Treatment of missing entries.
    middle : MiddleRankSum, optional
        Statistic of two groups with private sizes.
    """

    sizes: tuple[int, ...] = field(repr=False)
    public_sizes: bool = field(repr=False)
    missing: str = "error"
    middle: MiddleRankSum | None = field(default=None, repr=False)

    def notes(self) -> list[str]:
        """Return remarks that the stages do not show."""
        return [PUBLIC_SIZES] * self.public_sizes


@parameters
class RankTest(HasResult[RankTestResult], PrivateEstimator[RankPlan], ABC):
    """Base class of the tests by order: integers with discrete Laplace noise, and their simulated null distribution.

    The statistic of a plan (`_find_statistic`) has the measured integers, the sensitivity and the p-value.
    """

    _one_column = True
    _released: ClassVar[str] = STATISTIC
    _kind: ClassVar[str]
    _name: ClassVar[str]
    _null: ClassVar[str]

    n_simulations: int = 9999
    missing: str = "error"
    missing_codes: Any = None
    epsilon: float = 1.0
    random_state: Any = None
    budget: PrivacyBudget | None = None

    def plan(self, n_samples: int, n_features: int = 1) -> RankPlan:
        """Return the release plan of a fit on data of this size.

        Parameters
        ----------
        n_samples, n_features : int
            Public sizes. The test needs one column.
        """
        n = check_integer("n_samples", n_samples, at_least=2, at_most=_MOST_ROWS)
        statistic = self._statistic(n)
        if self._policy() == "drop":
            return plan_on_sample(self, n, n_features)
        if check_integer("n_features", n_features, at_least=1) != 1:
            raise refuse("n_features", given=n_features, allowed="1, because ranks need one column")
        check_simulations(self.n_simulations, at_least=99)
        guarantee = PrivacyGuarantee(self._checked_epsilon())
        # Laplace noise uses the l1 sensitivity only, so the sum of squares has no role.
        moved = statistic.sensitivity
        item = Integers(self._released, 1 + bool(statistic.per_row), self._spacing(statistic), moved, moved)
        plan: RankPlan = self._make_plan(statistic, additive_stages([item], guarantee.epsilon, 0.0), guarantee)
        return plan

    def _make_plan(self, statistic: Any, stages: tuple[Any, ...], guarantee: PrivacyGuarantee) -> Any:
        middle = statistic if isinstance(statistic, MiddleRankSum) else None
        sizes = balanced(statistic.rows, 2) if middle else statistic.sizes
        return RankPlan(stages, guarantee, statistic.rows, 1, sizes, not middle and statistic.public, middle=middle)

    @abstractmethod
    def _statistic(self, n: int) -> Any:
        """Return the statistic of n rows, and check the parameters of the test."""

    def _checked_epsilon(self) -> float:
        return check_real("epsilon", self.epsilon, above=0)

    def _find_statistic(self, plan: Any) -> Any:
        return plan.middle or RankSum(self._kind, plan.n_samples, plan.sizes, plan.public_sizes)

    def _spacing(self, statistic: Any) -> float:
        """Return the length of a step."""
        return 0.5

    def _noise_std(self, plan: Any) -> float:
        """Return the standard deviation of the noise, in steps."""
        return 2 * float(np.asarray(plan.noise(STATISTIC).std))

    def _prepare(self, plan: RankPlan) -> RankPlan:
        statistic = self._find_statistic(plan)
        if isinstance(statistic, RankSum):
            statistic.simulate(laplace_noise(plan), self.n_simulations)  # now, and stored
        return plan

    def _values(self, rows: Rows) -> tuple[np.ndarray, Any]:
        """Return the finite numbers of one column, and the codes of their groups if there are any."""
        table = rows.whole()
        if not np.isfinite(table.X).all():
            raise refuse_data("X", got="at least one NaN or infinite entry", allowed="finite")
        return table.X[:, 0], table.groups

    def _describe_null(self) -> str:
        return self._null

    def _describe_undeclared(self, plan: RankPlan) -> str:
        """Return the treatment of rows with an undeclared label as text; "" if they raise an error."""
        return ""

    def _report(self, released: Released, plan: RankPlan) -> None:
        statistic, std = self._find_statistic(plan), self._noise_std(plan)
        steps = np.rint(released[self._released] / self._spacing(statistic))
        self.statistic_ = float(released[self._released][0])
        sizes, sizes_std = None, 0.0
        if statistic.per_row:
            first = float(steps[1]) / statistic.per_row
            sizes, sizes_std = (first, plan.n_samples - first), std / statistic.per_row
        shared = {
            "null": self._describe_null(),
            "n_samples": plan.n_samples,
            "sizes": (plan.sizes or None) if plan.public_sizes else None,
            "noise_std": std * self._spacing(statistic),
            "privacy": self.privacy_,
            "n_simulations": self.n_simulations,
            "missing": " ".join(filter(None, (about_missing(plan.missing), self._describe_undeclared(plan)))),
            "released_sizes": sizes,
            "sizes_std": sizes_std,
        }
        self._conclude(statistic, steps, plan, shared)

    def _conclude(self, statistic: Any, steps: Any, plan: RankPlan, shared: dict[str, Any]) -> None:
        """Set the p-value and the result by the released integers and the shared attributes."""
        alternative = getattr(self, "alternative", "groups differ")
        self.pvalue_ = statistic.pvalue(steps, laplace_noise(plan), alternative, self.n_simulations)
        self.result_ = RankTestResult(
            test=self._name, statistic=self.statistic_, pvalue=self.pvalue_, alternative=alternative, **shared
        )


def laplace_noise(plan: ReleasePlan) -> CountNoise:
    """Return the noise of the released numbers of a plan, in steps."""
    return CountNoise("laplace", plan.additive[-1].scale_steps)


@parameters
class SignedRankTest(RankTest):
    """Private Wilcoxon signed-rank test of the null hypothesis that differences are symmetric about 0.

    Use it for paired measurements. For two independent groups, use `MannWhitneyTest`.

    Parameters
    ----------
    n_simulations : int, default=9999
        Number of simulations of the null distribution. Their seed is public and fixed, and they are stored.
    alternative : {"two-sided", "less", "greater"}, default="two-sided"
        Alternative hypothesis: differences tend to differ from 0, to be less, or to be greater than 0.
    missing : {"error", "drop"}, default="error"
        Treatment of a row with a NaN or infinite value, or without a declared label. "error" raises `InvalidData`.
        "drop" leaves the row out: a part of epsilon counts the complete rows, and the test uses a random sample of
        them, of public size.
    missing_codes : sequence of numbers and text, optional
        Public codes of missing entries, such as ``[-999, "unk"]``, in all columns. Numbers are compared by value, words
        by text.
    epsilon : float, default=1.0
        Privacy parameter. Must be positive. The test is purely private: delta is 0.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Budget that every call of ``fit`` charges before it draws noise. Clones share it.

    Attributes
    ----------
    statistic_ : float
        Noisy sum of the ranks of ``|x|``, each with the sign of x. Zeros are ranked but do not contribute (Pratt).
    pvalue_ : float
        p-value, including noise.
    result_ : RankTestResult
        Full result of the test.
    privacy_ : PrivacyGuarantee
        Guarantee of the fit, for neighboring datasets that differ in one row. The number of rows is public.
    plan_ : RankPlan
        The release plan.
    rows_, rows_noise_std_, n_rows_ : float, float, int
        Noisy number of complete rows, the standard deviation of its noise, and the number of rows in the test. Only
        with ``missing="drop"``.
    n_features_in_ : int
        Number of columns: 1.

    Notes
    -----
    The p-value is exact if no two differences have the same absolute value. Ties and zeros lower the variance of the
    statistic under the null hypothesis, so the test is mostly conservative. A smaller variance does not make every tail
    smaller. With few rows and a large epsilon (n = 6, epsilon = 20, level 0.10) the actual level was up to 0.125.

    References
    ----------
    Couch, Kazan, Shi, Bray and Groce (2019), Differentially private nonparametric hypothesis testing.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.ranks import SignedRankTest
    >>> differences = np.random.default_rng(0).normal(0.5, 1.0, size=200)
    >>> SignedRankTest(epsilon=1.0, random_state=0).fit(differences).pvalue_
    0.0001
    """

    _kind = "signed"
    _name = "Signed-rank test"
    _null = "differences are symmetric about 0"

    alternative: str = "two-sided"

    def _statistic(self, n: int) -> RankSum:
        check_choice("alternative", self.alternative, _ALTERNATIVES)
        return RankSum("signed", n, (n,))

    def _read(self, rows: Rows, plan: RankPlan) -> Mapping[str, Any]:
        return {STATISTIC: self._find_statistic(plan).measure(self._values(rows)[0])}


@parameters
class GroupRankTest(RankTest):
    """Base class of the rank tests of several groups with declared labels."""

    groups: Any = None
    sizes: Any = None

    def _declared(self, n: int) -> tuple[int, tuple[int, ...] | None]:
        """Return the number of groups, and their sizes if these are public."""
        count = len(self._kinds())
        if self.sizes is None:
            return count, None
        if self._policy() == "drop":
            raise refuse(
                "sizes",
                given=self.sizes,
                allowed="None with missing='drop'",
                remedy="The sizes of the groups of complete rows are private.",
            )
        given = self.sizes
        allowed = f"None (private), or {count} integers of at least 1 that add up to n_samples = {n}"
        shapeless = not hasattr(type(given), "__len__") or getattr(given, "shape", None) == ()
        if isinstance(given, str | bytes) or shapeless or len(given) != count:
            raise refuse("sizes", given=given, allowed=allowed)
        sizes = tuple(check_integer(f"sizes[{j}]", size, at_least=1, of=given) for j, size in enumerate(given))
        if sum(sizes) != n:
            raise refuse("sizes", given=given, allowed=allowed)
        return count, sizes

    def _kinds(self) -> Categories:
        if self.groups is None:
            raise refuse("groups", allowed="given: the public labels of the groups")
        return Categories(self.groups, "groups")

    def _describe_undeclared(self, plan: RankPlan) -> str:
        return LEFT_OUT if plan.missing == "drop" else ""

    def _schema(self) -> Schema:
        return Schema(
            missing=self.missing,
            beside=(Column("groups", levels=self._kinds(), meaning="the label of each row's group"),),
        )

    def _grouped(self, rows: Rows, plan: RankPlan) -> tuple[Any, Any]:
        """Return the values and the codes of their declared groups."""
        values, codes = self._values(rows)
        assert codes is not None
        if (codes < 0).any():
            raise refuse_undeclared("y", "groups", "missing='drop'")
        if plan.public_sizes and tuple(np.bincount(codes, minlength=len(plan.sizes))) != plan.sizes:
            raise refuse_data("y", allowed=f"have the public sizes that were declared, {plan.sizes}")
        return values, codes

    def _read(self, rows: Rows, plan: RankPlan) -> Any:
        return {STATISTIC: self._find_statistic(plan).measure(*self._grouped(rows, plan))}


@parameters
class MannWhitneyTest(GroupRankTest):
    """Private Mann-Whitney test of the null hypothesis that two groups have the same distribution.

    It detects groups that tend to have larger values. For paired measurements, use `SignedRankTest`. For more than two
    groups, use `KruskalWallisTest`.

    Parameters
    ----------
    groups : pair of labels
        Declared public labels.
    sizes : None or pair of int, default=None
        None: the sizes of the groups are private. Otherwise their public sizes, in the order of ``groups``. The group
        of every row is then public, the guarantee protects its value, and the noise is smaller.
    n_simulations : int, default=9999
        Number of simulations of the null distribution. Their seed is public and fixed, and they are stored.
    alternative : {"two-sided", "less", "greater"}, default="two-sided"
        Alternative hypothesis: values of the first group tend to differ from, to be less, or to be greater than values
        of the second.
    smaller_fraction : float, default=0.5
        Public guess of the fraction of rows in the smaller group, where sizes are private. The statistic has more power
        for such groups. A wrong guess costs power, and the p-value stays valid.
    missing, missing_codes, epsilon, random_state, budget
        The same as in `SignedRankTest`.

    Attributes
    ----------
    statistic_ : float
        Noisy U - n_a n_b / 2, for the first group. With private sizes and unequal groups it is the middle of its
        smallest and its largest value over subsets of the larger group.
    released_sizes_ : pair of float, or None
        Noisy sizes of the groups, which add up to n. None where sizes are public, or too noisy to tell groups apart.
    pvalue_ : float
        p-value, including noise.
    result_ : RankTestResult
        Full result of the test.
    privacy_ : PrivacyGuarantee
        Guarantee of the fit, for neighboring datasets that differ in one row. With public ``sizes``, they differ in one
        value, and the row stays in its group.
    plan_ : RankPlan
        The release plan.
    rows_, rows_noise_std_, n_rows_, n_features_in_ : float, float, int, int
        The same as in `SignedRankTest`.

    Notes
    -----
    **Private sizes.** The sensitivity is the size of the subsets: n / 2 or slightly more. With equal public sizes it is
    n / 2. The difference raises the variance of the released statistic by at most 8% for equal groups. A row that
    changes its group moves the statistic by less than this sensitivity. The remainder pays for the sizes of the groups.
    They are released at no further cost if they can tell an empty group from a quarter of the rows.

    If you expect very unequal groups, give ``smaller_fraction``: subsets are then larger, and the sizes more accurate.

    **Null distribution.** With private sizes, the statistic is divided by its standard deviation at the released sizes.
    The p-value is the largest over all sizes that the released sizes do not exclude, plus 1e-5, the probability that
    they exclude the true ones. Where no sizes are released it assumes equal groups, at which the variance is largest.
    The test is conservative for ties, and for unequal groups whose sizes are too noisy. If the
    sizes are public, declare ``sizes``: p-values of unequal groups are then smaller.

    References
    ----------
    Couch, Kazan, Shi, Bray and Groce (2019), Differentially private nonparametric hypothesis testing.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.ranks import MannWhitneyTest
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.choice(["old", "new"], size=400)
    >>> values = rng.exponential(size=400) + 0.5 * (labels == "new")
    >>> MannWhitneyTest(groups=["old", "new"], random_state=0).fit(values, labels).pvalue_ < 0.001
    True
    """

    _kind = "two groups"
    _name = "Mann-Whitney test"
    _null = "values have the same distribution in both groups"

    alternative: str = "two-sided"
    smaller_fraction: float = 0.5

    def _statistic(self, n: int) -> Any:
        count, sizes = self._declared(n)
        check_choice("alternative", self.alternative, _ALTERNATIVES)
        fraction = check_real("smaller_fraction", self.smaller_fraction, above=0, at_most=0.5)
        if count != 2:
            raise refuse("groups", given=count, allowed="two labels", remedy="For more, use KruskalWallisTest.")
        if sizes is not None:
            return RankSum("two groups", n, sizes, True)
        return middle_rank_sum(n, self._checked_epsilon(), fraction)

    def superiority(self) -> Estimates:
        """Return the probability that a value of the first group exceeds a value of the second, with an interval.

        It is P(X > Y) + P(X = Y)/2, without additional privacy cost. The sizes of the groups must be public.
        """
        check_is_fitted(self)
        if not self.plan_.public_sizes:
            raise refuse(
                "sizes",
                allowed="given for the probability of superiority",
                remedy="It is the statistic over the number of pairs, which is private here.",
            )
        first, second = self._kinds().values
        sizes = self.plan_.sizes[0], self.plan_.sizes[1]
        return superiority(self.statistic_, sizes, self.result_.noise_std, (first, second), self.privacy_.simulated)

    def _conclude(self, statistic: Any, steps: Any, plan: RankPlan, shared: dict[str, Any]) -> None:
        super()._conclude(statistic, steps, plan, shared)
        self.released_sizes_ = self.result_.released_sizes


@parameters
class KruskalWallisTest(GroupRankTest):
    """Private Kruskal-Wallis test of the null hypothesis that several groups have the same distribution.

    Parameters
    ----------
    groups : sequence of two labels or more
        Declared public labels.
    sizes : None or sequence of int, default=None
        None: the sizes of the groups are private. Otherwise their public sizes, in the order of ``groups``. The group
        of every row is then public, and the guarantee protects its value.
    n_simulations : int, default=9999
        Number of simulations of the null distribution. Their seed is public and fixed, and they are stored.
    missing, missing_codes, epsilon, random_state, budget
        The same as in `SignedRankTest`.

    Attributes
    ----------
    statistic_ : float
        Noisy sum over groups of the absolute centered rank sum: the sum of the ranks minus the mean rank.
    pvalue_ : float
        p-value, including noise.
    result_ : RankTestResult
        Full result of the test.
    privacy_ : PrivacyGuarantee
        Guarantee of the fit, for neighboring datasets that differ in one row. With public ``sizes``, they differ in one
        value, and the row stays in its group.
    plan_ : RankPlan
        The release plan.
    rows_, rows_noise_std_, n_rows_, n_features_in_ : float, float, int, int
        The same as in `SignedRankTest`.

    Notes
    -----
    Absolute values (Couch et al. 2019) have a smaller sensitivity, relative to their variability, than the squares of
    the classical statistic. With private sizes, the null distribution assumes groups of equal sizes, at which the
    statistic is largest. The test is conservative for other sizes and for ties.

    References
    ----------
    Couch, Kazan, Shi, Bray and Groce (2019), Differentially private nonparametric hypothesis testing.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.ranks import KruskalWallisTest
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(3, size=600)
    >>> values = rng.exponential(size=600) + 0.5 * (labels == 2)
    >>> KruskalWallisTest(groups=[0, 1, 2], random_state=0).fit(values, labels).pvalue_
    0.0001
    """

    _kind = "groups"
    _name = "Kruskal-Wallis test"
    _null = "values have the same distribution in all groups"

    def _statistic(self, n: int) -> RankSum:
        count, sizes = self._declared(n)
        if count < 2:
            raise refuse("groups", given=count, allowed="two labels or more")
        return RankSum("groups", n, sizes or balanced(n, count), sizes is not None)
