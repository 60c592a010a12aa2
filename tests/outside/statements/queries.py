"""Cells of many queries at once and of SQL: workloads of marginal tables, and aggregates by groups or of people."""

from __future__ import annotations

import re
from typing import Any

import duckdb
import numpy as np
import pandas as pd

from dpstats.queries import Domain, MarginalMWEM, WorkloadAnswers
from dpstats.sql import PrivateSQL
from tests.outside.statements.group_means import draw_shares
from tests.outside.statements.populations import SIZE, Draw, Floats, log_uniform
from tests.outside.statements.quantiles import quantile_range
from tests.outside.statements.questions import Asker, as_text, draw_box, draw_frame, draw_options, is_outside, seed
from tests.outside.statements.verdict import Answer, Cell

ROWS = {
    "count": "SELECT COUNT(*) FROM t",
    "count of some": "SELECT COUNT(*) FROM t WHERE g = 'g0'",
    "counts": "SELECT g, COUNT(*) FROM t GROUP BY g",
    "sum": "SELECT SUM(x) FROM t",
    "sums": "SELECT g, SUM(x) FROM t GROUP BY g",
    "mean": "SELECT AVG(x) FROM t",
    "means": "SELECT g, AVG(x) FROM t GROUP BY g",
    "deviations": "SELECT g, STDDEV_POP(x) FROM t GROUP BY g",
    "median": "SELECT MEDIAN(x) FROM t",
    "deciles": "SELECT g, QUANTILE_CONT(x, 0.9) FROM t GROUP BY g",
}
PEOPLE = ("count", "mean", "median")
"""Questions about rows of people, of whom each has at most a threshold of rows."""


def draw_workload(draw: Draw, question: str = "") -> Cell:
    """Return a random cell of `WorkloadAnswers`, or of the measured tables of `MarginalMWEM`."""
    facts: dict[str, Any] = {}
    n, options = draw_options(draw, facts, (1e-6, 1e-9))
    sizes = [int(draw.integers(2, 5)) for _ in range(int(draw.integers(2, 5)))]
    names = {f"v{j}": [f"l{level}" for level in range(size)] for j, size in enumerate(sizes)}
    common, columns = draw.random(SIZE), []
    for size in sizes:
        ends = np.cumsum(draw.dirichlet(np.full(size, draw.choice([0.3, 2.0]))))
        score = (common + draw.choice([0.1, 1.0]) * draw.random(SIZE)) % 1
        columns.append(np.searchsorted(ends, score).clip(0, size - 1))
    codes = np.column_stack(columns)
    labels = np.array([f"l{level}" for level in range(max(sizes))], dtype=object)
    rounds = draw.random() < 0.3
    workload = int(draw.integers(1, 3))
    facts |= {"attributes": " x ".join(map(str, sizes)), "workload": workload}
    given = {"domain": Domain(names), "workload": workload} | options

    def sample(draw: Draw) -> Any:
        return codes[draw.integers(SIZE, size=n)]

    def shares(rows: Any, label: str) -> float:
        """Return the share of rows with "v0 = l1, v1 = l0"."""
        parts = [re.fullmatch(r"v(\d+) = l(\d+)", part) for part in label.split(", ")]
        inside = np.all([rows[:, int(part[1])] == int(part[2]) for part in parts if part], axis=0)
        return float(inside.mean())

    if rounds:
        level = float(draw.choice([0.2, 0.05, 0.01]))
        table = sorted(draw.choice(len(sizes), workload, replace=False).tolist())

        def answer(draw: Draw) -> Answer | None:
            rows = sample(draw)
            model = MarginalMWEM(**given, random_state=seed(draw, facts)).fit(labels[rows])
            found = model.marginal(table, 1 - level)
            cell = int(draw.integers(len(found)))
            low, high = found["low"].iloc[cell], found["high"].iloc[cell]
            if not np.isfinite(low):
                return None
            places = np.unravel_index(cell, [sizes[j] for j in table])
            share = np.mean(np.all([rows[:, j] == place for j, place in zip(table, places, strict=True)], axis=0))
            return Answer(is_outside(low, high, share, share), model.summary().notes, float(high - low))

        return Cell("MarginalMWEM", as_text("measured table", level), facts, ["x0"], level, answer)
    estimand = str(draw.choice(["data", "population"]))
    facts["estimand"] = estimand

    def fit(draw: Draw) -> tuple[Any, Any]:
        rows = sample(draw)
        return WorkloadAnswers(**given, random_state=seed(draw, facts)).fit(labels[rows]), rows

    known = WorkloadAnswers(**given, random_state=0).fit(labels[codes[:20]]).estimates().names
    population = np.array([shares(codes, label) for label in known])

    def truth(model: Any, rows: Any) -> Floats:
        return population if estimand == "population" else np.array([shares(rows, label) for label in known])

    def usual(rows: Any) -> tuple[Floats, Floats, float]:
        rate = (np.array([shares(rows, label) for label in known]) * n + 0.5) / (n + 1)
        return rate, np.sqrt(rate * (1 - rate) / n), np.inf

    asker = Asker(
        "WorkloadAnswers", facts, fit, truth, usual if estimand == "population" else None, known, {"estimand": estimand}
    )
    return asker.cell(draw, question)


class Sums:
    """The truth of an aggregate of a table, by group and of all rows."""

    def __init__(self, frame: pd.DataFrame, bounds: tuple[float, float], groups: list[str]) -> None:
        self.x, self.groups = frame["x"].clip(*bounds), groups
        self.by = self.x.groupby(frame["g"])

    def of(self, kind: str) -> Floats:
        """Return the true values, NaN for a group without rows."""
        every = {"count": self.x.size, "sum": self.x.sum(), "mean": self.x.mean()}
        if kind in every:
            return np.array([every[kind]])
        if kind == "count of some":
            return np.array([self.by.size().get(self.groups[0], 0)])
        found = {"counts": self.by.size, "sums": self.by.sum, "means": self.by.mean}.get(kind)
        values = found() if found else self.by.std(ddof=0)
        return values.reindex(self.groups).fillna(0.0 if kind in ("counts", "sums") else np.nan).to_numpy(float)


def draw_sql(draw: Draw, question: str = "") -> Cell:
    """Return a random cell of `PrivateSQL`: aggregates of rows, or of people with several."""
    facts: dict[str, Any] = {}
    n, options = draw_options(draw, facts, most=5000)
    people = bool(draw.random() < 0.3)
    kind = question or str(draw.choice(PEOPLE if people else list(ROWS)))
    x = draw_frame(draw, facts, 1)[:, 0]
    bounds = tuple(float(end) for end in draw_box(draw, facts, x[:, None])[0])
    cut = np.mean((x <= bounds[0]) | (x >= bounds[1]))
    facts["uneven"] = bool(facts["uneven"] or cut > 0.01)
    shares = draw_shares(draw, int(draw.integers(2, 5)))
    groups = [f"g{g}" for g in range(len(shares))]
    options |= {"categories": {"t.g": groups}, "bounds": {"t.x": bounds}}
    options |= {"unit": "person"} if people else {}
    if draw.random() < 0.3:
        options["neighbors"] = "add_or_remove"
    each = log_uniform(draw, 0.2, 8) if people else 0.0
    facts |= {"of": kind, "shares": " ".join(f"{share:.2g}" for share in shares)}
    facts |= {"neighbors": options.get("neighbors", ""), "rows each": f"{1 + each:.2g}" if people else ""}
    several = kind in ("counts", "sums", "means", "deviations", "deciles")

    def fit(draw: Draw) -> tuple[Any, Any]:
        person = np.repeat(np.arange(n), 1 + draw.poisson(each, n) if people else 1)
        frame = pd.DataFrame({"x": x[draw.integers(SIZE, size=person.size)], "person": person})
        frame["g"] = np.array(groups)[draw.choice(len(shares), person.size, p=shares)]
        with duckdb.connect(config={"threads": 1}) as connection:
            connection.execute("CREATE TABLE t AS SELECT * FROM frame")
            sql = PrivateSQL(connection, **options, random_state=seed(draw, facts))
            return sql.query(ROWS[kind]), frame

    def truth(model: Any, frame: pd.DataFrame) -> Any:
        if kind in ("median", "deciles"):
            low, high = quantile_range(x, 0.5 if kind == "median" else 0.9, bounds)
            many = len(groups) if several else 1
            return np.repeat(low, many), np.repeat(high, many)
        if not people:
            return Sums(frame, bounds, groups).of(kind)
        # Of a person with more rows than the threshold, all rows together have its weight.
        most = re.search(r"(?:at most|more than) ([\d,.]+)", model.estimates().estimand)
        assert most is not None, model.estimates().estimand
        threshold = float(most[1].rstrip(",.").replace(",", ""))
        rows = frame.groupby("person")["x"].transform("size").to_numpy()
        weight = np.minimum(1.0, threshold / rows)
        total = weight.sum()
        return total if kind == "count" else float((weight * frame["x"].clip(*bounds)).sum() / total)

    names = groups if several else ["x"]
    quantiles = kind in ("median", "deciles")
    levels, sides = ((0.05,), ("two-sided",)) if quantiles else ((0.2, 0.05, 0.01), ("two-sided", "less", "greater"))
    asked = ("interval",) if quantiles else ("interval", "interval", "test", "together")
    asker = Asker("PrivateSQL", facts, fit, truth, None, names, {}, levels, sides, asked)
    return asker.cell(draw)
