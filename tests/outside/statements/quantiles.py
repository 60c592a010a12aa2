"""Cells of quantiles: a few of one column or of groups, of the rows themselves, and whole distributions."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpstats.groups import GroupQuantiles
from dpstats.quantiles import PrivateDistribution, PrivateMedian, PrivateQuantile
from tests.outside.statements.group_means import draw_shares
from tests.outside.statements.populations import CODED, Draw, Floats
from tests.outside.statements.questions import (
    Asker,
    draw_box,
    draw_frame,
    draw_missing,
    draw_options,
    is_outside,
    sample_rows,
    seed,
    whole,
)
from tests.outside.statements.verdict import Answer, Cell

GRID = 2.0**-19
"""Of the range: how far rounding to a grid may move a row."""


def draw_cell(draw: Draw, question: str = "") -> Cell:
    """Return a random cell of quantiles."""
    kinds = [draw_few, draw_few, _median, _distribution]
    return kinds[draw.integers(len(kinds))](draw, question)


def _column(draw: Draw, facts: dict[str, Any], options: dict[str, Any]) -> Floats:
    """Return a population of one column, with public bounds, and a step if its values are integers."""
    x = draw_frame(draw, facts, 1)[:, 0]
    low, high = draw_box(draw, facts, x[:, None])[0]
    if facts["x"] in CODED and draw.random() < 0.7:
        options["step"], facts["step"] = 1.0, 1
        low, high = np.floor(low), np.ceil(high)
    options["bounds"] = (float(low), float(high))
    # Where bounds cut a share of the rows, many share a bound.
    cut = np.mean((x < low) | (x > high))
    facts["uneven"] = bool((facts["uneven"] or cut > 0.01) and not (facts.get("step") and facts["x"] in CODED))
    return x


def quantile_range(x: Floats, q: Any, bounds: tuple[float, float]) -> tuple[Floats, Floats]:
    """Return the least and the largest quantile of a population within bounds, with room for a grid."""
    q, room = np.atleast_1d(q), GRID * (bounds[1] - bounds[0])
    inside = np.sort(x).clip(*bounds)
    ends = [np.quantile(inside, np.clip(q + side * 1e-9, 0, 1), method="inverted_cdf") for side in (-1, 1)]
    return ends[0] - room, ends[1] + room


def draw_few(draw: Draw, question: str = "", coverage: str = "") -> Cell:
    """Return a cell of `PrivateQuantile`."""
    facts: dict[str, Any] = {}
    n, options = draw_options(draw, facts)
    x = _column(draw, facts, options)
    count = int(draw.choice([1, 1, 3]))
    q = np.sort(draw.choice([0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99], count, replace=False))
    level = float(draw.choice([0.2, 0.05, 0.01]))
    options |= {"confidence_level": 1 - level, "coverage": coverage}
    if not coverage:
        options["coverage"] = str(draw.choice(["regular", "any", "auto"]))
    missing = draw_missing(draw, facts, options) if options["coverage"] != "any" else 0.0
    facts |= {"of": " ".join(f"{each:g}" for each in q), "coverage": options["coverage"]}
    target = quantile_range(x, q, options["bounds"])

    def fit(draw: Draw) -> tuple[Any, Any]:
        rows = sample_rows(draw, x[:, None], n, missing)[:, 0]
        return PrivateQuantile(q.tolist(), **options, random_state=seed(draw, facts)).fit(rows), rows

    names = [f"{each:g}" for each in q]
    asker = Asker(
        "PrivateQuantile", facts, fit, lambda *given: target, None, names, {}, [level], ["two-sided"],
        ["interval"],
    )  # fmt: skip
    return asker.cell(draw, question)


def _median(draw: Draw, question: str) -> Cell:
    """Return a cell of `PrivateMedian`, whose interval is about the rows."""
    facts: dict[str, Any] = {}
    n, options = draw_options(draw, facts, (1e-6, 1e-9))
    x = _column(draw, facts, options)
    level = float(draw.choice([0.2, 0.05, 0.01]))
    options["confidence_level"] = 1 - level

    def fit(draw: Draw) -> tuple[Any, Any]:
        rows = sample_rows(draw, x[:, None], n)[:, 0]
        return PrivateMedian(**options, random_state=seed(draw, facts)).fit(rows), rows

    def truth(model: Any, rows: Floats) -> tuple[Floats, Floats]:
        return quantile_range(rows, 0.5, options["bounds"])

    asker = Asker("PrivateMedian", facts, fit, truth, None, ["x"], {}, [level], ["two-sided"], ["interval"])
    return asker.cell(draw, question)


def draw_groups(draw: Draw, question: str = "") -> Cell:
    """Return a cell of `GroupQuantiles`: quantiles of groups, or the differences or ratios of two."""
    facts: dict[str, Any] = {}
    n, options = draw_options(draw, facts, (0.0,))
    del options["delta"]
    x = _column(draw, facts, options)
    shares = draw_shares(draw, int(draw.integers(2, 6)))
    groups = [f"g{g}" for g in range(len(shares))]
    moves = draw.normal(size=len(shares)) * x.std() * (facts["x"] not in CODED) * (draw.random() < 0.5)
    level = float(draw.choice([0.2, 0.05, 0.01]))
    count = int(draw.choice([1, 2, 3]))
    q = np.sort(draw.choice([0.1, 0.25, 0.5, 0.75, 0.9], count, replace=False))
    kind = question or str(draw.choice(["quantile", "difference", "ratio"]))
    if kind == "ratio":
        # Bounds of ratios are not negative.
        up = -min(options["bounds"][0], 0.0)
        x, options["bounds"] = x + up, (options["bounds"][0] + up, options["bounds"][1] + up)
    options |= {"q": q.tolist(), "groups": groups, "confidence_level": 1 - level}
    missing = draw_missing(draw, facts, options)
    facts |= {"of": " ".join(f"{each:g}" for each in q), "shares": " ".join(f"{share:.2g}" for share in shares)}
    ends = np.array([quantile_range(x + move, q, options["bounds"]) for move in moves])
    low, high = ends[:, 0], ends[:, 1]
    low_end, high_end = options["bounds"]
    facts["uneven"] = facts["uneven"] or bool(np.any((high >= high_end) | (low <= low_end)))
    a, b = (int(g) for g in draw.choice(len(shares), 2, replace=False))

    def fit(draw: Draw) -> tuple[Any, Any]:
        places = draw.choice(len(shares), n, p=shares)
        rows = sample_rows(draw, x[:, None], n, missing)[:, 0] + moves[places]
        model = GroupQuantiles(**options, random_state=seed(draw, facts)).fit(rows, np.array(groups)[places])
        return (model if kind == "quantile" else getattr(model, kind)(f"g{a}", f"g{b}")), rows

    target = (low, high)
    if kind == "difference":
        target = (low[a] - high[b], high[a] - low[b])
    if kind == "ratio":
        below, above = np.maximum(low, 0.0), np.maximum(high, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            # 0/0 may be any number.
            target = (np.nan_to_num(below[a] / above[b]), np.nan_to_num(above[a] / below[b], nan=np.inf))
    names = groups if kind == "quantile" else ["x"]
    facts["asked"] = kind
    asker = Asker(
        "GroupQuantiles",
        facts,
        fit,
        lambda *given: target,
        None,
        [f"{name}, q = {each:g}" if count > 1 else name for name in names for each in q],
        {},
        [level],
        ["two-sided"],
        ["interval"],
    )
    return asker.cell(draw, "interval")


def _distribution(draw: Draw, question: str) -> Cell:
    """Return a cell of `PrivateDistribution`: quantiles, or the band of the whole cdf."""
    facts: dict[str, Any] = {}
    n, options = draw_options(draw, facts)
    x = _column(draw, facts, options)
    options["bins"] = int(draw.choice([16, 128, 1024]))
    if "step" in options:
        del options["bins"]
    missing = draw_missing(draw, facts, options)
    q = tuple(float(each) for each in np.sort(draw.choice([0.02, 0.1, 0.5, 0.75, 0.99], 3, replace=False)))
    target = quantile_range(x, q, options["bounds"])
    inside = np.sort(x.clip(*options["bounds"]))

    def fit(draw: Draw) -> tuple[Any, Any]:
        rows = sample_rows(draw, x[:, None], n, missing)[:, 0]
        return PrivateDistribution(**options, random_state=seed(draw, facts)).fit(rows), rows

    if question == "band" or (not question and draw.random() < 0.5):
        level = float(draw.choice([0.2, 0.05, 0.01]))
        points = draw.choice(inside, 20)

        def answer(draw: Draw) -> Answer:
            model, _ = fit(draw)
            low, high = model.band(points, 1 - level)
            cdf = np.searchsorted(inside, points, side="right") / inside.size
            missed = is_outside(low, high, cdf, cdf)
            return Answer(missed, model.summary().notes, float(np.max(high - low)))

        def without_privacy(draw: Draw) -> bool:
            rows = whole(sample_rows(draw, x[:, None], n, missing))[:, 0]
            cdf, seen = (
                np.searchsorted(np.sort(each), points, side="right") / max(each.size, 1) for each in (inside, rows)
            )
            return bool(np.max(np.abs(cdf - seen)) > np.sqrt(np.log(2 / level) / 2 / max(rows.size, 1)))

        return Cell(
            "PrivateDistribution", f"band {1 - level:g}", facts, ["x"], level, answer, without_privacy=without_privacy
        )
    facts["of"] = " ".join(f"{each:g}" for each in q)
    asker = Asker(
        "PrivateDistribution", facts, fit, lambda *given: target, None, [f"{each:g}" for each in q], {"q": q},
        questions=["interval", "together"],
    )  # fmt: skip
    return asker.cell(draw, question)
