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

_HOME = {
    "ConfidenceInterval": "dpstats.inference.results",
    "Estimates": "dpstats.inference.estimates",
    "HasEstimates": "dpstats.inference.estimates",
    "JointTest": "dpstats.inference.results",
    "Page": "dpstats.inference.reports",
    "Summary": "dpstats.inference.results",
    "TermTests": "dpstats.inference.results",
    "Test": "dpstats.inference.estimates",
    "about_missing": "dpstats.inference.results",
    "paper_figures": "dpstats.inference.figures",
    "side_by_side": "dpstats.inference.figures",
    "with_missing": "dpstats.inference.results",
}

__all__ = [
    "ConfidenceInterval",
    "Estimates",
    "HasEstimates",
    "JointTest",
    "Page",
    "Summary",
    "TermTests",
    "Test",
    "about_missing",
    "paper_figures",
    "side_by_side",
    "with_missing",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'dpstats.inference' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
