"""Private rank tests and tests of distributions, with p-values that include the noise."""

from dpstats.ranks.distribution_tests import DistributionTestResult, GoodnessOfFitTest, KolmogorovSmirnovTest
from dpstats.ranks.functions import goodness_of_fit, kruskal_wallis, ks_test, mann_whitney, wilcoxon_signed_rank
from dpstats.ranks.rank_tests import KruskalWallisTest, MannWhitneyTest, RankTestResult, SignedRankTest

__all__ = ["DistributionTestResult", "GoodnessOfFitTest", "KolmogorovSmirnovTest", "KruskalWallisTest"]
__all__ += ["MannWhitneyTest", "RankTestResult", "SignedRankTest"]
__all__ += ["goodness_of_fit", "kruskal_wallis", "ks_test", "mann_whitney", "wilcoxon_signed_rank"]


def __dir__() -> list[str]:
    return sorted(__all__)
