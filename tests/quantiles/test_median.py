"""PrivateMedian: what it costs, summed over levels and shifts; what it never shows."""

from __future__ import annotations

import math
import pickle
from itertools import pairwise

import numpy as np
import pytest

from dpstats.errors import DPStatsError, InvalidParameter
from dpstats.quantiles import PrivateMedian
from dpstats.quantiles.grid import sorted_places
from dpstats.sensitivity import median_smooth_sensitivity, smooth_noise


def largest_delta(levels: tuple[float, ...], share: float, epsilon: float) -> float:
    """Return the largest delta of noise of neighboring levels and every shift that they allow, at epsilon: summed."""
    worst = 0.0
    for first, second in pairwise(levels):
        reach = math.ceil(60 * second) + 2
        z = np.arange(-reach, reach + 1)
        for s, t in ((first, second), (second, first), (second, second)):
            for shift in {0, math.floor(min(s, t) * share)}:
                p, r = (math.tanh(0.5 / x) * np.exp(-np.abs(z - move) / x) for x, move in ((s, 0), (t, shift)))
                worst = max(worst, float(np.maximum(p - math.exp(epsilon) * r, 0).sum()))
    return worst


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-3), (0.5, 1e-6), (4.0, 1e-2)])
def test_levels_and_shifts_cost_what_is_claimed(epsilon: float, delta: float) -> None:
    plan = PrivateMedian(bounds=(0, 60), step=1, epsilon=epsilon, delta=delta).plan(50)
    (stage,) = plan.stages
    share, every = stage.sensitivity_share, max(1, len(stage.levels) // 25)
    pairs = list(pairwise(stage.levels))[::every]
    assert max(largest_delta(pair, share, epsilon) for pair in pairs) <= delta
    assert plan.guarantee.epsilon == epsilon and stage.event.delta <= delta
    # With levels twelve times as far apart it is more.
    apart = [(low, low * float(stage.ratio) ** 12) for low, _ in pairs[-3:]]
    assert max(largest_delta(pair, share, epsilon) for pair in apart) > delta


def test_limits_are_what_noise_of_a_level_may_hide() -> None:
    plan = PrivateMedian(bounds=(0, 1), epsilon=1.0).plan(50)
    (stage,) = plan.stages
    assert all(limit <= level / 2 for limit, level in zip(stage.limits.tolist(), stage.levels, strict=True))
    assert stage.limits[-1] >= plan.grid.steps and np.all(np.diff(stage.limits) >= 0)


def test_the_level_is_that_of_the_smooth_sensitivity() -> None:
    x = np.random.default_rng(0).normal(size=301)
    made = PrivateMedian(bounds=(-5, 5), epsilon=1.0, delta=1e-3)
    plan = made.plan(301)
    from dpstats.data.rows import Table

    private = made._read(Table(x[:, None]), plan)
    (stage,) = plan.stages
    beta = math.log(float(stage.ratio))
    smooth = median_smooth_sensitivity(plan.grid.places(x), lower=0, upper=plan.grid.steps, beta=beta)
    # Scales are twice the limits, and a level is at most one step of the ratio above.
    assert smooth <= stage.levels[private.level] / 2 * (1 + 1e-9) <= smooth * math.exp(beta) * 1.01
    assert private.place == sorted_places(x[:, None], plan.grid)[150]


def test_the_median_is_near_where_rows_are_dense() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=20_000)
    errors = [PrivateMedian(bounds=(-100, 100), random_state=rng).fit(x).median_ - np.median(x) for _ in range(40)]
    assert np.std(errors) < 0.02
    tied = PrivateMedian(bounds=(0, 100), step=1).fit(np.repeat([3, 5], [10, 500]))  # exact noise
    assert tied.median_ == 5.0


def test_the_scale_is_nowhere_to_be_found() -> None:
    x = np.random.default_rng(0).normal(size=301)
    made = PrivateMedian(bounds=(-5, 5), random_state=0).fit(x)
    other = PrivateMedian(bounds=(-5, 5), random_state=0).fit(np.repeat([-4.0, 4.0], [150, 151]))
    # Of the plan, the guarantee and the words only the median differs.
    assert made.plan_ == other.plan_ and made.privacy_ == other.privacy_
    words = [str(fit.summary()).replace(f"{fit.median_:.6g}", "").split() for fit in (made, other)]
    assert words[0] == words[1]
    names = {"plan_", "privacy_", "median_", "n_features_in_"}
    hidden = {"_found_by_fit", "_parameters"}
    assert set(made._found_by_fit) == names == set(vars(made)) - set(made.get_params()) - hidden
    assert pickle.loads(pickle.dumps(made)).median_ == made.median_


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_intervals_cover_the_median_of_the_rows(delta: float) -> None:
    rng = np.random.default_rng(2)
    # Skewed, tied and few rows; an interval counts the noise, whatever they are.
    for x in (rng.lognormal(size=400), np.repeat([0.0, 7.0], [30, 31]), rng.pareto(0.5, 50)):
        made = PrivateMedian(bounds=(0, 100), delta=delta, confidence_level=0.9, random_state=rng)
        true = float(np.sort(np.clip(x, 0, 100))[(x.size + 1) // 2 - 1])
        covered = []
        for _ in range(15):
            low, high = made.fit(x).confidence_interval()
            covered.append(low <= true <= high)
            assert 0 <= low <= made.median_ <= high <= 100
        # At least 90%: fewer than 10 of 15 has a probability of 2e-3, at fixed seeds.
        assert sum(covered) >= 10


def test_pure_noise_is_the_smaller_one_and_in_the_interval() -> None:
    x = np.random.default_rng(5).normal(size=2000)
    true = np.sort(x)[999]

    def error(delta: float) -> float:
        made = PrivateMedian(bounds=(-50, 50), delta=delta, random_state=np.random.default_rng(6))
        return float(np.median([abs(made.fit(x).median_ - true) for _ in range(15)]))

    assert 2 * error(0.0) < error(1e-6)
    made = PrivateMedian(bounds=(-50, 50), delta=0, confidence_level=0.9, random_state=0).fit(x)
    assert "median of these rows" in str(made.summary()) and made.confidence_interval(0.9).confidence_level == 0.9
    with pytest.raises(InvalidParameter, match=r"confidence_level must"):
        made.confidence_interval(0.95)
    with pytest.raises(DPStatsError, match="no interval"):
        PrivateMedian(bounds=(0, 1), random_state=0).fit(x).confidence_interval()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delta": 0.7}, "at most 0.5"),
        ({"confidence_level": 1.0}, "confidence_level must be"),
        ({"epsilon": 1e-7}, "epsilon must"),
        ({"bounds": (1, 0)}, "low < high"),
    ],
)
def test_bad_parameters_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        PrivateMedian(**{"bounds": (0, 1), **options}).plan(50)


@pytest.mark.parametrize("epsilon", [1e5, 1e8])
def test_a_huge_epsilon_runs_or_is_refused(epsilon: float) -> None:
    x = np.arange(100.0)
    assert PrivateMedian(bounds=(0, 100), epsilon=epsilon).fit(x).median_ == pytest.approx(49, abs=0.1)
    pure = PrivateMedian(bounds=(0, 100), epsilon=epsilon, delta=0)
    assert pure.fit(x).median_ == pytest.approx(49, abs=0.1)
    with pytest.raises(DPStatsError, match=r"extreme for exact"):
        pure.set_params(confidence_level=0.95).fit(x)


@pytest.mark.parametrize("missing", [0, 1, 100, 900])
def test_without_noise_the_median_of_observed_rows_is_that_of_the_sample(missing: int) -> None:
    rows = np.concatenate([np.arange(101.0), np.full(missing, np.nan)])
    made = PrivateMedian(epsilon=1e4, bounds=(0, 100), missing="drop", random_state=0).fit(rows)
    assert made.median_ == pytest.approx(50.0, abs=0.1)


@pytest.mark.parametrize("epsilon", [20.0, 60.0, 90.0, 300.0, 1000.0, 1e5, 1e9])
def test_a_large_epsilon_has_little_noise_and_its_levels_cost_no_more(epsilon: float) -> None:
    made = PrivateMedian(bounds=(0, 1), delta=0.0, epsilon=epsilon, random_state=0)
    assert made.fit(np.linspace(0, 1, 101)).median_ == pytest.approx(0.5, abs=0.01)
    beta, scale = smooth_noise(epsilon)
    # The equation that any pair of beta and share has to meet, for Student's law with three degrees of freedom.
    share = 1 / scale / math.sqrt(3)
    assert beta + 2 * math.hypot(share, beta) <= epsilon * (1 + 1e-12)


def test_an_epsilon_without_a_use_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="epsilon must"):
        PrivateMedian(bounds=(0, 1), delta=0.0, epsilon=1e300).plan(100)
