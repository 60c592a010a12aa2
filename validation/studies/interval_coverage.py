"""Coverage of every interval of every mean and variance, on rows of nine laws.

Kind and unkind rows alike: skewed, heavy-tailed, discrete, rare, contaminated, and of columns that move together.
The laws and what is true of them are in `interval_laws.py`, the estimators and what their outputs assume in
`interval_cases.py`. An interval should cover what its output says that it covers, wherever the output's
assumption is true; a cell below 0.93 must be explained by the output itself.

    python validation/studies/interval_coverage.py                                 # everything
    python validation/studies/interval_coverage.py --estimators PrivateVariance --laws normal t3 --sizes 50x1
    python validation/studies/interval_coverage.py --fast                          # as in the suite, nothing written

A part that is run again replaces its cells in the results; ``--resume`` leaves those that are there.
"""

from __future__ import annotations

import argparse
import csv
import time
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from interval_cases import CASES, LEVEL, Case, Ends, Interval, Runs, Sample
from interval_laws import LAWS, Law

import dpstats
from dpstats.parallel import cut, run_blocks

RESULTS = Path(__file__).resolve().parents[1] / "results"
TABLE, CELLS = RESULTS / "interval_coverage.md", RESULTS / "interval_coverage.csv"

SIZES = tuple((n, d) for n in (50, 1000, 20_000) for d in (1, 10, 100))
EPSILONS = (0.2, 1.0)
LEAST = 0.93
_ENTRIES = 2_000_000  # of the rows that are held at once
FAST: dict[str, Any] = {
    "laws": ("normal", "exponential", "Bernoulli(.01)", "exponential factor"),
    "sizes": ((50, 1), (1000, 10)),
    "epsilons": (1.0,),
    "datasets": 40,
    "again": 1,
}


class Key(NamedTuple):
    """Which cell."""

    estimator: str
    case: str
    estimand: str
    law: str
    n: int
    d: int
    epsilon: float


@dataclass(frozen=True)
class Cell:
    """One interval at one law, size and epsilon.

    Attributes
    ----------
    holds : bool
        Whether what the output assumes is true of the law.
    coverage, error : float
        Over all columns, and its Monte Carlo standard error, over datasets.
    worst : float
        Coverage of the column that is covered least.
    together : float
        How often simultaneous intervals cover all columns.
    width : float
        Mean width over that of the non-private interval; infinite ends are left out.
    plain : float
        Coverage of the non-private interval.
    open, failed : float
        Shares of intervals with an infinite end, and of those that are not numbers or that no fit gave.
    said : float
        Share of fits whose output says that its assumption does not hold.
    told : float
        Share of intervals that cover, or whose output says so, or that are off by no more than what the output says
        that it would not notice.
    datasets : int
    date : str
    """

    holds: bool
    coverage: float
    error: float
    worst: float
    together: float
    width: float
    plain: float
    open: float
    failed: float
    said: float
    told: float
    datasets: int
    date: str

    @property
    def verdict(self) -> str:
        """In a word: whether intervals cover, and if not, what excuses them."""
        if self.coverage >= LEAST:
            return "covers"
        if self.told >= LEAST:
            return "said"
        if not self.holds:
            return "assumption fails"
        return "unclear" if self.coverage + 2 * self.error >= LEAST else "BELOW"


@dataclass
class Tally:
    """Sums over the datasets of one cell."""

    covered: list[float] = field(default_factory=list)
    together: list[bool] = field(default_factory=list)
    columns: Any = 0.0
    width: float = 0.0
    plain: float = 0.0
    plain_width: float = 0.0
    open: float = 0.0
    failed: float = 0.0
    said: float = 0.0
    told: float = 0.0

    def add(self, found: Interval) -> None:
        """Count the intervals of one fit, beside the non-private ones."""
        inside = _inside(found.each, found.truth)
        self.covered.append(float(inside.mean()))
        self.columns = self.columns + inside
        if found.together is not None:
            self.together.append(bool(_inside(found.together, found.truth).all()))
        self.plain += float(_inside(found.plain, found.truth).mean())
        low, high = found.each
        widened = low - found.unnoticed, high + found.unnoticed
        self.told += float((_inside(widened, found.truth) | found.said).mean())
        self.said += found.said
        self.failed += float(np.isnan(high - low).mean())
        self.open += float(np.isinf(high - low).mean())
        finite = np.isfinite(high - low)
        if finite.any():
            self.width += float((high - low)[finite].mean())
            self.plain_width += float((found.plain[1] - found.plain[0]).mean())

    def fail(self, fits: int) -> None:
        """Count fits that gave no intervals."""
        self.covered += fits * [0.0]
        self.failed += fits


def _inside(ends: Ends, truth: Any) -> Any:
    return (ends[0] <= truth) & (truth <= ends[1])


def cell_of(tallies: Sequence[Tally], holds: bool) -> Cell:
    """Return what the parts of one cell add up to."""
    covered = np.concatenate([tally.covered for tally in tallies])
    count = covered.size

    def share(name: str) -> float:
        return float(sum(getattr(tally, name) for tally in tallies)) / count

    columns = np.atleast_1d(sum(tally.columns for tally in tallies)) / count
    # A cell in which nothing was missed still has an error: that of one miss.
    error = max(float(covered.std(ddof=1)), 1 / np.sqrt(count * columns.size)) / np.sqrt(count)
    return Cell(
        holds,
        float(covered.mean()),
        error,
        float(columns.min()),
        float(np.mean([covers for tally in tallies for covers in tally.together] or [0.0])),
        share("width") / share("plain_width") if share("plain_width") else float("nan"),
        share("plain"),
        share("open"),
        share("failed"),
        share("said"),
        share("told"),
        count,
        time.strftime("%Y-%m-%d"),
    )


def block(
    law: Law, n: int, d: int, asked: Sequence[tuple[Case, float]], size: int, rng: np.random.Generator
) -> dict[Key, Tally]:
    """Return the tallies of a block of datasets, for cases and epsilons."""
    runs = [(Runs(case, law, n, d, epsilon), epsilon) for case, epsilon in asked]
    for start in range(0, size, chunk := max(1, _ENTRIES // (n * d))):
        entropy = int(rng.integers(2**63))
        sample = Sample.draw(law, n, d, min(chunk, size - start), rng)
        for run, epsilon in runs:
            # A case's noise does not depend on which others are run.
            named = zlib.crc32(f"{run.case.estimator} {run.case.name} {epsilon}".encode())
            run.fit(sample, np.random.default_rng([entropy, named]))
    tallies = {}
    for run, epsilon in runs:
        for key in _keys(run.case, epsilon, law, n, d):
            tallies[key] = tally = Tally()
            for found in run.intervals(key.estimand):
                tally.add(found)
            tally.fail(run.failed)
    return tallies


def datasets_of(n: int, d: int) -> int:
    """Return fewer datasets where one takes long; its columns count too."""
    return {1: 250, 10: 100, 100: 40}[d] // (2 if n * d >= 2_000_000 else 1)


def study(
    cases: Sequence[Case],
    *,
    laws: Sequence[str],
    sizes: Sequence[tuple[int, int]],
    scale: float = 1.0,
    datasets: int | None = None,
    seed: int = 2026,
    jobs: int = 1,
    again: int = 4,
    known: Iterable[Key] = (),
    epsilons: Sequence[float] = EPSILONS,
) -> Iterable[dict[Key, Cell]]:
    """Yield the cells of every law and size; they do not depend on the number of processes.

    Cells below LEAST by less than three standard errors are run on ``again`` times as many fresh datasets, and
    those count.
    """
    known = set(known)
    for n, d in sizes:
        for law in (LAWS[name] for name in laws):
            if d == 1 and law.correlated:
                continue
            asked = [
                (case, epsilon)
                for case in cases
                for epsilon in epsilons
                if any(key not in known for key in _keys(case, epsilon, law, n, d))
            ]
            count = datasets or max(2, round(scale * datasets_of(n, d)))
            found = _group(asked, law, n, d, count, [seed, 0], jobs)
            near = {key for key, cell in found.items() if -3 < (cell.coverage - LEAST) / cell.error < 0}
            doubtful = [pair for pair in asked if near.intersection(_keys(*pair, law, n, d))]
            if again > 1:
                found |= _group(doubtful, law, n, d, again * count, [seed, 1], jobs)
            yield found


def _keys(case: Case, epsilon: float, law: Law, n: int, d: int) -> list[Key]:
    return [Key(case.estimator, case.name, estimand, law.name, n, d, epsilon) for estimand in case.estimands]


def _group(
    asked: Sequence[tuple[Case, float]], law: Law, n: int, d: int, count: int, seed: list[int], jobs: int
) -> dict[Key, Cell]:
    """Return the cells of one law and size."""
    if not asked:
        return {}
    size = min(200, -(-count // 4))
    rng = np.random.default_rng([*seed, list(LAWS).index(law.name), n, d])
    blocks = [(law, n, d, asked, part) for part in cut(count, size)]
    done = run_blocks(block, blocks, random_state=rng, n_jobs=jobs)
    return {
        key: cell_of([tallies[key] for tallies in done], case.holds(law))
        for case, epsilon in asked
        for key in _keys(case, epsilon, law, n, d)
    }


# The store: a line per cell.


def read_cells(path: Path = CELLS) -> dict[Key, Cell]:
    """Return the cells of earlier runs, of cases that there still are."""
    if not path.exists():
        return {}
    there = {(case.estimator, case.name) for case in CASES}
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(line for line in file if not line.startswith("#")))
    return {
        Key(**{name: _read(kind, line[name]) for name, kind in Key.__annotations__.items()}): Cell(
            **{part.name: _read(part.type, line[part.name]) for part in fields(Cell)}
        )
        for line in lines
        if (line["estimator"], line["case"]) in there
    }


def _read(kind: Any, text: str) -> Any:
    name = getattr(kind, "__forward_arg__", kind)
    return {"bool": lambda word: word == "True", "int": int, "float": float, "str": str}[name](text)


def write_cells(cells: dict[Key, Cell], path: Path = CELLS) -> None:
    """Write all cells, in the order of the study."""
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write("# python validation/studies/interval_coverage.py\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*Key._fields, *(part.name for part in fields(Cell))])
        for key in sorted(cells, key=_order):
            values = [f"{value:.5g}" if isinstance(value, float) else value for value in asdict(cells[key]).values()]
            writer.writerow([*key, *values])


def _order(key: Key) -> tuple[Any, ...]:
    places = {(case.estimator, case.name): place for place, case in enumerate(CASES)}
    laws = list(LAWS)
    return places[key.estimator, key.case], key.estimand, laws.index(key.law), key.n, key.d, key.epsilon


# The report.


def as_markdown(cells: dict[Key, Cell]) -> str:
    """Return the tables."""
    dates = sorted({cell.date for cell in cells.values()})
    below = {key: cell for key, cell in cells.items() if cell.verdict != "covers"}
    counts = {
        verdict: sum(cell.verdict == verdict for cell in cells.values())
        for verdict in ("covers", "said", "assumption fails", "unclear", "BELOW")
    }
    return "\n".join(
        [
            "# Coverage of the intervals of means and variances",
            "",
            f"{dates[0]} to {dates[-1]}, dpstats {dpstats.__version__}, numpy {np.__version__}; {LEVEL:.0%} "
            f"intervals, simulated noise; {len(cells):,} cells, every one of them in `interval_coverage.csv`.",
            "",
            "    python validation/studies/interval_coverage.py",
            "",
            "The laws (columns are independent but for the last three):",
            "",
            "| law | mean | std | public bounds | E[clip(x)] | variance of clip(x) |",
            "|---|---|---|---|---|---|",
            *(
                f"| {law.name} | {law.mean:.4g} | {law.std:.4g} | [{law.low:g}, {law.high:g}] "
                f"| {law.clipped_mean:.4g} | {law.clipped_variance:.4g} |"
                for law in LAWS.values()
            ),
            "",
            "contaminated 5%: whole rows are N(10, 1) instead of N(0, 1). Factors: any two columns have correlation "
            "0.9. ClippedMean and PrivateVariance are given the bounds (`hard bounds`: rows cut to them before); `ball`"
            " a center half a standard deviation off the mean and a radius of 1.2 sqrt(d + 1) standard deviations, "
            "AdaptiveMean a box of 10 standard deviations. Public standard deviations are the true ones; of a private "
            "one twice as much is public. SparseMean gets rows in standard deviations from their mean, with "
            "0.8 added to max(1, d/20) columns.",
            "",
            f"Verdicts: covers (at least {LEAST}): {counts['covers']:,}; said (the output of these fits says that its "
            f"assumption does not hold, or how far it may be off without its being noticed, and it is off by no more): "
            f"{counts['said']}; assumption fails (what the output assumes is not true of "
            f"the law): {counts['assumption fails']}; unclear (within two standard errors of {LEAST}): "
            f"{counts['unclear']}; BELOW: {counts['BELOW']}.",
            "",
            f"## Cells below {LEAST}",
            "",
            "| estimator | interval | about | law | n | d | eps | coverage | worst column | non-private | said "
            "| verdict |",
            "|---" * 12 + "|",
            *(
                f"| {key.estimator} | {key.case} | {key.estimand} | {key.law} | {key.n:,} | {key.d} "
                f"| {key.epsilon:g} | {cell.coverage:.3f} ± {cell.error:.3f} | {cell.worst:.3f} | {cell.plain:.3f} "
                f"| {cell.said:.2f} | {cell.verdict} |"
                for key, cell in sorted(below.items(), key=lambda item: _order(item[0]))
            ),
            "",
            "## All cells",
            "",
            "Coverage over all columns, then the mean width over that of the non-private interval (Student's for "
            "means, Wald's for variances), where that has one. * is below. o: some intervals are open; f: some "
            "fits gave none.",
            *_matrices(cells),
            "",
        ]
    )


def _matrices(cells: dict[Key, Cell]) -> list[str]:
    lines: list[str] = []
    grid = sorted({(key.n, key.epsilon) for key in cells})
    groups = dict.fromkeys((key.estimator, key.case, key.estimand) for key in sorted(cells, key=_order))
    for estimator, case, estimand in groups:
        of_group = {
            (key.law, key.d, key.n, key.epsilon): cell
            for key, cell in cells.items()
            if (key.estimator, key.case, key.estimand) == (estimator, case, estimand)
        }
        lines += [
            "",
            f"### {estimator}, {case}: {estimand}",
            "",
            "| law | d | " + " | ".join(f"n = {n:,}, eps {epsilon:g}" for n, epsilon in grid) + " |",
            "|---" * (len(grid) + 2) + "|",
        ]
        for law, d in sorted(
            {place[:2] for place in of_group}, key=lambda place: (list(LAWS).index(place[0]), place[1])
        ):
            found = [of_group.get((law, d, *place)) for place in grid]
            lines.append(f"| {law} | {d} | " + " | ".join(map(_short, found)) + " |")
    return lines


def _short(cell: Cell | None) -> str:
    if cell is None:
        return ""
    marks = ("*" if cell.coverage < LEAST else "") + ("o" if cell.open else "") + ("f" if cell.failed else "")
    width = "" if np.isnan(cell.width) else f" {cell.width:.3g}"
    return f"{cell.coverage:.3f}{marks}{width}"


def _size(text: str) -> tuple[int, int]:
    n, d = text.split("x")
    return int(n), int(d)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--estimators", nargs="*", default=[""], help="parts of 'ClippedMean std private'")
    parser.add_argument("--laws", nargs="*", default=list(LAWS), choices=list(LAWS))
    parser.add_argument("--sizes", nargs="*", type=_size, default=SIZES, help="as 50x1 20000x100")
    parser.add_argument("--scale", type=float, default=1.0, help="times as many datasets")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--resume", action="store_true", help="only cells that the results lack")
    parser.add_argument("--fast", action="store_true", help="a part of it, nothing written")
    options = parser.parse_args()
    cases = [case for case in CASES if any(part in f"{case.estimator} {case.name}" for part in options.estimators)]
    cells = {} if options.fast else read_cells()
    asked: dict[str, Any] = FAST
    if not options.fast:
        asked = {"laws": options.laws, "sizes": options.sizes, "scale": options.scale}
        asked |= {"known": cells if options.resume else ()}
    start = time.perf_counter()
    for found in study(cases, seed=options.seed, jobs=options.jobs, **asked):
        cells |= found
        for key, cell in found.items():
            if cell.verdict == "BELOW":
                print(f"{cell.coverage:.3f} ± {cell.error:.3f}", *key, flush=True)
        if found and not options.fast:
            write_cells(cells)
        if found:
            key = next(iter(found))
            print(
                f"{time.perf_counter() - start:6.0f} s  {key.law}, n = {key.n}, d = {key.d}: {len(found)} cells",
                flush=True,
            )
    text = as_markdown(cells)
    if options.fast:
        print(text)
    else:
        TABLE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
