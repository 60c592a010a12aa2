"""Tables, picture and command line of the studies of linear and of logistic regression."""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from regression_cells import (
    EPSILONS,
    LEAST,
    OUTSIDE,
    SIZES,
    SLOW,
    Cell,
    Family,
    Key,
    in_order,
    read_cells,
    study,
    write_cells,
)
from regression_designs import DELTA, dimensions

import dpstats

RESULTS = Path(__file__).resolve().parents[1] / "results"
FAST: dict[str, Any] = {"sizes": [(2000, 3)], "epsilons": (1.0,), "replications": 10}
SHOWN = 10, 1.0  # d (or the nearest) and epsilon of the picture and of the tables side by side


@dataclass(frozen=True)
class Report:
    """A study and the words of its page.

    Attributes
    ----------
    family : Family
    script : str
        Its name, and that of its results.
    title : str
    ours : tuple of str
        The methods that are ours and have intervals.
    designs : tuple of str
    about : sequence of str
        Paragraphs on designs and methods.
    """

    family: Family
    script: str
    title: str
    ours: tuple[str, ...]
    designs: tuple[str, ...]
    about: Sequence[str]

    @property
    def methods(self) -> tuple[str, ...]:
        """All methods, the reference last."""
        return (*self.family.methods, *self.family.outside, self.family.reference)


def number(value: float) -> str:
    """Return two or three digits."""
    if math.isnan(value):
        return "-"
    if math.isinf(value) or value >= 1000:
        return f"{value:.0e}".replace("e+0", "e").replace("e+", "e")
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def short(cell: Cell | None) -> str:
    """Return error [coverage] width, with marks."""
    if cell is None:
        return ""
    text = number(cell.error)
    if not math.isnan(cell.coverage):
        text += f" [{cell.coverage:.3f}] {number(cell.width)}".replace("[0.", "[.")
    below = "*" if cell.verdict == "BELOW" else ""
    return text + below + ("n" if cell.noise_only else "") + ("f" if cell.failed else "")


def nearest(name: str) -> int:
    """Return the number of columns at which a design is shown."""
    return min(dimensions(name), key=lambda d: abs(d - SHOWN[0]))


def as_markdown(report: Report, cells: dict[Key, Cell], command: str, missing: Sequence[str] = ()) -> str:
    """Return the page."""
    dates = sorted({cell.date for cell in cells.values()})
    sizes = sorted({cell.datasets for key, cell in cells.items() if key.method in report.family.methods})
    ours = {key: cell for key, cell in cells.items() if key.method in report.ours}
    words = ("covers", "noise only", "unclear", "BELOW", "no intervals")
    counts = {word: sum(cell.verdict == word for cell in ours.values()) for word in words}
    counts = {word: count for word, count in counts.items() if count or word in ("covers", "BELOW")}
    reference = report.family.reference
    lines = [
        f"# {report.title}",
        "",
        f"{dates[0]} to {dates[-1]}, dpstats {dpstats.__version__}, numpy {np.__version__}; delta = {DELTA:g}, "
        f"simulated noise; {sizes[0]} to {sizes[-1]} datasets a cell, {OUTSIDE} at most for other libraries; every "
        f"cell, with the spread of its figures and the seconds of a fit, is in `{report.script}.csv`.",
        "",
        f"    {command}",
        "",
        *(line for paragraph in report.about for line in (paragraph, "")),
    ]
    if missing:
        lines += [f"Could not be installed here, and was not run: {', '.join(missing)}.", ""]
    lines += [
        f"Entries are the squared error over that of {reference} on the same rows (coefficients weighed by their "
        "variances without privacy), then, where a method has intervals, [coverage] of 95% intervals over all "
        f"coefficients and the median width over that of {reference}. n: the output itself calls most coefficients "
        f"noise. *: covers less than {LEAST}, by more than two Monte Carlo standard errors, and does not say so. "
        "f: some datasets have no fit.",
        "",
        f"Of the {len(ours)} cells of {' and '.join(report.ours)}: "
        + "; ".join(f"{word} {count}" for word, count in counts.items())
        + f' ("covers": at least {LEAST}; "unclear": within two standard errors of it).',
        "",
        f"## Cells of ours below {LEAST}",
        "",
        "| method | design | d | n | eps | coverage | worst coefficient | of the identified | identified | "
        f"{reference} | verdict |",
        "|---" * 11 + "|",
    ]
    for key, cell in ours.items():
        if cell.coverage < LEAST:
            plain = cells.get(Key(key.design, key.d, key.n, reference, math.inf))
            lines.append(
                f"| {key.method} | {key.design} | {key.d} | {key.n:,} | {key.epsilon:g} "
                f"| {cell.coverage:.3f} ± {cell.coverage_se:.3f} | {cell.worst:.3f} | {number(cell.known)} "
                f"| {cell.identified:.2f} | {'' if plain is None else f'{plain.coverage:.3f}'} | {cell.verdict} |"
            )
    for n in sorted({key.n for key in cells}):
        lines += ["", f"## Side by side: n = {n:,}, d = {SHOWN[0]}, epsilon = {SHOWN[1]:g}", ""]
        lines += ["| design | " + " | ".join(report.methods[:-1]) + " |", "|---" * len(report.methods) + "|"]
        for name in report.designs:
            d = nearest(name)
            found = [cells.get(Key(name, d, n, method, SHOWN[1])) for method in report.methods[:-1]]
            label = name if d == SHOWN[0] else f"{name} (d = {d})"
            if any(found):
                lines.append(f"| {label} | " + " | ".join(map(short, found)) + " |")
    grid = [(n, epsilon) for n in SIZES for epsilon in EPSILONS]
    for method in dict.fromkeys(key.method for key in sorted(cells, key=lambda key: report.methods.index(key.method))):
        columns = [(n, math.inf) for n in SIZES] if method == reference else grid
        heads = [f"n = {n:,}" + ("" if math.isinf(eps) else f", eps {eps:g}") for n, eps in columns]
        lines += ["", f"## {method}", "", f"| design | d | {' | '.join(heads)} |"]
        lines += ["|---" * (len(columns) + 2) + "|"]
        for name in report.designs:
            for d in dimensions(name):
                found = [cells.get(Key(name, d, n, method, epsilon)) for n, epsilon in columns]
                if any(found):
                    lines.append(f"| {name} | {d} | " + " | ".join(map(short, found)) + " |")
    return "\n".join([*lines, ""])


def picture(report: Report, cells: dict[Key, Cell], path: Path) -> None:
    """Draw error, width and coverage against n, a column for each design."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    epsilon = SHOWN[1]
    rows = (
        ("error", f"squared error\nover {report.family.reference}'s"),
        ("width", f"width over\n{report.family.reference}'s"),
        ("coverage", "coverage\nof 95% intervals"),
    )
    figure, axes = plt.subplots(
        len(rows),
        len(report.designs),
        figsize=(2.15 * len(report.designs) + 2.6, 7.2),
        sharex=True,
        sharey="row",
        squeeze=False,
    )
    for column, name in enumerate(report.designs):
        d = nearest(name)
        for index, method in enumerate(report.methods[:-1]):
            found = [cells.get(Key(name, d, n, method, epsilon)) for n in SIZES]
            style = "-" if method in report.ours else "--"
            color = plt.get_cmap("tab10")(index)
            for row, (quantity, _) in enumerate(rows):
                values = [math.nan if cell is None else getattr(cell, quantity) for cell in found]
                axis = axes[row, column]
                axis.plot(SIZES, values, style, marker="o", ms=3, color=color, label=method)
                # Hollow where the output itself calls most coefficients noise.
                hollow = [
                    (n, v) for n, v, c in zip(SIZES, values, found, strict=True) if c is not None and c.noise_only
                ]
                axis.plot(*zip(*hollow, strict=True), "o", ms=6, mfc="none", color=color) if hollow else None
        axes[0, column].set_title(f"{name}\nd = {d}".replace(", ", ",\n", 1), fontsize=8)
    for row, (quantity, label) in enumerate(rows):
        for axis in axes[row]:
            axis.set(xscale="log", yscale="linear" if quantity == "coverage" else "log")
            axis.set_xticks(SIZES, [f"{n:,}" for n in SIZES], fontsize=7, rotation=30)
            axis.minorticks_off()
            axis.grid(alpha=0.3)
            axis.axhline(0.95 if quantity == "coverage" else 1, color="black", lw=0.7)
        axes[row, 0].set_ylabel(label)
        if quantity == "coverage":
            axes[row, 0].set_ylim(0, 1.02)
        else:
            axes[row, 0].set_ylim(0.5, {"error": 3000, "width": 100}[quantity])
    figure.supxlabel("n")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="center right", fontsize=8, title=f"epsilon = {epsilon:g}\nringed: noise, says the output"
    )
    figure.tight_layout(rect=(0.01, 0, 1 - 2.5 / (2.15 * len(report.designs) + 2.6), 1))
    figure.savefig(path, dpi=110)
    plt.close(figure)


def merged(cells: dict[Key, Cell], found: dict[Key, Cell]) -> dict[Key, Cell]:
    """Return cells with those found; a reference is kept if it has more datasets."""
    kept = {
        key for key in found if math.isinf(key.epsilon) and key in cells and cells[key].datasets > found[key].datasets
    }
    return cells | {key: cell for key, cell in found.items() if key not in kept}


def chosen(words: Sequence[str], report: Report) -> dict[str, Any]:
    """Return what the words of ``--only`` name: sizes such as 2000x3, parts of designs' or of methods' names."""
    sizes = [word.split("x") for word in words if word.replace("x", "").isdigit() and word.count("x") == 1]
    names = [word for word in words if word.split("x") not in sizes]
    designs = [name for name in report.designs if any(word in name for word in names)]
    methods = [method for method in report.methods if any(word in method for word in names)]
    for word in names:
        if not any(word in name for name in (*report.designs, *report.methods)):
            raise SystemExit(f"--only: {word!r} is no size, and no part of a name of a design or a method")
    return {
        "designs": designs or list(report.designs),
        "methods": methods or list(report.methods),
        "sizes": [(int(n), int(d)) for n, d in sizes] or None,
    }


def run(report: Report, description: str) -> None:
    """Run a study from the command line."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--replications", type=int, default=200, help="datasets of a cell; fewer where n or d is large")
    parser.add_argument("--only", nargs="*", default=[], help="parts of designs' or methods' names; sizes as 2000x10")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--resume", action="store_true", help="only cells that the results lack")
    parser.add_argument("--no-libraries", action="store_true", help="without diffprivlib and what is like it")
    parser.add_argument("--no-write", action="store_true")
    parser.add_argument("--fast", action="store_true", help="a part of it, nothing written")
    options = parser.parse_args()
    table, store = RESULTS / f"{report.script}.md", RESULTS / f"{report.script}.csv"
    write = not (options.no_write or options.fast)
    asked = chosen(options.only, report) | (FAST if options.fast else {"replications": options.replications})
    python, missing = None, []
    if not (options.fast or options.no_libraries) and set(asked["methods"]) & set(report.family.outside):
        python, missing = libraries()
    cells = read_cells(store) if write else {}
    start = time.perf_counter()
    designs = asked.pop("designs")
    known = cells if options.resume else ()
    for found in study(
        report.family, designs, seed=options.seed, jobs=options.jobs, known=known, python=python, **asked
    ):
        cells = in_order(merged(cells, found), report.designs, report.methods)
        if write:
            write_cells(cells, store, report.script)
        key = next(iter(found))
        print(
            f"{time.perf_counter() - start:6.0f} s  {key.design}, d = {key.d}, n = {key.n}: {len(found)} cells",
            file=sys.stderr,
            flush=True,
        )
    command = f"python validation/studies/{report.script}.py --replications {options.replications}"
    command += " --no-libraries" if options.no_libraries else ""
    text = as_markdown(report, cells, command, missing)
    print(text)
    if write:
        table.write_text(text, encoding="utf-8")
        picture(report, cells, RESULTS / f"{report.script}.png")


def libraries() -> tuple[Path | None, list[str]]:
    """Return the interpreter of the libraries' environment, and what it lacks."""
    from environment import SOURCES, prepare_regression

    try:
        return prepare_regression()
    except (OSError, subprocess.CalledProcessError):
        return None, ["diffprivlib", *SOURCES]


def slow_libraries() -> str:
    """Return in words which libraries are left out of large cells."""
    return "; ".join(f"{name} where n d is above {most:,} (from half a minute a fit)" for name, most in SLOW.items())
