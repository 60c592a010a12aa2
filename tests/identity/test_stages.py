"""The schedule of algorithm 9.3.2."""

import itertools
import math

import pytest

from dpstats.textbook.staged_inner_products import staged_reduction


@pytest.mark.parametrize(("n", "d"), [(100, 5), (10_000, 1000)])
def test_staged_reduction_spends_its_budget(n, d):
    for constants in ({}, {"floor_constant": 0.1, "step_constant": 0.5}):
        stages = staged_reduction(n, d, 1.0, 0.5, **constants)
        assert len(stages) <= math.ceil(math.log(n))
        assert sum(s.epsilon for s in stages) <= 1 + 1e-12
        assert all(s.epsilon == stages[0].epsilon for s in stages)
        assert all(a.Delta >= b.Delta for a, b in itertools.pairwise(stages))
    # The printed constants: nd is already below Delta*, and the test is a single stage.
    printed = staged_reduction(n, d, 1.0, 0.5)
    assert [s.Delta for s in printed] == [n * d]
    assert printed[0].sensitivity == 4 * d * (n - 1)
