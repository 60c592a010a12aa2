"""Private covariance and correlation matrices, with intervals for every pair of columns."""

from dpstats.covariance.private_covariance import PrivateCovariance

__all__ = ["PrivateCovariance"]


def __dir__() -> list[str]:
    return sorted(__all__)
