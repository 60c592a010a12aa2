"""Rounds that select the table with the worst answers and learn from its noisy counts: their plan and state."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64
from dpstats.errors import refuse
from dpstats.lattice import isqrt_up
from dpstats.privacy.calibration import MARGINS, largest_cost
from dpstats.privacy.events import BoundedRange, Event, Gaussian
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import AnyStage, Selection, Stage
from dpstats.privacy.totals import covers
from dpstats.privacy.zcdp import zcdp_rho
from dpstats.queries.contrasts import Contrasts
from dpstats.queries.counts import ROW
from dpstats.queries.domain import BYTES_OF_A_CELL, Counts
from dpstats.queries.entropic import descend, uniform
from dpstats.queries.linear import FRACTION_BITS, Numbers
from dpstats.queries.marginals import MarginalQueries, Table, margins
from dpstats.queries.measured import Measured
from dpstats.release.noise import check_scale

# Proof: docs/proofs/marginal-mwem.md.

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

    def __str__(self) -> str:
        # All rounds are equal, so show only the first.
        lines = super().__str__().split("\n")
        return "\n".join([*lines[:3], *([f"  and so on, {self.rounds} rounds"] if self.rounds > 1 else [])])


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
        self._known = Measured(
            Contrasts(shape), np.zeros((draws, *shape)), np.zeros((draws, *shape)), plan.n_samples
        )
        self._penalties = [
            round(math.sqrt(2 / math.pi) * plan.noise_std * math.prod(own) * ROW)
            for own in self._queries.shapes
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
