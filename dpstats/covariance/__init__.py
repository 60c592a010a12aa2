"""Private covariance and correlation matrices with intervals for every pair of columns, and tests of mean vectors."""

from dpstats.covariance.hotelling import HotellingTest
from dpstats.covariance.private_covariance import PrivateCovariance

__all__ = ["HotellingTest", "PrivateCovariance"]


def __dir__() -> list[str]:
    return sorted(__all__)
