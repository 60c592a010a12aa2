"""The checks of a release by its author pass a correct one, and name the fault of each broken one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dpstats.auditing import ReleaseCheck, check_release
from dpstats.data.parameters import check_integer, check_real
from dpstats.data.rows import Rows
from dpstats.errors import InvalidParameter
from dpstats.lattice import BoxLattice
from dpstats.means import ClippedMean
from dpstats.privacy import PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan
from dpstats.regression import SufficientStatisticsRegression
from dpstats.release.additive import Integers, additive_stages
from dpstats.release.estimator import PrivateEstimator, parameters
from dpstats.release.session import Released, Session

TOTAL = "total of each column"


@parameters
class PrivateTotal(PrivateEstimator[ReleasePlan]):
    """Private total of each column of clipped rows: what a reader would write."""

    clip: float = 1.0
    epsilon: float = 1.0
    random_state: Any = None
    budget: Any = None

    def plan(self, n_samples: int, n_features: int) -> ReleasePlan:
        n, d = (check_integer(*item, at_least=1) for item in (("n", n_samples), ("d", n_features)))
        lattice = self._lattice(d)
        steps = [self._stated(lattice.sensitivity(norm)) for norm in ("l1", "l2")]
        item = Integers(TOTAL, d, float(np.max(lattice.spacing)), *steps)
        return ReleasePlan(additive_stages([item], self.epsilon, 0.0), PrivacyGuarantee(self.epsilon), n, d)

    def _stated(self, steps: int) -> int:
        return steps

    def _lattice(self, d: int) -> BoxLattice:
        return BoxLattice.build(check_real("clip", self.clip, above=0), 0.0, d, common=False)

    def _read(self, rows: Rows, plan: ReleasePlan) -> dict[str, Any]:
        return {TOTAL: self._lattice(plan.n_features).row_moments(rows).powers[0]}

    def _report(self, released: Released, plan: ReleasePlan) -> None:
        self.total_ = released[TOTAL]


class HalfSensitivity(PrivateTotal):
    """Planted bug: it declares half of what a row moves."""

    def _stated(self, steps: int) -> int:
        return steps // 2


class LittleNoise(PrivateTotal):
    """Planted bug: a plan with less noise than its guarantee needs."""

    def plan(self, n_samples: int, n_features: int) -> ReleasePlan:
        plan = super().plan(n_samples, n_features)
        (stage,) = plan.stages
        return replace(plan, stages=(replace(stage, scale_steps=stage.scale_steps / 3),))


class ExactBeside(PrivateTotal):
    """Planted bug: it reports the exact total, and adds noise for show."""

    def _release(self, private: Any, plan: ReleasePlan, session: Session) -> None:
        super()._release(private, plan, session)
        self._kept = private[TOTAL]

    def _report(self, released: Released, plan: ReleasePlan) -> None:
        self.total_ = self._kept * 1.0


class Twice(PrivateTotal):
    """Not a bug, but twice the noise that is needed."""

    def _stated(self, steps: int) -> int:
        return 2 * steps


class AlwaysPrivate(PrivateTotal):
    """Planted bug: simulated noise passes for private noise."""

    def _report(self, released: Released, plan: ReleasePlan) -> None:
        super()._report(released, plan)
        self.privacy_ = replace(self.privacy_, simulated=False)


class Unpaid(PrivateTotal):
    """Planted bug: it charges no budget."""

    def fit(self, X: Any, y: Any = None) -> Unpaid:
        return super(Unpaid, self.set_params(budget=None)).fit(X, y)


FAR = np.array([[9.0], [0.0], [0.5]]), np.array([[-9.0], [0.0], [0.5]])
NEAR = np.array([[0.1], [0.0], [0.5]]), np.array([[0.2], [0.0], [0.5]])


def checked(made: PrivateEstimator[Any], *pairs: Any, **options: Any) -> ReleaseCheck:
    options = {"n_trials": 800, **options}
    return check_release(made, pairs or (NEAR, FAR), outputs=lambda fitted: fitted.total_, **options)


def test_a_correct_release_passes_with_its_planted_bugs() -> None:
    check = checked(PrivateTotal(), broken={"half": HalfSensitivity(), "little noise": LittleNoise()})
    assert check.ok and [item.verdict for item in check.items] == ["passed"] * 7
    assert "no check failed" in str(check) and "by its author" not in str(check)
    assert f"{TOTAL} 1." in check.items[1].detail


@pytest.mark.parametrize(
    ("made", "failed"),
    [
        (HalfSensitivity(), {"sensitivity", "audit"}),
        (LittleNoise(), {"guarantee"}),
        (ExactBeside(), {"sensitivity", "audit"}),
        (AlwaysPrivate(), {"simulation"}),
        (Unpaid(), {"charge"}),
    ],
    ids=lambda item: type(item).__name__ if isinstance(item, PrivateEstimator) else None,
)
def test_each_fault_is_named(made: PrivateTotal, failed: set[str]) -> None:
    assert {item.name for item in checked(made).failed} == failed


def test_what_shows_nothing_is_open() -> None:
    by_name = {item.name: item for item in checked(PrivateTotal(), NEAR, n_trials=200).items}
    assert by_name["sensitivity"].verdict == by_name["audit"].verdict == "open"
    assert "Add worse pairs" in by_name["sensitivity"].detail
    assert {item.name: item.verdict for item in checked(Twice(), n_trials=200).items}["sensitivity"] == "open"


def test_a_bug_that_nobody_plants_is_not_caught() -> None:
    # The attack is strong, and accuses nobody.
    check = checked(PrivateTotal(), broken={"none": PrivateTotal()})
    assert {item.name: item.verdict for item in check.items}["audit"] == "passed"
    assert [item.name for item in check.failed] == ["planted bug: none"]


def test_estimators_of_the_package_pass_with_outcomes_too() -> None:
    X, y = np.array([[1.0], [0.2], [-0.4]] * 4), np.linspace(-1, 1, 12)
    other = X.copy(), y.copy()
    other[0][0], other[1][0] = -1.0, 1.0
    made = SufficientStatisticsRegression(x_bounds=(-1, 1), y_bounds=(-1, 1), epsilon=2.0)
    check = check_release(made, [((X, y), other)], outputs=lambda fitted: fitted.coef_, n_trials=200)
    assert check.ok
    assert check_release(ClippedMean(clip=1.0, std=None), [FAR], outputs=lambda fitted: fitted.mean_, n_trials=200).ok


def test_bad_input_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="estimator must"):
        check_release(sum, [FAR], outputs=len)  # type: ignore[arg-type]
    for pairs in ([], [(1, 2, 3)]):
        with pytest.raises(InvalidParameter, match="pairs must"):
            check_release(PrivateTotal(), pairs, outputs=len)
    with pytest.raises(InvalidParameter, match="n_trials"):
        check_release(PrivateTotal(), [FAR], outputs=len, n_trials=3)
