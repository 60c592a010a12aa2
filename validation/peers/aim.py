"""AIM (McKenna, Mullins, Sheldon and Miklau 2022), the published algorithm, at the sensitivities of a replaced row.

A peer for `query_release.py`, and no part of dpstats: simulated noise, and distributions over the whole domain where
the authors have graphical models, fitted as ours are. As published: one-way tables first, candidates are all parts of
the tables that are asked, weighted by how much of the workload they share attributes with; a tenth of the budget is for
selection; noise is halved when a round changed less than it should have. The authors' code is for rows that are added:
here scores move by 2 and counts by sqrt 2.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from dpstats.queries.domain import Contrasts, Table, closure, margins
from dpstats.queries.workload import Measured, descend, uniform

Floats = NDArray[np.float64]
SELECTION_SHARE, ROUNDS_PER_ATTRIBUTE, STEPS = 0.1, 16, 40


def aim(counts: Floats, tables: list[Table], rho: float, rng: np.random.Generator, most_rounds: int = 200) -> Floats:
    """Return a distribution over the domain, of shape of ``counts``."""
    shape, n = counts.shape, float(counts.sum())
    d = len(shape)
    parts = closure(tables)
    weight = {part: float(sum(len(set(part) & set(table)) for table in tables)) for part in parts}
    cells = {part: math.prod(shape[j] for j in part) for part in parts}
    exact = dict(margins(counts, parts))
    rounds = ROUNDS_PER_ATTRIBUTE * d
    sigma = math.sqrt(rounds / (2 * (1 - SELECTION_SHARE) * rho))
    epsilon = math.sqrt(8 * SELECTION_SHARE * rho / rounds)
    known = Measured(Contrasts(shape), np.zeros((1, *shape)), np.zeros((1, *shape)), int(n))
    p, used = uniform(1, counts.size), 0.0

    def measure(part: Table, noise: float) -> None:
        # A replaced row moves counts by sqrt 2.
        std = noise * math.sqrt(2)
        noisy = exact[part] + std * rng.standard_normal(exact[part].shape)
        others = counts.size // cells[part]
        found = Contrasts(exact[part].shape).coefficients(noisy) / math.sqrt(others)
        at = (0, *(slice(None) if j in part else 0 for j in range(d)))
        before, more = known.precisions[at], others / std**2
        known.coefficients[at] = (before * known.coefficients[at] + more * found) / (before + more)
        known.precisions[at] = before + more
        known.coefficients[(0,) * (d + 1)] = known.precisions[(0,) * (d + 1)] = 0.0

    for j in range(d):
        if (j,) in exact and used + 1 / (2 * sigma**2) <= rho:
            measure((j,), sigma)
            used += 1 / (2 * sigma**2)
    p = descend(known.evaluate(), p, steps=STEPS)
    done = 0
    while used < rho * (1 - 1e-9) and done < most_rounds:
        done += 1
        left = rho - used
        if left <= 2 * (1 / (2 * sigma**2) + epsilon**2 / 8) or done == most_rounds:
            # The last round takes what is left.
            sigma = math.sqrt(1 / (2 * (1 - SELECTION_SHARE) * left))
            epsilon = math.sqrt(8 * SELECTION_SHARE * left)
        used += 1 / (2 * sigma**2) + epsilon**2 / 8
        answers = dict(margins(n * p.reshape(shape), parts))
        scores = np.array(
            [
                weight[r]
                * (np.abs(exact[r] - answers[r]).sum() - math.sqrt(2 / math.pi) * sigma * math.sqrt(2) * cells[r])
                for r in parts
            ]
        )
        # The exponential mechanism: a replaced row moves a score by 2, times its weight.
        sensitivity = 2 * max(weight.values())
        chosen = parts[int(np.argmax(epsilon * scores / (2 * sensitivity) + rng.gumbel(size=len(parts))))]
        before = answers[chosen]
        measure(chosen, sigma)
        p = descend(known.evaluate(), p, steps=STEPS)
        after = dict(margins(n * p.reshape(shape), [chosen]))[chosen]
        if np.abs(after - before).sum() <= math.sqrt(2 / math.pi) * sigma * math.sqrt(2) * cells[chosen]:
            sigma, epsilon = sigma / 2, 2 * epsilon
    return p.reshape(shape)


def all_tables(d: int, sizes: tuple[int, ...]) -> list[Table]:
    """Return all tables of so many of d attributes."""
    return [table for k in sizes for table in itertools.combinations(range(d), k)]
