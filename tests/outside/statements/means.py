"""Cells of means and variances: clipped, adaptive and sparse ones, and the mean of all rows of people with several."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpstats.groups import MeanPerRow
from dpstats.means import AdaptiveMean, ClippedMean, PrivateVariance, SparseMean
from tests.outside.statements.populations import SIZE, Draw, Floats, log_uniform
from tests.outside.statements.questions import (
    Asker,
    draw_box,
    draw_frame,
    draw_missing,
    draw_options,
    sample_rows,
    seed,
    usual_means,
    whole,
)
from tests.outside.statements.verdict import Cell

UNITS = 2000
"""People of a population."""


def draw_cell(draw: Draw, question: str = "") -> Cell:
    """Return a random cell of a mean."""
    kinds = [_clipped, _clipped, _adaptive, _adaptive, _sparse]
    return kinds[draw.integers(len(kinds))](draw).cell(draw, question)


def _names(d: int) -> list[str]:
    return [f"x{j}" for j in range(d)]


def _clipped(draw: Draw) -> Asker:
    """Return a `ClippedMean` of entries or rows, with any bounds, standard deviation and estimand."""
    facts: dict[str, Any] = {}
    n, options = draw_options(draw, facts)
    d = int(draw.choice([1, 1, 2, 4]))
    frame = draw_frame(draw, facts, d)
    hard, ball = bool(draw.random() < 0.25), bool(draw.random() < 0.2)
    box = draw_box(draw, facts, frame, hard=hard)
    low, high = box.T
    if ball:
        center, clip = box.mean(axis=1), float((high - low).max() / 2)
        options |= {"clip": clip, "clip_norm": "l2", "center": center}
        far = np.linalg.norm(frame - center, axis=1)
        inside = center + (frame - center) * np.minimum(1.0, clip / np.maximum(far, 1e-300))[:, None]
        hard = False
    else:
        options |= {"bounds": box, "bounds_are": "hard" if hard else "clip"}
        inside = frame.clip(low, high)
    kind = str(draw.choice(["private", "private", "public", "none"]))
    missing = 0.0
    if kind != "private":
        options["std"] = None if kind == "none" else np.maximum(frame.std(axis=0), 1e-9) * draw.uniform(1, 2)
    else:
        missing = draw_missing(draw, facts, options)
        if not ball and draw.random() < 0.3:
            options["neighbors"] = "add_or_remove"
    if "neighbors" not in options and not missing:
        options["noise"] = str(draw.choice(["proportional", "isotropic"]))
        options["clipped_share"] = bool(draw.random() < 0.2) and not (ball and kind == "private")
    population = kind == "public" and draw.random() < 0.5
    given = {"estimand": "population"} if population else {}
    facts |= {"of": "ball" if ball else "box", "std": kind, **given}
    facts |= {key: options[key] for key in ("neighbors", "noise", "clipped_share") if key in options}
    target = frame if population else inside

    def clip_rows(X: Floats) -> Floats:
        if not ball:
            return X.clip(low, high)
        far = np.linalg.norm(X - center, axis=1)
        return center + (X - center) * np.minimum(1.0, clip / np.maximum(far, 1e-300))[:, None]

    def fit(draw: Draw) -> tuple[Any, Any]:
        X = sample_rows(draw, frame, n, missing)
        return ClippedMean(**options, random_state=seed(draw, facts)).fit(X), X

    def truth(model: Any, X: Floats) -> Floats:
        return clip_rows(X).mean(axis=0) if kind == "none" else target.mean(axis=0)

    usual = None if kind == "none" else lambda X: usual_means(whole(X) if population else clip_rows(whole(X)))
    return Asker("ClippedMean", facts, fit, truth, usual, _names(d), given)


def _adaptive(draw: Draw) -> Asker:
    """Return an `AdaptiveMean` with true public bounds of the mean and the standard deviation."""
    facts: dict[str, Any] = {}
    n, options = draw_options(draw, facts, (0.0, 1e-6, 1e-6))
    d = int(draw.choice([1, 1, 2, 5]))
    frame = draw_frame(draw, facts, d, constant=0.0)
    spread, center = frame.std(axis=0), frame.mean(axis=0)
    loose = float(draw.choice([1.0, 1.2, 3.0, 10.0]))
    half = spread * loose * log_uniform(draw, 2, 500)
    off = draw.uniform(-0.95, 0.95, d)
    options["bounds"] = np.column_stack([center - half + off * half, center + half + off * half])
    route = str(draw.choice(["public", "private std", "private cov", "public cov"]))
    tails = str(draw.choice(["subgaussian", "symmetric", "variance"], p=[0.6, 0.2, 0.2]))
    options["tails"] = tails
    if route == "public":
        options["std"] = spread * loose
    elif route == "private std":
        # The standard deviations of all columns are one, in units of the bound.
        options |= {"std": "private", "std_bound": spread * loose}
    elif route == "private cov":
        options |= {"cov": "private", "std": spread * loose}
    else:
        options |= {"cov": np.atleast_2d(np.cov(frame.T)) * 1.0001, "std": loose}
    missing = draw_missing(draw, facts, options)
    estimand = "tails" if tails == "subgaussian" and draw.random() < 0.4 else ""
    given = {"estimand": estimand} if estimand else {}
    facts |= {"of": f"{route}, {loose:g} times", "tails": tails, **given}
    # What both kinds of tails assume, and these rows do not have
    facts["other tails"] = facts["skewed"] or facts["heavy tails"]

    def fit(draw: Draw) -> tuple[Any, Any]:
        X = sample_rows(draw, frame, n, missing)
        return AdaptiveMean(**options, random_state=seed(draw, facts)).fit(X), X

    return Asker("AdaptiveMean", facts, fit, lambda *given: center, lambda X: usual_means(whole(X)), _names(d), given)


def _sparse(draw: Draw) -> Asker:
    """Return a `SparseMean` of many columns of one kind, which selects and estimates on halves of the rows."""
    facts: dict[str, Any] = {}
    n, options = draw_options(draw, facts, most=5000)
    d, most = int(draw.choice([10, 40])), int(draw.integers(1, 5))
    frame = draw_frame(draw, facts, 1, constant=0.0)
    spread = float(frame.std())
    columns = np.array([draw.permutation(frame[:, 0]) for _ in range(d)]).T - frame.mean()
    means = np.zeros(d)
    means[:most] = draw.uniform(0.1, 1, most) * spread * draw.choice([-1, 1])
    columns += means
    private = bool(draw.random() < 0.3) and options["delta"] > 0
    clip = spread * log_uniform(draw, 3, 20)
    options |= {"n_nonzero": most, "clip": clip, "split": True, "max_signal": float(draw.choice([1.0, 3.0]))}
    options |= {"std": "private", "std_bound": 2 * spread} if private else {"std": spread * draw.uniform(1, 2)}
    peeling = bool(draw.random() < 0.3) and not private
    options["selection"] = "peeling" if peeling else "gumbel"
    facts |= {"of": options["selection"], "std": "private" if private else "public", "columns": d}
    facts["clipped"] = bool(np.mean(np.abs(columns) > clip) > 1e-3) if peeling else True

    def fit(draw: Draw) -> tuple[Any, Any]:
        X = sample_rows(draw, columns, n)
        return SparseMean(**options, random_state=seed(draw, facts)).fit(X), X

    def truth(model: Any, X: Floats) -> Floats:
        return columns.mean(axis=0)[model.support_]

    names = [f"place {j}" for j in range(most)]
    return Asker("SparseMean", facts, fit, truth, None, names)


def draw_variance(draw: Draw, question: str = "") -> Cell:
    """Return a random cell of `PrivateVariance`."""
    facts: dict[str, Any] = {}
    n, options = draw_options(draw, facts)
    d = int(draw.choice([1, 1, 3]))
    frame = draw_frame(draw, facts, d)
    hard = bool(draw.random() < 0.25)
    box = draw_box(draw, facts, frame, hard=hard)
    low, high = box.T
    inside = frame.clip(low, high)
    about = str(draw.choice(["mean", "mean", "center"]))
    interval = str(draw.choice(["moments", "bounded", "normal"], p=[0.7, 0.2, 0.1]))
    options |= {"bounds": box, "bounds_are": "hard" if hard else "clip", "about": about, "interval": interval}
    missing = draw_missing(draw, facts, options) if interval == "moments" else 0.0
    if interval == "moments" and draw.random() < 0.2:
        options["neighbors"] = "add_or_remove"
    facts |= {key: options[key] for key in ("about", "interval", "neighbors") if key in options}
    facts["not normal"] = facts["skewed"] or facts["heavy tails"] or facts["uneven"]
    center = inside.mean(axis=0) if about == "mean" else box.mean(axis=1)
    target = ((inside - center) ** 2).mean(axis=0)

    def fit(draw: Draw) -> tuple[Any, Any]:
        X = sample_rows(draw, frame, n, missing)
        return PrivateVariance(**options, random_state=seed(draw, facts)).fit(X), X

    def usual(X: Floats) -> tuple[Floats, Floats, float]:
        X = whole(X).clip(low, high)
        start = X.mean(axis=0) if about == "mean" and len(X) else center
        return usual_means((X - start) ** 2)

    return Asker("PrivateVariance", facts, fit, lambda *given: target, usual, _names(d)).cell(draw, question)


def draw_units(draw: Draw, question: str = "", deltas: tuple[float, ...] = (0.0, 1e-6)) -> Cell:
    """Return a random cell of `MeanPerRow`: people whose number of rows may depend on their values."""
    facts: dict[str, Any] = {}
    n, options = draw_options(draw, facts, deltas, most=5000)
    frame = draw_frame(draw, facts, 1, constant=0.0)[:, 0]
    # Values of one person are near each other in the ordered population.
    level, within = draw.random(UNITS), float(draw.choice([0.0, 0.1, 1.0]))
    rows = 1 + draw.poisson(log_uniform(draw, 0.2, 5) * (2 * level if draw.random() < 0.5 else 1.0), UNITS)
    person = np.repeat(np.arange(UNITS), rows)
    rank = np.abs((level[person] + within * draw.uniform(-1, 1, person.size) + 1) % 2 - 1)
    values = np.sort(frame)[np.minimum(rank * SIZE, SIZE - 1).astype(int)]
    box = draw_box(draw, facts, values[:, None])
    most = int(draw.choice([1, 2, 5, 20]))
    options |= {"bounds": box, "max_rows": most}
    if draw.random() < 0.3:
        options["neighbors"] = "add_or_remove"
    facts |= {"rows each": f"{rows.mean():.2g}", "max_rows": most, "within": within}
    facts["neighbors"] = options.get("neighbors", "replace_one")
    inside = values.clip(*box[0])
    counted = np.minimum(rows, most)
    means = np.bincount(person, inside) / rows
    target = float((counted * means).sum() / counted.sum())
    first = np.cumsum(rows) - rows

    def fit(draw: Draw) -> tuple[Any, Any]:
        drawn = draw.integers(UNITS, size=n)
        own = np.repeat(np.arange(n), rows[drawn])
        place = np.arange(own.size) - np.repeat(np.cumsum(rows[drawn]) - rows[drawn], rows[drawn])
        X = values[first[drawn][own] + place][:, None]
        names = draw.permutation(10 * n)[:n]
        return MeanPerRow(**options, random_state=seed(draw, facts)).fit(X, names[own]), drawn

    def usual(drawn: Any) -> tuple[Floats, Floats, float]:
        total, count = (counted * means)[drawn], counted[drawn]
        ratio = total.sum() / count.sum()
        error = np.sqrt(((total - ratio * count) ** 2).sum() * n / (n - 1)) / count.sum()
        return np.array([ratio]), np.array([error]), n - 1.0

    return Asker("MeanPerRow", facts, fit, lambda *given: target, usual).cell(draw, question)
