"""Named studies: what ``dpstats simulate NAME`` runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpstats.errors import InvalidParameter, refuse
from dpstats.simulation.comparison import compare
from dpstats.simulation.formula_fit import fit_formula
from dpstats.simulation.rate_fit import fit_rate
from dpstats.simulation.samplers import Gaussian, Rademacher, SparseMeans
from dpstats.simulation.study import Study
from dpstats.simulation.table import StudyResults

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DELTA = 1e-6


# Each says which rows, which estimator, which grid and which loss, and what the theory has to say about the result.
# Any part of the grid, the replications and the seed can be replaced.
@dataclass(frozen=True)
class Entry:
    """One study by name.

    Attributes
    ----------
    title : str
    build : callable
        Returns the sampler and the estimator.
    grid : mapping
    replications : int
    loss : tuple of str
    findings : callable
        Results -> what the theory says about them, anything with ``summary()``.
    picture : callable
        Results -> figure.
    """

    title: str
    build: Callable[[], tuple[Any, Any]]
    grid: Mapping[str, Sequence[Any]]
    replications: int
    loss: tuple[str, ...]
    findings: Callable[[StudyResults], list[Any]]
    picture: Callable[[StudyResults], Figure]

    def study(self, name: str, grid: Any = None, replications: int | None = None, seed: int = 0) -> Study:
        """Return the study; a mapping given as ``grid`` replaces the lists that it names."""
        chosen: Any = dict(self.grid)
        if isinstance(grid, Mapping):
            chosen |= grid
        elif grid is not None:
            chosen = grid
        sampler, estimator = self.build()
        count = self.replications if replications is None else replications
        return Study(sampler, estimator, chosen, count, loss=list(self.loss), seed=seed, name=name)

    def conclusions(self, results: StudyResults) -> tuple[list[Any], list[str]]:
        """Return the findings; or none, and why: a changed grid can leave the theory nothing to say."""
        try:
            return self.findings(results), []
        except InvalidParameter as error:
            return [], [f"No comparison with the theory: {error}"]


def named_study(name: str) -> Entry:
    """Return the entry of a name.

    Examples
    --------
    >>> from dpstats.simulation.catalogue import named_study
    >>> study = named_study("mean-rate").study("mean-rate", {"n": [100, 400], "d": [1, 16]}, replications=20)
    >>> study.run().parameter("n")
    array([100, 100, 400, 400])
    """
    if name not in CATALOGUE:
        raise refuse("NAME", given=name, allowed=f"one of {', '.join(CATALOGUE)}")
    return CATALOGUE[name]


def _mean() -> tuple[Any, Any]:
    from dpstats.means import ClippedMean

    return Rademacher(), ClippedMean(clip=1.0, delta=_DELTA)


def _mean_terms() -> dict[str, Callable[[Any], float]]:
    def privacy(cell: Any) -> float:
        return min(_mean_noise(cell).values())

    return {"sampling": lambda cell: cell["d"] / cell["n"], "privacy": privacy}


def _mean_noise(cell: Any) -> dict[str, float]:
    """Return the squared error by the noise of each kind; the plan has the smaller one."""
    from dpstats.privacy import gaussian_sigma

    n, d, epsilon = cell["n"], cell["d"], cell["epsilon"]
    return {
        "gaussian": float((2 * d * gaussian_sigma(epsilon, _DELTA) / n) ** 2),
        "laplace": float(2 * d * (2 * d / (n * epsilon)) ** 2),
    }


def _has_gaussian_noise(cell: Any) -> bool:
    noise = _mean_noise(cell)
    return noise["gaussian"] < noise["laplace"]


def _mean_findings(results: StudyResults) -> list[Any]:
    constants = {"sampling": 1.0, "privacy": 1.0}
    found: list[Any] = [fit_formula(results, _mean_terms(), constants=constants)]
    # The theorem's rate in d belongs to Gaussian noise, which many columns have.
    for parameter, theory, used in (("n", -2.0, results), ("d", 2.0, results.where(_has_gaussian_noise))):
        if _varies(used, parameter):
            found.append(fit_rate(used, parameter, theory=theory, terms=_mean_terms(), constants=constants))
    return found


def _varies(results: StudyResults, parameter: str) -> bool:
    usable = [cell for cell in results.cells if cell.few_failed]
    return len(usable) > 2 and len({cell.parameters[parameter] for cell in usable}) > 1


def _mean_picture(results: StudyResults) -> Figure:
    from dpstats.simulation.study_report import plot_risk

    return plot_risk(results, "n", terms=_mean_terms())


def _sparse() -> tuple[Any, Any]:
    from dpstats.means import SparseMean

    return SparseMeans(signal=0.9), SparseMean(n_nonzero=5, clip=6.0, std=1.0, delta=_DELTA)


def _sparse_findings(results: StudyResults) -> list[Any]:
    if not _varies(results, "n"):
        return []
    return [
        fit_rate(results, "n", theory=-2.0, prediction=_sparse_risk),
        compare(results, 0.99, loss="support_recovery", relation="at_least"),
    ]


def _sparse_risk(cell: Any) -> float:
    sparse = _sparse()[1].set_params(
        **{key: value for key, value in cell.items() if key in ("n_nonzero", "epsilon", "delta")}
    )
    return float(sparse.plan(cell["n"], cell["d"]).expected_error())


def _sparse_picture(results: StudyResults) -> Figure:
    from dpstats.simulation.study_report import plot_risk

    return plot_risk(results, "n", loss="squared_error", terms={"plan": _sparse_risk})


def _coverage() -> tuple[Any, Any]:
    from dpstats.means import ClippedMean

    return Gaussian(mean=0.5), ClippedMean(clip=6.0, std=1.0)


def _coverage_findings(results: StudyResults) -> list[Any]:
    return [compare(results, 0.95, loss=loss) for loss in results.losses]


def _coverage_picture(results: StudyResults) -> Figure:
    from dpstats.simulation.study_report import plot_risk

    return plot_risk(results, "n", loss="coverage", logarithmic=False)


def _power() -> tuple[Any, Any]:
    from dpstats.identity import SpatialSignTest

    return Gaussian(), SpatialSignTest()


def _power_findings(results: StudyResults) -> list[Any]:
    null = results.where(lambda cell: cell.get("sampler__mean") == 0)
    return [compare(null, 0.05, relation="at_most")] if null.cells else []


def _power_picture(results: StudyResults) -> Figure:
    from dpstats.simulation.study_report import plot_power

    return plot_power(results, "n", level=0.05, target=2 / 3)


CATALOGUE: Mapping[str, Entry] = {
    "mean-rate": Entry(
        "Risk of the clipped mean of bounded rows (theorem 9.2.1)",
        _mean,
        {"n": [100, 400, 1600, 6400], "d": [1, 16, 64], "epsilon": [1.0]},
        400,
        ("released_squared_error",),
        _mean_findings,
        _mean_picture,
    ),
    "sparse-rate": Entry(
        "Risk of the sparse mean, strong signals (theorem 9.2.3)",
        _sparse,
        {"n": [1000, 2000, 4000, 8000], "d": [100], "n_nonzero": [5], "epsilon": [1.0]},
        100,
        ("squared_error", "support_recovery"),
        _sparse_findings,
        _sparse_picture,
    ),
    "coverage": Entry(
        "Coverage of the clipped mean's 95% intervals",
        _coverage,
        {"n": [200, 5000], "d": [5], "delta": [0.0, _DELTA], "epsilon": [1.0]},
        1000,
        ("coverage", "simultaneous_coverage"),
        _coverage_findings,
        _coverage_picture,
    ),
    "power": Entry(
        "Level and power of the spatial-sign test",
        _power,
        {"n": [100, 200, 400, 800], "d": [10], "sampler__mean": [0.0, 0.1], "epsilon": [1.0]},
        400,
        ("rejection",),
        _power_findings,
        _power_picture,
    ),
}
