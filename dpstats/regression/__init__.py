"""Private regression: linear, logistic, of counts and of amounts, with intervals and tests that include the noise."""

from dpstats.regression.linear import PrivateLinearRegression
from dpstats.regression.log_linear import PrivateCountRegression, PrivateGammaRegression
from dpstats.regression.logistic import PrivateLogisticRegression
from dpstats.regression.sufficient import SufficientStatisticsRegression

__all__ = [
    "PrivateCountRegression",
    "PrivateGammaRegression",
    "PrivateLinearRegression",
    "PrivateLogisticRegression",
    "SufficientStatisticsRegression",
]


def __dir__() -> list[str]:
    return sorted(__all__)
