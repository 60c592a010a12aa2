"""Sums over rows that are not in memory are those of the same rows in memory, however they are cut."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.data.batches import Part, chosen_columns, refusal
from dpstats.data.rows import added
from dpstats.data.schema import Categories, Column, Schema
from dpstats.errors import InvalidData
from dpstats.groups import GroupMeans
from dpstats.means import AdaptiveMean, ClippedMean, PrivateVariance, SparseMean
from dpstats.privacy import PrivacyBudget
from dpstats.regression import PrivateLinearRegression, PrivateLogisticRegression, SufficientStatisticsRegression
from dpstats.textbook import FunctionalMechanismRegression
from tests.data.engines import Cut

RNG = np.random.default_rng(0)
X = RNG.normal(size=(500, 3))
Y = X @ [1.0, -0.5, 0.0] + RNG.normal(size=500)
LABELS = RNG.choice(["a", "b", "c"], 500)


@pytest.mark.parametrize("rows", [37, 1000])
@pytest.mark.parametrize(
    "made",
    [
        ClippedMean(bounds=(-2, 2), random_state=0),
        ClippedMean(bounds=(-2, 2), delta=0.0, clipped_share=True, random_state=0),
        ClippedMean(clip=2, clip_norm="l2", random_state=0),
        PrivateVariance(bounds=(-2, 2), random_state=0),
        AdaptiveMean(bound=10, std=1.0, random_state=0),
        AdaptiveMean(bound=10, std=1.0, tails="variance", random_state=0),
    ],
    ids=["box", "box, pure, counted", "ball", "variance", "adaptive", "adaptive, variance"],
)
def test_means_are_those_in_memory(made, rows):
    expected = made.fit(X)
    here = expected.variance_ if hasattr(expected, "variance_") else expected.mean_
    found = made.fit(Cut(X, rows))
    np.testing.assert_array_equal(found.variance_ if hasattr(found, "variance_") else found.mean_, here)
    assert found.n_features_in_ == 3


@pytest.mark.parametrize(
    ("made", "y"),
    [
        (PrivateLinearRegression(x_bounds=(-4, 4), y_bounds=(-6, 8), random_state=0), Y),
        (SufficientStatisticsRegression(x_bounds=(-4, 4), y_bounds=(-6, 8), random_state=0), Y),
        (FunctionalMechanismRegression(x_bounds=(-4, 4), y_bounds=(-6, 8), random_state=0), Y),
        (PrivateLogisticRegression(x_bounds=(-4, 4), random_state=0), (Y > 0).astype(float)),
        (
            PrivateLogisticRegression(x_bounds=(-4, 4), classes=("no", "yes"), random_state=0),
            np.where(Y > 0, "yes", "no"),
        ),
    ],
    ids=["linear", "sufficient", "functional", "logistic", "logistic, of words"],
)
def test_regressions_are_those_in_memory(made, y):
    here = made.fit(X, y).params_
    np.testing.assert_array_equal(made.fit(Cut(X, 101, ["u", "v", "w"], entries=y), "y").params_, here)
    with pytest.raises(InvalidData, match="name of a column of X"):
        made.fit(Cut(X, 101))


def test_means_of_groups_are_those_in_memory():
    made = GroupMeans(groups=["a", "b"], bounds=(-4, 4), random_state=0)
    here = made.fit(X, LABELS).means_
    np.testing.assert_array_equal(made.fit(Cut(X, 99, ["u", "v", "w"], entries=LABELS), "y").means_, here)


def test_what_cannot_be_read_is_refused_before_a_charge():
    budget = PrivacyBudget(epsilon=1.0, delta=1e-6)
    bad = X.copy()
    bad[3, 1] = np.nan
    for made in (
        ClippedMean(bounds=(-2, 2), budget=budget),
        ClippedMean(clip=2, clip_norm="l2", budget=budget),
        AdaptiveMean(bound=10, std=1.0, budget=budget),
        PrivateVariance(bounds=(-2, 2), budget=budget),
    ):
        with pytest.raises(InvalidData, match="contains NaN or infinity"):
            made.fit(Cut(bad, 100))
    regression = PrivateLinearRegression(x_bounds=(-4, 4), y_bounds=(-6, 8), budget=budget)
    with pytest.raises(InvalidData, match="contains NaN or infinity"):
        regression.fit(Cut(bad, 100, ["u", "v", "w"], entries=Y), "y")
    with pytest.raises(InvalidData, match="y must be finite"):
        regression.fit(Cut(X, 100, ["u", "v", "w"], entries=np.where(Y > 1, np.nan, Y)), "y")
    with pytest.raises(InvalidData, match="y must be 0 or 1"):
        PrivateLogisticRegression(x_bounds=(-4, 4)).fit(Cut(X, 100, ["u", "v", "w"], entries=Y), "y")
    with pytest.raises(InvalidData, match="order of the rows"):
        SparseMean(n_nonzero=1, clip=4, std=1, split=True).fit(Cut(X, 100))
    with pytest.raises(InvalidData, match="at least 2 rows"):
        ClippedMean(bounds=(-2, 2)).fit(Cut(X[:1], 100))
    assert not budget.history()


def test_sums_add_up_and_names_are_checked():
    total = added({"a": np.array([1, 2])}, {"a": np.array([3, 4]), "b": np.array([5])})
    assert {name: values.tolist() for name, values in total.items()} == {"a": [4, 6], "b": [5]}
    assert chosen_columns(["a", "b", "c"], None, "b") == (["a", "c"], ("b",))
    assert chosen_columns(["a", "b", "c"], ["c"], None) == (["c"], ())
    for columns, beside in ((["d"], None), (None, "d")):
        with pytest.raises(InvalidData, match="got one without"):
            chosen_columns(["a"], columns, beside)
    with pytest.raises(InvalidData, match="different name for every column"):
        chosen_columns(["a", "a"], None, None)
    assert refusal().parameter == "X"
    assert "3 columns" in repr(Cut(X, 100, ["u", "v", "w"]))
    assert Part(X).beside == ()


def test_a_stream_reads_every_part_as_the_schema_says():
    schema = Schema(beside=(Column("groups", "y", Categories(["a", "c"])),)).resolve(["u", "v", "w", "y"])
    rows = Cut(X, 100, ["u", "v", "w"], entries=LABELS).read(schema)
    counted = rows.total(lambda table: {"a": np.array([np.sum(table.groups == 0)])})
    assert counted["a"].tolist() == [int(np.sum(LABELS == "a"))] and rows.shape == (500, 3)
    whole = rows.whole()
    assert whole.shape == (500, 3) and np.sum(whole.groups == 1) == np.sum(LABELS == "c")
    with pytest.raises(InvalidData, match="order of the rows"):
        Cut(X, 100).read(Schema(ordered=True))
    with pytest.raises(InvalidData, match="a histogram"):
        Cut(X, 100).read(Schema(counted=True))
