"""Private rank tests: Wilcoxon's signed rank, Mann and Whitney's, Kruskal and Wallis's.

Proof: docs/proofs/rank-tests.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dpstats.data.parameters import check_choice, check_integer, check_real, check_simulations
from dpstats.data.rows import LEFT_OUT, Rows, check_labels, drops_undeclared, empty_groups_note
from dpstats.data.schema import Categories, Column, Schema
from dpstats.errors import refuse, refuse_data
from dpstats.inference.estimates import Estimates
from dpstats.inference.noisy_counts import CountNoise
from dpstats.inference.reports import SIMULATED
from dpstats.inference.results import HasResult, HypothesisTest, Summary, about_missing, significant
from dpstats.privacy.budget import PrivacyBudget
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import Stage
from dpstats.ranks.statistics import (
    MiddleRankSum,
    all_rank_sums_sensitivity,
    centered_rank_sums,
    middle_rank_sum,
    null_statistics,
    pvalue,
    rank_sum_sensitivity,
    signed_rank_sensitivity,
    signed_rank_sum,
    superiority,
)
from dpstats.release.additive import Integers, additive_stages
from dpstats.release.estimator import PrivateEstimator, parameters, plan_on_sample
from dpstats.release.session import Released

# Results


def describe_simulations(count: int) -> str:
    """Return a note on the simulations that a p-value is from."""
    words = f"The p-value accounts for sampling and noise, by {count:,} simulations of the release."
    off = 2 * math.sqrt(0.05 * 0.95 / count)
    if off < _SEEN_OFF:
        return words
    return f"{words} They are the same for all fits of this size, so a level of 0.05 can have an error of {off:.1g}."


def note_rows(result: Any, groups: bool, why: str = "") -> list[str]:
    """Return the notes on the rows of a test of one group, or of several. ``why`` is a reason to declare sizes."""
    if result.sizes is not None:
        notes = ["The group of every row is public. Only its value is protected."]
    elif result.released_sizes is not None:
        notes = ["The group sizes are private. The p-value is the largest over all sizes near the released ones."]
    else:
        words = "The group sizes are private, so the p-value is for equal sizes and conservative for others."
        notes = [f"{words} If the sizes are public, declare them{why}."] * groups
    notes += [result.missing] * bool(result.missing)
    return [*notes, *empty_groups_note(result.unseen), *[SIMULATED] * result.privacy.simulated]


def size_facts(result: Any) -> list[tuple[str, str]]:
    """Return the facts on the rows of a test, and its guarantee."""
    about = ", ".join(significant(size, result.sizes_std) for size in result.released_sizes or ())
    return [
        ("Rows", f"{result.n_samples:,} (public)"),
        *([("Group sizes", f"{', '.join(map(str, result.sizes))} (public)")] if result.sizes else []),
        *([("First group, other rows", f"{about} (noise sd {significant(result.sizes_std)})")] if about else []),
        ("Privacy", str(result.privacy)),
    ]


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
        Treatment of missing entries and of undeclared labels as text. Empty if they raise an error.
    released_sizes : pair of float, or None
        Noisy number of rows of the first of two groups with private sizes, and of all other rows, where they are
        released.
    sizes_std : float
        Standard deviation of their noise.
    unseen : tuple
        Declared labels whose released number of rows cannot be distinguished from 0.

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
    unseen: tuple[Any, ...] = ()

    def summary(self) -> Summary:
        """Return a table. It prints as text, and shows as HTML in a notebook."""
        notes = [
            f"{describe_simulations(self.n_simulations)} It is exact without ties. With ties it is mostly "
            "conservative, except for few rows at a large epsilon."
        ]
        notes += note_rows(self, self.test != "Signed-rank test", ": unequal groups then have smaller p-values")
        facts = [("Null hypothesis", self.null), ("Alternative", self.alternative), *size_facts(self)]
        numbers = significant(self.statistic, self.noise_std), significant(self.noise_std)
        row = (self.test, *numbers, f"{self.pvalue:.4g}")
        return Summary(f"Private {self.test}", facts, ["", "statistic", "noise sd", "p-value"], [row], notes)


# Tests

STATISTIC = "rank statistic"
MOST_ROWS = 10**9  # so that the sum of the ranks, or n times a number of rows, is below 2^63
_SEEN_OFF = 0.01
"""Error of a level of 0.05 that few simulations are said to have."""
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
        if not self.public_sizes:
            return []
        return ["the group of every row is public: one value is replaced, and stays in its group"]


@parameters
class RankTest(HasResult[RankTestResult], PrivateEstimator[RankPlan], ABC):
    """Base class of the rank tests: one integer with discrete Laplace noise, and its simulated null distribution."""

    _one_column = True

    n_simulations: int = 9999
    missing: str = "error"
    missing_codes: Any = None
    epsilon: float = 1.0
    random_state: Any = None
    budget: PrivacyBudget | None = None

    @abstractmethod
    def plan(self, n_samples: int, n_features: int = 1) -> RankPlan:
        """Return the release plan of a fit on data of this size."""

    @abstractmethod
    def _describe_test(self) -> tuple[str, str, str, str]:
        """Return the kind of statistic, the alternative, and the names of the test and of the null hypothesis."""

    def _target(self, n_features: int) -> PrivacyGuarantee:
        """Return the guarantee of a plan, and check the parameters that all tests share."""
        if check_integer("n_features", n_features, at_least=1) != 1:
            raise refuse("n_features", given=n_features, allowed="1, because ranks need one column")
        check_simulations(self.n_simulations, at_least=99)
        return PrivacyGuarantee(check_real("epsilon", self.epsilon, above=0))

    def _planned(
        self, n: int, n_features: int, sensitivity: int, sizes: tuple[int, ...], public: bool, numbers: int = 1
    ) -> RankPlan:
        guarantee = self._target(n_features)
        # Laplace noise uses the l1 sensitivity only, so the sum of squares has no role.
        item = Integers(STATISTIC, numbers, 0.5, sensitivity, sensitivity)
        return RankPlan(additive_stages([item], guarantee.epsilon, 0.0), guarantee, n, 1, sizes, public)

    def _prepare(self, plan: RankPlan) -> RankPlan:
        self._null(plan)  # simulate now, and store
        return plan

    def _null(self, plan: RankPlan) -> Any:
        (stage,) = plan.stages
        assert isinstance(stage, Stage)
        return null_statistics(self._describe_test()[0], plan.sizes, stage.scale_steps, self.n_simulations)

    def _pvalue(self, half_ranks: Any, plan: RankPlan) -> float:
        kind, alternative, *_ = self._describe_test()
        return pvalue(self._null(plan), float(half_ranks[0]), alternative if kind != "groups" else "greater")

    def _values(self, rows: Rows) -> tuple[np.ndarray, Any]:
        """Return the finite numbers of one column, and the codes of their groups if there are any."""
        table = rows.whole()
        if not np.isfinite(table.X).all():
            raise refuse_data("X", got="at least one NaN or infinite entry", allowed="finite")
        return table.X[:, 0], table.groups

    def _describe_undeclared(self, plan: Any) -> str:
        """Return the treatment of rows with an undeclared label as text; "" if they raise an error."""
        return ""

    def _describe_left_out(self, plan: Any) -> str:
        """Return the treatment of missing entries and of undeclared labels as text."""
        return " ".join(filter(None, (about_missing(self.missing), self._describe_undeclared(plan))))

    def _report(self, released: Released, plan: RankPlan) -> None:
        _, alternative, name, null = self._describe_test()
        self.statistic_ = float(released[STATISTIC][0])
        self.pvalue_ = self._pvalue(2 * released[STATISTIC], plan)
        self.result_ = RankTestResult(
            name,
            self.statistic_,
            self.pvalue_,
            alternative,
            null,
            plan.n_samples,
            plan.sizes if plan.public_sizes else None,
            float(np.asarray(plan.noise(STATISTIC).std)),
            self.privacy_,
            self.n_simulations,
            self._describe_left_out(plan),
        )


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
        Treatment of a row with a NaN or infinite value. "error" raises `InvalidData`. "drop" leaves the row out: a
        part of epsilon counts the complete rows, and the test uses a random sample of them, of public size.
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

    **Limits.** Differences must be symmetric about 0 under the null hypothesis: skewed differences are rejected
    too, even if their mean or median is 0.

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

    alternative: str = "two-sided"

    def plan(self, n_samples: int, n_features: int = 1) -> RankPlan:
        """Return the release plan of a fit on data of this size.

        Parameters
        ----------
        n_samples, n_features : int
            Public sizes. A rank test needs one column.
        """
        n = check_integer("n_samples", n_samples, at_least=2, at_most=MOST_ROWS)
        check_choice("alternative", self.alternative, _ALTERNATIVES)
        if self._policy() == "drop":
            return plan_on_sample(self, n, n_features)
        return self._planned(n, n_features, signed_rank_sensitivity(n), (n,), False)

    def _describe_test(self) -> tuple[str, str, str, str]:
        return "signed", self.alternative, "Signed-rank test", "differences are symmetric about 0"

    def _read(self, rows: Rows, plan: RankPlan) -> Mapping[str, Any]:
        return {STATISTIC: np.array([signed_rank_sum(self._values(rows)[0])])}


@parameters
class GroupRankTest(RankTest):
    """Base class of the rank tests of several groups with declared labels."""

    groups: Any = None
    sizes: Any = None
    unknown: str = "drop"

    def _declared(self, n_samples: Any) -> tuple[int, int, tuple[int, ...] | None]:
        """Return n, the number of groups, and their sizes if these are public."""
        n = check_integer("n_samples", n_samples, at_least=2, at_most=MOST_ROWS)
        count = len(self._kinds())
        drops_undeclared(self.unknown)
        if self.sizes is None:
            return n, count, None
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
        return n, count, sizes

    def _kinds(self) -> Categories:
        if self.groups is None:
            raise refuse("groups", allowed="given: the public labels of the groups")
        return Categories(self.groups, "groups")

    def _describe_undeclared(self, plan: Any) -> str:
        if plan.public_sizes or not drops_undeclared(self.unknown):
            return ""
        # The null distribution is of n rows, at which the statistic varies most.
        many = f"{LEFT_OUT} If they are many, the test is conservative, and missing='drop' has more power."
        return LEFT_OUT if plan.missing == "drop" else many

    def _list_unseen(self, sizes: tuple[float, float], std: float) -> tuple[Any, ...]:
        """Return the labels of the first group, or of the second, if noise hides the released number of its rows."""
        return tuple(label for label, size in zip(self._kinds().values, sizes, strict=True) if size < max(2 * std, 0.5))

    def _schema(self) -> Schema:
        return Schema(
            missing=self.missing,
            beside=(Column("groups", levels=self._kinds(), meaning="the label of each row's group"),),
        )

    def _check_before_count(self, rows: Rows) -> None:
        if self._policy() == "error":
            self._values(rows)  # refuses missing entries
        if not drops_undeclared(self.unknown):
            check_labels(rows)

    def _grouped(self, rows: Rows, plan: RankPlan) -> tuple[Any, Any]:
        """Return all values, and the codes of their groups: -1 for an undeclared label."""
        values, codes = self._values(rows)
        assert codes is not None
        if not plan.public_sizes and drops_undeclared(self.unknown):
            return values, codes
        check_labels(rows)
        if plan.public_sizes and tuple(np.bincount(codes, minlength=len(plan.sizes))) != plan.sizes:
            raise refuse_data("y", allowed=f"have the public sizes that were declared, {plan.sizes}")
        return values, codes

    def _read_declared(self, rows: Rows, plan: RankPlan) -> tuple[Any, Any]:
        """Return the values and the codes of the rows with a declared label."""
        values, codes = self._grouped(rows, plan)
        return values[codes >= 0], codes[codes >= 0]


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
    missing : {"error", "drop"}, default="error"
        Treatment of a row with a NaN or infinite value. "error" raises `InvalidData`. "drop" leaves the row out, as
        rows with an undeclared label: a part of epsilon counts the others, and the test uses a random sample of them,
        of public size.
    missing_codes : sequence of numbers and text, optional
        Public codes of missing entries, such as ``[-999, "unk"]``, in all columns. Numbers are compared by value, words
        by text.
    unknown : {"drop", "error"}, default="drop"
        Treatment of a row with an undeclared label. "drop": it adds nothing, and the test is conservative if such rows
        are many. "error" raises `InvalidData`, as public ``sizes`` do.
    epsilon : float, default=1.0
        Privacy parameter. Must be positive. The test is purely private: delta is 0.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Budget that every call of ``fit`` charges before it draws noise. Clones share it.

    Attributes
    ----------
    statistic_ : float
        Noisy U - n_a n_b / 2, for the first group. With private sizes and unequal groups it is the middle of its
        smallest and its largest value over subsets of the larger group.
    released_sizes_ : pair of float, or None
        Noisy number of rows of the first group, and of all other rows: of the second group, unless labels are
        undeclared. None where sizes are public, or too noisy to tell groups apart.
    pvalue_ : float
        p-value, including noise.
    result_ : RankTestResult
        Full result of the test.
    privacy_ : PrivacyGuarantee
        Guarantee of the fit, for neighboring datasets that differ in one row. With public ``sizes``, they differ in one
        value, and the row stays in its group.
    plan_ : RankPlan
        The release plan.
    rows_, rows_noise_std_, n_rows_ : float, float, int
        Noisy number of complete rows, the standard deviation of its noise, and the number of rows in the test. Only
        with ``missing="drop"``.
    n_features_in_ : int
        Number of columns: 1.

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

    **Limits.** The test is conservative for ties and for private, unequal groups whose sizes are too noisy. It
    detects a tendency to larger values, not every difference: for these use `KolmogorovSmirnovTest`.

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

    alternative: str = "two-sided"
    smaller_fraction: float = 0.5

    def plan(self, n_samples: int, n_features: int = 1) -> RankPlan:
        """Return the release plan of a fit on data of this size.

        Parameters
        ----------
        n_samples, n_features : int
            Public sizes. A rank test needs one column.
        """
        n, count, sizes = self._declared(n_samples)
        check_choice("alternative", self.alternative, _ALTERNATIVES)
        fraction = check_real("smaller_fraction", self.smaller_fraction, above=0, at_most=0.5)
        if count != 2:
            raise refuse("groups", given=count, allowed="two labels", remedy="For more, use KruskalWallisTest.")
        if self._policy() == "drop":
            return plan_on_sample(self, n, n_features)
        if sizes is not None:
            return self._planned(n, n_features, rank_sum_sensitivity(sizes), sizes, True)
        others = drops_undeclared(self.unknown)
        middle = middle_rank_sum(n, check_real("epsilon", self.epsilon, above=0), fraction, others)
        numbers = 1 + bool(middle.per_row)
        plan = self._planned(n, n_features, middle.sensitivity, balanced(n, 2), False, numbers)
        return replace(plan, middle=middle)

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

    def _describe_test(self) -> tuple[str, str, str, str]:
        return ("two groups", self.alternative, "Mann-Whitney test", "values have the same distribution in both groups")

    def _read(self, rows: Rows, plan: RankPlan) -> Mapping[str, Any]:
        values, codes = self._read_declared(rows, plan)
        if plan.middle is None:
            return {STATISTIC: centered_rank_sums(values, codes, 2)[:1]}
        return {STATISTIC: plan.middle.measure(values, codes)}

    def _prepare(self, plan: RankPlan) -> RankPlan:
        return super()._prepare(plan) if plan.middle is None else plan

    def _pvalue(self, half_ranks: Any, plan: RankPlan) -> float:
        if plan.middle is None:
            return super()._pvalue(half_ranks, plan)
        noise = CountNoise("laplace", plan.additive[-1].scale_steps)
        return plan.middle.pvalue(half_ranks, noise, self.alternative, self.n_simulations)

    def _report(self, released: Released, plan: RankPlan) -> None:
        super()._report(released, plan)
        self.released_sizes_ = None
        if plan.middle is not None and plan.middle.per_row:
            first = 2 * float(released[STATISTIC][1]) / plan.middle.per_row
            std = 2 * self.result_.noise_std / plan.middle.per_row
            self.released_sizes_ = sizes = first, plan.n_samples - first
            unseen = self._list_unseen(sizes, std)
            self.result_ = replace(self.result_, released_sizes=sizes, sizes_std=std, unseen=unseen)


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
    missing : {"error", "drop"}, default="error"
        Treatment of a row with a NaN or infinite value. "error" raises `InvalidData`. "drop" leaves the row out, as
        rows with an undeclared label: a part of epsilon counts the others, and the test uses a random sample of them,
        of public size.
    missing_codes : sequence of numbers and text, optional
        Public codes of missing entries, such as ``[-999, "unk"]``, in all columns. Numbers are compared by value, words
        by text.
    unknown : {"drop", "error"}, default="drop"
        Treatment of a row with an undeclared label. "drop": it adds nothing, and the test is conservative if such rows
        are many. "error" raises `InvalidData`, as public ``sizes`` do.
    epsilon : float, default=1.0
        Privacy parameter. Must be positive. The test is purely private: delta is 0.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Budget that every call of ``fit`` charges before it draws noise. Clones share it.

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
    rows_, rows_noise_std_, n_rows_ : float, float, int
        Noisy number of complete rows, the standard deviation of its noise, and the number of rows in the test. Only
        with ``missing="drop"``.
    n_features_in_ : int
        Number of columns: 1.

    Notes
    -----
    Absolute values (Couch et al. 2019) have a smaller sensitivity, relative to their variability, than the squares of
    the classical statistic. With private sizes, the null distribution assumes groups of equal sizes, at which the
    statistic is largest. The test is conservative for other sizes and for ties.

    **Limits.** The test is conservative for ties and for private groups of unequal sizes. It does not say which
    groups differ.

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

    def plan(self, n_samples: int, n_features: int = 1) -> RankPlan:
        """Return the release plan of a fit on data of this size.

        Parameters
        ----------
        n_samples, n_features : int
            Public sizes. A rank test needs one column.
        """
        n, count, sizes = self._declared(n_samples)
        if count < 2:
            raise refuse("groups", given=count, allowed="two labels or more")
        if self._policy() == "drop":
            return plan_on_sample(self, n, n_features)
        moved = all_rank_sums_sensitivity(n, sizes)
        return self._planned(n, n_features, moved, sizes or balanced(n, count), sizes is not None)

    def _describe_test(self) -> tuple[str, str, str, str]:
        return ("groups", "groups differ", "Kruskal-Wallis test", "values have the same distribution in all groups")

    def _read(self, rows: Rows, plan: RankPlan) -> Mapping[str, Any]:
        sums = centered_rank_sums(*self._read_declared(rows, plan), len(plan.sizes))
        return {STATISTIC: np.abs(sums).sum(keepdims=True)}


def balanced(n: int, count: int) -> tuple[int, ...]:
    """Return sizes that are as equal as possible."""
    return tuple(n // count + (j < n % count) for j in range(count))
