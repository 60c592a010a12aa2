"""Private regression: linear and logistic, with standard errors, intervals and tests that count the noise."""

from dpstats.regression.linear import PrivateLinearRegression
from dpstats.regression.logistic import PrivateLogisticRegression

__all__ = ["PrivateLinearRegression", "PrivateLogisticRegression"]
