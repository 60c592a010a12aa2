"""Private regression: linear and logistic, with standard errors, intervals and tests that count the noise."""

from dpstats.regression import pictures as pictures  # what pages draw
from dpstats.regression.functional import FunctionalMechanismRegression
from dpstats.regression.linear import PrivateLinearRegression
from dpstats.regression.logistic import PrivateLogisticRegression
from dpstats.regression.sufficient import SufficientStatisticsRegression

__all__ = [
    "FunctionalMechanismRegression",
    "PrivateLinearRegression",
    "PrivateLogisticRegression",
    "SufficientStatisticsRegression",
]


def __dir__() -> list[str]:
    return sorted(__all__)
