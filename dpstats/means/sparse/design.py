from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from dpstats.means.sparse.balls import Balls, cross_radius, honest_cross_radius, release_balls
from dpstats.means.sparse.recovery import (
    Numbers,
    additive_tail,
    mean_score,
    selected_share,
    share_found,
    weakest_found,
)
from dpstats.privacy.gaussian import gaussian_sigma
from dpstats.privacy.zcdp import zcdp_rho

_SHARES = (0.5, 0.25, 0.75)
_CLIPS = (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
_DEARER = 0.05  # what wider scores may add to the logarithm of the error that is planned for normal columns
_SIGNALS = 7
# Every column is released only where few are left out: more of them cost more, and a sparse table is made dense.
_ALL_COLUMNS = 8
# Shares of a float can add up to one unit in the last place too much.
_SAFE = 1 - 2.0**-50


@dataclass(frozen=True, slots=True)
class Problem:
    """The public facts that a design is for.

    ``clip`` is the widest that scores may be clipped; ``share`` and ``wide`` are what the user has decided.
    """

    n_select: int
    n_release: int
    n_features: int
    n_nonzero: int
    max_signal: float
    epsilon: float
    delta: float
    split: bool
    clip: float
    share: float | None = None
    wide: float | None = None


@dataclass(frozen=True, slots=True)
class Design:
    """The decisions, and their consequences."""

    # Part of the privacy (of rho, or of epsilon) that goes to the selection; None releases every column.
    share: float | None
    clip: float  # clipping threshold of the scores
    each: float  # privacy cost of each selection, as a bounded range
    # Budget of the release: rho, or epsilon if delta = 0. With ``split``, the whole budget.
    rest: float


@lru_cache(maxsize=256)
def planned_design(problem: Problem) -> Design:
    """Return the design of the least planned error; among wider scores, the best for any columns."""
    narrow = min(problem.wide or _CLIPS[0], problem.clip)
    shares = (1.0,) if problem.split else _SHARES if problem.share is None else (problem.share,)
    designs = [_design(problem, share, narrow) for share in shares]
    everything = problem.n_features <= _ALL_COLUMNS * problem.n_nonzero
    if everything and problem.share is None and not problem.split:
        designs.append(_design(problem, None, narrow))
    errors = [planned_error(problem, design) for design in designs]
    best = designs[int(np.argmin(errors))]
    if problem.wide is not None or best.share is None:
        return best
    found = [(weakest(problem, best, "any"), best)]
    for clip in _CLIPS:
        wider = replace(best, clip=min(clip, problem.clip))
        if wider.clip <= best.clip:
            continue
        if planned_error(problem, wider) > min(errors) + _DEARER:
            break
        found.append((weakest(problem, wider, "any"), wider))
    return min(found, key=lambda pair: pair[0])[1]


def _design(problem: Problem, share: float | None, clip: float) -> Design:
    """Return the design whose selection uses this fraction of the privacy."""
    s, epsilon = problem.n_nonzero, problem.epsilon
    selected, rest = (1.0, 1.0) if problem.split else (share or 0.0, 1 - (share or 0.0))
    if problem.delta == 0:
        return Design(share, clip, selected * epsilon / s * _SAFE, rest * epsilon * (_SAFE if share else 1.0))
    rho = zcdp_rho(epsilon, problem.delta) * (1 - 1e-12)
    each = math.sqrt(8 * selected * rho / s) * _SAFE
    if problem.split:
        each = max(each, epsilon / s * _SAFE)  # few selections add up better as pure ones
    return Design(share, clip, each, rest * rho)


def plan_balls(problem: Problem, design: Design) -> Balls:
    """Return the balls that the release of a design, with Gaussian noise, is planned in."""
    # Gaussian noise alone, on its rows, has the exact curve.
    alone = problem.split or design.share is None
    mu = 1 / gaussian_sigma(problem.epsilon, problem.delta) if alone else math.sqrt(2 * design.rest)
    size = released(problem, design)
    return release_balls(
        problem.n_release, problem.n_features, size, problem.max_signal, mu, intervals=problem.split
    )


def plan_cross_radius(problem: Problem, design: Design) -> float:
    """Return the l1 radius that the release of a design, with Laplace noise, is planned in."""
    size = released(problem, design)
    if problem.split:
        return honest_cross_radius(problem.n_release, size, problem.max_signal, design.rest)
    return cross_radius(size, problem.max_signal)


def released(problem: Problem, design: Design) -> int:
    """Return the number of released columns."""
    return problem.n_features if design.share is None else problem.n_nonzero


def noise_variance(problem: Problem, design: Design) -> float:
    """Return the planned variance of the noise in a column of the estimate."""
    if problem.delta == 0:
        return 2 * (2 * plan_cross_radius(problem, design) / (problem.n_release * design.rest)) ** 2
    return 1 / plan_balls(problem, design).precision


def planned_error(problem: Problem, design: Design) -> float:
    """Return the mean logarithm of the squared error per signal, over signals that data could show, up to the largest.

    Signal sizes are unknown. They are spaced evenly on the log scale, from the size that sampling error alone gives
    one of d columns. All signals of a table are assumed to have the same size; columns are normal.
    """
    n, d, s = problem.n_release, problem.n_features, problem.n_nonzero
    weakest_shown = math.sqrt(2 * math.log(max(d / s, math.e)) / n)
    largest = max(problem.max_signal, 2 * weakest_shown)
    signals = np.geomspace(weakest_shown, largest, _SIGNALS)
    missed = 1 - found(problem, design, "normal", signals)
    return float(np.mean(np.log(1 / n + noise_variance(problem, design) + signals**2 * missed)))


def found(problem: Problem, design: Design, law: str, signals: Numbers) -> Numbers:
    """Return the fraction of signals that is found, if all have one of these sizes."""
    n, d, s = problem.n_select, problem.n_features, problem.n_nonzero
    if design.share is not None:
        # Twice the sensitivity of a mean, over what a selection costs.
        scale = 2 * (2 * design.clip / n) / design.each
        return selected_share(law, signals, design.clip, scale, n, d, s)
    bias = 0.0 if law == "normal" else release_bias(problem, design)
    null, given = mean_score(np.zeros(1), bias), mean_score(np.asarray(signals, dtype=float), bias)
    noise = "laplace" if problem.delta == 0 else "gaussian"
    scale = math.sqrt(noise_variance(problem, design) / (2 if noise == "laplace" else 1))
    return share_found(null, given, additive_tail(noise, scale), n, d, s)


def release_bias(problem: Problem, design: Design) -> float:
    """Return a bound on the clipping bias of a released mean, for any column of mean 0 and variance 1."""
    if problem.delta == 0:
        norm = problem.n_features + problem.n_nonzero * problem.max_signal
        return min(1.0, norm / (4 * plan_cross_radius(problem, design)))
    balls = plan_balls(problem, design)
    weights = np.array(balls.shares) / np.array(balls.radii) ** 2
    norms = np.hypot(math.sqrt(problem.n_features), balls.distances)
    return min(1.0, float(np.average(norms / (4 * np.array(balls.radii)), weights=weights)))


@lru_cache(maxsize=256)
def weakest(problem: Problem, design: Design, law: str) -> float:
    """Return the weakest signal that is found; 0 where every column is kept."""
    if problem.n_nonzero == problem.n_features:
        return 0.0
    return weakest_found(lambda signals: found(problem, design, law, signals))
