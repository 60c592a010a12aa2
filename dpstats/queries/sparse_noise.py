"""The noise of online multiplicative weights: how much, for how many updates, and within which all answers are.

Proof: docs/proofs/online-multiplicative-weights.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from scipy.special import ndtri

from dpstats.errors import InvalidParameter, NotPrivate
from dpstats.privacy.calibration import largest_cost
from dpstats.privacy.events import Event, Gaussian, Pure
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.stages import Comparisons
from dpstats.privacy.totals import covers
from dpstats.privacy.zcdp import zcdp_rho
from dpstats.queries.bounds import multiplicative_weights_updates, online_bound
from dpstats.queries.counts import ROW
from dpstats.queries.linear import FRACTION_BITS
from dpstats.queries.rounds import LESS
from dpstats.release.noise import check_scale

ANSWERS = (0.1, 0.2, 0.3, 0.5)
"""Shares of what a stream may cost (of epsilon, or of rho) that its answers may get, the comparisons having the rest:
that of the best promise is taken. Less would make the answers of updates worse than it makes the promise better."""

_MOST_UPDATES = 10**6


@dataclass(frozen=True)
class Scales:
    """Noise of a stream, in rows: Laplace on the threshold and on questions, and that of ``answers``."""

    threshold: float
    question: float
    answer: float
    answer_noise: str
    redrawn: bool

    def errors(self, updates: int, n_queries: int, beta: float) -> tuple[float, float]:
        """Return within which the noise of every comparison, and of every answer, is but for beta."""
        thresholds = updates if self.redrawn else 1
        # A third of beta each; half a step for every number on the lattice, and one for the threshold.
        compared = self.threshold * math.log(3 * thresholds / beta)
        compared += self.question * math.log(3 * n_queries / beta) + 2 / ROW
        if self.answer_noise == "laplace":
            return compared, self.answer * math.log(3 * updates / beta) + 1 / ROW
        return compared, -self.answer * float(ndtri(beta / (6 * updates))) + 1 / ROW

    def less(self, factor: float) -> Scales:
        """Return the noise of a cost that is ``factor`` times as large."""
        return replace(
            self,
            threshold=self.threshold / factor,
            question=self.question / factor,
            answer=self.answer / factor,
        )


@dataclass(frozen=True)
class OnlineNoise:
    """What a stream draws, and promises: all three numbers are shares of the rows, and hold together but for beta.

    Attributes
    ----------
    stage : Comparisons
    gap : float
        What the answers of the data and of the hypothesis differ by at least where there is an update.
    answer_error : float
        Within which answers from the data are.
    error_bound : float
        Within which all answers are.
    rate : float or None
        Of the printed update; None: the tight one.
    enough : bool
        Whether there cannot be as many updates as the stage has, but for beta: with the last one the stream ends.
    """

    stage: Comparisons
    gap: float
    answer_error: float
    error_bound: float
    rate: float | None
    enough: bool


def pure_scales(updates: int, epsilon: float, answers: float = 0.1) -> Scales:
    """Return noise with one threshold for the whole stream: it costs epsilon for any number of comparisons.

    1/threshold + 2 updates/question is what comparisons cost, and the sum of the variances is least at a ratio of
    (2 updates)^(1/3).
    """
    ratio = (2 * updates) ** (1 / 3)
    threshold = (1 + ratio**2) / ((1 - answers) * epsilon)
    return Scales(threshold, ratio * threshold, updates / (answers * epsilon), "laplace", False)


def concentrated_scales(updates: int, rho: float, answers: float = 0.1) -> Scales:
    """Return noise with a threshold for each update, which add up as zero-concentrated releases do: to rho.

    A threshold with its question costs epsilon_0 = 1/threshold + 2/question, and epsilon_0^2/2 of rho.
    """
    each = math.sqrt(2 * (1 - answers) * rho / updates)
    ratio = 2 ** (1 / 3)
    threshold = (1 + ratio**2) / each
    return Scales(threshold, ratio * threshold, math.sqrt(updates / (2 * answers * rho)), "gaussian", True)


def stage_of(name: str, scales: Scales, updates: int, target: PrivacyGuarantee) -> Comparisons:
    """Return the stage that draws the noise: certified to cost no more than the target."""
    for margin in (0.0, 1e-12, 1e-9, 1e-6, 1e-3):
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
    raise InvalidParameter(f"epsilon and delta are too extreme for exact noise, got {target}")


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
    """Return the noise of the fewest updates that promise an accuracy, or else of the best promise there is.

    With noise within w in all comparisons, the answer of a query above the threshold gap + w differs by the gap at
    least, and that of one below by gap + 2 w at most.
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
        # The larger the gap the fewer the updates; a part in forty is fine enough.
        gaps = [0.5 * 0.975**i for i in range(260)]
        ways = [
            (promise(gap, c, scales), -gap, c, scales)
            for gap in gaps
            # One more than there can be: with its last update a stream ends.
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
        # A threshold as far above the noise as the noise is wide, if no accuracy asks for another.
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
        return scales  # a sum of pure costs, which is spent
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

    Two differences: one question |f(x) - f(x_t)| is asked for every query, and not its two signs; and an accuracy
    that the theorem does not promise is raised to the one that it does.
    """
    epsilon, delta = target.epsilon, target.delta
    bound = online_bound(n, size=size, n_queries=n_queries, epsilon=epsilon, delta=delta, beta=beta)
    alpha = max(bound.error, accuracy or 0.0) / 3
    updates = max(1, math.ceil(4 * math.log(size) / alpha**2)) if max_updates is None else max_updates
    # Of the comparisons and of the answers (theorem 3.27): 8/9 and 1/9, or in proportion to sqrt(512) and 1.
    share = math.sqrt(512) / (math.sqrt(512) + 1) if delta else 8 / 9
    each = share * epsilon / (math.sqrt(8 * updates * math.log(2 / delta)) if delta else updates)
    answers = each * (1 - share) / share
    scales = Scales(2 / each, 4 / each, 1 / answers, "laplace", True)
    try:
        stage = stage_of(name, scales, updates, target)
    except InvalidParameter:
        raise NotPrivate(
            f"calibration='textbook' is not private at {target}: the printed constants rest on advanced composition, "
            "which needs a smaller epsilon (docs/errata.md); use calibration='exact'"
        ) from None
    stage = replace(stage, threshold_steps=math.ceil(2 * alpha * n * ROW))
    enough = multiplicative_weights_updates(size, alpha, printed=True) < updates
    return OnlineNoise(stage, alpha, alpha, 3 * alpha, alpha / 2, enough)
