"""Labelled means and covariances go by the names of the columns, and not by their place."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from dpstats.errors import InvalidParameter
from dpstats.identity import (
    FilteringTest,
    LipschitzExtensionTest,
    RowDistanceTest,
    SpatialSignTest,
    identity_test,
    sign_reduction,
)
from dpstats.privacy import PrivacyBudget

FAST = {"n_calibration": 99}
KINDS = [RowDistanceTest, SpatialSignTest, LipschitzExtensionTest, FilteringTest]
MEAN = pd.Series([1.0, -2.0, 5.0], index=["a", "b", "c"])
COV = pd.DataFrame([[2.0, 0.6, 0.1], [0.6, 1.0, 0.3], [0.1, 0.3, 3.0]], index=["a", "b", "c"], columns=["a", "b", "c"])
ROWS = pd.DataFrame(np.random.default_rng(0).multivariate_normal(MEAN + 0.3, COV, 60), columns=["a", "b", "c"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "cov", [None, COV, pd.Series(np.diag(COV), index=COV.index)], ids=["identity", "matrix", "variances"]
)
def test_columns_in_another_order_are_the_same_hypothesis(kind, cov) -> None:
    order = ["c", "a", "b"]
    plain = None if cov is None else np.asarray(cov)[[2, 0, 1]]
    plain = plain[:, [2, 0, 1]] if plain is not None and plain.ndim == 2 else plain
    expected = kind(mean=MEAN.to_numpy()[[2, 0, 1]], cov=plain, random_state=0, **FAST)
    statistic = expected.fit(ROWS[order].to_numpy()).statistic_
    for frame in (ROWS[order], pl.DataFrame(ROWS[order].to_dict("list"))):
        test = kind(mean=MEAN, cov=cov, random_state=0, **FAST).fit(frame)
        assert test.statistic_ == statistic
        assert test.fit_predict(frame) == expected.fit_predict(ROWS[order].to_numpy())
        assert test.mean is MEAN
    # In the order of the parameter, or of labels that are none, nothing moves.
    for same in (ROWS, ROWS.to_numpy(), ROWS.set_axis(range(3), axis=1)):
        assert kind(mean=MEAN, cov=cov, random_state=0, **FAST).fit(same).plan_.reference.center[0] == 1.0


def test_predictions_go_by_names_too() -> None:
    test = SpatialSignTest(mean=MEAN, epsilon=50.0, random_state=0, **FAST)
    shuffled = ROWS[["b", "c", "a"]] - 0.3
    assert test.fit(shuffled).predict(shuffled) == 0
    assert SpatialSignTest(mean=MEAN.to_numpy(), epsilon=50.0, random_state=0, **FAST).fit_predict(shuffled) == 1
    # An array has the columns of the fit in the order they had there.
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        assert test.predict(shuffled.to_numpy()) == 0
    assert test.mean is MEAN
    assert not identity_test(shuffled, MEAN, COV, epsilon=1.0, random_state=0, **FAST).reject
    assert sign_reduction(shuffled, MEAN).tolist() == sign_reduction(shuffled, MEAN[["b", "c", "a"]]).tolist()


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"mean": MEAN.set_axis(["a", "b", "d"])}, "mean"),
        ({"mean": MEAN.set_axis(["a", "b", "b"])}, "mean"),
        ({"mean": MEAN[:2]}, "mean"),
        ({"cov": COV.set_axis(["a", "b", "d"], axis=1)}, "cov"),
        ({"cov": COV.set_axis(["a", "b", "d"])}, "cov"),
    ],
)
def test_other_labels_are_refused_before_a_charge(options, name) -> None:
    budget = PrivacyBudget(10.0)
    with pytest.raises(InvalidParameter, match=f"^{name} must have the columns of X as labels") as caught:
        RowDistanceTest(**options, budget=budget, **FAST).fit(ROWS)
    assert budget.spent.epsilon == 0
    assert str(ROWS.iloc[0, 0])[:6] not in str(caught.value)


@pytest.mark.parametrize(
    "cov",
    [
        COV.set_axis(range(3)),
        COV.set_axis(range(3), axis=1),
        pl.DataFrame(COV.to_dict("list")),
        COV.loc[["b", "a", "c"], ["c", "b", "a"]],
    ],
)
def test_a_covariance_needs_labels_on_one_side(cov) -> None:
    shuffled = ROWS[["c", "a", "b"]]
    statistic = RowDistanceTest(mean=MEAN, cov=COV, random_state=0, **FAST).fit(shuffled).statistic_
    assert RowDistanceTest(mean=MEAN, cov=cov, random_state=0, **FAST).fit(shuffled).statistic_ == statistic
