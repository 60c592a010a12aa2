"""Conformal intervals and sets: coverage, models, groups, refusals, reports."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression

from dpstats.auditing import check_sensitivity
from dpstats.conformal import PrivateConformalClassifier, PrivateConformalRegressor
from dpstats.errors import InvalidData, InvalidParameter
from dpstats.privacy import BudgetExceeded, PrivacyBudget
from dpstats.regression import PrivateLinearRegression
from dpstats.release.receipts import verify_receipt
from tests.conformal.models import Zero

PUBLIC: dict[str, Any] = {"training": "public", "random_state": 0}


def residual_data(draw: Any, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return np.zeros((n, 1)), draw(rng, n)


def two_atoms(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.where(rng.random(n) < 0.89, 0.1, 1.0)


def gap(rng: np.random.Generator, n: int) -> np.ndarray:
    # A wide gap just below the level, where the plain rank covers less than it says.
    return np.where(rng.random(n) < 0.88, 1e-3 * (1 + rng.random(n)), 50 + rng.random(n))


def integers(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.poisson(3.0, n).astype(float)


LAWS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "cauchy": lambda rng, n: rng.standard_cauchy(n),
    "two atoms": two_atoms,
    "gap": gap,
    "integers": integers,
    "all equal": lambda rng, n: np.full(n, 3.0),
}


@pytest.mark.parametrize("draw", LAWS.values(), ids=LAWS)
def test_intervals_cover_any_distribution(draw: Any) -> None:
    # The mean coverage over 50 fits, each on its own rows, has a standard error of 0.005 at most.
    covered = []
    for seed in range(50):
        X, y = residual_data(draw, 200, seed)
        made = PrivateConformalRegressor(Zero(), score_bounds=100, training="public", random_state=seed)
        low, high = made.fit(X, y).predict_interval(np.zeros((2000, 1)))
        new = draw(np.random.default_rng([1, seed]), 2000)
        covered.append(np.mean((low <= new) & (new <= high)))
    assert np.mean(covered) >= 0.9 - 4 * np.std(covered) / np.sqrt(50)


def linear(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, X @ [1.0, -2.0] + (0.2 + np.abs(X[:, 0])) * rng.normal(size=n)


def test_a_scale_model_makes_widths_follow_the_spread() -> None:
    X, y = linear(6000)

    class Spread:
        def predict(self, X: Any) -> np.ndarray:
            return 0.2 + np.abs(np.asarray(X)[:, 0])

    model = LinearRegression().fit(X[:2000], y[:2000])
    made = PrivateConformalRegressor(model, scale_estimator=Spread(), score_bounds=50, **PUBLIC)
    low, high = made.fit(X[2000:4000], y[2000:4000]).predict_interval(X[4000:])
    width, small = high - low, np.abs(X[4000:, 0]) < 0.3
    assert width[small].mean() < 0.5 * width[~small].mean()
    inside = (low <= y[4000:]) & (y[4000:] <= high)
    assert inside[small].mean() > 0.86 and inside[~small].mean() > 0.86


def test_a_spread_that_is_not_positive_has_an_infinite_interval() -> None:
    class Odd:
        def predict(self, X: Any) -> np.ndarray:
            return np.asarray(X)[:, 0]

    X = np.column_stack([np.where(np.arange(1000) % 50 == 0, -1.0, 1.0)])
    made = PrivateConformalRegressor(Zero(), scale_estimator=Odd(), score_bounds=9, **PUBLIC)
    low, high = made.fit(X, np.linspace(-1, 1, 1000)).predict_interval([[1.0], [0.0], [-1.0]])
    assert np.isfinite(high).tolist() == [True, False, False] and low[1] == -np.inf


class Quantile:
    """Limits of half of the outcomes of `linear`, or wider ones."""

    def __init__(self, side: float, factor: float = 1.0) -> None:
        self.side, self.factor = side, factor

    def predict(self, X: Any) -> np.ndarray:
        X = np.asarray(X)
        return X @ [1.0, -2.0] + self.side * self.factor * 0.67 * (0.2 + np.abs(X[:, 0]))


@pytest.mark.parametrize(("factor", "sign"), [(1.0, 1), (6.0, -1)])
def test_limits_of_quantile_models_are_moved_outward_or_inward(factor: float, sign: int) -> None:
    X, y = linear(12_000)
    made = PrivateConformalRegressor(
        Quantile(-1, factor), upper_estimator=Quantile(1, factor), score_bounds=20, **PUBLIC
    ).fit(X[:6000], y[:6000])
    assert np.sign(made.half_width_) == sign
    low, high = made.predict_interval(X[6000:])
    inside = (low <= y[6000:]) & (y[6000:] <= high)
    assert 0.89 < inside.mean() < 0.94 and (low <= high).all()
    np.testing.assert_allclose(made.predict(X[6000:]), X[6000:] @ [1.0, -2.0], atol=1e-12)
    # Crossed models are put in order.
    again = PrivateConformalRegressor(
        Quantile(1, factor), upper_estimator=Quantile(-1, factor), score_bounds=20, **PUBLIC
    ).fit(X[:6000], y[:6000])
    assert again.half_width_ == made.half_width_


def test_limits_that_pass_each_other_are_their_middle() -> None:
    X = np.zeros((2000, 2))
    made = PrivateConformalRegressor(
        Quantile(-1, 50), upper_estimator=Quantile(1, 50), score_bounds=(-9, 20), **PUBLIC
    ).fit(X, np.zeros(2000))
    low, high = made.predict_interval([[0.0, 0.0]])
    assert made.half_width_ == pytest.approx(-6.7, abs=0.1) and low[0] <= 0 <= high[0]
    made.half_width_ = -9.0
    low, high = made.predict_interval([[0.0, 0.0]])
    assert low[0] == high[0] == 0


def test_public_bounds_cut_the_intervals() -> None:
    X, y = linear(1000)
    made = PrivateConformalRegressor(Zero(), score_bounds=50, y_bounds=(-1, 2), **PUBLIC)
    low, high = made.fit(X, y).predict_interval(X[:5])
    assert (low == -1).all() and (high == 2).all()


def test_groups_are_covered_each() -> None:
    rng = np.random.default_rng(0)

    def sample(n: int) -> tuple[pd.DataFrame, np.ndarray]:
        group = rng.choice(["a", "b", "other"], size=n, p=[0.6, 0.35, 0.05])
        x = rng.normal(size=n)
        return pd.DataFrame({"x": x, "g": group}), x + np.where(group == "a", 0.1, 2.0) * rng.normal(size=n)

    model = LinearRegression().fit(*((f := sample(500))[0][["x"]], f[1]))
    X, y = sample(4000)
    # The last group has a finite interval, and rows of no declared group do not have it.
    options = {"groups": ["c", "a", "b"], "by": "g", "score_bounds": 50}
    made = PrivateConformalRegressor(model, **options, **PUBLIC).fit(X, y)
    assert made.half_width_[1] < 0.5 < made.half_width_[2] < np.inf == made.half_width_[0]
    assert made.groups_ == ("c", "a", "b") and made.counts_.shape == (3,)
    new, outcome = sample(4000)
    low, high = made.predict_interval(new)
    inside = (low <= outcome) & (outcome <= high)
    for label in ("a", "b"):
        assert 0.87 < inside[(new["g"] == label).to_numpy()].mean() < 0.97
    assert (high[(new["g"] == "other").to_numpy()] == np.inf).all()
    assert "infinite: c." in " ".join(made.summary().notes)


def test_sets_have_the_class() -> None:
    rng = np.random.default_rng(0)
    X = 2 * rng.normal(size=(6000, 3))
    y = np.array(["red", "green", "blue"])[np.argmax(X + rng.gumbel(size=X.shape), axis=1)]
    model = LogisticRegression().fit(X[:1000], y[:1000])
    made = PrivateConformalClassifier(model, **PUBLIC).fit(X[1000:3000], y[1000:3000])
    sets = made.predict_set(X[3000:])
    place = np.searchsorted(made.classes_, y[3000:])
    assert 0.88 < sets[np.arange(3000), place].mean() < 0.94 and sets.sum(axis=1).mean() < 2
    assert (made.predict(X[:50]) == model.predict(X[:50])).all()
    with pytest.raises(InvalidData, match="classes_"):
        made.fit(X[:100], np.where(np.arange(100) == 7, "pink", y[:100]))


def test_a_model_of_a_frame_gets_its_columns() -> None:
    X, y = linear(900)
    frame = pd.DataFrame(X, columns=["u", "v"])
    model = LinearRegression().fit(frame, y)
    made = PrivateConformalRegressor(model, score_bounds=9, **PUBLIC).fit(frame[["v", "u"]], y)
    expected = PrivateConformalRegressor(model, score_bounds=9, **PUBLIC).fit(frame, y).half_width_
    assert made.half_width_ == expected
    assert np.allclose(made.predict(frame[["v", "u"]]), model.predict(frame))


def test_missing_entries_are_the_models_affair() -> None:
    X, y = linear(600)
    X[::7, 0] = np.nan
    boosted = HistGradientBoostingRegressor(max_iter=5).fit(X, y)
    made = PrivateConformalRegressor(boosted, score_bounds=50, **PUBLIC).fit(X, y)
    assert np.isfinite(made.predict_interval(X)[0]).all()
    with pytest.raises(InvalidData, match="finite"):
        PrivateConformalRegressor(LinearRegression().fit(X[1:5], y[1:5]), score_bounds=5, **PUBLIC).fit(X, y)


def test_a_private_model_tells_its_guarantee() -> None:
    X, y = linear(3000)
    budget = PrivacyBudget(1.0)
    model = PrivateLinearRegression(x_bounds=(-4, 4), y_bounds=(-15, 15), random_state=0).fit(X[:2000], y[:2000])
    made = PrivateConformalRegressor(model, score_bounds=50, training="private", budget=budget)
    made.fit(X[2000:], y[2000:])
    assert "(epsilon = 1, delta = 1e-06)" in str(made.summary()) and budget.spent.epsilon == 1.0
    assert all(check.passed for check in verify_receipt(made.receipt().to_json()))
    assert "exchangeable" in made.methods_text()
    with pytest.raises(BudgetExceeded):
        made.fit(X[2000:], y[2000:])


def test_unprotected_training_is_said_everywhere() -> None:
    X, y = linear(500)
    made = PrivateConformalRegressor(Zero(), score_bounds=50, training="unprotected", random_state=0).fit(X, y)
    for text in (str(made.summary()), str(made.plan_), made.methods_text(), str(made.receipt().content)):
        assert "unprotected" in text
    public = made.set_params(training="public").fit(X, y).summary().notes
    assert len(made.set_params(training="unprotected").fit(X, y).summary().notes) == len(public) + 1


@pytest.mark.parametrize(
    ("changes", "parameter"),
    [
        ({"training": None}, "training"),
        ({"training": "yes"}, "training"),
        ({"estimator": LinearRegression()}, "estimator"),
        ({"estimator": None}, "estimator"),
        ({"scale_estimator": 3}, "scale_estimator"),
        ({"score_bounds": None}, "score_bounds"),
        ({"score_bounds": (5, 1)}, "score_bounds"),
        ({"score_bounds": 1e308, "upper_estimator": Zero()}, "score_bounds"),
        ({"score_bounds": 1e-320, "upper_estimator": Zero()}, "score_bounds"),
        ({"alpha": 1.0}, "alpha"),
        ({"n_points": 2}, "n_points"),
        ({"y_bounds": (1, 0)}, "y_bounds"),
        ({"groups": ["a"]}, "by"),
        ({"by": "g"}, "groups"),
    ],
)
def test_refusals_name_the_parameter(changes: dict[str, Any], parameter: str) -> None:
    budget = PrivacyBudget(1.0)
    given = {"estimator": Zero(), "score_bounds": 9.0, "training": "public", "budget": budget, **changes}
    with pytest.raises(InvalidParameter) as caught:
        PrivateConformalRegressor(**given).fit(*linear(300))
    assert caught.value.parameter == parameter and budget.spent.epsilon == 0


def test_too_few_rows_are_refused_with_the_number_that_suffices() -> None:
    made = PrivateConformalRegressor(Zero(), score_bounds=9, epsilon=0.1, **PUBLIC)
    with pytest.raises(InvalidParameter, match="at least") as caught:
        made.plan(50, 1)
    assert caught.value.allowed is not None
    least = int(caught.value.allowed.split()[2].replace(",", ""))
    assert made.plan(least, 1).rank == least


def test_a_failing_model_shows_no_entry() -> None:
    class Fails:
        def predict(self, X: Any) -> np.ndarray:
            raise ValueError(f"bad entry {X[0, 0]}")

    with pytest.raises(InvalidData, match=r"estimator\.predict") as caught:
        PrivateConformalRegressor(Fails(), score_bounds=9, **PUBLIC).fit([[48271.5]] * 100, np.ones(100))
    assert "48271" not in str(caught.value) and caught.value.__context__ is None


def test_clones_and_copies_keep_the_model() -> None:
    X, y = linear(500)
    model = LinearRegression().fit(X, y)
    made = PrivateConformalRegressor(model, score_bounds=9, **PUBLIC).fit(X, y)
    assert clone(made).estimator is model and not hasattr(clone(made), "half_width_")
    assert copy.deepcopy(made).estimator is model
    again = pickle.loads(pickle.dumps(made))
    assert str(again.summary()) == str(made.summary()) and again.to_dict() == made.to_dict()
    assert np.array_equal(again.predict_interval(X)[0], made.predict_interval(X)[0])


def test_rounding_never_takes_an_end_inside() -> None:
    # All residuals equal a finite point, as rows on a grid have it.
    X = np.linspace(1, 50, 400)[:, None]

    class First:
        def predict(self, X: Any) -> np.ndarray:
            return np.asarray(X)[:, 0] / 3

    y = X[:, 0] / 3 + 0.1
    made = PrivateConformalRegressor(First(), score_bounds=(0.1, 10), n_points=40, epsilon=50.0, **PUBLIC)
    low, high = made.fit(X, y).predict_interval(X)
    assert ((low <= y) & (y <= high)).all() and high[0] - low[0] < 0.3
    # Each row again, with its own residual as the half-width: 3.67 + 0.1 may be less than y by a rounding.
    for row, outcome in zip(X[::3], y[::3], strict=True):
        made.half_width_ = float(abs(outcome - row[0] / 3))
        low, high = made.predict_interval([row])
        assert low[0] <= outcome <= high[0]


@pytest.mark.parametrize("label", ["a", "b", "nobody"])
def test_a_row_that_changes_its_group_moves_what_the_plan_declares(label: str) -> None:
    frame = pd.DataFrame({"x": np.zeros(40), "g": np.repeat(["a", "b"], 20)})
    y = np.tile(np.repeat([0.0, 9.0], 10), 2)
    other, moved = frame.copy(), y.copy()
    other.loc[0, "g"], moved[0] = label, 99.0
    options = {"groups": ["a", "b"], "by": "g", "score_bounds": (1, 100), "n_points": 64, "epsilon": 4.0}
    made = PrivateConformalRegressor(Zero(), training="public", **options)
    check = check_sensitivity(made, (frame, y), (other, moved))
    assert not check.violated
    ratios = {item.stage: item.ratio for item in check.movements}
    assert ratios["score"] == {"a": 0.5, "b": 0.75, "nobody": 0.25}[label]
    assert ratios["rows of each group"] == {"a": 0.0, "b": 1.0, "nobody": 0.5}[label]


def test_required_rows_aim_at_little_more_than_the_coverage() -> None:
    plain = PrivateConformalRegressor(Zero(), score_bounds=10, **PUBLIC)
    rows = plain.required_samples(0.01)
    assert all((plain.plan(n, 1).rank + 1) / (n + 1) <= 0.91 for n in range(rows, rows + 30))
    assert plain.required_samples(0.02) < 0.6 * rows
    grouped = clone(plain).set_params(groups=["a", "b"], by="group")
    of_group = grouped.required_samples(0.02)
    rule = grouped.plan(2 * of_group, 1).rule
    assert rule.least <= of_group and rule.rank(of_group) + 1 <= 0.92 * (of_group + 1)
    with pytest.raises(InvalidParameter, match="excess must be larger"):
        plain.required_samples(1e-12)


def test_required_rows_refuse_what_a_plan_refuses() -> None:
    with pytest.raises(InvalidParameter, match="training must"):
        PrivateConformalRegressor(Zero(), score_bounds=10).required_samples()
    with pytest.raises(InvalidParameter, match="excess must"):
        PrivateConformalRegressor(Zero(), score_bounds=10, **PUBLIC).required_samples(2.0)


class Relative(Zero):
    """Predicts the distance of each row from a number of all."""

    def __init__(self, number: Any = np.mean) -> None:
        self.number = number

    def predict(self, X: Any) -> Any:
        return X[:, 0] - self.number(X[:, 0])


@pytest.mark.parametrize("number", [np.mean, np.min, np.max])
@pytest.mark.parametrize("name", ["estimator", "upper_estimator", "scale_estimator"])
def test_a_model_that_looks_at_other_rows_is_refused_before_the_charge(name: str, number: Any) -> None:
    budget = PrivacyBudget(1.0)
    models = {"estimator": Zero(), name: Relative(number)}
    made = PrivateConformalRegressor(**models, score_bounds=10, training="public", epsilon=1.0, budget=budget)
    with pytest.raises(InvalidParameter, match="each row from this row alone") as refused:
        made.fit(np.zeros((500, 1)), np.zeros(500))
    assert refused.value.parameter == name and budget.spent.epsilon == 0


def test_a_model_that_predicts_at_random_is_not_refused() -> None:
    class Random(Zero):
        def predict(self, X: Any) -> Any:
            return np.random.default_rng().normal(size=len(X))

    made = PrivateConformalRegressor(Random(), score_bounds=10, training="public", random_state=0)
    assert made.fit(np.zeros((500, 1)), np.zeros(500)).half_width_ > 0
