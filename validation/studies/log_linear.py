"""Private regressions of counts and of amounts beside maximum likelihood: error, coverage and width, cell by cell.

A cell is a distribution of columns and outcomes, n, d and epsilon. Datasets are fresh in each replication. Rows of RAND
are drawn with replacement from all rows, and the fit to all rows is the truth. The reference is the estimator with the
same weights and without privacy, with robust (HC0) standard errors.

    python validation/studies/log_linear.py                          # writes validation/results/log_linear.md
    python validation/studies/log_linear.py --replications 10 --only Poisson --no-write
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from study_page import table_page, write_cells

from dpstats.regression import PrivateCountRegression, PrivateGammaRegression

Floats = NDArray[np.float64]
WARNINGS = "Counts are rare", "Not identified", "Noise only", "may miss", "may bias"
"""Words of notes that doubt an interval."""
RESULTS = Path(__file__).resolve().parents[1] / "results" / "log_linear.md"

RAND_BOUNDS = {
    "lncoins": (0, 5),
    "idp": (0, 1),
    "lpi": (0, 8),
    "fmde": (0, 9),
    "physlm": (0, 1),
    "disea": (0, 60),
    "hlthg": (0, 1),
    "hlthf": (0, 1),
    "hlthp": (0, 1),
}


def likelihood(
    X: Floats, y: Floats, weight: Callable[[Floats], Floats], offset: Any = 0.0
) -> tuple[Floats, Floats, Floats]:
    """Return the estimate without privacy, its robust standard errors and their covariance, by Newton steps."""
    rows = np.column_stack([np.ones(len(X)), X])
    b = np.zeros(rows.shape[1])
    b[0] = np.log(max(y.mean(), 1e-3) / np.mean(np.exp(offset)))
    for _ in range(25):
        mean = np.exp(np.clip(rows @ b + offset, -30, 30))
        a = weight(mean)
        hessian = (rows * (a * mean)[:, None]).T @ rows
        move = np.linalg.solve(hessian, rows.T @ (a * (y - mean)))
        b = b + move
        if np.abs(move).max() < 1e-10:
            break
    pulls = rows * (a * (y - mean))[:, None]
    inverse = np.linalg.inv(hessian)
    cov = inverse @ (pulls.T @ pulls) @ inverse
    return b, np.sqrt(np.diagonal(cov)), cov


def columns(kind: str, n: int, d: int, rng: np.random.Generator) -> tuple[Floats, Any]:
    """Return the rows of a design, and the bounds of its columns."""
    if kind == "lognormal":
        return np.exp(0.7 * rng.normal(size=(n, d))), (0.0, 12.0)
    if kind == "rare yes/no":
        rows = rng.normal(size=(n, d))
        rows[:, 0] = rng.random(n) < 0.05
        return rows, [(0.0, 1.0), *[(-4.0, 4.0)] * (d - 1)]
    if kind == "yes/no":
        return (rng.random((n, d)) < np.linspace(0.1, 0.5, d)).astype(float), (0.0, 1.0)
    if kind in ("strong level", "interaction"):
        rows = rng.uniform(size=(n, d))
        rows[:, 0] = rng.random(n) < 0.25
        if kind == "interaction":
            rows[:, 1] = rows[:, 0] * rows[:, 2]
        return rows, (0.0, 1.0)
    if kind == "strong factor":
        levels = rng.choice(d + 1, n, p=[0.75 / d] * d + [0.25])
        return (levels[:, None] == np.arange(d, 0, -1)).astype(float), (0.0, 1.0)
    X = rng.normal(size=(n, d))
    if kind == "AR(.7)":
        X = X @ np.linalg.cholesky(0.7 ** np.abs(np.subtract.outer(range(d), range(d)))).T
    return X, (-4.0, 4.0)


def drawn(law: str, mean: Floats, rng: np.random.Generator) -> Floats:
    """Return outcomes of these means."""
    n = mean.size
    found = {
        "Poisson": lambda: rng.poisson(mean),
        "negative binomial, alpha 1": lambda: rng.poisson(mean * rng.gamma(1.0, 1.0, n)),
        "negative binomial, alpha 3": lambda: rng.poisson(mean * rng.gamma(1 / 3, 3.0, n)),
        "variance 4 mu": lambda: rng.poisson(rng.gamma(mean / 3, 3.0)),
        "zero-inflated": lambda: rng.poisson(mean / 0.6 * (rng.random(n) < 0.6)),
        "Poisson-lognormal": lambda: rng.poisson(mean * np.exp(rng.normal(size=n) - 0.5)),
        "gamma, shape 2": lambda: mean * rng.gamma(2.0, 0.5, n),
        "gamma, shape 400": lambda: mean * rng.gamma(400.0, 1 / 400, n),
        "Poisson-lognormal, sd 1.5": lambda: rng.poisson(mean * np.exp(1.5 * rng.normal(size=n) - 1.125)),
        "lognormal, sd 1.5": lambda: mean * np.exp(1.5 * rng.normal(size=n) - 1.125),
        "20% amounts": lambda: mean / 0.2 * (rng.random(n) < 0.2) * rng.gamma(2.0, 0.5, n),
        "gamma, shape 1/2": lambda: mean * rng.gamma(0.5, 2.0, n),
        "lognormal": lambda: mean * np.exp(rng.normal(size=n) - 0.5),
        "Pareto, 3": lambda: mean * 2 * rng.pareto(3.0, n),
        "40% zeros": lambda: mean / 0.6 * (rng.random(n) < 0.6) * rng.gamma(1.0, 1.0, n),
    }[law]()
    return np.asarray(found, dtype=np.float64)


@dataclass(frozen=True)
class Cell:
    """A cell of the study."""

    law: str
    kind: str = "normal"
    n: int = 20_000
    d: int = 10
    epsilon: float = 1.0
    mean: float = 1.0
    slope: float = 0.2
    strong: float = 0.0
    high: float = 500.0
    exposed: bool = False
    family: str = "counts"
    overdispersion: float = 1.0
    fits: float = 1.0
    note: str = ""
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        extra = [f"{self.kind} {self.strong or ''}".strip()] if self.kind != "normal" else []
        extra += [f"mean {self.mean:g}"] if self.mean != 1 else []
        extra += ["exposures"] if self.exposed else []
        extra += ["Poisson weights"] if self.overdispersion == 0 else []
        extra += [self.note] if self.note else []
        return ", ".join([self.law, *extra])

    def weight(self, mean: Floats) -> Floats:
        return 1 / mean if self.family == "gamma" else 1 / (1 + self.overdispersion * mean)

    def dataset(self, rng: np.random.Generator) -> tuple[Floats, Floats, Any, Any, Floats]:
        """Return rows, outcomes, exposures, bounds and the true coefficients."""
        if self.law == "RAND, visits":
            X, y, truth = rand(self.weight)
            where = rng.integers(0, len(y), len(y))
            return X[where], y[where], None, list(RAND_BOUNDS.values()), truth
        X, bounds = columns(self.kind, self.n, self.d, rng)
        slopes = self.slope * (-1.0) ** np.arange(self.d) * np.linspace(0.5, 1.3, self.d)
        slopes[0] = self.strong or slopes[0]
        middle = np.full(self.d, np.exp(0.245)) if self.kind == "lognormal" else X.mean(axis=0)
        middle[:1] *= not self.strong
        exposure = np.exp(np.clip(0.5 * rng.normal(size=self.n), -1.5, 1.5)) if self.exposed else None
        index = np.log(self.mean) + (X - middle) @ slopes
        y = drawn(self.law, np.exp(index) * (1.0 if exposure is None else exposure), rng)
        return X, y, exposure, bounds, np.append(np.log(self.mean) - middle @ slopes, slopes)

    def estimator(self, bounds: Any, rng: np.random.Generator) -> Any:
        given: dict[str, Any] = {
            "x_bounds": bounds,
            "y_bounds": (0, self.high * self.mean),
            "epsilon": self.epsilon,
            "random_state": rng,
        }
        if self.exposed:
            given["exposure_bounds"] = (float(np.exp(-1.5)), float(np.exp(1.5)))
        if self.family == "gamma":
            return PrivateGammaRegression(**given)
        return PrivateCountRegression(overdispersion=self.overdispersion, **given)


_RAND: dict[float, Any] = {}


def rand(weight: Callable[[Floats], Floats]) -> tuple[Floats, Floats, Floats]:
    """Return the rows of the RAND experiment, the visits, and the fit to all rows."""
    key = float(weight(np.ones(1))[0])
    if key not in _RAND:
        from statsmodels.datasets import randhie

        data = randhie.load_pandas().data
        X, y = data[list(RAND_BOUNDS)].to_numpy(float), data["mdvis"].to_numpy(float)
        _RAND[key] = X, y, likelihood(X, y, weight)[0]
    found: tuple[Floats, Floats, Floats] = _RAND[key]
    return found


NB = "negative binomial, alpha 1"
CELLS = (
    Cell("Poisson"),
    Cell("Poisson", overdispersion=0.0),
    Cell(NB),
    Cell("negative binomial, alpha 3"),
    Cell("variance 4 mu"),
    Cell("zero-inflated"),
    Cell("Poisson-lognormal"),
    Cell(NB, kind="AR(.7)"),
    Cell(NB, kind="lognormal"),
    Cell(NB, kind="yes/no"),
    Cell("Poisson", exposed=True),
    Cell(NB, exposed=True),
    Cell("Poisson", mean=20.0),
    Cell(NB, mean=20.0),
    Cell("Poisson", mean=0.1, high=200.0),
    Cell("Poisson", mean=0.02, high=500.0),
    Cell(NB, d=3, slope=1.0, high=5000.0, note="strong slopes"),
    Cell(NB, n=5000),
    Cell(NB, n=5000, high=1e5, note="bounds far too wide"),
    Cell(NB, n=5000, d=3),
    Cell(NB, n=2000, d=3),
    Cell(NB, epsilon=0.2),
    Cell(NB, epsilon=1e4),
    Cell(NB, n=100_000, fits=0.4),
    Cell("gamma, shape 2", family="gamma"),
    Cell("gamma, shape 1/2", family="gamma"),
    Cell("40% zeros", family="gamma"),
    Cell("lognormal", family="gamma"),
    Cell("Pareto, 3", family="gamma"),
    Cell("RAND, visits", n=20_190, d=9, high=100.0),
    Cell("RAND, visits", n=20_190, d=9, high=100.0, overdispersion=0.0),
    # Where intervals miss, or missed
    Cell("Poisson", kind="rare yes/no", n=8000, d=2, mean=1000.0, slope=0.6, high=20.0),
    Cell("Poisson", kind="rare yes/no", n=8000, d=2, mean=100.0, slope=0.6, high=20.0),
    Cell(NB, kind="rare yes/no", n=8000, d=2, slope=0.6),
    Cell("gamma, shape 400", kind="rare yes/no", n=8000, d=2, slope=0.6, high=20.0, family="gamma"),
    Cell("20% amounts", kind="rare yes/no", n=8000, d=2, slope=0.6, high=200.0, family="gamma"),
    Cell("Poisson-lognormal, sd 1.5", n=8000, d=2, slope=0.6),
    Cell("lognormal, sd 1.5", n=8000, d=2, slope=0.6, family="gamma"),
    # Yes/no columns with strong effects, the last without events
    *(Cell("Poisson", kind="strong level", d=2, slope=0.4, strong=b) for b in (-2.6, -3.7, -4.6, 2.2, -40.0)),
    Cell("Poisson", kind="strong level", n=8000, d=2, slope=0.4, strong=-2.6, exposed=True),
    *(Cell("Poisson", kind="strong factor", d=3, slope=0.4, strong=b) for b in (-2.6, -40.0)),
    Cell("Poisson", kind="interaction", d=3, slope=0.4, strong=-2.6),
    Cell("gamma, shape 2", kind="strong level", d=2, slope=0.4, strong=-3.7, family="gamma"),
)


def measured(cell: Cell, replications: int, seed: int) -> list[str]:
    """Return the line of a cell."""
    fits = max(int(replications * cell.fits), 2)
    rng = np.random.default_rng([seed, CELLS.index(cell) if cell in CELLS else 99])
    errors, stds, reached, beside, beside_stds, said = [], [], [], [], [], 0
    for _ in range(fits):
        X, y, exposure, bounds, truth = cell.dataset(rng)
        b, std, _ = likelihood(X, y, cell.weight, 0.0 if exposure is None else np.log(exposure))
        made = cell.estimator(bounds, rng).fit(X, y, exposure=exposure)
        errors.append(made.params_ - truth)
        stds.append(np.append(made.intercept_standard_error_, made.standard_errors_))
        low, high = np.asarray(made.conf_int()).T
        reached.append((low <= truth) & (truth <= high))
        beside.append(b - truth)
        beside_stds.append(std)
        text = str(made.summary())
        said += made.unsettled_ or any(words in text for words in WARNINGS)
    e, s, m, r = (np.array(part) for part in (errors, stds, beside, beside_stds))
    covered = np.mean(reached, axis=0)
    return [
        cell.name,
        f"{cell.n:,}",
        str(cell.d),
        f"{cell.epsilon:g}",
        f"{covered[1:].mean():.3f}",
        f"{covered[1:].min():.2f}",
        f"{covered[0]:.2f}",
        f"{np.median(s[:, 1:] / r[:, 1:]):.2f}",
        f"{np.median(s[:, 0] / r[:, 0]):.2f}",
        f"{np.mean(e[:, 1:] ** 2) / np.mean(m[:, 1:] ** 2):.2f}",
        f"{(np.abs(m) < 1.959964 * r).mean(axis=0)[1:].mean():.3f}",
        f"{said / fits:.2f}",
        str(fits),
    ]


HEADER = (
    "outcomes, columns",
    "n",
    "d",
    "ε",
    "slopes",
    "worst",
    "intercept",
    "width",
    "of the intercept",
    "error",
    "reference",
    "warned",
    "fits",
)


def as_markdown(lines: list[list[str]], replications: int, seed: int) -> str:
    """Return the page of results."""
    words = (
        "Coverage of 95% intervals: of all slopes together, of the worst slope, and of the intercept. *width*: "
        "standard error over that of the reference, median over slopes and fits. *error*: mean squared error of the "
        "slopes over that of the reference. *reference*: coverage of the slopes without privacy. *warned*: fraction "
        "of fits whose summary warns that intervals may miss, or that coefficients are not identified. The reference "
        "is the fit with the same weights and without privacy, with robust standard errors. δ = 1e-6. Coverage of one "
        "slope has a standard error of 0.028 for 60 fits, of all slopes together of about 0.009 in ten columns. The "
        "last rows have long tails, or rare columns beside small spreads, as the page on limitations says."
    )
    command = f"python validation/studies/log_linear.py --replications {replications} --seed {seed}"
    return table_page("Regressions of counts and of amounts", command, words, HEADER, lines)


if __name__ == "__main__":
    write_cells(CELLS, measured, as_markdown, RESULTS, replications=60, seed=2026)
