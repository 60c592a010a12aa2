"""Estimators that are saved, copied and sent to other processes, and what becomes of their budgets."""

from __future__ import annotations

import copy
import inspect
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from dpstats.errors import InvalidParameter
from dpstats.means import ClippedMean
from dpstats.privacy import PrivacyBudget
from dpstats.privacy.ledger import LeftBehind
from dpstats.regression import PrivateLinearRegression
from dpstats.release.estimator import PrivateEstimator

sys.path.append(str(Path(__file__).parents[1] / "conformance"))
from registry import ENTRIES

RELEASES = [entry for entry in ENTRIES if entry.public is not None]
ROWS = np.linspace(0, 9, 60)[:, None]


@pytest.fixture(params=[None, "b.db"], ids=["memory", "ledger"])
def budget(request: pytest.FixtureRequest, tmp_path: Path) -> PrivacyBudget:
    return PrivacyBudget(9.0, 1e-3, ledger=request.param and tmp_path / request.param)


def test_a_fitted_estimator_is_saved_without_its_budget(budget: PrivacyBudget, tmp_path: Path) -> None:
    model = ClippedMean(bounds=(0, 9), budget=budget).fit(ROWS)
    joblib.dump(model, tmp_path / "model.joblib")
    for loaded in (pickle.loads(pickle.dumps(model)), joblib.load(tmp_path / "model.joblib")):
        assert loaded.mean_ == model.mean_ and str(loaded.summary()) == str(model.summary())
        assert isinstance(loaded.budget, LeftBehind) and model.budget is budget
        for again in (loaded, clone(loaded), copy.deepcopy(loaded), pickle.loads(pickle.dumps(loaded))):
            with pytest.raises(InvalidParameter, match="saved without its budget"):
                again.fit(ROWS)
        assert "budget left behind" in repr(loaded)
        other = PrivacyBudget(1.0)
        loaded.set_params(budget=other).fit(ROWS)
        assert other.spent.epsilon == 1.0
    assert len(budget.history()) == 1


def test_copies_in_a_process_share_the_budget(budget: PrivacyBudget) -> None:
    model = ClippedMean(bounds=(0, 9), budget=budget).fit(ROWS)
    for made in (copy.copy(model), copy.deepcopy(model), clone(model)):
        assert made.budget is budget
    made = copy.deepcopy(model)
    made.mean_[0] = -1.0
    assert model.mean_[0] != -1.0


def test_a_second_release_of_a_loaded_estimator_is_refused(budget: PrivacyBudget) -> None:
    y = ROWS[:, 0] / 9
    model = PrivateLinearRegression(x_bounds=(0, 9), y_bounds=(0, 1), epsilon=1.0, delta=1e-6, budget=budget)
    loaded = pickle.loads(pickle.dumps(model.fit(ROWS, y)))
    assert np.isfinite(loaded.predict(ROWS)).all()
    with pytest.raises(InvalidParameter, match="saved without its budget"):
        loaded.score(ROWS, y)


def negative_slope(made: Any, X: Any, y: Any) -> float:
    return -abs(float(made.coef_[0]))


def test_a_ledger_pays_in_other_processes(tmp_path: Path) -> None:
    budget = PrivacyBudget(9.0, 1e-3, ledger=tmp_path / "b.db")
    model = PrivateLinearRegression(x_bounds=(0, 9), y_bounds=(0, 1), epsilon=0.5, delta=1e-6, budget=budget)
    search = GridSearchCV(model, {"fit_intercept": [True, False]}, cv=2, n_jobs=2, scoring=negative_slope)
    search.fit(ROWS, ROWS[:, 0] / 9)
    # Four fits in workers, and one of the best here.
    assert len(budget.history()) == 5
    (tmp_path / "search.pickle").write_bytes(pickle.dumps(search))
    code = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb')).best_estimator_.budget)"
    words = [sys.executable, "-c", code, str(tmp_path / "search.pickle")]
    (tmp_path / "b.db").rename(tmp_path / "c.db")
    shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert shown == "<budget left behind>\n"


def test_a_budget_in_memory_does_not_pay_in_other_processes() -> None:
    model = ClippedMean(bounds=(0, 9), budget=PrivacyBudget(9.0))
    with pytest.raises(InvalidParameter, match="saved without its budget"):
        joblib.Parallel(n_jobs=2)(joblib.delayed(model.fit)(ROWS) for _ in range(2))


def test_a_pipeline_is_saved(budget: PrivacyBudget) -> None:
    pipeline = make_pipeline(FunctionTransformer(), ClippedMean(bounds=(0, 9), budget=budget)).fit(ROWS)
    loaded = pickle.loads(pickle.dumps(pipeline))
    assert isinstance(loaded[-1].budget, LeftBehind) and loaded[-1].mean_ == pipeline[-1].mean_


@pytest.mark.parametrize("entry", RELEASES, ids=lambda entry: str(entry.name))
def test_every_fitted_estimator_is_saved(entry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fits of the registry, with a budget in memory."""
    fitted: list[Any] = []
    for kind in {PrivateEstimator, *(k for k in subclasses(PrivateEstimator) if "fit" in vars(k))}:
        monkeypatch.setattr(kind, "fit", noting(vars(kind)["fit"], fitted))
    budget = PrivacyBudget(1e6, 0.99, neighbors=entry.claim.neighbors)
    entry.public(entry.dataset, budget)
    for made in fitted:
        # An open stream cannot be saved, and a class inside a function has no name.
        if made.budget is None or "_conversation" in vars(made) or "<locals>" in type(made).__qualname__:
            continue
        loaded = pickle.loads(pickle.dumps(made))
        assert isinstance(loaded.budget, LeftBehind)
        assert str(loaded.summary()) == str(made.summary())
        assert copy.copy(made).budget is made.budget and copy.deepcopy(made).budget is made.budget


def noting(fit: Any, fitted: list[Any]) -> Any:
    def note(self: Any, *arguments: Any, **options: Any) -> Any:
        fitted.append(self)
        return fit(self, *arguments, **options)

    note.__signature__ = inspect.signature(fit)  # type: ignore[attr-defined]
    return note


def subclasses(kind: type) -> set[type]:
    return set(kind.__subclasses__()).union(*(subclasses(each) for each in kind.__subclasses__()))
