"""Private survival analysis: Kaplan-Meier curves with bands, medians, restricted means and log-rank tests."""

from dpstats.survival.log_rank import LogRankTest
from dpstats.survival.results import LogRankResult, SurvivalEstimate
from dpstats.survival.survival import PrivateSurvival

__all__ = ["LogRankResult", "LogRankTest", "PrivateSurvival", "SurvivalEstimate"]


def __dir__() -> list[str]:
    return sorted(__all__)
