"""The net: random cells, the verdict on each, and the page of what was found."""

from __future__ import annotations

import sys
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from tests.outside.seeds import replay
from tests.outside.statements import (
    cohorts,
    conformal,
    covariance,
    group_means,
    levels,
    means,
    nulls,
    private_bounds,
    quantiles,
    queries,
    regressions,
    statistics,
    streams,
    survival,
    tables,
)
from tests.outside.statements.populations import Draw
from tests.outside.statements.verdict import Cell, Verdict, judge

FAMILIES = {
    "regressions": (3, regressions.draw_cell),
    "regressions, private bounds": (1, regressions.draw_chosen),
    "regressions, far bounds": (1, regressions.draw_far),
    "group means": (1, group_means.draw_cell),
    "factors": (1, levels.draw_factors),
    "factors of formulas": (1, levels.draw_formula),
    "adjusted means": (1, levels.draw_adjusted),
    "survival": (1, survival.draw_cell),
    "statistics": (1, statistics.draw_cell),
    "means": (4, means.draw_cell),
    "variances": (1, means.draw_variance),
    "units": (1, means.draw_units),
    "units, delta 0": (1, partial(means.draw_units, deltas=(0.0,))),
    "private bounds": (3, private_bounds.draw_cell),
    "quantiles": (3, quantiles.draw_cell),
    "quantiles, auto": (1, partial(quantiles.draw_few, coverage="auto")),
    "group quantiles": (3, quantiles.draw_groups),
    "Table 1": (3, cohorts.draw_cell),
    "conformal": (3, conformal.draw_cell),
    "proportions": (1, tables.draw_proportion),
    "tables": (4, tables.draw_table),
    "counts": (1, tables.draw_counts),
    "ranks": (3, nulls.draw_ranks),
    "distribution tests": (3, nulls.draw_distributions),
    "identity": (2, nulls.draw_identity),
    "covariances": (2, covariance.draw_covariance),
    "correlations": (2, covariance.draw_correlation),
    "Spearman": (1, partial(covariance.draw_correlation, method="spearman")),
    "components": (1, covariance.draw_components),
    "Hotelling": (2, covariance.draw_hotelling),
    "workloads": (2, queries.draw_workload),
    "SQL": (3, queries.draw_sql),
    "streams": (1, streams.draw_cell),
}
"""How often a family is drawn, and what draws its cells."""
SECONDS = 20.0
"""Processor time after which a cell ends undecided."""
KINDS = ("good", "named", "as others", "false", "useless", "undecided", "refused", "crash")
FAULTS = ("false", "crash")
OTHERS = 300
"""Replications without privacy of a cell that states what is false."""


def draw_cell(seed: int, k: int, families: Sequence[str] = ()) -> Cell:
    """Return cell ``k`` of a seed, of a random one of the families, by default of all."""
    draw = np.random.default_rng([seed, k])
    if len(families) == 1:
        return FAMILIES[families[0]][1](draw)
    drawn = [FAMILIES[each] for each in families or FAMILIES]
    shares = np.array([share for share, _ in drawn])
    return drawn[draw.choice(len(shares), p=shares / shares.sum())][1](draw)


def judge_cell(seed: int, k: int, seconds: float = SECONDS, families: Sequence[str] = ()) -> tuple[str, str, Verdict]:
    """Return the family of a cell, what was drawn, and the verdict."""

    def draws(replication: int) -> Draw:
        return np.random.default_rng([seed, k, replication])

    cell = draw_cell(seed, k, families)
    verdict = judge(cell, draws, seconds)
    if verdict.kind == "false" and cell.without_privacy:
        verdict = compare_with_others(cell, verdict, draws, seconds)
    return cell.family, describe(cell), verdict


def compare_with_others(cell: Cell, verdict: Verdict, draws: Callable[[int], Draw], seconds: float) -> Verdict:
    """Return the verdict of a cell whose answers are false, beside the usual method without privacy.

    Where this method is wrong as often on the same rows, privacy has no part in it, and the verdict is "as others".
    """
    assert cell.without_privacy is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        missed = sum(cell.without_privacy(draws(replication)) for replication in range(OTHERS))
    allowed = missed / OTHERS + cell.allowed - cell.nominal
    if cell.allowed < allowed < 1:
        again = judge(cell, draws, seconds, allowed)
        if again.kind != "false":
            verdict = again
            verdict.kind = "undecided" if again.missed > allowed * again.fits else "as others"
    elif allowed >= 1:
        verdict.kind = "as others"
    verdict.words += f"{verdict.words and '; '}without privacy the usual method misses {missed} of {OTHERS}"
    return verdict


def describe(cell: Cell) -> str:
    """Return what was drawn, in a line."""
    drawn = {name: value for name, value in cell.facts.items() if value not in (False, "", "0.00", "nothing")}
    facts = (name if value is True else f"{name} {value}" for name, value in drawn.items())
    return f"{cell.family}, {cell.question} of {', '.join(cell.about)}; {'; '.join(facts)}"


@dataclass
class Net:
    """Tries cells and keeps those that are not good.

    Attributes
    ----------
    families : sequence of str
        Of `FAMILIES`, to draw no other.
    counts : Counter of (family, kind)
    found : list of (number, str, Verdict)
        What was drawn for cells that are not good.
    careless : Counter of (family, note)
        Notes in most fits of cells whose answers hold.
    """

    seed: int
    families: Sequence[str] = ()
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    found: list[tuple[int, str, Verdict]] = field(default_factory=list)
    careless: Counter[tuple[str, str]] = field(default_factory=Counter)
    seconds: float = 0.0

    def run(self, seconds: float, cells: range = range(10**9), each: float = SECONDS, jobs: int = 1) -> Net:
        """Try cells for as long as given, in so many processes."""
        start = time.monotonic()
        for k, family, drawn, verdict in self._judged(start + seconds, cells, each, jobs):
            self.counts[family, verdict.kind] += 1
            if verdict.kind == "good":
                self.careless.update(
                    (family, note) for note, times in verdict.notes.items() if 2 * times > verdict.fits
                )
            else:
                self.found.append((k, drawn, verdict))
                if verdict.kind in FAULTS:  # a long run that is stopped has said what it found
                    print(f"{self.seed}:{k} {verdict}: {drawn}", file=sys.stderr, flush=True)
        self.seconds = time.monotonic() - start
        return self

    def _judged(self, until: float, cells: range, each: float, jobs: int) -> Iterator[tuple[int, str, str, Verdict]]:
        """Yield the number, the family, the description and the verdict of each cell, in their order."""
        if jobs == 1:
            for k in cells:
                if time.monotonic() > until:
                    return
                yield k, *judge_cell(self.seed, k, each, self.families)
            return
        with ProcessPoolExecutor(jobs) as pool:
            waiting = deque[tuple[int, Any]]()
            for k in cells:
                if time.monotonic() > until:
                    break
                waiting.append((k, pool.submit(judge_cell, self.seed, k, each, self.families)))
                if len(waiting) > 3 * jobs:
                    k, job = waiting.popleft()
                    yield k, *job.result()
            for k, job in waiting:
                yield k, *job.result()

    @property
    def faults(self) -> list[tuple[int, str, Verdict]]:
        """Cells that state what is false."""
        return [each for each in self.found if each[2].kind in FAULTS]

    def page(self) -> str:
        """Return the counts by family, and each cell that is not good."""
        total = {kind: sum(self.counts[each] for each in self.counts if each[1] == kind) for kind in KINDS}
        lines = [
            f"{sum(total.values()):,} cells in {self.seconds:,.0f} s, {replay(self.seed)}",
            f"{'':32}" + "".join(f"{kind:>10}" for kind in ("cells", *KINDS)),
        ]
        for family in [*sorted({family for family, _ in self.counts}), "all"]:
            row = total if family == "all" else {kind: self.counts[family, kind] for kind in KINDS}
            lines.append(f"{family:32}" + "".join(f"{count:>10,}" for count in (sum(row.values()), *row.values())))
        for kind in ("false", "crash", "as others", "useless", "undecided"):
            some = [each for each in self.found if each[2].kind == kind]
            lines += ["", f"{len(some)} {kind}"] if some else []
            for k, drawn, verdict in some:
                lines += [f"  {self.seed}:{k} {verdict}", f"    {drawn}"]
                lines += [f"    {times} fits: {note}" for note, times in verdict.notes.most_common(1)]
        for kind in ("named", "refused"):
            reasons: dict[str, list[int]] = {}
            for k, _, verdict in self.found:
                if verdict.kind == kind:
                    reason = verdict.notes.most_common(1)[0][0] if kind == "named" else verdict.words[:60]
                    reasons.setdefault(reason, []).append(k)
            lines += ["", f"{kind.capitalize()}"] if reasons else []
            lines += [f"  {reason}: {', '.join(map(str, ks))}" for reason, ks in reasons.items()]
        if self.careless:
            lines += ["", "Notes in most fits of cells whose answers hold"]
            lines += [f"  {times:4} {family}: {note}" for (family, note), times in self.careless.most_common()]
        return "\n".join(lines)
