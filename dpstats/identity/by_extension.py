"""A common class for the two Lipschitz-extension tests. It builds the test that its parameters select.

Proof: docs/proofs/lipschitz-extension.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_choice, check_flag
from dpstats.errors import InvalidParameter
from dpstats.identity.base import PrivateTest
from dpstats.identity.by_inner_products import InnerProductTest
from dpstats.identity.by_l1_norm import L1ExtensionTest
from dpstats.identity.plan import IdentityPlan
from dpstats.identity.whitening import Reference
from dpstats.privacy.stages import Stage
from dpstats.release.parameters import parameters
from dpstats.release.session import Released


@parameters
class LipschitzExtensionTest(PrivateTest):
    """Private test of a mean by T = ||S||^2 - n d v, extended from data on which it is stable.

    This class is a common interface. By ``constraint`` it runs `L1ExtensionTest` or `InnerProductTest`, with the same
    results.

    Parameters
    ----------
    mean : float or array of shape (n_features,), default=0.0
        Public mean under the null hypothesis. Labels work as in `RowDistanceTest`.
    cov : None, array of shape (n_features,) or (n_features, n_features), default=None
        Public covariance matrix, or variances. None is the identity.
    null : {"normal", "product"}, default="normal"
        "product": independent signs with ``mean``, or 0/1 columns; see `RowDistanceTest`.
    constraint : {"l1", "inner_product"}, default="l1"
        Datasets on which T is stable. "l1": ``||S||_1`` is small; a closed form, in one pass. "inner_product": all
        ``|<x_j, S>|`` are small; the set of algorithm 9.3.1, for signs, with the corrected constant.
    rows : {"whitened", "sign"}, default="whitened"
        For "l1": coordinates clipped to ``clip`` and rounded to an eighth of it, or signs.
    clip : float, optional
        For whitened rows, from 0.001 to 20; None is 1 for normal rows and the largest coordinate for signs.
    radius : float, default=0.8
        Public radius, at most 100. T is unchanged if a quantity of the data is at most A. This number is A divided by
        the null mean of the quantity. Smaller values favor alternatives with few nonzero coordinates: 0.4 for one or
        two.
    solver : {"auto", "exact", "surrogate"}, default="auto"
        Method of "inner_product". "exact" enumerates all datasets, or solves integer programs (small sizes only, and
        slow). "surrogate" is a computable lower bound with the same privacy. "auto" decides by the public size.
    staged : bool, default=False
        For "inner_product": algorithm 9.3.2, which shrinks the constraint in at most ceil(log n) stages.
    constants : None, "textbook" or three floats, default=None
        Of the staged algorithm: (line 2's 1000, line 8's 11, and the 10 of algorithm 9.3.1, line 4).
        None is (1, 1, 10): the printed ones leave a single stage at moderate sizes.
    distance : float, optional
        The alternative of ``staged=True`` with ``calibration="textbook"``, whose last threshold is
        n(n-1) distance^2/4.
    epsilon : float, default=1.0
        Total.
    level : float, default=0.05
    calibration : {"monte_carlo", "textbook"}, default="monte_carlo"
        "textbook" uses the printed thresholds: private, but with almost no power.
    missing : {"error", "drop", "center"}, default="error"
        As for `RowDistanceTest`; "center" only for ``rows="whitened"`` with ``constraint="l1"``. An entry at
        its mean has sign +1.
    missing_codes : sequence of numbers and text, optional
        Public codes of missing entries, such as ``[-999, "unk"]``, in all columns. Numbers are compared by value, words
        by text.
    n_calibration, cache_dir, n_jobs, progress, random_state, budget
        The same as in `RowDistanceTest`.

    Attributes
    ----------
    statistic_ : float
        The noisy extension of T. Infinite if an earlier stage rejected.
    threshold_, pvalue_ : float
    reject_ : bool
    result_ : TestResult
    privacy_ : PrivacyGuarantee
        Pure guarantee for neighboring datasets that differ in one row; n is public. It is stronger than
        ``epsilon`` if the schedule has fewer stages than its maximum.
    plan_ : IdentityPlan
    n_features_in_ : int

    Notes
    -----
    The printed claim that T is 4 Delta-Lipschitz on ``{|<x_j, S>| <= Delta}`` is false (docs/errata.md): an
    extension with noise for 4 Delta is not private. `inner_product_constant` gives a constant that is.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.identity import LipschitzExtensionTest
    >>> X = np.random.default_rng(0).normal(0.1, 1.0, size=(3000, 5))
    >>> LipschitzExtensionTest(epsilon=1.0, n_calibration=199, random_state=0).fit(X).reject_
    True
    """

    constraint: str = "l1"
    rows: str = "whitened"
    clip: float | None = None
    radius: float = 0.8
    solver: str = "auto"
    staged: bool = False
    constants: Any = None
    distance: float | None = None

    _title = "Lipschitz extension"
    _calibrations = ("monte_carlo", "textbook")
    _remedy = "constants must have a larger third number"

    def _meant(self) -> L1ExtensionTest | InnerProductTest:
        """Return the test that ``constraint`` names, with the parameters that it has."""
        constraint = check_choice("constraint", self.constraint, ["l1", "inner_product"])
        check_choice("rows", self.rows, ["whitened", "sign"])
        if check_flag("staged", self.staged) and constraint == "l1":
            raise InvalidParameter("staged must be False with constraint='l1', which has a single stage")
        kind = L1ExtensionTest if constraint == "l1" else InnerProductTest
        return kind(**{name: getattr(self, name) for name in kind().get_params(deep=False)})

    # Forward the methods to the selected test.

    def _design(self, n: int, d: int, reference: Reference) -> Any:
        return self._meant()._design(n, d, reference)

    def _stages(self, design: Any, n: int, d: int) -> tuple[Stage, ...]:
        return self._meant()._stages(design, n, d)

    def _on_signs(self, design: Any) -> bool:
        return self._meant()._on_signs(design)

    def _printed_threshold(self, design: Any, n: int, d: int) -> float:
        return self._meant()._printed_threshold(design, n, d)

    def _seconds(self, n: int, d: int, design: Any) -> float:
        return self._meant()._seconds(n, d, design)

    def _rate(self, distance: float, d: int) -> float:
        return self._meant()._rate(distance, d)

    def _cheaper(self) -> str:
        return self._meant()._cheaper()

    def _exact(self, X: NDArray[Any], plan: IdentityPlan) -> Any:
        return self._meant()._exact(X, plan)

    def _draw(
        self, plan: IdentityPlan, size: int, generator: np.random.Generator, shift: Any
    ) -> NDArray[Any]:
        return self._meant()._draw(plan, size, generator, shift)

    def _combine(self, released: Released, plan: IdentityPlan) -> NDArray[np.float64]:
        return self._meant()._combine(released, plan)
