"""Query release: many linear queries on a finite universe, answered from one budget."""

from dpstats.data.levels import Bins
from dpstats.queries.answers import WorkloadAnswers
from dpstats.queries.domain import Domain
from dpstats.queries.halfspaces import HalfspaceQueries
from dpstats.queries.iterative import IterativeConstruction
from dpstats.queries.linear import LinearQueries
from dpstats.queries.marginals import MarginalQueries
from dpstats.queries.multisets import build_net
from dpstats.queries.mwem import MarginalMWEM
from dpstats.queries.net import NetMechanism, SmallDB
from dpstats.queries.online import OnlineMultiplicativeWeights
from dpstats.queries.parities import ParityQueries
from dpstats.queries.pictures import plot_answers as plot_answers  # registers what pages draw
from dpstats.queries.prefixes import PrefixQueries
from dpstats.queries.ranges import RangeQueries
from dpstats.queries.synthetic import SyntheticDistribution

__all__ = [
    "Bins",
    "Domain",
    "HalfspaceQueries",
    "IterativeConstruction",
    "LinearQueries",
    "MarginalMWEM",
    "MarginalQueries",
    "NetMechanism",
    "OnlineMultiplicativeWeights",
    "ParityQueries",
    "PrefixQueries",
    "RangeQueries",
    "SmallDB",
    "SyntheticDistribution",
    "WorkloadAnswers",
    "build_net",
]


def __dir__() -> list[str]:
    return sorted(__all__)
