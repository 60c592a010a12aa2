"""The null in whitened coordinates: other units and layouts are the same hypothesis."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from dpstats.errors import InvalidData
from dpstats.identity import FilteringTest, LipschitzExtensionTest, RowDistanceTest, SpatialSignTest, sign_reduction
from dpstats.identity.row_distance_statistic import round_to_steps
from dpstats.identity.whitening import Reference
from tests.identity.every_test import FAST, KINDS, NULL_ROWS


@pytest.mark.parametrize("kind", KINDS)
def test_whitening_is_invariant(kind) -> None:
    """Other units, the same test: means and covariances that undo a change of coordinates."""
    mean = np.array([1.0, -2.0, 5.0])
    root = np.diag([2.0, 0.5, 3.0])
    plain = kind(random_state=3, **FAST).fit(NULL_ROWS + 0.5)
    moved = (NULL_ROWS + 0.5) @ root + mean
    for cov in (root @ root, np.diag(root) ** 2):
        other = kind(random_state=3, mean=mean, cov=cov, **FAST).fit(moved)
        assert other.statistic_ == pytest.approx(plain.statistic_, rel=1e-6)
        assert other.threshold_ == plain.threshold_


def test_layouts_give_the_same_statistic() -> None:
    cov = np.array([[2.0, 0.3, 0.1], [0.3, 1.0, 0.2], [0.1, 0.2, 3.0]])
    test = RowDistanceTest(cov=cov)
    plan = test.plan(60, 3)
    Z, W = (plan.reference.whiten(X) for X in (NULL_ROWS, np.asfortranarray(NULL_ROWS)))
    assert np.array_equal(Z, W)
    # Units far out, by a power of two: the same whitened rows.
    huge = RowDistanceTest(cov=np.ldexp(cov, 1000)).plan(60, 3).reference
    assert np.array_equal(huge.whiten(np.ldexp(NULL_ROWS, 500)), Z)


def test_a_missing_row_of_signs_is_the_mean_of_the_null() -> None:
    reference = Reference.build([0.5, -0.2], None, "product", 2)
    signs = np.array([[1.0, -1.0], [1.0, 1.0]])
    missing = np.array([[np.nan, -1.0], [1.0, np.inf]])
    assert reference.whiten(missing, "center").tolist() == [[0.0, 0.0], [0.0, 0.0]]
    both = reference.whiten(np.vstack([signs, missing]), "center")
    assert np.array_equal(both[:2], reference.whiten(signs)) and (both[:2] != 0).all()
    with pytest.raises(InvalidData, match=r"missing='drop'.*such a row as the mean of the null"):
        reference.whiten(missing)


def test_uniformity_and_identity_of_product_distributions() -> None:
    rng = np.random.default_rng(0)
    rng.standard_normal((60, 3))
    signs = np.where(rng.random((400, 5)) < 0.5, 1, -1)
    biased = np.where(rng.random((400, 5)) < 0.7, 1, -1)
    for test in (
        RowDistanceTest(null="product", epsilon=2.0, random_state=0, **FAST),
        RowDistanceTest(rows="sign", epsilon=2.0, random_state=0, **FAST),
        SpatialSignTest(null="product", epsilon=2.0, random_state=0, **FAST),
        LipschitzExtensionTest(rows="sign", epsilon=2.0, random_state=0, **FAST),
    ):
        assert test.fit_predict(signs) == 0
        assert test.fit_predict(biased) == 1
    for kind in (RowDistanceTest, SpatialSignTest, LipschitzExtensionTest):
        test = kind(null="product", mean=0.4, epsilon=2.0, random_state=0, **FAST)
        assert test.fit_predict(biased) == 0
        assert test.fit_predict(signs) == 1


@pytest.mark.parametrize("mean", [0.0, 0.4])
def test_zero_one_rows_are_the_signs_they_stand_for(mean) -> None:
    rng = np.random.default_rng(1)
    ones = (rng.random((80, 4)) < (1 + mean) / 2).astype(int)
    tests = [
        kind(null="product", mean=mean, random_state=3, **FAST)
        for kind in (RowDistanceTest, SpatialSignTest, LipschitzExtensionTest)
    ]
    if mean == 0:
        tests += [
            RowDistanceTest(null="product", rows="sign", random_state=3, **FAST),
            FilteringTest(null="product", random_state=3, **FAST),
        ]
    for test in tests:
        signs = clone(test).fit(2 * ones - 1).statistic_
        assert clone(test).fit(ones).statistic_ == clone(test).fit(ones > 0).statistic_ == signs
    # For normal rows sgn 0 stays +1.
    assert sign_reduction([[0, 1], [-1, -0.0]]).tolist() == [[1, 1], [-1, 1]]


def test_means_beyond_the_cube_by_a_rounding_are_on_it() -> None:
    reference = Reference.build(0.5, None, "product", 1)
    room = 0.5 * float(reference.whitener[0])
    assert reference.up(room * (1 + 1e-12)) == 1.0 and reference.up(-3 * room * (1 + 1e-12)) == 0.0


def test_no_entry_raises_where_the_caller_has_numpy_raise():
    rows = np.array([[5e-324, 1e-310, -3e-309], [1e308, -1e308, 1e308], [0.5, 0.0, -1.0]])
    for cov in (np.array([1e6, 1e-6, 1e100]), np.diag([1e6, 1.0, 1e10]) + 0.1):
        reference = Reference.build(0.0, cov, "normal", 3)
        quiet = round_to_steps(reference.whiten(rows), None, 0.4, 8)
        with np.errstate(all="raise"):
            loud = round_to_steps(reference.whiten(rows), None, 0.4, 8)
        assert np.array_equal(loud, quiet)


def test_signs_of_other_means_are_another_law() -> None:
    # The law is part of the key of a calibration.
    laws = {Reference.build(mean, None, "product", 2).law for mean in (0.0, 0.5, [0.5, -0.5])}
    assert len(laws) == 3 and Reference.build(0.5, None, "normal", 2).law not in laws
