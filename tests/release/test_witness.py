"""A witness sees what every stage is given; a second run is released what the first was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpstats.errors import DPStatsError, InvalidParameter
from dpstats.means import ClippedMean
from dpstats.privacy import Coins, Comparisons, Plan, PrivacyBudget, PrivacyGuarantee, Selection, Stage
from dpstats.release.mechanism import session_of
from dpstats.release.noise import ExactNoise, SimulatedNoise, noise_source
from dpstats.release.session import Session
from dpstats.release.witness import Diverged, Witness, WitnessedSession

SUM = Stage("sum", "laplace", 2, 1.0, 1, 50.0)
COUNT = Stage("count", "laplace", 1, 0.5, 1, 50.0)
BEST = Selection("best", "gumbel", 1, 1.0, 1, 5.0)
STREAM = Comparisons("stream", 1.0, 1, 0, 10.0, 20.0, 1)
PLAN = Plan((SUM, COUNT, BEST, Coins("signs", (3,)), STREAM), PrivacyGuarantee(10.0))


def run(witness: Witness, data: np.ndarray) -> list[Any]:
    with session_of(PLAN, noise_source(witness)) as session:
        total = session.add("sum", data)
        steps = session.add("count", data[:1], units=False)
        best = session.select("best", data)
        coins = session.coins("signs")
        stream = session.stream("stream")
        asked = [stream.ask(-1000), stream.ask(1000)]
        return [total, steps, best, coins, asked, stream.left, dict(session.released)["count"]]


def test_a_second_run_is_released_what_the_first_was() -> None:
    witness = Witness(seed=3)
    first = run(witness, np.array([5, 7]))
    assert [type(seen.stage).__name__ for seen in witness.seen] == [
        "Stage",
        "Stage",
        "Selection",
        "Coins",
        "Comparisons",
        "Comparisons",
    ]
    again = witness.again()
    second = run(again, np.array([6, 7]))
    for a, b in zip(first, second, strict=True):
        assert str(a) == str(b)
    assert again.finish() == "" and first[5] == 0
    # What was given is kept as it was, of both.
    given = [pair.seen[0].given[0].tolist() for pair in (witness, again)]
    assert given == [[5, 7], [6, 7]]
    # Noise is that of the seed, and is drawn: a third run of its own differs.
    assert str(run(Witness(seed=3), np.array([5, 7]))) == str(first) != str(run(Witness(4), np.array([5, 7])))


def test_runs_that_part_say_where() -> None:
    witness = Witness()
    run(witness, np.array([5, 7]))
    again = witness.again()
    session = session_of(PLAN, noise_source(again)).open()
    with pytest.raises(Diverged, match="asks for stage 'sum', the other asks for stage 'count'"):
        session.add("count", np.array([1]))
    short = witness.again()
    session = session_of(PLAN, noise_source(short)).open()
    session.add("sum", np.array([5, 7]))
    assert "'count', the other asks for no further stage" in short.finish()
    skipped = Witness()
    session = session_of(PLAN, noise_source(skipped)).open()
    session.skip("sum", "enough")
    session = session_of(PLAN, noise_source(skipped.again())).open()
    with pytest.raises(Diverged, match="leaves stage 'sum' out, the other releases it"):
        session.add("sum", np.array([5, 7]))
    alike = skipped.again()
    session = session_of(PLAN, noise_source(alike)).open()
    session.skip("sum", "enough")
    assert alike.finish() == alike.parted == ""
    longer = Witness(0, ())
    with pytest.raises(Diverged, match="no further stage, the other asks for stage 'laplace 1'"):
        longer.laplace(1.0, sensitivity=1.0)
    assert longer.finish() == longer.parted != ""


def test_a_session_keeps_its_rules_before_a_witness() -> None:
    for witness in (Witness(), None):
        made = witness or Witness()
        with session_of(PLAN, noise_source(made)) as session:
            session.add("sum", np.array([1, 2]))
            with pytest.raises(DPStatsError, match="was released before"):
                session.add("sum", np.array([1, 2]))
            for name in ("count", "best", "signs", "stream"):
                session.skip(name, "enough")
    assert [seen.given for seen in made.seen[-4:]] == ["enough"] * 4
    # A second run takes the tickets, too.
    first = Witness()
    session_of(PLAN, noise_source(first)).open().add("sum", np.array([1, 2]))
    session = session_of(PLAN, noise_source(first.again())).open()
    session.add("sum", np.array([1, 3]))
    with pytest.raises(DPStatsError, match="was released before"):
        session.add("sum", np.array([1, 3]))


def test_only_a_witness_is_told() -> None:
    rng = np.random.default_rng(0)
    assert type(session_of(PLAN, SimulatedNoise(rng))) is Session
    assert type(session_of(PLAN, ExactNoise())) is Session
    assert type(session_of(PLAN, noise_source(Witness()))) is WitnessedSession
    # Its noise is simulated: nothing can be charged for it, and every guarantee says so.
    with pytest.raises(InvalidParameter, match="simulated"):
        session_of(PLAN, noise_source(Witness()), PrivacyBudget(10.0))
    assert ClippedMean(clip=1.0, random_state=Witness()).fit(np.zeros((4, 1))).privacy_.simulated


def test_own_statistics_get_noise_of_their_scale() -> None:
    witness = Witness(seed=1)
    drawn = np.array([witness.laplace(0.0, sensitivity=1.0, scale=2.0) for _ in range(4000)])
    normal = witness.gaussian(np.zeros(4000), sensitivity=3.0)
    # E|Z| = 2 and sd = 3, to five standard errors of 2/sqrt(4000) and 3/sqrt(8000).
    assert abs(np.abs(drawn).mean() - 2.0) < 0.16 and abs(normal.std() - 3.0) < 0.17
    picks = [witness.select([0.0, 5.0, 1.0], sensitivity=1.0, scale=0.1) for _ in range(20)]
    assert set(picks) == {1} and isinstance(picks[0], int)
    assert witness.statistic([1.0, 2.0], sensitivity=1.0, norm="l2", name="both") is None
    assert [witness.seen[i].stage.name for i in (0, -1)] == ["laplace 1", "both"]
    kept = witness.seen[4000].outcome.copy()
    normal += 1
    assert np.array_equal(witness.seen[4000].outcome, kept)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda w: w.laplace(float("nan"), sensitivity=1.0), "value must be finite numbers"),
        (lambda w: w.laplace("many", sensitivity=1.0), "value must be finite numbers"),
        (lambda w: w.gaussian(1.0, sensitivity=-1.0), "sensitivity must be"),
        (lambda w: w.gaussian(1.0, sensitivity=1.0, scale=-1.0), "scale must be"),
        (lambda w: w.select(["a"], sensitivity=1.0), "scores must be finite numbers"),
        (lambda w: w.statistic(1.0, sensitivity=1.0, norm="l0"), "norm must be one of"),
    ],
)
def test_bad_input_is_one_clear_error(call: Any, message: str) -> None:
    witness = Witness()
    with pytest.raises(InvalidParameter, match=message):
        call(witness)
    assert witness.seen == [] and repr(witness) == "Witness()"
