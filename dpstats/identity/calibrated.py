"""The public side of an identity test: its plan, and what it would release, simulated, under null and alternatives.

Nothing here sees data. A test adds the numbers of its design and the draw of its exact integers on simulated data.
"""

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
    check_missing,
    check_privacy_parameters,
    check_real,
)
from dpstats.errors import InvalidParameter
from dpstats.identity.levels import calibration_size, critical_value
from dpstats.identity.null import PUBLIC_SEED, null_statistics, simulate_blocks
from dpstats.identity.plan import IdentityPlan
from dpstats.identity.whitening import Reference
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.stages import AnyStage
from dpstats.release.estimator import PrivateEstimator
from dpstats.release.parameters import parameters
from dpstats.release.session import Released, Session

LARGEST_N = 10**9
_SMALLEST_EPSILON = 1e-16  # below, noise for a sensitivity of one step cannot be drawn


@parameters
class CalibratedTest(PrivateEstimator[IdentityPlan], ABC):
    """A test of public size whose critical value is simulated: the plan, the null distribution, the alternatives."""

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

    delta = 0.0  # of the tests that have no such parameter
    _per_column = ("mean", "cov")
    _plan_class: ClassVar[type[IdentityPlan]] = IdentityPlan
    _calibrations: ClassVar[tuple[str, ...]] = ("monte_carlo",)
    _remedy: ClassVar[str] = "level must be larger"
    """What to change where early stages reject too many null data."""

    _calibrated_as: ClassVar[str]
    """The name of a test that has the same law, and whose calibrations are therefore this one's as well."""

    # What a test adds.

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
        """Return roughly what one simulated dataset costs; the default size of a calibration goes by it."""

    def _simulation_seconds(self, plan: IdentityPlan) -> float:
        """Return what one simulated dataset costs, for the bound on a call's work."""
        return self._seconds(plan.n_samples, plan.n_features, plan.design)

    def _rate(self, distance: float, d: int) -> float:
        """Return the order of the number of rows that a distance asks for: less than the test needs.

        By default what every test needs: that of the chi-square test, and one answer of epsilon about a mean.
        """
        return math.sqrt(d) / distance**2 + 1 / (distance * self.epsilon)

    def _cheaper(self) -> str:
        """Return what to use where the simulations take too long."""
        test = "SpatialSignTest" if self.null == "normal" else "L1ExtensionTest"
        return f"use {test}, whose simulations cost the same at any large number of rows"

    def _on_signs(self, design: Any) -> bool:
        """Return whether the test reads the signs of the rows: a row at the centre has none."""
        return False

    def _combine(self, released: Released, plan: IdentityPlan) -> NDArray[np.float64]:
        """Return the test statistic from what was released, for one release or many. Public."""
        return np.asarray(released[plan.stages[-1].name][..., 0])

    def _printed_threshold(self, design: Any, n: int, d: int) -> float:
        """Return the threshold of the printed constants."""
        return math.nan

    # What all share.

    def plan(self, n_samples: int, n_features: int) -> IdentityPlan:
        """Return what a fit on data of this size would release, and at which cost; sees no data.

        Parameters
        ----------
        n_samples, n_features : int
            Public; at least 2 rows and 1 column.

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
        missing = check_missing(
            self.missing,
            ["error", "center"],
            "For a test of the observed rows, put CompleteCases before it.",
        )
        printed = self._uses_printed_constants()
        reference = Reference.build(self.mean, self.cov, self.null, d)
        design = self._design(n, d, reference)
        if missing == "center" and self._on_signs(design):
            raise InvalidParameter(
                "missing must be 'error' for a test on signs, got 'center': 0 counts as positive, so that a missing "
                "row would count as (1, ..., 1) and not as the mean of the null hypothesis"
            )
        stages = self._stages(design, n, d)
        return self._plan_class(
            stages,
            self._target(stages),
            n,
            d,
            reference=reference,
            design=design,
            level=level,
            missing=missing,
            n_calibration=0
            if printed
            else calibration_size(level, self.n_calibration, self._seconds(n, d, design)),
            threshold=self._printed_threshold(design, n, d) if printed else math.nan,
        )

    def calibration_seconds(self, n_samples: int, n_features: int) -> float:
        """Return about how long a calibration takes, in seconds of one core; sees no data.

        Right to within a factor of a few, and 0 where the printed constants are used. A calibration that was made
        before is looked up.
        """
        plan = self.plan(n_samples, n_features)
        return plan.n_calibration * self._simulation_seconds(plan)

    def _check_privacy(self) -> None:
        """Check what the release may cost."""
        epsilon, _ = check_privacy_parameters(self.epsilon, self.delta)
        check_real("epsilon", epsilon, at_least=_SMALLEST_EPSILON)

    def _target(self, stages: tuple[AnyStage, ...]) -> PrivacyGuarantee:
        """Return what the stages are to cost together."""
        return PrivacyGuarantee(self.epsilon, self.delta)

    def _uses_printed_constants(self) -> bool:
        if check_choice("calibration", self.calibration, ["monte_carlo", "textbook"]) == "monte_carlo":
            return False
        if "textbook" not in self._calibrations:
            raise InvalidParameter(
                f"calibration must be 'monte_carlo' for {type(self).__name__}, got 'textbook': no constants of this "
                "test were ever printed; L1ExtensionTest, InnerProductTest and FilteringTest have them"
            )
        return True

    def _prepare(self, plan: IdentityPlan) -> IdentityPlan:
        """Return the plan with its null distribution, simulated or from the cache; as it is with printed constants."""
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

        Refused where the early stages reject so often that no last stage can have the level: the critical value
        would be infinite, and an early rejection would not be one.
        """
        null = null_statistics(
            # A subclass may have another law, and has calibrations of its own.
            f"{vars(type(self)).get('_calibrated_as', type(self).__name__)} {plan.law}",
            plan.n_calibration,
            lambda size, generator: self._simulate(plan, size, generator),
            cache_dir=self.cache_dir,
            n_jobs=self.n_jobs,
            progress=self.progress,
            infinite=len(plan.stages) > 1,
        )
        if math.isinf(critical_value(null, plan.level)):
            raise InvalidParameter(
                f"{self._remedy}: the early stages reject a proportion of {np.mean(np.isinf(null)):.3g} of simulated "
                f"null data, which is all of level = {plan.level:g}"
            )
        return null

    def _alternative(self, plan: IdentityPlan, shift: Any, size: int) -> NDArray[np.float64]:
        # Its own stream, and the same one for every shift: power curves are smooth and reproducible.
        seed = np.random.default_rng([PUBLIC_SEED, 1, plan.n_samples, plan.n_features])
        return simulate_blocks(
            size,
            lambda count, generator: self._simulate(plan, count, generator, shift),
            seed,
            self.n_jobs,
        )
