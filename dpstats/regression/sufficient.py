"""Linear regression from sufficient statistics: the second moments of (1, x, y), released together once.

Proof: docs/proofs/sufficient-statistics.md.
"""

from __future__ import annotations

from dpstats.data.parameters import check_privacy_parameters
from dpstats.errors import InvalidParameter
from dpstats.regression.from_moments import FromMoments
from dpstats.regression.moments import MomentsPlan, moments_plan
from dpstats.release.parameters import parameters


@parameters
class SufficientStatisticsRegression(FromMoments):
    """Private least squares from one noisy matrix of second moments, with intervals that count the noise.

    The textbook's method: simple, one release, and what else the matrix tells comes with it. `PrivateLinearRegression`
    has less noise where columns are correlated or of different scales, and standard errors that hold for residuals of
    any variance.

    Parameters
    ----------
    x_bounds : (low, high), or array of shape (n_features, 2)
        Public ends of the columns, known without the data. A row beyond them is not clipped: it weighs less, as do rows
        that are far from the middle in many columns at once. With labels (a mapping {column: (low, high)}, or a data
        frame with a row per column) a fit takes them by the names of a data frame's columns.
    epsilon : float, default=1.0
        Privacy parameter, greater than 0.
    fit_intercept : bool, default=True
    y_bounds : (low, high)
        Public ends of the outcome. Outcomes beyond them are moved to them, and the share of these is released.
    delta : float, default=1e-6
        In (0, 1).
    missing : {"error", "drop"}, default="error"
        What a NaN or infinite entry, or outcome, does: refuse the data (which shows that there was one), or leave its
        row out, at no cost. The number of rows that count is then private.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Charged by every fit, before anything is drawn; shared by clones.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    standard_errors_ : ndarray of shape (n_features,)
        Of ``coef_``, counting sampling error and noise, if residuals have one variance, whatever the row.
    intercept_standard_error_ : float
    cov_params_ : ndarray of shape (n_features, n_features)
        Covariance of the errors of ``coef_``.
    params_, params_cov_ : ndarrays of shape (p,), (p, p)
        The same with the intercept first.
    identified_ : ndarray of bool, shape (n_features,)
        Which coefficients are more than noise: nine tenths at least of what they are divided by were released, and the
        rest is a ridge that the noise needs. Intervals of the others rest on what the outcome's spread allows.
    intercept_identified_ : bool
    privacy_share_ : ndarray of shape (n_features,)
        The part of the squared standard error that is privacy's.
    intercept_privacy_share_ : float
    condition_ : float
        Of what coefficients are divided by: its largest eigenvalue over its smallest.
    scale_ : float
        Standard deviation of the residuals.
    clipped_share_ : float
        Share of the outcomes outside ``y_bounds``, with noise.
    clipped_share_std_ : float
        Standard deviation of that noise.
    privacy_ : PrivacyGuarantee
        For neighbors that differ in one row (x, y); n is public.
    plan_ : MomentsPlan
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Column names. Only if ``X`` has column names.

    Notes
    -----
    The matrix is divided by with a ridge of the second order of its noise, which takes the bias from its inverse.
    Standard errors are of the first order given what was released, add what the ridge leaves, and take the noise at the
    worse end of the interval. Where the model does not hold, coefficients are those of the best fit to rows that weigh
    so. Standard errors are somewhat too large where most rows are scaled down, as they are if all columns are
    indicators.

    References
    ----------
    Dwork, Talwar, Thakurta and Zhang (2014), Analyze Gauss. Sheffet (2017), Differentially private ordinary least
    squares. Wang (2018), Revisiting differentially private linear regression. Fieller (1954), Some problems in interval
    estimation.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.regression import SufficientStatisticsRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20_000, 2))
    >>> y = 1.0 + X @ [0.5, -0.5] + rng.normal(size=20_000)
    >>> model = SufficientStatisticsRegression(x_bounds=(-4, 4), y_bounds=(-6, 8), random_state=0).fit(X, y)
    >>> model.coef_.round(2), round(model.intercept_, 2)
    (array([ 0.49, -0.52]), 1.01)
    """

    delta: float = 1e-6

    _title = "Private linear regression from sufficient statistics"

    def plan(self, n_samples: int, n_features: int) -> MomentsPlan:
        """Return the release plan of a fit on data of this size.

        Parameters
        ----------
        n_samples, n_features : int
            Public sizes.
        """
        n, design = self._declared(n_samples, n_features)
        epsilon, delta = check_privacy_parameters(self.epsilon, self.delta)
        if delta == 0:
            raise InvalidParameter(
                "delta must be greater than 0 for Gaussian noise, got 0. For delta = 0, use "
                "FunctionalMechanismRegression"
            )
        return moments_plan("l2", design, n, epsilon, delta, self._policy())

    def _method(self) -> list[tuple[str, str]]:
        return [
            ("Method", "second moments of (1, x, y) with Gaussian noise, released once; bounded rows"),
            ("Covariance", "nonrobust (residuals of one variance)"),
            ("Condition of the design", f"{self.condition_:.3g} (released)"),
        ]
