"""GroupMeans: what users do with it, from arrays and frames, and what it refuses."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import ndtri
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

from dpstats.errors import BudgetExceeded, InvalidData, InvalidParameter
from dpstats.groups import GroupMeans
from dpstats.means.ratio import TOTALS, Tukey, difference_score, group_sums
from dpstats.privacy import PrivacyBudget, gaussian_sigma
from dpstats.release.session import Session

GROUPS = ["free", "half", "full"]


def rows(n: int = 20_000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    plan = rng.choice(GROUPS, n, p=[0.5, 0.3, 0.2])
    visits = rng.poisson(np.where(plan == "free", 4.0, 3.0))
    return pd.DataFrame({"plan": plan, "visits": visits, "age": rng.uniform(20, 60, n)})


def fitted(**given: object) -> GroupMeans:
    frame = rows()
    made = GroupMeans(groups=GROUPS, bounds=[(0, 20), (0, 80)], random_state=0, **given)
    return made.fit(frame[["visits", "age"]], frame["plan"])


def test_estimates_are_near_the_rows_and_tests_agree_with_intervals() -> None:
    frame, model = rows(), fitted()
    expected = frame.groupby("plan")[["visits", "age"]].mean().loc[GROUPS].to_numpy()
    counts = frame["plan"].value_counts().loc[GROUPS].to_numpy()
    spreads = frame.groupby("plan")[["visits", "age"]].std().loc[GROUPS].to_numpy()
    # Six standard deviations of the noise.
    assert np.all(np.abs(model.counts_ - counts) < 6 * model.counts_noise_std_)
    assert np.all(np.abs(model.means_ - expected) < 6 * 1.5 * model.plan_.mean_noise(counts.min()))
    assert model.std_ == pytest.approx(spreads, rel=0.2)
    low, high = model.confidence_interval()
    assert low.shape == high.shape == model.means_.shape == (3, 2)
    wide = model.confidence_interval(simultaneous=True)
    assert np.all(wide.low < low) and np.all(wide.high > high) and wide.simultaneous
    for value in (low[0], high[0]):
        inside = model.test(value + 1e-6 * (model.means_[0] - value)).pvalue[0]
        assert inside == pytest.approx([0.05, 0.05], abs=1e-4)
    less = model.test(5.0, "less")
    assert less.pvalue[1, 0] < 1e-6 and less.pvalue[1, 1] > 0.999
    assert np.all(less.confidence_interval().low == [0, 0]) and "half: age" in str(less.summary())


def test_differences_and_pairs() -> None:
    model = fitted()
    one = model.difference("free", "half")
    low, high = one.confidence_interval()
    assert low[0] < 1.0 < high[0] and low[1] < 0.0 < high[1]
    assert one.pvalue[0] < 1e-6 and one.estimate == pytest.approx(model.means_[0] - model.means_[1])
    greater = model.difference("free", "half", "greater")
    assert greater.pvalue[0] == pytest.approx(one.pvalue[0] / 2)
    ends = greater.confidence_interval()
    assert ends.low[0] > low[0] and ends.high[0] == 20.0
    assert model.difference("half", "free").pvalue == pytest.approx(one.pvalue)
    for method in ("tukey", "holm"):
        pairs = model.pairwise(method)
        assert pairs.pairs == (("free", "half"), ("free", "full"), ("half", "full"))
        assert pairs.estimate.shape == pairs.pvalue.shape == (3, 2)
        assert np.all(pairs.pvalue[0] >= one.pvalue)
        together = pairs.confidence_interval()
        assert np.all(together.low[0] <= low) and np.all(together.high[0] >= high)
        assert "free - half: visits" in str(pairs.summary())
    assert model.anova().pvalue.tolist() == model.anova().pvalue.tolist()
    assert model.anova().pvalue[0] < 0.001 < model.anova().pvalue[1]


def test_predictions_are_means_by_label() -> None:
    model = fitted()
    found = model.predict(["half", "free", "nobody", None])
    assert np.array_equal(found[:2], model.means_[[1, 0]]) and np.isnan(found[2:]).all()


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, lambda data: pl.DataFrame(data).lazy()])
def test_a_frame_and_the_name_of_its_labels(kind: object) -> None:
    frame = rows(500)
    data = kind(frame.to_dict("list"))  # type: ignore[operator]
    given = {"groups": GROUPS, "random_state": 3}
    by_name = GroupMeans(by="plan", bounds={"age": (0, 80), "visits": (0, 20)}, **given).fit(data)
    assert by_name.feature_names_in_.tolist() == ["age", "visits"]
    beside = GroupMeans(bounds=[(0, 80), (0, 20)], **given).fit(frame[["age", "visits"]], frame["plan"].to_numpy())
    assert np.array_equal(by_name.means_, beside.means_)
    all_others = GroupMeans(by="plan", bounds=(0, 80), **given).fit(data)
    assert all_others.feature_names_in_.tolist() == ["visits", "age"]
    one = GroupMeans(by="plan", columns=["visits"], bounds=(0, 20), **given).fit(data)
    assert one.means_.shape == (3, 1)


def test_a_row_without_a_group_counts_nowhere() -> None:
    X = np.r_[np.full(300, 1.0), np.full(300, 9.0)][:, None]
    given = {"bounds": (0, 10), "delta": 0.0, "epsilon": 50.0, "random_state": 0}
    labels = ["a"] * 300 + [None] * 200 + ["z"] * 100
    alone = GroupMeans(groups=["a", "b"], **given).fit(X, labels)
    assert alone.counts_ == pytest.approx([300, 0], abs=2) and alone.means_[0, 0] == pytest.approx(1.0, abs=0.1)
    with_missing = GroupMeans(groups=["a", None], **given).fit(X, labels)
    assert with_missing.counts_ == pytest.approx([300, 200], abs=2)
    # Numbers by value, whatever their type.
    numbers = GroupMeans(groups=[1, 2], **given).fit(X, np.r_[np.full(300, 1.0), np.full(300, 2.0)])
    assert numbers.counts_ == pytest.approx([300, 300], abs=2)


def test_labels_in_a_table_of_one_column() -> None:
    frame = rows(500)
    made = GroupMeans(groups=GROUPS, bounds=(0, 20), random_state=0)
    expected = made.fit(frame[["visits"]], frame["plan"]).means_
    for labels in (frame[["plan"]], frame[["plan"]].to_numpy(), pl.DataFrame({"plan": frame["plan"].tolist()})):
        assert np.array_equal(made.fit(frame[["visits"]], labels).means_, expected)
    assert made.predict(frame[["plan"]]).shape == (500, 1)


def test_an_empty_group_has_the_bounds_and_is_named() -> None:
    frame = rows(5000)
    made = GroupMeans(groups=[*GROUPS, "none"], bounds=(0, 20), random_state=1)
    model = made.fit(frame[["visits"]], frame["plan"])
    low, high = model.confidence_interval()
    assert (high - low)[3, 0] > 15 and "Noise only: 'none'" in str(model.summary())
    assert model.difference("free", "none").pvalue[0] > 0.05


def test_one_group_is_a_mean_of_a_subset() -> None:
    frame = rows(5000)
    model = GroupMeans(groups=["half"], bounds=(0, 20), random_state=0).fit(frame[["visits"]], frame["plan"])
    assert model.means_[0, 0] == pytest.approx(3.0, abs=0.3)
    for ask in (model.anova, model.pairwise, lambda: model.difference("half", "half")):
        with pytest.raises(InvalidParameter, match="groups must"):
            ask()


def test_missing_entries() -> None:
    X = np.full((600, 2), 3.0)
    X[:100, 1] = np.nan
    y = np.zeros(600)
    with pytest.raises(InvalidData, match="NaN or infinity"):
        GroupMeans(groups=[0, 1], bounds=(0, 10)).fit(X, y)
    dropped = GroupMeans(groups=[0, 1], bounds=(0, 10), missing="drop", delta=0.0, epsilon=50, random_state=0)
    assert dropped.fit(X, y).counts_[0] == pytest.approx(500, abs=2)


BAD = [
    ({"groups": None}, "groups must"),
    ({"groups": ["a", "a"]}, "groups must"),
    ({"groups": [1, 1.0]}, "groups must"),
    ({"groups": "ab"}, "groups must"),
    ({"groups": []}, "groups must"),
    ({"groups": [["a"], "b"]}, "groups must"),
    ({"bounds": None}, "bounds must"),
    ({"bounds": (10, 0)}, "bounds must"),
    ({"bounds": [(0, 1), (0, 1)]}, "bounds must"),
    ({"epsilon": 0}, "epsilon must"),
    ({"delta": 1.0}, "delta must"),
    ({"missing": "center"}, "missing must"),
    ({"bounds_are": "soft"}, "bounds_are must"),
    ({"columns": ["a"]}, "columns must"),
]


@pytest.mark.parametrize(("wrong", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_parameters_are_refused_before_anything_is_charged(wrong: dict[str, object], message: str) -> None:
    budget = PrivacyBudget(5.0, 1e-5)
    given = {"groups": ["a", "b"], "bounds": (0, 10), "budget": budget, **wrong}
    with pytest.raises(InvalidParameter, match=message):
        GroupMeans(**given).fit(np.ones((6, 1)), ["a"] * 6)
    assert budget.history() == ()


def test_bad_data_are_refused_before_anything_is_charged() -> None:
    budget = PrivacyBudget(5.0, 1e-5)
    made = GroupMeans(groups=["a", "b"], bounds=(0, 10), budget=budget)
    X = np.ones((6, 1))
    for y, message in ((["a"] * 5, "y must"), (None, "requires y to be passed")):
        with pytest.raises(InvalidData, match=message):
            made.fit(X, y)
    frame = pd.DataFrame({"x": [1.0, 2.0], "g": ["a", "b"]})
    named = clone(made).set_params(by="g")
    with pytest.raises(InvalidParameter, match="y must"):
        named.fit(frame, ["a", "b"])
    with pytest.raises(InvalidParameter, match=r"by must"):
        clone(made).set_params(by="h").fit(frame)
    with pytest.raises(InvalidParameter, match="columns must"):
        named.set_params(columns=["q"]).fit(frame)
    with pytest.raises(InvalidParameter, match="columns must"):
        named.set_params(columns=["g"]).fit(frame)
    with pytest.raises(InvalidData, match="X must"):
        named.set_params(columns=None).fit(X)
    assert budget.history() == ()
    with pytest.raises(BudgetExceeded):
        made.set_params(epsilon=9.0).fit(X, ["a"] * 6)


def test_bad_questions_are_refused() -> None:
    model = fitted()
    with pytest.raises(InvalidParameter, match=r"b must"):
        model.difference("free", "paid")
    with pytest.raises(InvalidParameter, match="b must"):
        model.difference("free", "free")
    with pytest.raises(InvalidParameter, match="value must"):
        model.test(50.0)
    with pytest.raises(InvalidParameter, match="method must"):
        model.pairwise("bonferroni")
    with pytest.raises(InvalidParameter, match="random_state must"):
        model.anova(random_state=None)
    with pytest.raises(InvalidParameter, match="alternative must"):
        model.difference("free", "half", "more")


def test_the_price_is_that_of_the_sums_alone_whatever_the_number_of_groups() -> None:
    sums_alone = 2 * np.sqrt(9) * gaussian_sigma(1.0, 1e-6)
    for K in (2, 50, 1000):
        noise = GroupMeans(groups=range(K), bounds=(0, 1)).plan(1000, 9).totals_noise
        assert noise.total == pytest.approx(sums_alone, rel=1e-3)
    pure = GroupMeans(groups=range(9), bounds=(0, 1), delta=0.0, epsilon=0.5).plan(1000, 1).totals_noise
    # Three shares with Laplace noise of scale 2/epsilon each: root 8 of it, times root 2 and root 3.
    assert pure.total == pytest.approx(np.sqrt(2 * 8) / 0.5) and pure.count == pytest.approx(np.sqrt(3 * 8) / 0.5)


def test_summary_and_picture() -> None:
    model = fitted()
    text = str(model.summary())
    assert "Rows, columns, groups: 20,000, 2, 3 (public)" in text and "full: age" in text
    assert "E[clip(x)]" in text and "E[clip(x)]" not in str(fitted(bounds_are="hard").summary())
    panels = model.plot()
    figure = panels[0].figure
    assert [axis.get_xlabel() for axis in figure.axes] == ["visits", "age"]
    assert figure.axes[0].get_yticklabels()[0].get_text().startswith("free")


class WithoutPredict(GroupMeans):
    """The estimator, as scikit-learn's checks know one that predicts nothing."""

    @property
    def predict(self) -> None:  # type: ignore[override]
        raise AttributeError


def test_scikit_learn_conventions_without_predictions() -> None:
    one_column = {"check_fit1d": "one column may have one dimension"}
    made = WithoutPredict(groups=[0, 1, 2], bounds=(-1, 1))
    check_estimator(made, on_skip=None, expected_failed_checks=one_column)


@pytest.mark.parametrize(
    ("in_noise", "hidden"), [(-3.0, True), (0.0, True), (1.5, True), (1.99, True), (2.01, False), (50.0, False)]
)
def test_a_count_within_two_deviations_of_noise_is_a_limit(in_noise: float, hidden: bool) -> None:
    made = GroupMeans(groups=["a", "b"], bounds=(0, 1), random_state=0).fit(np.zeros((99, 1)), ["a"] * 99)
    made.counts_[1] = in_noise * made.counts_noise_std_
    label = made.plot().get_yticklabels()[-1].get_text() + made.plot().get_yticklabels()[0].get_text()
    limit = (max(in_noise, 0) + 2) * made.counts_noise_std_
    assert (f"fewer than {limit:.0f} rows" in label) is hidden
    assert any("Noise only: 'b'." in note for note in made.summary().notes) is hidden


def test_pairs_of_all_columns_hold_together_where_that_is_asked_for() -> None:
    rng = np.random.default_rng(1)
    X, labels = rng.normal(size=(2000, 5)), rng.integers(0, 4, 2000)
    pairs = GroupMeans(groups=[0, 1, 2, 3], bounds=(-4, 4), random_state=0).fit(X, labels).pairwise()
    by_column, whole = pairs.confidence_interval(), pairs.confidence_interval(simultaneous=True)
    # Five columns hold together at level .95 if each does at .99.
    np.testing.assert_allclose(whole.low, pairs.confidence_interval(0.99).low)
    assert (whole.low < by_column.low).all() and (whole.high > by_column.high).all()
    default, asked = pairs.test(), pairs.test(simultaneous=True)
    np.testing.assert_allclose(asked.pvalue, np.minimum(1, 5 * default.pvalue))
    for test, interval in ((default, by_column), (asked, whole)):
        np.testing.assert_array_equal(test.confidence_interval().low, interval.low)


def test_all_pairs_of_skewed_columns_are_covered_together() -> None:
    rng, runs, scales = np.random.default_rng(2), 200, np.array([1.0, 1.2, 1.4, 1.6])
    pool = rng.lognormal(size=(100_000, 5))
    plan = GroupMeans(groups=[0, 1, 2, 3], bounds=(0, 25), epsilon=3.0).plan(2000, 5)
    means = np.array([np.clip(scale * pool, 0, 25).mean(axis=0) for scale in scales])
    sums = []
    for _ in range(runs):
        codes = rng.choice(4, 2000, p=[0.5, 0.3, 0.15, 0.05])
        X = pool[rng.integers(len(pool), size=2000)] * scales[codes, None]
        sums.append(group_sums(X, codes, plan.lattice, plan.totals))
    with Session.simulated(plan, rng, runs) as session:
        released = session.add(TOTALS, {name: np.stack([each[name] for each in sums]) for name in sums[0]})
    ratio, (first, second) = plan.totals.ratio(dict(released), plan.totals_noise), np.triu_indices(4, 1)
    truth = np.broadcast_to((means[first] - means[second]) / plan.half, (runs, 6, 5))
    scores = np.abs(difference_score(ratio[:, first], ratio[:, second], truth))
    covered = {level: (scores < -ndtri((1 - Tukey(4).each(level, 6)) / 2)) for level in (0.95, 0.99)}
    # At 0.95 the fraction is below 0.91 with probability 0.008. Intervals of each column cover less often together.
    assert covered[0.99].all(axis=(1, 2)).mean() > 0.91 > covered[0.95].all(axis=(1, 2)).mean()
    assert (covered[0.95].all(axis=1).mean(axis=0) > 0.91).all()


def test_a_standard_deviation_that_noise_hides_is_no_number() -> None:
    rng = np.random.default_rng(0)
    X, labels = rng.normal(500, 50, size=(4000, 4)), rng.integers(0, 2, size=4000)
    made = GroupMeans(groups=[0, 1], bounds=(50, 1000), random_state=0).fit(X, labels)
    assert np.isnan(made.std_).any() and not (made.std_ == 0).any()
    assert np.isfinite(made.means_).all() and np.isfinite(made.standard_error_).all()
    assert "No standard deviation is shown" in str(made.summary()) and " 0 " not in made.to_latex()
    # Without noise a constant column has the standard deviation 0.
    same = GroupMeans(groups=[0, 1], bounds=(50, 1000), epsilon=1e6, random_state=0)
    assert np.all(same.fit(np.full((4000, 2), 500.0), labels).std_ == 0)


def test_a_group_that_noise_hides_has_no_mean() -> None:
    X, labels = np.full((4000, 1), 400.0), np.zeros(4000)
    made = GroupMeans(groups=[0, 1], bounds=(50, 1000), random_state=2).fit(X, labels)
    assert np.isnan(made.means_[1, 0]) and np.isnan(made.estimate_[1, 0]) and made.means_[0, 0] > 50
    assert np.isnan(made.predict([1])[0, 0])


def test_ratios_of_means() -> None:
    frame = rows(20_000)
    model = GroupMeans(groups=GROUPS, bounds=(0, 20), epsilon=10.0, random_state=0)
    model.fit(frame[["visits"]], frame["plan"])
    found = model.ratio(GROUPS[0], GROUPS[1])
    assert found.estimate == pytest.approx(model.means_[0] / model.means_[1])
    low, high = found.confidence_interval()
    wide = found.confidence_interval(0.99)
    assert wide.low[0] < low[0] < found.estimate[0] < high[0] < wide.high[0]
    assert (found.pvalue[0] < 0.05) == (not low[0] <= 1 <= high[0])
    below = GroupMeans(groups=GROUPS, bounds=(-1, 20), random_state=0).fit(frame[["visits"]], frame["plan"])
    with pytest.raises(InvalidParameter, match="bounds must"):
        below.ratio(GROUPS[0], GROUPS[1])


def test_pairs_with_a_reference() -> None:
    frame = rows(20_000)
    model = GroupMeans(groups=GROUPS, bounds=(0, 20), random_state=0).fit(frame[["visits"]], frame["plan"])
    found = model.pairwise(reference=GROUPS[0])
    assert found.pairs == tuple((group, GROUPS[0]) for group in GROUPS[1:])
    alone = model.difference(GROUPS[1], GROUPS[0])
    assert found.estimate[0] == pytest.approx(alone.estimate) and found.pvalue[0] >= alone.pvalue
    with pytest.raises(InvalidParameter, match="reference must"):
        model.pairwise(reference="nobody")


def test_a_label_with_a_lone_surrogate_has_a_frame() -> None:
    rng, labels = np.random.default_rng(0), ["a\udc80", "b"]
    places = rng.integers(0, 2, 500)
    frame = (
        GroupMeans(groups=labels, bounds=(-4, 4), random_state=0)
        .fit(rng.normal(size=(500, 1)), np.array(labels, dtype=object)[places])
        .to_frame()
    )
    assert frame["group"].tolist() == frame.index.tolist() == labels


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_rounding_of_entries_is_part_of_the_error(delta: float) -> None:
    labels = np.arange(2000) % 2
    model = GroupMeans(groups=[0, 1], bounds=(-3, 7), epsilon=1e8, delta=delta, random_state=0)
    low, high = model.fit(np.full((2000, 1), 1 / 7), labels).confidence_interval()
    assert ((low < 1 / 7) & (high > 1 / 7)).all()
    assert (high - low < 1e-7).all()
