"""Outputs are the same, differ, or cannot be told apart: item by item."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpstats.auditing.compared import compared


@dataclass
class Pair:
    """Two items."""

    a: Any
    b: Any


MADE = [
    lambda x: x,
    lambda x: np.array([1.0, x]),
    lambda x: np.array(["a", x], dtype=object),
    lambda x: np.ma.masked_array([0.0, x], mask=[True, False]),
    lambda x: [1, {"a": (x, None)}],
    lambda x: {x, "other"},
    lambda x: Pair(1, x),
    lambda x: SimpleNamespace(a=Pair(x, 1)),
    lambda x: pd.Series([1.0, x]),
    lambda x: pd.DataFrame({"a": [1.0, x]}),
    lambda x: pd.Series([1.0, 2.0], index=["a", x]),
]


@pytest.mark.parametrize("made", MADE)
def test_items_that_differ_are_seen(made: Any) -> None:
    assert compared(made(2.5), made(2.5)) == (set(), set())
    assert compared(made(float("nan")), made(float("nan"))) == (set(), set())
    differ, unknown = compared(made(2.5), made(np.nextafter(2.5, 3)))
    assert differ and not unknown


def test_what_is_not_understood_is_not_the_same() -> None:
    strange = object()
    for made in (lambda x: x, lambda x: [x], lambda x: {"a": x}, lambda x: Pair(x, 1), lambda x: {x}):
        assert compared(made(strange), made(strange))[1]
    # What can be compared beside it is compared.
    differ, unknown = compared((1.0, strange), (2.0, strange))
    assert differ == {("0",)} and unknown == {("1",)}
    # The same list is compared, and one that holds itself comes to an end.
    cycle: list[Any] = [1]
    cycle.append(cycle)
    assert compared(cycle, cycle) == (set(), set())
    assert compared([1, 2], [1])[0] == compared(1, 1.0)[0] == {()}
    assert compared({"a": 1, "b": 2}, {"b": 2, "a": 1})[0]
