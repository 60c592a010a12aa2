"""What a new release takes, shown on a toy: the private total of each column.

Six files, of which this one holds what would stand in three: the code (`PrivateTotal`), the registry entry (`toy`) and
a test of its own numbers. The others are the proof page, a line in the package's ``__init__`` and one in the README.
All else is the frame's, and the conformance suite is passed by the entry alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import test_conformance as conformance
import test_exact_path as exact_path
from registry.entry import Entry, PlantedBug, core, exact_integers, fitted, less_noise
from test_exact_path import recorder  # noqa: F401  (a fixture)

from dpstats.data.parameters import check_integer, check_privacy_parameters, check_real
from dpstats.data.rows import Rows
from dpstats.lattice import BoxLattice
from dpstats.privacy import PrivacyBudget, PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan
from dpstats.release.additive import Integers, additive_stages
from dpstats.release.estimator import PrivateEstimator
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
        item = Integers(
            TOTAL, d, float(np.max(lattice.spacing)), lattice.sensitivity("l1"), lattice.sensitivity("l2")
        )
        return ReleasePlan(additive_stages([item], epsilon, delta), PrivacyGuarantee(epsilon, delta), n, d)

    def _lattice(self, d: int) -> BoxLattice:
        return BoxLattice.build(check_real("clip", self.clip, above=0), 0.0, d, common=False)

    def _read(self, rows: Rows, plan: ReleasePlan) -> dict[str, Any]:
        return {TOTAL: self._lattice(plan.n_features).row_moments(rows).powers[0]}

    def _report(self, released: Released, plan: ReleasePlan) -> None:
        self.total_ = released[TOTAL]


class HalfNoise(PrivateTotal):
    """Planted bug: half the noise that the guarantee needs."""

    def plan(self, n_samples: int, n_features: int) -> ReleasePlan:
        return less_noise(super().plan(n_samples, n_features))


def toy() -> Entry:
    estimator, far = (
        PrivateTotal(clip=2.0),
        (np.full((3, 1), 9.0), np.vstack([[[-9.0]], np.full((2, 1), 9.0)])),
    )
    plan = estimator.plan(3, 1)

    def pairs() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for x in (-9.0, -2.0, 0.0, 0.3, 2.0, 1e308):
            for y in (-1e308, -2.0, 0.1, 2.0):
                yield np.array([[x], [1.0], [0.5]]), np.array([[y], [1.0], [0.5]])

    return Entry(
        name="toy",
        covers=PrivateTotal,
        proof="laplace.md",
        plan=plan,
        integers=exact_integers(estimator, plan),
        pairs=pairs,
        draw=core(estimator),
        dataset=far[0],
        neighbor=far[1],
        power=0.3,
        public=fitted(estimator, lambda made: made.total_),
        bugs=(PlantedBug("half the noise", core(HalfNoise(clip=2.0)), *far, 1.0, 0.0),),
        estimator=estimator,
    )


def test_a_toy_release_passes_the_conformance_suite_by_its_entry_alone() -> None:
    entry = toy()
    conformance.test_sensitivity_is_never_exceeded_and_attained(entry)
    conformance.test_guarantee_is_what_the_accountant_says(entry)
    conformance.test_events_are_those_of_the_noise(entry)
    conformance.test_audit_does_not_accuse_and_has_power(entry)
    conformance.test_audit_catches_the_planted_bug(entry, entry.bugs[0])
    conformance.test_scikit_learn_conventions(conformance.checked_estimator(entry))
    exact_path.test_what_is_charged_is_the_plan(entry)


def test_what_it_draws_is_its_plan(
    recorder: exact_path.Recorder,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exact_path.test_what_reaches_the_exact_source_is_the_plan(toy(), recorder)
    recorder.calls.clear()
    recorder.plans.clear()
    exact_path.test_it_doubles_when_the_plan_does(toy(), recorder, monkeypatch)


def test_its_own_numbers() -> None:
    rows = np.array([[0.5, 9.0], [0.25, -9.0], [0.25, 1.0]])
    total = PrivateTotal(clip=2.0, epsilon=1e6).fit(rows).total_
    # Noise of scale 8/1e6: more than 1e-3 has probability e^-125.
    np.testing.assert_allclose(total, [1.0, 1.0], atol=1e-3)
    budget = PrivacyBudget(1.0)
    PrivateTotal(budget=budget).fit(rows)
    with pytest.raises(Exception, match="Nothing was charged"):
        PrivateTotal(budget=budget).fit(rows)
