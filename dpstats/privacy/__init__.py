"""Privacy guarantees, the cost of a release, composition of several releases, and budgets.

Names load their modules at first use, so a process that only charges a budget needs neither numpy nor scipy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from dpstats.privacy.gaussian import (
        gaussian_delta,
        gaussian_epsilon,
        gaussian_sigma,
        zcdp_delta,
        zcdp_epsilon,
        zcdp_rho,
    )
    from dpstats.privacy.guarantee import Neighbors, PrivacyGuarantee
    from dpstats.privacy.plan import Plan, ReleaseCost, ReleasePlan, tradeoff_curve
    from dpstats.privacy.stages import (
        Block,
        Coins,
        Comparisons,
        Discovery,
        JointStage,
        KeyCounts,
        Responses,
        Selection,
        Shuffle,
        Stage,
    )
    from dpstats.privacy.totals import compose

_HOME = {
    "BudgetEntry": "dpstats.privacy.budget",
    "BudgetExceeded": "dpstats.privacy.budget",
    "Block": "dpstats.privacy.stages",
    "Choice": "dpstats.privacy.stages",
    "Coins": "dpstats.privacy.stages",
    "Comparisons": "dpstats.privacy.stages",
    "Discovery": "dpstats.privacy.stages",
    "JointStage": "dpstats.privacy.stages",
    "KeyCounts": "dpstats.privacy.stages",
    "Neighbors": "dpstats.privacy.guarantee",
    "Plan": "dpstats.privacy.plan",
    "PrivacyBudget": "dpstats.privacy.budget",
    "PrivacyGuarantee": "dpstats.privacy.guarantee",
    "ReleaseCost": "dpstats.privacy.plan",
    "ReleasePlan": "dpstats.privacy.plan",
    "Responses": "dpstats.privacy.stages",
    "Selection": "dpstats.privacy.stages",
    "Shuffle": "dpstats.privacy.stages",
    "Smooth": "dpstats.privacy.stages",
    "OneOf": "dpstats.privacy.stages",
    "Stage": "dpstats.privacy.stages",
    "advanced_composition": "dpstats.privacy.composition",
    "advanced_composition_share": "dpstats.privacy.composition",
    "basic_composition": "dpstats.privacy.composition",
    "compose": "dpstats.privacy.totals",
    "gaussian_delta": "dpstats.privacy.gaussian",
    "gaussian_epsilon": "dpstats.privacy.gaussian",
    "gaussian_sigma": "dpstats.privacy.gaussian",
    "group_privacy": "dpstats.privacy.composition",
    "heterogeneous_composition": "dpstats.privacy.composition",
    "optimal_composition_delta": "dpstats.privacy.composition",
    "optimal_composition_epsilon": "dpstats.privacy.composition",
    "poisson_subsampling": "dpstats.privacy.composition",
    "tradeoff_curve": "dpstats.privacy.plan",
    "zcdp_delta": "dpstats.privacy.gaussian",
    "zcdp_epsilon": "dpstats.privacy.gaussian",
    "zcdp_rho": "dpstats.privacy.gaussian",
}

__all__ = [
    "Block",
    "BudgetEntry",
    "BudgetExceeded",
    "Choice",
    "Coins",
    "Comparisons",
    "Discovery",
    "JointStage",
    "KeyCounts",
    "Neighbors",
    "OneOf",
    "Plan",
    "PrivacyBudget",
    "PrivacyGuarantee",
    "ReleaseCost",
    "ReleasePlan",
    "Responses",
    "Selection",
    "Shuffle",
    "Smooth",
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
    "tradeoff_curve",
    "zcdp_delta",
    "zcdp_epsilon",
    "zcdp_rho",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'dpstats.privacy' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
