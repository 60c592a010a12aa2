"""Results of audits, their Clopper-Pearson bounds on epsilon, and their figure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainccinv, betaincinv, ndtri

from dpstats.data.parameters import check_integer, check_real
from dpstats.data.values import as_int64
from dpstats.errors import attempt, refuse
from dpstats.inference.figures import ESTIMATE, REFERENCE, axes_or_new, new_figure
from dpstats.inference.reports import Printed, Records, draw, picture_of
from dpstats.inference.results import Summary
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import tradeoff_curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
import math
from collections.abc import Callable, Iterable, Mapping


def probability_bounds(counts: Any, trials: int, confidence: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return lower and upper one-sided Clopper-Pearson bounds, each at ``confidence``."""
    counts = np.asarray(counts)
    tail = 1 - confidence
    # If a bound is known to be 0 or 1, the quantile has an arbitrary valid argument and is not used.
    some, missed = np.maximum(counts, 1), np.maximum(trials - counts, 1)
    lower = np.where(counts > 0, betaincinv(some, trials - some + 1, tail), 0.0)
    upper = np.where(counts < trials, betainccinv(trials - missed + 1, missed, tail), 1.0)
    return lower, upper


def wilson_bounds(counts: Any, trials: int, confidence: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return Wilson's score bounds: fast and close to Clopper and Pearson's, but not guaranteed."""
    z2 = float(ndtri(confidence)) ** 2 / trials
    share = np.asarray(counts) / trials
    half = np.sqrt(z2 * share * (1 - share) + z2**2 / 4)
    return (share + z2 / 2 - half) / (1 + z2), (share + z2 / 2 + half) / (1 + z2)


def epsilon_lower_bound(
    counts: Any, other_counts: Any, trials: int, delta: float = 0.0, confidence: float = 0.95
) -> NDArray[np.float64]:
    """Return a lower confidence bound on epsilon from the counts of an event on two neighbors.

    (epsilon, delta)-privacy means p <= e^epsilon q + delta, so epsilon >= log((p - delta)/q). p is bounded
    from below and q from above, each at (1 + confidence)/2. By the union bound, the result holds with
    ``confidence``. The event must not have been chosen from these counts.

    Parameters
    ----------
    counts, other_counts : int or array of int
        How often the event happened in ``trials`` runs on each of the two datasets.
    trials : int
    delta : float, default=0.0
    confidence : float, default=0.95

    Returns
    -------
    float or array
        At least 0.

    Examples
    --------
    >>> from dpstats.auditing import epsilon_lower_bound
    >>> round(float(epsilon_lower_bound(7310, 2690, 10_000)), 3)
    0.955
    """
    trials = check_integer("trials", trials, at_least=1)
    counts, other_counts = (
        _check_counts(name, given, trials) for name, given in (("counts", counts), ("other_counts", other_counts))
    )
    delta = check_real("delta", delta, at_least=0, below=1)
    each = (1 + check_real("confidence", confidence, above=0, below=1)) / 2
    lower, _ = probability_bounds(counts, trials, each)
    _, upper = probability_bounds(other_counts, trials, each)
    return np.log(np.maximum((lower - delta) / upper, 1.0))


def _check_counts(name: str, given: Any, trials: int) -> NDArray[np.int64]:
    converted = attempt(lambda: np.asarray(given), Exception)
    found = np.array(None) if converted is None else converted
    if found.dtype.kind not in "iu" or (found.size and not 0 <= found.min() <= found.max() <= trials):
        raise refuse(name, given=given, allowed=f"whole numbers from 0 to trials = {trials}")
    return as_int64(found)


class _Audit(Printed):
    """Base of the results of audits: their table has the claim and the bound."""

    __slots__ = ()

    epsilon_lower: float
    epsilon_claimed: float
    delta: float
    violated: bool
    confidence: float

    def _table(self, title: str, facts: list[tuple[str, str]]) -> Summary:
        verdict = "violated" if self.violated else "not violated"
        row = (f"{self.epsilon_claimed:.4g}", f"{self.delta:.3g}", f"{self.epsilon_lower:.4g}", verdict)
        return Summary(title, facts, ("epsilon claimed", "delta", "proved at least", "claim"), [row])

    def _one_row(self, name: str, **facts: Any) -> Records:
        keys = ("epsilon_claimed", "delta", "epsilon_lower", "violated", "confidence")
        return Records([name], {key: [getattr(self, key)] for key in keys}, facts)


@dataclass(frozen=True, slots=True)
class AuditResult(_Audit):
    """Result of an audit.

    Attributes
    ----------
    epsilon_lower : float
        Lower confidence bound on the epsilon of the release at ``delta``.
    epsilon_claimed, delta : float
        The claim.
    violated : bool
        Whether the bound exceeds the claim.
    confidence : float
        The bound exceeds the truth with probability at most 1 - confidence.
    n_trials : int
        Runs on each dataset; half of them chose the event, half counted it.
    event : str
        Description of the counted event.
    counts : tuple of int
        Its counts, on the dataset with the larger probability and on the other.
    curve : tuple of pairs of int
        The same two counts with the score cut at other thresholds, for `dpstats.plots.plot_audit`.
        They are for the figure: the bound is for the one event.

    Examples
    --------
    >>> from dpstats.auditing import audit
    >>> def laplace(value, rng, size):  # half the noise that it should have
    ...     return value + rng.laplace(scale=1.0, size=size)
    >>> result = audit(laplace, 0.0, 1.0, epsilon=0.5, batched=True, n_trials=20_000, random_state=0)
    >>> result.violated, result.epsilon_lower > 0.5
    (True, True)
    """

    epsilon_lower: float
    epsilon_claimed: float
    delta: float
    violated: bool
    confidence: float
    n_trials: int
    event: str
    counts: tuple[int, int]
    curve: tuple[tuple[int, int], ...] = ()

    def summary(self) -> Summary:
        """Return the result as a table."""
        facts = [
            ("Event", self.event),
            ("Counts", f"{self.counts[0]:,} against {self.counts[1]:,} in {self.n_trials // 2:,} runs each"),
            ("Confidence", f"{self.confidence:g}"),
        ]
        return self._table("Privacy audit", facts)

    def _records(self) -> Records:
        return self._one_row(self.event, n_trials=self.n_trials, counts=list(self.counts))

    def plot(self, ax: Any = None, **style: Any) -> Any:
        """Draw the errors of the attack against the trade-off curve of the claim.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default: the Axes of a new figure.
        **style
            matplotlib's, of ``Axes.errorbar``.

        Returns
        -------
        matplotlib Axes
        """
        return draw(self, ax, **style)


@dataclass(frozen=True, slots=True, eq=False)
class ExactAuditResult(_Audit):
    """What outcome probabilities prove: no sampling, no confidence.

    Attributes
    ----------
    epsilon_lower : float
        The exact epsilon of the worst pair at ``delta``: of the release, where all pairs were given.
    epsilon_claimed, delta : float
        The claim.
    violated : bool
        Whether the exact epsilon exceeds the claim by more than the rounding tolerance.
    confidence : float
        1.
    pair : tuple
        The worst pair.
    n_pairs : int

    Examples
    --------
    >>> from dpstats.auditing import audit_probabilities
    >>> from dpstats.mechanisms import RandomizedResponse
    >>> result = audit_probabilities(RandomizedResponse(1.0).probabilities, [(0, 1)], epsilon=0.5)
    >>> result.violated, round(result.epsilon_lower, 6), result.pair
    (True, 1.0, (0, 1))
    """

    epsilon_lower: float
    epsilon_claimed: float
    delta: float
    violated: bool
    pair: tuple[object, object]
    n_pairs: int
    confidence: float = 1.0

    def summary(self) -> Summary:
        """Return the result as a table."""
        facts = [("Pairs", f"{self.n_pairs:,}, both ways"), ("Method", "exact outcome probabilities")]
        return self._table("Privacy audit from exact probabilities", facts)

    def _records(self) -> Records:
        return self._one_row(str(self.pair), n_pairs=self.n_pairs)


def plot_audit(result: AuditResult, *, title: str = "") -> Figure:
    """Draw what an audit counted against the trade-off curve of the claim.

    Parameters
    ----------
    result : AuditResult
        Result of `dpstats.auditing.audit` or `audit_outputs`.
    title : str, optional

    Returns
    -------
    matplotlib.figure.Figure
        Left, the errors of the attack as a test of one dataset against the other, at many thresholds of its
        score. Clopper-Pearson bounds hold for all points together at the audit's confidence. Points in red
        are below the claimed curve, bounds included. Right, the epsilon that each threshold proves
        separately, and the bound that the audit reports.
    """
    half = result.n_trials // 2
    figure = new_figure(figsize=(9.2, 4.6))
    left, right = figure.subplots(1, 2)
    below = _draw_attack(result, left)
    likely, other = (np.array(counts) for counts in zip(*result.curve, strict=True))
    drawn = np.maximum(other, 0.5) / half  # an event never seen has a place on the axis, too
    # An event and its complement, the other way round: two bounds a threshold.
    together = 1 - (1 - result.confidence) / (2 * likely.size)
    proved = np.maximum(
        epsilon_lower_bound(likely, other, half, result.delta, together),
        epsilon_lower_bound(half - other, half - likely, half, result.delta, together),
    )
    right.plot(drawn[~below], proved[~below], "o", ms=3, color=ESTIMATE)
    right.plot(drawn[below], proved[below], "o", ms=3, color=REFERENCE)
    right.axhline(result.epsilon_claimed, color="black", lw=1.2, label="claimed")
    right.plot(
        max(result.counts[1], 0.5) / half,
        result.epsilon_lower,
        "*",
        ms=12,
        color="black",
        label=f"audit: epsilon at least {result.epsilon_lower:.3g}",
    )
    right.set_xscale("log")
    right.set_ylim(0, 1.35 * max(result.epsilon_claimed, result.epsilon_lower, float(proved.max())) + 0.01)
    right.set_xlabel("type I error of the attack")
    right.set_ylabel("epsilon proved")
    right.grid(alpha=0.25)
    right.legend(fontsize=8, frameon=False, loc="upper left")
    verdict = "claim violated" if result.violated else "claim not violated"
    runs = f"{half:,} runs counted on each dataset, confidence {result.confidence:g}"
    figure.suptitle(f"{title or 'Audit'}: {verdict} ({runs})", fontsize=11)
    return figure


@draw.register
def draw_audit(result: AuditResult, ax: Any = None, **style: Any) -> Any:
    """Draw the errors of the attack against the trade-off curve of the claim: the left panel of `plot_audit`.

    Parameters
    ----------
    result : AuditResult
    ax : matplotlib Axes, optional
        Default: the Axes of a new figure.
    **style
        matplotlib's, of ``Axes.errorbar``.

    Returns
    -------
    matplotlib Axes
    """
    axis = axes_or_new(ax, figsize=(4.8, 4.6))
    _draw_attack(result, axis, **style)
    return axis


def _draw_attack(result: AuditResult, axis: Axes, **style: Any) -> Any:
    """Draw the errors of an attack, and return which of them are below the claimed curve."""
    half = result.n_trials // 2
    if not result.curve:
        raise refuse("result", got="an empty one", allowed="hold a curve of counts")
    likely, other = (np.array(counts) for counts in zip(*result.curve, strict=True))
    # Two bounds a point, one-sided, together at the audit's confidence.
    each = 1 - (1 - result.confidence) / (4 * likely.size)
    first = probability_bounds(other, half, each)
    second = probability_bounds(half - likely, half, each)
    claim = PrivacyGuarantee(result.epsilon_claimed, result.delta)
    below = second[1] < tradeoff_curve(claim, first[1])
    type_one, type_two = other / half, 1 - likely / half
    errors = np.linspace(0.0, 1.0, 801)
    curve = tradeoff_curve(claim, errors)
    axis.fill_between(errors, curve, color="0.92", label="excluded by the claim")
    name = f"claimed: epsilon = {claim.epsilon:.4g}"
    axis.plot(errors, curve, color="black", lw=1.2, label=f"{name}, delta = {claim.delta:.3g}")
    axis.plot([0, 1], [1, 0], color="0.6", lw=1, ls="--", label="perfect privacy")
    for chosen, color, label in ((~below, ESTIMATE, "attack"), (below, REFERENCE, "attack, below the claim")):
        if not np.any(chosen):
            continue
        spread = [
            np.array([value - low, high - value])[:, chosen]
            for value, (low, high) in ((type_one, first), (type_two, second))
        ]
        axis.errorbar(
            type_one[chosen],
            type_two[chosen],
            yerr=np.maximum(spread[1], 0),
            xerr=np.maximum(spread[0], 0),
            **{"fmt": "o", "ms": 3, "lw": 0.8, "color": color, "label": label, **style},
        )
    axis.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axis.set(xlabel="type I error of the attack", ylabel="type II error of the attack")
    axis.grid(alpha=0.25)
    counted = result.counts[1] / half, 1 - result.counts[0] / half
    axis.plot(*counted, "*", ms=12, color="black", label="event counted")
    axis.legend(fontsize=8, frameon=False, loc="upper right")
    return below


@picture_of.register
def _extract_curve(result: AuditResult) -> tuple[str, Any] | None:
    if not result.curve:
        return None
    words = (
        "Left, the errors of the attack against the curve of the claim; right, the epsilon that each threshold proves."
    )
    return words, plot_audit(result)


# Exact epsilon and delta of a release with finitely many outcomes, from their probabilities

# How far from 1 a sum of probabilities may be.
_SUM = 1e-6


# The smallest delta at epsilon is the hockey-stick divergence, the sum of max(p - e^epsilon q, 0), the larger of
# both ways round. The smallest epsilon at delta is the largest log((P(S) - delta)/Q(S)) over events S; the best of
# each size are the outcomes with the largest p/q.
def exact_delta(p: Any, q: Any, epsilon: float) -> float:
    """Return the smallest delta at which two outcome distributions are (epsilon, delta)-indistinguishable.

    Parameters
    ----------
    p, q : array-like of shape (n_outcomes,), or mapping of outcome to probability
        On the two neighbors. An outcome that a mapping lacks has probability 0.
    epsilon : float

    Examples
    --------
    >>> from dpstats.auditing import exact_delta
    >>> exact_delta([0.75, 0.25], [0.25, 0.75], 0.0)  # the total variation
    0.5
    """
    epsilon = check_real("epsilon", epsilon, at_least=0)
    first, second = _align_outcomes(p, q)
    return max(_hockey_stick(first, second, epsilon), _hockey_stick(second, first, epsilon))


def exact_epsilon(p: Any, q: Any, delta: float = 0.0) -> float:
    """Return the smallest epsilon at which two outcome distributions are (epsilon, delta)-indistinguishable.

    Parameters
    ----------
    p, q : array-like of shape (n_outcomes,), or mapping of outcome to probability
        On the two neighbors. An outcome that a mapping lacks has probability 0.
    delta : float, default=0.0

    Returns
    -------
    float
        Infinite where more than ``delta`` of one falls where the other never does.

    Examples
    --------
    >>> from dpstats.auditing import exact_epsilon
    >>> round(exact_epsilon([0.75, 0.25], [0.25, 0.75]), 4)  # randomized response with two coins: log 3
    1.0986
    >>> exact_epsilon({"a": 1.0}, {"a": 0.9, "b": 0.1})
    inf
    """
    delta = check_real("delta", delta, at_least=0, below=1)
    return _epsilon(*_align_outcomes(p, q), delta)


def kl_divergence(p: Any, q: Any) -> float:
    """Return the Kullback-Leibler divergence: the mean privacy loss of an outcome drawn from ``p``.

    At most epsilon (e^epsilon - 1) if the two are epsilon-indistinguishable, and epsilon tanh(epsilon/2) at the worst.

    Parameters
    ----------
    p, q : array-like of shape (n_outcomes,), or mapping of outcome to probability
        On the two neighbors. An outcome that a mapping lacks has probability 0.

    Returns
    -------
    float
        Infinite where ``p`` has an outcome that ``q`` never has.

    Examples
    --------
    >>> from dpstats.auditing import kl_divergence
    >>> round(kl_divergence([0.75, 0.25], [0.25, 0.75]), 4)  # log(3)/2
    0.5493
    """
    first, second = _align_outcomes(p, q)
    possible = first > 0
    first, second = first[possible], second[possible]
    with np.errstate(divide="ignore"):
        losses = np.log(first) - np.log(second)
    return max(0.0, math.fsum((first * losses).tolist()))


def audit_probabilities(
    probabilities: Callable[[Any], Any],
    pairs: Iterable[tuple[Any, Any]],
    *,
    epsilon: float,
    delta: float = 0.0,
    tolerance: float = 1e-9,
) -> ExactAuditResult:
    """Check a claim against the exact outcome probabilities on pairs of neighbors.

    Parameters
    ----------
    probabilities : callable
        ``probabilities(dataset)`` returns the probability of every outcome: a vector, the same
        outcomes in the same places for both neighbors, or a mapping of outcome to probability.
    pairs : iterable of (dataset, neighbor)
        All pairs, for a proof by enumeration; otherwise the suspected pairs.
    epsilon, delta : float
        The claim.
    tolerance : float, default=1e-9
        For rounding, see Notes.

    Returns
    -------
    ExactAuditResult
        With the pair whose exact epsilon is largest.

    Notes
    -----
    A claim is violated if the exact epsilon at delta (1 + tolerance) exceeds epsilon + tolerance. A private
    release is never accused if the probabilities have a relative error of at most r = tolerance/2 - r^2.
    Then p(1 + r) - e^(epsilon + tolerance) q(1 - r) <= (1 + r)(p - e^epsilon q), and so for sums. Normalized
    weights in double precision are right to about (n + x) 2^-52 for n outcomes with exponents up to x: 1e-10
    for half a million. State a larger tolerance for probabilities from quadrature.

    Examples
    --------
    >>> from dpstats.auditing import audit_probabilities
    >>> from dpstats.mechanisms import RandomizedResponse
    >>> audit = audit_probabilities(RandomizedResponse(1.0).probabilities, [(0, 1)], epsilon=1.0)
    >>> round(audit.epsilon_lower, 9), audit.violated
    (1.0, False)
    """
    epsilon = check_real("epsilon", epsilon, at_least=0)
    delta = check_real("delta", delta, at_least=0, below=1)
    tolerance = check_real("tolerance", tolerance, at_least=0, below=1)
    if not callable(probabilities):
        raise refuse(
            "probabilities",
            given=probabilities,
            allowed="a function of a dataset, such as the method `probabilities` of a mechanism",
        )
    worst, worst_pair, number, violated = -1.0, None, 0, False
    for pair in pairs:
        first, second = _align_outcomes(*(probabilities(dataset) for dataset in pair))
        number += 1
        violated |= _epsilon(first, second, min(1.0, delta * (1 + tolerance))) > epsilon + tolerance
        exact = _epsilon(first, second, delta)
        if exact > worst:
            worst, worst_pair = exact, (pair[0], pair[1])
    if worst_pair is None:
        raise refuse("pairs", got="none", allowed="hold at least one pair of neighboring datasets")
    return ExactAuditResult(worst, epsilon, delta, violated, worst_pair, number)


def _align_outcomes(p: Any, q: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if isinstance(p, Mapping) != isinstance(q, Mapping):
        raise refuse("q", got="another kind", allowed="a vector or a mapping, as p is")
    if isinstance(p, Mapping):
        outcomes = [*p, *(outcome for outcome in q if outcome not in p)]
        p, q = ([law.get(outcome, 0.0) for outcome in outcomes] for law in (p, q))
    first, second = _check_distribution("p", p), _check_distribution("q", q)
    if first.size != second.size:
        raise refuse("q", got=f"{second.size}", allowed=f"have as many probabilities as p ({first.size})")
    return first, second


def _check_distribution(name: str, values: Any) -> NDArray[np.float64]:
    converted = attempt(lambda: np.asarray(values, dtype=np.float64), Exception)
    law = np.array(np.nan) if converted is None else converted
    if law.ndim != 1 or not np.all(law >= 0) or not abs(math.fsum(law.tolist()) - 1) <= _SUM:
        raise refuse(name, given=values, allowed=f"a vector of probabilities, at least 0 and with sum 1 (to {_SUM:g})")
    return law


def _hockey_stick(p: NDArray[np.float64], q: NDArray[np.float64], epsilon: float) -> float:
    # e^epsilon overflows above 709; only outcomes that the other dataset never has still count there.
    with np.errstate(over="ignore", invalid="ignore"):
        excess = np.where(q > 0, p - np.exp(epsilon) * q, p)
    return math.fsum(np.maximum(excess, 0.0).tolist())


def _epsilon(p: NDArray[np.float64], q: NDArray[np.float64], delta: float) -> float:
    return max(0.0, _one_way(p, q, delta), _one_way(q, p, delta))


def _one_way(p: NDArray[np.float64], q: NDArray[np.float64], delta: float) -> float:
    possible = p > 0
    p, q = p[possible], q[possible]
    # By logarithms: a ratio of tiny probabilities may overflow, the logarithm of it does not.
    with np.errstate(divide="ignore"):
        order = np.argsort(-(np.log(p) - np.log(q)), kind="stable")
        inside, other = np.cumsum(p[order]) - delta, np.cumsum(q[order])
        useful = inside > 0
        if not useful.any():
            return 0.0
        return float(np.max(np.log(inside[useful]) - np.log(other[useful])))
