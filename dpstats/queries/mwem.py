"""Multiplicative weights with the exponential mechanism over tables: few tables are measured, the worst of each round.

Proof: docs/proofs/marginal-mwem.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from dpstats.data.parameters import check_integer, check_level
from dpstats.data.tables import Rows
from dpstats.errors import InvalidParameter
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.queries.counted import counts_of
from dpstats.queries.domain import TIMES, Counts
from dpstats.queries.marginal_rounds import (
    MwemPlan,
    Rounds,
    default_rounds,
    exact_tables,
    its_counts,
    round_stages,
    worst_table,
)
from dpstats.queries.marginals import MarginalQueries, Table, check_table
from dpstats.queries.synthetic import SyntheticDistribution
from dpstats.queries.workload import FULL_TABLE, WorkloadRelease
from dpstats.release.parameters import parameters
from dpstats.release.session import Released, Session
from dpstats.results import Summary

Numbers = NDArray[np.float64]

_SHOWN = 40
_MOST_ROUNDS = 1000


@parameters
class MarginalMWEM(WorkloadRelease[MwemPlan]):
    """A distribution that answers tables of attributes, learned from few of them: for many tables and few rows.

    In every round the table on which the distribution is worst is selected by the exponential mechanism, its counts are
    released, and the distribution is fitted to all that is known. Where `WorkloadAnswers` would spread epsilon over
    more tables than it can pay for, this pays for as many as there are rounds. Rule of thumb: where the `expected_l1`
    of a `WorkloadAnswers` plan is at most about 0.1, take that one; it has an interval for every answer, too.

    Parameters
    ----------
    domain : Domain, or what makes one, optional
        Attributes and their public levels, of at most 2^20 cells. A fit then takes rows, or counts of the cells.
    workload : int or sequence, default=2
        The tables, as for `WorkloadAnswers`.
    rounds : int, optional
        Tables that are measured. None: from as many as there are attributes to as many as there are tables, more of
        them where epsilon and n leave less noise; ``plan(n).rounds`` says how many.
    epsilon : float, default=1.0
        Privacy parameter, greater than 0.
    delta : float, default=1e-6
        In (0, 1).
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Charged by every fit, before noise is drawn; shared by clones.

    Attributes
    ----------
    answers_ : ndarray of shape (n_queries,)
        Point answers, as shares of the rows: those of ``synthetic_``.
    synthetic_ : SyntheticDistribution
    measured_ : tuple of tuples of str
        The tables that were selected, round after round.
    counts_ : tuple of ndarrays
        Their cells' counts, as released: unbiased, and maybe negative.
    queries_ : LinearQueries
        The workload, in the order of the answers.
    privacy_ : PrivacyGuarantee
        Guarantee of the fit, for neighboring datasets that differ in one row.
    plan_ : MwemPlan
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the attributes, where the domain has any.

    Notes
    -----
    A replaced row moves the l1 error of a table by 2 and its counts by sqrt(2) in l2, twice and sqrt(2) times what an
    added one does. There are intervals for the tables that were measured only: the errors of the others are not known.

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
            Number of attributes: that of the domain.
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
            raise InvalidParameter(f"workload must be tables of attributes, got {queries!r}")
        return queries, domain

    def _read(self, rows: Rows, plan: MwemPlan) -> Mapping[Table, Counts]:
        return exact_tables(counts_of(rows, plan.queries.domain.shape), plan.queries.tables)

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
        """Return a table as a data frame: levels, share, and an interval where its counts were released.

        Parameters
        ----------
        attributes : sequence of attributes, by name or position
        confidence_level : float, default=0.95
            Of the intervals, which are for the shares of these rows, from the released counts alone, the first ones of
            a table that was measured several times; NaN where a table was not measured.
        backend : str, default="pandas"
            The library of the frame.
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
            # The first ones only: their noise is drawn after the table is selected, and does not depend on why. Whether
            # it is measured again does depend on that noise (the proof page).
            first = times[0] / n
            half = float(-ndtri((1 - level) / 2)) * self.plan_.noise_std / n
            low, high = np.clip(first - half, 0.0, 1.0), np.clip(first + half, 0.0, 1.0)
        codes = np.indices(queries.shapes[0]).reshape(len(table), -1).T
        return domain.frame(codes, table, {"share": self.predict(queries), "low": low, "high": high}, backend)

    def summary(self) -> Summary:
        """Return what was measured, round after round; prints as text, shows as HTML in a notebook."""
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
            ("Estimator", type(self).__name__),
            ("Rows", f"{plan.n_samples:,} (public)"),
            ("Domain", repr(queries.domain)[len("Domain(") : -1]),
            ("Workload", f"{len(queries):,} queries in {len(queries.tables)} tables"),
            ("Privacy", str(self.privacy_)),
            (
                "Noise",
                f"Gaussian of standard deviation {plan.noise_std:.4g} on the counts of a measured table",
            ),
        ]
        notes = [
            "Answers are of one distribution. Only for tables that were measured is the error known: marginal()."
        ]
        if self.privacy_.simulated:
            notes.append("Simulated noise, not a private release: random_state was given.")
        return Summary("Private tables by MWEM", facts, ["round", "measured", "cells"], rows, notes)
