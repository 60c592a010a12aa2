"""Private identity tests of the null hypothesis that rows have a public mean and covariance."""

from dpstats.identity.base import TestResult
from dpstats.identity.by_extension import (
    LipschitzExtensionTest,
    exact_inner_product_extension,
    inner_product_constant,
    l1_extension,
)
from dpstats.identity.by_filtering import FilteringTest
from dpstats.identity.by_row_distance import RowDistanceTest, identity_test
from dpstats.identity.by_spatial_sign import SpatialSignTest
from dpstats.identity.row_distance_statistic import row_distance
from dpstats.identity.whitening import sign_reduction

__all__ = ["FilteringTest", "LipschitzExtensionTest", "RowDistanceTest", "SpatialSignTest", "TestResult"]
__all__ += ["exact_inner_product_extension", "identity_test", "inner_product_constant", "l1_extension", "row_distance"]
__all__ += ["sign_reduction"]


def __dir__() -> list[str]:
    return sorted(__all__)
