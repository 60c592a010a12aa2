"""Scores: each kind of output has an attack with power."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpstats.auditing import audit, scores
from dpstats.auditing.scores import _FEWEST, _repeats
from dpstats.errors import InvalidParameter
from tests.auditing.releases import answers, number, vector, words


def test_vectors_are_projected_and_units_do_not_matter() -> None:
    units = np.array([1.0, 1000.0, 0.001])

    def vector(value, rng, size):
        return units * (value + rng.laplace(scale=1.0, size=(size, 3)))

    options = {"epsilon": 1.5, "n_trials": 50_000, "batched": True, "random_state": 0}
    result = audit(vector, np.zeros(3), np.ones(3), **options)
    # Three coordinates together cost 3; one alone would show 1.
    assert result.violated and result.epsilon_lower > 1.5


def test_a_vector_that_only_a_curved_boundary_tells() -> None:
    def signs(value, rng, size):
        noise = rng.normal(size=(size, 2))
        together = rng.random(size) < 0.8 * value
        noise[together, 1] = np.sign(noise[together, 0]) * np.abs(noise[together, 1])
        return noise

    # Each coordinate alone, and each direction's mean, has the same law on both.
    result = audit(signs, 0, 1, epsilon=1.0, n_trials=20_000, batched=True, random_state=0)
    # P(signs differ) is 1/2 against 1/10: log 5.
    assert result.violated and result.epsilon_lower <= math.log(5)


def test_an_object_with_a_list_and_a_number() -> None:
    def leaky(value, rng):
        length = 1 + int(rng.geometric(0.5))
        # The number is private at epsilon = 1, but only long lists move it by three.
        return ["above"] * length, float(3 * value * (length > 3) + rng.laplace())

    result = audit(leaky, 0, 1, epsilon=1.0, n_trials=20_000, random_state=0)
    assert result.violated and result.epsilon_lower <= 3.0


def test_several_releases_of_different_kinds() -> None:
    kinds = [words, number, vector]
    result = audit(kinds, 0, 1, epsilon=1.0, n_trials=20_000, batched=True, random_state=0)
    # Three times epsilon = 1 each.
    assert result.violated and 1.3 < result.epsilon_lower <= 3.0


def test_a_score_of_ones_own() -> None:
    result = audit(answers, 0, 1, epsilon=0.4, n_trials=20_000, random_state=0, score=lambda output: output[1])
    assert result.epsilon_lower <= 0.5
    both = audit(
        [number, number],
        0,
        1,
        epsilon=0.9,
        n_trials=20_000,
        batched=True,
        random_state=0,
        score=lambda outputs: outputs[0] + outputs[1],
    )
    assert both.violated and both.epsilon_lower <= 2.0
    with pytest.raises(InvalidParameter, match="score must"):
        audit(number, 0, 1, epsilon=1.0, n_trials=100, batched=True, score=lambda output: "high")


def test_an_output_that_is_no_number_ranks_lowest() -> None:
    found = scores._drop_nan(np.array([1.0, np.nan, np.inf]))
    assert found.tolist() == [1.0, -np.inf, np.inf]
    whole = np.array([2.0, 1.0])
    assert scores._drop_nan(whole) is whole


def test_a_few_outcomes_are_evidence() -> None:
    # Ten against none among a hundred runs each: log 6. Far more smoothing would see nothing.
    assert scores._log_ratio(10, 0, 100, 100) == pytest.approx(math.log(6))
    assert scores._log_ratio(0, 0, 100, 300) == pytest.approx(math.log(302 / 102))


def test_an_event_of_small_ratios_has_the_outcomes_that_the_other_dataset_makes_likely() -> None:
    first, second = [1] * 500 + [2] * 300 + [3] * 200, [1] * 200 + [2] * 300 + [3] * 500
    (score, number), half = scores._table(first, second), 0.5
    assert number == 3
    assert "{1}" in score.words(1, half) and "{3}" not in score.words(1, half)
    assert "{3}" in score.words(-1, half) and "{1}" not in score.words(-1, half)


def test_few_outputs_are_outcomes() -> None:
    # Of fewer outputs no density can be learned, and half of more must have been seen twice.
    assert _repeats([*range(_FEWEST - 1)]) and not _repeats([*range(_FEWEST)])
    assert _repeats([*range(_FEWEST)] * 2) and not _repeats([*range(2 * _FEWEST), *range(_FEWEST)])
