"""Cells of estimates within bounds that the fit chooses: means, variances and quantiles of rows clipped to them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpstats.errors import DPStatsError, InvalidData, InvalidParameter
from dpstats.groups import GroupMeans, GroupQuantiles
from dpstats.means import ClippedMean, PrivateVariance, UnknownBounds
from dpstats.quantiles import PrivateDistribution, PrivateQuantile
from tests.outside.statements.group_means import draw_shares
from tests.outside.statements.populations import CODED, Draw, Floats
from tests.outside.statements.quantiles import quantile_range
from tests.outside.statements.questions import (
    Asker,
    draw_frame,
    draw_missing,
    draw_options,
    sample_rows,
    seed,
    usual_means,
    whole,
)
from tests.outside.statements.verdict import Cell

LEAST = 50
"""Rows times epsilon of the bounds, that one column needs."""


def draw_cell(draw: Draw, question: str = "") -> Cell:
    """Return a random cell of an estimator with ``bounds="private"``."""
    facts: dict[str, Any] = {}
    n, options = draw_options(draw, facts, most=5000)
    kinds = [_mean, _mean, _variance, _groups, _groups, _quantiles, _quantiles]
    kind = kinds[draw.integers(len(kinds))]
    d = int(draw.choice([1, 1, 2])) if kind in (_mean, _variance, _groups) else 1
    frame = draw_frame(draw, facts, d)
    share = float(draw.choice([0.2, 0.2, 0.5]))
    if draw.random() < 0.9:
        # Nearly all cells have enough rows.
        facts["n"] = n = max(n, math.ceil(LEAST * d / (share * min(options["epsilon"], 10)) * draw.uniform(1, 4)))
        n = min(n, 10_000)
        facts["n"] = n
    options["bounds"] = "private"
    if share != 0.2 or draw.random() < 0.4:
        step = 1.0 if set(facts["x"].split(", ")) <= set(CODED) and kind is not _quantiles else None
        within = [None, (0.0, math.inf), (-math.inf, float(np.quantile(frame, 0.99)) + 1e-9)][draw.integers(3)]
        options["bounds"] = UnknownBounds(step=step, within=within, share=share)
        facts |= {"step": step or "", "within": str(within or ""), "share": share}
    if kind in (_mean, _variance, _groups) and draw.random() < 0.25:
        options["neighbors"] = facts["neighbors"] = "add_or_remove"
    return kind(draw, facts, options, frame, n).cell(draw, question)


def fit_found(made: Any, *rows: Any, **beside: Any) -> Any:
    """Return a fit. Another sample may have bounds, where this one has none."""
    try:
        return made.fit(*rows, **beside)
    except (InvalidParameter, InvalidData):
        raise
    except DPStatsError as error:
        if "found" not in str(error):
            raise
        raise InvalidData("X has no bounds") from error


def _names(d: int) -> list[str]:
    return [f"x{j}" for j in range(d)]


def _mean(draw: Draw, facts: dict[str, Any], options: dict[str, Any], frame: Floats, n: int) -> Asker:
    """Return a `ClippedMean`."""
    missing = draw_missing(draw, facts, options)
    facts["of"] = "mean"

    def fit(draw: Draw) -> tuple[Any, Any]:
        X = sample_rows(draw, frame, n, missing)
        model = fit_found(ClippedMean(**options, random_state=seed(draw, facts)), X)
        return model, (X, model.bounds_)

    def truth(model: Any, sample: Any) -> Floats:
        return np.asarray(frame.clip(*model.bounds_.T).mean(axis=0))

    def usual(sample: Any) -> tuple[Floats, Floats, float]:
        return usual_means(whole(sample[0]).clip(*sample[1].T))

    return Asker("private bounds", facts, fit, truth, usual, _names(frame.shape[1]))


def _variance(draw: Draw, facts: dict[str, Any], options: dict[str, Any], frame: Floats, n: int) -> Asker:
    """Return a `PrivateVariance`."""
    facts |= {"of": "variance", "not normal": facts["skewed"] or facts["heavy tails"] or facts["uneven"]}

    def fit(draw: Draw) -> tuple[Any, Any]:
        X = sample_rows(draw, frame, n)
        model = fit_found(PrivateVariance(**options, random_state=seed(draw, facts)), X)
        return model, (X, model.bounds_)

    def truth(model: Any, sample: Any) -> Floats:
        return np.asarray(frame.clip(*model.bounds_.T).var(axis=0))

    def usual(sample: Any) -> tuple[Floats, Floats, float]:
        X = sample[0].clip(*sample[1].T)
        return usual_means((X - X.mean(axis=0)) ** 2)

    return Asker("private bounds", facts, fit, truth, usual, _names(frame.shape[1]))


def _groups(draw: Draw, facts: dict[str, Any], options: dict[str, Any], frame: Floats, n: int) -> Asker:
    """Return a `GroupMeans` of one pair of bounds for all groups."""
    shares, d = draw_shares(draw, int(draw.integers(2, 5))), frame.shape[1]
    moves = draw.normal(size=(len(shares), d)) * frame.std(axis=0) * draw.choice([0.0, 0.5, 5.0])
    groups = [f"g{g}" for g in range(len(shares))]
    options["groups"] = groups
    facts |= {"of": "means of groups", "shares": " ".join(f"{share:.2g}" for share in shares)}
    facts["long-tailed"] = facts["heavy tails"]
    missing = draw_missing(draw, facts, options)

    def fit(draw: Draw) -> tuple[Any, Any]:
        places = draw.choice(len(shares), n, p=shares)
        X = sample_rows(draw, frame, n, missing) + moves[places]
        model = fit_found(GroupMeans(**options, random_state=seed(draw, facts)), X, np.array(groups)[places])
        return model, (X, places, model.bounds_)

    def truth(model: Any, sample: Any) -> Floats:
        return np.array([(frame + move).clip(*model.bounds_.T).mean(axis=0) for move in moves])

    def usual(sample: Any) -> tuple[Floats, Floats, float]:
        X, places, bounds = sample
        rows = np.isfinite(X).all(axis=1)
        parts = [usual_means(X[rows & (places == g)].clip(*bounds.T)) for g in range(len(shares))]
        return np.array([part[0] for part in parts]), np.array([part[1] for part in parts]), parts[0][2]

    names = [group for group in groups for _ in range(d)]
    return Asker("private bounds", facts, fit, truth, usual, names)


def _quantiles(draw: Draw, facts: dict[str, Any], options: dict[str, Any], frame: Floats, n: int) -> Asker:
    """Return quantiles: a few, those of groups, or of a whole distribution."""
    x, q = frame[:, 0], float(draw.choice([0.1, 0.25, 0.5, 0.9]))
    level, kind = float(draw.choice([0.2, 0.05, 0.01])), int(draw.integers(3))
    facts |= {"of": ["quantile", "quantiles of groups", "distribution"][kind], "q": q}
    shares = draw_shares(draw, 2)

    def make(state: int | None) -> Any:
        if kind == 2:
            return PrivateDistribution(**options, random_state=state)
        given = {key: value for key, value in options.items() if key != "delta" or not kind}
        if kind:
            return GroupQuantiles(q, groups=["g0", "g1"], **given, confidence_level=1 - level, random_state=state)
        return PrivateQuantile(q, **given, confidence_level=1 - level, random_state=state)

    def fit(draw: Draw) -> tuple[Any, Any]:
        rows = sample_rows(draw, frame, n)[:, 0]
        labels = np.array(["g0", "g1"])[draw.choice(2, n, p=shares)]
        return fit_found(make(seed(draw, facts)), rows, *[labels] * (kind == 1)), rows

    def truth(model: Any, rows: Floats) -> Any:
        low, high = quantile_range(x, q, tuple(model.bounds_[0]))
        return np.repeat(low, 1 + (kind == 1)), np.repeat(high, 1 + (kind == 1))

    names = ["g0", "g1"] if kind == 1 else [f"{q:g}"]
    if kind == 2:
        return Asker("private bounds", facts, fit, truth, None, names, {"q": (q,)}, questions=["interval"])
    return Asker("private bounds", facts, fit, truth, None, names, {}, [level], ["two-sided"], ["interval"])
