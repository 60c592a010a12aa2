"""Private identity tests: is the mean of the rows the public one?"""

from dpstats.identity.choice import identity_test
from dpstats.identity.extension import exact_inner_product_extension, inner_product_constant, l1_extension
from dpstats.identity.filtering_test import FilteringTest
from dpstats.identity.lipschitz_test import LipschitzExtensionTest
from dpstats.identity.result import TestResult
from dpstats.identity.row_distance_test import RowDistanceTest
from dpstats.identity.rows import row_distance
from dpstats.identity.signs import sign_reduction
from dpstats.identity.spatial_sign_test import SpatialSignTest

__all__ = [
    "FilteringTest",
    "LipschitzExtensionTest",
    "RowDistanceTest",
    "SpatialSignTest",
    "TestResult",
    "exact_inner_product_extension",
    "identity_test",
    "inner_product_constant",
    "l1_extension",
    "row_distance",
    "sign_reduction",
]
