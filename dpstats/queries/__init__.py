"""Query release: many linear queries on a finite universe, answered from one budget."""

from dpstats.queries.iterative import IterativeConstruction
from dpstats.queries.linear import LinearQueries
from dpstats.queries.multisets import build_net
from dpstats.queries.net import NetMechanism, SmallDB
from dpstats.queries.online import OnlineMultiplicativeWeights

__all__ = [
    "IterativeConstruction",
    "LinearQueries",
    "NetMechanism",
    "OnlineMultiplicativeWeights",
    "SmallDB",
    "build_net",
]
