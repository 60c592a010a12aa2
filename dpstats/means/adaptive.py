"""The adaptive mean: clip about a centre that earlier releases have found.

A clipped mean about a public centre pays for how far the mean may be from it. Here the rows are
clipped to a ball about the average of the stages released so far; the balls shrink as the average
gets better, by a plan that no data enter (dpstats/means/staging.py).

Proof: docs/proofs/adaptive-mean.md.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dpstats.data.parameters import (
    check_choice,
    check_columns,
    check_integer,
    check_missing,
    check_privacy_parameters,
)
from dpstats.data.tables import Rows
from dpstats.errors import InvalidParameter
from dpstats.inference import BONFERRONI, Limits
from dpstats.lattice import BallLattice, NormedLattice, NormSums
from dpstats.means.adaptive_notes import notes_of
from dpstats.means.adaptive_plan import (
    ASSUMPTIONS,
    OUTSIDE,
    AdaptiveMeanPlan,
    Trail,
    count_share,
    joint_integers,
    joint_steps,
)
from dpstats.means.base import ColumnEstimator, of_interval, with_noise
from dpstats.means.box_mean import mean_in_box
from dpstats.means.following import plan_following
from dpstats.means.located import AdaptiveErrors, locate
from dpstats.means.moments import finest, frozen, sum_integers
from dpstats.means.region import check_bounds
from dpstats.means.staging import TAILS, Staging, plan_stages
from dpstats.means.whitening import Shape, in_range
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.stages import JointStage, Stage
from dpstats.release.additive import Integers, JointIntegers, additive_stages
from dpstats.release.session import Released, Session
from dpstats.results import Summary, about_missing

if TYPE_CHECKING:
    from dpstats.data.parameters import Columns

Numbers = NDArray[np.float64]

_CHUNK = 1 << 20  # entries of the shifted rows that a batch of releases holds at once


class _Rows(NamedTuple):
    """Private: the checked rows, and what the first stage releases of them, about a public centre."""

    rows: Rows
    first: Any


class AdaptiveMean(ColumnEstimator[AdaptiveMeanPlan]):
    """Private mean that finds out where the rows are while it spends.

    Use it when all that is publicly known is a wide box for the mean and an upper bound on the
    spread: the error depends on the logarithm of the box, and is about that of a clipped mean whose
    centre is the true mean.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy parameter, greater than 0.
    delta : float, default=1e-6
        In (0, 1): Gaussian noise. 0: Laplace noise (pure privacy), which costs much more in many columns.
    bounds : (low, high), or array of shape (n_features, 2)
        Public ends between which the *mean* of each column is; half their distance is at least the standard deviation.
        Rows may be anywhere. With labels (a mapping or a data frame) a fit takes them by the names of columns.
    bounds_are : {"clip", "hard"}, default="clip"
        "hard": the rows lie between the bounds too, by nature, as a share or an age does.
    bound : float or array of shape (n_features,)
        In place of ``bounds`` about 0: ``|mean_j| <= bound_j``. With labels (a pandas Series) a fit takes it, and
        ``std`` and ``cov``, by the names of a data frame's columns, and refuses other names.
    std : float, array of shape (n_features,) or "private", optional
        Public upper bound on the standard deviation of the columns. With ``cov``, None or a single
        number that scales it. "private": only the loose ``std_bound`` is public. Every stage releases the spread of
        the rows at no cost, and the next ball follows it (unless ``tails="variance"``). Columns are taken to have it
        in common, in units of ``std_bound``.
    std_bound : float or array of shape (n_features,), optional
        For ``std="private"``: a public upper bound on ``std``. It may be loose: one that is ten times too large costs
        about a tenth of the error. Default if bounds are hard: half their distance, the largest possible.
    tails : {"subgaussian", "symmetric", "variance"}, default="subgaussian"
        What is assumed about the rows, Y = (row - mean)/std being a whitened row:

        * "subgaussian": in each column (with ``cov``: in every direction) ``|Y_j|`` is stochastically no larger
          than ``|N(0, 1)|``, and ``||Y||^2`` no larger than a chi-square with n_features degrees of freedom.
        * "symmetric": Y and -Y have the same law, and the mean of clipped rows follows the centre
          at least as it does for normal rows. The smallest error; heavy tails are welcome.
        * "variance": the standard deviations (with ``cov``: the covariance) are upper bounds. Wide, safe intervals.

        Privacy does not depend on it. Balls are planned for it. Under "subgaussian" the last stage counts the rows that
        it clips. Intervals then assume the stated spread only, by that count; ``estimand="tails"`` gives the shorter
        ones that assume normal tails, unless the count refutes them. Under the others intervals assume what is said.
    cov : array of shape (n_features, n_features), optional
        Public upper bound on the covariance of the rows (times ``std**2``): positive definite. Rows are
        whitened with it, so that noise follows the shape of the rows.
    missing : {"error", "center"}, default="error"
        What a NaN or infinite entry does: refuse the data (which shows that there was one), or
        count as the centre of the stage, which pulls the estimate towards earlier ones.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise: a release. Anything else is a simulation.
    budget : PrivacyBudget, optional
        Charged by every fit, for all stages together and before the first; shared by clones.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        The private estimate, in the units of the data: the mean of a uniform law in the box, given what was
        released. That is the average of the stages unless noise dominates, and always inside the box.
    noise_scale_ : float or ndarray of shape (n_features,)
        Standard deviation of the noise in the average of the stages; one number unless ``std`` is an
        array or ``cov`` is given.
    noise_std_ : ndarray of shape (n_features,)
        The same, one number per column.
    std_ : ndarray of shape (n_features,)
        The spread that sampling error is judged from: public, or an upper limit of the released one.
    clipped_rows_ : float or None
        How many rows the last stage clipped, with noise; None unless ``tails="subgaussian"``.
    assumption_refuted_ : bool
        Whether these are more than ``tails`` allows; then no interval assumes it.
    stage_means_ : ndarray of shape (n_stages, n_features)
        The estimate of each stage, as released.
    privacy_ : PrivacyGuarantee
        For neighbours that differ in one row; n is public.
    plan_ : ReleasePlan
        What was released, at which noise. Where balls follow the spread, its radii and noise are the largest possible.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Where X has column names.

    See Also
    --------
    ClippedMean : One stage about a public centre, for data with tight public bounds.

    Notes
    -----
    Neighbours are datasets of the same public size with one row replaced. Stage t releases the mean
    of the rows, projected on a ball of radius B_t about c_t, of l2 sensitivity 2 B_t/n. The centre
    c_t is a function of earlier releases; radii and noise are fixed by the plan. Gaussian stages
    compose exactly: mu^2 adds up. The last stage also releases the mean squared distance from its centre, which
    costs nothing beside the sums, and a count of the rows that it clips, for a share of its privacy that widens
    intervals by 2% at most.

    Intervals for ``estimand="population"``, the default, hold for all rows of at most the stated spread: they are about
    the last stage, and count the largest bias that its clipped rows allow. Those for ``estimand="tails"`` are about the
    average of the stages. They are two to four times as short, and can be wrong where the tails are heavier by fewer
    rows than the noise of the count: the estimand says by how much. With ``std="private"`` the tails are compared with
    normal ones of the rows' own spread. Critical values are those for an estimate of bounded bias (Armstrong and
    Kolesar 2018).

    References
    ----------
    Biswas, Dong, Kamath and Ullman (2020), CoinPress, whose idea of shrinking balls this is.
    Armstrong and Kolesar (2018), Optimal inference in a class of regression models. Econometrica 86.
    Hartigan (2004), Uniform priors on convex sets improve risk. Statistics and Probability Letters 67.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.means import AdaptiveMean
    >>> X = np.random.default_rng(0).normal([31.0, -12.0], 1.0, size=(5000, 2))
    >>> mean = AdaptiveMean(epsilon=1.0, delta=1e-6, bound=100.0, std=1.0, random_state=0).fit(X)
    >>> mean.mean_.round(2)
    array([ 31.02, -11.99])
    >>> low, high = mean.confidence_interval(estimand="tails")
    >>> (high - low).round(3)
    array([0.063, 0.063])
    >>> low, high = mean.confidence_interval()
    >>> (high - low).round(2)
    array([0.15, 0.15])
    >>> print(mean.privacy_)
    (epsilon = 1, delta = 1e-06), one row replaced [simulated noise, not a private release]
    """

    _per_column = ("bounds", "bound", "std", "std_bound", "cov")

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        bounds: Any = None,
        bounds_are: str = "clip",
        bound: Any = None,
        std: Any = None,
        std_bound: Any = None,
        tails: str = "subgaussian",
        cov: Any = None,
        missing: str = "error",
        random_state: Any = None,
        budget: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.bounds_are = bounds_are
        self.bound = bound
        self.std = std
        self.std_bound = std_bound
        self.tails = tails
        self.cov = cov
        self.missing = missing
        self.random_state = random_state
        self.budget = budget

    def plan(self, n_samples: int, n_features: int) -> AdaptiveMeanPlan:
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
            Its ``guarantee`` is the composed total; ``expected_error()`` bounds the squared l2 error.

        Examples
        --------
        >>> from dpstats.means import AdaptiveMean
        >>> plan = AdaptiveMean(epsilon=1.0, delta=1e-6, bound=100.0, std=1.0).plan(10_000, 5)
        >>> print(plan)
        Release plan for n = 10000, d = 5: (epsilon = 1, delta = 1e-06), one row replaced
          stage 1: 5 numbers, gaussian noise of scale 4.93113
          stage 2: 5 numbers, gaussian noise of scale 0.0969113
          stage 3, together:
            mean: 5 numbers, gaussian noise of scale 0.00461683
            squared norm: 1 numbers, gaussian noise of scale 0.0134867
            clipped rows: 1 numbers, gaussian noise of scale 11.298
        """
        n = check_integer("n_samples", n_samples, at_least=2)
        d = check_integer("n_features", n_features, at_least=1)
        epsilon, delta = check_privacy_parameters(self.epsilon, self.delta)
        tails = check_choice("tails", self.tails, TAILS)
        missing = check_missing(
            self.missing,
            ["error", "center"],
            "For the mean of the observed rows, use ClippedMean(missing='drop').",
        )
        middle, bound, hard = self._declared(d)
        private_std = isinstance(self.std, str)
        if private_std:
            check_choice("std", self.std, ["private"])
        elif self.std_bound is not None:
            raise InvalidParameter('std_bound must be None unless std="private"; give std alone')
        std = self.std
        if private_std:
            # The largest deviation that rows between two ends can have.
            std = bound if hard and self.std_bound is None and self.cov is None else self.std_bound
        shape = Shape.check(std, self.cov, d, "std_bound" if private_std else "std")
        reach = np.full(d, bound) / shape.std
        if np.any(reach < 1):
            j = int(np.argmin(reach))
            name = "bound" if self.bounds is None else "half the distance of bounds"
            raise InvalidParameter(
                f"{name} must be at least the standard deviation of its column, got "
                f"{np.full(d, bound)[j]:g} for a standard deviation of {np.full(d, shape.std)[j]:g} at position {j}"
            )
        norm2, reach2 = shape.largest_norm2(bound, d), float(np.max(reach)) ** 2
        law, exponent = ("gaussian", 1) if delta > 0 else ("laplace", 2)

        def at(
            bits: int,
        ) -> tuple[Staging, tuple[NormedLattice, ...], tuple[Stage | JointStage, ...]]:
            # The noise of the whole budget on a ball of radius 1 is what the shares divide.
            ball = BallLattice.build(1.0, 0.0, d, bits=bits)
            (whole,) = additive_stages([sum_integers("", ball, ball.spacing / n)], epsilon, delta)
            noise = float(whole.noise_std) ** 2
            numbers = (n, d, tails, norm2, reach2, noise, exponent)
            # Under "variance" nothing but the stated spread is known of rows outside a ball.
            if private_std and tails != "variance":
                staging = plan_following(*numbers, ball.free_weight("l2" if delta > 0 else "l1"))
            else:
                staging = plan_stages(*numbers)
            lattices = tuple(shape.lattice(radius, d, bits) for radius in staging.radii)
            # Only under "subgaussian" does the assumption say how many rows are clipped.
            counted = count_share(staging, noise, exponent, n) if tails == "subgaussian" else 0.0
            integers: list[Integers | JointIntegers] = []
            for t, lattice in enumerate(lattices):
                name, step, share = f"stage {t + 1}", shape.step(lattice) / n, staging.shares[t]
                last = t == len(lattices) - 1
                if not last and not staging.points:
                    integers.append(sum_integers(name, lattice, step, share))
                    continue
                radius, count = staging.radii[t], counted if last else 0.0
                integers.append(joint_integers(name, lattice, radius, step, n, share, count, law))
            return staging, lattices, additive_stages(integers, epsilon, delta)

        staging, lattices, stages = finest(at)
        return AdaptiveMeanPlan(
            stages,
            PrivacyGuarantee(epsilon, delta),
            n,
            d,
            lattices=lattices,
            staging=staging,
            prior=1 / norm2,
            middle=frozen(middle),
            bound=frozen(bound),
            hard=hard,
            std=frozen(shape.std),
            private_std=private_std,
            shape=shape,
            tails=tails,
            missing=missing,
        )

    def _declared(self, d: int) -> tuple[Columns, Columns, bool]:
        """Return the centre of the box for the mean, its half-width, and whether the rows lie in it too."""
        hard = check_choice("bounds_are", self.bounds_are, ["clip", "hard"]) == "hard"
        if self.bounds is None:
            if self.bound is None:
                raise InvalidParameter(
                    "bounds must be given: bounds=(low, high) of the mean, or bound, its largest size"
                )
            return 0.0, in_range("bound", check_columns("bound", self.bound, d, above=0)), hard
        if self.bound is not None:
            raise InvalidParameter("bounds and bound say the same thing: give one of them")
        low, high = check_bounds("bounds", self.bounds, d)
        return low / 2 + high / 2, in_range("bounds", high / 2 - low / 2), hard

    def _read(self, rows: Rows, plan: AdaptiveMeanPlan) -> _Rows:
        # The first centre is public, so its pass can find bad data before anything is charged.
        return _Rows(rows, self._steps(rows, plan, 0, plan.center([]), missing=plan.missing))

    def _release(self, private: _Rows, plan: AdaptiveMeanPlan, session: Session) -> None:
        """Run the stages, each about a centre that earlier ones released."""
        trail = Trail(plan)
        for t, stage in enumerate(plan.stages):
            center, scale = trail.ahead()
            steps = self._steps(private.rows, plan, t, center, scale=scale) if t else private.first
            trail.add(session.add(stage.name, steps))

    def _steps(
        self,
        rows: Rows,
        plan: AdaptiveMeanPlan,
        t: int,
        center: Numbers,
        missing: str = "center",
        scale: Any = 1.0,
    ) -> Any:
        """Return the exact sums of stage t about a centre, or about each of a batch of centres.

        The ball has ``scale`` times the planned radius. Missing entries were refused before the charge, if at all, and
        never are after it, whatever became of the memory since.
        """
        lattice, stage = plan.lattices[t], plan.stages[t]
        joint = isinstance(stage, JointStage)
        if center.ndim == 1:
            lattice = plan.shape.resized(replace(lattice, center=center), scale)
            if not isinstance(stage, JointStage):
                return lattice.row_moments(rows, missing=missing).powers[0]
            return joint_steps(lattice.row_norm_sums(rows, missing=missing), stage)
        # For batches: the rows less each centre, through the lattice about 0, in parts of each radius.
        X = rows.whole().X
        finite = np.isfinite(X)
        step = max(1, _CHUNK // X.size)
        d = plan.n_features
        factors = np.broadcast_to(scale, len(center))[:, None, None]
        sums = np.empty((len(center), d + 2 * joint), dtype=np.int64)
        for start in range(0, len(center), step):
            some = slice(start, start + step)
            shifted = np.where(finite, X - center[some][:, None, :], 0.0)
            if plan.follows:
                shifted /= factors[some]
            flat = shifted.reshape(-1, d)
            rounded = lattice.norm_rows(flat) if joint else lattice.round_rows(flat)
            sums[some] = rounded.reshape(*shifted.shape[:2], -1).sum(axis=1)
        if not isinstance(stage, JointStage):
            return sums
        return joint_steps(NormSums(sums[:, :d], sums[:, d : d + 1], sums[:, d + 1 :]), stage)

    def _report(self, released: Released, plan: AdaptiveMeanPlan) -> None:
        # Whatever was released is reported, also where the caller has numpy raise.
        with np.errstate(all="ignore"):
            self._located_by(released, plan)

    def _located_by(self, released: Released, plan: AdaptiveMeanPlan) -> None:
        trail = plan.trail(released)
        self.stage_means_ = np.stack(trail.estimates)
        self._found = locate(plan, released, trail)
        plan, located = self._found.plan, self._found.average
        self.std_ = math.sqrt(located.variance) * plan.stds
        self.assumption_refuted_ = located.refuted
        self.clipped_rows_ = None
        if plan.screen is not None:
            count = float(released[plan.last.name][OUTSIDE][0])
            self.clipped_rows_ = min(max(count, 0.0), float(plan.n_samples))
        # The average is the more precise, whatever bounds its bias: intervals about the last stage hold it too.
        error = math.sqrt(plan.sampling_at(located.variance) + plan.noise_variance) * plan.stds
        self.mean_ = mean_in_box(located.estimate, error, *plan.box)
        self.noise_std_ = math.sqrt(plan.noise_variance) * plan.stds
        self.noise_scale_ = float(self.noise_std_[0]) if isinstance(plan.std, float) else self.noise_std_

    def _about_missing(self) -> str:
        return about_missing(
            self.plan_.missing,
            "the center of each stage, first the middle of the box and then an earlier private estimate",
        )

    def _estimands(self) -> dict[str, str]:
        plan, mean = self._found.plan, "the population mean, if it is in the box and "
        if plan.screen is None:
            return {"population": mean + plan.assumption}
        safe = {"population": mean + ASSUMPTIONS["variance"]}
        if self.assumption_refuted_:
            return safe
        rows, shift = plan.screen.unnoticed_at(self._found.average.variance)
        unnoticed = (
            f"fewer than {rows:,} clipped rows would not be noticed, and could move it by up to {shift:.2g}"
        )
        return {**safe, "tails": f"{mean}{plan.assumption}; {unnoticed} stated sd"}

    def _estimand(self, name: Any) -> str:
        if name == "tails" and "tails" not in self._estimands():
            why = (
                "the released count of clipped rows refutes what tails assumes"
                if self.assumption_refuted_
                else f"with tails={self.plan_.tails!r} all intervals make its assumption"
            )
            raise InvalidParameter(f"estimand must be 'population', got 'tails': {why}. Leave estimand out.")
        return super()._estimand(name)

    @property
    def cov_params_(self) -> Numbers:
        """Covariance matrix of the average of the stages: a bound on its sampling part, plus the noise.

        Without ``cov`` columns are taken as uncorrelated in their sampling error.
        """
        check_is_fitted(self)
        plan = self.plan_
        unit = np.broadcast_to(self._found.average.deviation(), plan.n_features)
        return np.asarray(unit[:, None] * plan.shape.covariance(plan.n_features) * unit)

    def _estimates(self) -> Limits:
        located = self._found.average
        return located.estimate, located.deviation() * self.plan_.stds

    _together = BONFERRONI  # Sidak's inequality is for errors without bias

    def _distribution(self, estimand: str) -> AdaptiveErrors:
        located = self._found.safe if estimand == "population" else self._found.average
        return AdaptiveErrors(self._found.plan, located, self.mean_)

    def summary(self, confidence_level: float | None = None, *, estimand: str | None = None) -> Summary:
        """Return a table of estimates, noise and intervals; prints as text, shows as HTML in a notebook."""
        check_is_fitted(self)
        interval = self.confidence_interval(confidence_level, estimand=estimand)
        errors, name = self.noise_std_, self._estimand(estimand)
        distribution = self._distribution(name)
        bias = np.broadcast_to(distribution.located.bias, errors.shape) * self.plan_.stds
        table = {
            "": self._names(range(self.plan_.n_features)),
            **with_noise("estimate", self.mean_, errors),
            **of_interval(interval, errors),
            "bias <=": [f"{value:.2g}" for value in bias],
        }
        facts = [
            ("Stages", f"{len(self.plan_.stages)}, {self.plan_.law.capitalize()} noise"),
            ("Intervals cover", interval.estimand),
        ]
        return self._framed(
            "Private adaptive mean", facts, table, self._notes(interval.confidence_level, name)
        )

    def _notes(self, confidence_level: float, estimand: str) -> list[str]:
        """Return what a reader of the summary has to know."""
        distribution, average = self._distribution(estimand), self._found.average
        plan = distribution.plan
        beyond = np.flatnonzero(np.logical_or(*distribution.beyond((1 - confidence_level) / 2)))
        moved = np.abs(self.mean_ - np.clip(average.estimate, *plan.box)) > 0.1 * plan.half
        said = notes_of(
            plan,
            distribution.located,
            estimand=estimand,
            shorter=self._shorter(confidence_level) if estimand == "population" else 1.0,
            clipped_rows=self.clipped_rows_ or 0.0,
            beyond=self._names(beyond),
            shrunk=bool(np.any(moved)),
        )
        return [*self._simulated_note(), *said]

    def _shorter(self, confidence_level: float) -> float:
        """Return the median ratio of the widths of the intervals that assume tails to those that do not."""
        if "tails" not in self._estimands():
            return 1.0
        tail = (1 - confidence_level) / 2
        safe, tails = (self._distribution(name).half_widths(tail) for name in ("population", "tails"))
        return float(np.median(tails / safe))
