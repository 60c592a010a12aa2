"""Results of audits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dpstats.exports import Records
from dpstats.report import Printed, draw
from dpstats.results import Summary


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
