"""missing="drop" where the number of rows is public: a count, then a release from a random sample of complete rows."""

from __future__ import annotations

import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import binom
from sklearn.base import clone

from dpstats.auditing.movement import FOLLOWS
from dpstats.auditing.sensitivity import Replay, fit, list_visible
from dpstats.covariance import HotellingTest, PrivateCorrelation, PrivateCovariance, PrivatePCA
from dpstats.errors import BudgetExceeded, InvalidData, InvalidParameter
from dpstats.identity import FilteringTest, LipschitzExtensionTest, RowDistanceTest, SpatialSignTest
from dpstats.means import AdaptiveMean, SparseMean
from dpstats.privacy import PrivacyBudget
from dpstats.privacy.totals import compose
from dpstats.ranks import KruskalWallisTest, MannWhitneyTest, SignedRankTest
from dpstats.release.additive import plan_count, usable_rows

TEST = {"n_calibration": 99, "cache_dir": None}
MADE: dict[str, Any] = {
    "adaptive": AdaptiveMean(bound=9.0, std=1.0),
    "adaptive, pure": AdaptiveMean(bound=9.0, std=1.0, delta=0.0),
    "adaptive, private spread": AdaptiveMean(bound=9.0, std="private", std_bound=3.0),
    "sparse": SparseMean(n_nonzero=1, clip=6.0, std=1.0, split=True),
    "row distance": RowDistanceTest(**TEST),
    "spatial sign": SpatialSignTest(**TEST),
    "l1 norm": LipschitzExtensionTest(**TEST),
    "inner products": LipschitzExtensionTest(constraint="inner_product", **TEST),
    "filtering": FilteringTest(**TEST),
    "signs": RowDistanceTest(null="product", **TEST),
    "covariance": PrivateCovariance(bounds=(-5, 5)),
    "rank correlation": PrivateCorrelation(),
    "components": PrivatePCA(bounds=(-5, 5)),
    "mean vector": HotellingTest(bounds=(-5, 5)),
    "mean vectors": HotellingTest(groups=["a", "b"], bounds=(-5, 5)),
    "signed ranks": SignedRankTest(n_simulations=99),
    "two groups": MannWhitneyTest(groups=["a", "b"], n_simulations=99),
    "three groups": KruskalWallisTest(groups=["a", "b", "c"], n_simulations=99),
}
each = pytest.mark.parametrize("name", MADE)


def data(name: str, seed: int) -> tuple[Any, ...]:
    """Return the rows of a fit, with labels where a test has groups: some undeclared, some missing."""
    X = rows(name, seed)
    if getattr(MADE[name], "groups", None) is None and name != "signed ranks":
        return (X,)
    labels = np.random.default_rng(seed).choice(np.array(["a", "b", "c", "d", None], dtype=object), size=len(X))
    X = X if name == "mean vectors" else X[:, seed]
    return (X,) if name == "signed ranks" else (X, labels)


def rows(name: str, seed: int, n: int = 600) -> np.ndarray:
    """Return rows of which a part is missing; of another size for another seed."""
    rng = np.random.default_rng(seed)
    X = rng.choice([-1.0, 1.0], size=(n, 3)) if name == "signs" else rng.normal(0.2, 1.0, size=(n, 3))
    X[rng.random(n) < 0.1 + 0.2 * seed, seed] = np.nan if seed else np.inf
    return X


@each
def test_both_parts_cost_what_was_asked_for_and_are_charged(name: str) -> None:
    made = clone(MADE[name]).set_params(missing="drop")
    asked = PrivacyBudget(made.epsilon, max(float(getattr(made, "delta", 0.0)), 1e-12))
    made.set_params(budget=asked).fit(*data(name, 0))
    count, release = (charge.label for charge in asked.history())
    assert (count, release) == (f"{type(made).__name__}: number of complete rows", type(made).__name__)
    assert made.privacy_ == made.plan_.guarantee and made.privacy_.epsilon <= made.epsilon
    assert compose(made.plan_.events, made.privacy_.delta).epsilon <= made.privacy_.epsilon * (1 + 1e-12)
    assert made.plan_.events[0] == made.plan_.counted.plan.events[0]
    assert made.plan_.n_samples == made.n_rows_ < 600 == made.plan_.n_given
    again = pickle.loads(pickle.dumps(made.set_params(budget=None)))
    assert again.privacy_ == made.privacy_ and "then, from a random sample of" in str(again.plan_)
    assert made.plan(600, made.n_features_in_).to_dict()["stages"][0]["name"] == "number of complete rows"


@each
def test_nothing_but_the_releases_is_seen(name: str) -> None:
    # Other rows, of which others are complete, and another number of them.
    made = clone(MADE[name]).set_params(missing="drop")

    def run(X: Any, witness: Any) -> Any:
        fitted = fit(made, X if len(X) == 2 else X[0], witness)
        return str(fitted.summary()), str(fitted.plan_), fitted.methods_text(), list_visible(fitted)

    found = [{"data": data(name, seed)} for seed in (0, 1)]
    replay = Replay(None, lambda _, given, witness: run(given["data"], witness), found[0], 0)
    check = replay.compare_neighbor(found[1], "")
    assert not check.course, check.course
    assert check.output == FOLLOWS


def test_a_budget_that_cannot_pay_for_both_is_not_charged() -> None:
    budget = PrivacyBudget(0.9, 1e-6)
    with pytest.raises(BudgetExceeded):
        AdaptiveMean(bound=9.0, std=1.0, missing="drop", budget=budget).fit(rows("", 0))
    assert budget.spent.epsilon == 0


def test_the_parts_of_epsilon_add_up_and_the_sample_is_of_complete_rows() -> None:
    for epsilon in (0.05, 0.3, 1.0, 7.7, 1e5):
        plan = plan_count(1000, 2, epsilon)
        count = plan.target.epsilon
        assert Fraction(count) + Fraction(epsilon - count) == Fraction(epsilon)
        assert 0.01 * epsilon * (1 - 1e-12) <= count <= 0.25 * epsilon
    plan, rng = plan_count(1000, 1, 1.0), np.random.default_rng(0)
    scale = float(np.max(plan.noise("number of complete rows").scale))
    too_many = [usable_rows(plan, 500 + noise) > 500 for noise in rng.laplace(scale=scale, size=20_000)]
    assert binom.ppf(1e-4, 20_000, 0.0045) <= sum(too_many) <= binom.ppf(1 - 1e-4, 20_000, 0.0055)


def test_a_sample_of_sparse_rows_is_one_of_its_complete_rows() -> None:
    dense = np.zeros((400, 5))
    dense[:, 2] = 5.0
    dense[::3, 0] = np.nan
    sparse = SparseMean(n_nonzero=1, clip=6.0, std=1.0, missing="drop", random_state=0)
    one, other = (clone(sparse).fit(X) for X in (dense, csr_array(dense)))
    assert one.n_rows_ == other.n_rows_ and one.mean_.tolist() == other.mean_.tolist()
    assert one.mean_[2] == pytest.approx(5.0, abs=0.5)


@pytest.mark.parametrize("missing", [0.02, 0.5])
def test_intervals_cover_the_mean_of_complete_rows(missing: float) -> None:
    rng, truth, covered = np.random.default_rng(0), np.array([7.0, -3.0]), 0
    mean = AdaptiveMean(bound=50.0, std=2.0, missing="drop", random_state=rng)
    for _ in range(40):
        X = rng.normal(truth, 2.0, size=(1500, 2))
        X[rng.random(1500) < missing, rng.integers(2)] = np.nan
        interval = mean.fit(X).confidence_interval(0.9)
        covered += int(((interval.low <= truth) & (truth <= interval.high)).sum())
    assert covered >= binom.ppf(1e-4, 80, 0.9)


def test_a_test_keeps_its_level_where_rows_are_missing() -> None:
    rng, rejected = np.random.default_rng(1), 0
    test = SpatialSignTest(missing="drop", random_state=rng, cache_dir=None, n_calibration=199)
    for _ in range(60):
        X = rng.normal(size=(300, 2))
        X[rng.random(300) < 0.3, 0] = np.nan
        rejected += test.fit_predict(X)
    assert rejected <= binom.ppf(1 - 1e-4, 60, 0.05)


def test_a_rank_test_of_complete_rows_keeps_its_level_and_finds_a_shift() -> None:
    rng, rejected = np.random.default_rng(2), [0, 0]
    test = MannWhitneyTest(groups=["old", "new"], missing="drop", n_simulations=999, random_state=rng)
    for _ in range(60):
        labels = rng.choice(np.array(["old", "new", None], dtype=object), size=400, p=[0.5, 0.4, 0.1])
        values = np.where(rng.random(400) < 0.2, np.nan, rng.exponential(size=400))
        for place, shift in enumerate((0.0, 1.0)):
            rejected[place] += test.fit(values + shift * (labels == "new"), labels).pvalue_ <= 0.05
    assert rejected[0] <= binom.ppf(1 - 1e-4, 60, 0.05) and rejected[1] > 50
    with pytest.raises(InvalidParameter, match="sizes must"):
        clone(test).set_params(sizes=(200, 200)).fit(values, labels)


def test_correlations_of_complete_rows_cover() -> None:
    rng, covered = np.random.default_rng(3), 0
    pearson = PrivateCovariance(bounds=(-4, 4), missing="drop", random_state=rng)
    kendall = PrivateCorrelation(missing="drop", random_state=rng)
    for _ in range(30):
        X = rng.multivariate_normal([0, 0], [[1, 0.5], [0.5, 1]], size=2000)
        X[rng.random((2000, 2)) < 0.15] = np.nan
        for estimates, truth in ((pearson.fit(X).correlation(), 0.5), (kendall.fit(X).estimates(), 1 / 3)):
            interval = estimates.confidence_interval(0.9)
            covered += int(interval.low[0] <= truth <= interval.high[0])
            assert "Rows with a missing entry are left out" in estimates.estimand
    assert covered >= binom.ppf(1e-4, 60, 0.9)


def test_too_few_rows_are_refused() -> None:
    made = AdaptiveMean(epsilon=0.05, bound=9.0, std=1.0, missing="drop", random_state=0)
    with pytest.raises(InvalidParameter, match="missing='drop', needs more rows, or a larger epsilon"):
        made.plan(100, 1)
    with pytest.raises(InvalidData, match="X must"):
        made.set_params(epsilon=1.0).fit(np.full((500, 1), np.nan))


def test_a_sample_that_noise_makes_too_large_to_plan_for_has_the_planned_size():
    class Bounded(AdaptiveMean):
        def plan(self, n_samples, n_features):
            if self.missing == "error" and n_samples > limit:
                raise InvalidParameter("n_samples is too large")
            return super().plan(n_samples, n_features)

    model = Bounded(bound=9.0, std=1.0, epsilon=2.0, delta=1e-6, missing="drop", random_state=1)
    limit = 10_000
    planned = model.plan(500, 1).n_samples
    limit = planned
    sizes = {model.set_params(random_state=seed).fit(np.ones((500, 1))).n_rows_ for seed in range(8)}
    # Noise is below 0 in half of all fits: the sample is smaller then, and as planned in the others.
    assert max(sizes) == planned and len(sizes) > 1
