"""Private principal components, and the eigenvalues of a population along directions that noise has turned.

Proofs: docs/proofs/ball-products.md, docs/intervals/covariance.md, "Eigenvalues".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtr, chdtrc, chdtri
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dpstats.covariance.moments import BoundedErrors
from dpstats.data.parameters import check_choice, check_integer
from dpstats.errors import refuse, refuse_data
from dpstats.inference.error_distributions import BONFERRONI
from dpstats.inference.estimates import Estimates, HasEstimates
from dpstats.inference.figures import ESTIMATE, axes_or_new, new_figure, place_bars, plain
from dpstats.inference.results import hide_noise
from dpstats.means.ellipsoids import (
    LAST_SHARE,
    ROUND_SHARES,
    BallProducts,
    Ellipsoid,
    EllipsoidEstimator,
    EllipsoidPlan,
    Extension,
    Frame,
    Step,
    Walk,
    plan_rounds,
)
from dpstats.release.estimator import parameters, plan_on_sample, read_again, state_missing
from dpstats.release.session import Released

Floats = NDArray[np.float64]

_MOST_TURNED = 0.25
"""Expected squared sine of the angle of a direction, above which its eigenvalue is not identified."""


def find_eigenvalues(
    variance: Floats,  # (k,): variances along the released directions, and their standard errors
    error: Floats,
    values: Floats,  # (d,): released eigenvalues, in decreasing order
    entry_std: float,  # standard deviation of the noise of the released matrix, above the diagonal
    n: int,  # number of rows
) -> tuple[Floats, Floats]:
    """Return estimates of the leading eigenvalues, and their standard errors: infinite if they are not identified."""
    d, k = len(values), len(variance)
    others = ~np.eye(k, d, dtype=bool)
    size = np.maximum(values, 0.0)
    gap = np.where(others, values[:k, None] - values, 1.0)
    sampling, noise = size[:k, None] * size / n, entry_std**2
    turned = noise + sampling

    def add(parts: Floats) -> Floats:
        return np.asarray(np.where(others, parts, 0.0).sum(axis=1))

    with np.errstate(divide="ignore", invalid="ignore"):
        # Noise turns a direction away from the largest variance. The sample's own direction has more than the
        # population's.
        lost = add(noise * gap / (gap**2 + 2 * noise))
        gained = add(sampling * gap / (gap**2 + 2 * turned))
        unsure = add(turned / np.sqrt(gap**2 + turned)) / 2
        angle = add(turned / (gap**2 + 2 * turned))
    known = (angle <= _MOST_TURNED) & (values[:k] > np.sqrt(2 * d) * entry_std)
    return variance + lost - gained, np.where(known, np.hypot(error, unsure), np.inf)


def shrunk_share(k: int, radius2: float) -> float:
    """Return the variance of normal scores that are shrunk into a ball, over their own."""
    return float(chdtr(k + 2, radius2) + radius2 / k * chdtrc(k, radius2))


def shrunk_kurtosis(k: int, radius2: float) -> float:
    """Return the mean fourth power of normal scores that are shrunk into a ball, over their squared variance."""
    fourth = 3 * chdtr(k + 4, radius2) + 3 * radius2**2 / (k * (k + 2)) * chdtrc(k, radius2)
    return float(fourth) / shrunk_share(k, radius2) ** 2


def find_radius2(k: int, variance: float) -> float:
    """Return the squared radius of the ball, over the variance of normal scores, from their shrunk variance.

    ``variance`` is in squared radii. The sizes by which scores are divided are estimates, often too small by a fifth.
    """
    radius2 = 1 / max(variance, _LEAST_VARIANCE)
    for _ in range(50):
        radius2 = max(shrunk_share(k, radius2) / max(variance, _LEAST_VARIANCE), 1.0)
    return radius2


PRODUCTS, SCORES = "products of rows", "products of scores"
ESTIMANDS = ("component", "eigenvalue")
_SCORES_SHARE = 0.4
_MEAN = 1 / 3
"""The constant of an extended row, over the radius of the ball."""
_OUTSIDE = 0.001
"""Fraction of normal scores outside the last ball."""
_WIDER = 1.6
"""Squared radius of the ball of the rows, over the expected squared norm of a row."""
_LEAST_SPREAD = 0.3
"""Least variance of a squared score, over its squared mean: noise can make a released one negative."""
_LEAST_VARIANCE = 1e-6
_FEW_ROWS = 50
_HEAVY = 0.25
"""Excess of the kurtosis of shrunk scores over its value for normal rows, from which eigenvalues are too low.

It is 0.4 to 0.8 for t rows of 5 degrees of freedom, and about 1 for exponential ones."""


class _Found(NamedTuple):
    """Public: what the stages released, and the maps between rows and scores."""

    values: Floats  # (..., d): released eigenvalues, in decreasing order
    # Bound on the noise of an eigenvalue, as the standard deviation of an entry times the root of 2 d.
    values_std: Floats
    vectors: Floats  # shape (..., d, n_components)
    center: Floats  # (..., d): mean of the rows, in half-widths
    sizes: Floats  # (..., n_components): variances of the components that the last stage assumes
    weights: Floats  # (..., d): factors of the columns, in half-widths
    scores: BallProducts


@dataclass(frozen=True)
class PCAPlan(EllipsoidPlan):
    """The release plan of a `PrivatePCA`: rounds that find a scale, products of rows, and products of scores."""

    n_components: int
    scale: str | None  # one of None, "std"

    @property
    def unit(self) -> float:
        """Unit of white rows without a scale: the largest half-width."""
        return float(self.frame.half.max())

    @property
    def score_radius(self) -> float:
        """Radius of the ball of the scores, in their standard deviations."""
        return math.sqrt(float(chdtri(self.n_components, _OUTSIDE)))

    def product_step(self, found: Ellipsoid) -> Step:
        """Return the step that releases the products of rows, after the rounds."""
        d = self.n_features
        variances = (found.unwhitening**2).sum(axis=-1)
        if self.scale is None:
            weights = np.broadcast_to(self.frame.half / self.unit, variances.shape)
        else:
            weights = 1 / np.sqrt(variances)
        radius = np.sqrt(_WIDER * (weights**2 * variances).sum(axis=-1))
        eye = np.eye(d)
        ellipsoid = Ellipsoid(found.center, weights[..., None] * eye, eye / weights[..., None], found.signal)
        return Step(PRODUCTS, Extension(d, _MEAN, 0.0, self.bits), ellipsoid, radius)

    def score_step(self, step: Step, found: BallProducts) -> tuple[Step, _Found]:
        """Return the step that releases the products of scores, and what the stages before it give."""
        d, square = self.n_features, step.radius**2
        values, vectors = np.linalg.eigh(found.covariance * square[..., None, None])
        values, vectors = values[..., ::-1], vectors[..., ::-1][..., : self.n_components]
        # The entry of largest size is positive, so that signs do not depend on the arithmetic.
        largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=-2)[..., None, :], axis=-2)
        vectors = vectors * np.where(largest < 0, -1.0, 1.0)
        noise = math.sqrt(2 * d) * found.products_std * square
        sizes = np.maximum(values[..., : self.n_components], noise[..., None])
        moved = step.ellipsoid.unwhitening @ (found.mean * step.radius[..., None])[..., None]
        center = np.clip(step.ellipsoid.center + moved[..., 0], -1.0, 1.0)
        whitening = np.swapaxes(vectors, -1, -2) @ step.ellipsoid.whitening / np.sqrt(sizes)[..., None]
        back = np.swapaxes(whitening, -1, -2)
        ellipsoid = Ellipsoid(center, whitening, back, step.ellipsoid.signal)
        radius = np.full(step.radius.shape, self.score_radius)
        after = Step(SCORES, score_extension(self.n_components, self.bits), ellipsoid, radius)
        weights = np.diagonal(step.ellipsoid.whitening, axis1=-2, axis2=-1)
        return after, _Found(values, noise, vectors, center, sizes, weights, found)

    def walk(self, release: Walk) -> _Found:
        step = self.product_step(self.find(release))
        last, found = self.score_step(step, release(step))
        return found._replace(scores=release(last))


def score_extension(n_components: int, bits: int) -> Extension:
    """Return the extension of the scores in the last stage."""
    return Extension(n_components, _MEAN, 0.0, bits, fourths=True)


@parameters
class PrivatePCA(HasEstimates, ClassNamePrefixFeaturesOutMixin, TransformerMixin, EllipsoidEstimator[PCAPlan]):
    """Private principal components of bounded columns: a transformer, with intervals of the variances along them.

    The release finds the scale of the rows, then their covariance matrix, and then the variances along its leading
    eigenvectors. The noise depends on the size of the rows, and little
    on the bounds.

    Parameters
    ----------
    n_components : int, default=1
        Number of components, at most the number of columns.
    bounds : (low, high), or array of shape (n_features, 2)
        Public bounds of every column, known without the data. Labeled bounds choose columns by name.
    bounds_are : {"clip", "hard"}, default="clip"
        "hard" declares that rows lie inside the bounds by nature, so that clipping changes no row.
    scale : {None, "std"}, default=None
        Components of the covariance matrix, or of rows divided by released standard deviations.
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
    components_ : ndarray of shape (n_components, n_features)
        Released directions of length one, by decreasing variance, for columns divided by ``scale_``.
    mean_ : ndarray of shape (n_features,)
        Released mean, which `transform` subtracts.
    scale_ : ndarray of shape (n_features,)
        Divisors of the columns: 1, or released standard deviations.
    explained_variance_ : ndarray of shape (n_components,)
        Released variances along the components.
    noise_std_ : ndarray of shape (n_components,)
        Standard deviations of the noise in ``explained_variance_``.
    privacy_ : PrivacyGuarantee
        For neighbors that differ in one row; n is public.
    plan_ : PCAPlan
        The release plan: every released quantity and its noise.
    rows_, rows_noise_std_, n_rows_ : float, float, int
        Noisy number of complete rows, the standard deviation of its noise, and the number of rows that were used. Only
        with ``missing="drop"``.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Column names. Only if ``X`` has column names.

    Notes
    -----
    **Privacy.** The fit is private. `transform` computes scores of the rows that it is given: these are not private.

    **Estimand.** By default, or with ``estimand="component"``, intervals cover the variance along each released
    direction, of scores shrunk into a ball that holds 0.999 of normal scores. With ``estimand="eigenvalue"`` they cover
    the eigenvalues of the population. These need tails of normal scores, and eigenvalues that are far enough apart: a
    note names the others, whose interval is from 0 to the largest possible variance.

    **Assumptions.** Independent rows, and enough of them for averages of squared scores to be nearly normal.

    **Limits.** Intervals of eigenvalues undercover heavy tails, and a warning appears in some fits only. Report
    ``estimand="component"``, which assumes no distribution. Signs and directions of nearly equal eigenvalues are
    arbitrary.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.covariance import PrivatePCA
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20_000, 1)) * [2.0, 1.0, 0.0] + rng.normal(size=(20_000, 3))
    >>> pca = PrivatePCA(n_components=1, bounds=(-8, 8), random_state=0).fit(X)
    >>> pca.transform(X).shape
    (20000, 1)
    >>> low, high = pca.confidence_interval()
    >>> bool(low[0] < 6 < high[0])
    True
    """

    n_components: int = 1
    bounds: Any = None
    bounds_are: str = "clip"
    scale: str | None = None
    missing: str = "error"
    missing_codes: Any = None
    epsilon: float = 1.0
    delta: float = 1e-6
    random_state: Any = None
    budget: Any = None

    _per_column = ("bounds",)

    def plan(self, n_samples: int, n_features: int) -> PCAPlan:
        """Return the release plan of a fit on data of this size.

        Parameters
        ----------
        n_samples, n_features : int
            Public sizes.
        """
        n, d, guarantee = self._sizes(n_samples, n_features)
        k = check_integer("n_components", self.n_components, at_least=1, at_most=d)
        scale = None if self.scale is None else check_choice("scale", self.scale, ["std"])
        low, high, hard = self._region(d)
        if self._policy() == "drop":
            return plan_on_sample(self, n, d)
        frame = Frame(low / 2 + high / 2, high / 2 - low / 2, True, False, hard)
        return plan_rounds(
            n,
            guarantee,
            ROUND_SHARES,
            lambda bits: [
                (PRODUCTS, Extension(d, _MEAN, 0.0, bits), LAST_SHARE - _SCORES_SHARE),
                (SCORES, score_extension(k, bits), _SCORES_SHARE),
            ],
            lambda stages, bits: PCAPlan(stages, guarantee, n, d, frame=frame, bits=bits, n_components=k, scale=scale),
        )

    def _report(self, released: Released, plan: PCAPlan) -> None:
        found = self._found = plan.walk(plan.reading(released))
        self.components_ = found.vectors.T.copy()
        self.mean_ = plan.frame.center + plan.frame.half * found.center
        self.scale_ = np.ones(plan.n_features) if plan.scale is None else plan.frame.half / found.weights
        self.explained_variance_, _, self.noise_std_ = self._variances()

    def _variances(self, normal: bool = False) -> tuple[Floats, Floats, Floats]:
        """Return the variances along the components, their standard errors, and the part of noise in these.

        With ``normal``, the sampling error is at least the error for normal scores.
        """
        plan, found = self.plan_, self._found
        scores = found.scores
        assert scores.fourths is not None
        unit = found.sizes * plan.score_radius**2 * (plan.unit**2 if plan.scale is None else 1.0)
        variance = np.diagonal(scores.covariance)
        # The variance of the square of a mean with noise of standard deviation s is 4 m^2 s^2 + 2 s^4.
        m2, s2 = scores.mean**2, scores.mean_std**2
        noise = np.sqrt(2 * scores.products_std**2 + 4 * m2 * s2 + 2 * s2**2)
        raised = scores.fourths + scores.fourths_std
        spread = np.maximum(raised - variance**2, _LEAST_SPREAD * variance**2)
        if normal:
            spread = np.maximum(scores.fourths - variance**2, 2 * variance**2)
        error = np.sqrt(spread / plan.n_samples + noise**2)
        return variance * unit, error * unit, noise * unit

    @property
    def _radius2(self) -> float:
        """Squared radius of the ball of the scores, over their variance, if they are normal."""
        variance = np.diagonal(self._found.scores.covariance)
        return find_radius2(self.plan_.n_components, float(variance.mean()))

    @property
    def _n_features_out(self) -> int:
        """Number of columns of transformed rows."""
        return len(self.components_)

    def transform(self, X: Any) -> Any:
        """Return the scores of rows along the components. They are not private: they are numbers of these rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows with the columns of the fit.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
        """
        check_is_fitted(self, "components_")
        rows = read_again(self, X).whole().X
        if not np.isfinite(rows).all():
            raise refuse_data("X", got="at least one NaN or infinite entry", allowed="finite")
        return (rows - self.mean_) / self.scale_ @ self.components_.T

    def estimates(self, *, estimand: str | None = None) -> Estimates:
        """Return the variances along the components, or the eigenvalues, with the distribution of their errors.

        A variance that noise hides is NaN, and an impossible value of ``explained_variance_`` is moved to the nearest
        possible one.

        Parameters
        ----------
        estimand : {"component", "eigenvalue"}, optional
            The variance along the released direction (default), or the eigenvalue of the population.
        """
        check_is_fitted(self, "components_")
        plan = self.plan_
        name = "component" if estimand is None else check_choice("estimand", estimand, ESTIMANDS)
        rows = "rows" if plan.frame.hard else "rows clipped to the bounds"
        # Scores of clipped rows lie in an interval of this half-length, so their variance is at most its square.
        most = (np.abs(self.components_) @ (plan.frame.half / self.scale_)) ** 2
        if name == "component":
            estimate, error, _ = self._variances()
            covered = (
                f"the variance of {rows} along each released component, of scores shrunk into a ball of radius "
                f"{plan.score_radius:.3g}"
            )
        else:
            # The ball leaves a known fraction of the variance of normal scores, and more or less of its changes.
            unit = plan.unit**2 if plan.scale is None else 1.0
            k, radius2 = plan.n_components, self._radius2
            kept, moved = unit * shrunk_share(k, radius2), unit * float(chdtr(k + 2, radius2))
            variance, error, _ = self._variances(normal=True)
            entry_std = float(self._found.values_std) / math.sqrt(2 * plan.n_features)
            found = variance / kept, error / moved, self._found.values, entry_std, plan.n_samples
            estimate, error = (unit * part for part in find_eigenvalues(*found))
            # Along another direction it may be larger.
            most = np.full(len(most), float(np.sum((plan.frame.half / self.scale_) ** 2)))
            divided = "" if plan.scale is None else " divided by scale_"
            covered = f"the eigenvalues of the covariance of {rows}{divided}, if scores have the tails of normal rows"
        errors = BoundedErrors(estimate, error, np.zeros(len(estimate)), most)
        names = tuple(f"component {k + 1}" for k in range(plan.n_components))
        # An eigenvalue has the noise of its error; a variance along a released direction has its own.
        noise = self.noise_std_ if name == "component" else np.where(np.isfinite(error), error, 0.0)
        return Estimates(
            hide_noise(errors.start, noise, 4 * most / plan.n_samples),
            None,
            names,
            state_missing(self.plan_, covered),
            errors,
            title="Private principal components",
            header="variance" if name == "component" else "eigenvalue",
            facts=self._table_facts(),
            notes=[*self._notes(), *self._tail_notes(name)],
            unknown=self._unidentified(np.flatnonzero(~np.isfinite(error))),
            together=BONFERRONI,
            simulated=self.privacy_.simulated,
        )

    def _unidentified(self, unknown: NDArray[np.intp]) -> list[str]:
        if not unknown.size:
            return []
        return [
            f"Not identified: {', '.join(str(k + 1) for k in unknown)}. The eigenvalue is too close to another one, or "
            "below the noise, so the interval holds all possible values. Use more rows, fewer columns or a larger "
            "epsilon."
        ]

    def _notes(self) -> list[str]:
        plan, found = self.plan_, self._found
        notes = []
        gaps = -np.diff(found.values)[: plan.n_components]
        close = [str(k + 1) for k in np.flatnonzero(gaps < found.values_std)]
        if close:
            notes.append(
                f"Not separated from the next component by more than noise: {', '.join(close)}. The order of these may "
                "be different. Use more rows, fewer columns or a larger epsilon."
            )
        if plan.n_samples < _FEW_ROWS:
            notes.append(f"Warning: below {_FEW_ROWS} rows, intervals may cover less than stated.")
        return notes

    def _tail_notes(self, estimand: str) -> list[str]:
        """Return a warning of eigenvalues if tails are more likely heavy than normal."""
        plan, scores = self.plan_, self._found.scores
        assert scores.fourths is not None
        squares = np.diagonal(scores.covariance) ** 2
        excess = scores.fourths / squares - shrunk_kurtosis(plan.n_components, self._radius2)
        precision = 1 / ((scores.fourths_std / squares) ** 2 + 24 / plan.n_samples)
        heavy = float(precision @ excess / precision.sum())
        if estimand == "component" or heavy < max(_HEAVY, 1 / math.sqrt(float(precision.sum()))):
            return []
        return [
            "Warning: scores have heavier tails than the scores of normal rows. Eigenvalues may then be larger than "
            "their intervals show. Report estimand='component', which assumes no distribution."
        ]

    def scree_plot(self, ax: Any = None, confidence_level: float | None = None) -> Any:
        """Draw the variances along the components with their intervals, and return the Axes.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default: one of a new figure.
        confidence_level : float, optional
            Default: 0.95.
        """
        interval = self.confidence_interval(confidence_level)
        values = np.asarray(self.estimates().estimate)
        if ax is None:
            ax = new_figure(figsize=(4.8, 3.2)).add_subplot()
        places = np.arange(1, len(values) + 1)
        middle, errors, marked = place_bars(values, interval.low, interval.high)
        ax.errorbar(places, middle, yerr=errors, marker="o", capsize=3, markevery=marked)
        ax.set_xticks(places)
        ax.set_xlabel("component")
        ax.set_ylabel("variance")
        ax.set_ylim(bottom=0)
        return ax

    def biplot(self, ax: Any = None, confidence_level: float | None = None) -> Any:
        """Draw the columns as arrows in the plane of the first two components, and return the Axes.

        An arrow has the entries of a column in both components, times the released standard deviations along them.
        Columns divided by ``scale_`` have a large covariance where their arrows are long and point the same way. No row
        is drawn.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default: the Axes of a new figure.
        confidence_level : float, optional
            Level of the intervals of both variances, in the labels of the axes. Default: 0.95.
        """
        check_is_fitted(self, "components_")
        if len(self.components_) < 2:
            remedy = "Fit with more components."
            raise refuse("n_components", given=1, allowed="at least 2 for a biplot", remedy=remedy)
        low, high = map(np.ravel, self.confidence_interval(confidence_level))
        variances = self.explained_variance_[:2]
        ends = self.components_[:2] * np.sqrt(np.clip(variances, 0.0, None))[:, None]
        ax = axes_or_new(ax, figsize=(4.8, 4.8))
        ax.axhline(0.0, color="0.8", lw=0.8)
        ax.axvline(0.0, color="0.8", lw=0.8)
        for name, x, y in zip(self._column_names(), *ends, strict=True):
            ax.annotate("", (x, y), (0.0, 0.0), arrowprops={"arrowstyle": "->", "color": ESTIMATE})
            side = "right" if x > 0 else "left"
            away = 5 if y >= 0 else -12
            ax.annotate(plain(name), (x, y), (0, away), textcoords="offset points", ha=side)
        reach = 1.25 * float(np.abs(ends).max()) or 1.0
        ax.set_xlim(-reach, reach)
        ax.set_ylim(-reach, reach)
        labels = [f"component {k + 1}: variance {variances[k]:.3g} [{low[k]:.3g}, {high[k]:.3g}]" for k in range(2)]
        ax.set_xlabel(labels[0])
        ax.set_ylabel(labels[1])
        return ax
