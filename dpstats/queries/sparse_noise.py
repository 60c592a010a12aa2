"""The noise of online multiplicative weights: its scales, the number of updates, and the error bound."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from scipy.special import ndtri

from dpstats.errors import InvalidParameter, refuse
from dpstats.privacy.calibration import MARGINS, largest_cost
from dpstats.privacy.events import Event, Gaussian, Pure
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.stages import Comparisons
from dpstats.privacy.totals import covers
from dpstats.privacy.zcdp import zcdp_rho
from dpstats.queries.bounds import multiplicative_weights_updates, online_bound
from dpstats.queries.counts import ROW
from dpstats.queries.linear import FRACTION_BITS
from dpstats.queries.marginal_rounds import LESS
from dpstats.queries.rounds import not_private_as_printed
from dpstats.release.noise import check_scale

# Proof: docs/proofs/online-multiplicative-weights.md.

ANSWERS = (0.1, 0.2, 0.3, 0.5)
"""Candidates for the budget fraction (of epsilon, or of rho) of the answers. The comparisons get the remainder.

The candidate with the best error bound is used. A smaller fraction would make the answers of updates less accurate
without much improvement of the bound."""

_MOST_UPDATES = 10**6


@dataclass(frozen=True)
class Scales:
    """Noise of a stream, in rows: Laplace noise on the threshold and on the comparisons, and noise of the answers."""

    threshold: float
    question: float
    answer: float
    answer_noise: str
    redrawn: bool

    def errors(self, updates: int, n_queries: int, beta: float) -> tuple[float, float]:
        """Bound the noise of all comparisons and of all answers, except with probability beta."""
        thresholds = updates if self.redrawn else 1
        # A third of beta each; half a step for every number on the lattice, and one for the threshold.
        compared = self.threshold * math.log(3 * thresholds / beta)
        compared += self.question * math.log(3 * n_queries / beta) + 2 / ROW
        if self.answer_noise == "laplace":
            return compared, self.answer * math.log(3 * updates / beta) + 1 / ROW
        return compared, -self.answer * float(ndtri(beta / (6 * updates))) + 1 / ROW

    def less(self, factor: float) -> Scales:
        """Return the noise for a privacy cost that is ``factor`` times as large."""
        return replace(
            self,
            threshold=self.threshold / factor,
            question=self.question / factor,
            answer=self.answer / factor,
        )


@dataclass(frozen=True)
class OnlineNoise:
    """Noise and error bounds of a stream.

    The three bounds are proportions of the rows. They hold simultaneously, except with probability beta.

    Attributes
    ----------
    stage : Comparisons
        The stage of the stream.
    gap : float
        Smallest difference between the answers of the data and of the hypothesis in an update.
    answer_error : float
        Bound on the error of answers from the data.
    error_bound : float
        Bound on the error of all answers.
    rate : float or None
        Rate of the printed update. None: the tight update.
    enough : bool
        Whether the stage has more updates than there can be, except with probability beta. The last update ends the
        stream.
    """

    stage: Comparisons
    gap: float
    answer_error: float
    error_bound: float
    rate: float | None
    enough: bool


def pure_scales(updates: int, epsilon: float, answers: float = 0.1) -> Scales:
    """Return noise with one threshold for the whole stream. It costs epsilon for any number of comparisons.

    The comparisons cost 1/threshold + 2 updates/question. The sum of the variances is smallest at a ratio of
    (2 updates)^(1/3).
    """
    ratio = (2 * updates) ** (1 / 3)
    threshold = (1 + ratio**2) / ((1 - answers) * epsilon)
    return Scales(threshold, ratio * threshold, updates / (answers * epsilon), "laplace", False)


def concentrated_scales(updates: int, rho: float, answers: float = 0.1) -> Scales:
    """Return noise with a threshold for each update. The total zero-concentrated cost is rho.

    A threshold with its comparison costs epsilon_0 = 1/threshold + 2/question, which is epsilon_0^2/2 of rho.
    """
    each = math.sqrt(2 * (1 - answers) * rho / updates)
    ratio = 2 ** (1 / 3)
    threshold = (1 + ratio**2) / each
    return Scales(threshold, ratio * threshold, math.sqrt(updates / (2 * answers * rho)), "gaussian", True)


def stage_of(name: str, scales: Scales, updates: int, target: PrivacyGuarantee) -> Comparisons:
    """Return the stage that draws the noise, certified to cost at most the target."""
    for margin in (0.0, *MARGINS):
        threshold, question, answer = (
            check_scale(scale * ROW * (1 + margin))
            for scale in (scales.threshold, scales.question, scales.answer)
        )
        stage = Comparisons(
            name,
            2.0**-FRACTION_BITS,
            ROW,
            0,
            threshold,
            question,
            updates,
            answer,
            redrawn=scales.redrawn,
            answer_noise=scales.answer_noise,
        )
        if covers(stage.events, target):
            return stage
    raise refuse("epsilon and delta", got=f"{target}", allowed="not be too extreme for exact noise")


def tight_noise(
    name: str,
    n: int,
    size: int,
    n_queries: int,
    target: PrivacyGuarantee,
    beta: float,
    accuracy: float | None,
    max_updates: int | None,
) -> OnlineNoise:
    """Return the noise for the fewest updates with a given accuracy. If none has it, return the best error bound.

    Let the noise of all comparisons be at most w. If a query exceeds the threshold gap + w, its error is at least the
    gap. Otherwise its error is at most gap + 2 w.
    """

    rho = zcdp_rho(target.epsilon, target.delta) if target.delta > 0 else None

    def kinds(updates: int) -> list[Scales]:
        found = [pure_scales(updates, target.epsilon, share) for share in ANSWERS]
        if rho is not None:
            found += [concentrated_scales(updates, rho, share) for share in ANSWERS]
        return found

    def promise(gap: float, updates: int, scales: Scales) -> float:
        compared, answered = scales.errors(updates, n_queries, beta)
        return max(gap, answered / n) + 2 * compared / n

    if max_updates is None:
        # A larger gap has fewer updates. A grid with ratio 1 - 1/40 is fine enough.
        gaps = [0.5 * 0.975**i for i in range(260)]
        ways = [
            (promise(gap, c, scales), -gap, c, scales)
            for gap in gaps
            # Use one more than the maximal number, because the last update ends a stream.
            if (c := multiplicative_weights_updates(size, gap) + 1) <= _MOST_UPDATES
            for scales in kinds(c)
        ]
        kept = [way for way in ways if accuracy is not None and way[0] <= accuracy]
        _, gap, updates, scales = (
            min(kept, key=lambda way: (way[1], way[0])) if kept else min(ways, key=lambda way: way[:2])
        )
        gap = -gap
    else:
        updates = max_updates
        # Without a requested accuracy, set the threshold above the noise by the width of the noise.
        scales = min(
            kinds(updates),
            key=lambda kind: promise(kind.errors(updates, n_queries, beta)[0] / n, updates, kind),
        )
        compared = scales.errors(updates, n_queries, beta)[0] / n
        gap = compared if accuracy is None else max(accuracy - 2 * compared, 0.0)
    scales = _tightened(name, scales, updates, target)
    compared, answered = (error / n for error in scales.errors(updates, n_queries, beta))
    gap = max(gap, answered)
    stage = replace(
        stage_of(name, scales, updates, target), threshold_steps=math.ceil((gap + compared) * n * ROW)
    )
    enough = multiplicative_weights_updates(size, gap) < updates
    return OnlineNoise(stage, gap, answered, gap + 2 * compared, None, enough)


def _tightened(name: str, scales: Scales, updates: int, target: PrivacyGuarantee) -> Scales:
    """Return the smallest noise in the same proportions whose best total is the target."""
    if target.delta == 0:
        return scales  # the sum of pure costs equals the target
    thresholds = updates if scales.redrawn else 1
    each = 1 / scales.threshold + 2 * updates / thresholds / scales.question

    def events(factor: float) -> tuple[Event, ...]:
        answer = Gaussian(factor / scales.answer) if scales.redrawn else Pure(factor / scales.answer)
        return (Pure(factor * each),) * thresholds + (answer,) * updates

    factor = largest_cost(events, target, 1 - 1e-9) * (1 - 1e-9)
    for part in LESS:
        found = scales.less(max(factor * (1 - part), 1 - 1e-9))
        try:
            stage_of(name, found, updates, target)
        except InvalidParameter:
            continue
        break
    return found


def printed_noise(
    name: str,
    n: int,
    size: int,
    n_queries: int,
    target: PrivacyGuarantee,
    beta: float,
    accuracy: float | None,
    max_updates: int | None,
) -> OnlineNoise:
    """Return the printed constants, at the smallest alpha of theorem 4.14 or 4.15, or at a third of the accuracy.

    There are two differences. Every query has one comparison of |f(x) - f(x_t)|, instead of one for each sign. An
    accuracy below the accuracy of the theorem is raised to it.
    """
    epsilon, delta = target.epsilon, target.delta
    bound = online_bound(n, size=size, n_queries=n_queries, epsilon=epsilon, delta=delta, beta=beta)
    alpha = max(bound.error, accuracy or 0.0) / 3
    updates = max(1, math.ceil(4 * math.log(size) / alpha**2)) if max_updates is None else max_updates
    # Budget fractions of comparisons and answers (theorem 3.27): 8/9 and 1/9, or in proportion to sqrt(512) and 1.
    share = math.sqrt(512) / (math.sqrt(512) + 1) if delta else 8 / 9
    each = share * epsilon / (math.sqrt(8 * updates * math.log(2 / delta)) if delta else updates)
    answers = each * (1 - share) / share
    scales = Scales(2 / each, 4 / each, 1 / answers, "laplace", True)
    try:
        stage = stage_of(name, scales, updates, target)
    except InvalidParameter:
        raise not_private_as_printed(target) from None
    stage = replace(stage, threshold_steps=math.ceil(2 * alpha * n * ROW))
    enough = multiplicative_weights_updates(size, alpha, printed=True) < updates
    return OnlineNoise(stage, alpha, alpha, 3 * alpha, alpha / 2, enough)
