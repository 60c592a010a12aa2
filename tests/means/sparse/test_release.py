"""What is released of the columns that were selected."""

import numpy as np
import pytest
import scipy.sparse

from dpstats.data.opening import Memory
from dpstats.means import SparseMean
from tests.means.sparse.test_estimator import OPTIONS, WAYS, rows


def test_a_signal_beyond_max_signal_is_put_right_by_the_later_stages():
    X = np.random.default_rng(1).normal(size=(2000, 50))
    X[:, :5] += 3.0
    made = SparseMean(n_nonzero=5, clip=8.0, std=1.0, epsilon=2.0, random_state=0).fit(X)
    assert len(made.plan_.stages) > 1
    np.testing.assert_allclose(made.mean_[:5], 3.0, atol=0.2)


def test_units_are_those_of_the_data():
    X = rows()
    one = SparseMean(**OPTIONS, random_state=0).fit(X)
    scaled = SparseMean(**{**OPTIONS, "clip": 4000.0, "std": 1000.0}, random_state=0).fit(1000 * X)
    np.testing.assert_allclose(scaled.mean_, 1000 * one.mean_, rtol=1e-6)
    assert scaled.noise_scale_ == pytest.approx(1000 * one.noise_scale_, rel=1e-9)
    units = np.geomspace(0.01, 100, 30)
    each = SparseMean(**{**OPTIONS, "clip": 1e6, "std": units}, random_state=0).fit(X * units)
    np.testing.assert_allclose(each.mean_, one.mean_ * units, rtol=1e-4)


def test_how_a_row_is_stored_changes_no_integer():
    table = scipy.sparse.random(60, 30, density=0.3, random_state=2, format="csr")
    made = SparseMean(**OPTIONS, selection="peeling", random_state=0)
    expected = made._read(Memory(table).read(made._schema()), made.plan(60, 30))
    for i in (0, 17, 59):
        flipped = table.copy()
        row = slice(*flipped.indptr[i : i + 2])
        flipped.indices[row], flipped.data[row] = flipped.indices[row][::-1], flipped.data[row][::-1]
        rows_ = Memory(flipped).read(made._schema())
        np.testing.assert_array_equal(rows_.X.toarray(), table.toarray())
        for found, before in zip(made._read(rows_, made.plan(60, 30)), expected, strict=True):
            np.testing.assert_array_equal(found, before)


def test_extreme_entries_are_not_refused_after_the_charge():
    X = rows(40)
    X[0], X[39] = 1.7e308, -1.7e308
    for way in WAYS:
        std = way.get("std", 1.0)
        given = {**OPTIONS, **way, "std": std * 1e-3, "clip": 1.0}
        made = SparseMean(**given, random_state=0).fit(X)
        # Both are clipped like any row as far out on their side.
        far = X.copy()
        far[0], far[39] = 1e300, -1e300
        again = SparseMean(**given, random_state=0).fit(far)
        assert made.support_.tolist() == again.support_.tolist()
        np.testing.assert_array_equal(made.mean_, again.mean_)
        assert np.isfinite(made.mean_).all()
