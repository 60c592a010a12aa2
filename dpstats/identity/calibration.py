"""Calibration of identity tests by public simulation: p-values, stored null distributions, and plans."""

from __future__ import annotations

import hashlib
import math
import os
import re
import tempfile
import threading
import zipfile
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dpstats.data.parameters import (
    check_choice,
    check_flag,
    check_integer,
    check_jobs,
    check_level,
    check_privacy_parameters,
    check_real,
)
from dpstats.errors import InvalidParameter, attempt, refuse, show
from dpstats.identity.whitening import Reference
from dpstats.parallel import cut, one_blas_thread, run_blocks
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import AnyStage
from dpstats.release.estimator import PrivateEstimator, parameters, plan_on_sample
from dpstats.release.session import Released, Session

# p-values and critical values from B null statistics, and their level

# p = (1 + #{null >= observed})/(B + 1) is exactly valid on average over calibrations. For one calibration, the realized
# level has a Beta distribution (docs/intervals/identity-tests.md).

SIZES = (9999, 4999, 1999, 999)
_SECONDS = 10.0  # of one core, that a calibration may take by default


def calibration_size(level: float, n_calibration: Any, seconds: float) -> int:
    """Return B, the number of null datasets, with (B + 1) level a positive integer.

    Parameters
    ----------
    level : float
    n_calibration : None or int
        None chooses 9999 to 999 by the time of one dataset, and more if the level requires it.
    seconds : float
        Time of one null dataset, a function of public sizes.
    """
    exact = Fraction(repr(level))
    if n_calibration is not None:
        B = check_integer("n_calibration", n_calibration, at_least=1)
        if (exact * (B + 1)).denominator != 1:
            raise refuse(
                "n_calibration",
                given=B,
                allowed=f"make (n_calibration + 1) * level an integer of at least 1, with level = {level:g}",
                remedy="The p-value could not have this level exactly.",
            )
        return B
    if exact.denominator > 100_000:
        raise refuse(
            "level",
            given=level,
            allowed="have at most five decimal places",
            remedy="No calibration has it exactly. Round it.",
        )
    size = next((size for size in SIZES if size * seconds <= _SECONDS), SIZES[-1])
    return exact.denominator * -(-(size + 1) // exact.denominator) - 1


def pvalue(null: NDArray[np.float64], observed: float) -> float:
    """Return (1 + #{null >= observed})/(B + 1) for ascending ``null``. Ties count against rejection."""
    at_least = null.size - int(np.searchsorted(null, observed, side="left"))
    return (1 + at_least) / (null.size + 1)


def critical_value(null: NDArray[np.float64], level: float) -> float:
    """Return the number that a statistic must exceed for a p-value of at most ``level``."""
    k = int(Fraction(repr(level)) * (null.size + 1))
    return float(null[null.size - k])


def realised_level(size: int, level: float, coverage: float = 0.95) -> tuple[float, float]:
    """Return the range that contains the level of one calibration with probability ``coverage``.

    With k = (B + 1) level, the chance that a new null statistic exceeds the k-th largest of B is
    Beta(k, B + 1 - k), of mean ``level``.
    """
    k = int(Fraction(repr(level)) * (size + 1))
    low, high = stats.beta.ppf([(1 - coverage) / 2, (1 + coverage) / 2], k, size + 1 - k)
    return float(low), float(high)


# Null distributions, simulated once and stored

# The seed is fixed and independent of any user's seed. The same test of the same public size has the same critical
# value everywhere.

PUBLIC_SEED = 20_200_613
"""Public seed of all null simulations."""
BLOCK = 50
"""Number of simulated datasets with one seed."""
_KEPT = 256
_SCHEMA = 3  # version of keys and files; raise it if the same key gets other numbers
_DRAWS = "0.1.0"  # version that fixed the draws. It is part of their seeds, so a new version keeps seeded p-values.
_DECIMAL = re.compile(r"\d+\.\d+(?:e[-+]?\d+)?|\d+e[-+]?\d+")
_memory: OrderedDict[tuple[str, str | None], NDArray[np.float64]] = OrderedDict()
"""Null statistics by key and cache directory. A test uses only the directory that it names."""
SLOW = 4.0
"""Seconds from which on a calibration is also kept with the compiled code of the package, for later processes."""
_lock = threading.Lock()
Simulate = Callable[[int, np.random.Generator], NDArray[np.float64]]


def null_statistics(
    key: str,
    size: int,
    simulate: Simulate,
    *,
    cache_dir: Any = None,
    n_jobs: int | None = None,
    progress: bool = False,
    infinite: bool = False,
    seconds: float = 0.0,
) -> NDArray[np.float64]:
    """Return ``size`` ascending draws of a released statistic under the null, from the cache if available.

    Parameters
    ----------
    key : str
        Everything that determines the distribution.
    size : int
    simulate : callable
        (size, generator) -> draws.
    cache_dir : path, optional
        Directory in which to store them, in a file named after the key.
    n_jobs : int, optional
        Threads; None is one, -1 one per core. The draws do not depend on it.
    progress : bool
        Whether to show a progress bar.
    infinite : bool
        Whether draws may be infinite, because an earlier stage may reject.
    seconds : float
        Approximate time of all draws. Slow ones are kept in a file of the package.
    """
    # Check before the cache, because a cached calibration uses neither parameter.
    check_jobs(n_jobs)
    check_flag("progress", progress)
    directory = None if cache_dir is None else _directory(cache_dir)
    digest = _sha256(f"{_SCHEMA} {key} {size} {PUBLIC_SEED}")
    place = (digest, None if directory is None else str(directory))
    known = _recalled(place)
    if known is not None:
        return known
    if directory is not None:
        known = _read(directory / f"{digest}.npy", size, infinite)
    if known is None:
        if directory is not None:
            _check_writable(directory)
            known = _recalled((digest, None))
        own = _own_file(digest) if seconds >= SLOW else None
        if known is None and own is not None:
            known = _read(own, size, infinite)
        if known is None:
            # Each distribution has a separate stream, the same on every processor: processors may differ in the last
            # digits of a sum or a root, so numbers have eight digits.
            rounded = _DECIMAL.sub(lambda found: f"{float(found.group()):.8g}", key)
            seed = np.random.default_rng([PUBLIC_SEED, int(_sha256(f"{rounded} {size}")[:16], 16)])
            known = np.sort(simulate_blocks(size, simulate, seed, n_jobs, progress, "null distribution"))
            known.setflags(write=False)
            _remember((digest, None), known)
            if own is not None:
                with suppress(OSError):  # a package that cannot be written to keeps nothing
                    own.parent.mkdir(exist_ok=True)
                    _write(own, known)
        if directory is not None:
            _write(directory / f"{digest}.npy", known)
    _remember(place, known)
    return known


def _own_file(digest: str) -> Path:
    """Return the file for a null distribution in the folder of the package's compiled code."""
    name = _sha256(f"{digest} {_sources()}")
    return Path(__file__).with_name("__pycache__") / f"null-{name[:32]}.npy"


@cache
def _sources() -> str:
    """Return a digest of this package, NumPy and SciPy: each combination of versions has its own files."""
    found = hashlib.sha256(f"{version('numpy')} {version('scipy')}".encode())
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()


def _recalled(place: tuple[str, str | None]) -> NDArray[np.float64] | None:
    with _lock:
        known = _memory.get(place)
        if known is not None:
            _memory.move_to_end(place)
        return known


def _remember(place: tuple[str, str | None], known: NDArray[np.float64]) -> None:
    with _lock:
        _memory[place] = known
        _memory.move_to_end(place)
        while len(_memory) > _KEPT:
            _memory.popitem(last=False)


def forget() -> None:
    """Forget the null distributions of this process. The next test simulates, or reads a file."""
    with _lock:
        _memory.clear()


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def simulate_blocks(
    size: int,
    simulate: Simulate,
    seed: np.random.Generator,
    n_jobs: int | None,
    progress: bool = False,
    description: str = "",
) -> NDArray[np.float64]:
    """Return ``size`` draws in blocks with separate seeds, so that fewer draws are the first of more."""
    from joblib import parallel_config

    blocks = [(block,) for block in cut(size, BLOCK)]
    # Use threads, because numpy takes most of the time. Each has one BLAS thread, because BLAS threads would block each
    # other.
    with one_blas_thread(), parallel_config(backend="threading"):
        parts = run_blocks(
            simulate, blocks, random_state=seed, n_jobs=check_jobs(n_jobs), progress=progress, description=description
        )
    return np.concatenate(parts)


def _directory(cache_dir: Any) -> Path:
    # A path-like object may return bytes, which Path refuses.
    is_path = isinstance(cache_dir, str | os.PathLike)
    directory = attempt(lambda: Path(cache_dir).absolute(), TypeError) if is_path else None
    if directory is None:
        raise refuse("cache_dir", given=cache_dir, allowed="None or a path")
    return directory


def _check_writable(directory: Path) -> None:
    """Raise an error for a directory without write access, before the simulation starts."""
    reason = None
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except (OSError, ValueError) as error:
        # The error quotes the path, which is not shown if it is long: nor as the context of another error.
        reason = getattr(error, "strerror", None) or type(error).__name__
    if reason is not None:
        got = f"{show(str(directory))}: {reason}"
        raise refuse("cache_dir", got=got, allowed="a directory that can be written to")


def _read(path: Path, size: int, infinite: bool) -> NDArray[np.float64] | None:
    """Return the statistics in a file, or None if it is missing or invalid."""
    try:
        known = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError, MemoryError, zipfile.BadZipFile):
        return None
    if not isinstance(known, np.ndarray) or known.shape != (size,) or known.dtype != np.float64:
        return None
    if not np.all(np.isfinite(known) | (infinite & (known == np.inf))):
        return None
    known = np.sort(known)
    known.setflags(write=False)
    return np.asarray(known)


def _write(path: Path, known: NDArray[np.float64]) -> None:
    """Write a file atomically."""
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    with os.fdopen(handle, "wb") as file:
        np.save(file, known)
    os.replace(name, path)


# Plans


@dataclass(frozen=True)
class IdentityPlan(ReleasePlan):
    """The plan of an identity test, with the public constants of its statistic.

    ``design`` has the constants of the test. ``n_calibration`` is B (0 with printed constants).
    """

    reference: Reference = field(repr=False, compare=False)
    design: Any
    level: float
    missing: str
    n_calibration: int
    calibration_seconds: float = field(default=0.0, repr=False, compare=False)
    """Approximate processor time of the calibration, in seconds."""
    threshold: float = math.nan
    """Threshold of the printed constants, or NaN for a calibrated test."""
    null: NDArray[np.float64] | None = field(default=None, repr=False, compare=False)
    """Ascending simulated statistics under the null. They are public. None before preparation, and with printed
    constants. They are not pickled, because they may have a megabyte and can be reproduced from the plan."""

    attainable_power: float = field(default=math.nan, compare=False)
    """Power against the farthest mean with equal columns. NaN before preparation."""

    _free: ClassVar[frozenset[str]] = frozenset({"null", "attainable_power"})

    def facts(self) -> dict[str, Any]:
        """Return facts about the plan that its stages do not show, by name."""
        return {"n_calibration": self.n_calibration}

    def notes(self) -> list[str]:
        """Return the facts as text, one line each."""
        notes = [f"calibration: {self.n_calibration:,} simulated null datasets, public"]
        if self.calibration_seconds >= SLOW:
            notes.append(
                f"the first calibration for these sizes takes about {self.calibration_seconds:,.0f} s of processor time"
            )
        if not math.isnan(self.attainable_power):
            notes.append(f"largest attainable power: {self.attainable_power:.3f}, against a mean that is far away")
        return notes

    @property
    def law(self) -> str:
        """Everything that determines the null distribution of the released statistic."""
        noise = [(stage.scale_steps, stage.spacing) for stage in self.additive]
        return f"{_DRAWS} {self.n_samples} {self.n_features} {noise} {self.design} {self.reference.law}"

    @property
    def critical_value(self) -> float:
        """Critical value that the statistic must exceed, for a plan with ``null`` or with printed constants."""
        return self.threshold if self.null is None else critical_value(self.null, self.level)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "null": None}


# The public side of a test

# This module never sees data. A test adds its public constants, and draws its exact integers for simulated data.

LARGEST_N = 10**9
_SMALLEST_EPSILON = 1e-16  # below it, noise for a sensitivity of one step cannot be drawn


@parameters
class CalibratedTest(PrivateEstimator[IdentityPlan], ABC):
    """Base class of tests with a simulated critical value: plan, null distribution and alternatives."""

    mean: Any = 0.0
    cov: Any = None
    null: str = "normal"
    level: float = 0.05
    calibration: str = "monte_carlo"
    n_calibration: int | None = None
    cache_dir: Any = None
    n_jobs: int | None = None
    progress: bool = False
    missing: str = "error"
    missing_codes: Any = None
    epsilon: float = 1.0
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

    def _draw(self, plan: IdentityPlan, size: int, generator: np.random.Generator, shift: Any) -> NDArray[Any]:
        """Return the exact integers, (size, stages), of simulated data with whitened mean ``shift``."""
        raise TypeError(f"{type(self).__name__} does not define _draw")

    @abstractmethod
    def _seconds(self, n: int, d: int, design: Any) -> float:
        """Return the approximate time of a simulated dataset with any mean."""

    def _null_seconds(self, n: int, d: int, design: Any) -> float:
        """Return the approximate time of a simulated null dataset. The default size of a calibration depends on it."""
        return self._seconds(n, d, design)

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
            return plan_on_sample(self, n, d)
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
        each = self._null_seconds(n, d, design)
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
            size, lambda count, generator: self._simulate(plan, count, generator, shift), seed, self.n_jobs
        )
