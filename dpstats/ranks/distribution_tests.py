"""Private tests of Kolmogorov and Smirnov, Kuiper, and Cramér and von Mises, for two samples and for one.

Proof: docs/proofs/distribution-tests.md.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_choice, check_integer, check_real
from dpstats.data.rows import Rows
from dpstats.errors import refuse
from dpstats.inference.noisy_counts import CountNoise
from dpstats.inference.reports import name_distribution
from dpstats.inference.results import HypothesisTest, Summary, significant
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import Shuffle
from dpstats.ranks.rank_tests import MOST_ROWS, GroupRankTest, RankTest, describe_simulations, note_rows, size_facts
from dpstats.ranks.statistics import (
    PUBLIC_SEED,
    STATISTICS,
    OneSample,
    TwoSamples,
    cutoff,
    distance_pvalue,
    find_probabilities,
    is_discrete,
    is_summed,
    order_labels,
    probability_steps,
    two_samples,
)
from dpstats.release.additive import Integers, additive_stages
from dpstats.release.estimator import parameters, plan_on_sample
from dpstats.release.session import Released, Session

TIES = "order of equal values"
DIFFERENCE = "difference of distributions"
_LEVEL = 0.05

# Results


@dataclass(frozen=True, slots=True)
class DistributionTestResult(HypothesisTest):
    """Result of a private test of a whole distribution.

    Attributes
    ----------
    test : str
        Name of the test.
    statistic : float
        Released statistic including noise, in rows.
    pvalue : float
        (1 + #{simulated at least as large}) / (n_simulations + 1), for the noisy statistic.
    cutoff : float
        Statistic, in rows, above which a test of level 0.05 rejects.
    null : str
        Null hypothesis as text.
    n_samples : int
        Public number of rows in the test.
    noise_std : float
        Standard deviation of the noise in the statistic, in rows.
    privacy : PrivacyGuarantee
        Guarantee of the release.
    n_simulations : int
        Number of simulations of the null distribution.
    missing : str
        Treatment of missing entries as text. Empty if they raise an error.
    sizes : tuple of int or None
        Sizes of the groups, if they are public.
    released_sizes : pair of float, or None
        Noisy number of rows of the first of two groups with private sizes, and of all other rows, where they are
        released.
    sizes_std : float
        Standard deviation of their noise.
    two_samples : bool
        Whether two groups are compared.
    ties : bool
        Whether equal values are put in a random order.
    unseen : tuple
        Declared labels whose released number of rows cannot be distinguished from 0.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.ranks import ks_test
    >>> rng = np.random.default_rng(0)
    >>> result = ks_test(rng.normal(size=300), rng.normal(0.0, 2.0, size=300), n_simulations=999, random_state=0)
    >>> result.test, result.pvalue < 0.05
    ('Kolmogorov-Smirnov test', True)
    """

    _numbers: ClassVar[tuple[str, ...]] = ("statistic", "noise_std", "cutoff", "pvalue")

    test: str
    statistic: float
    pvalue: float
    cutoff: float
    null: str
    n_samples: int
    noise_std: float
    privacy: PrivacyGuarantee
    n_simulations: int
    missing: str = ""
    sizes: tuple[int, ...] | None = None
    released_sizes: tuple[float, float] | None = None
    sizes_std: float = 0.0
    two_samples: bool = True
    ties: bool = True
    unseen: tuple[Any, ...] = ()

    def summary(self) -> Summary:
        """Return a table. It prints as text, and shows as HTML in a notebook."""
        notes = [describe_simulations(self.n_simulations), *["Equal values are put in a random order."] * self.ties]
        notes += note_rows(self, self.two_samples)
        numbers = (significant(value, self.noise_std) for value in (self.statistic, self.cutoff))
        row = (self.test, *numbers, significant(self.noise_std), f"{self.pvalue:.4g}")
        columns = ["", "statistic (rows)", "cutoff (0.05)", "noise sd", "p-value"]
        facts = [("Null hypothesis", self.null), *size_facts(self)]
        return Summary(f"Private {self.test}", facts, columns, [row], notes)


@dataclass(frozen=True)
class DistributionPlan(ReleasePlan):
    """The plan of a test of a distribution: one number, and the size of a group where it is released.

    Attributes
    ----------
    statistic : TwoSamples or OneSample
        The statistic, its sensitivity and its null distribution.
    missing : str
        Treatment of missing entries and of undeclared labels.
    """

    statistic: TwoSamples | OneSample = field(repr=False)
    missing: str = "error"

    @property
    def sizes(self) -> tuple[int, ...]:
        """Public sizes of the groups; empty if they are private."""
        return getattr(self.statistic, "sizes", None) or ()

    @property
    def public_sizes(self) -> bool:
        """Whether the sizes of the groups are public."""
        return bool(self.sizes)

    @property
    def ties(self) -> bool:
        """Whether equal values are put in a random order."""
        return isinstance(self.stages[0], Shuffle)

    @property
    def statistic_noise(self) -> CountNoise:
        """Noise of the released numbers, in steps."""
        return CountNoise("laplace", self.additive[-1].scale_steps)

    def notes(self) -> list[str]:
        """Return remarks that the stages do not show."""
        if not self.public_sizes:
            return []
        return ["the group of every row is public: one value is replaced, and stays in its group"]


# Tests


class _DistributionTest(RankTest):
    """What tests of one and two samples share: a plan, a release in a random order of ties, and a simulated null."""

    statistic: str
    result_: Any

    def _plan(self, n: int, n_features: int, statistic: TwoSamples | OneSample, ties: bool) -> Any:
        guarantee = self._target(n_features)
        moved = statistic.sensitivity
        numbers = 1 + bool(statistic.per_row)
        # Laplace noise uses the l1 sensitivity only, so the sum of squares has no role.
        stages = additive_stages(
            [Integers(DIFFERENCE, numbers, statistic.spacing, moved, moved)], guarantee.epsilon, 0.0
        )
        before = (Shuffle(TIES, n),) if ties else ()
        return DistributionPlan((*before, *stages), guarantee, n, 1, statistic)

    def _check_statistic(self) -> str:
        check_choice("statistic", self.statistic, list(STATISTICS))
        return self.statistic

    def _prepare(self, plan: Any) -> Any:
        # Simulate now, and store.
        middle = np.full(2, plan.n_samples * getattr(plan.statistic, "per_row", 0) / 2)
        plan.statistic.nulls(middle, plan.statistic_noise, self.n_simulations)
        return plan

    def _release(self, private: Any, plan: Any, session: Session) -> None:
        order = session.shuffle(TIES) if plan.ties else np.arange(plan.n_samples)
        session.add(DIFFERENCE, plan.statistic.measure(self._arrange(private, order)))

    @abstractmethod
    def _arrange(self, private: Any, order: NDArray[np.intp]) -> NDArray[Any]:
        """Return labels or probabilities for the statistic, with ties in this order."""

    def _list_unseen(self, sizes: tuple[float, float], std: float) -> tuple[Any, ...]:
        """Return declared labels whose released number of rows noise hides."""
        return ()

    @abstractmethod
    def _null_words(self) -> str:
        """Return the null hypothesis as text."""

    def _describe_test(self) -> tuple[str, str, str, str]:
        name = f"{STATISTICS[self.statistic]} test"
        return "distribution", "distributions differ", name, self._null_words()

    def _report(self, released: Released, plan: Any) -> None:
        statistic, noise = plan.statistic, plan.statistic_noise
        steps = np.rint(released[DIFFERENCE] / statistic.spacing)
        nulls = statistic.nulls(steps, noise, self.n_simulations)
        self.statistic_ = float(released[DIFFERENCE][0])
        self.pvalue_ = distance_pvalue(nulls, float(steps[0]), statistic.slack)
        self.cutoff_ = cutoff(nulls, _LEVEL, statistic.slack) * statistic.spacing
        sizes, sizes_std = None, 0.0
        if statistic.per_row:
            first = float(steps[1]) / statistic.per_row
            sizes, sizes_std = (first, plan.n_samples - first), noise.std / statistic.per_row
        *_, name, null = self._describe_test()
        self.result_ = DistributionTestResult(
            name,
            self.statistic_,
            self.pvalue_,
            self.cutoff_,
            null,
            plan.n_samples,
            noise.std * statistic.spacing,
            self.privacy_,
            self.n_simulations,
            self._describe_left_out(plan),
            plan.sizes or None,
            sizes,
            sizes_std,
            isinstance(statistic, TwoSamples),
            plan.ties,
            self._list_unseen(sizes, sizes_std) if sizes else (),
        )

    # Planning

    def _reject(self, draw: Callable[..., Any], plan: Any, level: float, rng: np.random.Generator) -> bool:
        """Return whether the test rejects a simulated dataset; ``draw`` returns its private part."""
        statistic, noise, n = plan.statistic, plan.statistic_noise, plan.n_samples
        exact = statistic.measure(self._arrange(draw(n, plan, rng), rng.permutation(n)))
        steps = exact + noise.draw(rng, exact.shape)
        return (
            distance_pvalue(statistic.nulls(steps, noise, self.n_simulations), float(steps[0]), statistic.slack)
            <= level
        )

    def _power(self, n: int, draw: Callable[..., Any], level: float, n_datasets: int) -> float:
        """Return the fraction of simulated datasets that the test rejects."""
        check_real("level", level, above=0, below=1)
        count = check_integer("n_datasets", n_datasets, at_least=1)
        plan, rng = self.plan(n), np.random.default_rng([PUBLIC_SEED, 3])
        return sum(self._reject(draw, plan, level, rng) for _ in range(count)) / count


def _search_rows(power: float, reached: Callable[[int], float]) -> int:
    """Return the smallest number of rows, to 2%, at which a simulated power is reached."""
    wanted = check_real("power", power, above=0, below=1)
    low, high = 1, 64
    while high < _MOST_SIMULATED and reached(high) < wanted:
        low, high = high, 2 * high
    if high >= _MOST_SIMULATED:
        raise refuse("power", given=power, allowed=f"reached by at most {_MOST_SIMULATED:,} rows")
    while high - low > max(0.02 * high, 1):
        middle = max(math.isqrt(low * high), low + 1)
        low, high = (middle, high) if reached(middle) < wanted else (low, middle)
    return high


_MOST_SIMULATED = 2**20


@lru_cache(maxsize=64)
def _freeze(name: str, args: tuple[float, ...]) -> Any:
    """Return a distribution of scipy.stats by its name, or None if there is none with these parameters."""
    from scipy import stats

    found = getattr(stats, name, None)
    if not isinstance(found, stats.rv_continuous | stats.rv_discrete):
        return None
    try:
        frozen = found(*args)
        return frozen if np.isfinite(frozen.cdf(0.0)) else None
    except TypeError:
        return None


def _check_distribution(name: str, distribution: Any) -> Any:
    """Return a frozen distribution of scipy.stats."""
    if name_distribution(distribution) is None or np.shape(distribution.cdf(0.0)) != ():
        remedy = "An example is scipy.stats.norm(0, 1)."
        allowed = "a frozen distribution of scipy.stats with scalar parameters"
        raise refuse(name, got=f"a {type(distribution).__name__}", allowed=allowed, remedy=remedy)
    if is_summed(distribution):
        allowed = "one whose distribution function scipy has as a formula, and not as a sum"
        raise refuse(name, got=name_distribution(distribution), allowed=allowed)
    return distribution


@parameters
class KolmogorovSmirnovTest(GroupRankTest, _DistributionTest):
    """Private test of the null hypothesis that two groups have the same distribution, against every difference.

    Use it if groups may differ in spread or shape. For a shift, `MannWhitneyTest` has more power. For one sample and a
    known distribution, use `GoodnessOfFitTest`.

    Parameters
    ----------
    groups : pair of labels
        Declared public labels.
    sizes : None or pair of int, default=None
        None: the sizes of the groups are private. Otherwise their public sizes, in the order of ``groups``. The group
        of every row is then public, the guarantee protects its value, and the noise is smaller.
    n_simulations : int, default=9999
        Number of simulations of the null distribution. Their seed is public and fixed, and they are stored.
    statistic : {"ks", "kuiper", "cvm"}, default="ks"
        Of the difference of the distribution functions: the largest absolute value (Kolmogorov and Smirnov), the range
        (Kuiper), or the root mean square (Cramér and von Mises). Kuiper's has more power for differences in spread
        and in the tails. The other two have more power for shifts, and the first less noise in relation to its size.
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
        Noisy statistic of A, in rows: A_j is the number of rows of the first group among the j lowest values, minus its
        expected number. It is the usual statistic times n_a n_b / n.
    cutoff_ : float
        Statistic above which a test of level 0.05 rejects, in rows.
    pvalue_ : float
        p-value, including noise.
    result_ : DistributionTestResult
        Full result of the test.
    privacy_ : PrivacyGuarantee
        Guarantee of the fit, for neighboring datasets that differ in one row. With public ``sizes``, they differ in one
        value, and the row stays in its group.
    plan_ : DistributionPlan
        The release plan.
    rows_, rows_noise_std_, n_rows_ : float, float, int
        Noisy number of complete rows, the standard deviation of its noise, and the number of rows in the test. Only
        with ``missing="drop"``.
    n_features_in_ : int
        Number of columns: 1.

    Notes
    -----
    **Ties.** Equal values are put in a random order. So the null distribution depends on the sizes of the groups only,
    for continuous and for discrete values.

    **Private sizes.** One row can change the statistic by at most one row, for any change of its value and its label.
    If the noise permits, a tenth of epsilon releases the size of the first group. The p-value is the largest over all
    sizes that it does not exclude, plus 1e-5, the probability that it excludes the true one. Otherwise the p-value is
    for nearly equal groups, at which the statistic is largest: for other sizes it is conservative.

    **Limits.** The test is conservative for private, unequal sizes that are too noisy. It has no estimate of a
    difference. Differences in the tails alone need many rows.

    References
    ----------
    Awan and Wang (2022), Differentially private Kolmogorov-Smirnov-type tests, arXiv:2208.06236.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.ranks import KolmogorovSmirnovTest
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.choice(["old", "new"], size=1000)
    >>> values = rng.normal(size=1000) * np.where(labels == "new", 1.5, 1.0)
    >>> test = KolmogorovSmirnovTest(groups=["old", "new"], statistic="kuiper", random_state=0)
    >>> test.fit(values, labels).pvalue_ < 0.01
    True
    """

    statistic: str = "ks"

    def plan(self, n_samples: int, n_features: int = 1) -> Any:
        """Return the release plan of a fit on data of this size.

        Parameters
        ----------
        n_samples, n_features : int
            Public sizes. The test needs one column.
        """
        n, count, sizes = self._declared(n_samples)
        kind = self._check_statistic()
        if count != 2:
            raise refuse("groups", given=count, allowed="two labels")
        if self._policy() == "drop":
            return plan_on_sample(self, n, n_features)
        epsilon = check_real("epsilon", self.epsilon, above=0)
        return self._plan(n, n_features, two_samples(kind, n, epsilon, sizes), ties=True)

    def power(
        self,
        n_samples: int,
        first: Any,
        second: Any,
        *,
        fraction: float = 0.5,
        level: float = 0.05,
        n_datasets: int = 200,
    ) -> float:
        """Return the power of the test by simulation, without data.

        Parameters
        ----------
        n_samples : int
            Number of rows of both groups.
        first, second : frozen distribution of scipy.stats
            Distributions of the two groups.
        fraction : float, default=0.5
            Fraction of the rows in the first group. Public ``sizes`` take its place.
        level : float, default=0.05
        n_datasets : int, default=200
            Number of simulated datasets.

        Examples
        --------
        >>> from scipy.stats import norm
        >>> from dpstats.ranks import KolmogorovSmirnovTest
        >>> test = KolmogorovSmirnovTest(groups=["old", "new"], n_simulations=999)
        >>> test.power(400, norm(0, 1), norm(0.5, 1)) > 0.9
        True
        """
        laws = [_check_distribution(name, law) for name, law in (("first", first), ("second", second))]
        check_real("fraction", fraction, above=0, below=1)

        def draw(n: int, plan: Any, rng: np.random.Generator) -> tuple[Any, Any]:
            size = plan.sizes[0] if plan.sizes else int(rng.binomial(n, fraction))
            rows = [law.rvs(count, random_state=rng) for law, count in zip(laws, (size, n - size), strict=True)]
            return np.concatenate(rows), np.repeat([0, 1], [size, n - size])

        return self._power(n_samples, draw, level, n_datasets)

    def required_samples(self, first: Any, second: Any, power: float = 0.8, **options: Any) -> int:
        """Return the smallest number of rows, to 2%, at which simulated tests have a power. Sizes must be private.

        Parameters
        ----------
        first, second : frozen distribution of scipy.stats
            Distributions of the two groups.
        power : float, default=0.8
        **options
            ``fraction``, ``level`` and ``n_datasets`` of `power`.

        Examples
        --------
        >>> from scipy.stats import norm
        >>> from dpstats.ranks import KolmogorovSmirnovTest
        >>> test = KolmogorovSmirnovTest(groups=["old", "new"], unknown="error", n_simulations=499)
        >>> 60 < test.required_samples(norm(0, 1), norm(1, 1), n_datasets=50) < 100
        True
        """
        if self.sizes is not None:
            raise refuse("sizes", given=self.sizes, allowed="None, because they determine the number of rows")
        return _search_rows(power, lambda n: self.power(n, first, second, **options))

    def _null_words(self) -> str:
        return "values have the same distribution in both groups"

    def _read(self, rows: Rows, plan: Any) -> Any:
        return self._grouped(rows, plan)

    def _arrange(self, private: Any, order: NDArray[np.intp]) -> NDArray[Any]:
        values, codes = private
        return order_labels(values, codes, order)


@parameters
class GoodnessOfFitTest(_DistributionTest):
    """Private test of the null hypothesis that rows have a given distribution, continuous or discrete.

    Its parameters are public: a distribution that was fitted to the same rows makes the p-value too large, and is not
    private. To compare two groups, use `KolmogorovSmirnovTest`.

    Parameters
    ----------
    distribution : str or frozen distribution of scipy.stats
        Public distribution under the null hypothesis: a name with ``args``, such as "norm", or ``scipy.stats.norm(100,
        15)``.
    args : sequence of numbers, default=()
        Public parameters of a distribution that is given by its name, in scipy's order.
    n_simulations : int, default=9999
        Number of simulations of the null distribution. Their seed is public and fixed, and they are stored.
    statistic : {"ks", "kuiper", "cvm"}, default="ks"
        The same as in `KolmogorovSmirnovTest`, of the distribution function of the rows minus the given one.
    missing : {"error", "drop"}, default="error"
        Treatment of a row with a NaN or infinite value. "error" raises `InvalidData`. "drop" leaves the row out: a part
        of epsilon counts the complete rows, and the test uses a random sample of them, of public size.
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
        Noisy statistic, in rows: the usual one times n, and for "cvm" the root of n times the usual one.
    cutoff_ : float
        Statistic above which a test of level 0.05 rejects, in rows.
    pvalue_ : float
        p-value, including noise.
    result_ : DistributionTestResult
        Full result of the test.
    privacy_ : PrivacyGuarantee
        Guarantee of the fit, for neighboring datasets that differ in one row. The number of rows is public.
    plan_ : DistributionPlan
        The release plan.
    rows_, rows_noise_std_, n_rows_ : float, float, int
        Noisy number of complete rows, the standard deviation of its noise, and the number of rows in the test. Only
        with ``missing="drop"``.
    n_features_in_ : int
        Number of columns: 1.

    Notes
    -----
    One row can change the statistic by at most one row. Equal values of a discrete distribution are put in a random
    order, which spreads them over their atom: the p-value then is slightly conservative.

    **Limits.** The distribution must be public, with all its parameters. The test is conservative for discrete
    distributions. It has no estimate of a distance.

    References
    ----------
    Awan and Wang (2022), Differentially private Kolmogorov-Smirnov-type tests, arXiv:2208.06236.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.ranks import GoodnessOfFitTest
    >>> x = np.random.default_rng(0).normal(103.0, 15.0, size=1000)
    >>> GoodnessOfFitTest(distribution="norm", args=(100, 15), random_state=0).fit(x).pvalue_ < 0.001
    True
    """

    distribution: Any = None
    args: Any = ()
    statistic: str = "ks"

    def plan(self, n_samples: int, n_features: int = 1) -> Any:
        """Return the release plan of a fit on data of this size.

        Parameters
        ----------
        n_samples, n_features : int
            Public sizes. The test needs one column.
        """
        n = check_integer("n_samples", n_samples, at_least=2, at_most=MOST_ROWS)
        kind, law = self._check_statistic(), self._find_distribution()
        if self._policy() == "drop":
            return plan_on_sample(self, n, n_features)
        return self._plan(n, n_features, OneSample(kind, n), ties=is_discrete(law))

    def power(self, n_samples: int, alternative: Any, *, level: float = 0.05, n_datasets: int = 200) -> float:
        """Return the power of the test by simulation, without data.

        Parameters
        ----------
        n_samples : int
            Number of rows.
        alternative : frozen distribution of scipy.stats
            Distribution of the rows.
        level : float, default=0.05
        n_datasets : int, default=200
            Number of simulated datasets.

        Examples
        --------
        >>> from scipy.stats import norm
        >>> from dpstats.ranks import GoodnessOfFitTest
        >>> test = GoodnessOfFitTest(distribution=norm(0, 1), n_simulations=999)
        >>> test.power(200, norm(0.3, 1)) > 0.8
        True
        """
        law = _check_distribution("alternative", alternative)
        null = self._find_distribution()

        def draw(n: int, _: Any, rng: np.random.Generator) -> Any:
            return find_probabilities(null, law.rvs(n, random_state=rng))

        return self._power(n_samples, draw, level, n_datasets)

    def required_samples(self, alternative: Any, power: float = 0.8, **options: Any) -> int:
        """Return the smallest number of rows, to 2%, at which simulated tests have a power.

        Parameters
        ----------
        alternative : frozen distribution of scipy.stats
            Distribution of the rows.
        power : float, default=0.8
        **options
            ``level`` and ``n_datasets`` of `power`.

        Examples
        --------
        >>> from scipy.stats import norm
        >>> from dpstats.ranks import GoodnessOfFitTest
        >>> test = GoodnessOfFitTest(distribution=norm(0, 1), n_simulations=499)
        >>> 15 < test.required_samples(norm(1, 1), n_datasets=50) < 60
        True
        """
        return _search_rows(power, lambda n: self.power(n, alternative, **options))

    def _find_distribution(self) -> Any:
        """Return the frozen distribution of the null hypothesis."""
        if not isinstance(self.args, list | tuple):
            raise refuse("args", given=self.args, allowed="a list or a tuple of numbers")
        args = tuple(check_real(f"args[{j}]", value, of=self.args) for j, value in enumerate(self.args))
        if not isinstance(self.distribution, str):
            if args:
                remedy = "A frozen distribution has its own."
                raise refuse("args", given=self.args, allowed="given with a name only", remedy=remedy)
            return _check_distribution("distribution", self.distribution)
        law = _freeze(self.distribution, args)
        if law is None:
            remedy = "An example is distribution='norm', args=(100, 15)."
            allowed = f"a name in scipy.stats that takes the {len(args)} parameters in args"
            raise refuse("distribution", given=self.distribution, allowed=allowed, remedy=remedy)
        return _check_distribution("distribution", law)

    def _null_words(self) -> str:
        return f"values have the distribution {name_distribution(self._find_distribution())}"

    def _read(self, rows: Rows, plan: Any) -> Any:
        # Before the charge, because scipy can fail for an entry.
        return find_probabilities(self._find_distribution(), self._values(rows)[0])

    def _arrange(self, private: Any, order: NDArray[np.intp]) -> NDArray[Any]:
        return probability_steps(private, order)
