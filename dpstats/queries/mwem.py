"""Multiplicative weights with the exponential mechanism over tables. Each round measures the worst table.

Proof: docs/proofs/marginal-mwem.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from dpstats.data.parameters import check_integer, check_level
from dpstats.data.rows import Rows
from dpstats.data.values import as_int64
from dpstats.errors import refuse
from dpstats.inference.error_distributions import NoLimits
from dpstats.inference.estimates import Estimates, HasEstimates
from dpstats.inference.reports import SIMULATED
from dpstats.inference.results import Summary
from dpstats.lattice import isqrt_up
from dpstats.privacy.events import BoundedRange, Event, Gaussian
from dpstats.privacy.gaussian import zcdp_rho
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import MARGINS, ReleasePlan, largest_cost
from dpstats.privacy.stages import AnyStage, Selection, Stage
from dpstats.privacy.totals import covers
from dpstats.queries.domain import (
    BYTES_OF_A_CELL,
    TIMES,
    Contrasts,
    Counts,
    MarginalQueries,
    Table,
    check_table,
    counts_of,
    margins,
)
from dpstats.queries.linear import FRACTION_BITS, ROW, Numbers
from dpstats.queries.workload import FULL_TABLE, Measured, SyntheticDistribution, WorkloadRelease, descend, uniform
from dpstats.release.estimator import parameters
from dpstats.release.noise import check_scale
from dpstats.release.session import Released, Session

# Rounds: their plan and state

SELECTION_SHARE = 0.1
"""Fraction of the cost of a round for the selection of a table. Public, chosen without data (McKenna et al.)."""
MOVED = 2
"""Sensitivity of the l1 error of a table: a replaced row leaves one cell and enters another."""
_BALANCED = 0.1
"""l1 noise of a table, as a proportion of the rows, at which one round per attribute is best."""
LESS = (0.0, *MARGINS, 3e-3, 0.01, 0.02, 0.03, 0.04, 0.06, 0.1, 1.0)
"""Candidate reductions of the cost, relative to continuous noise.

From an epsilon of about 11, the delta of a lattice counts e^epsilon times, and the exact total cannot be reached."""
_STEPS = 40
_TOLERANCE = 0.02


def worst_table(t: int) -> str:
    """Return the name of the stage that selects the worst table of round t."""
    return f"worst table {t}"


def its_counts(t: int) -> str:
    """Return the name of the stage that releases the counts of the table selected in round t."""
    return f"its counts {t}"


@dataclass(frozen=True)
class MwemPlan(ReleasePlan):
    """The plan of a `MarginalMWEM`: in every round one table is selected, and its counts are released.

    Attributes
    ----------
    rounds : int
        Number of rounds.
    noise_std : float
        Standard deviation of the noise of a count.
    """

    rounds: int
    noise_std: float = field(compare=False)
    queries: MarginalQueries = field(repr=False, compare=False)

    @property
    def _workspace(self) -> int:
        return BYTES_OF_A_CELL * self.queries.size

    @cached_property
    def guarantee(self) -> PrivacyGuarantee:
        """Composed guarantee of all rounds at the requested delta; see `ReleasePlan`."""
        return _certified(self.stages, self.target)

    def _describe_stages(self) -> list[str]:
        # All rounds are equal, so show only the first.
        return [*super()._describe_stages()[:2], *([f"and so on, {self.rounds} rounds"] if self.rounds > 1 else [])]


@lru_cache(maxsize=64)
def _certified(stages: tuple[AnyStage, ...], target: PrivacyGuarantee) -> PrivacyGuarantee:
    """Return the privacy cost of stages. It depends on the stages only, and is cached."""
    return ReleasePlan(stages, target, 1, 1).guarantee


# A selection with range r costs r^2/8, and noise with parameter mu costs mu^2/2, in the stated proportion.
_PROPORTION = math.sqrt(8 * SELECTION_SHARE), math.sqrt(2 * (1 - SELECTION_SHARE))


@lru_cache(maxsize=64)
def _largest_factor(rounds: int, target: PrivacyGuarantee) -> float:
    """Return the largest public factor by which range and mu of every round may exceed `_PROPORTION`."""
    choice, answer = _PROPORTION

    def events(factor: float) -> tuple[Event, ...]:
        return (BoundedRange(factor * choice),) * rounds + (Gaussian(factor * answer),) * rounds

    # Zero-concentrated privacy shows that this factor is within the target.
    start = math.sqrt(zcdp_rho(target.epsilon, target.delta) / rounds) * (1 - 1e-9)
    return largest_cost(events, target, start) * (1 - 1e-9)


@lru_cache(maxsize=64)
def round_stages(
    n_tables: int, size: int, rounds: int, target: PrivacyGuarantee
) -> tuple[tuple[Selection | Stage, ...], float]:
    """Return the stages of all rounds, certified to cost at most the target, and the noise of a count.

    Parameters
    ----------
    n_tables, size : int
        Number of tables, and number of cells of the largest table.
    rounds : int
        Number of rounds.
    target : PrivacyGuarantee
        Total guarantee.
    """
    factor = _largest_factor(rounds, target)
    choice, answer = _PROPORTION
    # One count falls by 1, and another rises by 1.
    moved = isqrt_up(2 * ROW**2)
    # Large margins are needed only if epsilon is 11 or more (`LESS`).
    for margin in LESS[:-1]:
        scales = 2 * MOVED * ROW / (factor * choice), moved / (factor * answer)
        errors, counts = (check_scale(scale * (1 + margin)) for scale in scales)
        stages = [
            stage
            for t in range(1, rounds + 1)
            for stage in (
                Selection(worst_table(t), "gumbel", 1, 1 / ROW, MOVED * ROW, errors, candidates=n_tables),
                Stage(its_counts(t), "gaussian", size, 1 / ROW, moved, counts),
            )
        ]
        if covers(tuple(event for stage in stages for event in stage.events), target):
            return tuple(stages), counts / ROW
    raise refuse("epsilon and delta", got=f"{target}", allowed="not be too extreme for exact noise")


def default_rounds(queries: MarginalQueries, n: int, target: PrivacyGuarantee) -> int:
    """Return the number of tables to measure, between the number d of attributes and the number of tables.

    With T rounds, the noise of a measured table is proportional to the square root of T. The error of the other tables
    is approximately proportional to 1/T. The sum is smallest if T is proportional to the noise of d rounds to the power
    -2/3. The result is public, because it depends on sizes and the budget only.
    """
    d, tables = len(queries.domain.shape), len(queries.tables)
    each = zcdp_rho(target.epsilon, target.delta) / d * (1 - SELECTION_SHARE)
    # Replacing a row changes the counts by sqrt(2), and noise with scale s costs 1/s^2.
    noise = math.sqrt(2 / math.pi) * len(queries) / tables / math.sqrt(each) / n
    return max(d, min(tables, round(d * math.pow(_BALANCED / noise, 2 / 3))))


class Rounds:
    """The distributions so far, one per draw. They depend on released values only."""

    def __init__(self, plan: MwemPlan, draws: int = 1) -> None:
        self._plan = plan
        self._queries = plan.queries
        shape = self._queries.domain.shape
        self.p = uniform(draws, self._queries.size)
        self._known = Measured(Contrasts(shape), np.zeros((draws, *shape)), np.zeros((draws, *shape)), plan.n_samples)
        self._penalties = [
            round(math.sqrt(2 / math.pi) * plan.noise_std * math.prod(own) * ROW) for own in self._queries.shapes
        ]

    def scores(self, exact: Mapping[Table, Counts]) -> NDArray[np.int64]:
        """Return the l1 error of each table minus the noise that measuring it adds: (draws, tables), in steps of 2^-20.

        Replacing a row changes each by at most two rows, because the answers of the distribution are public.
        """
        shape = self._queries.domain.shape
        found = np.empty((len(self.p), len(self._queries.tables)), dtype=np.int64)
        answers = self._answers(self.p.reshape(-1, *shape))
        for i, table in enumerate(self._queries.tables):
            guessed = as_int64(np.rint(np.ldexp(self._plan.n_samples * answers[i], FRACTION_BITS)))
            off = np.abs((exact[table] << FRACTION_BITS).ravel() - guessed)
            found[:, i] = off.sum(axis=1) - self._penalties[i]
        return found

    def padded(self, exact: Mapping[Table, Counts], chosen: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return the counts of each draw's table in steps, and zeros to the size of the largest: (draws, size)."""
        size = max(math.prod(shape) for shape in self._queries.shapes)
        rows = np.zeros((len(self._queries.tables), size), dtype=np.int64)
        for row, table in zip(rows, self._queries.tables, strict=True):
            row[: exact[table].size] = exact[table].ravel() << FRACTION_BITS
        return np.asarray(rows[chosen])

    def learn(self, chosen: NDArray[np.intp], noisy: Numbers) -> None:
        """Include noisy counts of the table of each draw, and fit the distributions to all releases."""
        shape = self._queries.domain.shape
        known, precision = self._known, self._plan.noise_std**-2
        for i in np.unique(chosen):
            table, own = self._queries.tables[i], self._queries.shapes[i]
            draws = np.flatnonzero(chosen == i)
            others = self._queries.size // math.prod(own)
            found = Contrasts(own).coefficients(noisy[draws, : math.prod(own)].reshape(-1, *own))
            at: tuple[Any, ...] = (draws, *(slice(None) if j in table else 0 for j in range(len(shape))))
            before = known.precisions[at]
            after = before + precision * others
            known.coefficients[at] = (
                before * known.coefficients[at] + precision * others * found / math.sqrt(others)
            ) / after
            known.precisions[at] = after
        # The number of rows is known.
        total: tuple[Any, ...] = (slice(None), *(0,) * len(shape))
        known.coefficients[total] = known.precisions[total] = 0.0
        freedom = np.count_nonzero(known.precisions.reshape(len(self.p), -1), axis=1).max()
        self.p = descend(known.evaluate(), self.p, tolerance=_TOLERANCE * float(freedom), steps=_STEPS)

    def _answers(self, p: Numbers) -> list[Numbers]:
        """Return the tables of distributions, each flat: (draws, cells)."""
        # Every table includes the axis of the draws.
        tables = [(0, *(j + 1 for j in table)) for table in self._queries.tables]
        found = dict(margins(p, tables))
        return [found[table].reshape(len(p), -1) for table in tables]


# The estimator

_SHOWN = 40
_MOST_ROUNDS = 1000
_UNKNOWN = (
    "there are no intervals for all answers: their errors are not known. marginal() has intervals of the tables that "
    "were measured."
)


@parameters
class MarginalMWEM(HasEstimates, WorkloadRelease[MwemPlan]):
    """Private distribution that answers many tables of attributes, learned from a few measured tables.

    Use this estimator for many tables and few rows: it spends epsilon on the tables of its rounds only. If the
    ``expected_l1`` of a `WorkloadAnswers` plan is at most about 0.1, use `WorkloadAnswers`, which also has an interval
    for every answer.

    In every round, the exponential mechanism selects the table that the distribution answers worst. The counts of this
    table are released, and the distribution is fitted to all releases.

    Parameters
    ----------
    workload : int or sequence, default=2
        Tables to answer, as in `WorkloadAnswers`.
    domain : Domain, or declarations of one, optional
        Attributes and their public levels, with at most 2^20 cells. ``fit`` then takes rows, or counts of the cells.
    rounds : int, optional
        Number of measured tables. None: between the number of attributes and the number of tables, larger if epsilon
        and n give less noise. ``plan(n).rounds`` reports it.
    epsilon : float, default=1.0
        Privacy parameter. Must be positive.
    delta : float, default=1e-6
        Privacy parameter, in (0, 1).
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Budget that every call of ``fit`` charges before it draws noise. Clones share it.

    Attributes
    ----------
    answers_ : ndarray of shape (n_queries,)
        Point answers of ``synthetic_``, as proportions of the rows.
    synthetic_ : SyntheticDistribution
        The fitted distribution.
    measured_ : tuple of tuples of str
        The selected table of each round.
    counts_ : tuple of ndarrays
        Released counts of the cells of each selected table. They are unbiased, and may be negative.
    queries_ : LinearQueries
        The workload, in the order of the answers.
    privacy_ : PrivacyGuarantee
        Guarantee of the fit, for neighboring datasets that differ in one row.
    plan_ : MwemPlan
        The release plan.
    n_features_in_ : int
        Number of attributes.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the attributes. Only if the domain has names.

    Notes
    -----
    **Sensitivity.** Replacing a row changes the l1 error of a table by at most 2, and its counts by sqrt(2) in l2. For
    an added row these are 1 and 1.

    **Intervals** exist only for measured tables. The errors of the other tables are not known.

    **Limits.** Tables that were not measured have no known error. Point answers and synthetic rows are biased, and
    tests on synthetic rows have no level.

    References
    ----------
    Hardt, Ligett and McSherry (2012), A simple and practical algorithm for differentially private data release.
    McKenna, Mullins, Sheldon and Miklau (2022), AIM: an adaptive and iterative mechanism for differentially private
    synthetic data.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.queries import Domain, MarginalMWEM
    >>> rng = np.random.default_rng(0)
    >>> smokes = rng.random(5000) < 0.3
    >>> rows = np.column_stack([smokes, rng.integers(0, 3, 5000), rng.random(5000) < 0.2 + 0.3 * smokes])
    >>> domain = Domain({"smokes": [0, 1], "region": 3, "ill": [0, 1]})
    >>> made = MarginalMWEM(domain=domain, epsilon=0.2, random_state=0).fit(rows)
    >>> made.plan_.rounds, len(made.predict([("smokes", "ill")]))
    (3, 4)
    """

    rounds: int | None = None

    def plan(self, n_samples: int, n_features: int | None = None) -> MwemPlan:
        """Return the release plan of a fit on data of this size.

        Parameters
        ----------
        n_samples : int
            Public number of rows.
        n_features : int, optional
            Number of attributes. Must equal the number of attributes of the domain.
        """
        queries, domain = self._tables()
        n = check_integer("n_samples", n_samples, at_least=1, at_most=2**31)
        d = self._width(n_features)
        target = PrivacyGuarantee(*self._cost())
        if self.rounds is None:
            rounds = min(default_rounds(queries, n, target), _MOST_ROUNDS)
        else:
            rounds = check_integer("rounds", self.rounds, at_least=1, at_most=_MOST_ROUNDS)
        domain.check_size(FULL_TABLE, "a distribution over it; WorkloadAnswers takes more")
        largest = max(map(math.prod, queries.shapes))
        stages, noise_std = round_stages(len(queries.tables), largest, rounds, target)
        return MwemPlan(stages, target, n, d, rounds, noise_std, queries)

    def _tables(self) -> tuple[MarginalQueries, Any]:
        queries, domain = self._asked()
        if not isinstance(queries, MarginalQueries):
            raise refuse("workload", given=queries, allowed="tables of attributes")
        return queries, domain

    def _read(self, rows: Rows, plan: MwemPlan) -> Mapping[Table, Counts]:
        return dict(margins(counts_of(rows, plan.queries.domain.shape), plan.queries.tables))

    def _release(self, private: Mapping[Table, Counts], plan: MwemPlan, session: Session) -> None:
        rounds = Rounds(plan, session.size or 1)
        for t in range(1, plan.rounds + 1):
            scores = rounds.scores(private)
            chosen = session.select(worst_table(t), scores[0] if session.size is None else scores)
            tables = np.reshape(chosen, -1)
            steps = rounds.padded(private, tables)
            noisy = session.add(its_counts(t), steps[0] if session.size is None else steps)
            if t < plan.rounds:
                rounds.learn(tables, np.atleast_2d(noisy))

    def _report(self, released: Released, plan: MwemPlan) -> None:
        self.queries_, domain = self._tables()
        rounds = Rounds(plan)
        known: list[tuple[tuple[str, ...], Numbers]] = []
        for t in range(1, plan.rounds + 1):
            chosen = np.reshape(released[worst_table(t)], -1)
            rounds.learn(chosen, np.atleast_2d(released[its_counts(t)]))
            i = int(chosen[0])
            names = tuple(domain.names[j] for j in self.queries_.tables[i])
            cells = math.prod(self.queries_.shapes[i])
            known.append((names, np.asarray(released[its_counts(t)])[:cells]))
        self.measured_ = tuple(names for names, _ in known)
        self.counts_ = tuple(counts for _, counts in known)
        self.synthetic_ = SyntheticDistribution(domain, rounds.p.reshape(domain.shape))
        self.answers_ = self.synthetic_.answers(self.queries_)

    def marginal(self, attributes: Any, confidence_level: float = 0.95, backend: str = "pandas") -> Any:
        """Return a table as a data frame with levels, proportions, and intervals if its counts were released.

        Parameters
        ----------
        attributes : sequence of attributes, by name or position
            Attributes of the table.
        confidence_level : float, default=0.95
            Level of the intervals. They cover the proportions of these rows, and use the first released counts of the
            table only. They are NaN if the table was not measured.
        backend : str, default="pandas"
            Library of the data frame: "pandas", "polars" or "pyarrow".
        """
        check_is_fitted(self, "answers_")
        level = check_level("confidence_level", confidence_level)
        domain = self._tables()[1]
        table = check_table("attributes", attributes, domain)
        queries = MarginalQueries(domain, [table])
        named = tuple(domain.names[j] for j in table)
        n, known = self.plan_.n_samples, zip(self.measured_, self.counts_, strict=True)
        times = [noisy for own, noisy in known if own == named]
        low = high = np.full(len(queries), math.nan)
        if times:
            # Use the first counts only. Their noise is drawn after the selection and is independent of it. A second
            # measurement of the same table depends on this noise (see the proof page).
            first = times[0] / n
            half = float(-ndtri((1 - level) / 2)) * self.plan_.noise_std / n
            low, high = np.clip(first - half, 0.0, 1.0), np.clip(first + half, 0.0, 1.0)
        codes = np.indices(queries.shapes[0]).reshape(len(table), -1).T
        return domain.frame(codes, table, {"share": self.predict(queries), "low": low, "high": high}, backend)

    def estimates(self) -> Estimates:
        """Return the answers to the workload, as a result that can be pickled alone.

        Their errors are not known, so there are no intervals. `marginal` has the intervals of measured tables.
        """
        check_is_fitted(self, "answers_")
        return Estimates(
            self.answers_,
            np.full(self.answers_.shape, np.nan),
            tuple(self.queries_.label(j) for j in range(self.answers_.size)),
            "the answers on these data",
            NoLimits(self.answers_, _UNKNOWN),
            title="Private answers by MWEM",
            header="share",
            simulated=self.privacy_.simulated,
        )

    def summary(self, confidence_level: float | None = None) -> Summary:
        """Return a table of the measured tables by round. It prints as text, and shows as HTML in a notebook."""
        check_is_fitted(self, "answers_")
        plan, queries = self.plan_, self.queries_
        assert isinstance(queries, MarginalQueries)
        rows = [
            (f"{t}", TIMES.join(table), f"{counts.size}")
            for t, (table, counts) in enumerate(zip(self.measured_[:_SHOWN], self.counts_[:_SHOWN], strict=True), 1)
        ]
        facts = [
            *self._public_facts(
                ("Domain", repr(queries.domain)[len("Domain(") : -1]),
                ("Workload", f"{len(queries):,} queries in {len(queries.tables)} tables"),
            ),
            ("Noise", f"Gaussian of standard deviation {plan.noise_std:.4g} on the counts of a measured table"),
        ]
        notes = ["Answers are of one distribution. Only for tables that were measured is the error known: marginal()."]
        notes += [SIMULATED] * self.privacy_.simulated
        return Summary("Private tables by MWEM", facts, ["round", "measured", "cells"], rows, notes)
