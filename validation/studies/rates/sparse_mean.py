"""Theorems 9.2.3 and 9.2.4: the sparse mean.

The terms are s log d/n of sampling and (s log d)^2/n^2 of privacy. With signals that are surely found the
logarithms go into the sample size that selection needs, and what is left of the risk of the peeling algorithm
9.2.2 is s/n + s b^2, b the noise of a released column: n^-2 and s^2. The default estimator's release is clipped to
balls, whose radius grows like sqrt(s) + 2 and, where stages follow each other, shrinks with n: its
exponents are compared with what its plan predicts at these sizes.

The logarithm itself is measured where it went: the number of rows from which the selection finds all signals with
probability 2/3 grows like log d (in the privacy regime, from a few columns of signal among d).

    python validation/studies/rates/sparse_mean.py [--scale full|reduced|fast]
"""

from __future__ import annotations

import math
from importlib.util import find_spec
from typing import Any

import numpy as np
from outcomes import Options, Outcome, main
from scipy.optimize import brentq
from scipy.special import expit, log_ndtr

from dpstats.data.rows import Table
from dpstats.means import SparseMean
from dpstats.release.session import Session
from dpstats.simulation import Adapter, SparseMeans, Study, crossing_point
from dpstats.simulation.samplers import estimate_of
from dpstats.simulation.study_report import plot_risk

BASE: dict[str, Any] = {"n_nonzero": 1, "clip": 6.0, "std": 1.0, "delta": 1e-6}
GUMBEL = {**BASE, "max_signal": 1.0}
PEELING = {**BASE, "selection": "peeling"}
TOLERANCE = 0.1

STUDIES: dict[str, tuple[dict[str, Any], dict[str, list[Any]], int]] = {
    # estimator, grid, replications of the full run
    "sampling-n": (GUMBEL, {"n": [1000, 2000, 4000, 8000], "d": [128], "n_nonzero": [8], "epsilon": [100.0]}, 300),
    "sampling-s": (GUMBEL, {"n": [2000], "d": [256], "n_nonzero": [2, 4, 8, 16, 32, 64], "epsilon": [100.0]}, 200),
    "sampling-d": (GUMBEL, {"n": [2000], "d": [64, 128, 256, 512, 1024], "n_nonzero": [8], "epsilon": [100.0]}, 200),
    "privacy-n": (PEELING, {"n": [2500, 5000, 10_000, 20_000], "d": [128], "n_nonzero": [8], "epsilon": [0.5]}, 800),
    "privacy-s": (PEELING, {"n": [4000], "d": [512], "n_nonzero": [32, 64, 128, 256], "epsilon": [2.0]}, 100),
    "gumbel-n": (GUMBEL, {"n": [3000, 6000, 12_000, 24_000], "d": [128], "n_nonzero": [16], "epsilon": [0.3]}, 200),
    "gumbel-s": (GUMBEL, {"n": [8000], "d": [256], "n_nonzero": [8, 16, 32, 64], "epsilon": [0.3]}, 150),
}
SIGNALS = {"sampling": 0.9, "privacy": 3.0, "gumbel": 0.95}


class Uncertified(SparseMean):
    """The same releases without the total of their privacy, which for Laplace noise needs dp-accounting.

    A simulation protects nobody, and machines that only simulate need not have that library.
    """

    def fit(self, X: Any, y: Any = None) -> Uncertified:
        plan = self.plan(*X.shape)
        with Session.simulated(plan, np.random.default_rng(self.random_state)) as session:
            self._release(self._read(Table(X), plan), plan, session)
        self._report(session.released, plan)
        return self


def sparse_mean(parameters: dict[str, Any]) -> SparseMean:
    """Return the estimator, by its public fit wherever that can run."""
    peeling = parameters.get("selection") == "peeling"
    return (Uncertified if peeling and find_spec("dp_accounting") is None else SparseMean)(**parameters)


def planned(parameters: dict[str, Any], cell: Any) -> float:
    """Return the risk that the plan states for a cell."""
    own = {**parameters, "n_nonzero": cell["n_nonzero"], "epsilon": cell["epsilon"]}
    return SparseMean(**own).plan(cell["n"], cell["d"]).expected_error()


SIGNAL, EPSILON, TARGET = 0.9, 0.5, 2 / 3


def sized(d: int) -> SparseMean:
    """Return the estimator whose selection is studied: half of the budget, whatever the sizes."""
    return SparseMean(**{**GUMBEL, "n_nonzero": 8, "epsilon": EPSILON, "selection_share": 0.5})


def stated_rows(d: int) -> float:
    """Return the number of rows at which the plan's selection finds all signals with probability 2/3.

    Gumbel noise makes the s draws those of exponential mechanisms without replacement, one after the other. Means
    vary by sampling as well: of a signal that lowers its chance, of the largest of d others it raises it.
    """
    s, nodes, weights = 8, *np.polynomial.hermite_e.hermegauss(21)
    weights = weights / weights.sum()

    def clipped(mean: float) -> tuple[float, float]:
        x = np.linspace(-9, 9, 20_001) + mean
        density = np.exp(-((x - mean) ** 2) / 2)
        y = np.clip(x, -1, 1)
        average = float((density * y).sum() / density.sum())
        return average, float((density * (y - average) ** 2).sum() / density.sum())

    (signal, spread), (_, other) = clipped(SIGNAL), clipped(0.0)

    def missed(log_n: float) -> float:
        n = math.exp(log_n)
        (selection,) = sized(d).plan(round(n), d).selections
        scale = selection.scale_steps * selection.spacing
        deviation = math.sqrt(other / n) / scale
        # The rest of the columns, as one: (d - s) E exp(|Z| deviation).
        rivals = math.log(2 * (d - s)) + deviation**2 / 2 + float(log_ndtr(deviation))
        heights = signal / scale + nodes * math.sqrt(spread / n) / scale
        chances = [float(weights @ expit(math.log(s - t) + heights - rivals)) for t in range(s)]
        return float(np.prod(chances)) - TARGET

    return math.exp(brentq(missed, math.log(50), math.log(1e6)))


def selection_rows(X: Any, rng: np.random.Generator, tests: int) -> float:
    """Return one estimate of the number of rows from which all signals are found with probability 2/3."""
    d = X.shape[1]
    draw, estimator, guess = SparseMeans(signal=SIGNAL), sized(d), stated_rows(d)

    def finds(n: float, rng: np.random.Generator) -> bool:
        rows = draw(int(n), d, rng, n_nonzero=8)
        fitted = estimator.set_params(random_state=rng).fit(rows)
        return bool(np.array_equal(fitted.support_, np.flatnonzero(draw.true_mean(d, n_nonzero=8))))

    return crossing_point(
        finds, guess / 3, 3 * guess, target=TARGET, replications=tests, integer=True, random_state=rng
    ).value


def found(fitted: Any, X: Any, truth: Any) -> float:
    """Return what a search found."""
    return float(estimate_of(fitted))


def nothing(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Return n x d numbers that take no memory: a search draws its own rows."""
    return np.broadcast_to(0.0, (n, d))


def logarithm(outcome: Outcome, options: Options) -> None:
    """Measure how the rows that a selection needs grow with the number of columns."""
    adapter = Adapter(selection_rows, "estimate_", tests=options.pick(60, 60, 30))
    grid = {"n": [1], "d": options.pick([32, 128, 512, 2048], [32, 128, 512], [32, 64, 128])}
    study = Study(
        nothing, adapter, grid, options.pick(5, 3, 2), loss={"rows": found}, seed=940, name="sparse-mean-selection"
    )
    results = options.run(study).derive("log d", lambda cell: math.log(cell["d"]), instead_of="d")
    outcome.studies.append(results)
    outcome.rate(
        "9.2.3, 9.2.4 (sparse mean)",
        results,
        "log d",
        regime="rows from which all signals are selected, privacy above sampling",
        theory=1.0,
        prediction=lambda cell: stated_rows(round(math.exp(cell["log d"]))),
        tolerance=options.pick(TOLERANCE, 2 * TOLERANCE, 5 * TOLERANCE),
    )


def run(options: Options) -> Outcome:
    """Return what was found."""
    outcome = Outcome("Theorems 9.2.3 and 9.2.4: sparse mean")
    results = {}
    kept = list(STUDIES) if options.scale != "fast" else ["sampling-s", "privacy-n"]
    for i, name in enumerate(kept):
        parameters, grid, replications = STUDIES[name]
        # Signals end well inside the clip; the plan knows which of them are found.
        sampler = SparseMeans(signal=SIGNALS[name.split("-")[0]])
        results[name] = options.run(
            Study(
                sampler,
                sparse_mean(parameters),
                grid,
                options.pick(replications, max(70, replications // 4), 90),
                loss=["squared_error", "support_recovery"],
                seed=923 + i,
                name=f"sparse-mean-{name}",
            )
        )
    outcome.studies = list(results.values())
    theorem = "9.2.3, 9.2.4 (sparse mean)"
    words = {
        "sampling": "sampling above 98% of the risk",
        "privacy": "privacy above 95% of the risk, algorithm 9.2.2",
        "gumbel": "default selection, finite size",
    }
    theory = {"sampling": {"n": -1, "n_nonzero": 1, "d": 0}, "privacy": {"n": -2, "n_nonzero": 2}}
    for name, measured in results.items():
        kind, letter = name.split("-")
        parameters = STUDIES[name][0]
        parameter = "n_nonzero" if letter == "s" else letter
        outcome.rate(
            theorem,
            measured,
            parameter,
            regime=words[kind],
            theory=theory.get(kind, theory["privacy"])[parameter],
            prediction=lambda cell, parameters=parameters: planned(parameters, cell),
            # Errors of s released columns.
            spread=("n_nonzero",),
            tolerance=options.pick(TOLERANCE, 2 * TOLERANCE, 5 * TOLERANCE),
        )
        outcome.check(theorem, f"support found ({name})", measured, 0.99, "at_least", "support_recovery")
        outcome.pictures[f"Risk against {parameter} ({name})"] = lambda m=measured, p=parameter, q=parameters: (
            plot_risk(m, p, terms={"plan": lambda cell: planned(q, cell)})
        )
    logarithm(outcome, options)
    return outcome


if __name__ == "__main__":
    main(run, __doc__)
