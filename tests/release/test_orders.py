"""Secret orders are uniform, and simulated ones can be repeated."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
from scipy.stats import chisquare

from dpstats.release.mechanism import draw_orders


def test_every_order_is_equally_likely() -> None:
    rng = np.random.default_rng(0)
    found = Counter(tuple(draw_orders([3], rng)[0].tolist()) for _ in range(1200))
    assert set(found) == set(itertools.permutations(range(3)))
    assert chisquare(list(found.values())).pvalue > 1e-4


def test_orders_are_independent_and_a_seed_repeats_them() -> None:
    first, second = draw_orders([50, 50], 1)
    assert sorted(first.tolist()) == sorted(second.tolist()) == list(range(50))
    assert first.tolist() != second.tolist() and first.tolist() == draw_orders([50], 1)[0].tolist()
    assert draw_orders([50], None)[0].tolist() != draw_orders([50], None)[0].tolist()
