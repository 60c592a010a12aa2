"""Models of outcomes with known coefficients, what rows have beside x and y, and the error of a public rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from dpstats.privacy.gaussian import gaussian_sigma
from tests.outside.statements.populations import (
    SIZE,
    Draw,
    Floats,
    draw_bounds,
    draw_kind,
    draw_style,
    draw_values,
    log_uniform,
)

LINEAR = ("PrivateLinearRegression", "SufficientStatisticsRegression")
FAMILIES = (*LINEAR, "PrivateLogisticRegression", "PrivateCountRegression", "PrivateGammaRegression")
SKEWED = ("lognormal", "exponential", "gamma", "Poisson", "zero-inflated", "yes/no")


@dataclass
class Outcomes:
    """A population of rows with a model of their outcomes.

    Attributes
    ----------
    X, eta : arrays of shape (SIZE, d), (SIZE,)
        Rows, and their linear predictors without an offset.
    params : array
        True coefficients, the intercept first.
    draw : function of a generator, linear predictors and places of rows
        Draws outcomes.
    meat : array of shape (SIZE,)
        Variance of an outcome's score with respect to the linear predictor.
    bread : array of shape (SIZE,)
        Its mean derivative.
    reach : float
        Bound of this score for a row, over that of the outcome where there is one.
    """

    X: Floats
    eta: Floats
    params: Floats
    draw: Callable[[Draw, Floats, Any], Floats]
    meat: Floats
    bread: Floats
    reach: float


def linear(draw: Draw, X: Floats, slopes: Floats, facts: dict[str, Any], equal: bool) -> Outcomes:
    kind = draw_kind(draw, constant=0.0)
    errors = draw_values(draw, kind, unit=False)
    errors = (errors - errors.mean()) / errors.std()
    spread = np.ones(SIZE)
    if not equal and np.ptp(X[:, 0]) > 0 and draw.random() < 0.3:
        far = np.abs(X[:, 0] - np.median(X[:, 0]))
        spread = 0.3 + far / far.mean()
    scale = log_uniform(draw, 0.2, 5.0) * max(float((X @ slopes).std()), 1e-3)
    unit, level = log_uniform(draw, 0.01, 1000), draw.normal() * (draw.random() < 0.7)
    level, slopes, scale = level * unit * (not facts.get("no intercept")), slopes * unit, scale * unit
    eta = level + X @ slopes
    facts |= {"residuals": kind, "spread": "equal" if np.ptp(spread) == 0 else "depends on x"}
    facts |= {"other residuals": kind != "normal", "skewed residuals": kind in SKEWED}
    # More than exponential ones
    facts["heavy residuals"] = bool((errors**3).mean() > 2.2)
    facts["skewness depends on x"] = np.ptp(spread) > 0 and kind in SKEWED
    sizes = scale * spread

    def outcomes(at: Draw, predictor: Floats, rows: Any) -> Floats:
        return predictor + sizes[rows] * errors[at.integers(SIZE, size=predictor.size)]

    return Outcomes(X, eta, np.append(level, slopes), outcomes, sizes**2, np.ones(SIZE), 1.0)


def logistic(draw: Draw, X: Floats, slopes: Floats, facts: dict[str, Any]) -> Outcomes:
    rate = log_uniform(draw, 0.01, 0.5)
    signal = X @ slopes
    level = 0.0
    if not facts.get("no intercept"):
        level = float(brentq(lambda a: expit(a + signal).mean() - rate, -200 - signal.max(), 200 - signal.min()))
    eta = level + signal
    facts["rate"] = f"{expit(eta).mean():.3g}"
    variance = expit(eta) * expit(-eta)

    def outcomes(at: Draw, predictor: Floats, rows: Any) -> Floats:
        return (at.random(predictor.size) < expit(predictor)).astype(float)

    return Outcomes(X, eta, np.append(level, slopes), outcomes, variance, variance, 1.0)


def log_linear(draw: Draw, X: Floats, slopes: Floats, facts: dict[str, Any], counts: bool) -> Outcomes:
    mean = log_uniform(draw, 0.2, 30) if counts else log_uniform(draw, 0.1, 1e4)
    # The largest mean is at most 400 times one in the middle.
    signal = X @ slopes
    slopes = slopes * min(1.0, 6.0 / max(float(np.abs(signal - np.median(signal)).max()), 1e-9))
    level = float(np.log(mean) - np.log(np.exp(X @ slopes).mean()))
    eta = level + X @ slopes
    mu = np.exp(eta)
    extra = log_uniform(draw, 0.05, 2) if not counts or draw.random() < 0.5 else 0.0
    zeros = draw.uniform(0.05, 0.5) if not counts and draw.random() < 0.3 else 0.0
    facts |= {"mean": f"{mean:.3g}", "alpha": f"{extra:.2g}", "zeros": f"{zeros:.2g}"}

    def outcomes(at: Draw, predictor: Floats, rows: Any) -> Floats:
        mean = np.exp(predictor)
        if extra:
            mean = mean * at.gamma(1 / extra, extra, mean.size)
        if counts:
            return at.poisson(mean).astype(float)
        return mean * (at.random(mean.size) >= zeros) / (1 - zeros)

    alpha = ((1 + extra) / (1 - zeros) - 1) if not counts else extra
    variance = mu * counts + alpha * mu**2
    weight = 1 / (1 + mu) if counts else 1 / mu
    reach = float(np.median(weight))
    return Outcomes(X, eta, np.append(level, slopes), outcomes, variance * weight**2, mu * weight, reach)


def draw_model(
    draw: Draw, name: str, X: Floats, slopes: Floats, facts: dict[str, Any], equal: bool = False
) -> Outcomes:
    """Return the model that a regression of this name fits. ``equal`` residuals of a linear one have one variance."""
    if name in LINEAR:
        return linear(draw, X, slopes, facts, equal)
    if name == FAMILIES[2]:
        return logistic(draw, X, slopes, facts)
    return log_linear(draw, X, slopes, facts, name == FAMILIES[3])


def bound_outcome(draw: Draw, name: str, model: Outcomes, beside: Beside, facts: dict[str, Any]) -> dict[str, Any]:
    """Return public bounds of the outcome, with what is beside it, and multiply the reach of a score by them."""
    if name == FAMILIES[2]:
        return {}
    every, style = np.arange(SIZE), draw_style(draw)
    facts["y bounds"] = style
    seen = model.draw(draw, beside.predictor(model.eta, every), every)
    low, high = draw_bounds(draw, seen, style)
    if name not in LINEAR:
        factor = {"2x": 2.0, "20x": 20.0, "shifted": 0.5}.get(style, 1.0)
        low, high = 0.0, float(np.ceil(max(factor * np.quantile(seen, 0.9998), 1.0)))
    facts["clipped outcomes"] = bool(((seen < low) | (seen > high)).mean() > 1e-3)
    model.reach *= (high - low) / 2 if name in LINEAR else high
    return {"y_bounds": (low, high)}


def draw_slopes(draw: Draw, X: Floats, kinds: list[str], most: float) -> Floats:
    """Return slopes from weak to strong: by standard deviation, and for yes and no up to ``most``."""
    strength = log_uniform(draw, 0.02, 0.6 * most)
    return np.array(
        [
            0.0 if draw.random() < 0.2 else draw.uniform(-most, most) if kind == "yes/no" and draw.random() < 0.5
            else draw.normal() * strength / np.sqrt(len(kinds)) / (float(column.std()) or 1.0)
            for kind, column in zip(kinds, X.T, strict=True)
        ]
    )  # fmt: skip


class Beside:
    """What a fit reads beside x and y: weights, and an offset or an exposure."""

    def __init__(self, draw: Draw, name: str, facts: dict[str, Any], X: Floats) -> None:
        self.names: list[str] = []
        self.options: dict[str, Any] = {}
        log_linear = name in FAMILIES[3:]
        self.role = "exposure" if log_linear else "offset"
        if name != LINEAR[1] and draw.random() < 0.2:
            self._add("weights", draw.uniform(0.1, 1, SIZE) ** draw.choice([0.5, 2.0]), "weight_bounds", (0.0, 1.0))
        if name != LINEAR[1] and draw.random() < 0.2:
            values = draw.uniform(0.2, 3.0, SIZE) if log_linear else draw.normal(size=SIZE).clip(-3, 3)
            bounds = (0.2, 3.0) if log_linear else (-3.0, 3.0)
            self._add(self.role, values, f"{self.role}_bounds", bounds)
        facts["beside"] = ", ".join(self.names) or "nothing"

    def _add(self, name: str, values: Floats, bounds: str, given: Any) -> None:
        self.names.append(name)
        self.options[bounds] = given
        setattr(self, name, values)

    def predictor(self, eta: Floats, rows: Any) -> Floats:
        """Return the linear predictor with the offset."""
        if self.role not in self.names:
            return eta[rows]
        given = getattr(self, self.role)[rows]
        return eta[rows] + (np.log(given) if self.role == "exposure" else given)


def rule_error(cell: Outcomes, box: Floats, n: float, epsilon: float, delta: float, intercept: bool) -> Floats:
    """Return the covariance of the coefficients by a public rule that is told the design.

    It is one Newton step: its errors are the sampling error, and the noise of one gradient of rows in the box at half
    the budget.
    """
    low, high = box.T
    X = cell.X if not intercept else (cell.X - (low + high) / 2)
    unit = (high - low) / 2 if intercept else np.maximum(np.abs(low), np.abs(high))
    scaled = np.column_stack([np.ones(SIZE), X / unit] if intercept else [X / unit])
    bread, meat = (scaled.T @ (scaled * part[:, None]) / SIZE for part in (cell.bread, cell.meat))
    noise = 2 * np.sqrt(2) * cell.reach * np.sqrt(scaled.shape[1]) * gaussian_sigma(epsilon, delta)
    middle = meat / n + np.eye(len(bread)) * (noise / n) ** 2
    if np.linalg.cond(bread) > 1e10:
        return np.full_like(bread, np.nan)
    inverse = np.linalg.inv(bread)
    back = np.diag(np.append(np.ones(int(intercept)), 1 / unit))
    if intercept:
        back[0, 1:] = -(low + high) / 2 / unit
    return back @ inverse @ middle @ inverse @ back.T
