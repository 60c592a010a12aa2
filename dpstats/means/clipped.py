"""The clipped mean: bound every row, average, add noise (algorithm 9.2.1, made private).

Proof: docs/proofs/clipped-mean.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dpstats.data.parameters import (
    check_choice,
    check_columns,
    check_integer,
    check_privacy_parameters,
    check_real,
)
from dpstats.data.tables import Table
from dpstats.errors import InvalidParameter
from dpstats.intervals import half_widths, simultaneous_level
from dpstats.lattice import BallLattice, BoxLattice, RowLattice
from dpstats.means.base import ColumnEstimator, of_interval, with_noise
from dpstats.means.clipping import clipping_bias_bound, normal_clipping_bias_bound
from dpstats.means.moments import MEAN, SQUARES, finest, frozen, mean_integers, squares_integers
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import Stage
from dpstats.release.additive import additive_stages
from dpstats.release.session import Released
from dpstats.results import ConfidenceInterval, Summary

if TYPE_CHECKING:
    from dpstats.data.parameters import Columns


@dataclass(frozen=True)
class ClippedMeanPlan(ReleasePlan):
    """The plan of a `ClippedMean`, with the public facts that the fit and its report go by.

    ``std`` is the public standard deviation, where there is one. The lattice is part of the plan, so
    that the clip that is applied is the one the noise was calibrated to.
    """

    lattice: RowLattice = field(repr=False, compare=False)
    clip: float | tuple[float, ...]
    clip_norm: str
    calibration: str
    missing: str
    std: float | tuple[float, ...] | None = None

    def expected_error(self, std: float | NDArray[np.float64] | None = None) -> float:
        """Return the expected squared l2 error, exact where no row is clipped.

        Parameters
        ----------
        std : float or array of shape (n_features,), optional
            Standard deviation of the columns (default: the estimator's public ``std``).

        Returns
        -------
        float
            ``sum_j std_j^2/n + sum_j noise_std_j^2``: the error for the population mean. Without any
            ``std`` the first sum is left out: the error for the clipped sample mean. For rows
            bounded by R in d columns the second sum is 4 R^2 d^2 s^2/n^2, s the noise of a
            number of sensitivity one.
        """
        spread = check_columns("std", std, self.n_features, at_least=0) if std is not None else self.std
        noise = _total(np.asarray(self.additive[0].noise_std) ** 2, self.n_features)
        sampling = (
            0.0 if spread is None else _total(np.asarray(spread) ** 2, self.n_features) / self.n_samples
        )
        return noise + sampling


def _total(values: NDArray[np.float64], count: int) -> float:
    return float(np.broadcast_to(values, (count,)).sum())


class ClippedMean(ColumnEstimator[ClippedMeanPlan]):
    """Private mean of rows that are clipped to a public region.

    Use it when public bounds on the columns are known and not much wider than the data: the noise
    is proportional to the bounds.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy parameter, greater than 0.
    delta : float, default=0.0
        0 releases with Laplace noise (pure privacy); in (0, 1) with Gaussian noise.
    clip : float or array of shape (n_features,)
        Public bound: how far an entry (or, for ``clip_norm="l2"``, a row) may be from ``center``. With labels (a
        pandas Series) a fit takes it, and ``center`` and ``std``, by the names of a data frame's columns, and
        refuses other names.
    clip_norm : {"linf", "l2"}, default="linf"
        "linf" clips every entry on its own; "l2" projects every row on the ball of radius ``clip``,
        a single number.
    center : float or array of shape (n_features,), default=0.0
        Public centre of the region.
    std : None, float, array of shape (n_features,) or "private", default=None
        Standard deviation of the columns, for intervals about the population mean: a public
        number (an upper bound is safe), or "private" to estimate it from the data as a second
        release. For ``clip_norm="l2"`` a public number is taken as that of the *clipped* rows, which
        projection can make larger in a column than it was. None: intervals are about the clipped
        sample mean.
    std_share : float, default=0.1
        Part of the privacy (of mu^2, or of epsilon where delta = 0) that goes to the second
        release; used with ``std="private"`` only.
    noise : {"proportional", "isotropic"}, default="proportional"
        With one bound per column: noise proportional to the column's bound, so that units do not
        matter, or the same noise on all columns. The expected total squared error of Gaussian noise is
        the same.
    calibration : {"exact", "textbook"}, default="exact"
        "exact" uses the exact Gaussian curve. "textbook" uses the noise printed in algorithm 9.2.1
        and raises `NotPrivate` wherever that noise does not give the stated delta.
    missing : {"error", "center"}, default="error"
        What a NaN or infinite entry does: refuse the data (which shows that there was one), or
        count as the centre.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise: a release. Anything else is a simulation.
    budget : PrivacyBudget, optional
        Charged by every fit; shared by clones.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        The private estimate, in the units of the data.
    noise_scale_ : float or ndarray of shape (n_features,)
        Standard deviation (Gaussian) or scale (Laplace) of the noise in ``mean_``; one number
        unless ``clip`` is an array and the noise proportional to it.
    noise_std_ : ndarray of shape (n_features,)
        Standard deviation of the noise in ``mean_``.
    std_ : ndarray of shape (n_features,) or None
        Standard deviation of the columns that intervals use: public, or estimated.
    privacy_ : PrivacyGuarantee
        For neighbours that differ in one row; n is public.
    plan_ : ReleasePlan
        What was released, at which noise.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Where X has column names.

    Notes
    -----
    Neighbours are datasets of the same public size with one row replaced. With bounds R_j the sum
    of the clipped rows has l2 sensitivity 2||R||_2 (l1: 2||R||_1) for "linf", 2R for "l2". Rows are
    rounded to a public lattice of 2^-30 of the bound, added exactly, and noise is drawn on
    the same lattice, so the guarantee holds in floating point.

    The estimand is E[clip(x)] with no assumption; the population mean to within the bias of
    clipping, which `summary` bounds.

    References
    ----------
    Cai, Wang and Zhang (2021), The cost of privacy, algorithm 2.1; algorithm 9.2.1 of the source,
    whose printed noise is not private (docs/errata.md).

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.means import ClippedMean
    >>> X = np.random.default_rng(0).normal([1.0, -2.0], 1.0, size=(5000, 2))
    >>> mean = ClippedMean(epsilon=1.0, delta=1e-6, clip=6.0, std=1.0, random_state=0).fit(X)
    >>> mean.mean_.round(2)
    array([ 1.01, -2.  ])
    >>> low, high = mean.confidence_interval()
    >>> (high - low).round(3)
    array([0.079, 0.079])
    >>> print(mean.privacy_)
    (epsilon = 1, delta = 1e-06), one row replaced [simulated noise, not a private release]
    """

    _per_column = ("clip", "center", "std")

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 0.0,
        clip: Any,
        clip_norm: str = "linf",
        center: Any = 0.0,
        std: Any = None,
        std_share: float = 0.1,
        noise: str = "proportional",
        calibration: str = "exact",
        missing: str = "error",
        random_state: Any = None,
        budget: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.clip = clip
        self.clip_norm = clip_norm
        self.center = center
        self.std = std
        self.std_share = std_share
        self.noise = noise
        self.calibration = calibration
        self.missing = missing
        self.random_state = random_state
        self.budget = budget

    def plan(self, n_samples: int, n_features: int) -> ClippedMeanPlan:
        """Return what a fit on data of this size would release, and at which cost.

        Parameters
        ----------
        n_samples : int
            Number of rows, at least 2; public.
        n_features : int
            Number of columns; public.

        Returns
        -------
        ReleasePlan
            Its ``guarantee`` is the composed total; ``expected_error(std)`` is in closed form.

        Examples
        --------
        >>> from dpstats.means import ClippedMean
        >>> plan = ClippedMean(epsilon=0.5, delta=1e-6, clip=1.0).plan(10_000, 5)
        >>> print(plan)
        Release plan for n = 10000, d = 5: (epsilon = 0.5, delta = 1e-06), one row replaced
          clipped mean: 5 numbers, gaussian noise of scale 0.00360348
        """
        n = check_integer("n_samples", n_samples, at_least=2)
        d = check_integer("n_features", n_features, at_least=1)
        epsilon, delta = check_privacy_parameters(self.epsilon, self.delta)
        missing = check_choice("missing", self.missing, ["error", "center"])
        calibration = check_choice("calibration", self.calibration, ["exact", "textbook"])
        std = self._public_std(d)
        share = check_real("std_share", self.std_share, above=0, below=1) if self._estimates_std() else 0.0
        if share and calibration == "textbook":
            raise InvalidParameter(
                "std='private' needs a second release, which calibration='textbook' does not cover; "
                "use calibration='exact' or a public std"
            )

        def stages(bits: int) -> tuple[RowLattice, tuple[Stage, ...]]:
            lattice = self._lattice(d, bits)
            integers = [mean_integers(lattice, n, 1 - share)]
            if share:
                integers.append(squares_integers(lattice, n, share))
            return lattice, additive_stages(integers, epsilon, delta, calibration=calibration)

        lattice, plan_stages = finest(stages)
        clip = check_columns("clip", self.clip, d, above=0)
        return ClippedMeanPlan(
            plan_stages,
            PrivacyGuarantee(epsilon, delta),
            n,
            d,
            lattice=lattice,
            clip=frozen(clip),
            clip_norm=self.clip_norm,
            calibration=calibration,
            missing=missing,
            std=None if std is None else frozen(std),
        )

    def _estimates_std(self) -> bool:
        return isinstance(self.std, str) and self.std == "private"

    def _public_std(self, n_features: int) -> Columns | None:
        if self.std is None or self._estimates_std():
            return None
        if isinstance(self.std, str):
            raise InvalidParameter(f"std must be None, 'private', or public numbers, got {self.std!r}")
        return check_columns("std", self.std, n_features, above=0)

    def _lattice(self, n_features: int, bits: int) -> RowLattice:
        clip = check_columns("clip", self.clip, n_features, above=0)
        center = check_columns("center", self.center, n_features)
        noise = check_choice("noise", self.noise, ["proportional", "isotropic"])
        if check_choice("clip_norm", self.clip_norm, ["linf", "l2"]) == "linf":
            return BoxLattice.build(clip, center, n_features, common=noise == "isotropic", bits=bits)
        if not isinstance(clip, float):
            raise InvalidParameter(
                "clip must be a single number, the radius of the ball, with clip_norm='l2'"
            )
        return BallLattice.build(clip, center, n_features, bits=bits)

    def _read(self, table: Table, plan: ClippedMeanPlan) -> Mapping[str, NDArray[np.int64]]:
        sums, squares = plan.lattice.sums(table.X, squares=len(plan.stages) > 1, missing=plan.missing)
        return {MEAN: sums} if squares is None else {MEAN: sums, SQUARES: squares}

    def _report(self, released: Released, plan: ClippedMeanPlan) -> None:
        d = plan.n_features
        shift = released[MEAN]
        stage = plan.additive[0]
        self.mean_ = plan.lattice.center + shift
        self.noise_scale_ = stage.noise_scale
        self.noise_std_ = np.broadcast_to(stage.noise_std, (d,)).copy()
        self.std_: NDArray[np.float64] | None
        self._degrees_of_freedom: NDArray[np.float64] | None = None
        if len(plan.stages) > 1:
            squares_noise = np.broadcast_to(plan.additive[1].noise_std, (d,))
            self.std_, self._degrees_of_freedom = _estimate_std(
                shift, released[SQUARES], self.noise_std_, squares_noise, plan, stage.noise
            )
        else:
            self.std_ = None if plan.std is None else np.full(d, plan.std)

    @property
    def estimand_(self) -> str:
        """In words, what the intervals cover."""
        check_is_fitted(self)
        if self.std_ is None:
            return "the mean of these clipped rows (privacy noise only)"
        return "the population mean of the clipped rows, E[clip(x)]"

    @property
    def cov_params_(self) -> NDArray[np.float64]:
        """Covariance matrix of ``mean_``: sampling variance (where ``std`` is known) plus noise variance.

        Columns are taken as uncorrelated in their sampling error, of which only standard deviations are
        known; the noise is independent across columns.
        """
        check_is_fitted(self)
        return np.diag(self._sampling_std() ** 2 + self.noise_std_**2)

    def _sampling_std(self) -> NDArray[np.float64]:
        if self.std_ is None:
            return np.zeros(self.plan_.n_features)
        return self.std_ / math.sqrt(self.plan_.n_samples)

    def confidence_interval(
        self, confidence_level: float = 0.95, simultaneous: bool = False
    ) -> ConfidenceInterval:
        """Return an interval for each column, counting sampling error and privacy noise.

        Parameters
        ----------
        confidence_level : float, default=0.95
        simultaneous : bool, default=False
            Make all columns covered together at this level (Sidak's level, valid for any
            correlation of the columns).

        Returns
        -------
        ConfidenceInterval
            ``low`` and ``high`` of shape (n_features,), and the ``estimand`` in words.
        """
        check_is_fitted(self)
        level = check_real("confidence_level", confidence_level, above=0, below=1)
        each = simultaneous_level(level, self.plan_.n_features) if simultaneous else level
        stage = self.plan_.additive[0]
        scale = np.broadcast_to(stage.noise_scale, (self.plan_.n_features,))
        half = half_widths(each, self._sampling_std(), stage.noise, scale, self._degrees_of_freedom)
        if self._degrees_of_freedom is not None:
            # No spread exceeds the clip: never wider than the interval for that spread.
            largest = np.broadcast_to(self.plan_.clip, (self.plan_.n_features,)) / math.sqrt(
                self.plan_.n_samples
            )
            half = np.minimum(half, half_widths(each, largest, stage.noise, scale))
        return ConfidenceInterval.around(self.mean_, half, level, self.estimand_, bool(simultaneous))

    def summary(self, confidence_level: float = 0.95) -> Summary:
        """Return a table of estimates, noise and intervals; prints as text, shows as HTML in a notebook."""
        interval = self.confidence_interval(confidence_level)
        table = {
            "": self._names(range(self.plan_.n_features)),
            **with_noise("estimate", self.mean_, self.noise_std_),
            **of_interval(interval, self.noise_std_),
        }
        notes = self._simulated_note()
        if self.std_ is None:
            notes.append(
                "No standard deviation is known, so the intervals leave out sampling error. Give std=... (public) "
                "or std='private' for intervals about the population."
            )
        else:
            if self._degrees_of_freedom is not None:
                notes.append("Standard deviations are private estimates, part of the same guarantee.")
            bound, note = self._clipping_bias(self.std_, *map(np.atleast_1d, interval))
            notes.append(note)
            if bound is not None:
                table["clip bias <="] = [f"{value:.2g}" for value in bound]
        stage = self.plan_.additive[0]
        law = {"exact": "exact curve", "textbook": "algorithm 9.2.1"}[self.plan_.calibration]
        facts = [
            ("Noise", f"Gaussian, {law}" if stage.noise == "gaussian" else "Laplace"),
            ("Intervals cover", interval.estimand),
        ]
        return self._framed("Private clipped mean", facts, table, notes)

    def _clipping_bias(
        self, std: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64] | None, str]:
        """Bound the clipping bias for a mean inside the intervals: per column, and in words."""
        plan = self.plan_
        distance = np.maximum(np.abs(low - plan.lattice.center), np.abs(high - plan.lattice.center))
        about = "It is 0 if all rows lie inside the clip, and it is not part of the intervals."
        clip = np.asarray(plan.clip)
        if plan.clip_norm == "l2":
            # E(||x - c|| - R)_+ <= E||x - c||^2/(4R), since (t - R)_+ <= t^2/(4R).
            moment = float(np.sum(std**2 + distance**2))
            return None, (
                "Public standard deviations are taken as those of the clipped rows, std='private' estimates these. "
                f"Clipping moves the mean by at most {moment / (4 * float(clip)):.2g} in l2 norm, for any rows "
                f"with these standard deviations and a mean inside the intervals. {about}"
            )
        normal = np.max(normal_clipping_bias_bound(std, clip, distance) / clip)
        return clipping_bias_bound(std, clip, distance), (
            "clip bias: how far clipping can move the mean, for any rows with this standard deviation and a mean "
            f"inside the interval (for normal rows at most {normal:.2g} of the clip). {about}"
        )


def _estimate_std(
    shift: NDArray[np.float64],
    squares: NDArray[np.float64],
    noise_std: NDArray[np.float64],
    squares_noise_std: NDArray[np.float64],
    plan: ClippedMeanPlan,
    noise: str,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the standard deviation of the rows, and the degrees of freedom of the error's variance.

    The variance estimate is unbiased: the square of the noisy mean exceeds the squared mean by the
    known noise variance. Its own variance (noise of both releases, and sampling as for normal
    rows) gives Satterthwaite's degrees of freedom of the total error variance v/n + noise^2.
    """
    n = plan.n_samples
    correction = n / (n - 1)
    # A column that stays within its clip of the centre has a variance of at most the clip squared.
    variance = np.clip(correction * (squares - shift**2 + noise_std**2), 0.0, np.square(plan.clip))
    # Var of the squared noise: 2 s^4 for a normal, 5 s^4 for a Laplace variable of deviation s.
    fourth = 2.0 if noise == "gaussian" else 5.0
    from_noise = squares_noise_std**2 + 4 * shift**2 * noise_std**2 + fourth * noise_std**4
    of_variance = correction**2 * from_noise + 2 * variance**2 / (n - 1)
    total = variance / n + noise_std**2
    return np.sqrt(variance), 2 * total**2 / (of_variance / n**2)
