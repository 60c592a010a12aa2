"""Query release: many linear queries on a finite universe, answered from one budget."""

from dpstats.data.schema import Bins
from dpstats.queries.answers import WorkloadAnswers
from dpstats.queries.answers import plot_answers as plot_answers  # registers what pages draw
from dpstats.queries.domain import Domain, MarginalQueries
from dpstats.queries.linear import HalfspaceQueries, LinearQueries, ParityQueries, PrefixQueries, RangeQueries
from dpstats.queries.mwem import MarginalMWEM
from dpstats.queries.workload import SyntheticDistribution

__all__ = ["Bins", "Domain", "HalfspaceQueries", "LinearQueries", "MarginalMWEM", "MarginalQueries", "ParityQueries"]
__all__ += ["PrefixQueries", "RangeQueries", "SyntheticDistribution", "WorkloadAnswers"]


def __dir__() -> list[str]:
    return sorted(__all__)
