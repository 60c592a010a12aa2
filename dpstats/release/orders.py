from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import Plan
from dpstats.privacy.stages import Shuffle
from dpstats.release.noise import Noise, noise_source
from dpstats.release.witness import session_of

# Secret orders, drawn as noise is: they depend on no row, and cost nothing.


def draw_orders(sizes: Sequence[int], random_state: Any) -> list[NDArray[np.intp]]:
    """Return a uniform order of each size: secret, unless noise is simulated.

    Examples
    --------
    >>> from dpstats.release.orders import draw_orders
    >>> sorted(draw_orders([3], None)[0].tolist())
    [0, 1, 2]
    """
    return order_rows(noise_source(random_state), sizes)


def order_rows(noise: Noise, sizes: Sequence[int]) -> list[NDArray[np.intp]]:
    """Return a uniform order of each size, from a source of noise."""
    names = [f"order {place}" for place in range(len(sizes))]
    plan = Plan(tuple(map(Shuffle, names, sizes)), PrivacyGuarantee(0.0))
    with session_of(plan, noise) as session:
        return [session.shuffle(name) for name in names]
