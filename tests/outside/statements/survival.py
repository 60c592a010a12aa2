"""Cells of `PrivateSurvival` and `LogRankTest`: random hazards, censoring and arms, and questions about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_ndtr

from dpstats.survival import LogRankTest, PrivateSurvival
from tests.outside.statements.populations import Draw, Floats, log_uniform
from tests.outside.statements.verdict import Answer, Cell

FAMILY = "PrivateSurvival"
EXACT = 1e4
TOLERANCE = 1.0
"""Standard errors by which a curve may differ from Kaplan and Meier's, where noise is nothing."""
GRID = np.linspace(0.0, 1.0, 4001)
"""Times of the curves, as fractions of the horizon."""
OF_ENDS = "restricted mean", "rows are at risk at"
"""Words of notes about restricted means."""


def _piecewise(draw: Draw) -> Floats:
    total = np.append(0.0, np.cumsum(draw.exponential(size=5)))
    return np.interp(GRID, np.linspace(0, 1, 6), total)


def _early(draw: Draw) -> Floats:
    share = draw.uniform(0.1, 0.8)
    return share * (1 - np.exp(-GRID / log_uniform(draw, 0.03, 0.3))) + (1 - share) * GRID


def _cured(draw: Draw) -> Floats:
    share = draw.uniform(0.05, 0.8)
    return -np.log(share + (1 - share) * np.exp(-log_uniform(draw, 1, 10) * GRID))


def _peak(draw: Draw) -> Floats:
    width = log_uniform(draw, 0.005, 0.1)
    peak = np.cumsum(np.exp(-(((GRID - draw.uniform(0, 0.6)) / width) ** 2) / 2))
    share = draw.uniform(0.2, 0.9)
    return share * (peak - peak[0]) / (peak[-1] - peak[0]) + (1 - share) * GRID


def _bathtub(draw: Draw) -> Floats:
    early, share = log_uniform(draw, 0.005, 0.2), draw.uniform(0.2, 0.8)
    return share * (1 - np.exp(-GRID / early)) + (1 - share) * (0.3 * GRID + 3.5 * np.maximum(GRID - 0.8, 0.0))


def _lognormal(draw: Draw) -> Floats:
    middle, spread = np.log(log_uniform(draw, 0.05, 2)), draw.uniform(0.3, 1.5)
    return np.asarray(-log_ndtr((middle - np.log(np.maximum(GRID, 1e-300))) / spread))


HAZARDS: dict[str, Callable[[Draw], Floats]] = {
    "constant": lambda draw: GRID,
    "early": _early,
    "late": lambda draw: np.maximum(GRID - draw.uniform(0.1, 0.7), 0.0),
    "plateau": lambda draw: np.minimum(GRID / draw.uniform(0.2, 0.8), 1.0),
    "Weibull": lambda draw: GRID ** log_uniform(draw, 0.4, 3),
    "piecewise": _piecewise,
    "cured share": _cured,
    "peak": _peak,
    "bathtub": _bathtub,
    "log-normal": _lognormal,
}
"""Cumulative hazards up to a factor."""


def _censoring(draw: Draw, kind: str, bins: int) -> Callable[[Draw, int], Floats]:
    """Return a function that draws times of censoring, in horizons."""
    if kind == "none":
        return lambda rng, n: np.full(n, np.inf)
    if kind == "uniform":
        start, end = draw.uniform(0, 0.6), log_uniform(draw, 1.05, 3)
        return lambda rng, n: rng.uniform(start, end, n)
    if kind == "at once":
        time, share, rate = draw.uniform(0.1, 0.9), draw.uniform(0.1, 0.7), 0.2
        return lambda rng, n: np.where(rng.random(n) < share, time, rng.exponential(1 / rate, n) + np.zeros(n))
    if kind in ("first bin", "delayed"):
        part, start = draw.uniform(0.3, 0.9), draw.uniform(0.1, 1.5) if kind == "delayed" else 0.0
        return lambda rng, n: np.where(rng.random(n) < part, (start + rng.random(n)) / bins, np.inf)
    rate = log_uniform(draw, 1.5, 5) if kind == "heavy" else log_uniform(draw, 0.1, 1.5)
    return lambda rng, n: rng.exponential(1 / rate, n)


CENSORING = ("none", "uniform", "constant", "heavy", "at once", "first bin", "delayed")


@dataclass
class Arms:
    """Populations of arms.

    Attributes
    ----------
    hazards : array of shape (arms, times)
        Cumulative hazards at `GRID`.
    censoring : list of functions
        Each draws times.
    shares : array of shape (arms,)
    causes : array of shape (times,)
        The fraction of events of the first cause, at `GRID`.
    days : int
        Number of days of discrete times or of times on a lattice, 0 for continuous ones.
    """

    hazards: Floats
    censoring: list[Callable[[Draw, int], Floats]]
    shares: Floats
    causes: Floats
    days: int

    def sample(self, draw: Draw, n: int, horizon: float) -> tuple[Floats, Any, Any]:
        """Return times, codes of events (0 censored, then causes) and places of arms."""
        arms = draw.choice(len(self.shares), n, p=self.shares)
        times, left = np.empty(n), np.empty(n)
        for g, hazard in enumerate(self.hazards):
            inside = arms == g
            count = int(inside.sum())
            reached = draw.exponential(size=count)
            # A plateau has no events: a hazard that grows by next to nothing there has an inverse.
            times[inside] = np.interp(reached, hazard + 1e-12 * GRID, GRID, right=np.inf)
            left[inside] = self.censoring[g](draw, count)
        if self.days:
            times, left = (np.ceil(each * self.days) / self.days for each in (times, left))
        causes = np.where(draw.random(n) < np.interp(np.minimum(times, 1), GRID, self.causes), 1, 2)
        events = np.where(times <= left, causes, 0)
        observed = np.minimum(np.minimum(times, left), 2.0)
        whole = np.rint(observed * self.days) if self.days else observed * horizon  # days are units of time
        return whole, np.where(observed < 2, events, 0), arms

    def survival(self, arm: int, t: Any) -> Any:
        """Return the survival at times in horizons. Between days it is that of the day before."""
        t = np.asarray(t, dtype=np.float64)
        if self.days:
            t = np.floor(t * self.days + 1e-9) / self.days
        return np.exp(-np.interp(t, GRID, self.hazards[arm]))

    def area(self, arm: int, until: float) -> float:
        """Return the area under a curve, in horizons."""
        if self.days:
            edges = np.minimum(np.arange(self.days + 1) / self.days, until)
            return float((np.diff(edges) * self.survival(arm, edges[:-1])).sum())
        fine = np.linspace(0, until, 20_001)
        return float(np.trapezoid(self.survival(arm, fine), fine))

    def incidence(self, arm: int, t: float) -> float:
        """Return the probability of an event of the first cause up to a time, which is an edge of discrete times."""
        times = np.linspace(0, t, 20_001)
        at = np.exp(-np.interp(times, GRID, self.hazards[arm]))
        when = np.ceil(times * self.days - 1e-9) / self.days if self.days else times
        share = np.interp(when, GRID, self.causes)
        return float((-np.diff(at) * (share[1:] + share[:-1]) / 2).sum())

    def quantile(self, arm: int, q: float) -> float:
        """Return when the survival falls to 1 - q, infinite where it does not."""
        below = np.flatnonzero(np.exp(-self.hazards[arm]) <= 1 - q)
        if not below.size:
            return np.inf
        hazard, wanted, place = self.hazards[arm], -np.log(1 - q), max(int(below[0]), 1)
        part = (wanted - hazard[place - 1]) / (hazard[place] - hazard[place - 1])
        time = float(GRID[place - 1] + part * (GRID[1] - GRID[0]))
        return float(np.ceil(time * self.days - 1e-9) / self.days) if self.days else time


def _shares(draw: Draw, k: int) -> Floats:
    style = draw.integers(3)
    if style == 0:
        return np.full(k, 1 / k)
    if style == 1:
        return draw.dirichlet(2 * np.ones(k))
    rare = draw.uniform(0.01, 0.1)
    return np.append(1 - (k - 1) * rare, np.full(k - 1, rare))


def _arms(draw: Draw, facts: dict[str, Any], style: str, bins: int) -> Arms:
    """Return arms of equal, proportional or different hazards."""
    k = 1 if style == "one" else int(draw.choice([2, 2, 3, 4]))
    kinds = [str(draw.choice(list(HAZARDS))) for _ in range(k if style == "different" else 1)]
    hazards = []
    for kind in kinds:
        hazard = HAZARDS[kind](draw)
        hazards.append(hazard / hazard[-1] * -np.log(draw.uniform(0.05, 0.95)))
    ratios = np.ones(k)
    if style == "proportional":
        ratios[1:] = np.exp(0.5 * draw.normal(size=k - 1))
    every = np.array([hazards[g % len(hazards)] * ratios[g] for g in range(k)])
    censored = [str(draw.choice(CENSORING)) for _ in range(1 if draw.random() < 0.4 else k)]
    makers = [_censoring(draw, kind, bins) for kind in censored]
    causes = np.clip(draw.uniform(0.2, 0.9) + draw.choice([0.0, 0.4]) * (GRID - 0.5), 0.0, 1.0)
    shares = _shares(draw, k)
    days = int(draw.choice([0, bins, 7 * bins], p=[0.75, 0.15, 0.1]))
    facts |= {
        "hazard": ", ".join(kinds),
        "arms": style,
        "shares": " ".join(f"{share:.2g}" for share in shares),
        "ratios": " ".join(f"{ratio:.2g}" for ratio in ratios) if style == "proportional" else "",
        "survivors": " ".join(f"{each:.2g}" for each in np.exp(-every[:, -1])),
        "censoring": ", ".join(censored),
        "discrete": days == bins,
        "whole days": days > bins,
    }
    return Arms(every, [makers[g % len(makers)] for g in range(k)], shares, causes, days)


def draw_cell(draw: Draw, question: str = "") -> Cell:
    """Return a random cell, with this question if it is given."""
    n = round(log_uniform(draw, 300, 50_000))
    epsilon = EXACT if draw.random() < 0.1 else log_uniform(draw, 0.1, 10)
    bins = int(draw.integers(1, 4)) if draw.random() < 0.15 else round(log_uniform(draw, 4, 40))
    facts: dict[str, Any] = {"n": n, "epsilon": float(f"{epsilon:.3g}"), "bins": bins}
    styles = {
        "one": "any", "test": "equal", "pairs": "equal", "two_stage": "equal", "ratio": "proportional",
        "power": "proportional", "difference": "different", "mean_difference": "different",
    }  # fmt: skip
    names = [
        *["point", "band", "mean", "quantile", "incidence", "difference", "mean_difference", "planned"],
        *["test", "test", "pairs", "two_stage", "two_stage", "ratio", "ratio", "power"],
    ]
    if epsilon >= EXACT and draw.random() < 0.5:
        names = ["public"]
    question = question or str(draw.choice(names))
    style = styles.get(question, str(draw.choice(["one", "different"])))
    arms = _arms(draw, facts, style, bins)
    options: dict[str, Any] = {
        "horizon": log_uniform(draw, 0.1, 1000) if not arms.days else float(arms.days),
        "bins": bins,
        "epsilon": epsilon,
        "delta": float(draw.choice([0.0, 0.0, 1e-6])),
        "discrete": facts["discrete"],
    }
    facts |= {"delta": options["delta"]}
    cell: Cell = getattr(Asker(arms, options, facts, n), question)(draw)
    return cell


class Asker:
    """Draws samples of arms, fits, and asks a question."""

    def __init__(self, arms: Arms, options: dict[str, Any], facts: dict[str, Any], n: int) -> None:
        self.arms, self.options, self.facts, self.n = arms, options, facts, n
        self.labels = [f"g{g}" for g in range(len(arms.shares))]
        self.horizon, self.bins = float(options["horizon"]), int(options["bins"])

    def fit(self, draw: Draw, **more: Any) -> tuple[Any, Any]:
        """Return a fit of a sample, and the sample."""
        times, events, arms = self.arms.sample(draw, self.n, self.horizon)
        given = {**self.options, "causes": [1, 2], "random_state": int(draw.integers(2**31)), **more}
        rows = np.array(self.labels)[arms]
        if len(self.labels) == 1:
            return PrivateSurvival(**given).fit(times, events), (times, events, arms)
        return PrivateSurvival(**given, groups=self.labels).fit(times, events, rows), (times, events, arms)

    def _cell(
        self, question: str, about: Any, nominal: float, ask: Callable[..., Any], means: bool = False, **more: Any
    ) -> Cell:
        """Return a cell whose question is asked of a fit and its sample: (missed, notes of the answer)."""
        names = [self.labels[g] for g in about]
        others = [f" of {label}" for label in self.labels if label not in names]
        plan: list[str] = []

        def answer(draw: Draw) -> Answer | None:
            model, sample = self.fit(draw)
            found = ask(model, sample)
            if found is None:
                return None
            missed, notes = found
            if not plan:
                plan.extend(["", *model.plan_.notes()])
            whole = [
                note
                for note in model._notes()  # of the summary, without its intervals
                if (means or not any(words in note for words in OF_ENDS))
                and not any(f"{other} " in note or f"{other}." in note for other in others)
            ]
            # A warning of the plan is about groups of average size.
            small = self.arms.shares[list(about)].min() <= 1 / len(self.labels) + 1e-9
            warned = [note for note in plan if note.startswith("warning") and small]
            return Answer(bool(missed), [*whole, *notes, *warned])

        return Cell(FAMILY, question, self.facts, names, nominal, answer, **more)

    def _some(self, draw: Draw, many: int = 1) -> list[int]:
        """Return some arms, those with more rows more often."""
        shares = self.arms.shares + 0.1
        return [int(g) for g in draw.choice(len(shares), many, replace=False, p=shares / shares.sum())]

    def _group(self, g: int) -> str | None:
        return None if len(self.labels) == 1 else self.labels[g]

    def _edge(self, draw: Draw) -> float:
        """Return an edge, in horizons."""
        return float(draw.integers(1, self.bins + 1) / self.bins)

    def point(self, draw: Draw) -> Cell:
        """Ask for an interval of the survival at a time."""
        (g,), nominal = self._some(draw), float(draw.choice([0.2, 0.05, 0.01]))
        side = str(draw.choice(["two-sided", "two-sided", "less", "greater"]))
        time = self._edge(draw) if draw.random() < 0.7 else float(draw.uniform(0.02, 1))
        truth = float(self.arms.survival(g, time))

        def ask(model: Any, sample: Any) -> Any:
            low, high = model.confidence_interval(
                1 - nominal, t=time * self.horizon, group=self._group(g), alternative=side
            )
            return _outside(low, high, truth), ()

        return self._cell(f"survival {side} {1 - nominal:g} at {time:.2f}", [g], nominal, ask)

    def band(self, draw: Draw) -> Cell:
        """Ask for the band at all edges."""
        (g,), nominal = self._some(draw), float(draw.choice([0.2, 0.05, 0.01]))
        truth = self.arms.survival(g, np.arange(self.bins + 1) / self.bins)

        def ask(model: Any, sample: Any) -> Any:
            return _outside(*model.band(1 - nominal, group=self._group(g)), truth), ()

        return self._cell(f"band {1 - nominal:g}", [g], nominal, ask)

    def mean(self, draw: Draw) -> Cell:
        """Ask for an interval of a restricted mean."""
        (g,), nominal = self._some(draw), float(draw.choice([0.2, 0.05, 0.01]))
        until = self._edge(draw) if draw.random() < 0.7 else float(draw.uniform(0.1, 1))
        truth = self.arms.area(g, until) * self.horizon

        def ask(model: Any, sample: Any) -> Any:
            found = model.rmst(until * self.horizon, group=self._group(g))
            return _outside(*found.confidence_interval(1 - nominal), truth), found.notes

        return self._cell(f"restricted mean {1 - nominal:g} to {until:.2f}", [g], nominal, ask, means=True)

    def mean_difference(self, draw: Draw) -> Cell:
        """Ask for an interval of a difference of restricted means."""
        pair, nominal = self._some(draw, 2), float(draw.choice([0.2, 0.05, 0.01]))
        until = self._edge(draw) if draw.random() < 0.7 else float(draw.uniform(0.1, 1))
        truth = (self.arms.area(pair[0], until) - self.arms.area(pair[1], until)) * self.horizon

        def ask(model: Any, sample: Any) -> Any:
            found = model.rmst_difference(*(self.labels[g] for g in pair), until * self.horizon)
            return _outside(*found.confidence_interval(1 - nominal), truth), found.notes

        question = f"difference of restricted means {1 - nominal:g} to {until:.2f}"
        return self._cell(question, pair, nominal, ask, means=True)

    def difference(self, draw: Draw) -> Cell:
        """Ask for an interval of a difference of survivals at an edge, or test the true one."""
        pair, nominal, time = (self._some(draw, 2), float(draw.choice([0.2, 0.05, 0.01])), self._edge(draw))
        truth = float(self.arms.survival(pair[0], time) - self.arms.survival(pair[1], time))

        def ask(model: Any, sample: Any) -> Any:
            found = model.difference(*(self.labels[g] for g in pair), time * self.horizon)
            return _outside(*found.confidence_interval(1 - nominal), truth), found.notes

        return self._cell(f"difference {1 - nominal:g} at {time:.2f}", pair, nominal, ask)

    def quantile(self, draw: Draw) -> Cell:
        """Ask for an interval of a quantile; often of the median."""
        (g,), nominal = self._some(draw), float(draw.choice([0.2, 0.05, 0.01]))
        q = 0.5 if draw.random() < 0.5 else float(draw.uniform(0.05, 0.9))
        truth = self.arms.quantile(g, q) * self.horizon

        def ask(model: Any, sample: Any) -> Any:
            found = model.quantile(q, group=self._group(g))
            return _outside(*found.confidence_interval(1 - nominal), truth), found.notes

        # Events do not have a density at the time at which a curve stays at the height for a while.
        return self._cell(f"quantile {q:.2g} {1 - nominal:g}", [g], nominal, ask)

    def incidence(self, draw: Draw) -> Cell:
        """Ask for an interval of a cumulative incidence."""
        (g,), nominal, time = self._some(draw), float(draw.choice([0.2, 0.05, 0.01])), self._edge(draw)
        truth = self.arms.incidence(g, time)

        def ask(model: Any, sample: Any) -> Any:
            found = model.incidence_interval(1, time * self.horizon, 1 - nominal, group=self._group(g))
            return _outside(*found, truth), ()

        return self._cell(f"incidence {1 - nominal:g} at {time:.2f}", [g], nominal, ask)

    def test(self, draw: Draw) -> Cell:
        """Compare equal arms by the table's log-rank test, all of them or two."""
        some = self._some(draw, 2) if draw.random() < 0.3 else range(len(self.labels))
        weights = {"rho": float(draw.choice([0, 0, 1])), "gamma": float(draw.choice([0, 0, 1]))}

        def ask(model: Any, sample: Any) -> Any:
            found = model.log_rank([self.labels[g] for g in some], **weights)
            return found.pvalue <= 0.05, found.notes

        question = f"log-rank test, {weights['rho']:g}, {weights['gamma']:g}"
        return self._cell(question, some, 0.05, ask, is_test=True)

    def pairs(self, draw: Draw) -> Cell:
        """Compare all pairs of equal arms."""
        how = str(draw.choice(["holm", "bonferroni"]))

        def ask(model: Any, sample: Any) -> Any:
            found = model.pairwise_log_rank(how).values()
            return min(each.pvalue for each in found) <= 0.05, [note for each in found for note in each.notes]

        return self._cell(f"pairs by {how}", range(len(self.labels)), 0.05, ask, is_test=True)

    def ratio(self, draw: Draw) -> Cell:
        """Ask for an interval of the ratio of proportional hazards, or test the true one."""
        pair, nominal = self._some(draw, 2), float(draw.choice([0.2, 0.05, 0.01]))
        ends = self.arms.hazards[pair, -1]
        truth = float(np.log(ends[0] / ends[1]))

        def ask(model: Any, sample: Any) -> Any:
            found = model.hazard_ratio(*(self.labels[g] for g in pair), log=True)
            return _outside(*found.confidence_interval(1 - nominal), truth), found.notes

        return self._cell(f"hazard ratio {1 - nominal:g}", pair, nominal, ask)

    def two_stage(self, draw: Draw) -> Cell:
        """Compare equal arms by `LogRankTest`."""
        weights = {"rho": float(draw.choice([0, 0, 1])), "gamma": float(draw.choice([0, 0, 1]))}

        def answer(draw: Draw) -> Answer:
            times, events, arms = self.arms.sample(draw, self.n, self.horizon)
            given = {**self.options, **weights, "random_state": int(draw.integers(2**31))}
            test = LogRankTest(**given, groups=self.labels)
            test = test.fit(times, (events > 0).astype(int), y=np.array(self.labels)[arms])
            return Answer(test.pvalue_ <= 0.05, test.result_.notes)

        question = f"LogRankTest, {weights['rho']:g}, {weights['gamma']:g}"
        return Cell(FAMILY, question, self.facts, self.labels, 0.05, answer, is_test=True)

    def power(self, draw: Draw) -> Cell:
        """Compare how often `LogRankTest` does not reject with what its planned power says, for exponential times."""
        ratio, survival = float(np.exp(0.5 * draw.normal())), float(draw.uniform(0.1, 0.9))
        censored, share = float(draw.choice([0.0, draw.uniform(0, 0.6)])), float(draw.uniform(0.1, 0.9))
        test = LogRankTest(**self.options | {"discrete": False}, groups=["a", "b"])
        planned = test.power(self.n, ratio, survival=survival, censored=censored, share=share)
        self.facts |= {"hazard": "constant", "arms": "two", "shares": f"{share:.2g}", "ratios": f"{ratio:.2g}"}
        self.facts |= {"survivors": f"{survival:.2g}", "censoring": f"{censored:.2g}", "power": planned}
        self.facts["discrete"] = False
        rates = -np.log(survival) * np.array([1.0, ratio])

        def answer(draw: Draw) -> Answer:
            arm = (draw.random(self.n) >= share).astype(int)
            times = draw.exponential(1 / rates[arm])
            left = draw.exponential(1 / max(-np.log1p(-censored), 1e-12), self.n)
            rows = np.minimum(np.minimum(times, left), 2.0)
            given = self.options | {"discrete": False, "random_state": int(draw.integers(2**31))}
            fitted = LogRankTest(**given, groups=["a", "b"]).fit(
                rows * self.horizon, (times <= left) & (times < 2), y=np.array(["a", "b"])[arm]
            )
            return Answer(fitted.pvalue_ > 0.05, fitted.result_.notes)

        nominal = float(np.clip(1 - planned, 0.01, 0.99))
        return Cell(FAMILY, "planned power", self.facts, ["a", "b"], nominal, answer)

    def planned(self, draw: Draw) -> Cell:
        """Compare the error of a curve with the planned width: at most 1.2 times it. Rows are shared out equally."""
        self.arms.shares = np.full(len(self.labels), 1 / len(self.labels))
        self.facts["shares"] = "equal"
        (g,), place = self._some(draw), int(draw.integers(1, self.bins + 1))
        edges = np.arange(self.bins + 1) / self.bins
        alive = self.arms.survival(g, edges)
        left = self.arms.censoring[g](np.random.default_rng(0), 200_000)
        if self.arms.days:
            left = np.ceil(left * self.arms.days) / self.arms.days
        free = np.array([(left > edge).mean() for edge in edges])
        truth, width = alive[place], []

        def ask(model: Any, sample: Any) -> Any:
            if not width:
                width.append(model.plan_.expected_width(alive, free)[place - 1])
            found = model.survival(place / self.bins * self.horizon, group=self._group(g))
            if np.isnan(found):
                return None
            return abs(found - truth) > 1.96 * 1.2 * width[0] / 3.92, ()

        return self._cell(f"planned width at {edges[place]:.2f}", [g], 0.05, ask)

    def public(self, draw: Draw) -> Cell:
        """Compare a curve at an edge with Kaplan and Meier's."""
        (g,), time = self._some(draw), self._edge(draw)

        def ask(model: Any, sample: Any) -> Any:
            times, events = (each[sample[2] == g] for each in sample[:2])
            if len(times) < 30:
                return None
            known, error = _kaplan_meier(times, events > 0, time * self.horizon)
            found = model.survival(time * self.horizon, group=self._group(g))
            return not abs(found - known) <= TOLERANCE * max(error, 1 / len(times)), ()

        return self._cell(f"as Kaplan-Meier at {time:.2f}", [g], 0.05, ask)


def _kaplan_meier(times: Floats, events: Any, t: float) -> tuple[float, float]:
    """Return Kaplan and Meier's estimate at a time and Greenwood's error."""
    t = t * (1 + 1e-12)
    when, place = np.unique(times, return_inverse=True)
    d, rows = np.bincount(place, weights=events), np.bincount(place)
    at_risk = rows[::-1].cumsum()[::-1]
    used = when <= t
    survival = float(np.prod(1 - d[used] / at_risk[used]))
    parts = d[used] / (at_risk[used] * np.maximum(at_risk[used] - d[used], 1))
    return survival, survival * float(np.sqrt(parts.sum()))


def _outside(low: Any, high: Any, value: Any) -> bool:
    low, high = (np.asarray(end, dtype=np.float64) for end in (low, high))
    # The finest grid of the true curves is not exact.
    value = np.asarray(value, dtype=np.float64)
    room = 1e-6 * np.where(np.isfinite(value), np.abs(value), 0.0)
    return bool(np.any((value < low - room) | (value > high + room)))
