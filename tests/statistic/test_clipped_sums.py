"""Clipped sums: how far a block moves them, and the moments of a clipped normal distribution."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import integrate, stats

from dpstats.statistic.clipped_sums import (
    BEND,
    GRAINS,
    LARGEST_SIZE,
    SIZE_UNIT,
    Means,
    Noise,
    half_widths,
    located,
    means,
    moments,
    normal_parts,
    solve,
    sums,
)

POINTS = np.array([-3.0, -1.0, -0.501, -0.5, -0.25, 0.0, 1e-7, 0.1, 0.4999, 0.5, 0.75, 1.0, 2.0])


def size(z: np.ndarray) -> np.ndarray:
    return np.where(np.abs(z) <= BEND, z * z / (2 * BEND), np.abs(z) - BEND / 2)


def normal_means(mean: np.ndarray, std: np.ndarray) -> Means:
    return means(normal_parts(mean, std), mean)


def triples() -> np.ndarray:
    """Return the triple of every value of a block alone, failures last."""
    steps = np.rint(POINTS * 1000).astype(np.int64)
    zero, reach = np.zeros(1, dtype=np.int64), np.array([1000.0])
    found = [sums(steps[i : i + 1], np.zeros(1, dtype=bool), zero, reach)[0] for i in range(POINTS.size)]
    return np.array([*found, sums(np.array([5]), np.ones(1, dtype=bool), zero, reach)[0]])


def test_a_block_moves_the_three_sums_by_two_together() -> None:
    pairs = list(itertools.combinations(triples(), 2))
    assert max(int(np.abs(a - b).sum()) for a, b in pairs) == 2 * GRAINS
    units = np.array([1.0, SIZE_UNIT, 1.0])
    largest = max(float(np.linalg.norm((a - b) / units)) for a, b in pairs)
    assert largest == pytest.approx(2 * GRAINS, rel=1e-12)
    assert largest <= 2 * GRAINS


def test_sizes_in_grains_move_at_most_as_far_as_absolute_values() -> None:
    bend, zero = int(BEND * GRAINS), np.zeros(1, dtype=np.int64)
    grains = np.concatenate([np.arange(3000), bend + np.arange(-3000, 3000), GRAINS - np.arange(3000)])
    one_by_one = [
        sums(part, np.zeros(1, dtype=bool), zero, np.array([float(GRAINS)]))[0] for part in grains[::40, None]
    ]
    values = np.sort(np.array(one_by_one), axis=0)
    assert np.all(np.diff(values[:, 1]) <= np.diff(values[:, 0])) and np.all(np.diff(values[:, 1]) >= 0)
    assert values[-1, 1] == LARGEST_SIZE


def test_a_failure_that_is_not_at_the_largest_size_moves_more() -> None:
    # Planted: a failed block as (0, 0, 1).
    planted = triples()
    planted[-1, 1] = 0
    assert max(int(np.abs(a - b).sum()) for a, b in itertools.combinations(planted, 2)) == 2 * GRAINS + LARGEST_SIZE


def test_squares_in_place_of_sizes_move_more() -> None:
    # Planted: the square of a value grows by two at 1, faster than the value.
    z = np.clip(POINTS, -1, 1)
    planted = np.stack([z, z * z], axis=1)
    assert max(float(np.abs(a - b).sum()) for a, b in itertools.combinations(planted, 2)) > 2.2


@pytest.mark.parametrize(("mean", "std"), [(0.0, 0.5), (0.3, 0.4), (-0.6, 1.2), (0.05, 2.0)])
def test_moments_are_integrals(mean: float, std: float) -> None:
    def expected(value: object) -> float:
        law = stats.norm(mean, std)
        kinks = [-1, -BEND, 0, BEND, 1]
        return float(
            integrate.quad(
                lambda x: value(np.clip(x, -1, 1)) * law.pdf(x),  # type: ignore[operator]
                mean - 12 * std,
                mean + 12 * std,
                points=kinks,
                limit=400,
            )[0]
        )

    at, further = normal_means(np.array([mean]), np.array([std])), moments(np.array([mean]), np.array([std]))
    assert at.mean[0] == pytest.approx(expected(lambda z: z), abs=1e-9)
    assert at.size[0] == pytest.approx(expected(size), abs=1e-9)
    assert further.square[0] == pytest.approx(expected(lambda z: z * z), abs=1e-9)
    assert further.size_square[0] == pytest.approx(expected(lambda z: size(z) ** 2), abs=1e-9)
    assert further.product[0] == pytest.approx(expected(lambda z: z * size(z)), abs=1e-9)
    step = 1e-6
    for by, change in (("location", (step, 1.0)), ("scale", (0.0, np.exp(step)))):
        moved = normal_means(np.array([mean + change[0]]), np.array([std * change[1]]))
        for name in ("mean", "size"):
            slope = (getattr(moved, name) - getattr(at, name))[0] / step
            assert getattr(at, f"{name}_by_{by}")[0] == pytest.approx(slope, abs=1e-5)


@pytest.mark.parametrize("skewness", [0.05, -0.05])
def test_a_small_skewness_moves_the_means_by_their_derivatives(skewness: float) -> None:
    mean, std, shape = 0.2, 0.5, 4 / skewness**2
    law = stats.gamma(shape, scale=std * abs(skewness) / 2, loc=-std * np.sqrt(shape))
    u = law.ppf((np.arange(200_000) + 0.5) / 200_000)
    z = np.clip(mean + np.sign(skewness) * u, -1, 1)
    at, further = normal_means(np.array([mean]), np.array([std])), moments(np.array([mean]), np.array([std]))
    assert z.mean() - at.mean[0] == pytest.approx(skewness * further.mean_by_skewness[0], abs=5e-5)
    assert size(z).mean() - at.size[0] == pytest.approx(skewness * further.size_by_skewness[0], abs=5e-5)


def test_solving_inverts_the_moments() -> None:
    mean, std = np.array([0.0, 0.3, -0.5, 0.7]), np.array([0.3, 0.5, 0.8, 0.4])
    at = normal_means(mean, std)
    found = solve(at.mean, at.size)
    assert found[0] == pytest.approx(mean, abs=1e-8)
    assert found[1] == pytest.approx(std, abs=1e-8)


def test_without_noise_the_interval_is_students() -> None:
    # A clip at 5 standard deviations cuts nothing; the mean size estimates the spread a little worse.
    k, std = 400, 0.2
    at_zero = normal_means(np.zeros(1), np.array([std]))
    released = np.array([[0.0, at_zero.size[0] * k, 0.0]])
    found = located(released, k, Noise("laplace", 1e-9, 1e-9, 1e-9))
    assert found.std[0] == pytest.approx(std, rel=1e-6)
    half = half_widths(found, 0.025, 0.0)[0]
    assert half == pytest.approx(1.96 * std / np.sqrt(k), rel=0.01)
    assert found.found.all()


def test_at_the_smallest_scale_the_mean_alone_gives_the_location() -> None:
    # Equal values: the size of the mean, and no deviation.
    location, scale = solve(np.array([0.3, -0.25, 0.0]), size(np.array([0.3, 0.25, 0.5])), 0.2)
    assert scale[:2] == pytest.approx(0.2, rel=1e-12)
    assert normal_means(location, scale).mean == pytest.approx([0.3, -0.25, 0.0], abs=1e-9)
    # Where the scale is larger, the floor changes nothing.
    assert scale[2] == pytest.approx(solve(np.zeros(1), size(np.array([0.5])))[1][0], rel=1e-12)


def test_one_sided_sums_are_noticed_and_the_clipped_share_is_that_of_the_model() -> None:
    noise = Noise("laplace", 1.0, 1.0, 1.0)
    released = np.array([[30.0, 13.0, 0.0], [5.0, 0.3, 0.0], [0.0, 25.0, 0.0], [0.0, 0.5, 0.0]])
    found = located(released, 100, noise, 0.1)
    # The first is on one side of the center, the second and the last are at the floor.
    assert found.one_sided.tolist() == [True, True, False, True]
    law = stats.norm(found.mean[2], found.std[2])
    assert found.clipped_share[2] == pytest.approx(law.cdf(-1) + law.sf(1), rel=1e-9)


def test_a_bias_of_blocks_widens_the_interval() -> None:
    found = located(np.array([[10.0, 20.0, 0.0]]), 100, Noise("gaussian", 3.0, 2.0, 3.0))
    widths = [half_widths(found, 0.025, 0.0, bias)[0] for bias in (0.0, 0.1)]
    # The folded normal's quantile at a bias of 0.1 deviations of a value, in standard errors of the mean.
    shift = 0.1 * found.std[0] / np.sqrt(found.variance[0])
    folded = stats.foldnorm.ppf(0.95, shift) / stats.norm.isf(0.025)
    assert widths[1] / widths[0] == pytest.approx(folded, rel=1e-3)


@pytest.mark.parametrize("released", [[95.0, 74.0, 0.0], [-99.0, 74.0, 0.0], [0.0, 73.0, 0.0]])
def test_sums_at_the_clip_are_not_located(released: list[float]) -> None:
    assert not located(np.array([released]), 100, Noise("laplace", 1.0, 1.0, 1.0)).found[0]


def test_failures_widen_the_interval() -> None:
    noise = Noise("gaussian", 3.0, 2.0, 3.0)
    none = located(np.array([[10.0, 20.0, 0.0]]), 100, noise)
    some = located(np.array([[10.0, 35.0, 20.0]]), 100, noise)
    assert some.blocks[0] == 80 and none.blocks[0] == 100
    assert half_widths(some, 0.025, 0.3)[0] > half_widths(none, 0.025, 0.3)[0]


def test_skewed_blocks_widen_the_interval() -> None:
    found = located(np.array([[10.0, 20.0, 0.0]]), 100, Noise("gaussian", 3.0, 2.0, 3.0))
    widths = [half_widths(found, 0.025, skewness)[0] for skewness in (0.0, 1.0, 3.0)]
    assert widths[0] < widths[1] < widths[2]
    # The folded normal's quantile at the stated shift, over the normal one.
    shift = found.shift[0] * 3
    folded = stats.foldnorm.ppf(0.95, shift) / stats.norm.isf(0.025)
    assert widths[2] / widths[0] == pytest.approx(folded, rel=1e-3)


@pytest.mark.parametrize("signed", [-30.0, 0.0, 25.0])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_the_noise_of_each_sum_moves_the_estimate_by_its_derivative(signed: float, which: int) -> None:
    released, step, std = np.array([[signed, 35.0, 12.0]]), 1e-4, 2.5
    ends = [
        located(released + side * step * np.eye(3)[which], 100, Noise("gaussian", 0.0, 0.0, 0.0)).mean[0]
        for side in (-1, 1)
    ]
    derivative = (ends[1] - ends[0]) / (2 * step)
    noise = [std * (k == which) for k in range(3)]
    added = located(released, 100, Noise("gaussian", *noise)).variance[0]
    added -= located(released, 100, Noise("gaussian", 0.0, 0.0, 0.0)).variance[0]
    assert added == pytest.approx((derivative * std) ** 2, rel=1e-4)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_shift_of_gamma_values_is_counted(sign: int) -> None:
    skewness, scale = 1.5, 1 / 2.75
    shape = 4 / skewness**2
    values = np.random.default_rng(0).gamma(shape, size=400_000)
    z = np.clip(sign * scale * (values - shape) / np.sqrt(shape), -1, 1)
    released = np.array([[z.mean(), size(z).mean(), 0.0]]) * 1000
    found = located(released, 1000, Noise("laplace", 1e-6, 1e-6, 1e-6))
    off = abs(found.mean[0]) / np.sqrt(found.variance[0])
    half = half_widths(found, 0.025, skewness, one_sided=True) / np.sqrt(found.variance)
    assert off > 0.3 and half[0] == pytest.approx(1.97 + off, abs=0.15)


NO_NOISE = Noise("laplace", 1e-9, 1e-9, 1e-9)


def test_the_sampling_variance_is_that_of_many_samples() -> None:
    # Far from the center, where the covariance of the two sums counts.
    z = np.clip(np.random.default_rng(1).normal(0.5, 0.6, size=(4000, 200)), -1, 1)
    found = located(np.stack([z.sum(axis=1), size(z).sum(axis=1), np.zeros(4000)], axis=1), 200, NO_NOISE)
    assert found.mean.var() / found.variance.mean() == pytest.approx(1, abs=0.09)


def test_the_deviation_holds_where_half_of_the_values_are_equal() -> None:
    # Half at 0, and gamma values beside them, nearly all within the clip. Absolute values give 0.61 of the deviation.
    rng = np.random.default_rng(2)
    z = np.clip(np.where(rng.random(100_000) < 0.5, 0.0, rng.gamma(2.0, 0.1, size=100_000)), -1, 1)
    found = located(np.array([[z.sum(), size(z).sum(), 0.0]]), z.size, NO_NOISE)
    assert found.std[0] / z.std() == pytest.approx(1, abs=0.05)
