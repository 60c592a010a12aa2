"""Means of groups adjusted for covariates: the door, what it refuses, and what its results say."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from dpstats.cli import main
from dpstats.errors import InvalidData, InvalidParameter
from dpstats.groups import GroupMeans
from dpstats.groups.adjusted_means import AdjustedMeansPlan, outcome_position
from dpstats.privacy import PrivacyBudget

ARMS = ["control", "drug", "rare"]
BOUNDS = {"age": (20, 80), "base": (80, 200), "y": (80, 200)}


def trial(n: int = 6000, seed: int = 0, effect: float = 6.0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    k = rng.choice(3, n, p=[0.45, 0.45, 0.1])
    age, base = rng.uniform(20, 80, n), rng.normal(140, 15, n)
    y = base + 0.2 * (age - 50) - np.array([0, effect, 0])[k] + rng.normal(0, 8, n)
    return pd.DataFrame({"arm": np.array(ARMS)[k], "age": age, "base": base, "y": y})


def estimator(**options: Any) -> GroupMeans:
    given = {"groups": ARMS, "by": "arm", "bounds": BOUNDS, "adjust": ["age", "base"], "random_state": 0}
    return GroupMeans(**(given | options))


def width(found: Any) -> float:
    low, high = found.confidence_interval()
    return float(high[0] - low[0])


def test_adjusted_differences_are_shorter_and_right() -> None:
    frame = trial()
    model = estimator().fit(frame)
    plain = estimator(adjust=None, columns=["y"], bounds={"y": BOUNDS["y"]}).fit(frame)
    found = model.adjusted_difference("drug", "control")
    assert width(found) < 0.7 * width(plain.difference("drug", "control"))
    low, high = found.confidence_interval()
    assert low[0] < -6.0 < high[0]
    assert model.difference("drug", "control").estimate == pytest.approx(found.estimate)
    assert model.means_.shape == model.std_.shape == (3, 1)
    assert model.slopes_ == pytest.approx([0.2, 1.0], abs=5 * model.slopes_standard_errors_.max())
    low, high = model.confidence_interval()
    assert ((low[:, 0] < [140, 134, 140]) & (high[:, 0] > [140, 134, 140])).all()


def test_what_a_fit_answers() -> None:
    model = estimator().fit(trial())
    text = str(model.summary())
    assert "residual std" in text and "randomized" in text
    assert model.anova().pvalue[0] < 1e-3 and "chi-squared" in str(model.anova().summary())
    assert len(model.pairwise().estimate) == 3
    assert model.predict(["drug", "nobody"]).shape == (2, 1)
    assert list(model.estimates().to_frame()["column"]) == ["y"] * 3
    with pytest.raises(InvalidParameter, match="declared groups"):
        model.difference("drug", "control").standardize()
    again = pickle.loads(pickle.dumps(model)).difference("drug", "rare")
    assert again.pvalue == model.difference("drug", "rare").pvalue
    assert isinstance(model.plan_, AdjustedMeansPlan)
    assert "adjusted for 2 covariates" in str(model.plan_)
    assert clone(model).get_params()["adjust"] == ["age", "base"]


def test_arrays_name_covariates_by_position() -> None:
    frame = trial()
    bounds = [BOUNDS[name] for name in ("y", "age", "base")]
    by_position = GroupMeans(groups=ARMS, bounds=bounds, adjust=[1, 2], random_state=0)
    by_position.fit(frame[["y", "age", "base"]].to_numpy(), frame["arm"].to_numpy())
    by_name = estimator(bounds={name: BOUNDS[name] for name in ("y", "age", "base")}).fit(frame)
    assert by_position.means_ == pytest.approx(by_name.means_)


def test_equal_groups_are_rejected_as_often_as_stated() -> None:
    pvalues = [estimator(random_state=seed).fit(trial(3000, seed, effect=0.0)).anova().pvalue[0] for seed in range(40)]
    assert np.mean(np.array(pvalues) < 0.05) <= 0.15


def test_groups_at_a_bound_are_compared() -> None:
    # The limits of their means are moved to the bound too, which left no error for the test.
    frame = trial(1000).assign(y=200.0)
    found = [estimator(random_state=seed, epsilon=5.0).fit(frame).anova() for seed in range(5)]
    assert all(np.isfinite(test.statistic[0]) and test.pvalue[0] > 1e-3 for test in found)


def test_other_groups_are_compared_at_equal_covariates() -> None:
    rng = np.random.default_rng(2)
    k = rng.integers(0, 2, 20_000)
    x = rng.normal(size=20_000) + 1.5 * k
    y = 2 * x + k + rng.normal(size=20_000)
    made = {"groups": [0, 1], "bounds": [(-5, 7), (-12, 18)], "adjust": [0], "random_state": 1}
    for randomized, truth in ((False, 1.0), (True, None)):
        model = GroupMeans(**made, randomized=randomized).fit(np.column_stack([x, y]), k)
        low, high = model.adjusted_difference(1, 0).confidence_interval()
        assert truth is None or low[0] < truth < high[0]
    assert "equal covariates" in str(GroupMeans(**made, randomized=False).fit(np.column_stack([x, y]), k).summary())


def test_clipped_outcomes_are_counted_and_named() -> None:
    def fit(high: float, **options: Any) -> GroupMeans:
        return estimator(bounds=BOUNDS | {"y": (40, high)}, **options).fit(trial(20_000))

    wide, narrow = fit(240, randomized=False), fit(155, randomized=False)
    share = float((trial(20_000)["y"] > 155).mean())
    assert wide.clipped_share_ == pytest.approx(0, abs=4 * wide.clipped_share_std_)
    assert narrow.clipped_share_ == pytest.approx(share, abs=4 * narrow.clipped_share_std_)
    words = "Clipped outcomes may bias means and differences"
    assert words in str(narrow.summary()) and words not in str(wide.summary())
    for other in (fit(240), fit(240, randomized=False, bounds_are="hard")):
        assert not hasattr(other, "clipped_share_")


def test_a_small_group_near_the_bound_has_most_of_the_clipped_outcomes() -> None:
    # 1% of all outcomes are clipped, and a tenth of those in the group.
    rng = np.random.default_rng(0)
    k = (rng.random(20_000) < 0.05).astype(int)
    x = rng.normal(size=20_000) + 0.5 * k
    y = 1 + x + 1.5 * k + rng.normal(size=20_000)
    made: Any = {"groups": [0, 1], "adjust": [0], "epsilon": 20.0, "random_state": 0, "randomized": False}
    fitted = GroupMeans(bounds=np.array([[-4, 5], [-6, 4.8]]), **made).fit(np.column_stack([x, y]), k)
    (note,) = (note for note in fitted.summary().notes if note.startswith("Clipped outcomes"))
    found = fitted.adjusted_difference(1, 0)
    low, high = (float(end[0]) for end in found.confidence_interval())
    bias = (1.5 - (low + high) / 2) / ((high - low) / 3.92)
    assert bias / 3 < float(note.split("differences by ")[1].split()[0]) < 3 * bias


def test_a_covariate_that_noise_hides_is_named() -> None:
    # Its values fill a thousandth of its bounds and differ between groups: no difference is adjusted for it.
    rng = np.random.default_rng(0)
    k = rng.choice(2, size=20_000)
    x = np.column_stack([(rng.normal(size=20_000) * 0.4 + 0.3 * k) * 1e-3, rng.normal(size=20_000) * 0.4])
    y = x @ [500.0, 0.3] + rng.normal(size=20_000) * 0.3
    made = {"groups": (0, 1), "bounds": [(-1, 1), (-1, 1), (-3, 3)], "adjust": [0, 1], "epsilon": 10.0}
    for randomized in (False, True):
        model = GroupMeans(**made, randomized=randomized, random_state=0).fit(np.column_stack([x, y]), k)
        assert np.isnan(model.slopes_).tolist() == [True, False] == np.isnan(model.slopes_standard_errors_).tolist()
        assert "Not adjusted for: x0." in str(model.summary())
        hidden = "" if randomized else ", but for x0"
        for found in (model.difference(1, 0), model.pairwise()):
            assert found.estimand.endswith(f"at equal covariates{hidden}")
        assert f"are equal at equal covariates{hidden}\n" in str(model.anova())


def test_few_rows_are_not_adjusted_and_say_so() -> None:
    model = estimator(epsilon=0.5).fit(trial(300))
    assert "not adjusted" in str(model.summary()) and np.isnan(model.slopes_).all()
    assert model.adjusted_difference("drug", "control").estimate.shape == (1,)


def test_plans_take_the_smaller_noise() -> None:
    both, pure, few = (estimator(**given).plan(n, 3) for n, given in ((6000, {}), (6000, {"delta": 0.0}), (300, {})))
    assert both.has_both_laws and "Laplace in the totals of the residuals" in str(both)
    assert 0.98 < both.guarantee.epsilon <= 1.0 and both.guarantee.delta == 1e-6
    gaussian = estimator(budget=PrivacyBudget(epsilon=2.0, delta=1e-5, method="zcdp")).plan(6000, 3)
    assert gaussian.noise_kinds == {"gaussian"} and both.planned_error < gaussian.planned_error
    for plan in (pure, few):
        assert plan.steps is None and plan.noise_kinds == {"laplace"} and plan.guarantee.delta == 0
    assert few.delta_asked == 1e-6
    # Without slopes the fit is that of the outcome alone.
    frame = trial()
    alone = estimator(adjust=None, columns=["y"], bounds={"y": BOUNDS["y"]}, delta=0.0).plan(6000, 1)
    assert pure.residuals_noise.total == pytest.approx(alone.totals_noise.total)
    model = estimator(delta=0.0).fit(frame)
    assert "not adjusted" in str(model.summary()) and "Laplace" in str(model.summary())
    assert "Laplace in the totals of the residuals" in str(estimator().fit(frame).summary())


def test_missing_entries() -> None:
    frame = trial()
    frame.loc[:99, "age"] = np.nan
    frame.loc[100:199, "y"] = np.nan
    frame.loc[200:299, "arm"] = None
    with pytest.raises(InvalidData):
        estimator().fit(frame)
    model = estimator(missing="drop").fit(frame)
    assert model.counts_.sum() == pytest.approx(5700, abs=200)
    only_outcomes = trial()
    only_outcomes.loc[5, "y"] = np.inf
    with pytest.raises(InvalidData):
        estimator().fit(only_outcomes)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"adjust": ["age"]}, "every column but the outcome"),
        ({"adjust": ["age", "weight"]}, "adjust"),
        ({"adjust": []}, "every column but the outcome"),
        ({"adjust": 5}, "adjust must"),
        ({"adjust": [0.5]}, "a list of 1"),
        ({"adjust": pd.Series([61.25, 20.0])}, "a Series of 2"),
        ({"delta": 0.0, "randomized": False}, "delta"),
        ({"neighbors": "add_or_remove"}, "neighbors"),
        ({"groups": "discover"}, "groups"),
        ({"randomized": "yes"}, "randomized"),
    ],
)
def test_what_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        estimator(**options).fit(trial(500))


def test_a_fit_without_covariates_has_no_adjusted_difference() -> None:
    model = estimator(adjust=None, columns=["y"], bounds={"y": (80, 200)}).fit(trial(500))
    with pytest.raises(InvalidParameter, match="adjust must"):
        model.adjusted_difference("drug", "control")


def test_the_outcome_is_what_is_left() -> None:
    assert outcome_position([0, 2], None, 3) == 1
    assert outcome_position("age", {"age": (0, 1), "y": (0, 1)}, 2) == 1


def test_the_command_line_adjusts(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trial.csv"
    trial(3000).to_csv(path, index=False)
    bounds = [f"{name}={low},{high}" for name, (low, high) in BOUNDS.items()]
    options = ["--by", "arm", "--groups", ",".join(ARMS), "--bounds", *bounds, "--adjust", "age", "--adjust", "base"]
    assert main(["group-means", str(path), *options, "--column", "y", "--seed", "0", "--pairwise", "--anova"]) == 0
    assert "residual std" in capsys.readouterr().out
    assert main(["plan", "group-means", "--rows", "3000", *options, "--columns", "y", "age", "base"]) == 0
    assert "adjusted for 2 covariates" in capsys.readouterr().out
