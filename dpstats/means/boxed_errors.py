"""Errors of a mean whose bias is bounded, in a public box: intervals, the check of tails, and whitened rows.

The largest error of probability 1 - alpha is not bias + z se: of a biased estimate only one tail is enlarged
(Armstrong and Kolesar 2018). Proof: docs/intervals/adaptive-mean.md, "The bounds", "The screen".
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, erfcx, ndtr, ndtri

from dpstats.data.parameters import check_columns
from dpstats.errors import attempt, refuse
from dpstats.inference.error_distributions import ErrorDistribution, Limits, Tail, invert_interval
from dpstats.lattice import BallLattice, NormedLattice
from dpstats.lattice.rounding import BallKernel
from dpstats.lattice.sums import Reading

if TYPE_CHECKING:
    from dpstats.data.parameters import Columns

Numbers = NDArray[np.float64]

_HALVINGS = 60


def biased_normal_quantile(tail: Any, bias: Any) -> Any:
    """Return x with P(|N + bias| > x) = 2 tail, N standard normal, for each bias and tail of at most one half.

    Examples
    --------
    >>> from dpstats.means.boxed_errors import biased_normal_quantile
    >>> [round(float(biased_normal_quantile(0.025, bias)), 3) for bias in (0.0, 0.1, 1.0, 5.0)]
    [1.96, 1.97, 2.646, 6.645]
    """
    given = np.abs(np.asarray(bias, dtype=np.float64))
    if not given.any():
        return -ndtri(tail) + given
    t = np.where(np.isfinite(given), given, 0.0)
    # One tail alone, and both with the whole bias: bounds, so that the answer is halved for.
    low, high = np.maximum(t - ndtri(2 * np.asarray(tail)), 0.0), t - ndtri(tail)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        short = ndtr(t - middle) + ndtr(-t - middle) > 2 * tail
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    return np.where(np.isfinite(given), high, np.inf)


def mean_in_box(
    value: Any,  # (d,): estimate, possibly outside the box
    std: Any,  # (d,): standard deviation of its error
    low: Any,  # (d,): the box
    high: Any,
) -> Numbers:
    """Return the expected mean, given an estimate, for a mean that is uniform in the box and a normal error.

    It is the estimate where that is precise, the middle of the box where noise dominates, and inside the box
    always. For every mean in the box its mean squared error is below the error of ``value`` (Hartigan 2004).

    Examples
    --------
    >>> from dpstats.means.boxed_errors import mean_in_box
    >>> [round(float(mean_in_box(12.0, std, -10.0, 10.0)), 2) for std in (0.1, 1.0, 100.0)]
    [10.0, 9.63, 0.04]
    """
    # Use standard deviations as units and the bound closest to the value as origin, mirrored to be the upper bound.
    # The mean is then a normal variable about ``gap``, given that it lies between -``width`` and 0.
    middle, half = (np.asarray(low) + high) / 2, (np.asarray(high) - low) / 2
    offset = value - middle
    gap, width = (np.abs(offset) - half) / std, 2 * half / std
    # E(Z | -width < Z < 0) for Z ~ N(gap, 1), by Mills' ratio, which loses nothing far out.
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        far = np.exp(-width * (width / 2 + gap))
        inside = gap - (1 - far) / (_mills(gap) - far * _mills(gap + width))
        # Far out the distribution is exponential; in a narrow box it is uniform, up to its slope.
        exponential = -1 / gap + width / np.expm1(np.minimum(gap * width, 700.0))
        uniform = -width / 2 + width**2 * (gap + width / 2) / 12
    inside = np.where(gap > 1e3, exponential, inside)
    inside = np.where(width * (np.abs(gap) + width) < 1e-3, uniform, inside)
    inside = np.clip(inside, -width, 0.0)
    result: Numbers = middle + np.sign(offset) * (half + std * inside)
    return result


def _mills(x: Numbers) -> Numbers:
    """Return P(N > x) over the normal density at x."""
    result: Numbers = np.sqrt(np.pi / 2) * erfcx(x / np.sqrt(2))
    return result


def within_box(
    value: Numbers, half: Numbers, estimate: Numbers, low: Numbers, high: Numbers, *, hard: bool = False
) -> tuple[Numbers, Numbers]:
    """Return intervals ``value`` +- ``half`` cut to the box, and open on a side where the value is outside the box.

    If the value is outside the box and the box is wider than the interval, the mean may lie outside too. The interval
    is then infinite on that side, unless the box is ``hard``. It always contains the ``estimate``, which a cut could
    leave outside.
    """
    bottom = np.minimum(np.maximum(value - half, low), estimate)
    top = np.maximum(np.minimum(value + half, high), estimate)
    bottom, top = np.minimum(bottom, high), np.maximum(top, low)
    if hard:
        return bottom, top
    below, above = outside_box(value, half, low, high)
    return np.where(below, -np.inf, bottom), np.where(above, np.inf, top)


def outside_box(value: Numbers, half: Numbers, low: Numbers, high: Numbers) -> tuple[Any, Any]:
    """Mark the values below the box, and the values above it, by more than noise explains."""
    # An infinite interval is not evidence about the box: judge the value alone.
    precise = (half < (high - low) / 2) | np.isinf(half)
    below = ((value < low) & precise) | (value + half <= low)
    above = ((value > high) & precise) | (value - half >= high)
    return below, above


class DeclaredBox:
    """A public box for the mean, and upper bounds on the standard deviations of the columns."""

    n_features: int
    middle: Any  # center of the box, and its half-width
    bound: Any
    hard: bool  # whether the rows lie in the box too
    std: Any

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
        """The bounds of the mean."""
        return self.middle - self.half, self.middle + self.half


class BoxedErrors(ErrorDistribution):
    """Errors of a mean in a box: intervals contain the unshrunk estimate, and are cut to the box."""

    plan: Any
    mean: Numbers  # (d,): the reported estimate, which every interval holds

    @property
    @abstractmethod
    def largest_bias(self) -> Numbers:
        """Bounds on the bias of the columns."""

    @abstractmethod
    def reaches(self, tail: Tail) -> Numbers:
        """Return the distances to one-sided limits. The whole bias may be on the side of a limit."""

    @abstractmethod
    def half_widths(self, tail: Tail) -> Numbers:
        """Return half-widths of two-sided intervals, which the bias shifts to one side only."""

    @property
    def box(self) -> Limits:
        # Without the ends that the mean may be beyond.
        low, high = self.plan.box
        below, above = self.find_open(0.025)
        return np.where(below, -np.inf, low), np.where(above, np.inf, high)

    def find_open(self, tail: float) -> Any:
        """Return for which columns the interval is open below, and for which above."""
        if self.plan.hard:
            return np.zeros((2, self.plan.n_features), dtype=bool)
        return outside_box(self.start, self.half_widths(tail), *self.plan.box)

    def limits(self, tail: Tail) -> Limits:
        return self._cut_to_box(self.reaches(tail))

    def interval(self, tail: Tail) -> Limits:
        return self._cut_to_box(self.half_widths(tail))

    def two_sided(self, value: Numbers) -> Numbers:
        return invert_interval(self.interval, value)  # which is nearer than both limits

    def _cut_to_box(self, half: Numbers) -> Limits:
        return within_box(self.start, half, self.mean, *self.plan.box, hard=self.plan.hard)


# Number of standard deviations above its mean at which a count refutes the assumption: if the assumption holds, the
# probability is 0.0047. Then the number for upper limits (0.01): they bound the bias if it does not hold.
_SURPRISE, _LIMIT = 2.6, 2.33


@dataclass(frozen=True, slots=True)
class Screen:
    """The count of rows that the last stage clips: public, but for the count. All whitened."""

    n: int
    d: int
    radius: float  # radius of the last ball
    error: float  # bound on the mean square of a column of the last center's error
    noise: str  # one of "gaussian", "laplace"
    noise_std: float  # standard deviation of the noise of the count, in rows

    def expected(self, variance: float = 1.0) -> float:
        """Return the largest expected number of clipped rows, if their tails are at most normal with this variance."""
        return self.n * float(chdtrc(self.d, self.radius**2 / (variance + self.error)))

    def most(self, variance: float = 1.0) -> float:
        """Return the count that contradicts the assumption if it is exceeded."""
        expected = self.expected(variance)
        return expected + math.hypot(_SURPRISE * math.sqrt(expected), self._noise_limit(_SURPRISE))

    def share(self, count: float) -> float:
        """Return an upper limit of the probability that a row is clipped."""
        noise = math.hypot(self._noise_limit(_LIMIT), _LIMIT * math.sqrt(max(count, 0.0)))
        return min(max(count + noise, 0.0) / self.n, 1.0)

    @property
    def unnoticed(self) -> tuple[int, float]:
        """How many clipped rows may go unnoticed, and how far they could move a column, in standard deviations."""
        return self.unnoticed_at(1.0)

    def unnoticed_at(self, variance: float) -> tuple[int, float]:
        """Return the same for tails that are judged by a variance; the distance is in stated standard deviations."""
        rows = min(math.ceil(self.most(variance) + self._noise_limit(_LIMIT)), self.n)
        return rows, clipping_factor(rows / self.n, self.d * (1 + self.error), self.radius)

    def _noise_limit(self, deviations: float) -> float:
        """Return the value that the noise exceeds as rarely as a normal variable exceeds this many deviations."""
        if self.noise == "laplace":
            deviations = -math.log(2 * ndtr(-deviations)) / math.sqrt(2)
        return deviations * self.noise_std


def clipping_factor(share: float, square: float, radius: float) -> float:
    """Return the largest root of E(1 - B/||x||)_+^2, if E||x||^2 <= ``square`` and P(||x|| > B) <= ``share``.

    Clipping moves a column by at most that times the root of E x_j^2.
    """
    p = min(share, square / (4 * radius**2))  # beyond that, more rows outside would be nearer to the ball
    return math.sqrt(p) * (1 - radius * math.sqrt(p / square))


def displacement(
    length: float,  # upper limit of the norm of the mean of the clipped rows, about the center
    share: float,  # upper limit of the probability that a row is clipped
    spread: float,  # bound on the trace of the covariance of the rows
    radius: float,
) -> float | None:
    """Return the largest distance of the mean from the center, or None if the last stage does not bound it."""
    # ||E(x - clip x)|| <= max over p <= share of sqrt(p q) - B p, with q = E||x||^2 <= spread + r^2. The root of
    # r = length + this maximum is in one of two branches: the best p is below ``share``, or equal to it.
    if share >= 1:
        return None
    junction = math.sqrt(max(4 * radius**2 * share - spread, 0.0))
    if length + radius * share < junction:
        return 2 * radius - math.sqrt(max(4 * radius * (radius - length) - spread, 0.0))
    excess = length - radius * share
    return (excess + math.sqrt(share * excess**2 + (1 - share) * share * spread)) / (1 - share)


class LastStage(NamedTuple):
    """Bounds for each column from the last stage alone, whitened, assuming only a bound on the variance."""

    bias: Numbers
    distance: Numbers  # of the mean from the center


def last_stage(
    # Shape (d,). The mean of the clipped rows about the center, as released; whitened.
    shift: Numbers,
    columns: Numbers,  # (d,): the same in the directions that the columns are
    noise: float,  # standard deviation of its noise, in every direction
    share: float,  # upper limit of the probability that a row is clipped
    radius: float,
    n: int,
    variance: float = 1.0,  # bound on the variance of the rows in every direction
) -> LastStage | None:
    """Return the bounds, or None where there are none."""
    d = shift.size
    error2 = noise**2 + variance / n
    square = max(float(shift @ shift) - d * noise**2, 0.0)
    square += _LIMIT * math.sqrt(2 * d * error2**2 + 4 * error2 * square)
    far = displacement(math.sqrt(square), share, d * variance, radius)
    if far is None:
        return None
    factor = clipping_factor(share, d * variance + far**2, radius)
    reach = np.abs(columns) + _LIMIT * math.sqrt(error2)
    # nu <= reach + factor sqrt(variance + nu^2).
    distance = (reach + factor * np.sqrt(reach**2 + variance * (1 - factor**2))) / (1 - factor**2)
    return LastStage(factor * np.sqrt(variance + distance**2), distance)


# Well inside what dpstats.lattice can represent, so that no radius of a plan leaves it.
_SMALLEST, _LARGEST = 1e-100, 1e100


@dataclass(frozen=True, eq=False)
class WhitenedBall(NormedLattice):
    """Rows are shifted to ``center``, multiplied by ``whitening``, and projected on ``ball``, which is about 0.

    ``whitening`` is one factor per column, or a matrix that multiplies a row from the right. A matrix product may
    round a row differently at another place in the table, but its rounding never depends on other rows.
    """

    ball: BallLattice
    whitening: Numbers

    def sensitivity(self, norm: str) -> int:
        return self.ball.sensitivity(norm)

    def square_sensitivity(self, norm: str) -> int:
        return self.ball.square_sensitivity(norm)

    @property
    def largest(self) -> int:
        return self.ball.largest

    def _outside(self, rows: NDArray[Any]) -> NDArray[np.bool_]:
        return self.ball._outside(self._whiten(rows, np.empty(rows.shape)))

    def _round_block(self, rows: NDArray[Any], out: Numbers) -> None:
        self.ball._round_block(self._whiten(rows, out), out)

    def _round_normed(self, rows: NDArray[Any], out: Numbers) -> Numbers:
        return self.ball._round_normed(self._whiten(rows, out), out)

    def _norm_error(self) -> float:
        return self.ball._norm_error()

    def _kernel(self, how: Reading) -> BallKernel | None:
        kernel = self.ball._kernel(how)
        # Only columns of their own are whitened in one order of operations everywhere.
        if kernel is None or self.whitening.ndim > 1 or np.any(self.ball.center):
            return None
        return replace(kernel, center=self.center, factor=self.whitening)

    @property
    def _same_anywhere(self) -> bool:
        return self.whitening.ndim == 1

    def _whiten(self, rows: NDArray[Any], out: Numbers) -> Numbers:
        np.subtract(rows, self.center, out=out, dtype=np.float64)
        if self.whitening.ndim == 1:
            np.multiply(out, self.whitening, out=out)
        else:
            np.matmul(out.copy(), self.whitening, out=out)
        return out


@dataclass(frozen=True, eq=False)
class Shape:
    """Upper bounds on the standard deviations, or on the covariance, of the rows."""

    std: Columns  # standard deviations of the columns
    factor: Numbers | None = None  # (n_features, n_features): L with L L' the covariance, where there is one

    @classmethod
    def check(cls, std: Any, cov: Any, d: int, name: str = "std") -> Shape:
        """Return the shape that ``std``, ``cov`` or both (a number times a matrix) describe, or refuse them."""
        if cov is None:
            if std is None:
                remedy = "Give a number, one number per column, or a matrix as cov."
                raise refuse(name, allowed="given", remedy=remedy)
            return cls(in_range(name, check_columns(name, std, d, above=0)))
        scale = 1.0 if std is None else check_columns(name, std, d, above=0)
        if not isinstance(scale, float):
            raise refuse(name, given=std, allowed="None or a single number with cov, which it scales")
        factor = scale * _covariance_factor(cov, d)
        return cls(in_range("cov", np.sqrt(np.sum(factor**2, axis=1))), factor)

    def lattice(self, radius: float, d: int, bits: int) -> NormedLattice:
        """Return the lattice of the ball about 0 whose radius is in whitened units."""
        if self.factor is None and isinstance(self.std, float):
            return BallLattice.build(radius * self.std, 0.0, d, bits=bits)
        ball = BallLattice.build(radius, 0.0, d, bits=bits)
        # A white row is L^{-1} x, which is x L'^{-1} as a row.
        whitening = 1 / np.asarray(self.std) if self.factor is None else np.linalg.inv(self.factor).T
        return WhitenedBall(np.zeros(d), ball.spacing, d, bits, ball, np.asarray(whitening, dtype=np.float64))

    def resized(self, lattice: NormedLattice, scale: float) -> NormedLattice:
        """Return the lattice of a ball that is ``scale`` times as large, with the same norms in steps."""
        if scale == 1:
            return lattice
        if isinstance(lattice, WhitenedBall):
            return replace(lattice, whitening=lattice.whitening / scale)
        return replace(lattice, spacing=lattice.spacing * scale)

    def step(self, lattice: NormedLattice) -> Columns:
        """Return the length of a step: in the units of the columns, or whitened where a covariance mixes them."""
        per_column = self.factor is None and isinstance(lattice, WhitenedBall)
        return lattice.spacing * self.std if per_column else lattice.spacing

    def unwhiten(self, released: Numbers) -> Numbers:
        """Convert a release in the steps of `step` to the units of the columns."""
        return released if self.factor is None else released @ self.factor.T

    def whiten(self, released: Numbers) -> Numbers:
        """Convert a release in the steps of `step` to whitened units."""
        return released if self.factor is not None else released / self.std

    def covariance(self, d: int) -> Numbers:
        """Return the covariance: diagonal, where only standard deviations are known."""
        if self.factor is None:
            return np.diag(np.full(d, self.std) ** 2)
        return self.factor @ self.factor.T

    def largest_norm2(self, bound: Columns, d: int) -> float:
        """Return an upper bound on ||mu||^2/d, whitened, over the box |mu_j| <= bound_j.

        With a covariance the maximum is at a corner that is hard to find; both bounds are upper ones.
        """
        box = np.full(d, bound)
        if self.factor is None:
            return float(np.mean((box / self.std) ** 2))
        inverse = np.linalg.inv(self.factor)
        scaled = box[:, None] * (inverse.T @ inverse) * box
        return min(float(np.abs(scaled).sum()) / d, float(np.linalg.eigvalsh(scaled)[-1]))


def in_range(name: str, values: Columns) -> Columns:
    """Return public numbers that leave room in floating point, or raise `InvalidParameter`."""
    if not np.all((np.asarray(values) >= _SMALLEST) & (np.asarray(values) <= _LARGEST)):
        allowed = f"between {_SMALLEST:g} and {_LARGEST:g} for exact arithmetic"
        raise refuse(name, given=values, allowed=allowed, remedy="Change the units of the data.")
    return values


def _covariance_factor(cov: Any, d: int) -> Numbers:
    """Return the lower Cholesky factor of a public covariance matrix, or refuse it."""
    matrix = attempt(lambda: np.asarray(cov, dtype=np.float64), Exception)
    if matrix is None:
        fault = f"{type(cov).__name__} instead of a matrix of numbers"
    elif matrix.shape != (d, d):
        fault = f"shape {matrix.shape}"
    elif not np.isfinite(matrix).all():
        fault = "entries that are not finite"
    elif np.abs(matrix - matrix.T).max() > 1e-8 * np.abs(matrix).max():
        fault = "one that is not symmetric"
    else:
        values = np.linalg.eigvalsh(matrix)
        if values[0] > 1e-12 * values[-1]:
            return np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)
        fault = "one that is not positive definite"
    size = f"(n_features, n_features) = ({d}, {d})"
    allowed = f"'private' or a symmetric positive definite matrix of shape {size}"
    raise refuse("cov", got=fault, allowed=allowed)
