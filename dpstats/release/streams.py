"""Streams of a session: answers that are given one after another, after one charge for all of them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import DPStatsError, Exhausted
from dpstats.privacy.stages import Comparisons, Stage
from dpstats.release.noise import Noise


def check_process(process: int) -> None:
    """Refuse to draw in a process that did not make the stream."""
    if os.getpid() != process:
        raise DPStatsError("a stream belongs to the process that made it: two copies would cost twice")


# Streams of comparisons with a noisy threshold: new noise for every question, and a limit.
# Proof: docs/proofs/sparse-vector.md.


_AHEAD = 4096  # noise drawn ahead of the questions, which costs a draw's setup once


class Above(NamedTuple):
    """An answer above the threshold; ``steps`` is the value with noise of its own, where values are released."""

    steps: int | None


class Stream:
    """The answers of a `Comparisons` stage, one question at a time.

    Its state consists of the remaining answers above and the noisy threshold, and one assignment changes
    both. So an interrupted question never reuses a threshold that was passed, if the stage draws a new one.
    """

    def __init__(self, stage: Comparisons, noise: Noise) -> None:
        self._stage = stage
        self._noise = noise
        self._state: tuple[int, int | None] = (stage.max_above, None)
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._ahead: Iterator[int] = iter(())
        self._next_block = 1

    @property
    def left(self) -> int:
        """How many answers above there can still be."""
        return self._state[0]

    def ask(self, steps: int, answer: int | None = None) -> Above | None:
        """Compare a value, in steps, with the noisy threshold: an `Above`, or None for below.

        ``answer`` is the value to release if it is above, if that is another number of the same sensitivity.
        """
        # Before the lock, which another thread of the parent may have held at the fork.
        check_process(self._process)
        with self._lock:
            left, threshold = self._state
            if left == 0:
                raise Exhausted(
                    "the stream has given its last answer above the threshold: a new fit costs a new guarantee"
                )
            if threshold is None:
                noise = self._noise.laplace(self._stage.threshold_scale_steps, 1)
                threshold = self._stage.threshold_steps + int(noise[0])
                self._state = (left, threshold)
            drawn = next(self._ahead, None)
            if drawn is None:
                drawn = self._draw_ahead()
            if steps + drawn < threshold:
                return None
            self._state = (left - 1, None if self._stage.redrawn else threshold)
            return Above(self._answer(steps if answer is None else answer))

    def _answer(self, steps: int) -> int | None:
        """Return the value with separate noise, because the noise of the comparison must not be used again."""
        scale = self._stage.answer_scale_steps
        if scale is None:
            return None
        # The method has the name of the distribution.
        return steps + int(getattr(self._noise, self._stage.answer_noise)(scale, 1)[0])

    def _draw_ahead(self) -> int:
        # Few at first, so that a short stream of exact noise is not slow.
        block = self._noise.laplace(self._stage.question_scale_steps, self._next_block)
        self._next_block = min(8 * self._next_block, _AHEAD)
        self._ahead = iter(block.tolist())
        return next(self._ahead)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Stream cannot be copied or pickled: two copies would cost twice")


# Streams of numbers with additive noise. Proof: docs/proofs/continual-counts.md.


class NumberStream:
    """The numbers of a `Stage` with Gaussian noise, released in order, a few at a time.

    Its caller stores every answer before it gives it away, and says by `set_released` how many were. A number that
    was drawn and not stored was not released, and is drawn again.
    """

    def __init__(self, stage: Stage, noise: Noise) -> None:
        self._stage, self._noise = stage, noise
        self._process = os.getpid()
        self._released = 0
        self._ahead: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._next_block = 8

    @property
    def left(self) -> int:
        """How many numbers there can still be."""
        return self._stage.size - self._released

    def set_released(self, released: int) -> None:
        """Set how many numbers were released, which the stored state of the stream says."""
        self._released = released

    def add(self, steps: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the next numbers with noise, in steps."""
        check_process(self._process)
        if steps.size > self.left:
            raise Exhausted(f"the stream has {self.left} more numbers: a new one costs a new guarantee")
        self._released += steps.size
        return steps + self._draw(steps.size)

    def _draw(self, count: int) -> NDArray[np.int64]:
        # Noise is drawn ahead, because a draw has a setup; few numbers at first, so that a short stream is not slow.
        if self._ahead.size < count:
            more = max(count - self._ahead.size, self._next_block)
            self._next_block = min(8 * self._next_block, _AHEAD)
            drawn = self._noise.gaussian(self._stage.scale_steps, more)
            self._ahead = np.concatenate([self._ahead, drawn])
        found, self._ahead = self._ahead[:count], self._ahead[count:]
        return found

    def __reduce__(self) -> NoReturn:
        raise TypeError("a NumberStream cannot be copied or pickled: two copies would cost twice")
