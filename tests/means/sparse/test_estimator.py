"""SparseMean: exact composition, published variants that are not private, plans, fits, sparse tables, intervals."""

import math

import numpy as np
import pytest
import scipy.sparse

from dpstats.errors import InvalidData, InvalidParameter
from dpstats.means import SparseMean
from dpstats.privacy import (
    PrivacyBudget,
)

OPTIONS = {"n_nonzero": 2, "clip": 4.0, "std": 1.0, "epsilon": 3.0}


def rows(n=400, d=30, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, d))
    X[:, [3, 8]] += [0.9, -0.9]
    return X


# Peeling: the exact total


# Plans


# Fits

WAYS = [
    {},
    {"delta": 0.0},
    {"selection": "peeling"},
    {"selection": "peeling", "delta": 0.0},
    {"split": True},
    {"split": True, "delta": 0.0},
    {"split": True, "selection": "peeling"},
    {"std": np.linspace(0.9, 1.1, 30)},
]


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("random_state", [None, 3])
def test_fits_find_strong_signals(way, random_state):
    made = SparseMean(**{**OPTIONS, **way}, random_state=random_state).fit(rows(1500))
    assert made.support_.tolist() == [3, 8]
    assert np.flatnonzero(made.mean_).tolist() == [3, 8]
    # Six standard deviations of noise and sampling.
    error = 6 * math.hypot(1 / math.sqrt(750), made.plan_.noise_std)
    np.testing.assert_allclose(made.mean_[[3, 8]], [0.9, -0.9], atol=error)
    assert made.privacy_.simulated == (random_state is not None)
    assert "x3" in str(made.summary())


@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "lil", "dok", "bsr"])
@pytest.mark.parametrize(
    "way", [{}, {"split": True}, {"selection": "peeling"}, {"std": np.full(30, 1.0)}], ids=str
)
def test_sparse_tables_are_the_dense_ones(layout, way):
    table = scipy.sparse.random(200, 30, density=0.2, random_state=1, format="csr")
    made = SparseMean(**{**OPTIONS, **way}, random_state=0)
    dense = made.fit(table.toarray()).mean_
    np.testing.assert_array_equal(made.fit(table.asformat(layout)).mean_, dense)


def copies(flip, layout):
    """Return a table whose rows are sums that depend on their order; the last one is stored in either order."""
    one = np.concatenate([[1e17], np.ones(19), [-1e17]])
    data, columns, ends = [], [], [0]
    for i in range(40):
        data += [*one, 0.0, 0.0] if i == 39 else [*one]
        columns += [0] * one.size + ([2, 1] if flip else [1, 2]) * (i == 39)
        ends.append(len(columns))
    if layout == "csr":
        return scipy.sparse.csr_array((np.array(data), np.array(columns), np.array(ends)), shape=(40, 3))
    lines = np.repeat(np.arange(40), np.diff(ends))
    return scipy.sparse.coo_array((np.array(data), (lines, np.array(columns))), shape=(40, 3))


@pytest.mark.parametrize("layout", ["csr", "coo"])
def test_entries_stored_twice_are_refused_before_any_charge(layout):
    # Power: the library's sums of the first 39 rows depend on how the last row is stored.
    added = [copies(flip, "csr") for flip in (False, True)]
    for table in added:
        table.sum_duplicates()
    assert (added[0].toarray()[:39] != added[1].toarray()[:39]).any()
    budget = PrivacyBudget(10.0, 1e-3)
    for flip in (False, True):
        for missing in ("error", "center"):
            with pytest.raises(InvalidData, match="must not store an entry twice"):
                SparseMean(**OPTIONS, missing=missing, budget=budget).fit(copies(flip, layout))
    assert not budget.history()


def test_a_stale_flag_of_a_sparse_table_is_not_trusted():
    table = scipy.sparse.csr_matrix((np.array([9.0, -9.0]), [0, 1], [0, 2, 2]), shape=(2, 3))
    assert table.has_canonical_format
    table.indices[:] = 0
    with pytest.raises(InvalidData, match="twice"):
        SparseMean(**OPTIONS, random_state=0).fit(table)


# Intervals


def test_intervals_need_a_split():
    made = SparseMean(**OPTIONS, random_state=0).fit(rows())
    for ask in (made.confidence_interval, lambda: made.cov_params_):
        with pytest.raises(InvalidParameter, match="need split=True"):
            ask()


@pytest.mark.parametrize("way", [{}, {"delta": 0.0}, {"selection": "peeling"}], ids=str)
def test_intervals_after_a_split_cover(way):
    # 200 datasets of 2 intervals: five standard errors of the coverage are .055, of both together .077.
    rng, covered, together = np.random.default_rng(5), 0, 0
    truth = np.zeros(30)
    truth[3] = 0.3
    for _ in range(200):
        made = SparseMean(**{**OPTIONS, **way}, split=True, random_state=rng).fit(
            rng.normal(size=(200, 30)) + truth
        )
        for simultaneous in (False, True):
            low, high = made.confidence_interval(simultaneous=simultaneous)
            inside = (low <= truth[made.support_]) & (truth[made.support_] <= high)
            covered += 0 if simultaneous else inside.sum()
            together += inside.all() if simultaneous else 0
    assert abs(covered / 400 - 0.95) < 0.055
    assert abs(together / 200 - 0.95) < 0.077


def test_the_covariance_is_that_of_the_intervals():
    made = SparseMean(**OPTIONS, split=True, random_state=0).fit(rows())
    low, high = made.confidence_interval()
    np.testing.assert_allclose((high - low) / 2, 1.959964 * np.sqrt(np.diag(made.cov_params_)), rtol=1e-6)
    assert made.cov_params_[0, 0] == pytest.approx(1 / 200 + made.noise_scale_**2, rel=1e-12)


# Bad input, before any charge

BAD = [
    ({"n_nonzero": 31}, "n_nonzero must be an integer at least 1 and at most 30, got 31"),
    ({"n_nonzero": 0}, "n_nonzero"),
    ({"std": 0.0}, "std must be a finite number greater than 0"),
    ({"std": -1.0}, "std"),
    ({"std": np.ones(3)}, "std must be a number or one number per column"),
    ({"clip": 0.0}, "clip must be a finite number greater than 0"),
    ({"clip": 0.0, "selection": "peeling"}, "clip must be a finite number greater than 0"),
    ({"max_signal": -1.0}, "max_signal must be a finite number at least 0"),
    ({"max_signal": 1e300}, "max_signal must be a finite number at least 0 and at most 1e\\+06"),
    ({"selection": "lasso"}, "selection must be one of"),
    ({"selection_share": 1.0}, "selection_share"),
    ({"selection_clip": 0.0}, "selection_clip"),
    ({"calibration": "textbook"}, "use selection='peeling'"),
    ({"calibration": "textbook", "selection": "peeling", "delta": 0.0}, "needs delta > 0"),
    ({"calibration": "textbook", "selection": "peeling", "split": True}, "split=False"),
    ({"split": "yes"}, "split must be True or False"),
    ({"missing": "drop"}, "missing"),
]


@pytest.mark.parametrize(("change", "message"), BAD, ids=[str(change) for change, _ in BAD])
def test_bad_parameters_charge_nothing(change, message):
    budget = PrivacyBudget(10.0, 1e-3)
    with pytest.raises(InvalidParameter, match=message):
        SparseMean(**{**OPTIONS, **change}, budget=budget).fit(rows())
    assert not budget.history()


def test_too_few_rows_for_a_split():
    with pytest.raises(InvalidData, match="X must have at least 4 rows, got n_samples = 3"):
        SparseMean(**OPTIONS, split=True).fit(rows(3))
    with pytest.raises(InvalidParameter, match="split=True needs at least 4 rows"):
        SparseMean(**OPTIONS, split=True).plan(3, 30)


@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("row", [0, 39])
def test_entries_that_are_not_finite(split, sparse, row):
    X = rows(40)
    X[row, 3] = np.inf
    X[row, 4] = np.nan
    given = scipy.sparse.csr_matrix(X) if sparse else X
    budget = PrivacyBudget(10.0, 1e-3)
    with pytest.raises(InvalidData, match="NaN or infinity"):
        SparseMean(**OPTIONS, split=split, budget=budget).fit(given)
    assert not budget.history()
    centred = SparseMean(**OPTIONS, split=split, missing="center", random_state=0)
    X[row, [3, 4]] = 0.0
    np.testing.assert_array_equal(centred.fit(given).mean_, centred.fit(X).mean_)


def test_predict_is_the_estimate_for_every_row():
    X = rows()
    made = SparseMean(**OPTIONS, random_state=0).fit(X)
    np.testing.assert_array_equal(made.predict(X[:5]), np.tile(made.mean_, (5, 1)))
    with pytest.raises(InvalidData, match="sparse"):
        made.predict(scipy.sparse.csr_matrix(X))
