"""One call chooses a test by public facts."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.errors import InvalidData
from dpstats.identity import RowDistanceTest, SpatialSignTest, identity_test
from dpstats.identity.choice import automatic_test
from tests.identity.every_test import FAST, NULL_ROWS


def test_identity_test_chooses_by_public_facts() -> None:
    assert identity_test(NULL_ROWS, random_state=0, **FAST).test == "Row distance"
    many = np.zeros((10_001, 1))
    assert identity_test(many, random_state=0, **FAST).test == "Spatial sign"
    assert automatic_test(10_000, 1) is RowDistanceTest and automatic_test(10_000, 101) is SpatialSignTest
    with pytest.raises(InvalidData, match="table"):
        identity_test(np.zeros(3))
