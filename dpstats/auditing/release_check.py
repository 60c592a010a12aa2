"""Check a private estimator as its author: sensitivities, guarantee, charge, audit, and bugs that must be caught."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from dpstats.auditing.attack import audit
from dpstats.auditing.movement import FOLLOWS, SensitivityCheck
from dpstats.auditing.sensitivity import check_sensitivity
from dpstats.data.parameters import check_integer, check_real
from dpstats.errors import BudgetExceeded, DPStatsError, refuse
from dpstats.inference.reports import Printed, Records
from dpstats.inference.results import Summary
from dpstats.privacy.budget import PrivacyBudget
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.totals import compose

if TYPE_CHECKING:
    from dpstats.release.estimator import PrivateEstimator

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
