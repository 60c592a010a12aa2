"""Bounds of regressions by the names of the columns, and not by their place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpstats.errors import InvalidParameter
from dpstats.privacy import PrivacyBudget
from dpstats.regression import PrivateLinearRegression, PrivateLogisticRegression

BOUNDS = {"a": (0, 1), "b": (-50, 50), "c": (200, 400)}
ORDER = ["c", "a", "b"]
RNG = np.random.default_rng(0)
ROWS = pd.DataFrame({name: RNG.uniform(*pair, size=500) for name, pair in BOUNDS.items()})[ORDER]
Y = (ROWS["a"] + ROWS["b"] / 50 > 0.5).astype(float)
LABELLED = {"mapping": BOUNDS, "frame": pd.DataFrame(BOUNDS, index=["low", "high"]).T}
KINDS = [(PrivateLinearRegression, {"y_bounds": (-1, 2)}), (PrivateLogisticRegression, {})]


@pytest.mark.parametrize("form", LABELLED)
@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_columns_in_another_order_are_the_same_release(kind: Any, options: Any, form: str) -> None:
    by_place = kind(x_bounds=[BOUNDS[name] for name in ORDER], random_state=0, **options)
    by_name = kind(x_bounds=LABELLED[form], random_state=0, **options)
    assert by_name.fit(ROWS, Y).coef_.tolist() == by_place.fit(ROWS, Y).coef_.tolist()
    made = str(by_name.plan_).replace(" [simulated noise, not a private release]", "")  # which a fit adds
    assert str(by_name.plan(500, 3)) == str(by_place.plan(500, 3)) == made
    # By place, the bounds of one column would be another's.
    wrong = kind(x_bounds=[*BOUNDS.values()], random_state=0, **options)
    assert wrong.fit(ROWS, Y).coef_.tolist() != by_name.coef_.tolist()


@pytest.mark.parametrize(("kind", "options"), KINDS)
def test_other_labels_are_refused_before_a_charge(kind: Any, options: Any) -> None:
    budget = PrivacyBudget(10.0, 1e-3)
    model = kind(x_bounds={"a": (0, 1), "b": (-50, 50), "z": (0, 1)}, budget=budget, **options)
    with pytest.raises(InvalidParameter, match=r"^x_bounds must have the columns of X as labels"):
        model.fit(ROWS, Y)
    with pytest.raises(InvalidParameter, match="x_bounds must have no labels"):
        model.fit(ROWS.to_numpy(), Y)
    assert budget.spent.epsilon == 0
