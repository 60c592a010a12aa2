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

_MODULES = {
    "budget": "BudgetEntry BudgetExceeded PrivacyBudget",
    "composition": "advanced_composition advanced_composition_share basic_composition group_privacy "
    "heterogeneous_composition optimal_composition_delta optimal_composition_epsilon poisson_subsampling",
    "gaussian": "gaussian_delta gaussian_epsilon gaussian_sigma zcdp_delta zcdp_epsilon zcdp_rho",
    "guarantee": "Neighbors PrivacyGuarantee",
    "plan": "Plan ReleaseCost ReleasePlan tradeoff_curve",
    "stages": "Block Choice Coins Comparisons Discovery JointStage KeyCounts OneOf Responses Selection Shuffle Smooth "
    "Stage",
    "totals": "compose",
}
_HOME = {name: f"dpstats.privacy.{module}" for module, names in _MODULES.items() for name in names.split()}

__all__ = ["Block", "BudgetEntry", "BudgetExceeded", "Choice", "Coins", "Comparisons", "Discovery", "JointStage"]
__all__ += ["KeyCounts", "Neighbors", "OneOf", "Plan", "PrivacyBudget", "PrivacyGuarantee", "ReleaseCost"]
__all__ += ["ReleasePlan", "Responses", "Selection", "Shuffle", "Smooth", "Stage"]
__all__ += ["advanced_composition", "advanced_composition_share", "basic_composition", "compose", "gaussian_delta"]
__all__ += ["gaussian_epsilon", "gaussian_sigma", "group_privacy", "heterogeneous_composition"]
__all__ += ["optimal_composition_delta", "optimal_composition_epsilon", "poisson_subsampling", "tradeoff_curve"]
__all__ += ["zcdp_delta", "zcdp_epsilon", "zcdp_rho"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'dpstats.privacy' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
