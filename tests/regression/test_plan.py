"""The plan of a regression: shares that add up, sensitivities as proved, and what it says before any data."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.privacy import JointStage, compose
from dpstats.regression import PrivateLinearRegression, PrivateLogisticRegression
from dpstats.regression.blocks import Design
from dpstats.regression.plan import (
    COUNT_BITS,
    DIRECTIONS,
    X_BITS,
    RegressionPlan,
    bin_integers,
    center_integers,
    norm_ends,
    regression_plan,
    shares,
    step_name,
)
from dpstats.regression.rows import LAST_MOVEMENT


def plan(
    n: int = 5000, d: int = 3, epsilon: float = 1.0, delta: float = 1e-6, family: str = "linear"
) -> RegressionPlan:
    design = Design.check((-1, 1), None if family == "logistic" else (-2, 2), d, True)
    return regression_plan(family, design, n, epsilon, delta)


@pytest.mark.parametrize("family", ["linear", "logistic"])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("n", [10, 1000, 10**7])
def test_shares_add_up_to_one_and_the_last_step_gets_most(family: str, intercept: bool, n: int) -> None:
    parts = shares(family, n, 3, 0.24, intercept)
    assert math.fsum(share for _, share in parts) == pytest.approx(1, abs=1e-12)
    assert min(share for _, share in parts) > 0
    assert dict(parts)[step_name(4)] == max(share for _, share in parts)
    names = [name for name, _ in parts]
    assert len(set(names)) == len(names)


def test_directions_get_no_more_than_they_need() -> None:
    assert [plan(n).share(DIRECTIONS) for n in (200, 50_000)] == [0.10, 0.05]
    assert 0.05 < plan(20_000, 12).share(DIRECTIONS) < 0.10
    assert plan(50_000).share(step_name(4)) > 0.45
    assert plan(50_000, family="logistic").share(DIRECTIONS) == 0.10


@pytest.mark.parametrize("family", ["linear", "logistic"])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.05, 1e-9), (1.0, 1e-6), (8.0, 1e-2)])
@pytest.mark.parametrize("n", [2, 300, 10**6, 10**9])
def test_the_guarantee_is_what_stages_compose_to(family: str, epsilon: float, delta: float, n: int) -> None:
    made = plan(n, 4, epsilon, delta, family)
    assert (made.guarantee.epsilon, made.guarantee.delta) == (epsilon, delta)
    total = compose(made.events, delta)
    assert epsilon * (1 - 1e-5) <= total.epsilon <= epsilon


def test_the_last_step_states_what_its_lemma_says() -> None:
    made = plan()
    last = made.stage(step_name(4))
    assert isinstance(last, JointStage)
    assert math.sqrt(LAST_MOVEMENT) <= last.sensitivity <= math.sqrt(LAST_MOVEMENT) * (1 + 1e-4)
    assert {block.name.split(",")[0] for block in last.blocks} == {"gradient", "curvature", "meat"}


def test_noise_falls_with_rows_and_epsilon() -> None:
    assert plan(50_000).noise_ratio < plan(5000).noise_ratio < plan(5000, epsilon=0.5).noise_ratio
    # The noise of a coefficient falls as 1/n, its sampling error as 1/sqrt(n).
    many, more = plan(100_000, family="logistic"), plan(400_000, family="logistic")
    assert more.noise_ratio == pytest.approx(many.noise_ratio / 2, rel=0.02)
    # Fewer residuals are clipped where there is less noise.
    assert plan(100_000).noise_ratio / 2 < plan(400_000).noise_ratio < plan(100_000).noise_ratio / 1.4


@pytest.mark.parametrize(("n", "epsilon"), [(20_000, 1.0), (20_000, 10.0), (5000, 1000.0)])
def test_the_noise_of_fits_is_about_the_stated_one(n: int, epsilon: float) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, 3))
    y = X @ np.full(3, 0.5) + rng.normal(size=n)
    model = PrivateLinearRegression(x_bounds=(-1, 1), y_bounds=(-8, 8), epsilon=epsilon)
    slopes = [model.set_params(random_state=seed).fit(X, y).coef_ for seed in range(25)]
    sampling = 1 / (X.std() * math.sqrt(n))
    noise = math.sqrt(float(np.var(slopes, axis=0, ddof=1).mean()))
    assert noise / sampling == pytest.approx(model.plan(n, 3).noise_ratio, rel=0.3)


def test_what_is_noise_only_is_said_before() -> None:
    few = plan(300, 30)
    assert few.noise_only
    assert "not identified" in str(few)
    enough = plan(50_000)
    assert not enough.noise_only
    assert "warning" not in str(enough)


def test_norms_are_counted_from_far_inside_the_box_to_far_outside() -> None:
    ends = norm_ends(10_000, 9, 0.24)
    assert ends[0] < 9 / 64
    assert ends[-1] >= 9 * 16
    assert (np.diff(ends) > 0).all()
    assert norm_ends(100, 9, 0.24).size < ends.size


def test_a_pure_guarantee_is_refused_with_where_to_go() -> None:
    with pytest.raises(InvalidParameter, match="delta=1e-6 for example"):
        plan(delta=0.0)


@pytest.mark.parametrize("estimator", [PrivateLinearRegression, PrivateLogisticRegression])
def test_bad_sizes_are_refused(estimator: type) -> None:
    bounds = {} if estimator is PrivateLogisticRegression else {"y_bounds": (0, 1)}
    made = estimator(x_bounds=(0, 1), **bounds)
    for n, d in ((1, 1), (10, -1), (10.5, 1)):
        with pytest.raises(InvalidParameter):
            made.plan(n, d)


def test_counts_by_bins_and_centers_move_as_far_as_a_row_moves_them() -> None:
    # A row that changes its bin: one count falls by 2^COUNT_BITS steps, and another one rises.
    moved = bin_integers("bins", 4, 100, 1.0)
    assert (moved.l2 - 1) ** 2 < 2 * 4**COUNT_BITS <= moved.l2**2 and moved.l1 == 2 * 2**COUNT_BITS
    center = center_integers(3, 100, 1.0)
    assert center.l1 == 3 * 2 * 2**X_BITS and center.l2**2 >= 3 * 4 * 4**X_BITS


def test_a_plan_states_the_smallest_share_of_a_yes_no_column() -> None:
    small, large = plan(5000), plan(100_000)
    assert 0.09 < small.smallest_share < 0.12 and 0.005 < large.smallest_share < 0.006
    assert plan(100, epsilon=0.1).smallest_share == 0.5  # noise hides every rarer value
    assert plan(10**6, 1).smallest_share == 1 / 64  # without other columns
    for made in (small, large):
        least = made.smallest_share
        assert made.noise_ratio_of_share(least * 0.99) == math.inf
        ratios = [made.noise_ratio_of_share(share) for share in (least, 1.5 * least, 0.5)]
        assert ratios == sorted(ratios, reverse=True) and ratios[-1] == made.noise_ratio
        assert "a yes/no column needs at least" in str(made)
        assert made.facts()["smallest_share"] == least
    with pytest.raises(InvalidParameter, match="share must be"):
        small.noise_ratio_of_share(0.7)


def test_the_smallest_share_separates_slopes_that_noise_hides() -> None:
    rng, n = np.random.default_rng(0), 20_000
    model = PrivateLinearRegression(x_bounds=[(-4, 4), (0, 1)], y_bounds=(-6, 8), random_state=rng)
    least = model.plan(n, 2).smallest_share
    widths = {}
    for share in (0.3 * least, least):
        errors = []
        for _ in range(5):
            X = np.column_stack([rng.normal(size=n), rng.random(n) < share])
            errors.append(model.fit(X, 1 + X @ [1.0, 0.5] + rng.normal(size=n)).standard_errors_[1])
        widths[share] = np.median(errors) * np.sqrt(n * share)
    assert widths[least] < 2.5 < 10 < widths[0.3 * least]


@pytest.mark.parametrize("family", ["linear", "logistic"])
@pytest.mark.parametrize("n", [10, 1000, 10**7])
def test_without_columns_nothing_of_rows_is_released(family: str, n: int) -> None:
    for first in ((), ("total weight", "offsets outside")):
        parts = shares(family, n, 0, 0.24, True, first)
        assert math.fsum(share for _, share in parts) == pytest.approx(1, abs=1e-12)
        assert min(share for _, share in parts) > 0
        assert not {"directions", "lengths", "norms", "norms before the last step"} & {name for name, _ in parts}
    notes = plan(max(n, 1000), 0, family=family).notes()
    assert plan(1000, 0, family=family).smallest_share == 0 and "yes/no" not in " ".join(notes)


def test_plans_that_know_shares_state_the_noise_of_their_columns() -> None:
    made = PrivateLinearRegression(x_bounds={"age": (0, 100), "smoker": (0, 1)}, y_bounds=(0, 1))
    found = made.plan(20_000, 2, shares={"smoker": 0.05, 0: 0.01})
    assert found.noise_ratios == {
        "smoker": found.noise_ratio_of_share(0.05), "column 0": math.inf
    }  # fmt: skip
    assert found.stages == made.plan(20_000, 2).stages
    assert "smoker at 5% of the rows: noise about 0.84 times its sampling error" in found.notes()
    assert "column 0 at 1% of the rows: noise hides its coefficient" in found.notes()
    assert found.facts()["noise_ratios"] == found.noise_ratios


@pytest.mark.parametrize("given", [{"weight": 0.1}, {2: 0.1}, {"age": 0.7}, {"age": "few"}, {True: 0.1}, 0.1])
def test_wrong_shares_are_refused(given: object) -> None:
    made = PrivateLinearRegression(x_bounds={"age": (0, 100), "smoker": (0, 1)}, y_bounds=(0, 1))
    with pytest.raises(InvalidParameter, match="share"):
        made.plan(20_000, 2, shares=given)  # type: ignore[arg-type]


def test_names_of_shares_must_be_known() -> None:
    made = PrivateLinearRegression(x_bounds=(0, 1), y_bounds=(0, 1))
    with pytest.raises(InvalidParameter) as error:
        made.plan(20_000, 2, shares={"smoker": 0.1})
    assert error.value.parameter == "shares" and "x_bounds" in str(error.value.remedy)
    with pytest.raises(InvalidParameter, match="'age', 'smoker'"):
        PrivateLinearRegression(x_bounds={"age": (0, 100), "smoker": (0, 1)}, y_bounds=(0, 1)).plan(
            20_000, 2, shares={"weight": 0.1}
        )


def test_a_share_of_one_release_counts_the_spread_of_its_column() -> None:
    found = PrivateLinearRegression(x_bounds=(0, 1), y_bounds=(0, 1)).plan(200, 1, shares={0: 0.5})
    # Both values are a half-width from the middle, four times the assumed spread.
    assert found.noise_ratios["column 0"] == pytest.approx(found.noise_ratio / 4)
    assert math.isinf(found.noise_ratio_of_share(1e-4))
