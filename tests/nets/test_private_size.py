"""Nothing that is observable before a release depends on the number of rows, if it is private.

Each estimator runs on 0, 1, 2 and 1000 rows of each container. Everything public must be the same: the plan, the
charge, the ledger, the errors, and the names of all that is reported.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from dpstats.errors import DPStatsError, InvalidData, InvalidParameter
from dpstats.groups import GroupMeans, MeanPerRow
from dpstats.identity import SpatialSignTest
from dpstats.means import AdaptiveMean, ClippedMean, PrivateVariance, SparseMean
from dpstats.mechanisms import Count, Histogram
from dpstats.privacy import Neighbors, PrivacyBudget
from dpstats.quantiles import PrivateQuantile
from dpstats.ranks import MannWhitneyTest
from dpstats.sql import PrivateSQL
from dpstats.tables import ContingencyTable, PrivateProportion
from tests.sql.databases import known_engine

SIZES = (0, 1, 2, 1000)
ADDED = {"neighbors": "add_or_remove", "epsilon": 1.0}
BOX = {"bounds": {"x": (0.0, 1.0), "z": (-2.0, 2.0)}, **ADDED}

ESTIMATORS: dict[str, Callable[..., Any]] = {
    "mean, Laplace": lambda **kw: ClippedMean(**BOX, **kw),
    "mean, Gaussian": lambda **kw: ClippedMean(**BOX, delta=1e-6, missing="center", **kw),
    "mean of observed rows": lambda **kw: ClippedMean(**BOX, missing="drop", **kw),
    "variance, Laplace": lambda **kw: PrivateVariance(**BOX, **kw),
    "variance, Gaussian": lambda **kw: PrivateVariance(**BOX, delta=1e-6, missing="drop", **kw),
    "second moment": lambda **kw: PrivateVariance(**BOX, about="center", interval="bounded", **kw),
    "groups, Laplace": lambda **kw: GroupMeans(groups=["a", "b"], by="g", delta=0.0, **BOX, **kw),
    "groups, Gaussian": lambda **kw: GroupMeans(groups=["a", "b"], by="g", missing="drop", **BOX, **kw),
    "units": lambda **kw: MeanPerRow(unit="u", max_rows=3, **BOX, **kw),
    "table, Laplace": lambda **kw: ContingencyTable(levels={"g": ["a", "b"], "h": ["n", "y"]}, **ADDED, **kw),
    "table, Gaussian": lambda **kw: ContingencyTable(
        levels={"g": ["a", "c"], "h": ["n", "y"]}, unknown="drop", delta=1e-6, **ADDED, **kw
    ),
}


def frame(n: int) -> pd.DataFrame:
    """Return n rows: numbers x and z, labels g and h, units u."""
    rng = np.random.default_rng(n)
    return pd.DataFrame(
        {
            "x": rng.random(n),
            "z": rng.normal(size=n),
            "g": pd.Series(rng.choice(["a", "b"], n), dtype=object),
            "h": pd.Series(rng.choice(["n", "y"], n), dtype=object),
            "u": rng.integers(0, max(n // 2, 1), n),
        }
    )


def _csv(rows: pd.DataFrame, folder: Path) -> str:
    rows.to_csv(folder / "rows.csv", index=False)
    return str(folder / "rows.csv")


def _parquet(rows: pd.DataFrame, folder: Path) -> str:
    pytest.importorskip("pyarrow")
    pl.from_pandas(rows, schema_overrides={"g": pl.String, "h": pl.String}).write_parquet(folder / "rows.parquet")
    return str(folder / "rows.parquet")


def _relation(rows: pd.DataFrame, folder: Path) -> Any:
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t (x DOUBLE, z DOUBLE, g VARCHAR, h VARCHAR, u BIGINT)")
    connection.execute("INSERT INTO t SELECT * FROM rows")
    return connection.table("t")


def _dask(rows: pd.DataFrame, folder: Path) -> Any:
    return pytest.importorskip("dask.dataframe").from_pandas(rows, npartitions=2)


def _polars(rows: pd.DataFrame, folder: Path) -> pl.DataFrame:
    return pl.from_pandas(rows, schema_overrides={"g": pl.String, "h": pl.String})


CONTAINERS: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    "pandas": lambda rows, folder: rows,
    "polars": _polars,
    "polars, lazy": lambda rows, folder: _polars(rows, folder).lazy(),
    "CSV": _csv,
    "Parquet": _parquet,
    "DuckDB": _relation,
    "Dask": _dask,
}

READ = ("mean of observed rows", "variance, Gaussian", "groups, Gaussian", "units", "table, Gaussian")
# A container is read by a class, whatever its plan: each class once in every container, and all plans of one.
CASES = [(name, container) for name in ESTIMATORS for container in CONTAINERS if container == "pandas" or name in READ]


def shapes(value: Any) -> Any:
    """Return what kinds of values a report has, by name: without its numbers."""
    if isinstance(value, dict):
        return {key: shapes(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [shapes(item) for item in value]
    if isinstance(value, np.ndarray):
        return ("array", value.shape)
    return type(value).__name__


IN_FULL = ("pandas", "database")
"""Containers whose charges are kept in a file and whose engine is checked: neither knows of containers."""


def public_facts(estimator: Callable[..., Any], data: Any, ledger: Path | None) -> dict[str, Any]:
    """Fit with exact noise, and return everything public of the fit."""
    budget = PrivacyBudget(10.0, 1e-3, neighbors=Neighbors.ADD_OR_REMOVE_ONE, ledger=ledger)
    made = estimator(budget=budget).fit(data)
    entries = [(entry.label, str(entry.guarantee)) for entry in budget.history()]
    with pytest.raises(InvalidParameter, match="n_samples is not available"):
        _ = made.plan_.n_samples
    released = {name: shapes(value) for name, value in vars(made).items() if name.endswith("_")}
    return {
        "plan": made.plan_,
        "printed": str(made.plan_),
        "facts": made.plan_.to_dict(),
        "explained": made.plan_.explain(),
        "privacy": str(made.privacy_),
        "spent": str(budget.spent),
        "ledger": entries,
        "events": made.plan_.events,
        "methods": made.methods_text(),
        "released": released,
        "report": list(made.to_dict()) if hasattr(made, "to_dict") else None,
        "receipt": json.dumps(made.receipt().content["guarantee"], sort_keys=True),
        "summary": [name for name, _ in made.summary().facts],
        "interval": shapes(list(made.n_interval())),
    }


@pytest.mark.parametrize(("name", "container"), CASES)
def test_what_is_public_does_not_depend_on_the_number_of_rows(name: str, container: str, tmp_path: Path) -> None:
    found = []
    for n in SIZES:
        folder = tmp_path / str(n)
        folder.mkdir()
        data = CONTAINERS[container](frame(n), folder)
        full = container in IN_FULL
        with contextlib.nullcontext() if full else known_engine():
            found.append(public_facts(ESTIMATORS[name], data, folder / "ledger" if full else None))
    for other in found[1:]:
        for fact, value in found[0].items():
            assert other[fact] == value, fact
    assert "1000" not in found[-1]["printed"].replace("group of 1000 rows", "").replace("each of 1000 units", "")


def _one_csv(rows: pd.DataFrame, folder: Path) -> str:
    rows.to_csv(folder / "one.csv", index=False)
    return str(folder / "one.csv")


ONE_COLUMN: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    "pandas": lambda rows, folder: rows,
    "polars": lambda rows, folder: pl.from_pandas(rows),
    "array": lambda rows, folder: rows["one"].to_numpy(),
    "list": lambda rows, folder: rows["one"].tolist(),
    "CSV": _one_csv,
}


@pytest.mark.parametrize("container", ONE_COLUMN)
@pytest.mark.parametrize("options", [{}, {"missing": "drop", "delta": 1e-6}], ids=str)
def test_what_is_public_of_a_proportion_does_not_depend_on_the_number_of_rows(
    options: dict[str, Any], container: str, tmp_path: Path
) -> None:
    found = []
    for n in SIZES:
        folder = tmp_path / str(n)
        folder.mkdir()
        data = ONE_COLUMN[container](pd.DataFrame({"one": np.arange(n) % 2}), folder)
        ledger = folder / "ledger" if container in IN_FULL else None
        found.append(public_facts(lambda **kw: PrivateProportion(**ADDED, **options, **kw), data, ledger))
    for other in found[1:]:
        for fact, value in found[0].items():
            assert other[fact] == value, fact


def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(DPStatsError) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize("name", ["mean, Laplace", "variance, Laplace", "groups, Laplace", "units"])
def test_refusals_do_not_depend_on_the_number_of_rows(name: str) -> None:
    refused = []
    for n in SIZES[1:]:
        rows = frame(n)
        rows.loc[0, "x"] = np.nan
        few = PrivacyBudget(0.5, neighbors=Neighbors.ADD_OR_REMOVE_ONE)
        replaced = PrivacyBudget(2.0, 1e-3)
        refused.append(
            [
                refusal(lambda rows=rows: ESTIMATORS[name]().fit(rows)),
                refusal(lambda n=n, few=few: ESTIMATORS[name](budget=few).fit(frame(n))),
                refusal(lambda n=n, replaced=replaced: ESTIMATORS[name](budget=replaced).fit(frame(n))),
                refusal(lambda n=n: ESTIMATORS[name]().fit(frame(n)[["x", "g", "u"]])),
            ]
        )
    assert refused[0] == refused[1] == refused[2]
    # Whatever is no entry of a row is refused without rows too.
    assert refusal(lambda: ESTIMATORS[name](budget=PrivacyBudget(2.0, 1e-3)).fit(frame(0))) == refused[0][2]


def test_messages_state_no_length() -> None:
    groups = GroupMeans(groups=["a", "b"], bounds=(0, 1), **ADDED)
    for n in (3, 17):
        said = [
            refusal(lambda n=n: groups.fit(np.zeros((n, 1)), ["a"] * (n + 1))),
            refusal(lambda n=n: groups.fit(np.zeros(n), np.zeros((n, 1, 1)))),
            refusal(lambda n=n: groups.fit(np.zeros((n, 1)), np.zeros((n, 2)))),
        ]
        assert all(str(n) not in words and str(n + 1) not in words for words in said), said


@pytest.mark.parametrize("X", [[], [0.5], [[0.5]], ((0.5,),)])
def test_lists_are_refused_because_one_without_rows_has_no_columns(X: Any) -> None:
    with pytest.raises(InvalidData, match=r"X must be an array.* got a (list|tuple)\. Convert it"):
        ClippedMean(bounds=(0, 1), **ADDED).fit(X)


QUERIES: list[tuple[dict[str, Any], list[str]]] = [
    (
        {},
        [
            "SELECT COUNT(*) FROM t",
            "SELECT AVG(x) FROM t",
            "SELECT g, COUNT(*), AVG(x), STDDEV(z) FROM t GROUP BY g",
            "SELECT COUNT(*) FROM t AS a JOIN t AS b ON a.u = b.u",
            "SELECT MEDIAN(x), QUANTILE_CONT(x, 0.9) FROM t WHERE z < 1",
        ],
    ),
    (
        {"delta": 1e-6},
        [
            "SELECT g, SUM(z) FROM t GROUP BY g",
            "SELECT COUNT(x), SUM(x), AVG(z) FROM t",
            "SELECT g, MEDIAN(x) FROM t GROUP BY g",
        ],
    ),
    ({"delta": 1e-6, "interval": False}, ["SELECT COUNT(*), SUM(a.x) FROM t AS a LEFT JOIN t AS b ON a.u = b.u"]),
    (
        {"unit": "u"},
        [
            "SELECT SUM(z), COUNT(x) FROM t WHERE x < 2",
            "SELECT g, AVG(x) FROM t GROUP BY g",
            "SELECT COUNT(DISTINCT u) FROM t",
        ],
    ),
]
"""Queries by the options of their session: one session answers them one after the other."""
REFUSED = ("SELECT u, COUNT(*) FROM t GROUP BY u", "SELECT SUM(u) FROM t", "SELECT MAX(x) FROM t")


def _database(rows: pd.DataFrame, folder: Path) -> Any:
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t (x DOUBLE, z DOUBLE, g VARCHAR, h VARCHAR, u BIGINT)")
    connection.execute("INSERT INTO t SELECT * FROM rows")
    return connection


TABLES: dict[str, Callable[[pd.DataFrame, Path], Any]] = {
    "database": _database,
    **{
        name: lambda rows, folder, made=made: {"t": made(rows, folder)}
        for name, made in CONTAINERS.items()
        if name in ("pandas", "polars", "CSV", "Parquet")
    },
}


def public_facts_of_queries(
    texts: list[str], data: Any, ledger: Path | None, options: dict[str, Any]
) -> Iterator[tuple[str, Any]]:
    """Answer with exact noise, and yield everything public of each answer and of what is refused."""
    budget = PrivacyBudget(
        50.0, 1e-3, neighbors=Neighbors.ADD_OR_REMOVE_ONE, ledger=ledger, unit=options.get("unit", "row")
    )
    files = isinstance(data, dict) and str(data["t"]).endswith(".csv")
    types = {"types": {"t.x": "DOUBLE", "t.z": "DOUBLE"}} if files else {}
    sql = PrivateSQL(
        data,
        bounds={"t.x": (0.0, 1.0), "t.z": (-2.0, 2.0)},
        categories={"t.g": ["a", "b"]},
        budget=budget,
        **{**ADDED, "delta": 0.0, **types, **options},
    )
    for text in texts:
        plan, answer = sql.plan_for(text), sql.query(text)
        yield f"{text}: plan", plan.stages
        yield f"{text}: facts", {key: fact for key, fact in plan.to_dict().items() if key != "stages"}
        yield f"{text}: explained", sql.explain(text)
        yield f"{text}: guarantee", str(answer.guarantee)
        yield f"{text}: spent", str(budget.spent)
        yield f"{text}: ledger", [(entry.label, str(entry.guarantee)) for entry in budget.history()]
        yield f"{text}: summary", [name for name, _ in answer.summary(0.95).facts]
        yield f"{text}: records", shapes(answer.records(0.95))
    for text in REFUSED:
        yield text, refusal(lambda text=text: sql.query(text))


@pytest.mark.parametrize("container", TABLES)
@pytest.mark.parametrize(("options", "texts"), QUERIES, ids=[str(options) for options, _ in QUERIES])
def test_what_is_public_of_a_query_does_not_depend_on_the_number_of_rows(
    options: dict[str, Any], texts: list[str], container: str, tmp_path: Path
) -> None:
    found = []
    for n in SIZES:
        folder = tmp_path / str(n)
        folder.mkdir()
        data = TABLES[container](frame(n), folder)
        full = container in IN_FULL
        with contextlib.nullcontext() if full else known_engine():
            facts = public_facts_of_queries(texts, data, folder / "ledger" if full else None, options)
            found.append(dict(facts))
    assert len(found[0]) == 8 * len(texts) + len(REFUSED)
    for other in found[1:]:
        for fact, value in found[0].items():
            assert other[fact] == value, fact


@pytest.mark.parametrize("n", SIZES)
def test_counts_of_any_number_of_rows(n: int) -> None:
    rows = frame(n)
    made = Histogram(["a", "b"], 1.0, neighbors="add_or_remove", random_state=0).release(rows["g"])
    assert made.counts.shape == (2,) and abs(made.counts.sum() - n) < 30
    count = Count(1.0, neighbors="add_or_remove", random_state=0).release((rows["x"] < 2).tolist())
    assert abs(count.counts[0] - n) < 30
    bins = Histogram(bins=[0.0, 0.5, 1.0], epsilon=1.0, neighbors="add_or_remove", random_state=0).release(rows["x"])
    assert bins.n_rows is None


def test_a_table_of_labels_takes_an_empty_list() -> None:
    made = ContingencyTable(levels=[["a", "b"], ["n", "y"]], **ADDED, random_state=0)
    assert made.fit([]).counts_.shape == (2, 2) and made.fit([["a", "y"]]).counts_.shape == (2, 2)


OTHERS: dict[str, Callable[..., Any]] = {
    "rank test": MannWhitneyTest,
    "identity test": lambda **kw: SpatialSignTest(**kw),
    "quantile": lambda **kw: PrivateQuantile(q=0.5, bounds=(0, 1), **kw),
    "adaptive mean": lambda **kw: AdaptiveMean(bound=1.0, std=1.0, **kw),
    "release cut by position": lambda **kw: SparseMean(n_nonzero=1, clip=1.0, std=1.0, split=True, **kw),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_releases_refuse_the_relation_by_name(name: str) -> None:
    with pytest.raises(TypeError, match="neighbors"):
        OTHERS[name](neighbors="add_or_remove")


def test_options_that_need_a_public_size_are_refused_before_the_charge() -> None:
    X = np.zeros((5, 1))
    for options in (
        {"std": 1.0},
        {"std": None},
        {"clip_norm": "l2", "clip": 1.0, "bounds": None},
        {"clipped_share": True},
        {"noise": "isotropic"},
        {"calibration": "textbook", "delta": 1e-6},
    ):
        budget = PrivacyBudget(1.0, 1e-3, neighbors=Neighbors.ADD_OR_REMOVE_ONE)
        with pytest.raises(InvalidParameter, match="with neighbors='add_or_remove'"):
            ClippedMean(**{"bounds": (0, 1), "budget": budget, **ADDED, **options}).fit(X)
        assert budget.spent.epsilon == 0
    with pytest.raises(InvalidParameter) as caught:
        PrivateVariance(bounds=(0, 1), interval="normal", **ADDED).plan(None, 1)
    assert caught.value.parameter == "interval" and "'normal'" in caught.value.given
    # Groups that are discovered do not release it.
    found = GroupMeans(groups="discover", by="g", bounds=(0, 1), random_state=0, **ADDED)
    found.fit(frame(300)[["x", "g"]])
    with pytest.raises(InvalidParameter, match="Declare the groups"):
        found.n_interval()
    with pytest.raises(InvalidParameter, match="neighbors must be one of"):
        ClippedMean(bounds=(0, 1), neighbors="either").plan(10, 1)


def test_planning_sizes_enter_expected_errors_only() -> None:
    for name, estimator in ESTIMATORS.items():
        plans = [estimator().plan(n, 2) for n in (None, 1, 1000)]
        assert plans[0].stages == plans[1].stages == plans[2].stages, name
        assert plans[0].guarantee == plans[2].guarantee and plans[2].n_planned == 1000
    mean = ClippedMean(bounds=(0, 1), **ADDED)
    assert mean.plan(100, 1).expected_error() == pytest.approx(100 * mean.plan(1000, 1).expected_error())
    for made in (mean, PrivateVariance(bounds=(0, 1), **ADDED)):
        with pytest.raises(InvalidParameter, match="n_samples must be a number of rows"):
            made.plan(None, 1).expected_error()
        assert made.plan(1000, 1).expected_error(0.1) > made.plan(1000, 1).expected_error()


def test_both_guarantees_are_printed() -> None:
    # So many columns that the noise is Gaussian, and delta is above 0.
    fit = ClippedMean(bounds=(0, 1), delta=1e-6, **ADDED, random_state=0).fit(np.zeros((9, 60)))
    for text in (str(fit.summary()), fit.privacy_.explain(), fit.plan_.explain()):
        words = " ".join(text.split())
        assert "one row added or removed" in words and "(epsilon = 2, delta = 3.71828e-06), one row replaced" in words
