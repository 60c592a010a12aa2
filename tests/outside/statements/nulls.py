"""Cells of tests that are true: ranks, and whole distributions, with the power that a plan states."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy import stats

from dpstats.identity import FilteringTest, LipschitzExtensionTest, RowDistanceTest, SpatialSignTest
from dpstats.ranks import GoodnessOfFitTest, KolmogorovSmirnovTest, KruskalWallisTest, MannWhitneyTest, SignedRankTest
from tests.outside.statements.group_means import draw_shares
from tests.outside.statements.populations import SIZE, Draw, Floats, log_uniform
from tests.outside.statements.questions import (
    SIDES,
    Asker,
    draw_frame,
    draw_missing,
    draw_options,
    level_cell,
    sample_rows,
    seed,
)
from tests.outside.statements.verdict import Answer, Cell

SIMULATED = 4999
"""Of a null distribution, whose seed is one for all fits. With 999, the level itself is off by 0.007."""
POWERS = 2000
"""Simulations of a planned power."""


def draw_ranks(draw: Draw, question: str = "") -> Cell:
    """Return a random cell of a rank test under its null hypothesis, or of the probability of superiority."""
    facts: dict[str, Any] = {}
    n, options = draw_options(draw, facts, (0.0,), 5000)
    del options["delta"]
    x = draw_frame(draw, facts, 1)
    options["n_simulations"] = SIMULATED
    kind = question or str(draw.choice(["mann-whitney", "mann-whitney", "signed rank", "kruskal", "superiority"]))
    facts["of"] = kind
    if kind == "signed rank":
        return _signed_rank(draw, facts, options, x, n)
    shares = draw_shares(draw, int(draw.integers(3, 6)) if kind == "kruskal" else 2)
    groups = [f"g{g}" for g in range(len(shares))]
    options["groups"] = groups
    public = kind == "superiority" or bool(draw.random() < 0.4)
    sizes = np.maximum(np.round(n * shares).astype(int), 1)
    sizes[np.argmax(sizes)] += n - sizes.sum()
    move = float(x.std()) * draw.normal() if kind == "superiority" else 0.0
    missing = 0.0
    if public:
        options["sizes"] = tuple(int(size) for size in sizes)
    else:
        missing = draw_missing(draw, facts, options)
    side = str(draw.choice(SIDES)) if kind != "kruskal" else "two-sided"
    if kind == "mann-whitney":
        options["alternative"] = side
        options["smaller_fraction"] = float(draw.choice([0.5, 0.2])) if not public else 0.5
    facts |= {"sizes": "public" if public else "private", "shares": " ".join(f"{share:.2g}" for share in shares)}

    def fit(draw: Draw) -> tuple[Any, Any]:
        places = (
            draw.permutation(np.repeat(np.arange(len(shares)), sizes))
            if public
            else draw.choice(len(shares), n, p=shares)
        )
        rows = sample_rows(draw, x, n, missing)[:, 0] + move * (places == 0)
        test = KruskalWallisTest if kind == "kruskal" else MannWhitneyTest
        model = test(**options, random_state=seed(draw, facts)).fit(rows, np.array(groups)[places])
        seen = [rows[(places == g) & np.isfinite(rows)] for g in range(len(shares))]
        return (model.superiority() if kind == "superiority" else model.result_), seen

    if kind == "superiority":
        y = np.sort(x[:, 0])
        above, equal = (np.searchsorted(y, x[:, 0] + move, side=way).mean() / SIZE for way in ("left", "right"))
        target = float((above + equal) / 2)
        return Asker("MannWhitneyTest", facts, fit, lambda *_: target, None, ["P(g0 > g1)"]).cell(draw)

    def usual(seen: Any) -> float:
        seen = [each for each in seen if each.size]
        if len(seen) < 2 or np.ptp(np.concatenate(seen)) == 0:
            return 1.0
        if kind == "kruskal":
            return float(stats.kruskal(*seen).pvalue)
        return float(stats.mannwhitneyu(*seen, alternative=side).pvalue)

    family = "KruskalWallisTest" if kind == "kruskal" else "MannWhitneyTest"
    return level_cell(family, f"level {side}", facts, fit, usual)


def _signed_rank(draw: Draw, facts: dict[str, Any], options: dict[str, Any], x: Floats, n: int) -> Cell:
    """Return a cell of symmetric rows."""
    side = str(draw.choice(SIDES))
    options["alternative"] = side
    missing = draw_missing(draw, facts, options)

    def fit(draw: Draw) -> tuple[Any, Any]:
        rows = sample_rows(draw, x, n, missing)[:, 0] * draw.choice([-1, 1], n)
        return SignedRankTest(**options, random_state=seed(draw, facts)).fit(rows).result_, rows[np.isfinite(rows)]

    def usual(rows: Floats) -> float:
        return float(stats.wilcoxon(rows, alternative=side).pvalue) if np.any(rows) else 1.0

    return level_cell("SignedRankTest", f"level {side}", facts, fit, usual)


def draw_distributions(draw: Draw, question: str = "") -> Cell:
    """Return a random cell of a test of a whole distribution of one column, under its null hypothesis."""
    facts: dict[str, Any] = {}
    n, options = draw_options(draw, facts, (0.0,), 10_000)
    del options["delta"]
    statistic = str(draw.choice(["ks", "kuiper", "cvm"]))
    options |= {"n_simulations": SIMULATED, "statistic": statistic}
    facts["of"] = statistic
    if question == "one sample" or (not question and draw.random() < 0.4):
        return _one_sample(draw, facts, options, n)
    x, shares = draw_frame(draw, facts, 1), draw_shares(draw, 2)
    public = bool(draw.random() < 0.4)
    first = min(max(round(n * shares[0]), 1), n - 1)
    missing = 0.0 if public else draw_missing(draw, facts, options)
    undeclared = float(draw.choice([0.0, draw.uniform(0.02, 0.4)])) * (not public)
    options |= {"groups": ["g0", "g1"]} | ({"sizes": (first, n - first)} if public else {})
    facts |= {"sizes": "public" if public else "private", "shares": " ".join(f"{share:.2g}" for share in shares)}
    facts |= {"undeclared": f"{undeclared:.2g}"} if undeclared else {}

    def fit(draw: Draw) -> tuple[Any, Any]:
        public_places = np.repeat([0, 1], [first, n - first])
        places = draw.permutation(public_places) if public else draw.choice(2, n, p=shares)
        places[draw.random(n) < undeclared] = 2
        rows = sample_rows(draw, x, n, missing)[:, 0]
        test = KolmogorovSmirnovTest(**options, random_state=seed(draw, facts))
        return test.fit(rows, np.array(["g0", "g1", "other"])[places]).result_, rows

    return level_cell("KolmogorovSmirnovTest", "level", facts, fit)


LAWS: dict[str, Callable[[Draw], Any]] = {
    "norm": lambda draw: stats.norm(draw.normal() * 100, log_uniform(draw, 0.01, 100)),
    "lognorm": lambda draw: stats.lognorm(draw.uniform(0.5, 1.5)),
    "expon": lambda draw: stats.expon(scale=log_uniform(draw, 0.01, 100)),
    "t": lambda draw: stats.t(3),
    "cauchy": lambda draw: stats.cauchy(),
    "uniform": lambda draw: stats.uniform(-1, log_uniform(draw, 0.01, 100)),
    "beta": lambda draw: stats.beta(0.2, 0.3),
    "bernoulli": lambda draw: stats.bernoulli(log_uniform(draw, 0.002, 0.5)),
    "poisson": lambda draw: stats.poisson(log_uniform(draw, 0.1, 30)),
    "binom": lambda draw: stats.binom(int(draw.integers(2, 30)), draw.uniform(0.05, 0.95)),
    "geom": lambda draw: stats.geom(draw.uniform(0.05, 0.9)),
    "randint": lambda draw: stats.randint(1, int(draw.integers(3, 12))),
}
"""Distributions of scipy: skewed, of heavy tails, discrete, and with nearly all rows at one value."""


def _one_sample(draw: Draw, facts: dict[str, Any], options: dict[str, Any], n: int) -> Cell:
    """Return a cell of rows of the distribution that is tested."""
    name = str(draw.choice(list(LAWS)))
    law = options["distribution"] = LAWS[name](draw)
    facts["x"] = f"{name}{tuple(float(f'{each:.3g}') for each in (*law.args, *law.kwds.values()))}"
    missing = draw_missing(draw, facts, options)

    def fit(draw: Draw) -> tuple[Any, Any]:
        rows = law.rvs(n, random_state=draw).astype(float)
        if missing:
            rows[draw.random(n) < missing] = np.nan
        return GoodnessOfFitTest(**options, random_state=seed(draw, facts)).fit(rows).result_, rows

    return level_cell("GoodnessOfFitTest", "level", facts, fit)


def draw_identity(draw: Draw, question: str = "") -> Cell:
    """Return a random cell of a test of a whole distribution: its level, or the power that its plan states."""
    facts: dict[str, Any] = {}
    n, options = draw_options(draw, facts, (1e-6,), 2000)
    kinds = [SpatialSignTest, SpatialSignTest, RowDistanceTest, LipschitzExtensionTest, FilteringTest]
    test: Any = kinds[draw.integers(len(kinds))]
    if test is not SpatialSignTest:
        n = min(n, 300)
    if test is not FilteringTest:
        del options["delta"]
    else:
        options["epsilon"] = min(options["epsilon"], 50.0)
    d = int(draw.choice([1, 2, 5, 12]))
    signs = bool(draw.random() < 0.3)
    level = signs or question == "level" or (not question and bool(draw.random() < 0.6))
    if signs:
        mean = draw.uniform(-0.7, 0.7, d) * (test is not FilteringTest)
        options |= {"null": "product", "mean": mean}
    else:
        mean = draw.normal(size=d) * draw.choice([0.0, 10.0])
        # A plan's direction is that of whitened columns: equal in all of them.
        root = draw.normal(size=(d, d)) * level + 2 * np.eye(d)
        options |= {"mean": mean, "cov": root @ root.T}
    options["n_calibration"] = SIMULATED
    facts |= {
        "n": n,
        "epsilon": float(f"{options['epsilon']:.3g}"),
        "columns": d,
        "null": "product" if signs else "normal",
    }

    def sample(draw: Draw, shift: Any = 0.0) -> Floats:
        if signs:
            return np.where(draw.random((n, d)) < (1 + mean) / 2, 1.0, -1.0)
        rows: Floats = mean + (draw.normal(size=(n, d)) + shift) @ root.T
        return rows

    def fit(draw: Draw, shift: Any = 0.0) -> tuple[Any, Any]:
        X = sample(draw, shift)
        model = test(**options, random_state=seed(draw, facts)).fit(X)
        result = model.result_
        # A test of level 0.05 compares the statistic with its threshold.
        pvalue = 0.0 if result.reject else 1.0
        return SimpleNamespace(pvalue=pvalue, summary=result.summary), X

    if level:
        return level_cell(test.__name__, "level", facts, fit)
    distance = log_uniform(draw, 0.05, 2)
    facts["distance"] = f"{distance:.2g}"
    planned = test(**options, random_state=0).power(distance, n, d, n_simulations=POWERS, max_seconds=20.0)
    facts["power"] = f"{planned:.3f}"

    def answer(draw: Draw) -> Answer:
        found, _ = fit(draw, distance / np.sqrt(d))
        return Answer(found.pvalue > 0.05, found.summary().notes)

    return Cell(test.__name__, "planned power", facts, ["x0"], min(max(1 - planned, 0.01), 0.95), answer)
