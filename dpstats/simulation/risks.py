"""Measured risks as a fit uses them: cells with few failures, logs of means, terms of a formula in every cell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import refuse
from dpstats.results import ConfidenceInterval, significant
from dpstats.simulation.table import MOST_FAILED, Parameters, StudyResults

Term = Callable[[Parameters], float]
"""A term of a formula, without its constant, as a function of a cell's parameters."""

Vector = NDArray[np.float64]


def usable_cells(results: StudyResults, loss: str, positive: bool = True) -> StudyResults:
    """Return the results without cells in which more than a few replications failed.

    At least one must remain.
    """
    cells = tuple(
        cell
        for cell in results.cells
        if cell.few_failed and cell.losses[loss].size > 1 and (not positive or cell.mean(loss) > 0)
    )
    if not cells:
        raise refuse(
            "results",
            allowed=f"have a cell in which at most {MOST_FAILED:.0%} of the replications failed, and at least two "
            "did not",
        )
    return replace(results, cells=cells)


def failure_words(results: StudyResults, used: StudyResults, loss: str | None = None) -> str:
    """Say of how many replications that failed a fit knows nothing, and how many cells it leaves out.

    With a loss, those too that have no logarithm of its mean.
    """
    words = []
    failed = sum(cell.failed for cell in used.cells)
    if failed:
        total = failed + sum(max(values.size for values in cell.losses.values()) for cell in used.cells)
        words.append(
            f"{failed:,} of their {total:,} replications failed, and are not counted, "
            "as if failures had nothing to do with the loss"
        )
    out = sum(not cell.few_failed for cell in results.cells)
    if out:
        words.append(f"{out} left out: more than {MOST_FAILED:.0%} of the replications failed")
    if loss is not None:
        nil = sum(
            cell.few_failed and cell.losses[loss].size > 1 and not cell.mean(loss) > 0
            for cell in results.cells
        )
        if nil:
            words.append(f"{nil} left out: the mean of {loss} is not above 0")
    return f" ({'; '.join(words)})" if words else ""


def log_means(results: StudyResults, loss: str, accuracy: float) -> tuple[Vector, Vector]:
    """Return the log mean loss of every cell, and its standard error with the formula's own relative error added."""
    mean, error = results.mean(loss), results.standard_error(loss)
    # A loss that is the same in all replications has only a rounding error, and no Monte Carlo error.
    return np.log(mean), np.sqrt(np.maximum(error / mean, 1e-9) ** 2 + accuracy**2)


def evaluate(results: StudyResults, function: Term) -> Vector:
    """Return a term in every cell."""
    values = np.array([float(function(cell.parameters)) for cell in results.cells])
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise refuse("terms", allowed="positive numbers in every cell")
    return values


def interval_words(interval: ConfidenceInterval) -> str:
    """Return an interval for a table, to as many digits as its width is worth."""
    half = float(interval.high - interval.low) / 2
    return f"[{significant(float(interval.low), half)}, {significant(float(interval.high), half)}]"
