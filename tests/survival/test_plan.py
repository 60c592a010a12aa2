"""Plans: edges, refusals, the noise of the number at risk, and the width to expect."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.survival import PrivateSurvival
from dpstats.survival.table_plan import check_edges, finest_cells


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "horizon must"),
        ({"horizon": 0}, "horizon must"),
        ({"horizon": np.inf}, "horizon must"),
        ({"horizon": "long"}, "horizon must"),
        ({"horizon": 5, "bins": 0}, "bins must"),
        ({"horizon": 5, "bins": 501}, "at most 500"),
        ({"horizon": 5e-324, "bins": 3}, "horizon must"),
        ({"horizon": 1e155}, "horizon must"),
        ({"edges": [1, 1e155]}, "at most 1e\\+140"),
        ({"edges": 10**400}, "edges must"),
        ({"edges": [3, 2, 1]}, "edges must"),
        ({"edges": [0, 1, 1]}, "edges must"),
        ({"edges": [-1, 1]}, "edges must"),
        ({"edges": [0, np.nan]}, "edges must"),
        ({"edges": [0]}, "edges must"),
        ({"edges": "soon"}, "edges must"),
        ({"edges": [1, 2], "bins": 2}, "bins must"),
        ({"edges": [1, 2], "horizon": 3}, "horizon must"),
    ],
)
def test_edges_that_are_none_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        PrivateSurvival(**given).plan(1000)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"causes": []}, "causes must"),
        ({"causes": [1, 1]}, "causes must"),
        ({"causes": [0, 1]}, "distinct"),
        ({"groups": []}, "groups must"),
        ({"groups": np.array("a")}, "groups must"),
        ({"groups": ["a", "a"]}, "groups must"),
        ({"discrete": 1}, "discrete must"),
        ({"epsilon": 0}, "epsilon"),
        ({"delta": 1.0}, "delta"),
        ({"groups": range(1000), "bins": 500}, "200,000 cells"),
    ],
)
def test_other_parameters_that_are_none_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        PrivateSurvival(horizon=5.0, **given).plan(1000)


def test_edges_may_begin_with_zero_or_without_it() -> None:
    assert check_edges(None, [1, 2.5], None, 8) == check_edges(2.5, (0, 1, 2.5), None, 8) == (0.0, 1.0, 2.5)
    assert check_edges(4, None, None, 8) == tuple(np.linspace(0, 4, 9))


def test_discrete_edges_from_zero_have_a_bin_for_time_0() -> None:
    assert check_edges(None, [0, 1, 2.5], None, 8, True) == (0.0, 0.0, 1.0, 2.5)
    assert check_edges(None, [1, 2.5], None, 8, True) == (0.0, 1.0, 2.5)
    assert check_edges(2, None, 2, 8, True) == (0.0, 1.0, 2.0)
    with pytest.raises(InvalidParameter, match="edges must"):
        check_edges(None, [0, 0, 1], None, 8, True)
    plan = PrivateSurvival(edges=[0, 1, 2], discrete=True).plan(2000)
    by_function = plan.expected_width(lambda t: 0.8 * 0.5**t)
    np.testing.assert_array_equal(by_function, plan.expected_width([0.8, 0.4, 0.2]))
    # At 0 alone it is the interval of a proportion: the noise is that of any bin.
    assert by_function.shape == (3,) and 2 * 1.96 * np.sqrt(0.16 / 2000) < by_function[0] < 0.1
    with pytest.raises(InvalidParameter, match="at each of the 3 edges, at most 1 at time 0"):
        plan.expected_width([1.0, 0.8, 0.4, 0.2])
    with pytest.raises(InvalidParameter, match="at each of the 3 edges, 1 at time 0"):
        PrivateSurvival(edges=[0, 1, 2]).plan(2000).expected_width([0.8, 0.4, 0.2])


def test_times_are_one_column() -> None:
    with pytest.raises(InvalidParameter) as caught:
        PrivateSurvival(horizon=5.0).plan(100, 2)
    assert caught.value.parameter == "n_features"


def test_groups_and_causes_cost_nothing_but_share_the_rows() -> None:
    alone = PrivateSurvival(horizon=5.0, bins=10).plan(5000)
    several = PrivateSurvival(horizon=5.0, bins=10, groups=list("abcd"), causes=[1, 2, 3]).plan(5000)
    assert alone.guarantee == several.guarantee
    assert alone.table_stage.scale_steps == several.table_stage.scale_steps
    notes = "\n".join(several.notes())
    assert "10 bins up to 5" in notes and "of each group of n/4" in notes and "expected width" in notes
    assert several.facts()["groups"] == list("abcd") and several.facts()["causes"] == ["1", "2", "3"]
    assert "warning: groups of fewer than" in "\n".join(
        PrivateSurvival(horizon=5.0, groups=range(20)).plan(300).notes()
    )


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_expected_width_is_that_of_fits(delta: float) -> None:
    rng = np.random.default_rng(0)
    estimator = PrivateSurvival(horizon=4.0, bins=8, delta=delta, random_state=1)
    stated = estimator.plan(3000).expected_width(lambda t: np.exp(-t / 3), lambda t: np.exp(-t / 6))
    found = []
    for seed in range(30):
        times, left = rng.exponential(3.0, 3000), rng.exponential(6.0, 3000)
        fitted = estimator.set_params(random_state=seed).fit(np.minimum(times, left), times <= left)
        low, high = fitted.confidence_interval()
        found.append(high - low)
    assert np.allclose(np.mean(found, axis=0), stated, rtol=0.03)


def test_the_expected_width_is_that_of_fits_where_the_noise_has_long_tails() -> None:
    estimator = PrivateSurvival(horizon=4.0, bins=8, epsilon=0.1)
    stated = estimator.plan(3000).expected_width(lambda t: np.exp(-t / 3), confidence_level=0.999)
    rng, found = np.random.default_rng(0), []
    for seed in range(30):
        times = rng.exponential(3.0, 3000)
        fitted = estimator.set_params(random_state=seed).fit(times, np.ones(3000))
        low, high = fitted.confidence_interval(confidence_level=0.999)
        found.append(high - low)
    assert np.allclose(np.mean(found, axis=0), stated, rtol=0.1)


@pytest.mark.parametrize("wrong", [lambda t: 1 + t, [1.0, 0.5], 10**400, lambda t: "half", lambda t: 0.5 - 0 * t])
def test_a_curve_that_is_no_survival_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidParameter, match="survival must"):
        PrivateSurvival(horizon=4.0, bins=8).plan(100).expected_width(wrong)


def test_the_noise_at_risk_is_that_of_releases() -> None:
    plan = PrivateSurvival(horizon=4.0, bins=40, epsilon=1.0).plan(10**6)
    rng = np.random.default_rng(0)
    size = plan.table_stage.size
    scale = np.asarray(plan.table_stage.noise_scale)
    cells = plan.estimate_cells(rng.laplace(size=(4000, size)) * scale)[0][:, 0]
    # Standard deviations of 4,000 draws have standard errors of about 2%.
    assert np.allclose(plan.curves(cells).at_risk.std(axis=0), plan.at_risk_std, rtol=0.1)


@pytest.mark.parametrize("epsilon", [1e-9, 0.05, 1.0, 1e5])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_plan_exists_for_small_and_large_epsilon(epsilon: float, delta: float) -> None:
    plan = PrivateSurvival(horizon=4.0, epsilon=epsilon, delta=delta).plan(1000)
    assert plan.guarantee.epsilon <= epsilon * (1 + 1e-12)


def test_noise_that_cannot_be_drawn_is_refused() -> None:
    from dpstats.errors import ScaleOutOfRange

    with pytest.raises(ScaleOutOfRange):
        PrivateSurvival(horizon=4.0, epsilon=1e-300).plan(1000)
    assert finest_cells((0.0, 1.0), 1, 1, lambda cells: cells.bits) == 16
