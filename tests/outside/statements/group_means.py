"""Cells of `GroupMeans`: groups of one kind of population with other means and spreads, and questions about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import f_oneway, norm
from scipy.stats import t as student

from dpstats.groups import GroupMeans
from dpstats.privacy.gaussian import gaussian_sigma
from tests.outside.statements.populations import (
    CODED,
    SIZE,
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

EXACT = 1e4
TOLERANCE = 0.1
"""Standard errors by which a mean may differ from that of pandas, where noise is nothing."""
LONG = 9.0
"""Kurtosis of an exponential distribution."""


@dataclass
class Groups:
    """Populations of groups.

    Attributes
    ----------
    frames : array of shape (k, SIZE, d)
    shares : array of shape (k,)
        Their fractions of all rows. The last one may be undeclared.
    equal : bool
        Whether all groups are one population.
    """

    frames: Floats
    shares: Floats
    declared: int
    equal: bool


def draw_shares(draw: Draw, k: int) -> Floats:
    """Return the shares of groups: equal ones, any, or all but one rare."""
    style = draw.integers(3)
    if style == 0:
        return np.full(k, 1 / k)
    if style == 1:
        return draw.dirichlet(np.ones(k))
    rare = draw.uniform(0.01, 0.05)
    return np.append(1 - (k - 1) * rare, np.full(k - 1, rare))


def _groups(draw: Draw, facts: dict[str, Any]) -> Groups:
    k, d = int(draw.integers(2, 7)), int(draw.choice([1, 1, 2, 4]))
    kinds = [draw_kind(draw) for _ in range(d)]
    shares, equal = draw_shares(draw, k), bool(draw.random() < 0.3)
    base = draw_rows(draw, [draw_values(draw, kind) for kind in kinds])
    frames = np.array([base] * k)
    if not equal:
        for j, kind in enumerate(kinds):
            for g in range(k):
                if kind in CODED:
                    other = draw_values(draw, kind)
                else:
                    spread = base[:, j].std()
                    other = base[:, j] * log_uniform(draw, 0.5, 2) + draw.normal() * draw.choice([0.1, 1.0]) * spread
                frames[g, :, j] = other
    undeclared = k > 2 and draw.random() < 0.2
    facts |= {"x": ", ".join(kinds), "shares": " ".join(f"{share:.2g}" for share in shares), "equal": equal}
    return Groups(frames, shares, k - int(undeclared), equal)


def draw_cell(draw: Draw, question: str = "") -> Cell:
    """Return a random cell of `GroupMeans`, with this question if it is given."""
    n = round(log_uniform(draw, 50, 50_000))
    epsilon = EXACT if draw.random() < 0.1 else log_uniform(draw, 0.1, 10)
    facts: dict[str, Any] = {"n": n, "epsilon": float(f"{epsilon:.3g}")}
    groups = _groups(draw, facts)
    hard = bool(draw.random() < 0.3)
    styles = [draw_style(draw) for _ in range(groups.frames.shape[2])]
    if hard:
        styles = ["tight" if style == "shifted" else style for style in styles]
    box = np.array([
        draw_bounds(draw, groups.frames[: groups.declared, :, j].ravel(), style, all_inside=hard)
        for j, style in enumerate(styles)
    ])  # fmt: skip
    options: dict[str, Any] = {
        "groups": [f"g{g}" for g in range(groups.declared)],
        "bounds": box,
        "epsilon": epsilon,
        "delta": float(draw.choice([0.0, 1e-6, 1e-9])),
        "bounds_are": "hard" if hard else "clip",
        "neighbors": "add_or_remove" if draw.random() < 0.3 else "replace_one",
    }
    if draw.random() < 0.15:
        options |= {"groups": "discover", "delta": 1e-6}
        groups.declared = len(groups.shares)
        options["bounds"] = np.array([
            draw_bounds(draw, groups.frames[:, :, j].ravel(), style, all_inside=hard) for j, style in enumerate(styles)
        ])  # fmt: skip
    missing = draw.uniform(0, 0.3) if draw.random() < 0.3 else 0.0
    if missing:
        options["missing"] = "drop"
    facts |= {
        "bounds": ", ".join(styles) + (", hard" if hard else ""),
        "delta": options["delta"],
        "neighbors": options["neighbors"],
        "groups": "found" if options["groups"] == "discover" else f"{groups.declared} declared",
        "missing": f"{missing:.2f}",
    }
    return Asker(groups, options, facts, missing, n).cell(draw, question)


class Asker:
    """Draws samples of groups, fits, and asks a question."""

    def __init__(self, groups: Groups, options: dict[str, Any], facts: dict[str, Any], missing: float, n: int) -> None:
        self.groups, self.options, self.facts, self.missing, self.n = groups, options, facts, missing, n
        self.low, self.high = options["bounds"].T
        self.labels = np.array([f"g{g}" for g in range(len(groups.shares))])
        inside = groups.frames.clip(self.low, self.high)[: groups.declared]
        self.truth, self.spread = inside.mean(axis=1), inside.std(axis=1)
        self.found = options["groups"] == "discover"
        self.rows = n * (1 - missing) * groups.shares
        with np.errstate(invalid="ignore"):
            kurtosis = ((inside - self.truth[:, None]) ** 4).mean(axis=1) / np.maximum(self.spread, 1e-300) ** 4
        facts["long-tailed"] = bool(np.nanmax(kurtosis, initial=0.0) > LONG)

    def sample(self, draw: Draw) -> tuple[Floats, Any]:
        """Return rows, and the places of their groups."""
        places = draw.choice(len(self.labels), self.n, p=self.groups.shares)
        X = self.groups.frames[places, draw.integers(SIZE, size=self.n)]
        return drop_some(draw, self.missing, X)[0], places

    def fit(self, draw: Draw) -> tuple[Any, Floats, Any]:
        """Return a fit of a sample, and the sample."""
        X, places = self.sample(draw)
        model = GroupMeans(**self.options, random_state=int(draw.integers(2**31))).fit(X, self.labels[places])
        return model, X, places

    def cell(self, draw: Draw, question: str) -> Cell:
        """Return the cell of a question, by default a random one that this estimator answers."""
        questions: list[Callable[[Draw], Cell]] = [self.interval, self.test, self.together, self.difference]
        if self.found:
            questions.append(self.count)
        else:
            questions += [self.pairwise, self.standardized, self.planned]
            if self.options["neighbors"] == "add_or_remove":
                questions.append(self.size)
            if self.groups.equal:
                questions.append(self.anova)
            if self.options["epsilon"] >= EXACT and draw.random() < 0.5:
                questions = [self.public]
        chosen = getattr(self, question) if question else questions[draw.integers(len(questions))]
        cell: Cell = chosen(draw)
        return cell

    def _cell(self, question: str, about: Any, nominal: float, ask: Callable[..., Any], **more: Any) -> Cell:
        """Return a cell whose question is asked of a fit and its sample: (missed, notes of the answer)."""
        names, g = [str(self.labels[g]) for g in about], next(iter(about))
        # A constant has no error without noise, and then no length to compare with.
        reference = self._length(g) if self.spread[g, 0] else np.nan

        def answer(draw: Draw) -> Answer | None:
            model, X, places = self.fit(draw)
            if not set(names) <= {str(group) for group in model.groups_}:
                return None
            missed, notes = ask(model, X, places)
            low, high = (end[self._row(model, g), 0] for end in model.confidence_interval())
            plan = [] if self.found else [note for note in model.plan_.notes() if note.startswith("warning")]
            # A warning of the plan is about groups of average size.
            plan = plan if self.rows[list(about)].min() <= self.n / len(model.groups_) else []
            return Answer(bool(missed), [*model.summary().notes, *notes, *plan], float(high - low))

        return Cell("GroupMeans", question, self.facts, names, nominal, answer, reference, **more)

    def _usual(
        self, pairs: Any, columns: Any, nominal: float, side: str = "two-sided", many: int = 1
    ) -> Callable[[Draw], bool]:
        """Return what tests by Student and Welch say about groups, or pairs of groups: whether one is wrong.

        ``many`` are tested together, by Bonferroni.
        """
        tail = nominal / many / (2 if side == "two-sided" else 1)

        def without_privacy(draw: Draw) -> bool:
            X, places = self.sample(draw)
            whole = np.isfinite(X).all(axis=1)
            rows = {g: X[(places == g) & whole].clip(self.low, self.high) for pair in pairs for g in np.ravel(pair)}
            return any(self._is_refuted(rows, np.ravel(pair), j, tail, side) for pair in pairs for j in columns)

        return without_privacy

    def _is_refuted(self, rows: Any, pair: Any, j: int, tail: float, side: str) -> bool:
        """Return whether Student or Welch refutes the true mean of a group, or the true difference of two."""
        if min(len(rows[g]) for g in pair) < 2:
            return False
        signs = np.array([1.0, -1.0])[: len(pair)]
        off = sum(sign * (rows[g][:, j].mean() - self.truth[g, j]) for sign, g in zip(signs, pair, strict=True))
        parts = np.array([rows[g][:, j].var(ddof=1) / len(rows[g]) for g in pair])
        free = np.array([len(rows[g]) - 1 for g in pair])
        degrees = parts.sum() ** 2 / max((parts**2 / free).sum(), 1e-300) if parts.any() else free.min()
        off = {"less": -off, "greater": off}.get(side, abs(off))
        room = 1e-9 * np.abs(self.truth[pair, j]).max()
        return bool(off > student.isf(tail, max(degrees, 1)) * np.sqrt(parts.sum()) + room)

    def _row(self, model: Any, g: int) -> int:
        return list(model.groups_).index(str(self.labels[g]))

    def _some(self, draw: Draw, many: int = 1) -> list[int]:
        """Return some groups, those with more rows more often."""
        shares = self.groups.shares[: self.groups.declared] + 0.1
        return [int(g) for g in draw.choice(len(shares), many, replace=False, p=shares / shares.sum())]

    def _length(self, g: int) -> float:
        """Return the length of the interval of a public rule, which is told the group's size, or that of the bounds.

        Of the first column, at 95%.
        """
        width, d = self.high[0] - self.low[0], self.truth.shape[1]
        noise = np.sqrt(2) * d * width / self.options["epsilon"]
        if delta := self.options["delta"]:
            noise = min(noise, np.sqrt(d) * width * gaussian_sigma(self.options["epsilon"], delta))
        rows = max(self.rows[g], 1.0)
        error = np.sqrt(self.spread[g, 0] ** 2 / rows + (noise / rows) ** 2)
        return float(min(2 * norm.isf(0.025) * error, width))

    def interval(self, draw: Draw) -> Cell:
        """Ask for an interval of the mean of a group."""
        (g,), j, nominal = (
            self._some(draw),
            int(draw.integers(self.truth.shape[1])),
            float(draw.choice([0.2, 0.05, 0.01])),
        )
        side = str(draw.choice(["two-sided", "two-sided", "less", "greater"]))

        def ask(model: Any, X: Any, places: Any) -> tuple[bool, Any]:
            low, high = (
                end[self._row(model, g), j] for end in model.confidence_interval(1 - nominal, alternative=side)
            )
            return _outside(low, high, self.truth[g, j]), ()

        usual = self._usual([g], [j], nominal, side)
        return self._cell(f"interval {side} {1 - nominal:g}", [g], nominal, ask, without_privacy=usual)

    def together(self, draw: Draw) -> Cell:
        """Ask for simultaneous intervals of all means."""
        every, nominal = range(self.groups.declared), float(draw.choice([0.2, 0.05, 0.01]))

        def ask(model: Any, X: Any, places: Any) -> tuple[bool, Any]:
            low, high = model.confidence_interval(1 - nominal, simultaneous=True)
            rows = [self._row(model, g) for g in every]
            return _outside(low[rows], high[rows], self.truth), ()

        columns = range(self.truth.shape[1])
        usual = self._usual(every, columns, nominal, many=len(every) * len(columns))
        return self._cell(f"intervals together {1 - nominal:g}", every, nominal, ask, without_privacy=usual)

    def test(self, draw: Draw) -> Cell:
        """Test the true means of a group, of which one column is looked at."""
        (g,), j = self._some(draw), int(draw.integers(self.truth.shape[1]))
        side = str(draw.choice(["two-sided", "less", "greater"]))

        def ask(model: Any, X: Any, places: Any) -> tuple[bool, Any]:
            found = model.test(value=self.truth[g], alternative=side)
            return np.asarray(found.pvalue)[self._row(model, g), j] < 0.05, ()

        usual = self._usual([g], [j], 0.05, side)
        return self._cell(f"test {side}", [g], 0.05, ask, is_test=True, without_privacy=usual)

    def difference(self, draw: Draw) -> Cell:
        """Ask for an interval of a difference, or test the true one."""
        pair, j, nominal = (
            self._some(draw, 2),
            int(draw.integers(self.truth.shape[1])),
            float(draw.choice([0.2, 0.05, 0.01])),
        )
        side, tests = str(draw.choice(["two-sided", "less", "greater"])), bool(draw.random() < 0.5)
        truth = self.truth[pair[0]] - self.truth[pair[1]]

        def ask(model: Any, X: Any, places: Any) -> tuple[bool, Any]:
            found = model.difference(*(f"g{g}" for g in pair), alternative=side)
            if tests:
                return np.ravel(found.test(truth).pvalue)[j] < 0.05, found.notes
            low, high = (end[j] for end in found.confidence_interval(1 - nominal))
            return _outside(low, high, truth[j]), found.notes

        question = f"difference, test {side}" if tests else f"difference, interval {side} {1 - nominal:g}"
        level = 0.05 if tests else nominal
        usual = self._usual([pair], [j], level, side)
        return self._cell(question, pair, level, ask, is_test=tests, without_privacy=usual)

    def pairwise(self, draw: Draw) -> Cell:
        """Ask for all pairs together."""
        every, nominal, j = (
            range(self.groups.declared),
            float(draw.choice([0.2, 0.05, 0.01])),
            int(draw.integers(self.truth.shape[1])),
        )
        method = str(draw.choice(["tukey", "holm"]))
        first, second = np.triu_indices(self.groups.declared, 1)
        truth = self.truth[first, j] - self.truth[second, j]

        def ask(model: Any, X: Any, places: Any) -> tuple[bool, Any]:
            found = model.pairwise(method)
            low, high = (end[:, j] for end in found.confidence_interval(1 - nominal))
            return _outside(low, high, truth), found.notes

        usual = self._usual(list(zip(first, second, strict=True)), [j], nominal, many=len(first))
        return self._cell(f"pairs by {method} {1 - nominal:g}", every, nominal, ask, without_privacy=usual)

    def standardized(self, draw: Draw) -> Cell:
        """Ask for a difference over the standard deviation within both groups."""
        pair, j, nominal = (
            self._some(draw, 2),
            int(draw.integers(self.truth.shape[1])),
            float(draw.choice([0.2, 0.05])),
        )
        shares = self.groups.shares[pair]
        within = np.sqrt(np.average(self.spread[pair, j] ** 2, weights=shares))
        if within == 0:
            return self.difference(draw)
        truth = (self.truth[pair[0], j] - self.truth[pair[1], j]) / within

        def ask(model: Any, X: Any, places: Any) -> tuple[bool, Any]:
            found = model.difference(*(f"g{g}" for g in pair)).standardize()
            low, high = (end[j] for end in found.confidence_interval(1 - nominal))
            return _outside(low, high, truth), found.notes

        return self._cell(f"standardized {1 - nominal:g}", pair, nominal, ask)

    def anova(self, draw: Draw) -> Cell:
        """Test groups of one population."""
        j = int(draw.integers(self.truth.shape[1]))

        def ask(model: Any, X: Any, places: Any) -> tuple[bool, Any]:
            return model.anova(199, random_state=0).pvalue[j] <= 0.05, ()

        def usual(draw: Draw) -> bool:
            X, places = self.sample(draw)
            whole = np.isfinite(X).all(axis=1)
            values = X[:, j].clip(self.low[j], self.high[j])
            groups = [values[(places == g) & whole] for g in range(self.groups.declared)]
            return bool(f_oneway(*[each for each in groups if len(each)]).pvalue <= 0.05)

        every = range(self.groups.declared)
        return self._cell("anova", every, 0.05, ask, is_test=True, without_privacy=usual)

    def count(self, draw: Draw) -> Cell:
        """Ask for the rows of a group in the data, given that it was found."""
        (g,), nominal = self._some(draw), float(draw.choice([0.2, 0.05, 0.01]))

        def ask(model: Any, X: Any, places: Any) -> tuple[bool, Any]:
            low, high = (end[self._row(model, g)] for end in model.count_interval(1 - nominal))
            rows = int(np.sum((places == g) & np.isfinite(X).all(axis=1)))
            return _outside(low, high, rows), ()

        return self._cell(f"rows of a group {1 - nominal:g}", [g], nominal, ask)

    def size(self, draw: Draw) -> Cell:
        """Ask for the rows of all declared groups."""
        nominal = float(draw.choice([0.2, 0.05, 0.01]))

        def ask(model: Any, X: Any, places: Any) -> tuple[bool, Any]:
            low, high = model.n_interval(1 - nominal)
            rows = int(np.sum((places < self.groups.declared) & np.isfinite(X).all(axis=1)))
            return _outside(low, high, rows), ()

        return self._cell(f"rows {1 - nominal:g}", range(self.groups.declared), nominal, ask)

    def planned(self, draw: Draw) -> Cell:
        """Compare the noise of a mean with the one that the plan states: at most 1.2 times it."""
        (g,), j = self._some(draw), int(draw.integers(self.truth.shape[1]))

        def ask(model: Any, X: Any, places: Any) -> tuple[bool, Any]:
            rows = X[(places == g) & np.isfinite(X).all(axis=1)][:, j].clip(self.low[j], self.high[j])
            if not rows.size:
                return False, ()
            half, mean = (self.high[j] - self.low[j]) / 2, rows.mean()
            means = np.full(self.low.size, mean)
            planned = model.plan_.mean_noise(rows.size, means)[j]
            return abs(model.means_[g, j] - mean) > 1.96 * 1.2 * planned + 1e-9 * half, ()

        return self._cell("planned noise", [g], 0.05, ask)

    def public(self, draw: Draw) -> Cell:
        """Compare a mean with that of pandas."""
        (g,), j = self._some(draw), int(draw.integers(self.truth.shape[1]))

        def ask(model: Any, X: Any, places: Any) -> tuple[bool, Any]:
            import pandas as pd

            frame = pd.DataFrame(X.clip(self.low, self.high), index=places)
            rows = frame[np.isfinite(X).all(axis=1)].groupby(level=0)[j]
            if g not in rows.groups:
                return False, ()
            mean, error = rows.mean()[g], rows.sem()[g]
            # Where bounds are wide, noise is little but not nothing.
            allowed = TOLERANCE * np.nan_to_num(error) + 3 * model.plan_.mean_noise(len(rows.groups[g]))[j]
            return abs(model.means_[g, j] - mean) > allowed, ()

        return self._cell("as pandas", [g], 0.05, ask)


def _outside(low: Any, high: Any, value: Any) -> bool:
    # Rounding of sums of 50,000 rows is no miss, where a constant has no error.
    room = 1e-9 * np.maximum(np.abs(value), np.max(np.abs(value)))
    return bool(np.any((value < low - room) | (value > high + room)))
