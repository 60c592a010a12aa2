"""The plan of an adaptive mean: its stages, how they are averaged, and how it checks what it assumes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_columns
from dpstats.lattice import NormedLattice, NormSums
from dpstats.means.bias_aware import biased_normal_quantile
from dpstats.means.screen import Screen
from dpstats.means.staging import Staging
from dpstats.means.whitening import Shape
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.rounding import up
from dpstats.privacy.stages import Block, JointStage
from dpstats.release.additive import JointIntegers
from dpstats.release.session import Released

Numbers = NDArray[np.float64]

ASSUMPTIONS = {
    "subgaussian": (
        "the tails of the rows are no heavier than normal ones of the stated spread, in each column and in the "
        "distance from the mean"
    ),
    "symmetric": (
        "the rows are symmetric about the mean, and no less gathered about it than normal ones of the stated spread"
    ),
    "variance": "the stated spread is an upper bound, and nothing else",
}
"""What ``tails`` assumes about the rows, in words."""

SUMS, SQUARED_NORMS, OUTSIDE = "mean", "squared norm", "clipped rows"

# Shares of the last stage that the count of clipped rows may take, and how much wider it may make the interval.
_COUNT_SHARES = (0.4, 0.3, 0.25, 0.2, 0.15, 0.12, 0.1, 0.08, 0.06, 0.05, 0.04, 0.03, 0.02, 0.01)
_WIDER = 1.02


@dataclass(frozen=True)
class AdaptiveMeanPlan(ReleasePlan):
    """The plan of an `AdaptiveMean`: its stages, and how they are averaged. All of it is public.

    Quantities in whitened units (every column has standard deviation 1) are said to be so.

    Attributes
    ----------
    staging : Staging
        Shares, clip radii and bias bounds of the stages, whitened.
    prior : float
        Inverse of the bound on ||mu||^2/d, whitened and about ``middle``: what the next centre is shrunk by.
    middle, bound : float or tuple of float
        The box for the mean: its centre, and how far the mean may be from it.
    hard : bool
        Whether the rows lie in the box too.
    std : float or tuple of float
        Upper bounds on the standard deviation of the columns.
    private_std : bool
        Whether the sampling error is judged from the released spread, and not from these.
    """

    lattices: tuple[NormedLattice, ...] = field(repr=False, compare=False)
    staging: Staging = field(repr=False)
    prior: float = field(repr=False)
    middle: float | tuple[float, ...]
    bound: float | tuple[float, ...]
    hard: bool
    std: float | tuple[float, ...]
    private_std: bool
    shape: Shape = field(repr=False, compare=False)
    tails: str
    missing: str

    @property
    def assumption(self) -> str:
        """What ``tails`` assumes about the rows, in words."""
        return ASSUMPTIONS[self.tails]

    def facts(self) -> dict[str, Any]:
        """Return what a reader of the plan has to know beside its stages, by name."""
        return {"tails": self.tails, "assumption": self.assumption}

    def notes(self) -> list[str]:
        """Return the same in words, one line each."""
        notes = [f"assumes that {self.assumption}"]
        if self.screen is not None:
            rows, shift = self.screen.unnoticed
            notes.append(
                f"counts the rows that its last stage clips: fewer than {rows:,} would not be noticed, and could move "
                f"a mean by up to {shift:.2g} sd"
            )
        return notes + self.warnings()

    def warnings(self) -> list[str]:
        """Return what should make one think again before spending anything."""
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
        """The law of the noise: "gaussian" or "laplace"."""
        return self.last.noise

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
        """Bound on the sampling variance of a column of the estimate, whitened, at the stated spread."""
        return self.sampling_at(1.0)

    def sampling_at(self, variance: float) -> float:
        """Return the bound on the sampling variance for rows of this variance, whitened."""
        spreads = np.array(self.staging.spreads)
        if variance != 1.0:
            # What the stages' bounds add to the rows' own spread is the error of their centres.
            own = math.sqrt(variance) / np.array(self.staging.slopes)
            spreads = np.hypot(own, np.sqrt(np.maximum(spreads**2 - 1, 0.0)))
        return float(self.weights @ spreads) ** 2 / self.n_samples

    @property
    def bias(self) -> float:
        """Bound on the bias of a column of the estimate under the stated ``tails``, whitened."""
        return float(self.weights @ np.array(self.staging.biases))

    @property
    def stds(self) -> Numbers:
        """``std`` as an array of shape (n_features,)."""
        return np.full(self.n_features, self.std)

    @property
    def half(self) -> Numbers:
        """``bound`` as an array of shape (n_features,)."""
        return np.full(self.n_features, self.bound)

    @property
    def box(self) -> tuple[Numbers, Numbers]:
        """The ends of the box for the mean."""
        return self.middle - self.half, self.middle + self.half

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
            float(self.noise(OUTSIDE).std),
        )

    def average(self, estimates: Sequence[Numbers]) -> Numbers:
        """Return the average of the first stages' estimates, each of shape (..., n_features)."""
        precisions, values = np.array(self.precisions[: len(estimates)]), np.array(estimates)
        weights = (precisions / precisions.sum())[None]
        result: Numbers = (weights @ values.reshape(len(estimates), -1)).reshape(values.shape[1:])
        return result

    def center(self, estimates: Sequence[Numbers]) -> Numbers:
        """Return the centre of the next stage: the average so far, shrunk by what is known of the mean's size."""
        middle = np.full(self.n_features, self.middle)
        if not estimates:
            return middle
        known = math.fsum(self.precisions[: len(estimates)])
        return np.asarray(middle + known / (known + self.prior) * (self.average(estimates) - middle))

    def estimates(self, released: Released) -> list[Numbers]:
        """Return the estimate of the mean of every stage: its centre, and what was released about it."""
        made: list[Numbers] = []
        for t, stage in enumerate(self.stages):
            made.append(self.estimate(t, self.center(made), released[stage.name]))
        return made

    def estimate(self, t: int, center: Numbers, released: Any) -> Numbers:
        """Return the estimate of stage t, from what it released about a centre."""
        shift = released[SUMS] if isinstance(released, Mapping) else released
        return center + self.shape.unwhiten(shift) / self.staging.slopes[t]

    def expected_error(self, std: float | Numbers | None = None) -> float:
        """Return an upper bound on the expected squared l2 error, under the stated ``tails``.

        Parameters
        ----------
        std : float or array of shape (n_features,), optional
            Actual standard deviation of the columns, for the sampling error (default: the public bound).

        Returns
        -------
        float
            Sampling variance, noise variance and squared bias bound, added over the columns; where noise dominates,
            no more than what reporting the middle of the box costs on average over the box. Bounds on the
            bias are seldom attained: under "variance" the actual error can be several times smaller.
        """
        squares = self.stds**2
        sampling = self.sampling_variance * squares
        if std is not None:
            actual = check_columns("std", std, self.n_features, at_least=0)
            sampling = np.broadcast_to(np.asarray(actual) ** 2 / self.n_samples, squares.shape)
        error = sampling + (self.noise_variance + self.bias**2) * squares
        return float(np.sum(np.minimum(error, self.half**2 / 3)))


def _sum_scale(stage: Any) -> float:
    """Return the scale of the noise of a stage's sums, in steps."""
    return stage.scale_steps(stage.blocks[0]) if isinstance(stage, JointStage) else stage.scale_steps


def last_integers(
    name: str,
    lattice: NormedLattice,
    radius: float,
    step: Any,
    n: int,
    share: float,
    count_share: float,
    noise: str,
) -> JointIntegers:
    """Return what the last stage is about: the mean; squared norms, which are free; and clipped rows.

    Parameters
    ----------
    radius : float
        Of the ball, whitened: squared norms are released in these units.
    step : float or array of shape (n_features,)
        A step of the sums, over n.
    share, count_share : float
        The stage's part of the privacy, and the count's part of that; 0 is no count.
    """
    norm = "l1" if noise == "laplace" else "l2"
    weight = lattice.free_weight(norm)
    fine = 2.0**-lattice.bits
    frozen = float(step) if np.ndim(step) == 0 else tuple(np.asarray(step).tolist())
    blocks = [
        Block(SUMS, lattice.n_features, frozen, 1.0),
        Block(SQUARED_NORMS, 1, radius**2 * fine / n, up(1 / Fraction(weight))),
    ]
    odds, count_weight = count_share / (1 - count_share), 0.0
    if count_share:
        # The noise of everything else grows by 1/sqrt(1 - share), or 1/(1 - share).
        count_weight = 2 * math.sqrt(lattice.n_features) * odds if noise == "laplace" else 2 * math.sqrt(odds)
        blocks.append(Block(OUTSIDE, 1, fine, up(1 / Fraction(count_weight))))
    sensitivity = {kind: lattice.norm_sensitivity(kind, weight, count_weight) for kind in (norm,)}
    return JointIntegers(
        name, tuple(blocks), sensitivity.get("l1", math.inf), sensitivity.get("l2", math.inf), share
    )


def last_steps(sums: NormSums, stage: JointStage) -> dict[str, NDArray[np.int64]]:
    """Return what the last stage releases of the sums of its rows, by the names of its blocks."""
    found = {SUMS: sums.steps, SQUARED_NORMS: sums.squared_norms, OUTSIDE: sums.outside}
    return {block.name: found[block.name] for block in stage.blocks}


def count_share(staging: Staging, noise: float, exponent: int, n: int) -> float:
    """Return the part of the last stage for the count: the largest that widens the planned interval by 2% at most.

    A stage of share s and radius B has noise of variance ``noise * B^2 / s^exponent`` in each column.
    """
    shares, radii, slopes = (np.array(part) for part in (staging.shares, staging.radii, staging.slopes))

    def half(part: float) -> float:
        left = shares.copy()
        left[-1] *= 1 - part
        precisions = slopes**2 * left**exponent / (noise * radii**2)
        weights = precisions / precisions.sum()
        error = math.hypot(float(weights @ staging.spreads) / math.sqrt(n), precisions.sum() ** -0.5)
        return error * float(biased_normal_quantile(0.025, float(weights @ staging.biases) / error))

    most = _WIDER * half(0.0)
    return next((part for part in _COUNT_SHARES if half(part) <= most), _COUNT_SHARES[-1])
