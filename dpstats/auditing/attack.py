"""An audit: attack a release, and report the epsilon that the attack proves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpstats.auditing.result import AuditResult, epsilon_lower_bound, wilson_bounds
from dpstats.auditing.scores import (
    Component,
    Floats,
    Pair,
    Sample,
    Score,
    as_component,
    join,
    learned_scores,
    outcome_keys,
    plain_scores,
    split_runs,
)
from dpstats.data.parameters import check_integer, check_real
from dpstats.data.values import as_int64
from dpstats.errors import attempt, refuse
from dpstats.parallel import cut, run_blocks

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


def count_event(event: Event, thresholds: Floats, pair: Pair) -> tuple[tuple[int, int], list[tuple[int, int]]]:
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
            bounds = epsilon_lower_bound(counts[likely][first], counts[other][first], trials, delta, _CHOOSING)
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


Release: TypeAlias = Callable[..., Any]

_BATCH = 250_000
_RUNS = 2_500
# A block with at least this many outputs that differ from its first one does not recur by chance.
_REPEATED = 100


# The release is run many times on two neighboring datasets. On one half of the runs the attack is chosen: a score
# of the output, a threshold, a side, and which dataset plays which part. On the other half the chosen event is
# counted, and the counts bound epsilon from below. Choosing and counting on the same runs would accuse right
# releases far too often.
def audit(
    release: Release | Sequence[Release],
    dataset: Any,
    neighbor: Any,
    *,
    epsilon: float,
    delta: float = 0.0,
    n_trials: int = 100_000,
    confidence: float = 0.95,
    batched: bool = False,
    random_state: Any = None,
    score: Callable[[Any], float] | None = None,
    n_jobs: int = 1,
    progress: bool = False,
) -> AuditResult:
    """Bound from below the epsilon of a release by attacking it on two neighboring datasets.

    Parameters
    ----------
    release : callable, or sequence of callables
        ``release(dataset, rng)`` returns one output: a number, a vector of numbers, or anything made
        of numbers, text, dates and None; with ``batched=True``, ``release(dataset, rng, size)`` returns
        ``size`` independent outputs along the first axis. Several releases are run once each, on
        the same dataset and with independent noise, and the claim is for all of them together.
    dataset, neighbor : object
        Two neighboring datasets, passed on unchanged. The bound is for this pair: choose a bad one.
    epsilon, delta : float
        The claim.
    n_trials : int, default=100_000
        Runs on each dataset, at least 4.
    confidence : float, default=0.95
        Confidence of the lower bound. To audit many releases at once, divide 1 - confidence by their number.
    batched : bool, default=False
    random_state : None, int or numpy.random.Generator, default=None
        Seeds the generators that are passed to ``release``; a release may draw from the operating
        system instead.
    score : callable, optional
        ``score(output)`` returns a number that is attacked instead of the output (of the tuple of
        outputs, for several releases). It must be fixed before the audit.
    n_jobs : int, default=1
        Processes; -1 is one per core. The result is the same for any number. With several processes, a
        release must not draw from a separate generator.
    progress : bool, default=False
        Whether to show a bar.

    Returns
    -------
    AuditResult

    Notes
    -----
    Numbers are their own score, and so is a learned likelihood ratio, which finds events such as "in the
    middle". Vectors are projected on Fisher's direction for uncorrelated coordinates, and classified; other
    objects are outcomes of a table, or encoded and classified. The scores of several releases are sums of
    learned likelihood ratios. The event with the largest bound on the choosing half is counted on the other
    half.

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
    epsilon, delta, confidence = _check_claim(epsilon, delta, confidence)
    n_trials = check_integer("n_trials", n_trials, at_least=4)
    releases = (release,) if callable(release) else tuple(release) if isinstance(release, Iterable) else ()
    if not releases or not all(map(callable, releases)):
        raise refuse("release", given=release, allowed="a callable, or a sequence of at least one callable")
    half = n_trials // 2
    # At least one block a half: blocks are compared with each other, to refuse a release that repeats itself.
    sizes = 2 * cut(half, _BATCH if batched else _RUNS)
    blocks = [(releases, data, score, batched, size) for size in sizes for data in (dataset, neighbor)]
    outputs = run_blocks(_run, blocks, random_state=random_state, n_jobs=n_jobs, progress=progress, description="audit")
    per_dataset = outputs[::2], outputs[1::2]
    for done in per_dataset:
        _refuse_repetition(done)
    joined = [join([[block[i] for block in done] for done in per_dataset]) for i in range(len(outputs[0]))]
    first, second = zip(*joined, strict=True)
    return _attack((first, second), epsilon, delta, confidence)


def audit_outputs(
    outputs: Any,
    neighbor_outputs: Any,
    *,
    epsilon: float,
    delta: float = 0.0,
    confidence: float = 0.95,
    score: Callable[[Any], float] | None = None,
) -> AuditResult:
    """Bound from below the epsilon of a release whose outputs were recorded.

    Parameters
    ----------
    outputs, neighbor_outputs : sequence
        The outputs of independent runs on a dataset and on its neighbor, equally many, at least 4.
        An array or a table has one run per row. A sequence may have any objects. The first half chooses the
        event and the second half counts it, so the order must not depend on the outputs.
    epsilon, delta : float
        The claim.
    confidence : float, default=0.95
    score : callable, optional
        ``score(output)`` returns a number that is attacked instead of the output.

    Returns
    -------
    AuditResult

    See Also
    --------
    audit : runs the release, too.

    Examples
    --------
    >>> import math
    >>> import numpy as np
    >>> from dpstats.auditing import audit_outputs
    >>> rng = np.random.default_rng(0)
    >>> yes = np.where(rng.random(20_000) < 0.75, "yes", "no")
    >>> no = np.where(rng.random(20_000) < 0.25, "yes", "no")
    >>> result = audit_outputs(yes, no, epsilon=0.5)
    >>> result.violated, result.epsilon_lower < math.log(3)
    (True, True)
    """
    epsilon, delta, confidence = _check_claim(epsilon, delta, confidence)
    names = {"outputs": outputs, "neighbor_outputs": neighbor_outputs}
    for name, given in names.items():
        if isinstance(given, str | bytes | Mapping | Set) or not hasattr(given, "__len__"):
            raise refuse(name, given=given, allowed="a sequence of outputs, or a table with one in each row")
    sizes = [len(given) for given in names.values()]
    if sizes[0] != sizes[1] or sizes[0] < 4:
        raise refuse("neighbor_outputs", got=f"{sizes[0]} and {sizes[1]}", allowed="as many as outputs, at least 4")
    even = sizes[0] - sizes[0] % 2
    blocks = [[_apply_score(as_component(given, sizes[0], name), score)[:even]] for name, given in names.items()]
    first, second = join(blocks)
    return _attack(((first,), (second,)), epsilon, delta, confidence)


def _check_claim(epsilon: Any, delta: Any, confidence: Any) -> tuple[float, float, float]:
    return (
        check_real("epsilon", epsilon, at_least=0),
        check_real("delta", delta, at_least=0, below=1),
        check_real("confidence", confidence, above=0, below=1),
    )


def _attack(pair: Pair, epsilon: float, delta: float, confidence: float) -> AuditResult:
    half = len(pair[0][0]) // 2
    choosing, counting = split_runs(pair, half)
    event, thresholds = choose_event(choosing, delta)
    counts, curve = count_event(event, thresholds, counting)
    lower = float(epsilon_lower_bound(*counts, half, delta, confidence))
    return AuditResult(
        epsilon_lower=lower,
        epsilon_claimed=epsilon,
        delta=delta,
        violated=lower > epsilon,
        confidence=confidence,
        n_trials=2 * half,
        event=event.describe(),
        counts=counts,
        curve=tuple(curve),
    )


def _run(
    releases: tuple[Release, ...],
    data: Any,
    score: Callable[[Any], float] | None,
    batched: bool,
    size: int,
    rng: np.random.Generator,
) -> Sample:
    """Run all releases ``size`` times; return the outputs of each, or their scores."""
    sample = tuple(
        as_component(release(data, rng, size) if batched else [release(data, rng) for _ in range(size)], size)
        for release in releases
    )
    if score is None or len(sample) == 1:
        return tuple(_apply_score(component, score) for component in sample)
    return (_apply_score(list(zip(*sample, strict=True)), score),)


def _apply_score(component: Component, score: Callable[[Any], float] | None) -> Component:
    if score is None:
        return component
    numbers = attempt(lambda: [float(score(output)) for output in component], TypeError, ValueError)
    if numbers is None:
        raise refuse("score", allowed="return a number for every output")
    return np.array(numbers, dtype=np.float64)


def _refuse_repetition(blocks: Sequence[Sample]) -> None:
    """Refuse a release that gives the same outputs again: its runs are not independent."""
    for i in range(len(blocks[0])):
        first = blocks[0][i]
        keys = outcome_keys(first) if isinstance(first, list) else []
        for block in blocks[1:]:
            if not isinstance(first, np.ndarray) or not isinstance(block[i], np.ndarray):
                same = isinstance(block[i], list) and keys == outcome_keys(block[i])
                differing = sum(key != keys[0] for key in keys) if same else 0
            else:
                same = np.array_equal(first, block[i])
                differing = int(np.count_nonzero(first != first[0])) if same else 0
            if same and differing >= _REPEATED:
                raise refuse(
                    "release",
                    got="the same outputs in two blocks of runs",
                    allowed="not repeat itself",
                    remedy="Draw from the rng that it is given, or from the operating system.",
                )
