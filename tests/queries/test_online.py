"""A stream of queries: its updates, its bound and its end; what is answered, what is refused."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from dpstats.errors import DPStatsError, Exhausted, InvalidData, InvalidParameter
from dpstats.privacy import PrivacyBudget
from dpstats.queries import LinearQueries
from dpstats.textbook import OnlineMultiplicativeWeights

SIZE = 8
COUNTS = np.array([40_000, 20_000, 20_000, 10_000, 5_000, 3_000, 1_500, 500])
SUBSETS = ((np.arange(1, 2**SIZE - 1)[:, None] >> np.arange(SIZE)) & 1).astype(float)


def online(**options: object) -> OnlineMultiplicativeWeights:
    return OnlineMultiplicativeWeights(**{"n_queries": 60, "epsilon": 1.0, "random_state": 0, **options})


def adversary(made: OnlineMultiplicativeWeights, asked: int) -> tuple[float, int]:
    """Ask the worst query for the hypothesis each time; return the largest error and the number of answers."""
    true = SUBSETS @ COUNTS / COUNTS.sum()
    worst, count = 0.0, 0
    for _ in range(asked):
        j = int(np.argmax(np.abs(SUBSETS @ made.synthetic_ - true)))
        try:
            worst = max(worst, abs(made.answer(SUBSETS[j]) - true[j]))
        except Exhausted:
            break
        count += 1
    return worst, count


@pytest.mark.parametrize("options", [{}, {"delta": 1e-6, "epsilon": 0.5}, {"calibration": "textbook"}], ids=str)
def test_an_adversary_finds_no_error_beyond_the_bound(options: dict[str, object]) -> None:
    # At beta = .05 of 15 streams one may fail: more than 7 do with a probability below 1e-6.
    rng, failed, updates = np.random.default_rng(1), 0, 0
    made = online(random_state=rng, **options)
    plan = made.plan(int(COUNTS.sum()), SIZE)
    for _ in range(15):
        made.fit(COUNTS)
        worst, _ = adversary(made, 30)
        failed += worst > plan.error_bound
        updates = max(updates, made.n_updates_)
    assert failed <= 7 and 1 <= updates <= plan.max_updates
    assert made.error_bound_ == min(plan.error_bound, 1.0)


def test_the_counter_counts_every_answer_from_the_data_and_ends_the_stream() -> None:
    # Answers that are released as they are have too much noise to learn from: each query is surprising again.
    made = online(max_updates=3, epsilon=1e4).fit(COUNTS)
    assert (made.n_updates_, made.updates_left_, made.n_asked_) == (0, 3, 0)
    for j in range(3):
        made._conversation.hypothesis = np.eye(SIZE)[7]
        made.answer(np.eye(SIZE)[0])
        assert (made.n_updates_, made.updates_left_, made.n_asked_) == (j + 1, 2 - j, j + 1)
    with pytest.raises(Exhausted, match="all 3 updates are used and the stream is exhausted: predict"):
        made.answer(np.eye(SIZE)[0])
    # What was released stays; the data are gone.
    assert made.predict(np.eye(SIZE)).sum() == pytest.approx(1)
    assert made._conversation._counts is None
    assert made.fit(COUNTS).updates_left_ == 3


def test_an_update_brings_the_hypothesis_nearer_and_not_beyond() -> None:
    # Of answers with hardly any noise: from an eighth to .4, and from seven eighths to .6.
    made = online(max_updates=5, epsilon=1e4).fit(COUNTS)
    for query, start, true in ((np.eye(SIZE)[0], 0.125, 0.4), (1 - np.eye(SIZE)[0], 0.875, 0.6)):
        made._conversation.hypothesis = np.full(SIZE, 1 / SIZE)
        assert made.answer(query) == pytest.approx(true, abs=0.01)
        moved = float(made.predict(query)[0])
        assert abs(moved - true) < 0.02 < abs(start - true)


def test_all_queries_are_answered_where_no_updates_were_given() -> None:
    # On two points one query is enough to learn all: the stream used to end with its answer.
    made = online(accuracy=0.45).fit([100_000, 0])
    assert made.plan_.notes() == [] and made.plan_.max_updates == 2
    assert all(abs(made.answer([1, 0]) - 1) <= made.error_bound_ for _ in range(5))
    assert made.updates_left_ > 0


def test_a_summary_says_how_far_the_stream_is() -> None:
    made = online(n_queries=7, max_updates=3).fit(COUNTS)
    made.answer(SUBSETS[0])
    text = str(made.summary())
    used = made.n_updates_
    assert ["queries", "1", "6"] in [line.split() for line in text.splitlines()]
    assert ["updates", f"{used}", f"{3 - used}"] in [line.split() for line in text.splitlines()]
    assert f"{made.error_bound_:.4g} of the data's" in text and "Simulated noise" in text


def test_as_many_queries_as_declared() -> None:
    made = online(n_queries=2).fit(COUNTS)
    assert len(list(made.stream(SUBSETS[:2]))) == 2
    with pytest.raises(Exhausted, match="all n_queries = 2 queries of the error bound have been answered"):
        made.answer(SUBSETS[0])


def test_queries_by_index_and_by_value() -> None:
    queries = LinearQueries.from_matrix(SUBSETS)
    made = online(queries=queries).fit(COUNTS)
    assert abs(made.answer(0) - 0.4) <= made.error_bound_
    assert abs(made.answer(SUBSETS[0].astype(bool)) - 0.4) <= made.error_bound_
    assert made.predict().shape == (len(SUBSETS),)
    with pytest.raises(InvalidParameter, match=r"^j must"):
        made.answer(-1)
    with pytest.raises(InvalidParameter, match="queries must"):
        online().fit(COUNTS).answer(3)
    asked = made.n_asked_
    for wrong, message in (
        (np.zeros(SIZE + 1), r"query must be numbers in \[0, 1\] of shape \(8\), got shape \(9,\)"),
        (np.full(SIZE, 1.5), r"query must have values in \[0, 1\], got another"),
        (np.zeros((2, SIZE)), "query must be numbers"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            made.answer(wrong)
    assert made.n_asked_ == asked
    with pytest.raises(InvalidData, match="8 points"):
        online(queries=queries).fit(COUNTS[:4])


def test_a_stream_is_charged_once_and_not_copied() -> None:
    budget = PrivacyBudget(2.0)
    made = online(random_state=None, budget=budget).fit(COUNTS)
    for query in SUBSETS[:20]:
        made.answer(query)
    assert len(budget.history()) == 1 and budget.history()[0].guarantee == made.privacy_
    made.set_params(budget=None)
    for copied in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            copied(made)
    made.close()
    with pytest.raises(Exhausted, match="the stream was closed"):
        made.answer(SUBSETS[0])
    with pytest.raises(DPStatsError, match="must have given the answer"):
        made.confidence_interval()


def test_plans_say_what_is_promised() -> None:
    plan = online(n_queries=10_000).plan(20_190, 4096)
    assert plan.max_updates == 46 and plan.error_bound < 0.5 and plan.notes() == []
    assert plan.threshold == pytest.approx(plan.noise_of.gap + (plan.error_bound - plan.noise_of.gap) / 2, rel=1e-6)
    assert "vacuous" in online(n_queries=10_000, calibration="textbook").plan(20_190, 4096).notes()[0]
    few = online(max_updates=2, accuracy=0.1)
    assert "more surprising queries than updates" in few.plan(10**6, 4096).notes()[0]
    assert "more surprising queries than updates" in str(few.plan(10**6, 4096))
    assert online(queries=LinearQueries.from_matrix(SUBSETS)).plan(1000).n_features == SIZE
    for name, value in (("n_queries", 0), ("max_updates", 0), ("accuracy", 1.0), ("calibration", "none")):
        with pytest.raises(InvalidParameter, match=f"{name} must be"):
            online(**{name: value}).plan(1000, 8)


def test_the_threshold_is_kept_or_drawn_anew_as_the_stage_says() -> None:
    for delta, kept in ((0.0, True), (1e-6, False)):
        made = online(max_updates=200, delta=delta, epsilon=0.5).fit(COUNTS)
        assert made.plan_.comparisons.redrawn is not kept
        thresholds = set()
        for _ in range(3):
            made._conversation.hypothesis = np.eye(SIZE)[7]
            made.answer(np.eye(SIZE)[0])
            thresholds.add(made._conversation._stream._state[1])
        assert (thresholds == {None}) is not kept and (len(thresholds) == 1)
