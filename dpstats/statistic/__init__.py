"""Private estimates, with intervals, of any statistic that a function of rows computes."""

from dpstats.statistic.locality import LocalityCheck, check_locality
from dpstats.statistic.plan import StatisticPlan
from dpstats.statistic.private_statistic import PrivateStatistic
from dpstats.statistic.rehearsal import Rehearsal

__all__ = ["LocalityCheck", "PrivateStatistic", "Rehearsal", "StatisticPlan", "check_locality"]


def __dir__() -> list[str]:
    return sorted(__all__)
