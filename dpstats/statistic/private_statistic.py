"""An interval for any statistic: blocks of rows, a located and clipped mean of their values.

Proof: docs/proofs/statistic.md.
"""

from __future__ import annotations

import inspect
import math
import pickle
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dpstats.data.opening import open_source
from dpstats.data.parameters import check_choice, check_integer, check_jobs, check_privacy_parameters, check_real
from dpstats.data.rows import Rows, Table
from dpstats.data.schema import Column, Schema
from dpstats.errors import attempt, refuse, refuse_data, show
from dpstats.inference.error_distributions import BONFERRONI
from dpstats.inference.estimates import Estimates, HasEstimates
from dpstats.inference.noisy_counts import uniform
from dpstats.inference.reports import Printed, Records
from dpstats.inference.results import Summary, about_missing, with_missing
from dpstats.privacy.budget import PrivacyBudget
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.release.estimator import PrivateEstimator, parameters
from dpstats.release.session import Part, Released, Session
from dpstats.statistic.clipped_sums import BlockErrors, Box, DifferenceErrors, located, locations, spacing_of, sums
from dpstats.statistic.copies import Frozen, hide_modules
from dpstats.statistic.isolation import (
    JACKKNIFE,
    LINKS,
    LONGEST,
    SHORTEST,
    BlockRows,
    block_rows,
    check_time_limit,
    evaluate_blocks,
)
from dpstats.statistic.plan import (
    DITHER,
    FAILURES,
    ORDER,
    SIGNED,
    SIZES,
    SUMS,
    Rehearsal,
    StatisticPlan,
    location_name,
    rehearse,
    statistic_plan,
)

_LEAST_SIZE = {None: 20, "jackknife": 16, "jackknife2": 30}  # of the blocks of a function with one parameter
_SIZE_PER_PARAMETER = {None: 20, "jackknife": 20, "jackknife2": 30}  # rows for each further parameter
_MANY_FAILURES = 0.3  # failed blocks over the square root of all blocks
_SURE = 2.5  # standard deviations of the noise in the number of failed blocks
_MANY_CLIPPED = 0.1  # of blocks
_COMPLETE = 0.5  # of the rows of a block, if incomplete ones are left out
_ONE_STD = 0.158655  # beyond one standard deviation of a normal error
_BATCH = 32  # blocks that a process is given at a time


@parameters
class PrivateStatistic(HasEstimates, PrivateEstimator[StatisticPlan]):
    """Private estimate, with an interval, of any statistic that a Python function computes from rows.

    Parameters
    ----------
    function : callable
        Takes a block of rows, and their outcomes if it has a second required argument, and returns
        ``n_outputs`` numbers. A block is a data frame of pandas if the columns have names, and otherwise an
        array; all entries are float64. Its value must depend only on the rows of its block: see Notes.
    n_outputs : int, default=1
        Number of values that the function returns. Every output gets its part of epsilon: ask for the number
        that matters.
    bounds : (low, high), or sequence of n_outputs pairs, default=(-100, 100)
        Public box that holds the values, on the scale of the link if there is one. It may be wide: with 80
        blocks times epsilon and more, bounds that are 100,000 times wider than the values of blocks vary cost
        little.
    blocks : int or "auto", default="auto"
        Number of blocks of rows.
    parameters : int, default=1
        Number of parameters that the function estimates. Blocks get at least 16 rows for the first and 20 for each
        further one; with other corrections of the bias, 20 or 30 for each.
    skewness : float, default=8.0
        Largest skewness of the influence of a row that intervals count. 3 is enough for rank correlations. The
        skewness of an event in a fraction p of the rows is about 1/sqrt(p): more than 3 if p is below 0.11. Above 8,
        blocks are larger.
    remainder : float, default=0.35
        Largest bias of a corrected block of m rows that intervals count, times m and in standard deviations of a
        block. Without a correction (``bias=None``) it is 0: the function is then taken to be unbiased.
    bias : {"jackknife", "jackknife2", None}, default="jackknife"
        Correction of the value of a block of m rows. "jackknife" removes biases of order 1/m (6 calls).
        "jackknife2" also removes order 1/m^2 (16 calls), for likelihoods.
    resolution : float, optional
        Step of the values of a block that are multiples of it, such as fractions or ranks: uniform noise of
        one step is added to them. At most half of the width of the bounds.
    link : {"fisher", "logit", "log"}, optional
        Applied to the value of every block; estimates and limits are mapped back. Give "fisher" for
        correlations.
    unit : column name, optional
        Names the person, say, that each row belongs to. Blocks then consist of units with all their rows. The
        guarantee protects units, and their number is public.
    time_limit : float, optional
        Seconds of CPU time of a block, from 0.001 to 1e6. A block that takes longer fails.
    n_jobs : int, default=1
        Processes that compute blocks; -1 is one per core.
    missing : {"error", "drop"}, default="error"
        "drop" leaves a row with a missing entry out of its block, which then has fewer rows. Intervals allow for half
        as many. Where more are missing, give fewer ``blocks``.
    missing_codes : sequence of numbers and text, optional
        Public codes of missing entries, such as ``[-999, "unk"]``, in all columns. Numbers are compared by value, words
        by text.
    epsilon : float, default=1.0
    delta : float, default=0.0
        Positive allows Gaussian noise, which is less for several outputs.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Budget that every call of ``fit`` charges before it draws noise. Clones share it.

    Attributes
    ----------
    estimate_ : float, or array of shape (n_outputs,)
        NaN where the values of blocks could not be located.
    n_blocks_, block_size_ : int
    failed_share_ : float or array
        Part of the blocks whose value could not be computed, with noise: at least 0.
    spread_ : float or array
        Standard deviation of the values of blocks, on the scale of the link.
    located_ : bool or array
    clipped_share_ : float or array
        Fraction of the values of blocks beyond the clip, by the normal model of the interval. NaN where the values
        were not located.
    privacy_ : PrivacyGuarantee
    plan_ : StatisticPlan

    Notes
    -----
    **Privacy.** Neighbors differ in one row (one unit, with all its rows); n is public. The guarantee holds
    if the value of a block depends on the rows of that block alone. A function that keeps state in an installed
    package, in a file or in another process breaks it. `check_locality` finds most of these, on data that are
    not private.

    **Isolation.** Each block gets a copy of the function,
    with its closures, objects, module variables and classes, as they were before the fit. What has no copy, such
    as a lock or an open file, is refused. Each call has the same seeds and float64 copies of the rows, and prints
    nothing. An exception is a failed block.

    **Estimand.** The mean, over blocks of m rows, of the corrected statistic. It differs from the statistic
    of the population by less than 1/m for smooth statistics.

    **Limits.** Not valid for extreme quantiles, the mode, kurtosis of heavy tails. If estimates are 0 in some blocks,
    the skewness can be beyond 8, and the mean over blocks is not the statistic of all rows. Use `PrivateQuantile` for
    medians.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.statistic import PrivateStatistic
    >>> def correlation(block):
    ...     return np.corrcoef(block.T)[0, 1]
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(10_000, 2))
    >>> X[:, 1] += X[:, 0]
    >>> fit = PrivateStatistic(correlation, link="fisher", epsilon=1.0, random_state=0).fit(X)
    >>> fit.n_blocks_, fit.block_size_
    (205, 48)
    >>> low, high = fit.confidence_interval()
    >>> round(fit.estimate_, 3), round(low, 3), round(high, 3)
    (0.704, 0.692, 0.715)
    """

    function: Callable[..., Any] = field(kw_only=False)
    n_outputs: int = 1
    bounds: Any = (-100.0, 100.0)
    blocks: int | str = "auto"
    parameters: int = 1
    skewness: float = 8.0
    remainder: float = 0.35
    bias: str | None = "jackknife"
    resolution: float | None = None
    link: str | None = None
    unit: Any = None
    time_limit: float | None = None
    n_jobs: int = 1
    missing: str = "error"
    missing_codes: Any = None
    epsilon: float = 1.0
    delta: float = 0.0
    random_state: Any = None
    budget: PrivacyBudget | None = None

    # Planning

    def plan(self, n_samples: int, n_features: int = 1) -> StatisticPlan:
        """Return the release plan of a fit on data of this size.

        Parameters
        ----------
        n_samples : int
            Rows, or units where there are units.
        n_features : int
        """
        n = check_integer("n_samples", n_samples, at_least=2, at_most=2**40)
        d = check_integer("n_features", n_features, at_least=1)
        guarantee = PrivacyGuarantee(*check_privacy_parameters(self.epsilon, self.delta))
        parameters = check_integer("parameters", self.parameters, at_least=1)
        check_integer("n_outputs", self.n_outputs, at_least=1)
        skewness = check_real("skewness", self.skewness, at_least=0)
        remainder = check_real("remainder", self.remainder, at_least=0)
        if not isinstance(self.bias, str | None) or self.bias not in JACKKNIFE:
            raise refuse("bias", given=self.bias, allowed="'jackknife', 'jackknife2' or None")
        if not isinstance(self.link, str | None) or self.link not in LINKS:
            raise refuse("link", given=self.link, allowed="'fisher', 'logit', 'log' or None")
        boxes, inverse = self._boxes(), LINKS[self.link][1]
        if not all(math.isfinite(inverse(end)) for box in boxes for end in (box.low, box.high)):
            allowed = f"hold values on the scale of link={show(self.link)}, where the statistic is finite"
            remedy = "Give the bounds of its logarithm."
            raise refuse("bounds", given=self.bounds, allowed=allowed, remedy=remedy)
        if self.resolution is not None:
            width = min(box.high / 2 - box.low / 2 for box in boxes)
            check_real("resolution", self.resolution, above=0, at_most=width)
        self._policy()
        check_jobs(self.n_jobs)
        if self.time_limit is not None:
            check_real("time_limit", self.time_limit, at_least=SHORTEST, at_most=LONGEST)
        self._takes_outcomes()
        blocks = (
            None
            if isinstance(self.blocks, str) and check_choice("blocks", self.blocks, ["auto"])
            else check_integer("blocks", self.blocks, at_least=2)
        )
        further = _SIZE_PER_PARAMETER[self.bias] * (parameters - 1)
        # The remaining bias is of order m^-2. It must be small beside n^-1/2.
        per_root = 1.7 if parameters == 1 else 3 * parameters - 1
        least = max(_LEAST_SIZE[self.bias] + further, int(per_root * n**0.25))
        made = statistic_plan(
            n,
            d,
            guarantee,
            tuple(box.ends for box in boxes),
            blocks,
            least,
            parameters,
            skewness,
            remainder if self.bias else 0.0,
            self.resolution is not None,
        )
        return replace(made, complete=_COMPLETE) if self.missing == "drop" else made

    def _boxes(self) -> list[Box]:
        """Return the bounds of every output."""
        converted = attempt(
            lambda: np.broadcast_to(np.asarray(self.bounds, dtype=np.float64), (self.n_outputs, 2)), Exception
        )
        box = np.full((1, 2), np.nan) if converted is None else converted
        if not (np.isfinite(box).all() and (box[:, 1] / 2 - box[:, 0] / 2 > 1e-250).all()):
            allowed = f"(low, high) with low < high, or such a pair for each of n_outputs = {self.n_outputs}"
            remedy = "They hold the values of the function, on the scale of the link."
            raise refuse("bounds", given=self.bounds, allowed=allowed, remedy=remedy)
        return [Box(low, high) for low, high in box.tolist()]

    def _takes_outcomes(self) -> bool:
        """Return whether the function has a second required argument."""
        if isinstance(self.function, _Lost):
            # A lambda has no name that another process could find it by.
            got = f"{show(self.function.name)}, which was not stored with the estimator"
            remedy = "Give it again by set_params(function=...)."
            raise refuse("function", got=got, allowed="have an importable name to be pickled", remedy=remedy)
        if not callable(self.function):
            got = type(self.function).__name__
            raise refuse("function", got=got, allowed="a function of a block of rows that returns numbers")
        try:
            given = inspect.signature(self.function).parameters.values()
        except (TypeError, ValueError):
            return False
        places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        required = [each for each in given if each.kind in places and each.default is each.empty]
        if len(required) > 2:
            got = f"one with {len(required)} required arguments"
            allowed = "a function of a block of rows, or of rows and their outcomes"
            remedy = "Give the other arguments by functools.partial."
            raise refuse("function", got=got, allowed=allowed, remedy=remedy)
        return len(required) == 2

    def _schema(self) -> Schema:
        outcomes = (Column("y"),) if self._takes_outcomes() else ()
        units = () if self.unit is None else (Column("units", self.unit, parameter="unit"),)
        return Schema(missing=self.missing, beside=(*outcomes, *units))

    def _row_is(self, unit: str) -> str:
        return unit if self.unit is None else str(self.unit)

    # Release

    def _read(self, rows: Rows, plan: StatisticPlan) -> _Blocks:
        check_time_limit(self.time_limit)
        table = rows.whole()
        if self.missing == "error" and not np.isfinite(table.X).all():
            remedy = "Give missing='drop' to leave such rows out of their blocks."
            raise refuse_data("X", got="at least one NaN or infinite entry", allowed="finite", remedy=remedy)
        return _Blocks(table, _Work(Frozen(self.function), self.bias, plan.n_outputs, self.link, self.time_limit))

    def _release(self, private: _Blocks, plan: StatisticPlan, session: Session) -> None:
        order = session.shuffle(ORDER)
        values = self._values(private, order, plan)
        if self.resolution is not None:
            coins = session.coins(DITHER)
            values = values + self.resolution * uniform(coins[..., ::-1]).reshape(values.shape)
        boxes, p = self._boxes(), plan.n_outputs
        found = []
        for j in range(p):
            failed = np.isnan(values[:, j])
            steps = boxes[j].in_steps(values[:, j])
            chosen = session.choose(location_name(j, p), [Part([locations(steps, boxes[j].ends)])])
            line, place = np.atleast_2d(chosen).T
            spacing = spacing_of(line)
            found.append(sums(steps, failed, place * spacing, plan.clip * 2.0 * spacing))
        steps = np.stack(found, axis=2)  # of shape (draws, 3, p)
        if session.size is None:
            steps = steps[0]
        if plan.sums_noise.law == "laplace":
            session.add(SUMS, steps.reshape(*steps.shape[:-2], 3 * p))
        else:
            names = (SIGNED, SIZES, FAILURES)
            session.add(SUMS, {name: steps[..., i, :] for i, name in enumerate(names)})

    def _values(self, private: _Blocks, order: NDArray[np.intp], plan: StatisticPlan) -> NDArray[np.float64]:
        """Return the corrected values of all blocks, of shape (n_blocks, n_outputs); NaN where a block failed."""
        blocks = block_rows(private.table, order, plan.n_blocks, self.missing == "drop")
        if check_jobs(self.n_jobs) == 1:
            return np.array(private.work(blocks))
        from joblib import Parallel, delayed

        # Threads would share the global generators.
        processes = Parallel(n_jobs=self.n_jobs, backend="loky", batch_size=_BATCH)
        return np.concatenate(processes(delayed(private.work)([block]) for block in blocks))

    # Report

    def _report(self, released: Released, plan: StatisticPlan) -> None:
        boxes, p = self._boxes(), plan.n_outputs
        numbers = released[SUMS]
        if isinstance(numbers, np.ndarray):
            triples = numbers.reshape(3, p)
        else:
            triples = np.stack([numbers[name] for name in (SIGNED, SIZES, FAILURES)])
        at = located(triples.T, plan.n_blocks, plan.sums_noise, plan.least_std)
        places = np.array([released[location_name(j, p)] for j in range(p)])
        spacing = spacing_of(places[:, 0]) * np.array([box.step for box in boxes])
        unit = plan.clip * 2.0 * spacing
        center = np.array([box.origin for box in boxes]) + places[:, 1] * spacing
        bounds = np.array([(box.low, box.high) for box in boxes])
        linked = np.where(at.found, np.clip(center + unit * at.mean, *bounds.T), np.nan)
        self._errors = BlockErrors(at, unit, linked, bounds, self.link, plan.block_skewness, plan.block_bias)
        self.n_blocks_, self.block_size_ = plan.n_blocks, plan.block_size
        self._estimate = _one(self._errors.mapped(linked))
        self.spread_ = _one(np.where(at.found, unit * at.std, np.nan))
        self.failed_share_ = _one(np.clip(triples[2], 0, plan.n_blocks) / plan.n_blocks)
        self.located_ = _one(at.found)
        self.clipped_share_ = _one(np.where(at.found, at.clipped_share, np.nan))
        units = "rows" if self.unit is None else f"{self.unit} units"
        corrected = "corrected " if self.bias else ""
        whole = ", before incomplete rows are left out" if self.missing == "drop" else ""
        words = (
            f"the mean of the {corrected}statistic over blocks of {self.block_size_:,} {units}{whole}. If the "
            "statistic is smooth, it is close to the statistic of the population"
        )
        self._estimand = with_missing(words, about_missing(self.missing))
        self._label = str(getattr(self.function, "__name__", type(self.function).__name__))

    def estimates(self) -> Estimates:
        """Return the estimates with the distribution of their errors. They can be pickled alone."""
        check_is_fitted(self)
        low, high = self._errors.interval(_ONE_STD)
        name, p = self._label, self.plan_.n_outputs
        return Estimates(
            np.asarray(self._estimate)[()],
            (high - low) / 2,
            (name,) if p == 1 else tuple(f"{name}[{j}]" for j in range(p)),
            self._estimand,
            self._errors,
            title="Private statistic",
            facts=(
                *self._table_facts(),
                ("Blocks", f"{self.n_blocks_:,} of {self.block_size_:,} or more"),
                ("Failed blocks", f"{100 * float(np.max(self.failed_share_)):.1f}% (with noise)"),
            ),
            notes=self._notes(),
            together=BONFERRONI,
            simulated=self.privacy_.simulated,
        )

    def _notes(self) -> list[str]:
        halves = ", if at least half of its rows are complete" if self.missing == "drop" else ""
        found = [
            "Intervals include sampling error, noise, a skewness of a row's influence of at most "
            f"{self.plan_.skewness:g}, and a bias of a block of at most {self.plan_.block_bias:.2g} of its standard "
            f"deviation{halves}. Intervals assume that no row alone moves its block far from the others. Test this "
            "with rehearse on public rows, and give a larger skewness and remainder for heavier tails.",
            "The guarantee holds if the function uses only the rows of its block.",
        ]
        if not np.all(self.located_):
            found.insert(
                0,
                "Warning: the values of the blocks were not located, so that the interval is the bounds. Give more "
                "rows, a larger epsilon, or other bounds.",
            )
        if np.any(np.asarray(self.clipped_share_) > _MANY_CLIPPED):
            share = float(np.nanmax(self.clipped_share_))
            found.insert(
                0,
                f"By the model, {share:.0%} of the values of blocks were clipped: the interval may miss their tails. "
                "Consider link='log' for ratios and variances, or a larger epsilon.",
            )
        if np.any(self._errors.located.one_sided & self.located_):
            found.insert(
                0,
                "The values of blocks look tied or one-sided: the interval may be too narrow. Give a resolution, fewer "
                "blocks or a larger epsilon. For shares and their differences use PrivateProportion.",
            )
        # Blocks that fail for their values, two standard deviations from the others, say, shift the mean by 0.6
        # standard errors.
        many = max(_MANY_FAILURES * math.sqrt(self.n_blocks_), _SURE * self.plan_.sums_noise.failures)
        if np.any(np.asarray(self.failed_share_) * self.n_blocks_ > many):
            found.insert(
                0,
                "Warning: many blocks failed, and the estimate describes the others. If the values of blocks decide "
                "which fail, as the logarithm of 0 does, the interval may miss. Try the function on blocks of this "
                "size of public data with check_locality.",
            )
        return found

    def rehearse(
        self,
        X: Any,
        y: Any = None,
        *,
        n_samples: int | None = None,
        n_replications: int = 100,
        confidence_level: float | None = None,
        random_state: Any = 0,
    ) -> Rehearsal:
        """Fit samples of public rows, and return how often intervals hold the statistic of all of them.

        It is the only way to see the bias of a block. Rows are drawn with replacement and noise is simulated, so
        nothing is charged. Rows must be public or synthetic: the result shows what it computes from them.

        Parameters
        ----------
        X : array or data frame
            Public or synthetic rows that are like the private ones.
        y : sequence, optional
            Outcomes, for functions that take them.
        n_samples : int, optional
            Rows of a fit. Default: as many as X has.
        n_replications : int, default=100
        confidence_level : float, default=0.95
        random_state : int or numpy.random.Generator, default=0

        Returns
        -------
        Rehearsal
            ``coverage``, ``bias`` and ``width`` for each output, with Monte Carlo errors.

        Examples
        --------
        >>> import numpy as np
        >>> from dpstats.statistic import PrivateStatistic
        >>> rows = np.random.default_rng(0).exponential(size=(1000, 1))
        >>> found = PrivateStatistic(lambda block: block.std() / block.mean()).rehearse(rows, n_replications=20)
        >>> bool(found.coverage[0] > 0.8), found.holds
        (True, True)
        """
        return rehearse(self, X, y, n_samples, n_replications, confidence_level, random_state)

    def difference(self, other: PrivateStatistic) -> Estimates:
        """Return the difference to a statistic that was fitted on other, independent rows.

        The limits of both are combined by the method MOVER (Zou and Donner 2008). It costs no privacy.
        """
        check_is_fitted(self)
        if not isinstance(other, PrivateStatistic):
            raise refuse("other", given=other, allowed="a fitted PrivateStatistic")
        check_is_fitted(other)
        if other.plan_.n_outputs != self.plan_.n_outputs:
            allowed = f"have {self.plan_.n_outputs} outputs, as this statistic has"
            raise refuse("other", got=f"{other.plan_.n_outputs}", allowed=allowed)
        first, second = self.estimates(), other.estimates()
        return replace(
            first,
            estimate=first.estimate - second.estimate,
            error=np.hypot(first.error, second.error),
            distribution=DifferenceErrors(self._errors, other._errors),
            estimand=f"the difference of two independent statistics, each {first.estimand}",
            title="Difference of private statistics",
            facts=(("Privacy", f"{self.privacy_} and {other.privacy_}"),),
            simulated=first.simulated or second.simulated,
        )

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        try:
            pickle.dumps(state["function"])
        except Exception:
            # A lambda has no name that another process could find it by.
            state["function"] = _Lost(getattr(self.function, "__name__", "function"))
        return state


@dataclass(frozen=True, eq=False)
class _Work:
    """Computes the values of blocks; can be sent to another process."""

    function: Frozen
    bias: str | None
    n_outputs: int
    link: str | None
    time_limit: float | None

    def __call__(self, blocks: Iterable[BlockRows]) -> list[NDArray[np.float64]]:
        link = LINKS[self.link][0]
        return evaluate_blocks(self.function, blocks, self.bias, self.n_outputs, link, self.time_limit)


@dataclass(frozen=True, eq=False)
class _Blocks:
    """The rows, and the computation for each block of them."""

    table: Table
    work: _Work


class _Lost:
    """Stands for a function that cannot be pickled."""

    def __init__(self, name: str) -> None:
        self.name = name


def _one(values: NDArray[Any]) -> Any:
    """Return the value of an array of one element, and otherwise the array."""
    return values.item() if values.size == 1 else values


@dataclass(frozen=True, slots=True)
class LocalityCheck(Printed):
    """Result of `check_locality`.

    Attributes
    ----------
    n_blocks : int
    failed : int
        Blocks for which the function raised an error or returned something other than finite numbers.
    first_error : str
        The first of these errors; the data are public here.
    changed : mapping of str to int
        For every way to repeat the computation, how many blocks had another value.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.statistic import check_locality
    >>> check_locality(np.median, np.arange(100.0)).changed
    {'in the same order': 0, 'in reverse order': 0, 'after another first block': 0}
    """

    n_blocks: int
    failed: int
    first_error: str
    changed: dict[str, int]

    @property
    def local(self) -> bool:
        """Whether no block had another value."""
        return not any(self.changed.values())

    def _records(self) -> Records:
        facts = {key: getattr(self, key) for key in ("n_blocks", "failed", "first_error", "local")}
        return Records(list(self.changed), {"changed": list(self.changed.values())}, facts)

    def summary(self) -> Summary:
        """Return a table. It prints as text, and shows as HTML in a notebook."""
        notes = [
            "The check found no dependence on anything except the rows of a block."
            if self.local
            else "Warning: the function depends on more than the rows of its block. PrivateStatistic does not protect "
            "data with it. Remove state that outlives a call: variables of packages or of the environment, files."
        ]
        if self.failed:
            notes.append(f"{self.failed} of {self.n_blocks} blocks failed. The first error: {self.first_error}")
        return Summary(
            "Locality of a function",
            [("Blocks", f"{self.n_blocks}"), ("Local", "yes" if self.local else "no")],
            ["repeated", "blocks with another value"],
            [(way, f"{count}") for way, count in self.changed.items()],
            notes,
        )


def check_locality(
    function: Callable[..., Any], X: Any, y: Any = None, *, n_outputs: int = 1, n_blocks: int = 10
) -> LocalityCheck:
    """Run a function on blocks of public data in several ways, and compare its values bit for bit.

    Parameters
    ----------
    function : callable
        The function, as in `PrivateStatistic`.
    X : array or data frame
        Public or synthetic rows: values and errors are shown.
    y : sequence, optional
        Outcomes, for functions that take them.
    n_outputs : int, default=1
    n_blocks : int, default=10
        Number of blocks, of at least 5 rows each.

    Returns
    -------
    LocalityCheck

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.statistic import check_locality
    >>> X = np.random.default_rng(0).normal(size=(500, 1))
    >>> check_locality(lambda block: block.mean(), X).local
    True
    >>> import os
    >>> def remembers(block):
    ...     os.environ["SEEN"] = os.environ.get("SEEN", "") + "."
    ...     return len(os.environ["SEEN"])
    >>> check_locality(remembers, X).local
    False
    >>> del os.environ["SEEN"]
    """
    k = check_integer("n_blocks", n_blocks, at_least=2)
    estimator = PrivateStatistic(function, n_outputs=check_integer("n_outputs", n_outputs, at_least=1))
    source = open_source(X)
    schema, given = source.resolve(estimator._schema(), y)
    table = source.read(schema, given).whole()
    if len(table) < 5 * k:
        raise refuse_data("X", got=f"{len(table)}", allowed=f"have at least {5 * k} rows for {k} blocks")
    blocks, frozen = list(block_rows(table, np.arange(len(table)), k, False)), Frozen(function)

    def values(some: list[BlockRows]) -> NDArray[np.float64]:
        return np.array(evaluate_blocks(frozen, some, None, n_outputs))

    first = values(blocks)
    again, backwards = values(blocks), values(blocks[::-1])[::-1]
    # Another first block must change no other value.
    beside = np.concatenate([first[:1], values([blocks[-1], *blocks[1:]])[1:]])
    ways = {"in the same order": again, "in reverse order": backwards, "after another first block": beside}
    changed = {
        way: int((~np.all((found == first) | (np.isnan(found) & np.isnan(first)), axis=1)).sum())
        for way, found in ways.items()
    }
    failed = np.isnan(first).any(axis=1)
    error = _error_of(frozen, blocks[int(np.argmax(failed))]) if failed.any() else ""
    return LocalityCheck(k, int(failed.sum()), error, changed)


def _error_of(frozen: Frozen, block: BlockRows) -> str:
    (_, arguments) = next(block.subsets(None))
    function = frozen.thaw()
    try:
        with hide_modules():
            value = function(*arguments)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return f"it returned {value!r}"
