"""The plan of a regression: its declared design, its stages, and statements before any row is read."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, ClassVar, TypeVar

import numpy as np
from scipy.special import ndtr

from dpstats.data.parameters import check_real
from dpstats.errors import refuse
from dpstats.lattice.base import FREE_SQUARES, box_movement, free_weight
from dpstats.lattice.products import finest, row_bits
from dpstats.privacy.gaussian import gaussian_sigma
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import Block as StageBlock
from dpstats.privacy.stages import JointStage
from dpstats.regression.blocks import COUNT_BITS, X_BITS, Design
from dpstats.regression.passes import Floats
from dpstats.regression.rows import (
    OUTSIDE,
    SIZE,
    UNIT_BITS,
    box_integers,
    gradient_integers,
    gram_integers,
    last_integers,
    logistic_integers,
    step_integers,
    weighted_integers,
)
from dpstats.release.additive import Integers, JointIntegers, additive_stages

# The base class


@dataclass(frozen=True)
class DesignPlan(ReleasePlan, ABC):
    """The plan of a private regression. All of it is public.

    Attributes
    ----------
    design : Design
        The declared bounds.
    bits : int
        Bounded rows have norms of at most 2^bits steps.
    missing : {"error", "drop"}
        Whether a row with a missing entry raises an error or is dropped. Statements about errors assume that no row is
        missing.
    shares : mapping of column names or positions to float
        Declared fractions of the rarer value of yes/no columns, for the notes. No release depends on them.
    """

    design: Design = field(repr=False, compare=False)
    bits: int
    missing: str = field(default="error", kw_only=True)
    shares: Mapping[Any, float] = field(default_factory=dict, kw_only=True, repr=False, compare=False)

    @property
    def size(self) -> int:
        """Number of coefficients, including the intercept."""
        return self.design.size

    @cached_property
    def noise_of(self) -> dict[tuple[str, str], float]:
        """Standard deviation of the noise, keyed by the names of a joint stage and of its block."""
        return {
            (stage.name, block.name): float(np.max(stage.noise_std(block)))
            for stage in self.stages
            if isinstance(stage, JointStage)
            for block in stage.blocks
        }

    @property
    def _columns(self) -> str:
        """The columns and residuals that the noise ratio assumes."""
        return "columns of one scale and normal residuals within bounds of a few standard deviations"

    @property
    @abstractmethod
    def noise_ratio(self) -> float:
        """Ratio of the noise of a coefficient to its sampling error, for the columns that the notes name."""

    @property
    @abstractmethod
    def noise_only(self) -> bool:
        """Whether noise hides the coefficients of such columns."""

    def is_lost(self, rows: float) -> bool:
        """Return whether noise hides the coefficients for this number of observed rows."""
        return self.noise_only

    @abstractmethod
    def noise_ratio_of_share(self, share: float) -> float:
        """Return the ratio of noise to sampling error of a yes/no column with this share of its rarer value.

        Parameters
        ----------
        share : float
            Share of the rarer value, in (0, 0.5]. The ratio is infinite if noise hides the coefficient.
        """

    @property
    def noise_ratios(self) -> dict[Any, float]:
        """Ratio of noise to sampling error of each column with a declared share."""
        return {name: self.noise_ratio_of_share(share) for name, share in self.shares.items()}

    def facts(self) -> dict[str, Any]:
        """Return facts about the plan that its stages do not show, by name."""
        declared = {"noise_ratios": self.noise_ratios} if self.shares else {}
        return {"noise_ratio": self.noise_ratio, "noise_only": self.noise_only, **declared}

    def notes(self) -> list[str]:
        """Return remarks for a reader of the plan, one line each."""
        ratio = f"{self.noise_ratio:.2g}"
        notes = [f"for {self._columns} the noise of a coefficient is about {ratio} times its sampling error"]
        if self.noise_only:
            notes.append(
                "warning: noise only: coefficients are not identified at this n and epsilon, and coverage may be "
                "below the nominal level. Use more rows, a larger epsilon or fewer columns"
            )
        return [*notes, *self.share_notes()]

    def share_notes(self) -> list[str]:
        """Return a remark about each column with a declared share."""
        return [
            f"{name} at {100 * share:.3g}% of the rows: "
            + (
                f"noise about {ratio:.2g} times its sampling error"
                if math.isfinite(ratio)
                else "noise hides its coefficient"
            )
            for (name, share), ratio in zip(self.shares.items(), self.noise_ratios.values(), strict=True)
        ]


# Plans of linear and logistic regressions

ROWS, WEIGHT, OFFSETS = "observed rows", "total weight", "offsets outside"
CENTER, LENGTHS, DIRECTIONS, NORMS, LAST_NORMS, RATE, TAIL, RESIDUALS = (
    "center",
    "lengths",
    "directions",
    "norms",
    "norms before the last step",
    "outcome rate",
    "residual tail",
    "residuals",
)
MEAN, SQUARES = "mean residual", "squared residual"
STEPS = 4
_HOPELESS = 4.0  # noise over sampling error
_BLURRED = 0.6  # noise of the directions over their average eigenvalue
_LEVERAGE = 1.2  # bound over length of rows with equal lengths, in planning
_EARLY = {"linear": (0.05, 0.08, 0.15), "logistic": (0.08, 0.10, 0.15)}
_DIRECTIONS = {"linear": (0.05, 0.10), "logistic": (0.10, 0.10)}
"""Smallest and largest fraction of mu^2 for the directions."""
_SHARP = 0.06  # noise of the directions over their average eigenvalue that is small enough
_SHARES = {ROWS: 0.01, WEIGHT: 0.01, OFFSETS: 0.01, CENTER: 0.04, RATE: 0.01, RESIDUALS: 0.04, TAIL: 0.05}
"""Fractions of mu^2. The remainder is for the last step."""
_RESIDUALS_ONLY = 0.3
"""Fraction for the residuals without columns, where their mean is the last word on the only coefficient."""
MANY = 1000.0  # rows times mu, from which the lengths of rows are counted before their directions
_NORMS = 0.01  # smallest fraction of mu^2 for each count of norms
SEEN = 4.5
"""A noisy count of norms below this many standard deviations of its noise is treated as zero."""
MOST_LEVERAGE = 64.0
"""Largest bound of the rows, in upper quartiles of their norms."""
OUTSIDE_WEIGHT = 0.5
FIRST_WIDTH = 1.5
REACH = 1.5
"""To measure the tails, residuals are clipped this many scales beyond the first clipping threshold.

The noise of the tails is proportional to it. A fraction exp(-1.5) of an exponential tail lies beyond it."""
DECAY = 1.2
"""The clipping bias falls by exp(-1.2) if the threshold moves out by one scale.

This is a little faster than for exponential tails."""
LEAST_TAIL = 0.01
WIDTHS = np.linspace(1.2, 10.0, 177)
"""Clipping thresholds to choose from, in standard deviations.

At the first one about as many uniform, Laplace and normal residuals are inside: 0.75, 0.78 and 0.77."""
_PART_OF_NOISE = 2 * math.exp(-0.5) / math.sqrt(2 * math.pi)  # mean of max(Z^2 - 1, 0) for a normal Z


@cache
def step_name(t: int) -> str:
    """Return the name of the step t = 1, ..., STEPS."""
    return f"step {t}"


def is_unclipped(name: str) -> bool:
    """Return whether a linear step releases the Gram matrix of the unclipped rows: all steps but the first.

    It is the derivative of the gradient, also where residuals vary more for some rows than for others. Before the
    first step, the residuals of some rows may all be clipped.
    """
    return name != step_name(1)


def step_number(name: str) -> int:
    """Return the number of a step, by the name of its stage or of the stage of its residual size."""
    return int(name.rpartition(" ")[2])


@cache
def size_name(t: int) -> str:
    """Return the name of the stage that releases the size of the residuals before step t."""
    return f"residual size {t}"


@dataclass(frozen=True)
class RegressionPlan(DesignPlan):
    """The plan of a private regression. All of it is public.

    Attributes
    ----------
    design, bits, missing
        As for `DesignPlan`. With missing="drop" the first stage counts the observed rows.
    family : {"linear", "logistic"}
        Model of the outcome.
    mu : float
        Parameter of Gaussian differential privacy. Neighbors are as hard to distinguish as N(0, 1) and N(mu, 1).
    """

    family: str
    mu: float

    _surely: ClassVar[float] = 5.0
    """Standard deviations of its noise by which a count of norms must exceed `SEEN` to be seen in most fits."""

    @cached_property
    def norm_ends(self) -> Floats:
        """Bin edges for the counts of row norms: from 1/80 of the declared bounding box to 16 times the box."""
        return norm_ends(self.n_samples, self.n_features, self.mu)

    @property
    def _columns(self) -> str:
        return super()._columns if self.family == "linear" else "columns of one scale"

    @property
    def noise_ratio(self) -> float:
        """Ratio of noise to sampling error of a coefficient, for columns of one scale and normal residuals."""
        return self._ratio(self._threshold if self.family == "linear" else self._width)

    def _ratio(self, width: float) -> float:
        last = self.mu * math.sqrt(self.share(step_name(STEPS)))
        return 2 * _LEVERAGE * width * math.sqrt(self.size / self.n_samples) / last

    @property
    def _width(self) -> float:
        """Least bound of a gradient over its standard deviation, for a row of typical length."""
        return 1.5 if self.family == "linear" else 2.0

    @property
    def _threshold(self) -> float:
        """The same bound at the threshold that a linear fit chooses: the smaller the noise, the fewer are clipped."""
        noise = REACH * _LEVERAGE * math.sqrt(self.size) * float(np.max(self.noise(TAIL).std))
        tail = _PART_OF_NOISE * noise**2 if self.design.intercept else 0.0
        width = float(WIDTHS[np.argmin(clip_costs(self, self.n_samples, _LEVERAGE, tail))])
        return width / (2 * float(ndtr(width)) - 1)

    @property
    def smallest_share(self) -> float:
        """Smallest share of the rarer value of a yes/no column whose coefficient noise does not hide.

        Rows with the rarer value are far from the others, and keep their length only if a count of norms shows them.
        Without other columns their norm must also be within the largest bound. 0 without columns.
        """
        if self.n_features == 0:
            return 0.0
        count = (SEEN + self._surely) * float(np.max(self.noise(LAST_NORMS).std))
        return min(max(count, 1 / MOST_LEVERAGE if self.n_features == 1 else 0.0), 0.5)

    def noise_ratio_of_share(self, share: float) -> float:
        """Return the ratio of noise to sampling error of a yes/no column with this share of either value.

        Parameters
        ----------
        share : float
            Share of the rarer value, in (0, 0.5]. Below `smallest_share` the ratio is infinite.
        """
        share = check_real("share", share, above=0, at_most=0.5)
        if share < self.smallest_share:
            return math.inf
        # Squared whitened norms of rows with the rarer value, over the squared norms of rows of equal norms.
        longer = ((1 - share) / share + self.n_features) / (_LEVERAGE**2 * (self.n_features + 1))
        return self.noise_ratio * math.sqrt(max(longer, 1.0))

    def notes(self) -> list[str]:
        """Return remarks for a reader of the plan, one line each."""
        if self.noise_only or self.n_features == 0 or self.shares:
            return super().notes()
        share = math.ceil(1000 * self.smallest_share) / 1000
        note = (
            f"a yes/no column needs at least {100 * share:g}% of the rows at either value; its noise is then about "
            f"{self.noise_ratio_of_share(share):.2g} times its sampling error"
        )
        return [*super().notes(), note]

    @property
    def blur(self) -> float:
        """Noise of the directions over the average eigenvalue. Near 1, noise hides the shape of the columns."""
        if self.n_features == 0:
            return 0.0
        return _blur(self.n_samples, self.n_features, self.mu) / math.sqrt(self.share(DIRECTIONS))

    @property
    def noise_only(self) -> bool:
        """Whether noise hides the coefficients, or the shape of the columns."""
        return self.is_lost(self.n_samples)

    def is_lost(self, rows: float) -> bool:
        """Return whether noise hides the coefficients for this number of observed rows."""
        fewer = self.n_samples / rows
        return self.blur * fewer > _BLURRED or self._ratio(self._width) * math.sqrt(fewer) > _HOPELESS

    def share(self, name: str) -> float:
        """Return the fraction of mu^2 that a stage gets."""
        return self._shares[name]

    @cached_property
    def _shares(self) -> dict[str, float]:
        sizes = self.n_samples, self.n_features, self.mu
        return dict(shares(self.family, *sizes, self.design.intercept, first_stages(self.design, self.missing)))

    @property
    def count_stage(self) -> str | None:
        """The name of the stage that counts rows, or None if all rows count as one."""
        return count_name(self.design, self.missing)

    def facts(self) -> dict[str, Any]:
        """Return facts about the plan that its stages do not show, by name."""
        return {"family": self.family, **super().facts(), "smallest_share": self.smallest_share}


def clip_costs(plan: RegressionPlan, rows: float, leverage: float, tail: float) -> Floats:
    """Return the squared errors of all coefficients at each of the `WIDTHS`: noise, and the bias of the intercept.

    ``tail`` is the squared mean excess of the residuals beyond the first width, in squared standard deviations.
    """
    information = rows * plan.mu**2 * plan.share(step_name(STEPS))
    noise: Floats = 4 * (leverage * WIDTHS) ** 2 * plan.size**2 / information
    shift = tail / 4 + LEAST_TAIL**2 / 4
    return noise + rows * shift * np.exp(-2 * DECAY * (WIDTHS - FIRST_WIDTH))


def norm_ends(n: int, d: int, mu: float) -> Floats:
    """Return the bin edges for the counts of norms: fewer if noise is large, because it accumulates over bins."""
    each = 2 if n * mu >= 300 else 1
    ends: Floats = max(d, 1) * 2.0 ** (np.arange(11 * each) / each - 6.5)
    return ends


def norms_share(n: int, mu: float) -> float:
    """Return the fraction of mu^2 for each count of norms."""
    return min(max(_NORMS * (1000 / (n * mu)) ** 2, _NORMS), 5 * _NORMS)


def scalar_share(n: int, mu: float) -> float:
    """Return the fraction of mu^2 for each size of residuals."""
    return min(max(30 * (20 / (n * mu)) ** 2, 0.03), 0.2) / (STEPS + 1)


def _blur(n: int, d: int, mu: float) -> float:
    """Return the noise of directions that get all of mu^2, over their average eigenvalue."""
    return math.sqrt(2 * d) * d * math.sqrt(2) / (n * mu)


def count_name(design: Design, missing: str) -> str | None:
    """Return the name of the stage that counts rows: the observed ones, or each with its weight. None without one."""
    return WEIGHT if design.weight else ROWS if missing == "drop" else None


def first_stages(design: Design, missing: str) -> list[str]:
    """Return the names of the stages that count rows: as `count_name` says, and those with an offset outside."""
    counted = count_name(design, missing)
    return [*([counted] if counted else []), *([OFFSETS] if design.offsets is not None else [])]


def shares(
    family: str, n: int, d: int, mu: float, intercept: bool, first: Sequence[str] = ()
) -> list[tuple[str, float]]:
    """Return the stages in order with the fraction of mu^2 of each. They depend on sizes and mu only.

    Without columns, only the outcome or the offsets have a center, and rows have no lengths and directions.
    """
    parts = [(name, _SHARES[name]) for name in first]
    if intercept and (d or family == "linear" or OFFSETS in first):
        parts.append((CENTER, _SHARES[CENTER]))
    norms, scalar = norms_share(n, mu), scalar_share(n, mu)
    if d and n * mu >= MANY:
        parts.append((LENGTHS, norms))
    if d:
        least, most = _DIRECTIONS[family]
        # Less for the directions if they are sharp with less
        directions = min(max((_blur(n, d, mu) / _SHARP) ** 2, least), most)
        parts += [(DIRECTIONS, directions), (NORMS, norms)]
    if family == "logistic" and intercept:
        parts.append((RATE, _SHARES[RATE]))
    for t, share in enumerate((*_EARLY[family], 0.0), 1):
        if t == STEPS and d:
            parts.append((LAST_NORMS, norms))
        if family == "linear":
            parts.append((size_name(t), scalar))
            if t == 2:
                parts.append((TAIL, max(scalar, _SHARES[TAIL])))
        parts.append((step_name(t), share))
    if family == "linear":
        parts.append((RESIDUALS, _SHARES[RESIDUALS] if d else _RESIDUALS_ONLY))
    rest = 1 - math.fsum(share for _, share in parts)
    return [(name, rest if name == step_name(STEPS) else share) for name, share in parts]


def regression_plan(
    family: str, design: Design, n: int, epsilon: float, delta: float, missing: str = "error"
) -> RegressionPlan:
    """Return the plan of a regression of n rows on declared columns."""

    def parts(mu: float) -> list[tuple[str, float]]:
        sizes = n, design.center.size, mu
        return shares(family, *sizes, design.intercept, first_stages(design, missing))

    def integers(name: str, share: float, bits: int) -> Integers | JointIntegers:
        return describe_step(family, design, n, name, share, bits)

    return made_plan(RegressionPlan, parts, integers, design, n, epsilon, delta, missing, family=family)


def describe_step(family: str, design: Design, n: int, name: str, share: float, bits: int) -> Integers | JointIntegers:
    """Return the integers of a stage of a linear or logistic regression that other plans do not have."""
    d, p = design.center.size, design.size
    if name == CENTER:
        # Also one number for the outcome, or for the offset.
        return center_integers(d + (family == "linear" or design.offset is not None), n, share)
    if name == RATE:
        return scalar_integers(name, n, share)
    if name == TAIL:
        return gradient_integers(name, p, n, bits, share)
    if name == RESIDUALS:
        return _moments(name, n, share, design.weight is not None)
    if name == size_name(1):
        return size_integers(name, n, 1, share)
    if name.startswith("residual size"):
        return scalar_integers(name, n, share)
    if family == "logistic" and design.weight and name == step_name(STEPS):
        return weighted_integers(name, p, n, bits, share, True)
    if family == "logistic":
        return logistic_integers(name, p, n, bits, share)
    if name == step_name(STEPS):
        return last_integers(name, p, n, bits, share)
    return step_integers(name, p, n, bits, share, is_unclipped(name))


SomePlan = TypeVar("SomePlan", bound=RegressionPlan)


def made_plan(
    kind: type[SomePlan],
    parts: Callable[[float], list[tuple[str, float]]],
    integers: Callable[[str, float, int], Integers | JointIntegers],
    design: Design,
    n: int,
    epsilon: float,
    delta: float,
    missing: str,
    **facts: Any,
) -> SomePlan:
    """Return a plan on the finest lattice: its stages with the fractions ``parts(mu)`` of mu^2.

    ``integers`` describes a stage by its name, its fraction and the bits of a row. Stages that all plans share are
    described here.
    """
    if delta == 0:
        raise refuse(
            "delta", got="0", allowed="greater than 0 for Gaussian noise", remedy="Give delta=1e-6 for example."
        )
    mu, d = 1 / gaussian_sigma(epsilon, delta), design.center.size

    def describe(name: str, share: float, bits: int) -> Integers | JointIntegers:
        return describe_common(name, share, bits, n, d, mu) or integers(name, share, bits)

    def make(bits: int) -> SomePlan:
        return kind(
            additive_stages([describe(*part, bits) for part in parts(mu)], epsilon, delta),
            PrivacyGuarantee(epsilon, delta),
            n,
            d,
            design=design,
            bits=bits,
            mu=mu,
            missing=missing,
            **facts,
        )

    return finest(make, row_bits(n))


def describe_common(name: str, share: float, bits: int, n: int, d: int, mu: float) -> Integers | JointIntegers | None:
    """Return the integers of a stage that all plans share, or None for another stage."""
    if name == DIRECTIONS:
        return gram_integers(name, d, n, 2**bits, share)
    if name in (LENGTHS, NORMS, LAST_NORMS):
        return bin_integers(name, norm_ends(n, d, mu).size + 1, n, share)
    if name in (ROWS, OFFSETS):
        return scalar_integers(name, n, share)
    if name == WEIGHT:
        return weight_integers(name, n, share)
    return None


def center_integers(size: int, n: int, share: float) -> Integers:
    """Return the integers of a stage for the mean of ``size`` numbers in [-1, 1] of each row."""
    moved = box_integers(size, 2**X_BITS)
    return Integers(CENTER, size, 2.0**-X_BITS / n, 2 * size * 2**X_BITS, moved, share)


def bin_integers(name: str, bins: int, n: int, share: float) -> Integers:
    """Return the integers of a stage for counts of rows by bins. Replacing a row lowers one and raises another."""
    moved = math.isqrt(2 * 4**COUNT_BITS) + 1
    return Integers(name, bins, 2.0**-COUNT_BITS / n, 2 << COUNT_BITS, moved, share)


def size_integers(name: str, n: int, sizes: int, share: float) -> JointIntegers:
    """Return the integers of a stage for the size of residuals, and the fraction of outcomes outside their bounds.

    A row adds a number in [0, 1] to one of ``sizes`` sums, of one or two groups of rows.
    """
    blocks = (unit_block(SIZE, n, 1.0, sizes), unit_block(OUTSIDE, n, 1 / OUTSIDE_WEIGHT))
    moved = math.sqrt(min(sizes, 2) + OUTSIDE_WEIGHT**2) * (1 + 1e-12)
    return JointIntegers(name, blocks, math.inf, moved, share)


def unit_block(name: str, n: int, weight: float, size: int = 1) -> StageBlock:
    """Return the block of sums of numbers in [-1, 1]."""
    return StageBlock(name, size, 2.0**-UNIT_BITS / n, weight * 2.0**UNIT_BITS)


def scalar_integers(name: str, n: int, share: float) -> Integers:
    """Return the integers of a stage for the mean of numbers in [0, 1]."""
    moved = 1 << UNIT_BITS
    return Integers(name, 1, 2.0**-UNIT_BITS / n, moved, moved, share)


def pair_integers(name: str, n: int, share: float) -> Integers:
    """Return the integers of a stage for two means of numbers in [0, 1]."""
    moved = math.isqrt(2 * 4**UNIT_BITS) + 1
    return Integers(name, 2, 2.0**-UNIT_BITS / n, 2 << UNIT_BITS, moved, share)


def weight_integers(name: str, n: int, share: float) -> Integers:
    """Return the integers of a stage for the means of a, a^2 and a/2 with a sign, for weights a in [0, 1]."""
    moved = (3 << (UNIT_BITS - 1)) + 2  # 1.5, and the rounding of two rows
    return Integers(name, 3, 2.0**-UNIT_BITS / n, (5 << (UNIT_BITS - 1)) + 3, moved, share)


def _moments(name: str, n: int, share: float, weighted: bool) -> JointIntegers:
    """Return the integers of a stage for the means of numbers in [-1, 1] and of their squares."""
    # The squares add no privacy cost to the mean. Weighting rounds the numbers again.
    weight = free_weight(FREE_SQUARES, UNIT_BITS)
    moved = math.sqrt(box_movement((1.0, weight), 2**UNIT_BITS, "l2")) / 2**UNIT_BITS * (1 + 1e-12)
    # Half a step in each number, of two rows
    moved += math.hypot(1.0, weight) * 1.02 / 2**UNIT_BITS if weighted else 0.0
    return JointIntegers(name, (unit_block(MEAN, n, 1.0), unit_block(SQUARES, n, 1 / weight)), math.inf, moved, share)
