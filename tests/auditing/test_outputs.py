"""Outputs of every kind: numbers, words, None, streams, objects."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpstats.auditing import audit, audit_outputs
from dpstats.auditing.scores import Encoder, as_component, join, outcome_keys
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
    outputs = [Answer("a", [1.0, 2.5]), Answer("b", [4.0]), None, {"x": 1, "y": {3, 1}}, (True, np.float64(2.0))]
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
    with pytest.raises(InvalidParameter, match="release must"):
        as_component(3.0, 2)


def number(data: float, rng: np.random.Generator) -> float:
    """Return a number that tells the two datasets apart in most runs."""
    return float(10 * data + rng.normal())


REVEALING: dict[str, Callable[[float, np.random.Generator], Any]] = {
    "large whole numbers": lambda data, rng: 2**60 + data,
    "large whole numbers beside text": lambda data, rng: (2**60 + data, "a"),
    "extended floats": lambda data, rng: np.longdouble(1) + np.longdouble(2) ** -60 * data,
    "complex": lambda data, rng: complex(number(data, rng), 1),
    "complex beside text": lambda data, rng: (complex(0, number(data, rng)), "a"),
    "decimals": lambda data, rng: Decimal(number(data, rng)),
    "fractions": lambda data, rng: Fraction(number(data, rng)),
    "times": lambda data, rng: pd.Timestamp("2020-01-01") + pd.Timedelta(days=number(data, rng)),
    "days": lambda data, rng: date(2020, 1, 1) + timedelta(days=round(100 * number(data, rng))),
    "durations": lambda data, rng: timedelta(days=number(data, rng)),
    "numpy times": lambda data, rng: np.datetime64("2020-01-01", "ns") + round(1e6 * number(data, rng)),
    "numpy durations beside text": lambda data, rng: (np.timedelta64(round(1e6 * number(data, rng))), "a"),
    "members": lambda data, rng: Side(round(data)),
    "missing of pandas": lambda data, rng: pd.NA if data else pd.NaT,
}


class Side(Enum):
    LEFT = 0
    RIGHT = 1


@pytest.mark.parametrize("release", REVEALING.values(), ids=REVEALING)
def test_values_of_every_kind_are_told_apart(release: Callable[[float, np.random.Generator], Any]) -> None:
    assert audit(release, 0, 1, epsilon=1.0, n_trials=400, random_state=0).violated
    assert not audit(release, 0, 0, epsilon=1.0, n_trials=400, random_state=0).violated


def test_large_whole_numbers_in_arrays_keep_their_digits() -> None:
    outputs = 2**60 + np.arange(4)
    assert as_component(outputs, 4) == outputs.tolist()
    assert isinstance(as_component(np.array([2**53, -(2**53)]), 2), np.ndarray)
    assert isinstance(as_component(np.array([2**53 + 2], dtype=np.uint64), 1), list)


def test_tables_and_masked_arrays_are_read_row_by_row() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    assert np.array_equal(as_component(frame, 2), frame.to_numpy())
    assert as_component(np.ma.masked_array([1.0, 2.0], mask=[False, True]), 2) == [1.0, None]
    missing = pd.Series([1, None] * 200, dtype="Int64")
    assert not audit_outputs(missing, missing, epsilon=1.0).violated
    empty = audit(lambda data, rng: np.array([]), 0, 1, epsilon=1.0, n_trials=8, random_state=0)
    assert empty.epsilon_lower == 0


class Opaque:
    """A value that is equal to itself alone."""


def test_a_value_that_cannot_be_compared_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="release must"):
        audit(lambda data, rng: Opaque(), 0, 1, epsilon=1.0, n_trials=8)
    for outputs in ({"a": 1, "b": 2, "c": 3, "d": 4}, {1, 2, 3, 4}, b"abcd"):
        with pytest.raises(InvalidParameter, match="outputs must"):
            audit_outputs(outputs, outputs, epsilon=1.0)
    with pytest.raises(InvalidParameter, match="release must"):
        audit(3, 0, 1, epsilon=1.0)  # type: ignore[arg-type]
