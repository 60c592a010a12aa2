"""The streams of the sparse vector technique."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dpstats.mechanisms import AboveThreshold, NumericSparseVector, SparseVector
from dpstats.privacy import Plan
from dpstats.release.noise import SimulatedNoise
from dpstats.release.streams import Stream
from registry.entry import Dataset, Draw, Entry, PlantedBug, Traits, having

# A dataset is the vector of the questions' values. The bugs named LSL are published algorithms, by their
# numbers in Lyu, Su and Li (2017), "Understanding the sparse vector technique for differential privacy".


class InBlocks(SimulatedNoise):
    """Simulated noise that is drawn in large blocks: a stream asks for a few numbers at a time."""

    _BLOCK = 1 << 16

    def __init__(self, generator: np.random.Generator) -> None:
        super().__init__(generator)
        self._blocks: dict[float, tuple[np.ndarray, int]] = {}

    def laplace(self, scale: float, size: Any) -> np.ndarray:
        block, start = self._blocks.get(scale, (None, 0))
        count = size if isinstance(size, int) else math.prod(size)
        if block is None or start + count > self._BLOCK:
            block, start = super().laplace(scale, self._BLOCK), 0
        self._blocks[scale] = block, start + count
        drawn = block[start : start + count]
        return drawn if isinstance(size, int) else drawn.reshape(size)


def _streams(
    build: Callable[..., Any], score: Callable[[list[Any]], float], *, kind: type[Stream] = Stream, **stage: Any
) -> Draw:
    """Return the batched core of a stream: its answers, summed up in a number.

    For planted bugs, streams of another ``kind``, and other fields of the stage.
    """

    def draw(values: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        made = build(rng)
        made._source = InBlocks(rng)
        wrong = replace(made.plan.stages[0], **{name: new(made) for name, new in stage.items()})
        made._stage, made._plan = wrong, replace(made.plan, stages=(wrong,))
        result = np.empty(size)
        for trial in range(size):
            # Every stream is a release of its own.
            made._stream = kind(wrong, made._source) if kind is not Stream else None
            result[trial] = score(list(made.stream(values)))
        return result

    return draw


def _times(factor: float) -> dict[str, Callable[[Any], float]]:
    """Return the noise of the comparisons, multiplied."""
    return {
        "threshold_scale_steps": lambda made: factor * made._stage.threshold_scale_steps,
        "question_scale_steps": lambda made: factor * made._stage.question_scale_steps,
    }


class KeepsThreshold(Stream):
    """Part of several bugs: the noisy threshold is drawn once, and there may be no last answer above."""

    endless = False

    @property
    def _state(self) -> tuple[int, int | None]:
        return self._left, self._kept

    @_state.setter
    def _state(self, state: tuple[int, int | None]) -> None:
        self._left = 10**9 if self.endless else state[0]
        # Kept after an answer above, which would forget it; a fresh stream has all its answers left.
        if state[1] is not None or state[0] == self._stage.max_above:
            self._kept = state[1]


class ReleasesComparedNoise(Stream):
    """Planted bug, LSL algorithm 3: an answer above is the noisy value that was compared."""

    def _draw_ahead(self) -> int:
        self._ahead = iter(())
        self._drawn = int(self._noise.laplace(self._stage.question_scale_steps, 1)[0])
        return self._drawn

    def _answer(self, steps: int) -> int:
        return steps + self._drawn


class QuestionsWithoutNoise(KeepsThreshold):
    """Planted bug, LSL algorithm 5: only the threshold is noisy, and the stream has no end."""

    endless = True

    def _draw_ahead(self) -> int:
        return 0


class NoEnd(KeepsThreshold):
    """Planted bug, LSL algorithm 6: noise for one answer above, and the stream has no end."""

    endless = True


class NoiseDrawnOnce(Stream):
    """Planted bug: all questions share one draw of noise."""

    def _draw_ahead(self) -> int:
        self._ahead = itertools.repeat(super()._draw_ahead())
        return next(self._ahead)


class _ShowsAnswers(SparseVector):
    """Part of a bug: an answer above is the number that the stream gives, in units."""

    def _above(self, answer: Any) -> float:
        return float(answer.steps * self._stage.spacing)


def _last_less_first(first: int) -> Callable[[list[Any]], float]:
    """Return a score: how many answers are above after the first few, less how many of those."""
    return lambda answers: float(sum(answers[first:]) - sum(answers[:first]))


def _small_value(length: int) -> Callable[[list[Any]], float]:
    """Return a score: the released value if it is the answer to the last question, else something large."""

    def score(answers: list[Any]) -> float:
        return answers[-1] if len(answers) == length and answers[-1] else 1e3

    return score


def _is_pattern(pattern: np.ndarray) -> Callable[[list[Any]], float]:
    """Return a score: whether exactly these questions are above."""
    expected = pattern.astype(bool).tolist()
    return lambda answers: float([bool(answer) for answer in answers] == expected)


def _right_less_wrong(right: np.ndarray) -> Callable[[list[Any]], float]:
    """Return a score: how many answers are above where they should be, less how many elsewhere."""
    signs = np.where(right, 1.0, -1.0)
    return lambda answers: float(signs[: len(answers)] @ np.array(answers, dtype=float))


def _total(answers: list[Any]) -> float:
    """Return the sum of the values released."""
    return float(sum(answer for answer in answers if answer is not None))


def _stream_entry(
    name: str,
    build: Callable[[np.random.Generator | None], Any],
    score: Callable[[list[Any]], float],
    pair: tuple[Dataset, Dataset],
    power: float,
    bugs: tuple[PlantedBug, ...],
) -> Entry:
    made = build(None)

    def public(values: Dataset, budget: Any) -> tuple[Plan, np.ndarray]:
        stream = build(None, budget)
        return stream.plan, np.array([-1e9 if a is None else float(a) for a in stream.stream(values)])

    return Entry(
        name=name,
        covers=type(made),
        proof="sparse-vector.md",
        plan=made.plan,
        integers=lambda data: [],
        pairs=lambda: iter(()),
        draw=_streams(build, score),
        dataset=pair[0],
        neighbor=pair[1],
        power=power,
        public=public,
        bugs=bugs,
        most_trials=200_000,
    )


def _two_parts(first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
    """Return values of questions that are 0 first and 1 then, and of the neighbor, the other way round."""
    values = np.r_[np.zeros(first), np.ones(last)]
    return values, 1 - values


def _low_then_high(low: int, high: float, times: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return values of ``low`` questions at 0 and one at ``high``, several times, and of the neighbor: 1 nearer."""
    values = np.tile(np.r_[np.zeros(low), high], times)
    return values, values + np.where(values == high, -1.0, 1.0)


@having({NumericSparseVector: Traits(excused={"exact audit": "it draws as SparseVector does"})})
def entries() -> Iterator[Entry]:
    def above(rng: Any, budget: Any = None) -> AboveThreshold:
        return AboveThreshold(0.5, 3.0, random_state=rng, budget=budget)

    def one(rng: Any) -> SparseVector:
        return SparseVector(0, 1.0, max_above=1, random_state=rng)

    pair = _low_then_high(5, 1.0)
    score = _is_pattern(pair[0])
    yield _stream_entry(
        "above threshold",
        above,
        score,
        pair,
        0.5,
        (
            PlantedBug("half the noise", _streams(above, score, **_times(0.5)), *pair, 3.0, 0.0),
            PlantedBug(
                "one noise for all questions",
                _streams(one, _last_less_first(1), kind=NoiseDrawnOnce),
                *_two_parts(1, 1),
                1.0,
                0.0,
            ),
        ),
    )

    def sparse(rng: Any, budget: Any = None) -> SparseVector:
        return SparseVector(1, 3.0, max_above=2, random_state=rng, budget=budget)

    def lsl3(rng: Any) -> SparseVector:
        return _ShowsAnswers(0, 2.0, max_above=1, random_state=rng)

    def five_above(rng: Any) -> SparseVector:
        return SparseVector(0, 1.0, max_above=5, random_state=rng)

    # Questions with half of the noise; and LSL 4's noise of 4/(3 epsilon) for threshold and questions, whatever c.
    less = {"question_scale_steps": lambda made: made._stage.question_scale_steps / 2}
    forgotten = {
        "threshold_scale_steps": lambda made: 4 * made._stage.threshold_scale_steps / (2 * 5),
        "question_scale_steps": lambda made: 4 * made._stage.question_scale_steps / (3 * 4 * 5),
    }

    pair = _low_then_high(3, 2.0, times=2)
    score = _is_pattern(pair[0] > 0)
    five = _last_less_first(5)
    yield _stream_entry(
        "sparse vector, pure",
        sparse,
        score,
        pair,
        0.2,
        (
            PlantedBug("a quarter of the noise", _streams(sparse, score, **_times(0.25)), *pair, 3.0, 0.0),
            PlantedBug(
                "LSL algorithm 3: the compared noise is released",
                _streams(lsl3, _small_value(7), kind=ReleasesComparedNoise, **less),
                *_two_parts(6, 1),
                2.0,
                0.0,
                trials=100_000,
            ),
            PlantedBug(
                "LSL algorithm 4: c answers for the noise of one",
                _streams(five_above, five, kind=KeepsThreshold, **forgotten),
                *_two_parts(5, 5),
                1.0,
                0.0,
            ),
            PlantedBug(
                "LSL algorithm 5: questions without noise",
                _streams(one, _last_less_first(1), kind=QuestionsWithoutNoise),
                *_two_parts(1, 1),
                1.0,
                0.0,
            ),
            PlantedBug(
                "LSL algorithm 6: no last answer", _streams(one, five, kind=NoEnd, **less), *_two_parts(5, 5), 1.0, 0.0
            ),
        ),
    )

    def approximate(rng: Any, budget: Any = None) -> SparseVector:
        return SparseVector(1, 8.0, max_above=3, delta=1e-3, random_state=rng, budget=budget)

    def stricter(rng: Any, budget: Any = None) -> SparseVector:
        return SparseVector(1, 3.0, max_above=3, delta=1e-3, random_state=rng, budget=budget)

    pair = _low_then_high(2, 2.0, times=3)
    score = _is_pattern(pair[0] > 0)
    yield _stream_entry(
        "sparse vector, delta > 0",
        approximate,
        score,
        pair,
        0.1,
        (PlantedBug("an eighth of the noise", _streams(stricter, score, **_times(0.125)), *pair, 3.0, 1e-3),),
    )
    for delta in (0.0, 1e-2):

        def numeric(rng: Any, budget: Any = None, delta: float = delta) -> NumericSparseVector:
            return NumericSparseVector(1, 6.0, max_above=2, delta=delta, random_state=rng, budget=budget)

        little = {"answer_scale_steps": lambda made: made._stage.answer_scale_steps / 100}
        pair = _low_then_high(3, 2.0, times=2)
        score = _is_pattern(pair[0] > 0)
        high = np.full(2, 60.0)
        yield _stream_entry(
            f"numeric sparse vector, {'delta > 0' if delta else 'pure'}",
            numeric,
            score,
            pair,
            0.2,
            (PlantedBug("values almost for free", _streams(numeric, _total, **little), high, high + 1, 6.0, delta),),
        )
