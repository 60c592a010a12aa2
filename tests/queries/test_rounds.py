"""The plan of the iterative construction: shares, rounds, promises, and what they cost."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dpstats.errors import InvalidParameter, NotPrivate
from dpstats.privacy import PrivacyGuarantee, compose, zcdp_rho
from dpstats.queries import MarginalMWEM
from dpstats.textbook import IterativeConstruction, OnlineMultiplicativeWeights
from dpstats.textbook.iterative_construction import (
    MOST_ROUNDS,
    ROW,
    RoundNoise,
    best_gap,
    printed,
    shares,
    stages_of,
    tightened,
)

TARGETS = (PrivacyGuarantee(1.0), PrivacyGuarantee(1.0, 1e-6))
SUBSETS = (np.arange(1, 15)[:, None] >> np.arange(4)) & 1


def bound(noise: RoundNoise, rounds: int) -> float:
    return 2 * noise.error(rounds, 0.05) + noise.regret(rounds, 100, 0.05)


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_shares_cost_the_whole_and_none_is_better(target: PrivacyGuarantee) -> None:
    rounds = 7
    noise = shares(rounds, 100, target, 0.05)
    if target.delta == 0:
        assert rounds * (2 / noise.errors + 1 / noise.answer) == pytest.approx(1.0, rel=1e-12)
    else:
        rho = zcdp_rho(1.0, 1e-6)
        # A choice of range e costs e^2/8, an answer 1/(2 scale^2).
        each = (2 / noise.errors) ** 2 / 8 + 1 / (2 * noise.answer**2)
        assert rounds * each == pytest.approx(rho, rel=1e-12)
    for factor in (0.95, 1.05):
        if target.delta == 0:
            other = RoundNoise(factor * noise.errors, 1 / (1 / rounds - 2 / (factor * noise.errors)), noise.law)
        else:
            left = rho / rounds - 1 / (2 * (factor * noise.errors) ** 2)
            other = RoundNoise(factor * noise.errors, math.sqrt(1 / (2 * left)), noise.law)
        assert bound(other, rounds) > bound(noise, rounds)


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_stages_of_all_rounds_cost_what_was_asked(target: PrivacyGuarantee) -> None:
    rounds = 5
    noise = tightened(shares(rounds, 14, target, 0.05), rounds, target)
    stages = stages_of(noise, rounds, 14, 1000, target, "exact")
    events = [event for stage in stages for event in stage.events]
    assert len(stages) == 2 * rounds == len({stage.name for stage in stages})
    assert compose(events, target.delta).epsilon == pytest.approx(1.0, rel=1e-6)
    # Planted bug: the distinguisher's choices are forgotten, and answers alone are charged.
    assert compose([e for s in stages[1::2] for e in s.events], target.delta).epsilon < 0.8
    if target.delta:
        # Better than zero-concentrated totals by what the exact curves know.
        assert noise.answer < shares(rounds, 14, target, 0.05).answer


def test_printed_noise() -> None:
    noise = printed(10, TARGETS[0])
    assert (noise.errors, noise.answer, noise.law) == (40.0, 20.0, "laplace")
    each = 1 / (4 * math.sqrt(10 * math.log(1e6)))
    assert printed(10, TARGETS[1]).answer == pytest.approx(1 / each, rel=1e-12)
    loud = PrivacyGuarantee(1000.0, 1e-6)
    with pytest.raises(NotPrivate, match="calibration='textbook' is not private"):
        stages_of(printed(100, loud), 100, 14, 1000, loud, "textbook")


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_noise_stays_within_what_is_stated(law: str) -> None:
    # Regret and errors have half of beta = .2 each: of 2000 runs 200 may be outside; more than 280 are with a
    # probability below 1e-6, and with three quarters of the bounds many more are.
    rng, rounds, k = np.random.default_rng(0), 4, 30
    noise = RoundNoise(3.0, 5.0, law)
    draw = rng.normal if law == "gaussian" else rng.laplace
    answers = np.abs(draw(scale=5.0, size=(2000, rounds))).max(axis=1)
    # The hardest case for a selection: one query is worst, all others are as bad as can be.
    regret = noise.regret(rounds, k, 0.2)
    for factor, low, high in ((1.0, 0, 280), (0.7, 280, 2000)):
        gaps = np.r_[0.0, np.full(k - 1, -factor * regret)]
        chosen = np.argmax(gaps + rng.gumbel(scale=3.0, size=(2000, rounds, k)), axis=2)
        # As good as the bound, or a little worse than it: half of the others count as outside.
        outside = (chosen > 0).any(axis=1)
        assert low <= int(outside.sum()) <= high
        assert low <= int((answers > factor * noise.error(rounds, 0.2)).sum()) <= high


def test_the_largest_gap_that_promises_an_accuracy() -> None:
    def updates(gap: float) -> float:
        return math.log(64) / (2 * gap**2)

    given = (updates, 10**4, 100, TARGETS[1], 0.05)
    best, rounds = best_gap(*given, None)
    coarse, fewer = best_gap(*given, 0.3)
    assert coarse > best and fewer < rounds == math.floor(updates(best)) + 1
    assert best_gap(*given, 1e-6) == (best, rounds)

    def promise(gap: float) -> float:
        number = math.floor(updates(gap)) + 1
        noise = shares(number, 100, TARGETS[1], 0.05)
        return gap + (2 * noise.error(number, 0.05) + noise.regret(number, 100, 0.05)) / 10**4

    # Of the gaps that are tried, each 0.97 of the one before.
    assert promise(coarse) <= 0.3 < promise(coarse / 0.97)
    assert promise(best) < min(promise(best * 0.97), promise(best / 0.97))
    with pytest.raises(InvalidParameter, match="max_updates must"):
        best_gap(lambda gap: MOST_ROUNDS, *given[1:], None)


def test_plans_promise_and_say_what_they_do_not() -> None:
    given = {"queries": SUBSETS, "epsilon": 1.0, "delta": 1e-6}
    plan = IterativeConstruction(accuracy=0.1, **given).plan(10**6)
    assert plan.promised and plan.error_bound == pytest.approx(0.1, rel=1e-9) and plan.notes() == []
    assert plan.gap == pytest.approx(plan.stop - plan.answer_error)
    missed = IterativeConstruction(accuracy=0.01, **given).plan(1000)
    assert missed.error_bound > 0.01 and "An accuracy of 0.01 was not promised" in missed.notes()[0]
    few = IterativeConstruction(max_updates=2, **given).plan(10**4)
    assert few.rounds == 3 and not few.promised and "rounds may not be enough" in few.notes()[0]
    assert "and so on, 3 rounds" in str(few) and "rounds may not be enough" in str(few)
    assert "vacuous" in IterativeConstruction(accuracy=0.1, **{**given, "epsilon": 0.01}).plan(100).notes()[-1]


@pytest.mark.parametrize("epsilon", [11.0, 20.0, 50.0])
def test_large_epsilons_are_planned(epsilon: float) -> None:
    # What noise on a lattice adds to delta counts e^epsilon times: the best total cannot be filled up.
    given = {"epsilon": epsilon, "delta": 1e-6}
    for plan in (
        IterativeConstruction(queries=np.eye(4), max_updates=3, **given).plan(1000),
        MarginalMWEM(domain=(5,) * 4, **given).plan(20_000),
        OnlineMultiplicativeWeights(max_updates=3, **given).plan(20_000, 16),
    ):
        assert 0.9 * epsilon < plan.guarantee.epsilon <= epsilon


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_answers_of_all_rounds_stay_within_their_bound(law: str) -> None:
    rounds, beta, noise = 5, 0.02, RoundNoise(1.0, 3 / ROW, law)
    bound = noise.error(rounds, beta)
    # An answer is rounded by one grain of a row at most, and its noise is in all rounds below what is left.
    far = (bound - 1 / ROW) / noise.answer
    beyond = 2 * (stats.laplace if law == "laplace" else stats.norm).sf(far)
    assert rounds * beyond == pytest.approx(beta / 2, rel=1e-6)
