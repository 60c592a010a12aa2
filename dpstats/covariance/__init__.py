"""Private covariance and correlation matrices with intervals, tests of mean vectors, and principal components."""

from dpstats.covariance.hotelling import HotellingTest
from dpstats.covariance.principal_components import PrivatePCA
from dpstats.covariance.private_correlation import PrivateCorrelation
from dpstats.covariance.private_covariance import PrivateCovariance

__all__ = ["HotellingTest", "PrivateCorrelation", "PrivateCovariance", "PrivatePCA"]


def __dir__() -> list[str]:
    return sorted(__all__)
