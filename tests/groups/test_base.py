"""What the estimators of ratios have in common: places of groups."""

from __future__ import annotations

import pytest

from dpstats.errors import InvalidParameter
from dpstats.groups.ratios import place_of_group


def test_the_place_of_a_declared_group() -> None:
    assert place_of_group("a", 2.0, (1, 2, "2")) == 1 and place_of_group("a", "2", (1, 2, "2")) == 2
    with pytest.raises(InvalidParameter, match=r"b must"):
        place_of_group("b", 3, (1, 2))
