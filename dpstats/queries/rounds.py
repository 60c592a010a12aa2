"""The plan of the iterative construction: number of rounds, noise, stopping rule and error bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from scipy.special import ndtri

from dpstats.errors import NotPrivate, refuse
from dpstats.privacy.calibration import MARGINS, largest_cost
from dpstats.privacy.events import BoundedRange, Event, Gaussian
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import Selection, Stage
from dpstats.privacy.totals import covers
from dpstats.privacy.zcdp import zcdp_rho
from dpstats.queries.bounds import VACUOUS, VACUOUS_NOTE, whole
from dpstats.queries.counts import ROW
from dpstats.queries.domain import BYTES_OF_A_CELL
from dpstats.queries.linear import FRACTION_BITS, LinearQueries
from dpstats.queries.marginal_rounds import LESS
from dpstats.queries.updates import UpdateRule
from dpstats.release.noise import check_scale

# Proof: docs/proofs/iterative-construction.md.

MOST_ROUNDS = 10_000


def worst_query(t: int) -> str:
    """Return the name of the stage that selects the worst query of round t."""
    return f"worst query {t}"


def its_answer(t: int) -> str:
    """Return the name of the stage that answers the selected query of round t."""
    return f"its answer {t}"


@dataclass(frozen=True)
class RoundNoise:
    """Noise of every round, in rows: Gumbel noise on the errors of all queries, and noise on the selected answer.

    Attributes
    ----------
    errors, answer : float
        Scales of the noise.
    law : {"laplace", "gaussian"}
        Distribution of the noise of the answer.
    """

    errors: float
    answer: float
    law: str

    def regret(self, rounds: int, n_queries: int, beta: float) -> float:
        """Bound the gap between the worst and the selected error in all rounds, except with probability beta/2."""
        return self.errors * math.log(2 * rounds * n_queries / beta) + 1 / ROW

    def error(self, rounds: int, beta: float) -> float:
        """Bound the error of all answers, except with probability beta/2."""
        if self.law == "laplace":
            return self.answer * math.log(2 * rounds / beta) + 1 / ROW
        return -self.answer * float(ndtri(beta / (4 * rounds))) + 1 / ROW

    def less(self, factor: float) -> RoundNoise:
        """Return the noise for a privacy cost that is ``factor`` times as large."""
        return RoundNoise(self.errors / factor, self.answer / factor, self.law)


@dataclass(frozen=True)
class ConstructionPlan(ReleasePlan):
    """The plan of an iterative construction.

    Attributes
    ----------
    queries : LinearQueries
        Public queries.
    accuracy : float, optional
        Requested accuracy.
    rounds : int
        Number of rounds, each with a selection and a check: one more than the maximal number of updates.
    stop : float
        Stopping threshold. Each round with a checked error above it is an update that `most_updates` counts.
    answer_error : float
        Bound on the error of the checks.
    regret : float
        Bound on the gap between the worst and the selected error.
    gap : float
        Smallest difference between the answers in an update.
    beta : float
        Probability that any of these bounds fails. The bounds are proportions of the rows.
    promised : bool
        Whether the rounds suffice for all data. The error is then at most ``error_bound``, except with probability
        beta.
    """

    queries: LinearQueries = field(repr=False, compare=False)
    accuracy: float | None
    rounds: int
    stop: float
    answer_error: float
    regret: float
    gap: float
    beta: float = field(repr=False)
    promised: bool = field(repr=False)
    rule: UpdateRule = field(repr=False, compare=False)
    printed: bool = False

    @property
    def _workspace(self) -> int:
        return BYTES_OF_A_CELL * self.queries.size

    def ends_at(self, checked: float) -> bool:
        """Return whether the stated accuracy is reached, which ends the fit. Without one, all rounds are used."""
        if self.printed:
            return checked <= self.stop
        bound = checked + self.answer_error + self.regret
        return self.accuracy is not None and bound <= self.accuracy * (1 + 1e-12)

    @property
    def error_bound(self) -> float:
        """Bound on the error of all answers after a check of at most ``stop``: stop + answer_error + regret.

        If it is not ``promised``, the checks of a fit may stay above ``stop``. The bound of the fit is then larger.
        """
        return self.stop + self.answer_error + self.regret

    def notes(self) -> list[str]:
        """Return the limits of the error bound as text."""
        found = self.accuracy_note()
        if not self.promised:
            found.append(
                "The rounds may not be enough: what a fit finds has the bound that its own checks give."
            )
        if self.error_bound >= VACUOUS:
            found.append(VACUOUS_NOTE)
        return found

    def accuracy_note(self) -> list[str]:
        """Return a note if the requested accuracy is not reached."""
        if self.accuracy is None or self.error_bound <= self.accuracy * (1 + 1e-9):
            return []
        return [f"An accuracy of {self.accuracy:g} was not promised: these sizes do not allow it."]

    def __str__(self) -> str:
        # All rounds are equal, so show only the first.
        lines = super().__str__().split("\n")
        more = [f"  and so on, {self.rounds} rounds"] if self.rounds > 1 else []
        return "\n".join([*lines[:3], *more, *(f"  {note}" for note in self.notes())])


def shares(rounds: int, n_queries: int, target: PrivacyGuarantee, beta: float) -> RoundNoise:
    """Return the noise of every round that minimizes twice the error of an answer plus the regret."""
    log_queries = math.log(2 * rounds * n_queries / beta)
    if target.delta == 0:
        # An answer costs 1/scale, and a selection 2/scale. The minimum of a/x + b/(1 - x) is at x/(1 - x) = sqrt(a/b).
        odds = math.sqrt(2 * math.log(2 * rounds / beta) / (2 * log_queries))
        answers = odds / (1 + odds) * target.epsilon / rounds
        return RoundNoise(2 / (target.epsilon / rounds - answers), 1 / answers, "laplace")
    # Of rho an answer takes 1/(2 scale^2), and a choice of range 2/scale half as much again as its square over 4.
    rho = zcdp_rho(target.epsilon, target.delta) / rounds
    tail = -float(ndtri(beta / (4 * rounds)))
    odds = (2 * tail / math.sqrt(2) / (log_queries / math.sqrt(2))) ** (2 / 3)
    answers = odds / (1 + odds) * rho
    return RoundNoise(math.sqrt(1 / (2 * (rho - answers))), math.sqrt(1 / (2 * answers)), "gaussian")


def tightened(noise: RoundNoise, rounds: int, target: PrivacyGuarantee) -> RoundNoise:
    """Return the smallest noise in the same proportions whose best total is the target."""
    if target.delta == 0:
        return noise

    def events(factor: float) -> tuple[Event, ...]:
        choices = (BoundedRange(2 * factor / noise.errors),) * rounds
        return choices + (Gaussian(factor / noise.answer),) * rounds

    factor = largest_cost(events, target, 1 - 1e-9) * (1 - 1e-9)
    for part in LESS:
        found = noise.less(max(factor * (1 - part), 1 - 1e-9))
        drawn = Stage(its_answer(1), found.law, 1, 1 / ROW, ROW, check_scale(found.answer * ROW)).event
        if covers((BoundedRange(2 / found.errors),) * rounds + (drawn,) * rounds, target):
            break
    return found


def printed(rounds: int, target: PrivacyGuarantee) -> RoundNoise:
    """Return the printed noise: every release at epsilon/(2 rounds), or epsilon/(4 sqrt(rounds log(1/delta)))."""
    epsilon, delta = target.epsilon, target.delta
    each = epsilon / (4 * math.sqrt(rounds * math.log(1 / delta)) if delta else 2 * rounds)
    return RoundNoise(2 / each, 1 / each, "laplace")


def not_private_as_printed(target: PrivacyGuarantee) -> NotPrivate:
    """Return the error for printed constants that do not have the target."""
    return NotPrivate(
        f"calibration='textbook' is not private at {target}: the printed constants rest on advanced composition, "
        "which needs a smaller epsilon (docs/errata.md); use calibration='exact'"
    )


def stages_of(
    noise: RoundNoise, rounds: int, n_queries: int, n: int, target: PrivacyGuarantee, calibration: str
) -> tuple[Selection | Stage, ...]:
    """Return the stages of all rounds, certified to cost at most the target."""
    for margin in (0.0, *MARGINS):
        errors, answer = (check_scale(scale * ROW * (1 + margin)) for scale in (noise.errors, noise.answer))
        spacing = 2.0**-FRACTION_BITS / n
        one = Selection(worst_query(1), "gumbel", 1, spacing, ROW, errors, candidates=n_queries)
        other = Stage(its_answer(1), noise.law, 1, spacing, ROW, answer)
        if covers((one.event,) * rounds + (other.event,) * rounds, target):
            return tuple(
                stage
                for t in range(1, rounds + 1)
                for stage in (
                    Selection(worst_query(t), "gumbel", 1, spacing, ROW, errors, candidates=n_queries),
                    Stage(its_answer(t), noise.law, 1, spacing, ROW, answer),
                )
            )
    if calibration == "textbook":
        raise not_private_as_printed(target)
    raise refuse("epsilon and delta", got=f"{target}", allowed="not be too extreme for exact noise")


def best_gap(
    updates: Callable[[float], float],
    n: int,
    n_queries: int,
    target: PrivacyGuarantee,
    beta: float,
    accuracy: float | None,
) -> tuple[float, int]:
    """Return the gap of an update, and the number of rounds that it requires.

    The error is gap + 2 answer_error + regret, and the noise decreases if the gap grows. The largest gap that achieves
    the accuracy has the fewest rounds. If no gap does, or no accuracy is requested, this is the gap with the smallest
    error.
    """
    ways = []
    for gap in (0.97**i for i in range(220)):
        if updates(gap) >= MOST_ROUNDS:
            break
        rounds = whole(updates(gap)) + 1
        noise = shares(rounds, n_queries, target, beta)
        bound = gap + (2 * noise.error(rounds, beta) + noise.regret(rounds, n_queries, beta)) / n
        ways.append((bound, gap, rounds))
    if not ways:
        raise refuse(
            "max_updates",
            allowed="given",
            remedy=f"At any accuracy there may be more than {MOST_ROUNDS:,} updates here.",
        )
    kept = [way for way in ways if accuracy is not None and way[0] <= accuracy]
    _, gap, rounds = max(kept, key=lambda way: way[1]) if kept else min(ways)
    return gap, rounds
