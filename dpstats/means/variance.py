"""The private variance of each column: a clipped second moment, and a clipped mean to take off it.

Proof: docs/proofs/variance.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import chi2
from sklearn.utils.validation import check_is_fitted

from dpstats.data.parameters import (
    check_choice,
    check_columns,
    check_integer,
    check_privacy_parameters,
    check_real,
)
from dpstats.data.tables import Table
from dpstats.intervals import half_widths
from dpstats.lattice import BoxLattice, RowLattice
from dpstats.means.base import ColumnEstimator, of_interval, rounded
from dpstats.means.moments import MEAN, SQUARES, finest, frozen, mean_integers, squares_integers
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import Stage
from dpstats.release.additive import additive_stages
from dpstats.release.session import Released
from dpstats.results import ConfidenceInterval, Summary

_FEW_ROWS = 10  # below them, intervals for normal rows cover less than stated


@dataclass(frozen=True)
class PrivateVariancePlan(ReleasePlan):
    """The plan of a `PrivateVariance`; the stages are the second moment and, about the mean, the mean."""

    lattice: RowLattice = field(repr=False, compare=False)
    clip: float | tuple[float, ...]
    about: str
    interval: str
    missing: str

    def expected_error(self, std: float | NDArray[np.float64] | None = None) -> float:
        """Return the expected squared l2 error of ``variance_``, for normal rows about the centre that are not clipped.

        Parameters
        ----------
        std : float or array of shape (n_features,), optional
            Standard deviation of the columns (default: the sampling error is left out).
        """
        d, n = self.n_features, self.n_samples
        spread = 0.0 if std is None else check_columns("std", std, d, at_least=0)
        counted = n if self.about == "center" else n - 1
        noise = sum(
            np.asarray(stage.noise_std) ** (2 * power) * factor for stage, power, factor in self._terms()
        )
        return float(np.broadcast_to(2 * np.asarray(spread) ** 4 / counted + noise, (d,)).sum())

    def _terms(self) -> list[tuple[Stage, int, float]]:
        # Var of the squared noise of the mean: 2 s^4 for a normal, 5 s^4 for a Laplace variable of deviation s.
        fourth = 2.0 if self.additive[0].noise == "gaussian" else 5.0
        return [(self.additive[0], 1, 1.0), *((stage, 2, fourth) for stage in self.additive[1:])]


class PrivateVariance(ColumnEstimator[PrivateVariancePlan]):
    """Private variance of each column, of rows that are clipped to a public box.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy parameter, greater than 0.
    delta : float, default=0.0
        0 releases with Laplace noise (pure privacy); in (0, 1) with Gaussian noise.
    clip : float or array of shape (n_features,)
        Public bound: how far an entry may be from ``center``. Noise is proportional to its square. With labels (a
        pandas Series) a fit takes it, and ``center``, by the names of a data frame's columns, and refuses other names.
    center : float or array of shape (n_features,), default=0.0
        Public centre of the box; the nearer to the means, the better.
    about : {"mean", "center"}, default="mean"
        "mean": the variance; the mean is a second release. "center": the second moment about the public
        centre, which is the variance if that is the mean; one release, at the whole guarantee.
    mean_share : float, default=0.2
        Part of the privacy (of mu^2, or of epsilon where delta = 0) that goes to the mean. The mean's noise counts
        in proportion to the distance of the mean from the centre: give more where that may be near the clip.
        At least 1e-6 and at most 1 - 1e-6.
    interval : {"normal", "bounded"}, default="normal"
        What intervals assume of the clipped rows beside independence: that they are normal (chi-square law), or
        nothing but the clip, which bounds their fourth moment: much wider, and for large n. Below 10 rows "normal"
        intervals of level 0.95 cover less.
    missing : {"error", "center"}, default="error"
        What a NaN or infinite entry does: refuse the data (which shows that there was one), or
        count as the centre.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise: a release. Anything else is a simulation.
    budget : PrivacyBudget, optional
        Charged by every fit; shared by clones.

    Attributes
    ----------
    variance_ : ndarray of shape (n_features,)
        The private estimate, in squared units of the data, between 0 and what the clip allows.
    std_ : ndarray of shape (n_features,)
        Its square root.
    noise_std_ : ndarray of shape (n_features,)
        Standard deviation of the noise in ``variance_``, before it is brought into that range; with
        ``about="mean"`` as estimated from the released mean.
    privacy_ : PrivacyGuarantee
        For neighbours that differ in one row; n is public.
    plan_ : ReleasePlan
        What was released, at which noise.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Where X has column names.

    Notes
    -----
    Squares of entries within R of the centre lie in [0, R^2]: replacing a row moves their sum by at most R^2 a
    column, half of what a sum of entries of that size would move. The estimate n/(n - 1) (m2 - m1^2 + s^2), s the
    noise of the mean m1, is unbiased. The estimand is the variance of the clipped rows (of x, if none is clipped).

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.means import PrivateVariance
    >>> X = np.random.default_rng(0).normal([1.0, -2.0], [1.0, 1.5], size=(20_000, 2))
    >>> variance = PrivateVariance(epsilon=1.0, clip=8.0, random_state=0).fit(X)
    >>> variance.std_.round(2)
    array([1.01, 1.51])
    >>> low, high = variance.confidence_interval()
    >>> bool(np.all((low < [1, 2.25]) & (high > [1, 2.25])))
    True
    """

    _per_column = ("clip", "center")

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 0.0,
        clip: Any,
        center: Any = 0.0,
        about: str = "mean",
        mean_share: float = 0.2,
        interval: str = "normal",
        missing: str = "error",
        random_state: Any = None,
        budget: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.clip = clip
        self.center = center
        self.about = about
        self.mean_share = mean_share
        self.interval = interval
        self.missing = missing
        self.random_state = random_state
        self.budget = budget

    def plan(self, n_samples: int, n_features: int) -> PrivateVariancePlan:
        """Return what a fit on data of this size would release, and at which cost.

        Examples
        --------
        >>> from dpstats.means import PrivateVariance
        >>> print(PrivateVariance(clip=2.0, delta=1e-6).plan(1000, 3))
        Release plan for n = 1000, d = 3: (epsilon = 1, delta = 1e-06), one row replaced
          second moment about the centre: 3 numbers, gaussian noise of scale 0.0327242
          clipped mean: 3 numbers, gaussian noise of scale 0.0654484
        """
        n = check_integer("n_samples", n_samples, at_least=2)
        d = check_integer("n_features", n_features, at_least=1)
        epsilon, delta = check_privacy_parameters(self.epsilon, self.delta)
        missing = check_choice("missing", self.missing, ["error", "center"])
        interval = check_choice("interval", self.interval, ["normal", "bounded"])
        about = check_choice("about", self.about, ["mean", "center"])
        share = 0.0
        if about == "mean":
            share = check_real("mean_share", self.mean_share, at_least=1e-6, at_most=1 - 1e-6)
        clip = check_columns("clip", self.clip, d, above=0)
        center = check_columns("center", self.center, d)

        def stages(bits: int) -> tuple[RowLattice, tuple[Stage, ...]]:
            lattice = BoxLattice.build(clip, center, d, common=False, bits=bits)
            integers = [squares_integers(lattice, n, 1 - share)]
            if share:
                integers.append(mean_integers(lattice, n, share))
            return lattice, additive_stages(integers, epsilon, delta)

        lattice, made = finest(stages)
        return PrivateVariancePlan(
            made,
            PrivacyGuarantee(epsilon, delta),
            n,
            d,
            lattice=lattice,
            clip=frozen(clip),
            about=about,
            interval=interval,
            missing=missing,
        )

    def _read(self, table: Table, plan: PrivateVariancePlan) -> Mapping[str, NDArray[np.int64]]:
        sums, squares = plan.lattice.sums(table.X, squares=True, missing=plan.missing)
        assert squares is not None
        return {MEAN: sums, SQUARES: squares}

    def _report(self, released: Released, plan: PrivateVariancePlan) -> None:
        d, n = plan.n_features, plan.n_samples
        squares = plan.additive[0]
        noise = np.broadcast_to(np.asarray(squares.noise_std) ** 2, (d,))
        raw = released[SQUARES]
        correction = 1.0
        if plan.about == "mean":
            correction = n / (n - 1)
            shift, of_mean = released[MEAN], np.asarray(plan.additive[1].noise_std) ** 2
            # E (m1 + z)^2 exceeds m1^2 by the noise's variance.
            raw = correction * (raw - shift**2 + of_mean)
            fourth = plan._terms()[1][2]
            noise = noise + 4 * np.maximum(shift**2 - of_mean, 0.0) * of_mean + fourth * of_mean**2
        self._raw: NDArray[np.float64] = raw
        self.noise_std_ = correction * np.sqrt(noise)
        # No column that stays within the clip has a larger second moment about any centre inside it.
        self._largest = correction * np.broadcast_to(np.square(plan.clip), (d,))
        self.variance_ = np.clip(raw, 0.0, self._largest)
        self.std_ = np.sqrt(self.variance_)

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the estimated variances for every row: shape (n_samples, n_features). Releases nothing new."""
        return self._for_every_row("variance_", X)

    @property
    def estimand_(self) -> str:
        """In words, what the intervals cover."""
        check_is_fitted(self)
        about = "variance" if self.plan_.about == "mean" else "second moment about the public centre"
        return f"the population {about} of the clipped rows"

    def confidence_interval(
        self, confidence_level: float = 0.95, simultaneous: bool = False
    ) -> ConfidenceInterval:
        """Return an interval for the variance of each column, counting sampling error and privacy noise.

        "normal": the chi-square interval, and the quantile of the noise, combined as MOVER does (Zou and Donner 2008).
        "bounded": all values that a normal law with the largest variance the clip allows does not reject.

        Parameters
        ----------
        confidence_level : float, default=0.95
        simultaneous : bool, default=False
            Make all columns covered together at this level, whatever their dependence (Bonferroni's level).

        Returns
        -------
        ConfidenceInterval
            ``low`` and ``high`` of shape (n_features,); their square roots are an interval for the standard
            deviation.
        """
        check_is_fitted(self)
        level = check_real("confidence_level", confidence_level, above=0, below=1)
        each = 1 - (1 - level) / self.plan_.n_features if simultaneous else level
        law = self.plan_.additive[0].noise
        scale = self.noise_std_ / (np.sqrt(2) if law == "laplace" else 1.0)
        noise = half_widths(each, np.zeros_like(scale), law, scale)
        solve = _normal_ends if self.plan_.interval == "normal" else _bounded_ends
        degrees = self.plan_.n_samples - (self.plan_.about == "mean")
        low, high = (
            np.clip(end, 0.0, self._largest) for end in solve(self._raw, noise, degrees, each, self._widest())
        )
        return ConfidenceInterval(low, high, level, self.estimand_, bool(simultaneous))

    def _widest(self) -> NDArray[np.float64]:
        """Return the largest square of a clipped entry less what it is measured about."""
        clip = np.broadcast_to(self.plan_.clip, (self.plan_.n_features,))
        return np.square(2 * clip if self.plan_.about == "mean" else clip)

    def summary(self, confidence_level: float = 0.95) -> Summary:
        """Return a table of estimates, noise and intervals; prints as text, shows as HTML in a notebook."""
        interval = self.confidence_interval(confidence_level)
        plan = self.plan_
        table = {
            "": self._names(range(plan.n_features)),
            "variance": rounded(self.variance_, self.noise_std_),
            "std": [f"{value:.3g}" for value in self.std_],
            "noise sd": rounded(self.noise_std_, self.noise_std_),
            **of_interval(interval, self.noise_std_),
        }
        assumption = {
            "normal": "Intervals take the clipped rows as normal: heavy tails need interval='bounded'.",
            "bounded": "Intervals hold for any rows, by the clip, where n is large enough for normal errors.",
        }[plan.interval]
        notes = [f"{assumption} The noise (noise sd) is of the variance, not of the standard deviation."]
        if plan.interval == "normal" and plan.n_samples < _FEW_ROWS:
            notes.append(f"Below {_FEW_ROWS} rows intervals cover less than stated.")
        notes += self._simulated_note()
        facts = [
            ("Noise", plan.additive[0].noise.capitalize()),
            ("Intervals cover", interval.estimand),
        ]
        return self._framed("Private variance", facts, table, notes)


Ends = tuple[NDArray[np.float64], NDArray[np.float64]]


def _normal_ends(
    raw: NDArray[np.float64],
    noise: NDArray[np.float64],
    degrees: int,
    level: float,
    widest: NDArray[np.float64],
) -> Ends:
    tail = (1 - level) / 2
    estimate = np.maximum(raw, 0.0)
    below = estimate * (1 - degrees / chi2.isf(tail, degrees))
    above = estimate * (degrees / chi2.ppf(tail, degrees) - 1)
    return raw - np.hypot(below, noise), raw + np.hypot(above, noise)


def _bounded_ends(
    raw: NDArray[np.float64],
    noise: NDArray[np.float64],
    degrees: int,
    level: float,
    widest: NDArray[np.float64],
) -> Ends:
    # Numbers y in [0, w] of mean v have a variance of at most v (w - v). What is not rejected solves
    # (raw - v)^2 <= z^2 v (w - v)/n + noise^2.
    z2 = float(ndtri((1 + level) / 2)) ** 2 / degrees
    middle, square = raw + z2 * widest / 2, 1 + z2
    root = np.sqrt(np.maximum(middle**2 - square * (raw**2 - noise**2), 0.0))
    return (middle - root) / square, (middle + root) / square
