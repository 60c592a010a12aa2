"""Linear regression by the functional mechanism: Laplace noise on the coefficients of the squared loss.

Proof: docs/proofs/functional-mechanism.md.
"""

from __future__ import annotations

from dpstats.data.parameters import check_privacy_parameters
from dpstats.regression.error_laws import NORMAL_AND_LAPLACE, ErrorLaw
from dpstats.regression.from_moments import FromMoments
from dpstats.regression.moments import MomentsPlan, moments_plan
from dpstats.release.parameters import parameters


@parameters
class FunctionalMechanismRegression(FromMoments):
    """Private least squares with pure epsilon: the loss is released, with Laplace noise on its coefficients.

    The loss, the sum of (y - a - x'b)^2, is a polynomial of (a, b) whose coefficients are second moments of (1, x, y).
    They are released once, and the noisy loss is minimised.

    Parameters
    ----------
    x_bounds : (low, high), or array of shape (n_features, 2)
        Public ends of the columns, known without the data. A row beyond them is not clipped: it weighs less, as do rows
        that are far from the middle in many columns at once. With labels (a mapping {column: (low, high)}, or a data
        frame with a row per column) a fit takes them by the names of a data frame's columns.
    epsilon : float, default=1.0
        Privacy parameter, greater than 0; there is no delta.
    fit_intercept : bool, default=True
    y_bounds : (low, high)
        Public ends of the outcome. Outcomes beyond them are moved to them, and the share of these is released.
    missing : {"error", "drop"}, default="error"
        What a NaN or infinite entry, or outcome, does: refuse the data (which shows that there was one), or leave its
        row out, at no cost. The number of rows that count is then private.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Charged by every fit, before anything is drawn; shared by clones.

    Attributes
    ----------
    coef_, intercept_, params_ : as for `SufficientStatisticsRegression`
    standard_errors_, intercept_standard_error_, cov_params_, params_cov_ : as there
        Intervals and tests go by the law of the error, whose tails are those of Laplace noise.
    identified_, intercept_identified_, privacy_share_, intercept_privacy_share_, condition_, scale_ : as there
    clipped_share_, clipped_share_std_ : as there
    privacy_ : PrivacyGuarantee
        For neighbors that differ in one row (x, y); n is public.
    plan_ : MomentsPlan
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Column names. Only if ``X`` has column names.

    Notes
    -----
    Rows are bounded in l1, in which the coefficients of the loss that a row adds have the square of its norm. What is
    said of the ridge and of standard errors in `SufficientStatisticsRegression` holds here too; the ridge makes the
    noisy loss one that has a minimum.

    References
    ----------
    Zhang, Zhang, Xiao, Yang and Winslett (2012), Functional mechanism: regression analysis under differential privacy.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.regression import FunctionalMechanismRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20_000, 2))
    >>> y = 1.0 + X @ [0.5, -0.5] + rng.normal(size=20_000)
    >>> model = FunctionalMechanismRegression(x_bounds=(-4, 4), y_bounds=(-6, 8), random_state=0).fit(X, y)
    >>> model.coef_.round(1), round(model.intercept_, 1)
    (array([ 0.5, -0.5]), 1.0)
    """

    _title = "Private linear regression by the functional mechanism"

    @property
    def _law(self) -> ErrorLaw:
        return NORMAL_AND_LAPLACE

    def plan(self, n_samples: int, n_features: int) -> MomentsPlan:
        """Return the release plan of a fit on data of this size.

        Parameters
        ----------
        n_samples, n_features : int
            Public sizes.
        """
        n, design = self._declared(n_samples, n_features)
        epsilon, _ = check_privacy_parameters(self.epsilon, 0.0)
        return moments_plan("l1", design, n, epsilon, 0.0, self._policy())

    def _method(self) -> list[tuple[str, str]]:
        return [
            ("Method", "the loss with Laplace noise on its coefficients, released once; bounded rows"),
            ("Covariance", "nonrobust (residuals of one variance)"),
            ("Condition of the design", f"{self.condition_:.3g} (released)"),
        ]
