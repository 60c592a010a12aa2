"""What all releases of a hypothesis share: rows of a domain, synthetic rows, answers, intervals, wrong input."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from dpstats.data.parameters import UNIT
from dpstats.errors import InvalidData, InvalidParameter
from dpstats.queries import Domain, LinearQueries
from dpstats.textbook import IterativeConstruction, NetMechanism, OnlineMultiplicativeWeights, SmallDB
from dpstats.textbook.histogram_release import as_queries

Q = np.array([[1, 1, 0, 0], [1, 0, 1, 0]])
COUNTS = np.array([500, 300, 150, 50])


CELLS = Domain({"cell": 4})
BITS = Domain({"a": 2, "b": 2})


def made(**options: object) -> IterativeConstruction:
    return IterativeConstruction(**{"queries": Q, "max_updates": 2, "epsilon": 2.0, "random_state": 0, **options})


def test_rows_of_a_domain_are_counted_and_drawn() -> None:
    rows = pd.DataFrame({"cell": np.repeat(np.arange(4), COUNTS)})
    of_rows = made(domain=CELLS).fit(rows)
    assert np.array_equal(of_rows.predict(), made().fit(COUNTS).predict())
    # A domain, or what makes one.
    for domain in (BITS, {"a": 2, "b": 2}, (2, 2)):
        assert np.array_equal(made(domain=domain).fit(COUNTS).predict(), of_rows.predict())
        assert made(domain=domain).fit(np.array([[0, 1], [1, 1], [0, 0]])).sample(3).shape == (3, 2)
    with pytest.raises(InvalidParameter, match="attributes must"):
        made(domain=3).fit(COUNTS)
    assert np.array_equal(made(domain=CELLS).fit(rows["cell"].to_numpy()).predict(), of_rows.predict())
    drawn = of_rows.sample(7, random_state=1)
    assert list(drawn.columns) == ["cell"] and len(drawn) == 7
    with pytest.raises(InvalidData, match="declared levels"):
        made(domain=CELLS).fit(rows + 9)
    rows.attrs[UNIT] = ("person", len(rows))
    assert made(domain=CELLS).fit(rows).privacy_.unit == "person"
    # What is no histogram is refused in one line, whatever it is.
    for other in ("rows.csv", {"a": 1}, None, rows):
        with pytest.raises(InvalidData, match=r"^X must"):
            made().fit(other)


def test_as_many_rows_as_there_are_cells_are_no_histogram() -> None:
    # Taken for counts these neighbors would have had 10 rows and 9, and n would not have been public.
    rows = np.array([0, 1, 2, 3, 3])
    given = {"domain": Domain([5]), "epsilon": 10.0, "random_state": 0}
    for estimator in (
        IterativeConstruction(queries=np.eye(5), max_updates=1, **given),
        OnlineMultiplicativeWeights(n_queries=3, max_updates=1, **given),
        SmallDB(queries=np.eye(5), n_rows=2, **given),
        NetMechanism(queries=np.eye(5), net=np.eye(5), **given),
    ):
        for data in (rows, np.array([0, 1, 2, 3, 2]), rows[:, None]):
            assert clone(estimator).fit(data).plan_.n_samples == 5
    assert SmallDB(queries=np.eye(5), n_rows=2, **given).probabilities(rows) == pytest.approx(
        SmallDB(queries=np.eye(5), n_rows=2).set_params(epsilon=10.0).probabilities(np.array([1, 1, 1, 2, 0]))
    )


def test_synthetic_rows_have_the_law_of_the_hypothesis() -> None:
    fitted = made().fit(COUNTS)
    points = fitted.sample(20_000, random_state=2)
    shares = np.bincount(points, minlength=4) / 20_000
    assert np.abs(shares - fitted.synthetic_).max() < 5 * 0.5 / np.sqrt(20_000)
    assert fitted.synthetic_.sum() == pytest.approx(1)
    assert fitted.sample(3).shape == (3,)


def test_other_queries_are_answered_by_the_hypothesis() -> None:
    fitted = made().fit(COUNTS)
    assert fitted.predict([0, 0, 1, 1]) == pytest.approx([fitted.synthetic_[2:].sum()])
    assert fitted.predict(LinearQueries.from_matrix(Q)) == pytest.approx(fitted.predict())
    with pytest.raises(InvalidParameter, match="queries must"):
        fitted.predict([[1, 0, 0]])
    with pytest.raises(InvalidParameter, match="queries must"):
        as_queries(LinearQueries.from_matrix(np.eye(3)), 4)
    with pytest.raises(InvalidParameter, match="queries must"):
        fitted.predict([2, 0, 0, 0])


def test_intervals_are_for_the_planned_level() -> None:
    fitted = made(beta=0.1).fit(COUNTS)
    interval = fitted.confidence_interval()
    assert interval.confidence_level == 0.9 and interval.simultaneous
    assert np.all(np.asarray(interval.low) >= 0) and np.all(np.asarray(interval.high) <= 1)
    assert fitted.confidence_interval(0.8).confidence_level == 0.9
    with pytest.raises(InvalidParameter, match="confidence_level must"):
        fitted.confidence_interval(0.95)


def test_summaries_say_what_holds() -> None:
    text = str(made().fit(COUNTS).summary())
    for words in (
        "Rows:",
        "1,000 (public)",
        "4 points",
        "not a private release",
        "include the noise, and not the sampling",
    ):
        assert words in text
    assert len(made(epsilon=0.01).fit(COUNTS).summary().notes) > len(made().fit(COUNTS).summary().notes)
    many = IterativeConstruction(queries=np.eye(30), max_updates=1, epsilon=1.0, random_state=0)
    assert "10 more queries: predict()" in str(many.fit(np.arange(30)).summary())


def test_parameters_are_those_of_scikit_learn() -> None:
    estimator = made(domain=BITS)
    assert clone(estimator).get_params()["max_updates"] == 2
    for name, value in (("beta", 0.0), ("beta", 1.0), ("epsilon", 0.0), ("delta", 1.0)):
        with pytest.raises(InvalidParameter, match=f"{name} must be"):
            clone(estimator).set_params(**{name: value}).fit(COUNTS)


def test_a_second_fit_is_that_of_a_fresh_object_and_holds_no_data() -> None:
    again = made(random_state=1).fit(COUNTS)
    again.set_params(max_updates=1, epsilon=1.5, random_state=1)
    fresh = made(max_updates=1, epsilon=1.5, random_state=1)
    other = COUNTS + np.array([0, 7, 11, 0])
    assert vars(again.fit(other)).keys() == vars(fresh.fit(other)).keys()
    assert np.array_equal(again.predict(), fresh.predict()) and again.plan_ == fresh.plan_
    assert again.error_bound_ == fresh.error_bound_ and again.privacy_ == fresh.privacy_
    kept = pickle.dumps(again)
    for dtype in (np.int64, np.float64):
        # Of the counts, and of their exact answers in steps.
        for private in (other, Q @ other, (Q @ other) << 20):
            assert not any(number.tobytes() in kept for number in private.astype(dtype))
    assert np.array_equal(pickle.loads(kept).predict(), again.predict())


def test_a_kept_histogram_would_be_noticed() -> None:
    fitted = made().fit(COUNTS)
    fitted._kept = COUNTS.astype(np.int64)
    kept = pickle.dumps(fitted)
    assert all(number.tobytes() in kept for number in COUNTS.astype(np.int64))


@pytest.mark.parametrize("large", [2**40, 2**70, 10**400])
def test_more_rows_than_can_be_drawn_are_refused(large: int) -> None:
    made = IterativeConstruction(queries=Q, random_state=0).fit(COUNTS)
    with pytest.raises(InvalidParameter, match=r"^n must"):
        made.sample(large)
