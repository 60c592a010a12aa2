"""Roots rounded up, against their definition in integers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpstats.lattice import exact_steps, isqrt_up
from tests.lattice.rows import FIXED


@pytest.mark.parametrize(("value", "root"), [(0, 0), (1, 1), (2, 2), (4, 2), (5, 3), (10**40, 10**20)])
def test_isqrt_up(value, root):
    assert isqrt_up(value) == root


@given(st.integers(0, 2**140))
@FIXED
def test_isqrt_up_is_the_least_integer_root_from_above(value):
    root = isqrt_up(value)
    assert root * root >= value and (root == 0 or (root - 1) ** 2 < value)


def test_numbers_are_rounded_to_the_nearest_step():
    values = np.array([0.7, -0.7, 0.5, 1.5, 2.49, -3.51, 1e20])
    assert exact_steps(values[:-1], 1.0).tolist() == [1, -1, 0, 2, 2, -4]
    assert exact_steps(values, 1.0).tolist() == [1, -1, 0, 2, 2, -4, 10**20]
    assert exact_steps(np.array([0.3]), 0.25).tolist() == [1]
