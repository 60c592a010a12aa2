"""Cells of `PrivateStatistic`: functions of random rows, options, and questions about them.

Values of blocks are computed for all blocks of a size at once, which is some ten times faster than block by block. A
test compares them with those of the package.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from scipy.special import expit
from scipy.special import logit as log_odds

from dpstats.errors import InvalidParameter
from dpstats.statistic import PrivateStatistic
from dpstats.statistic.isolation import FOLDS, JACKKNIFE, BlockRows, block_rows
from dpstats.statistic.plan import block_loss
from tests.outside.statements.populations import (
    SIZE,
    Draw,
    Floats,
    draw_bounds,
    draw_kind,
    draw_rows,
    draw_values,
    log_uniform,
)
from tests.outside.statements.verdict import Answer, Cell

FAMILY = "PrivateStatistic"
EXACT = 1e4
POSITIVE = ("lognormal", "exponential", "gamma", "uniform", "Poisson", "zero-inflated", "1-5 scale")
LINKS: dict[str | None, tuple[Callable[[Floats], Floats], Callable[[Floats], Floats]]] = {
    None: (np.asarray, np.asarray),
    "fisher": (np.arctanh, np.tanh),
    "logit": (log_odds, expit),
    "log": (np.log, np.exp),
}
ENTRIES = 1_500_000
"""Of the pool of blocks from which a cell's bounds, bias and skewness are computed."""
MOST_BLOCKS = 20_000
"""Of this pool."""
ALLOWANCES = "beyond the allowances"
"""The fact that the skewness of rows is 1.15 times that which intervals count, the bias of the mean of blocks half a
standard error larger, or that some rows move their blocks far from the others."""
FAR, MANY_FAR = 5.0, 0.02
"""Blocks are far from the others beyond so many standard deviations of the middle half, if they are so many."""

Blocks = Floats
"""Rows of many blocks: of shape (blocks, rows, columns)."""


# Statistics of many blocks at once. NaN where a block has none.


def mean(D: Blocks) -> Floats:
    return D[..., 0].mean(axis=1)


def median(D: Blocks) -> Floats:
    return np.median(D[..., 0], axis=1)


def upper_quartile(D: Blocks) -> Floats:
    return np.quantile(D[..., 0], 0.75, axis=1)


def ninth_decile(D: Blocks) -> Floats:
    return np.quantile(D[..., 0], 0.9, axis=1)


def trimmed_mean(D: Blocks) -> Floats:
    m = D.shape[1]
    cut = int(0.2 * m)
    return np.sort(D[..., 0], axis=1)[:, cut : m - cut].mean(axis=1)


def fractional_trimmed_mean(D: Blocks) -> Floats:
    """Return the mean of the middle 60%, of which the first and the last row may count in part."""
    m = D.shape[1]
    place = np.arange(m)
    weight = np.clip(place + 1 - 0.2 * m, 0, 1) * np.clip(0.8 * m - place, 0, 1)
    return np.sort(D[..., 0], axis=1) @ weight / weight.sum()


def standard_deviation(D: Blocks) -> Floats:
    return D[..., 0].std(axis=1, ddof=1)


def variance(D: Blocks) -> Floats:
    return D[..., 0].var(axis=1, ddof=1)


def variation(D: Blocks) -> Floats:
    return standard_deviation(D) / mean(D)


def gini(D: Blocks) -> Floats:
    x = np.sort(D[..., 0], axis=1)
    m = x.shape[1]
    return x @ (2.0 * np.arange(1, m + 1) - m - 1) / (m * (m - 1) * x.mean(axis=1))


def ratio_of_means(D: Blocks) -> Floats:
    return D[..., 0].mean(axis=1) / D[..., 1].mean(axis=1)


def _by_group(D: Blocks) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the number of rows and the mean of the first column in both groups, which the second column tells."""
    x, y = D[..., 0], D[..., 1]
    first, second = y.sum(axis=1), (1 - y).sum(axis=1)
    return first, second, (x * y).sum(axis=1) / first, (x * (1 - y)).sum(axis=1) / second


def difference_of_means(D: Blocks) -> Floats:
    _, _, one, other = _by_group(D)
    return one - other


def relative_risk(D: Blocks) -> Floats:
    _, _, one, other = _by_group(D)
    return one / other


def standardized_difference(D: Blocks) -> Floats:
    first, second, one, other = _by_group(D)
    centers = np.where(D[..., 1] == 1, one[:, None], other[:, None])
    inside = ((D[..., 0] - centers) ** 2).sum(axis=1)
    return np.where((first > 1) & (second > 1), (one - other) / np.sqrt(inside / (first + second - 2)), np.nan)


def area_under_curve(D: Blocks) -> Floats:
    ranks, y = stats.rankdata(D[..., 0], axis=1), D[..., 1]
    first, second = y.sum(axis=1), (1 - y).sum(axis=1)
    return ((ranks * y).sum(axis=1) - first * (first + 1) / 2) / (first * second)


def correlation(D: Blocks) -> Floats:
    Z = D[..., :2] - D[..., :2].mean(axis=1, keepdims=True)
    squares = (Z**2).sum(axis=1)
    whole = squares > 1e-12 * (D[..., :2] ** 2).sum(axis=1)
    found = (Z[..., 0] * Z[..., 1]).sum(axis=1) / np.sqrt(squares.prod(axis=1))
    return np.where(whole.all(axis=1), found, np.nan)


def rank_correlation(D: Blocks) -> Floats:
    return correlation(stats.rankdata(D[..., :2], axis=1))


def slope(D: Blocks) -> Floats:
    """Return the coefficient of the first column in a regression of the last one on all others."""
    Z = D - D.mean(axis=1, keepdims=True)
    scale = np.sqrt((Z**2).sum(axis=1))
    whole = (scale > 1e-6 * np.sqrt((D**2).sum(axis=1)))[:, :-1].all(axis=1)
    X, y = Z[..., :-1] / scale[:, None, :-1], Z[..., -1]
    gram = X.transpose(0, 2, 1) @ X
    whole &= np.linalg.det(np.where(whole[:, None, None], gram, 0.0)) > 1e-10
    gram = np.where(whole[:, None, None], gram, np.eye(X.shape[2]))
    found = np.linalg.solve(gram, (X * y[..., None]).sum(axis=1)[..., None])[:, 0, 0] / scale[:, 0]
    return np.where(whole, found, np.nan)


@dataclass(frozen=True)
class Statistic:
    """A statistic, the kinds of its columns and the links that suit it."""

    of: tuple[Callable[[Blocks], Floats], ...]
    columns: tuple[str, ...]
    links: tuple[str | None, ...] = (None,)

    def __call__(self, D: Blocks) -> Floats:
        """Return the values of blocks, of shape (blocks, outputs)."""
        with np.errstate(all="ignore"):
            return np.stack([each(D) for each in self.of], axis=1)


ANY, POS, YES, GROUP = "any", "positive", "yes/no", "group"
STATISTICS = {
    "mean": Statistic((mean,), (ANY,)),
    "median": Statistic((median,), (ANY,)),
    "upper quartile": Statistic((upper_quartile,), (ANY,)),
    "ninth decile": Statistic((ninth_decile,), (ANY,)),
    "trimmed mean": Statistic((trimmed_mean,), (ANY,)),
    "fractional trimmed mean": Statistic((fractional_trimmed_mean,), (ANY,)),
    "standard deviation": Statistic((standard_deviation,), (ANY,), (None, "log")),
    "variance": Statistic((variance,), (ANY,), ("log",)),
    "coefficient of variation": Statistic((variation,), (POS,), (None, "log")),
    "Gini": Statistic((gini,), (POS,), (None, "logit")),
    "ratio of means": Statistic((ratio_of_means,), (POS, POS), (None, "log")),
    "share": Statistic((mean,), (YES,), (None, None, "logit")),
    "risk difference": Statistic((difference_of_means,), (YES, GROUP)),
    "relative risk": Statistic((relative_risk,), (YES, GROUP), ("log",)),
    "difference of means": Statistic((difference_of_means,), (ANY, GROUP)),
    "standardized difference": Statistic((standardized_difference,), (ANY, GROUP)),
    "area under the curve": Statistic((area_under_curve,), (ANY, GROUP), (None, "logit")),
    "correlation": Statistic((correlation,), (ANY, ANY), (None, "fisher", "fisher")),
    "rank correlation": Statistic((rank_correlation,), (ANY, ANY), (None, "fisher")),
    "slope": Statistic((slope,), (ANY, ANY)),
    "slope of three": Statistic((slope,), (ANY, ANY, ANY, ANY)),
    "mean and standard deviation": Statistic((mean, standard_deviation), (ANY,)),
    "median and trimmed mean": Statistic((median, trimmed_mean), (ANY,)),
    "Gini and mean": Statistic((gini, mean), (POS,)),
    "slope and correlation": Statistic((slope, correlation), (ANY, ANY)),
    "mean and ratio": Statistic((mean, ratio_of_means), (POS, POS), (None, "log")),
}


class OneBlock:
    """The function of a block that an estimator is given."""

    def __init__(self, statistic: Statistic) -> None:
        self.statistic = statistic

    def __call__(self, block: Any) -> Floats:
        found: Floats = self.statistic(np.asarray(block)[None])[0]
        return found


def correct(statistic: Statistic, link: str | None, bias: str | None, blocks: Sequence[BlockRows]) -> Floats:
    """Return the corrected values of blocks on the scale of the link, as `PrivateStatistic` has them."""
    folds = np.full((len(blocks), max(len(block.folds) for block in blocks)), FOLDS)
    X = np.zeros((*folds.shape, len(statistic.columns)))
    for i, block in enumerate(blocks):
        folds[i, : len(block.folds)], X[i, : len(block.folds)] = block.folds, block.X
    return correct_rows(statistic, link, bias, X, folds)


def correct_rows(statistic: Statistic, link: str | None, bias: str | None, X: Blocks, folds: Any) -> Floats:
    """Return the corrected values of blocks of rows, of which those in no fold do not count."""
    found = np.zeros((len(X), len(statistic.of)))
    for order, weight in JACKKNIFE[bias]:
        left_out = list(itertools.combinations(range(FOLDS), order))
        for out in left_out:
            kept = ~np.isin(folds, [*out, FOLDS])
            sizes = kept.sum(axis=1)
            for size in np.unique(sizes):
                own = sizes == size
                D = X[own][kept[own]].reshape(own.sum(), size, -1)
                with np.errstate(all="ignore"):
                    values = LINKS[link][0](statistic(D)) if size else np.nan
                    found[own] += weight / len(left_out) * values
    return np.where(np.isfinite(found).all(axis=1, keepdims=True), found, np.nan)


class AllAtOnce(PrivateStatistic):
    """A `PrivateStatistic` that computes all blocks of a size at once: the same releases."""

    def _read(self, rows: Any, plan: Any) -> Any:
        return SimpleNamespace(table=rows.whole())

    def _values(self, private: Any, order: Any, plan: Any) -> Floats:
        return correct(
            self.function.statistic,
            self.link,
            self.bias,
            list(block_rows(private.table, order, plan.n_blocks, self.missing == "drop")),
        )


@dataclass
class Population:
    """Rows, and the statistic of all of them."""

    rows: Floats
    truth: Floats


def _draw_population(draw: Draw, statistic: Statistic, facts: dict[str, Any]) -> Population:
    kinds, columns = [], []
    for column in statistic.columns:
        if column == POS:
            kind = str(draw.choice(POSITIVE))
            values = draw_values(draw, kind, unit=False) * log_uniform(draw, 0.01, 1000)
        elif column == GROUP and draw.random() < 0.85:
            kind, values = YES, 1.0 * (np.arange(SIZE) < log_uniform(draw, 0.1, 0.5) * SIZE)
        else:
            kind = YES if column == GROUP else column if column == YES else draw_kind(draw, constant=0.0)
            values = draw_values(draw, kind)
        kinds.append(f"{kind} {values.mean():.3g}" if kind == YES else kind)
        columns.append(values)
    rows = draw_rows(draw, columns)
    facts["x"] = ", ".join(kinds)
    return Population(rows, statistic(rows[None])[0])


def draw_cell(draw: Draw, question: str | None = None, name: str | None = None) -> Cell:
    """Return a random cell of a statistic, by default of a random one."""
    name = name or str(draw.choice(list(STATISTICS)))
    statistic = STATISTICS[name]
    facts: dict[str, Any] = {"of": name}
    population = _draw_population(draw, statistic, facts)
    p = len(statistic.of)
    options: dict[str, Any] = {
        "n_outputs": p,
        "link": statistic.links[draw.integers(len(statistic.links))],
        "bias": [None, "jackknife2", "jackknife"][draw.choice(3, p=[0.08, 0.07, 0.85])],
        "delta": 1e-6 if draw.random() < 0.4 else 0.0,
    }
    if draw.random() < 0.1:
        options |= {"skewness": 3.0, "remainder": 0.0}
    if len(statistic.columns) > 2 and draw.random() < 0.5:
        options["parameters"] = len(statistic.columns) - 1
    for _ in range(100):
        n = round(log_uniform(draw, 500, 50_000))
        options["epsilon"] = EXACT if draw.random() < 0.15 else log_uniform(draw, 0.1, 10)
        try:
            plan = PrivateStatistic(mean, **options).plan(n)
        except InvalidParameter:
            continue
        break
    if draw.random() < 0.15 and n // 16 > (fewest := int(np.ceil(60 * p / min(options["epsilon"], p)))):
        options["blocks"] = round(log_uniform(draw, fewest, n // 16))
        plan = PrivateStatistic(mean, **options).plan(n)
    rate = draw.uniform(0, 0.3) if draw.random() < 0.12 else 0.0
    unit = draw.random() < 0.08
    facts |= {
        "n": n,
        "blocks": f"{plan.n_blocks} of {plan.block_size}",
        **{key: value for key, value in options.items() if value and key not in ("n_outputs", "blocks")},
        "epsilon": float(f"{options['epsilon']:.3g}"),
        "bias": str(options["bias"]),
        "missing": f"{rate:.2f}",
        "unit": unit and str(draw.choice(["rows", "copies"])),
        "processes": draw.random() < 0.005 and 2,
    }
    asker = Asker(statistic, population, options, facts, rate, n, plan)
    asker.set_bounds(draw)
    return asker.cell(draw, question)


@dataclass
class Asker:
    """Draws samples of rows, fits, and asks a question."""

    statistic: Statistic
    population: Population
    options: dict[str, Any]
    facts: dict[str, Any]
    missing: float
    n: int
    plan: Any
    spread: Floats = field(default_factory=lambda: np.zeros(0))

    def set_bounds(self, draw: Draw) -> None:
        """Choose bounds of blocks' values, and tell whether these are more skewed or biased than intervals count."""
        m, k, link = self.plan.block_size, self.plan.n_blocks, self.options["link"]
        size = min(MOST_BLOCKS, ENTRIES // (m * len(self.statistic.columns)))
        steps = -(-size * m * len(self.statistic.columns) // 400_000)
        parts = [
            correct_rows(self.statistic, link, self.options["bias"], *self._block_rows(places))
            for places in draw.integers(SIZE, size=(steps, -(-size // steps), m))
        ]
        values = np.concatenate(parts)
        good = values[np.isfinite(values).all(axis=1)]
        if rare := len(good) < 100:  # the statistic of a block hardly ever exists
            good = draw.normal(size=(100, values.shape[1]))
        style = str(draw.choice(["tight", "2x", "20x"], p=[0.4, 0.35, 0.25]))
        self.options["bounds"] = [draw_bounds(draw, column, style) for column in good.T]
        with np.errstate(all="ignore"):
            truth = LINKS[link][0](self.population.truth)
            self.spread = good.std(axis=0)
            bias = np.abs(good.mean(axis=0) - truth) / np.maximum(self.spread, 1e-9 * np.abs(truth) + 1e-300)
            skewness = np.abs(stats.skew(good, axis=0)) * np.sqrt(m)
            # A bias a little beyond does not explain why an interval misses. But 1.2 times the skewness covered 0.85.
            beyond = (bias - self.plan.block_bias) * np.sqrt(k) > 0.5
            low, middle, high = np.quantile(good, (0.25, 0.5, 0.75), axis=0)
            far = (np.abs(good - middle) > FAR * (high - low) / 1.349).mean(axis=0) * (high > low)
        failed = 1.0 if rare else 1 - len(good) / len(values)
        self.facts |= {
            "bounds": style,
            "bias of a mean": " ".join(f"{each:.2f}" for each in bias * np.sqrt(k)) + " errors",
            "skewness of rows": " ".join(f"{each:.1f}" for each in skewness),
            "failed": failed > 0.001 and f"{failed:.0%}",
            ALLOWANCES: bool((beyond | (skewness > 1.15 * self.plan.skewness) | (far > MANY_FAR)).any()),
        }

    def _block_rows(self, places: Any) -> tuple[Blocks, Any]:
        """Return the rows of blocks with these places in the frame, and their folds.

        With units, each has one row more on average: blocks of copies have a larger bias than blocks of rows.
        """
        size, m = places.shape
        folds = np.broadcast_to(np.arange(m) * FOLDS // m, places.shape)
        if not self.facts["unit"]:
            return self.population.rows[places], folds
        draw = np.random.default_rng(m)
        counts = 1 + draw.poisson(1.0, size=places.shape)
        ends = counts.sum(axis=1)
        block, unit = np.divmod(np.repeat(np.arange(places.size), counts.ravel()), m)
        row = np.arange(block.size) - np.repeat(np.cumsum(ends) - ends, ends)
        X, own = (np.zeros((size, ends.max(), self.population.rows.shape[1])), np.full((size, ends.max()), FOLDS))
        copies = self.facts["unit"] == "copies"
        X[block, row] = self.population.rows[places[block, unit] if copies else draw.integers(SIZE, size=block.size)]
        own[block, row] = folds[0, unit]
        return X, own

    def sample(self, draw: Draw) -> Any:
        """Return the rows of a fit."""
        places = draw.integers(SIZE, size=self.n)
        if self.facts["unit"]:
            unit = np.repeat(np.arange(self.n), 1 + draw.poisson(1.0, size=self.n))
            places = places[unit] if self.facts["unit"] == "copies" else draw.integers(SIZE, size=unit.size)
            columns = [f"x{j}" for j in range(self.population.rows.shape[1])]
            return pd.DataFrame(self.population.rows[places], columns=columns).assign(person=unit)
        X = self.population.rows[places]
        if self.missing:
            rows = np.flatnonzero(draw.random(self.n) < self.missing)
            X[rows, draw.integers(X.shape[1], size=rows.size)] = np.nan
        return X

    def fit(self, draw: Draw) -> Any:
        """Return a fit of a sample."""
        X, options = self.sample(draw), dict(self.options)
        options |= {"missing": "drop"} if self.missing else {}
        options |= {"unit": "person"} if self.facts["unit"] else {}
        options |= {"n_jobs": 2} if self.facts["processes"] else {}
        kind = PrivateStatistic if self.facts["processes"] else AllAtOnce
        return kind(OneBlock(self.statistic), **options, random_state=int(draw.integers(2**31))).fit(X)

    def cell(self, draw: Draw, question: str | None) -> Cell:
        """Return the cell of a question, by default a random one."""
        questions = [self.interval, self.interval, self.test, self.difference]
        if len(self.statistic.of) > 1:
            questions += [self.together, self.together]
        if not (self.facts["unit"] or self.missing or self.facts["failed"]):
            questions.append(self.planned)
        chosen = getattr(self, question) if question else questions[draw.integers(len(questions))]
        cell: Cell = chosen(draw)
        return cell

    def _cell(self, question: str, about: int | None, nominal: float, ask: Callable[..., Any], **more: Any) -> Cell:
        """Return a cell whose question is asked of a fit: (missed, notes of the answer)."""
        p = len(self.statistic.of)
        names = [f"OneBlock[{j}]" for j in range(p)] if p > 1 else ["OneBlock"]
        j, warnings = about or 0, [note for note in self.plan.notes() if note.startswith("Warning")]

        def answer(draw: Draw) -> Answer | None:
            model = self.fit(draw)
            missed, notes = ask(model, draw)
            low, high = (np.ravel(end)[j] for end in model.confidence_interval())
            return Answer(bool(missed), [*model.estimates().notes, *notes, *warnings], float(high - low))

        more.setdefault("reference", self._length(j))
        return Cell(FAMILY, question, self.facts, names if about is None else [names[j]], nominal, answer, **more)

    def _usual(self, j: int, nominal: float, side: str) -> Callable[[Draw], bool] | None:
        """Return what the statistic of all rows and its error say, whether it is wrong; None with units."""
        if self.facts["unit"] or self.missing:
            return None
        tail = nominal / (2 if side == "two-sided" else 1)

        def without_privacy(draw: Draw) -> bool:
            to = LINKS[self.options["link"]][0]
            found = to(self.statistic(np.asarray(self.sample(draw))[None]))[0, j]
            off = found - to(self.population.truth[j])
            off = {"less": -off, "greater": off}.get(side, abs(off))
            return not off <= stats.norm.isf(tail) * self._error(j)

        return without_privacy

    def _error(self, j: int) -> float:
        """Return the standard error of the statistic of all rows, on the scale of the link."""
        loss = block_loss(self.plan.parameters, self.plan.block_size) if self.options["bias"] else 1.0
        return float(self.spread[j] / loss / np.sqrt(self.plan.n_blocks))

    def _length(self, j: int) -> float:
        """Return the length of the 95% interval that the plan states."""
        if self.facts["unit"] or not self.spread[j]:
            return np.nan
        to, back = LINKS[self.options["link"]]
        with np.errstate(all="ignore"):
            half = 1.96 * self._error(j) * self.plan.planned_width
            low, high = (back(to(self.population.truth[j]) + sign * half) for sign in (-1, 1))
        return float(high - low) if np.isfinite(high - low) else np.nan

    def _about(self, draw: Draw) -> int:
        return int(draw.integers(len(self.statistic.of)))

    def interval(self, draw: Draw) -> Cell:
        """Ask for an interval."""
        j, nominal = self._about(draw), float(draw.choice([0.2, 0.05, 0.05, 0.01]))
        side = str(draw.choice(["two-sided", "two-sided", "less", "greater"]))

        def ask(model: Any, draw: Draw) -> tuple[bool, Any]:
            return self._outside(model.confidence_interval(1 - nominal, alternative=side), j), ()

        usual = self._usual(j, nominal, side)
        return self._cell(f"interval {side} {1 - nominal:g}", j, nominal, ask, without_privacy=usual)

    def together(self, draw: Draw) -> Cell:
        """Ask for simultaneous intervals of all outputs."""
        nominal = float(draw.choice([0.2, 0.05, 0.01]))

        def ask(model: Any, draw: Draw) -> tuple[bool, Any]:
            return self._outside(model.confidence_interval(1 - nominal, simultaneous=True), slice(None)), ()

        return self._cell(f"intervals together {1 - nominal:g}", None, nominal, ask)

    def test(self, draw: Draw) -> Cell:
        """Test the true value."""
        j, side = self._about(draw), str(draw.choice(["two-sided", "less", "greater"]))
        value = self.population.truth if len(self.statistic.of) > 1 else float(self.population.truth[0])

        def ask(model: Any, draw: Draw) -> tuple[bool, Any]:
            return np.ravel(model.test(value=value, alternative=side).pvalue)[j] < 0.05, ()

        usual = self._usual(j, 0.05, side)
        return self._cell(f"test {side}", j, 0.05, ask, is_test=True, without_privacy=usual)

    def difference(self, draw: Draw) -> Cell:
        """Ask for the difference of two fits of one population, which is 0."""
        j, nominal, tests = (self._about(draw), float(draw.choice([0.2, 0.05, 0.01])), bool(draw.random() < 0.4))
        side = str(draw.choice(["two-sided", "less", "greater"]))

        def ask(model: Any, draw: Draw) -> tuple[bool, Any]:
            found = model.difference(self.fit(draw))
            if tests:
                return np.ravel(found.test(0.0, alternative=side).pvalue)[j] < 0.05, found.notes
            low, high = (np.ravel(end)[j] for end in found.confidence_interval(1 - nominal, alternative=side))
            return bool(low > 0 or high < 0), found.notes

        question = f"difference, test {side}" if tests else f"difference, interval {side} {1 - nominal:g}"
        return self._cell(question, j, 0.05 if tests else nominal, ask, is_test=tests)

    def planned(self, draw: Draw) -> Cell:
        """Compare the length of half of the intervals with the planned one: at most 1.2 times it."""
        j = self._about(draw)
        most = 1.2 * self._length(j)

        def ask(model: Any, draw: Draw) -> tuple[bool, Any]:
            low, high = (np.ravel(end)[j] for end in model.confidence_interval())
            return bool(high - low > most), ()

        return self._cell("planned width", j, 0.5, ask)

    def _outside(self, limits: Any, about: int | slice) -> bool:
        truth = np.atleast_1d(self.population.truth)[about]
        low, high = (np.ravel(end)[about] for end in limits)
        room = 1e-9 * np.abs(truth)
        return bool(np.any((truth < low - room) | (truth > high + room)))
