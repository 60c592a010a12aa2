"""Level and power of `HotellingTest`, beside Hotelling's test without noise.

Rows are made of a pool with a known mean. The shift of the alternative has the noncentrality at which the test without
noise has power 0.9 on normal rows. In a second sample, 30% of the rows are shifted.

    python validation/studies/hotelling.py
    python validation/studies/hotelling.py --replications 20 --no-write
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import f, ncf

import dpstats
from dpstats.covariance import HotellingTest

RESULTS = Path(__file__).resolve().parents[1] / "results" / "hotelling.md"
POOL, SHARE, LEVEL = 40_000, 0.3, 0.05
Rows = NDArray[np.float64]
CELLS = [
    ("normal, AR(0.7)", 5000, 10, 1.0),
    ("exponential", 5000, 10, 1.0),
    ("normal, AR(0.7)", 2000, 5, 1.0),
    ("lognormal", 2000, 5, 1.0),
    ("exponential", 100, 3, 0.05),
    ("exponential", 60, 3, 1e5),
]


class Planned(HotellingTest):
    """The test with a plan that is made once: it is public, and takes longer than a fit."""

    def plan(self, n_samples: int, n_features: int) -> object:  # type: ignore[override]
        return self.made


def pool(law: str, d: int, rng: np.random.Generator) -> Rows:
    """Return rows of a distribution with mean 0."""
    base = 0.7 if law.startswith("normal") else 0.5
    mixing = np.linalg.cholesky(base ** np.abs(np.subtract.outer(range(d), range(d))))
    Z = rng.normal(size=(POOL, d)) @ mixing.T
    X = {"exponential": -np.log(rng.random(Z.shape)) + 0.3 * Z, "lognormal": np.exp(0.8 * Z)}.get(law, Z)
    return np.asarray(X - X.mean(axis=0))


def cell(law: str, n: int, d: int, epsilon: float, replications: int, rng: np.random.Generator) -> list[str]:
    """Return the lines of one cell: a level and a power for each kind of test."""
    P = pool(law, d, rng)
    size = brentq(lambda c: ncf.sf(f.ppf(1 - LEVEL, d, n - d), d, n - d, c) - 0.9, 1, 2000)
    root, std = np.linalg.cholesky(np.cov(P.T)), P.std(axis=0)
    bounds = np.column_stack([np.minimum(P.min(axis=0), -5 * std), np.maximum(P.max(axis=0), 5 * std)])
    lines = []
    for samples, assume in ((1, "symmetric"), (1, "mean"), (2, "symmetric"), (2, "mean")):
        options = {"bounds": bounds, "assume": assume, "epsilon": epsilon}
        if samples == 2:
            options["groups"] = [False, True]
        Planned.made = HotellingTest(**options).plan(n, d)  # type: ignore[attr-defined]
        rejected = np.zeros((replications, 2))
        for k in range(replications):
            X = P[rng.integers(POOL, size=n)]
            if samples == 1 and assume == "symmetric":
                X = X * rng.choice([-1.0, 1.0], size=(n, 1))
            direction = rng.normal(size=d)
            shift = root @ direction / np.linalg.norm(direction) * np.sqrt(size / n)
            y = rng.random(n) < SHARE if samples == 2 else None
            moved = X + shift if y is None else X + np.outer(y, shift) / np.sqrt(SHARE * (1 - SHARE))
            for place, rows in enumerate((X, moved)):
                rejected[k, place] = Planned(**options, random_state=k).fit(rows, y).pvalue_ <= LEVEL
        level, power = rejected.mean(axis=0)
        lines.append(f"| {law} | {n:,} | {d} | {epsilon:g} | {samples} | {assume} | {level:.3f} | {power:.3f} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=200)
    parser.add_argument("--no-write", action="store_true")
    options = parser.parse_args()
    rng = np.random.default_rng(2026)
    rows = [line for one in CELLS for line in cell(*one, options.replications, rng)]
    error = np.sqrt(LEVEL * (1 - LEVEL) / options.replications)
    text = "\n".join(
        [
            "# Level and power of HotellingTest",
            "",
            f"{datetime.now(UTC):%Y-%m-%d}, dpstats {dpstats.__version__}, numpy {np.__version__}; simulated noise.",
            "",
            f"    python validation/studies/hotelling.py --replications {options.replications}",
            "",
            f"Level 0.05, with a Monte Carlo standard error of {error:.3f}. At the shift of the alternative "
            "Hotelling's test without noise has power 0.9 on normal rows. Rows of one sample are made "
            "symmetric for the assumption.",
            "",
            "| rows | n | d | epsilon | samples | assume | level | power |",
            "|---|---|---|---|---|---|---|---|",
            *rows,
            "",
        ]
    )
    print(text)
    if not options.no_write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
