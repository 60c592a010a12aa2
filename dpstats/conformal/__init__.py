"""Private conformal prediction: intervals and sets around a fitted model that cover new outcomes."""

from dpstats.conformal.estimators import PrivateConformalClassifier, PrivateConformalRegressor

__all__ = ["PrivateConformalClassifier", "PrivateConformalRegressor"]


def __dir__() -> list[str]:
    return sorted(__all__)
