"""Private identity tests of the null hypothesis that rows have a public mean and covariance."""

from dpstats.identity.by_extension import LipschitzExtensionTest
from dpstats.identity.by_filtering import FilteringTest
from dpstats.identity.by_row_distance import RowDistanceTest
from dpstats.identity.by_spatial_sign import SpatialSignTest
from dpstats.identity.choice import identity_test
from dpstats.identity.exact_extension import exact_inner_product_extension
from dpstats.identity.inner_products import inner_product_constant
from dpstats.identity.l1_norm import l1_extension
from dpstats.identity.result import TestResult
from dpstats.identity.rows import row_distance
from dpstats.identity.signs import sign_reduction
from dpstats.identity.stages import StagedInnerProductTest

__all__ = [
    "FilteringTest",
    "LipschitzExtensionTest",
    "RowDistanceTest",
    "SpatialSignTest",
    "StagedInnerProductTest",
    "TestResult",
    "exact_inner_product_extension",
    "identity_test",
    "inner_product_constant",
    "l1_extension",
    "row_distance",
    "sign_reduction",
]


def __dir__() -> list[str]:
    return sorted(__all__)
