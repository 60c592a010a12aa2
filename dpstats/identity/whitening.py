"""The null hypothesis in whitened coordinates: public numbers, a row map, and how to simulate both.

Proof: docs/proofs/identity-tests.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dpstats.data.parameters import by_name, check_choice, check_columns, column_names
from dpstats.data.rows import as_float64
from dpstats.data.values import as_int64
from dpstats.errors import attempt, refuse, refuse_data
from dpstats.lattice.rounding import not_finite

# A test of "the rows are N(mean, cov)" uses z = cov^(-1/2) (x - mean). This map applies public numbers to each row
# separately, so it does not change the neighboring relation. Under the null, z is standard normal for any mean and
# covariance. Proof: docs/proofs/identity-tests.md.

_BLOCK = 1 << 18  # entries whitened at once: two megabytes
_ROUNDING = 1e-9
_CENTERED = "such a row as the mean of the null hypothesis"
NULLS = ("normal", "product")


@dataclass(frozen=True, eq=False)
class Reference:
    """A fully specified null hypothesis.

    Attributes
    ----------
    n_features : int
    center : float or array of shape (n_features,)
        The mean under the null.
    whitener : None, array of shape (n_features,) or (n_features, n_features)
        Symmetric square root of the inverse covariance: z = (x - center) W. A vector is a diagonal; None
        is the identity.
    signs_mean : None or array of shape (n_features,)
        Means of independent signs, or None for normal rows.
    """

    n_features: int
    center: Any = field(repr=False)
    whitener: NDArray[np.float64] | None = field(repr=False)
    signs_mean: NDArray[np.float64] | None = None

    @classmethod
    def build(cls, mean: Any, cov: Any, null: str, n_features: int) -> Reference:
        """Return the null hypothesis of a test's public parameters, checked."""
        null = check_choice("null", null, NULLS)
        center = check_columns("mean", mean, n_features)
        if null == "normal":
            return cls(n_features, center, _whitener(cov, n_features))
        if cov is not None:
            raise refuse("cov", given=cov, allowed="None with null='product'", remedy="Signs have variance 1 - mean^2.")
        means = np.broadcast_to(center, (n_features,)).astype(np.float64)
        if np.any(np.abs(means) > 0.99):
            raise refuse("mean", allowed="between -0.99 and 0.99 in every column with null='product'")
        return cls(n_features, means, 1 / np.sqrt(1 - means**2), means)

    @property
    def law(self) -> str:
        """Everything that determines the distribution of whitened rows: part of the key of a calibration."""
        return "normal" if self.signs_mean is None else f"product {self.signs_mean.tolist()}"

    @property
    def uniform_signs(self) -> bool:
        """Whether the signs of whitened rows are independent and uniform under the null."""
        return self.signs_mean is None or not self.signs_mean.any()

    @property
    def largest(self) -> float | None:
        """The largest whitened coordinate there can be; None if it is unbounded."""
        if self.signs_mean is None or self.whitener is None:
            return None
        return float(np.max((1 + np.abs(self.signs_mean)) * self.whitener))

    def blocks(self, X: NDArray[Any], missing: str) -> Iterator[tuple[slice, NDArray[np.float64]]]:
        """Yield the whitened rows of ``X`` in blocks, never copying it whole.

        A row with a NaN or infinite entry raises an error, or counts as the center: all its z are 0.
        """
        rows = max(1, _BLOCK // self.n_features)
        for start in range(0, len(X), rows):
            piece = slice(start, min(start + rows, len(X)))
            yield piece, self.whiten(X[piece], missing)

    def whiten(self, X: NDArray[Any], missing: str = "error") -> NDArray[np.float64]:
        """Return z for every row; what becomes of a row depends on no other row."""
        X = np.asarray(X, dtype=np.float64)
        # A finite sum proves finite entries in one quick pass; sums of large ones may still overflow.
        with np.errstate(all="ignore"):
            known_finite = bool(np.isfinite(X.sum()))
        finite = np.ones(len(X), dtype=np.bool_) if known_finite else np.isfinite(X).all(axis=1)
        if not finite.all():
            if missing == "error":
                raise not_finite(_CENTERED)
            X = np.where(finite[:, None], X, self.center)
        if self.signs_mean is not None:
            # Rows may be coded as 0 and 1, so 0 is the sign -1.
            X = np.where(X > 0, 1.0, -1.0)
        with np.errstate(all="ignore"):
            Z = X - self.center
            if self.whitener is not None:
                # One memory order: how an entry is rounded must not depend on how the table is stored.
                Z = Z * self.whitener if self.whitener.ndim == 1 else np.ascontiguousarray(Z) @ self.whitener
            overflow = not np.isfinite(Z.sum())
        if overflow:
            # A finite row may overflow. 1e300 is far beyond any clip, and NaN becomes the center.
            Z = np.nan_to_num(Z, copy=False, nan=0.0, posinf=1e300, neginf=-1e300)
        if not finite.all():
            Z[~finite] = 0.0
        return np.asarray(Z)

    def sample(self, n: int, generator: np.random.Generator, shift: Any = 0.0) -> NDArray[Any]:
        """Return n whitened rows with mean ``shift`` (0: the null hypothesis), single precision if normal."""
        if self.signs_mean is None:
            Z = generator.standard_normal((n, self.n_features), dtype=np.float32)
            if np.any(shift):
                Z += np.asarray(shift, dtype=np.float32)
            return Z
        X = np.where(generator.random((n, self.n_features)) < self.up(shift), 1.0, -1.0)
        return self.whiten(X)

    def sums(
        self, n: int, size: int, generator: np.random.Generator, shift: Any, steps_per_unit: float, largest: int
    ) -> NDArray[np.int64]:
        """Return column sums of n rows rounded to a grid, for ``size`` datasets, from their exact distribution.

        Shape (size, n_features). How often each point of the grid occurs in a column is multinomial: no row
        is drawn, and n may be anything.
        """
        d = self.n_features
        if self.signs_mean is not None:
            high, low = self.sign_steps(steps_per_unit, largest)
            count = generator.binomial(n, self.up(shift), size=(size, d))
            result: NDArray[np.int64] = high * count + low * (n - count)
            return result
        shifts = np.broadcast_to(np.asarray(shift, dtype=np.float64), (d,))
        total = np.empty((size, d), dtype=np.int64)
        for value in np.unique(shifts):
            columns = np.flatnonzero(shifts == value)
            points, weights = grid_law(steps_per_unit, largest, value)
            total[:, columns] = generator.multinomial(n, weights, size=(size, columns.size)) @ points
        return total

    def sign_steps(self, steps_per_unit: float, largest: int) -> NDArray[np.int64]:
        """Return the whitened values of the signs 1 and -1 of every column on a grid: (2, n_features)."""
        pair = self.whiten(np.stack([np.ones(self.n_features), -np.ones(self.n_features)]))
        return as_int64(np.rint(np.clip(pair * steps_per_unit, -largest, largest)))

    def sign_rows(self, Z: NDArray[Any], steps_per_unit: float, largest: int) -> NDArray[np.int64]:
        """Return whitened signs on a grid: one of the two values of `sign_steps` for any Z, and 0 for a missing row.

        Sensitivities use the box of these values, which includes the missing row.
        """
        high, low = self.sign_steps(steps_per_unit, largest)
        return np.where(Z > 0, high, np.where(Z < 0, low, 0))

    def sign_sums(self, n: int, size: int, generator: np.random.Generator, shift: Any) -> NDArray[np.int64]:
        """Return column sums of the signs of n rows, for ``size`` datasets, from their exact distribution."""
        count = generator.binomial(n, self._positive(shift), size=(size, self.n_features))
        result: NDArray[np.int64] = 2 * as_int64(count) - n
        return result

    def sample_signs(self, n: int, generator: np.random.Generator, shift: Any = 0.0) -> NDArray[np.int64]:
        """Return the signs of n whitened rows with mean ``shift``."""
        return np.where(generator.random((n, self.n_features)) < self._positive(shift), 1, -1)

    def _positive(self, shift: Any) -> NDArray[np.float64]:
        """Return P(z >= 0) in each column."""
        up = ndtr(np.asarray(shift, dtype=np.float64)) if self.signs_mean is None else self.up(shift)
        return np.broadcast_to(up, (self.n_features,))

    def up(self, shift: Any = 0.0) -> NDArray[np.float64]:
        """Return P(sign = 1) in each column where whitened means are ``shift``."""
        assert self.signs_mean is not None and self.whitener is not None
        mean = self.signs_mean + np.asarray(shift) / self.whitener
        # The farthest distance there can be may be rounded up.
        if np.any(np.abs(mean) > 1 + _ROUNDING):
            raise refuse("distance", allowed="not move a column's mean beyond -1 or 1 in this direction")
        up: NDArray[np.float64] = (1 + np.clip(mean, -1, 1)) / 2
        return up


# From normal rows to signs: the reduction of theorem 9.3.1


def grid_law(steps_per_unit: float, largest: int, shift: float = 0.0) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the points of a grid and their probabilities for a rounded and clipped N(shift, 1)."""
    points = np.arange(-largest, largest + 1)
    edges = (points[:-1] + 0.5) / steps_per_unit - shift
    weights = np.diff(np.concatenate([[0.0], ndtr(edges), [1.0]]))
    return points, weights / weights.sum()


def signs_of(Z: NDArray[Any]) -> NDArray[np.int8]:
    """Return the signs of whitened rows; 0 counts as positive."""
    signs = (Z >= 0).view(np.int8)
    return np.asarray(2 * signs - 1, dtype=np.int8)


def check_signs(reference: Reference, instead: str) -> None:
    """Refuse a test on signs where they are not uniform under the null."""
    if not reference.uniform_signs:
        raise refuse(
            "mean",
            allowed="0 for a test on signs with null='product'",
            remedy=f"Their signs are not uniform. Use {instead}.",
        )


def _whitener(cov: Any, n_features: int) -> NDArray[np.float64] | None:
    """Return the symmetric inverse square root of a covariance matrix, or of a vector of variances."""
    if cov is None:
        return None
    masked = np.ma.isMaskedArray(cov)
    matrix = attempt(lambda: np.array(cov, dtype=object) if masked else np.asarray(cov), Exception)
    if matrix is None:
        raise refuse("cov", got="rows of unequal length", allowed="a vector or a matrix of numbers")
    if matrix.dtype.kind not in "iuf" or matrix.shape not in ((n_features,), (n_features, n_features)):
        raise refuse(
            "cov",
            got=f"shape {matrix.shape}",
            allowed=f"None, {n_features} variances, or a {n_features} x {n_features} matrix of numbers",
        )
    matrix = matrix.astype(np.float64)
    if not np.isfinite(matrix).all():
        raise refuse("cov", allowed="finite")
    if matrix.ndim == 1:
        if np.any(matrix <= 0):
            raise refuse("cov", got="a variance that is not positive", allowed="positive definite")
        return np.asarray(1 / np.sqrt(matrix))
    # By a power of four, which rounds nothing: sums and products of the largest numbers stay finite.
    half = int(np.frexp(np.abs(np.diag(matrix)).max())[1]) // 2
    with np.errstate(over="ignore"):
        matrix = np.ldexp(matrix, -2 * half)
    if np.abs(matrix).max() > 1e150:
        raise refuse("cov", got="an entry far beyond its variances", allowed="positive definite")
    scale = np.sqrt(np.outer(np.abs(np.diag(matrix)), np.abs(np.diag(matrix))))
    if np.any(np.abs(matrix - matrix.T) > 1e-9 * scale + 1e-300):
        raise refuse("cov", allowed="symmetric")
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    # Below this an eigenvalue is the rounding of the others, and its direction means nothing.
    if values[0] <= n_features * np.finfo(np.float64).eps * abs(values[-1]):
        raise refuse("cov", got="a smallest eigenvalue of about 0 or less", allowed="positive definite")
    root: NDArray[np.float64] = np.ldexp((vectors / np.sqrt(values)) @ vectors.T, -half)
    return root


def sign_reduction(X: Any, mean: Any = 0.0, cov: Any = None) -> NDArray[np.int8]:
    """Return F(x) = sgn(cov^(-1/2) (x - mean)) for every row, with sgn 0 = 1.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Finite numbers.
    mean : float or array of shape (n_features,), default=0.0
        Public; with labels, by the names of a data frame's columns, and so is ``cov``.
    cov : None, array of shape (n_features,) or (n_features, n_features), default=None
        Public covariance matrix, or variances; None is the identity.

    Returns
    -------
    int8 array of shape (n_samples, n_features)
        Entries -1 and 1: uniform and independent if the rows are N(mean, cov).

    Notes
    -----
    **Mean.** If cov^(-1/2) (x - mean) has mean a, column i of the signs has mean erf(a_i/sqrt 2), which is close to
    sqrt(2/pi) a_i. For small a and without privacy, a test on signs needs pi/2 times as many rows as a test on the
    whitened rows. The chain in the text has a wrong sign and wrong constants in this step (docs/errata.md).

    **Privacy.** The map uses public numbers and acts on each row separately, so neighbors stay neighbors.

    **Ties.** Entries at their center have sign +1. Data with many such ties (counts, rounded or imputed numbers)
    therefore do not have uniform signs.

    Examples
    --------
    >>> from dpstats.identity import sign_reduction
    >>> sign_reduction([[0.5, -2.0], [3.0, 0.0]], mean=[1.0, 0.0])
    array([[-1, -1],
           [ 1,  1]], dtype=int8)
    """
    rows = np.asarray(X)
    if rows.ndim != 2 or rows.size == 0 or rows.dtype.kind not in "biuf":
        raise refuse_data("X", allowed="a non-empty 2-d table of real numbers")
    if rows.dtype.itemsize > 8:
        rows = as_float64(rows)
    names = column_names(X)
    reference = Reference.build(by_name("mean", mean, names), by_name("cov", cov, names), "normal", rows.shape[1])
    result = np.empty(rows.shape, dtype=np.int8)
    for piece, Z in reference.blocks(rows, "error"):
        result[piece] = signs_of(Z)
    return result


# Alternatives: the direction of the mean, and its largest possible distance

LARGEST_DISTANCE = 1e6


def unit_vector(direction: Any, n_features: int) -> NDArray[np.float64]:
    """Return the unit vector of a direction."""
    if isinstance(direction, str):
        if check_choice("direction", direction, ["dense", "sparse"]) == "dense":
            return np.full(n_features, 1 / math.sqrt(n_features))
        return np.asarray(np.eye(1, n_features)[0])
    try:
        vector = np.asarray(direction)
    except ValueError:
        vector = np.array(None)
    numbers = vector.shape == (n_features,) and vector.dtype.kind in "iuf"
    vector = vector.astype(np.float64) if numbers else np.zeros(1)
    if not np.isfinite(vector).all() or not vector.any():
        raise refuse(
            "direction",
            given=direction,
            allowed=f"'dense', 'sparse' or {n_features} finite numbers that are not all zero",
        )
    vector = vector / np.abs(vector).max()
    result: NDArray[np.float64] = vector / np.linalg.norm(vector)
    return result


def farthest_distance(reference: Reference, unit: NDArray[np.float64]) -> float:
    """Return the largest distance that rows can have from the null in the direction of a unit vector."""
    if reference.signs_mean is None or reference.whitener is None:
        return math.inf
    moving = unit != 0
    room = (1 - np.sign(unit) * reference.signs_mean) * reference.whitener
    return float(np.min(room[moving] / np.abs(unit[moving])))


def norm_rate(distance: float, d: int, epsilon: float) -> float:
    """Return the order of the number of rows at which a released norm of the sum detects a distance.

    The rate of the tests that release one number of sensitivity sqrt(d): validation/rates/identity_tests.py.
    """
    a, e = distance, epsilon
    return float(math.sqrt(d) / a**2 + (d / (a**2 * e)) ** (2 / 3) + math.sqrt(d) / (a * e))
