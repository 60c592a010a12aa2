"""Counts and histograms: exact counts, noise of the right size, intervals, and what is refused."""

import copy
import math
import traceback

import numpy as np
import pandas as pd
import polars as pl
import pytest

from dpstats.data.columns import kind_of
from dpstats.errors import BudgetExceeded, InvalidData, InvalidParameter
from dpstats.inference.reports import picture_of
from dpstats.mechanisms import Count, Histogram
from dpstats.mechanisms.histogram import count_stage, count_steps
from dpstats.privacy import Neighbors, PrivacyBudget, PrivacyGuarantee, gaussian_sigma
from tests.data.awkward import COLUMNS, Raises, objects

ADD = Neighbors.ADD_OR_REMOVE_ONE


def test_noise_scales():
    # l1 2 (replace) or 1 (add or remove); l2 sqrt 2 or 1.
    assert Histogram(list("abc"), 0.5).scale == 4.0
    assert Histogram(list("abc"), 0.5, neighbors=ADD).scale == 2.0
    assert Histogram(["a"], 0.5).scale == 2.0
    sigma = gaussian_sigma(1.0, 0.1)
    assert Histogram(list("abc"), 1.0, 0.1).scale == pytest.approx(math.sqrt(2) * sigma, rel=1e-6)
    assert Histogram(list("abc"), 1.0, 0.1, neighbors=ADD).scale == pytest.approx(sigma, rel=1e-6)
    # At a small delta Laplace noise is smaller: the guarantee is pure.
    assert Histogram(list("abc"), 1.0, 1e-6).scale == 2.0 and Histogram(list("abc"), 1.0, 1e-6).delta == 0
    assert Count(0.5).scale == Count(0.5, neighbors=ADD).scale == 2.0


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_counts_are_the_counts_plus_noise(delta):
    data = ["a"] * 7 + ["c"] * 5 + ["b"]
    # At epsilon = 35 noise of scale 2/35 is zero but for a probability below 1e-14 a cell.
    result = Histogram(["a", "b", "c", "d"], 35.0, delta).release(data)
    np.testing.assert_allclose(result.counts, [7, 1, 5, 0], atol=0 if delta == 0 else 5)
    assert result.categories == ("a", "b", "c", "d")


def test_every_kind_of_data():
    numbers = [3, 1, 1, 2, 3, 3]
    for data in (
        numbers,
        np.array(numbers),
        np.array(numbers, dtype=np.int8),
        np.array(numbers, dtype=float),
        pd.Series(numbers),
        np.array(numbers, dtype=object),
    ):
        assert Histogram([1, 2, 3], 35.0).release(data).counts.tolist() == [2, 1, 3]
    assert Histogram(np.array([1, 2, 3]), 35.0).release(numbers).counts.tolist() == [2, 1, 3]
    words = pd.Series(["x", "y", "x"], dtype="category")
    assert Histogram(["x", "y"], 35.0).release(words).counts.tolist() == [2, 1]
    assert Count(35.0).release(np.array([True, False, True])).counts.tolist() == [2]


def test_laplace_counts_are_whole_and_gaussian_ones_are_not():
    data = [0, 1] * 50
    whole = Histogram([0, 1], 0.3, random_state=0).release(data).counts
    assert np.all(whole == np.rint(whole))
    other = Histogram([0, 1], 0.3, 0.1, random_state=0).release(data).counts
    assert np.any(other != np.rint(other))


@pytest.mark.parametrize("delta", [0.0, 0.1])
@pytest.mark.parametrize("epsilon", [0.2, 2.0])
def test_intervals_cover(delta, epsilon):
    # 4000 releases of 5 cells; five standard errors: false alarm below 1e-5.
    rng = np.random.default_rng(0)
    truth = np.array([30, 20, 10, 5, 0])
    data = np.repeat(np.arange(5), truth)
    histogram = Histogram(range(5), epsilon, delta, random_state=rng)
    inside, together = [], []
    for _ in range(4000):
        result = histogram.release(data)
        for simultaneous, hits in ((False, inside), (True, together)):
            low, high = result.confidence_interval(0.9, simultaneous=simultaneous)
            covered = (low <= truth) & (truth <= high)
            hits.append(covered.all() if simultaneous else covered.mean())
    error = math.sqrt(0.9 * 0.1 / 4000)
    assert np.mean(inside) > 0.9 - 5 * error and np.mean(together) > 0.9 - 5 * error
    if delta:
        assert np.mean(inside) < 0.9 + 5 * error
    else:
        # Whole numbers: coverage is the smallest attainable level above 0.9, by the law itself.
        half = (result.confidence_interval(0.9).high - result.counts)[0]
        decay = math.exp(-epsilon / 2)
        exact = 1 - 2 * decay ** (half + 1) / (1 + decay)
        assert exact >= 0.9 and (half == 0 or 1 - 2 * decay**half / (1 + decay) < 0.9)
        assert abs(np.mean(inside) - exact) < 5 * error


def test_ten_thousand_names():
    # The text's example: counts of 10,000 names with Laplace noise of scale 1; at 95% no estimate is off by
    # more than log(10000/.05) = 12.2.
    names = range(10_000)
    histogram = Histogram(names, 1.0, neighbors=ADD, random_state=1)
    assert math.log(10_000 / 0.05) == pytest.approx(12.2, abs=0.01)
    result = histogram.release([])
    width = (result.confidence_interval(0.95, simultaneous=True).high - result.counts)[0]
    # On whole numbers, exactly: 2 a^13/(1 + a) <= 1 - .95^(1/10000) first holds at 12.
    assert width == 12.0


def test_summary():
    text = str(Histogram(["yes", "no"], 1.0, random_state=0).release(["yes"] * 5).summary())
    assert "yes" in text and "simulated noise, not a private release" in text and "Laplace of scale 2" in text


def test_budget_and_unknown_values():
    budget = PrivacyBudget(1.0)
    histogram = Histogram(["a", "b"], 1.0, unknown="error", budget=budget)
    with pytest.raises(InvalidData, match="declared categories only"):
        histogram.release(["a", "secret"])
    assert budget.history() == ()
    histogram.release(["a", "b"])
    with pytest.raises(BudgetExceeded):
        histogram.release(["a", "b"])
    assert budget.spent == PrivacyGuarantee(1.0)
    assert Histogram(["a"], 35.0).release(["a", "b", None, math.nan]).counts.tolist() == [1]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Histogram([], 1.0), "categories must"),
        (lambda: Histogram("abc", 1.0), "categories must"),
        (lambda: Histogram(["a", "a"], 1.0), "categories must"),
        (lambda: Histogram([["a"]], 1.0), "categories must"),
        (lambda: Histogram(["a"], 0.0), "epsilon must"),
        (lambda: Histogram(["a"], 1.0, 1.0), "delta must"),
        (lambda: Histogram(["a"], 1.0, unknown="keep"), "unknown must"),
        (lambda: Histogram(["a"], 1.0, neighbors="replace"), "neighbors must"),
        (lambda: Histogram(["a"], 1.0, random_state=0, budget=PrivacyBudget(1.0)), "random_state and budget"),
    ],
)
def test_bad_parameters(build, message):
    with pytest.raises(InvalidParameter, match=message):
        build()


def test_bad_data_is_refused():
    histogram = Histogram(["a", "b"], 1.0, unknown="error")
    for data in (
        "a",
        {"a": 1},
        {"a"},
        np.array([["a"], ["b"]]),
        pd.DataFrame({"a": ["a"], "b": ["a"]}),
        pl.DataFrame({"a": ["a"], "b": ["a"]}),
    ):
        with pytest.raises(InvalidData, match=r"^(data|X) must"):
            histogram.release(data)
    for data in ([["a"], ["b"]], [["a"], ["b", "c"]], [{}, {}], np.ma.masked_array([1, 2], mask=[0, 1])):
        with pytest.raises(InvalidData, match="data must"):
            histogram.release(data)
    with pytest.raises(InvalidData, match="condition must"):
        Count(1.0).release([1, 0, 1])


@pytest.mark.parametrize(
    ("categories", "row", "other"),
    [
        ([1, 2], 1, "x"),  # numpy makes text of both
        ([True, False], True, "x"),
        ([0.5, 1.5], 0.5, "x"),
        ([b"a", b"b"], b"a", "x"),
        ([2**53 + 1, 1], 2**53 + 1, 0.5),  # floats of both
        ([2**63 + 1, 1], 2**63 + 1, -1),
        ([1, 2, 3, "refused"], 3, "refused"),
        ([np.datetime64("2020-01-01", "ns"), "x"], np.datetime64("2020-01-01", "ns"), np.datetime64("2020", "Y")),
        (["a", "b"], "a", ["a", "b"]),  # a table of both
        (["a", "b"], "a", {}),
        (["a", "b"], "a", np.ma.masked),
    ],
    ids=str,
)
def test_one_row_never_changes_what_another_counts_as(categories, row, other):
    histogram = Histogram(categories, 1.0, unknown="drop")
    alone, beside = histogram._steps([other])[0], histogram._steps([row] * 999 + [other])[0]
    np.testing.assert_array_equal(beside - alone, histogram._steps([row] * 999)[0])
    assert histogram._steps([row] * 999)[0][categories.index(row)] == 999


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("declared", [[1, 2**53 + 1, "a", None], [True, 0.5, b"a", "1"]])
def test_counts_add_up_row_by_row_in_every_container(kind, declared):
    column, values = COLUMNS[kind]
    histogram = Histogram(declared, 1.0, unknown="drop")
    if None not in declared and kind_of(column(list(values))) in ("time", "duration"):
        with pytest.raises(InvalidData, match="data must"):
            histogram._steps(column(list(values)))
        return
    alone = [histogram._steps(column([value]))[0] for value in values]
    np.testing.assert_array_equal(histogram._steps(column(list(values)))[0], np.sum(alone, axis=0))
    assert all(counts.sum() <= 1 for counts in alone)


def test_a_category_for_missing_rows():
    histogram = Histogram(["yes", None], 35.0)
    for data in (["yes", None, math.nan], pd.Series(["yes", None, pd.NA], dtype=object)):
        assert histogram.release(data).counts.tolist() == [1, 2]
    masked = np.ma.masked_array(["yes", "yes", "yes"], mask=[False, True, True])
    assert histogram.release(masked).counts.tolist() == [1, 2]


def test_counts_of_booleans():
    count = Count(35.0)
    for condition in (
        [True, np.True_, False],
        np.array([True, False, True]),
        pd.Series([True, None, True], dtype="boolean"),
        pl.Series([True, None, True]),
        [True, None, True, pd.NA],
        np.ma.masked_array([True, True, True], mask=[False, True, False]),
        iter([True, True]),
    ):
        assert count.release(condition).counts.tolist() == [2]
    for nothing in ([], np.array([], dtype=bool), [None], [False]):
        assert count.release(nothing).counts.tolist() == [0]


@pytest.mark.parametrize("value", ["secret", ["secret"], {"secret": 1}, Raises(), b"secret", "secret" * 1000])
@pytest.mark.parametrize("container", [list, tuple, objects, lambda values: pd.Series(objects(values), dtype=object)])
def test_refusals_show_no_data(value, container):
    budget = PrivacyBudget(1.0)
    for refuse in (Histogram(["a"], 1.0, unknown="error", budget=budget), Count(1.0, budget=budget)):
        with pytest.raises(InvalidData) as caught:
            refuse.release(container([value, value]))
        assert caught.value.__context__ is None and caught.value.__cause__ is None
        assert "secret" not in "".join(traceback.format_exception(caught.value))
    assert budget.history() == ()


def test_an_exhausted_budget_refuses_before_the_data_are_looked_at():
    # Otherwise a refusal of bad data would tell of them for nothing.
    with pytest.raises(BudgetExceeded):
        Histogram(["a", "b"], 1.0, budget=PrivacyBudget(0.1)).release(["a", object()])


# Categories that nobody declared

WORDS = ["b"] * 400 + ["a"] * 90 + ["c"] * 3 + ["d", None, float("nan")]
FOUND = {"categories": "discover", "epsilon": 1.0, "delta": 1e-6}


@pytest.mark.parametrize("seed", [None, 0])
def test_large_categories_are_found_and_small_ones_are_not(seed):
    # A category of 90 rows is missed with probability 1e-21, one of 3 rows is found with 2e-6.
    made = Histogram(**FOUND, random_state=seed)
    result = made.release(WORDS)
    assert made.threshold < 32 and made.categories == () and result.categories == ("a", "b")
    np.testing.assert_allclose(result.counts, [90, 400], atol=8 * made.scale)
    low, high = result.confidence_interval()
    assert (low <= result.counts).all() and (result.counts <= high).all() and low.min() >= 1
    text = str(result.summary())
    assert "2 categories found" in text and "Threshold" in text and "given that the category was found" in text
    assert made.events == (made.event,) and result.guarantee.epsilon == 1.0


def test_discovered_labels_are_read_one_by_one_and_come_in_their_order(tmp_path):
    rng = np.random.default_rng(0)
    numbers = [3] * 100 + [1.0] * 100 + [True] * 100 + ["3"] * 200
    mixed = [numbers[i] for i in rng.permutation(len(numbers))]
    result = Histogram("discover", 35.0, 1e-6, random_state=0).release(numbers)
    assert result.categories == (1, 3, "3") and np.abs(result.counts - [200, 100, 200]).max() < 6
    again = Histogram("discover", 35.0, 1e-6, random_state=0).release(mixed)
    assert again.categories == result.categories and np.array_equal(again.counts, result.counts)
    words = pd.DataFrame({"w": WORDS})
    words.to_csv(tmp_path / "w.csv", index=False)
    first, *others = (
        Histogram(**FOUND, random_state=2).release(data)
        for data in (
            WORDS,
            words,
            pl.DataFrame(words["w"].astype(str).where(words["w"].notna(), None).to_frame()).lazy(),
        )
    )
    for other in (*others, Histogram(**FOUND, random_state=2).release(str(tmp_path / "w.csv"))):
        assert other.categories == first.categories and np.array_equal(other.counts, first.counts)


def test_nothing_found_is_a_result_and_a_budget_is_charged():
    budget = PrivacyBudget(epsilon=1.0, delta=1e-6)
    result = Histogram(**FOUND, budget=budget).release(["a", "b"])
    assert result.categories == () and result.counts.shape == (0,)
    assert "0 categories found" in str(result.summary()) and result.confidence_interval().low.shape == (0,)
    assert result.confidence_interval(simultaneous=True).low.shape == (0,)
    assert result.test(5.0).pvalue.shape == (0,)
    with pytest.raises(BudgetExceeded):
        Histogram(**FOUND, budget=budget).release(["a"])


def test_what_a_discovery_needs():
    with pytest.raises(InvalidParameter, match="delta must"):
        Histogram("discover", 1.0)
    with pytest.raises(InvalidParameter, match="categories must"):
        _ = Histogram(["a"], 1.0).threshold
    for epsilon in (1e-4, 0.01, 100.0):
        assert Histogram("discover", epsilon, 1e-9).threshold > 1
    private = Histogram("discover", 1.0, 1e-6, neighbors="add_or_remove")
    assert 13 < private.threshold < 14 and 18 < Histogram("discover", 1.0, 1e-6).threshold < 19
    found = private.release(["x"] * 200 + ["y"] * 3)
    assert found.categories == ("x",) and abs(found.counts[0] - 200) < 50
    assert found.guarantee.neighbors is Neighbors.ADD_OR_REMOVE_ONE


def test_a_person_with_several_rows_counts_with_a_few_of_them() -> None:
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(200), rng.integers(1, 8, 200))
    value = rng.choice(["a", "b"], person.size)
    exact = np.minimum(np.bincount(person), 3).sum()
    made = Histogram(["a", "b"], 1e3, neighbors="add_or_remove", max_rows=3, called="person", random_state=0)
    found = made.release(value, person)
    assert found.counts.sum() == pytest.approx(exact) and made.plan.additive[0].sensitivity_steps == 3
    assert "one person added or removed" in str(found.guarantee)
    assert "of each person at most 3 rows" in found.estimates().estimand
    assert dict(found.summary().facts)["Of each person"] == "at most 3 rows"
    for changed in ({}, {"delta": 0.1}):
        stages = [
            Histogram(["a", "b"], 1.0, neighbors=neighbors, max_rows=5, **changed).plan.additive[0]
            for neighbors in ("add_or_remove", "replace_one")
        ]
        moved = [float(stage.sensitivity) for stage in stages]
        assert moved == pytest.approx([5.0, 5 * 2**0.5 if changed else 10.0])
    true = Count(1e3, max_rows=1, neighbors="add_or_remove", random_state=0).release(value == "a", person)
    assert true.counts[0] == len(set(person[value == "a"]))
    ages = Histogram(bins=[0, 10, 20], epsilon=1e3, max_rows=2, random_state=0).release([5] * 9, [1] * 9)
    assert ages.counts.tolist() == [2, 0] and ages.n_rows is None


@pytest.mark.parametrize("n", [0, 1, 50])
def test_units_are_refused_without_their_number(n: int) -> None:
    budget = PrivacyBudget(9.0, neighbors=Neighbors.ADD_OR_REMOVE_ONE, unit="person")
    made = Histogram(["a"], 1.0, neighbors="add_or_remove", max_rows=2, called="person", budget=budget, unknown="drop")
    with pytest.raises(InvalidData) as caught:
        made.release(["a"] * n, [1] * (n + 1))
    assert str(n) not in str(caught.value)
    with pytest.raises(InvalidParameter, match="units must"):
        made.release(["a"] * n)
    with pytest.raises(InvalidParameter, match="units must"):
        Histogram(["a"], 1.0).release(["a"] * n, [1] * n)
    with pytest.raises(InvalidParameter, match="Declare the categories"):
        Histogram("discover", 1.0, 1e-6, max_rows=2)
    assert budget.spent.epsilon == 0
    made.release(["a"] * n, [1] * n)
    assert budget.spent.epsilon == 1.0


def test_more_rows_than_exact_sums_hold_are_refused():
    counts = np.array([2**31, 0])
    for guarantee, per_row in ((PrivacyGuarantee(1.0), 1), (PrivacyGuarantee(1.0, 1e-6), 2**30)):
        stage = count_stage(2, guarantee)
        assert count_steps(stage, counts, 2**31).tolist() == [2**31 * per_row, 0]
        with pytest.raises(InvalidData, match="data must"):
            count_steps(stage, counts, 2**31 + 1)


def test_densities_of_no_rows_have_the_picture_of_their_counts() -> None:
    found = Histogram(bins=[0.0, 1.0, 2.0], epsilon=1.0, random_state=0).release([0.5] * 40)
    words, _ = picture_of(found)
    assert words.startswith("The density in each bin")
    none = copy.copy(found)
    object.__setattr__(none, "n_rows", 0)
    assert picture_of(none)[0].startswith("The count of each category")
