from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np

from dpstats.data.parameters import check_integer, check_privacy_parameters
from dpstats.data.tables import Rows, Table
from dpstats.errors import refuse
from dpstats.lattice import check_finite_rows
from dpstats.lattice.base import check_region
from dpstats.lattice.products import Sums, apply_columns, finest, row_bits, summed
from dpstats.means.ball_products import BallProducts, Extension, Floats
from dpstats.means.ellipsoids import ROUND_SHARES, Ellipsoid, round_extension, round_names
from dpstats.means.region import Region
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import JointStage
from dpstats.release.additive import additive_stages
from dpstats.release.estimator import PrivateEstimator
from dpstats.release.session import Released, Session

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

        def block(where: slice) -> Sums:
            own = None if signs is None else signs[where]
            return self._block(np.asarray(X[where], dtype=np.float64), own)

        return summed(block, *X.shape)

    def _block(self, X: Floats, signs: Floats | None) -> Sums:
        frame, step = self.frame, self.step
        # One allocation: the memory of several is given back to the system, and cleared again, after every block.
        Z, *work = np.empty((3, *X.shape))
        Z[:] = X
        apply_columns(np.subtract, Z, frame.center)
        apply_columns(np.divide, Z, frame.half)
        if frame.filled:
            Z = np.where(np.isfinite(X), Z, step.ellipsoid.center[..., None, :])
        if frame.clipped:
            np.clip(Z, -1.0, 1.0, out=Z)
        own = work if step.ellipsoid.whitening.shape == 2 * X.shape[1:] else (None, None)
        return step.extension.sums(step.name, step.ellipsoid.white_rows(Z, step.radius, own), signs)


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
