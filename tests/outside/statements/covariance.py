"""Cells of covariances, correlations and principal components, and of tests of a mean vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from dpstats.covariance import HotellingTest, PrivateCorrelation, PrivateCovariance, PrivatePCA
from tests.outside.statements.populations import SIZE, Draw, Floats, drop_some
from tests.outside.statements.questions import (
    Asker,
    draw_box,
    draw_frame,
    draw_missing,
    draw_options,
    level_cell,
    sample_rows,
    seed,
    usual_means,
    whole,
)
from tests.outside.statements.verdict import Cell

DELTAS = (1e-6, 1e-9)


def _names(d: int) -> list[str]:
    """Return the names of the entries of a covariance matrix above its diagonal, row by row."""
    return [f"x{i}" if i == j else f"x{i}, x{j}" for i in range(d) for j in range(i, d)]


def _pairs(d: int) -> list[str]:
    return [name for name in _names(d) if "," in name]


@dataclass(frozen=True)
class Elliptical:
    """Correlated normal rows, or such rows times a common random factor.

    A frame of such rows has correlations of its own. Those of fresh rows are exact.
    """

    matrix: Floats
    heavy: bool

    @property
    def correlation(self) -> Floats:
        covariance = self.matrix.T @ self.matrix + 0.09 * np.eye(len(self.matrix))
        scale = np.sqrt(np.diag(covariance))
        found: Floats = covariance / np.outer(scale, scale)
        return found

    def rows(self, draw: Draw, n: int, missing: float = 0.0) -> Floats:
        normal, own = draw.normal(size=(2, n, len(self.matrix)))
        mixed = normal @ self.matrix + 0.3 * own
        if self.heavy:
            mixed /= np.sqrt(draw.chisquare(5, size=(n, 1)) / 5)
        return drop_some(draw, missing, mixed)[0]


def _draw_elliptical(draw: Draw, facts: dict[str, Any], d: int) -> Elliptical:
    heavy = bool(draw.random() < 0.4)
    facts |= {"x": f"{d} of {'t5' if heavy else 'normal'}", "heavy tails": heavy, "skewed": False, "uneven": False}
    return Elliptical(draw.normal(size=(d, d)), heavy)


def draw_covariance(draw: Draw, question: str = "") -> Cell:
    """Return a random cell of `PrivateCovariance`, or of its correlations."""
    facts: dict[str, Any] = {}
    n, options = draw_options(draw, facts, DELTAS)
    d = int(draw.choice([1, 2, 2, 3, 5]))
    frame = draw_frame(draw, facts, d)
    box = draw_box(draw, facts, frame)
    inside = frame.clip(*box.T)
    options["bounds"] = box
    missing = draw_missing(draw, facts, options)
    first, second = np.triu_indices(d)
    correlations = d > 1 and bool(draw.random() < 0.5)
    facts["of"] = "correlations" if correlations else "covariances"
    matrix = np.atleast_2d(np.cov(inside.T, ddof=0))
    if correlations:
        first, second = np.triu_indices(d, 1)
        scale = np.sqrt(np.diag(matrix))
        with np.errstate(invalid="ignore", divide="ignore"):
            matrix = np.nan_to_num(matrix / np.outer(scale, scale))

    def fit(draw: Draw) -> tuple[Any, Any]:
        X = sample_rows(draw, frame, n, missing)
        model = PrivateCovariance(**options, random_state=seed(draw, facts)).fit(X)
        return (model.correlation() if correlations else model), X

    def usual(X: Floats) -> tuple[Floats, Floats, float]:
        Z = whole(X).clip(*box.T)
        Z = Z - Z.mean(axis=0) if len(Z) else Z
        if correlations:
            with np.errstate(invalid="ignore", divide="ignore"):
                Z = np.nan_to_num(Z / Z.std(axis=0))
            r = (Z[:, first] * Z[:, second]).mean(axis=0) if len(Z) else np.zeros(len(first))
            parts = Z[:, first] * Z[:, second] - r / 2 * (Z[:, first] ** 2 + Z[:, second] ** 2)
            return r, usual_means(parts)[1], len(Z) - 1.0
        return usual_means(Z[:, first] * Z[:, second])

    names = _pairs(d) if correlations else _names(d)
    target = matrix[first, second]
    return Asker("PrivateCovariance", facts, fit, lambda *_: target, usual, names).cell(draw, question)


def kendall(x: Floats, y: Floats) -> float:
    """Return Kendall's tau of a population, in which ties and a row with itself count as neither order."""
    total = x.size * (x.size - 1) / 2
    pairs = [
        total - (counts * (counts - 1) / 2).sum()
        for counts in (np.unique(each, return_counts=True)[1] for each in (x, y))
    ]
    if min(pairs) == 0:
        return 0.0
    return float(stats.kendalltau(x, y).statistic * np.sqrt(pairs[0] * pairs[1]) * 2 / x.size**2)


def spearman(x: Floats, y: Floats) -> float:
    """Return 12 times the covariance of the grades of a population."""
    return float(12 * np.cov(stats.rankdata(x), stats.rankdata(y), ddof=0)[0, 1] / x.size**2)


def draw_correlation(draw: Draw, question: str = "", method: str = "") -> Cell:
    """Return a random cell of `PrivateCorrelation`, by ranks or of a population by Pearson."""
    facts: dict[str, Any] = {}
    method = method or str(draw.choice(["kendall", "spearman", "pearson"]))
    ranks = method != "pearson"
    n, options = draw_options(draw, facts, DELTAS, 5000 if ranks else 20_000)
    d = int(draw.choice([2, 2, 3, 4]))
    elliptical = bool(draw.random() < 0.6) and not ranks
    law = _draw_elliptical(draw, facts, d) if elliptical else None
    frame = law.rows(draw, SIZE) if law else draw_frame(draw, facts, d)
    facts |= {"of": method, "not elliptical": not elliptical}
    options["method"] = facts["of"]
    given = {}
    if not ranks:
        options["bounds"], given = draw_box(draw, facts, frame, shifted=False), {"estimand": "population"}
    missing = draw_missing(draw, facts, options)
    places = list(zip(*np.triu_indices(d, 1), strict=True))
    if ranks:
        rank_correlation = kendall if method == "kendall" else spearman
        target = np.array([rank_correlation(frame[:, i], frame[:, j]) for i, j in places])
    else:
        with np.errstate(invalid="ignore", divide="ignore"):
            target = (law.correlation if law else np.nan_to_num(np.corrcoef(frame.T)))[np.triu_indices(d, 1)]

    def fit(draw: Draw) -> tuple[Any, Any]:
        X = law.rows(draw, n, missing) if law else sample_rows(draw, frame, n, missing)
        return PrivateCorrelation(**options, random_state=seed(draw, facts)).fit(X), X

    return Asker("PrivateCorrelation", facts, fit, lambda *_: target, None, _pairs(d), given).cell(draw, question)


def draw_components(draw: Draw, question: str = "") -> Cell:
    """Return a random cell of `PrivatePCA`: the eigenvalues of the covariance of clipped rows."""
    facts: dict[str, Any] = {}
    n, options = draw_options(draw, facts, DELTAS)
    d = int(draw.choice([2, 3, 6]))
    normal = bool(draw.random() < 0.7)
    frame = _draw_elliptical(draw, facts, d).rows(draw, SIZE) if normal else draw_frame(draw, facts, d, constant=0.0)
    box = draw_box(draw, facts, frame)
    count = int(draw.integers(1, min(d, 3) + 1))
    scale = "std" if draw.random() < 0.3 else None
    options |= {"bounds": box, "n_components": count, "scale": scale}
    facts |= {"components": f"{count} of {d}", "scale": str(scale)}
    facts["other tails"] = facts["skewed"] or facts["heavy tails"] or facts["uneven"]
    inside = frame.clip(*box.T)
    matrix = np.atleast_2d(np.cov(inside.T))

    def truth(model: Any, X: Floats) -> Floats:
        # Rows are divided by the released standard deviations, whose noise is no error.
        return np.asarray(np.linalg.eigvalsh(matrix / np.outer(model.scale_, model.scale_))[::-1][:count])

    def fit(draw: Draw) -> tuple[Any, Any]:
        X = sample_rows(draw, frame, n)
        return PrivatePCA(**options, random_state=seed(draw, facts)).fit(X), X

    def usual(X: Floats) -> tuple[Floats, Floats, float]:
        values = np.linalg.eigvalsh(np.atleast_2d(np.cov(X.clip(*box.T).T)))[::-1][:count]
        return values, values * np.sqrt(2 / n), np.inf

    names, given = [f"component {j + 1}" for j in range(count)], {"estimand": "eigenvalue"}
    asker = Asker("PrivatePCA", facts, fit, truth, None if scale else usual, names, given)
    return asker.cell(draw, question)


def draw_hotelling(draw: Draw, question: str = "") -> Cell:
    """Return a random cell of `HotellingTest` under the null hypothesis, by what it assumes."""
    facts: dict[str, Any] = {}
    n, options = draw_options(draw, facts, DELTAS)
    d, two = int(draw.choice([1, 2, 3, 5])), bool(draw.random() < 0.5)
    frame = draw_frame(draw, facts, d, constant=0.0)
    assume = str(draw.choice(["symmetric", "mean"]))
    mirrored = assume == "symmetric" and not two and bool(draw.random() < 0.7)
    center = frame.mean(axis=0)
    if mirrored:
        frame = center + (frame - center) * draw.choice([-1, 1], size=(SIZE, 1))
        frame = np.vstack([frame, 2 * center - frame])
    box = draw_box(draw, facts, frame, shifted=assume == "mean")
    inside = frame.clip(*box.T)
    share, other = float(draw.uniform(0.1, 0.5)), bool(draw.random() < 0.3) and two and assume == "mean"
    options |= {"bounds": box, "assume": assume}
    options |= {"groups": ("a", "b")} if two else {"mean": inside.mean(axis=0) if assume == "mean" else center}
    missing = draw_missing(draw, facts, options)
    facts |= {"of": "two samples" if two else "one sample", "assume": assume, "mirrored": mirrored}
    facts |= {"share": f"{share:.2g}" if two else "", "other spread": other}
    # What a test of symmetry, or of one distribution, rejects rightly
    facts["another null"] = assume == "symmetric" and not two and not mirrored and facts["skewed"]
    start = inside.mean(axis=0)

    def sample(draw: Draw) -> tuple[Floats, Any]:
        X = sample_rows(draw, frame, n, missing)
        y = np.where(draw.random(n) < share, "a", "b")
        if other:
            # Half of the spread, about the mean of the clipped rows
            X = np.where((y == "a")[:, None], start + (X.clip(*box.T) - start) / 2, X)
        return X, y

    def fit(draw: Draw) -> tuple[Any, Any]:
        X, y = sample(draw)
        made = HotellingTest(**options, random_state=seed(draw, facts))
        model = made.fit(X, y) if two else made.fit(X)
        return model, (X, y)

    class Result:
        """The test of a fit, with the notes of the fit."""

        def __init__(self, model: Any) -> None:
            self.pvalue, self.summary = model.pvalue_, model.summary

    def usual(given: Any) -> float:
        X, y = given
        rows = np.isfinite(X).all(axis=1)
        X, y = X[rows].clip(*box.T), y[rows]
        parts = [X[y == "a"], X[y == "b"]] if two else [X]
        if min(len(part) for part in parts) < d + 2:
            return 1.0
        off = parts[0].mean(axis=0) - (parts[1].mean(axis=0) if two else options["mean"])
        spread = sum(np.atleast_2d(np.cov(part.T)) / len(part) for part in parts)
        statistic = off @ np.linalg.pinv(spread) @ off
        free = sum(len(part) - 1 for part in parts)
        return float(stats.f.sf(statistic * (free - d + 1) / (d * free), d, free - d + 1))

    def tested(draw: Draw) -> tuple[Any, Any]:
        model, given = fit(draw)
        return Result(model), given

    names = [f"x{j}" for j in range(d)]
    if question == "level" or (
        not question and (draw.random() < 0.6 or (assume == "symmetric" and not mirrored and not two))
    ):
        return level_cell("HotellingTest", "level", facts, tested, usual, names)
    zeros = np.zeros(d)
    return Asker("HotellingTest", facts, fit, lambda *_: zeros, None, names).cell(draw, question)
