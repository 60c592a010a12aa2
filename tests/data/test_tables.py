"""Tables: what is accepted, that each row is read alone, what messages say, and that they never show data."""

import decimal
import fractions
import math
import traceback
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse

from dpstats.data.opening import open_source
from dpstats.data.rows import Narrow, Table, column_of, rows_of
from dpstats.data.schema import Categories, Column, Schema, unit_codes
from dpstats.errors import InvalidData
from dpstats.identity import SpatialSignTest, sign_reduction
from dpstats.means import ClippedMean
from tests.data.awkward import NUMBERS, TABLES, LyingClass, Raises, beside, objects

SECRET, NUMBER = "secret", 4242.5


class RaisingRow:
    """A row that raises where it is read, with data in the message."""

    def __len__(self):
        return 1

    def __iter__(self):
        raise KeyError(SECRET)


class RaisingTable:
    """A container that raises where it is made an array, with data in the message."""

    shape = (2, 1)

    def __init__(self, error):
        self.error = error

    def __array__(self, dtype=None, copy=None):
        raise self.error(f"X has {SECRET}")  # begins as scikit-learn's own words do


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
    "text among missing objects": np.array([[SECRET, pd.NA], [None, NUMBER]], dtype=object),
    "text that could be a number": np.array([["4242"], [1.0]], dtype=object),
    "text beside missing": [["4242"], [None]],
    "durations among objects": np.array([[np.timedelta64(4242, "ns")], [1.0]], dtype=object),
    "dates among objects (pandas)": pd.DataFrame({"a": np.array([pd.Timestamp("2242-05-05"), 1.0], dtype=object)}),
    "objects that raise": [[Raises(NUMBER)], [1.0]],
    "objects that raise (array)": np.array([[Raises(NUMBER)], [1.0]], dtype=object),
    "objects that raise (pandas)": pd.DataFrame({"a": np.array([Raises(NUMBER), 1.0], dtype=object)}),
    "lazy, cannot be collected (polars)": pl.LazyFrame({"a": [SECRET]}).with_columns(pl.col("a").cast(pl.Int64)),
    "a row that raises": [RaisingRow(), [1.0]],
    "a table that raises": RaisingTable(ValueError),
    "a table that raises a type error": RaisingTable(TypeError),
    "a dictionary": {SECRET: [NUMBER, 2]},
    "ragged": [[NUMBER, 1], [2]],
    "a series of text": pd.Series([str(NUMBER), "1.0"]),
    "a number": NUMBER,
    "a string": SECRET,
    "nothing": None,
    "three-dimensional": np.full((2, 2, 2), NUMBER),
    "complex": np.array([[NUMBER + 1j], [2]]),
    "complex objects": np.array([[NUMBER + 1j], [2]], dtype=object),
    "sparse matrix": scipy.sparse.csr_matrix([[NUMBER]]),
    "sparse array": scipy.sparse.csr_array([[NUMBER]]),
    "sparse frame": pd.DataFrame({"a": pd.arrays.SparseArray([0, NUMBER])}),
    "sparse frame without zeros": pd.DataFrame({"a": pd.arrays.SparseArray([np.nan, NUMBER])}),
    "dates": np.array([["4242-05-05"], ["2024-01-02"]], dtype="M8[D]"),
    "dates (pandas)": pd.DataFrame({"a": pd.to_datetime(["2242-05-05", "2024-03-01"])}),
    "dates (polars)": pl.DataFrame({"a": [4242, 1]}).with_columns(pl.col("a").cast(pl.Date)),
    "durations": np.array([[4242], [1]], dtype="m8[s]"),
    "records": np.array([(4242, NUMBER)], dtype=[("u", int), ("v", float)]),
    "a matrix": np.array([[NUMBER]]).view(np.matrix),
    "no rows": np.empty((0, 2)),
    "no columns": np.empty((2, 0)),
    "an empty frame": pd.DataFrame(),
}


def read_rows(X, sparse=False):
    """Return the rows of a table of numbers, as a fit has them."""
    source = open_source(X)
    rows = source.read(Schema(sparse=sparse).resolve(source.names))
    if not isinstance(rows, Table):  # narrow
        blocks = []
        rows.total(lambda table: blocks.append(table.X) or {})
        np.testing.assert_array_equal(np.concatenate(blocks), rows.whole().X)
    return rows.whole().X


@pytest.mark.parametrize("name", BAD_ROWS)
def test_bad_rows_are_refused_without_showing_data(name):
    with pytest.raises(InvalidData) as caught:
        read_rows(BAD_ROWS[name])
    assert caught.value.__context__ is None and caught.value.__cause__ is None
    # The message alone, and all that a traceback prints: lines of code beside it, and no exception before it.
    message = "".join(traceback.format_exception_only(caught.value))
    for data in (SECRET, *SHOWN, "2242", "j)"):
        assert data not in message
    whole = "".join(traceback.format_exception(caught.value))
    for data in (SECRET, *SHOWN, "2242"):
        assert data not in whole
    assert len(message) < 400


def test_the_check_for_data_in_messages_has_power():
    # What the same rows say without our own messages: the data are in there.
    from sklearn.utils import check_array

    for name in ("text among numbers", "a column of text (pandas)"):
        with pytest.raises(ValueError, match=rf"{SECRET}|4242|4\.24"):
            check_array(BAD_ROWS[name])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("text", "X must be a 2-d table of numbers, got at least one column that holds text"),
        ("dates", "X must be a 2-d table of real numbers, got at least one column that holds dates"),
        ("three-dimensional", "Found array with dim 3"),
        ("complex", "^(X: )?Complex data not supported$"),
        ("sparse matrix", "Sparse data was passed"),
        ("sparse frame", r"must have dense columns, got sparse ones. Convert them: X.sparse.to_dense\(\)"),
        ("sparse frame without zeros", "must have dense columns, got sparse ones"),
        ("no rows", r"Found array with 0 sample\(s\)"),
        ("no columns", r"Found array with 0 feature\(s\)"),
        ("an empty frame", r"Found array with 0 sample\(s\)"),
        ("objects", "argument must be a string or a real number"),
    ],
)
def test_messages_for_bad_rows_say_what_is_wrong(name, words):
    with pytest.raises(InvalidData, match=words):
        read_rows(BAD_ROWS[name])


@pytest.mark.parametrize("name", ["objects", "sparse matrix", "complex objects"])
def test_wrong_types_are_type_errors_too(name):
    with pytest.raises(TypeError) as caught:
        read_rows(BAD_ROWS[name])
    assert isinstance(caught.value, InvalidData)


def test_numbers_beyond_floats_are_the_largest_float():
    # As longer floats are: what is finite stays so, and each entry is rounded by itself.
    largest = np.finfo(np.float64).max
    for huge in (10**400, fractions.Fraction(10**400, 3), decimal.Decimal("1e400")):
        for X in ([[huge], [1]], [[-huge], [1]], np.array([[huge], [1]], dtype=object)):
            assert abs(read_rows(X)).tolist() == [[largest], [1.0]]


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
    rows = read_rows(X)
    assert rows.dtype.kind in "fiub"
    assert rows.astype(float).tolist() == [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize(
    "X",
    [
        np.array([[1.0], [np.nan], [np.inf]]),
        pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64")}),
        pl.DataFrame({"a": [1, None, 3]}),
        pl.DataFrame({"a": [True, None, False]}),
        pl.LazyFrame({"a": [1, None, 3]}),
        pd.DataFrame({"a": np.array([1, pd.NA, 3.5], dtype=object)}),
        [[1], [None], [2.5]],
        [(1,), (np.float32("nan"),), (True,)],
        np.array([[1], [pd.NA], [decimal.Decimal(3)]], dtype=object),
        [[1], [np.ma.masked], [2.5]],
        [np.ma.masked_array([4242.0], mask=[hidden]) for hidden in (False, True, False)],
    ],
)
def test_missing_entries_are_left_to_the_one_pass_over_the_data(X):
    assert np.isnan(read_rows(X)[1, 0])


@pytest.mark.skipif(np.dtype(np.longdouble).itemsize == 8, reason="longer floats than 64 bits are needed")
def test_longer_floats_become_64_bits_without_losing_that_they_are_finite():
    huge = np.longdouble("1e400")
    table = np.array([[huge, -huge, 0.1], [np.inf, -np.inf, np.nan]], dtype=np.longdouble)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows = read_rows(table)
        sparse = read_rows(scipy.sparse.csr_array(table[:1]), sparse=True)
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
        fits = [SpatialSignTest(mean=mean, n_calibration=99, random_state=0).fit(X) for X in (table, table[:, :1])]
        signs = sign_reduction(table, mean)
    assert all(test.reject_ for test in fits) and (signs == 1).all()


def test_public_facts_are_recorded_and_compared():
    mean = ClippedMean(bounds=(0, 10), random_state=0)
    mean.fit(pd.DataFrame({"age": [1.0, 2.0], "income": [2.0, 3.0]}))
    assert mean.n_features_in_ == 2 and mean.feature_names_in_.tolist() == ["age", "income"]
    with pytest.raises(InvalidData, match="The feature names should match") as caught:
        mean.predict(pd.DataFrame({"age": [NUMBER], "wage": [2.0]}))
    assert "wage" in str(caught.value) and "4242" not in str(caught.value)  # names are public
    mean.fit(np.ones((3, 2)))
    assert not hasattr(mean, "feature_names_in_")
    with pytest.raises(InvalidData, match="X has 3 features, but ClippedMean is expecting 2 features"):
        mean.predict(np.full((1, 3), NUMBER))


def test_mixed_column_names_are_refused():
    frame = pd.DataFrame([[NUMBER, 2], [1, 2]], columns=["a", 3])
    with pytest.raises(InvalidData, match="Feature names are only supported") as caught:
        ClippedMean(bounds=(0, 1)).fit(frame)
    assert "4242" not in str(caught.value)


def test_too_few_rows_are_refused():
    with pytest.raises(InvalidData, match="X must"):
        ClippedMean(bounds=(0, 1)).fit([[1.0]])


# Rows read alone


def read(X):
    """Return the float64 rows that are read, or None where they are refused."""
    try:
        return np.asarray(read_rows(X), dtype=np.float64)
    except InvalidData:
        return None


def assert_same_bits(first, second):
    np.testing.assert_array_equal(first, second)
    numbers = ~np.isnan(first)
    np.testing.assert_array_equal(np.signbit(first[numbers]), np.signbit(second[numbers]))


@pytest.mark.parametrize("kind", TABLES)
def test_a_row_is_read_as_it_is_alone(kind):
    table, rows = TABLES[kind]
    alone = [read(table([row])) for row in rows]
    good = [i for i, row in enumerate(alone) if row is not None]
    for places in beside(good):
        assert_same_bits(read(table([rows[i] for i in places])), np.concatenate([alone[i] for i in places]))
    # A row that is refused alone is refused beside others, and a table of the others is not.
    for i in set(range(len(rows))) - set(good):
        assert read(table([rows[good[0]], rows[i]])) is None
    assert len(good) > 1


def test_the_catalogue_finds_what_was_wrong():
    # What numpy, scikit-learn and pandas do by themselves: the awkward rows would notice.
    assert np.asarray([[1.0], ["x"]]).dtype.kind == "U"
    assert np.array([["4"], [None]], dtype=object).astype(object)[0, 0] == "4"
    assert float(np.array(["4", None], dtype=object)[:1].astype(float)[0]) == 4.0
    assert np.asarray([np.ma.masked_array([4.0], mask=[True])])[0, 0] == 4.0


def test_tables_of_float64_are_read_in_place():
    array = np.arange(12.0).reshape(4, 3)
    for X in (array, np.asfortranarray(array), pd.DataFrame(array), pd.DataFrame(array, columns=list("abc"))):
        rows = read_rows(X)
        assert np.shares_memory(rows, X.to_numpy() if hasattr(X, "to_numpy") else X)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.uint64, bool])
def test_narrow_tables_become_float64_block_by_block(dtype, monkeypatch):
    monkeypatch.setattr(Narrow, "_ENTRIES", 5)
    array = np.arange(12).reshape(4, 3).astype(dtype)
    for X in (array, np.asfortranarray(array), pd.DataFrame(array)):
        assert read_rows(X).dtype == np.float64 and read_rows(X).tolist() == array.astype(float).tolist()


def test_missing_entries_of_lists_and_objects_count_as_the_center():
    given = [[[3.0], [None]], [[3], [np.ma.masked]], pd.DataFrame({"a": np.array([3, pd.NA], dtype=object)})]
    fits = [ClippedMean(clip=5.0, center=1.0, missing="center", epsilon=1e5, random_state=0).fit(X) for X in given]
    assert [fit.mean_.round(2).tolist() for fit in fits] == [[2.0]] * 3
    with pytest.raises(InvalidData, match="NaN"):
        ClippedMean(clip=5.0).fit(given[0])


@pytest.mark.parametrize("names", [[0, 1], [("a", "b"), ("a", "c")], ["a", "b"]])
def test_names_of_any_kind(names):
    frame = pd.DataFrame({0: np.array([1, 2.5], dtype=object), 1: [3, 4]})
    frame.columns = pd.Index(names)
    assert read_rows(frame).tolist() == [[1.0, 3.0], [2.5, 4.0]]


def test_types_of_columns_are_read_column_by_column():
    frame = pd.DataFrame({"a": np.array([0.1], dtype=np.float32), "b": [0.1], "c": [2**53 + 1], "d": [True]})
    assert read_rows(frame).tolist() == [[float(np.float32(0.1)), 0.1, 2.0**53, 1.0]]


def test_rows_of_different_lengths_and_rows_that_are_none():
    with pytest.raises(InvalidData, match="got rows of different lengths"):
        read_rows([[1, 2], [3]])
    with pytest.raises(InvalidData, match="holds text"):
        read_rows(["ab"])
    for X in ([1, [2]], [{"a": 1}], [np.ones((2, 2))]):
        with pytest.raises(InvalidData, match="Reshape your data"):
            read_rows(X)


def test_a_lazy_frame_has_names():
    assert open_source(pl.LazyFrame({"age": [1.0], "income": [2]})).names == ["age", "income"]


def test_nothing_is_recorded_of_data_that_are_refused():
    mean = ClippedMean(bounds=(0, 1))
    before = dict(vars(mean))
    with pytest.raises(InvalidData):
        mean.fit(pd.DataFrame({"a": ["x"]}))
    assert vars(mean) == before


# Tables with responses, groups and units


def make(X=((1.0, 2.0), (3.0, 4.0)), missing="error", categories=("x",), sparse=False, **given):
    X = list(X) if isinstance(X, tuple) else X
    levels = {"groups": Categories(categories)}
    beside = tuple(Column(role, None, levels.get(role), role) for role in given)
    source = open_source(X)
    return source.read(Schema(beside=beside, missing=missing, sparse=sparse).resolve(source.names), given).whole()


def test_a_table_of_everything():
    frame = pd.DataFrame({"a": [1, 2, 3], "b": [0.5, None, 1.5]})
    table = make(
        frame,
        y=pl.Series([1, None, 3]),
        groups=["x", "z", 1],
        categories=["x", "y", 1],
        units=["ann", "bob", "ann"],
        missing="center",
    )
    np.testing.assert_array_equal(table.X, [[1, 0.5], [2, math.nan], [3, 1.5]])
    np.testing.assert_array_equal(table.y, [1, math.nan, 3])
    assert table.groups.tolist() == [0, -1, 2] and table.units.tolist() == [0, 1, 0]
    assert table.names == ["a", "b"] and table.shape == (2, 2) and len(table) == 3  # of units
    assert repr(table) == "Table(X of shape (3, 2), y, groups, units)"
    with pytest.raises(AttributeError):
        table.X = None


@pytest.mark.parametrize("name", ["y", "groups", "units", "weight", "time", "event"])
@pytest.mark.parametrize("shape", [(1,), (3,), (2, 1), (0,)])
def test_a_table_has_as_many_entries_in_every_column(name, shape):
    # Whoever makes it.
    with pytest.raises(InvalidData, match="an entry for each row"):
        Table(np.zeros((2, 2)), **{name: np.zeros(shape, dtype=np.int64)})


def test_a_table_of_rows_only():
    table = make()
    assert table.y is table.groups is table.units is table.names is None
    assert repr(table) == "Table(X of shape (2, 2))"
    sparse = make(scipy.sparse.csr_array(np.eye(3)), sparse=True)
    assert sparse.X.format == "csr" and sparse.shape == (3, 3) and len(sparse) == 3


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"y": [1.0]}, r"y must have an entry for each row of X \(n_samples = 2\), got shape \(1,\)"),
        ({"groups": ["x"], "categories": ["x"]}, "groups must have an entry for each row of X"),
        ({"units": [1, 2, 3]}, "units must have an entry for each row of X"),
        ({"y": [NUMBER, math.nan]}, "y must be finite, got at least one NaN or infinite entry"),
        ({"y": [NUMBER, None]}, "y must be finite"),
        ({"y": [NUMBER, SECRET]}, "y must be a 1-d sequence of numbers"),
        ({"y": ["4242", None]}, "y must be a 1-d sequence of numbers"),
        ({"y": np.full((2, 2), NUMBER)}, "y must be one column"),
        ({"y": pd.DataFrame(np.full((2, 2), NUMBER))}, "y must be one column"),
        (
            {"y": np.array(["2242-01-01", "2242-01-02"], dtype="M8[D]")},
            "y must be .* got at least one column that holds dates",
        ),
        ({"y": NUMBER}, "y must be a 1-d sequence"),
        ({"y": SECRET}, "y must be a 1-d sequence"),
        ({"units": [SECRET, None]}, "units must be text, numbers"),
        ({"units": [SECRET, [1]]}, "units must be text, numbers"),
        ({"units": [SECRET, Raises()]}, "units must be text, numbers"),
        ({"y": [NUMBER, LyingClass()]}, "y must be a 1-d sequence of numbers"),
        ({"y": [NUMBER, Raises()]}, "y must be a 1-d sequence of numbers"),
        ({"units": [SECRET, LyingClass()]}, "units must be text, numbers"),
        ({"X": [[NUMBER, LyingClass()]]}, "X must be a 2-d table of numbers"),
        ({"units": [SECRET, ("a", object())]}, "units must be text, numbers"),
        ({"groups": SECRET, "categories": ["x"]}, "groups must be a 1-d sequence"),
        ({"X": [[NUMBER, SECRET]]}, "X must be a 2-d table of numbers"),
    ],
)
def test_bad_tables_are_refused_without_showing_data(given, words):
    with pytest.raises(InvalidData, match=words) as caught:
        make(**given)
    assert caught.value.__context__ is None and caught.value.__cause__ is None
    for data in (SECRET, *SHOWN, "2242"):
        assert data not in str(caught.value)


@pytest.mark.parametrize(
    "container",
    [
        list,
        tuple,
        iter,
        objects,
        lambda y: objects(y).reshape(-1, 1),
        lambda y: pd.Series(objects(y), dtype=object),
        lambda y: pd.DataFrame({"y": pd.Series(objects(y), dtype=object)}),
        lambda y: [[value] for value in y],
    ],
)
def test_a_response_is_the_same_alone(container):
    alone = np.array([column_of("y", container([value]))[0] for value in NUMBERS])
    for places in beside(list(range(len(NUMBERS)))):
        assert_same_bits(column_of("y", container([NUMBERS[i] for i in places])), alone[places])


def test_every_kind_of_response():
    for y in (
        [1, 2.5],
        np.array([[1], [2.5]]),
        np.array([1, 2.5], dtype=np.longdouble),
        pd.DataFrame({"y": [1, 2.5]}),
        pl.DataFrame({"y": [1.0, 2.5]}),
        pl.LazyFrame({"y": [1.0, 2.5]}),
        pl.Series([1.0, 2.5]),
        pd.Series([1, 2.5], dtype="Float64"),
    ):
        assert column_of("y", y).tolist() == [1.0, 2.5] and column_of("y", y).dtype == np.float64
    assert np.isnan(column_of("y", np.ma.masked_array([NUMBER, 1.0], mask=[True, False]))).tolist() == [True, False]


def test_units_are_equal_codes_by_first_appearance():
    for units in (["b", "a", "b"], np.array(["b", "a", "b"]), pd.Series(["b", "a", "b"], dtype="category")):
        assert unit_codes(units).tolist() == [0, 1, 0]
    assert unit_codes([1, "1", 1.0, b"1", (1, 2), 2**53 + 1, 2.0**53]).tolist() == [0, 1, 0, 2, 3, 4, 5]


def test_lengths_are_checked_in_a_table_made_by_hand():
    with pytest.raises(InvalidData, match=r"^names must"):
        Table(np.ones((2, 2)), names=["a"])


# Sparse tables


def test_sparse_tables_are_accepted_where_the_schema_says_so():
    table = scipy.sparse.csr_matrix(np.eye(3))
    with pytest.raises(InvalidData, match="Sparse data was passed"):
        read_rows(table)
    for layout in ("csr", "csc", "coo", "lil", "dok", "bsr"):
        rows = read_rows(table.asformat(layout), sparse=True)
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
    with pytest.raises(InvalidData, match="X must") as caught:
        read_rows(table, sparse=True)
    assert table.nnz == stored and "4242" not in str(caught.value)


def test_a_sparse_table_is_sorted_on_a_copy_and_only_where_it_has_to_be():
    plain = scipy.sparse.csr_matrix(np.eye(4))
    assert np.shares_memory(read_rows(plain, sparse=True).data, plain.data)
    # The last entry of a row may be in the column of the first of the next, across empty rows too.
    table = scipy.sparse.csr_array((np.arange(1.0, 6), [2, 0, 2, 2, 1], [0, 0, 2, 3, 3, 5]), shape=(5, 3))
    before = [array.copy() for array in (table.data, table.indices, table.indptr)]
    rows = read_rows(table, sparse=True)
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
                read_rows(given, sparse=True)
        else:
            np.testing.assert_array_equal(read_rows(given, sparse=True).toarray(), made.toarray())
    assert seen == {False, True}


def test_a_coordinate_outside_a_sparse_table_is_refused():
    table = scipy.sparse.coo_array((np.ones(2), ([0, 1], [1, 0])), shape=(2, 2))
    table.col[0] = 9
    with pytest.raises(InvalidData, match="outside its shape"):
        read_rows(table, sparse=True)


def test_a_sparse_table_that_points_outside_itself_is_refused():
    table = scipy.sparse.csr_matrix(np.eye(3))
    table.indices[0] = 77
    with pytest.raises(InvalidData):
        read_rows(table, sparse=True)


@pytest.mark.parametrize("names", [["a", "a", "b"], ["1", 1, "b"]])
def test_columns_have_names_of_their_own(names: list) -> None:
    frame = pd.DataFrame(np.ones((4, 3)), columns=names)
    with pytest.raises(InvalidData, match=r"^X must"):
        ClippedMean(clip=2.0).fit(frame)


def test_lists_longer_than_a_block_are_read_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpstats.data.rows._BLOCK", 6)
    table = np.arange(22.0).reshape(11, 2)
    assert np.array_equal(rows_of(table.tolist()), table)


def test_a_sparse_frame_without_columns_has_its_rows():
    frame = pd.DataFrame({"a": pd.arrays.SparseArray([0.0, 1.0, 2.0])})[[]]
    with pytest.raises(InvalidData, match=r"0 feature\(s\) \(shape=\(3, 0\)\)"):
        ClippedMean(bounds=(0, 2)).fit(frame)
