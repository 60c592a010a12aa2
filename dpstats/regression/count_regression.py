"""Private regression of counts: Poisson, quasi-Poisson and negative binomial models.

Proof: docs/proofs/log-linear.md.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_real
from dpstats.regression.families import COUNTS
from dpstats.regression.log_linear import LogLinearRegression
from dpstats.release.parameters import parameters

_RARE = 0.25
"""Mean count below which most positive counts are 1."""


_LARGEST = 1e100
"""Limit for the overdispersion. Within it, inverse squares of weights are finite."""


@parameters
class PrivateCountRegression(LogLinearRegression):
    """Private regression of counts with a logarithmic link, with intervals that include sampling error and noise.

    Use this estimator for visits, events, claims or other counts: Poisson, quasi-Poisson and negative binomial models.
    Standard errors are robust, so that the variance of the outcome need not follow a model.

    Parameters
    ----------
    x_bounds : (low, high), or array of shape (n_features, 2)
        Public bounds of the columns, in their units, known without the data. Rows outside are not clipped but
        downweighted. A row more than four half-widths from the middle of the bounds in any column has weight 0. A
        mapping ``{column: (low, high)}`` or a data frame with one row per column is matched to the columns of ``X`` by
        name.
    epsilon : float, default=1.0
        Privacy parameter. Must be positive.
    fit_intercept : bool, default=True
        Must be True.
    delta : float, default=1e-6
        Privacy parameter, in (0, 1).
    y_bounds : (0, high)
        Public bounds of the count. Larger counts are clipped, and the fraction of clipped counts is released.
    exposure : column name, optional
        The column of a data frame that has the exposure of each row, such as a time or a population.
    exposure_bounds : (low, high), optional
        Public bounds of the exposure, greater than 0. Exposures outside are clipped to the nearer bound, and the
        fraction of clipped exposures is released. Required if rows have exposures.
    overdispersion : float, default=1.0
        Public constant alpha in the weights 1 / (1 + alpha mu) of rows with mean mu. 0 gives the weights of Poisson
        regression. 1 gives less noise for nearly all counts, because large counts have less influence.
    weights : column name, optional
        The column of a data frame that has the weight of each row. Weights can also be given to ``fit``.
    weight_bounds : (low, high), optional
        Public bounds of the weights, at least 0. Weights outside are clipped to the nearer bound. Required if rows have
        weights. A row counts with its weight over ``high``, so the noise is proportional to ``high`` over the mean
        weight.
    missing : {"error", "drop"}, default="error"
        Treatment of rows with a NaN or infinite entry, or with a missing outcome or exposure. "error" raises
        `InvalidData`, which reveals that such a row exists. "drop" leaves the row out, and spends one hundredth of the
        squared privacy parameter mu on the number of observed rows.
    missing_codes : sequence of numbers and text, optional
        Public codes of missing entries, such as ``[-999, "unk"]``, in all columns. Numbers are compared by value, words
        by text.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Budget that every call of ``fit`` charges for all stages together, before the first. Clones share it.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Log rate ratios, per unit of the column.
    intercept_ : float
        Logarithm of the mean count if all columns are 0, per unit of exposure.
    rate_ratios_ : ndarray of shape (n_features,)
        ``exp(coef_)``.
    dispersion_ : ndarray of shape (2,)
        phi and alpha of the variance phi mu + alpha mu^2 that fits the released sizes of residuals.
    standard_errors_, intercept_standard_error_, cov_params_, params_, params_cov_ : ndarrays
        The same as in `PrivateLinearRegression`.
    identified_, privacy_share_, intercept_privacy_share_, condition_ : ndarrays
        The same as in `PrivateLinearRegression`.
    mean_ : float
        Mean count over rows, from the released coefficients.
    clip_width_ : float
        Clipping threshold of the residuals in the last step, in standard deviations of the outcome.
    settled_ : ndarray of bool of shape (n_features,)
        Whether the last step agrees with each slope and its error. Intervals of other slopes may miss.
    unsettled_ : bool
        Whether some slope has not settled.
    one_sided_ : ndarray of int of shape (n_features,)
        -1 if a slope has an upper limit only, because the group with the value of a yes/no column may have no events.
        1 if it has a lower limit only, because the other group may have none. 0 otherwise.
    clipped_share_, clipped_share_std_ : float
        Noisy fraction of the counts outside ``y_bounds``, and the standard deviation of its noise.
    clipped_exposure_share_, clipped_exposure_share_std_ : float
        Noisy fraction of the exposures outside ``exposure_bounds``, and the standard deviation of its noise. Only with
        exposures.
    rows_, rows_noise_std_, total_weight_, total_weight_noise_std_, effective_rows_ : float
    clipped_weight_share_, clipped_weight_share_std_ : float
        The same as in `PrivateLinearRegression`.
    privacy_ : PrivacyGuarantee
        Guarantee of the fit, for neighboring datasets that differ in one row. The number of rows is public.
    plan_ : LogLinearPlan
        The release plan: every released quantity and its noise.

    Notes
    -----
    **Method.** Rows are centered, whitened and bounded, as in `PrivateLinearRegression`. Residuals are clipped at a
    multiple of the standard deviation of the outcome, and the expected clipped residual of a negative binomial
    distribution is subtracted. Every step releases the Hessian together with the gradient. A last release measures the
    residuals beyond the threshold, and corrects the level and the slope of the linear predictor. If the released
    fraction shows that ``y_bounds`` clips counts, the steps allow for it as that distribution does.

    **Yes/no columns.** A fit recognizes a column whose only values are its bounds, such as 0 and 1 with the bounds (0,
    1). A factor of a formula is known to be one. Its interval combines two rates. A limit is infinite if a
    group may have no events, and p-values invert the interval. ``coef_`` stays finite.

    **Estimand.** If the model does not hold, coefficients describe a weighted fit. Large counts have less weight than
    in Poisson regression.

    References
    ----------
    McCullagh and Nelder (1989), Generalized Linear Models. Cameron and Trivedi (2013), Regression Analysis of Count
    Data. Cantoni and Ronchetti (2001), Robust inference for generalized linear models.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.regression import PrivateCountRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20_000, 2))
    >>> y = rng.poisson(np.exp(0.5 + X @ [0.3, -0.3]))
    >>> model = PrivateCountRegression(x_bounds=(-4, 4), y_bounds=(0, 100), random_state=0).fit(X, y)
    >>> model.coef_.round(1), round(model.intercept_, 1)
    (array([ 0.3, -0.3]), 0.5)
    """

    overdispersion: float = 1.0

    _title = "Private regression of counts"
    _ratio = "rate ratio"

    def _family(self) -> tuple[str, float]:
        return COUNTS, check_real("overdispersion", self.overdispersion, at_least=0, at_most=_LARGEST)

    def _set_dispersion(self, linear: float, quadratic: float) -> None:
        self.dispersion_: NDArray[np.float64] = np.array([linear, quadratic])

    def _notes(self) -> list[str]:
        notes = super()._notes()
        if self.mean_ < _RARE:
            notes.append(
                f"Counts are rare (mean {self.mean_:.2g}). The intercept depends on how often counts exceed 1, which "
                "clipping hides, and its interval may cover less often than stated. Slopes are not affected."
            )
        return notes

    def _variance(self) -> str:
        return f"about {self.dispersion_[0]:.2g} mean + {self.dispersion_[1]:.2g} mean^2"
