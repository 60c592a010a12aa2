"""Cells of conformal prediction: whether an interval or a set has the outcome of a new row, of all or of a group."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from dpstats.conformal import PrivateConformalClassifier, PrivateConformalRegressor
from tests.outside.statements.group_means import draw_shares
from tests.outside.statements.populations import SIZE, Draw, draw_kind, draw_values, log_uniform
from tests.outside.statements.questions import draw_frame, draw_options, seed
from tests.outside.statements.verdict import Answer, Cell

BY = "g"
"""Column of the groups."""


def draw_cell(draw: Draw, question: str = "") -> Cell:
    """Return a random cell of a conformal regressor or classifier, with this question if it is given."""
    facts: dict[str, Any] = {}
    n, options = draw_options(draw, facts, (0.0,))
    del options["delta"]
    classifies = question == "set" or (not question and bool(draw.random() < 0.4))
    X = draw_frame(draw, facts, int(draw.integers(1, 4)))
    groups = draw.choice(len(shares := draw_shares(draw, int(draw.integers(2, 6)))), SIZE, p=shares)
    grouped = bool(draw.random() < 0.5)
    alpha = float(draw.choice([0.3, 0.2, 0.1, 0.05, 0.01] + [0.7] * (not grouped)))
    options |= {"alpha": alpha, "training": "public"}
    if draw.random() < 0.2:
        options["n_points"] = int(draw.choice([3, 10, 1000]))
    make = _classifier if classifies else _regressor
    y, model, options = make(draw, facts, options, X, groups)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    about, places = "all rows", np.arange(SIZE)
    if grouped:
        undeclared = int(draw.random() < 0.2 and len(shares) > 2)
        frame[BY] = np.array([f"g{g}" for g in range(len(shares))])[groups]
        options |= {"by": BY, "groups": [f"g{g}" for g in range(len(shares) - undeclared)]}
        asked = int(draw.integers(len(shares)))
        about, places = f"g{asked}", np.flatnonzero(groups == asked)
        facts["shares"] = " ".join(f"{share:.2g}" for share in shares)
        if not places.size:
            places = np.arange(SIZE)
    facts |= {"about": about, "alpha": alpha, "points": options.get("n_points", "")}

    def answer(draw: Draw) -> Answer:
        rows, new = draw.integers(SIZE, size=n), draw.choice(places, 1)
        fit = model(**options, random_state=seed(draw, facts)).fit(frame.iloc[rows], y[rows])
        if classifies:
            held = fit.predict_set(frame.iloc[new])[0]
            # A class that is not in the model is refused in calibration rows, and is in no population here.
            return Answer(not held[list(fit.classes_).index(y[new[0]])], fit.summary().notes, float(held.sum()))
        low, high = (end[0] for end in fit.predict_interval(frame.iloc[new]))
        return Answer(not low <= y[new[0]] <= high, fit.summary().notes, float(high - low))

    family = model.__name__
    return Cell(family, "set" if classifies else "interval", facts, [about], alpha, answer)


def _regressor(draw: Draw, facts: dict[str, Any], options: dict[str, Any], X: Any, groups: Any) -> Any:
    """Return outcomes, the class, and options with a fitted model, maybe one of the scale."""
    kind = draw_kind(draw)
    signal = (X - X.mean(axis=0)) @ draw.normal(size=X.shape[1])
    residual = draw.permutation(draw_values(draw, kind))
    spread = residual.std() or 1.0
    # Groups and rows may have other spreads.
    scale = np.exp(draw.normal(size=groups.max() + 1) * draw.choice([0.0, 1.0]))[groups]
    y = residual * scale + signal / (signal.std() or 1.0) * spread * draw.choice([0.0, 1.0, 10.0])
    if draw.random() < 0.2:
        unit = float(y.std()) or 1.0
        y, facts["rounded"] = np.round(y / unit) * unit, True
    train = draw.integers(SIZE, size=round(log_uniform(draw, 20, 2000)))
    models: list[Any] = [LinearRegression(), DecisionTreeRegressor(max_leaf_nodes=8), DummyRegressor()]
    models.append(DummyRegressor(strategy="constant", constant=float(y.mean() + 10 * y.std())))
    estimator = models[draw.integers(len(models))].fit(X[train], y[train])
    away = np.abs(y - estimator.predict(X))
    facts |= {"y": kind, "model": type(estimator).__name__}
    if draw.random() < 0.3:
        scales = DecisionTreeRegressor(max_leaf_nodes=4).fit(X[train], away[train])
        predicted = scales.predict(X)
        if (predicted > 0).any():
            options["scale_estimator"], facts["scale"] = scales, "tree"
            away = away[predicted > 0] / predicted[predicted > 0]
    elif draw.random() < 0.4:
        low, high = np.sort(draw.choice([0.02, 0.1, 0.3, 0.5, 0.8, 0.95], 2, replace=False)).tolist()
        estimator, upper = (
            DummyRegressor(strategy="quantile", quantile=q).fit(X[train], y[train]) for q in (low, high)
        )
        away = np.abs(np.maximum(estimator.predict(X) - y, y - upper.predict(X)))
        options["upper_estimator"], facts["quantiles"] = upper, f"{low:g} and {high:g}"
    most = float(away.max()) or 1.0
    # Too small, near, or far too large
    high = most * float(draw.choice([0.3, 1.0, 2.0, 100.0], p=[0.1, 0.4, 0.3, 0.2]))
    options["score_bounds"] = (high / 30, high) if draw.random() < 0.3 else high
    facts["score bounds"] = f"{high / most:.2g} of the largest"
    if draw.random() < 0.3:
        options["y_bounds"] = (float(y.min()) - 1e-9, float(y.max()) + 1e-9)
        facts["y bounds"] = True
    options["estimator"] = estimator
    return y, PrivateConformalRegressor, options


def _classifier(draw: Draw, facts: dict[str, Any], options: dict[str, Any], X: Any, groups: Any) -> Any:
    """Return classes, the class, and options with a fitted model that has all of them."""
    k = int(draw.integers(2, 6))
    Z = (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    scores = draw.choice([0.3, 1.0, 4.0]) * Z @ draw.normal(size=(X.shape[1], k)) + np.log(draw_shares(draw, k))
    y = np.argmax(scores + draw.gumbel(size=scores.shape), axis=1)
    size = round(log_uniform(draw, 50, 2000))
    train = np.concatenate([draw.integers(SIZE, size=size), np.unique(y, return_index=True)[1]])
    # A tree has few probabilities, 0 among them.
    smooth = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    model: Any = smooth if draw.random() < 0.5 else DecisionTreeClassifier(max_leaf_nodes=8)
    options["estimator"] = model.fit(X[train], y[train]) if len(np.unique(y)) > 1 else _grown(X, y)
    facts |= {"y": f"{k} classes", "model": type(options["estimator"]).__name__}
    return y, PrivateConformalClassifier, options


def _grown(X: Any, y: Any) -> Any:
    """Return a tree of one class."""
    return DecisionTreeClassifier().fit(X[:50], y[:50])
