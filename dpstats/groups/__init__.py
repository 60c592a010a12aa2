"""Private means of declared groups, and data of people who have several rows."""

from dpstats.groups.cohorts import CohortTable, cohort_table
from dpstats.groups.group_means import GroupMeans
from dpstats.groups.group_quantiles import GroupQuantiles
from dpstats.groups.mean_per_row import MeanPerRow, one_row_per_unit

__all__ = ["CohortTable", "GroupMeans", "GroupQuantiles", "MeanPerRow", "cohort_table", "one_row_per_unit"]


def __dir__() -> list[str]:
    return sorted(__all__)
