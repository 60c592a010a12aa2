"""Private estimates, with intervals, of any statistic that a function of rows computes."""

from dpstats.statistic.plan import Rehearsal, StatisticPlan
from dpstats.statistic.private_statistic import LocalityCheck, PrivateStatistic, check_locality

__all__ = ["LocalityCheck", "PrivateStatistic", "Rehearsal", "StatisticPlan", "check_locality"]


def __dir__() -> list[str]:
    return sorted(__all__)
