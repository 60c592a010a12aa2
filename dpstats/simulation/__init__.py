"""Studies of estimators and tests by simulation: risks, rates, levels, sample sizes."""

from dpstats.simulation.comparison import Check, CrossingPoint, compare, crossing_point, sample_complexity
from dpstats.simulation.formula_fit import FormulaFit, fit_formula
from dpstats.simulation.power import PowerCurve, power, power_curve, required_samples
from dpstats.simulation.rate_fit import RateFit, fit_rate
from dpstats.simulation.samplers import (
    Contaminated,
    Gaussian,
    ProductBernoulli,
    Rademacher,
    SparseMeans,
    StudentT,
    SubGaussian,
)
from dpstats.simulation.store import StudyFileError
from dpstats.simulation.study import Adapter, Study
from dpstats.simulation.study_report import study_report
from dpstats.simulation.table import StudyResults

__all__ = [
    "Adapter",
    "Check",
    "Contaminated",
    "CrossingPoint",
    "FormulaFit",
    "Gaussian",
    "PowerCurve",
    "ProductBernoulli",
    "Rademacher",
    "RateFit",
    "SparseMeans",
    "StudentT",
    "Study",
    "StudyFileError",
    "StudyResults",
    "SubGaussian",
    "compare",
    "crossing_point",
    "fit_formula",
    "fit_rate",
    "power",
    "power_curve",
    "required_samples",
    "sample_complexity",
    "study_report",
]


def __dir__() -> list[str]:
    return sorted(__all__)
