"""The identity tests: exhaustive neighbours on small sign data and grids, and the bugs that attack them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dpstats.identity import (
    FilteringTest,
    LipschitzExtensionTest,
    RowDistanceTest,
    SpatialSignTest,
    exact_inner_product_extension,
)
from dpstats.identity.base import PrivateTest
from dpstats.mechanisms import SimulatedNoise
from registry.entry import Dataset, Draw, Entry, PlantedBug

# No entry calibrates in an audit; scikit-learn's checks do, many times.
FAST = {"n_calibration": 99}

A, B, C, P = (-1, -1, 1), (-1, 1, -1), (1, -1, -1), (1, 1, 1)


def _core(test: PrivateTest) -> Draw:
    """Return the batched core of a fit: the exact statistic, then `_release`, as `fit` itself calls them."""

    def draw(X: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        plan = test.plan(*X.shape)
        released = test._release(test._exact(X, plan), plan, SimulatedNoise(rng), size)
        return np.concatenate([released[stage.name] for stage in plan.stages], axis=1)

    return draw


def sign_neighbors(n: int, d: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield all neighbours of n sign rows in d columns, up to the order of the rows."""
    patterns = list(itertools.product((-1, 1), repeat=d))
    for rest in itertools.combinations_with_replacement(patterns, n - 1):
        for first, second in itertools.combinations(patterns, 2):
            yield np.array([first, *rest]), np.array([second, *rest])


def grid_neighbors(n: int, values: tuple[float, ...]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield all neighbours of n rows of one column on a grid."""
    for rest in itertools.combinations_with_replacement(values, n - 1):
        for first, second in itertools.combinations(values, 2):
            yield np.array([[first], *([x] for x in rest)]), np.array([[second], *([x] for x in rest)])


def ball_neighbors() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield rows far outside the ball on one line, of which one is reversed, and random ones."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        X = np.tile(rng.standard_normal(3) * 1e3, (6, 1))
        Y = X.copy()
        Y[0] = -X[0]
        yield X, Y
        Z = rng.standard_normal((6, 3)) * 10.0 ** rng.integers(-2, 200)
        W = Z.copy()
        W[0] = rng.standard_normal(3) * 1e9
        yield Z, W


def _half_noise(test: PrivateTest) -> PrivateTest:
    """Planted bug: half the noise that the guarantee needs."""

    class HalfNoise(type(test)):
        def plan(self, n_samples: int, n_features: int) -> Any:
            plan = super().plan(n_samples, n_features)
            return replace(plan, stages=tuple(replace(s, scale_steps=s.scale_steps / 2) for s in plan.stages))

    return HalfNoise(**test.get_params())


def _sample_covariance(test: PrivateTest) -> PrivateTest:
    """Planted bug: rows are whitened by their own second moments, which every row moves."""

    class SampleCovariance(type(test)):
        def _exact(self, X: Any, plan: Any) -> Any:
            return super()._exact(X / np.sqrt(np.mean(X**2, axis=0)), plan)

    return SampleCovariance(**test.get_params())


class NoProjection(SpatialSignTest):
    """Planted bug: rows are added up as they are."""

    def _exact(self, X: Any, plan: Any) -> Any:
        norm = np.linalg.norm(np.asarray(X).sum(axis=0)) / plan.design.spacing
        return {plan.stages[0].name: np.array([int(norm)])}


class LastStageFullEpsilon(LipschitzExtensionTest):
    """Planted bug: line 11 of algorithm 9.3.2 as printed, with epsilon where epsilon/M is left."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        M = math.ceil(math.log(n_samples))
        last = plan.stages[-1]
        return replace(plan, stages=(*plan.stages[:-1], replace(last, scale_steps=last.scale_steps / M)))


class WholeEpsilonInside(FilteringTest):
    """Planted bug: every step of algorithm 9.3.3 at eight times the epsilon that is left for it."""

    def _design(self, n: int, d: int, reference: Any) -> Any:
        design = super()._design(n, d, reference)
        c = design.constants
        return replace(design, constants=replace(c, largest_scale=c.largest_scale / 8, largest_threshold=1e9))


def _bug(name: str, test: PrivateTest, pair: Any, trials: int = 20_000) -> PlantedBug:
    return PlantedBug(name, _core(test), *pair, float(test.epsilon), float(test.delta), trials)


def printed_extension(X: np.ndarray, Delta: float, *, one_sided: bool = False) -> float:
    """Return T where X is in the set of algorithm 9.3.1, else the minimum over it, all with 4 Delta."""
    S = X.sum(axis=0)
    inner = X @ S
    inside = np.all((inner if one_sided else np.abs(inner)) <= Delta)
    T = float(S @ S - X.size)
    return T if inside else exact_inner_product_extension(X, Delta, 4 * Delta)


def counterexample() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the path of docs/proofs/lipschitz-extension.md: n = 12, d = 3, Delta = 4; T = 12, ..., -28."""
    first = [A] * 4 + [B] * 4 + [C] * 4
    middle = [P, *first[1:]]
    last = [P, *first[1:4], P, *first[5:]]
    return np.array(first), np.array(middle), np.array(last)


def _printed(epsilon: float, Delta: float, one_sided: bool = False) -> Draw:
    """Algorithm 9.3.1 as printed: Laplace noise of scale 4 Delta/epsilon on an extension for 4 Delta."""

    def draw(X: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        value = printed_extension(X, Delta, one_sided=one_sided)
        return value + rng.laplace(scale=4 * Delta / epsilon, size=(size, 1))

    return draw


def printed_bugs() -> tuple[PlantedBug, ...]:
    """Return what is wrong with algorithm 9.3.1, each with the pair that shows it."""
    first, middle, last = counterexample()
    values = [printed_extension(X, 4) for X in (first, middle, last)]
    worse = (first, middle) if abs(values[0] - values[1]) >= abs(values[1] - values[2]) else (middle, last)
    X = np.array([A] * 3 + [B] * 3 + [C] * 3)
    Y = np.array([P, *X[1:].tolist()])
    return (
        PlantedBug("4 Delta for K(Delta)", _printed(1.0, 4), *worse, 1.0, 0.0, 100_000),
        PlantedBug("one-sided C", _printed(1.0, 3, one_sided=True), X, Y, 1.0, 0.0, 100_000),
    )


def _entry(
    name: str,
    test: PrivateTest,
    pairs: Callable[[], Iterator[tuple[Any, Any]]],
    *,
    proof: str,
    power: float,
    bugs: tuple[PlantedBug, ...] = (),
    **options: Any,
) -> Entry:
    shape = next(pairs())[0].shape
    plan = test.plan(*shape)

    def statistic(data: Dataset) -> list[np.ndarray]:
        exact = test._exact(data, plan)
        return [exact[stage.name] for stage in plan.stages]

    # The first pair whose statistics are furthest apart, among some.
    worst = max(itertools.islice(pairs(), 4000), key=lambda pair: _gap(*map(statistic, pair)))
    half = _bug("half the noise", _half_noise(test), worst)
    return Entry(
        name=name,
        covers=type(test),
        proof=proof,
        stages=plan.stages,
        claim=plan.guarantee,
        statistic=statistic,
        pairs=pairs,
        draw=_core(test),
        dataset=worst[0],
        neighbor=worst[1],
        power=power,
        bugs=(half, *bugs),
        estimator=_quick(test),
        **options,
    )


def _quick(test: PrivateTest) -> PrivateTest:
    """Return the test for scikit-learn's checks, which calibrate many times, at sizes of their own."""
    quick = type(test)(**{**test.get_params(), **FAST, "random_state": 0})
    return quick.set_params(solver="auto") if "solver" in quick.get_params() else quick


def _gap(first: list[np.ndarray], second: list[np.ndarray]) -> int:
    return sum(abs(int(a[0]) - int(b[0])) for a, b in zip(first, second, strict=True))


def entries() -> Iterator[Entry]:
    spread = np.array([[3.0 + 0.01 * i] for i in range(12)])
    outlier = np.vstack([[[1e6]], spread[1:]])
    yield _entry(
        "row distance, whitened rows",
        RowDistanceTest(),
        lambda: grid_neighbors(5, (-3.0, -1.0, -0.25, 0.0, 0.5, 2.0, 9.0)),
        proof="row-distance.md",
        power=0.5,
        bugs=(_bug("sample covariance", _sample_covariance(RowDistanceTest()), (spread, outlier)),),
    )
    for null in ("normal", "product"):
        yield _entry(
            f"row distance, signs, {null} null",
            RowDistanceTest(rows="sign", null=null),
            lambda: sign_neighbors(6, 2),
            proof="row-distance.md",
            power=0.5,
        )
    yield _entry(
        "row distance, product null",
        RowDistanceTest(null="product", mean=0.5),
        lambda: sign_neighbors(6, 2),
        proof="row-distance.md",
        power=0.5,
    )
    far = np.full((3, 2), 40.0), np.vstack([np.full((1, 2), -40.0), np.full((2, 2), 40.0)])
    yield _entry(
        "spatial sign",
        SpatialSignTest(),
        ball_neighbors,
        proof="spatial-sign.md",
        power=0.5,
        slack=(8.0,),
        slack_reason="rows that are scaled down stop sqrt(d)/2 + 1 steps inside the ball",
        bugs=(
            _bug("projection skipped", NoProjection(), far),
            _bug("sample covariance", _sample_covariance(SpatialSignTest()), (spread, outlier)),
        ),
    )
    for rows in ("whitened", "sign"):
        yield _entry(
            f"Lipschitz extension, l1, {rows} rows",
            LipschitzExtensionTest(rows=rows),
            lambda: sign_neighbors(6, 2),
            proof="lipschitz-extension.md",
            power=0.4,
            bugs=printed_bugs() if rows == "sign" else (),
        )
    exact = "the constant K(Delta) bounds a family of pairs, of which this shape has none that attains it"
    for solver in ("exact", "surrogate"):
        yield _entry(
            f"Lipschitz extension, inner products, {solver}",
            LipschitzExtensionTest(constraint="inner_product", solver=solver),
            lambda: sign_neighbors(6, 2),
            proof="lipschitz-extension.md",
            power=0.4,
            slack=(12.0 * 2**20 if solver == "exact" else 0.0,),
            slack_reason=exact,
        )
    staged = {"constraint": "inner_product", "staged": True, "constants": (0.05, 0.1, 10.0), "epsilon": 2.5}
    yield _entry(
        "Lipschitz extension, staged",
        LipschitzExtensionTest(**staged),
        lambda: sign_neighbors(6, 2),
        proof="lipschitz-extension.md",
        power=0.3,
        slack=(12.0 * 2**20,),
        slack_reason=exact,
        bugs=(
            _bug(
                "line 11's full epsilon",
                LastStageFullEpsilon(**staged),
                (np.ones((6, 2)), np.vstack([-np.ones((1, 2)), np.ones((5, 2))])),
                200_000,
            ),
        ),
    )
    filtering = FilteringTest(epsilon=2.0, delta=1e-3)
    pair = np.ones((6, 2)), np.vstack([-np.ones((1, 2)), np.ones((5, 2))])
    plan = filtering.plan(6, 2)
    # Its stages share one proof and one event; their sensitivities are brute-forced in tests/identity/.
    yield Entry(
        name="filtering",
        covers=FilteringTest,
        proof="filtering.md",
        stages=(),
        events=plan.events,
        claim=plan.guarantee,
        statistic=lambda X: [],
        pairs=lambda: iter(()),
        draw=_largest(filtering),
        dataset=pair[0],
        neighbor=pair[1],
        power=0.15,
        bugs=(
            PlantedBug(
                "the first step at eight times its epsilon",
                _largest(WholeEpsilonInside(epsilon=2.0, delta=1e-3)),
                *pair,
                2.0,
                1e-3,
            ),
        ),
        estimator=FilteringTest(random_state=0, **FAST),
    )


def _largest(test: FilteringTest) -> Draw:
    """Return the core of a fit, less the vector release: its numbers, with those that are missing as -1e9."""
    core = _core(test)

    def draw(X: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        released = core(X, rng, size)
        return np.nan_to_num(released[:, [0, -1]], nan=-1e9, posinf=-1e9)

    return draw
