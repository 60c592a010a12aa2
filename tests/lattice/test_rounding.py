"""Roots rounded up, against their definition in integers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpstats.lattice import isqrt_up
from tests.lattice.rows import FIXED


@pytest.mark.parametrize(("value", "root"), [(0, 0), (1, 1), (2, 2), (4, 2), (5, 3), (10**40, 10**20)])
def test_isqrt_up(value, root):
    assert isqrt_up(value) == root


@given(st.integers(0, 2**140))
@FIXED
def test_isqrt_up_is_the_least_integer_root_from_above(value):
    root = isqrt_up(value)
    assert root * root >= value and (root == 0 or (root - 1) ** 2 < value)
