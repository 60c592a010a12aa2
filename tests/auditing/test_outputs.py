"""Outputs of every kind: right releases are seldom accused, and each kind has an attack with power."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from dpstats.auditing import audit, audit_outputs
from dpstats.auditing.outputs import Encoder, as_component, join, outcome_keys
from dpstats.errors import InvalidParameter
from dpstats.mechanisms import RandomizedResponse

WORDS = np.array(["none", "some", "many"])


def words(value, rng, size):
    # Three-way randomized response at epsilon = 1.
    keep = math.e / (math.e + 2)
    other = (value + rng.integers(1, 3, size)) % 3
    return WORDS[np.where(rng.random(size) < keep, value, other)]


def vector(value, rng, size):
    return value / 2 + rng.laplace(size=(size, 2))  # epsilon = 1/2 + 1/2


def answers(value, rng):
    # A list of variable length that holds no data, and two numbers at epsilon 1/2 each.
    length = rng.integers(1, 3)
    return ["above"] * int(length), float(value / 2 + rng.laplace()), float(value / 2 + rng.laplace())


def number(value, rng, size):
    return value + rng.laplace(size=size)


RIGHT = {
    "number": (number, 600, True),
    "words": (words, 600, True),
    "vector": (vector, 800, True),
    "object": (answers, 400, False),
}


@pytest.mark.parametrize("kind", RIGHT)
def test_false_alarms_are_at_most_the_stated_rate(kind: str) -> None:
    release, trials, batched = RIGHT[kind]
    options = {"epsilon": 1.0, "n_trials": trials, "confidence": 0.9, "batched": batched}
    alarms = sum(audit(release, 0, 1, random_state=seed, **options).violated for seed in range(200))
    # Binomial(200, p <= 0.1): more than 37 has probability below 1e-4.
    assert alarms <= 37


def test_randomized_response_is_proved_to_a_tenth() -> None:
    mechanism = RandomizedResponse(1.0, random_state=np.random.default_rng(0))

    def release(value, rng, size):
        return mechanism.randomize(np.full(size, value))

    result = audit(release, 0, 1, epsilon=1.0, n_trials=100_000, batched=True, random_state=0)
    assert not result.violated and result.epsilon_lower >= 0.9


def test_words_are_outcomes() -> None:
    result = audit(words, 0, 1, epsilon=0.8, n_trials=50_000, batched=True, random_state=0)
    assert result.violated and result.epsilon_lower <= 1.0
    assert "output in {'none'}" in result.event or "output in {'some'}" in result.event


def test_none_and_streams_are_outcomes() -> None:
    def stream(value, rng):
        # Answers until the first "above": the number of None depends on the data.
        length = rng.geometric(0.2 + 0.3 * value)
        return tuple([None] * min(length, 9) + [True])

    result = audit(stream, 0, 1, epsilon=0.5, n_trials=10_000, random_state=0)
    # P(length = 1) is 0.2 against 0.5, and long streams tell more: log(.8^8/.5^8) is 3.8 at most.
    assert result.violated and 1.0 < result.epsilon_lower < 8 * math.log(1.6)


def test_a_wrong_spread_is_found_in_the_tails() -> None:
    def spread(scale, rng, size):
        return rng.laplace(scale=scale, size=size)

    result = audit(spread, 1.0, 2.0, epsilon=0.5, n_trials=50_000, batched=True, random_state=0)
    assert result.violated


def test_an_event_in_the_middle_and_an_atom() -> None:
    def middle(value, rng, size):
        noise = rng.normal(size=size)
        inside = np.abs(noise) < 0.3
        return np.where(inside & (rng.random(size) < value), noise + 0.6 * np.sign(noise), noise)

    result = audit(middle, 0.0, 0.9, epsilon=1.5, n_trials=50_000, batched=True, random_state=0)
    # A tenth is left of the middle, and next to it the density is at most doubled.
    assert result.violated and result.epsilon_lower <= math.log(10) and "output in" in result.event

    def atom(value, rng, size):
        return np.where(rng.random(size) < 0.02 * value, 0.25, rng.normal(size=size))

    result = audit(atom, 0, 1, epsilon=2.0, n_trials=50_000, batched=True, random_state=0)
    assert result.violated and "output in {0.25}" in result.event
    # The atom has mass 0.02: at delta = 0.03 it is paid for.
    claim = {"epsilon": 2.0, "delta": 0.03}
    assert not audit(atom, 0, 1, n_trials=50_000, batched=True, random_state=0, **claim).violated


def test_missing_and_infinite_numbers_are_outcomes() -> None:
    for odd in (np.nan, np.inf, -np.inf):

        def release(value, rng, size, odd=odd):
            return np.where(rng.random(size) < 0.1 * value, odd, rng.normal(size=size))

        assert audit(release, 0, 1, epsilon=1.0, n_trials=10_000, batched=True, random_state=0).violated

        def table(value, rng, size, odd=odd):
            noise = rng.normal(size=(size, 2))
            noise[rng.random(size) < 0.1 * value, 1] = odd
            return noise

        assert audit(table, 0, 1, epsilon=1.0, n_trials=10_000, batched=True, random_state=0).violated


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


def test_several_releases_together() -> None:
    def tenth(value, rng, size):
        return value + rng.laplace(scale=10.0, size=size)

    options = {"n_trials": 200_000, "batched": True, "random_state": 0}
    one = audit(tenth, 0.0, 1.0, epsilon=0.5, **options)
    assert one.epsilon_lower <= 0.1
    together = audit([tenth] * 10, 0.0, 1.0, epsilon=1.0, **options)
    assert not together.violated and together.epsilon_lower > 5 * one.epsilon_lower
    assert audit([tenth] * 10, 0.0, 1.0, epsilon=0.5, **options).violated


def test_several_releases_of_different_kinds() -> None:
    kinds = [words, number, vector]
    result = audit(kinds, 0, 1, epsilon=1.0, n_trials=20_000, batched=True, random_state=0)
    # Three times epsilon = 1 each.
    assert result.violated and 1.3 < result.epsilon_lower <= 3.0


def test_a_score_of_ones_own() -> None:
    result = audit(
        answers, 0, 1, epsilon=0.4, n_trials=20_000, random_state=0, score=lambda output: output[1]
    )
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
    with pytest.raises(InvalidParameter, match="score must return a number"):
        audit(number, 0, 1, epsilon=1.0, n_trials=100, batched=True, score=lambda output: "high")


@pytest.mark.parametrize("release", [number, words, vector])
def test_the_result_does_not_depend_on_the_number_of_processes(release) -> None:
    options = {"epsilon": 1.0, "n_trials": 4000, "batched": True, "random_state": 3}
    assert audit(release, 0, 1, **options) == audit(release, 0, 1, n_jobs=2, **options)


def test_one_at_a_time_in_processes() -> None:
    results = [
        audit(
            lambda v, rng: v + rng.laplace(), 0, 1, epsilon=1.0, n_trials=12_000, random_state=1, n_jobs=jobs
        )
        for jobs in (1, 2)
    ]
    assert results[0] == results[1]


def test_a_release_that_repeats_itself_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="release must draw from the rng that it is given"):
        audit(
            lambda value, rng, size: value + np.random.default_rng(0).laplace(size=size),
            0,
            1,
            epsilon=1.0,
            n_trials=1000,
            batched=True,
        )


def test_recorded_outputs() -> None:
    rng = np.random.default_rng(0)
    recorded = [number(value, rng, 20_000) for value in (0, 1)]
    result = audit_outputs(*recorded, epsilon=0.8)
    assert result.violated and result.n_trials == 20_000
    # A list of numbers is what an array is, and an odd run is left out.
    lists = [[*values.tolist(), 0.0] for values in recorded]
    assert audit_outputs(lists[0][:-1], lists[1][:-1], epsilon=0.8) == result
    assert audit_outputs(*lists, epsilon=0.8).n_trials == 20_000
    with pytest.raises(InvalidParameter, match="equally many, at least 4, got 2 and 3"):
        audit_outputs([1, 2], [1, 2, 3], epsilon=1.0)
    with pytest.raises(InvalidParameter, match="outputs must be a sequence"):
        audit_outputs("text", [1, 2, 3, 4], epsilon=1.0)


@pytest.mark.parametrize("release", [answers, [answers, answers]])
def test_the_fewest_runs_prove_nothing_and_break_nothing(release) -> None:
    assert audit(release, 0, 1, epsilon=1.0, n_trials=4, random_state=0).epsilon_lower == 0.0


@dataclasses.dataclass
class Answer:
    label: str
    values: list[float]


def test_objects_as_rows_of_numbers() -> None:
    outputs = [
        Answer("a", [1.0, 2.5]),
        Answer("b", [4.0]),
        None,
        {"x": 1, "y": {3, 1}},
        (True, np.float64(2.0)),
    ]
    encode = Encoder(outputs)
    rows = encode(outputs)
    # Leaves: 2 fields, "a", 2 values, 1.0, 2.5.
    assert rows[0, 0] == 5 and rows[0, 1] == 2 + 2 + 1.0 + 2.5
    assert rows.shape == (5, 2 + 2 * encode.positions)
    np.testing.assert_array_equal(rows, encode(outputs))
    # What was not there when the encoder was made has the code of the unseen, 1; what is not there at all, 0.
    codes = encode([Answer("z", [])])[0, encode.categorical]
    assert codes[1] == 1 and codes[-1] == 0
    assert len(set(outcome_keys(outputs))) == 5
    assert outcome_keys([[1, 2], float("nan")]) == outcome_keys([[1.0, 2.0], float("nan")])


def test_kinds_are_decided_together() -> None:
    assert isinstance(as_component([True, False], 2), np.ndarray)
    assert as_component(["1.0", "2.0"], 2) == ["1.0", "2.0"]
    numbers, mixed = np.zeros(2), [None, 1.0]
    assert join([[numbers], [mixed]]) == [[0.0, 0.0], [None, 1.0]]
    rows = np.array([[0.0, 1.0], [-0.0, 1.0], [1.0, 0.0]])
    keys = outcome_keys(rows)
    assert keys[0] == keys[1] != keys[2]
    with pytest.raises(InvalidParameter, match="release must return 2 outputs"):
        as_component(3.0, 2)
