"""Points and columns that were chosen together are a set: given in another order, all that follows is the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpstats.means.sparse_selection import SUPPORT
from dpstats.quantiles.quantile_plan import POINTS
from dpstats.release.witness import Witness
from tests.nets.calls import ESTIMATORS, VARIANTS, Call
from tests.nets.told import tell

SETS = {POINTS, SUPPORT}
"""Stages that choose a set."""
ALL = {**ESTIMATORS, **VARIANTS}
CHOOSING = ["PrivateQuantile", "SparseMean", *(name for name in VARIANTS if name.startswith("quantiles"))]


def run(call: Call, witness: Witness) -> list[Any]:
    """Return what a fit asks its stages, and all that it says."""
    made = call(**{**call.given, "random_state": witness})
    asked = [(seen.stage.name, repr(seen.given)) for seen in witness.seen if seen.stage.name not in SETS]
    return [asked, repr(list(tell(made)))]


@pytest.mark.parametrize("name", CHOOSING)
def test_what_was_chosen_in_another_order_is_the_same(name: str) -> None:
    first = Witness()
    wanted = run(ALL[name], first)
    chosen = next(seen for seen in first.seen if seen.stage.name in SETS)
    for order in (np.arange(chosen.stage.size)[::-1], np.roll(np.arange(chosen.stage.size), 1)):
        moved = chosen._replace(outcome=tuple(np.asarray(one)[order] for one in chosen.outcome))
        again = Witness(first=[moved if seen is chosen else seen for seen in first.seen])
        assert run(ALL[name], again) == wanted
