"""Private correlations: Kendall's tau and Spearman's rho, without bounds, and Pearson's of shrunk rows.

Pearson's are of rows that are shrunk into a released ellipsoid, which takes the shape of the rows. Proof:
docs/proofs/ball-products.md.

The concordance of the rows of two columns is counted by order, in time n log n for n rows.

The sum over rows l of sign(x_k - x_l) sign(y_k - y_l) needs no pairs of rows. Sort rows by (x, y), and by (y, x). Row k
has places p and q in the two orders, and c rows are before it in both. The sum is then

    n + 4 c - 2 (p + q) - (ties in x) - (ties in y) + (ties in both),

where a row is also a tie of itself. Proof: docs/proofs/kendall.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtr, chdtri
from sklearn.utils.validation import check_is_fitted

from dpstats.covariance.moments import MOST_NOISE, CorrelationErrors, correlation_estimates, unidentified_note
from dpstats.data.parameters import check_choice, check_integer
from dpstats.data.rows import Rows
from dpstats.data.values import as_int64
from dpstats.errors import refuse
from dpstats.inference.estimates import Estimates, HasEstimates
from dpstats.lattice import check_finite_rows
from dpstats.lattice.products import Sums
from dpstats.means.ellipsoids import (
    ROUND_MEAN,
    WIDER,
    BallProducts,
    Ellipsoid,
    EllipsoidPlan,
    Extension,
    Frame,
    PrivateRows,
    Step,
    Walk,
    check_box,
    gaussian_guarantee,
    plan_rounds,
    read_rows,
    release_rows,
)
from dpstats.privacy.gaussian import gaussian_sigma
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import Block
from dpstats.release.additive import JointIntegers, additive_stages
from dpstats.release.estimator import PrivateEstimator, parameters, plan_on_sample, state_missing
from dpstats.release.session import Released, Session

# Pearson's correlations, of rows that are shrunk into a released ellipsoid


Floats = NDArray[np.float64]

PRODUCTS = "products of shrunk rows"
ROUND_SHARES = (0.03, 0.03, 0.03, 0.06)
"""Fraction of the squared mu for each round. The last one sets the shape; the others only come near to it."""
LAST_SHARE = 1 - sum(ROUND_SHARES)
_MEANS = (1 / 3, 1 / 5, 1 / 8)
"""The constants of an extended row that are compared, over the radius of the ball.

A smaller one leaves less noise in the products, and more in the means.
"""
_COUNT = math.sqrt(0.05)
"""Weight of the number of shrunk rows."""
_INSIDE = np.linspace(0.7, 0.9999, 400)
"""Fractions of normal rows that the last ellipsoid may hold."""
_LEAST_SLOPE = 0.3
_LEAST_FOURTH = 0.3
"""Least average of |u|^4, over the square of the average of |u|^2: noise can make a released one smaller."""


@dataclass(frozen=True)
class ShrunkCorrelationPlan(EllipsoidPlan):
    """The plan of a `PrivateCorrelation` by Pearson: rounds that find an ellipsoid, and products of the rows in it."""

    mean: float  # the constant of an extended row in the last stage, over the radius of the ball
    radius2: float  # squared radius of the last ball, for white rows of variance 1

    @property
    def extension(self) -> Extension:
        """Extension of rows in the last stage."""
        return _extension(self.n_features, self.mean, self.bits)

    @property
    def noise_ratio(self) -> float:
        """Ratio of the noise of a correlation to its sampling error, for independent normal columns, well whitened."""
        first, second = _normal_moments(self.radius2, self.n_features)
        d = self.n_features
        noise = float(np.asarray(self.noise(f"{PRODUCTS}, diagonal").std)) / math.sqrt(2)
        ball = (self.extension.radius / 2.0**self.bits) ** 2
        sampling = math.sqrt(second / (d * (d + 2)) / self.n_samples)
        assert first > 0
        return noise / ball * self.radius2 / sampling

    def facts(self) -> dict[str, Any]:
        """Return facts about the plan that its stages do not show, by name."""
        return {"noise_ratio": self.noise_ratio}

    def notes(self) -> list[str]:
        """Return the facts as text, one line each."""
        return [
            "finds an ellipsoid around most rows first: the noise has the shape of the rows",
            f"for normal rows the noise of a correlation is {self.noise_ratio:.2g} times its sampling error",
        ]

    def last_step(self, found: Ellipsoid) -> Step:
        """Return the step of the last stage, for the ellipsoid that the rounds found."""
        radius = np.sqrt(found.squared_radius(self.radius2 / self.n_features))
        return Step(PRODUCTS, self.extension, found, radius)

    def walk(self, release: Walk) -> ShrunkCorrelations:
        step = self.last_step(self.find(release))
        return ShrunkCorrelations(step.ellipsoid, step.radius, release(step), self.frame)


def plan_shrunk_correlations(
    n: int, d: int, guarantee: PrivacyGuarantee, low: Floats, high: Floats
) -> ShrunkCorrelationPlan:
    """Return the plan for public sizes and bounds."""
    frame = Frame(low / 2 + high / 2, high / 2 - low / 2, False, False, False)
    noise = gaussian_sigma(guarantee.epsilon, guarantee.delta) / n
    mean, radius2 = _best_ball(n, d, noise)
    return plan_rounds(
        n,
        guarantee,
        ROUND_SHARES,
        lambda bits: [(PRODUCTS, _extension(d, mean, bits), LAST_SHARE)],
        lambda stages, bits: ShrunkCorrelationPlan(
            stages, guarantee, n, d, frame=frame, bits=bits, mean=mean, radius2=radius2, n_rounds=len(ROUND_SHARES)
        ),
    )


def _extension(d: int, mean: float, bits: int) -> Extension:
    return Extension(d, mean, 0.0, bits, count=_COUNT, norms=True)


def _normal_moments(radius2: Any, d: int) -> tuple[Any, Any]:
    """Return the averages of |u|^2 and |u|^4, for normal rows that are shrunk into a ball."""
    outside = 1 - chdtr(d, radius2)
    first = d * chdtr(d + 2, radius2) + radius2 * outside
    second = d * (d + 2) * chdtr(d + 4, radius2) + radius2**2 * outside
    return first, second


def _best_ball(n: int, d: int, noise: float) -> tuple[float, float]:
    """Return the constant and the squared radius with the least error of a correlation of two white normal columns.

    ``noise`` is the noise of an average that one row moves by 1, at the whole budget. The means of the rows in the last
    ball are as large as the noise of the center, which the last round found.
    """
    radius2 = chdtri(d, 1 - _INSIDE)
    first, second = _normal_moments(radius2, d)
    slope = first / d - 2 * radius2 * (1 - chdtr(d, radius2)) / (d * (d + 2))
    center = (1 + ROUND_MEAN**2) / ROUND_MEAN * noise / math.sqrt(ROUND_SHARES[-1])
    means = center**2 * WIDER * d + 1 / n
    errors = []
    for mean in _MEANS:
        of_products = ((1 + mean**2) * noise * radius2) ** 2 * (1 + _COUNT**2 / 2) / LAST_SHARE
        of_mean = of_products / (mean**2 * radius2)
        error = second / (d * (d + 2)) / n + of_products + of_mean * (2 * means + of_mean)
        errors.append(error / slope**2)
    at, where = np.unravel_index(np.argmin(errors), (len(_MEANS), len(radius2)))
    return _MEANS[at], float(radius2[where])


@dataclass(frozen=True, eq=False)
class ShrunkCorrelations:
    """Public: the last ellipsoid, its radius, and the released products of the rows in it."""

    ellipsoid: Ellipsoid
    radius: Floats  # shape ()
    products: BallProducts
    frame: Frame
    # Derivative of the covariance of shrunk white rows in their covariance. 1 for correlations of shrunk
    # rows.
    slope: float = 1.0
    population: bool = False  # whether the estimand is a population of elliptical rows

    def correct_for_shrinking(self) -> ShrunkCorrelations:
        """Return the correlations of the population, if its rows have an elliptical distribution."""
        products, d = self.products, len(self.units)
        assert products.outside is not None
        outside = float(np.clip(products.outside / products.n, 0.0, 1.0))
        square = float(np.trace(products.products))
        slope = 1 - 2 * outside / ((d + 2) * square) if square > 0 else 0.0
        return replace(self, slope=max(slope, _LEAST_SLOPE), population=True)

    @property
    def estimand(self) -> str:
        """Description of the covered quantities."""
        if self.population:
            return "the correlation of the population, if rows have an elliptical distribution"
        return "the correlation of rows shrunk into the released ellipsoid"

    @property
    def clipped_rows(self) -> float:
        """Noisy number of rows that were shrunk."""
        return float(np.clip(np.asarray(self.products.outside), 0.0, self.products.n))

    def note(self) -> str:
        """Return a note on the shrunk rows and the assumptions."""
        words = f"About {self.clipped_rows:,.0f} rows were shrunk into the ellipsoid. "
        if self.population:
            return words + "Rows that are not elliptical can have another correlation, which the interval misses."
        return words + "The correlation of the population, if rows are elliptical, is the default estimand."

    @property
    def units(self) -> Floats:
        """Matrix from rows of the unit ball to the units of the data."""
        return np.asarray(self.frame.half[:, None] * self.ellipsoid.unwhitening * self.radius)

    @property
    def _spread(self) -> Floats:
        """Covariance of the shrunk rows in the ball; with a slope, of rows that shrinking turned into these."""
        found = self.products.covariance
        round_part = np.trace(found) / len(found) * np.eye(len(found))
        return np.asarray(round_part + (found - round_part) / self.slope)

    @property
    def _scaled(self) -> Floats:
        """Rows of ``units`` over the standard deviations of the columns. They are 0 without a positive variance."""
        units = self.units
        variance = np.einsum("ij,jk,ik->i", units, self._spread, units)
        known = variance > 0
        return np.where(known[:, None], units, 0.0) / np.sqrt(np.where(known, variance, 1.0))[:, None]

    @property
    def identified(self) -> NDArray[np.bool_]:
        """Whether the noise of the variance of a column is at most ``MOST_NOISE`` of it."""
        squared = (self._scaled**2).sum(axis=1)
        noise = math.sqrt(2) * self.products.products_std * squared / self.slope
        return np.asarray((squared > 0) & (noise <= MOST_NOISE))

    @property
    def correlation(self) -> Floats:
        """Correlations from -1 to 1. They are 0 if a column is not identified, and 1 on the diagonal."""
        scaled, known = self._scaled, self.identified
        # Noise can move an estimate beyond 1.
        found = np.where(known[:, None] & known, np.clip(scaled @ self._spread @ scaled.T, -1.0, 1.0), 0.0)
        np.fill_diagonal(found, 1.0)
        return np.asarray(found)

    @property
    def noise(self) -> Floats:
        """Standard deviations of the noise of ``correlation``; infinite if a column is not identified."""
        scaled, known, r = self._scaled, self.identified, self.correlation
        d, mean_std, products_std = len(r), self.products.mean_std, self.products.products_std
        found = np.where(known[:, None] & known, 0.0, np.inf)
        for i, j in zip(*np.triu_indices(d, 1), strict=True):
            if known[i] and known[j]:
                # The noise moves a correlation by its derivative in the products.
                first, second = scaled[i], scaled[j]
                slope = (np.outer(first, second) + np.outer(second, first)) / 2
                slope -= r[i, j] / 2 * (np.outer(first, first) + np.outer(second, second))
                size = (slope**2).sum()
                mean = mean_std**2 * (4 * ((slope @ self.products.mean) ** 2).sum() + 2 * mean_std**2 * size)
                found[i, j] = found[j, i] = math.sqrt(2 * products_std**2 * size + mean) / self.slope
        np.fill_diagonal(found, 0.0)
        return found

    @property
    def rest(self) -> Floats:
        """Bound on the error of the slope, which is a derivative: it holds where rows are round after whitening.

        It is the change that the slope makes, times the distance of the whitened rows from round ones.
        """
        values = np.linalg.eigvalsh(self.products.covariance)
        mean = max(float(values.mean()), math.sqrt(2) * self.products.products_std)
        far = min(float(np.abs(values / mean - 1).max()), 1.0)
        return np.asarray(far * np.abs(self.correlation - replace(self, slope=1.0).correlation))

    @property
    def error(self) -> Floats:
        """Standard errors: sampling, noise, and the error of the slope; infinite if a column is not identified."""
        return np.asarray(np.sqrt(self.sampling**2 + self.noise**2 + self.rest**2))

    @property
    def sampling(self) -> Floats:
        """Standard deviations of the sampling errors, for rows with an elliptical distribution."""
        products, d = self.products, len(self.units)
        assert products.norms is not None
        square = max(float(np.trace(products.covariance)), math.sqrt(2 * d) * products.products_std)
        fourth = max(float(products.norms) + products.norms_std, _LEAST_FOURTH * square**2)
        radial = fourth * d / (d + 2) / square**2
        return np.asarray(math.sqrt(radial / products.n) * (1 - np.clip(self.correlation, -1.0, 1.0) ** 2) / self.slope)


# Correlations of ranks. Spearman's, in whole numbers: sums of products of grades, and the part of each row in them.
#
# The grade of a row is the number of rows below it less the number above it. Proof: docs/proofs/kendall.md.


def grades(ranks: Integers) -> Integers:
    """Return for each row the number of rows below less the number above, from ranks 0, 1, ..., with ties."""
    counts = np.bincount(ranks)
    below = np.cumsum(counts) - counts
    found: Integers = (2 * below + counts - ranks.size)[ranks]
    return found


def signed_sums(values: Integers, ranks: Integers) -> Integers:
    """Return for each row the sum of the values in rows above it, less the sum of the values in rows below it."""
    totals = np.zeros(int(ranks.max(initial=-1)) + 1, dtype=np.int64)
    np.add.at(totals, ranks, values)
    reached = np.cumsum(totals)
    found: Integers = (values.sum() - 2 * reached + totals)[ranks]
    return found


def grade_products(first: Integers, second: Integers, concordance: Integers) -> tuple[int, Integers]:
    """Return the sum S of the products of grades, and for each row its part over n, rounded down.

    The part of a row is S less the sum without the row: of all triples of rows, those with this row.

    Parameters
    ----------
    first, second : int64 arrays
        Ranks of two columns.
    concordance : int64 array
        Sum of the products of signs of each row with all rows, in the same order.
    """
    a, b = grades(first), grades(second)
    part = signed_sums(a, second) + signed_sums(b, first) - concordance + a * b
    return int((a * b).sum()), part // len(a)


def spearman_blocks(names: tuple[str, str], pairs: int, n: int, weight: float) -> tuple[Block, Block]:
    """Return the blocks of the sums of products, and of the squared parts, for all pairs of columns.

    Replacing a row moves a sum by at most 2 n (n - 1), and a sum of squared parts by at most 9 (n - 1)^2.
    """
    sums, squares = names
    root = math.sqrt(pairs)
    return (
        Block(sums, pairs, 3 / (n * (n**2 - 1)), 2.0 * n * (n - 1) * root),
        Block(squares, pairs, 1 / (n * (n - 1) ** 2), 9.0 * (n - 1) ** 2 * root / weight),
    )


Integers = NDArray[np.int64]


def ranks(column: NDArray[np.float64]) -> Integers:
    """Return integers in the order of the entries, from 0; equal entries get the same one."""
    _, found = np.unique(column, return_inverse=True)
    return as_int64(found)


def concordance(first: Integers, second: Integers) -> Integers:
    """Return the sum over the other rows of products of signs, for each row. Rows come sorted.

    ``first`` and ``second`` are the `ranks` of two columns.
    """
    n = first.size
    places = np.arange(n)
    rows = np.sort(first * n + second)
    a, b = np.divmod(rows, n)
    other_places = np.empty(n, dtype=np.int64)
    other_places[np.sort(b * n + places) % n] = places
    _, sizes = np.unique(rows, return_counts=True)
    ties = np.bincount(a)[a] + np.bincount(b)[b] - np.repeat(sizes, sizes)
    found: Integers = n + 4 * smaller_predecessors(other_places) - 2 * (places + other_places) - ties
    return found


def smaller_predecessors(order: Integers) -> Integers:
    """Count the smaller entries before each entry of a permutation of 0, ..., n - 1.

    Entries are sorted by one bit after another, the highest first. Entries of equal higher bits keep their order and
    are next to each other. Each entry with the bit counts those before it without the bit.
    """
    n = order.size
    places = np.arange(n, dtype=np.int32)
    values, counts = np.array(order, dtype=np.int32), np.zeros(n, dtype=np.int32)
    for bit in reversed(range((n - 1).bit_length())):
        start = values >> (bit + 1) << (bit + 1)
        low = (values >> bit & 1) == 0
        before = np.cumsum(low, dtype=np.int32) - low
        before -= before[start]
        counts += np.where(low, 0, before)
        to = np.where(low, start + before, places + (1 << bit) - before)
        values[to], counts[to] = values.copy(), counts.copy()
    return as_int64(counts[order])


STAGE, CONCORDANCE, SQUARES = "rank correlations", "concordance", "squared concordance of rows"
_SUMS = {"kendall": (CONCORDANCE, SQUARES), "spearman": ("products of grades", "squared parts of rows")}
SQUARES_WEIGHT = 0.1
"""Squared weight of the squares. Only the errors of correlations need them."""
MOST_ROWS = 1_000_000
"""n (n - 1)^2 is below 2^62: squares with their noise stay inside 64 bits."""
_SAFE = 1 + 1e-12
_LEAST_SPREAD = 0.3
"""Least variance of a row's concordance, over the variance for independent columns."""


@dataclass(frozen=True)
class CorrelationPlan(ReleasePlan):
    """The plan of a `PrivateCorrelation` by ranks: one stage with the rank correlations of all pairs of columns.

    Attributes
    ----------
    method : {"kendall", "spearman"}
    """

    method: str = "kendall"

    @property
    def noise_std(self) -> float:
        """Standard deviation of the noise of a correlation."""
        return float(np.asarray(self.noise(_SUMS[self.method][0]).std))

    def errors(self, released: Mapping[str, Floats]) -> Floats:
        """Return the standard errors of the correlations: sampling and noise."""
        sums, squares = _SUMS[self.method]
        n, tau = self.n_samples, np.clip(released[sums], -1.0, 1.0)
        raised = released[squares] + float(np.asarray(self.noise(squares).std))
        # A row's part of the correlation has this largest variance, and a ninth for independent columns. A correlation
        # is an average over pairs of rows for Kendall, and over triples for Spearman.
        most, members = (1 / 2, 2) if self.method == "kendall" else (1 / 3, 3)
        spread = np.clip(raised - tau**2, _LEAST_SPREAD * (1 - tau**2) ** 2 / 9, most * (1 - tau**2))
        return np.asarray(np.sqrt(members**2 * spread / n + 2 * (1 - tau**2) / n**2 + self.noise_std**2))

    def facts(self) -> dict[str, Any]:
        """Return facts about the plan that its stages do not show, by name."""
        return {"noise_std": self.noise_std}

    def notes(self) -> list[str]:
        """Return the facts as text, one line each."""
        ratio = self.noise_std * math.sqrt(self.n_samples) * (1.5 if self.method == "kendall" else 1.0)
        return [f"for independent columns the noise of a correlation is {ratio:.2g} times its sampling error"]


def concordance_integers(d: int, n: int, method: str = "kendall") -> JointIntegers:
    """Return the blocks of the stage for n rows of d columns."""
    pairs, others = d * (d - 1) // 2, n - 1
    weight = math.sqrt(SQUARES_WEIGHT)
    if method == "spearman":
        both = spearman_blocks(_SUMS[method], pairs, n, weight)
        return JointIntegers(STAGE, both, math.inf, math.sqrt(1 + SQUARES_WEIGHT) * _SAFE)
    blocks = (
        Block(CONCORDANCE, pairs, 2 / (n * others), float(others * d)),
        Block(SQUARES, pairs, 1 / (n * others**2), 5.0 * others**2 * math.sqrt(pairs) / weight),
    )
    return JointIntegers(STAGE, blocks, math.inf, math.sqrt(1 + SQUARES_WEIGHT) * _SAFE)


def concordance_sums(X: Floats, method: str = "kendall") -> Sums:
    """Return the sums over pairs of rows of products of signs, and the sums over rows of their squared sums.

    Both have an entry for each pair of columns. For Spearman they are of products of grades.
    """
    columns = [ranks(column) for column in X.T]
    total, squares = [], []
    # One pair of columns at a time: the rows of all pairs would need n d^2/2 numbers.
    for first, second in itertools.combinations(columns, 2):
        row = concordance(first, second)
        if method == "kendall":
            found = row.sum() // 2
        else:
            order = np.lexsort((second, first))  # the order of the concordance
            found, row = grade_products(first[order], second[order], row)
        total.append(found)
        squares.append((row**2).sum())
    return dict(zip(_SUMS[method], (np.array(total), np.array(squares)), strict=True))


def plan_concordance(n: int, d: int, guarantee: PrivacyGuarantee, method: str) -> CorrelationPlan:
    """Return the plan for public sizes."""
    stages = additive_stages([concordance_integers(d, n, method)], guarantee.epsilon, guarantee.delta)
    return CorrelationPlan(stages, guarantee, n, d, method=method)


AnyPlan = CorrelationPlan | ShrunkCorrelationPlan

ESTIMANDS = ("population", "clipped")
_ESTIMANDS = {
    "kendall": ("Kendall's tau of the population, where ties count as neither order", "tau"),
    "spearman": ("Spearman's rho of the population, 12 times the covariance of the grades", "rho"),
}
_FEW_ROWS = 50


@parameters
class PrivateCorrelation(HasEstimates, PrivateEstimator[AnyPlan]):
    """Private correlations of all pairs of columns: Kendall's tau, Spearman's rho, or Pearson's of shrunk rows.

    Kendall's tau is the probability that two rows are in the same order in both columns, less the probability of
    opposite orders. Spearman's rho is the correlation of ranks. They do not change with the units of a column, and
    heavy tails do not matter.

    With ``method="pearson"``, the release first finds an ellipsoid around most rows, and shrinks rows into it. The
    noise then depends on the size of the rows, and little on the bounds. The result is Pearson's correlation of the
    population if rows have an elliptical distribution, such as a normal one. For Pearson's correlation of other rows,
    use `PrivateCovariance`.

    Parameters
    ----------
    bounds : (low, high), or array of shape (n_features, 2), optional
        For "pearson": public bounds of every column, known without the data. They set the scale of the first round
        only, and rows may lie outside. Labeled bounds choose columns by name.
    method : {"kendall", "spearman", "pearson"}, default="kendall"
        The correlation.
    missing : {"error", "drop"}, default="error"
        Treatment of a row with a NaN or infinite entry. "error" raises `InvalidData`. "drop" leaves the row out: a
        part of epsilon counts the complete rows, and the release uses a random sample of them, of public size.
    missing_codes : sequence of numbers and text, optional
        Public codes of missing entries, such as ``[-999, "unk"]``, in all columns. Numbers are compared by value, words
        by text.
    epsilon : float, default=1.0
        Privacy parameter. Must be positive.
    delta : float, default=1e-6
        Privacy parameter, in (0, 1).
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Budget that every call of ``fit`` charges. Clones share it.

    Attributes
    ----------
    correlation_ : ndarray of shape (n_features, n_features)
        Released correlations, with ones on the diagonal. For "pearson" they are corrected for the shrinking of rows.
        Noise can give the matrix negative eigenvalues.
    noise_std_ : float, or ndarray of shape (n_features, n_features)
        Standard deviation of the noise of a correlation. For "pearson" it differs by pair, and is infinite for a pair
        that is not identified. It is that of ``correlation_``.
    identified_ : ndarray of bool, shape (n_features, n_features)
        Only for "pearson": whether the noise of both variances is at most 0.3 of them. Other correlations are NaN,
        with the interval [-1, 1].
    clipped_rows_ : float
        Only for "pearson": noisy number of rows that were shrunk.
    privacy_ : PrivacyGuarantee
        For neighbors that differ in one row; n is public.
    plan_ : CorrelationPlan or ShrunkCorrelationPlan
        The release plan: every released quantity and its noise.
    rows_, rows_noise_std_, n_rows_ : float, float, int
        Noisy number of complete rows, the standard deviation of its noise, and the number of rows that were used. Only
        with ``missing="drop"``.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Column names. Only if ``X`` has column names.

    Notes
    -----
    **Privacy of Kendall's tau.** A row is in n - 1 pairs of rows. The products of signs of a pair move by at most
    n_features in l2, so all correlations together move by at most 2 n_features / n.

    **Privacy of Spearman's rho.** The sum of the products of grades moves by at most 2 n (n - 1), so a correlation
    moves by at most 6 / (n + 1).

    **Privacy of Pearson's correlation.** A shrunk row u is extended by a constant to v, of norm at most R. The sum of
    the matrices v v' moves by at most sqrt(2) R^2. The sum of the fourth powers of the norms of u costs nothing more.

    **Estimand.** For "kendall": tau-a of the population, where ties count as neither order. For "spearman": 12 times
    the covariance of the grades, which is Spearman's rho of columns without ties. Ties move it toward 0. For "pearson":
    the correlation of the population, if its rows have an elliptical distribution. If not, the interval can miss it.
    With ``estimand="clipped"`` it is the correlation of rows shrunk into the released ellipsoid.

    **Assumptions.** Independent rows, and enough of them for averages to be nearly normal. Rank correlations
    assume nothing about the columns. For "pearson", standard errors use the average fourth power of the norms of
    whitened rows. They are right for elliptical rows. For exponential and for yes/no columns, coverage was measured.

    **Time.** Kendall's tau takes a time that grows as n log n for each pair of columns: 0.05 seconds for 100,000 rows.

    **Limits.** ``method="pearson"`` is for elliptical rows: other rows can be missed, and the release does not
    detect them. Rank correlations of columns with many ties are nearer to 0 than those without.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.covariance import PrivateCorrelation
    >>> x = np.random.default_rng(0).standard_cauchy(size=2000)
    >>> model = PrivateCorrelation(random_state=0).fit(np.column_stack([x, np.exp(np.clip(x, -9, 9))]))
    >>> model.correlation_.round(1)
    array([[1., 1.],
           [1., 1.]])

    Pearson's correlation of normal rows, with bounds that are ten times too wide:

    >>> X = np.random.default_rng(0).multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], size=20_000)
    >>> model = PrivateCorrelation(method="pearson", bounds=(-40, 40), random_state=0).fit(X)
    >>> low, high = model.confidence_interval()
    >>> bool(low[0] < 0.6 < high[0] < 0.63)
    True
    """

    bounds: Any = None
    method: str = "kendall"
    missing: str = "error"
    missing_codes: Any = None
    epsilon: float = 1.0
    delta: float = 1e-6
    random_state: Any = None
    budget: Any = None

    _per_column = ("bounds",)

    def plan(self, n_samples: int, n_features: int) -> AnyPlan:
        """Return the release plan of a fit on data of this size.

        Parameters
        ----------
        n_samples, n_features : int
            Public sizes.

        Examples
        --------
        >>> from dpstats.covariance import PrivateCorrelation
        >>> round(PrivateCorrelation().plan(5_000, 2).noise_std, 4)
        0.0035
        >>> plan = PrivateCorrelation(method="pearson", bounds=(-5, 5)).plan(5_000, 2)
        >>> round(plan.noise_ratio, 2)  # noise over the sampling error of a correlation
        0.39
        """
        ranks = check_choice("method", self.method, ["kendall", "spearman", "pearson"]) != "pearson"
        n = check_integer("n_samples", n_samples, at_least=2, at_most=MOST_ROWS if ranks else None)
        d = check_integer("n_features", n_features, at_least=1)
        if d == 1:
            # "n_features = 1" is how scikit-learn expects a table of one column to be refused.
            raise refuse(
                "n_features",
                got="n_features = 1",
                allowed="at least 2 for a correlation",
                remedy="Fit with more columns.",
            )
        guarantee = gaussian_guarantee(self.epsilon, self.delta)
        region = self._region(d)
        if self._policy() == "drop":
            return plan_on_sample(self, n, d)
        if region is None:
            return plan_concordance(n, d, guarantee, self.method)
        return plan_shrunk_correlations(n, d, guarantee, *region)

    def _region(self, d: int) -> tuple[Floats, Floats] | None:
        """Return the public bounds of the columns; None for rank correlations, which have none."""
        if self.method != "pearson":
            if self.bounds is not None:
                remedy = "Leave them out, or set method='pearson'."
                raise refuse("bounds", given=self.bounds, allowed=f"None for method={self.method!r}", remedy=remedy)
            return None
        return check_box(self.bounds, "clip", d)[:2]

    def _fill(self, d: int) -> Any:
        region = self._region(d)
        return super()._fill(d) if region is None else region[0] / 2 + region[1] / 2

    def _read(self, rows: Rows, plan: AnyPlan) -> Mapping[str, Any] | PrivateRows:
        if isinstance(plan, ShrunkCorrelationPlan):
            return read_rows(rows, plan)
        check_finite_rows(rows)
        return {STAGE: concordance_sums(np.asarray(rows.whole().X, dtype=np.float64), plan.method)}

    def _release(self, private: Any, plan: AnyPlan, session: Session) -> None:
        if isinstance(plan, ShrunkCorrelationPlan):
            release_rows(private, plan, session)
        else:
            super()._release(private, plan, session)

    def _report(self, released: Released, plan: AnyPlan) -> None:
        if isinstance(plan, ShrunkCorrelationPlan):
            self._found = plan.walk(plan.reading(released))
            found = self._population = self._found.correct_for_shrinking()
            known = found.identified
            self.noise_std_: float | Floats = found.noise
            self.identified_ = known[:, None] & known
            shown = self.identified_ | np.eye(len(known), dtype=bool)
            self.correlation_: Floats = np.where(shown, found.correlation, np.nan)
            self.clipped_rows_ = found.clipped_rows
            return
        self._sums = dict(released[STAGE])
        d = plan.n_features
        self.correlation_ = np.eye(d)
        i, j = np.triu_indices(d, 1)
        self.correlation_[i, j] = self.correlation_[j, i] = np.clip(self._sums[_SUMS[plan.method][0]], -1.0, 1.0)
        self.noise_std_ = plan.noise_std

    def estimates(self, *, estimand: str | None = None) -> Estimates:
        """Return the correlations with the distribution of their errors: a row for each pair of columns.

        Parameters
        ----------
        estimand : {"population", "clipped"}, optional
            For "pearson": the correlation of a population of elliptical rows (default), or of shrunk rows.
        """
        check_is_fitted(self, "correlation_")
        plan, names = self.plan_, self._column_names()
        i, j = np.triu_indices(plan.n_features, 1)
        few = f"Warning: below {_FEW_ROWS} rows, intervals may cover less than stated."
        notes, unknown = [few] if plan.n_samples < _FEW_ROWS else [], []
        if isinstance(plan, CorrelationPlan):
            if estimand is not None:
                raise refuse("estimand", given=estimand, allowed=f"None for method={plan.method!r}, which has one")
            estimate, error = self.correlation_[i, j], plan.errors(self._sums)
            covered, header = _ESTIMANDS[plan.method]
            title = "Private rank correlations"
        else:
            name = "population" if estimand is None else check_choice("estimand", estimand, ESTIMANDS)
            found = self._population if name == "population" else self._found
            title, header = "Private correlations", "correlation"
            estimate, error = found.correlation[i, j], found.error[i, j]
            covered = found.estimand
            notes.append(found.note())
            unknown = unidentified_note(names, found.identified)
        return correlation_estimates(
            names,
            CorrelationErrors(estimate, error),
            state_missing(self.plan_, covered),
            title=title,
            header=header,
            facts=self._table_facts(),
            notes=notes,
            unknown=unknown,
            simulated=self.privacy_.simulated,
        )
