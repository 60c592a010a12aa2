"""Sensitivity by replaying a neighbor: published faults are found, and right releases are not accused."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from dpstats.auditing import audit, check_sensitivity, worst_neighbor
from dpstats.errors import InvalidParameter
from dpstats.means import ClippedMean
from dpstats.mechanisms import (
    AboveThreshold,
    ExponentialMechanism,
    Histogram,
    LaplaceMechanism,
    NumericSparseVector,
    PermuteAndFlip,
    RandomizedResponse,
)
from dpstats.privacy import Neighbors, Plan, PrivacyGuarantee, Stage, compose, gaussian_delta
from dpstats.quantiles import PrivateQuantile
from dpstats.regression import PrivateLinearRegression
from dpstats.release.mechanism import session_of
from dpstats.release.noise import noise_source
from tests.auditing.pairs import X, Z
from tests.auditing.published_faults import FAULTS, INCOMES, Fault


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_neighbor_shows_the_published_fault(fault: Fault) -> None:
    check = check_sensitivity(fault.broken, fault.dataset, fault.neighbor)
    assert check.violated and not check.ok and check.verdict == "violated"
    words = {
        "moved": check.ratio > 1 and not check.course,
        "from the data": "from the data" in str(check),
        "output": "differs" in check.output and all(item.ok for item in check.movements),
        "refused": "refused (ZeroDivisionError)" in check.course,
    }
    assert [name for name, shown in words.items() if shown] == [fault.shows]
    # The one without the fault is not accused; the other way round the verdict is the same.
    for pair in ((fault.dataset, fault.neighbor), (fault.neighbor, fault.dataset)):
        mended = check_sensitivity(fault.mended, *pair)
        assert mended.ok and 0 < mended.ratio <= 1 + 1e-9
    if fault.shows != "refused":
        assert check_sensitivity(fault.broken, fault.neighbor, fault.dataset).violated


def test_ratios_are_those_of_the_faults() -> None:
    ratios = {fault.shows + fault.name[:3]: check_sensitivity(*fault[1::2][:1], *fault[3:5]).ratio for fault in FAULTS}
    # X'y moves by 1 and none is declared; rows at right angles are sqrt 2 apart; both halves move; 25 + 50 + 100.
    assert ratios["movedlow"] == math.inf
    assert ratios["movedcon"] == pytest.approx(math.sqrt(2))
    assert ratios["movedthe"] == 2.0
    assert ratios["movedsev"] == pytest.approx(1.75)


def test_faults_of_accounting_are_not_sensitivities() -> None:
    # Each of k aggregates keeps its sensitivity; what they cost together is told by composition.
    def each_at_full_budget(x: Any, source: Any) -> Any:
        return [source.laplace(np.clip(x, 0, bound).sum(), sensitivity=bound) for bound in (25, 50, 100)]

    changed = INCOMES.copy()
    changed[0] = 100.0
    assert check_sensitivity(each_at_full_budget, INCOMES, changed).ok
    assert compose([PrivacyGuarantee(1.0)] * 3, 0.0).epsilon == 3.0
    # The classic scale is for epsilon below 1: at 10 its delta is 2.27 times what it claims.
    classic = math.sqrt(2 * math.log(1.25 / 1e-5)) / 10
    assert gaussian_delta(10.0, classic) / 1e-5 == pytest.approx(2.265, abs=1e-3)
    # Permute-and-flip has no bounded range: at order 1 its divergence is above epsilon^2/8.
    epsilon = 2.0
    p, q = (PermuteAndFlip(1.0, epsilon).probabilities(scores) for scores in ([0.0, -1.0], [0.0, 1.0]))
    assert float(np.sum(q * np.log(q / p))) > epsilon**2 / 8


def test_noise_that_repeats_is_for_the_audit() -> None:
    def seeded_by_the_query(x: Any, rng: np.random.Generator) -> float:
        return float(x + np.random.default_rng(11).laplace())

    def looked_at(x: Any, source: Any) -> Any:
        source.statistic(x, sensitivity=1.0)
        return None

    assert check_sensitivity(looked_at, 0.0, 1.0).ok
    assert audit(seeded_by_the_query, 0.0, 1.0, epsilon=1.0, n_trials=200).violated


# Of this package.


class HalfDeclared(ClippedMean):
    """Planted bug: half of the sensitivity is declared, and the noise is by that."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        (stage,) = plan.stages
        half = stage.sensitivity_steps // 2
        scale = stage.scale_steps * half / stage.sensitivity_steps
        return replace(plan, stages=(replace(stage, sensitivity_steps=half, scale_steps=scale),))


def test_an_estimator_declares_by_its_plan() -> None:
    rows, other = np.full((50, 1), -1.0), np.full((50, 1), -1.0)
    other[0] = 1.0
    options: dict[str, Any] = {"clip": 1.0, "std": 1.0}
    right = check_sensitivity(ClippedMean(**options), rows, other)
    assert right.ok and right.ratio == 1.0 and right.stage == "clipped mean" and right.worst.norm == "l1"
    assert right.worst.moved == pytest.approx(2 / 50)
    wrong = check_sensitivity(HalfDeclared(**options), rows, other)
    assert wrong.violated and wrong.ratio == 2.0


def test_a_course_that_depends_on_the_data_is_seen() -> None:
    def hurried(x: Any, source: Any) -> Any:
        total = source.laplace(x.sum(), sensitivity=2.0)
        if x.max() > 0.9:
            total += source.laplace(0.0, sensitivity=1.0, name="another")
        return total

    check = check_sensitivity(hurried, X[:, 0], Z[:, 1])
    assert check.violated and "the other asks for stage 'another'" in check.course
    check = check_sensitivity(hurried, Z[:, 1], X[:, 0])
    assert check.violated and "the other asks for no further stage" in check.course


def test_mechanisms_are_checked_through_what_uses_them() -> None:
    def answers(x: Any, source: Any) -> Any:
        total = LaplaceMechanism(1.0, 1.0, random_state=source).release(x.sum())
        best = ExponentialMechanism(1.0, 1.0, random_state=source).select([x.sum(), len(x) - x.sum()])
        stream = AboveThreshold(20.0, 1.0, random_state=source)
        above = [stream.query(x[:k].sum()) for k in (10, 30)]
        told = NumericSparseVector(5.0, 1.0, max_above=1, random_state=source).query(x.sum())
        said = RandomizedResponse(1.0, random_state=source).randomize(x.astype(int))
        return total, best, above, told, said

    ones, other = np.ones(40), np.ones(40)
    other[5] = 0.0
    check = check_sensitivity(answers, ones, other)
    assert check.ok and check.ratio == 1.0 and len(check.movements) == 4

    def counted_twice(x: Any, source: Any) -> Any:
        stream = AboveThreshold(2000.0, 1.0, random_state=source)
        return [stream.query(times * x.sum()) for times in (1, 2, 0)]

    # The worst question of a stream counts.
    assert check_sensitivity(counted_twice, ones, other).ratio == pytest.approx(2.0)


def test_an_outcome_comes_with_the_rows() -> None:
    rng = np.random.default_rng(0)
    rows, other = rng.uniform(-1, 1, size=(60, 2)), rng.uniform(-1, 1, size=(60, 2))
    other[1:] = rows[1:]
    y = rows @ [1.0, 2.0]
    model = PrivateLinearRegression(x_bounds=(-1, 1), y_bounds=(-3, 3), epsilon=20.0)
    assert check_sensitivity(model, (rows, y), (other, y)).ok


def test_it_is_quick_and_says_the_same_again() -> None:
    first, second = (check_sensitivity(ClippedMean(clip=1.0), X, Z) for _ in range(2))
    assert first == second and repr(first) == str(first.summary())
    estimator = ClippedMean(clip=1.0, random_state=4)
    check_sensitivity(estimator, X, Z)
    # What is checked is a copy.
    assert estimator.random_state == 4 and not hasattr(estimator, "mean_")


def test_it_cannot_pass_trivially() -> None:
    for release, message in ((lambda x, source: x.sum(), "release must"), (ClippedMean(clip=1.0), None)):
        if message:
            with pytest.raises(InvalidParameter, match=message):
                check_sensitivity(release, X, Z)
        else:
            still = check_sensitivity(release, X, X.copy())
            assert still.verdict == "nothing moved" and not still.ok and not still.violated
            assert "this pair tests nothing" in str(still)
    two = Z.copy()
    two[7] = 0.0
    for call, message in (
        (lambda: check_sensitivity(ClippedMean(clip=1.0), X, two), "neighbor must"),
        (lambda: check_sensitivity(ClippedMean(clip=1.0), X, X[1:]), "neighbor must"),
        (lambda: check_sensitivity(LaplaceMechanism(1.0, 1.0), 0.0, 1.0), "LaplaceMechanism.*random_state=source"),
        (lambda: check_sensitivity("mean", X, Z), "release must"),
        (lambda: check_sensitivity(StandardScaler(), X, Z), "release must"),
        (lambda: check_sensitivity(3.0, X, Z, sensitivity=1.0), "a callable that returns a statistic"),
        (lambda: check_sensitivity(sum, (1,), (2,), sensitivity=-1.0), "sensitivity must"),
        (lambda: check_sensitivity(sum, (1,), (2,), sensitivity=1.0, norm="l3"), "norm must"),
        (lambda: check_sensitivity(sum, (1,), (2,), sensitivity=1.0, seed=-1), "seed must"),
        (
            lambda: worst_neighbor(sum, X, np.zeros(2), sensitivity=1.0),
            "candidates must have the same number of columns",
        ),
    ):
        with pytest.raises(InvalidParameter, match=message):
            call()
    check_sensitivity(ClippedMean(clip=1.0), X, two, rows_apart=2)


def test_scores_that_all_move_select_nothing_else() -> None:
    def best(x: Any, source: Any) -> int:
        return int(source.select([x.sum() + 10, x.sum()], sensitivity=0.0 + 1e-12))

    assert not check_sensitivity(best, X[:, 0], Z[:, 0]).violated

    def alone(x: Any, source: Any) -> int:
        return int(source.select([x.sum(), 0.0], sensitivity=0.5, monotone=True))

    assert check_sensitivity(alone, X[:, 0], Z[:, 0]).ratio == pytest.approx(1.25 / 0.5)


def test_the_pair_is_of_the_relation_that_stages_are_for() -> None:
    def counted(neighbors: Neighbors) -> Any:
        def release(x: Any, source: Any) -> None:
            Histogram([0, 1], epsilon=1.0, neighbors=neighbors, random_state=source).release(x)

        return release

    x, z = np.array([1, 0, 1]), np.array([0, 0, 1])
    added, replaced = (counted(item) for item in (Neighbors.ADD_OR_REMOVE_ONE, Neighbors.REPLACE_ONE))
    assert check_sensitivity(added, x, x[1:]).ok and check_sensitivity(replaced, x, z).ok
    for release, other in ((added, z), (replaced, x[1:])):
        with pytest.raises(InvalidParameter, match="neighboring datasets of the release"):
            check_sensitivity(release, x, other)
    with pytest.raises(InvalidParameter, match="ADD_OR_REMOVE_ONE"):
        worst_neighbor(added, x, [0, 1])


def test_rows_of_one_column_are_neighbors_too() -> None:
    quantile = PrivateQuantile(0.5, bounds=(-1, 1), step=0.1)
    with pytest.raises(InvalidParameter, match="neighbor must"):
        check_sensitivity(quantile, np.array([-1.0, -1, 1, 0.5]), np.array([1.0, 1, 1, 0.5]))


def test_a_stream_is_asked_by_a_callable() -> None:
    class Silent(ClippedMean):
        def fit(self, X: Any, y: Any = None) -> Any:
            return self

    with pytest.raises(InvalidParameter, match="release must"):
        check_sensitivity(Silent(clip=1.0), X, Z)


@pytest.mark.parametrize(("second", "violated"), [(0, False), (1, True)])
def test_one_row_moves_one_of_several_disjoint_parts(second: int, violated: bool) -> None:
    def release(rows: Any, source: Any) -> None:
        stages = tuple(
            Stage(f"sum {part}", "laplace", 1, 1.0, sensitivity_steps=1, scale_steps=1.0, part=part) for part in "ab"
        )
        plan = Plan(stages, PrivacyGuarantee(1.0))
        with session_of(plan, noise_source(source), None, "sums") as session:
            session.add("sum a", np.array([rows[0]]))
            session.add("sum b", np.array([rows[second] * second]))

    # Both stages sum the same row: the loss is 2, and the plan counts 1.
    shared = check_sensitivity(
        lambda rows, source: release(np.repeat(rows[:1], 2), source), np.array([0, 0]), np.array([1, 0])
    )
    assert shared.violated == violated and (shared.stage == "disjoint parts of the rows") == violated
