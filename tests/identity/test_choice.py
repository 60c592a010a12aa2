"""One call chooses a test by public facts."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.errors import InvalidData
from dpstats.identity import RowDistanceTest, SpatialSignTest, identity_test
from dpstats.identity.choice import automatic_test
from tests.identity.every_test import FAST, NULL_ROWS


def test_identity_test_chooses_by_public_facts() -> None:
    assert identity_test(NULL_ROWS, random_state=0, **FAST).test == "Spatial sign"
    wide = np.random.default_rng(0).standard_normal((60, 8))
    assert identity_test(wide, random_state=0, **FAST).test == "Row distance"
    signs = identity_test((wide > 0).astype(float), null="product", random_state=0, **FAST)
    assert signs.null == "the rows are independent signs with the public means" and not signs.reject
    many = np.zeros((10_001, 8))
    assert identity_test(many, random_state=0, **FAST).test == "Spatial sign"
    chosen = {(n, d): automatic_test(n, d) for n in (100, 10_000, 10_001) for d in (1, 7, 8, 100, 101)}
    assert {size for size, kind in chosen.items() if kind is RowDistanceTest} == {
        (100, 8), (100, 100), (100, 101), (10_000, 8), (10_000, 100),
    }  # fmt: skip
    assert set(chosen.values()) == {RowDistanceTest, SpatialSignTest}
    with pytest.raises(InvalidData, match="table"):
        identity_test(np.zeros(3))
