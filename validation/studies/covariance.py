"""Goals for correlations, components, tests of mean vectors, and a mean that releases the covariance first.

Each cell has one number beside its goal. Widths are ratios to the width without privacy noise.

    python validation/studies/covariance.py
    python validation/studies/covariance.py --scale 0.1 --no-write
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import f, kendalltau, ncf, norm

import dpstats
from dpstats.covariance import HotellingTest, PrivateCorrelation, PrivateCovariance, PrivatePCA
from dpstats.errors import InvalidParameter
from dpstats.means import AdaptiveMean
from dpstats.means.adaptive_radii import stage_curves
from dpstats.privacy.gaussian import gaussian_sigma

RESULTS = Path(__file__).resolve().parents[1] / "results" / "covariance.md"
POOL, LEVEL, NORMAL = 40_000, 0.05, 1.959964
Rows = NDArray[np.float64]
Cell = tuple[str, str, str, str]
"""What was measured, the number, the goal, and whether it is met."""


def planned(kind: type, n: int, d: int, **options: Any) -> Any:
    """Return a class whose plan is made once: it is public, and takes longer than a fit."""
    plan = kind(**options).plan(n, d)
    made: Any = type(kind.__name__, (kind,), {"plan": lambda self, n_samples, n_features: plan})
    return made


def matrix_of(kind: str, d: int) -> Rows:
    """Return a correlation matrix: AR(r) has r^|i - j|, equal(r) has r everywhere."""
    base = float(kind.partition("(")[2].rstrip(")"))
    if kind.startswith("AR"):
        return np.asarray(base ** np.abs(np.subtract.outer(range(d), range(d))))
    return base + (1 - base) * np.eye(d)


def normal_rows(n: int, d: int, kind: str, rng: np.random.Generator) -> Rows:
    """Return normal rows of variance 1 with the correlations of ``matrix_of``."""
    return np.asarray(rng.normal(size=(n, d)) @ np.linalg.cholesky(matrix_of(kind, d)).T)


def pool(kind: str, d: int, rng: np.random.Generator) -> Rows:
    """Return a pool of rows that stands for a population."""
    Z = normal_rows(POOL, d, "AR(0.7)" if kind == "normal, AR(0.7)" else "AR(0.5)", rng)
    if kind == "exponential":
        return np.asarray(np.minimum(-np.log(rng.random(Z.shape)) + 0.3 * Z, 8.0))
    if kind == "heavy-tailed":
        return np.asarray(np.clip(Z / np.sqrt(rng.chisquare(4, size=(POOL, 1)) / 4), -8, 8))
    if kind == "binary":
        # Rates from 5% to 60%.
        return (norm.ppf(np.linspace(0.05, 0.6, d)) > Z).astype(float)
    if kind.startswith("RAND"):
        from statsmodels.datasets import randhie

        if kind == "RAND, first columns":
            return np.asarray(randhie.load_pandas().data.to_numpy(float)[:, :d])
        columns = ["mdvis", "disea", "lncoins", "xage", "linc", "lfam", "educdec", "idp", "physlm", "black"]
        data = randhie.load_pandas().data
        return data[[name for name in columns if name in data][:d]].to_numpy(float)
    return Z


def turned(d: int, sizes: Rows, rng: np.random.Generator) -> Rows:
    """Return a matrix that gives normal rows the eigenvalues ``sizes`` in a random basis."""
    basis, _ = np.linalg.qr(rng.normal(size=(d, d)))
    return np.asarray(basis * np.sqrt(sizes))


def judge(name: str, value: float, least: float | None, most: float | None) -> Cell:
    """Return a cell: a number and its goal."""
    parts = ([] if least is None else [f"≥ {least:g}"]) + ([] if most is None else [f"≤ {most:g}"])
    met = (least is None or value >= least) and (most is None or value <= most)
    return name, f"{value:.3f}", " and ".join(parts) or "none", "yes" if met else "**no**"


# Correlations

CORRELATIONS = [
    ("normal, AR(0.7)", 10_000, 10, 4.0, None),
    ("normal, AR(0.7)", 20_000, 20, 4.0, None),
    ("exponential", 10_000, 10, 8.0, None),
    ("heavy-tailed", 10_000, 10, 8.0, None),
    ("binary", 10_000, 10, 1.0, 1.36),
    ("RAND, first columns", 20_000, 5, None, 1.39),
    ("RAND", 20_000, 5, None, None),
]


def correlations(scale: float, rng: np.random.Generator) -> Iterator[Cell]:
    """Yield coverage and width of Pearson's correlations of clipped rows."""
    for kind, n, d, reach, goal in CORRELATIONS:
        P = pool(kind, d, rng)
        d = P.shape[1]
        ends = np.column_stack([P.min(axis=0), P.max(axis=0)])
        bounds = ends if reach is None else [(0, 1) if kind == "binary" else (-reach, reach)] * d
        truth = np.corrcoef(np.clip(P, *np.array(bounds, dtype=float).T).T)[np.triu_indices(d, 1)]
        made = planned(PrivateCovariance, n, d, bounds=bounds)
        hit, width, unknown = [], [], []
        for k in range(max(int(40 * scale), 3)):
            X = P[rng.integers(len(P), size=n)]
            found = made(bounds=bounds, random_state=k).fit(X).correlation()
            low, high = found.confidence_interval()
            known = np.isfinite(found.error)
            hit.append(np.mean((low <= truth) & (truth <= high)))
            width.append(np.where(known, fisher_width(low, high, n), np.nan))
            unknown.append(np.mean(~known))
        name = f"Pearson, {kind}, {n:,} × {d}"
        yield judge(f"{name}: coverage", float(np.mean(hit)), 0.93, None)
        yield judge(f"{name}: not identified", float(np.mean(unknown)), None, None)
        seen = np.array(width)[:, ~np.all(np.isnan(width), axis=0)]
        if seen.size:
            typical = float(np.median(np.nanmedian(seen, axis=0)))
            yield judge(f"{name}: width where identified", typical, None, goal)


def fisher_width(low: Rows, high: Rows, n: int) -> Rows:
    """Return the widths of intervals of correlations over that of Fisher's interval, on his scale."""
    ends = [np.arctanh(np.clip(end, -0.9999, 0.9999)) for end in (low, high)]
    return np.asarray((ends[1] - ends[0]) / (2 * NORMAL / np.sqrt(n - 3)))


ELLIPTICAL = [
    ("AR(0.7)", 10_000, 10, 4.0, 1.25),
    ("AR(0.7)", 10_000, 10, 40.0, 1.25),
    ("AR(0)", 10_000, 10, 4.0, 1.30),
    ("AR(0.95)", 10_000, 10, 4.0, 1.30),
    ("equal(0.3)", 10_000, 10, 4.0, 1.30),
    ("equal(0.9)", 10_000, 10, 4.0, 1.30),
    ("AR(0.7)", 20_000, 20, 4.0, 1.32),
    ("AR(0.7)", 100_000, 10, 4.0, 1.06),
    ("AR(0.7)", 2_000, 5, 4.0, None),
]


def shrunk_correlations(scale: float, rng: np.random.Generator) -> Iterator[Cell]:
    """Yield coverage and width of Pearson's correlations of shrunk rows, for both estimands."""
    for matrix, n, d, reach, goal in ELLIPTICAL:
        truth = matrix_of(matrix, d)[np.triu_indices(d, 1)]
        bounds = [(-reach, reach)] * d
        made = planned(PrivateCorrelation, n, d, method="pearson", bounds=bounds)
        hit, widths = [], []
        for k in range(max(int(40 * scale), 3)):
            # Fresh rows: the correlations of a pool are not those of the population.
            X = normal_rows(n, d, matrix, rng)
            model = made(method="pearson", bounds=bounds, random_state=k).fit(X)
            low, high = model.confidence_interval(estimand="population")
            hit.append(np.mean((low <= truth) & (truth <= high)))
            ends = [(low, high), model.confidence_interval()]
            widths.append([np.median((b - a) / (2 * NORMAL * (1 - truth**2) / np.sqrt(n))) for a, b in ends])
        name = f"Pearson of shrunk rows, normal, {matrix}, {n:,} × {d}, bounds ±{reach:g}"
        yield judge(f"{name}: coverage of the population", float(np.mean(hit)), 0.93, None)
        for words, width in zip(("population", "clipped"), np.median(widths, axis=0), strict=True):
            yield judge(f"{name}: width, {words}", float(width), None, goal)
    for kind, n, d, reach in (
        ("exponential", 10_000, 10, 8.0),
        ("heavy-tailed", 10_000, 10, 8.0),
        ("binary", 10_000, 10, 1.0),
        ("RAND", 10_000, 10, None),
    ):
        P = pool(kind, d, rng)
        d = P.shape[1]
        bounds = np.column_stack([P.min(axis=0), P.max(axis=0)]) if reach is None else [(-reach, reach)] * d
        truth = np.corrcoef(P.T)[np.triu_indices(d, 1)]
        made = planned(PrivateCorrelation, n, d, method="pearson", bounds=bounds)
        hit, read = [], []
        for k in range(max(int(40 * scale), 3)):
            model = made(method="pearson", bounds=bounds, random_state=k).fit(P[rng.integers(len(P), size=n)])
            found = model._found
            white = found.ellipsoid.white_rows((P - found.frame.center) / found.frame.half, found.radius)
            white /= np.maximum(np.linalg.norm(white, axis=1), 1.0)[:, None]
            shrunk = np.corrcoef(found.units @ white.T)[np.triu_indices(d, 1)]
            low, high = model.confidence_interval()
            hit.append(np.mean((low <= shrunk) & (shrunk <= high)))
            low, high = model.confidence_interval(estimand="population")
            read.append(np.mean((low <= truth) & (truth <= high)))
        name = f"Pearson of shrunk rows, {kind}, {n:,} × {d}"
        yield judge(f"{name}: coverage of shrunk rows", float(np.mean(hit)), 0.93, None)
        yield judge(f"{name}: the same read as the population's", float(np.mean(read)), None, None)


NOISE_ONLY = [(300, 10, 1.0), (2000, 20, 0.1), (100, 4, 0.5)]


def noise_only(scale: float, rng: np.random.Generator) -> Iterator[Cell]:
    """Yield coverage of all correlations together where noise is most of what is released."""
    for n, d, epsilon in NOISE_ONLY:
        truth = matrix_of("AR(0.7)", d)[np.triu_indices(d, 1)]
        options: dict[str, Any] = {"bounds": (-4, 4), "epsilon": epsilon}
        for words, kind, more in (
            ("Pearson", PrivateCovariance, {}),
            ("Pearson of shrunk rows", PrivateCorrelation, {"method": "pearson"}),
        ):
            made = planned(kind, n, d, **options, **more)
            hit, unknown = [], []
            for k in range(max(int(150 * scale), 3)):
                fit = made(**options, **more, random_state=k).fit(normal_rows(n, d, "AR(0.7)", rng))
                found = fit.correlation() if kind is PrivateCovariance else fit.estimates(estimand="population")
                low, high = found.confidence_interval(simultaneous=True)
                hit.append(np.all((low <= truth) & (truth <= high)))
                unknown.append(np.mean(~np.isfinite(found.error)))
            name = f"{words}, normal, AR(0.7), {n:,} × {d}, ε = {epsilon:g}"
            yield judge(f"{name}: coverage of all pairs together", float(np.mean(hit)), 0.93, None)
            yield judge(f"{name}: not identified", float(np.mean(unknown)), None, None)


def kendall(scale: float, rng: np.random.Generator) -> Iterator[Cell]:
    """Yield coverage of Kendall's tau."""
    for kind, n, d in (("normal, AR(0.7)", 5000, 4), ("heavy-tailed", 5000, 4), ("binary", 5000, 4)):
        P = pool(kind, d, rng)
        pairs = list(zip(*np.triu_indices(d, 1), strict=True))
        truth = np.mean([pairwise_signs(P, pairs, rng) for _ in range(25)], axis=0)
        made = planned(PrivateCorrelation, n, d)
        hit = []
        for k in range(max(int(25 * scale), 3)):
            X = P[rng.integers(len(P), size=n)]
            low, high = made(random_state=k).fit(X).confidence_interval()
            hit.append(np.mean((low <= truth) & (truth <= high)))
        yield judge(f"Kendall, {kind}, {n:,} × {d}: coverage", float(np.mean(hit)), 0.93, None)
    x = normal_rows(300, 2, "AR(0.5)", rng)
    exact = kendalltau(*x.T).statistic
    close = PrivateCorrelation(epsilon=1e4, random_state=0).fit(x).estimate_
    yield judge("Kendall, no noise: difference from scipy", float(np.max(np.abs(close - exact))), None, 0.001)


def pairwise_signs(P: Rows, pairs: list[tuple[int, int]], rng: np.random.Generator) -> Rows:
    """Return Kendall's tau of random pairs of rows."""
    some = P[rng.permutation(len(P))]
    first, second = some[::2], some[1::2]
    return np.array([np.mean(np.sign(np.prod(first[:, p] - second[:, p], axis=1))) for p in pairs])


# Components

SPECTRA: list[tuple[str, Callable[[int], Rows]]] = [
    ("10, 5, 2.5, 1, …", lambda d: np.r_[10.0, 5.0, 2.5, np.ones(d - 3)]),
    ("10/k", lambda d: 10 / np.arange(1.0, d + 1)),
    ("4, 3.9, 3.8, 1, …", lambda d: np.r_[4.0, 3.9, 3.8, np.ones(d - 3)]),
    ("all equal", np.ones),
]


def components(scale: float, rng: np.random.Generator) -> Iterator[Cell]:
    """Yield coverage and width of eigenvalues, and the angles of components."""
    for (words, spectrum), (n, d, goal) in [(s, c) for s in SPECTRA for c in ((10_000, 10, 1.7), (20_000, 20, 1.7))]:
        sizes = spectrum(d)
        A = turned(d, sizes, rng)
        std = np.sqrt((A**2).sum(axis=1))
        options = {"n_components": 3, "bounds": np.column_stack([-6 * std, 6 * std])}
        made = planned(PrivatePCA, n, d, **options)
        hit, width, angle, plain, unknown = [], [], [], [], []
        for k in range(max(int((60 if d == 10 else 40) * scale), 3)):
            X = rng.normal(size=(n, d)) @ A.T
            fit = made(**options, random_state=k).fit(X)
            found = fit.estimates(estimand="eigenvalue")
            low, high = found.confidence_interval()
            known = np.isfinite(found.error)
            hit.append(np.mean((low <= sizes[:3]) & (sizes[:3] <= high)))
            unknown.append(np.mean(~known))
            width += list(((high - low) / (2 * NORMAL * sizes[:3] * np.sqrt(2 / n)))[known])
            true = A[:, :3] / np.sqrt(sizes[:3])
            for V, store in (
                (fit.components_.T, angle),
                (np.linalg.svd(X - X.mean(0), full_matrices=False)[2][:3].T, plain),
            ):
                store.append(np.sqrt(max(3 - np.sum(np.linalg.svd(true.T @ V, compute_uv=False) ** 2), 0.0)))
        name = f"eigenvalues {words}, {n:,} × {d}"
        yield judge(f"{name}: coverage", float(np.mean(hit)), 0.93, None)
        yield judge(f"{name}: not identified", float(np.mean(unknown)), 0.9 if words == "all equal" else None, None)
        if words != "all equal":
            yield judge(f"{name}: width where identified", float(np.median(width)), None, goal)
            yield judge(
                f"{name}: sine of the angle over the sample's", float(np.mean(angle) / np.mean(plain)), None, None
            )


# Tests of mean vectors


def hotelling(scale: float, rng: np.random.Generator) -> Iterator[Cell]:
    """Yield level and power of Hotelling's test, also for two samples of unequal size."""
    n, d = 5000, 10
    size = brentq(lambda c: ncf.sf(f.ppf(1 - LEVEL, d, n - d), d, n - d, c) - 0.9, 1, 2000)
    for share in (None, 0.5, 0.3, 0.1):
        root = np.linalg.cholesky(0.7 ** np.abs(np.subtract.outer(range(d), range(d))))
        options: dict[str, Any] = {"bounds": (-5, 5)} | ({} if share is None else {"groups": [False, True]})
        made = planned(HotellingTest, n, d, **options)
        rejected = []
        for k in range(max(int(750 * scale), 5)):
            X, direction = normal_rows(n, d, "AR(0.7)", rng), rng.normal(size=d)
            shift = root @ direction / np.linalg.norm(direction) * np.sqrt(size / n)
            y = None if share is None else rng.random(n) < share
            moved = X + shift if y is None else X + np.outer(y, shift) / np.sqrt(share * (1 - share))
            fits = [made(**options, random_state=k).fit(rows, y).pvalue_ <= LEVEL for rows in (X, moved)]
            rejected.append(fits)
        level, power = np.mean(rejected, axis=0)
        name = f"T², {n:,} × {d}, " + ("one sample" if share is None else f"a sample of {share:.0%}")
        yield judge(f"{name}: level", float(level), None, 0.07)
        most = most_power(n, d, size, share) / 0.9
        # No release of the mean alone has more power than this.
        yield judge(f"{name}: power over 0.9", float(power / 0.9), 0.85 if most >= 0.85 else None, None)
        yield judge(f"{name}: most power over 0.9", most, None, None)


def most_power(n: int, d: int, size: float, share: float | None) -> float:
    """Return the power if the covariance were known, and one stage with the whole budget had the best ball."""
    part, smaller = (1.0, 1.0) if share is None else (share * (1 - share), min(share, 1 - share))
    curves = stage_curves(d, "symmetric", 0.5)
    noise = 2 * gaussian_sigma(1.0, 1e-6) / (n * smaller)
    error = curves.spread**2 / (n * part) + noise**2 * curves.q / curves.slope**2
    return float(ncf.sf(f.ppf(1 - LEVEL, d, n - d), d, n - d, size / (n * part * error.min())))


# Means

MEANS = [(2000, 5, 300, 1.35), (20_000, 20, 30, 1.12), (100_000, 50, 20, 1.05), (5000, 10, 60, None)]


def mean_errors(scale: float, rng: np.random.Generator) -> Iterator[Cell]:
    """Yield Mahalanobis errors of the mean of normal rows, over the error of the sample mean."""
    for n, d, runs, goal in MEANS:
        A = turned(d, np.logspace(0, -4, d), rng)
        std, back = np.sqrt((A**2).sum(axis=1)), np.linalg.inv(A)
        for tails, factor in (("symmetric", 1), ("symmetric", 10), ("subgaussian", 1)):
            if n == 100_000 and (factor, tails) != (1, "symmetric"):
                continue
            options = {
                "bound": 20 * factor * std,
                "std": "private",
                "std_bound": factor * std,
                "cov": "private",
                "tails": tails,
            }
            made = planned(AdaptiveMean, n, d, **options)
            ours, sample, hit, width = [], [], [], []
            for k in range(max(int(runs * scale), 2)):
                center = rng.uniform(-10, 10, size=d) * std
                X = center + rng.normal(size=(n, d)) @ A.T
                fit = made(**options, random_state=k).fit(X)
                ours.append(np.sum((back @ (fit.mean_ - center)) ** 2))
                sample.append(np.sum((back @ (X.mean(axis=0) - center)) ** 2))
                low, high = narrowest(fit)
                hit.append(np.mean((low <= center) & (center <= high)))
                width.append(np.median((high - low) / (2 * NORMAL * std / np.sqrt(n))))
            name = f"mean, condition 1e4, {n:,} × {d}, tails={tails!r}, bounds × {factor}"
            ratio = float(np.sqrt(np.sum(ours) / np.sum(sample)))
            aimed = goal if (tails, factor) == ("symmetric", 1) else None
            yield judge(f"{name}: error over the sample's", ratio, None, aimed)
            yield judge(f"{name}: coverage", float(np.mean(hit)), 0.93, None)
            yield judge(f"{name}: width", float(np.median(width)), None, None)


def narrowest(fit: AdaptiveMean) -> tuple[Rows, Rows]:
    """Return the interval that relies on the tails, unless the released count of clipped rows refutes them."""
    try:
        low, high = fit.confidence_interval(estimand="tails" if fit.tails == "subgaussian" else None)
    except InvalidParameter:
        low, high = fit.confidence_interval()
    return low, high


def mean_rows(kind: str, n: int, d: int, rng: np.random.Generator) -> Rows:
    """Return rows of an awkward kind."""
    Z = normal_rows(n, d, "AR(0.5)", rng)
    if kind == "exponential":
        return np.asarray(-np.log(rng.random(Z.shape)) + 0.3 * Z)
    if kind == "lognormal":
        return np.exp(0.8 * Z)
    if kind == "t(3)":
        return np.asarray(Z / np.sqrt(rng.chisquare(3, size=(n, 1)) / 3))
    if kind == "binary":
        return (Z > 1.0).astype(float)
    if kind == "constant column":
        Z[:, 0] = 2.0
    if kind == "duplicate column":
        Z[:, 1] = Z[:, 0]
    return Z


KINDS = ("normal", "exponential", "lognormal", "t(3)", "binary", "constant column", "duplicate column")
CELLS = [(3000, 4, 1.0, 1), (3000, 4, 1.0, 10), (800, 3, 1.0, 1), (400, 5, 0.2, 1), (3000, 1, 1.0, 1)]


def mean_coverage(scale: float, rng: np.random.Generator) -> Iterator[Cell]:
    """Yield coverage of every estimand of the mean on awkward rows."""
    for kind in KINDS:
        for n, d, epsilon, factor in CELLS if kind in ("normal", "exponential") else CELLS[:1]:
            many = mean_rows(kind, 200_000, d, rng)
            center, std = many.mean(axis=0), np.maximum(many.std(axis=0), 0.01)
            # Estimands that assume nothing of the tails; rows that are symmetric have all of them.
            for tails in ("subgaussian", "symmetric") if kind in ("normal", "t(3)") else ("subgaussian",):
                options: dict[str, Any] = {
                    "bounds": np.column_stack([center - 20 * factor * std, center + 12 * factor * std]),
                    "std": "private",
                    "std_bound": factor * std,
                    "cov": "private",
                    "epsilon": epsilon,
                    "tails": tails,
                }
                made = planned(AdaptiveMean, n, d, **options)
                route = AdaptiveMean(**options).plan(n, d).facts()["route"]
                hits: dict[str, list[float]] = {}
                for k in range(max(int(60 * scale), 3)):
                    fit = made(**options, random_state=k).fit(mean_rows(kind, n, d, rng))
                    for name in ("population", "clipped") if tails == "subgaussian" else ("population",):
                        if name == "clipped" and route == "columns":
                            continue
                        truth = center if name == "population" else shrunk_mean(fit, many)
                        low, high = fit.confidence_interval(estimand=name)
                        hits.setdefault(name, []).append(float(np.mean((low <= truth) & (truth <= high))))
                for name, found in hits.items():
                    words = f"mean, {kind}, {n:,} × {d}, ε = {epsilon:g}, bounds × {factor}, tails={tails!r}"
                    yield judge(f"{words}, {name} ({route}): coverage", float(np.mean(found)), 0.93, None)


def shrunk_mean(fit: AdaptiveMean, many: Rows) -> Rows:
    """Return the mean of many rows that are shrunk into the ellipsoid of a fit: straight from the definition."""
    found: Any = fit._found
    center = found.centers[-1]
    inside = np.linalg.solve(found.units, (many - center).T).T
    norms = np.maximum(np.linalg.norm(inside, axis=1), 1.0)
    return np.asarray(center + found.units @ (inside / norms[:, None]).mean(axis=0))


PARTS = (correlations, shrunk_correlations, noise_only, kendall, components, hotelling, mean_errors, mean_coverage)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="replications over those of the results page")
    parser.add_argument("--only", choices=[part.__name__ for part in PARTS])
    parser.add_argument("--no-write", action="store_true")
    options = parser.parse_args()
    rows = []
    for number, part in enumerate(PARTS):
        if options.only in (None, part.__name__):
            for cell in part(options.scale, np.random.default_rng([2026, number])):
                print(*cell, sep=" | ", flush=True)
                rows.append(f"| {' | '.join(cell)} |")
    met = sum(row.endswith("| yes |") for row in rows)
    text = "\n".join(
        [
            "# Covariances, correlations, components, tests and means",
            "",
            f"{datetime.now(UTC):%Y-%m-%d}, dpstats {dpstats.__version__}, numpy {np.__version__}; simulated noise, "
            "ε = 1 and δ = 1e-6 unless stated.",
            "",
            f"    python validation/studies/covariance.py --scale {options.scale:g}",
            "",
            "Widths are ratios to intervals without noise, those of correlations to Fisher's for normal rows. A "
            "coverage is an average over columns, pairs or components of few fits, with a standard error of 0.01 to "
            "0.05. A clipped estimand is the mean of rows shrunk into the ellipsoid that a fit released. The most "
            "power of T² is that of a release of the mean alone in the best ball, with the whole budget and a known "
            "covariance.",
            "",
            f"{met} of {len(rows)} numbers meet their goals or have none.",
            "",
            "| measured | value | goal | met |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )
    if not options.no_write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
