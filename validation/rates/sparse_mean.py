"""Theorems 9.2.3 and 9.2.4: the sparse mean.

The terms are s log d/n of sampling and (s log d)^2/n^2 of privacy. With signals that are surely found the
logarithms go into the sample size that selection needs, and what is left of the risk of the peeling algorithm
9.2.2 is s/n + s b^2, b the noise of a released column: n^-2 and s^2. The default estimator's release is clipped to
balls, whose radius grows like sqrt(s) + 2 and, where stages follow each other, shrinks with n: its
exponents are compared with what its plan predicts at these sizes.

    python validation/rates/sparse_mean.py [--scale full|reduced|fast]
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from _shared import LEVEL, Options, Outcome, main

from dpstats.means import SparseMean
from dpstats.mechanisms.sampling import noise_source
from dpstats.simulation import SparseMeans, Study, compare
from dpstats.simulation.pictures import plot_risk

BASE: dict[str, Any] = {"n_nonzero": 1, "clip": 6.0, "std": 1.0, "delta": 1e-6}
GUMBEL = {**BASE, "max_signal": 1.0}
PEELING = {**BASE, "selection": "peeling"}
TOLERANCE = 0.1

STUDIES: dict[str, tuple[dict[str, Any], dict[str, list[Any]], int]] = {
    # estimator, grid, replications of the full run
    "sampling-n": (
        GUMBEL,
        {"n": [1000, 2000, 4000, 8000], "d": [128], "n_nonzero": [8], "epsilon": [100.0]},
        500,
    ),
    "sampling-s": (
        GUMBEL,
        {"n": [2000], "d": [256], "n_nonzero": [2, 4, 8, 16, 32, 64], "epsilon": [100.0]},
        500,
    ),
    "sampling-d": (
        GUMBEL,
        {"n": [2000], "d": [64, 128, 256, 512, 1024], "n_nonzero": [8], "epsilon": [100.0]},
        400,
    ),
    "privacy-n": (
        PEELING,
        {"n": [2500, 5000, 10_000, 20_000], "d": [128], "n_nonzero": [8], "epsilon": [0.5]},
        800,
    ),
    "privacy-s": (PEELING, {"n": [4000], "d": [512], "n_nonzero": [32, 64, 128, 256], "epsilon": [2.0]}, 150),
    "gumbel-n": (
        GUMBEL,
        {"n": [3000, 6000, 12_000, 24_000], "d": [128], "n_nonzero": [16], "epsilon": [0.3]},
        250,
    ),
    "gumbel-s": (GUMBEL, {"n": [8000], "d": [256], "n_nonzero": [8, 16, 32, 64], "epsilon": [0.3]}, 250),
}
SIGNALS = {"sampling": 0.9, "privacy": 3.0, "gumbel": 0.95}


class Uncertified(SparseMean):
    """The same releases without the total of their privacy, which for Laplace noise needs dp-accounting.

    A simulation protects nobody, and machines that only simulate need not have that library.
    """

    def fit(self, X: Any, y: Any = None) -> Uncertified:
        plan = self.plan(*X.shape)
        self._report(self._release(self._statistic(X, plan), plan, noise_source(self.random_state)), plan)
        return self


def sparse_mean(parameters: dict[str, Any]) -> SparseMean:
    """Return the estimator, by its public fit wherever that can run."""
    peeling = parameters.get("selection") == "peeling"
    return (Uncertified if peeling and find_spec("dp_accounting") is None else SparseMean)(**parameters)


def planned(parameters: dict[str, Any], cell: Any) -> float:
    """Return the risk that the plan states for a cell."""
    own = {**parameters, "n_nonzero": cell["n_nonzero"], "epsilon": cell["epsilon"]}
    return SparseMean(**own).plan(cell["n"], cell["d"]).expected_error()


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
                options.pick(replications, replications // 4, 40),
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
            tolerance=options.pick(TOLERANCE, 2 * TOLERANCE, 5 * TOLERANCE),
        )
        outcome.check(
            theorem,
            f"support found ({name})",
            compare(measured, 0.99, loss="support_recovery", relation="at_least", confidence_level=LEVEL),
        )
        outcome.pictures[f"Risk against {parameter} ({name})"] = (
            lambda m=measured, p=parameter, q=parameters: plot_risk(
                m, p, terms={"plan": lambda cell: planned(q, cell)}
            )
        )
    return outcome


if __name__ == "__main__":
    main(run, __doc__)
