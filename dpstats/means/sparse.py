"""The sparse mean of many columns, and intervals of the selected means that count clipping.

Proofs: docs/proofs/sparse-mean.md, docs/intervals/sparse-mean.md, "What the intervals cover".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted

from dpstats.data.parameters import (
    check_choice,
    check_columns,
    check_flag,
    check_integer,
    check_privacy_parameters,
    check_real,
)
from dpstats.data.rows import Rows
from dpstats.data.schema import Schema
from dpstats.errors import InvalidParameter, refuse, refuse_data
from dpstats.inference.error_distributions import NoLimits
from dpstats.inference.estimates import Estimates
from dpstats.inference.results import about_missing, print_rounded
from dpstats.lattice import check_finite
from dpstats.means.estimator import ColumnAnswers, ColumnEstimator, check_again
from dpstats.means.moments import finest
from dpstats.means.sparse_design import LAWS, weakest_selected
from dpstats.means.sparse_selection import (
    Halves,
    Parts,
    SelectedErrors,
    Setting,
    SparseMeanPlan,
    beyond,
    gumbel_parts,
    peeling_parts,
    plan_noise,
    private_stds,
    release_on_support,
)
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.release.estimator import parameters, plan_on_sample
from dpstats.release.noise import check_scale
from dpstats.release.session import Released, Session

if TYPE_CHECKING:
    from dpstats.data.parameters import Columns

Numbers = NDArray[np.float64]


_LARGEST_SIGNAL = 1e6  # in standard deviations; further away, clipping removes the whole column


_UNKNOWN = (
    "intervals need split=True: columns that were selected on the same rows look larger than they are, and "
    "intervals from these rows do not cover (split=True estimates on rows that did not select)"
)


class _NotSplit(InvalidParameter, AttributeError):
    """The columns were selected on the same rows. An `AttributeError`, so that `dir` and `hasattr` work."""


@parameters
class SparseMean(ColumnEstimator[SparseMeanPlan]):
    """Private mean of many columns, few of them with a nonzero mean.

    Use this estimator if the table has far more columns than signals. Privacy costs as
    much as for ``n_nonzero`` columns, and a logarithm of the number of the others.

    Parameters
    ----------
    n_nonzero : int
        Number of columns to select. All others are reported as 0.
    clip : float
        Public bound on the size of an entry. With "peeling", every entry is clipped to it. With "gumbel", it is used
        for the scores only, if it is below ``selection_clip``. Estimates are then clipped by ``std`` and
        ``max_signal``.
    std : {"private"}, float or array-like of shape (n_features,)
        Public standard deviation of the columns, or an upper bound on it. A pandas Series is matched to the columns of
        ``X`` by name. "private" releases the standard deviations of the selected columns with their means, without
        additional noise. It needs ``std_bound``, a positive delta and "gumbel".
    std_bound : float or array-like of shape (n_features,), optional
        Public upper bound on the standard deviations for ``std="private"``. It can be loose. The plan uses it.
    max_signal : float, default=1.0
        Public bound on the size of a mean in standard deviations, at most 1e6. Larger signals are found too. If
        delta is positive, later stages correct most of their bias; the summary reports a signal that is too
        large to correct.
    selection : {"gumbel", "peeling"}, default="gumbel"
        Selection of the columns. With "gumbel", all columns are selected at once and their means are then released,
        clipped as rows. With "peeling", algorithm 9.2.2, columns are selected one after another by a noisy maximum,
        and the means are released with Laplace noise.
    calibration : {"exact", "textbook"}, default="exact"
        For "peeling". "exact" computes the smallest sufficient noise by exact composition. "textbook" uses the printed
        noise, and raises `NotPrivate` if that noise does not give the requested delta.
    split : bool, default=False
        Whether to select on the first half of the rows and to estimate on the second, each with the whole guarantee.
        Intervals need it. They assume that the rows are in random order: shuffle them if necessary.
    selection_share : float, optional
        Budget fraction of the selection (of rho, or of epsilon if delta is 0), for "gumbel" without ``split``.
        A larger fraction finds weaker signals. By default the plan chooses a quarter, a half or three quarters.
        It chooses zero if few columns are left out: all are then released and the largest kept.
    selection_clip : float, optional
        Clipping threshold of the scores in standard deviations, for "gumbel". Skewed columns need a large one,
        because clipping moves their mean away from zero. By default the plan finds the weakest signals in
        columns of any shape, among thresholds with almost no cost for normal columns.
    missing : {"error", "drop", "center"}, default="error"
        Treatment of NaN and infinite entries. With "error", the fit raises `InvalidData`; the error reveals that such
        an entry exists, which the guarantee does not cover. With "drop", it leaves out rows with such an entry: a part
        of epsilon counts the complete rows, and the estimate uses a random sample of them, of public size. With
        "center", it replaces entries with 0.
    missing_codes : sequence of numbers and text, optional
        Public codes of missing entries, such as ``[-999, "unk"]``, in all columns. Numbers are compared by value, words
        by text.
    epsilon : float, default=1.0
        Privacy parameter. Must be positive.
    delta : float, default=1e-6
        Privacy parameter, in [0, 1). Zero gives pure differential privacy, with Laplace noise. With a positive
        value, the default selection adds Gaussian noise to the estimate, in stages that correct its clipping. For one
        or two nonzero columns whose means are within ``max_signal``, zero has the smaller error.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise from the operating system's entropy source. Any other value simulates
        reproducible noise: the result is then not private.
    budget : PrivacyBudget, optional
        Budget that every call of ``fit`` charges. Clones share it.

    Attributes
    ----------
    support_ : ndarray of shape (n_nonzero,)
        Positions of the selected columns, in increasing order.
    mean_ : ndarray of shape (n_features,)
        Private estimate in the units of the data. It is 0 for all other columns.
    noise_scale_ : float or ndarray of shape (n_nonzero,)
        Standard deviation (Gaussian) or scale (Laplace) of the noise in the selected means.
    std_ : ndarray of shape (n_nonzero,)
        Released standard deviations of the selected columns after clipping. Only with ``std="private"``.
    beyond_max_signal_ : bool
        Whether the release is at its largest possible value. Some mean is then larger than ``max_signal`` allows, and
        estimates can be much too small.
    privacy_ : PrivacyGuarantee
        Guarantee of the fit, for neighboring datasets that differ in one row.
    plan_ : ReleasePlan
        The release plan: every released quantity and its noise.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of shape (n_features,)
        Column names. Only if ``X`` has column names.

    Notes
    -----
    **Privacy.** Neighboring datasets have the same public number of rows and differ in one row. Scores are sums
    of integers on a public lattice, so that their sensitivity is exact. ``X`` can be a scipy.sparse table of
    any format. A table that stores an entry twice raises an error, which reveals that there is one:
    floating-point sums of the copies could let one row change others.

    **Stages.** If delta is positive, the release has up to three stages. Each is a mean of rows clipped to a
    smaller ball, about the average of the earlier stages. The plan chooses the number of stages with the least
    noise.

    **Estimand.** Intervals are available for selected columns only. They cover the mean of any rows whose
    standard deviation is at most ``std``, and include the largest bias of clipping (``estimand="clipped"``
    leaves it out). They use the last stage, whose ball is planned for short intervals. They are infinite if
    clipping may have removed a whole signal. The plan and the summary report two detectable signals: for normal
    columns, and for columns of any shape.

    **Speed.** With exact noise, "peeling" draws ``n_nonzero * n_features`` numbers, about 7 microseconds each.
    "gumbel" takes a second for 1e6 columns.

    **Limits.** Columns that were not selected are 0, also if their signal is weak. Intervals need ``split=True``
    and rows in random order, and are long.

    References
    ----------
    Cai, Wang and Zhang (2021), The cost of privacy, algorithm 2.2 (algorithm 9.2.2 of the statistics
    chapter, docs/sources.md). Durfee and Rogers
    (2019), Practical differentially private top-k selection. Biswas, Dong, Kamath and Ullman (2020), CoinPress.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.means import SparseMean
    >>> X = np.random.default_rng(0).normal(size=(4000, 500))
    >>> X[:, [7, 42, 99]] += [0.5, -0.5, 0.8]
    >>> mean = SparseMean(n_nonzero=3, clip=6.0, std=1.0, random_state=0).fit(X)
    >>> mean.support_
    array([ 7, 42, 99])
    >>> mean.mean_[mean.support_].round(2)
    array([ 0.52, -0.48,  0.81])
    """

    n_nonzero: int
    clip: float
    std: Any
    std_bound: Any = None
    max_signal: float = 1.0
    selection: str = "gumbel"
    calibration: str = "exact"
    split: bool = False
    selection_share: float | None = None
    selection_clip: float | None = None
    missing: str = "error"
    missing_codes: Any = None
    epsilon: float = 1.0
    delta: float = 1e-6
    random_state: Any = None
    budget: Any = None

    _per_column = ("std", "std_bound")

    @property
    def _min_samples(self) -> int:  # type: ignore[override]
        return 4 if isinstance(self.split, bool | np.bool_) and self.split else 2

    def plan(self, n_samples: int, n_features: int) -> SparseMeanPlan:
        """Return the release plan of a fit on data of this size.

        Parameters
        ----------
        n_samples : int
            Number of rows, at least 2 (4 with ``split``); public.
        n_features : int
            Number of columns; public.

        Returns
        -------
        ReleasePlan
            Its ``selections`` and ``stages``, and the ``selection_threshold``: whether signals will be found.

        Examples
        --------
        >>> from dpstats.means import SparseMean
        >>> plan = SparseMean(n_nonzero=10, clip=6.0, std=1.0).plan(2000, 2000)
        >>> print(plan)
        Release plan for n = 2000, d = 2000: (epsilon = 1, delta = 1e-06), one row replaced
          support: 10 of 2000, Gumbel noise of scale 0.0202627
          mean on the support, stage 1: 10 numbers, Gaussian noise of scale 0.271944
          mean on the support, stage 2: 10 numbers, Gaussian noise of scale 0.0922546
          mean on the support, stage 3: 10 numbers, Gaussian noise of scale 0.036369
          signals above about 0.32 std are found in normal columns, above 0.86 in any
        """
        d = check_integer("n_features", n_features, at_least=1)
        split = check_flag("split", self.split)
        n = check_integer("n_samples", n_samples, at_least=2)
        if split and n < 4:
            raise refuse("n_samples", given=n, allowed="at least 4 with split=True, two rows in each half")
        s = check_integer("n_nonzero", self.n_nonzero, at_least=1, at_most=d)
        missing = self._policy("center")
        if missing == "drop":
            return plan_on_sample(self, n, d)
        target = PrivacyGuarantee(*check_privacy_parameters(self.epsilon, self.delta))
        private, std = self._spread(d)
        signal = check_real("max_signal", self.max_signal, at_least=0, at_most=_LARGEST_SIGNAL)
        n_select = n // 2 if split else n
        setting = Setting(n_select, n - n_select if split else n, d, s, std, signal, target, split, private)
        make = self._maker()

        def parts(bits: int) -> Parts:
            found = make(setting, bits)
            if found.selection is not None:
                check_scale(found.selection.scale_steps)
            return found

        lattice, selection, balls, stages, weakest = finest(parts)
        if lattice is not None and selection is not None:
            # In standard deviations: where entries are clipped for the scores, and how noisy scores are.
            clip = float(np.min(lattice.spacing * lattice.bound / std))
            standardized = balls and not isinstance(std, float)
            scale = selection.noise_scale / (1.0 if standardized else float(np.min(std)))
            weakest = {law: weakest_selected(law, clip, scale, n_select, d, s) for law in LAWS}
        assert weakest is not None
        parts_of = ("first half", "second half") if split else ("", "")
        return SparseMeanPlan(
            (
                *([] if selection is None else [replace(selection, part=parts_of[0])]),
                *(replace(stage, part=parts_of[1]) for stage in stages),
            ),
            target,
            n,
            d,
            lattice=lattice,
            balls=balls,
            n_nonzero=s,
            n_release=setting.n_release,
            std=std if isinstance(std, float) else tuple(std.tolist()),
            private_spread=private,
            max_signal=signal,
            selection_threshold=weakest["normal"],
            selection_threshold_any=weakest["any"],
            missing=missing,
        )

    def _spread(self, d: int) -> tuple[bool, Columns]:
        """Return whether the standard deviation is private, and its public bound."""
        if not isinstance(self.std, str):
            if self.std_bound is not None:
                allowed, remedy = "None unless std='private'", "Give an upper bound as std."
                raise refuse("std_bound", given=self.std_bound, allowed=allowed, remedy=remedy)
            return False, check_columns("std", self.std, d, above=0)
        check_choice("std", self.std, ["private"])
        if self.std_bound is None:
            remedy = "It is a public upper bound on the standard deviations, and may be loose."
            raise refuse("std_bound", allowed="given with std='private'", remedy=remedy)
        return True, check_columns("std_bound", self.std_bound, d, above=0)

    def _maker(self) -> Callable[[Setting, int], Parts]:
        """Return the planner of this kind of selection, a function of public facts and of the lattice's bits."""
        kind = check_choice("selection", self.selection, ["gumbel", "peeling"])
        calibration = check_choice("calibration", self.calibration, ["exact", "textbook"])
        if kind == "peeling":
            return partial(peeling_parts, clip=self.clip, calibration=calibration)
        if calibration == "textbook":
            raise refuse("calibration", given=calibration, allowed="'exact' unless selection='peeling'")
        return partial(
            gumbel_parts, clip=self.clip, selection_clip=self.selection_clip, selection_share=self.selection_share
        )

    def _schema(self) -> Schema:
        # The two halves depend on the order of the rows.
        return replace(super()._schema(), sparse=True, ordered=check_flag("split", self.split))

    def _read(self, rows: Rows, plan: SparseMeanPlan) -> Halves:
        X, lattice = rows.load().X, plan.lattice
        sparse = not isinstance(X, np.ndarray)
        if lattice is None:
            if plan.missing == "error":
                check_finite(X.data if sparse else X)
            return Halves(np.zeros(0, dtype=np.int64), X)

        def sums(part: Any) -> NDArray[np.int64]:
            if sparse:
                return lattice.stored_sums(part, missing=plan.missing)
            return lattice.sums(part, missing=plan.missing)[0]

        cut = plan.n_samples - plan.n_release
        scores = sums(X[:cut] if cut else X)
        if not plan.balls:
            return Halves(np.abs(scores), sums(X[cut:]) if cut else scores)
        if cut and plan.missing == "error":
            check_finite(X[cut:].data if sparse else X[cut:])
        return Halves(np.abs(scores), X[cut:])

    def _release(self, private: Halves, plan: SparseMeanPlan, session: Session) -> None:
        release_on_support(private, plan, session)

    def _report(self, released: Released, plan: SparseMeanPlan) -> None:
        found = plan.report(released)
        self.support_ = found.support
        self.mean_ = np.zeros(plan.n_features)
        self.mean_[found.support] = found.mean
        unit = 1.0 if plan.scales is None else plan.scales[found.support]
        self.noise_scale_ = plan.noise_scale * unit
        self.beyond_max_signal_ = beyond(plan, found)
        if plan.private_spread:
            self.std_ = private_stds(plan, found)
        self._found = found

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Return the estimate for every row, (n_samples, n_features), as a read-only view. Releases nothing new.

        Sparse tables are refused: the answer is dense, and every row of it is ``mean_``.
        """
        check_is_fitted(self)
        if issparse(X):
            remedy = "Every row of the dense answer is mean_."
            raise refuse_data("X", got="a sparse table", allowed="dense for predict", remedy=remedy)
        return np.broadcast_to(self.mean_, check_again(self, X).shape)

    @property
    def cov_params_(self) -> NDArray[np.float64]:
        """Covariance matrix of the selected columns' means, (n_nonzero, n_nonzero); needs ``split=True``.

        Sampling errors are assumed to be uncorrelated across columns: only their standard deviations are known.
        """
        check_is_fitted(self)
        if not self.plan_.disjoint:
            raise _NotSplit(_UNKNOWN)
        noise = self.noise_scale_ * self.plan_.noise_std / self.plan_.noise_scale
        return np.diag(self._sampling_std() ** 2 + np.broadcast_to(noise, self.support_.shape) ** 2)

    def _sampling_std(self) -> NDArray[np.float64]:
        std = np.broadcast_to(self.plan_.std, (self.plan_.n_features,))[self.support_]
        return std / math.sqrt(self.plan_.n_release)

    def _answers(self) -> ColumnAnswers:
        plan, kept = self.plan_, self.support_
        known = {
            "population": "the population mean of each selected column, given the selection",
            "clipped": "the mean of each selected column of the rows as they were clipped, given the selection",
        }
        said = ColumnAnswers(
            self.mean_[kept],
            np.full(kept.shape, np.nan),
            known,
            about_missing(plan.missing, "0"),
            lambda _: NoLimits(self.mean_[kept], _UNKNOWN),
            columns=kept,
        )
        if not plan.disjoint:
            return said
        return replace(
            said,
            estimate=self._found.last,
            error=np.hypot(self._sampling_std(), plan_noise(plan, self._found)),
            distribution=lambda estimand: SelectedErrors(plan, self._found, estimand == "population"),
        )

    def _describe(self, found: Estimates, estimand: str, confidence_level: float | None) -> Estimates:
        plan, beside = self.plan_, {}
        ratio = plan.noise_std / plan.noise_scale
        if plan.private_spread:
            beside["std"] = print_rounded(self.std_, 0.1 * np.maximum(self.std_, 1e-3 * self._sampling_std()))
        notes = [f"Selected columns: {plan.n_nonzero:,} of {plan.n_features:,}. All others are reported as 0."]
        if plan.disjoint:
            notes.append(
                "The first half of the rows selects the columns, and the second half estimates them. Intervals assume "
                "rows of any distribution in random order with standard deviations of at most "
                f"{'std_bound' if plan.private_spread else 'std'}. They include the largest bias of clipping."
            )
        else:
            notes.append("There are no intervals, because the same rows selected the columns. Set split=True.")
        if self.beyond_max_signal_:
            notes.append(
                f"Warning: some mean is farther from 0 than max_signal = {plan.max_signal:g} std allows, so estimates "
                "may be much too small. Raise max_signal."
            )
        if not plan.finds_signals:
            notes.append(f"Warning: {plan.warning()}.")
        notes += [sentence] if (sentence := about_missing(plan.missing, "0")) else []
        return replace(
            found,
            estimate=self.mean_[self.support_],
            title="Private sparse mean",
            noise=np.broadcast_to(self.noise_scale_, self.support_.shape) * ratio,
            beside=beside,
            facts=[("Selection", plan.selection_words()), *plan.found_if_above()],
            notes=notes,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
