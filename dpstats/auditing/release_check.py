"""Audits, and the check of an estimator by its author.

The check compares sensitivities, guarantee and charge, audits the release, and plants bugs that an audit must catch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from dpstats.auditing.movement import FOLLOWS, SensitivityCheck
from dpstats.auditing.result import AuditResult, epsilon_lower_bound, wilson_bounds
from dpstats.auditing.scores import (
    Component,
    Floats,
    Sample,
    Score,
    as_component,
    join,
    learned_scores,
    outcome_keys,
    plain_scores,
    split_runs,
)
from dpstats.auditing.scores import Pair as Samples
from dpstats.auditing.sensitivity import check_sensitivity
from dpstats.data.parameters import check_integer, check_real
from dpstats.data.values import as_int64
from dpstats.errors import BudgetExceeded, DPStatsError, attempt, refuse
from dpstats.inference.reports import Printed, Records
from dpstats.inference.results import Summary
from dpstats.parallel import cut, run_blocks
from dpstats.privacy.budget import PrivacyBudget
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.totals import compose

if TYPE_CHECKING:
    from dpstats.release.estimator import PrivateEstimator


# An audit: attack a release, and report the epsilon that the attack proves


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


def choose_event(pair: Samples, delta: float) -> tuple[Event, Floats]:
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


def count_event(event: Event, thresholds: Floats, pair: Samples) -> tuple[tuple[int, int], list[tuple[int, int]]]:
    """Count an event, and the same score cut at other thresholds, on the runs set aside for counting."""
    scores = _scores(event.score, pair)
    counted = [_count_at_least(np.sort(event.sign * values), thresholds).tolist() for values in scores]
    likely, other = reversed(counted) if event.swapped else counted
    return event.counts(scores), list(zip(likely, other, strict=True))


def _scores(score: Score, pair: Samples) -> tuple[Floats, Floats]:
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


def _attack(pair: Samples, epsilon: float, delta: float, confidence: float) -> AuditResult:
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


# The check of an estimator by its author


Pair = tuple[Any, Any]

ATTAINED = 0.98
"""A pair that moves a stage by this part of its declared sensitivity attains it."""
_FALSE_ALARM = 1e-3
"""Probability that an audit accuses a correct release."""
PASSED, FAILED, OPEN = "passed", "FAILED", "open"


@dataclass(frozen=True, slots=True)
class CheckItem:
    """One check of a release.

    Attributes
    ----------
    name : str
    verdict : {"passed", "FAILED", "open"}
        "open" shows neither that the release is right nor that it is wrong, for example because no pair moves it.
    detail : str
        The finding, as a sentence.

    Examples
    --------
    >>> from dpstats.auditing import CheckItem
    >>> CheckItem("guarantee", "passed", "The stages cost (epsilon = 1, delta = 0).").verdict
    'passed'
    """

    name: str
    verdict: str
    detail: str


@dataclass(frozen=True, slots=True, repr=False)
class ReleaseCheck(Printed):
    """The results of `check_release`.

    Attributes
    ----------
    estimator : str
        Name of the estimator's class.
    items : tuple of CheckItem
        One result for each check.

    See Also
    --------
    check_release

    Examples
    --------
    >>> from dpstats.auditing import CheckItem, ReleaseCheck
    >>> ReleaseCheck("Mine", (CheckItem("audit", "open", "The attack is weak."),)).ok
    True
    """

    estimator: str
    items: tuple[CheckItem, ...]

    @property
    def ok(self) -> bool:
        """Whether no check failed. Read the open ones, too."""
        return not self.failed

    @property
    def failed(self) -> tuple[CheckItem, ...]:
        """The checks that failed."""
        return tuple(item for item in self.items if item.verdict == FAILED)

    def _records(self) -> Records:
        columns = {key: [getattr(item, key) for item in self.items] for key in ("verdict", "detail")}
        return Records([item.name for item in self.items], columns, {"estimator": self.estimator, "ok": self.ok})

    def summary(self) -> Summary:
        """Return a table with one row for each check; prints as text, shows as HTML in a notebook."""
        return Summary(
            "Release check",
            [("Estimator", self.estimator), ("Result", "failed" if self.failed else "no check failed")],
            ("check", "verdict", "found"),
            [(item.name, item.verdict, item.detail) for item in self.items],
            ["A check that passes does not replace a proof: write one, and let somebody else read it."],
        )


def check_release(
    estimator: PrivateEstimator[Any],
    pairs: Iterable[Pair],
    *,
    outputs: Callable[[Any], Any],
    broken: Mapping[str, PrivateEstimator[Any]] | None = None,
    n_trials: int = 20_000,
    power: float = 0.3,
    random_state: int = 0,
) -> ReleaseCheck:
    """Check an estimator that you wrote on `PrivateEstimator`: its plan, its sensitivities and its noise.

    Parameters
    ----------
    estimator : PrivateEstimator
        The estimator with its parameters. ``random_state`` and ``budget`` are set by the checks.
    pairs : iterable of (dataset, neighbor)
        Neighboring datasets, all of one public shape, among them the pairs that move the release most. For an estimator
        with an outcome, each dataset is a pair (X, y).
    outputs : callable
        Returns the numbers of a fitted estimator that an attacker sees, such as ``lambda fitted: fitted.mean_``.
    broken : mapping {name: estimator}, optional
        Versions with a planted bug. The checks must catch each: an attack that misses them would miss yours.
    n_trials : int, default=20_000
        Fits of each dataset for an audit, at least 100.
    power : float, default=0.3
        The audit is open if its lower bound on epsilon is below this part of epsilon.
    random_state : int, default=0
        Seed of the simulated noise.

    Returns
    -------
    ReleaseCheck
        ``ok`` says whether no check failed.

    Notes
    -----
    Checks, in order:

    * **guarantee**: the stages of the plan cost no more than its guarantee. If they cost more, no other check is made.
    * **sensitivity**: `check_sensitivity` replays each pair. No stage moves further than it declares, both fits ask for
      the same stages, and the report follows from the released values. The check is open if no pair moves
      a stage by 98% of its declared sensitivity: the declared sensitivity may be too large.
    * **charge**: a fit with exact noise charges the guarantee of its plan, and an exhausted budget refuses the next.
    * **simulation**: a fit with a seed says that it is not private, a fit without one does not.
    * **audit**: fits of the worst pair are attacked (`audit`). A correct release is accused with probability 0.001.
    * **planted bug**: the replay or the audit accuses each broken version.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.means import ClippedMean
    >>> from dpstats.auditing import check_release
    >>> rows, other = np.zeros((3, 1)), np.zeros((3, 1))
    >>> rows[0], other[0] = 9.0, -9.0
    >>> mean = ClippedMean(clip=1.0, std=None)
    >>> check = check_release(mean, [(rows, other)], outputs=lambda fitted: fitted.mean_, n_trials=2000)
    >>> check.ok, [item.verdict for item in check.items]
    (True, ['passed', 'passed', 'passed', 'passed', 'passed'])
    """
    # On demand, because audits of numbers start without scikit-learn.
    from dpstats.release.estimator import PrivateEstimator

    if not isinstance(estimator, PrivateEstimator):
        raise refuse(
            "estimator",
            given=estimator,
            allowed="a PrivateEstimator",
            remedy="For a function, use dpstats.auditing.check_sensitivity and audit.",
        )
    known = [tuple(pair) for pair in pairs]
    if not known or any(len(pair) != 2 for pair in known):
        raise refuse("pairs", allowed="at least one pair of neighboring datasets (dataset, neighbor)")
    n_trials = check_integer("n_trials", n_trials, at_least=100)
    power = check_real("power", power, above=0, at_most=1)
    work = _Work(estimator, known, outputs, n_trials, power, random_state)
    items = [work.guarantee()]
    if items[0].verdict == PASSED:
        items += [work.sensitivity(), work.payment(), work.simulation(), work.audit()]
        items += [work.caught(name, made) for name, made in (broken or {}).items()]
    return ReleaseCheck(type(estimator).__name__, tuple(items))


@dataclass
class _Work:
    """The checks of one estimator."""

    estimator: PrivateEstimator[Any]
    pairs: Sequence[Pair]
    outputs: Callable[[Any], Any]
    n_trials: int
    power: float
    seed: int

    @cached_property
    def plan(self) -> Any:
        """The plan of a fit on the first dataset."""
        return self._fit(self.estimator, self.pairs[0][0], random_state=self.seed).plan_

    @cached_property
    def claim(self) -> PrivacyGuarantee:
        """The guarantee that the plan states."""
        return cast(PrivacyGuarantee, self.plan.target)

    @cached_property
    def replays(self) -> list[SensitivityCheck]:
        """The replay of each pair."""
        return [check_sensitivity(_clone(self.estimator), *pair, seed=self.seed) for pair in self.pairs]

    def guarantee(self) -> CheckItem:
        """Check what the stages cost together; a plan that costs more than it states refuses every fit."""
        refusal = self._refusal(self.estimator)
        if refusal is not None:
            return CheckItem("guarantee", FAILED, f"The fit is refused: {refusal}.")
        cost = compose(self.plan.events, self.claim.delta)
        kept = cost.epsilon <= self.claim.epsilon and cost.delta <= self.claim.delta
        return CheckItem(
            "guarantee",
            PASSED if kept else FAILED,
            f"The stages cost {_numbers(cost)}; the plan states {_numbers(self.claim)}.",
        )

    def _refusal(self, made: PrivateEstimator[Any]) -> str | None:
        try:
            self._fit(made, self.pairs[0][0], random_state=self.seed)
        except DPStatsError as error:
            return str(error)
        return None

    def sensitivity(self) -> CheckItem:
        """Check what each pair moves."""
        for place, check in enumerate(self.replays):
            if check.violated:
                wrong = check.course or f"what the fit reports {check.output}"
                if not check.course and (found := [item for item in check.movements if not item.ok]):
                    worst = found[0]
                    wrong = f"{worst.stage} moves by {worst.moved:.6g} and declares {worst.declared:.6g}"
                return CheckItem("sensitivity", FAILED, f"Pair {place}: {wrong}.")
        most: dict[str, float] = {}
        for item in (item for check in self.replays for item in check.movements):
            most[item.stage] = max(most.get(item.stage, 0.0), item.ratio)
        ratios = ", ".join(f"{name} {ratio:.4g}" for name, ratio in most.items())
        attained = bool(most) and min(most.values()) >= ATTAINED
        if any(check.output != FOLLOWS for check in self.replays):
            return CheckItem("sensitivity", OPEN, "The report of the fit could not be compared.")
        return CheckItem(
            "sensitivity",
            PASSED if attained else OPEN,
            f"Largest movement over the declared one: {ratios or 'no stage'}."
            + ("" if attained else " Add worse pairs, or explain why it is less than 1."),
        )

    def payment(self) -> CheckItem:
        """Check that a fit charges its plan: a budget of its guarantee pays for one fit."""
        first, claim = self.pairs[0][0], self.claim
        budget = PrivacyBudget(claim.epsilon, claim.delta, neighbors=claim.neighbors)
        try:
            self._fit(self.estimator, first, budget=budget)
        except DPStatsError as error:
            return CheckItem("charge", FAILED, f"A budget of {_numbers(claim)} does not pay for one fit: {error}")
        try:
            self._fit(self.estimator, first, budget=budget)
        except BudgetExceeded:
            return CheckItem("charge", PASSED, f"A fit charged {_numbers(budget.spent)}. A second one was refused.")
        return CheckItem("charge", FAILED, f"A budget of {_numbers(claim)} paid for two fits.")

    def simulation(self) -> CheckItem:
        """Check that a fit says whether its noise is simulated."""
        first = self.pairs[0][0]
        said = [self._fit(self.estimator, first, random_state=seed).privacy_.simulated for seed in (self.seed, None)]
        if said == [True, False]:
            return CheckItem("simulation", PASSED, "Only a fit with a seed says that its noise is simulated.")
        return CheckItem("simulation", FAILED, "The guarantee of a fit does not say whether its noise is simulated.")

    def audit(self) -> CheckItem:
        """Attack fits of the pair that moves a stage furthest."""
        result = self._audit(self.estimator)
        found = f"The lower bound on epsilon is {result.epsilon_lower:.3g}; {self.claim.epsilon:.3g} is claimed."
        if result.violated:
            return CheckItem("audit", FAILED, found)
        strong = result.epsilon_lower >= self.power * self.claim.epsilon
        return CheckItem("audit", PASSED if strong else OPEN, found)

    def caught(self, name: str, made: PrivateEstimator[Any]) -> CheckItem:
        """Check that a planted bug is accused."""
        if self._refusal(made) is not None:
            return CheckItem(f"planted bug: {name}", PASSED, "Its plan costs more than it states: fits are refused.")
        if any(check_sensitivity(_clone(made), *pair, seed=self.seed).violated for pair in self.pairs):
            return CheckItem(f"planted bug: {name}", PASSED, "The replay of a neighbor accuses it.")
        result = self._audit(made)
        return CheckItem(
            f"planted bug: {name}",
            PASSED if result.violated else FAILED,
            f"The audit's lower bound on epsilon is {result.epsilon_lower:.3g}"
            + (": it accuses it." if result.violated else ": the bug is not caught."),
        )

    def _audit(self, estimator: PrivateEstimator[Any]) -> Any:
        def release(data: Any, rng: np.random.Generator) -> Any:
            return np.ravel(self.outputs(self._fit(estimator, data, random_state=rng)))

        worst = self.pairs[int(np.argmax([check.ratio for check in self.replays]))]
        return audit(
            release,
            *worst,
            epsilon=self.claim.epsilon,
            delta=self.claim.delta,
            n_trials=self.n_trials,
            confidence=1 - _FALSE_ALARM,
            random_state=self.seed,
        )

    def _fit(self, estimator: PrivateEstimator[Any], data: Any, **changes: Any) -> Any:
        made = _clone(estimator).set_params(**{"budget": None, "random_state": None, **changes})
        return made.fit(*data) if isinstance(data, tuple) else made.fit(data)


def _numbers(guarantee: Any) -> str:
    return f"(epsilon = {guarantee.epsilon:.6g}, delta = {guarantee.delta:.3g})"


def _clone(estimator: PrivateEstimator[Any]) -> Any:
    from sklearn.base import clone

    return clone(estimator)
