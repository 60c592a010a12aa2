"""One-shot Gumbel selection, and rows clipped on the support about what earlier stages released.

Lengths are in units of a column's standard deviation, unless said otherwise. Proof: docs/proofs/sparse-mean.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr
from scipy.stats import chi2

from dpstats.data.parameters import check_real
from dpstats.lattice import BallLattice, BoxLattice, CrossLattice
from dpstats.means.sparse.plan import SUPPORT, Parts, Setting
from dpstats.privacy.gaussian import gaussian_sigma
from dpstats.privacy.rounding import quotient_up
from dpstats.privacy.stages import Selection, Stage
from dpstats.privacy.zcdp import zcdp_rho
from dpstats.release.additive import Integers, additive_stages, concentrated_stage

_GROWTH = (1.0, 1.5, 2.2, 3.0, 4.0, 6.0, 9.0, 14.0, 20.0)  # share of a stage over that of the one before
_MAX_STAGES = 3
# Shares of a float can add up to one unit in the last place too much.
_SAFE = 1 - 2.0**-50


def gumbel_parts(
    setting: Setting, bits: int, *, clip: Any, selection_clip: Any, selection_share: Any
) -> Parts:
    """Plan one-shot Gumbel selection, and the release of rows clipped on the support."""
    d, s, std, target = setting.n_features, setting.n_nonzero, setting.std, setting.target
    wide = check_real("selection_clip", selection_clip, above=0)
    bounds = np.minimum(check_real("clip", clip, above=0), wide * std)
    bounds = float(bounds) if isinstance(std, float) else bounds
    lattice = BoxLattice.build(bounds, 0.0, d, common=False, bits=bits)
    unit = std if isinstance(std, float) else 1.0
    share = (0.6 if target.delta == 0 else 0.5) if selection_share is None else selection_share
    share = check_real("selection_share", share, above=0, below=1)
    selected, rest = (1.0, 1.0) if setting.split else (share, 1 - share)
    if target.delta == 0:
        each, balls, stages = _pure(setting, selected, rest, unit, bits)
    else:
        each, balls, stages = _concentrated(setting, selected, rest, unit, bits)
    sensitivity = lattice.columns(slice(1)).sensitivity("l1")
    scale = quotient_up(2 * sensitivity, each)
    spacing = float(np.max(bounds / std)) * unit * 2.0**-bits / setting.n_select
    selection = Selection(SUPPORT, "gumbel", s, spacing, sensitivity, scale, candidates=d)
    return Parts(lattice, selection, balls, stages)


_Release = tuple[float, tuple[BallLattice, ...], tuple[Stage, ...]]


def _pure(setting: Setting, selected: float, rest: float, unit: float, bits: int) -> _Release:
    """Return what each selection may cost, and Laplace noise in one cross about 0."""
    epsilon, s = setting.target.epsilon, setting.n_nonzero
    ball = CrossLattice.build(cross_radius(s, setting.max_signal) * unit, 0.0, s, bits=bits)
    integers = _integers(ball, setting.n_release, "mean on the support", 1.0)
    stages = additive_stages([integers], rest * epsilon * _SAFE, 0.0)
    return selected * epsilon / s * _SAFE, (ball,), stages


def _concentrated(setting: Setting, selected: float, rest: float, unit: float, bits: int) -> _Release:
    """Return what each selection may cost, and Gaussian noise in up to three balls."""
    target, s, n = setting.target, setting.n_nonzero, setting.n_release
    rho = zcdp_rho(target.epsilon, target.delta) * (1 - 1e-12)
    each = math.sqrt(8 * selected * rho / s) * _SAFE
    if setting.split:
        each = max(each, target.epsilon / s * _SAFE)  # few selections add up better as pure ones
    mu = 1 / gaussian_sigma(target.epsilon, target.delta) if setting.split else math.sqrt(2 * rest * rho)
    planned = release_balls(n, setting.n_features, s, setting.max_signal, mu)
    balls = tuple(BallLattice.build(radius * unit, 0.0, s, bits=bits) for radius in planned.radii)
    names = [f"mean on the support, stage {t}" for t in range(1, len(balls) + 1)]
    integers = [
        _integers(ball, n, name, part) for ball, name, part in zip(balls, names, planned.shares, strict=True)
    ]
    if setting.split:
        return each, balls, additive_stages(integers, target.epsilon, target.delta)
    return each, balls, tuple(concentrated_stage(item, rest * rho) for item in integers)


def _integers(ball: BallLattice, n: int, name: str, share: float) -> Integers:
    l1, l2 = ball.sensitivity("l1"), ball.sensitivity("l2")
    return Integers(name, ball.n_features, ball.spacing / n, l1, l2, share)


@dataclass(frozen=True, slots=True)
class Balls:
    """The stages of a release on the support: each clips rows to a ball about the average so far.

    Attributes
    ----------
    radii : tuple of float
    shares : tuple of float
        Part of mu^2 that each stage gets; they add up to just below 1.
    """

    radii: tuple[float, ...]
    shares: tuple[float, ...]


def release_balls(n: int, d: int, s: int, max_signal: float, mu: float) -> Balls:
    """Return the balls that plan the least noise; one ball about 0 is among those tried.

    A row of unit variances lies within sqrt(s + r^2) + 2 of a centre that is within r of its mean. The
    first centre is 0, r = max_signal sqrt(s); a later one errs by its noise, and by sampling: sqrt(2 log(d/s))
    standard errors in columns that were selected for their sampling error.
    """
    sampling = s * (1 + 2 * math.log(d / s)) / n
    largest = float(chi2.ppf(0.95, s))
    best, chosen = 0.0, Balls((), ())
    for count in range(1, _MAX_STAGES + 1):
        for growth in _GROWTH if count > 1 else _GROWTH[:1]:
            shares = growth ** np.arange(count)
            shares *= (1 - 1e-14) / shares.sum()
            distance, precision, radii = max_signal * math.sqrt(s), 0.0, []
            for share in shares.tolist():
                radii.append(math.sqrt(s + distance**2) + 2)
                precision += share * (n * mu / (2 * radii[-1])) ** 2
                distance = min(distance, math.sqrt(sampling + largest / precision))
            # Every stage is a pass over the rows: another one has to be worth it.
            if precision > best * (1 + 1e-3):
                best, chosen = precision, Balls(tuple(radii), tuple(shares.tolist()))
    return chosen


def cross_radius(s: int, max_signal: float) -> float:
    """Return the l1 radius of a row on the support: its expectation for normal columns, s E|N(a, 1)|, and 2 sqrt(s)."""
    folded = math.sqrt(2 / math.pi) * math.exp(-(max_signal**2) / 2)
    return s * (folded + max_signal * (2 * float(ndtr(max_signal)) - 1)) + 2 * math.sqrt(s)
