"""What a released number says: the distribution of its error, intervals, tests, tables, pictures and pages.

Names load their modules at first use, so a process that only charges a budget needs neither numpy nor scipy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpstats.inference.estimates import Estimates, HasEstimates, Test
    from dpstats.inference.figures import paper_figures, side_by_side
    from dpstats.inference.reports import Page
    from dpstats.inference.results import ConfidenceInterval, JointTest, Summary, TermTests, about_missing, with_missing

_MODULES = {
    "estimates": "Estimates HasEstimates Test",
    "figures": "paper_figures side_by_side",
    "reports": "Page",
    "results": "ConfidenceInterval JointTest Summary TermTests about_missing with_missing",
}
_HOME = {name: f"dpstats.inference.{module}" for module, names in _MODULES.items() for name in names.split()}

__all__ = ["ConfidenceInterval", "Estimates", "HasEstimates", "JointTest", "Page", "Summary", "TermTests", "Test"]
__all__ += ["about_missing", "paper_figures", "side_by_side", "with_missing"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'dpstats.inference' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
