"""The plan of the iterative construction: how many rounds, their noise, when to stop, and what that promises.

Proof: docs/proofs/iterative-construction.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from scipy.special import ndtri

from dpstats.errors import InvalidParameter, NotPrivate
from dpstats.privacy.calibration import largest_cost
from dpstats.privacy.events import BoundedRange, Event, Gaussian
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import Selection, Stage
from dpstats.privacy.totals import covers
from dpstats.privacy.zcdp import zcdp_rho
from dpstats.queries.bounds import whole
from dpstats.queries.counts import ROW
from dpstats.queries.linear import FRACTION_BITS, LinearQueries
from dpstats.queries.updates import UpdateRule
from dpstats.release.noise import check_scale

MOST_ROUNDS = 10_000


def worst_query(t: int) -> str:
    """Return the name of the stage that looks for the worst query of round t."""
    return f"worst query {t}"


def its_answer(t: int) -> str:
    """Return the name of the stage that answers it."""
    return f"its answer {t}"


@dataclass(frozen=True)
class RoundNoise:
    """Noise of every round, in rows: Gumbel on the errors of all queries, and that of the worst one's answer.

    Attributes
    ----------
    errors, answer : float
        Scales.
    law : {"laplace", "gaussian"}
        Of the answer.
    """

    errors: float
    answer: float
    law: str

    def regret(self, rounds: int, n_queries: int, beta: float) -> float:
        """Return by what the selected query is better than the worst one at most, in all rounds but for beta/2."""
        return self.errors * math.log(2 * rounds * n_queries / beta) + 1 / ROW

    def error(self, rounds: int, beta: float) -> float:
        """Return within which all answers are, but for beta/2."""
        if self.law == "laplace":
            return self.answer * math.log(2 * rounds / beta) + 1 / ROW
        return -self.answer * float(ndtri(beta / (4 * rounds))) + 1 / ROW

    def less(self, factor: float) -> RoundNoise:
        """Return the noise of a cost that is ``factor`` times as large."""
        return RoundNoise(self.errors / factor, self.answer / factor, self.law)


@dataclass(frozen=True)
class ConstructionPlan(ReleasePlan):
    """The plan of an iterative construction.

    Attributes
    ----------
    queries : LinearQueries
    accuracy : float, optional
        What was asked for.
    rounds : int
        Looks for the worst query, with a check each; one more than there can be updates.
    stop : float
        Until a query's checked error is at most this, every round is an update that `most_updates` counts.
    answer_error : float
        Within which the checks are.
    regret : float
        By what the selected query may be better than the worst one.
    gap : float
        What the answers of an update's query differ by at least.
    beta : float
        All of these, shares of the rows, hold together but for beta.
    promised : bool
        Whether the rounds are enough for every data: then the error is at most ``error_bound``, but for beta.
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

    def ends_at(self, checked: float) -> bool:
        """Whether a search is over: the stated accuracy is reached. Without one all rounds are used."""
        if self.printed:
            return checked <= self.stop
        bound = checked + self.answer_error + self.regret
        return self.accuracy is not None and bound <= self.accuracy * (1 + 1e-12)

    @property
    def error_bound(self) -> float:
        """Largest error of all answers, once a check is at most ``stop``: stop + answer_error + regret."""
        return self.stop + self.answer_error + self.regret

    def notes(self) -> list[str]:
        """Return what is not promised, in words."""
        found = self.accuracy_note()
        if not self.promised:
            found.append(
                "The rounds may not be enough: what a fit finds has the bound that its own checks give."
            )
        if self.error_bound >= 0.5:
            found.append("The error bound is vacuous: the answer 1/2 to every query is never further off.")
        return found

    def accuracy_note(self) -> list[str]:
        """Return whether the accuracy that was asked for is missed."""
        if self.accuracy is None or self.error_bound <= self.accuracy * (1 + 1e-9):
            return []
        return [f"An accuracy of {self.accuracy:g} was not promised: these sizes do not allow it."]

    def __str__(self) -> str:
        # The rounds are alike.
        lines = super().__str__().split("\n")
        return "\n".join([*lines[:3], *([f"  and so on, {self.rounds} rounds"] if self.rounds > 1 else [])])


def shares(rounds: int, n_queries: int, target: PrivacyGuarantee, beta: float) -> RoundNoise:
    """Return the noise of every round, shared out so that twice an answer's error and the regret add up to least."""
    log_queries = math.log(2 * rounds * n_queries / beta)
    if target.delta == 0:
        # Each costs 1/scale, or 2/scale: sums of a/x + b/(1 - x) are least at x/(1 - x) = sqrt(a/b).
        odds = math.sqrt(2 * math.log(2 * rounds / beta) / (2 * log_queries))
        answers = odds / (1 + odds) * target.epsilon / rounds
        return RoundNoise(2 / (target.epsilon / rounds - answers), 1 / answers, "laplace")
    # Of rho an answer takes 1/(2 scale^2), and a choice of range 2/scale half as much again as its square over 4.
    rho = zcdp_rho(target.epsilon, target.delta) / rounds
    tail = -float(ndtri(beta / (4 * rounds)))
    odds = (2 * tail / math.sqrt(2) / (log_queries / math.sqrt(2))) ** (2 / 3)
    answers = odds / (1 + odds) * rho
    return RoundNoise(math.sqrt(1 / (2 * (rho - answers))), math.sqrt(1 / (2 * answers)), "gaussian")


LESS = (0.0, 1e-12, 1e-9, 1e-6, 1e-3, 3e-3, 0.01, 0.02, 0.03, 0.04, 0.06, 0.1, 1.0)
"""By which part a cost is less than that of continuous noise: from an epsilon of about 11 on, where what a lattice adds
to delta counts e^epsilon times, the exact total cannot be filled up."""


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


def stages_of(
    noise: RoundNoise, rounds: int, n_queries: int, n: int, target: PrivacyGuarantee, calibration: str
) -> tuple[Selection | Stage, ...]:
    """Return the stages of all rounds: certified to cost no more than the target."""
    for margin in (0.0, 1e-12, 1e-9, 1e-6, 1e-3):
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
        raise NotPrivate(
            f"calibration='textbook' is not private at {target}: the printed constants rest on advanced composition, "
            "which needs a smaller epsilon (docs/errata.md); use calibration='exact'"
        )
    raise InvalidParameter(f"epsilon and delta are too extreme for exact noise, got {target}")


def best_gap(
    updates: Callable[[float], float],
    n: int,
    n_queries: int,
    target: PrivacyGuarantee,
    beta: float,
    accuracy: float | None,
) -> tuple[float, int]:
    """Return the gap of an update, and how many rounds it needs.

    The error is gap + 2 answer_error + regret, and the noise falls as the gap grows: the largest gap that promises the
    accuracy has the fewest rounds. Where none does, or none is asked for, it is the gap of the best promise.
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
        raise InvalidParameter(
            f"max_updates must be given: at any accuracy there may be more than {MOST_ROUNDS:,} updates here"
        )
    kept = [way for way in ways if accuracy is not None and way[0] <= accuracy]
    _, gap, rounds = max(kept, key=lambda way: way[1]) if kept else min(ways)
    return gap, rounds
