"""All numbers that an estimator reports: its fitted attributes, and the answers to all that may be asked of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.inference import HasEstimates
from dpstats.inference.reports import Reported
from dpstats.inference.results import ConfidenceInterval

Numbers = NDArray[np.float64]

ALTERNATIVES = ("two-sided", "less", "greater")


def flatten(thing: Any, name: str = "") -> Iterator[tuple[str, Numbers]]:
    """Yield every array of numbers in a result, with its place."""
    if isinstance(thing, (bool, int, float, np.number, np.ndarray)):
        array = np.asarray(thing)
        if array.dtype.kind in "biuf":
            yield name, array.astype(np.float64)
    elif isinstance(thing, ConfidenceInterval):
        yield f"{name}.low", np.asarray(thing.low, dtype=np.float64)
        yield f"{name}.high", np.asarray(thing.high, dtype=np.float64)
    elif isinstance(thing, Reported):
        _, columns, facts = thing._records()
        asked = {key: value for key, value in facts.items() if key not in ("simulated", "confidence_level")}
        yield from flatten({**asked, **{key: np.asarray(cells) for key, cells in columns.items()}}, name)
    elif isinstance(thing, Mapping):
        for key, value in thing.items():
            yield from flatten(value, f"{name}.{key}")
    elif isinstance(thing, (tuple, list)):
        for i, value in enumerate(thing):
            yield from flatten(value, f"{name}[{i}]")
    elif hasattr(thing, "to_numpy"):
        yield name, np.asarray(thing.to_numpy(), dtype=np.float64)
    elif dataclasses.is_dataclass(thing):
        for field in dataclasses.fields(thing):
            yield from flatten(getattr(thing, field.name), f"{name}.{field.name}")


def report(fitted: Any, questions: Mapping[str, Callable[[Any], Any]] = {}) -> dict[str, Numbers]:
    """Return all numbers of a fit by their places.

    Parameters
    ----------
    questions : mapping of str to callable
        Further questions, beyond intervals and tests of each estimate.
    """
    found = {}
    for name, value in vars(fitted).items():
        if name.endswith("_") and name not in ("plan_", "privacy_", "n_features_in_"):
            found.update(flatten(value, name))
    if isinstance(fitted, HasEstimates):
        estimates = fitted.estimates()
        found.update(flatten({"estimate": estimates.estimate, "error": estimates.error}, "estimates"))
        for side in ALTERNATIVES:
            for together in (False, True):
                # Some ends are chosen in the release, for one level and both sides.
                try:
                    ends = estimates.confidence_interval(0.9, simultaneous=together, alternative=side)
                except Exception:
                    if side == "two-sided" and not together:
                        ends = estimates.confidence_interval()
                    else:
                        continue
                found.update(flatten(ends, f"interval, {side}{', together' * together}"))
    for name, question in questions.items():
        found.update(flatten(question(fitted), name))
    return found
