"""Sessions: charged once, then everything that the plan names, once each, and nothing else."""

import contextlib
import copy
import dataclasses
import itertools
import multiprocessing
import pickle
import sys

import numpy as np
import pytest

from dpstats.errors import BudgetExceeded, DPStatsError, InvalidParameter
from dpstats.privacy import (
    Block,
    Choice,
    Coins,
    Comparisons,
    JointStage,
    Plan,
    PrivacyBudget,
    PrivacyGuarantee,
    Responses,
    Selection,
    Smooth,
    Stage,
)
from dpstats.release.groups import Bounds
from dpstats.release.noise import ExactNoise, SimulatedNoise
from dpstats.release.session import Part, Session, find_order, keeping

SUM = Stage("sum", "laplace", 3, (1.0, 0.5, 4.0), 10, 100.0)
COUNT = Stage("count", "gaussian", 1, 0.25, 10, 400.0, concentrated=True)
BEST = Selection("best", "gumbel", 2, 1.0, 1, 40.0, candidates=5)
JOINT = JointStage("joint", "laplace", (Block("a", 2, 1.0, 10.0), Block("b", 1, 0.5, 40.0)), 0.5, 5.0)
ANSWERS = Responses("answers", 4, 2**61 + 2**60)
STREAM = Comparisons("stream", 1.0, 10, 0, 200.0, 400.0, 2)
SIGNS = Coins("signs", (4, 2))
ALL = (SUM, COUNT, BEST, JOINT, ANSWERS, STREAM, SIGNS)


def plan(*stages, epsilon=50.0, delta=1e-6):
    return Plan(stages, PrivacyGuarantee(epsilon, delta))


def session(*stages, seed=0, size=None):
    return Session.simulated(plan(*stages), np.random.default_rng(seed), size)


class Silent:
    """A source without noise that notes what it was asked for."""

    simulated = False

    def __init__(self, then=lambda: None):
        self.asked, self.then = [], then

    def rehearse(self, kinds):
        pass

    def _draw(self, law, scale, size):
        self.then()
        self.asked.append((law, scale, size))
        return np.zeros(size, dtype=np.int64)

    def laplace(self, scale, size):
        return self._draw("laplace", scale, size)

    def gaussian(self, scale, size):
        return self._draw("gaussian", scale, size)

    def integers(self, below, size):
        return self._draw("integers", below, size)

    def top(self, noise, scores, scale, k, size=None):
        self._draw(noise, scale, (1 if size is None else size, scores.size))
        return np.argsort(-scores, kind="stable")[:k]


# What is released


def test_integers_leave_in_their_units_with_the_noise_of_their_stage():
    silent = Silent()
    with Session(plan(SUM, COUNT), silent) as open_session:
        released = open_session.add("sum", np.array([3, 4, -5]))
        assert released.tolist() == [3.0, 2.0, -20.0]
        assert open_session.add("count", [8], units=False).tolist() == [8]
    assert silent.asked == [("laplace", 100.0, (3,)), ("gaussian", 400.0, (1,))]
    assert open_session.released["sum"] is released
    assert open_session.released["count"].tolist() == [2.0]
    with pytest.raises(TypeError):
        open_session.released["sum"] = 0


def test_a_joint_stage_releases_all_its_blocks_at_their_own_scales():
    silent = Silent()
    with Session(plan(JOINT), silent) as made:
        released = made.add("joint", {"b": [6], "a": [1, 2]})
    assert released["a"].tolist() == [1.0, 2.0] and released["b"].tolist() == [3.0]
    assert silent.asked == [("laplace", 50.0, (2,)), ("laplace", 200.0, (1,))]
    for blocks in ({"a": [1, 2]}, {"a": [1, 2], "b": [6], "c": [1]}):
        with pytest.raises(DPStatsError, match="a, b together"):
            session(JOINT).open().add("joint", blocks)


@pytest.mark.parametrize(("grain", "kept"), [(-1, True), (0, False)])
def test_a_response_is_kept_at_exactly_as_many_grains_as_are_paid_for(grain, kept):
    class Grains(Silent):
        def integers(self, count, size):
            drawn = ANSWERS.keep_grains + grain if count == ANSWERS.GRAIN else 0
            return np.full(size, drawn, dtype=np.int64)

    with Session(plan(ANSWERS), Grains()) as made:
        answers = np.array([1, 2, 3])
        assert (made.respond("answers", answers) == answers).all() == kept


def test_what_selects_responds_and_tosses_coins_gets_what_the_plan_says():
    silent = Silent()
    with Session(plan(BEST, ANSWERS, SIGNS), silent) as made:
        assert made.select("best", np.array([0, 5, 1, 9, 2])).tolist() == [3, 1]
        assert made.respond("answers", np.array([0, 3, 1])).tolist() == [0, 3, 1]
        assert made.coins("signs").tolist() == [[-1, -1]] * 4
    assert silent.asked == [
        ("gumbel", 40.0, (1, 5)),
        ("integers", 2**62, 3),
        ("integers", 3, 3),
        ("integers", 2, (4, 2)),
    ]
    assert "signs" not in made.released and set(made.released) == {"best", "answers"}


def test_peeling_draws_anew_for_each_and_never_takes_one_twice():
    peeled = Selection("best", "laplace", 3, 1.0, 1, 40.0, times=3, candidates=4)
    silent = Silent()
    with Session(plan(peeled), silent) as made:
        assert made.select("best", np.array([5, 9, 9, 1])).tolist() == [1, 2, 0]
    assert silent.asked == [("laplace", 40.0, (1, 4))] * 3


def test_single_and_batched_draws_are_one_path():
    def run(size):
        with session(SUM, COUNT, BEST, seed=4, size=size) as made:
            made.add("sum", np.array([1, 2, 3]))
            made.select("best", np.array([0, 5, 1, 9, 2]))
            made.add("count", [7])
        return made.released

    one, many = run(None), run(1)
    for name, value in one.items():
        assert np.array_equal(value, many[name][0])
    assert {name: value.shape for name, value in run(6).items()} == {"sum": (6, 3), "best": (6, 2), "count": (6, 1)}


def test_batches_take_integers_of_their_own_and_keep_rows_independent():
    with session(SUM, size=2000) as made:
        released = made.add("sum", np.tile([[1, 2, 3]], (2000, 1)))
    noise = released / np.array(SUM.spacing) - [1, 2, 3]
    # Of 2000 draws of deviation 141: |z| > 6 has probability 2e-9.
    assert np.all(np.abs(noise.mean(axis=0)) < 6 * 141.4 / np.sqrt(2000))
    assert np.abs(np.corrcoef(noise.T)[np.triu_indices(3, 1)]).max() < 6 / np.sqrt(2000)
    assert np.abs(np.corrcoef(noise[1:, 0], noise[:-1, 0])[0, 1]) < 6 / np.sqrt(2000)


def test_draws_that_stopped_early_are_not_released():
    where = np.array([True, False, True])
    with session(SUM, COUNT, JOINT, size=3) as made:
        assert np.isnan(made.add("sum", [1, 2, 3], where=where)).all(axis=1).tolist() == [False, True, False]
        assert made.add("count", [9], where=where, units=False)[1].tolist() == [0]
        released = made.add("joint", {"a": [1, 2], "b": [3]}, where=where)
        assert np.isnan(released["b"]).ravel().tolist() == [False, True, False]
    silent = Silent()
    with Session(plan(SUM), silent) as made:
        assert np.isnan(made.add("sum", [1, 2, 3], where=False)).all()
    assert silent.asked == []  # nothing was drawn, so nothing can be looked at


def test_huge_integers_stay_exact_and_floats_are_no_integers():
    with Session(plan(COUNT), Silent()) as made:
        assert made.add("count", np.array([2**80 + 4], dtype=object)).tolist() == [float(2**78 + 1)]
    for wrong in ([1.0], [1, 2], [[1, 2]], ["1"]):
        with pytest.raises(DPStatsError, match="'count' releases 1 integers"):
            session(COUNT).open().add("count", np.array(wrong))


# Names, uses and ends


def test_only_names_of_the_plan_and_each_once():
    made = session(SUM, COUNT).open()
    with pytest.raises(DPStatsError, match=r"in the plan \(count, sum\), got 'mean'"):
        made.add("mean", [1, 2, 3])
    made.add("sum", [1, 2, 3])
    with pytest.raises(DPStatsError, match="'sum' was released before"):
        made.add("sum", [1, 2, 3])
    with pytest.raises(DPStatsError, match="'count' must be a Selection, got a Stage"):
        made.select("count", np.zeros(5, dtype=np.int64))
    with pytest.raises(DPStatsError, match="different names"):
        session(SUM, SUM)


@pytest.mark.parametrize("stage", ALL, ids=lambda stage: stage.name)
def test_nothing_is_drawn_before_the_session_is_open(stage):
    silent = Silent()
    made = Session(plan(*ALL), silent)
    calls = {
        "sum": lambda: made.add("sum", [1, 2, 3]),
        "count": lambda: made.add("count", [1]),
        "best": lambda: made.select("best", np.zeros(5, dtype=np.int64)),
        "joint": lambda: made.add("joint", {"a": [1, 2], "b": [3]}),
        "answers": lambda: made.respond("answers", np.zeros(3, dtype=np.int64)),
        "stream": lambda: made.stream("stream"),
        "signs": lambda: made.coins("signs"),
    }
    with pytest.raises(DPStatsError, match="not open"):
        calls[stage.name]()
    made.open()
    calls[stage.name]()
    with pytest.raises(DPStatsError, match="was released before"):
        calls[stage.name]()
    # After its end a session draws nothing more.
    ended = session(SUM)
    with ended:
        ended.add("sum", [1, 2, 3])
    with pytest.raises(DPStatsError, match="not open"):
        ended.skip("sum", "late")


def test_a_stage_that_is_forgotten_is_an_error_and_one_that_is_skipped_is_not():
    with pytest.raises(DPStatsError, match="neither released nor skipped: count"), session(SUM, COUNT) as made:
        made.add("sum", [1, 2, 3])
    with session(SUM, COUNT) as made:
        made.add("sum", [1, 2, 3])
        made.skip("count", "the sum was large")
    assert "count" not in made.released
    # What went wrong inside is not hidden by what was left out because of it.
    with pytest.raises(ZeroDivisionError), session(SUM, COUNT):
        _ = 1 / 0


def test_scores_and_candidates_must_agree():
    with pytest.raises(DPStatsError, match="5 scores"):
        session(BEST).open().select("best", np.zeros(4, dtype=np.int64))
    anything = dataclasses.replace(BEST, candidates=None)
    assert session(anything).open().select("best", np.zeros(4, dtype=np.int64)).shape == (2,)


# The charge


def test_the_charge_is_whole_and_before_any_noise():
    budget = PrivacyBudget(100.0, 1e-5)
    silent = Silent(then=lambda: spent.append(len(budget.history())))
    spent = []
    made = Session(plan(SUM, COUNT), silent, budget, "two sums")
    made.check()
    assert budget.history() == ()
    with made:
        assert len(budget.history()) == 1
        made.add("sum", [1, 2, 3])
        made.add("count", [1])
    assert spent == [1, 1]
    (entry,) = budget.history()
    assert entry.label == "two sums" and entry.guarantee == made.plan.guarantee


def test_a_session_is_opened_once_and_a_refused_one_draws_nothing():
    budget = PrivacyBudget(0.05)
    silent = Silent()
    made = Session(plan(SUM, epsilon=0.1, delta=0.0), silent, budget)
    for _ in range(2):
        with pytest.raises(BudgetExceeded):
            made.check()
    with pytest.raises(BudgetExceeded):
        made.open()
    with pytest.raises(DPStatsError, match="opened once"):
        made.open()
    with pytest.raises(DPStatsError, match="not open"):
        made.add("sum", [1, 2, 3])
    assert silent.asked == [] and budget.history() == ()


def test_simulated_noise_charges_no_budget():
    with pytest.raises(InvalidParameter, match="random_state and budget cannot be given together"):
        Session(plan(SUM), SimulatedNoise(np.random.default_rng(0)), PrivacyBudget(1.0))


def test_a_plan_that_costs_more_than_it_claims_is_not_paid_for():
    with pytest.raises(DPStatsError, match="defect"):
        Session(plan(SUM, epsilon=0.05, delta=0.0), Silent(), PrivacyBudget(1.0)).open()


def interrupted_at(stop, run):
    """Run something, broken off at the stop-th line of the session; say whether it got that far."""
    seen = 0

    def trace(frame, event, arg):
        nonlocal seen
        if frame.f_code.co_filename.endswith("session.py") and event == "line":
            seen += 1
            if seen == stop:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def test_an_interruption_at_any_line_never_draws_without_exactly_one_charge():
    for stop in itertools.count(1):
        budget = PrivacyBudget(100.0)
        drawn = []
        silent = Silent(then=lambda drawn=drawn, budget=budget: drawn.append(len(budget.history())))
        made = Session(plan(SUM, epsilon=0.1, delta=0.0), silent, budget)

        def run(made=made):
            made.open()
            made.add("sum", [1, 2, 3])

        if not interrupted_at(stop, run):
            break
        # Try to go on: what was charged or drawn is not again.
        for again in (made.open, lambda made=made: made.add("sum", [1, 2, 3])):
            with contextlib.suppress(DPStatsError):
                again()
        assert len(drawn) <= 1 and len(budget.history()) <= 1
        assert all(charges == 1 for charges in drawn)
    assert stop > 20 and drawn == [1]


def test_a_session_stays_where_it_was_made():
    made = session(SUM)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="copied or pickled"):
            copied(made)
    budget = PrivacyBudget(1.0)
    opened = Session(plan(SUM, epsilon=0.1, delta=0.0), ExactNoise(), budget).open()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()

    def child() -> None:
        for attempt in (opened.check, lambda: opened.add("sum", [1, 2, 3])):
            try:
                attempt()
                queue.put("drawn")
            except DPStatsError as error:
                queue.put(str(error))

    process = context.Process(target=child)
    process.start()
    answers = [queue.get(timeout=30) for _ in range(2)]
    process.join()
    assert all("process that made it" in answer for answer in answers)
    opened.add("sum", [1, 2, 3])


def test_a_claim_is_certified_before_anything_is_drawn_where_no_budget_asks_too():
    silent = Silent()
    made = Session(plan(SUM, epsilon=0.01, delta=0.0), silent)
    with pytest.raises(DPStatsError, match="defect"):
        made.open()
    with pytest.raises(DPStatsError, match="not open"):
        made.add("sum", [1, 2, 3])
    assert silent.asked == []


def test_integers_of_any_width_stay_exact():
    one = Stage("sum", "laplace", 1, 1.0, 1, 100.0)
    with Session(plan(one), Silent()) as made:
        noisy = made.add("sum", np.array([2**60 + 1], dtype=np.uint64), units=False)
        assert noisy.tolist() == [2**60 + 1]
    # One length of a step for each number, beyond 64 bits too.
    with Session(plan(SUM), Silent()) as made:
        released = made.add("sum", np.array([2**70, 3, -(2**1100)], dtype=object))
    assert released.tolist() == [2.0**70, 1.5, -np.finfo(np.float64).max]


class Whole:
    """A number from 0 to the last, all alike."""

    size, unit = 1, 1

    def __init__(self, last):
        self.last = last

    def rows(self, scale, level):
        return Bounds([1], [1])

    def columns(self, scale, level, row):
        return Bounds([1], [1])

    def box(self, row, column):
        return np.array([0]), np.array([self.last])


def test_candidates_are_chosen_part_by_part_and_case_by_case():
    plan = Plan((Choice("points", 2, 2, 4.0, 10),), PrivacyGuarantee(0.5))
    with Session.simulated(plan, np.random.default_rng(0)) as session:
        chosen = session.choose("points", [Part([Whole(0)]), Part([Whole(9)])])
    assert chosen.shape == (2,) and chosen[0] == 0 and session.released["points"] is chosen
    with Session.simulated(plan, np.random.default_rng(0), 6) as session:
        case = np.array([0, 1, 0, 1, 0, 1])
        chosen = session.choose("points", [Part([Whole(0), Whole(9)], case), Part([Whole(0)])])
    assert chosen.shape == (6, 2) and not chosen[::2, 0].any() and chosen[1::2, 0].any()


def test_a_choice_of_another_length_and_a_level_that_is_none_are_refused():
    plan = Plan(
        (Choice("points", 2, 2, 4.0, 10), Smooth("median", 1.0, (1.0, 1.1), 0.5, 0.5)), PrivacyGuarantee(2.0, 0.1)
    )
    session = Session.simulated(plan, np.random.default_rng(0)).open()
    with pytest.raises(DPStatsError, match="must get 2 numbers"):
        session.choose("points", [Part([Whole(3)])])
    with pytest.raises(DPStatsError, match="must get one of its 2 levels"):
        session.smooth("median", 3, 2)
    session.choose("points", [Part([Whole(3)]), Part([Whole(3)])])
    assert session.smooth("median", 3, 1).shape == (1,)
    for again in (lambda: session.choose("points", [Part([Whole(3)])] * 2), lambda: session.smooth("median", 3, 1)):
        with pytest.raises(DPStatsError, match="released before"):
            again()


def test_what_is_released_is_handed_on_as_soon_as_it_is():
    seen = []
    with keeping(lambda label, plan, released: seen.append((label, plan, dict(released)))):
        with Session(plan(SUM, COUNT), ExactNoise(), label="two") as made:
            sums = made.add("sum", np.arange(3))
            made.skip("count", "for a public reason")
            assert not seen
        with session(SUM) as simulated:
            simulated.add("sum", np.arange(3))
        with contextlib.suppress(KeyboardInterrupt), Session(plan(SUM, COUNT), ExactNoise()) as broken:
            broken.add("count", np.arange(1))
            raise KeyboardInterrupt
    with Session(plan(COUNT), ExactNoise()) as after:
        after.add("count", np.arange(1))
    # The simulation is no release; of the session that broke off, what it had released.
    (label, of, released), (_, _, partly) = seen
    assert label == "two" and of.stages == (SUM, COUNT) and partly.keys() == {"count"}
    assert released.keys() == {"sum"} and (released["sum"] == sums).all()


def test_draws_of_a_batch_toss_coins_of_their_own():
    stage = Coins("coins", (40,))
    with Session.simulated(plan(stage), np.random.default_rng(0), 50) as session:
        signs = session.coins("coins")
    assert signs.shape == (50, 40)
    # All equal, where they are fair, with probability 2^-40.
    assert len({row.tobytes() for row in signs}) == 50


@pytest.mark.parametrize("bits", [3, 8, 12, 62])
@pytest.mark.parametrize("size", [1, 2, 7, 8, 300])
def test_the_order_of_keys_is_that_of_all_their_bits(size: int, bits: int) -> None:
    for seed in range(20):
        # Keys that have their first bits, their last bits, or some bits between, in common.
        rng = np.random.default_rng(seed)
        keys = rng.integers(1 << bits, size=size) << int(rng.integers(63 - bits)) | int(rng.integers(2)) << 61
        found = find_order(keys)
        assert (found is None) == (np.unique(keys).size < size)
        assert found is None or np.array_equal(found, np.argsort(keys))
