"""Checks of parameters: what is accepted, and what messages say."""

import decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest

from dpstats.data.parameters import (
    check_choice,
    check_columns,
    check_flag,
    check_integer,
    check_jobs,
    check_level,
    check_privacy_parameters,
    check_random_state,
    check_real,
    check_simulations,
)
from dpstats.errors import DPStatsError, InvalidData, InvalidParameter

# Parameters


@pytest.mark.parametrize("value", [2, 2.0, np.int8(2), np.float32(2), np.float64(2), Fraction(2)])
def test_real_accepts_every_kind_of_real_number(value):
    number = check_real("x", value, above=1, at_most=2)
    assert type(number) is float and number == 2.0


@pytest.mark.parametrize(
    ("limits", "value", "words"),
    [
        ({"above": 0}, 0.0, "x must be a finite number greater than 0, got 0.0"),
        ({"at_least": 0}, -1, "x must be a finite number at least 0, got -1"),
        ({"below": 1}, 1.0, "x must be a finite number less than 1, got 1.0"),
        ({"at_most": 1}, 1.5, "x must be a finite number at most 1, got 1.5"),
        ({"at_least": 0, "below": 1}, 2, "x must be a finite number at least 0 and less than 1, got 2"),
        ({}, float("nan"), "x must be a finite number, got nan"),
        ({}, float("-inf"), "x must be a finite number, got -inf"),
        ({}, True, "x must be a finite number, got True"),
        ({}, np.True_, "x must be a finite number, got"),
        ({}, "2", "x must be a finite number, got '2'"),
        ({}, None, "x must be a finite number, got None"),
        ({}, 1j, "x must be a finite number, got 1j"),
        ({}, [1.0], r"x must be a finite number, got a list of 1"),
        ({}, decimal.Decimal(1), "x must be a finite number, got Decimal('1')"),
    ],
)
def test_real_refuses_with_name_range_and_value(limits, value, words):
    with pytest.raises(InvalidParameter) as caught:
        check_real("x", value, **limits)
    assert str(caught.value).startswith(words)


@pytest.mark.parametrize("edge", [{"at_least": 1}, {"at_most": 1}])
def test_real_includes_closed_ends(edge):
    assert check_real("x", 1, **edge) == 1.0


def test_real_refuses_integers_beyond_floats():
    with pytest.raises(InvalidParameter, match=r"^x must be a finite number"):
        check_real("x", 10**400)


def test_integer():
    for value in (3, np.int64(3), np.uint8(3)):
        assert type(check_integer("k", value, at_least=3, at_most=3)) is int
    for value, words in [
        (2, "k must be an integer at least 3, got 2"),
        (3.0, "k must be an integer at least 3, got 3.0"),
        (True, "k must be an integer at least 3, got True"),
        ("3", "k must be an integer at least 3, got '3'"),
    ]:
        with pytest.raises(InvalidParameter) as caught:
            check_integer("k", value, at_least=3)
        assert str(caught.value) == words
    with pytest.raises(InvalidParameter, match=r"^k must be an integer at least 0 and at most 5, got 6$"):
        check_integer("k", 6, at_least=0, at_most=5)


@pytest.mark.parametrize("value", [10**400, -(10**400), 10**5000], ids=["large", "negative", "of many digits"])
def test_integers_beyond_all_floats_are_refused(value):
    with pytest.raises(InvalidParameter, match=r"^k must be an integer at least 1, got an integer of [\d,]+ bits$"):
        check_integer("k", value, at_least=1)
    assert check_integer("k", 2**128, at_least=1) == 2**128


@pytest.mark.parametrize("value", ["c", "A", None, 1, ["a"]])
def test_choice(value):
    assert check_choice("kind", "a", ["a", "b"]) == "a"
    with pytest.raises(InvalidParameter, match=r"^kind must be one of 'a', 'b', got"):
        check_choice("kind", value, ["a", "b"])


def test_simulations():
    assert check_simulations(10_000_000, at_least=99) == 10_000_000
    for number in (98, 10_000_001, 10**400):
        with pytest.raises(InvalidParameter, match="n_simulations must be an integer at least 99"):
            check_simulations(number, at_least=99)


def test_flag_and_jobs():
    assert check_flag("progress", np.True_) is True and check_flag("progress", False) is False
    for value in (1, "x", None, np.array([True, False])):
        with pytest.raises(InvalidParameter, match=r"^progress must be True or False, got"):
            check_flag("progress", value)
    assert [check_jobs(value) for value in (None, 1, np.int8(3), -1)] == [1, 1, 3, -1]
    for value in (0, -2, 1.0, "x", True):
        with pytest.raises(InvalidParameter, match=r"^n_jobs must be"):
            check_jobs(value)


def test_levels_of_short_floats_are_decimals():
    assert check_level("level", np.float32(0.05)) == check_level("level", np.float16(0.05)) == 0.05
    assert check_level("level", Fraction(1, 20)) == check_level("level", np.longdouble("0.05")) == 0.05
    assert check_level("level", np.float32(1e-5)) == 1e-5 and type(check_level("level", np.float32(0.1))) is float
    for value in (0, 1, "0.05", np.float32(np.nan), np.float16(1e-9)):
        with pytest.raises(InvalidParameter, match=r"^level must be a finite number greater than 0"):
            check_level("level", value)


def test_columns_is_a_float_or_one_float_per_column():
    assert check_columns("clip", 2, 5) == 2.0 and type(check_columns("clip", np.float32(2))) is float
    assert type(check_columns("clip", np.array(2))) is float
    for value in ([1, 2], (1, 2), np.array([1, 2], dtype=np.uint8), pd.Series([1, 2]), pl.Series([1, 2])):
        array = check_columns("clip", value, 2, above=0)
        assert array.dtype == np.float64 and array.tolist() == [1.0, 2.0]


def test_columns_copies():
    given = np.array([1.0, 2.0])
    check_columns("clip", given)[0] = 9.0
    assert given[0] == 1.0


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "clip must be given: a number or one number per column"),
        (0.0, "clip must be a finite number greater than 0, got 0.0"),
        ("wide", "clip must be a finite number greater than 0, got 'wide'"),
        (True, "clip must be a finite number greater than 0, got True"),
        ([1.0, 0.0], "clip must be one number per column, each finite and greater than 0, got another at position 1"),
        (
            [np.nan, 1.0],
            "clip must be one number per column, each finite and greater than 0, got another at position 0",
        ),
        ([1.0, 2.0, 3.0], "clip must be a number or one number per column (n_features=2), got 3 numbers"),
        ([[1.0, 2.0]], "clip must be a number or one number per column, each finite and greater than 0, got"),
        ([], "clip must be a number or one number per column, each finite and greater than 0, got a list of 0"),
        (["a", "b"], "clip must be a number or one number per column, each finite and greater than 0, got"),
        ([True, False], "clip must be a number or one number per column, each finite and greater than 0, got"),
        ([1j, 2.0], "clip must be a number or one number per column, each finite and greater than 0, got"),
    ],
)
def test_columns_refuses_with_name_range_and_value(value, words):
    with pytest.raises(InvalidParameter) as caught:
        check_columns("clip", value, 2, above=0)
    assert str(caught.value).startswith(words)


def test_ragged_columns_are_refused_by_name():
    with pytest.raises(InvalidParameter, match=r"^clip must be a number or one number per column"):
        check_columns("clip", [[1], [1, 2]])


def test_columns_without_limits_reads_well():
    with pytest.raises(InvalidParameter, match=r"^center must be one number per column, each finite, got another at"):
        check_columns("center", [0.0, np.inf])
    with pytest.raises(InvalidParameter, match="at least 0, got another at position 1"):
        check_columns("std", [0.0, -1.0], at_least=0)


def test_privacy_parameters():
    assert check_privacy_parameters(1, 0) == (1.0, 0.0)
    for epsilon, delta, name in [(0, 0, "epsilon"), (np.inf, 0, "epsilon"), (1, 1, "delta"), (1, -1, "delta")]:
        with pytest.raises(InvalidParameter, match=f"^{name} must be a finite number"):
            check_privacy_parameters(epsilon, delta)


def test_random_state():
    generator = np.random.default_rng(0)
    assert check_random_state(None) is None
    assert check_random_state(generator) is generator
    for seed in (7, np.int32(7)):
        assert check_random_state(seed).random() == np.random.default_rng(7).random()


@pytest.mark.parametrize("value", [-1, 1.0, True, "0", np.random, np.random.SeedSequence(0)])
def test_random_state_refuses_what_it_would_have_to_guess(value):
    with pytest.raises(InvalidParameter, match=r"^random_state must be None"):
        check_random_state(value)


def test_errors_are_the_built_ins_that_callers_catch():
    assert issubclass(InvalidParameter, ValueError) and issubclass(InvalidData, ValueError)
    assert issubclass(InvalidParameter, DPStatsError) and issubclass(InvalidData, DPStatsError)
