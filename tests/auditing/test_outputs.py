"""Outputs of every kind: numbers, words, None, streams, objects."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from dpstats.auditing import audit
from dpstats.auditing.outputs import Encoder, as_component, join, outcome_keys
from dpstats.errors import InvalidParameter
from tests.auditing.releases import words


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
