"""dpstats: private statistical inference.

Estimates, intervals and tests on sensitive data under differential privacy. Every subpackage, and
the classes that are used most, are names of this one; heavy parts load when they are used.

>>> import dpstats
>>> dpstats.means.ClippedMean(clip=1.0)
ClippedMean(clip=1.0)
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "1.0.0"

_SUBPACKAGES = (
    *("auditing", "conformal", "covariance", "data", "groups", "identity", "inference", "means", "mechanisms"),
    *("privacy", "quantiles", "queries", "ranks", "regression", "sensitivity", "simulation", "sql", "statistic"),
    *("survival", "tables", "textbook"),
)
_NAMES = {
    "ClippedMean": "dpstats.means",
    "ContingencyTable": "dpstats.tables",
    "GroupMeans": "dpstats.groups",
    "GroupQuantiles": "dpstats.groups",
    "PrivacyBudget": "dpstats.privacy",
    "PrivacyGuarantee": "dpstats.privacy",
    "PrivateLinearRegression": "dpstats.regression",
    "PrivateLogisticRegression": "dpstats.regression",
    "PrivateProportion": "dpstats.tables",
    "PrivateQuantile": "dpstats.quantiles",
    "PrivateSQL": "dpstats.sql",
    "PrivateSurvival": "dpstats.survival",
}

__all__ = ["__version__", *_SUBPACKAGES, *_NAMES]


def __getattr__(name: str) -> Any:
    if name in _SUBPACKAGES:
        return importlib.import_module(f"dpstats.{name}")
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'dpstats' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
