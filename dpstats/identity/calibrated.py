"""The public side of an identity test: its plan, and simulated releases under the null and alternatives."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import (
    check_choice,
    check_flag,
    check_integer,
    check_jobs,
    check_level,
    check_privacy_parameters,
    check_real,
)
from dpstats.errors import InvalidParameter, refuse
from dpstats.identity.levels import calibration_size, critical_value
from dpstats.identity.null import PUBLIC_SEED, null_statistics, simulate_blocks
from dpstats.identity.plan import IdentityPlan
from dpstats.identity.whitening import Reference
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.stages import AnyStage
from dpstats.release.estimator import PrivateEstimator
from dpstats.release.parameters import HasMissingCodes, parameters
from dpstats.release.session import Released, Session

# This module never sees data. A test adds its public constants, and draws its exact integers for simulated data.

LARGEST_N = 10**9
_SMALLEST_EPSILON = 1e-16  # below it, noise for a sensitivity of one step cannot be drawn


@parameters
class CalibratedTest(PrivateEstimator[IdentityPlan], HasMissingCodes, ABC):
    """Base class of tests with a simulated critical value: plan, null distribution and alternatives."""

    mean: Any = 0.0
    cov: Any = None
    null: str = "normal"
    epsilon: float = 1.0
    level: float = 0.05
    calibration: str = "monte_carlo"
    n_calibration: int | None = None
    missing: str = "error"
    cache_dir: Any = None
    n_jobs: int | None = None
    progress: bool = False
    random_state: Any = None
    budget: Any = None

    delta = 0.0  # value of the tests without this parameter
    _per_column = ("mean", "cov")
    _plan_class: ClassVar[type[IdentityPlan]] = IdentityPlan
    _calibrations: ClassVar[tuple[str, ...]] = ("monte_carlo",)
    _remedy: ClassVar[str] = "level must be larger"
    """Advice for the error if early stages reject too many null datasets."""

    _calibrated_as: ClassVar[str]
    """Name of a test with the same distribution. Both tests share their calibrations."""

    # Methods that a test implements

    @abstractmethod
    def _design(self, n: int, d: int, reference: Reference) -> Any:
        """Return the test's public constants, checked; they must not depend on ``mean`` and ``cov``."""

    @abstractmethod
    def _stages(self, design: Any, n: int, d: int) -> tuple[AnyStage, ...]:
        """Return the stages of the release."""

    def _draw(
        self, plan: IdentityPlan, size: int, generator: np.random.Generator, shift: Any
    ) -> NDArray[Any]:
        """Return the exact integers, (size, stages), of simulated data with whitened mean ``shift``."""
        raise TypeError(f"{type(self).__name__} does not define _draw")

    @abstractmethod
    def _seconds(self, n: int, d: int, design: Any) -> float:
        """Return the approximate time of a simulated dataset. The default size of a calibration depends on it."""

    def _rate(self, distance: float, d: int) -> float:
        """Return the order of the number of rows required for a distance. It is less than the test needs.

        The default is the number that every test needs: for the chi-square test, and for one private mean.
        """
        return math.sqrt(d) / distance**2 + 1 / (distance * self.epsilon)

    def _cheaper(self) -> str:
        """Return the advice for the error if simulations take too long."""
        test = "SpatialSignTest" if self.null == "normal" else "LipschitzExtensionTest"
        return f"use {test}, whose simulations cost the same at any large number of rows"

    def _on_signs(self, design: Any) -> bool:
        """Return whether the test uses the signs of the rows. A row at the center has no signs."""
        return False

    def _combine(self, released: Released, plan: IdentityPlan) -> NDArray[np.float64]:
        """Return the test statistic of one or many releases. It is public."""
        return np.asarray(released[plan.stages[-1].name][..., 0])

    def _printed_threshold(self, design: Any, n: int, d: int) -> float:
        """Return the threshold of the printed constants."""
        return math.nan

    # Common methods

    def plan(self, n_samples: int, n_features: int) -> IdentityPlan:
        """Return the release plan of a fit on data of this size. It sees no data.

        Parameters
        ----------
        n_samples, n_features : int
            Public sizes: at least 2 rows and 1 column.

        Returns
        -------
        IdentityPlan
        """
        n = check_integer("n_samples", n_samples, at_least=self._min_samples, at_most=LARGEST_N)
        d = check_integer("n_features", n_features, at_least=1)
        self._check_privacy()
        level = check_level("level", self.level)
        check_jobs(self.n_jobs)
        check_flag("progress", self.progress)
        missing = self._policy("center")
        if missing == "drop":
            return self._plan_on_sample(n, d)
        printed = self._uses_printed_constants()
        reference = Reference.build(self.mean, self.cov, self.null, d)
        design = self._design(n, d, reference)
        if missing == "center" and self._on_signs(design):
            raise refuse(
                "missing",
                given=missing,
                allowed="'error' or 'drop' for a test on signs",
                remedy="0 counts as positive, so a missing row would count as (1, ..., 1) and not as the null mean.",
            )
        stages = self._stages(design, n, d)
        each = self._seconds(n, d, design)
        size = 0 if printed else calibration_size(level, self.n_calibration, each)
        return self._plan_class(
            stages,
            self._target(stages),
            n,
            d,
            reference=reference,
            design=design,
            level=level,
            missing=missing,
            n_calibration=size,
            calibration_seconds=size * each,
            threshold=self._printed_threshold(design, n, d) if printed else math.nan,
        )

    def calibration_seconds(self, n_samples: int, n_features: int) -> float:
        """Return the approximate CPU time of a calibration, in seconds. It sees no data.

        The result is accurate within a small factor, and 0 for printed constants. A stored calibration is not repeated.
        """
        return self.plan(n_samples, n_features).calibration_seconds

    def _check_privacy(self) -> None:
        """Check what the release may cost."""
        epsilon, _ = check_privacy_parameters(self.epsilon, self.delta)
        check_real("epsilon", epsilon, at_least=_SMALLEST_EPSILON)

    def _target(self, stages: tuple[AnyStage, ...]) -> PrivacyGuarantee:
        """Return the total guarantee of the stages."""
        return PrivacyGuarantee(self.epsilon, self.delta)

    def _uses_printed_constants(self) -> bool:
        if check_choice("calibration", self.calibration, ["monte_carlo", "textbook"]) == "monte_carlo":
            return False
        if "textbook" not in self._calibrations:
            raise refuse(
                "calibration",
                given=self.calibration,
                allowed=f"'monte_carlo' for {type(self).__name__}",
                remedy="Only LipschitzExtensionTest and FilteringTest have printed constants.",
            )
        return True

    def _prepare(self, plan: IdentityPlan) -> IdentityPlan:
        """Return the plan with its null distribution, simulated or cached. With printed constants it is unchanged."""
        return plan if plan.n_calibration == 0 else plan.having(null=self._null_statistics(plan))

    def _simulate(
        self, plan: IdentityPlan, size: int, generator: np.random.Generator, shift: Any = 0.0
    ) -> NDArray[np.float64]:
        """Return ``size`` released test statistics, noise included, of simulated datasets."""
        return self._noisy_statistics(plan, self._draw(plan, size, generator, shift), generator)

    def _noisy_statistics(
        self, plan: IdentityPlan, steps: NDArray[Any], generator: np.random.Generator
    ) -> NDArray[np.float64]:
        """Return the test statistics of simulated releases of exact integers (size, stages)."""
        with Session.simulated(plan, generator, len(steps)) as session:
            self._release({stage.name: steps[:, [t]] for t, stage in enumerate(plan.stages)}, plan, session)
        return self._combine(session.released, plan)

    def _null_statistics(self, plan: IdentityPlan) -> NDArray[np.float64]:
        """Return the sorted null statistics of a plan, simulated or from the cache.

        It raises an error if the early stages reject so often that no last stage can have the level. The critical value
        would be infinite, and an early rejection would not count as a rejection.
        """
        null = null_statistics(
            # A subclass may have another distribution, and has separate calibrations.
            f"{vars(type(self)).get('_calibrated_as', type(self).__name__)} {plan.law}",
            plan.n_calibration,
            lambda size, generator: self._simulate(plan, size, generator),
            cache_dir=self.cache_dir,
            n_jobs=self.n_jobs,
            progress=self.progress,
            infinite=len(plan.stages) > 1,
            seconds=plan.calibration_seconds,
        )
        if math.isinf(critical_value(null, plan.level)):
            raise InvalidParameter(
                f"{self._remedy}: the early stages reject a proportion of {np.mean(np.isinf(null)):.3g} of simulated "
                f"null data, which is all of level = {plan.level:g}"
            )
        return null

    def _alternative(self, plan: IdentityPlan, shift: Any, size: int) -> NDArray[np.float64]:
        # Use a separate stream, and the same one for every shift, so that power curves are smooth and reproducible.
        seed = np.random.default_rng([PUBLIC_SEED, 1, plan.n_samples, plan.n_features])
        return simulate_blocks(
            size,
            lambda count, generator: self._simulate(plan, count, generator, shift),
            seed,
            self.n_jobs,
        )
