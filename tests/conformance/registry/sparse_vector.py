"""The streams of the sparse vector technique."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dpstats.mechanisms import AboveThreshold, NumericSparseVector, SparseVector
from registry.entry import Dataset, Draw, Entry, PlantedBug

# A dataset is the vector of the questions' values. The bugs named LSL are published algorithms, by their
# numbers in Lyu, Su and Li (2017), "Understanding the sparse vector technique for differential privacy".


def _streams(build: Callable[[np.random.Generator], Any], score: Callable[[list[Any]], float]) -> Draw:
    """Return the batched core of a stream: its answers, summed up in a number."""

    def draw(values: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        made = build(rng)
        result = np.empty(size)
        for trial in range(size):
            made._restart()
            result[trial] = score(list(made.stream(values)))
        return result

    return draw


class KeepsThreshold(SparseVector):
    """Part of several bugs: the noisy threshold is drawn once, and there may be no last answer above."""

    endless = False

    @property
    def _state(self) -> tuple[int, int | None]:
        return self._left, self._kept

    @_state.setter
    def _state(self, state: tuple[int, int | None]) -> None:
        self._left = 10**9 if self.endless else state[0]
        # Kept after an answer above, which would forget it; a fresh stream has all its answers left.
        if state[1] is not None or state[0] == self._max_above:
            self._kept = state[1]


class ReleasesComparedNoise(SparseVector):
    """Planted bug, LSL algorithm 3: an answer above is the noisy value that was compared."""

    _question_factor = 2

    def _above(self, steps: int, drawn: int) -> float:
        return (steps + drawn) * self._spacing


class NumberOfAnswersForgotten(KeepsThreshold):
    """Planted bug, LSL algorithm 4: noise of scale 4/(3 epsilon) however many answers above; costs (1 + 6c)/4."""

    def __init__(self, epsilon: float, max_above: int, random_state: Any) -> None:
        # In sensitivities over each = epsilon/c.
        self._threshold_factor, self._question_factor = 4 / max_above, 4 / (3 * max_above)
        super().__init__(0, epsilon, max_above=max_above, random_state=random_state)


class QuestionsWithoutNoise(KeepsThreshold):
    """Planted bug, LSL algorithm 5: only the threshold is noisy, and the stream has no end."""

    endless = True

    def _draw_ahead(self) -> int:
        return 0


class NoEnd(KeepsThreshold):
    """Planted bug, LSL algorithm 6: noise for one answer above, and the stream has no end."""

    endless = True
    _question_factor = 2


class NoiseDrawnOnce(SparseVector):
    """Planted bug: all questions share one draw of noise."""

    def _draw_ahead(self) -> int:
        self._ahead = itertools.repeat(super()._draw_ahead())
        return next(self._ahead)

    def _restart(self) -> None:
        super()._restart()
        self._ahead, self._next_block = iter(()), 1


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
    return Entry(
        name=name,
        covers=type(made),
        proof="sparse-vector.md",
        stages=(),
        claim=made.guarantee,
        statistic=lambda data: [],
        pairs=lambda: iter(()),
        draw=_streams(build, score),
        dataset=pair[0],
        neighbor=pair[1],
        power=power,
        events=made.events,
        bugs=bugs,
        most_trials=200_000,
    )


def _two_parts(first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
    """Return values of questions that are 0 first and 1 then, and of the neighbour, the other way round."""
    values = np.r_[np.zeros(first), np.ones(last)]
    return values, 1 - values


def _low_then_high(low: int, high: float, times: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return values of ``low`` questions at 0 and one at ``high``, several times, and of the neighbour: 1 nearer."""
    values = np.tile(np.r_[np.zeros(low), high], times)
    return values, values + np.where(values == high, -1.0, 1.0)


def _halved(build: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def halved(rng: Any) -> Any:
        made = build(rng)
        made._threshold_scale /= 2
        made._question_scale /= 2
        return made

    return halved


def entries() -> Iterator[Entry]:
    def above(rng: Any) -> AboveThreshold:
        return AboveThreshold(0.5, 3.0, random_state=rng)

    def shared(rng: Any) -> NoiseDrawnOnce:
        return NoiseDrawnOnce(0, 1.0, max_above=1, random_state=rng)

    pair = _low_then_high(5, 1.0)
    score = _is_pattern(pair[0])
    yield _stream_entry(
        "above threshold",
        above,
        score,
        pair,
        0.5,
        (
            PlantedBug("half the noise", _streams(_halved(above), score), *pair, 3.0, 0.0),
            PlantedBug(
                "one noise for all questions",
                _streams(shared, _last_less_first(1)),
                *_two_parts(1, 1),
                1.0,
                0.0,
            ),
        ),
    )

    def sparse(rng: Any) -> SparseVector:
        return SparseVector(1, 3.0, max_above=2, random_state=rng)

    def lsl3(rng: Any) -> ReleasesComparedNoise:
        return ReleasesComparedNoise(0, 2.0, max_above=1, random_state=rng)

    def lsl4(rng: Any) -> NumberOfAnswersForgotten:
        return NumberOfAnswersForgotten(1.0, 5, rng)

    def lsl5(rng: Any) -> QuestionsWithoutNoise:
        return QuestionsWithoutNoise(0, 1.0, max_above=1, random_state=rng)

    def lsl6(rng: Any) -> NoEnd:
        return NoEnd(0, 1.0, max_above=1, random_state=rng)

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
            PlantedBug("a quarter of the noise", _streams(_halved(_halved(sparse)), score), *pair, 3.0, 0.0),
            PlantedBug(
                "LSL algorithm 3: the compared noise is released",
                _streams(lsl3, _small_value(7)),
                *_two_parts(6, 1),
                2.0,
                0.0,
                trials=100_000,
            ),
            PlantedBug(
                "LSL algorithm 4: c answers for the noise of one",
                _streams(lsl4, five),
                *_two_parts(5, 5),
                1.0,
                0.0,
            ),
            PlantedBug(
                "LSL algorithm 5: questions without noise",
                _streams(lsl5, _last_less_first(1)),
                *_two_parts(1, 1),
                1.0,
                0.0,
            ),
            PlantedBug("LSL algorithm 6: no last answer", _streams(lsl6, five), *_two_parts(5, 5), 1.0, 0.0),
        ),
    )

    def approximate(rng: Any) -> SparseVector:
        return SparseVector(1, 8.0, max_above=3, delta=1e-3, random_state=rng)

    def stricter(rng: Any) -> SparseVector:
        return SparseVector(1, 3.0, max_above=3, delta=1e-3, random_state=rng)

    pair = _low_then_high(2, 2.0, times=3)
    score = _is_pattern(pair[0] > 0)
    eighth = _halved(_halved(_halved(stricter)))
    yield _stream_entry(
        "sparse vector, delta > 0",
        approximate,
        score,
        pair,
        0.1,
        (PlantedBug("an eighth of the noise", _streams(eighth, score), *pair, 3.0, 1e-3),),
    )
    for delta in (0.0, 1e-2):

        def numeric(rng: Any, delta: float = delta) -> NumericSparseVector:
            return NumericSparseVector(1, 6.0, max_above=2, delta=delta, random_state=rng)

        def little(rng: Any, numeric: Any = numeric) -> NumericSparseVector:
            made = numeric(rng)
            made._answer_scale /= 100
            return made

        pair = _low_then_high(3, 2.0, times=2)
        score = _is_pattern(pair[0] > 0)
        high = np.full(2, 60.0)
        yield _stream_entry(
            f"numeric sparse vector, {'delta > 0' if delta else 'pure'}",
            numeric,
            score,
            pair,
            0.2,
            (PlantedBug("values almost for free", _streams(little, _total), high, high + 1, 6.0, delta),),
        )
