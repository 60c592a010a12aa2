"""Streams of comparisons: taken once from a session, with the noise of their stage."""

import dataclasses
import os

import pytest

from dpstats.errors import DPStatsError, Exhausted
from dpstats.release.session import Session
from tests.release.test_session import STREAM, Silent, plan


def test_a_stream_is_taken_once_and_has_the_noise_of_its_stage():
    silent = Silent()
    stream = Session(plan(STREAM), silent).open().stream("stream")
    assert [stream.ask(steps) for steps in (-1, -5)] == [None, None]
    assert stream.ask(3).steps is None and stream.left == 1
    # The threshold once, questions ahead, and the threshold anew after an answer above.
    assert stream.ask(-1) is None
    scales = [scale for _, scale, _ in silent.asked]
    assert scales.count(200.0) == 2 and set(scales) == {200.0, 400.0}


def test_values_of_a_stream_have_noise_of_their_own():
    silent = Silent()
    stage = dataclasses.replace(STREAM, answer_scale_steps=77.0)
    stream = Session(plan(stage), silent).open().stream("stream")
    assert stream.ask(12).steps == 12
    assert silent.asked[-1] == ("laplace", 77.0, 1)


def test_a_stream_gives_no_more_answers_above_than_it_was_charged_for():
    stream = Session(plan(STREAM), Silent()).open().stream("stream")
    for left in range(STREAM.max_above, 0, -1):
        assert stream.left == left
        stream.ask(10**6)
    assert stream.left == 0
    for steps in (10**6, -(10**6)):
        with pytest.raises(Exhausted, match="last answer above"):
            stream.ask(steps)


def test_a_stream_answers_in_its_own_process_only(monkeypatch):
    stream = Session(plan(STREAM), Silent()).open().stream("stream")
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(DPStatsError, match="a stream belongs to the process that made it"):
        stream.ask(0)
