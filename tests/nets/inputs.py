"""Tables, files, labels, formulas and charges of every kind, and what is made of each."""

from __future__ import annotations

import datetime
import itertools
import tempfile
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from scipy import sparse

from dpstats.auditing import check_sensitivity
from dpstats.data import open_source
from dpstats.groups import GroupMeans
from dpstats.means import ClippedMean, SparseMean
from dpstats.mechanisms import Histogram
from dpstats.privacy import Neighbors, PrivacyBudget, PrivacyGuarantee
from dpstats.privacy.events import ZCDP, BoundedRange, DiscreteLaplace, Gaussian, Pure
from dpstats.quantiles import PrivateQuantile
from dpstats.tables import ContingencyTable
from tests.nets.lines import run
from tests.nets.told import Said, outcome

ROWS = np.column_stack([np.arange(24.0) % 7 - 3, np.arange(24.0) % 5])
DAY = datetime.date(2026, 1, 5)


def changed(value: Any, dtype: Any = object) -> Any:
    """Return the rows with one entry replaced."""
    rows = ROWS.astype(dtype)
    rows[5, 1] = value
    return rows


TABLES: dict[str, Callable[[], Any]] = {
    **{
        f"numbers of {kind}": lambda kind=kind: ROWS.astype(kind) for kind in ("f4", "f2", "i8", "i1", "O", "c16", "U8")
    },
    "unsigned": lambda: (ROWS + 3).astype("u8"),
    "truth values": lambda: ROWS > 0,
    "lists": lambda: ROWS.tolist(),
    "Fortran order": lambda: np.asfortranarray(ROWS),
    "every other row": lambda: np.repeat(ROWS, 2, axis=0)[::2],
    "one column": lambda: ROWS[:, :1],
    "one dimension": lambda: ROWS[:, 0],
    "no rows": lambda: ROWS[:0],
    "sparse": lambda: sparse.csr_array(ROWS),
    "sparse columns": lambda: sparse.csc_array(ROWS),
    **{
        f"sparse, an entry twice in line {line}": lambda indices=indices, ends=ends: sparse.csr_array(
            (np.ones(4), np.array(indices), np.array([0, *ends])), shape=(3, 2)
        )
        for line, indices, ends in (
            (1, [0, 0, 1, 0], [2, 3, 4]),
            (2, [1, 1, 1, 0], [1, 3, 4]),
            (3, [0, 0, 1, 1], [1, 2, 4]),
        )
    },
    "sparse, none twice": lambda: sparse.csr_array(
        (np.ones(3), np.array([1, 1, 1]), np.array([0, 1, 2, 3])), shape=(3, 2)
    ),
    **{
        f"{name} within": lambda value=value: changed(value)
        for name, value in {
            "None": None,
            "NaN": np.nan,
            "infinite": np.inf,
            "text": "a",
            "a number as text": "1.5",
            "decimal": Decimal("1.5"),
            "fraction": Fraction(1, 3),
            "true": True,
            "a date": DAY,
            "huge": 10**400,
            "missing of pandas": pd.NA,
            "a list": [1],
        }.items()
    },
    "NaN among floats": lambda: changed(np.nan, float),
    "masked": lambda: np.ma.masked_less(ROWS, -2),
    "frame": lambda: pd.DataFrame(ROWS, columns=["a", "b"]),
    "frame with an index": lambda: pd.DataFrame(ROWS, columns=["a", "b"], index=np.arange(24)[::-1]),
    "frame of numbered columns": lambda: pd.DataFrame(ROWS),
    "frame of two kinds of names": lambda: pd.DataFrame(ROWS, columns=["a", 1]),
    "frame with a name twice": lambda: pd.DataFrame(ROWS, columns=["a", "a"]),
    "frame of integers with missing ones": lambda: pd.DataFrame({"a": pd.array([1, None] * 12, "Int64"), "b": 1.0}),
    "frame with words": lambda: pd.DataFrame({"a": ["x"] * 24, "b": ROWS[:, 0]}),
    "frame with dates": lambda: pd.DataFrame({"a": pd.date_range("2026", periods=24), "b": ROWS[:, 0]}),
    "frame with categories": lambda: pd.DataFrame({"a": pd.Categorical([1, 2] * 12), "b": ROWS[:, 0]}),
    "frame of sparse columns": lambda: pd.DataFrame({"a": pd.arrays.SparseArray(ROWS[:, 0]), "b": ROWS[:, 1]}),
    "polars": lambda: pl.DataFrame({"a": ROWS[:, 0], "b": ROWS[:, 1]}),
    "polars, with missing ones": lambda: pl.DataFrame({"a": [1.0, None] * 12, "b": ROWS[:, 1]}),
    "polars, with words": lambda: pl.DataFrame({"a": ["x"] * 24, "b": ROWS[:, 1]}),
    "polars, lazy": lambda: pl.LazyFrame({"a": ROWS[:, 0], "b": ROWS[:, 1]}),
    "a path that is nowhere": lambda: Path("nowhere.csv"),
    "a word": lambda: "nowhere",
    "a number": lambda: 3,
}

LABELS: dict[str, list[Any]] = {
    "integers": [0, 1, 2],
    "floats": [0.0, 1.0, 2.5],
    "words": ["x", "y", ""],
    "truth values": [False, True],
    "dates": [DAY, DAY.replace(day=6)],
    "times": [pd.Timestamp("2026-01-05 10:00"), pd.Timestamp("2026-01-05 11:00")],
    "bytes": [b"x", b"y"],
    "pairs": [(1, "a"), (2, "b")],
    "with a missing one": [0, None],
    "NaN": [0.0, np.nan],
    "twice": [1, 1],
    "equal ones": [1, 1.0, True],
    "two kinds": [1, "1"],
    "one": [1],
    "none": [],
    "lists": [[1], [2]],
    "decimals": [Decimal("0.1"), Decimal("0.2")],
}

FILES: dict[str, bytes] = {
    "usual": b"a,b\n1,2\n3,4\n5,6\n",
    "no end of line": b"a,b\n1,2\n3,4",
    "CRLF": b"a,b\r\n1,2\r\n3,4\r\n",
    "a mark of order": b"\xef\xbb\xbfa,b\n1,2\n3,4\n",
    "quoted": b'"a","b"\n"1","2"\n"3","4"\n',
    "a comma within": b'a,b\n"1,0",2\n3,4\n',
    "a line within": b'a,"b\nc"\n1,2\n3,4\n',
    "blank lines": b"a,b\n\n1,2\n\n3,4\n",
    "missing": b"a,b\n,2\n3,4\n",
    "words for missing": b"a,b\nNA,2\nnan,4\nnull,1\n",
    "a short line": b"a,b\n1\n3,4\n",
    "a long line": b"a,b\n1,2,3\n3,4\n",
    "text": b"a,b\nx,2\n3,4\n",
    "spaces": b"a,b\n 1 , 2\n3,4\n",
    "signs": b"a,b\n+1,-2e1\n.5,4.\n",
    "hexadecimal": b"a,b\n0x10,1_0\n3,4\n",
    "infinite": b"a,b\ninf,2\n3,4\n",
    "a name twice": b"a,a\n1,2\n3,4\n",
    "no name": b"a,\n1,2\n3,4\n",
    "semicolons": b"a;b\n1;2\n3;4\n",
    "tabs": b"a\tb\n1\t2\n3\t4\n",
    "empty": b"",
    "a head alone": b"a,b\n",
    "another encoding": "a,b\n1,2\n\u00e9,4\n".encode("latin-1"),
    "a zero character": b"a,b\n1,2\n\x00,4\n",
    "an open quote": b'a,b\n"1,2\n3,4\n',
}
READ = ([], ["--sep", ";"], ["--sep", "tab"], ["--na-values", "x,3"], ["--missing", "drop"], ["--encoding", "latin-1"])

FORMULAS = (
    *("c ~ a", "c ~ a + b", "c ~ a * e", "c ~ a:e", "c ~ a - 1", "c ~ 0 + a", "c ~ 1", "c ~ a + I(a ** 2)"),
    *("c ~ np.log(b)", "c ~ np.exp(a)", "c ~ np.sqrt(b)", "c ~ np.abs(a)", "c ~ C(g)", "c ~ C(g) * a", "c ~ g"),
    *("c ~ C(g, Treatment('y'))", "c ~ C(g, Sum)", "c ~ bs(a, df=4)", "c ~ cr(a, df=3)", "c ~ poly(a, 2)"),
    *("c ~ center(a)", "c ~ scale(a)", "np.log(b) ~ a", "c ~ a + a", "c ~ a / b", "c ~ (a + b) ** 2", "c ~ a - a"),
    *("a + b", "c ~", "~ a", "c ~ missing", "c ~ a ** b", "c ~ a.mean()", "c ~ np.sin(a)", "c ~ a > 0", "c ~ a | b"),
    *("c ~ np.log(a)", "c ~ C(d)", "c ~ C(d, levels=[1, 2, 3])", "c ~ 2 * a", "c ~ I(2 * a - b)", "c ~ a %in% b"),
)


@cache
def folder() -> Path:
    return Path(tempfile.mkdtemp())


def fit_table(name: str, missing: str) -> Any:
    return ClippedMean(bounds=(-4, 4), missing=missing, epsilon=50.0, random_state=0).fit(TABLES[name]())


def fit_sparse(name: str) -> Any:
    made = SparseMean(n_nonzero=1, clip=4.0, std=1.0, delta=1e-2, epsilon=50.0, random_state=0)
    return made.fit(TABLES[name]())


def play_tables() -> dict[str, list[Said]]:
    """Return what a fit says of every kind of table."""
    return {
        f"{name}, missing={missing}": outcome(partial(fit_table, name, missing))
        for name in TABLES
        for missing in ("error", "drop", "center")
        if missing == "error" or "missing" in name or "N" in name or "masked" in name
    } | {f"{name}, sparse mean": outcome(partial(fit_sparse, name)) for name in TABLES}


FRAMES: dict[str, Callable[[], pd.DataFrame]] = {
    "usual": lambda: pd.DataFrame({"a": ROWS[:, 0], "b": ROWS[:, 1], "g": [*"xy"] * 12}),
    "missing": lambda: pd.DataFrame({"a": [1.0, np.nan] * 12, "b": ROWS[:, 1], "g": ["x", None, "y", "x"] * 6}),
    "infinite": lambda: pd.DataFrame({"a": [1.0, -np.inf] * 12, "b": ROWS[:, 1], "g": [*"xy"] * 12}),
    "whole numbers": lambda: pd.DataFrame({"a": ROWS[:, 0].astype(int), "b": [2**60, 1] * 12, "g": [*"xy"] * 12}),
    "words": lambda: pd.DataFrame({"a": ["1.5", "z"] * 12, "b": ROWS[:, 1], "g": [*"xz"] * 12}),
    "truth values": lambda: pd.DataFrame({"a": [True, False] * 12, "b": ROWS[:, 1], "g": [*"xy"] * 12}),
    "times": lambda: pd.DataFrame(
        {"a": pd.date_range("2026", periods=24, unit="us"), "b": ROWS[:, 1], "g": [*"xy"] * 12}
    ),
    "no rows": lambda: pd.DataFrame({"a": ROWS[:0, 0], "b": ROWS[:0, 1], "g": np.array([], "O")}),
}
FITS: dict[str, Callable[[Any], Any]] = {
    "mean": lambda rows: ClippedMean(bounds=(-4, 4), **PUBLIC).fit(rows.having(["a", "b"])),
    "mean, dropped": lambda rows: ClippedMean(bounds=(-4, 4), missing="drop", **PUBLIC).fit(rows.having(["b", "a"])),
    "groups": lambda rows: GroupMeans(groups=["x", "y"], bounds=(-4, 4), **PUBLIC).fit(rows.having(["a"], ("g",))),
    "groups, by name": lambda rows: GroupMeans(groups=["x", "y"], bounds=(-4, 4), **PUBLIC).fit(
        rows.having(["a", "b"]), "g"
    ),
    "quantile": lambda rows: PrivateQuantile(0.4, bounds=(-4, 4), **PUBLIC).fit(rows.having(["a"])),
    "no column": lambda rows: ClippedMean(bounds=(-4, 4), **PUBLIC).fit(rows.having(["a", "z"])),
    "a column twice": lambda rows: ClippedMean(bounds=(-4, 4), **PUBLIC).fit(rows.having(["a", "a"])),
    "all columns": lambda rows: ClippedMean(bounds=(-4, 4), **PUBLIC).fit(rows),
    "by bounds": lambda rows: ClippedMean(bounds={"b": (0, 4), "a": (-4, 4)}, **PUBLIC).fit(rows),
}
PUBLIC: dict[str, Any] = {"epsilon": 50.0, "random_state": 0}


def play_containers() -> dict[str, list[Said]]:
    """Return what fits say of rows that are a query, a graph or in parts."""
    from tests.nets.test_containers import BESIDE, CONTAINERS

    found = {}
    for name, frame in FRAMES.items():
        for kind in sorted(BESIDE):
            for words, fit in FITS.items():
                found[f"{name}, {kind}, {words}"] = outcome(
                    lambda kind=kind, fit=fit, frame=frame: fit(open_source(CONTAINERS[kind](frame())))
                )
    return found


def play_levels() -> dict[str, list[Said]]:
    """Return comparisons of an outcome with three levels, of which one is put together with another or not."""
    codes = np.arange(240)
    rows = np.column_stack([codes % 2, (codes // 2) % 7 % 3, (codes // 14) % 3])
    table = ContingencyTable(levels=[[0, 1], [0, 1, 2], [0, 1, 2]], epsilon=1.0, random_state=0).fit(rows)
    found = {}
    for name in ("difference", "risk_ratio", "odds_ratio", "cohens_h", "number_needed_to_treat"):
        for outcomes in (0, 2):
            ask = partial(getattr(table, name), (0, 1), outcomes, (0, 1))
            found[f"{name} of {outcomes}"] = outcome(ask)
            if name != "cohens_h":
                found[f"{name} of {outcomes}, strata"] = outcome(partial(ask, strata=2))
    return found


def count(name: str, options: dict[str, Any]) -> Any:
    levels = LABELS[name]
    data = [*levels * 5, *options.pop("more", [])]
    return Histogram(levels, 50.0, random_state=0, **options).release(data)


def group(name: str) -> Any:
    levels = LABELS[name]
    labels = np.empty(24, object)
    labels[:] = [levels[i % max(len(levels), 1)] for i in range(24)] if levels else 0
    return GroupMeans(groups=levels, bounds=(-4, 4), epsilon=50.0, random_state=0).fit(ROWS, labels)


def play_labels() -> dict[str, list[Said]]:
    """Return counts and means by labels of every kind, with others among them."""
    found = {f"groups, {name}": outcome(partial(group, name)) for name in LABELS}
    for name in LABELS:
        for words, options in {
            "all known": {},
            "another": {"more": ["z", 77]},
            "another, dropped": {"more": ["z", 77, None], "unknown": "drop"},
            "another, other": {"more": ["z", 77], "unknown": "other"},
        }.items():
            found[f"counts, {name}, {words}"] = outcome(partial(count, name, dict(options)))
    return found


def play_files() -> dict[str, list[Said]]:
    """Return what a command makes of files that are written in every way."""
    found = {}
    for name, content in FILES.items():
        path = folder() / "file.csv"
        path.write_bytes(content)
        for options in READ:
            command = ["mean", str(path), "--column", "a", "--bounds", "-9", "9", "--seed", "1", *options]
            found[f"{name} {' '.join(options)}"] = outcome(partial(run, command))
    return found


ENDS = (".csv", ".CSV", ".Csv.gz", ".CSV.GZ", ".tsv", ".TSV", ".parquet", ".Parquet", ".txt", "")


def play_ends() -> dict[str, list[Said]]:
    """Return what commands make of files by the ends of their names, in letters of both cases."""
    frame = pd.DataFrame({"a": np.arange(24) % 7 - 3.0, "b": np.arange(24) % 5, "big": [1.0, np.inf] * 12})
    frame["bigger"] = [np.inf, 1.0] * 12
    found = {}
    for end in ENDS:
        path = folder() / f"table{end}"
        if "parquet" in end.lower():
            frame.to_parquet(path)
        else:
            packed = "gzip" if end.lower().endswith("gz") else None
            sep = "\t" if "tsv" in end.lower() else ","
            frame.to_csv(path, index=False, compression=packed, sep=sep)
        for words, command in {
            "mean": ["mean", str(path), "--column", "a", "--bounds", "-9", "9"],
            "two that are infinite": [
                *("mean", str(path), "--column", "big", "--column", "bigger", "--bounds", "-9", "9")
            ],
            "sql": ["sql", "SELECT COUNT(*) FROM t", "--table", f"t={path}"],
        }.items():
            found[f"{end} {words}"] = outcome(lambda command=command: run([*command, "--seed", "1"]))
    return found


PAYLOADS = np.array([0x7FF8000000000000, 0x7FF8000000000001], dtype=np.uint64).view(np.float64)
SHORT = np.array([0x7FC00000, 0x7FC00001], dtype=np.uint32).view(np.float32)


class Drifting:
    """A release whose statistic is larger each time, by less than it declares."""

    def __init__(self) -> None:
        self.times = 0.0

    def __call__(self, rows: Any, source: Any) -> Any:
        self.times += 0.25
        return source.laplace(self.times, sensitivity=1.0)


CLOCK = itertools.count()


def noisy_sum(rows: Any, source: Any) -> float:
    return source.laplace(float(sum(rows)), sensitivity=1.0)


LEAKS: dict[str, Callable[[Any], Any]] = {
    "first of a pair": lambda rows: (rows[0], 1.0),
    "last of a pair": lambda rows: (1.0, rows[0]),
    "first of a mapping": lambda rows: {"a": rows[0], "b": [1.0]},
    "within": lambda rows: [[1.0, {"a": (2.0, rows[0])}], 3.0],
    "order of a mapping": lambda rows: dict([("a", 1), ("b", 2)][:: 1 if rows[0] else -1]),
    "bits of a float": lambda rows: float(PAYLOADS[int(rows[0])]),
    "bits of a number of numpy": lambda rows: PAYLOADS[int(rows[0])],
    "bits of a short number": lambda rows: SHORT[int(rows[0])],
    "bits of an array": lambda rows: PAYLOADS[[int(rows[0])]],
    "sign of a zero": lambda rows: np.float64(-0.0 if rows[0] else 0.0),
    "type": lambda rows: 1 if rows[0] else 1.0,
    "nothing": lambda rows: "the same",
}
STATISTICS: dict[str, Callable[[Any], Any]] = {
    "integers beyond floats": lambda rows: [2**60 + int(rows[0]), 1],
    "integers beside floats": lambda rows: [2**60 + int(rows[0]), 0.5],
    "integers in place of floats": lambda rows: [2**60 + 1] if rows[0] else [2.0**60],
    "more than declared": lambda rows: [3 * rows[0], 1.0],
}


def play_outputs() -> dict[str, list[Said]]:
    """Return what a check says of releases that return more than was released, in every place."""
    found = {}
    for name, leak in LEAKS.items():

        def release(rows: Any, source: Any, leak: Callable[[Any], Any] = leak) -> Any:
            return noisy_sum(rows, source), leak(rows)

        found[name] = outcome(partial(check_sensitivity, release, [0.0, 1.0], [1.0, 1.0]))
    for name, statistic in STATISTICS.items():

        def looked_at(rows: Any, source: Any, of: Callable[[Any], Any] = statistic) -> Any:
            return source.statistic(of(rows), sensitivity=1.0)

        found[name] = outcome(partial(check_sensitivity, looked_at, [0.0, 1.0], [1.0, 1.0]))

    def by_the_clock(rows: Any, source: Any) -> Any:
        return source.laplace(next(CLOCK) % 2 / 4, sensitivity=1.0)

    for name, changing in {"drifting": Drifting(), "by the clock": by_the_clock}.items():
        found[name] = outcome(partial(check_sensitivity, changing, [0.0, 1.0], [1.0, 1.0]))
    return found


def play_formulas() -> dict[str, list[Said]]:
    """Return what a regression makes of formulas."""
    from tests.nets.lines import table

    declared = ["--bounds", "a=-4,4", "b=0.1,9", "c=-9,9", "e=0,1", "--levels", "g=x,y,z", "--levels", "d=1,2,3"]
    return {
        formula: outcome(partial(run, ["regress", table(), "--formula", formula, *declared, "--seed", "1"]))
        for formula in FORMULAS
    }


CHARGES: dict[str, Any] = {
    "pure": PrivacyGuarantee(0.2),
    "approximate": PrivacyGuarantee(0.2, 1e-7),
    "added": PrivacyGuarantee(0.1, neighbors=Neighbors.ADD_OR_REMOVE_ONE),
    "of persons": PrivacyGuarantee(0.1, unit="person"),
    "simulated": PrivacyGuarantee(0.1, simulated=True),
    "too much": PrivacyGuarantee(9.0),
    "event of a pure": Pure(0.1),
    "Gaussian": Gaussian(0.2),
    "sampled Gaussian": Gaussian(0.2, total_variation=1e-9),
    "concentrated": ZCDP(0.01),
    "range": BoundedRange(0.2),
    "discrete": DiscreteLaplace(3, 30.0),
}


def play_charges() -> dict[str, list[Said]]:
    """Return what is left of a budget after every pair of charges, by every method."""
    found = {}
    for method in ("basic", "gdp", "zcdp"):
        for first in CHARGES:
            for second in CHARGES:

                def charge(method: str = method, names: tuple[str, ...] = (first, second)) -> list[Any]:
                    budget = PrivacyBudget(2.0, 1e-5, method=method)
                    said: list[Any] = []
                    for name in names:
                        try:
                            budget.charge(CHARGES[name], name)
                        except Exception as error:
                            said.append(error)
                        said.append([budget.remaining, budget.spent])
                    return said

                found[f"{method}: {first}, {second}"] = outcome(charge)
    return found
