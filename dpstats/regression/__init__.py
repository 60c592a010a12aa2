"""Private regression: linear, logistic, of counts and of amounts, with intervals and tests that count the noise."""

from dpstats.regression import pictures as pictures  # what pages draw
from dpstats.regression.count_regression import PrivateCountRegression
from dpstats.regression.functional import FunctionalMechanismRegression
from dpstats.regression.gamma_regression import PrivateGammaRegression
from dpstats.regression.linear import PrivateLinearRegression
from dpstats.regression.logistic import PrivateLogisticRegression
from dpstats.regression.sufficient import SufficientStatisticsRegression

__all__ = [
    "FunctionalMechanismRegression",
    "PrivateCountRegression",
    "PrivateGammaRegression",
    "PrivateLinearRegression",
    "PrivateLogisticRegression",
    "SufficientStatisticsRegression",
]


def __dir__() -> list[str]:
    return sorted(__all__)
