"""The noise of a stream: what a kept threshold costs, exactly; scales, promises and their tails."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from dpstats.errors import NotPrivate
from dpstats.privacy import Comparisons, PrivacyGuarantee, compose, zcdp_rho
from dpstats.textbook.error_bounds import multiplicative_weights_updates
from dpstats.textbook.online_multiplicative_weights import (
    Scales,
    concentrated_scales,
    printed_noise,
    pure_scales,
    stage_of,
    tight_noise,
)

NAMED = "errors"


def log_laws(values: tuple[int, ...], stage: Comparisons, patterns: list[tuple[bool, ...]]) -> np.ndarray:
    """Return the log-probability of each pattern of answers, for a threshold that is kept: sums over its noise."""
    reach = round(60 * stage.threshold_scale_steps)
    threshold = np.arange(-reach, reach + 1)
    p, q = (math.exp(-1 / s) for s in (stage.threshold_scale_steps, stage.question_scale_steps))
    weights = (1 - p) / (1 + p) * p ** np.abs(threshold)
    below = {}
    for value in set(values):
        k = threshold - value  # below iff the noise is less than this
        below[value] = np.where(k > 0, 1 - q ** np.maximum(k, 0) / (1 + q), q ** (1.0 - np.minimum(k, 0)) / (1 + q))
    found = []
    for pattern in patterns:
        each = [1 - below[v] if up else below[v] for v, up in zip(values, pattern, strict=False)]
        found.append(math.log(float(weights @ np.prod(each, axis=0))))
    return np.array(found)


def patterns_of(length: int, most: int) -> list[tuple[bool, ...]]:
    """Return all sequences of answers of a stream that ends with ``most`` above."""
    found = set()
    for answers in product((False, True), repeat=length):
        above = np.cumsum(answers)
        end = int(np.argmax(above == most)) + 1 if above[-1] >= most else length
        found.add(answers[:end])
    return sorted(found)


def worst_loss(stage: Comparisons) -> float:
    """Return the largest log-ratio of any answers, over values of five questions that all may move by a step."""
    patterns = patterns_of(5, stage.max_above)
    worst = 0.0
    for values in ((0, 0, 0, 0, 0), (-2, 1, -2, 1, -2), (0, 1, 0, 1, 1)):
        laws = log_laws(values, stage, patterns)
        for moves in product((-1, 1), repeat=5):
            other = tuple(v + m for v, m in zip(values, moves, strict=True))
            worst = max(worst, float(np.abs(laws - log_laws(other, stage, patterns)).max()))
    return worst


def test_a_kept_threshold_costs_what_its_event_says() -> None:
    ratio = 4 ** (1 / 3)
    a = (1 + ratio**2) / 1.0
    stage = Comparisons(NAMED, 1.0, 1, 0, a, ratio * a, 2, redrawn=False)
    (event,) = stage.events
    assert event.pure_cost() == pytest.approx(1.0, rel=1e-12)
    # It is used as far as five questions can show, and noise that forgets c costs more than it says.
    assert 0.7 <= worst_loss(stage) <= 1.0
    forgets = Comparisons(NAMED, 1.0, 1, 0, a, ratio * a / 2, 2, redrawn=False)
    assert worst_loss(forgets) > 1.0


def test_scales_of_the_issue() -> None:
    # Run at epsilon_0: 2.587/epsilon_0 and 3.26/epsilon_0, rho = epsilon_0^2/2, answers apart.
    rho, c = 0.02, 10
    scales = concentrated_scales(c, rho)
    each = math.sqrt(2 * 0.9 * rho / c)
    assert scales.threshold * each == pytest.approx(2.5874, abs=1e-4)
    assert scales.question * each == pytest.approx(3.2600, abs=1e-4)
    assert c * (each**2 / 2 + 1 / (2 * scales.answer**2)) == pytest.approx(rho, rel=1e-12)
    # Pure: no ratio of the two scales has a smaller variance at the same cost.
    pure = pure_scales(c, 1.0)
    cost = 1 / pure.threshold + 2 * c / pure.question
    assert cost + c / pure.answer == pytest.approx(1.0, rel=1e-12)
    for factor in (0.9, 1.1):
        threshold = factor * pure.threshold
        question = 2 * c / (cost - 1 / threshold)
        assert threshold**2 + question**2 > pure.threshold**2 + pure.question**2


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_stages_cost_what_was_asked_and_no_less(delta: float) -> None:
    target = PrivacyGuarantee(1.0, delta)
    noise = tight_noise(NAMED, 20_190, 4096, 10_000, target, 0.05, 0.3 if delta else None, 200 if delta else None)
    total = compose(noise.stage.events, delta).epsilon
    assert total <= 1.0 and total == pytest.approx(1.0, rel=1e-3)
    assert noise.stage.redrawn == (noise.stage.answer_noise == "gaussian") == (delta > 0)


def test_many_updates_have_gaussian_answers_only_with_delta(monkeypatch: pytest.MonkeyPatch) -> None:
    # Certification takes a second, and the choice of the noise comes before it.
    monkeypatch.setattr("dpstats.textbook.online_multiplicative_weights.covers", lambda events, target: True)
    monkeypatch.setattr(
        "dpstats.textbook.online_multiplicative_weights._tightened", lambda name, scales, updates, target: scales
    )
    bounds = []
    for delta in (0.0, 1e-6):
        noise = tight_noise(NAMED, 10_000, 64, 100, PrivacyGuarantee(1.0, delta), 0.05, None, 400)
        assert noise.stage.redrawn == (delta > 0)
        assert noise.stage.answer_noise == ("gaussian" if delta > 0 else "laplace")
        bounds.append(noise.error_bound)
    assert bounds[1] < bounds[0] / 2


def test_charged_as_a_bounded_range_a_stream_would_cost_four_times_too_little() -> None:
    # Planted bug: epsilon_0^2/8 for what costs epsilon_0^2/2. The accountant sees it.
    target = PrivacyGuarantee(1.0, 1e-6)
    right = concentrated_scales(20, zcdp_rho(1.0, 1e-6))
    wrong = Scales(right.threshold / 2, right.question / 2, right.answer, "gaussian", True)
    stage = Comparisons(
        NAMED, 1.0, 1 << 20, 0, wrong.threshold * 2**20, wrong.question * 2**20, 20, wrong.answer * 2**20,
        answer_noise="gaussian",
    )  # fmt: skip
    assert compose(stage.events, 1e-6).epsilon > 1.5 * target.epsilon
    # And the stage that is made of it has the noise that the target allows, or is refused.
    with pytest.raises(ValueError, match="extreme"):
        stage_of(NAMED, wrong, 20, target)


def test_the_promise_of_the_rand_example() -> None:
    target = PrivacyGuarantee(1.0)
    noise = tight_noise(NAMED, 20_190, 4096, 10_000, target, 0.05, None, None)
    # .58 with a threshold drawn anew; kept, it is better, and not vacuous. Printed: 1.95.
    assert noise.error_bound == pytest.approx(0.4523, abs=1e-3) and noise.enough
    printed = printed_noise(NAMED, 20_190, 4096, 10_000, target, 0.05, None, None)
    assert printed.error_bound == pytest.approx(1.9546, abs=1e-3) and printed.stage.max_above == 79
    assert printed.stage.threshold_scale_steps / 2**20 == pytest.approx(2 * 9 * 79 / 8, rel=1e-9)
    with pytest.raises(NotPrivate, match="calibration='textbook' is not private"):
        printed_noise(NAMED, 20_190, 4096, 10_000, PrivacyGuarantee(300.0, 1e-6), 0.05, None, None)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_noise_stays_within_what_is_stated(delta: float) -> None:
    # Of 2000 streams, with the largest of all noise drawn at once; at beta = .1 at most 200 may be outside, and more
    # than 270 are with a probability below 1e-6. Half of the noise in the tails would be outside far more often.
    scales = pure_scales(5, 1.0) if delta == 0 else concentrated_scales(5, 0.03)
    rng, k = np.random.default_rng(0), 50
    compared, answered = scales.errors(5, k, 0.1)
    thresholds = rng.laplace(scale=scales.threshold, size=(2000, 5 if scales.redrawn else 1))
    questions = rng.laplace(scale=scales.question, size=(2000, k))
    draw = rng.normal if delta else rng.laplace
    answers = draw(scale=scales.answer, size=(2000, 5))

    def outside(share: float) -> int:
        together = np.abs(thresholds).max(axis=1) + np.abs(questions).max(axis=1)
        return int(((together > share * compared) | (np.abs(answers).max(axis=1) > share * answered)).sum())

    assert outside(1.0) <= 270 < outside(0.5)


def test_an_accuracy_has_the_fewest_updates_that_promise_it() -> None:
    target = PrivacyGuarantee(1.0)
    best = tight_noise(NAMED, 10**6, 256, 1000, target, 0.05, None, None)
    coarse = tight_noise(NAMED, 10**6, 256, 1000, target, 0.05, 2 * best.error_bound, None)
    assert best.error_bound < coarse.error_bound <= 2 * best.error_bound
    assert coarse.stage.max_above < best.stage.max_above
    # One that is not allowed is the best there is; as many updates as are given, and then what they promise.
    assert tight_noise(NAMED, 10**6, 256, 1000, target, 0.05, best.error_bound / 2, None) == best
    few = tight_noise(NAMED, 10**6, 256, 1000, target, 0.05, None, 3)
    assert few.stage.max_above == 3 and not few.enough and few.error_bound < best.error_bound


@pytest.mark.parametrize("size", [2, 256])
def test_a_stream_has_one_update_more_than_there_can_be(size: int) -> None:
    # With its last update a stream ends, whether or not a query is left.
    target = PrivacyGuarantee(1.0)
    for accuracy in (None, 0.45):
        noise = tight_noise(NAMED, 10**5, size, 1000, target, 0.05, accuracy, None)
        assert noise.enough
        assert noise.stage.max_above == multiplicative_weights_updates(size, noise.gap) + 1
    assert printed_noise(NAMED, 10**5, size, 1000, target, 0.05, None, None).enough
