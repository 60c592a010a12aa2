"""Columns of the other sign turn estimates round: each keeps its error, and lower limits become upper ones.

The noise is negligible here, as it does not turn with the rows.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.nets.cases import CASES, Given, fit
from tests.nets.numbers import report

TURNED = Given(columns=np.full(3, -1.0), outcome=-1.0, epsilon=1e6)
ROOM = 2e-3
TURNING = (
    *("mean", "adaptive", "sparse", "variance", "groups", "units", "linear", "sufficient", "functional"),
    *("logistic", "counts", "gamma", "components", "correlation", "covariance"),
)
"""Cases with estimates that have a sign, or are of squares."""
NAMES = [name for name in CASES if name.startswith(TURNING)]


def near(one: np.ndarray, other: np.ndarray) -> bool:
    return np.allclose(one, other, rtol=5e-3, atol=ROOM, equal_nan=True)


@pytest.mark.parametrize("name", NAMES)
def test_rows_of_the_other_sign_turn_round(name: str) -> None:
    make, asked = CASES[name]
    one, other = fit(name, epsilon=1e6), report(make(TURNED), asked)
    assert one.keys() == other.keys()
    estimate, turned = one["estimates.estimate"], other["estimates.estimate"]
    assert near(np.abs(turned), np.abs(estimate))
    assert near(other["estimates.error"], one["estimates.error"])
    down = np.sign(turned) != np.sign(estimate)
    for together in ("", ", together"):
        for side, opposite in (("two-sided", "two-sided"), ("less", "greater"), ("greater", "less")):
            low, high = (f"interval, {side}{together}.{end}" for end in ("low", "high"))
            if low not in one or f"interval, {opposite}{together}.low" not in one:
                continue
            wanted = {
                low: np.where(down, -one[f"interval, {opposite}{together}.high"], one[low]),
                high: np.where(down, -one[f"interval, {opposite}{together}.low"], one[high]),
            }
            for place, ends in wanted.items():
                assert near(other[place], ends), (place, other[place], ends)
