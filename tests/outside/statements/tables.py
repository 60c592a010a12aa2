"""Cells of counts of categories: proportions, contingency tables with their effects and tests, histograms, coins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats

from dpstats.mechanisms import Histogram, RandomizedResponse
from dpstats.tables import ContingencyTable, PrivateProportion
from tests.outside.statements.populations import Draw, Floats, log_uniform
from tests.outside.statements.questions import Asker, draw_options, level_cell, seed
from tests.outside.statements.verdict import Cell

LEVELS = {"g": ["a", "b", "c", "d", "e"], "o": ["no", "yes"], "s": ["s0", "s1", "s2"]}
EFFECTS = ("difference", "risk_ratio", "odds_ratio", "cohens_h", "number_needed_to_treat")


def draw_proportion(draw: Draw, question: str = "") -> Cell:
    """Return a random cell of `PrivateProportion`."""
    facts: dict[str, Any] = {}
    n, options = draw_options(draw, facts)
    p = log_uniform(draw, 3e-4, 0.5)
    p = 1 - p if draw.random() < 0.3 else p
    if draw.random() < 0.3:
        options["neighbors"] = "add_or_remove"
    missing = 0.0
    if draw.random() < 0.2:
        missing, options["missing"] = float(draw.uniform(0, 0.3)), "drop"
    given = {"interval": "exact"} if draw.random() < 0.3 and not missing and len(options) == 2 else {}
    facts |= {"p": f"{p:.3g}", "missing": f"{missing:.2f}", "neighbors": options.get("neighbors", ""), **given}

    def fit(draw: Draw) -> tuple[Any, Any]:
        x = (draw.random(n) < p).astype(float)
        x[draw.random(n) < missing] = np.nan
        return PrivateProportion(**options, random_state=seed(draw, facts)).fit(x), x

    def usual(x: Floats) -> tuple[Floats, Floats, float]:
        x = x[np.isfinite(x)]
        rate, count = (x.sum() + 0.5) / (x.size + 1), max(x.size, 1)
        return np.array([rate]), np.array([np.sqrt(rate * (1 - rate) / count)]), np.inf

    asker = Asker("PrivateProportion", facts, fit, lambda *given: p, usual, ["proportion"], given)
    return asker.cell(draw, question)


class Table:
    """Random probabilities of two or three attributes, and tables of samples."""

    def __init__(self, draw: Draw, facts: dict[str, Any], attributes: int, groups: int) -> None:
        self.facts = facts
        self.n, self.options = draw_options(draw, facts)
        names = list(LEVELS)[:attributes]
        self.levels = {name: list(LEVELS[name]) for name in names}
        self.levels["g"] = LEVELS["g"][:groups]
        self.shape = tuple(len(own) for own in self.levels.values())
        self.outside = float(draw.uniform(0, 0.2)) if draw.random() < 0.2 else 0.0
        self.options |= {"levels": self.levels, "unknown": "drop"}
        if draw.random() < 0.3:
            self.options["neighbors"] = "add_or_remove"
        weights = draw.dirichlet(np.full(groups, 5.0)) if draw.random() < 0.7 else draw.dirichlet(np.full(groups, 0.5))
        self.groups = np.maximum(weights, 0.003)
        self.groups /= self.groups.sum()
        self.p: Floats = np.zeros(self.shape)
        facts |= {"shape": " x ".join(map(str, self.shape)), "neighbors": self.options.get("neighbors", "")}
        facts |= {"outside": f"{self.outside:.2f}"}

    def describe(self) -> None:
        """Tell the rarest expected count."""
        self.facts["rarest cell"] = f"{self.n * (1 - self.outside) * self.p.min():.2g} rows"

    def sample(self, draw: Draw) -> Any:
        """Return the places of rows, of which those beyond the last one are in no cell."""
        cells = draw.choice(self.p.size, self.n, p=self.p.ravel())
        cells[draw.random(self.n) < self.outside] = self.p.size
        return cells

    def fit(self, draw: Draw) -> tuple[Any, Any]:
        cells = self.sample(draw)
        places = np.unravel_index(np.minimum(cells, self.p.size - 1), self.shape)
        rows = np.array(
            [np.array(own, dtype=object)[place] for own, place in zip(self.levels.values(), places, strict=True)]
        ).T
        rows[cells == self.p.size, 0] = "another"
        counts = np.bincount(cells, minlength=self.p.size + 1)[:-1].reshape(self.shape)
        return ContingencyTable(**self.options, random_state=seed(draw, self.facts)).fit(rows), counts


def draw_table(draw: Draw, question: str = "") -> Cell:
    """Return a random cell of a `ContingencyTable`."""
    kinds = {"proportions": _proportions, "effect": _effect, "strata": _strata, "test": _test, "other": _other}
    return kinds[question or str(draw.choice(list(kinds)))](draw)


def _proportions(draw: Draw) -> Cell:
    """Ask for proportions of the whole table, or along an axis."""
    table = Table(draw, {}, int(draw.integers(1, 4)), int(draw.integers(2, 6)))
    table.p = draw.dirichlet(np.full(np.prod(table.shape), draw.choice([0.3, 2.0]))).reshape(table.shape)
    table.p = np.maximum(table.p, 1e-4) / np.maximum(table.p, 1e-4).sum()
    table.describe()
    given = {"axis": "o"} if len(table.shape) > 1 and draw.random() < 0.4 else {}
    table.facts["of"] = "shares of o" if given else "shares"
    target = table.p / table.p.sum(axis=1, keepdims=True) if given else table.p

    def usual(counts: Any) -> tuple[Floats, Floats, float]:
        total = counts.sum(axis=1, keepdims=True) * np.ones(counts.shape) if given else counts.sum()
        rate = (counts + 0.5) / (total + 1)
        return rate, np.sqrt(rate * (1 - rate) / np.maximum(total, 1)), np.inf

    names = [str(place) for place in range(table.p.size)]
    asker = Asker("ContingencyTable", table.facts, table.fit, lambda *_: target, usual, names, given)
    return asker.cell(draw)


def _true_effect(name: str, first: Any, second: Any) -> Any:
    """Return an effect of two probabilities."""
    odds = first / (1 - first) / (second / (1 - second))
    h = 2 * np.arcsin(np.sqrt(first)) - 2 * np.arcsin(np.sqrt(second))
    values = {"difference": first - second, "risk_ratio": first / second, "odds_ratio": odds, "cohens_h": h}
    return values[name] if name in values else 1 / (first - second)


def _usual_effect(name: str, a: float, m: float, b: float, n: float) -> tuple[float, float]:
    """Return an effect of a of m and b of n rows with half a row added, and its standard error (of a logarithm)."""
    p, q = (a + 0.5) / (m + 1), (b + 0.5) / (n + 1)
    first, second = p * (1 - p) / (m + 1), q * (1 - q) / (n + 1)
    value = _true_effect(name, p, q)
    if name == "difference":
        return value, np.sqrt(first + second)
    if name == "cohens_h":
        return value, np.sqrt(1 / (m + 1) + 1 / (n + 1))
    if name == "risk_ratio":
        return np.log(value), np.sqrt(first / p**2 + second / q**2)
    return np.log(value), np.sqrt(1 / (p * (1 - p) * (m + 1)) + 1 / (q * (1 - q) * (n + 1)))


class _Logarithm:
    """Intervals of ratios on the scale of their logarithms, on which the usual ones are."""

    def __init__(self, found: Any) -> None:
        self.found = found

    def summary(self, **given: Any) -> Any:
        return self.found.summary(**given)

    def confidence_interval(self, *given: Any, **more: Any) -> Any:
        with np.errstate(all="ignore"):
            found = self.found.confidence_interval(*given, **more)
            return type(found)(np.log(found.low), np.log(found.high))

    def test(self, value: float, alternative: str) -> Any:
        return self.found.test(value=float(np.exp(value)), alternative=alternative)


def _ask_effect(draw: Draw, table: Table, name: str, strata: bool, usual: Any) -> Cell:
    """Ask for the effect of the first two groups on the outcome, the same in all strata."""
    table.describe()
    rates = table.p[..., 1, :] / table.p.sum(axis=1) if strata else table.p[:, 1] / table.p.sum(axis=1)
    first, second = (float(np.ravel(rates[g])[0]) for g in (0, 1))
    target = _true_effect(name, first, second)
    ratio = name in ("risk_ratio", "odds_ratio")
    table.facts |= {"of": name, "strata": strata, "rates": f"{first:.3g} {second:.3g}"}
    attributes = [0, 1]
    more = {"strata": 2} if strata else {}

    def fit(draw: Draw) -> tuple[Any, Any]:
        model, counts = table.fit(draw)
        found = getattr(model, name)(groups=("a", "b"), outcome="yes", attributes=attributes, **more)
        return (_Logarithm(found) if ratio else found), counts

    questions = ("interval",) if name == "number_needed_to_treat" else ("interval", "interval", "test")
    sides = ("two-sided",) if name == "number_needed_to_treat" else ("two-sided", "two-sided", "less", "greater")
    truth = float(np.log(target)) if ratio else target
    asker = Asker("ContingencyTable", table.facts, fit, lambda *_: truth, usual, [name], {}, sides=sides,
                  questions=questions)  # fmt: skip
    return asker.cell(draw)


def _effect(draw: Draw) -> Cell:
    """Ask for an effect in a table of two attributes."""
    table, name = Table(draw, {}, 2, int(draw.integers(2, 4))), str(draw.choice(EFFECTS))
    rates = np.array([log_uniform(draw, 0.003, 0.6) for _ in table.groups])
    if draw.random() < 0.3:
        rates[:] = rates[0]
    if name == EFFECTS[4] and abs(rates[0] - rates[1]) < 1e-3:
        name = EFFECTS[0]
    table.p = np.column_stack([table.groups * (1 - rates), table.groups * rates])

    def usual(counts: Any) -> tuple[Floats, Floats, float]:
        (a, m), (b, n) = ((counts[g, 1], counts[g].sum()) for g in (0, 1))
        value, error = _usual_effect(name, a, m, b, n)
        return np.array([value]), np.array([error]), np.inf

    return _ask_effect(draw, table, name, False, None if name == EFFECTS[4] else usual)


def _with_strata(draw: Draw, name: str) -> Table:
    """Return a table of three attributes with one effect in all strata."""
    table = Table(draw, {}, 3, 2)
    shares = np.maximum(draw.dirichlet(np.full(3, 2.0)), 0.01)
    shares /= shares.sum()
    second = np.array([log_uniform(draw, 0.02, 0.4) for _ in shares])
    effect = float(draw.uniform(0.5, 2.0)) if draw.random() < 0.7 else 1.0
    odds = effect * second / (1 - second)
    first = {"odds_ratio": odds / (1 + odds), "risk_ratio": effect * second}.get(
        name, second + 0.05 * (effect - 1) * (effect > 1)
    )
    shares_of_groups = np.outer(table.groups, shares)
    if draw.random() < 0.5:
        # Groups are mixed differently over strata.
        shares_of_groups *= draw.uniform(0.3, 1, shares_of_groups.shape)
        shares_of_groups /= shares_of_groups.sum()
    rates = np.array([first, second])
    table.p = np.stack([shares_of_groups * (1 - rates), shares_of_groups * rates], axis=1)
    return table


def _strata(draw: Draw) -> Cell:
    """Ask for a common effect, or test that there is one."""
    name = str(draw.choice(EFFECTS[:3]))
    table = _with_strata(draw, name)
    if draw.random() < 0.6:
        return _ask_effect(draw, table, name, True, None)
    table.describe()
    table.facts["of"] = name
    measure = {"difference": "difference", "risk_ratio": "risk ratio", "odds_ratio": "odds ratio"}[name]

    def fit(draw: Draw) -> tuple[Any, Any]:
        model, counts = table.fit(draw)
        more = {"groups": ("a", "b"), "outcome": "yes", "attributes": [0, 1], "strata": 2}
        return model.homogeneity(measure, n_simulations=199, **more), counts

    return level_cell("ContingencyTable", "homogeneity", table.facts, fit)


def _test(draw: Draw) -> Cell:
    """Test independence, or stated proportions."""
    table = Table(draw, {}, 2, int(draw.integers(2, 6)))
    rate = log_uniform(draw, 0.003, 0.5)
    table.p = np.outer(table.groups, [1 - rate, rate])
    table.describe()
    independence = bool(draw.random() < 0.5)

    def fit(draw: Draw) -> tuple[Any, Any]:
        model, counts = table.fit(draw)
        if independence:
            return model.independence(n_simulations=399), counts
        return model.goodness_of_fit(table.groups, ["g"], n_simulations=1999), counts

    def usual(counts: Any) -> float:
        if independence:
            counts = counts[counts.sum(axis=1) > 0]
            enough = min(counts.shape) > 1 and counts.sum(axis=0).all()
            return float(stats.chi2_contingency(counts, correction=False).pvalue) if enough else 1.0
        seen = counts.sum(axis=1)
        return float(stats.chisquare(seen, table.groups * seen.sum()).pvalue) if seen.sum() else 1.0

    question = "independence" if independence else "goodness of fit"
    return level_cell("ContingencyTable", question, table.facts, fit, usual)


def _other(draw: Draw) -> Cell:
    """Ask for a trend over groups, or for the difference of two answers of the same rows."""
    facts: dict[str, Any] = {}
    if draw.random() < 0.5:
        table = Table(draw, facts, 2, int(draw.integers(3, 6)))
        start, slope = log_uniform(draw, 0.01, 0.3), float(draw.uniform(0, 0.1))
        scores = np.arange(1, len(table.groups) + 1)
        rates = start + slope * (scores - 1)
        table.p = np.column_stack([table.groups * (1 - rates), table.groups * rates])
        ask: Callable[[Any], Any] = lambda model: model.trend(scores.tolist(), "yes")  # noqa: E731
        target, facts["of"] = slope, "trend"
    else:
        table = Table(draw, facts, 2, 2)
        table.levels = table.options["levels"] = {"g": ["no", "yes"], "o": ["no", "yes"]}
        table.p = np.maximum(draw.dirichlet(np.full(4, float(draw.choice([0.3, 2.0])))), 1e-3).reshape(2, 2)
        table.p /= table.p.sum()
        ask = lambda model: model.paired_difference("yes")  # noqa: E731
        # The second attribute against the first.
        target, facts["of"] = float(table.p[0, 1] - table.p[1, 0]), "paired difference"
    table.describe()

    def fit(draw: Draw) -> tuple[Any, Any]:
        model, counts = table.fit(draw)
        return ask(model), counts

    return Asker("ContingencyTable", facts, fit, lambda *_: target, None, [facts["of"]]).cell(draw)


def draw_counts(draw: Draw, question: str = "") -> Cell:
    """Return a random cell of a `Histogram`, whose intervals are of the rows, or of a `RandomizedResponse`."""
    facts: dict[str, Any] = {}
    n, options = draw_options(draw, facts)
    k = int(draw.integers(2, 9))
    p = np.maximum(draw.dirichlet(np.full(k, float(draw.choice([0.3, 2.0])))), 1e-3)
    p /= p.sum()
    names = [str(j) for j in range(k)]
    facts |= {"shares": " ".join(f"{share:.2g}" for share in p)}
    if draw.random() < 0.4:
        epsilon = min(options["epsilon"], 40.0)
        facts |= {"epsilon": float(f"{epsilon:.3g}"), "delta": 0.0}

        def respond(draw: Draw) -> tuple[Any, Any]:
            truth = draw.choice(k, n, p=p)
            coins = RandomizedResponse(epsilon, k, random_state=seed(draw, facts))
            return coins.estimate(coins.randomize(truth)), np.bincount(truth, minlength=k)

        def usual(counts: Any) -> tuple[Floats, Floats, float]:
            rate = (counts + 0.5) / (n + 1)
            return rate, np.sqrt(rate * (1 - rate) / n), np.inf

        return Asker("RandomizedResponse", facts, respond, lambda *_: p, usual, names).cell(draw, question)
    units = int(draw.choice([0, 0, 1, 3]))
    if draw.random() < 0.3:
        options["neighbors"] = "add_or_remove"
    if units:
        options |= {"max_rows": units}
    facts |= {"max_rows": units, "neighbors": options.get("neighbors", "")}

    def fit(draw: Draw) -> tuple[Any, Any]:
        rows = draw.choice(k, n, p=p)
        given = (draw.permutation(n) // units,) if units else ()
        made = Histogram(list(range(k)), **options, random_state=seed(draw, facts))
        return made.release(rows, *given), np.bincount(rows, minlength=k)

    return Asker("Histogram", facts, fit, lambda model, counts: counts, None, names).cell(draw, question)
