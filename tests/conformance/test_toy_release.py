"""What a new release takes, shown on two toys: the private total of each column, and the maximum of declared values.

The first adds noise to a sum, the second selects by noisy scores. Of six files this one holds what would stand in two:
the code (`PrivateTotal`, `PrivateMaximum`) and the registry entry (`total`, `maximum`). The others are the proof page
and a line in the package's ``__init__``, in the README and in the changelog. All else is the frame's, and the
conformance suite is passed by the entry alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import test_conformance as conformance
import test_exact_path as exact_path
import test_row_ownership as ownership
from registry.entry import Entry, PlantedBug, core, exact_integers, fitted, less_noise
from registry.reading import has_one_column
from sklearn.utils.validation import check_is_fitted
from test_exact_path import recorder  # noqa: F401  (a fixture)

from dpstats.data.parameters import check_integer, check_privacy_parameters, check_real
from dpstats.data.rows import Rows
from dpstats.errors import InvalidData
from dpstats.inference.reports import Records
from dpstats.inference.results import Summary
from dpstats.lattice import BoxLattice, check_finite
from dpstats.privacy import PrivacyBudget, PrivacyGuarantee
from dpstats.privacy.guarantee import quotient_up
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import Selection
from dpstats.quantiles.grid import check_sizes
from dpstats.release.additive import Integers, additive_stages
from dpstats.release.estimator import PrivateEstimator, parameters
from dpstats.release.session import Released

TOTAL = "total of each column"


class PrivateTotal(PrivateEstimator[ReleasePlan]):
    """Private total of each column of rows that are clipped to a public box."""

    def __init__(
        self,
        *,
        clip: float = 1.0,
        epsilon: float = 1.0,
        delta: float = 0.0,
        random_state: Any = None,
        budget: Any = None,
    ) -> None:
        self.clip = clip
        self.epsilon = epsilon
        self.delta = delta
        self.random_state = random_state
        self.budget = budget

    def plan(self, n_samples: int, n_features: int) -> ReleasePlan:
        n, d = (check_integer(*item, at_least=1) for item in (("n", n_samples), ("d", n_features)))
        epsilon, delta = check_privacy_parameters(self.epsilon, self.delta)
        lattice = self._lattice(d)
        item = Integers(TOTAL, d, float(np.max(lattice.spacing)), lattice.sensitivity("l1"), lattice.sensitivity("l2"))
        return ReleasePlan(additive_stages([item], epsilon, delta), PrivacyGuarantee(epsilon, delta), n, d)

    def _lattice(self, d: int) -> BoxLattice:
        return BoxLattice.build(check_real("clip", self.clip, above=0), 0.0, d, common=False)

    def _read(self, rows: Rows, plan: ReleasePlan) -> dict[str, Any]:
        return {TOTAL: self._lattice(plan.n_features).row_moments(rows).powers[0]}

    def _report(self, released: Released, plan: ReleasePlan) -> None:
        self.total_ = released[TOTAL]


MAXIMUM = "maximum"


@parameters
class PrivateMaximum(PrivateEstimator[ReleasePlan]):
    """Private maximum of one column: the declared value that about ``reached`` rows reach."""

    _one_column = True
    values: Any = None
    reached: int = 20
    epsilon: float = 1.0
    random_state: Any = None
    budget: Any = None

    def plan(self, n_samples: int, n_features: int = 1) -> ReleasePlan:
        n, epsilon = check_sizes(n_samples, n_features), check_real("epsilon", self.epsilon, above=0)
        check_integer("reached", self.reached, at_least=1)
        # One row moves each score by at most one step.
        stage = Selection(MAXIMUM, "gumbel", 1, 1.0, 1, quotient_up(2, epsilon), candidates=self._candidates().size)
        return ReleasePlan((stage,), PrivacyGuarantee(epsilon), n, 1)

    def _candidates(self) -> np.ndarray:
        return np.sort([check_real("values", value) for value in self.values])

    def _read(self, rows: Rows, plan: ReleasePlan) -> dict[str, Any]:
        check_finite(X := rows.whole().X)
        ordered = np.sort(X[:, 0])
        reached = ordered.size - np.searchsorted(ordered, self._candidates())
        return {MAXIMUM: -np.abs(reached - self.reached)}

    def _report(self, released: Released, plan: ReleasePlan) -> None:
        self.maximum_ = float(self._candidates()[released[MAXIMUM][0]])

    def summary(self) -> Summary:
        check_is_fitted(self)
        return Summary("Maximum", self._table_facts(), ["", "value"], [["maximum", f"{self.maximum_:g}"]])

    def _records(self) -> Records:
        check_is_fitted(self)
        return Records([MAXIMUM], {"value": [self.maximum_]}, {"privacy": self.privacy_.to_dict()})


def halved(kind: type) -> type:
    """Planted bug: half the noise that the guarantee needs."""

    class HalfNoise(kind):  # type: ignore[misc]
        def plan(self, n_samples: int, n_features: int) -> ReleasePlan:
            return less_noise(super().plan(n_samples, n_features))

    return HalfNoise


def total() -> Entry:
    options = {"clip": 2.0}
    rest = np.full((2, 1), 9.0)
    return entry_of(PrivateTotal, options, np.vstack([[[9.0]], rest]), np.vstack([[[-9.0]], rest]), "total_")


def maximum() -> Entry:
    options = {"values": (0.0, 0.5, 1.0), "reached": 2}
    rest = np.full((2, 1), 0.5)
    return entry_of(PrivateMaximum, options, np.vstack([[[1.0]], rest]), np.vstack([[[-1.0]], rest]), "maximum_")


def entry_of(kind: Any, options: dict[str, Any], dataset: np.ndarray, neighbor: np.ndarray, result: str) -> Entry:
    """Return the registry entry of a toy."""
    estimator = kind(**options)
    plan = estimator.plan(*dataset.shape)

    def pairs() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for x in (-9.0, -2.0, 0.0, 0.3, 2.0, 1e308):
            for y in (-1e308, -2.0, 0.1, 2.0):
                yield np.array([[x], [1.0], [0.5]]), np.array([[y], [1.0], [0.5]])

    return Entry(
        name=kind.__name__,
        covers=kind,
        proof="laplace.md",
        plan=plan,
        integers=exact_integers(estimator, plan),
        pairs=pairs,
        draw=core(estimator),
        dataset=dataset,
        neighbor=neighbor,
        power=0.3,
        public=fitted(estimator, lambda made: getattr(made, result)),
        bugs=(PlantedBug("half the noise", core(halved(kind)(**options)), dataset, neighbor, 1.0, 0.0),),
        estimator=estimator,
    )


toys = pytest.mark.parametrize("toy", [total(), maximum()], ids=lambda toy: toy.name)


@toys
def test_a_toy_release_passes_the_conformance_suite_by_its_entry_alone(toy: Entry) -> None:
    conformance.test_sensitivity_is_never_exceeded_and_attained(toy)
    conformance.test_guarantee_is_what_the_accountant_says(toy)
    conformance.test_events_are_those_of_the_noise(toy)
    conformance.test_audit_does_not_accuse_and_has_power(toy)
    conformance.test_audit_catches_the_planted_bug(toy, toy.bugs[0])
    made = conformance.checked_estimator(toy)
    if has_one_column(made):
        conformance.test_what_takes_one_column_is_an_estimator(made)
    else:
        conformance.test_scikit_learn_conventions(made)
    ownership.test_every_row_counts_and_as_much_as_any_other(toy, 5)
    if toy.adds_up:
        ownership.test_what_is_read_of_rows_is_what_is_read_of_each(toy, 5)
    exact_path.test_what_is_charged_is_the_plan(toy)


@toys
def test_what_it_draws_is_its_plan(
    toy: Entry,
    recorder: exact_path.Recorder,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exact_path.test_what_reaches_the_exact_source_is_the_plan(toy, recorder)
    recorder.calls.clear()
    recorder.plans.clear()
    exact_path.test_it_doubles_when_the_plan_does(toy, recorder, monkeypatch)


def test_its_own_numbers() -> None:
    rows = np.array([[0.5, 9.0], [0.25, -9.0], [0.25, 1.0]])
    total = PrivateTotal(clip=2.0, epsilon=1e6).fit(rows).total_
    # Noise of scale 8/1e6: more than 1e-3 has probability e^-125.
    np.testing.assert_allclose(total, [1.0, 1.0], atol=1e-3)
    budget = PrivacyBudget(1.0)
    PrivateTotal(budget=budget).fit(rows)
    with pytest.raises(Exception, match="Nothing was charged"):
        PrivateTotal(budget=budget).fit(rows)


def test_the_selected_value_is_the_one_that_so_many_rows_reach() -> None:
    x = np.repeat([10.0, 20.0, 30.0], [500, 400, 100])
    # The score of 30 is 0, and that of 20 is -400: another is selected with probability e^-200.
    made = PrivateMaximum(values=[10, 20, 30, 40], reached=100).fit(x)
    assert made.maximum_ == 30.0
    assert made.to_frame()["value"].tolist() == [30.0] and made.receipt().content["result"]["rows"]
    for rows in (np.ones((3, 2)), [1.0, np.nan, 2.0]):
        with pytest.raises(InvalidData):
            PrivateMaximum(values=[1.0]).fit(rows)
