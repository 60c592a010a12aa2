"""Multiplicative weights with the exponential mechanism over tables. Each round measures the worst table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from dpstats.data.parameters import check_integer, check_level
from dpstats.data.tables import Rows
from dpstats.error_distributions import NoLimits
from dpstats.errors import refuse
from dpstats.inference import Estimates, HasEstimates
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.queries.counted import counts_of
from dpstats.queries.domain import TIMES, Counts
from dpstats.queries.linear import Numbers
from dpstats.queries.marginal_rounds import (
    MwemPlan,
    Rounds,
    default_rounds,
    its_counts,
    round_stages,
    worst_table,
)
from dpstats.queries.marginals import MarginalQueries, Table, check_table, margins
from dpstats.queries.synthetic import SyntheticDistribution
from dpstats.queries.workload import FULL_TABLE, WorkloadRelease
from dpstats.release.parameters import parameters
from dpstats.release.session import Released, Session
from dpstats.report import SIMULATED
from dpstats.results import Summary

# Proof: docs/proofs/marginal-mwem.md.

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
    domain : Domain, or declarations of one, optional
        Attributes and their public levels, with at most 2^20 cells. ``fit`` then takes rows, or counts of the cells.
    workload : int or sequence, default=2
        Tables to answer, as in `WorkloadAnswers`.
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
            for t, (table, counts) in enumerate(
                zip(self.measured_[:_SHOWN], self.counts_[:_SHOWN], strict=True), 1
            )
        ]
        facts = [
            *self._public_facts(
                ("Domain", repr(queries.domain)[len("Domain(") : -1]),
                ("Workload", f"{len(queries):,} queries in {len(queries.tables)} tables"),
            ),
            (
                "Noise",
                f"Gaussian of standard deviation {plan.noise_std:.4g} on the counts of a measured table",
            ),
        ]
        notes = [
            "Answers are of one distribution. Only for tables that were measured is the error known: marginal()."
        ]
        notes += [SIMULATED] * self.privacy_.simulated
        return Summary("Private tables by MWEM", facts, ["round", "measured", "cells"], rows, notes)
