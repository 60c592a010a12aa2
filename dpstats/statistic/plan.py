"""What a private statistic will release: how many blocks, the location of their values, and clipped sums."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import ndtr
from sklearn.base import clone

from dpstats.data.opening import open_source
from dpstats.data.parameters import check_integer, check_random_state
from dpstats.data.values import as_int64
from dpstats.errors import refuse, refuse_data
from dpstats.inference.error_distributions import usual_level
from dpstats.inference.reports import Printed, Records
from dpstats.inference.results import Summary
from dpstats.privacy.gaussian import zcdp_rho
from dpstats.privacy.guarantee import PrivacyGuarantee, quotient_up
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import AnyStage, Block, Choice, Coins, JointStage, Shuffle, Stage
from dpstats.release.additive import Integers, JointIntegers, additive_stages, concentrated_stage
from dpstats.statistic.clipped_sums import (
    GRAINS,
    LEAST_STD,
    SIZE_UNIT,
    UTILITY_RANGE,
    Noise,
    n_candidates,
    planned_half_width,
)
from dpstats.statistic.copies import Frozen
from dpstats.statistic.isolation import block_rows, frame, value_of

ORDER, DITHER, LOCATION, SUMS = "order", "dither", "location", "clipped sums"
SIGNED, SIZES, FAILURES = "sum", "sum of sizes", "failures"
DITHER_BITS = 20
"""Coins of a block's dither: a uniform number of this many bits."""

FEWEST = 60
"""Number of blocks that intervals need, for any epsilon."""
LEAST, RECOMMENDED = 60.0, 80.0
"""Blocks times epsilon: below the first a plan is refused, below the second it warns."""
_FOR_LOCATION = 42.0
"""Largest useful product of the number of blocks and the epsilon of the location."""
_LARGEST_SHARE = 0.6
_LEAST_SCALE = 0.45  # of a released scale
_CLIPS = (1.25, 1.5, 1.75, 2.0, 2.25, 2.5, 2.75, 3.0, 3.5, 4.0)
_LOCATED = "one of {candidates:,} centers and scales, exponential mechanism of scale {scale:.6g} in blocks"
_ABOUT_AS_GOOD = 1.02
_USUAL_SKEWNESS, _LARGEST_BLOCK_SKEWNESS = 8.0, 1.5
"""Beyond the first, of a row's influence, a plan takes blocks whose values have a skewness of at most the second."""
_MOST_BLOCKS = 1 << 40
_MOST_TRIED = 400  # numbers of blocks that are looked at


@dataclass(frozen=True)
class StatisticPlan(ReleasePlan):
    """The plan of a `PrivateStatistic`.

    Attributes
    ----------
    n_blocks : int
        Blocks that the rows, or the units, are cut into.
    n_outputs : int
    clip : float
        At how many released scales from the released center the value of a block is clipped.
    skewness : float
        Largest skewness of one row's influence that intervals count.
    remainder : float
        Largest bias of a block of m rows that intervals count, times m and in standard deviations of a block.
    parameters : int
        Number of parameters that the function estimates.
    complete : float
        Part of the rows of a block that the allowances count: less than 1 if incomplete rows are left out.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.statistic import PrivateStatistic
    >>> plan = PrivateStatistic(np.mean).plan(20_000, 1)
    >>> plan.n_blocks, plan.block_size, round(plan.planned_width, 2)
    (255, 78, 1.22)
    """

    n_blocks: int
    n_outputs: int
    clip: float
    skewness: float
    remainder: float
    parameters: int
    complete: float = 1.0

    @property
    def block_size(self) -> int:
        """Rows, or units, of the smallest block."""
        return self.n_samples // self.n_blocks

    @property
    def block_skewness(self) -> float:
        """Largest skewness of the value of a block that intervals count."""
        return self.skewness / math.sqrt(self.complete * self.block_size)

    @property
    def block_bias(self) -> float:
        """Largest bias of the value of a block that intervals count, in its standard deviations."""
        return self.remainder / (self.complete * self.block_size)

    @property
    def least_std(self) -> float:
        """Smallest standard deviation of the values of blocks that intervals count, in units of the clip."""
        return max(LEAST_STD, _LEAST_SCALE / self.clip)

    @property
    def planned_width(self) -> float:
        """Width of a 95% interval relative to an interval without privacy, if the values of blocks are normal."""
        return self._planned_width(self.block_skewness, self.block_bias)

    @property
    def price_of_allowances(self) -> float:
        """Part of the planned width that the allowances for skewness and bias add."""
        return self.planned_width / self._planned_width(0.0, 0.0) - 1

    def _planned_width(self, skewness: float, bias: float) -> float:
        half = planned_half_width(self.n_blocks, self.clip, self.sums_noise, 0.025, skewness, bias)
        loss = float(block_loss(self.parameters, self.n_samples / self.n_blocks))
        return half * math.sqrt(self.n_blocks) / 1.96 * loss

    @property
    def strength(self) -> float:
        """Blocks times the epsilon of an output: 80 and more give narrow intervals."""
        return self.n_blocks * self.target.epsilon / self.n_outputs

    @property
    def sums_noise(self) -> Noise:
        """The noise of the sums, in units of the clip."""
        stage = self.stage(SUMS)
        if isinstance(stage, JointStage):
            signed, sizes, failures = (float(stage.noise_std(block)) for block in stage.blocks)
            return Noise("gaussian", signed, sizes, failures)
        assert isinstance(stage, Stage)
        return Noise("laplace", *[float(stage.noise_std)] * 3)

    def facts(self) -> dict[str, Any]:
        """Return facts about the plan that its stages do not show, by name."""
        return {
            "n_blocks": self.n_blocks,
            "block_size": self.block_size,
            "clip": self.clip,
            "planned_width": self.planned_width,
        }

    def notes(self) -> list[str]:
        """Return the facts as text, one line each."""
        found = [
            f"{self.n_blocks:,} blocks of {self.block_size:,} or more; values are clipped at {self.clip:g} released "
            f"scales from the released center",
            f"planned width of a 95% interval: {self.planned_width:.2f} times that without privacy, were the values of "
            "blocks normal",
            f"intervals assume a skewness of a row's influence of at most {self.skewness:g}, and a bias of a block of "
            f"at most {self.block_bias:.2g} of its standard deviation. This adds {self.price_of_allowances:.0%} to "
            "the width",
        ]
        if self.strength < RECOMMENDED:
            found.append(
                f"Warning: blocks times epsilon is {self.strength:.0f}. Below {RECOMMENDED:g} some intervals are "
                "uselessly wide. Give more rows, a larger epsilon, or fewer outputs."
            )
        return found


def block_loss(parameters: int, size: Any) -> Any:
    """Return the loss of a block of this size: its value has a larger error than its part of a value of all rows.

    Estimating q parameters and correcting the bias increases the variance by a factor of about 1 + (2 + 2q)/size.
    """
    return np.sqrt(1 + (2 + 2 * parameters) / size)


def location_name(output: int, n_outputs: int) -> str:
    """Return the name of the stage that locates an output."""
    return LOCATION if n_outputs == 1 else f"{LOCATION} of output {output}"


@lru_cache(maxsize=128)
def statistic_plan(
    n: int,  # public sizes
    d: int,
    guarantee: PrivacyGuarantee,
    ends: tuple[tuple[int, int], ...],  # of the box of every output, in steps
    # Number of blocks; None chooses.
    blocks: int | None,
    least_size: int,  # smallest size of a block
    # Number of parameters that the function estimates: see `block_loss`.
    parameters: int,
    skewness: float,  # largest skewness of a row's influence, and bias of a block of m rows times m
    remainder: float,
    dither: bool,
) -> StatisticPlan:
    """Return the plan with the fewest blocks whose intervals are almost the narrowest."""
    n_outputs = len(ends)
    epsilon = guarantee.epsilon / n_outputs
    most = n // least_size
    # Far more blocks than there can be rows, if epsilon is tiny.
    fewest = max(math.ceil(min(LEAST / epsilon, _MOST_BLOCKS)), FEWEST)
    if blocks is None:
        if most < fewest:
            allowed = f"at least {fewest * least_size:,} at epsilon = {guarantee.epsilon:g}"
            remedy = f"It needs {fewest:,} blocks of {least_size:,}. Give more rows, epsilon, or fewer outputs."
            raise refuse("n_samples", got=f"{n:,}", allowed=allowed, remedy=remedy)
        counts = np.unique(as_int64(np.geomspace(fewest, most, _MOST_TRIED).round()))
    else:
        if not fewest <= blocks <= n:
            remedy = f"Blocks times epsilon per output must reach {LEAST:g}."
            allowed = f"between {fewest:,} and the number of rows"
            raise refuse("blocks", got=f"{blocks:,}", allowed=allowed, remedy=remedy)
        counts = np.array([blocks])
    laws = ["laplace"] if guarantee.delta == 0 else ["laplace", "gaussian"]
    tried = [_tried(counts, n, epsilon, n_outputs, guarantee, law, skewness, remainder) for law in laws]
    losses = block_loss(parameters, n / counts)
    law = min(range(len(laws)), key=lambda i: float((tried[i].min(axis=0) * losses).min()))
    widths = tried[law].min(axis=0) * losses
    place = _fewest_good(widths)
    if skewness > _USUAL_SKEWNESS:
        # Planned widths are of nearly normal values, and favor many blocks. The clip then cuts off a long tail that the
        # released scale does not show. With a skewness of 11.5, blocks of 35 rows covered 0.78, and of 64 rows 0.93.
        small = skewness / np.sqrt(n // counts) > _LARGEST_BLOCK_SKEWNESS
        enough = ~small | (counts * epsilon <= RECOMMENDED)
        usual = _tried(counts, n, epsilon, n_outputs, guarantee, laws[law], _USUAL_SKEWNESS, remainder).min(axis=0)
        place = min(place, _fewest_good(usual * losses), max(int(enough.sum()) - 1, 0))
    clip = int(np.argmin(tried[law][:, place]))
    k = int(counts[place])
    first = min(_FOR_LOCATION / k, _LARGEST_SHARE * epsilon)
    scale = quotient_up(UTILITY_RANGE, first)
    stages: list[AnyStage] = [Shuffle(ORDER, n)]
    if dither:
        stages.append(Coins(DITHER, (k * n_outputs, DITHER_BITS)))
    stages += [
        Choice(location_name(j, n_outputs), 2, UTILITY_RANGE, scale, n_candidates(ends[j]), words=_LOCATED)
        for j in range(n_outputs)
    ]
    stages.append(_sums_stage(laws[law], guarantee, first, n_outputs))
    return StatisticPlan(tuple(stages), guarantee, n, d, k, n_outputs, _CLIPS[clip], skewness, remainder, parameters)


def _fewest_good(widths: Any) -> int:
    """Return the place of the fewest blocks that are about as good: larger blocks have smaller biases."""
    return int(np.argmax(widths <= _ABOUT_AS_GOOD * widths.min()))


def _tried(
    counts: Any,
    n: int,
    epsilon: float,
    n_outputs: int,
    guarantee: PrivacyGuarantee,
    law: str,
    skewness: float,
    remainder: float,
) -> Any:
    """Return planned widths, of shape (clips, numbers of blocks)."""
    first = np.minimum(_FOR_LOCATION / counts, _LARGEST_SHARE * epsilon)
    if law == "laplace":
        noise = 2 * math.sqrt(2) / (epsilon - first)
    else:
        left = zcdp_rho(guarantee.epsilon, guarantee.delta) - n_outputs * first**2 / 8
        noise = 2 * math.sqrt(n_outputs) / np.sqrt(2 * np.maximum(left, 1e-12))
    clip = np.array(_CLIPS)[:, None]
    density = np.exp(-0.5 * clip**2) / math.sqrt(2 * math.pi)
    inside = 2 * ndtr(clip) - 1
    square = inside - 2 * clip * density + 2 * clip**2 * (1 - ndtr(clip))
    std = np.sqrt(square + clip**2 * noise**2 / counts) / inside
    shift = clip * density / (3 * inside) * skewness * counts / math.sqrt(n)
    shift = shift + remainder * counts / n * np.sqrt(counts)
    return std * np.sqrt(stats.ncx2.isf(0.05, 1, np.minimum((shift / std) ** 2, 900.0))) / 1.96


def _sums_stage(law: str, guarantee: PrivacyGuarantee, first: float, n_outputs: int) -> Stage | JointStage:
    """Return the stage of the sums, at what the locations leave."""
    spacing = 1.0 / GRAINS
    if law == "laplace":
        left = (guarantee.epsilon - n_outputs * first) * (1 - 2.0**-40)
        item = Integers(SUMS, 3 * n_outputs, spacing, 2 * GRAINS * n_outputs, 2 * GRAINS * n_outputs)
        return additive_stages([item], left, 0.0)[0]
    # The locations cost epsilon^2/8 each.
    rho = zcdp_rho(guarantee.epsilon, guarantee.delta) * (1 - 1e-9) - n_outputs * first**2 / 8
    units = ((SIGNED, 1.0), (SIZES, SIZE_UNIT), (FAILURES, 1.0))
    blocks = tuple(Block(name, n_outputs, spacing, unit) for name, unit in units)
    most = math.nextafter(2 * GRAINS * math.sqrt(n_outputs), math.inf)
    return concentrated_stage(JointIntegers(SUMS, blocks, most, most), rho)


Floats = NDArray[np.float64]

_FEWEST = 20
_LOW = 0.02
"""Coverage that is this far below the level, and three standard errors, gets a warning."""


@dataclass(frozen=True, slots=True, eq=False)
class Rehearsal(Printed):
    """Result of `PrivateStatistic.rehearse`, for each output.

    Attributes
    ----------
    value : array of shape (n_outputs,)
        The statistic of all public rows.
    coverage, coverage_error : arrays
        Fraction of the intervals that hold ``value``, and its Monte Carlo standard error.
    bias, bias_error : arrays
        Mean of the estimates minus ``value``, and its Monte Carlo standard error.
    width : array
        Median width of the intervals.
    located : array
        Fraction of the fits whose values were located.
    n_replications, n_samples, n_blocks : int
    confidence_level : float
    names : tuple of str
        Names of the outputs.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.statistic import PrivateStatistic
    >>> rows = np.random.default_rng(0).normal(size=(1000, 1))
    >>> found = PrivateStatistic(lambda block: block.mean()).rehearse(rows, n_replications=20)
    >>> found.coverage.shape, found.n_blocks
    ((1,), 60)
    """

    value: Floats
    coverage: Floats
    coverage_error: Floats
    bias: Floats
    bias_error: Floats
    width: Floats
    located: Floats
    n_replications: int
    n_samples: int
    n_blocks: int
    confidence_level: float
    names: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether no coverage is below the level by more than chance and 0.02."""
        short = self.confidence_level - self.coverage
        return bool((short <= np.maximum(_LOW, 3 * self.coverage_error)).all())

    def _records(self) -> Records:
        columns = ("value", "coverage", "coverage_error", "bias", "bias_error", "width", "located")
        facts = {key: getattr(self, key) for key in ("n_replications", "n_samples", "confidence_level", "holds")}
        return Records(list(self.names), {name: getattr(self, name).tolist() for name in columns}, facts)

    def summary(self) -> Summary:
        """Return a table. It prints as text, and shows as HTML in a notebook."""
        rows = [
            (
                name,
                f"{self.value[j]:.4g}",
                f"{self.coverage[j]:.3f} ± {self.coverage_error[j]:.3f}",
                f"{self.bias[j]:.2g} ± {self.bias_error[j]:.1g}",
                f"{self.width[j]:.3g}",
                f"{self.located[j]:.0%}",
            )
            for j, name in enumerate(self.names)
        ]
        notes = ["Rows were drawn from the public rows with replacement. Private rows can differ from these."]
        if not self.holds:
            notes.insert(
                0,
                "Warning: intervals undercover on rows like these. Try fewer blocks, a larger skewness "
                "or remainder, a link, or another statistic.",
            )
        return Summary(
            "Rehearsal of a private statistic",
            [
                ("Fits", f"{self.n_replications:,} of {self.n_samples:,} rows, {self.n_blocks:,} blocks each"),
                ("Level", f"{self.confidence_level:g}"),
                ("Value", "the statistic of all public rows"),
            ],
            ["", "value", "coverage", "bias", "width", "located"],
            rows,
            notes,
        )


def rehearse(
    estimator: Any,
    X: Any,
    y: Any,
    n_samples: int | None,
    n_replications: int,
    confidence_level: float | None,
    random_state: Any,
) -> Rehearsal:
    """Compare fits of a `PrivateStatistic` to samples of public rows with the statistic of all these rows."""
    count, level = (check_integer("n_replications", n_replications, at_least=_FEWEST), usual_level(confidence_level))
    rng = check_random_state(random_state)
    if rng is None:
        allowed = "a seed or a generator for a rehearsal, which is simulated"
        raise refuse("random_state", given=None, allowed=allowed)
    if estimator.unit is not None:
        allowed = "None for a rehearsal, which draws single rows"
        raise refuse("unit", allowed=allowed, remedy="Use one row per unit.")
    source = open_source(X)
    schema, given = source.resolve(estimator._schema(), y)
    table = source.read(schema, given).whole()
    n = len(table) if n_samples is None else check_integer("n_samples", n_samples, at_least=2)
    (whole,) = block_rows(table, np.arange(len(table)), 1, estimator.missing == "drop")
    value = value_of(Frozen(estimator.function), whole, None, estimator.n_outputs)
    if not np.isfinite(value).all():
        allowed = "public rows for which the function returns finite numbers"
        raise refuse_data("X", allowed=allowed, remedy="Try check_locality.")
    estimates, low, high, located = (np.empty((count, value.size)) for _ in range(4))
    for run in range(count):
        rows = rng.integers(len(table), size=n)
        fit = clone(estimator).set_params(budget=None, random_state=int(rng.integers(2**31)))
        fit.fit(frame(table.X[rows], table.names), None if table.y is None else table.y[rows])
        estimates[run], located[run] = fit.estimate_, fit.located_
        ends = fit.confidence_interval(level)
        low[run], high[run] = ends.low, ends.high
    covered = ((low <= value) & (value <= high)).mean(axis=0)
    spread = np.nanstd(estimates, axis=0, ddof=1) / math.sqrt(count)
    return Rehearsal(
        value,
        covered,
        np.sqrt(np.maximum(covered * (1 - covered), 1 / count) / count),
        np.nanmean(estimates, axis=0) - value,
        spread,
        np.median(high - low, axis=0),
        located.mean(axis=0),
        count,
        n,
        fit.n_blocks_,
        level,
        fit.estimates().names,
    )
