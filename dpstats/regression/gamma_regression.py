"""Private regression of positive amounts: the gamma model with a logarithmic link.

Proof: docs/proofs/log-linear.md.
"""

from __future__ import annotations

from dpstats.regression.families import GAMMA
from dpstats.regression.log_linear import LogLinearRegression
from dpstats.release.parameters import parameters


@parameters
class PrivateGammaRegression(LogLinearRegression):
    """Private regression of positive amounts with a logarithmic link, with intervals that include noise.

    Use this estimator for costs, durations or other amounts whose standard deviation grows with their mean. Amounts of
    0 are allowed. Standard errors are robust, so that the amounts need not have a gamma distribution.

    Parameters
    ----------
    x_bounds, epsilon, fit_intercept, delta, exposure, exposure_bounds, weights, weight_bounds, missing, missing_codes
        The same as in `PrivateCountRegression`.
    random_state, budget
        The same as in `PrivateCountRegression`.
    y_bounds : (0, high)
        Public bounds of the amount. Larger amounts are clipped, and the fraction of clipped amounts is released.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Logarithms of ratios of means, per unit of the column.
    intercept_ : float
        Logarithm of the mean amount if all columns are 0, per unit of exposure.
    rate_ratios_ : ndarray of shape (n_features,)
        ``exp(coef_)``.
    dispersion_ : float
        alpha of the variance alpha mu^2 that fits the released sizes of residuals.
    standard_errors_, intercept_standard_error_, cov_params_, params_, params_cov_ : ndarrays
        The same as in `PrivateLinearRegression`.
    identified_, privacy_share_, intercept_privacy_share_, condition_ : ndarrays
        The same as in `PrivateLinearRegression`.
    mean_, clip_width_, settled_, unsettled_, one_sided_, clipped_share_, clipped_share_std_, rows_, rows_noise_std_
        The same as in `PrivateCountRegression`.
    clipped_exposure_share_, clipped_exposure_share_std_ : float
        Noisy fraction of the exposures outside ``exposure_bounds``, and the standard deviation of its noise.
    total_weight_, total_weight_noise_std_, effective_rows_
    clipped_weight_share_, clipped_weight_share_std_
        The same as in `PrivateCountRegression`.
    privacy_ : PrivacyGuarantee
        Guarantee of the fit, for neighboring datasets that differ in one row. The number of rows is public.
    plan_ : LogLinearPlan
        The release plan: every released quantity and its noise.

    Notes
    -----
    **Method.** The same as in `PrivateCountRegression`, with weights 1 / mu and a gamma distribution.

    **Estimand.** If the model does not hold, coefficients describe a weighted fit. With very long tails (a Pareto
    distribution), the intercept is too small.

    References
    ----------
    McCullagh and Nelder (1989), Generalized Linear Models, chapter 8. Manning and Mullahy (2001), Estimating log
    models: to transform or not to transform?

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.regression import PrivateGammaRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20_000, 2))
    >>> y = rng.gamma(2.0, np.exp(6 + X @ [0.3, -0.3]) / 2)
    >>> model = PrivateGammaRegression(x_bounds=(-4, 4), y_bounds=(0, 20_000), random_state=0).fit(X, y)
    >>> model.coef_.round(1), round(model.intercept_, 1)
    (array([ 0.3, -0.3]), 6.0)
    """

    _title = "Private regression of amounts"
    _ratio = "mean ratio"
    _unknown_level = "the mean cannot be distinguished from 0"

    def _family(self) -> tuple[str, float]:
        return GAMMA, 1.0

    def _set_dispersion(self, linear: float, quadratic: float) -> None:
        self.dispersion_ = quadratic

    def _variance(self) -> str:
        return f"about {self.dispersion_:.2g} mean^2"
