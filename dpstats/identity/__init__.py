"""Private identity tests: is the mean of the rows the public one?"""

from dpstats.identity.choice import identity_test
from dpstats.identity.exact_extension import exact_inner_product_extension
from dpstats.identity.filtering_test import FilteringTest
from dpstats.identity.inner_product_test import InnerProductTest
from dpstats.identity.inner_products import inner_product_constant
from dpstats.identity.l1_norm import l1_extension
from dpstats.identity.l1_test import L1ExtensionTest
from dpstats.identity.lipschitz_test import LipschitzExtensionTest
from dpstats.identity.result import TestResult
from dpstats.identity.row_distance_test import RowDistanceTest
from dpstats.identity.rows import row_distance
from dpstats.identity.signs import sign_reduction
from dpstats.identity.spatial_sign_test import SpatialSignTest

__all__ = [
    "FilteringTest",
    "InnerProductTest",
    "L1ExtensionTest",
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
