"""What the source texts print and better methods of this package have replaced: complete, and with valid noise.

No other package needs these. Use `dpstats.queries`, `dpstats.regression` and `dpstats.identity` for data; use these to
teach, to compare, and to reproduce a theorem.
"""

from dpstats.textbook.error_bounds import build_net
from dpstats.textbook.functional_mechanism import FunctionalMechanismRegression
from dpstats.textbook.inner_products import StagedInnerProductTest
from dpstats.textbook.iterative_construction import IterativeConstruction
from dpstats.textbook.net_mechanism import NetMechanism, SmallDB
from dpstats.textbook.online_multiplicative_weights import OnlineMultiplicativeWeights

__all__ = [
    "FunctionalMechanismRegression",
    "IterativeConstruction",
    "NetMechanism",
    "OnlineMultiplicativeWeights",
    "SmallDB",
    "StagedInnerProductTest",
    "build_net",
]


def __dir__() -> list[str]:
    return sorted(__all__)
