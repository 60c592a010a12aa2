"""An audit: attack a release, and report the epsilon that the attack proves.

The release is run many times on two neighbouring datasets. On one half of the runs the attack is
chosen: a score of the output, a threshold, a side, and which dataset plays which part. On the
other half the chosen event is counted, and the counts bound epsilon from below. Choosing and
counting on the same runs would accuse right releases far too often.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.auditing.bounds import epsilon_lower_bound
from dpstats.errors import InvalidParameter
from dpstats.results import Summary
from dpstats.validation import check_integer, check_random_state, check_real

_THRESHOLDS = 2000

# The event is chosen by its bound at this confidence, on the runs set aside for that: an event that
# looks good by luck, on few counts, does not look good at a high confidence.
_CHOOSING = 0.9999


@dataclass(frozen=True, slots=True)
class AuditResult:
    """What an audit proved.

    Attributes
    ----------
    epsilon_lower : float
        Lower confidence bound on the epsilon of the release at ``delta``.
    epsilon_claimed, delta : float
        What was claimed.
    violated : bool
        Whether the bound exceeds the claim.
    confidence : float
        The bound exceeds the truth with probability at most 1 - confidence.
    n_trials : int
        Runs on each dataset; half of them chose the event, half counted it.
    event : str
        The event that was counted, in words.
    counts : tuple of int
        How often it happened, on the dataset where it is likely and on the other.
    """

    epsilon_lower: float
    epsilon_claimed: float
    delta: float
    violated: bool
    confidence: float
    n_trials: int
    event: str
    counts: tuple[int, int]

    def summary(self) -> Summary:
        """Return the result as a table."""
        verdict = "violated" if self.violated else "not violated"
        facts = [
            ("Event", self.event),
            ("Counts", f"{self.counts[0]:,} against {self.counts[1]:,} in {self.n_trials // 2:,} runs each"),
            ("Confidence", f"{self.confidence:g}"),
        ]
        row = (f"{self.epsilon_claimed:.4g}", f"{self.delta:.3g}", f"{self.epsilon_lower:.4g}", verdict)
        return Summary(
            "Privacy audit", facts, ("epsilon claimed", "delta", "proved at least", "claim"), [row]
        )

    def __str__(self) -> str:
        return str(self.summary())


@dataclass(frozen=True)
class _Attack:
    """An event {sign * score >= threshold} and whether it is likelier on the neighbour."""

    score: Callable[[NDArray[np.float64]], NDArray[np.float64]]
    sign: int
    threshold: float
    swapped: bool

    def count(self, outputs: NDArray[np.float64]) -> int:
        return int(np.count_nonzero(self.sign * self.score(outputs) >= self.threshold))

    def describe(self) -> str:
        relation = ">=" if self.sign > 0 else "<="
        likely, other = ("neighbor", "dataset") if self.swapped else ("dataset", "neighbor")
        return (
            f"score {relation} {self.sign * self.threshold:.6g}, likelier on the {likely} than on the {other}"
        )


def audit(
    release: Callable[..., Any],
    dataset: Any,
    neighbor: Any,
    *,
    epsilon: float,
    delta: float = 0.0,
    n_trials: int = 100_000,
    confidence: float = 0.95,
    batched: bool = False,
    random_state: Any = None,
) -> AuditResult:
    """Bound from below the epsilon of a release by attacking it on two neighbouring datasets.

    Parameters
    ----------
    release : callable
        ``release(dataset, rng)`` returns one output, a number or a vector of numbers; with
        ``batched=True``, ``release(dataset, rng, size)`` returns ``size`` independent outputs along
        the first axis.
    dataset, neighbor : object
        Two neighbouring datasets, passed on as they are. The bound is for this pair: choose a bad one.
    epsilon, delta : float
        The claim.
    n_trials : int, default=100_000
        Runs on each dataset, at least 4.
    confidence : float, default=0.95
        Of the lower bound. Auditing many releases at once, divide 1 - confidence by their number.
    batched : bool, default=False
    random_state : None, int or numpy.random.Generator, default=None
        Seeds the generator that is passed to ``release``; a release may ignore it.

    Returns
    -------
    AuditResult

    Notes
    -----
    Scalar outputs are their own score; vector outputs are projected on Fisher's direction for
    uncorrelated coordinates, estimated in the half of the runs that chooses the event.

    Examples
    --------
    >>> from dpstats.auditing import audit
    >>> def laplace(value, rng, size):
    ...     return value + rng.laplace(scale=1.0, size=size)
    >>> honest = audit(laplace, 0.0, 1.0, epsilon=1.0, batched=True, random_state=0)
    >>> honest.violated, 0.9 < honest.epsilon_lower <= 1.0
    (False, True)
    >>> audit(laplace, 0.0, 1.0, epsilon=0.5, batched=True, random_state=0).violated
    True
    """
    epsilon = check_real("epsilon", epsilon, at_least=0)
    delta = check_real("delta", delta, at_least=0, below=1)
    n_trials = check_integer("n_trials", n_trials, at_least=4)
    confidence = check_real("confidence", confidence, above=0, below=1)
    rng = check_random_state(random_state) or np.random.default_rng()
    half = n_trials // 2
    choosing = [_run(release, data, rng, half, batched) for data in (dataset, neighbor)]
    counting = [_run(release, data, rng, half, batched) for data in (dataset, neighbor)]
    attack = _choose(choosing, delta)
    counts = [attack.count(outputs) for outputs in counting]
    likely, other = reversed(counts) if attack.swapped else counts
    lower = float(epsilon_lower_bound(likely, other, half, delta, confidence))
    return AuditResult(
        lower, epsilon, delta, lower > epsilon, confidence, 2 * half, attack.describe(), (likely, other)
    )


def _run(
    release: Callable[..., Any], data: Any, rng: np.random.Generator, size: int, batched: bool
) -> NDArray[np.float64]:
    outputs = release(data, rng, size) if batched else [release(data, rng) for _ in range(size)]
    try:
        array = np.asarray(outputs, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidParameter(
            "release must return a number or a vector of numbers of fixed length"
        ) from None
    if array.shape[:1] != (size,):
        raise InvalidParameter(
            f"release must return {size} outputs along the first axis, got shape {array.shape}"
        )
    return array.reshape(size, -1)


def _choose(outputs: list[NDArray[np.float64]], delta: float) -> _Attack:
    """Return the event with the largest bound on the runs set aside for choosing."""
    # Fisher's direction for uncorrelated coordinates: units do not matter.
    variance = (outputs[0].var(axis=0) + outputs[1].var(axis=0)) / 2
    apart = outputs[0].mean(axis=0) - outputs[1].mean(axis=0)
    direction = np.divide(apart, variance, out=apart.copy(), where=variance > 0)
    if direction.size == 1 or not np.any(direction):
        direction = np.eye(1, direction.size)[0]

    def score(values: NDArray[np.float64]) -> NDArray[np.float64]:
        projected: NDArray[np.float64] = values @ direction
        return projected

    trials = outputs[0].shape[0]
    best, best_bound = _Attack(score, 1, -np.inf, False), -1.0
    for sign in (1, -1):
        scores = [np.sort(sign * score(values)) for values in outputs]
        thresholds = _candidates(np.concatenate(scores))
        counts = [trials - np.searchsorted(values, thresholds, side="left") for values in scores]
        for swapped in (False, True):
            likely, other = (counts[1], counts[0]) if swapped else (counts[0], counts[1])
            bounds = epsilon_lower_bound(likely, other, trials, delta, _CHOOSING)
            index = int(np.argmax(bounds))
            if bounds[index] > best_bound:
                best = _Attack(score, sign, float(thresholds[index]), swapped)
                best_bound = float(bounds[index])
    return best


def _candidates(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    distinct = np.unique(scores)
    if distinct.size <= _THRESHOLDS:
        return distinct
    # Dense in both tails, where the most telling events are.
    grid = np.concatenate([np.geomspace(1 / distinct.size, 0.5, _THRESHOLDS // 2), [0.0]])
    ranks = np.unique(np.concatenate([grid, 1 - grid]) * (distinct.size - 1)).astype(np.int64)
    return distinct[ranks]
