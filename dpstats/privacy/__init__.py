"""What a guarantee is, what a release costs, and what several cost together."""

from dpstats.errors import BudgetExceeded
from dpstats.privacy.budget import BudgetEntry, PrivacyBudget
from dpstats.privacy.composition import (
    advanced_composition,
    advanced_composition_share,
    basic_composition,
    group_privacy,
    heterogeneous_composition,
    optimal_composition_delta,
    optimal_composition_epsilon,
    poisson_subsampling,
)
from dpstats.privacy.gaussian import gaussian_delta, gaussian_epsilon, gaussian_sigma
from dpstats.privacy.guarantee import Neighbors, PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan, Stage
from dpstats.privacy.totals import compose
from dpstats.privacy.zcdp import zcdp_epsilon, zcdp_rho

__all__ = [
    "BudgetEntry",
    "BudgetExceeded",
    "Neighbors",
    "PrivacyBudget",
    "PrivacyGuarantee",
    "ReleasePlan",
    "Stage",
    "advanced_composition",
    "advanced_composition_share",
    "basic_composition",
    "compose",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_sigma",
    "group_privacy",
    "heterogeneous_composition",
    "optimal_composition_delta",
    "optimal_composition_epsilon",
    "poisson_subsampling",
    "zcdp_epsilon",
    "zcdp_rho",
]
