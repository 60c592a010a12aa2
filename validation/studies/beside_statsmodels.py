"""Regressions at an epsilon of a million beside statsmodels: coefficients of random designs, in its standard errors.

Bounds hold every row and outcome. So what differs is noise, residuals that the steps clip, and steps that end early.
At an epsilon of 10^10 noise is nothing, and hardly a residual of counts and amounts is clipped.

    python validation/studies/beside_statsmodels.py             # writes validation/results/beside_statsmodels.md
    python validation/studies/beside_statsmodels.py --designs 10 --no-write
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
import warnings
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import statsmodels.api as sm
from numpy.typing import NDArray
from scipy.special import expit

from dpstats.regression import (
    PrivateCountRegression,
    PrivateGammaRegression,
    PrivateLinearRegression,
    PrivateLogisticRegression,
)

Floats = NDArray[np.float64]
RESULTS = Path(__file__).resolve().parents[1] / "results" / "beside_statsmodels.md"
EPSILONS = 1e6, 1e10
NEAR, FAR = 1e-3, 0.05
"""Standard errors within which coefficients count as equal, and from which a design is listed."""
FAMILIES = ("linear", "logistic", "counts", "amounts")
ESTIMATORS = {
    "linear": PrivateLinearRegression,
    "logistic": PrivateLogisticRegression,
    "counts": PrivateCountRegression,
    "amounts": PrivateGammaRegression,
}


@dataclass(frozen=True)
class Design:
    """A random data set, and what was drawn for it."""

    family: str
    columns: str
    X: Floats
    y: Floats
    beside: dict[str, Floats]
    options: dict[str, Any]

    def fit(self, epsilon: float) -> Any:
        """Return the private fit."""
        made = ESTIMATORS[self.family](**self.options, epsilon=epsilon, random_state=0)
        return made.fit(self.X, self.y, **self.beside)

    def fit_beside(self) -> tuple[Floats, Floats]:
        """Return coefficients and standard errors of statsmodels. They are NaN where there is no estimate."""
        X, weights = sm.add_constant(self.X), self.beside.get("weights", np.ones(len(self.y)))
        offset = self.beside.get("offset", np.log(self.beside.get("exposure", np.ones(len(self.y)))))
        if self.family == "linear":
            found = sm.WLS(self.y - offset, X, weights=weights).fit(cov_type="HC1")
            return found.params, found.bse
        alpha = self.options.get("overdispersion", 1.0)
        laws = sm.families
        law = {
            "logistic": laws.Binomial(),
            "counts": laws.NegativeBinomial(alpha=alpha) if alpha else laws.Poisson(),
            "amounts": laws.Gamma(laws.links.Log()),
        }[self.family]
        robust = {} if self.family == "logistic" and "weights" not in self.beside else {"cov_type": "HC1"}
        found = sm.GLM(self.y, X, law, offset=offset, var_weights=weights).fit(tol=1e-12, maxiter=200, **robust)
        if not found.converged or found.bse.max() > 50:  # a level without events, or separation
            return np.full(X.shape[1], np.nan), np.full(X.shape[1], np.nan)
        return found.params, found.bse


def draw_columns(rng: np.random.Generator, n: int) -> tuple[str, list[Floats]]:
    """Return the words for some columns, and the columns."""
    words, found = [], []
    for kind in rng.choice(("yes/no", "factor", "number"), int(rng.integers(1, 4))):
        if kind == "yes/no":
            share = float(np.exp(rng.uniform(np.log(0.05), np.log(0.5))))
            columns = [(rng.random(n) < share).astype(float)]
            words.append(f"yes/no {100 * share:.0f}%")
        elif kind == "factor":
            levels = int(rng.integers(3, 6))
            code = rng.choice(levels, n, p=rng.dirichlet(np.full(levels, 5.0)))
            columns = [(code == level).astype(float) for level in range(1, levels)]
            words.append(f"factor of {levels}")
        else:
            law = str(rng.choice(("uniform", "normal", "exponential")))
            values = {"uniform": rng.random, "normal": rng.standard_normal, "exponential": rng.standard_exponential}
            columns = [values[law](n)]
            words.append(law)
        found += columns
    return ", ".join(words), found


def draw_design(rng: np.random.Generator, family: str) -> Design:
    """Return a random design with bounds that hold all of its rows."""
    n = round(float(np.exp(rng.uniform(np.log(300), np.log(5000)))))
    words, columns = draw_columns(rng, n)
    X = np.column_stack(columns)
    slopes = rng.uniform(-1.5, 1.5, X.shape[1]) / np.where(np.isin(X, (0, 1)).all(axis=0), 1.0, 2 * X.std(axis=0))
    options: dict[str, Any] = {"x_bounds": np.column_stack([X.min(axis=0), X.max(axis=0)])}
    beside: dict[str, Floats] = {}
    if rng.random() < 0.25:
        beside["weights"], options["weight_bounds"] = rng.uniform(0.2, 1, n), (0, 1)
        words += "; weights"
    given = np.zeros(n)
    if rng.random() < 0.25:
        if family in ("counts", "amounts"):
            beside["exposure"], options["exposure_bounds"] = rng.uniform(0.3, 3, n), (0.3, 3)
            given = np.log(beside["exposure"])
            words += "; exposure"
        else:
            given = beside["offset"] = rng.normal(size=n).clip(-2, 2)
            options["offset_bounds"] = (-2, 2)
            words += "; offset"
    signal = X @ slopes
    level = {
        "linear": 0.0,
        "logistic": rng.uniform(-1.5, 1.5),
        "counts": rng.uniform(0, 2),
        "amounts": rng.uniform(-1, 5),
    }
    linear = level[family] + signal - signal.mean() + given
    if family == "linear":
        y = linear + rng.uniform(0.5, 2) * rng.normal(size=n)
        options["y_bounds"] = float(y.min()), float(y.max())
    elif family == "logistic":
        y = (rng.random(n) < expit(linear)).astype(float)
    elif family == "counts":
        options["overdispersion"] = alpha = float(rng.choice((0.0, 1.0)))
        y = rng.poisson(np.exp(linear) * (rng.gamma(1.0, 1.0, n) if alpha else 1.0)).astype(float)
        words += "; Poisson" if not alpha else "; negative binomial"
    else:
        y = np.exp(linear) * rng.gamma(2, 0.5, n)
    if family in ("counts", "amounts"):
        # A fit counts that outcomes beyond their bound may be clipped. So a bound at the largest one would matter.
        options["y_bounds"] = 0.0, 2 * float(y.max())
    return Design(family, words, X, y, beside, options)


@dataclass(frozen=True)
class Difference:
    """A design with the largest difference of its coefficients and its standard errors from those of statsmodels."""

    design: Design
    coefficient: float
    error: float
    remarks: str
    stated: float
    """Standard deviation of the part of the error of this coefficient that the fit attributes to privacy."""

    @property
    def exists(self) -> bool:
        """Whether statsmodels has an estimate."""
        return not np.isnan(self.coefficient)


def differ(design: Design, epsilon: float = EPSILONS[0]) -> Difference:
    """Return the differences of a design."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made, (params, errors) = design.fit(epsilon), design.fit_beside()
    own = np.sqrt(np.diagonal(made.params_cov_))
    shares = np.append(made.intercept_privacy_share_, made.privacy_share_)
    off = np.abs(made.params_ - params) / errors
    worst = int(np.argmax(off))
    notes = [note.split(":")[0].split(".")[0] for note in made.summary().notes]
    remarks = "; ".join(note for note in notes if not note.startswith(("z and", "Simulated", "Coefficients describe")))
    stated = float(math.sqrt(shares[worst]) * own[worst] / errors[worst])
    return Difference(design, float(off[worst]), float(np.max(np.abs(own / errors - 1))), remarks, stated)


def draw_designs(designs: int, seed: int) -> list[Design]:
    """Return random designs, of each family in turn."""
    return [
        draw_design(np.random.default_rng([seed, place]), FAMILIES[place % len(FAMILIES)]) for place in range(designs)
    ]


def page(designs: list[Design]) -> str:
    """Return the tables of a page: by family, and each design that differs."""
    found = {epsilon: [differ(design, epsilon) for design in designs] for epsilon in EPSILONS}
    lines = [
        "| regression | epsilon | designs | median | 90% | largest | above 0.001 | above 0.1 | standard errors |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for family, epsilon in itertools.product(FAMILIES, EPSILONS):
        some = [each for each in found[epsilon] if each.design.family == family and each.exists]
        there = np.array([each.coefficient for each in some])
        lines.append(
            f"| {family} | {epsilon:.0e} | {len(some)} | {np.median(there):.0e} | {np.quantile(there, 0.9):.0e} | "
            f"{there.max():.0e} | {(there > NEAR).sum()} | {(there > 0.1).sum()} | "
            f"{np.median([each.error for each in some]):.0e} |"
        )
    lines += [
        "",
        "| regression | n | columns | difference | stated | at 1e+10 | stated | of the standard error | notes |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    pairs = [pair for pair in zip(*found.values(), strict=True) if pair[0].exists]
    pairs.sort(key=lambda pair: -pair[0].coefficient)
    lines += [
        f"| {each.design.family} | {len(each.design.y):,} | {each.design.columns} | {each.coefficient:.0e} | "
        f"{each.stated:.0e} | {exact.coefficient:.0e} | {exact.stated:.0e} | {each.error:.0e} | {each.remarks} |"
        for each, exact in pairs
        if max(each.coefficient, exact.coefficient) > FAR
    ]
    return "\n".join(lines)


def run() -> None:
    """Print the page, and write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--designs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--no-write", action="store_true")
    options = parser.parse_args()
    start = time.monotonic()
    found = page(draw_designs(options.designs, options.seed))
    print(found, f"{time.monotonic() - start:.0f} s", sep="\n")
    if not options.no_write:
        RESULTS.write_text(TEXT.format(date.today(), options.designs, options.seed, found), encoding="utf-8")


TEXT = """# Regressions without noise, beside statsmodels

{}: `python validation/studies/beside_statsmodels.py --designs {} --seed {}`

Random designs of 1 to 3 variables (yes/no, a factor as dummies, numbers), 300 to 5,000 rows, a quarter with weights and
a quarter with an offset or an exposure. Bounds are the smallest and largest entries, so that nothing lies outside; for
counts and amounts 0 and twice the largest.
*Difference*: the largest of a coefficient, in standard errors of statsmodels (WLS or GLM, robust where the private fit
is). *standard errors*: the largest relative
difference of one, median over designs. Designs without an estimate of the largest likelihood (a
level without events) are left out. Designs that differ by 0.05 or more are listed.

{}

Two columns named *stated* have the standard deviation that the fit states as the part of privacy in the error of this
coefficient, in the same unit (the last column of a summary: noise, and what it leaves uncorrected).

Why coefficients differ:

* **Noise.** A fit stops clipping residuals and shortening rows where the planned noise at 16 standard deviations is
  below 0.03 standard errors. So noise of this size is common in counts and amounts at 10^6. At 10^10 it is nothing.
* **Clipped residuals of counts and amounts.** At negligible noise a step clips where noise and lost information
  together are least under the working distribution, at 8 to 64 standard deviations. Until 2026-11-29 it clipped at 3 to
  8 unless the noise was below 0.001 standard errors, which moved coefficients by up to 0.9.
* **Shortened rows.** The factor of a row in a step of counts grows with its mean. Bounds of its length now allow for
  this in every step, and not in the last one only. One step from the other estimate left up to 0.4 at 10^10.
* **A bound at the largest outcome.** A fit allows for outcomes beyond `y_bounds`, and means do not exceed them. With
  the bound at the largest outcome of the sample, up to 0.3 standard errors remained. Here it is twice as large.
* **Steps.** A fit takes four. With a skewed column of counts or amounts (an exponential one with a strong slope) the
  last move is not negligible, and up to 0.07 standard errors remain. The stated error has about this size.
* **One row with most of the information.** If shortening it or its noise would cost more than 0.03 standard errors,
  the fit shortens it. The stated part of privacy then is large, as in the counts of 473 rows.
"""

if __name__ == "__main__":
    run()
