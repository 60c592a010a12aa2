"""Ellipsoids around most rows, found in rounds: each releases products of rows shrunk into the last ellipsoid.

A row u of norm at most B is extended by constants: v = (a, u), or v = (a, b s, u) with the sign s of its sample. One
stage releases the sum of the matrices v v', which hold the sums of u too. Proof: docs/proofs/ball-products.md.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_integer, check_privacy_parameters
from dpstats.data.rows import Rows, Table, add_sums
from dpstats.data.values import as_int64
from dpstats.errors import refuse
from dpstats.lattice import check_finite_rows
from dpstats.lattice.base import check_region
from dpstats.lattice.products import (
    ROWS,
    BallMap,
    Sums,
    Wanted,
    above_diagonal,
    apply_columns,
    cut_rows,
    finest,
    gram,
    row_bits,
    sum_items,
    sum_mapped,
)
from dpstats.means.moments import Region
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import Block, JointStage
from dpstats.release.additive import JointIntegers, additive_stages
from dpstats.release.estimator import PrivateEstimator
from dpstats.release.session import Released, Session

Floats = NDArray[np.float64]

SIGNED_WEIGHT = 0.1
"""Squared weight of the signed products s u u': only the errors of a difference need them."""
FOURTHS_WEIGHT = 0.1
"""Squared weight of the fourth powers of u: only the errors of variances need them."""
_SAFE = 1 + 1e-12


@dataclass(frozen=True)
class Extension:
    """Rows of the unit ball, extended by constants, as integers whose norm is at most 2^bits."""

    n_features: int
    mean: float  # the constant a, over the radius of the ball
    # The constant b, over the radius of the ball. 0 without signs.
    sign: float
    bits: int
    fourths: bool = False  # whether the fourth powers of the entries are released too
    # Weight of the number of rows outside the ball. 0 without it.
    count: float = 0.0
    # Whether the fourth powers of the norms of the rows are released too. Not with signs or ``fourths``.
    norms: bool = False

    @cached_property
    def constants(self) -> tuple[int, ...]:
        """The constants in steps."""
        unit = 2**self.bits / math.sqrt(1 + self.mean**2 + self.sign**2)
        given = (self.mean, self.sign) if self.sign else (self.mean,)
        return tuple(int(constant * unit) for constant in given)

    @cached_property
    def radius(self) -> int:
        """The radius of the ball in steps: extended rows have a norm of at most 2^bits."""
        return math.isqrt(4**self.bits - sum(constant**2 for constant in self.constants))

    @property
    def size(self) -> int:
        """Number of entries of an extended row."""
        return self.n_features + len(self.constants)

    @property
    def movement(self) -> float:
        """How far replacing one row moves all blocks together, in l2, in units of 4^bits."""
        unit = 2.0**self.bits
        signed = 4 * SIGNED_WEIGHT * (self.radius / unit) ** 4 if self.sign else 0.0
        # The squares of a row, in units of 2^bits, are rounded to integers.
        squares = (self.radius / unit) ** 2 + self.n_features / 2 / unit
        fourths = 2 * FOURTHS_WEIGHT * squares**4 if self.fourths else 0.0
        # Fourth powers of norms cost only the rounding of their squares.
        rounding = (2 * (self.radius / unit) ** 2 + 0.5 / unit) / unit * self._norms_weight if self.norms else 0.0
        return math.hypot(math.sqrt(2 + signed + fourths) + rounding, self.count) * _SAFE

    @property
    def _norms_weight(self) -> float:
        """Weight of the fourth powers of norms: the largest at which they add no cost."""
        return (2.0**self.bits / self.radius) ** 2 / _SAFE

    def integers(self, name: str, n: int, share: float) -> JointIntegers:
        """Return the blocks of the stage for n rows."""
        parts = [(name, self.size, 1.0)]
        if self.sign:
            parts.append((f"{name}, signed", self.n_features, math.sqrt(SIGNED_WEIGHT)))
        unit = 4.0**self.bits
        blocks = []
        for label, size, weight in parts:
            blocks.append(Block(f"{label}, diagonal", size, 1 / unit / n, unit / weight))
            if size > 1:
                above = size * (size - 1) // 2
                blocks.append(Block(f"{label}, above the diagonal", above, 1 / unit / n, unit / weight / math.sqrt(2)))
        if self.fourths:
            weight = math.sqrt(FOURTHS_WEIGHT)
            blocks.append(Block(f"{name}, fourths", self.n_features, 1 / unit / n, unit / weight))
        if self.norms:
            blocks.append(Block(f"{name}, fourth powers of norms", 1, 1 / unit / n, unit / self._norms_weight))
        if self.count:
            blocks.append(Block(f"{name}, outside", 1, 2.0**-self.bits, 2.0**self.bits / self.count))
        return JointIntegers(name, tuple(blocks), math.inf, self.movement, share)

    def sums(self, name: str, rows: Floats, signs: Floats | None = None) -> Sums:
        """Return the sums of a stage over rows of shape (..., rows, n_features), of the unit ball."""
        extended = self._extended(rows.shape[:-1], signs)
        extended[..., len(self.constants) :], outside = _integer_rows(rows, self.radius)
        return self._split(name, self._products(name, extended, signs, outside))

    def quick_sums(
        self, name: str, rows: Floats, to: BallMap, signs: Floats | None, white: Callable[[slice], Floats]
    ) -> Sums:
        """Return the same sums over rows that a map puts into the ball. ``white`` returns some rows of the unit ball.

        The loop leaves out the few rows that need the order of numpy's operations.
        """
        plus = None if signs is None else (signs > 0).astype(np.float64)
        constants = np.array(self.constants, dtype=np.float64)
        powers = self.fourths or self.norms or bool(self.count)
        wanted = Wanted(constants, signs, products=True, weights=plus, bits=self.bits, powers=powers)
        quick = sum_mapped(rows, to, wanted)
        found = {name: quick.products}
        k = len(constants)
        if self.sign:
            # The constants of rows do not have the weights.
            found[f"{name}, signed"] = (2 * quick.weighted - quick.products)[k:, k:]
        if self.fourths:
            found[f"{name}, fourths"] = quick.fourths
        if self.norms:
            found[f"{name}, fourth powers of norms"] = quick.norms
        if self.count:
            found[f"{name}, outside"] = quick.beyond << self.bits
        parts = [self._split(name, found)]
        for block in cut_rows(len(rows)):
            some = quick.left[(quick.left >= block.start) & (quick.left < block.stop)]
            if len(some):
                own = None if signs is None else signs[some]
                parts.append(self.sums(name, white(block)[some - block.start], own))
        return add_sums(parts)

    def _extended(self, shape: tuple[int, ...], signs: Floats | None) -> Floats:
        """Return room for extended rows, with their constants."""
        extended = np.empty((*shape, self.size))
        extended[..., 0] = self.constants[0]
        if self.sign:
            assert signs is not None
            extended[..., 1] = self.constants[1] * signs
        return extended

    def _products(self, name: str, extended: Floats, signs: Floats | None, outside: NDArray[np.bool_]) -> Sums:
        """Return the sums over extended rows, with whole matrices."""
        inside = extended[..., len(self.constants) :]
        found = {name: gram(extended) if extended.ndim == 2 else as_int64(np.swapaxes(extended, -1, -2) @ extended)}
        if self.sign:
            assert signs is not None
            found[f"{name}, signed"] = as_int64(np.swapaxes(inside * signs[:, None], -1, -2) @ inside)
        if self.fourths:
            squares = np.rint(inside**2 * 2.0**-self.bits)
            found[f"{name}, fourths"] = as_int64((squares**2).sum(axis=-2))
        if self.norms:
            norms = np.rint(np.einsum("...ij,...ij->...i", inside, inside) * 2.0**-self.bits)
            found[f"{name}, fourth powers of norms"] = as_int64((norms**2).sum(axis=-1, keepdims=True))
        if self.count:
            found[f"{name}, outside"] = outside.sum(axis=-1, keepdims=True, dtype=np.int64) << self.bits
        return found

    def _split(self, name: str, found: Sums) -> Sums:
        """Return the released parts of the sums."""
        matrices = [each for each in (name, f"{name}, signed") if each in found]
        rest = {each: values for each, values in found.items() if each not in matrices}
        return {part: values for each in matrices for part, values in split_symmetric(each, found[each]).items()} | rest

    def read(self, name: str, released: Mapping[str, Floats], plan: ReleasePlan) -> BallProducts:
        """Return the averages that a stage released, for rows of the unit ball."""
        unit = 2.0**self.bits
        parts = [constant / unit for constant in self.constants]
        parts += [self.radius / unit] * self.n_features
        scale = np.outer(parts, parts)
        k, d, ball = len(self.constants), self.n_features, self.radius / unit
        matrix = join_symmetric(name, released, self.size) / scale
        above = float(np.asarray(plan.noise(f"{name}, diagonal").std)) / math.sqrt(2)
        signed = signed_std = None
        if self.sign:
            signed = join_symmetric(f"{name}, signed", released, d) / ball**2
            signed_std = float(np.asarray(plan.noise(f"{name}, signed, diagonal").std)) / math.sqrt(2) / ball**2
        return BallProducts(
            plan.n_samples,
            matrix[..., 0, k:],
            matrix[..., k:, k:],
            above / (parts[0] * ball),
            above / ball**2,
            matrix[..., 0, 1] if self.sign else None,
            matrix[..., 1, k:] if self.sign else None,
            signed,
            above / (parts[0] * parts[1]) if self.sign else 0.0,
            above / (parts[1] * ball) if self.sign else 0.0,
            signed_std or 0.0,
            np.asarray(released[f"{name}, fourths"]) / ball**4 if self.fourths else None,
            float(np.asarray(plan.noise(f"{name}, fourths").std)) / ball**4 if self.fourths else 0.0,
            np.asarray(released[f"{name}, outside"])[..., 0] if self.count else None,
            float(np.asarray(plan.noise(f"{name}, outside").std)) if self.count else 0.0,
            np.asarray(released[f"{name}, fourth powers of norms"])[..., 0] / ball**4 if self.norms else None,
            float(np.asarray(plan.noise(f"{name}, fourth powers of norms").std)) / ball**4 if self.norms else 0.0,
        )


@dataclass(frozen=True, eq=False)
class BallProducts:
    """Averages over rows u of the unit ball with signs s, from one release; and their noise."""

    n: int
    mean: Floats  # (..., d): averages of u
    products: Floats  # (..., d, d): averages of u u'
    # Standard deviations of the noise; of products above the diagonal, where it is 1/sqrt(2) of the
    # diagonal's.
    mean_std: float
    products_std: float
    sign: Floats | None = None  # averages of s, s u and s u u'
    signed_mean: Floats | None = None
    signed_products: Floats | None = None
    sign_std: float = 0.0
    signed_mean_std: float = 0.0
    signed_products_std: float = 0.0
    fourths: Floats | None = None  # (..., d): averages of the fourth powers of u
    fourths_std: float = 0.0
    outside: Floats | None = None  # (...): number of rows outside the ball
    outside_std: float = 0.0
    norms: Floats | None = None  # (...): averages of the fourth powers of |u|
    norms_std: float = 0.0

    @property
    def covariance(self) -> Floats:
        """Covariances about the mean, without bias from the noise of the mean."""
        d = self.mean.shape[-1]
        centered = self.products - self.mean[..., :, None] * self.mean[..., None, :]
        return np.asarray(centered + self.mean_std**2 * np.eye(d))


def _find_inside_norm(p: int, steps: int) -> float:
    """Return the norm of a row of p entries that becomes at most ``steps`` when it is rounded."""
    return steps - (math.sqrt(p) / 2 + 1)


def _integer_rows(rows: Floats, steps: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Return integer rows whose norm is at most ``steps``, and which rows were outside the unit ball.

    These are moved to its sphere.
    """
    if rows.shape[-2] == 1:
        # A row alone would be summed in another order than one among others.
        found, outside = _integer_rows(np.concatenate([rows, rows], axis=-2), steps)
        return found[..., :1, :], outside[..., :1]
    size = _find_inside_norm(rows.shape[-1], steps)
    with np.errstate(all="ignore"):
        norms = np.sqrt(np.einsum("...ij,...ij->...i", rows, rows))
        far = ~(norms <= 1.0)
        rounded = rows * np.where(far, size / norms, size)[..., None]
        np.rint(rounded, out=rounded)
        # Privacy rests on this check alone. A row that fails it, or is not a number, becomes zero.
        outside = ~(np.einsum("...ij,...ij->...i", rounded, rounded) <= float(steps) ** 2)
    rounded[outside] = 0.0
    return rounded, far


def split_symmetric(name: str, matrix: NDArray[Any]) -> Sums:
    """Return the released parts of symmetric matrices: the diagonals, and the entries above them."""
    d = matrix.shape[-1]
    parts = {f"{name}, diagonal": as_int64(np.diagonal(matrix, axis1=-2, axis2=-1))}
    if d > 1:
        rows, columns = above_diagonal(d)
        parts[f"{name}, above the diagonal"] = as_int64(matrix[..., rows, columns])
    return parts


def join_symmetric(name: str, released: Mapping[str, Floats], d: int) -> Floats:
    """Return the symmetric matrices of a release."""
    diagonal = np.asarray(released[f"{name}, diagonal"], dtype=np.float64)
    matrix = diagonal[..., :, None] * np.eye(d)
    if d > 1:
        rows, columns = above_diagonal(d)
        matrix[..., rows, columns] = matrix[..., columns, rows] = released[f"{name}, above the diagonal"]
    return matrix


ROUND_SHARES = (0.05, 0.05, 0.05)
"""Fraction of the squared mu for each round."""
ROUND_MEAN = 0.5
"""The constant of an extended row in a round, over the radius of the ball."""
_TOGETHER = 48 * ROWS
"""Number of rows whose few exceptional members are added together."""
_MOST = 1e6
"""Limit in half-widths. Entries further from the center are moved to it, so that products stay in floating point."""
WIDER, LEAST_SIGNAL = 1.6, 0.3
"""Squared radius of a ball over the expected squared norm of a white row, and least value of the latter over d."""


@dataclass(frozen=True, eq=False)
class Ellipsoid:
    """Public center, whitening matrix and expected size of the white rows."""

    center: Floats  # (..., d): center in half-widths about the public center
    whitening: Floats  # (..., d, d): a white row is whitening (z - center)
    unwhitening: Floats
    signal: Floats  # (...): estimate of the expected squared norm of a white row

    @classmethod
    def first(cls, d: int) -> Ellipsoid:
        """Return the ball that holds the box of the bounds."""
        return cls(np.zeros(d), np.eye(d), np.eye(d), np.asarray(d / WIDER))

    @property
    def n_features(self) -> int:
        return int(self.center.shape[-1])

    def squared_radius(self, factor: float = WIDER) -> Floats:
        """Return the squared radius of a ball for white rows: ``factor`` times their expected squared norm."""
        return np.asarray(factor * np.maximum(self.signal, LEAST_SIGNAL * self.n_features))

    @cached_property
    def is_white(self) -> bool:
        """Whether white rows are the rows about the center, so that both can be the same array."""
        return np.array_equal(self.whitening, np.eye(self.n_features))

    def white_rows(self, Z: Floats, radius: Floats, work: Sequence[Floats | None] = (None, None)) -> Floats:
        """Return rows as white rows in units of ``radius``: shape (..., rows, d). ``work`` is overwritten."""
        shifted = np.clip(Z, -_MOST, _MOST, out=work[0])
        if self.center.ndim == 1:
            apply_columns(np.subtract, shifted.reshape(-1, self.n_features), self.center)
        else:
            shifted = shifted - self.center[..., None, :]
        return self.whiten(shifted, radius, work[1])

    def whiten(self, shifted: Floats, radius: Floats, out: Floats | None = None) -> Floats:
        """Return rows about the center as white rows in units of ``radius``."""
        white = shifted
        if not self.is_white:
            white = np.asarray(np.matmul(shifted, np.swapaxes(self.whitening, -1, -2), out=out))
        white /= radius[..., None, None]
        return white

    def follow(self, found: BallProducts, radius: Floats, fixed: bool) -> Ellipsoid:
        """Return the next ellipsoid, from the products that a round released; ``fixed`` keeps the center."""
        d, square = self.n_features, radius[..., None, None] ** 2
        matrix = (found.products if fixed else found.covariance) * square
        values, vectors = np.linalg.eigh(matrix)
        positive = np.maximum(values, 0.0)
        # Directions that only noise fills keep the size of the noise.
        size = positive + math.sqrt(2 * d) * found.products_std * radius[..., None] ** 2
        root = np.sqrt(size)
        turned = np.swapaxes(vectors, -1, -2)
        center = self.center
        if not fixed:
            moved = self.unwhitening @ (found.mean * radius[..., None])[..., None]
            center = np.clip(center + moved[..., 0], -1.0, 1.0)
        return Ellipsoid(
            center,
            turned / root[..., :, None] @ self.whitening,
            self.unwhitening @ vectors * root[..., None, :],
            np.asarray((positive / size).sum(axis=-1)),
        )


def round_extension(d: int, bits: int) -> Extension:
    """Return the extension of rows in a round."""
    return Extension(d, ROUND_MEAN, 0.0, bits)


def round_names(count: int = len(ROUND_SHARES)) -> tuple[str, ...]:
    """Return the names of the stages of the rounds."""
    return tuple(f"round {t + 1}" for t in range(count))


LAST_SHARE = 1 - sum(ROUND_SHARES)


class Frame(NamedTuple):
    """Public: the center and the half-widths in which rows are measured, and how they are treated."""

    center: Floats  # shape (n_features,)
    half: Floats
    # Whether rows are first clipped to the bounds, which are then ``center`` plus and minus ``half``.
    clipped: bool
    fixed: bool  # whether ellipsoids stay at ``center``
    hard: bool  # whether rows lie inside the bounds by nature
    filled: bool = False  # whether a missing entry is replaced by the center of the ellipsoid


class Step(NamedTuple):
    """A stage of a walk: its name, how rows are extended, and the ellipsoid and the radius they are shrunk to."""

    name: str
    extension: Extension
    ellipsoid: Ellipsoid
    radius: Floats


Walk = Callable[[Step], BallProducts]


class PrivateRows(NamedTuple):
    """Private: the checked rows, and the sums of the first round, whose ellipsoid is public."""

    rows: Rows
    first: Sums


@dataclass(frozen=True)
class EllipsoidPlan(ReleasePlan, ABC):
    """Base class of the plans whose first stages find an ellipsoid."""

    frame: Frame = field(repr=False, compare=False)  # public center and half-widths of the rows
    bits: int  # extended rows have norms of at most 2^bits steps
    n_rounds: int = field(default=len(ROUND_SHARES), kw_only=True)

    @abstractmethod
    def walk(self, release: Walk) -> Any:
        """Go through all stages, in order; ``release`` returns what the stage of a step releases."""

    @property
    def first_step(self) -> Step:
        """The step of the first round, which no release precedes."""
        return self._round(round_names()[0], Ellipsoid.first(self.n_features))

    def _round(self, name: str, found: Ellipsoid) -> Step:
        radius = np.sqrt(found.squared_radius())
        return Step(name, round_extension(self.n_features, self.bits), found, radius)

    def find(self, release: Walk) -> Ellipsoid:
        """Return the ellipsoid that the rounds find."""
        return self.find_all(release)[-1]

    def find_all(self, release: Walk) -> list[Ellipsoid]:
        """Return the ellipsoid that each round finds."""
        found = [Ellipsoid.first(self.n_features)]
        for name in round_names(self.n_rounds):
            step = self._round(name, found[-1])
            found.append(found[-1].follow(release(step), step.radius, self.frame.fixed))
        return found[1:]

    def reading(self, released: Released) -> Walk:
        """Return the walk of a report."""
        return lambda step: step.extension.read(step.name, released[step.name], self)


Made = TypeVar("Made", bound=EllipsoidPlan)


@dataclass(frozen=True, eq=False)
class _ShrunkRows:
    """The sums of a step over some rows."""

    frame: Frame
    step: Step

    def __call__(self, table: Table) -> Sums:
        X, codes = table.X, table.groups
        signs = None if codes is None else np.where(codes == 0, 1.0, -1.0)
        to = self._map
        quick = to is not None and to.serves(X)

        def block(where: slice) -> Sums:
            rows, own = X[where], None if signs is None else signs[where]
            if not quick:
                return self.step.extension.sums(self.step.name, self._white(rows), own)
            assert to is not None
            rows = np.ascontiguousarray(rows, dtype=np.float64)
            return self.step.extension.quick_sums(self.step.name, rows, to, own, lambda some: self._white(rows[some]))

        return sum_items(block, cut_rows(len(X), _TOGETHER if quick else ROWS), X.size)

    @cached_property
    def _map(self) -> BallMap | None:
        """The map of rows into the ball. None if there are several balls, or missing entries."""
        frame, found, extension = self.frame, self.step.ellipsoid, self.step.extension
        if frame.filled or found.whitening.ndim > 2:
            return None
        matrix = found.whitening / self.step.radius
        p, steps = extension.n_features, extension.radius
        limit = 1.0 if frame.clipped else _MOST
        ends = -matrix @ found.center, _find_inside_norm(p, steps), 1.0, steps
        return BallMap(matrix, *ends, frame.center, 1 / frame.half, limit, exact=False)

    def _white(self, X: NDArray[Any]) -> Floats:
        """Return rows as white rows of the unit ball."""
        frame, step = self.frame, self.step
        # One allocation: the memory of several is given back to the system, and cleared again, after every block.
        X = np.asarray(X, dtype=np.float64)
        Z, *work = np.empty((3, *X.shape))
        Z[:] = X
        apply_columns(np.subtract, Z, frame.center)
        apply_columns(np.divide, Z, frame.half)
        if frame.filled:
            Z = np.where(np.isfinite(X), Z, step.ellipsoid.center[..., None, :])
        if frame.clipped:
            np.clip(Z, -1.0, 1.0, out=Z)
        own = work if step.ellipsoid.whitening.shape == 2 * X.shape[1:] else (None, None)
        return step.ellipsoid.white_rows(Z, step.radius, own)


def shrunk_sums(rows: Rows, frame: Frame, step: Step) -> Sums:
    """Return the integers that the stage of a step releases."""
    return rows.total(_ShrunkRows(frame, step))


def read_rows(rows: Rows, plan: EllipsoidPlan) -> PrivateRows:
    """Return the rows and the sums of the first round, or refuse the rows."""
    if not plan.frame.filled:
        check_finite_rows(rows)
    return PrivateRows(rows, shrunk_sums(rows, plan.frame, plan.first_step))


def release_rows(private: PrivateRows, plan: EllipsoidPlan, session: Session) -> None:
    """Release every stage, each about an ellipsoid that earlier ones released."""

    def release(step: Step) -> BallProducts:
        first = step.name == plan.first_step.name
        sums = private.first if first else shrunk_sums(private.rows, plan.frame, step)
        released = session.add(step.name, sums)
        return step.extension.read(step.name, released, plan)

    plan.walk(release)


Plan = TypeVar("Plan", bound=EllipsoidPlan)


def plan_rounds(
    n: int,
    guarantee: PrivacyGuarantee,
    shares: Sequence[float],
    last: Callable[[int], Sequence[tuple[str, Extension, float]]],
    made: Callable[[tuple[JointStage, ...], int], Plan],
) -> Plan:
    """Return the plan of the rounds and of the last stages, on the finest lattice that serves."""

    def calibrate(bits: int) -> Plan:
        d = last(bits)[0][1].n_features
        rounds = [
            round_extension(d, bits).integers(name, n, share)
            for name, share in zip(round_names(len(shares)), shares, strict=True)
        ]
        items = [extension.integers(name, n, share) for name, extension, share in last(bits)]
        stages = additive_stages([*rounds, *items], guarantee.epsilon, guarantee.delta)
        return made(tuple(s for s in stages if isinstance(s, JointStage)), bits)

    return finest(calibrate, row_bits(n))


def gaussian_guarantee(epsilon: Any, delta: Any) -> PrivacyGuarantee:
    """Return the guarantee of a release with Gaussian noise, or refuse a delta of 0."""
    checked = check_privacy_parameters(epsilon, delta)
    if checked[1] == 0:
        allowed, remedy = "greater than 0 for Gaussian noise", "Set delta=1e-6, for example."
        raise refuse("delta", given=delta, allowed=allowed, remedy=remedy)
    return PrivacyGuarantee(*checked)


def check_box(bounds: Any, bounds_are: Any, d: int) -> tuple[Floats, Floats, bool]:
    """Return the public bounds of the columns, and whether they are hard."""
    region = Region.check(bounds, bounds_are, None, 0.0, d)
    low, high = region.ends(d)
    check_region(high / 2 - low / 2, low / 2 + high / 2)
    return low, high, region.hard


class EllipsoidEstimator(PrivateEstimator[Plan], ABC):
    """Base class of the estimators whose first stages find an ellipsoid."""

    bounds: Any
    bounds_are: str

    @abstractmethod
    def plan(self, n_samples: int, n_features: int) -> Plan:
        """Return the release plan of a fit on data of this size. It sees no data."""

    def _fill(self, d: int) -> Floats:
        low, high, _ = self._region(d)
        return low / 2 + high / 2

    def _read(self, rows: Rows, plan: Plan) -> PrivateRows:
        return read_rows(rows, plan)

    def _release(self, private: PrivateRows, plan: Plan, session: Session) -> None:
        release_rows(private, plan, session)

    def _region(self, d: int) -> tuple[Floats, Floats, bool]:
        """Return the public bounds of the columns, and whether they are hard."""
        return check_box(self.bounds, self.bounds_are, d)

    def _sizes(self, n_samples: Any, n_features: Any) -> tuple[int, int, PrivacyGuarantee]:
        n = check_integer("n_samples", n_samples, at_least=2)
        d = check_integer("n_features", n_features, at_least=1)
        return n, d, gaussian_guarantee(self.epsilon, self.delta)
