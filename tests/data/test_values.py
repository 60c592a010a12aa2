"""Single values: what is missing, what is equal, which number it is."""

import datetime
import itertools
import math
import traceback
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from dpstats.data.values import bool_of, exact_numbers, float_of, floats_among, is_built_in, is_missing, key_of
from dpstats.errors import InvalidData
from tests.data.awkward import LIARS, MISSING, UNHASHABLE, VALUES, Colour, Level, LyingClass, LyingText, Raises

LARGEST = np.finfo(np.float64).max


@pytest.mark.parametrize(
    "equal",
    [
        [1, 1.0, True, np.True_, np.int8(1), np.uint64(1), np.float16(1), np.longdouble(1), Decimal("1.0")],
        [1, Fraction(1), 1 + 0j, np.complex64(1), np.array(1), Level.LOW],
        [2**53 + 1, np.int64(2**53 + 1), Decimal(2**53 + 1), Fraction(2**53 + 1)],
        [2.0**53, 2**53, np.float32(2**53)],
        [0.1, np.float64(0.1), Fraction(0.1), np.longdouble(0.1)],
        [0, 0.0, -0.0, False],
        [math.inf, np.float32("inf"), Decimal("Infinity"), np.longdouble("inf")],
        MISSING,
        ["a", np.str_("a"), LyingText("a")],
        [b"a", np.bytes_(b"a")],
        [
            datetime.date(2020, 1, 1),
            datetime.datetime(2020, 1, 1),
            pd.Timestamp("2020-01-01"),
            *(np.datetime64("2020-01-01", unit) for unit in ("D", "h", "s", "ns")),
            *(np.datetime64("2020", unit) for unit in ("Y", "M")),
        ],
        [
            datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC),
            datetime.datetime(2019, 12, 31, 23, tzinfo=datetime.timezone(-datetime.timedelta(hours=1))),
            pd.Timestamp("2020-01-01 01:00", tz="Europe/Paris"),
        ],
        [
            datetime.timedelta(days=-1, microseconds=1),
            np.timedelta64(-86_400 * 10**6 + 1, "us"),
            pd.Timedelta(-86_400 * 10**9 + 1000, "ns"),
        ],
        [(1, "a", None), (1.0, np.str_("a"), math.nan)],
    ],
    ids=str,
)
def test_equal_values_have_one_key(equal):
    assert len({key_of(value) for value in equal}) == 1 and key_of(equal[0]) is not None


def test_different_values_have_different_keys():
    different = [1, 2**53 + 1, 2.0**53, 0.1, Decimal("0.1"), np.float32(0.1), "1", b"1", "a", b"a", None, "None", 1j]
    different += [datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC), "2020-01-01"]
    different += [pd.Timestamp("2020-01-01T00:00:00.000000001"), np.timedelta64(1, "s"), np.timedelta64(1, "Y")]
    different += [(1,), (1, 2), ("1",), Colour.RED, ("missing",), ("number", 1), ("text", "a"), math.inf, 10**400]
    assert len({key_of(value) for value in different}) == len(different)


def test_months_and_days_agree_with_numpy_in_any_year():
    months = np.arange(-40_000, 40_000, 7).astype("M8[M]")
    for month, day in zip(months, months.astype("M8[D]"), strict=True):
        assert key_of(month) == key_of(day)
    assert key_of(np.datetime64(2**62, "Y")) != key_of(np.datetime64(2**62, "Y").astype("M8[D]"))  # numpy wraps


@pytest.mark.parametrize("value", UNHASHABLE, ids=lambda value: type(value).__name__)
def test_what_cannot_be_hashed_equals_nothing(value):
    assert key_of(value) is None


def test_no_value_raises():
    for value in VALUES:
        key_of(value), is_missing(value), float_of(value), bool_of(value)
    assert key_of(LIARS[0]) is None and float_of(LIARS[0]) is None and bool_of(LIARS[0]) is None


def test_missing_values():
    assert all(map(is_missing, MISSING))
    assert not any(map(is_missing, [0, "", "nan", [], (), (None,), False, math.inf]))


def test_numbers_are_the_nearest_floats():
    for value, number in [
        (2**53 + 1, 2.0**53),
        (2**64 + 2**11 + 1, 2.0**64 + 2.0**12),  # just above the middle of two floats
        (10**400, LARGEST),
        (-(10**400), -LARGEST),
        (Fraction(10**400, 3), LARGEST),
        (Decimal("1e400"), LARGEST),
        (np.longdouble("inf"), math.inf),
        (Decimal("-Infinity"), -math.inf),
        (Fraction(1, 3), 1 / 3),
        (Decimal("0.1"), 0.1),
        (np.float32(0.1), 0.10000000149011612),
        (True, 1.0),
        (np.array(3), 3.0),
    ]:
        assert float_of(value) == number
    if np.dtype(np.longdouble).itemsize > 8:
        assert float_of(np.longdouble("1e400")) == LARGEST
    assert math.copysign(1, float_of(-0.0)) == -1
    assert all(math.isnan(float_of(value)) for value in MISSING)
    for value in ("1", b"1", 1j, 1 + 0j, datetime.date(2020, 1, 1), np.timedelta64(1, "s"), np.timedelta64(1, "ns")):
        assert float_of(value) is None
    for value in (np.datetime64("2020", "ns"), [1], (1,), {}, np.array([1]), Colour.RED, object()):
        assert float_of(value) is None


def test_booleans_are_only_booleans():
    assert [bool_of(value) for value in (True, np.True_, np.array(True), False, None, pd.NA)] == [1, 1, 1, 0, 0, 0]
    for value in (1, 0, 1.0, "True", np.int8(1), [True], np.array([True])):
        assert bool_of(value) is None


def test_which_keys_are_of_built_in_kinds():
    assert is_built_in(key_of((1, ("a", b"b"), datetime.date(2020, 1, 1))))
    assert not is_built_in(key_of(Colour.RED)) and not is_built_in(key_of((1, (Colour.RED,))))


EXACT_NUMBERS = [0.5, 2**53 + 1, 2**63 + 1, -1, True, 10**400, Fraction(1, 3), np.float32(0.1), np.int64(2**53 + 1)]
EXACT_NUMBERS += [np.uint64(2**63 + 1), np.bool_(True), math.inf, -0.0]


def exact(value):
    return Fraction(value) if not isinstance(value, float) or math.isfinite(value) else value


def test_a_number_is_what_it_is_alone():
    alone = [exact(exact_numbers("value", [value]).tolist()[0]) for value in EXACT_NUMBERS]
    written = [exact(value.item() if isinstance(value, np.generic) else value) for value in EXACT_NUMBERS]
    assert alone == written
    for places in itertools.permutations(range(len(EXACT_NUMBERS)), 3):
        for container in (list, tuple, lambda values: pd.Series(values, dtype=object)):
            found = exact_numbers("value", container([EXACT_NUMBERS[i] for i in places]))
            assert [exact(value) for value in found.tolist()] == [alone[i] for i in places]


class RaisingFraction(Fraction):
    """A number whose comparison raises, with data in the message."""

    def __eq__(self, other):
        raise ValueError("secret")

    __hash__ = Fraction.__hash__


def test_a_number_is_not_compared_on_reading():
    assert exact_numbers("value", [RaisingFraction(1, 3), 1]).shape == (2,)


def test_arrays_of_one_type_stay_as_they_are():
    for array in (np.array([1, 2]), np.array([0.5], dtype=np.float32), np.array([True]), np.array([2**63], "u8")):
        assert exact_numbers("value", array) is array
    assert exact_numbers("value", [1, 2]).dtype == np.int64 and exact_numbers("value", [0.5]).dtype == np.float64
    assert exact_numbers("value", 5).shape == () and exact_numbers("value", [[1, 2]]).shape == (1, 2)
    assert floats_among(exact_numbers("value", [2**53 + 1, 0.5, 1.5])).tolist() == [0.5, 1.5]


@pytest.mark.parametrize(
    "value",
    [
        ["4242", 1],
        [4242.5, None],
        [4242.5, pd.NA],
        [4242.5, np.ma.masked],
        np.ma.masked_array([4242.5, 1.0], mask=[True, False]),
        [np.ma.masked_array([4242.5], mask=[True])],
        [Decimal("4242.5")],
        [np.timedelta64(4242, "ns"), 1.0],  # which numpy gives as an integer
        np.array([np.datetime64(4242, "ns"), 1.0], dtype=object),
        np.array([4242], dtype="m8[s]"),
        [np.longdouble(4242.5), 1.0],
        np.array([4242.5], dtype=np.longdouble),
        [4242j],
        [[4242.5], [1, 2]],
        [4242.5, LyingClass()],
        [Raises(4242)],
        {"a": 4242.5},
        "4242",
        None,
    ],
)
def test_what_is_no_number_is_refused_without_showing_it(value):
    with pytest.raises(InvalidData, match=r"^value must be a real number") as caught:
        exact_numbers("value", value)
    assert caught.value.__context__ is None and caught.value.__cause__ is None
    assert "4242" not in "".join(traceback.format_exception_only(caught.value))


def test_durations_that_differ_by_seconds_are_different() -> None:
    one, other = (datetime.timedelta(days=1, seconds=seconds) for seconds in (5, 6))
    assert key_of(one) != key_of(other) and key_of(one) == key_of(np.timedelta64(86_405, "s"))
