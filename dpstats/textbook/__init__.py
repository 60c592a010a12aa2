"""What the source texts print and better methods of this package have replaced: complete, and with valid noise.

The page *Sources* (docs/sources.md) leads from every algorithm, theorem and example of the texts to its class here or
elsewhere. No other package needs this one. Use `dpstats.queries`, `dpstats.regression` and `dpstats.identity` for
data; use these to teach, to compare, and to reproduce a theorem.
"""

from dpstats.textbook.error_bounds import (
    AccuracyBound,
    Rate,
    build_net,
    construction_bound,
    identity_lower_bound,
    identity_upper_bound,
    mean_lower_bound,
    median_bound,
    median_updates,
    multiplicative_weights_updates,
    net_bound,
    online_bound,
    perceptron_bound,
    perceptron_updates,
    small_db_bound,
    sparse_mean_lower_bound,
    vc_bound,
)
from dpstats.textbook.functional_mechanism import FunctionalMechanismRegression
from dpstats.textbook.iterative_construction import IterativeConstruction
from dpstats.textbook.net_mechanism import NetMechanism, SmallDB
from dpstats.textbook.online_multiplicative_weights import OnlineMultiplicativeWeights
from dpstats.textbook.staged_inner_products import StagedInnerProductTest

__all__ = ["AccuracyBound", "FunctionalMechanismRegression", "IterativeConstruction", "NetMechanism"]
__all__ += ["OnlineMultiplicativeWeights", "Rate", "SmallDB", "StagedInnerProductTest"]
__all__ += ["build_net", "construction_bound", "identity_lower_bound", "identity_upper_bound", "mean_lower_bound"]
__all__ += ["median_bound", "median_updates", "multiplicative_weights_updates", "net_bound", "online_bound"]
__all__ += ["perceptron_bound", "perceptron_updates", "small_db_bound", "sparse_mean_lower_bound", "vc_bound"]


def __dir__() -> list[str]:
    return sorted(__all__)
