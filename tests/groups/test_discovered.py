"""Groups that nobody declared: which are found, and intervals given that they were."""

import json
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import norm

from dpstats.auditing import check_sensitivity
from dpstats.errors import BudgetExceeded, InvalidData, InvalidParameter
from dpstats.groups import GroupMeans
from dpstats.groups.ratios import FoundRatio, found_ratio
from dpstats.means.ratio import COUNTS, FIRST, LAST, MIDDLE, SQUARES, SUMS, TOTALS, Noise, Ratio, group_sums
from dpstats.privacy import PrivacyBudget
from dpstats.release.session import Session

SIZES = {"a": 2000, "b": 700, "c": 90, "d": 20, "e": 1}
LABELS = np.repeat(list(SIZES), list(SIZES.values()))
X = np.random.default_rng(0).normal(np.char.str_len(LABELS) * 4.0, 1.0)[:, None].clip(0, 10)
OPTIONS = {"groups": "discover", "bounds": (0, 10)}
APART = GroupMeans(**OPTIONS).plan(len(X), 1)
# A budget that adds up squares keeps Gaussian noise.
GAUSSIAN = {**OPTIONS, "budget": PrivacyBudget(50.0, 1e-3, method="gdp")}
PLAN = GroupMeans(**GAUSSIAN).plan(len(X), 1)
PRIVATE = GroupMeans(**GAUSSIAN, neighbors="add_or_remove")


@pytest.mark.parametrize("seed", [None, 0])
def test_large_groups_are_found_and_small_ones_are_not(seed):
    # A group of 20 rows is found with probability 0.0008, one of 90 rows is not with 0.002.
    model = GroupMeans(**OPTIONS, random_state=seed).fit(X, LABELS)
    assert model.groups_[:3] == ("a", "b", "c") and "e" not in model.groups_
    assert np.abs(model.counts_[:3] - [2000, 700, 90]).max() < 6 * model.counts_noise_std_
    assert np.abs(model.means_[:2] - 4.0).max() < 0.5
    assert model.privacy_.epsilon == 1.0 and model.privacy_.simulated == (seed is not None)


def test_the_threshold_and_its_power_are_those_of_the_plan():
    assert PLAN.threshold <= 45
    assert PLAN.expected_groups([45, 60]) == pytest.approx(0.5 + 0.95, abs=0.01)
    assert not PLAN.has_separate_counts and APART.has_separate_counts and APART.threshold < PLAN.threshold
    assert APART.totals_noise.total < 0.8 * PLAN.totals_noise.total
    assert PLAN.expected_groups([0]) == 0.0 and PLAN.expected_groups([1]) < 1e-4
    # More columns do not raise it.
    assert GroupMeans(**OPTIONS).plan(1000, 30).threshold < 46
    assert GroupMeans(**GAUSSIAN).plan(1000, 30).threshold == pytest.approx(PLAN.threshold, rel=1e-6)
    # 2,000 draws: the share of a group of 45 rows is within six standard deviations of its probability.
    model = GroupMeans(**OPTIONS)
    rows = np.full((45, 1), 5.0)
    from dpstats.data import Table

    for plan in (PLAN, APART):
        private = model._read(Table(rows, labels=np.full(45, "a", dtype=object)), plan)
        with Session.simulated(plan, np.random.default_rng(0), 2000) as session:
            model._release(private, plan, session)
        found = np.isfinite(session.released[TOTALS][COUNTS]).mean()
        assert abs(found - plan.expected_groups([45])) < 6 * np.sqrt(0.25 / 2000)


def test_what_is_found_does_not_depend_on_the_order_of_the_rows_or_on_their_container():
    frame = pd.DataFrame({"x": X[:, 0], "g": LABELS})
    mixed = frame.sample(frac=1, random_state=0)
    options = {**OPTIONS, "bounds": {"x": (0, 10)}, "by": "g", "random_state": 3}
    found = [
        GroupMeans(**options).fit(rows) for rows in (frame, mixed, pl.DataFrame(frame), pl.DataFrame(mixed).lazy())
    ]
    for model in found[1:]:
        assert model.groups_ == found[0].groups_
        assert np.array_equal(model.means_, found[0].means_) and np.array_equal(model.counts_, found[0].counts_)


def test_a_file_of_text_has_the_words_as_labels(tmp_path):
    frame = pd.DataFrame({"x": X[:, 0], "g": np.where(LABELS == "a", "007", LABELS)})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    model = GroupMeans(groups="discover", bounds={"x": (0, 10)}, by="g", random_state=0)
    assert model.fit(str(tmp_path / "rows.csv")).groups_[:2] == ("007", "b")


def test_rows_without_a_label_or_with_a_missing_entry_count_nowhere():
    labels = [None] * 500 + [float("nan")] * 500 + ["a"] * 500
    rows = np.ones((1500, 1))
    rows[1000:1100] = np.nan
    model = GroupMeans(**OPTIONS, missing="drop", random_state=0).fit(rows, labels)
    assert model.groups_ == ("a",) and abs(model.counts_[0] - 400) < 60
    with pytest.raises(InvalidData, match="contains NaN"):
        GroupMeans(**OPTIONS, random_state=0).fit(rows, labels)


def test_totals_of_keys_are_those_of_declared_groups():
    declared = GroupMeans(groups=list(SIZES), bounds=(0, 10), delta=0.1).plan(len(X), 1)
    codes = np.array([list(SIZES).index(label) for label in LABELS])
    expected = group_sums(X, codes, PLAN.lattice, declared.totals)
    from dpstats.data import Table

    table = Table(X, labels=LABELS.astype(object))
    labels, sums = GroupMeans(**OPTIONS)._read(table, PLAN)[TOTALS]
    assert labels == list(SIZES) and declared.lattice.bits == PLAN.lattice.bits
    assert all(np.array_equal(sums[name].ravel(), expected[name]) for name in expected)
    pure = GroupMeans(groups=list(SIZES), bounds=(0, 10), delta=0.0).plan(len(X), 1)
    expected = group_sums(X, codes, APART.lattice, pure.totals)
    labels, sums = GroupMeans(**OPTIONS)._read(table, APART)[TOTALS]
    assert labels == list(SIZES) and pure.lattice.bits == APART.lattice.bits
    assert all(np.array_equal(sums[name].ravel(), expected[name]) for name in expected)
    rows = np.array([*SIZES.values()]) << APART.lattice.bits
    assert np.array_equal(sums[COUNTS].ravel(), rows) and sums.keys() == expected.keys() | {COUNTS}


def test_a_private_number_of_rows_has_less_noise_and_is_not_released():
    plan = PRIVATE.plan(None, 1)
    assert plan.threshold == pytest.approx(34.5, abs=0.1) and PLAN.threshold == pytest.approx(45, abs=0.5)
    assert plan.totals_noise.total < 0.8 * PLAN.totals_noise.total
    declared = GroupMeans(groups=list(SIZES), bounds=(0, 10), neighbors="add_or_remove", random_state=0)
    model = declared.fit(X, LABELS)
    assert model.n_interval().low < len(X) < model.n_interval().high
    # The same object, with groups that are discovered: what the earlier fit released of n is gone.
    model.set_params(groups="discover").fit(X, LABELS)
    assert model.groups_[:3] == ("a", "b", "c") and not hasattr(model, "n_")
    assert np.abs(model.means_[:2] - 4.0).max() < 0.5
    text = str(model.summary())
    assert "private, not released" in text and f"{len(X):,}" not in text
    with pytest.raises(InvalidParameter, match="n_interval needs a number of rows that was released"):
        model.n_interval()
    added = (np.vstack([X, [[10.0]]]), [*LABELS, "new"])
    (movement,) = check_sensitivity(PRIVATE, (X, LABELS.tolist()), added).movements
    assert movement.ok and 0.5 < movement.ratio <= 1


def test_nothing_that_is_found_is_an_answer():
    model = GroupMeans(**OPTIONS).fit(X[-20:], LABELS[-20:])
    assert model.groups_ == () and model.means_.shape == (0, 1)
    assert "0 groups found" in str(model.summary())
    assert model.count_interval().low.shape == (0,) and model.confidence_interval().low.shape == (0, 1)
    together = model.confidence_interval(simultaneous=True)
    assert together.low.shape == (0, 1) and together.simultaneous
    assert model.test(5.0, simultaneous=True).pvalue.shape == (0, 1)
    assert np.isnan(predicted := model.predict(["a", None])).all() and predicted.shape == (2, 1)
    with pytest.raises(InvalidParameter, match="at least two to be compared, got 0"):
        model.pairwise()


def test_what_follows_from_groups_that_were_found():
    model = GroupMeans(**OPTIONS, random_state=0).fit(X, LABELS)
    text = str(model.summary())
    assert "groups found" in text and "Intervals hold for each" in text and "below 41.0 rows" in text
    assert model.difference("a", "b").pvalue[0] > 0.001
    assert model.pairwise(method="holm").pvalue.shape[1:] == (1,)
    low, high = model.count_interval(0.9)
    assert (low <= model.counts_).all() and (model.counts_ <= high).all() and low.min() >= 1
    assert np.allclose(model.predict(["a", "z"])[0], model.means_[0]) and np.isnan(model.predict(["z"])).all()
    json.loads(json.dumps(model.estimates().to_dict()))
    again = pickle.loads(pickle.dumps(model.estimates()))
    assert np.array_equal(again.confidence_interval().low, model.confidence_interval().low)
    with pytest.raises(InvalidParameter, match="groups must"):
        model.anova()
    with pytest.raises(InvalidParameter, match="groups must"):
        GroupMeans(groups=["a"], bounds=(0, 10), random_state=0).fit(X, LABELS).count_interval()


def test_pure_privacy_and_a_budget_that_cannot_pay_are_refused_before_the_rows():
    with pytest.raises(InvalidParameter, match="delta must"):
        GroupMeans(**OPTIONS, delta=0).plan(1000, 1)
    budget = PrivacyBudget(epsilon=0.5, delta=1e-6)
    with pytest.raises(BudgetExceeded):
        GroupMeans(**OPTIONS, budget=budget).fit(X, LABELS)
    budget = PrivacyBudget(epsilon=1.0, delta=1e-6)
    GroupMeans(**OPTIONS, budget=budget).fit(X, LABELS)
    assert budget.spent.epsilon == pytest.approx(1.0, rel=1e-3)


def test_a_replaced_row_moves_two_keys_by_what_is_declared():
    other, labels = X.copy(), LABELS.astype(object)
    other[0], labels[0] = 10.0, "new"
    (movement,) = check_sensitivity(GroupMeans(**OPTIONS), (X, LABELS.tolist()), (other, labels.tolist())).movements
    assert movement.ok and 0.3 < movement.ratio <= 1


class ByAppearance(GroupMeans):
    """Planted bug: keys in the order in which rows have them."""

    def _read(self, rows, plan):
        labels, sums = super()._read(rows, plan)[TOTALS]
        first = {label: place for place, label in reversed(list(enumerate(rows.whole().labels)))}
        order = sorted(range(len(labels)), key=lambda k: first[labels[k]])
        return {TOTALS: ([labels[k] for k in order], {name: sums[name][order] for name in sums})}


def test_keys_in_the_order_of_the_rows_are_noticed():
    other, labels = X.copy(), LABELS.astype(object)
    labels[0] = "z"
    (movement,) = check_sensitivity(ByAppearance(**OPTIONS), (X, LABELS.tolist()), (other, labels.tolist())).movements
    assert not movement.ok and "order" in movement.problem


# Intervals given that a group was found: 600 releases of a group of each size, drawn as the proof has them.


def releases(size, rows, count=600, seed=0, plan=PLAN):
    """Return what is released of groups that were found, each of ``size`` rows."""
    rng = np.random.default_rng(seed)
    noise, threshold = plan.totals_noise, plan.threshold
    least, most = norm.sf((threshold - size) / noise.count), norm.sf(threshold / noise.count)
    counts = size + noise.count * norm.isf(most + rng.random(count) * (least - most))
    drawn = rows(rng, (count, size))
    center = noise.square_spread / noise.count**2
    sums = drawn.sum(axis=1) + rng.normal(0, noise.total, count)
    alone = np.sqrt(noise.square**2 - (center * noise.count) ** 2)
    squares = (drawn**2 - center).sum(axis=1) + rng.normal(0, alone, count)
    released = {COUNTS: counts, SUMS: sums, SQUARES: squares}
    return {name: values[:, None] for name, values in released.items()} | {"labels": tuple(range(count))}


def releases_apart(size, rows, count=600, seed=0):
    """Return the same of counts apart, drawn as sessions draw them."""
    rng = np.random.default_rng(seed)
    grid = APART.threshold - np.linspace(0, size, 20_001)[::-1]
    reached = APART.discovery.count_noise.mass(grid[0], grid)
    y = (1 + rows(rng, (count, size))) / 2
    shares = {FIRST: (1 - y) ** 2, MIDDLE: 2 * y * (1 - y), LAST: y**2}
    scale = APART.totals_noise.laplace
    released = {name: share.sum(axis=1) + rng.laplace(0, scale, count) for name, share in shares.items()}
    released[COUNTS] = size + np.interp(rng.random(count) * reached[-1], reached, grid)
    return {name: values[:, None] for name, values in released.items()} | {"labels": tuple(range(count))}


ROWS = {
    "constant": (lambda rng, shape: np.full(shape, 0.9), 0.9),
    "skewed": (lambda rng, shape: 2 * rng.random(shape) ** 6 - 1, 2 / 7 - 1),
    "two values": (lambda rng, shape: np.where(rng.random(shape) < 0.05, 1.0, -1.0), -0.9),
}


PLANS = {"public n": PLAN, "private n": PRIVATE.plan(None, 1), "counts apart": APART}


@pytest.mark.parametrize("plan", PLANS.values(), ids=[*PLANS])
@pytest.mark.parametrize("size", [5, 45, 200])
def test_intervals_cover_given_that_a_group_was_found(size, plan):
    # Coverage below 0.92 at a true level of 0.95 has probability 5e-4 in 600 draws, for each of four intervals.
    for name, (rows, mean) in ROWS.items():
        released = releases_apart(size, rows) if plan is APART else releases(size, rows, plan=plan)
        ratio = found_ratio(released, plan)
        low, high = ratio.found.limits(0.025)
        assert ((low <= size) & (size <= high)).mean() >= 0.92, name
        assert (np.abs(ratio.score(np.full(ratio.shape, mean))) <= norm.isf(0.025)).mean() >= 0.92, name


def test_scores_have_the_sign_of_the_distance_from_the_estimate():
    ratio = found_ratio(releases(45, ROWS["skewed"][0]), PLAN)
    for step in (1e-3, 0.05):
        for sign in (-1, 1):
            value = ratio.estimate + sign * step
            inside = (np.abs(value) < 1) & (ratio.sizes > ratio.noise.count)
            assert inside.any() and np.all(np.sign(ratio.score(value)[inside]) == -sign)


def test_intervals_that_ignore_the_discovery_would_miss():
    rows, mean = ROWS["constant"]
    ratio = found_ratio(releases(20, rows), PLAN)
    naive = Ratio(ratio.T, ratio.N, ratio.Q, ratio.X, ratio.R, ratio.noise)
    assert (np.abs(naive.score(np.full(naive.shape, mean))) <= norm.isf(0.025)).mean() < 0.5
    assert (np.abs(ratio.N - 20) <= norm.isf(0.025) * ratio.noise.count).mean() < 0.05


def test_far_above_the_threshold_intervals_are_those_of_declared_groups():
    rows, _ = ROWS["skewed"]
    ratio = found_ratio(releases(500, rows, 5), PLAN)
    naive = Ratio(ratio.T, ratio.N, ratio.Q, ratio.X, ratio.R, ratio.noise)
    for found, usual in zip(ratio.ends(1.96), naive.ends(1.96), strict=True):
        assert np.abs(found - usual).max() < 0.01
    assert np.abs(ratio.sizes - ratio.N).max() < 1e-4


def test_given_the_size_noise_of_the_count_takes_its_part_off_the_squares():
    # Noise of counts and of squares is correlated. 20,000 draws: standard deviations are within 3%.
    rng = np.random.default_rng(0)
    noise = Noise(8.0, 9.0, 8.5, 8.0, 9.0, 0.8 * 9.0**2)
    center = noise.square_spread / noise.count**2
    counts = rng.normal(0, noise.count, 20_000)
    rest = np.sqrt(noise.square**2 - (center * noise.count) ** 2)
    squares = center * counts + rng.normal(0, rest, 20_000)
    ratio = FoundRatio(counts, 500 + counts, 100 + squares, counts, counts, noise, threshold=40.0)
    known = ratio._fix_sizes(np.float64(500.0))
    assert np.std(known.Q) == pytest.approx(known.noise.square, rel=0.03)
