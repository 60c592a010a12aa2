"""What a guarantee is, what a release costs, and what several cost together."""

from dpstats.errors import BudgetExceeded
from dpstats.privacy.budget import BudgetEntry, PrivacyBudget
from dpstats.privacy.composition import basic_composition, compose, group_privacy
from dpstats.privacy.gaussian import gaussian_delta, gaussian_epsilon, gaussian_sigma
from dpstats.privacy.guarantee import Neighbors, PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan, Stage
from dpstats.privacy.zcdp import zcdp_epsilon, zcdp_rho

__all__ = [
    "BudgetEntry",
    "BudgetExceeded",
    "Neighbors",
    "PrivacyBudget",
    "PrivacyGuarantee",
    "ReleasePlan",
    "Stage",
    "basic_composition",
    "compose",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_sigma",
    "group_privacy",
    "zcdp_epsilon",
    "zcdp_rho",
]
