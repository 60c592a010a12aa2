"""Private survival analysis: Kaplan-Meier curves with bands, medians, restricted means and log-rank tests."""

from dpstats.survival.results import SurvivalEstimate
from dpstats.survival.survival import PrivateSurvival

__all__ = ["PrivateSurvival", "SurvivalEstimate"]


def __dir__() -> list[str]:
    return sorted(__all__)
