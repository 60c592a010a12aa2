"""Everything in dpstats that releases private data, with what attacks it.

One entry per release (and per materially different configuration of it). An entry says how to
compute its exact statistic, how to draw from the core that the release itself uses, which
neighboring datasets to try, and which broken versions an audit must catch. test_conformance.py
walks this list, and so does `make audit`, with more trials. One file for each file of releases.
"""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import replace

from registry.entry import Entry, PlantedBug, Understated

FIRST = (
    *("additive", "randomized_response", "histogram", "selection", "sparse_vector", "clipped_mean", "identity"),
    *("filtering", "adaptive_mean", "sparse_mean", "variance", "covariance", "hotelling", "whitened_mean"),
    *("rank_correlation", "shrunk_correlations", "observed", "private_size", "complete_cases", "quantiles"),
    *("regression", "log_linear", "regression_simple", "scores", "groups", "levels", "group_quantiles", "discovery"),
    *("tables", "survival", "ranks", "hypotheses", "workload", "sql", "sql_size", "statistic"),
)
"""Files whose entries come first: of entries of one kind, `make test` runs the first. A new file needs no line here."""


def find_entries() -> tuple[Entry, ...]:
    """Return the entries of every file of this folder that has any."""
    others = sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name not in FIRST)
    modules = [importlib.import_module(f"registry.{name}") for name in (*FIRST, *others)]
    return tuple(
        replace(entry, file=module.__name__.partition(".")[2])
        for module in modules
        if hasattr(module, "entries")
        for entry in module.entries()
    )


ENTRIES = find_entries()

__all__ = ["ENTRIES", "Entry", "PlantedBug", "Understated"]
