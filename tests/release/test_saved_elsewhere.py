"""Estimators that MLflow and skops save: without their budgets, and with the numbers that they had."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer

from dpstats.conformal import PrivateConformalRegressor
from dpstats.covariance import PrivateCovariance
from dpstats.groups import GroupMeans
from dpstats.privacy import Neighbors, PrivacyBudget
from dpstats.privacy.ledger import LeftBehind
from dpstats.quantiles import PrivateMedian
from dpstats.regression import PrivateLinearRegression, PrivateLogisticRegression

ROWS = np.linspace(0, 9, 60)[:, None]


def other_models() -> list[Any]:
    """Fitted estimators of several kinds, each with the budget that paid for it."""
    budget, x = PrivacyBudget(99.0, 1e-3), ROWS / 9
    changing = PrivacyBudget(99.0, 1e-3, neighbors=Neighbors.ADD_OR_REMOVE_ONE)
    wards = np.arange(60) % 2
    line = PrivateLinearRegression(x_bounds=(0, 1), y_bounds=(0, 1), delta=1e-6, budget=budget).fit(x, x[:, 0])
    frame = pd.DataFrame({"x": x[:, 0], "ward": wards})
    return [
        line,
        make_pipeline(FunctionTransformer(), clone(line)).fit(x, x[:, 0]),
        PrivateLogisticRegression(x_bounds=(0, 1), epsilon=9.0, delta=1e-6, budget=budget).fit(x, wards),
        PrivateConformalRegressor(line, score_bounds=9, training="private", alpha=0.4, budget=budget).fit(x, x[:, 0]),
        GroupMeans(bounds={"x": (0, 1)}, by="ward", groups=[0, 1], neighbors="add_or_remove", budget=changing).fit(
            frame
        ),
        PrivateMedian(bounds=(0, 1), budget=budget).fit(x),
        PrivateCovariance(bounds=(0, 1), budget=budget).fit(np.hstack([x, x])),
    ]


def of_budget(model: Any) -> Any:
    return model[-1].budget if isinstance(model, Pipeline) else model.budget


@pytest.mark.filterwarnings("ignore")  # MLflow warns of its own defaults
@pytest.mark.parametrize("library", ["skops", "mlflow", "mlflow with cloudpickle"])
def test_other_libraries_save_estimators_without_their_budgets(library: str, tmp_path: Path) -> None:
    skops = pytest.importorskip("skops.io")
    mlflow = pytest.importorskip("mlflow.sklearn") if library.startswith("mlflow") else None
    for place, model in enumerate(other_models()):
        path = tmp_path / str(place)
        trusted = skops.get_untrusted_types(data=skops.dumps(model))
        assert all(name.startswith("dpstats.") for name in trusted)
        if mlflow is None:
            skops.dump(model, path)
            loaded = skops.load(path, trusted=trusted)
        else:
            given = {"skops_trusted_types": trusted} if library == "mlflow" else {"serialization_format": "cloudpickle"}
            mlflow.save_model(model, path, **given, pip_requirements=["dpstats"])
            loaded = mlflow.load_model(str(path))
        assert isinstance(of_budget(loaded), LeftBehind) and isinstance(of_budget(model), PrivacyBudget)
        last, right = (one[-1] if isinstance(one, Pipeline) else one for one in (loaded, model))
        assert str(last.summary()) == str(right.summary())
        assert last.privacy_.neighbors is right.privacy_.neighbors
        if isinstance(model, PrivateLinearRegression | PrivateLogisticRegression | Pipeline):
            np.testing.assert_array_equal(loaded.predict(ROWS / 9), model.predict(ROWS / 9))


@pytest.mark.parametrize("relation", Neighbors)
def test_a_relation_is_saved_as_the_call_that_finds_it(relation: Neighbors) -> None:
    # skops writes what `__reduce__` returns, if it is a call of the class, and makes no member otherwise.
    kind, given = relation.__reduce__()
    assert kind(*given) is relation
    assert all(pickle.loads(pickle.dumps(relation, protocol)) is relation for protocol in range(6))
