"""SparseMean: exact composition, published variants that are not private, plans, fits, sparse tables, intervals."""

import math

import numpy as np
import pytest
import scipy.sparse

from dpstats.data.rows import Narrow
from dpstats.errors import InvalidData, InvalidParameter
from dpstats.means import SparseMean
from dpstats.privacy import PrivacyBudget

OPTIONS = {"n_nonzero": 2, "clip": 4.0, "std": 1.0, "epsilon": 3.0}


def rows(n=400, d=30, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, d))
    X[:, [3, 8]] += [0.9, -0.9]
    return X


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
@pytest.mark.parametrize("way", [{}, {"split": True}, {"selection": "peeling"}, {"std": np.full(30, 1.0)}], ids=str)
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
    # Names are listed all the same.
    assert "mean_" in dir(made) and not hasattr(made, "cov_params_")


def centered(rng, law, shape):
    """Return rows of mean 0 and variance 1."""
    if law == "normal":
        return rng.normal(size=shape)
    if law == "exponential":
        return rng.exponential(size=shape) - 1
    return ((rng.random(shape) < 0.01) - 0.01) / math.sqrt(0.0099)


@pytest.mark.parametrize("law", ["normal", "exponential", "rare"])
@pytest.mark.parametrize("way", [{}, {"delta": 0.0}, {"selection": "peeling"}], ids=str)
def test_intervals_after_a_split_cover(way, law):
    # 60 datasets of 2 intervals, which are longer than these rows need: five standard errors of .95 are .1.
    rng, covered, together, plain = np.random.default_rng(5), 0, 0, 0
    truth = np.zeros(12)
    truth[3] = 0.5
    for _ in range(60):
        made = SparseMean(**{**OPTIONS, **way}, split=True, random_state=rng).fit(
            centered(rng, law, (6000, 12)) + truth
        )
        for simultaneous in (False, True):
            low, high = made.confidence_interval(simultaneous=simultaneous)
            inside = (low <= truth[made.support_]) & (truth[made.support_] <= high)
            covered += 0 if simultaneous else inside.sum()
            together += inside.all() if simultaneous else 0
        half = 1.96 * np.sqrt(np.diag(made.cov_params_))
        plain += np.sum(np.abs(made.mean_[made.support_] - truth[made.support_]) < half)
    assert covered / 120 > 0.9 and together / 60 > 0.86
    if law == "rare" and not way:
        # What left the bias out did not cover.
        assert plain / 120 < 0.7


def test_intervals_of_clipped_rows_leave_the_bias_out():
    made = SparseMean(**OPTIONS, split=True, random_state=0).fit(rows(4000))
    narrow, wide = made.confidence_interval(estimand="clipped"), made.confidence_interval()
    assert np.all(narrow.low > wide.low) and np.all(narrow.high < wide.high)
    assert "population" in wide.estimand and "clipped" in narrow.estimand
    with pytest.raises(InvalidParameter, match="estimand must be one of 'population', 'clipped'"):
        made.confidence_interval(estimand="median")


def test_the_covariance_is_that_of_the_estimate():
    made = SparseMean(**OPTIONS, split=True, random_state=0).fit(rows())
    assert made.cov_params_[0, 0] == pytest.approx(1 / 200 + made.noise_scale_**2, rel=1e-12)


def test_a_value_is_tested_from_the_same_release():
    made = SparseMean(**OPTIONS, split=True, random_state=0).fit(rows(4000))
    low, _ = made.confidence_interval()
    assert made.test(0.0).pvalue.max() < 1e-3
    assert np.all(made.test(low).pvalue == pytest.approx(0.05, rel=1e-3))
    assert np.all(made.test(made.mean_[made.support_]).pvalue > 0.5)


@pytest.mark.parametrize("way", [{}, {"delta": 0.0}, {"split": True}, {"split": True, "delta": 0.0}], ids=str)
@pytest.mark.parametrize("kept", [2, 20])
def test_a_mean_beyond_max_signal_is_said(way, kept):
    X = rows(4000)
    given = {**OPTIONS, **way, "n_nonzero": kept, "random_state": 0}
    fine = SparseMean(**given).fit(X)
    assert not fine.beyond_max_signal_ and "edge" not in str(fine.summary())
    X[:, 5] += 25_000.0
    made = SparseMean(**given).fit(X)
    assert made.beyond_max_signal_
    assert "some mean is farther from 0 than max_signal" in str(made.summary())
    if made.plan_.disjoint:
        low, high = made.confidence_interval()
        assert np.all(np.isinf(low)) and np.all(np.isinf(high))
    enough = SparseMean(**{**given, "max_signal": 30_000.0}).fit(X)
    assert not enough.beyond_max_signal_


def test_a_column_of_peeling_is_open_where_it_is_clipped():
    X = rows(4000)
    X[:, 5] += 25_000.0
    given = {**OPTIONS, "epsilon": 20.0, "selection": "peeling", "split": True, "random_state": 0}
    made = SparseMean(**given).fit(X)
    low, high = made.confidence_interval()
    at = made.support_.tolist().index(5)
    assert made.beyond_max_signal_ and high[at] == math.inf and low[at] < 25_000
    assert np.isfinite(high[1 - at])


# Private spread


@pytest.mark.parametrize("way", [{}, {"split": True}, {"n_nonzero": 20}, {"std_bound": np.full(30, 3.0)}], ids=str)
def test_a_private_spread_costs_the_means_nothing(way):
    X = rows(40_000) * 1.5
    given = {**OPTIONS, "std": "private", "std_bound": 3.0, "clip": 20.0, "random_state": 0, **way}
    made = SparseMean(**given).fit(X)
    public = SparseMean(**{**given, "std": given["std_bound"], "std_bound": None}).plan(40_000, 30)
    np.testing.assert_allclose(made.plan_.noise_stds, public.noise_stds, rtol=1e-9)
    # What clipping and the noise leave of 1.5; the last ball of a split is wide, and its squares are noisy.
    assert made.std_.shape == made.support_.shape
    found = dict(zip(made.support_.tolist(), made.std_.tolist(), strict=True))
    assert [found[3], found[8]] == pytest.approx([1.5, 1.5], abs=1.0 if "split" in way else 0.3)
    assert "std" in str(made.summary()).split("high]")[-1] or not made.plan_.disjoint
    if made.plan_.disjoint:
        low, high = made.confidence_interval()
        assert np.all((low < [1.35, -1.35]) & (high > [1.35, -1.35]))


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
    ({"calibration": "textbook"}, "calibration must"),
    ({"calibration": "textbook", "selection": "peeling", "delta": 0.0}, "calibration must"),
    ({"calibration": "textbook", "selection": "peeling", "split": True}, "calibration must"),
    ({"split": "yes"}, "split must be True or False"),
    ({"split": np.zeros(3)}, "split must be True or False"),
    ({"missing": "leave"}, "missing"),
    ({"std": "private"}, "std_bound must"),
    ({"std_bound": 2.0}, "std_bound must"),
    ({"std": "public"}, "std must be one of 'private', got 'public'"),
    ({"std": "private", "std_bound": -1.0}, "std_bound must be a finite number greater than 0"),
    ({"std": "private", "std_bound": 2.0, "delta": 0.0}, "delta must"),
    ({"std": "private", "std_bound": 2.0, "selection": "peeling"}, "selection must"),
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
    with pytest.raises(InvalidParameter, match="n_samples must"):
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
    centered = SparseMean(**OPTIONS, split=split, missing="center", random_state=0)
    X[row, [3, 4]] = 0.0
    np.testing.assert_array_equal(centered.fit(given).mean_, centered.fit(X).mean_)


def test_predict_is_the_estimate_for_every_row():
    X = rows()
    made = SparseMean(**OPTIONS, random_state=0).fit(X)
    np.testing.assert_array_equal(made.predict(X[:5]), np.tile(made.mean_, (5, 1)))
    with pytest.raises(InvalidData, match="X must"):
        made.predict(scipy.sparse.csr_matrix(X))


@pytest.mark.parametrize(("n", "warned"), [(60, True), (4000, False)])
def test_a_summary_warns_where_the_plan_does(n, warned):
    made = SparseMean(**{**OPTIONS, "epsilon": 0.5}, random_state=0).fit(rows(n))
    assert ("warning" in str(made.plan_)) is warned
    assert any(made.plan_.warning() in note for note in made.summary().notes) is warned


@pytest.mark.parametrize("options", [{}, {"split": True}, {"selection": "peeling"}])
@pytest.mark.parametrize("kind", [np.float32, np.int16, np.uint64])
def test_numbers_of_other_types_are_read_without_a_copy_of_the_table(monkeypatch, options, kind):
    rows = np.abs(np.random.default_rng(0).normal(scale=3.0, size=(300, 40)).round()).astype(kind)
    model = SparseMean(n_nonzero=3, clip=6.0, std=3.0, random_state=0, **options)
    expected = model.fit(rows.astype(np.float64)).mean_
    wide = model.fit(rows.astype(np.longdouble)).mean_
    monkeypatch.setattr(Narrow, "whole", None)
    assert np.array_equal(model.fit(rows).mean_, expected) and np.array_equal(wide, expected)
