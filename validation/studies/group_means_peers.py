"""Means of groups beside intervals made by hand from releases of OpenDP and diffprivlib, at epsilon for a row replaced.

What others have are counts, sums and means; a user makes intervals of these. Two ways are usual: the standard deviation
that was released over the root of the count that was released, as if neither had noise ("plugged in"), and the same
with the noise of the mean beside it ("with noise"). Epsilon is halved, for a row that goes from one group to another is
in both, and divided by three, for count, mean (sum) and spread (squares).

    python validation/studies/group_means_peers.py
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from group_means import LAWS, Law, Z, exact_totals, released, sizes_of

VALIDATION = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(VALIDATION / "peers"))
from environment import run_in_peers  # noqa: E402

import dpstats  # noqa: E402
from dpstats.groups import GroupMeans  # noqa: E402

RESULTS = VALIDATION / "results" / "group_means_peers.md"
K, SHAPE, SIZES, EPSILON, RUNS = 8, "1/k", (500, 5000), 1.0, 300

Numbers = np.ndarray


class Ends(NamedTuple):
    """Ends of intervals, of shape (runs, groups), in the units of the data; NaN where none could be made."""

    low: Numbers
    high: Numbers


def ours(law: Law, sizes: Numbers, delta: float, rng: np.random.Generator) -> Ends:
    """Return the intervals of `GroupMeans`."""
    low, high = law.bounds
    sums, squares = exact_totals(law, sizes, RUNS, rng)
    plan = GroupMeans(groups=range(len(sizes)), bounds=law.bounds, epsilon=EPSILON, delta=delta).plan(
        int(sizes.sum()), 1
    )
    ends = released(plan, sizes, sums, squares, rng).ends(np.array(Z))
    return Ends(*((low + high) / 2 + (high - low) / 2 * end[..., 0] for end in ends))


def plugged_in(count: Numbers, mean: Numbers, std: Numbers, noise: Any) -> Ends:
    """Return mean +- 1.96 standard errors by hand, with the noise of the mean where it is given."""
    with np.errstate(invalid="ignore", divide="ignore"):
        half = Z * np.sqrt(std**2 / count + np.asarray(noise) ** 2)
    return Ends(mean - half, mean + half)


def of_diffprivlib(name: str, law: Law, sizes: Numbers) -> dict[str, Ends]:
    """Return the intervals by hand from diffprivlib's count, mean and standard deviation of each group."""
    low, high = law.bounds
    task = json.dumps([name, sizes.tolist(), low, high, EPSILON, RUNS, 1])
    found = np.array(run_in_peers(VALIDATION / "peers" / "diffprivlib_groups.py", task))
    count, mean, std = np.moveaxis(found, -1, 0)
    noise = np.sqrt(2) * (high - low) / np.maximum(count, 1) / (EPSILON / 6)
    return {"plugged in": plugged_in(count, mean, std, 0.0), "with noise": plugged_in(count, mean, std, noise)}


def of_opendp(law: Law, sizes: Numbers, rng: np.random.Generator) -> dict[str, Ends]:
    """Return the intervals by hand from OpenDP's noisy counts, sums and sums of squares of each group."""
    import opendp.domains as domains
    import opendp.measurements as measurements
    import opendp.metrics as metrics
    from opendp.mod import enable_features

    enable_features("contrib")

    low, high = law.bounds
    size, each = max(abs(low), abs(high)), EPSILON / 6
    space = domains.atom_domain(T=float, nan=False), metrics.absolute_distance(T=float)
    # A row that is added or removed moves them by this.
    scales = {1: 1 / each, 2: size / each, 3: size**2 / each}
    noisy = {k: measurements.make_laplace(*space, scale=scale) for k, scale in scales.items()}
    drawn = np.empty((3, RUNS, len(sizes)))
    for run in range(RUNS):
        for k, n in enumerate(sizes):
            rows = np.clip(law.draw(rng, (n,)), low, high)
            for i, exact in enumerate((float(n), float(rows.sum()), float((rows**2).sum()))):
                drawn[i, run, k] = noisy[i + 1](exact)
    count, total, squares = drawn
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = total / count
        std = np.sqrt(np.maximum(squares / count - mean**2, 0.0))
        noise = np.sqrt(2) * scales[2] / np.abs(count)
    return {"plugged in": plugged_in(count, mean, std, 0.0), "with noise": plugged_in(count, mean, std, noise)}


def study() -> list[tuple[str, int, str, Numbers, Numbers]]:
    """Return for every law, size and way the coverage, and the median width over that without privacy, by group."""
    rows = []
    for name, law in LAWS.items():
        for n in SIZES:
            sizes, rng = sizes_of(K, SHAPE, n), np.random.default_rng(n)
            made = {
                "`GroupMeans`, δ = 1e-6": ours(law, sizes, 1e-6, rng),
                "`GroupMeans`, δ = 0": ours(law, sizes, 0.0, rng),
                **{f"OpenDP by hand, {way}": ends for way, ends in of_opendp(law, sizes, rng).items()},
                **{f"diffprivlib by hand, {way}": ends for way, ends in of_diffprivlib(name, law, sizes).items()},
            }
            plain = 2 * Z * law.std / np.sqrt(sizes)
            low, high = law.bounds
            for way, ends in made.items():
                covered = ((ends.low <= law.mean) & (law.mean <= ends.high)).mean(axis=0)
                # Cut to the bounds, as any user would.
                width = np.clip(ends.high, low, high) - np.clip(ends.low, low, high)
                rows.append((name, n, way, covered, np.nanmedian(width, axis=0) / plain))
    return rows


def as_markdown(rows: list[tuple[str, int, str, Numbers, Numbers]]) -> str:
    """Return the report."""
    lines = [
        "# Means of groups beside intervals made by hand",
        "",
        f"{time.strftime('%Y-%m-%d')}, dpstats {dpstats.__version__}; {K} groups of sizes in proportion to 1/k, ε = "
        f"{EPSILON:g} for a row replaced, {RUNS} runs. Coverage of 95% intervals over all groups, of the group covered "
        "least and of the smallest; median widths over those without privacy, cut to the bounds.",
        "",
        f"    python validation/studies/{' '.join([Path(sys.argv[0]).name, *sys.argv[1:]])}",
        "",
        "| rows | n | intervals | coverage | least | smallest | width, largest group | smallest |",
        "|---" * 8 + "|",
    ]
    for law, n, way, covered, widths in rows:
        lines.append(
            f"| {law} | {n:,} | {way} | {covered.mean():.3f} | {covered.min():.3f} | {covered[-1]:.3f} | "
            f"{widths[0]:.2f} | {widths[-1]:.3g} |"
        )
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-write", action="store_true")
    given = parser.parse_args()
    report = as_markdown(study())
    print(report)
    if not given.no_write:
        RESULTS.write_text(report, encoding="utf-8")


if __name__ == "__main__":
    main()
