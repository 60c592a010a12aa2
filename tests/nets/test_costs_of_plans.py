"""Plans with other parameters cost what they state: the stages of each, composed by the accountant.

Conformance entries have the parameters at which a release is proved. Here each parameter has other values that its
estimator accepts, so that costs which a number of outputs, groups or rounds multiplies are counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sklearn.base import clone

from dpstats.errors import DPStatsError
from dpstats.privacy import compose
from tests.nets.test_one_way_out import EVERY, fitted

VALUES = (2, 3, 20, 0.5, True, False)
DELTAS = (0.0, 1e-6, 0.01)
ROWS = 1_000_000
UNTRIED = {"budget", "random_state", "cache_dir", "n_jobs", "progress", "n_simulations", "n_calibration"}
"""Parameters that change no noise."""
FEW = {
    *("FilteringTest", "LipschitzExtensionTest", "RowDistanceTest", "StagedInnerProductTest"),
    *("IterativeConstruction", "OnlineMultiplicativeWeights"),
}
"""Estimators whose plans take long for many rows."""


def plans(name: str) -> Iterator[tuple[str, Any]]:
    """Yield the plans of an estimator with one other parameter, at several deltas and for many rows."""
    model = fitted(name)
    sizes = model.plan_.n_samples if name in FEW else ROWS, model.plan_.n_features
    given = model.get_params(deep=False)
    changes = [{}, *({name: value} for name in given.keys() - UNTRIED for value in VALUES)]
    for change in changes:
        for delta in DELTAS if "delta" in given.keys() - change.keys() else (None,):
            asked = {**change, **({} if delta is None else {"delta": delta})}
            try:
                yield str(asked), clone(model).set_params(**asked).plan(*sizes)
            except DPStatsError:
                continue


@pytest.mark.parametrize("name", EVERY)
def test_stages_of_a_plan_cost_what_it_states(name: str) -> None:
    for words, plan in plans(name):
        claim = plan.guarantee
        found = compose(plan.events, claim.delta)
        assert found.epsilon <= claim.epsilon and found.delta <= claim.delta, words
