"""Cells of streams: whether intervals and bands of counts and means that go on have what is in the rows."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from dpstats.means import ContinualMeans
from dpstats.mechanisms import ContinualCounts
from tests.outside.statements.populations import Draw, draw_bounds, draw_kind, draw_values, log_uniform
from tests.outside.statements.questions import draw_options, seed
from tests.outside.statements.verdict import Answer, Cell


def draw_cell(draw: Draw, question: str = "") -> Cell:
    """Return a random cell of a stream of counts or of means, with this question if it is given."""
    facts: dict[str, Any] = {}
    n, options = draw_options(draw, facts, (1e-9, 1e-6, 1e-3))
    horizon = round(log_uniform(draw, 1, 60))
    steps = int(draw.integers(1, horizon + 1))
    options |= {"horizon": horizon, "neighbors": str(draw.choice(["add_or_remove", "replace_one"]))}
    window = int(draw.integers(1, steps + 1)) if draw.random() < 0.5 else None
    band = question == "interval together" or (not question and bool(draw.random() < 0.4))
    facts |= {"horizon": horizon, "steps": steps, "window": window or "", "neighbors": options["neighbors"]}
    # Rows in equal steps, in a few steps, or nearly all in one.
    shares = draw.dirichlet(np.full(steps, draw.choice([100.0, 1.0, 0.1])))
    tell = _draw_means(draw, facts, options) if draw.random() < 0.6 else partial(_count, options)

    def answer(draw: Draw) -> Answer | None:
        sizes = draw.multinomial(n, shares)
        path, true = tell(draw, seed(draw, facts), sizes, window)
        estimates = path.estimates(window=window)
        interval = estimates.confidence_interval(simultaneous=band)
        # A window without rows has no mean.
        known = np.isfinite(true)
        places = np.flatnonzero(known) if band else np.array([len(true) - 1])[known[-1:]]
        if not places.size:
            return None
        outside = (true < interval.low) | (interval.high < true)
        notes = [*path.summary().notes, *estimates.summary().notes]
        return Answer(bool(outside[places].any()), notes, float((interval.high - interval.low)[places[-1]]))

    words = "interval together" if band else "interval"
    return Cell("streams", words, facts, ["all steps" if band else f"step {steps}"], 0.05, answer)


def _count(options: dict[str, Any], draw: Draw, given: int | None, sizes: Any, window: int | None) -> Any:
    """Return the path of a stream of counts, and the counts."""
    stream = ContinualCounts(**options, random_state=given)
    stream.update_many(sizes)
    return stream.path(), _windows(sizes, window)


def _draw_means(draw: Draw, facts: dict[str, Any], options: dict[str, Any]) -> Any:
    """Return what makes the path of a stream of means of a random population."""
    kind = draw_kind(draw)
    values = draw_values(draw, kind)
    low, high = draw_bounds(draw, values, str(draw.choice(["tight", "2x", "20x", "shifted"])))
    facts |= {"x": kind, "bounds": f"{low:.3g} to {high:.3g}"}
    rises = bool(draw.random() < 0.3)  # later rows are larger
    facts["rises"] = rises

    def tell(draw: Draw, given: int | None, sizes: Any, window: int | None) -> Any:
        rows = draw.choice(values, sizes.sum())
        split = np.split(np.sort(rows) if rises else rows, np.cumsum(sizes)[:-1])
        stream = ContinualMeans((low, high), **options, random_state=given)
        stream.update_many(split)
        sums = np.array([np.clip(part, low, high).sum() for part in split])
        with np.errstate(all="ignore"):
            return stream.path(), _windows(sums, window) / _windows(sizes, window)

    return tell


def _windows(numbers: Any, window: int | None) -> Any:
    """Return the totals up to each step, or of the last steps."""
    totals = np.cumsum(numbers)
    if window is None:
        return totals
    return totals[window - 1 :] - np.concatenate([[0], totals[:-window]])
