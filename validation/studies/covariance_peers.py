"""Correlations and components beside CoinPress, Analyze Gauss, diffprivlib and OpenDP, at equal epsilon.

Rows are normal with mean 0. CoinPress and Analyze Gauss are written from their papers, with the mean and a bound on
the eigenvalues, or the radius that holds 99% of the rows, as public knowledge. diffprivlib and OpenDP get that radius
and the mean. dpstats gets bounds of +-20 standard deviations, which hold any row, and finds the rest in the data.

    python validation/studies/covariance_peers.py --replications 20
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

import dpstats
from dpstats.covariance import PrivateCorrelation, PrivatePCA
from dpstats.privacy import gaussian_sigma

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "peers"))
from coinpress import analyze_gauss, coinpress_covariance
from environment import prepare, run_in_peers

FOLDER = Path(__file__).resolve().parents[1]
RESULTS = FOLDER / "results" / "covariance_peers.md"
DELTA, COMPONENTS = 1e-6, 3
LIBRARY_RUNS = 5
"""Datasets for diffprivlib and OpenDP, whose components take up to a minute."""
LIBRARY_COLUMNS = 10
"""Most columns for these libraries: with 20 their samplers take many minutes."""
CELLS = [(10_000, 10, 1.0), (20_000, 20, 1.0), (20_000, 20, 0.2)]
Floats = NDArray[np.float64]


def rotated(values: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return random directions, and a root of the covariance matrix with these eigenvalues along them."""
    directions, _ = np.linalg.qr(rng.normal(size=(len(values), len(values))))
    return directions, directions * np.sqrt(values)


def correlation(covariance: Floats) -> Floats:
    """Return the correlations of a matrix; noise can give it variances that are not positive."""
    std = np.sqrt(np.maximum(np.diagonal(covariance), 1e-12))
    return np.clip(covariance / np.outer(std, std), -1, 1)


def correlations(n: int, d: int, epsilon: float, condition: float, runs: int) -> list[str]:
    """Return the root mean squared errors of all correlations, in those of the sample."""
    rng = np.random.default_rng([2026, n, d, int(condition)])
    values = np.logspace(0, -np.log10(condition), d)
    _, root = rotated(values, rng)
    truth, std = correlation(root @ root.T), np.sqrt((root**2).sum(axis=1))
    noise, radius = gaussian_sigma(epsilon, DELTA), float(np.sqrt(chi2.ppf(0.99, d) * values.mean()))
    bounds = np.column_stack([-20 * std, 20 * std])
    pairs, errors = np.triu_indices(d, 1), {}
    for seed in range(runs):
        X = rng.normal(size=(n, d)) @ root.T
        made = PrivateCorrelation(method="pearson", bounds=bounds, epsilon=epsilon, delta=DELTA, random_state=seed)
        found = {
            "sample": np.corrcoef(X.T),
            "PrivateCorrelation": np.asarray(made.fit(X).correlation_),
            "CoinPress": correlation(coinpress_covariance(X, 1.0, epsilon, DELTA, rng)),
            "CoinPress, bound x 100": correlation(coinpress_covariance(X, 100.0, epsilon, DELTA, rng)),
            "Analyze Gauss": correlation(analyze_gauss(X, radius, noise, rng)),
        }
        for name, one in found.items():
            errors.setdefault(name, []).append(float(((one - truth)[pairs] ** 2).mean()))
    root_mean = {name: float(np.sqrt(np.mean(several))) for name, several in errors.items()}
    shown = " | ".join(f"{value / root_mean['sample']:.2f}" for value in root_mean.values())
    return [f"| {n:,} | {d} | {epsilon:g} | {condition:g} | {shown} |"]


def sine(found: Any, true: Floats) -> float:
    """Return the distance of two subspaces: the root of the sum of the squared sines of their angles."""
    orthonormal, _ = np.linalg.qr(np.asarray(found, dtype=float).T)
    cosines = np.linalg.svd(orthonormal.T @ true, compute_uv=False)
    return float(np.sqrt(max(0.0, true.shape[1] - np.sum(cosines**2))))


def components(n: int, d: int, epsilon: float, runs: int, python: Path) -> list[str]:
    """Return mean distances of three components from those of the population."""
    rng = np.random.default_rng([2026, n, d])
    values = np.r_[10.0, 5.0, 2.5, np.ones(d - COMPONENTS)]
    directions, root = rotated(values, rng)
    true, std = directions[:, :COMPONENTS], np.sqrt((root**2).sum(axis=1))
    noise, radius = gaussian_sigma(epsilon, DELTA), float(np.sqrt(chi2.ppf(0.99, d) * values.mean()))
    rows = rng.normal(size=(runs, n, d)) @ root.T
    with tempfile.TemporaryDirectory() as folder:
        np.savez(
            source := Path(folder) / "rows.npz",
            rows=rows[:LIBRARY_RUNS],
            radius=radius,
            epsilon=epsilon,
            components=COMPONENTS,
        )
        others: dict[str, Any] = {"diffprivlib": [], "OpenDP": []}
        if d <= LIBRARY_COLUMNS:
            others = run_in_peers(FOLDER / "peers" / "pca_libraries.py", str(source), python=python)

    def leading(covariance: Floats) -> Floats:
        return np.linalg.eigh(covariance)[1][:, ::-1][:, :COMPONENTS].T

    def ours(X: Floats, seed: int) -> Floats:
        made = PrivatePCA(
            n_components=COMPONENTS,
            bounds=np.column_stack([-20 * std, 20 * std]),
            epsilon=epsilon,
            delta=DELTA,
            random_state=seed,
        )
        return np.asarray(made.fit(X).components_)

    wide = 5 * float(np.linalg.norm(std))
    found = {
        "sample": [leading(np.cov(X.T)) for X in rows],
        "PrivatePCA": [ours(X, seed) for seed, X in enumerate(rows)],
        "Analyze Gauss": [leading(analyze_gauss(X, radius, noise, rng)) for X in rows],
        "Analyze Gauss, in bounds of 5": [leading(analyze_gauss(X, wide, noise, rng)) for X in rows],
        **others,
    }
    shown = " | ".join(
        f"{np.mean([sine(one, true) for one in several]):.3f}" if several else "–" for several in found.values()
    )
    return [f"| {n:,} | {d} | {epsilon:g} | {shown} |"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=20)
    parser.add_argument("--no-write", action="store_true")
    options = parser.parse_args()
    python = prepare("opendp[scikit-learn]==0.16.0")
    first = [
        line
        for n, d, epsilon in CELLS
        for condition in (1.0, 100.0, 1e4)
        for line in correlations(n, d, epsilon, condition, options.replications)
    ]
    second = [line for cell in CELLS for line in components(*cell, options.replications, python)]
    text = "\n".join(
        [
            "# Correlations and components beside other methods",
            "",
            f"{time.strftime('%Y-%m-%d')}, `python validation/studies/covariance_peers.py --replications "
            f"{options.replications}`, dpstats {dpstats.__version__}, OpenDP 0.16.0; simulated noise of ours; "
            "delta = 1e-6 (0 for diffprivlib and OpenDP, whose guarantee is pure).",
            "",
            (__doc__ or "").split("\n\n")[1].replace("\n", " ").replace("+-", "±"),
            "",
            "Root mean squared error of all correlations, over the sample's. The condition is the ratio of the largest "
            "to the smallest eigenvalue of the covariance.",
            "",
            "| n | d | ε | condition | sample | PrivateCorrelation | CoinPress | CoinPress, bound × 100 "
            "| Analyze Gauss |",
            "|---|---|---|---|---|---|---|---|---|",
            *first,
            "",
            "Mean distance (root of the sum of squared sines) of the first three components from the population's; "
            "eigenvalues 10, 5, 2.5 and 1. The largest possible distance is 1.73. "
            f"The last two columns are of {LIBRARY_RUNS} datasets.",
            "",
            "| n | d | ε | sample | PrivatePCA | Analyze Gauss | Analyze Gauss, in bounds of 5 sd | diffprivlib "
            "| OpenDP |",
            "|---|---|---|---|---|---|---|---|---|",
            *second,
            "",
        ]
    )
    print(text)
    if not options.no_write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
