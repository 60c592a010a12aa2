"""The second moments of (1, x, y), released once: how rows are bounded, and the plan.

Measured from the middle of the bounds in half-widths, a row is (w, x, v y). A factor that depends on x only scales it
into a ball. The weights w, v and the radius of the ball are public. The ball contains rows whose columns are all half
a half-width from the middle ("l2"), or a third ("l1"). Most rows of most columns are inside, and noise grows with the
square of the radius. Proofs: docs/proofs/sufficient-statistics.md and docs/proofs/functional-mechanism.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from dpstats.data.parameters import check_real
from dpstats.lattice.products import finest, row_bits
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.stages import Block as StageBlock
from dpstats.regression.bins import Floats
from dpstats.regression.blocks import COUNT_BITS, X_BITS
from dpstats.regression.design import Design
from dpstats.regression.design_plan import DesignPlan
from dpstats.regression.movement import MOMENTS, gram_blocks
from dpstats.regression.noisy_moments import MatrixNoise
from dpstats.regression.rows import OUTSIDE, SecondMoments
from dpstats.release.additive import JointIntegers, additive_stages

STAGE = "second moments"

_ROOM = {"l2": 0.25, "l1": 1 / 3}
"""Contribution of a column to the squared radius of the ball (l2) or to the radius (l1)."""
_UNUSED = 0.25
"""Constant of a model without an intercept, relative to the weight of the outcome. It only measures the scaling."""
_COUNT = {"l2": 0.14, "l1": 0.04}
"""Weight of the count of outcomes outside: it costs the moments 0.5% and 2% more noise."""
_SPREAD = 0.25
"""Standard deviation of columns and outcome that the notes of a plan assume, in half-widths."""
_FEW = 80.0
_SAFE = 1 + 1e-12


def is_few(n: int, d: int, mu: float) -> bool:
    """Return whether one release serves n rows of d columns better than Newton steps do.

    For one column and fewer than 80/mu rows it does: noise hides what the steps learn about the rows, and slopes are
    attenuated. For more columns, intervals from moments are longer wherever any slope is identified.
    """
    return d == 1 and n * mu < _FEW


def weights(norm: str, d: int, intercept: bool) -> tuple[float, float, float]:
    """Return the weights of the constant and of the outcome, and the radius of the ball.

    Under Gaussian noise the columns have half of the squared radius, the constant and the outcome a quarter each. The
    noise variance of a slope is radius^4 (1/v^2 + theta^2). These weights are close to its minimum for any slopes.
    """
    room = _ROOM[norm] * d
    outcome = math.sqrt(room / 2)
    constant = outcome if intercept else _UNUSED * outcome
    if norm == "l2":
        return constant, outcome, math.sqrt(room + constant**2 + outcome**2)
    return constant, outcome, room + constant + outcome


def question(norm: str, d: int, intercept: bool, bits: int) -> SecondMoments:
    """Return the query for the second moments of the rows."""
    constant, outcome, radius = (float(round(w * 2**X_BITS)) for w in weights(norm, d, intercept))
    return SecondMoments(constant, outcome, radius, norm, bits)


@dataclass(frozen=True)
class MomentsPlan(DesignPlan):
    """The plan of releasing the second moments of (1, x, y). All of it is public.

    Attributes
    ----------
    design, bits, missing
        As for `DesignPlan`.
    norm : {"l2", "l1"}
        Norm that bounds the rows: "l2" under Gaussian noise, "l1" under Laplace noise.
    few_rows : bool
        Whether the fit takes one release in place of Newton steps, because it has few rows for its epsilon.
    """

    norm: str
    few_rows: bool = field(default=False, kw_only=True)

    @property
    def question(self) -> SecondMoments:
        """The query for the second moments of the rows."""
        return question(self.norm, self.n_features, self.design.intercept, self.bits)

    @property
    def matrix_noise(self) -> MatrixNoise:
        """Noise of the released matrix in units in which the ball has radius 1."""
        diagonal, above = (self.noise_of[STAGE, f"{MOMENTS}, {part}"] for part in _PARTS)
        return MatrixNoise(diagonal, above)

    @property
    def constant(self) -> float:
        """The constant of a row in the unit ball."""
        return self.question.constant / self.question.bound

    def to_units(self) -> tuple[Floats, Floats]:
        """L and o: coefficients in the units of the data are L theta + o, where theta is for rows in the unit ball."""
        matrix, offset = self.design.to_units(np.zeros(self.n_features))
        asked, first = self.question, int(self.design.intercept)
        scale = np.full(self.size, 2.0**X_BITS)
        scale[:first] = asked.constant
        return matrix * scale / asked.outcome, offset

    @property
    def outcome_unit(self) -> float:
        """The unit of a row's outcome in the unit ball, in the units of the data."""
        return self.design.y_half * self.question.bound / self.question.outcome

    @property
    def _spread(self) -> float:
        """Variance in the unit ball of columns with the assumed standard deviation."""
        return (_SPREAD * 2.0**X_BITS / self.question.bound) ** 2

    @property
    def _columns(self) -> str:
        return "columns that spread by a quarter of their half-widths and residuals by a sixth of that of y_bounds"

    @property
    def noise_ratio(self) -> float:
        """Ratio of noise to sampling error of a coefficient, if such columns explain half of the outcome's variance."""
        slopes = (
            self.question.outcome / 2.0**X_BITS
        ) ** 2 / 2  # sum of squares, and also the residual variance
        noise = self.matrix_noise.above * math.sqrt(1 + slopes) / self._spread
        return noise / math.sqrt(slopes / self.n_samples)

    def noise_ratio_of_share(self, share: float) -> float:
        share = check_real("share", share, above=0, at_most=0.5)
        # The values are one half-width from the middle of their bounds.
        spread = 2 * math.sqrt(share * (1 - share)) / _SPREAD
        hidden = self.matrix_noise.hides(self.size, spread**2 * self._spread)
        return math.inf if hidden else self.noise_ratio / spread

    @property
    def noise_only(self) -> bool:
        """Whether the noise of the matrix hides such columns."""
        return self.matrix_noise.hides(self.size, self._spread)

    def notes(self) -> list[str]:
        """Return remarks for a reader of the plan, one line each."""
        few = "few rows at this epsilon: one release of second moments in place of Newton steps"
        return [*([few] if self.few_rows else []), *super().notes()]


_PARTS = ("diagonal", "above the diagonal")


def moments_integers(p: int, n: int, bits: int, norm: str) -> JointIntegers:
    """Return the integers of a stage for second moments of p numbers and the count of outcomes outside.

    Rows are in a ball of 2^bits steps. In units of its squared radius, replacing a row moves the matrix by at most
    sqrt(2) in l2, and by 2 in l1. A dropped row adds nothing, and is at distance 1 from any other row.
    """
    weight = _COUNT[norm]
    count = StageBlock(OUTSIDE, 1, 2.0**-COUNT_BITS / n, 2**COUNT_BITS / weight)
    blocks = (*gram_blocks(MOMENTS, p, n, 2**bits, 1.0, norm), count)
    return JointIntegers(STAGE, blocks, (2 + weight) * _SAFE, math.sqrt(2 + weight**2) * _SAFE)


def moments_plan(
    norm: str, design: Design, n: int, epsilon: float, delta: float, missing: str
) -> MomentsPlan:
    """Return the plan of releasing the second moments of n rows of declared columns."""
    d = design.center.size

    def made(bits: int) -> MomentsPlan:
        item = moments_integers(d + 2, n, bits, norm)
        stages = additive_stages([item], epsilon, delta)
        guarantee = PrivacyGuarantee(epsilon, delta)
        return MomentsPlan(stages, guarantee, n, d, design=design, bits=bits, norm=norm, missing=missing)

    return finest(made, row_bits(n))
