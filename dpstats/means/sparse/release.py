"""The private side of the sparse mean: which columns are selected, and what is released of them.

Everything here sees data. Proof: docs/proofs/sparse-mean.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.means.sparse.plan import SparseMeanPlan
from dpstats.privacy.plan import Selection
from dpstats.release.additive import release
from dpstats.release.noise import Noise

SCORES = "sizes of the clipped sums"
REST = "what the stages are about"


def select(scores: NDArray[np.int64], selection: Selection, noise: Noise, count: int) -> NDArray[np.intp]:
    """Return what is selected, of shape (count, selection.size)."""
    if selection.noise == "gumbel":
        return noise.top("gumbel", scores, selection.scale_steps, selection.size, count)
    taken = np.zeros((count, scores.size), dtype=bool)
    chosen = np.empty((count, selection.size), dtype=np.intp)
    for t in range(selection.size):
        noisy = scores + noise.laplace(selection.scale_steps, taken.shape)
        noisy[taken] = np.iinfo(np.int64).min
        # The first of equal sums, on neighbouring datasets alike.
        chosen[:, t] = np.argmax(noisy, axis=1)
        taken[np.arange(count), chosen[:, t]] = True
    return chosen


def estimate(
    rest: Any, support: NDArray[np.intp], plan: SparseMeanPlan, noise: Noise, count: int
) -> list[NDArray[np.float64]]:
    """Return the release of every stage on one support, ``count`` times, in the units of the data."""
    if not plan.balls:
        return [release(plan.stages[0], rest[support], noise, count)]
    rows = columns_of(rest, support, plan)
    average, precision, answers = np.zeros((count, support.size)), 0.0, []
    for stage, ball in zip(plan.stages, plan.balls, strict=True):
        # A stage is about the average of the ones before, which is public and, where many are drawn, is many.
        centers, which = np.unique(average, axis=0, return_inverse=True)
        sums = np.stack([replace(ball, center=center).sums(rows)[0] for center in centers])
        answer = average + release(stage, sums[which.reshape(-1)], noise, count)
        weight = float(stage.noise_std) ** -2
        average = (precision * average + weight * answer) / (precision + weight)
        precision += weight
        answers.append(answer)
    return answers if plan.scales is None else [answer * plan.scales[support] for answer in answers]


def columns_of(rows: Any, support: NDArray[np.intp], plan: SparseMeanPlan) -> NDArray[np.float64]:
    """Return the selected columns, dense and finite, in standard deviations where these differ."""
    chosen = rows[:, support]
    dense = np.asarray(chosen if isinstance(chosen, np.ndarray) else chosen.toarray(), dtype=np.float64)
    dense = np.where(np.isfinite(dense), dense, 0.0)
    with np.errstate(over="ignore"):
        scaled = dense if plan.scales is None else dense / plan.scales[support]
    # A quotient may overflow: nothing is refused after the charge.
    return np.clip(scaled, -1e300, 1e300)
