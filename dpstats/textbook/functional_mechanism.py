"""Linear regression by the functional mechanism: Laplace noise on the coefficients of the squared loss.

Proof: docs/proofs/functional-mechanism.md.
"""

from __future__ import annotations

from dpstats.data.parameters import check_privacy_parameters
from dpstats.regression.linear_path import MomentsPlan, moments_plan
from dpstats.regression.sufficient import LeastSquares, describe_moments
from dpstats.release.estimator import parameters


@parameters
class FunctionalMechanismRegression(LeastSquares[MomentsPlan]):
    """Private least squares under pure differential privacy, by Laplace noise on the coefficients of the loss.

    `PrivateLinearRegression` takes the same release at delta = 0. If a positive delta is acceptable, consider giving
    it one.

    The loss, the sum of (y - a - x'b)^2, is a polynomial in (a, b). Its coefficients are the second moments of
    (1, x, y). The fit releases them once and minimizes the noisy loss.

    Parameters
    ----------
    x_bounds : (low, high), or array of shape (n_features, 2)
        Public bounds of the columns, in their units, known without the data. Rows outside are not clipped but
        downweighted, as are rows far from the middle in many columns at once. A mapping ``{column: (low, high)}`` or
        a data frame with one row per column is matched to the columns of ``X`` by name.
    y_bounds : (low, high)
        Public bounds of the outcome. Outcomes outside are clipped to the nearer bound, and the fraction of clipped
        outcomes is released.
    fit_intercept : bool, default=True
        Whether the model has an intercept.
    missing : {"error", "drop"}, default="error"
        Treatment of rows with a NaN or infinite entry or outcome. "error" raises `InvalidData`, which reveals that such
        a row exists. "drop" leaves the row out, without additional privacy cost; the number of used rows is then
        private.
    missing_codes : sequence of numbers and text, optional
        Public codes of missing entries, such as ``[-999, "unk"]``, in all columns. Numbers are compared by value, words
        by text.
    epsilon : float, default=1.0
        Privacy parameter. Must be positive; delta is 0.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Budget that every call of ``fit`` charges before it draws noise. Clones share it.

    Attributes
    ----------
    coef_, intercept_, params_ : as for `SufficientStatisticsRegression`
    standard_errors_, intercept_standard_error_, cov_params_, params_cov_ : as there
        Intervals and tests use the distribution of the error, which has the tails of Laplace noise.
    identified_, intercept_identified_, privacy_share_, intercept_privacy_share_, condition_, scale_ : as there
    clipped_share_, clipped_share_std_ : as there
    privacy_ : PrivacyGuarantee
        Guarantee of the fit, for neighboring datasets that differ in one row (x, y). The number of rows is public.
    plan_ : MomentsPlan
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Column names. Only if ``X`` has column names.

    Notes
    -----
    **Privacy.** Rows are bounded in the l1 norm. The coefficients that a row adds to the loss then have an l1 norm of
    at most the square of this bound.

    **Standard errors.** The notes of `SufficientStatisticsRegression` on the ridge and on standard errors apply here
    too. The ridge ensures that the noisy loss has a minimum.

    **Source.** Exercise 9.4.2 of the statistics chapter asks for it (docs/sources.md).

    **Limits.** It needs very many rows, because all second moments get noise. Equal variances are assumed.

    References
    ----------
    Zhang, Zhang, Xiao, Yang and Winslett (2012), Functional mechanism: regression analysis under differential privacy.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.textbook import FunctionalMechanismRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20_000, 2))
    >>> y = 1.0 + X @ [0.5, -0.5] + rng.normal(size=20_000)
    >>> model = FunctionalMechanismRegression(x_bounds=(-4, 4), y_bounds=(-6, 8), random_state=0).fit(X, y)
    >>> model.coef_.round(1), round(model.intercept_, 1)
    (array([ 0.5, -0.5]), 1.0)
    """

    _title = "Private linear regression by the functional mechanism"

    def plan(self, n_samples: int, n_features: int) -> MomentsPlan:
        """Return the release plan of a fit on data of this size.

        Parameters
        ----------
        n_samples, n_features : int
            Public sizes.
        """
        n, design = self._declared(n_samples, n_features)
        epsilon, _ = check_privacy_parameters(self.epsilon, 0.0)
        return moments_plan(design, n, epsilon, 0.0, self._policy())

    def _method(self) -> list[tuple[str, str]]:
        method = "the loss with Laplace noise on its coefficients, released once; bounded rows"
        return describe_moments(self, method)
