"""The stage of an integer with a release on a finer lattice, to avoid ties."""

from __future__ import annotations

import math

from dpstats.privacy.stages import Stage
from dpstats.release.additive import Integers, additive_stages

_FINE_BITS = 20
_FINE_SCALE = 1e15  # steps; well inside what can be drawn


def fine_stage(name: str, spacing: float, sensitivity: int, largest: int, epsilon: float) -> Stage:
    """Return the stage of an integer of size at most ``largest``, on a lattice up to 2^20 times finer.

    Integer noise on an integer causes ties, which lower the level. The lattice is as fine as 62 bits and the scale of
    the noise allow.
    """
    room = math.floor(math.log2(_FINE_SCALE * min(epsilon, 1e9) / sensitivity))
    bits = max(0, min(_FINE_BITS, 61 - largest.bit_length(), room))
    steps = sensitivity * 2**bits
    return additive_stages([Integers(name, 1, spacing / 2**bits, steps, steps)], epsilon, 0.0)[0]
