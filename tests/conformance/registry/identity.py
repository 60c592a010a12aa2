"""The identity tests but filtering: exhaustive neighbors on small sign data and grids, and the bugs that attack them.

Integer noise on the row distance costs level, not privacy: no audit sees it, and tests/identity/test_counterexamples.py
has it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dpstats.identity import LipschitzExtensionTest, RowDistanceTest, SpatialSignTest, exact_inner_product_extension
from dpstats.identity.base import PrivateTest
from dpstats.identity.row_distance_statistic import Centering, row_distance, row_sums
from dpstats.privacy import PrivacyGuarantee, compose
from dpstats.textbook import StagedInnerProductTest
from registry.entry import Dataset, Draw, Entry, PlantedBug, Traits, core, fitted, having, less_noise, remembered

# No entry calibrates in an audit; scikit-learn's checks do, many times.
FAST = {"n_calibration": 99}

A, B, C, P = (-1, -1, 1), (-1, 1, -1), (1, -1, -1), (1, 1, 1)


def sign_neighbors(n: int, d: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield all neighbors of n sign rows in d columns, up to the order of the rows."""
    patterns = list(itertools.product((-1, 1), repeat=d))
    for rest in itertools.combinations_with_replacement(patterns, n - 1):
        for first, second in itertools.combinations(patterns, 2):
            yield np.array([first, *rest]), np.array([second, *rest])


def grid_neighbors(n: int, values: tuple[float, ...]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield all neighbors of n rows of one column on a grid."""
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


def wide_sign_neighbors(n: int, d: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield neighbors of sign rows in many columns: of equal rows, one reversed or all else; and random ones."""
    rng = np.random.default_rng(0)
    for first in (np.ones(d), -np.ones(d), *rng.choice([-1.0, 1.0], (20, d))):
        for second in (-first, np.ones(d), -np.ones(d)):
            for copies in range(n):
                X = rng.choice([-1.0, 1.0], (n, d))
                X[: copies + 1] = first
                yield X, np.vstack([second[None], X[1:]])


def _half_noise(test: PrivateTest) -> PrivateTest:
    """Planted bug: half the noise that the guarantee needs."""

    class HalfNoise(type(test)):
        def plan(self, n_samples: int, n_features: int) -> Any:
            return less_noise(super().plan(n_samples, n_features))

    return HalfNoise(**test.get_params())


def _sample_covariance(test: PrivateTest) -> PrivateTest:
    """Planted bug: rows are whitened by their own second moments, which every row moves."""

    class SampleCovariance(type(test)):
        def _exact(self, X: Any, plan: Any) -> Any:
            return super()._exact(X / np.sqrt(np.mean(X**2, axis=0)), plan)

    return SampleCovariance(**test.get_params())


def _tied(tau0: int, distance: Callable[[np.ndarray, int], int] | None = None) -> RowDistanceTest:
    """Return the row distance at public constants where inequalities of its proof are equalities.

    A planted bug brings a distance of sign rows of its own.
    """

    class Tied(RowDistanceTest):
        def _design(self, n: int, d: int, reference: Any) -> Any:
            return replace(super()._design(n, d, reference), rho=1, a0=0, tau0=float(tau0))

        def _exact(self, X: Any, plan: Any) -> Any:
            if distance is None:
                return super()._exact(X, plan)
            stage = plan.stages[0]
            return {stage.name: np.array([distance(X, tau0) * stage.sensitivity_steps])}

    Tied.__name__ = RowDistanceTest.__name__  # what a charge is labelled with
    return Tied(rows="sign")


def small_increment(X: np.ndarray, tau0: int) -> int:
    """Planted bug: 7.5 for 8, the slope at which the threshold 2 a0 k + 8 rho k(k-1)/2 steepens."""
    r = row_sums(X, 1)
    k = np.arange(len(r) + 1)
    top = np.concatenate([[0], np.cumsum(np.sort(np.maximum(r, 0))[::-1])])
    below = np.maximum(-2 * k[:, None] - r, 0).sum(axis=1)
    return int(np.argmax(r.sum() - 2 * top + 2 * below <= tau0 + 7.5 * k * (k - 1) / 2))


def float_distance(X: np.ndarray, tau0: int) -> int:
    """Planted bug: the distance of rows in units of 0.1, in single precision, where ties break either way."""
    Z = X.astype(np.float32) * np.float32(0.1)
    rho = np.float32(0.1) * np.float32(0.1)
    # Sums of a handful of numbers, in their order on every machine; a library's matrix product might fuse them.
    G = np.clip((Z[:, None] * Z[None]).sum(axis=2), -rho, rho)
    np.fill_diagonal(G, 0)
    r = G.sum(axis=1)
    positive = np.sort(np.maximum(r, 0))[::-1]
    for k in range(len(r)):
        f = r.sum() - 2 * positive[:k].sum() + 2 * np.maximum(-2 * rho * k - r, 0).sum()
        if f <= tau0 * rho + 4 * rho * k * (k - 1):
            return k
    return len(r)


def _products_bug(name: str, distance: Callable[[np.ndarray], int], X: np.ndarray, Y: np.ndarray) -> PlantedBug:
    """Return a row distance of products of a planted bug's own, with the noise of the right one."""

    def draw(data: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        return distance(data) + rng.laplace(size=(size, 1))

    return PlantedBug(name, draw, X, Y, 1.0, 0.0)


def narrow_width(G: np.ndarray) -> int:
    """Planted bug: products in {-1, 2}, a window of 2 rho + 1, with the thresholds of rho = 1."""
    r = G.sum(axis=1)
    k = np.arange(len(r) + 1)
    top = np.concatenate([[0], np.cumsum(np.sort(np.maximum(r, 0))[::-1])])
    below = np.maximum(-2 * k[:, None] - r, 0).sum(axis=1)
    return int(np.argmax(r.sum() - 2 * top + 2 * below <= 4 * k * (k - 1)))


def centered_by_the_block(X: np.ndarray) -> int:
    """Planted bug: g of a row from the rows that it is in a block with, and not of the row alone."""
    g = np.rint(np.clip(X @ X.T, -3, 3).mean(axis=1)).astype(np.int64)
    return row_distance(X, 3, 3, -12.0, centering=Centering(g, 0, -3, 5))


def centering_bugs() -> tuple[PlantedBug, ...]:
    """Return what is wrong with products that are centered badly, each with the pair that shows it."""
    # These neighbors differ in row and column 0, and are incidence matrices of integer rows
    # (tests/identity/test_rows.py).
    G = np.array([[0, 2, 2, -1], [2, 0, 2, -1], [2, 2, 0, -1], [-1, -1, -1, 0]])
    H = np.array([[0, -1, -1, 2], [-1, 0, 2, -1], [-1, 2, 0, -1], [2, -1, -1, 0]])
    rest = [[-3, -3], [-3, 1], [1, 1], [1, 1]]
    X, Y = np.array([[-3, 1], *rest]), np.array([[1, 1], *rest])
    return (
        _products_bug("a window of 2 rho + 1", narrow_width, G, H),
        _products_bug("g by the block", centered_by_the_block, X, Y),
    )


class WidestColumn(SpatialSignTest):
    """Planted bug: the widest side of the box, and not its diagonal."""

    def _design(self, n: int, d: int, reference: Any) -> Any:
        box = super()._design(n, d, reference)
        high, low = reference.sign_steps(box.steps_per_unit, 2**30)
        return replace(box, diagonal=int((high - low).max()))


class HalfWidths(LipschitzExtensionTest):
    """Planted bug: columns of two values move by half the distance between them."""

    def _design(self, n: int, d: int, reference: Any) -> Any:
        design = super()._design(n, d, reference)
        return replace(design, widths=tuple(width // 2 for width in design.widths))


class NoProjection(SpatialSignTest):
    """Planted bug: rows are added up as they are."""

    def _exact(self, X: Any, plan: Any) -> Any:
        norm = np.linalg.norm(np.asarray(X).sum(axis=0)) / plan.design.spacing
        return {plan.stages[0].name: np.array([int(norm)])}


class LastStageFullEpsilon(StagedInnerProductTest):
    """Planted bug: line 11 of algorithm 9.3.2 as printed, with epsilon where epsilon/M is left."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        M = math.ceil(math.log(n_samples))
        last = plan.stages[-1]
        return replace(plan, stages=(*plan.stages[:-1], replace(last, scale_steps=last.scale_steps / M)))


def _bug(name: str, test: PrivateTest, pair: Any, trials: int = 20_000, claim: Any = None) -> PlantedBug:
    claim = claim or PrivacyGuarantee(test.epsilon, test.delta)
    return PlantedBug(name, core(test), *pair, claim.epsilon, claim.delta, trials)


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
    covers: type[PrivateTest] | None = None,
    bugs: tuple[PlantedBug, ...] = (),
    **options: Any,
) -> Entry:
    covers = covers or type(test)
    shape = next(pairs())[0].shape
    plan = test.plan(*shape)

    @remembered
    def integers(data: Dataset) -> list[np.ndarray]:
        exact = test._exact(data, plan)
        return [exact[stage.name] for stage in plan.additive]

    # Use the first of 4,000 pairs whose statistics are furthest apart.
    worst = _furthest(itertools.islice(pairs(), 4000), integers, sum(s.sensitivity_steps for s in plan.additive))
    # Zero-concentrated privacy claims something at every delta; at a large one an audit sees more of it.
    claim = compose(plan.events, 0.05) if test.epsilon is None else None
    half = _bug("half the noise", _half_noise(test), worst, claim=claim)
    return Entry(
        name=name,
        covers=covers,
        proof=proof,
        plan=plan,
        integers=integers,
        pairs=pairs,
        draw=core(test),
        dataset=worst[0],
        neighbor=worst[1],
        power=power,
        public=fitted(type(test)(**{**test.get_params(), **FAST}), lambda made: made.statistic_),
        bugs=(half, *bugs),
        estimator=_quick(covers(**test.get_params())),
        **options,
    )


def _quick(test: PrivateTest) -> PrivateTest:
    """Return the test for scikit-learn's checks, which calibrate many times, at sizes of their own."""
    mean = float(np.ravel(test.mean)[0])
    quick = type(test)(**{**test.get_params(), **FAST, "random_state": 0, "mean": mean})
    return quick.set_params(solver="auto") if "solver" in quick.get_params() else quick


def _furthest(
    pairs: Iterator[tuple[Any, Any]], integers: Callable[[Dataset], list[np.ndarray]], limit: float
) -> tuple[Any, Any]:
    """Return the first pair with the largest gap; stop at a gap of ``limit``, the stated sensitivity."""
    worst, largest = None, -1
    for pair in pairs:
        gap = _gap(*map(integers, pair))
        if gap > largest:
            worst, largest = pair, gap
        # No later pair can be worse, unless the sensitivity is wrong: then the brute force over all pairs fails.
        if gap >= limit:
            break
    assert worst is not None
    return worst


def _gap(first: list[np.ndarray], second: list[np.ndarray]) -> int:
    return sum(abs(int(a[0]) - int(b[0])) for a, b in zip(first, second, strict=True))


# A test gives one answer for a dataset, not one for each of its rows.
ANSWERS_ONCE = {
    "check_methods_sample_order_invariance": "predict of a test answers for the dataset as a whole",
    "check_methods_subset_invariance": "predict of a test answers for the dataset as a whole",
}
BESIDE = Traits(additive=False, excused=ANSWERS_ONCE)
"""Distances are of rows beside each other: each counts, and they do not add up."""
NEAR = {"far from the null": "the row distance of normal rows is at most the number of rows, also far from the null"}
NOT_DRAWN = {"exact audit": "its one release is drawn as that of LipschitzExtensionTest"}


@having(
    {
        RowDistanceTest: replace(BESIDE, excused=ANSWERS_ONCE | NEAR),
        SpatialSignTest: BESIDE,
        LipschitzExtensionTest: BESIDE,
        StagedInnerProductTest: replace(BESIDE, excused=ANSWERS_ONCE | NOT_DRAWN),
    },
    {
        "l1 extension, product null": {"not_replayed": "the pair moves signs that the null does not"},
        "l1 extension, sign rows": {"exact_audit": True},
        "inner products, surrogate": {"exact_audit": True},
    },
)
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
        RowDistanceTest(null="product", mean=[0.5, 0.9]),
        lambda: sign_neighbors(6, 2),
        proof="row-distance.md",
        power=0.5,
        bugs=centering_bugs(),
    )
    yield _entry(
        "row distance, product null, many columns",
        RowDistanceTest(null="product", mean=0.5),
        lambda: wide_sign_neighbors(6, 15),
        proof="row-distance.md",
        power=0.5,
    )
    yield _entry(
        "row distance, zero-concentrated",
        RowDistanceTest(epsilon=None, rho=0.5),
        lambda: grid_neighbors(5, (-3.0, -0.25, 0.0, 2.0, 9.0)),
        proof="row-distance.md",
        power=0.2,
    )
    first = np.array([[-1, 1, 1], [-1, -1, 1], [1, -1, 1], [-1, -1, 1], [1, 1, 1]])
    second = np.array([[-1, -1, -1], [-1, -1, -1], [-1, -1, 1], [-1, 1, -1], [-1, 1, -1]])
    for tau0, name, wrong, pair in (
        (-8, "increment 7.5 for 8", small_increment, (first, np.vstack([[[1, -1, -1]], first[1:]]))),
        (4, "float ties", float_distance, (second, np.vstack([[[-1, -1, 1]], second[1:]]))),
    ):
        # All neighbors of this size, the bug's pair among them: what the bug moves by 2 moves by 1.
        yield _entry(
            f"row distance, signs, tied at {tau0}",
            _tied(tau0),
            lambda: sign_neighbors(5, 3),
            proof="row-distance.md",
            power=0.5,
            covers=RowDistanceTest,
            bugs=(_bug(name, _tied(tau0, wrong), pair),),
        )
    far = np.full((3, 2), 40.0), np.vstack([np.full((1, 2), -40.0), np.full((2, 2), 40.0)])
    yield _entry(
        "spatial sign",
        SpatialSignTest(),
        ball_neighbors,
        proof="spatial-sign.md",
        power=0.5,
        bugs=(
            _bug("projection skipped", NoProjection(), far),
            _bug("sample covariance", _sample_covariance(SpatialSignTest()), (spread, outlier)),
        ),
    )
    skewed = SpatialSignTest(null="product", mean=[0.5, 0.5, 0.5, 0.5])
    ones = np.ones((4, 4))
    yield _entry(
        "spatial sign, product null",
        SpatialSignTest(null="product", mean=[0.9, -0.9]),
        lambda: sign_neighbors(6, 2),
        proof="spatial-sign.md",
        power=0.5,
        bugs=(
            _bug(
                "the widest column for the diagonal",
                WidestColumn(**skewed.get_params()),
                (-ones, np.vstack([ones[:1], -ones[1:]])),
            ),
        ),
    )
    unequal = LipschitzExtensionTest(null="product", mean=[0.5, -0.9], radius=0.05)
    low, high = np.array([[-1.0, 1.0]]), np.array([[1.0, -1.0]])
    yield _entry(
        "l1 extension, product null",
        unequal,
        lambda: sign_neighbors(6, 2),
        proof="lipschitz-extension.md",
        power=0.4,
        bugs=(
            _bug(
                "half the widths",
                HalfWidths(**unequal.get_params()),
                (np.repeat(low, 6, axis=0), np.vstack([high, np.repeat(low, 5, axis=0)])),
            ),
        ),
    )
    for name, test in (
        ("l1 extension, sign rows", LipschitzExtensionTest(rows="sign")),
        ("Lipschitz extension", LipschitzExtensionTest()),
    ):
        yield _entry(
            name,
            test,
            lambda: sign_neighbors(6, 2),
            proof="lipschitz-extension.md",
            power=0.4,
            bugs=(_bug("sample covariance", _sample_covariance(test), (spread, outlier)),)
            if test.rows == "whitened"
            else (),
        )
    for solver in ("exact", "surrogate"):
        yield _entry(
            f"inner products, {solver}",
            LipschitzExtensionTest(constraint="inner_product", solver=solver),
            lambda: sign_neighbors(6, 2),
            proof="lipschitz-extension.md",
            power=0.4,
            bugs=printed_bugs() if solver == "exact" else (),
        )
    staged = {"constants": (0.05, 0.1, 10.0), "epsilon": 2.5}
    yield _entry(
        "Lipschitz extension, staged",
        StagedInnerProductTest(**staged),
        lambda: sign_neighbors(6, 2),
        proof="lipschitz-extension.md",
        power=0.3,
        bugs=(
            _bug(
                "line 11's full epsilon",
                LastStageFullEpsilon(**staged),
                (np.ones((6, 2)), np.vstack([-np.ones((1, 2)), np.ones((5, 2))])),
                200_000,
            ),
        ),
    )
