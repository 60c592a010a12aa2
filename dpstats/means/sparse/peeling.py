from __future__ import annotations

import math
from collections import Counter
from functools import lru_cache
from typing import Any

from dpstats.data.parameters import check_real
from dpstats.errors import NotPrivate, refuse
from dpstats.lattice import BoxLattice
from dpstats.means.sparse.plan import SUPPORT, Parts, Setting
from dpstats.privacy.rounding import quotient_up
from dpstats.privacy.stages import Selection, Stage
from dpstats.privacy.totals import pure_delta
from dpstats.release.noise import check_scale

# Reserve of epsilon, so that the calibrated noise is certified with rounding up, also together with other releases.
_CERTIFIED = 1 - 2e-5


def peeling_parts(setting: Setting, bits: int, *, clip: Any, calibration: str) -> Parts:
    """Plan the Laplace noisy maximum, column by column, and the means with Laplace noise."""
    clip = check_real("clip", clip, above=0)
    if setting.private_spread:
        # Only the release of the Gumbel selection has the squares.
        raise refuse("selection", given="peeling", allowed="'gumbel' with std='private'")
    s, epsilon, delta = setting.n_nonzero, setting.target.epsilon, setting.target.delta
    lattice = BoxLattice.build(clip, 0.0, setting.n_features, common=False, bits=bits)
    if calibration == "exact":
        costs = [(s, 0), (0, s)] if setting.split else [(s, s), (s, s)]
        selecting, releasing = (peeling_cost(*counts, epsilon, delta) for counts in costs)
    elif delta == 0 or setting.split:
        raise refuse("calibration", given=calibration, allowed="'exact' unless delta > 0 and split=False")
    else:
        selecting = releasing = textbook_peeling_cost(s, epsilon, delta)
    sensitivity = lattice.columns(slice(1)).sensitivity("l1")
    scale = quotient_up(sensitivity, selecting)
    spacing = clip * 2.0**-bits
    selection = Selection(
        SUPPORT,
        "laplace",
        s,
        spacing / setting.n_select,
        sensitivity,
        scale,
        candidates=setting.n_features,
        times=s,
    )
    scale = check_scale(quotient_up(sensitivity, releasing))
    name = "mean of each selected column"
    step = spacing / setting.n_release
    stage = Stage(name, "laplace", s, step, sensitivity, scale, times=s)
    return Parts(lattice, selection, (), (stage,))


def peeling_delta(selections: int, releases: int, cost: float, epsilon: float) -> float:
    """Return the exact total delta of selections that are ``2 cost`` private and releases that are ``cost``.

    Pure releases of two costs: `dpstats.privacy.totals.pure_delta`.

    Examples
    --------
    >>> from dpstats.means.sparse.peeling import peeling_delta
    >>> print(f"{peeling_delta(10, 10, 1 / 24.02, 1.0):.3e}")  # noise of 24.02 sensitivities
    1.002e-05
    """
    total = pure_delta(Counter({2 * cost: selections, cost: releases}))
    return 1.0 if total is None else total(epsilon)


@lru_cache(maxsize=64)
def peeling_cost(selections: int, releases: int, epsilon: float, delta: float) -> float:
    """Return the largest cost, of one release, at which peeling is (epsilon, delta)-private."""
    basic = epsilon / (2 * selections + releases)
    low = basic * (1 - 2.0**-50)
    if delta == 0:
        return low
    target = epsilon * _CERTIFIED
    high = 2 * low
    while peeling_delta(selections, releases, high, target) <= delta:
        low, high = high, 2 * high
    while high / low - 1 > 1e-10:
        middle = (low + high) / 2
        inside = peeling_delta(selections, releases, middle, target) <= delta * (1 - 1e-9)
        low, high = (middle, high) if inside else (low, middle)
    return low


def textbook_peeling_cost(n_nonzero: int, epsilon: float, delta: float) -> float:
    """Return the cost of one release in algorithm 9.2.2 as printed, or raise `NotPrivate`."""
    cost = epsilon / (2 * math.sqrt(3 * n_nonzero * math.log(1 / delta)))
    actual = peeling_delta(n_nonzero, n_nonzero, cost, epsilon * _CERTIFIED)
    if actual > delta:
        raise NotPrivate(
            f"calibration='textbook' is not private at epsilon = {epsilon:g}, delta = {delta:g}, n_nonzero = "
            f"{n_nonzero}: the printed noise of algorithm 9.2.2 has an actual delta of {actual:.3g}, "
            f"{actual / delta:.3g} times the one claimed (docs/errata.md); use calibration='exact'"
        )
    return cost
