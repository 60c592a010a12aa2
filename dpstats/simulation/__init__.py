"""Studies of estimators and tests by simulation: risks, rates, levels, sample sizes."""

from dpstats.simulation.comparison import Check, CrossingPoint, compare, crossing_point, sample_complexity
from dpstats.simulation.formula_fit import FormulaComparison, FormulaFit, FreeExponent, compare_formulas, fit_formula
from dpstats.simulation.power import PowerCurve, power, power_curve, required_samples
from dpstats.simulation.rate_fit import RateFit, RateTable, fit_rate, fit_rates
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
from dpstats.simulation.study_report import plot_crossing, plot_power, plot_risk, study_report
from dpstats.simulation.table import StudyResults

__all__ = ["Adapter", "Check", "Contaminated", "CrossingPoint", "FormulaComparison", "FormulaFit", "FreeExponent"]
__all__ += ["Gaussian", "PowerCurve", "ProductBernoulli", "Rademacher", "RateFit", "RateTable", "SparseMeans"]
__all__ += ["StudentT", "Study", "StudyFileError", "StudyResults", "SubGaussian"]
__all__ += ["compare", "compare_formulas", "crossing_point", "fit_formula", "fit_rate", "fit_rates", "plot_crossing"]
__all__ += ["plot_power", "plot_risk", "power", "power_curve", "required_samples", "sample_complexity", "study_report"]


def __dir__() -> list[str]:
    return sorted(__all__)
