"""Private numbers that lose no digit, each by itself."""

import itertools
import math
import traceback
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from dpstats.data.numbers import exact_numbers, floats_among
from dpstats.errors import InvalidData
from tests.data.awkward import LyingClass, Raises

NUMBERS = [0.5, 2**53 + 1, 2**63 + 1, -1, True, 10**400, Fraction(1, 3), np.float32(0.1), np.int64(2**53 + 1)]
NUMBERS += [np.uint64(2**63 + 1), np.bool_(True), math.inf, -0.0]


def exact(value):
    return Fraction(value) if not isinstance(value, float) or math.isfinite(value) else value


def test_a_number_is_what_it_is_alone():
    alone = [exact(exact_numbers("value", [value]).tolist()[0]) for value in NUMBERS]
    written = [exact(value.item() if isinstance(value, np.generic) else value) for value in NUMBERS]
    assert alone == written
    for places in itertools.permutations(range(len(NUMBERS)), 3):
        for container in (list, tuple, lambda values: pd.Series(values, dtype=object)):
            found = exact_numbers("value", container([NUMBERS[i] for i in places]))
            assert [exact(value) for value in found.tolist()] == [alone[i] for i in places]


class RaisingFraction(Fraction):
    """A number whose comparison raises, with data in the message."""

    def __eq__(self, other):
        raise ValueError("secret")

    __hash__ = Fraction.__hash__


def test_a_number_is_not_compared_on_reading():
    assert exact_numbers("value", [RaisingFraction(1, 3), 1]).shape == (2,)


def test_arrays_of_one_type_stay_as_they_are():
    for array in (
        np.array([1, 2]),
        np.array([0.5], dtype=np.float32),
        np.array([True]),
        np.array([2**63], "u8"),
    ):
        assert exact_numbers("value", array) is array
    assert (
        exact_numbers("value", [1, 2]).dtype == np.int64 and exact_numbers("value", [0.5]).dtype == np.float64
    )
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
