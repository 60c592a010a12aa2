"""Standardized differences: textbook values, agreement with the difference, coverage by simulated releases."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import stats

from dpstats.errors import InvalidParameter
from dpstats.groups import GroupMeans, GroupQuantiles
from dpstats.groups.comparisons import KURTOSIS, StandardizedErrors
from dpstats.means.ratio import DifferenceErrors, Noise, Ratio

COVARIANCE = 0.77 * 8.9**2
NOISE = Noise(8.45, 8.9, 8.0, 8.45, 8.9, COVARIANCE)


def exact(x: np.ndarray, noise: Noise) -> Ratio:
    """Return the totals of groups without their noise, one group a row."""
    T, Q = x.sum(axis=1), (x**2).sum(axis=1)
    N = np.full(len(x), float(x.shape[1]))
    return Ratio(T, N, Q, T, N, noise)


def released(x: np.ndarray, rng: np.random.Generator, scale: float) -> Ratio:
    """Return the totals of groups with so many times the noise of a release."""
    noise = Noise(*(scale * sd for sd in (8.45, 8.9, 8.0, 8.45, 8.9)), scale**2 * COVARIANCE)
    T, N, Q = (getattr(exact(x, noise), name) for name in "TNQ")
    T = T + scale * rng.normal(0, 8.45, T.shape)
    together = rng.multivariate_normal([0, 0], [[8.0**2, COVARIANCE], [COVARIANCE, 8.9**2]], T.shape)
    Q, N = Q + scale * together[:, 0], N + scale * together[:, 1]
    return Ratio(T, N, Q, T, N, noise)


def test_without_noise_the_estimate_is_hedges_g() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-0.6, 0.4, (1, 40)), rng.uniform(-0.2, 0.7, (1, 25))
    nothing = Noise(1e-9, 1e-9, 1e-9, 1e-9, 1e-9, 0.0)
    errors = StandardizedErrors(DifferenceErrors(exact(x, nothing), exact(y, nothing), 1.0))
    pooled = np.sqrt((x.var() * 40 + y.var() * 25) / 65)
    d = (x.mean() - y.mean()) / pooled
    assert errors.start[0] == pytest.approx(d, rel=1e-6)
    assert errors.estimate[0] == pytest.approx(d * (1 - 3 / (4 * 63 - 1)), rel=1e-6)
    low, high = errors.limits(np.asarray(0.025))
    # The interval of the noncentral t distribution, for normal rows: a little shorter.
    usual = 2 * 1.96 * np.sqrt(1 / 40 + 1 / 25 + d**2 / (2 * 65))
    assert low[0] < d < high[0] and usual < high[0] - low[0] < 1.35 * usual


LAWS = {
    "normal": (stats.norm(0, 0.25), stats.norm(0.15, 0.25)),
    "skewed": (stats.expon(-0.9, 0.15), stats.expon(-0.7, 0.25)),
    "two values": (stats.bernoulli(0.03, loc=-1), stats.bernoulli(0.3, loc=-1)),
    "contaminated": (stats.t(3, -0.1, 0.05), stats.t(3, 0.1, 0.05)),
    "far apart": (stats.norm(-0.5, 0.1), stats.norm(0.5, 0.1)),
}
REPEATS = 300


@pytest.mark.parametrize(
    ("law", "sizes", "scale"),
    [
        ("normal", (60, 30), 0.01),
        ("skewed", (900, 100), 0.2),
        ("two values", (400, 300), 1.0),
        ("contaminated", (20, 15), 1.0),
        ("far apart", (400, 300), 1.0),
    ],
)
def test_intervals_cover(law: str, sizes: tuple[int, int], scale: float) -> None:
    rng = np.random.default_rng(1)
    many = [np.clip(one.rvs(200_000, random_state=rng), -1, 1) for one in LAWS[law]]
    spread = np.sqrt(np.average([one.var() for one in many], weights=sizes))
    truth = (many[0].mean() - many[1].mean()) / spread
    groups = [released(rng.choice(one, (REPEATS, size)), rng, scale) for one, size in zip(many, sizes, strict=True)]
    low, high = StandardizedErrors(DifferenceErrors(*groups, 1.0)).limits(np.asarray(0.025))
    # Of 0.95, 300 runs show less than 0.89 with probability 2e-5.
    assert np.mean((low <= truth) & (truth <= high)) >= 0.89


def test_a_spread_that_is_taken_as_known_would_not_be_covered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StandardizedErrors, "_variance_limits", lambda self, z: (self._start_variance + 0.0 * z,) * 2)
    with pytest.raises(AssertionError):
        test_intervals_cover("far apart", (400, 300), 1.0)


X = np.random.default_rng(3).normal(size=(3000, 2)) * 0.5
GROUP = np.repeat([0, 1, 2], 1000)
X[GROUP == 1] += 0.25


def means(**options: object) -> GroupMeans:
    return GroupMeans(**{"groups": [0, 1, 2], "bounds": (-2, 2), "random_state": 0, **options})


def test_the_test_of_no_effect_is_that_of_the_difference() -> None:
    found = means().fit(X[:, :1], GROUP).difference(1, 0)
    effect = found.standardize()
    assert effect.pairs == found.pairs and effect.names == found.names
    assert effect.estimate == pytest.approx([0.5], abs=0.2)
    assert effect.pvalue == pytest.approx(found.pvalue, rel=1e-12)
    assert effect.test(1e-9).pvalue == pytest.approx(found.pvalue, rel=0.1)
    for level in (0.5, 0.999999):
        outer, inner = found.confidence_interval(level), effect.confidence_interval(level)
        assert np.sign(inner.low).tolist() == np.sign(outer.low).tolist()
    assert "kurtosis" in str(effect.summary()) and "Hedges' g" in str(effect.summary())
    assert np.all(effect.error > 0) and "standard deviation within both groups" in effect.estimand
    assert pickle.loads(pickle.dumps(effect)).to_dict() == effect.to_dict()


def test_units_of_the_columns_do_not_matter() -> None:
    one = means().fit(X, GROUP).difference(1, 0).standardize()
    other = means(bounds=(-20, 20)).fit(10 * X, GROUP).difference(1, 0).standardize()
    assert other.estimate == pytest.approx(one.estimate, rel=1e-6)


def test_all_pairs_are_standardized_together() -> None:
    found = means().fit(X[:, :1], GROUP).pairwise().standardize()
    assert found.estimate.shape == (3, 1) and found.jointly
    each = found.confidence_interval(simultaneous=False)
    assert np.all(found.confidence_interval().low < each.low)


def test_hidden_spreads_have_infinite_limits_and_no_estimate() -> None:
    rng = np.random.default_rng(2)
    errors = StandardizedErrors(DifferenceErrors(*(released(np.zeros((40, 5)), rng, 1.0) for _ in range(2)), 1.0))
    low, high = errors.limits(np.asarray(0.025))
    assert np.all(low == -np.inf) and np.all(high == np.inf)
    assert np.isnan(errors.estimate).tolist() == (errors._squares <= 0).tolist()


def test_the_variance_of_squares_is_bounded_by_the_bounds_and_the_kurtosis() -> None:
    rng = np.random.default_rng(0)
    group = exact(rng.uniform(-0.1, 0.1, (1, 100)), NOISE)
    errors = StandardizedErrors(DifferenceErrors(group, group, 1.0))
    value = np.array([0.01])
    assert errors._sampling_variance(value)[0] == pytest.approx(200 * (KURTOSIS - 1) * 0.01**2)
    largest = (1 + abs(float(group.estimate[0]))) ** 2
    value = np.array([0.6])
    assert errors._sampling_variance(value)[0] == pytest.approx(200 * 0.6 * (largest - 0.6))


def test_only_differences_of_means_of_declared_groups_are_standardize() -> None:
    medians = GroupQuantiles(groups=[0, 1], bounds=(-2, 2), random_state=0).fit(X[:, 0], GROUP)
    found = means(groups="discover").fit(X, GROUP)
    for difference in (medians.difference(0, 1), found.difference(*found.groups_[:2])):
        with pytest.raises(InvalidParameter, match="the differences must"):
            difference.standardize()


def test_equal_rows_without_noise_have_no_standardized_difference() -> None:
    nothing = Noise(1e-9, 1e-9, 1e-9, 1e-9, 1e-9, 0.0)
    errors = StandardizedErrors(DifferenceErrors(*[exact(np.zeros((2, 5)), nothing)] * 2, 1.0))
    assert np.all(errors._squares == 0) and np.isnan(errors.estimate).all()


def test_no_variance_is_larger_than_bounds_allow() -> None:
    rng = np.random.default_rng(0)
    x = np.sign(rng.normal(size=(400, 4)))
    errors = StandardizedErrors(DifferenceErrors(*(released(x, rng, 1.0) for _ in range(2)), 1.0))
    assert np.any(errors._squares > errors._count) and errors._start_variance.max() == 1.0


def test_two_means_at_opposite_bounds_have_one_degree_of_freedom() -> None:
    rejected, missed = 0, 0
    rows, labels = np.repeat([[-2.0], [2.0]], 70, axis=0), np.repeat(["a", "b"], 70)
    for seed in range(200):
        model = GroupMeans(
            groups=["a", "b"], bounds=(-2, 2), bounds_are="hard", epsilon=2.0, delta=0, random_state=seed
        )
        found = model.fit(rows, labels).difference("a", "b", alternative="greater")
        rejected += found.test(-4.0).pvalue[0] < 0.05
        missed += found.confidence_interval(0.95).low[0] > -4.0
    assert rejected == missed and rejected <= 18
