"""The plan of an adaptive mean, and where the mean is for all that it released.

Proof: docs/intervals/adaptive-mean.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_columns
from dpstats.lattice import NormedLattice
from dpstats.means.bias_aware import biased_normal_quantile
from dpstats.means.boxed_errors import DeclaredBox
from dpstats.means.following import Course
from dpstats.means.moments import frozen
from dpstats.means.screen import Screen
from dpstats.means.staging import Known, Setting, Staging
from dpstats.means.whitening import Shape
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import JointStage
from dpstats.release.session import Released

Numbers = NDArray[np.float64]

ASSUMPTIONS = {
    "subgaussian": (
        "the tails of the rows are at most as heavy as normal ones of the stated standard deviation, in each column "
        "and in the distance from the mean"
    ),
    "symmetric": (
        "the rows are symmetric about the mean, and at least as concentrated about it as normal ones of the stated "
        "standard deviation"
    ),
    "variance": "the stated standard deviation is an upper bound, and nothing else",
}
"""The assumption about the rows that each value of ``tails`` makes, as text."""
_OWN = "normal ones of the rows' own standard deviation"
OWN_SPREAD = {
    name: words.replace("normal ones of the stated standard deviation", _OWN)
    for name, words in ASSUMPTIONS.items()
}
"""The assumptions if the balls follow the standard deviation of the rows."""

SUMS, SQUARED_NORMS, OUTSIDE = "mean", "squared norm", "clipped rows"


@dataclass(frozen=True)
class AdaptiveMeanPlan(DeclaredBox, ReleasePlan):
    """The plan of an `AdaptiveMean`: its stages, and how they are averaged. All of it is public.

    Quantities in whitened units (every column has standard deviation 1) are said to be so.
    """

    lattices: tuple[NormedLattice, ...] = field(repr=False, compare=False)
    staging: Staging = field(repr=False)  # shares, clip radii and bias bounds of the stages, whitened
    # Inverse of the bound on ||mu||^2/d, whitened and about ``middle``: what the next center is shrunk by.
    prior: float = field(repr=False)
    # The box for the mean: its center, and how far the mean may be from it.
    middle: float | tuple[float, ...]
    bound: float | tuple[float, ...]
    hard: bool  # whether the rows lie in the box too
    std: float | tuple[float, ...]  # upper bounds on the standard deviation of the columns
    # Whether the sampling error is computed from the released standard deviation, and not from these.
    private_std: bool
    shape: Shape = field(repr=False, compare=False)
    tails: str
    missing: str
    # Reason for not releasing the covariance, although ``cov="private"`` requested it. Otherwise empty.
    fallback: str = ""

    @property
    def assumption(self) -> str:
        """The assumption of ``tails`` about the rows, as text."""
        return (OWN_SPREAD if self.follows else ASSUMPTIONS)[self.tails]

    def facts(self) -> dict[str, Any]:
        """Return facts about the plan that its stages do not show, by name."""
        route = {"route": "columns"} if self.fallback else {}
        return {**route, "tails": self.tails, "assumption": self.assumption}

    def notes(self) -> list[str]:
        """Return the facts as text, one line each."""
        error, half = self._planned()
        notes = [self.fallback] if self.fallback else []
        notes += [
            f"assumes that {self.assumption}",
            f"root mean squared error of a column: at most about {error:.2g} stated sd; half-width of a 95% interval "
            f"that makes this assumption: about {half:.2g}",
        ]
        if self.follows:
            notes.append(
                "the balls follow the released standard deviation: radii and noise are at most the printed values, at "
                "std_bound"
            )
        if self.screen is not None:
            rows, shift = self.screen.unnoticed
            notes.append(
                f"counts the rows that its last stage clips: fewer than {rows:,} would not be noticed, and could move "
                f"a mean by up to {shift:.2g} sd"
            )
        return notes + self.warnings()

    def _planned(self) -> tuple[float, float]:
        """Return bounds on the error of a column and on the half-width of its interval, whitened."""
        random = math.sqrt(self.sampling_variance + self.noise_variance)
        half = random * float(biased_normal_quantile(0.025, self.bias / random))
        most = float(np.max(self.half / self.stds))
        return min(math.hypot(random, self.bias), most / math.sqrt(3)), min(half, most)

    def warnings(self) -> list[str]:
        """Return the reasons to reconsider the plan before any budget is spent."""
        noisy = int(np.count_nonzero(math.sqrt(self.noise_variance) * self.stds > self.half / math.sqrt(3)))
        if not noisy:
            return []
        columns = "the column" if self.n_features == 1 else f"{noisy} of {self.n_features} columns"
        return [
            f"the noise of {columns} exceeds bound/sqrt(3), the error of reporting the middle of the box: more "
            "rows, a larger epsilon or a narrower box are needed to learn anything"
        ]

    @property
    def law(self) -> str:
        """The distribution of the noise: "gaussian" or "laplace"."""
        return self.last.noise

    def last_noise_std(self, name: str) -> float:
        """Return the standard deviation of the noise of a block of the last stage."""
        (block,) = [block for block in self.last.blocks if block.name == name]
        return float(np.max(self.last.noise_std(block)))

    @property
    def last(self) -> JointStage:
        """The last stage, which releases more than sums."""
        stage = self.stages[-1]
        assert isinstance(stage, JointStage)
        return stage

    @cached_property
    def precisions(self) -> tuple[float, ...]:
        """Inverse noise variance of each stage's estimate, whitened."""
        # A step of a lattice is 2^-bits of its radius, in any units.
        laws = zip(self.stages, self.lattices, self.staging.radii, self.staging.slopes, strict=True)
        return tuple(
            (slope * self.n_samples / (radius * 2.0**-lattice.bits * _sum_scale(stage))) ** 2
            / (2 if self.law == "laplace" else 1)
            for stage, lattice, radius, slope in laws
        )

    @property
    def follows(self) -> bool:
        """Whether the radii follow the released standard deviation; the planned radii are then the largest."""
        return bool(self.staging.points)

    @cached_property
    def course(self) -> Course:
        """The public numbers that radii are computed from, if they follow the released standard deviation."""
        n, d, staging = self.n_samples, self.n_features, self.staging
        laplace = self.law == "laplace"
        setting = Setting.build(n, d, 1 / self.prior, self.reach2, laplace=laplace)
        units = [
            slope**2 / (precision * radius**2)
            for slope, precision, radius in zip(staging.slopes, self.precisions, staging.radii, strict=True)
        ]
        weight = self.lattices[-1].free_weight("l1" if laplace else "l2")
        return Course(setting, self.tails, units, staging.points, weight)

    def realized(
        self,
        scales: Sequence[float],  # the radii over the planned ones
        variance: float = 1.0,  # upper limit of the variance of a column, whitened
    ) -> AdaptiveMeanPlan:
        """Return the plan with the radii of one release, and the bounds that hold for rows of a variance."""
        radii = tuple(scale * radius for scale, radius in zip(scales, self.staging.radii, strict=True))
        biases, spreads = self.course.bounds(radii, variance)
        staging = replace(self.staging, radii=radii, biases=tuple(biases), spreads=tuple(spreads))
        stages = tuple(_resize(stage, scale) for stage, scale in zip(self.stages, scales, strict=True))
        return replace(self, stages=stages, staging=staging)

    @cached_property
    def weights(self) -> Numbers:
        """Weights of the stages in the estimate; they add up to 1."""
        return np.array(self.precisions) / math.fsum(self.precisions)

    @property
    def noise_variance(self) -> float:
        """Variance of the noise in a column of the estimate, whitened."""
        return 1 / math.fsum(self.precisions)

    @property
    def sampling_variance(self) -> float:
        """Bound on the sampling variance of a column of the estimate, whitened, at the stated standard deviation."""
        return self.sampling_at(1.0)

    def sampling_at(self, variance: float) -> float:
        """Return the bound on the sampling variance for rows of this variance, whitened."""
        spreads = np.array(self.staging.spreads)
        if variance != 1.0:
            # The stages' bounds exceed the standard deviation of the rows by the error of the centers.
            own = math.sqrt(variance) / np.array(self.staging.slopes)
            spreads = np.hypot(own, np.sqrt(np.maximum(spreads**2 - 1, 0.0)))
        return float(self.weights @ spreads) ** 2 / self.n_samples

    @property
    def bias(self) -> float:
        """Bound on the bias of a column of the estimate under the stated ``tails``, whitened."""
        return float(self.weights @ np.array(self.staging.biases))

    @property
    def reach2(self) -> float:
        """Bound on the square of a column's mean about ``middle``, whitened."""
        return float(np.max(self.half / self.stds)) ** 2

    @cached_property
    def screen(self) -> Screen | None:
        """What the count of clipped rows is judged by, where there is one."""
        if all(block.name != OUTSIDE for block in self.last.blocks):
            return None
        known = math.fsum(self.precisions[:-1]) + self.prior
        return Screen(
            self.n_samples,
            self.n_features,
            self.staging.radii[-1],
            1 / self.n_samples + 1 / known,
            self.law,
            self.last_noise_std(OUTSIDE),
        )

    def average(self, estimates: Sequence[Numbers]) -> Numbers:
        """Return the average of the first stages' estimates, each of shape (..., n_features)."""
        precisions, values = np.array(self.precisions[: len(estimates)]), np.array(estimates)
        weights = (precisions / precisions.sum())[None]
        result: Numbers = (weights @ values.reshape(len(estimates), -1)).reshape(values.shape[1:])
        return result

    def center(self, estimates: Sequence[Numbers], scales: Sequence[Any] = ()) -> Numbers:
        """Return the center of the next stage: the average so far, shrunk by the bound on the mean's size.

        ``scales`` are the ratios of the radii to the planned radii, if they follow the released standard deviation.
        """
        middle = np.full(self.n_features, self.middle)
        if not estimates:
            return middle
        if self.follows:
            precisions = [
                p / np.square(scale)[..., None] for p, scale in zip(self.precisions, scales, strict=False)
            ]
            total = sum(p * (m - middle) for p, m in zip(precisions, estimates, strict=True))
            return np.asarray(middle + total / (sum(precisions) + self.prior))
        known = math.fsum(self.precisions[: len(estimates)])
        return np.asarray(middle + known / (known + self.prior) * (self.average(estimates) - middle))

    def trail(self, released: Released) -> Trail:
        """Return the stages of a release, one after the other."""
        trail = Trail(self)
        for stage in self.stages:
            trail.add(released[stage.name])
        return trail

    def expected_error(self, std: float | Numbers | None = None) -> float:
        """Return an upper bound on the expected squared l2 error, under the stated ``tails``.

        Parameters
        ----------
        std : float or array of shape (n_features,), optional
            Actual standard deviation of the columns, for the sampling error (default: the public bound).

        Returns
        -------
        float
            Sampling variance, noise variance and squared bias bound, added over the columns. If noise dominates, the
            sum is at most the error of reporting the middle of the box, on average over the box. Bounds on the bias
            are seldom attained: under "variance" the actual error can be several times smaller.
        """
        squares = self.stds**2
        sampling = self.sampling_variance * squares
        noise, bias = self.noise_variance, self.bias
        if std is not None:
            actual = check_columns("std", std, self.n_features, at_least=0)
            sampling = np.broadcast_to(np.asarray(actual) ** 2 / self.n_samples, squares.shape)
            if self.follows:
                variance = float(np.mean(np.minimum(np.asarray(actual) ** 2 / squares, 1.0)))
                known, _ = self.course.follow(variance)
                noise, bias = 1 / float(known.info), float(known.bias_one)
        error = sampling + (noise + bias**2) * squares
        return float(np.sum(np.minimum(error, self.half**2 / 3)))


class Trail:
    """The stages of a release so far, or of a batch of releases: where the next ball is, and how large.

    Attributes
    ----------
    estimates : list of array of shape (..., n_features)
        The estimate of the mean of every stage: its center, plus the released mean about that center.
    scales : list of float or array
        Their radii over the planned ones.
    """

    def __init__(self, plan: AdaptiveMeanPlan) -> None:
        self._plan = plan
        self.estimates: list[Numbers] = []
        self.scales: list[Any] = []
        self._known, self._variance = Known(*np.zeros(4)), 1.0

    def ahead(self) -> tuple[Numbers, Any]:
        """Return the center of the next ball, and its radius over the planned one."""
        plan, t = self._plan, len(self.estimates)
        center = plan.center(self.estimates, self.scales)
        if not plan.follows or not t:
            return center, 1.0
        return center, plan.course.radius(t, self._known, self._variance) / plan.staging.radii[t]

    def add(self, released: Any) -> None:
        """Take in what the next stage released, in the units of the plan."""
        plan, t = self._plan, len(self.estimates)
        center, scale = self.ahead()
        shift = released[SUMS] if isinstance(released, Mapping) else released
        if plan.follows:
            shift = shift * np.asarray(scale)[..., None]
        self.estimates.append(center + plan.shape.unwhiten(shift) / plan.staging.slopes[t])
        self.scales.append(scale)
        if plan.follows:
            course, radius = plan.course, scale * plan.staging.radii[t]
            self._known = course.after(t, self._known, radius, self._variance)
            white = plan.shape.whiten(shift)
            square = released[SQUARED_NORMS][..., 0] * np.square(scale)
            self._variance = course.upper_variance(t, radius, np.sum(white * white, axis=-1), square)


def _resize(stage: Any, scale: float) -> Any:
    """Return a joint stage in the units of a ball that is ``scale`` times as large."""
    factors = {SUMS: scale, SQUARED_NORMS: scale**2, OUTSIDE: 1.0}
    blocks = tuple(
        replace(block, spacing=frozen(np.asarray(block.spacing) * factors[block.name]))
        for block in stage.blocks
    )
    return replace(stage, blocks=blocks)


def _sum_scale(stage: Any) -> float:
    """Return the scale of the noise of a stage's sums, in steps."""
    return stage.scale_steps(stage.blocks[0]) if isinstance(stage, JointStage) else stage.scale_steps
