"""Plans: what is chosen, at which cost, from public facts only."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.errors import InvalidData, InvalidParameter
from dpstats.privacy import Choice, Stage, compose
from dpstats.quantiles import PrivateQuantile
from dpstats.quantiles.grid import least_distance, offset_ranks, rank_errors
from dpstats.quantiles.quantile_plan import HIGH, LOW, POINT


def plan_of(n: int = 5000, q: object = 0.5, **options: object) -> object:
    return PrivateQuantile(q, **{"bounds": (0, 100), **options}).plan(n)


def test_an_interval_is_a_pair_of_ends_and_on_a_declared_grid_a_point_too() -> None:
    assert [target.kind for target in plan_of(500).targets] == [LOW, HIGH]
    # Rows enough for intervals that are hardly wider by a point of its own.
    assert [target.kind for target in plan_of().targets] == [LOW, POINT, HIGH]
    assert [target.kind for target in plan_of(500, epsilon=20.0).targets] == [LOW, POINT, HIGH]
    assert [target.kind for target in plan_of(step=1).targets] == [LOW, POINT, HIGH]
    assert [target.kind for target in plan_of(coverage="any").targets] == [LOW, POINT, HIGH]
    assert [target.kind for target in plan_of(confidence_level=None).targets] == [POINT]
    # Too few rows for a pair: a point of its own, and a bound for an end.
    assert [target.kind for target in plan_of(500, 0.9).targets] == [LOW, POINT]
    # Too few rows for anything: what is chosen is not reported.
    assert [target.kind for target in plan_of(5).targets] == [POINT]
    assert plan_of(5).unseparated == (0.5,)


@pytest.mark.parametrize("coverage", ["regular", "any"])
@pytest.mark.parametrize("level", [None, 0.95])
@pytest.mark.parametrize("step", [None, 1])
def test_no_rank_is_nearer_to_an_edge_than_a_bound_draws_points_from(
    coverage: str, level: float | None, step: float | None
) -> None:
    if level is None and coverage == "any":
        return
    q = (0.004, 0.1, 0.5, 0.9, 0.97, 0.999)
    for n, epsilon in ((500, 1.0), (3000, 0.3), (3000, 10.0)):
        plan = plan_of(n, q, confidence_level=level, coverage=coverage, step=step, epsilon=epsilon)
        size, scale = len(plan.targets), plan.stages[0].scale_steps
        share = 0.2 * (1 - (level or 0.5)) / size
        for inside in (lambda rank: rank, lambda rank: n - rank):  # noqa: B023
            distances = sorted(inside(target.rank) for target in plan.targets)
            for count, distance in enumerate(distances, 1):
                assert distance >= least_distance(size, scale, plan.grid.points, share, count)
        pointed = {q[target.of] for target in plan.targets if target.kind == POINT}
        assert 0.999 in plan.unseparated and not pointed & set(plan.unseparated)
        assert any("0.999 and a bound" in note and "NaN" in note for note in plan.notes())
        # Ends are planned for as many points as are chosen, at least.
        assert coverage == "any" or all(
            target.rank <= (offset_ranks(q[target.of], n, size, scale, 0.025)[0] or 0)
            for target in plan.targets
            if target.kind == LOW
        )


def test_quantiles_that_are_left_out_leave_the_others_their_ranks() -> None:
    alone = [target.rank for target in plan_of(5000).targets]
    assert [target.rank for target in plan_of(5000, (0.5, 0.9999), epsilon=1.0).targets][: len(alone)] != alone
    points = plan_of(5000, (0.5, 0.9999), confidence_level=None)
    assert points.targets == plan_of(5000, confidence_level=None).targets and points.unseparated == (0.9999,)
    levels = plan_of(5000, (0.5, 0.9999), confidence_level=None, method="halving")
    assert [len(level) for level in levels.levels] == [1] and levels.unseparated == (0.9999,)


def test_any_epsilon_is_planned() -> None:
    for epsilon in (0.05, 1e3, 1e5, 1e8, 1e300):
        for options in ({}, {"step": 1}, {"coverage": "any"}, {"confidence_level": None, "method": "halving"}):
            plan = plan_of(500, epsilon=epsilon, **options)
            total = compose(plan.events, plan.target.delta)
            assert total.epsilon <= epsilon * (1 + 1e-9)


def test_targets_rise_within_and_between_quantiles() -> None:
    plan = plan_of(5000, (0.9, 0.5, 0.1, 0.52))
    assert plan.q == (0.1, 0.5, 0.52, 0.9)
    ranks = [target.rank for target in plan.targets]
    assert ranks == sorted(ranks)
    for kind in (LOW, HIGH):
        of_kind = [target.of for target in plan.targets if target.kind == kind]
        assert of_kind == sorted(of_kind) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"coverage": "any"},
        {"q": (0.1, 0.5, 0.9), "confidence_level": None},
        {"q": (0.1, 0.5, 0.9), "confidence_level": None, "method": "halving"},
        {"q": (0.1, 0.5, 0.9), "confidence_level": None, "method": "halving", "delta": 1e-6},
        {"delta": 1e-6},
    ],
)
def test_what_is_spent_is_what_was_asked(options: dict[str, object]) -> None:
    plan = plan_of(**options)
    total = compose(plan.events, plan.target.delta)
    assert total.epsilon <= 1.0 and total.epsilon == pytest.approx(1.0, rel=2e-3)
    assert plan.guarantee.epsilon == pytest.approx(1.0, rel=2e-3)


def test_scales_are_two_over_epsilon_and_four_over_a_level() -> None:
    (choice,) = plan_of(epsilon=0.5).stages
    assert isinstance(choice, Choice) and (choice.range_steps, choice.scale_steps) == (2, 4.0)
    levels = plan_of(q=(0.1, 0.5, 0.9), confidence_level=None, method="halving").stages
    assert [(stage.size, stage.range_steps) for stage in levels] == [(1, 4), (2, 4)]
    assert [stage.scale_steps for stage in levels] == pytest.approx([8.0, 8.0], rel=1e-14)
    points, counts = plan_of(coverage="any").stages
    assert isinstance(counts, Stage) and (counts.noise, counts.sensitivity_steps) == ("joint", 1)
    # Shares .55 and .45.
    assert (2 / points.scale_steps, 1 / counts.scale_steps) == pytest.approx((0.55, 0.45))


def test_few_rows_are_said_to_be() -> None:
    assert plan_of(500, epsilon=0.1).unseparated == (0.5,) and plan_of(500, epsilon=0.1).crowded == ()
    assert plan_of(500, epsilon=0.12, step=1).crowded == (0.5,)
    assert plan_of(5000).crowded == () and plan_of(500, epsilon=0.1, coverage="any").crowded == ()
    assert "3.63 of 500 rows" in plan_of(500).notes()[0]
    assert plan_of(500).facts()["rank_error"] == pytest.approx(3.63, abs=0.01)


def test_the_error_of_a_rank_includes_the_count_of_observed_rows() -> None:
    q = (0.1, 0.5, 0.9)
    made = PrivateQuantile(q, bounds=(0, 1), confidence_level=None, missing="drop", random_state=0)
    rows, rng = np.arange(0.5, 1000)[:, None] / 1000, np.random.default_rng(0)
    found = [made.set_params(random_state=rng).fit(rows).quantile_ for _ in range(200)]
    errors = 1000 * np.sqrt(np.mean((np.array(found) - q) ** 2, axis=0))
    assert errors.max() < 1.1 * made.plan(1000).rank_error < 1.5 * errors.max()
    # The rank of a single quantile follows the observed rows.
    alone = made.set_params(q=0.9).plan(1000)
    assert alone.rank_error == rank_errors(1, alone.choices[0].scale_steps).std


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"q": 0}, "q must"),
        ({"q": 1.0}, "less than 1"),
        ({"q": float("nan")}, "q must"),
        ({"q": ()}, "q must"),
        ({"q": "0.5"}, "q must"),
        ({"q": [[0.5]]}, "q must"),
        ({"q": (0.5, 0.2, 0.5)}, "q must"),
        ({"bounds": (1, 0)}, "low < high"),
        ({"step": 7}, "step must"),
        ({"epsilon": 0}, "epsilon must"),
        ({"epsilon": 1e-9}, "epsilon is too small"),
        ({"epsilon": 1e-9, "method": "halving", "confidence_level": None}, "epsilon is too small"),
        ({"delta": 1}, "delta must"),
        ({"confidence_level": 95}, "confidence_level must"),
        ({"coverage": "all"}, "coverage must"),
        ({"coverage": "any", "confidence_level": None}, "coverage must"),
        ({"method": "split"}, "method must"),
        ({"method": "halving"}, "confidence_level must"),
        ({"q": [k / 100 for k in range(1, 100)]}, "q must"),
    ],
)
def test_bad_parameters_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        plan_of(**options)


def test_a_plan_is_of_one_column() -> None:
    with pytest.raises(InvalidData, match="X must"):
        PrivateQuantile(bounds=(0, 1)).plan(10, 2)
    with pytest.raises(InvalidParameter, match="n_samples"):
        PrivateQuantile(bounds=(0, 1)).plan(1)


def test_few_rows_crowd_limits_and_nothing_else() -> None:
    few = {"q": [0.2, 0.5], "bounds": (0, 1), "epsilon": 1.0}
    assert PrivateQuantile(**few).plan(300).crowded == (0.2,)
    for without in ({"confidence_level": None}, {"coverage": "any"}):
        assert PrivateQuantile(**few, **without).plan(300).crowded == ()
