"""The event of an attack: which score, where it is cut, which side, and who plays which part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpstats.auditing.bounds import epsilon_lower_bound, wilson_bounds
from dpstats.auditing.outputs import Floats
from dpstats.auditing.scores import Pair, Score, learned_scores, plain_scores, split_runs
from dpstats.data.arithmetic import as_int64

_THRESHOLDS = 2000
_SHORTLIST = 16
_CURVE_POINTS = 80

# The event is chosen by its bound at this confidence, on separate runs. At a high confidence, an event with
# few counts does not look good by luck.
_CHOOSING = 0.9999


@dataclass(frozen=True)
class Event:
    """An event {sign * score >= threshold}, and whether it is more probable on the neighbor."""

    score: Score
    sign: int
    threshold: float
    swapped: bool

    def counts(self, scores: tuple[Floats, Floats]) -> tuple[int, int]:
        """Return the counts of the event: on the dataset with the larger probability, and on the other."""
        first, second = (int(np.count_nonzero(self.sign * values >= self.threshold)) for values in scores)
        return (second, first) if self.swapped else (first, second)

    def describe(self) -> str:
        """Return a description of the event."""
        likely, other = ("neighbor", "dataset") if self.swapped else ("dataset", "neighbor")
        return f"{self.score.words(self.sign, self.threshold)}, more probable on the {likely} than on the {other}"


def choose_event(pair: Pair, delta: float) -> tuple[Event, Floats]:
    """Return the event to count, from the runs set aside for choosing, and thresholds for a picture.

    The first half of these runs trains the learned scores. Their thresholds are chosen on the second
    half, which also says which score is best; plain scores have nothing to train, and use both.
    """
    runs = len(pair[0][0])
    training, validating = split_runs(pair, runs // 2)
    left = runs - runs // 2
    best, best_bound, best_scores = None, -1.0, None
    for score in plain_scores(pair):
        scores = _scores(score, pair)
        event = _best_cut(score, scores, delta)
        late = (scores[0][runs // 2 :], scores[1][runs // 2 :])
        bound = float(epsilon_lower_bound(*event.counts(late), left, delta, _CHOOSING))
        if bound > best_bound:
            best, best_bound, best_scores = event, bound, late
    for score in learned_scores(training):
        scores = _scores(score, validating)
        event = _best_cut(score, scores, delta)
        bound = float(epsilon_lower_bound(*event.counts(scores), left, delta, _CHOOSING))
        if bound > best_bound:
            best, best_bound, best_scores = event, bound, scores
    assert best is not None and best_scores is not None
    pooled = np.sort(best.sign * np.concatenate(best_scores), kind="stable")
    even = pooled[as_int64(np.linspace(0, pooled.size - 1, _CURVE_POINTS // 2))]
    return best, np.unique(np.concatenate([even, _spread(pooled, _CURVE_POINTS // 2)]))


def count_event(
    event: Event, thresholds: Floats, pair: Pair
) -> tuple[tuple[int, int], list[tuple[int, int]]]:
    """Count an event, and the same score cut at other thresholds, on the runs set aside for counting."""
    scores = _scores(event.score, pair)
    counted = [_count_at_least(np.sort(event.sign * values), thresholds).tolist() for values in scores]
    likely, other = reversed(counted) if event.swapped else counted
    return event.counts(scores), list(zip(likely, other, strict=True))


def _scores(score: Score, pair: Pair) -> tuple[Floats, Floats]:
    first, second = (np.asarray(score(sample), dtype=np.float64) for sample in pair)
    return first, second


def _count_at_least(ordered: Floats, thresholds: Floats) -> NDArray[np.int64]:
    return ordered.size - np.searchsorted(ordered, thresholds, side="left")


def _best_cut(score: Score, scores: tuple[Floats, Floats], delta: float) -> Event:
    """Return the cut, side and direction with the largest bound."""
    ordered = [np.sort(values) for values in scores]
    trials = ordered[0].size
    # Two sorted runs are merged in one pass.
    thresholds = _spread(np.sort(np.concatenate(ordered), kind="stable"), _THRESHOLDS)
    best, best_bound = Event(score, 1, -np.inf, False), -1.0
    for sign in (1, -1):
        if sign > 0:
            counts = [_count_at_least(values, thresholds) for values in ordered]
        else:
            counts = [np.searchsorted(values, thresholds, side="right") for values in ordered]
        lower, upper = wilson_bounds(np.array(counts), trials, (1 + _CHOOSING) / 2)
        for swapped in (False, True):
            likely, other = (1, 0) if swapped else (0, 1)
            # Exact bounds take a microsecond each: they are for those that look best at a glance.
            ratios = (lower[likely] - delta) / upper[other]
            first = np.argsort(-ratios, kind="stable")[:_SHORTLIST]
            bounds = epsilon_lower_bound(
                counts[likely][first], counts[other][first], trials, delta, _CHOOSING
            )
            index = int(np.argmax(bounds))
            if bounds[index] > best_bound:
                best = Event(score, sign, float(sign * thresholds[first[index]]), swapped)
                best_bound = float(bounds[index])
    return best


def _spread(ordered: Floats, number: int) -> Floats:
    """Return at most about ``number`` of the distinct values, dense in both tails, where telling events are."""
    new = np.ones(ordered.size, dtype=bool)
    new[1:] = ordered[1:] != ordered[:-1]
    distinct = ordered[new]
    if distinct.size <= number:
        return distinct
    grid = np.concatenate([np.geomspace(1 / distinct.size, 0.5, number // 2), [0.0]])
    ranks = as_int64(np.unique(np.concatenate([grid, 1 - grid]) * (distinct.size - 1)))
    return distinct[ranks]
