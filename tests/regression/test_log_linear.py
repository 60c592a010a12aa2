"""What the regressions of counts and of amounts share: how they are declared, read, and reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

from dpstats.auditing import check_sensitivity
from dpstats.errors import BudgetExceeded, InvalidData, InvalidParameter
from dpstats.privacy import PrivacyBudget
from dpstats.regression import PrivateCountRegression, PrivateGammaRegression

RNG = np.random.default_rng(0)
N = 8000
X = RNG.normal(size=(N, 2))
EXPOSURE = RNG.uniform(0.2, 4.0, N)
Y = RNG.poisson(np.exp(0.3 + X @ [0.4, -0.2]) * EXPOSURE).astype(float)
BOUNDS: dict[str, Any] = {"x_bounds": (-4, 4), "y_bounds": (0, 200), "random_state": 0}
EXPOSED = BOUNDS | {"exposure_bounds": (0.1, 5.0)}
FRAME = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "visits": Y, "years": EXPOSURE})


def test_exposures_by_every_way_in_are_the_same() -> None:
    one = PrivateCountRegression(**EXPOSED).fit(X, Y, exposure=EXPOSURE)
    assert abs(one.intercept_ - 0.3) < 0.2
    named = PrivateCountRegression(**EXPOSED, exposure="years").fit(FRAME, "visits")
    called = PrivateCountRegression(**EXPOSED).fit(FRAME, "visits", exposure="years")
    bounds = {"a": (-4, 4), "b": (-4, 4), "visits": (0, 200)}
    formula = PrivateCountRegression.from_formula(
        "visits ~ a + b", FRAME, bounds=bounds, exposure="years", exposure_bounds=(0.1, 5.0), random_state=0
    )
    for other in (named, called, formula):
        assert np.array_equal(other.params_, one.params_)
    assert named.feature_names_in_.tolist() == ["a", "b"]


def test_exposures_of_a_file_are_columns(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    FRAME.to_csv(path, index=False)
    one = PrivateCountRegression(**EXPOSED).fit(X, Y, exposure=EXPOSURE)
    for given in (("visits", "years"), ["visits", "years"]):
        other = PrivateCountRegression(**EXPOSED).fit(str(path), given)
        assert np.array_equal(other.params_, one.params_)
    relation = duckdb.read_csv(str(path))
    named = PrivateCountRegression(**EXPOSED, exposure="years").fit(relation, "visits")
    assert np.array_equal(named.params_, one.params_)


def test_exposures_outside_their_bounds_are_clipped() -> None:
    wild = EXPOSURE.copy()
    wild[:5] = [-3.0, 0.0, 1e300, 0.05, 7.0]
    tame = wild.clip(0.1, 5.0)
    fits = [PrivateCountRegression(**EXPOSED).fit(X, Y, exposure=each) for each in (wild, tame)]
    assert np.array_equal(fits[0].params_, fits[1].params_)
    shares = [made.clipped_exposure_share_ for made in fits]
    assert shares[0] - shares[1] == pytest.approx(5 / N, abs=1e-9)  # of the same noise


def test_the_fraction_of_exposures_outside_is_released_and_noted() -> None:
    # A third are clipped: the true rate is not that of the clipped exposures.
    narrow = {**EXPOSED, "exposure_bounds": (0.1, float(np.quantile(EXPOSURE, 0.64)))}
    made = PrivateCountRegression(**narrow).fit(X, Y, exposure=EXPOSURE)
    assert made.clipped_exposure_share_ == pytest.approx(0.36, abs=6 * made.clipped_exposure_share_std_)
    summary = " ".join(str(made.summary()).split())
    assert "Exposures outside bounds: 36." in summary.replace("35.", "36.")
    assert "More than 2% of the exposures lie outside exposure_bounds" in summary
    inside = PrivateCountRegression(**EXPOSED).fit(X, Y, exposure=EXPOSURE.clip(0.1, 5.0))
    assert "lie outside exposure_bounds" not in str(inside.summary())
    noise = 1 / (0.1 * inside.plan_.mu * N)  # a hundredth of mu^2
    assert inside.clipped_exposure_share_std_ == pytest.approx(noise, rel=1e-6)
    without = inside.set_params(exposure_bounds=None).fit(X, Y)
    assert not hasattr(without, "clipped_exposure_share_") and "Exposures" not in str(without.summary())


def test_a_row_without_an_exposure_is_dropped_or_refused() -> None:
    holes = EXPOSURE.copy()
    holes[::10] = np.nan
    with pytest.raises(InvalidData, match="exposure must"):
        PrivateCountRegression(**EXPOSED).fit(X, Y, exposure=holes)
    made = PrivateCountRegression(**EXPOSED, missing="drop").fit(X, Y, exposure=holes)
    assert abs(made.rows_ - 0.9 * N) < 5 * made.rows_noise_std_
    kept = ~np.isnan(holes)
    blank = X.copy()
    blank[~kept] = np.nan
    other = PrivateCountRegression(**EXPOSED, missing="drop").fit(blank, Y, exposure=EXPOSURE)
    assert np.array_equal(made.params_, other.params_)


@pytest.mark.parametrize("missing", ["error", "drop"])
def test_a_row_moves_no_release_further_than_declared(missing: str) -> None:
    rows, outcomes, exposures = X[:60], Y[:60], EXPOSURE[:60]
    changes: list[tuple[Any, float, float]] = [([3.0, -3.0], 200.0, 5.0), ([-9.0, 1.0], 0.0, 0.1)]
    changes += [([1.0, np.nan], 2.0, 1.0), ([1.0, 1.0], 2.0, np.nan)] if missing == "drop" else []
    for kind in (PrivateCountRegression, PrivateGammaRegression):
        estimator = kind(**EXPOSED, epsilon=20.0, delta=1e-3, missing=missing)
        for x, y, exposure in changes:
            other = rows.copy(), outcomes.copy(), exposures.copy()
            other[0][7], other[1][7], other[2][7] = x, y, exposure
            check = check_sensitivity(estimator, (rows, (outcomes, exposures)), (other[0], (other[1], other[2])))
            assert not check.violated, str(check)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no intercept": ({"fit_intercept": False}, "fit_intercept must be True"),
    "no y_bounds": ({"y_bounds": None}, "y_bounds must be given: a pair"),
    "negative outcomes": ({"y_bounds": (-1, 5)}, r"y_bounds must be a pair"),
    "high above 0": ({"y_bounds": (2, 5)}, r"y_bounds must be a pair .*bounds of the response"),
    "exposure 0": ({"exposure_bounds": (0, 5)}, "exposure_bounds must be greater than 0"),
    "exposure without bounds": ({"exposure": "t"}, "exposure_bounds must"),
    "delta 0": ({"delta": 0.0}, "delta must be greater than 0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_declared_is_refused_before_the_charge(case: str) -> None:
    options, words = REFUSED[case]
    budget = PrivacyBudget(10.0, 1e-3)
    given = BOUNDS | {"random_state": None, "budget": budget} | options
    for kind in (PrivateCountRegression, PrivateGammaRegression):
        with pytest.raises(InvalidParameter, match=words):
            kind(**given).fit(X[:50], Y[:50], exposure=EXPOSURE[:50] if case == "exposure 0" else None)
    assert not budget.history()


def test_exposures_that_do_not_fit_the_declaration_are_refused() -> None:
    with pytest.raises(InvalidParameter, match="exposure_bounds must"):
        PrivateCountRegression(**BOUNDS).fit(X, Y, exposure=EXPOSURE)
    with pytest.raises(InvalidParameter, match="exposure must"):
        PrivateCountRegression(**EXPOSED, exposure="years").fit(FRAME, "visits", exposure="years")
    with pytest.raises(InvalidData, match=r"y must be 2 columns \(y, exposure\).*pass exposure by keyword"):
        PrivateCountRegression(**EXPOSED).fit(X, Y)
    with pytest.raises(InvalidData, match="exposure must"):
        PrivateCountRegression(**EXPOSED).fit(X, Y, exposure=EXPOSURE[:-1])


def test_predictions_are_means_for_an_exposure() -> None:
    made = PrivateCountRegression(**BOUNDS).fit(X, Y)
    found = made.predict(X[:4])
    assert np.allclose(found, np.exp(made.intercept_ + X[:4] @ made.coef_))
    assert np.allclose(made.predict(X[:4], exposure=[1, 2, 3, 4]), found * [1, 2, 3, 4])
    for bad in ([1, 2], [1, 2, 3, 0], [1, 2, 3, np.nan]):
        with pytest.raises(InvalidData, match="exposure must be 4"):
            made.predict(X[:4], exposure=bad)
    predicted = made.get_prediction(X[:4])
    assert np.allclose(predicted.estimate, found)
    low, high = predicted.confidence_interval()
    assert ((low > 0) & (low < found) & (found < high)).all()
    assert predicted.test(high).pvalue == pytest.approx(np.full(4, 0.05))
    by_name = PrivateCountRegression(**BOUNDS).fit(FRAME[["a", "b"]], Y)
    assert by_name.get_prediction(FRAME[["a", "b"]].iloc[5:8]).to_frame().index.tolist() == [5, 6, 7]


def test_a_score_is_a_second_release() -> None:
    budget = PrivacyBudget(3.0, 1e-5)
    made = PrivateCountRegression(**BOUNDS | {"random_state": None, "budget": budget, "epsilon": 1.5})
    made.fit(X, Y)
    assert np.isnan(found := made.score(X, Y)) or found <= 1
    assert [entry.label for entry in budget.history()] == ["PrivateCountRegression", "PrivateCountRegression score"]
    with pytest.raises(BudgetExceeded):
        made.score(X, Y, exposure=EXPOSURE)
    with pytest.raises(InvalidParameter, match="sample_weight must"):
        made.score(X, Y, EXPOSURE)  # type: ignore[arg-type]


def test_ratios_and_summary() -> None:
    made = PrivateCountRegression(**BOUNDS).fit(X, Y)
    assert np.allclose(made.rate_ratios_, np.exp(made.coef_))
    assert np.allclose(np.log(list(made.rate_ratio_interval())), list(made.confidence_interval()))
    text = str(made.summary())
    for word in ("rate ratio", "log; robust (HC)", "mean^2", "Outcomes outside bounds", "privacy", "weighted"):
        assert word in text
    assert "still long" not in text
    made.unsettled_, made.settled_ = True, np.array([False, True])
    assert "the steps did not settle" in str(made.summary())


def test_outcomes_outside_their_bounds_are_counted() -> None:
    made = PrivateCountRegression(**BOUNDS | {"y_bounds": (0, 4)}).fit(X, Y)
    assert made.clipped_share_ == pytest.approx((Y > 4).mean(), abs=5 * made.clipped_share_std_)
    assert "lie outside y_bounds" in str(made.summary())
