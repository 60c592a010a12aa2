"""Cells of rows with labels and covariates: `PrivateLinearRegression` with factors, and `GroupMeans` with ``adjust``.

A frame has a column of 0 and 1 for each level but the first of its factor, so that truths are coefficients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

from dpstats import regression
from dpstats.groups import GroupMeans
from dpstats.privacy.gaussian import gaussian_sigma
from tests.outside.statements import regressions
from tests.outside.statements.group_means import EXACT, draw_shares
from tests.outside.statements.outcomes import FAMILIES, LINEAR, Beside, Outcomes, bound_outcome, draw_model, draw_slopes
from tests.outside.statements.populations import (
    CODED,
    LIMITED,
    SIZE,
    Draw,
    Floats,
    draw_bounds,
    draw_kind,
    draw_rows,
    draw_style,
    draw_values,
    log_uniform,
)
from tests.outside.statements.verdict import Answer, Cell

_DRAWS = 20
"""Outcomes of every row, from which the means of clipped ones are computed."""
FACTORS, ADJUSTED, FORMULAS = "PrivateLinearRegression(factors)", "GroupMeans(adjust)", "from_formula(factor)"


@dataclass
class Labelled:
    """A population of rows with labels.

    Attributes
    ----------
    model : Outcomes
        Its columns are the covariates, then those of the levels but the first of each factor.
    box, y_bounds
        Public bounds of the covariates, and of the outcome.
    levels : mapping of str to list of str
        The factors.
    shares : array of shape (k,)
        Of the levels of the first factor.
    equal : bool
        Whether these levels have equal means at equal covariates.
    """

    model: Outcomes
    box: Floats
    y_bounds: Any
    levels: Mapping[str, list[str]]
    shares: Floats
    equal: bool

    @property
    def places(self) -> dict[str, range]:
        """Positions of the columns of each factor."""
        places, first = {}, len(self.box)
        for name, own in self.levels.items():
            places[name] = range(first, first + len(own) - 1)
            first += len(own) - 1
        return places

    @property
    def columns(self) -> list[str]:
        """Names of the columns as coefficients have them."""
        numbers = [f"x{j}" for j in range(len(self.box))]
        return [*numbers, *(f"{name}[T.{level}]" for name, own in self.levels.items() for level in own[1:])]

    def effects(self, name: str) -> Floats:
        """Return the coefficients of the levels of a factor, the first of which is 0."""
        return np.append(0.0, self.model.params[1:][list(self.places[name])])

    def labels(self, X: Floats, name: str) -> Any:
        """Return the label of each row of the model, None if an entry is missing."""
        codes = X[:, list(self.places[name])] @ np.arange(1, len(self.levels[name]))
        own = np.array([*self.levels[name], None], dtype=object)
        return own[np.where(np.isfinite(codes), codes, len(own) - 1).astype(int)]


def draw_labelled(
    draw: Draw, facts: dict[str, Any], factors: int, randomized: bool, beside: bool, name: str = LINEAR[0]
) -> tuple[Labelled, Beside]:
    """Return a population of rows with labels, for a regression of this name, and what rows have beside them."""
    d, k = int(draw.integers(1, 4)), int(draw.integers(2, 6))
    kinds = [draw_kind(draw, constant=0.0) for _ in range(d)]
    shares, equal = draw_shares(draw, k), bool(draw.random() < 0.3)
    levels = {"g": [f"g{level}" for level in range(k)], "h": ["no", "yes"]}
    levels = dict(list(levels.items())[:factors])
    codes = {"g": draw.choice(k, SIZE, p=shares)}
    # Rare levels are in the frame.
    codes["g"][:k] = np.arange(k)
    if factors == 2:
        codes["h"] = (draw.random(SIZE) < log_uniform(draw, 0.02, 0.5)).astype(int)
    X = draw_rows(draw, [draw_values(draw, kind) for kind in kinds])
    if not randomized:
        for j, kind in enumerate(kinds):
            if kind not in CODED:
                X[:, j] += draw.normal(size=k)[codes["g"]] * X[:, j].std()
    styles = [draw_style(draw) for _ in kinds]
    box = np.array([
        draw_bounds(draw, values, "tight" if kind in LIMITED and style == "shifted" else style)
        for kind, values, style in zip(kinds, X.T, styles, strict=True)
    ])  # fmt: skip
    slopes = draw_slopes(draw, X, kinds, 1.5 if name in FAMILIES[3:] else 5.0)
    signal = max(float((X @ slopes).std()), 1e-3) if name in LINEAR else 0.5
    size = signal * log_uniform(draw, 0.2, 5)
    jumps = [draw.normal(size=len(own) - 1) * size for own in levels.values()]
    jumps[0] *= not equal
    dummies = [(codes[each] == level).astype(float) for each, own in levels.items() for level in range(1, len(own))]
    X = np.column_stack([X, *dummies])
    facts |= {
        "x": ", ".join(kinds),
        "x bounds": ", ".join(styles),
        "shares": " ".join(f"{share:.2g}" for share in np.bincount(codes["g"], minlength=k) / SIZE),
        "equal": equal,
        "randomized": randomized,
    }
    # Without weights and offsets if the estimator has none: `Beside` draws none for the second linear regression.
    extra = Beside(draw, LINEAR[int(not beside)], facts, X)
    model = draw_model(draw, name, X, np.append(slopes, np.concatenate(jumps)), facts)
    if "offset" in extra.names:
        unit = max(float(model.eta.std()), 1e-6)
        extra.offset = extra.offset * unit  # type: ignore[attr-defined]
        extra.options["offset_bounds"] = (-3 * unit, 3 * unit)
    y_bounds = bound_outcome(draw, name, model, extra, facts).get("y_bounds")
    counts = np.bincount(codes["g"], minlength=k) / SIZE
    return Labelled(model, box, y_bounds, levels, counts, equal), extra


def draw_options(
    draw: Draw, facts: dict[str, Any], fewest: int = 200, least: float = 0.1
) -> tuple[int, float, dict[str, Any]]:
    """Return the number of rows, the fraction of missing rows, and options of any estimator."""
    n = round(log_uniform(draw, fewest, 50_000))
    epsilon = EXACT if draw.random() < 0.1 else log_uniform(draw, least, 10)
    facts |= {"n": n, "epsilon": float(f"{epsilon:.3g}")}
    options: dict[str, Any] = {"epsilon": epsilon, "delta": float(draw.choice([1e-6, 1e-9]))}
    missing = draw.uniform(0, 0.3) if draw.random() < 0.3 else 0.0
    if missing:
        options["missing"], facts["missing"] = "drop", f"{missing:.2f}"
    return n, missing, options


def draw_factors(draw: Draw, question: str = "") -> Cell:
    """Return a random cell of `PrivateLinearRegression` with factors, with this question if it is given."""
    facts: dict[str, Any] = {}
    n, missing, options = draw_options(draw, facts)
    rows, beside = draw_labelled(draw, facts, 2 if draw.random() < 0.3 else 1, bool(draw.random() < 0.5), True)
    options |= {"x_bounds": rows.box, "y_bounds": rows.y_bounds, "factors": rows.levels, **beside.options}
    return FactorsAsker(rows, beside, options, facts, missing, n).cell(draw, question)


def draw_formula(draw: Draw, question: str = "") -> Cell:
    """Return a random cell of a regression of a formula with a factor, with this question if it is given."""
    facts: dict[str, Any] = {}
    name = str(draw.choice([LINEAR[0], *FAMILIES[2:]]))
    n, missing, options = draw_options(draw, facts, 2000, 0.5)  # so that some columns are seen
    rows, beside = draw_labelled(draw, facts, 1, bool(draw.random() < 0.5), False, name)
    return FormulaAsker(name, rows, beside, options, facts, missing, n).cell(draw, question)


def draw_adjusted(draw: Draw, question: str = "") -> Cell:
    """Return a random cell of `GroupMeans` with covariates, with this question if it is given."""
    facts: dict[str, Any] = {}
    n, missing, options = draw_options(draw, facts)
    randomized = bool(draw.random() < 0.5)
    rows, beside = draw_labelled(draw, facts, 1, randomized, False)
    bounds = np.vstack([rows.y_bounds, rows.box])
    options |= {"groups": rows.levels["g"], "bounds": bounds, "adjust": list(range(1, len(bounds)))}
    options |= {"randomized": randomized}
    return AdjustedAsker(rows, beside, options, facts, missing, n).cell(draw, question)


class FactorsAsker(regressions.Asker):
    """Draws samples of rows with labels, fits `PrivateLinearRegression`, and asks a question."""

    def __init__(
        self, rows: Labelled, beside: Beside, options: dict[str, Any], facts: dict[str, Any], missing: float, n: int
    ) -> None:
        self.rows = rows
        facts["factors"] = " and ".join(f"{name} of {len(own)}" for name, own in rows.levels.items())
        given = {"y_bounds": rows.y_bounds} | options
        super().__init__(LINEAR[0], rows.model, beside, given, facts, missing, n, False)
        self.options, self.names = options, ["Intercept", *rows.columns]

    @property
    def box(self) -> Floats:
        return np.vstack([self.rows.box, *[(0.0, 1.0)] * (self.model.X.shape[1] - len(self.rows.box))])

    def read(self, X: Floats) -> Any:
        numbers = X[:, : len(self.rows.box)]
        frame = pd.DataFrame(numbers, columns=self.rows.columns[: numbers.shape[1]])
        for name in self.rows.levels:
            frame[name] = self.rows.labels(X, name)
        return frame

    def questions(self) -> list[Callable[[Draw], Cell]]:
        return [*super().questions(), self.difference, self.difference, self.term]

    def _cell(self, question: str, about: Any, nominal: float, ask: Callable[..., Any], **more: Any) -> Cell:
        cell = super()._cell(question, about, nominal, ask, **more)
        object.__setattr__(cell, "family", FACTORS)
        return cell

    def difference(self, draw: Draw) -> Cell:
        """Ask for an interval of the difference of two levels, or test the true one."""
        name, (a, b), side, tests, nominal = self._pair(draw, list(self.rows.levels))
        own, effects = self.rows.levels[name], self.rows.effects(name)
        truth = effects[a] - effects[b]

        def ask(model: Any, sample: Any) -> bool:
            found = model.difference(own[a], own[b], name, side)
            if tests:
                return found.test(truth).pvalue[0] < 0.05
            return regressions.outside(found.confidence_interval(1 - nominal), truth)

        about = [1 + self.rows.places[name][level - 1] for level in (a, b) if level]
        usual = self._usual(self._level(name, a) - self._level(name, b), nominal, side)
        words = _words("difference", tests, side, nominal)
        return self._cell(words, about, nominal, ask, is_test=tests, without_privacy=usual)

    def _level(self, name: str, level: int) -> Floats:
        """Return the combination of coefficients that is the effect of a level."""
        every = np.eye(len(self.truth))
        return every[1 + self.rows.places[name][level - 1]] if level else 0.0 * every[0]

    def _pair(self, draw: Draw, names: list[str]) -> tuple[str, tuple[int, int], str, bool, float]:
        """Return two levels of a factor, and how their difference is asked about."""
        name = str(draw.choice(names))
        a, b = (int(level) for level in draw.choice(len(self.rows.levels[name]), 2, replace=False))
        side, tests = str(draw.choice(["two-sided", "less", "greater"])), bool(draw.random() < 0.5)
        return name, (a, b), side, tests, 0.05 if tests else float(draw.choice([0.2, 0.05, 0.01]))

    def term(self, draw: Draw) -> Cell:
        """Test the true values of all levels of a factor."""
        name = str(draw.choice(list(self.rows.levels)))
        places = [1 + place for place in self.rows.places[name]]
        text = ", ".join(f"{self.names[j]} = {float(self.truth[j])!r}" for j in places)

        def ask(model: Any, sample: Any) -> bool:
            return model.f_test(text).pvalue < 0.05

        usual = self._usual(self._unit(places), 0.05, joint=True)
        return self._cell("levels of a factor", places, 0.05, ask, is_test=True, without_privacy=usual)


class FormulaAsker(regressions.Asker):
    """Draws samples of rows with labels, fits a formula, and asks a question."""

    def __init__(
        self, name: str, rows: Labelled, beside: Beside, options: dict[str, Any], facts: dict[str, Any],
        missing: float, n: int,
    ) -> None:  # fmt: skip
        self.rows = rows
        box = np.vstack([rows.box, *[(0.0, 1.0)] * (rows.model.X.shape[1] - len(rows.box))])
        bounded = {} if rows.y_bounds is None else {"y_bounds": rows.y_bounds}
        super().__init__(name, rows.model, beside, {"x_bounds": box, **bounded, **options}, facts, missing, n, False)
        self.fitting = options
        self.names = ["Intercept", *(each.replace("g[", "C(g)[") for each in rows.columns)]

    def fit(self, draw: Draw) -> tuple[Any, Any]:
        X, y, beside = self.sample(draw)
        numbers = self.rows.columns[: len(self.rows.box)]
        frame = pd.DataFrame(X[:, : len(numbers)], columns=numbers).assign(g=self.rows.labels(X, "g"), y=y)
        bounds = dict(zip(numbers, self.rows.box.tolist(), strict=True))
        bounds |= {} if self.rows.y_bounds is None else {"y": self.rows.y_bounds}
        made = getattr(regression, self.name).from_formula(
            f"y ~ {' + '.join([*numbers, 'C(g)'])}", frame, bounds=bounds, levels=self.rows.levels,
            random_state=int(draw.integers(2**31)), **self.fitting,
        )  # fmt: skip
        return made, (X, y, beside, draw)

    def questions(self) -> list[Callable[[Draw], Cell]]:
        return [self.interval, self.interval, self.test, self.combination, self.joint, self.simultaneous]

    def _cell(self, question: str, about: Any, nominal: float, ask: Callable[..., Any], **more: Any) -> Cell:
        cell = super()._cell(question, about, nominal, ask, **more)
        object.__setattr__(cell, "family", FORMULAS)
        return cell


class AdjustedAsker(FactorsAsker):
    """Draws samples of rows with labels, fits `GroupMeans` with covariates, and asks a question."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        # The estimand is of clipped outcomes: the least-squares fit to many of these.
        at, every = np.random.default_rng(0), np.arange(SIZE)
        outcomes = np.array([self.model.draw(at, self.model.eta, every) for _ in range(_DRAWS)])
        inside = outcomes.clip(*self.limits)
        if np.mean(inside != outcomes) > 0.001:
            rows = np.column_stack([np.ones(SIZE), self.model.X])
            lost = np.linalg.lstsq(rows, (inside - outcomes).mean(axis=0), rcond=None)[0]
            self.truth = self.truth + lost
            self.model.params = self.truth

    def fit(self, draw: Draw) -> tuple[Any, Any]:
        X, y, beside = self.sample(draw)
        made = GroupMeans(**self.options, random_state=int(draw.integers(2**31)))
        # An undeclared label takes part in nothing, as a missing one does.
        labels = np.array([str(label) for label in self.rows.labels(X, "g")])
        return made.fit(np.column_stack([y, X[:, : len(self.rows.box)]]), labels), (X, y, beside, draw)

    def questions(self) -> list[Callable[[Draw], Cell]]:
        return [self.difference, self.difference, self.pairwise, *[self.anova] * self.rows.equal]

    def cell(self, draw: Draw, question: str) -> Cell:
        questions = self.questions()
        chosen = getattr(self, question) if question else questions[draw.integers(len(questions))]
        cell: Cell = chosen(draw)
        return cell

    def _ask(
        self, question: str, levels: Any, nominal: float, ask: Callable[..., Any], usual: Any, is_test: bool = False
    ) -> Cell:
        """Return a cell whose question is asked of a fit: (missed, notes of the answer).

        The length is that of the 95% interval of the difference of the first and the last of the levels.
        """
        names = [self.rows.levels["g"][level] for level in levels]

        def answer(draw: Draw) -> Answer:
            model, _ = self.fit(draw)
            missed, notes = ask(model)
            low, high = model.adjusted_difference(names[0], names[-1]).confidence_interval()
            return Answer(bool(missed), [*model.summary().notes, *notes], float(high[0] - low[0]))

        reference = self._length(levels[0], levels[-1])
        return Cell(ADJUSTED, question, self.facts, names, nominal, answer, reference, is_test, usual)

    def _length(self, a: int, b: int) -> float:
        """Return the length of the interval of a public rule, which is told the slopes and the sizes of groups."""
        low, high = self.rows.y_bounds
        rows = np.maximum(self.n * (1 - self.missing) * self.rows.shares[[a, b]], 1.0)
        noise = (high - low) * gaussian_sigma(self.options["epsilon"], self.options["delta"])
        variance = float((self.model.meat.mean() / rows + (noise / rows) ** 2).sum())
        return float(min(2 * norm.isf(0.025) * np.sqrt(variance), 2 * (high - low)))

    def difference(self, draw: Draw) -> Cell:
        """Ask for an interval of the difference of two groups at equal covariates, or test the true one."""
        _, (a, b), side, tests, nominal = self._pair(draw, ["g"])
        effects = self.rows.effects("g")
        truth = np.array([effects[a] - effects[b]])

        def ask(model: Any) -> tuple[bool, Any]:
            found = model.adjusted_difference(f"g{a}", f"g{b}", side)
            if tests:
                return found.test(truth).pvalue[0] < 0.05, found.notes
            return regressions.outside(found.confidence_interval(1 - nominal), truth), found.notes

        usual = self._usual(self._level("g", a) - self._level("g", b), nominal, side)
        words = _words("adjusted difference", tests, side, nominal)
        return self._ask(words, [a, b], nominal, ask, usual, tests)

    def pairwise(self, draw: Draw) -> Cell:
        """Ask for all pairs together."""
        nominal, method = float(draw.choice([0.2, 0.05, 0.01])), str(draw.choice(["tukey", "holm"]))
        effects = self.rows.effects("g")
        first, second = np.triu_indices(len(effects), 1)
        truth = effects[first] - effects[second]

        def ask(model: Any) -> tuple[bool, Any]:
            found = model.pairwise(method)
            return regressions.outside(found.confidence_interval(1 - nominal), truth), found.notes

        pairs = [self._level("g", a) - self._level("g", b) for a, b in zip(first, second, strict=True)]
        usual = self._usual(pairs, nominal)
        return self._ask(f"pairs by {method} {1 - nominal:g}", range(len(effects)), nominal, ask, usual)

    def anova(self, draw: Draw) -> Cell:
        """Test groups that are equal at equal covariates."""

        def ask(model: Any) -> tuple[bool, Any]:
            return model.anova().pvalue[0] < 0.05, ()

        usual = self._usual(self._unit(1 + place for place in self.rows.places["g"]), 0.05, joint=True)
        return self._ask("anova", range(len(self.rows.shares)), 0.05, ask, usual, True)


def _words(question: str, tests: bool, side: str, nominal: float) -> str:
    return f"{question}, test {side}" if tests else f"{question}, interval {side} {1 - nominal:g}"
