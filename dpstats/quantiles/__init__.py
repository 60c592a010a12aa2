"""Private quantiles: one or many quantiles, a median, a whole distribution."""

from dpstats.quantiles.distribution import PrivateDistribution
from dpstats.quantiles.median import PrivateMedian
from dpstats.quantiles.quantile import PrivateQuantile

__all__ = ["PrivateDistribution", "PrivateMedian", "PrivateQuantile"]


def __dir__() -> list[str]:
    return sorted(__all__)
