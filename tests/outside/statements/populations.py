"""Random populations of rows, as finite frames.

Samples are drawn from the rows of a frame with replacement, so that every mean over a frame is an exact truth.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Draw = np.random.Generator

SIZE = 20_000
"""Rows of a frame."""


def _clusters(draw: Draw, size: int) -> Floats:
    gap, share = draw.uniform(4, 20), draw.uniform(0.1, 0.9)
    return draw.normal(size=size) + gap * (draw.random(size) < share)


def _outliers(draw: Draw, size: int) -> Floats:
    far = draw.uniform(5, 50)
    return np.where(draw.random(size) < 0.01, far, 1.0) * draw.normal(size=size)


def _inflated(draw: Draw, size: int) -> Floats:
    return draw.gamma(draw.uniform(0.5, 3), size=size) * (draw.random(size) < draw.uniform(0.1, 0.8))


def _yes_no(draw: Draw, size: int) -> Floats:
    # With exactly this fraction, so that a rare yes is in the frame.
    found = np.zeros(size)
    found[: round(size * log_uniform(draw, 0.002, 0.5))] = 1.0
    return found


KINDS: dict[str, Callable[[Draw, int], Floats]] = {
    "normal": lambda draw, size: draw.normal(size=size),
    "lognormal": lambda draw, size: draw.lognormal(0.0, draw.uniform(0.5, 1.5), size),
    "exponential": lambda draw, size: draw.exponential(size=size),
    "gamma": lambda draw, size: draw.gamma(draw.uniform(0.5, 5), size=size),
    "t3": lambda draw, size: draw.standard_t(3, size),
    "uniform": lambda draw, size: draw.random(size),
    "yes/no": _yes_no,
    "Poisson": lambda draw, size: draw.poisson(log_uniform(draw, 0.1, 30), size).astype(float),
    "zero-inflated": _inflated,
    "1-5 scale": lambda draw, size: draw.choice(5, size, p=draw.dirichlet(np.full(5, 1.5))) + 1.0,
    "two clusters": _clusters,
    "1% outliers": _outliers,
    "rounded": lambda draw, size: np.round(draw.normal(size=size) * draw.uniform(1, 5)),
    "constant": lambda draw, size: np.full(size, float(draw.integers(-2, 3))),
}
CODED = ("yes/no", "Poisson", "1-5 scale", "constant")
"""Kinds whose numbers have no unit."""
LIMITED = ("uniform", "yes/no", "1-5 scale", "constant")
"""Kinds whose least and largest value are known."""


def log_uniform(draw: Draw, low: float, high: float) -> float:
    """Return a number whose logarithm is uniform."""
    return float(np.exp(draw.uniform(np.log(low), np.log(high))))


def draw_kind(draw: Draw, constant: float = 0.02) -> str:
    """Return the kind of a column; a constant one is rarer."""
    return "constant" if draw.random() < constant else str(draw.choice([kind for kind in KINDS if kind != "constant"]))


def draw_values(draw: Draw, kind: str, size: int = SIZE, *, unit: bool = True) -> Floats:
    """Return the values of a column in a random unit, sorted."""
    values = np.sort(KINDS[kind](draw, size))
    if not unit or kind in CODED:
        return values
    return log_uniform(draw, 0.01, 1000) * (values + (draw.uniform(-3, 3) if draw.random() < 0.5 else 0.0))


def draw_rows(draw: Draw, columns: list[Floats]) -> Floats:
    """Return rows with these sorted values in each column, and a random correlation of the normal scores."""
    strength = draw.choice([0.0, 0.5, 2.0])
    common = draw.normal(size=(columns[0].size, 2))
    rows = np.empty((columns[0].size, len(columns)))
    for j, values in enumerate(columns):
        score = draw.normal(size=values.size) + strength * common @ draw.normal(size=2)
        rows[np.argsort(score), j] = values
    return rows


STYLES = ("tight", "2x", "20x", "shifted")


def draw_style(draw: Draw) -> str:
    """Return how bounds are to their column."""
    return str(draw.choice(STYLES, p=[0.4, 0.3, 0.15, 0.15]))


def draw_bounds(draw: Draw, values: Floats, style: str, *, all_inside: bool = False) -> tuple[float, float]:
    """Return public bounds: tight ones hold all values of a short tail, and all but one in a thousand of a long one."""
    low, high = (float(end) for end in np.quantile(values, [0.0, 1.0]))
    inner = [float(end) for end in np.quantile(values, [0.0005, 0.9995])]
    if high - low > 1.5 * (inner[1] - inner[0]) > 0 and not all_inside:
        low, high = inner
    if low == high:
        low, high = low - 1.0, high + 1.0
    center, half = (low + high) / 2, (high - low) / 2
    if style == "shifted":
        center += float(draw.choice([-1, 1])) * draw.uniform(0.2, 0.7) * half
    half *= {"2x": 2.0, "20x": 20.0}.get(style, 1.0)
    # In round numbers, as people declare them
    unit = 10.0 ** np.floor(np.log10(half) - 1)
    return float(np.floor((center - half) / unit) * unit), float(np.ceil((center + half) / unit) * unit)


def drop_some(draw: Draw, share: float, X: Floats, y: Floats | None = None) -> tuple[Floats, Any]:
    """Return rows with missing entries, at random and in a random column or the outcome."""
    if not share:
        return X, y
    X, y = X.copy(), None if y is None else y.copy()
    columns = X.shape[1] + (y is not None)
    rows = np.flatnonzero(draw.random(len(X)) < share)
    places = draw.integers(columns, size=rows.size)
    inside = places < X.shape[1]
    X[rows[inside], places[inside]] = np.nan
    if y is not None:
        y[rows[~inside]] = np.nan
    return X, y
