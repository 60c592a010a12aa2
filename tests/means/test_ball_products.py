"""How far a row moves the products of rows in a ball, and their exact sums."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpstats.covariance import HotellingTest
from dpstats.covariance.hotelling import STAGE, last_extension
from dpstats.means.ellipsoids import SIGNED_WEIGHT, Extension, _integer_rows

ONE, TWO = Extension(3, 0.5, 0.0, 18), Extension(3, math.sqrt(0.15), 1.0, 18)


def moved(extension: Extension, first: np.ndarray, second: np.ndarray, signs: tuple[float, float]) -> float:
    """Return how far two rows are apart in all blocks, in units of 4^bits, straight from the definition."""

    def blocks(row: np.ndarray, sign: float) -> np.ndarray:
        (found,) = [extension.sums("s", row[None], np.array([sign]))]
        parts = []
        for name, values in found.items():
            weight = (math.sqrt(2) if "above" in name else 1.0) * (
                math.sqrt(SIGNED_WEIGHT) if "signed" in name else 1.0
            )
            parts.append(weight * values / 4.0**extension.bits)
        return np.concatenate(parts)

    return float(np.linalg.norm(blocks(first, signs[0]) - blocks(second, signs[1])))


@pytest.mark.parametrize("extension", [ONE, TWO], ids=["one sample", "two samples"])
def test_no_rows_are_further_apart_than_the_theorems_say(extension: Extension) -> None:
    rng = np.random.default_rng(0)
    largest = 0.0
    for _ in range(2000):
        rows = rng.normal(size=(2, 3)) * rng.choice([0.1, 1.0, 1e6])
        signs = rng.choice([-1.0, 1.0], size=2)
        largest = max(largest, moved(extension, *rows, (signs[0], signs[1])))
    assert 0.95 * extension.movement < largest <= extension.movement


def test_orthogonal_rows_attain_the_bound() -> None:
    extension = Extension(2, 1.0, 0.0, 18)
    row = np.array([0.6, 0.8])
    assert moved(extension, row, -row, (1.0, 1.0)) > 0.9999 * math.sqrt(2)


@pytest.mark.parametrize("extension", [ONE, TWO], ids=["one sample", "two samples"])
def test_extended_rows_stay_in_their_ball(extension: Extension) -> None:
    assert sum(c**2 for c in extension.constants) + extension.radius**2 <= 4**extension.bits
    rows = np.array([[1e300, 1e300, -1e300], [np.nan, 0.0, 0.0], [np.inf, 1.0, 1.0], [1.0, 0.0, 0.0]])
    for row in rows:
        diagonal = extension.sums("s", row[None], np.ones(1))["s, diagonal"]
        assert diagonal.sum() <= 4**extension.bits
    # What is not a number counts as the center.
    assert not extension.sums("s", rows[1:2], np.ones(1))["s, diagonal"][len(extension.constants) :].any()


def test_a_release_without_noise_has_the_averages_of_the_rows() -> None:
    rng = np.random.default_rng(1)
    rows, signs = rng.normal(size=(500, 3)) / 5, rng.choice([-1.0, 1.0], size=500)
    rows /= np.maximum(np.linalg.norm(rows, axis=1), 1.0)[:, None]
    plan = HotellingTest(bounds=(-1, 1), groups=[0, 1], unknown="error").plan(500, 3)
    extension = last_extension(3, True, plan.bits)
    exact = extension.sums(STAGE, rows, signs)
    spacing = {block.name: block.spacing for block in plan.stage(STAGE).blocks}
    found = extension.read(STAGE, {name: values * spacing[name] for name, values in exact.items()}, plan)
    tolerance = 10 * 2.0**-plan.bits
    assert found.sign is not None and found.signed_mean is not None and found.signed_products is not None
    assert found.sign == pytest.approx(signs.mean(), abs=tolerance)
    np.testing.assert_allclose(found.mean, rows.mean(axis=0), atol=tolerance)
    np.testing.assert_allclose(found.signed_mean, signs @ rows / 500, atol=tolerance)
    np.testing.assert_allclose(found.products, rows.T @ rows / 500, atol=tolerance)
    np.testing.assert_allclose(found.signed_products, (rows * signs[:, None]).T @ rows / 500, atol=tolerance)


@pytest.mark.parametrize("groups", [None, [0, 1]], ids=["one sample", "two samples"])
def test_the_stated_noise_is_that_of_releases(groups: list[int] | None) -> None:
    # Of 4,000 draws a standard deviation is within 6% of the stated one but once in 10^6.
    rng = np.random.default_rng(2)
    plan = HotellingTest(bounds=(-1, 1), groups=groups).plan(200, 2)
    extension = plan.extension
    stage = plan.stage(STAGE)
    noise = {b.name: rng.normal(0, stage.noise_std(b), size=(4000, b.size)) for b in stage.blocks}
    found = extension.read(STAGE, noise, plan)
    for stated, drawn in (
        (found.mean_std, found.mean),
        (found.products_std, found.products[..., 0, 1]),
        (found.sign_std, found.sign),
        (found.signed_mean_std, found.signed_mean),
    ):
        if drawn is not None:
            assert np.asarray(drawn).std() == pytest.approx(stated, rel=0.06)
    if found.signed_products is not None:
        assert found.signed_products[..., 0, 1].std() == pytest.approx(found.signed_products_std, rel=0.06)


@pytest.mark.parametrize("steps", [3, 16, 1000])
def test_a_row_that_is_not_inside_the_ball_counts_as_zero(steps: int) -> None:
    rows = np.random.default_rng(0).normal(size=(50, 3))
    rows[:4] = [[np.nan, 1, 0], [np.inf, 0, 0], [-np.inf, np.inf, 1], [1e308, 1e308, -1e308]]
    found, _ = _integer_rows(rows, steps)
    assert np.all((found**2).sum(axis=1) <= steps**2) and np.all(found[:3] == 0)
