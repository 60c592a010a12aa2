"""Labels that nobody declared: one spelling for each value, whatever container it is in."""

import datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest

from dpstats.data.columns import in_order, read_labels
from dpstats.data.values import Words


@pytest.mark.parametrize(
    ("entry", "label"),
    [
        ("a", "a"),
        ("", ""),
        (np.str_("a"), "a"),
        (1, 1),
        (True, 1),
        (np.bool_(False), 0),
        (1.0, 1),
        (-0.0, 0),
        (np.float32(0.5), 0.5),
        (Decimal("1.50"), 1.5),
        (Decimal("0.1"), Fraction(1, 10)),
        (Fraction(1, 2), 0.5),
        (2**70, 2**70),
        (datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29)),
        (np.datetime64("2024-02-29"), datetime.datetime(2024, 2, 29)),
        (None, None),
        (float("nan"), None),
        (float("inf"), None),
        (Decimal("1e999999"), None),
        (Decimal("sNaN"), None),
        (b"a", None),
        ((1, 2), None),
        ([1], None),
        (1j, None),
    ],
)
def test_an_entry_has_one_label_by_itself(entry, label):
    (found,) = read_labels([entry])
    assert found == label and type(found) is type(label)
    # Beside others it is the same.
    assert read_labels(["b", entry, 2.5]).tolist() == ["b", label, 2.5]


def test_containers_of_equal_entries_have_the_same_labels():
    expected = ["b", "a", None, "a"]
    made = [
        expected,
        pd.Series(expected),
        pd.Series(expected, dtype="category"),
        pl.Series(expected),
        pl.Series(expected, dtype=pl.Categorical),
        np.array(expected, dtype=object),
        Words(["b", "a", "", "a"]),
    ]
    assert [read_labels(entries).tolist() for entries in made] == [expected] * len(made)
    numbers = [2, 1, 2]
    made = [numbers, np.array(numbers, dtype=np.int8), np.array(numbers, dtype=float), pl.Series(numbers)]
    assert [read_labels(entries).tolist() for entries in made] == [numbers] * len(made)


def test_a_category_without_rows_is_no_label():
    labels = read_labels(pd.Categorical(["a"], categories=["a", "b"]))
    assert set(labels) == {"a"}


def test_the_order_of_labels_is_that_of_their_values():
    labels = ["b", 10, datetime.datetime(2024, 1, 1), 2.5, "10", Fraction(1, 3), "a"]
    expected = [Fraction(1, 3), 2.5, 10, datetime.datetime(2024, 1, 1), "10", "a", "b"]
    assert in_order(labels) == in_order(labels[::-1]) == expected
