"""Codes of missing entries: one rule in every container and source, for every estimator."""

from __future__ import annotations

import importlib
import inspect
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

import dpstats
from dpstats.data.opening import open_source
from dpstats.data.rows import check_codes
from dpstats.data.schema import Categories, Column, Schema
from dpstats.data.values import Words
from dpstats.errors import InvalidData, InvalidParameter
from dpstats.groups import GroupMeans, MeanPerRow
from dpstats.means import ClippedMean, PrivateVariance
from dpstats.privacy import PrivacyBudget
from dpstats.quantiles import PrivateMedian
from dpstats.regression import PrivateLinearRegression
from dpstats.release.estimator import PrivateEstimator
from dpstats.tables import PrivateProportion

pa = pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")

CODES = [-999, "unk", 99.9]
MODULES = ("means", "quantiles", "tables", "ranks", "statistic", "regression", "covariance", "groups", "identity")


def estimators() -> list[type]:
    found = {
        made
        for name in MODULES
        for made in vars(importlib.import_module(f"dpstats.{name}")).values()
        if inspect.isclass(made) and issubclass(made, PrivateEstimator)
    }
    return sorted(found, key=lambda made: made.__name__)


@pytest.mark.parametrize("made", estimators(), ids=lambda made: made.__name__)
def test_every_estimator_with_missing_has_codes(made: type) -> None:
    parameters = inspect.signature(made).parameters
    assert ("missing" in parameters or made.__name__ == "CompleteCases") == ("missing_codes" in parameters)


@pytest.mark.parametrize(
    ("entry", "matches"),
    [
        *[(entry, True) for entry in (-999, -999.0, Decimal("-999"), np.int16(-999), "-999", " -999.00 ", "-9.99e2")],
        *[(entry, True) for entry in ("unk", " unk ", 99.9, "99.90", Decimal("99.9"), float(np.float32(99.9)))],
        *[(entry, False) for entry in (999, -998, "UNK", "unknown", "", None, math.nan, True, [-999], 99, b"unk")],
    ],
    ids=repr,
)
def test_a_code_is_compared_by_value_or_by_text(entry: Any, matches: bool) -> None:
    assert check_codes(CODES).matches(entry) is matches
    # The words of the command line mean the same.
    assert check_codes(["-999", "unk", "99.9"]).matches(entry) is matches


@pytest.mark.parametrize(
    "codes", [-999, "unk", [None], [math.nan], [math.inf], [""], [" "], [True], [[1]], {"a": 1}, [b"unk"]], ids=repr
)
def test_bad_codes_are_refused_before_a_charge(codes: Any) -> None:
    budget = PrivacyBudget(1.0)
    with pytest.raises(InvalidParameter, match="missing_codes must"):
        ClippedMean(bounds=(0, 1), missing="drop", missing_codes=codes, budget=budget).fit(np.ones((9, 1)))
    assert not budget.history()


def test_codes_are_words_and_numbers() -> None:
    codes = check_codes(("true", "NA", "1e1", np.float32(0.5), 2**60))
    assert codes.words == {"true", "NA"} and codes.numbers == (10.0, 0.5, 2.0**60)
    assert not check_codes(None) and not check_codes([]) and bool(codes)
    # A column of numbers is read in double precision, and labels are exact.
    assert not codes.matches(2**60 + 1) and codes.matches(str(2**60))


def sources(frame: pd.DataFrame, folder: Path, text: bool) -> dict[str, Any]:
    """Return a frame in every container; one with words has no type of numbers."""
    import dask.dataframe as dd
    import duckdb

    frame.to_csv(folder / "a.csv", index=False)
    found: dict[str, Any] = {"pandas": frame, "csv": folder / "a.csv"}
    if text:
        return found
    table = pa.Table.from_pandas(frame)
    frame.to_parquet(folder / "a.parquet")
    return {
        **found,
        "parquet": folder / "a.parquet",
        "nullable": frame.convert_dtypes(),
        "pyarrow": frame.convert_dtypes(dtype_backend="pyarrow"),
        "polars": pl.from_pandas(frame),
        "lazy": pl.from_pandas(frame).lazy(),
        "arrow": table,
        "duckdb": duckdb.from_arrow(table),
        "dask": dd.from_pandas(frame, npartitions=3),
    }


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_every_source_clears_the_same_entries(seed: int, text: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    n = 40
    x = [[1.5, -999, 2, 99.9, 7, math.nan][k] for k in rng.integers(0, 6, n)]
    g = [["north", "unk", "-999.0", "south", "west"][k] for k in rng.integers(0, 5, n)]
    given = pd.DataFrame({"x": x, "z": rng.normal(size=n), "g": g})
    if text:
        given["x"] = pd.Series(["unk" if k else v for v, k in zip(x, rng.random(n) < 0.3, strict=True)], dtype=object)
    numbers = [math.nan if v in ("unk", -999, 99.9) else float(v) for v in given["x"]]
    labels = [{"north": 0, "south": 1}.get(v, 2 if v in ("unk", "-999.0") else -1) for v in g]
    column = Column("groups", "g", Categories(["north", "south", None]))
    schema = Schema(("x", "z"), (column,), missing="drop", codes=check_codes(CODES))
    for name, X in sources(given, tmp_path, text).items():
        opened = open_source(X)
        table = opened.read(schema.resolve(opened.names)).whole()
        np.testing.assert_array_equal(table.X[:, 0], numbers, err_msg=name)
        np.testing.assert_array_equal(table.X[:, 1], given["z"], err_msg=name)
        assert table.groups is not None and table.groups.tolist() == labels, name
        # Where the source adds rows up itself, as DuckDB does, codes are missing there, too.
        for missing in ("drop", "center"):
            made = ClippedMean(bounds={"x": (0, 10)}, missing=missing, missing_codes=CODES, std=None, random_state=0)
            if missing == "drop":
                made.set_params(std="private")
            known = made.fit(pd.DataFrame({"x": numbers})).mean_
            np.testing.assert_array_equal(made.fit(X).mean_, known, err_msg=name)


def test_an_entry_is_cleared_by_itself() -> None:
    entries = [1, "unk", -999.0, "-999", 5, None]
    alone = [check_codes(CODES).clear_entries("y", [entry])[0] for entry in entries]
    for places in np.random.default_rng(0).integers(0, len(entries), (20, 9)).tolist():
        given = [entries[place] for place in places]
        assert check_codes(CODES).clear_entries("y", given) == [alone[place] for place in places]


def test_a_fit_with_codes_is_the_fit_with_missing_entries() -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(0, 10, (600, 2)).round(2)
    coded, missing = x.copy(), x.copy()
    where = rng.random(x.shape) < 0.1
    coded[where], missing[where] = -999, math.nan
    kept = coded.copy()
    y, y_coded = missing[:, 1], coded[:, 1]
    groups = np.where(rng.random(600) < 0.1, "unk", np.where(rng.random(600) < 0.5, "a", "b"))
    settings: dict[str, Any] = {"missing": "drop", "random_state": 0}
    for made, with_codes, without in [
        (ClippedMean(bounds=(0, 10), **settings), (coded,), (missing,)),
        (ClippedMean(bounds=(0, 10), **settings), (coded.astype(int),), (np.where(where, np.nan, x.astype(int)),)),
        (ClippedMean(bounds=(0, 10), **settings), (coded.tolist(),), (missing.tolist(),)),
        (PrivateVariance(bounds=(0, 10), **settings), (coded,), (missing,)),
        (PrivateMedian(bounds=(0, 10), **settings), (y_coded,), (y,)),
        (
            PrivateLinearRegression(x_bounds=(0, 10), y_bounds=(0, 10), **settings),
            (coded[:, :1], y_coded),
            (missing[:, :1], y),
        ),
        (
            GroupMeans(groups=["a", "b"], bounds=(0, 10), **settings),
            (coded, groups),
            (missing, np.where(groups == "unk", None, groups)),
        ),
        (
            PrivateProportion(**settings),
            (np.where(where[:, 0], -999, x[:, 0] > 5),),
            (np.where(where[:, 0], None, x[:, 0] > 5),),
        ),
    ]:
        expected = made.fit(*without).to_dict()
        made.set_params(missing_codes=CODES)
        assert made.fit(*with_codes).to_dict() == expected, type(made).__name__
    np.testing.assert_array_equal(coded, kept)  # the given array is unchanged


def test_coded_entries_are_refused_where_missing_ones_are() -> None:
    budget = PrivacyBudget(1.0, 1e-5)
    X = np.array([[1.0], [-999.0], [2.0]])
    with pytest.raises(InvalidData, match="contains NaN or infinity"):
        ClippedMean(bounds=(0, 5), missing_codes=CODES, budget=budget).fit(X)
    with pytest.raises(InvalidData, match="units must be text, numbers"):
        MeanPerRow(max_rows=2, delta=1e-6, bounds=(0, 5), missing_codes=["a"], budget=budget).fit(X, ["a", "b", "c"])
    with pytest.raises(InvalidData, match="y must be finite"):
        PrivateLinearRegression(x_bounds=(0, 5), y_bounds=(0, 5), missing_codes=CODES, budget=budget).fit(
            X + 999, X[:, 0]
        )
    with pytest.raises(InvalidParameter, match="missing_codes must"):
        GroupMeans(groups=["-999", "1"], bounds=(0, 5), missing_codes=CODES, budget=budget).fit(X, [1, 1, 1])
    assert not budget.history()


def test_sparse_tables() -> None:
    from dpstats.means import SparseMean

    dense = np.zeros((300, 4))
    dense[::3, 1], dense[5, 2] = 0.5, -9
    given = sparse.csr_array(dense)
    opened = open_source(given)
    schema = Schema(sparse=True, codes=check_codes([-9]))
    read = opened.read(schema).whole().X
    assert np.isnan(read.toarray()).sum() == 1 and given.data.min() == -9
    with pytest.raises(InvalidParameter, match="missing_codes must"):
        opened.read(Schema(sparse=True, codes=check_codes([0])))
    assert SparseMean(n_nonzero=1, clip=1.0, std=1.0, missing="drop", missing_codes=[-9], random_state=0).fit(
        given
    ).mean_.shape == (4,)


def test_a_formula_clears_codes() -> None:
    from dpstats.regression.formula import parse

    formula = parse("y ~ x + C(g)", bounds={"x": (0, 9), "y": (0, 9)}, levels={"g": ["a", "b"]})
    data = {"x": [1.0, -999, 3, 4], "y": [1.0, 2, -999.0, 4], "g": ["a", "b", "b", "unk"]}
    X, y = formula.rows(data, check_codes(CODES))
    assert np.isnan(X).any(axis=1).tolist() == [False, True, False, True]
    assert y is not None and np.isnan(y).tolist() == [False, False, True, False]


def test_words_of_a_file() -> None:
    words = check_codes(CODES).clear_entries("y", Words(["unk", "-999.0", "a", ""]))
    assert isinstance(words, Words) and words == ["", "", "a", ""]
    assert dpstats.__version__


def test_an_entry_that_is_no_number_is_not_shown() -> None:
    with pytest.raises(InvalidData, match=r"^numbers must") as caught:
        check_codes([-999]).clear_numbers(np.array(["zvx", 1.0], dtype=object))
    assert caught.value.__context__ is None
