"""Private rank tests for one sample, two groups and several, with p-values that include the noise."""

from dpstats.ranks.functions import kruskal_wallis, mann_whitney, wilcoxon_signed_rank
from dpstats.ranks.rank_tests import KruskalWallisTest, MannWhitneyTest, RankTestResult, SignedRankTest

__all__ = [
    "KruskalWallisTest",
    "MannWhitneyTest",
    "RankTestResult",
    "SignedRankTest",
    "kruskal_wallis",
    "mann_whitney",
    "wilcoxon_signed_rank",
]


def __dir__() -> list[str]:
    return sorted(__all__)
