"""Outputs are the same, differ, or cannot be told apart: item by item."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpstats.auditing.sensitivity import compare_outputs


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
    assert compare_outputs(made(2.5), made(2.5)) == (set(), set())
    assert compare_outputs(made(float("nan")), made(float("nan"))) == (set(), set())
    differ, unknown = compare_outputs(made(2.5), made(np.nextafter(2.5, 3)))
    assert differ and not unknown


def test_what_is_not_understood_is_not_the_same() -> None:
    strange = object()
    for made in (lambda x: x, lambda x: [x], lambda x: {"a": x}, lambda x: Pair(x, 1), lambda x: {x}):
        assert compare_outputs(made(strange), made(strange))[1]
    # What can be compared beside it is compared.
    differ, unknown = compare_outputs((1.0, strange), (2.0, strange))
    assert differ == {("0",)} and unknown == {("1",)}
    # The same list is compared, and one that holds itself comes to an end.
    cycle: list[Any] = [1]
    cycle.append(cycle)
    assert compare_outputs(cycle, cycle) == (set(), set())
    assert compare_outputs([1, 2], [1])[0] == compare_outputs(1, 1.0)[0] == {()}
    assert compare_outputs({"a": 1, "b": 2}, {"b": 2, "a": 1})[0]


class Kept(np.ndarray):
    """An array that may keep anything."""


class Number(float):
    """A number that may keep anything."""


class Names(dict):
    """A mapping that may keep anything."""


def with_note(made: Any, note: Any) -> Any:
    made.note = note
    return made


def with_payload(payload: int) -> Any:
    return np.array([0x7FF8000000000000 + payload], dtype=np.uint64).view(np.float64).copy()


@pytest.mark.parametrize(
    "made",
    [
        lambda secret: np.array([1.0, 2.0, secret])[:2],
        lambda secret: np.broadcast_to(np.array([[1.0], [secret]])[0], (3,)),
        lambda secret: with_note(np.zeros(2).view(Kept), secret),
        lambda secret: with_note(Number(1.0), secret),
        lambda secret: with_note(Names(a=1), secret),
        lambda secret: with_payload(secret),
        lambda secret: float(with_payload(secret)[0]),
        lambda secret: with_payload(secret)[0],
        lambda secret: pd.Categorical(["a"], categories=["a", f"level {secret}"]).to_numpy(),
        lambda secret: pd.Series(pd.Categorical(["a"], categories=["a", f"level {secret}"])),
        lambda secret: pd.DataFrame({"x": pd.Categorical(["a"], categories=["a", f"level {secret}"])}),
        lambda secret: pd.Series([1.0], index=pd.CategoricalIndex(["a"], categories=["a", f"level {secret}"])),
    ],
)
def test_what_an_output_carries_beside_its_values_is_seen(made: Any) -> None:
    differ, unknown = compare_outputs(made(1), made(2))
    carried = not isinstance(made(1), np.ndarray) or made(1).dtype != object
    assert bool(differ or unknown) == carried
    assert compare_outputs(made(1), made(1)) == (set(), set())


def test_what_is_shared_is_compared_wherever_it_is() -> None:
    def made(x: float) -> list[Any]:
        shared, inner = [x], {"a": 1}
        return [inner, shared, {"again": shared, "inner": inner}]

    assert compare_outputs(made(2.5), made(2.5)) == (set(), set())
    assert compare_outputs(made(2.5), made(3.5))[0] == {("1", "0"), ("2", "'again'", "0")}

    def cyclic(x: float) -> list[Any]:
        whole: list[Any] = [[], x]
        whole[0].append(whole)
        return [whole[0], whole]

    # What holds something that differs is not equal, though the difference is found at another place.
    assert compare_outputs(cyclic(2.5), cyclic(2.5)) == (set(), set())
    assert compare_outputs(cyclic(2.5), cyclic(3.5))[0] == {("0", "0", "1"), ("1", "1")}
