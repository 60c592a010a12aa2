"""Private proportions and contingency tables: counts of declared levels, with valid tests and intervals."""

from dpstats.tables.contingency import ContingencyTable
from dpstats.tables.null_tests import TableTest
from dpstats.tables.proportion import PrivateProportion

__all__ = ["ContingencyTable", "PrivateProportion", "TableTest"]


def __dir__() -> list[str]:
    return sorted(__all__)
