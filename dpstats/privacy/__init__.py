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
    from dpstats.privacy.gaussian import gaussian_delta, gaussian_epsilon, gaussian_sigma
    from dpstats.privacy.guarantee import Neighbors, PrivacyGuarantee
    from dpstats.privacy.plan import Plan, ReleaseCost, ReleasePlan
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
    from dpstats.privacy.tradeoff import tradeoff_curve
    from dpstats.privacy.zcdp import zcdp_delta, zcdp_epsilon, zcdp_rho

_HOME = {
    "BudgetEntry": "budget",
    "BudgetExceeded": "budget",
    "Block": "stages",
    "Choice": "stages",
    "Coins": "stages",
    "Comparisons": "stages",
    "Discovery": "stages",
    "JointStage": "stages",
    "KeyCounts": "stages",
    "Neighbors": "guarantee",
    "Plan": "plan",
    "PrivacyBudget": "budget",
    "PrivacyGuarantee": "guarantee",
    "ReleaseCost": "plan",
    "ReleasePlan": "plan",
    "Responses": "stages",
    "Selection": "stages",
    "Shuffle": "stages",
    "Smooth": "stages",
    "OneOf": "stages",
    "Stage": "stages",
    "advanced_composition": "composition",
    "advanced_composition_share": "composition",
    "basic_composition": "composition",
    "compose": "totals",
    "gaussian_delta": "gaussian",
    "gaussian_epsilon": "gaussian",
    "gaussian_sigma": "gaussian",
    "group_privacy": "composition",
    "heterogeneous_composition": "composition",
    "optimal_composition_delta": "composition",
    "optimal_composition_epsilon": "composition",
    "poisson_subsampling": "composition",
    "tradeoff_curve": "tradeoff",
    "zcdp_delta": "zcdp",
    "zcdp_epsilon": "zcdp",
    "zcdp_rho": "zcdp",
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
        value = getattr(importlib.import_module(f"dpstats.privacy.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'dpstats.privacy' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
