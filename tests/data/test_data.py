"""Validation: what is accepted, what messages say, and that they never show data."""

import decimal
import traceback
import warnings
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from sklearn.base import BaseEstimator

from dpstats.data.labels import by_name, column_names
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
)
from dpstats.data.tables import check_rows
from dpstats.errors import DPStatsError, InvalidData, InvalidParameter
from dpstats.identity import SpatialSignTest, sign_reduction
from dpstats.means import ClippedMean

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
        ({}, [1.0], r"x must be a finite number, got [1.0]"),
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


@pytest.mark.parametrize("value", ["c", "A", None, 1, ["a"]])
def test_choice(value):
    assert check_choice("kind", "a", ["a", "b"]) == "a"
    with pytest.raises(InvalidParameter, match=r"^kind must be one of 'a', 'b', got"):
        check_choice("kind", value, ["a", "b"])


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
    assert (
        check_level("level", np.float32(1e-5)) == 1e-5
        and type(check_level("level", np.float32(0.1))) is float
    )
    for value in (0, 1, "0.05", np.float32(np.nan), np.float16(1e-9)):
        with pytest.raises(InvalidParameter, match=r"^level must be a finite number greater than 0"):
            check_level("level", value)


def test_labels_that_hold_data_are_not_read():
    for columns in ([SECRET_NUMBERS], (SECRET, "b"), {"a": SECRET_NUMBERS}):
        assert column_names(SimpleNamespace(columns=columns)) is None
    assert column_names(np.ones((2, 2))) is None and column_names([[1]]) is None
    assert column_names(pl.DataFrame({"a": [1], "b": [2]})) == ["a", "b"]
    assert column_names(pd.DataFrame(np.ones((1, 2)))) == [0, 1]


def test_parameters_by_name():
    given = pd.Series([1.0, 2.0], index=["a", "b"])
    assert by_name("mean", given, ["b", "a"]).tolist() == [2.0, 1.0]
    assert by_name("mean", pd.Series([1.0, 2.0]), [1, 0]).tolist() == [2.0, 1.0]
    for unlabelled in (
        [1.0, 2.0],
        (1.0, 2.0),
        np.ones(2),
        0.0,
        None,
        pd.Series([1.0, 2.0]),
        pl.Series([1.0, 2.0]),
    ):
        assert by_name("mean", unlabelled, ["b", "a"]) is unlabelled
    for names in (None, [0, 1]):
        assert by_name("mean", given, names) is given
    # A table where a vector belongs is left to the check of its shape.
    row = pd.DataFrame({"a": [1.0], "b": [2.0]})
    assert by_name("mean", row, ["b", "a"]) is row
    with pytest.raises(
        InvalidParameter, match=r"^mean must have the columns of X as its labels, .* \['a', 'b'\]"
    ):
        by_name("mean", given, ["b", "c"])


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
        (
            [1.0, 0.0],
            "clip must be one number per column, each finite and greater than 0, got 0 at position 1",
        ),
        (
            [np.nan, 1.0],
            "clip must be one number per column, each finite and greater than 0, got nan at position 0",
        ),
        ([1.0, 2.0, 3.0], "clip must be a number or one number per column (n_features=2), got 3 numbers"),
        ([[1.0, 2.0]], "clip must be a number or one number per column, each finite and greater than 0, got"),
        ([], "clip must be a number or one number per column, each finite and greater than 0, got []"),
        (["a", "b"], "clip must be a number or one number per column, each finite and greater than 0, got"),
        (
            [True, False],
            "clip must be a number or one number per column, each finite and greater than 0, got",
        ),
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
    with pytest.raises(
        InvalidParameter, match=r"^center must be one number per column, each finite, got inf at"
    ):
        check_columns("center", [0.0, np.inf])
    with pytest.raises(InvalidParameter, match="at least 0, got -1 at position 1"):
        check_columns("std", [0.0, -1.0], at_least=0)


def test_privacy_parameters():
    assert check_privacy_parameters(1, 0) == (1.0, 0.0)
    for epsilon, delta, name in [
        (0, 0, "epsilon"),
        (np.inf, 0, "epsilon"),
        (1, 1, "delta"),
        (1, -1, "delta"),
    ]:
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


# Data

SECRET, NUMBER = "secret", 4242.5
SECRET_NUMBERS = [NUMBER, 1.0]
SHOWN = ("4242", "4.24")  # how the number would look, also in scientific notation

BAD_ROWS = {
    "text": np.array([[SECRET], ["b"]]),
    "bytes": np.array([[SECRET.encode()], [b"x"]]),
    "text among numbers": np.array([[SECRET, NUMBER], ["2", 3.0]], dtype=object),
    "a column of text (pandas)": pd.DataFrame({"a": [SECRET, "b"], "b": [NUMBER, 2]}),
    "a string column (pandas)": pd.DataFrame({"a": pd.array([SECRET, "b"], dtype="string")}),
    "categories (pandas)": pd.DataFrame({"a": pd.Categorical([SECRET, "b"])}),
    "a column of text (polars)": pl.DataFrame({"a": [SECRET, "b"], "b": [NUMBER, 2.0]}),
    "structs (polars)": pl.DataFrame({"a": [{SECRET: NUMBER}]}),
    "objects": np.array([[{SECRET: NUMBER}], [2]], dtype=object),
    "missing objects": np.array([[pd.NA], [NUMBER]], dtype=object),
    "a dictionary": {SECRET: [NUMBER, 2]},
    "ragged": [[NUMBER, 1], [2]],
    "one-dimensional": np.array([NUMBER, 1.0]),
    "one-dimensional list": [NUMBER, 1.0],
    "a series": pd.Series([NUMBER, 1.0]),
    "a number": NUMBER,
    "a string": SECRET,
    "nothing": None,
    "three-dimensional": np.full((2, 2, 2), NUMBER),
    "complex": np.array([[NUMBER + 1j], [2]]),
    "complex objects": np.array([[NUMBER + 1j], [2]], dtype=object),
    "sparse matrix": scipy.sparse.csr_matrix([[NUMBER]]),
    "sparse array": scipy.sparse.csr_array([[NUMBER]]),
    "sparse frame": pd.DataFrame({"a": pd.arrays.SparseArray([0, NUMBER])}),
    "dates": np.array([["4242-05-05"], ["2024-01-02"]], dtype="M8[D]"),
    "dates (pandas)": pd.DataFrame({"a": pd.to_datetime(["2242-05-05", "2024-03-01"])}),
    "dates (polars)": pl.DataFrame({"a": [4242, 1]}).with_columns(pl.col("a").cast(pl.Date)),
    "durations": np.array([[4242], [1]], dtype="m8[s]"),
    "records": np.array([(4242, NUMBER)], dtype=[("u", int), ("v", float)]),
    "a matrix": np.asmatrix([[NUMBER]]) if hasattr(np, "asmatrix") else [[SECRET]],
    "no rows": np.empty((0, 2)),
    "no columns": np.empty((2, 0)),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_bad_rows_are_refused_without_showing_data(name):
    estimator = BaseEstimator()
    with pytest.raises(InvalidData) as caught:
        check_rows(estimator, BAD_ROWS[name], reset=True)
    # The message, and what a traceback prints of the chain behind it.
    shown = "".join(traceback.format_exception_only(caught.value))
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    for data in (SECRET, *SHOWN, "2242", "j)"):
        assert data not in shown
    assert len(shown) < 400


def test_the_check_for_data_in_messages_has_power():
    # What the same rows say without our own messages: the data are in there.
    from sklearn.utils import check_array

    for name in ("text among numbers", "one-dimensional", "a column of text (pandas)"):
        with pytest.raises(ValueError, match=rf"{SECRET}|4242|4\.24"):
            check_array(BAD_ROWS[name])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("text", "X must be a 2-d table of numbers: at least one column holds text"),
        ("dates", "X must be a 2-d table of real numbers, got an array of dtype datetime64"),
        ("one-dimensional", r"X must be a 2-d table .* Reshape your data"),
        ("three-dimensional", "Found array with dim 3"),
        ("complex", "^(X: )?Complex data not supported$"),
        ("sparse matrix", "Sparse data was passed"),
        ("no rows", r"Found array with 0 sample\(s\)"),
        ("no columns", r"Found array with 0 feature\(s\)"),
        ("objects", "argument must be a string or a real number"),
    ],
)
def test_messages_for_bad_rows_say_what_is_wrong(name, words):
    with pytest.raises(InvalidData, match=words):
        check_rows(BaseEstimator(), BAD_ROWS[name], reset=True)


@pytest.mark.parametrize("name", ["objects", "sparse matrix", "complex objects"])
def test_wrong_types_are_type_errors_too(name):
    with pytest.raises(TypeError) as caught:
        check_rows(BaseEstimator(), BAD_ROWS[name], reset=True)
    assert isinstance(caught.value, InvalidData)


def test_integer_objects_beyond_floats_are_refused_as_data():
    with pytest.raises(InvalidData):
        check_rows(BaseEstimator(), np.array([[10**400], [1]], dtype=object), reset=True)


@pytest.mark.parametrize(
    "X",
    [
        [[1, 2], [3, 4]],
        np.array([[1, 2], [3, 4]], dtype=np.int8),
        np.array([[1, 2], [3, 4]], dtype=np.float16),
        np.array([[1, 2], [3, 4]], dtype=object),
        np.array([[decimal.Decimal(1), 2], [3, Fraction(4)]], dtype=object),
        pd.DataFrame({"a": [1, 3], "b": [2.0, 4.0]}),
        pd.DataFrame({"a": pd.array([1, 3], dtype="Int64"), "b": pd.array([2, 4], dtype="Float64")}),
        pl.DataFrame({"a": [1, 3], "b": [2.0, 4.0]}),
    ],
)
def test_tables_of_numbers_are_accepted(X):
    rows = check_rows(BaseEstimator(), X, reset=True)
    assert rows.dtype.kind in "fiub"
    assert rows.astype(float).tolist() == [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize(
    "X",
    [
        np.array([[1.0], [np.nan], [np.inf]]),
        pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64")}),
        pl.DataFrame({"a": [1, None, 3]}),
    ],
)
def test_missing_entries_are_left_to_the_one_pass_over_the_data(X):
    assert np.isnan(check_rows(BaseEstimator(), X, reset=True)[1, 0])


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="longer floats than 64 bits are needed")
def test_longer_floats_become_64_bits_without_losing_that_they_are_finite():
    huge = np.longdouble("1e400")
    table = np.array([[huge, -huge, 0.1], [np.inf, -np.inf, np.nan]], dtype=np.longdouble)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = check_rows(BaseEstimator(), table, reset=True)
        sparse = check_rows(Sparse(), scipy.sparse.csr_array(table[:1]), reset=True)
    largest = np.finfo(np.float64).max
    assert rows.dtype == sparse.dtype == np.float64
    np.testing.assert_array_equal(rows, [[largest, -largest, 0.1], [np.inf, -np.inf, np.nan]])
    np.testing.assert_array_equal(sparse.toarray(), rows[:1])


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="longer floats than 64 bits are needed")
@pytest.mark.parametrize("mean", [0.0, 1.0])
def test_every_way_to_the_rows_takes_longer_floats_alike(mean):
    table = np.full((30, 2), np.longdouble("1e400"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fits = [
            SpatialSignTest(mean=mean, n_calibration=99, random_state=0).fit(X) for X in (table, table[:, :1])
        ]
        signs = sign_reduction(table, mean)
    assert all(test.reject_ for test in fits) and (signs == 1).all()


def test_public_facts_are_recorded_and_compared():
    estimator = BaseEstimator()
    check_rows(estimator, pd.DataFrame({"age": [1.0], "income": [2.0]}), reset=True)
    assert estimator.n_features_in_ == 2 and estimator.feature_names_in_.tolist() == ["age", "income"]
    with pytest.raises(InvalidData, match="The feature names should match") as caught:
        check_rows(estimator, pd.DataFrame({"age": [NUMBER], "wage": [2.0]}), reset=False)
    assert "wage" in str(caught.value) and "4242" not in str(caught.value)  # names are public
    other = BaseEstimator()
    check_rows(other, np.ones((3, 2)), reset=True)
    assert not hasattr(other, "feature_names_in_")
    with pytest.raises(InvalidData, match="X has 3 features, but BaseEstimator is expecting 2 features"):
        check_rows(other, np.full((1, 3), NUMBER), reset=False)


def test_mixed_column_names_are_refused():
    frame = pd.DataFrame([[NUMBER, 2]], columns=["a", 3])
    with pytest.raises(InvalidData, match="Feature names are only supported") as caught:
        check_rows(BaseEstimator(), frame, reset=True)
    assert "4242" not in str(caught.value)


def test_too_few_rows_are_refused():
    with pytest.raises(InvalidData, match=r"X must have at least 2 rows, got n_samples = 1"):
        check_rows(BaseEstimator(), [[1.0]], reset=True, min_samples=2)


# Sparse tables


class Sparse(BaseEstimator):
    """An estimator whose tags accept sparse tables."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def test_sparse_tables_are_accepted_where_the_tags_say_so():
    table = scipy.sparse.csr_matrix(np.eye(3))
    with pytest.raises(InvalidData, match="Sparse data was passed"):
        check_rows(BaseEstimator(), table, reset=True)
    for layout in ("csr", "csc", "coo", "lil", "dok", "bsr"):
        rows = check_rows(Sparse(), table.asformat(layout), reset=True)
        assert rows.format == "csr" and rows.has_canonical_format
        np.testing.assert_array_equal(rows.toarray(), np.eye(3))


COPIES = {
    "csr": scipy.sparse.csr_array((np.array([1.0, 2.0, 4.0]), [1, 1, 0], [0, 2, 3]), shape=(2, 2)),
    "csr, unsorted": scipy.sparse.csr_array((np.ones(4), [1, 0, 1, 0], [0, 3, 4]), shape=(2, 2)),
    "csc": scipy.sparse.csc_array((np.array([1.0, 2.0, 4.0]), [1, 1, 0], [0, 2, 3]), shape=(2, 2)),
    "coo": scipy.sparse.coo_array((np.ones(3), ([0, 1, 0], [1, 0, 1])), shape=(2, 2)),
    "bsr": scipy.sparse.bsr_array((np.ones((2, 2, 2)), [0, 0], [0, 2]), shape=(2, 2)),
    "csr matrix": scipy.sparse.csr_matrix((np.ones(2), [0, 0], [0, 0, 2]), shape=(2, 2)),
    "cancelling": scipy.sparse.coo_array((np.array([NUMBER, -NUMBER]), ([0, 0], [1, 1])), shape=(2, 2)),
}
COPIES["dia"] = scipy.sparse.dia_array((np.ones((2, 2)), [0, 1]), shape=(2, 2))
COPIES["dia"].offsets[1] = 0
COPIES["lil"] = scipy.sparse.lil_array((2, 2))
COPIES["lil"].rows[0], COPIES["lil"].data[0] = [1, 1], [1.0, 2.0]


@pytest.mark.parametrize("name", COPIES)
def test_a_sparse_table_that_stores_an_entry_twice_is_refused(name):
    table = COPIES[name]
    stored = table.nnz
    with pytest.raises(InvalidData, match="X must not store an entry twice") as caught:
        check_rows(Sparse(), table, reset=True)
    assert table.nnz == stored and "4242" not in str(caught.value)


def test_a_sparse_table_is_sorted_on_a_copy_and_only_where_it_has_to_be():
    plain = scipy.sparse.csr_matrix(np.eye(4))
    assert np.shares_memory(check_rows(Sparse(), plain, reset=True).data, plain.data)
    # The last entry of a row may be in the column of the first of the next, across empty rows too.
    table = scipy.sparse.csr_array((np.arange(1.0, 6), [2, 0, 2, 2, 1], [0, 0, 2, 3, 3, 5]), shape=(5, 3))
    before = [array.copy() for array in (table.data, table.indices, table.indptr)]
    rows = check_rows(Sparse(), table, reset=True)
    np.testing.assert_array_equal(rows.toarray(), table.toarray())
    assert rows.has_canonical_format
    for array, old in zip((table.data, table.indices, table.indptr), before, strict=True):
        np.testing.assert_array_equal(array, old)


@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "bsr"])
def test_random_sparse_tables_are_refused_where_they_store_an_entry_twice(layout):
    rng, seen = np.random.default_rng(0), set()
    for _ in range(60):
        cells = rng.choice(20, size=5), rng.choice(4, size=5)
        made = scipy.sparse.coo_array((np.arange(1.0, 6), cells), shape=(20, 4))
        twice = len(set(zip(*cells, strict=True))) < 5
        kind = {"csr": scipy.sparse.csr_array, "csc": scipy.sparse.csc_array, "bsr": scipy.sparse.bsr_array}
        if layout != "coo":  # by hand: a conversion would add up
            lines = cells[1] if layout == "csc" else cells[0]
            order = np.argsort(lines, kind="stable")
            size = 4 if layout == "csc" else 20
            indptr = np.concatenate([[0], np.cumsum(np.bincount(lines, minlength=size))])
            indices = cells[0 if layout == "csc" else 1][order]
            data = made.data[order]
            data = data.reshape(-1, 1, 1) if layout == "bsr" else data
            given = kind[layout]((data, indices, indptr), shape=(20, 4))
        else:
            given = made
        seen.add(twice)
        if twice:
            with pytest.raises(InvalidData, match="twice"):
                check_rows(Sparse(), given, reset=True)
        else:
            np.testing.assert_array_equal(check_rows(Sparse(), given, reset=True).toarray(), made.toarray())
    assert seen == {False, True}


def test_a_coordinate_outside_a_sparse_table_is_refused():
    table = scipy.sparse.coo_array((np.ones(2), ([0, 1], [1, 0])), shape=(2, 2))
    table.col[0] = 9
    with pytest.raises(InvalidData, match="outside its shape"):
        check_rows(Sparse(), table, reset=True)


def test_a_sparse_table_that_points_outside_itself_is_refused():
    table = scipy.sparse.csr_matrix(np.eye(3))
    table.indices[0] = 77
    with pytest.raises(InvalidData):
        check_rows(Sparse(), table, reset=True)


@pytest.mark.parametrize("names", [["a", "a", "b"], ["1", 1, "b"]])
def test_columns_have_names_of_their_own(names: list) -> None:
    frame = pd.DataFrame(np.ones((4, 3)), columns=names)
    with pytest.raises(InvalidData, match=r"^X must have a name of its own for every column, got "):
        ClippedMean(clip=2.0).fit(frame)
