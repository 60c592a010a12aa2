"""Questions that every estimator answers about its estimates: intervals, one by one or together, and tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import stats

from dpstats.errors import InvalidParameter
from tests.outside.statements.populations import (
    Draw,
    Floats,
    draw_bounds,
    draw_kind,
    draw_rows,
    draw_style,
    draw_values,
    drop_some,
    log_uniform,
)
from tests.outside.statements.verdict import Answer, Cell

SIDES = ("two-sided", "less", "greater")
EXACT_NOISE = 0.02
"""Fraction of the cells whose noise is not simulated. Their fits are not the same ones again."""
LIMITED_TO = ("yes/no", "1-5 scale", "Poisson", "zero-inflated", "two clusters", "rounded", "constant")
"""Kinds with gaps, or with values that many rows share."""


def draw_options(
    draw: Draw, facts: dict[str, Any], deltas: Sequence[float] = (0.0, 1e-6), most: float = 20_000
) -> tuple[int, dict[str, Any]]:
    """Return the number of rows, and the privacy parameters of a cell."""
    n = round(log_uniform(draw, 12, most))
    epsilon = float(draw.choice([1e4, 1e6])) if draw.random() < 0.1 else log_uniform(draw, 0.05, 10)
    options = {"epsilon": epsilon, "delta": float(draw.choice(deltas))}
    facts |= {"n": n, "epsilon": float(f"{epsilon:.3g}"), "delta": options["delta"]}
    facts["noise"] = "exact" if draw.random() < EXACT_NOISE else ""
    return n, options


def seed(draw: Draw, facts: Mapping[str, Any]) -> int | None:
    """Return the seed of a fit, None for exact noise."""
    return None if facts["noise"] else int(draw.integers(2**31))


def draw_frame(draw: Draw, facts: dict[str, Any], d: int, constant: float = 0.02) -> Floats:
    """Return a population of rows, with random kinds of columns."""
    kinds = [draw_kind(draw, constant) for _ in range(d)]
    facts |= {"x": ", ".join(kinds), "uneven": bool(set(kinds) & set(LIMITED_TO))}
    X = draw_rows(draw, [draw_values(draw, kind) for kind in kinds])
    spread = X.std(axis=0)
    Z = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    facts["skewed"] = bool(np.abs((Z**3).mean(axis=0)).max() > 0.1)
    facts["heavy tails"] = bool((Z**4).mean(axis=0).max() > 3.1)
    return X


def draw_box(draw: Draw, facts: dict[str, Any], X: Floats, *, hard: bool = False, shifted: bool = True) -> Floats:
    """Return public bounds of every column, some of them wrong unless they are hard."""
    styles = [draw_style(draw) for _ in range(X.shape[1])]
    if hard or not shifted:
        styles = ["tight" if style == "shifted" else style for style in styles]
    facts["bounds"] = ", ".join(styles) + (", hard" if hard else "")
    box = [draw_bounds(draw, column, style, all_inside=hard) for column, style in zip(X.T, styles, strict=True)]
    return np.array(box)


def draw_missing(draw: Draw, facts: dict[str, Any], options: dict[str, Any], share: float = 0.2) -> float:
    """Return a fraction of rows with a missing entry, which the fit drops."""
    if draw.random() > share:
        return 0.0
    missing, options["missing"] = float(draw.uniform(0, 0.3)), "drop"
    facts["missing"] = f"{missing:.2f}"
    return missing


def sample_rows(draw: Draw, frame: Floats, n: int, missing: float = 0.0) -> Floats:
    """Return independent rows of a population."""
    return drop_some(draw, missing, frame[draw.integers(len(frame), size=n)])[0]


def whole(X: Floats) -> Floats:
    """Return the rows without missing entries."""
    return X[np.isfinite(X).all(axis=1)]


def usual_means(X: Floats) -> tuple[Floats, Floats, float]:
    """Return means, their standard errors, and the degrees of freedom."""
    n = len(X)
    if n < 2:
        return np.zeros(X.shape[1]), np.full(X.shape[1], np.inf), 1.0
    return X.mean(axis=0), X.std(axis=0, ddof=1) / np.sqrt(n), n - 1.0


def as_text(kind: str, level: float) -> str:
    """Return the words of a question about intervals."""
    return f"{kind} {1 - level:g}"


@dataclass
class Asker:
    """A random population and estimator, and what is true.

    Attributes
    ----------
    fit : function of a generator
        Returns an object with estimates, and the sample that it is about.
    truth : function of both
        Returns the true values, or pairs of the least and the largest one.
    usual : function of a sample, optional
        Estimates without privacy, their standard errors, and degrees of freedom.
    names : sequence of str
        What notes call the estimates.
    given : mapping
        Options of every question, such as the estimand.
    levels, sides : sequences
        What intervals can be asked for.
    """

    family: str
    facts: dict[str, Any]
    fit: Callable[[Draw], tuple[Any, Any]]
    truth: Callable[[Any, Any], Any]
    usual: Callable[[Any], tuple[Floats, Floats, float]] | None = None
    names: Sequence[str] = ("x0",)
    given: Mapping[str, Any] = field(default_factory=dict)
    levels: Sequence[float] = (0.2, 0.05, 0.01)
    sides: Sequence[str] = SIDES
    questions: Sequence[str] = ("interval", "interval", "test", "together")

    def cell(self, draw: Draw, question: str = "") -> Cell:
        """Return the cell of a question, by default a random one."""
        asked = [each for each in self.questions if each != "together" or len(self.names) > 1]
        question = question or str(draw.choice(asked))
        level = 0.05 if question == "test" else float(draw.choice(self.levels))
        side = "two-sided" if question == "together" else str(draw.choice(self.sides))
        j = int(draw.integers(len(self.names)))
        about = self.names if question == "together" else [self.names[j]]
        words = {"test": f"test {side}", "interval": as_text(f"interval {side}", level)}
        words["together"] = as_text("intervals together", level)

        def answer(draw: Draw) -> Answer | None:
            model, sample = self.fit(draw)
            try:
                return ask(model, sample)
            except InvalidParameter:
                # What this release refuses, another one may answer.
                return None

        def ask(model: Any, sample: Any) -> Answer:
            low, high = _ends(self.truth(model, sample))
            place = slice(None) if question == "together" else j % low.size
            notes, width = model.summary(**self._known(model)).notes, np.nan
            if question == "test":
                pvalues, words = self._refuted(model, low, side)
                missed, notes = pvalues[place] < 0.05, [*notes, words]
            else:
                more = {"simultaneous": True} if question == "together" else {"alternative": side}
                more = {} if self.sides == ("two-sided",) and question != "together" else more
                found = model.confidence_interval(1 - level, **more, **self.given)
                notes = [*notes, f"Intervals cover {found.estimand}"]
                ends = [np.ravel(end).astype(float) for end in found]
                missed = is_outside(ends[0][place], ends[1][place], low[place], high[place])
                width = float(np.ravel(ends[1] - ends[0])[0 if question == "together" else place])
            return Answer(bool(missed), notes, width)

        without = self._without_privacy(j, question, level, side) if self.usual else None
        cell = words[question]
        return Cell(self.family, cell, self.facts, about, level, answer, np.nan, question == "test", without)

    def _known(self, model: Any) -> dict[str, Any]:
        """Return the options that a summary has too."""
        return {name: value for name, value in self.given.items() if name in ("estimand", "interval", "q")}

    def _refuted(self, model: Any, truth: Floats, side: str) -> tuple[Floats, str]:
        """Return the p-values of the truth, and the estimand."""
        shape = np.shape(model.confidence_interval(**self.given).low)
        value = truth.reshape(shape) if shape else float(truth[0])
        found = model.test(value=value, alternative=side, **self.given)
        return np.ravel(np.asarray(found.pvalue, float)), f"Intervals cover {found.estimates.estimand}"

    def _without_privacy(self, j: int, question: str, level: float, side: str) -> Callable[[Draw], bool]:
        """Return whether the usual interval without privacy misses, as a function of a generator."""
        usual = self.usual
        assert usual is not None

        def missed(draw: Draw) -> bool:
            model, sample = self.fit(draw)
            low, high = _ends(self.truth(model, sample))
            estimate, error, degrees = usual(sample)
            place = slice(None) if question == "together" else j % low.size
            tail = level / (1 if side != "two-sided" else 2) / (low.size if question == "together" else 1)
            reach = stats.t.isf(tail, degrees) * np.ravel(error)[place]
            start = np.ravel(estimate)[place]
            ends = (start - reach, start + reach)
            if side != "two-sided":
                ends = (start - reach, np.inf) if side == "greater" else (-np.inf, start + reach)
            return is_outside(*ends, low[place], high[place])

        return missed


def _ends(truth: Any) -> tuple[Floats, Floats]:
    """Return the least and the largest true value of every estimate."""
    low, high = truth if isinstance(truth, tuple) else (truth, truth)
    return np.atleast_1d(np.ravel(low)).astype(float), np.atleast_1d(np.ravel(high)).astype(float)


def is_outside(low: Any, high: Any, least: Any, largest: Any) -> bool:
    """Return whether an interval holds none of the true values. Rounding is no miss."""
    sizes = [np.where(np.isfinite(each), np.abs(each), 0.0) for each in (least, largest)]
    room = 1e-9 * np.maximum(*sizes) + 1e-12
    return bool(np.any((largest < low - room) | (least > high + room)))


def level_cell(
    family: str,
    question: str,
    facts: dict[str, Any],
    fit: Callable[[Draw], tuple[Any, Any]],
    usual: Callable[[Any], float] | None = None,
    names: Sequence[str] = ("x0",),
) -> Cell:
    """Return the cell of a test of a true null hypothesis at 0.05.

    ``fit`` returns an object with ``pvalue`` and ``summary()``, and its sample; ``usual`` the usual p-value.
    """

    def answer(draw: Draw) -> Answer:
        found, _ = fit(draw)
        return Answer(bool(found.pvalue <= 0.05), found.summary().notes)

    without = None if usual is None else lambda draw: bool(usual(fit(draw)[1]) <= 0.05)
    return Cell(family, question, facts, names, 0.05, answer, np.nan, True, without)
