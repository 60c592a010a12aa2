"""Counts that go on: the total after every step of a stream, from one charge for all steps.

Proof: docs/proofs/continual-counts.md.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from dpstats.data.opening import Tally, open_source
from dpstats.data.parameters import check_integer, check_privacy_parameters
from dpstats.data.schema import Categories, Schema
from dpstats.data.values import as_int64, is_masked, quiet
from dpstats.errors import DPStatsError, Exhausted, LedgerError, attempt, refuse, refuse_data, state_charges
from dpstats.mechanisms.count_path import (
    BITS,
    CountPath,
    estimate_weights,
    factor_steps,
    path_weights,
    sensitivity_steps,
)
from dpstats.privacy.budget import PrivacyBudget, describe_request, refuse_key
from dpstats.privacy.guarantee import PrivacyGuarantee, parse_neighbors
from dpstats.privacy.kept_answers import is_key, plan_fingerprint
from dpstats.privacy.plan import Plan
from dpstats.release.additive import Integers, additive_stages
from dpstats.release.mechanism import Mechanism
from dpstats.release.streams import NumberStream, Step, StreamState

Floats = NDArray[np.float64]

_MOST_STEPS = 2**16


class StepEstimate(NamedTuple):
    """The estimated total after a step, and the standard deviation of its noise.

    The estimate is a number, or an array of one number for each category.

    Examples
    --------
    >>> from dpstats.mechanisms import ContinualCounts
    >>> step = ContinualCounts(horizon=7, random_state=0).update(50)
    >>> round(step.estimate), round(step.noise_std, 1)
    (51, 5.5)
    """

    estimate: Any
    noise_std: float


class ContinualStream(Mechanism):
    """Base of the streams: the factor times the private integers of all steps, with noise, from one charge.

    A subclass defines the integers of a step and the estimates from their totals.
    """

    _bits = BITS
    """The factor has entries on 2^-bits."""
    _value_bits = 0
    """A row contributes integers of at most 2^value_bits."""
    _most_rows = 2**31
    """Rows of all steps together: with both bits, integers stay below 2^61."""
    _stage, _given_name = "counts", "count"

    def __init__(
        self,
        horizon: Any,
        epsilon: Any,
        delta: Any,
        state: Any,
        neighbors: Any,
        random_state: Any,
        budget: PrivacyBudget | None,
    ) -> None:
        self._horizon = check_integer("horizon", horizon, at_least=1, at_most=_MOST_STEPS)
        epsilon, delta = check_privacy_parameters(epsilon, delta)
        if delta == 0:
            remedy = "The noise is Gaussian: give delta=1e-6 for example."
            raise refuse("delta", got="0", allowed="positive for a stream", remedy=remedy)
        super().__init__(PrivacyGuarantee(epsilon, delta, parse_neighbors(neighbors)), random_state, budget)
        refuse_key(self._budget)
        self._unit = 2.0 ** -(self._bits + self._value_bits)
        moved, numbers = self._sensitivity(), self._horizon * self._counters
        item = Integers(self._stage, numbers, self._unit, moved, moved)
        noise = additive_stages([item], epsilon, delta, neighbors=self._guarantee.neighbors)
        self._plan = self._planned(*noise)
        self._process = os.getpid()
        self._numbers: NumberStream | None = None
        facts = {"plan": plan_fingerprint(self._plan), "simulated": str(self._guarantee.simulated)}
        request = describe_request(self, neighbors=self._guarantee.neighbors) | facts
        request.pop("state", None)
        self._state = StreamState(state, request)
        self._places: dict[str, int] = {}
        self._given = np.zeros((self._horizon, self._counters), dtype=np.int64)
        self._released = np.zeros((self._horizon, self._counters))
        self._totals = np.zeros((self._horizon, self._counters))
        # Reversed, so that the steps so far have a contiguous part of each.
        self._factor = factor_steps(self._horizon, self._bits)[::-1].copy()
        self._weights = estimate_weights(self._horizon, self._bits)[::-1].copy()
        self._deviations = self.noise_std()
        self._known = self._rows = 0
        self._learn()

    @property
    @abstractmethod
    def _counters(self) -> int:
        """Number of released numbers of a step."""

    @abstractmethod
    def _sensitivity(self) -> int:
        """Return the largest l2 distance of the released integers between neighbors, rounded up."""

    def _count_rows(self, given: Any) -> int:
        """Return the number of rows of a step."""
        return int(sum(given))

    @property
    def horizon(self) -> int:
        """Largest number of steps."""
        return self._horizon

    @property
    def plan(self) -> Plan:
        """Noise and cost of the whole stream."""
        return self._plan

    @property
    def noise_scale(self) -> float:
        """Standard deviation of the noise of a released number, in rows."""
        return float(np.asarray(self._plan.additive[0].noise_scale))

    @property
    def n_steps(self) -> int:
        """Number of steps so far, of this process and of others with the same state."""
        return len(self._state.steps)

    def noise_std(self, window: int | None = None) -> Floats:
        """Return the standard deviation of the noise of every total of a whole stream, before any data are given.

        Parameters
        ----------
        window : int, optional
            Number of steps of a window: the noise of the count of the last ``window`` steps. Default: totals.
        """
        if window is not None:
            check_integer("window", window, at_least=1, at_most=self._horizon)
        return self.noise_scale * np.sqrt(np.cumsum(path_weights(self._horizon, window, self._bits) ** 2))

    @state_charges
    def _answer(self, counts: list[NDArray[np.int64]], keys: list[Any]) -> list[Any]:
        # Before any lock, which another thread of the parent may have held at the fork.
        if os.getpid() != self._process:
            raise DPStatsError(
                "a stream must be used by the process that made it, got a forked one. Make it again from its state."
            )
        for key in keys:
            if key is not None and not is_key(key):
                raise refuse("key", given=key, allowed="None or text of 1 to 200 printable characters")
        if len(set(keys)) + max(keys.count(None) - 1, 0) < len(keys):
            raise refuse("keys", allowed="different names for different steps")
        with self._state.lock:
            # What can be refused is refused before the charge, and again if another process has added steps.
            self._read()
            self._find_new(counts, keys)
            self._open()
            with self._state.adding() as new:
                self._learn()
                fresh = self._find_new(counts, keys)
                first = self._known
                if fresh:
                    new += self._released_steps(fresh)
            try:
                self._read()
            except LedgerError as error:
                words = " The step is stored without an answer: do not add it again without its key."
                raise LedgerError(f"{error}{words if fresh else ''}") from None
            # The steps are stored now, and the budget knows them. Only now an answer may be given.
            return self._estimate(self._find_places(keys, first))

    def _find_places(self, keys: list[Any], first: int) -> list[int]:
        """Return the places of steps: of known keys as they were, and of the others from ``first`` on."""
        places = []
        for key in keys:
            places.append(first if key is None else self._places[key])
            first += places[-1] >= first
        return places

    @abstractmethod
    def _estimate(self, places: Sequence[int]) -> list[Any]:
        """Return the answers of steps."""

    def _read_path(self) -> tuple[tuple[Any, ...], Floats]:
        """Return the keys of all steps so far, and their totals."""
        with self._state.lock:
            self._read()
        if self._known == 0:
            raise DPStatsError("path() must follow a step, got none. Call update() first.")
        keys = tuple(step.key or place + 1 for place, step in enumerate(self._state.steps))
        return keys, self._totals[: self._known].copy()

    def _read(self) -> None:
        """Learn the steps that are stored, and refuse a copy of the file."""
        budget = self._stored_budget
        if budget is None:
            self._state.read()
        else:
            self._state.agree(budget)
        self._learn()

    @property
    def _stored_budget(self) -> PrivacyBudget | None:
        """The budget of a stream with a file. Its key is the name of the stream."""
        if self._budget is None or self._state.path is None:
            return None
        return self._budget.once(f"stream {self._state.identity[:16]}")

    def _find_new(self, counts: list[NDArray[np.int64]], keys: list[Any]) -> list[tuple[NDArray[np.int64], Any]]:
        """Return the steps whose keys are not known, or refuse them."""
        fresh = [(count, key) for count, key in zip(counts, keys, strict=True) if key not in self._places]
        left = self._horizon - self._known
        if len(fresh) > left:
            raise Exhausted(
                f"the horizon of {self._horizon:,} steps has {left:,} left: a new stream costs a new guarantee"
            )
        if self._rows + sum(self._count_rows(count) for count, _ in fresh) > self._most_rows:
            power = self._most_rows.bit_length() - 1
            raise refuse_data(self._given_name, allowed=f"at most 2^{power} rows in all steps together")
        return fresh

    def _released_steps(self, fresh: list[tuple[NDArray[np.int64], Any]]) -> list[Step]:
        """Return the next steps: the factor times the counts, in exact integers, with noise."""
        first, last = self._known, self._known + len(fresh)
        self._given[first:last] = [count for count, _ in fresh]
        exact = self._exact(first, last)
        assert self._numbers is not None
        self._numbers.set_released(first * self._counters)
        noisy: Any = self._numbers.add(exact.ravel()).reshape(exact.shape).tolist()
        return [Step(key, tuple(count.tolist()), tuple(row)) for (count, key), row in zip(fresh, noisy, strict=True)]

    def _exact(self, first: int, last: int) -> NDArray[np.int64]:
        """Return the factor times the counts for some steps, below 2^61: see ``_most_rows``."""
        rows = range(first + 1, last + 1)
        return np.array([self._factor[self._horizon - t :] @ self._given[:t] for t in rows], dtype=np.int64)

    def _learn(self) -> None:
        """Compute the totals of the steps that the state has and this object has not."""
        for place in range(self._known, len(self._state.steps)):
            step = self._state.steps[place]
            self._given[place] = step.given
            self._released[place] = np.array(step.released, dtype=np.float64) * self._unit
            self._totals[place] = self._weights[self._horizon - place - 1 :] @ self._released[: place + 1]
            if step.key is not None:
                self._places[step.key] = place
            self._known, self._rows = place + 1, self._rows + self._count_rows(step.given)

    def _open(self) -> None:
        """Charge the budget for the whole stream, once, and open the stream of its numbers."""
        if self._numbers is not None:
            return
        session = self._session_of_stream(self._plan, self._stored_budget)
        if self._state.charged:
            session.resume()
        else:
            session.check()
            session.open()
            self._state.mark_charged()
        self._numbers = session.numbers(self._stage)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} cannot be copied or pickled: two copies would cost twice. Give it a state."
        )


def name_steps(name: str, given: Any, keys: Any) -> tuple[list[Any], list[Any]]:
    """Return several steps, and a key or None for each."""
    steps = attempt(lambda: list(given), TypeError)
    if steps is None:
        raise refuse_data(name, allowed="a sequence with an entry for each step")
    named = [None] * len(steps) if keys is None else attempt(lambda: list(keys), TypeError)
    if named is None or len(named) != len(steps):
        got = "no sequence" if named is None else f"{len(named)} keys"
        raise refuse("keys", got=got, allowed=f"one for each of the {len(steps)} steps")
    return steps, named


class ContinualCounts(ContinualStream):
    """Release the total number of rows after every step of a stream, such as every day, from one charge.

    Each row counts at one step. The noise of the steps is correlated, so the error of a total grows with the logarithm
    of the number of steps. At 1,024 steps it is 3.3 times the noise of a single count. A binary tree needs 10.5 times
    that noise, and a new count for every step 32 times. Use `Histogram` for counts that are released once.

    Parameters
    ----------
    horizon : int, default=512
        Public largest number of steps, at most 65,536. The charge is for all of them.
    epsilon : float, default=1.0
        Privacy parameter of the whole stream. Must be positive.
    delta : float, default=1e-6
        Privacy parameter of the whole stream, in (0, 1): the noise is Gaussian.
    categories : sequence, optional
        Public and distinct categories, counted side by side. A row is in at most one. Default: a single counter.
    state : str or path, optional
        File that keeps the stream. With it, another process continues where this one ended, however it ended. It holds
        the counts before noise, so keep it as you keep the data. A budget refuses a copy or an older file of a stream
        that it knows. Without the same budget, a copy would release its steps again at no charge. Default: memory.
    neighbors : {"add_or_remove", "replace_one"} or Neighbors, default="add_or_remove"
        Neighboring streams: a row is added or removed, or is replaced by one that counts anywhere, or nowhere.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Charged once, for the whole stream, at the first step and before noise is drawn.

    Attributes
    ----------
    plan : Plan
        Noise and cost of the whole stream.
    noise_scale : float
        Standard deviation of the noise of a released number, in rows. The total of the first step has this noise.
    n_steps : int
        Number of steps so far.
    guarantee : PrivacyGuarantee
        Guarantee of the whole stream.

    Notes
    -----
    **Method.** The matrix of ones below the diagonal is the square of a Toeplitz matrix R (Fichtenberger, Henzinger and
    Upadhyay 2023). R times the counts is released, in exact integers with discrete Gaussian noise. Totals, windows and
    bands are post-processing.

    **Limits.** The guarantee is for one row, at one step. Count each person once, or use group privacy. The number
    of steps is fixed in advance.

    Examples
    --------
    >>> from dpstats.mechanisms import ContinualCounts
    >>> counts = ContinualCounts(horizon=365, epsilon=1.0, delta=1e-6, random_state=0)
    >>> total, noise = counts.update(120)
    >>> round(total), round(noise, 1)
    (121, 7.2)
    >>> total, noise = counts.update(90)
    >>> round(total), round(noise, 1)
    (209, 8.1)
    """

    def __init__(
        self,
        horizon: int = 512,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        categories: Sequence[Any] | None = None,
        state: Any = None,
        neighbors: Any = "add_or_remove",
        random_state: Any = None,
        budget: PrivacyBudget | None = None,
    ) -> None:
        self._categories = None if categories is None else Categories(categories)
        super().__init__(horizon, epsilon, delta, state, neighbors, random_state, budget)

    @property
    def _counters(self) -> int:
        return 1 if self._categories is None else len(self._categories)

    @property
    def categories(self) -> tuple[Any, ...]:
        """The declared categories, in order; none for a single counter."""
        return () if self._categories is None else self._categories.values

    def update(self, count: Any, key: str | None = None) -> StepEstimate:
        """Add the rows of the next step, and return the total up to it.

        Parameters
        ----------
        count : int, or sequence of int of shape (n_categories,)
            Private number of rows of this step; of each category.
        key : str, optional
            Public name of the step, such as its date. A step with a known key is not counted again: its answer is
            returned as it was.

        Returns
        -------
        StepEstimate
            The total and the standard deviation of its noise.

        Raises
        ------
        Exhausted
            If all steps of the horizon were released.
        InvalidData
            If the count is not a whole number. Nothing is charged or drawn.
        BudgetExceeded
            If the budget cannot pay for the stream.
        LedgerError
            If the state cannot be written. No answer is given then, and the step can be repeated.
        """
        answer: StepEstimate = self._answer([self._check_count(count)], [key])[0]
        return answer

    def update_many(self, counts: Any, keys: Sequence[str] | None = None) -> list[StepEstimate]:
        """Add several steps in order, stored together: faster than `update` for each.

        Parameters
        ----------
        counts : sequence of shape (n,) or (n, n_categories)
        keys : sequence of str, optional
            A name for each step.
        """
        rows, named = name_steps("counts", counts, keys)
        return self._answer([self._check_count(row) for row in rows], named)

    def update_rows(self, rows: Any, key: str | None = None) -> StepEstimate:
        """Count the rows of the next step, and return the total up to it.

        Parameters
        ----------
        rows : sequence or data frame
            Without categories, every row counts. With categories, the category of each row, as `Histogram` takes it; a
            row in none is left out.
        key : str, optional
            Public name of the step, with the effect that it has in `update`.
        """
        if self._categories is None:
            length = attempt(lambda: len(rows), TypeError)
            if length is None:
                raise refuse_data("rows", allowed="a sequence or a data frame, which has a length")
            return self.update(length, key)
        source = open_source(rows)
        schema, given = source.resolve(Schema(levels=(self._categories,), plain=True, private_size=True), None)
        counts = Tally((self._counters,)).of(source.read(schema, given))
        return self.update(counts[:-1], key)

    def path(self) -> CountPath:
        """Return the totals after all steps so far, with the joint distribution of their errors."""
        keys, totals = self._read_path()
        return CountPath(
            keys,
            self.noise_scale,
            self._horizon,
            self._guarantee,
            totals if self._categories is not None else totals[:, 0],
            self._deviations[: len(keys)],
            self.categories,
        )

    def _estimate(self, places: Sequence[int]) -> list[StepEstimate]:
        totals = self._totals[list(places)]
        return [
            StepEstimate(float(total[0]) if self._categories is None else total, float(self._deviations[place]))
            for place, total in zip(places, totals, strict=True)
        ]

    def _sensitivity(self) -> int:
        return sensitivity_steps(self._horizon, self._counters, self._guarantee.neighbors)

    def _check_count(self, count: Any) -> NDArray[np.int64]:
        """Return the counts of a step, or refuse them."""
        array = None if is_masked(count) else attempt(lambda: np.asarray(count), Exception)
        right = () if self._categories is None else (self._counters,)
        if array is None or array.shape != right or array.dtype.kind not in "iuf":
            array = np.array(-1)
        with quiet():
            # NaN is in no range.
            right_range = ((array >= 0) & (array <= self._most_rows)).all()
            whole = right_range and (array == np.floor(array)).all()
        if whole:
            return as_int64(array).reshape(-1)
        each = "" if self._categories is None else ", one for each category"
        raise refuse_data("count", allowed=f"whole numbers of rows from 0 to 2^31{each}")
