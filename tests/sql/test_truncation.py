"""Sums over units cut at a threshold: the choice near what few units exceed, the race below the sum."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpstats.privacy import Comparisons, OneOf
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import Plan
from dpstats.release.session import Session
from dpstats.sql.answers import THRESHOLD_SHARE, Truncation

UNITS = np.repeat([1, 3, 40], [900, 300, 6])


def released(truncation: Truncation, seed: int) -> tuple[float, float, int | None]:
    above = [int((2**j < UNITS).sum()) for j in truncation.each]
    sums = np.array([[int(np.minimum(UNITS, 2**j).sum())] for j in truncation.each])
    plan = Plan(truncation.stages(), PrivacyGuarantee(truncation.epsilon))
    with Session.simulated(plan, np.random.default_rng(seed)) as session:
        truncation.release(session, above, sums)
    numbers, scale, power = truncation.report(session.released)
    return float(numbers[0]), scale, power


def test_stages_are_those_of_the_specification() -> None:
    epsilon = 2.0
    truncation = Truncation("answer", "threshold", epsilon, (0, 5), 3, 2)
    choice, sums = truncation.stages()
    assert isinstance(choice, Comparisons) and isinstance(sums, OneOf)
    first = THRESHOLD_SHARE * epsilon
    assert (choice.threshold_scale_steps, choice.question_scale_steps) == pytest.approx((2 / first, 4 / first))
    assert choice.threshold_steps == -math.ceil(8 / first) and choice.sensitivity_steps == 1
    assert [option.sensitivity_steps for option in sums.options] == [3 * 2**j for j in range(6)]
    assert {option.scale_steps / option.sensitivity_steps for option in sums.options} == {
        sums.options[0].scale_steps / 3
    }
    plan = Plan(truncation.stages(), PrivacyGuarantee(epsilon))
    assert sum(event.pure_cost() for event in plan.events) <= epsilon == plan.guarantee.epsilon


def test_few_units_exceed_the_threshold() -> None:
    found = [released(Truncation("answer", "threshold", 2.0, (0, 10)), seed) for seed in range(40)]
    powers = [power for *_, power in found]
    # Six units exceed 4, three hundred exceed 2: by 8/epsilon_1 = 13 and noise of 6.7.
    assert np.mean([power == 2 for power in powers]) > 0.7
    for number, scale, power in found:
        assert power is not None
        assert abs(number - np.minimum(UNITS, 2**power).sum()) < 12 * scale


def test_the_race_is_below_the_sum() -> None:
    found = [released(Truncation("answer", "race", 2.0, (1, 10)), seed) for seed in range(60)]
    total = UNITS.sum()
    # Above it with a probability of .025 at most, each time.
    assert sum(number > total for number, *_ in found) <= 6
    assert {power for *_, power in found} == {None}
    plan = Plan(Truncation("answer", "race", 2.0, (1, 10)).stages(), PrivacyGuarantee(2.0))
    assert len(plan.events) == 10 and plan.guarantee.epsilon == 2.0


def test_an_option_is_drawn_once_with_its_own_noise() -> None:
    truncation = Truncation("answer", "threshold", 1.0, (0, 30))
    plan = Plan(truncation.stages(), PrivacyGuarantee(1.0))
    session = Session.simulated(plan, np.random.default_rng(0), size=4000).open()
    place = 12
    numbers = session.add_one("answer", np.array([5]), place)
    scale = plan.stages[1].options[place].scale_steps  # type: ignore[union-attr]
    assert np.mean(np.abs(numbers - 5)) == pytest.approx(scale, rel=0.08)
    with pytest.raises(Exception, match="released before"):
        session.add_one("answer", np.array([5]), place)
    with pytest.raises(Exception, match="must get one of its 31 options"):
        Session.simulated(plan, np.random.default_rng(0)).open().add_one("answer", np.array([5]), 31)
