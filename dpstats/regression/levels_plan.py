"""Plan and queries of means by level, adjusted for covariates, and of declared factors of a linear regression.

Proof: docs/proofs/levels.md. Intervals: docs/intervals/levels.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_real
from dpstats.data.schema import Categories, Column
from dpstats.data.values import as_int64
from dpstats.errors import InvalidParameter, attempt, refuse, show, show_names
from dpstats.lattice.products import Sums, finest, row_bits
from dpstats.means.ratio import GaussianTotals, LaplaceTotals, Noise, Totals
from dpstats.privacy.gaussian import gaussian_sigma
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.stages import Block as StageBlock
from dpstats.privacy.stages import JointStage
from dpstats.regression.blocks import X_BITS, Block, Coordinates, Design, Question
from dpstats.regression.passes import Floats
from dpstats.regression.plan import (
    DesignPlan,
    RegressionPlan,
    describe_common,
    describe_step,
    first_stages,
    regression_plan,
    scalar_integers,
    shares,
)
from dpstats.regression.rows import UNIT_BITS, scalar_sum
from dpstats.release.additive import Integers, JointIntegers, additive_stages, choose_smaller

if TYPE_CHECKING:
    from dpstats.regression.linear_path import LinearPath

# Plan of means by level

# A row has one level, so sums by level have the sensitivity of one sum, for rare levels too. Whitening a 0/1 column
# instead makes its rows long if the level is rare, and loses a rare level in the noise.

# The stages, each with a fixed fraction of mu^2:

# 1. Totals of all outcomes: they give the range of most outcomes.
# 2. Totals of the outcomes by level, clipped to this range: centers of the levels.
# 3. Sums of the covariates by level, unless levels are randomized: centers of the covariates. They have a part beyond
#    the bounds, because the steps use such rows.

# 4. The number of clipped outcomes, for means of levels that are not randomized. Clipped outcomes are not linear in
#    the covariates, and bias their differences.
# 5. Newton steps of a linear regression of the centered outcomes on the centered covariates.
# 6. Totals by level of the residuals, each clipped to a multiple of its scale. Noise is in proportion to this clip.

OUTCOMES = "totals of the outcomes"
LEVELS = "totals of the outcomes by level"
COVARIATES = "sums of the covariates by level"
CLIPPED = "fraction of the outcomes that are clipped"
RESIDUALS = "totals of the residuals by level"
_STEPS = "steps"
INSIDE, BEYOND = "within the bounds", "beyond the bounds"
_BEYOND_WEIGHT = 0.5
"""Weight of the part beyond the bounds, which is 0 in most data."""
_OUTCOMES_SHARE, _COVARIATES_SHARE, _MOST_COVARIATES_SHARE = 0.02, 0.05, 0.2
_CLIPPED_SHARE = 0.01
"""Fraction of mu^2 to count clipped outcomes. It raises all other noise by 0.5%."""
_LEVELS_SHARE = 0.15
_ROUGH, _LEAST_LEVELS = 1000.0, 1 / 3
"""Rows times mu up to which centers of randomized levels need all of their fraction, and the least part of it."""
_LEAST_STEPS_SHARE, _STEPS_SHARE, _MOST_STEPS_SHARE = 0.1, 0.25, 0.42
"""Fractions of mu^2 for the steps: the least, the most to adjust levels, and the most if slopes are wanted."""
_ENOUGH = 2.0
"""Noise of a slope, over its sampling error, at which slopes are good enough to adjust levels."""
_PURE = (0.5, 0.6, 0.7, 0.8)
"""Fractions of epsilon for the totals of the residuals under Laplace noise. The rest is for Gaussian noise."""
_LONGER = 1.05
"""The steps get so much of mu^2 that a slope's error is at most this multiple of its error without levels."""
CLIPS = np.linspace(1.5, 16.0, 146)
"""Clips of residuals to choose from, in standard deviations."""
BIAS, DECAY = 0.2, 1.0
"""Bias of the mean of residuals by the least clip, in standard deviations, if they are not skewed, and its decay."""


@dataclass(frozen=True)
class LevelsPlan(DesignPlan):
    """The plan of adjusted means of levels. All of it is public.

    Attributes
    ----------
    design, bits, missing
        As for `DesignPlan`.
    levels : tuple
        The declared levels.
    randomized : bool
        Whether the covariates have the same distribution in all levels.
    steps : RegressionPlan, optional
        The stages of the Newton steps, as a separate plan. None if noise would hide all slopes: the only stage are
        then the totals of the outcomes by level.
    mu : float
        Parameter of Gaussian differential privacy of all stages together.
    slopes : bool
        Whether the slopes are wanted too.
    """

    levels: tuple[Any, ...]
    randomized: bool
    steps: RegressionPlan | None
    mu: float
    slopes: bool

    @property
    def noise_ratio(self) -> float:
        return math.inf if self.steps is None else self.steps.noise_ratio

    @property
    def noise_only(self) -> bool:
        return self.steps is None

    def totals(self, name: str) -> Totals:
        """Return the totals of a stage: of all rows, or by level."""
        kind = LaplaceTotals if self.stage(name).noise == "laplace" else GaussianTotals
        return kind(1 if name == OUTCOMES else len(self.levels), 1, UNIT_BITS)

    def totals_noise(self, name: str) -> Noise:
        """Return the noise of the totals of a stage, in half-widths of its range."""
        stage = self.stage(name)
        assert isinstance(stage, JointStage)
        return self.totals(name).noise(stage)

    @property
    def residuals_noise(self) -> Noise:
        """The noise of the totals that the report uses, in half-widths of the clip."""
        return self.totals_noise(LEVELS if self.steps is None else RESIDUALS)

    @property
    def planned_error(self) -> float:
        """Error of the mean of one of equally large levels, in standard deviations of normal residuals.

        Without steps it is the noise of the totals. Levels that are not randomized are one standard deviation apart in
        each covariate.
        """
        noise = float(self.residuals_noise.total)
        if self.steps is None:
            return noise
        rows, slopes = self.n_samples / len(self.levels), self.design.center.size * (1 + self.noise_ratio**2)
        bias = BIAS * np.exp(-DECAY * (CLIPS - CLIPS[0]))
        of_rows = (1 + slopes / self.n_samples) / rows + slopes / self.n_samples * (not self.randomized)
        return math.sqrt(of_rows + float(np.min((CLIPS * noise / rows) ** 2 + bias**2)))

    @property
    def has_both_laws(self) -> bool:
        """Whether the totals of the residuals have Laplace noise, and all other stages Gaussian noise."""
        return self.steps is not None and self.residuals_noise.laplace > 0

    @property
    def cautions(self) -> list[tuple[str, str]]:
        words = "Laplace in the totals of the residuals, smaller there than Gaussian noise of the same guarantee"
        return [*super().cautions, *[("Noise chosen", words)] * self.has_both_laws]

    @property
    def smallest_share(self) -> float:
        """Smallest fraction of the rows in a level whose mean has less noise than sampling error, up to 1.

        It assumes residuals that are clipped at twice their standard deviation.
        """
        noise = float(self.residuals_noise.total)
        clip = 2.0 if self.steps is not None else self.design.y_half
        return min((clip * noise) ** 2 / self.n_samples, 1.0)

    def noise_ratio_of_share(self, share: float) -> float:
        """Return the ratio of noise to sampling error of the mean of a level with this fraction of the rows.

        Parameters
        ----------
        share : float
            Share of the level, in (0, 1].
        """
        return math.sqrt(self.smallest_share / check_real("share", share, above=0, at_most=1.0))

    def limit_bias(self, steps: LinearPath) -> float:
        """Return the bias by the least clip that is allowed for if the release does not show skewed residuals."""
        return BIAS

    def notes(self) -> list[str]:
        if self.steps is None:
            return [
                "means are not adjusted: at this n and epsilon, noise hides the slopes of the covariates. Use more "
                "rows, a larger epsilon or fewer covariates"
            ]
        d = self.design.center.size
        return [
            f"adjusted for {d} covariate{'s' * (d > 1)}; noise of a slope about {self.steps.noise_ratio:.2g} "
            f"times its sampling error, for {self._columns}",
            f"a level with {100 * self.smallest_share:.2g}% of the rows has as much noise as sampling error",
        ]


SomePlan = TypeVar("SomePlan", bound=LevelsPlan)


def levels_plan(
    design: Design,
    levels: Sequence[Any],
    n: int,
    epsilon: float,
    delta: float,
    missing: str,
    randomized: bool,
    slopes: bool = False,
    pure: float = 0.0,
    count_clipped: bool = False,
    kind: Callable[..., SomePlan] = LevelsPlan,  # type: ignore[assignment]
    **facts: Any,
) -> SomePlan:
    """Return the plan of the means of declared levels of n rows, adjusted for the columns of the design.

    Randomized levels whose slopes noise would hide are not adjusted. Others are refused, as they would be confounded.
    With ``slopes`` the slopes are wanted too, and not only as a means to adjust the levels. With ``count_clipped`` the
    fraction of clipped outcomes is released. A fraction ``pure`` of
    epsilon is for Laplace noise of the totals that the report uses. If it is 1 there are no others, and delta is 0.
    """
    d, weighted = design.center.size, design.weight is not None
    facts |= {"levels": tuple(levels), "randomized": randomized, "missing": missing, "slopes": slopes}
    facts |= {"design": design}
    size = facts.pop("n_features", d)
    if pure < 1:
        found: SomePlan = _adjusted_plan(n, size, epsilon, delta, pure, count_clipped, kind, facts)
        assert found.steps is not None
        if not found.steps.noise_only:
            return found
    if not randomized and pure < 1:
        raise refuse(
            "epsilon",
            given=epsilon,
            allowed=f"large enough to adjust n_samples = {n} rows for {d} covariates: noise hides their slopes",
            remedy="Use more rows, a larger epsilon or fewer covariates.",
        )
    if not randomized:
        raise refuse(
            "delta",
            given=delta,
            allowed="greater than 0 without randomized groups: slopes of covariates need Gaussian noise",
            remedy="Give delta=1e-6 for example.",
        )
    own = delta if pure < 1 else 0.0
    stages = additive_stages([_totals(LEVELS, len(levels), 1.0, weighted, not own)], epsilon, own)
    mu = 1 / gaussian_sigma(epsilon, own) if own else 0.0
    return kind(stages, PrivacyGuarantee(epsilon, own), n, size, bits=row_bits(n), mu=mu, steps=None, **facts)


def _adjusted_plan(
    n: int, size: int, epsilon: float, delta: float, pure: float, count_clipped: bool, kind: Any, facts: dict[str, Any]
) -> Any:
    """Return the plan with Newton steps, also if noise hides the slopes."""
    design, levels, randomized, slopes = facts["design"], len(facts["levels"]), facts["randomized"], facts["slopes"]
    d, weighted, rest = design.center.size, design.weight is not None, epsilon - pure * epsilon
    share = _steps_share(design, n, epsilon, delta, slopes)  # refuses delta = 0
    mu, guarantee = 1 / gaussian_sigma(rest, delta), PrivacyGuarantee(epsilon, delta)
    covariates = 0.0 if randomized else _covariates_share(d, slopes)
    fractions = _fractions(share, n * mu, covariates, _CLIPPED_SHARE * count_clipped, pure > 0)
    share = fractions[_STEPS]
    own = mu * math.sqrt(share)
    # Rows of undeclared levels count nowhere, so the steps count the rows that they use, as if others were missing.
    parts = shares("linear", n, d, own, design.intercept, first_stages(design, "drop"))

    def describe(name: str, part: float, bits: int) -> Integers | JointIntegers:
        found = describe_common(name, part * share, bits, n, d, own)
        return found or describe_step("linear", design, n, name, part * share, bits)

    def build(bits: int) -> Any:
        items: list[Integers | JointIntegers]
        items = [_totals(name, levels, fractions[name], weighted) for name in (OUTCOMES, LEVELS)]
        items += [] if randomized else [_covariates(levels, d, fractions[COVARIATES], weighted)]
        items += [scalar_integers(CLIPPED, n, fractions[CLIPPED])] if count_clipped else []
        first = len(items)
        items += [describe(name, part, bits) for name, part in parts]
        if pure:
            last = _totals(RESIDUALS, levels, 1.0, weighted, True)
            stages = additive_stages(items, rest, delta) + additive_stages([last], epsilon - rest, 0.0)
        else:
            last = _totals(RESIDUALS, levels, fractions[RESIDUALS], weighted)
            stages = additive_stages([*items, last], epsilon, delta)
        of_steps = stages[first:-1]
        inner = RegressionPlan(
            of_steps, guarantee, n, d, design=design, bits=bits, mu=own, missing="drop", family="linear"
        )
        return kind(stages, guarantee, n, size, bits=bits, mu=mu, steps=inner, **facts)

    return finest(build, row_bits(n))


def choose_law(make_plan: Callable[[float], SomePlan], delta: float, budget: Any) -> SomePlan:
    """Return the plan with the smaller expected error: with Gaussian noise only, or with Laplace noise in the totals.

    ``make_plan`` maps the fraction of epsilon for the totals of the report, under Laplace noise, to a plan.
    """
    if delta == 0:
        return make_plan(1.0)
    gaussian = make_plan(0.0)

    def make_laplace() -> SomePlan:
        if gaussian.steps is None:
            return replace(make_plan(1.0), delta_asked=delta)
        # Slopes are worth more than less noise: the noise of adjusted means is in proportion to the residuals.
        plans = [attempt(partial(make_plan, pure), InvalidParameter) for pure in _PURE]
        return min((plan for plan in plans if plan is not None and plan.steps), key=_error_of, default=gaussian)

    return choose_smaller(gaussian, make_laplace, _error_of, budget)


def _error_of(plan: LevelsPlan) -> float:
    return plan.planned_error


def _steps_share(design: Design, n: int, epsilon: float, delta: float, slopes: bool) -> float:
    """Return the fraction of mu^2 for the steps: larger if slopes are wanted, or if their noise is large."""
    ratio = regression_plan("linear", design, n, epsilon, delta).noise_ratio
    if not slopes:
        return min(max((ratio / _ENOUGH) ** 2, _LEAST_STEPS_SHARE), _STEPS_SHARE)
    # sqrt(1 + ratio^2/share) is at most _LONGER sqrt(1 + ratio^2).
    least = ratio**2 / (_LONGER**2 * (1 + ratio**2) - 1)
    return min(max(least, _STEPS_SHARE), _MOST_STEPS_SHARE)


def _covariates_share(d: int, slopes: bool) -> float:
    """Return the fraction of mu^2 for the centers of d covariates. Their errors attenuate the slopes."""
    return min(_COVARIATES_SHARE * (1 + d), _MOST_COVARIATES_SHARE) if slopes else _COVARIATES_SHARE


def _fractions(steps: float, size: float, covariates: float, clipped: float, laplace: bool) -> dict[str, float]:
    """Return the fractions of mu^2 of the steps and of the totals. Totals with Laplace noise take none."""
    # Given are the fraction of the steps, and rows times mu. The fraction of the covariates is 0 for randomized levels.
    # The fraction of clipped outcomes is 0 if they are not counted.
    levels = _LEVELS_SHARE
    if not covariates:
        levels *= min(max(_ROUGH / size, _LEAST_LEVELS), 1.0)
    found = {OUTCOMES: _OUTCOMES_SHARE, LEVELS: levels, COVARIATES: covariates, CLIPPED: clipped, _STEPS: steps}
    total = math.fsum(found.values())
    return {name: part / total for name, part in found.items()} if laplace else {**found, RESIDUALS: 1 - total}


def _totals(name: str, levels: int, share: float, weighted: bool, laplace: bool = False) -> JointIntegers:
    """Return the integers of a stage of totals: of all rows, or by level."""
    assert not (weighted and laplace)
    # A weight in [0, 1] multiplies what a row adds. The distance of two rows is convex in their weights, so it is
    # largest at weights of 0 or 1. Rounding moves the three numbers of both rows by half a step each.
    count = 1 if name == OUTCOMES else levels
    found = (LaplaceTotals if laplace else GaussianTotals)(count, 1, UNIT_BITS).integers()
    return replace(found, name=name, share=share, l2=found.l2 + 2.0 * weighted)


def _covariates(levels: int, d: int, share: float, weighted: bool) -> JointIntegers:
    """Return the integers of the sums of covariates by level: a row has one level, and two vectors in the cube."""
    size, spacing, both = levels * d, 2.0**-X_BITS, d * (1 + _BEYOND_WEIGHT**2)
    blocks = (StageBlock(INSIDE, size, spacing, 1.0), StageBlock(BEYOND, size, spacing, 1 / _BEYOND_WEIGHT))
    # A weight rounds each number of both rows by half a step.
    moved = math.sqrt(4 * both) * 2.0**X_BITS + weighted * math.sqrt(both)
    return JointIntegers(COVARIATES, blocks, math.inf, moved * (1 + 1e-12), share)


# Queries


@dataclass(frozen=True, eq=False)
class OutcomeTotals(Question):
    """The totals of all outcomes, or of the outcomes of each level, about a center and clipped to a half-width.

    Both are public, in half-widths of the bounds.
    """

    totals: Totals
    center: float
    half: float

    def sum_rows(self, block: Block) -> Sums:
        assert block.groups is not None
        codes = np.zeros_like(block.groups) if self.totals.n_groups == 1 else block.groups
        return _sum_levels(self.totals, (block.y - self.center) / self.half, codes, block)


@dataclass(frozen=True, eq=False)
class Centers:
    """Public centers of the levels, in half-widths, and the range of the centered outcomes.

    Attributes
    ----------
    outcomes : array of shape (K,)
    covariates : array of shape (K, d)
        Multiples of a step of the lattice.
    """

    outcomes: Floats
    covariates: Floats

    @cached_property
    def middle(self) -> float:
        """Middle of the range of centered outcomes."""
        return -(float(self.outcomes.min()) + float(self.outcomes.max())) / 2

    @cached_property
    def half(self) -> float:
        """Half-width of this range."""
        return 1 + (float(self.outcomes.max()) - float(self.outcomes.min())) / 2

    @cached_property
    def key(self) -> tuple[bytes, bytes]:
        """The centers as a key of a dict."""
        return self.outcomes.tobytes(), self.covariates.tobytes()

    def subtract(self, block: Block) -> Block:
        """Return the rows minus the centers of their levels, with outcomes in half-widths of their range."""
        y, store = block.remember("centered rows", self.key, lambda: self._subtract(block))
        return replace(block, y=y, store=store)

    def _subtract(self, block: Block) -> tuple[Floats, NDArray[np.float32]]:
        assert block.groups is not None
        y = np.clip((block.y - self.outcomes[block.groups] - self.middle) / self.half, -1.0, 1.0)
        if not self.covariates.any():
            return y, block.store
        steps = np.zeros((len(self.covariates), self.covariates.shape[1] + 1), dtype=np.float32)
        steps[:, :-1] = self.covariates * 2.0**X_BITS
        # Differences of integers below 2^23 are exact.
        return y, block.arrange(block.points - steps[block.groups])


@dataclass(frozen=True, eq=False)
class Centered(Question):
    """A query about rows minus the centers of their levels. Of some levels only, unless ``some`` is None."""

    query: Question
    centers: Centers
    some: NDArray[np.bool_] | None = None

    def sum_rows(self, block: Block) -> Sums:
        found = self.centers.subtract(block)
        if self.some is not None:
            assert block.groups is not None
            found = found.take(np.flatnonzero(self.some[block.groups]))
        return self.query.sum_rows(found)


@dataclass(frozen=True, eq=False)
class CovariateSums(Question):
    """The sums of the covariates by level: within their bounds, and beyond these by up to a half-width."""

    levels: int

    def sum_rows(self, block: Block) -> Sums:
        assert block.groups is not None
        z, one = block.z, 2.0**X_BITS
        inside = np.clip(z, -one, one)
        sums = {}
        for name, values in ((INSIDE, inside), (BEYOND, np.clip(z - inside, -one, one))):
            columns = np.rint(block.weigh(values)).T
            own = [np.bincount(block.groups, column, self.levels) for column in columns]
            sums[name] = as_int64(np.stack(own, axis=1).ravel())
        return sums


@dataclass(frozen=True, eq=False)
class ClippedOutcomes(Question):
    """The number of rows whose outcome is outside its bounds."""

    def sum_rows(self, block: Block) -> Sums:
        return {CLIPPED: scalar_sum(block.weigh(block.outside))}


@dataclass(frozen=True, eq=False)
class ResidualTotals(Question):
    """The totals by level of the residuals, each over the public clip of its level."""

    totals: Totals
    line: Coordinates
    middle: Floats
    clip: Floats

    def sum_rows(self, block: Block) -> Sums:
        assert block.groups is not None
        residuals = block.y - block.fit_outcomes(self.line) - self.middle[block.groups]
        return _sum_levels(self.totals, residuals / self.clip[block.groups], block.groups, block)


def _sum_levels(totals: Totals, z: Floats, codes: NDArray[np.int64], block: Block) -> Sums:
    """Return the totals by level of numbers that are clipped to [-1, 1]. A sum of floats below 2^53 is exact."""
    steps = as_int64(np.rint(np.clip(z, -1.0, 1.0) * 2.0**totals.bits))[:, None]
    return {
        name: as_int64(np.bincount(codes, np.rint(block.weigh(values[:, 0])), totals.n_groups))
        for name, values in totals.rows(steps).items()
    }


# Declared factors: their cells, and the columns that code them

# A factor costs the noise of one sum per level, however rare the level is. Several factors are cross-classified, so
# that a row has one cell. The means of the cells at equal covariates then give the coefficients by weighted least
# squares.

MOST_CELLS = 16


@dataclass(frozen=True, eq=False)
class Coding:
    """Columns of a design that depend on the cell of a row only. All of it is public.

    Attributes
    ----------
    factors : mapping of names to `Categories`
        Declared factors. Their cells are all combinations of levels. The last factor's level changes fastest.
    columns : array of shape (n_cells, q)
        Value of each column in each cell.
    names : tuple of str, length q
    terms : mapping of str to sequences of str
        The names of the columns of each term.
    places : array of int, shape (q,), optional
        Position of each column among all slopes. Default: after the columns of numbers.
    """

    factors: Mapping[Any, Categories]
    columns: Floats
    names: tuple[str, ...]
    terms: Mapping[str, Sequence[str]]
    places: NDArray[np.int64] | None = None

    @classmethod
    def code_main_effects(cls, factors: Mapping[Any, Categories]) -> Coding:
        """Return the coding of main effects: a column for each level but the first of its factor."""
        codes = cell_codes(factors)
        columns, terms = [], {}
        for name, levels in factors.items():
            columns += [codes[name] == code for code in range(1, len(levels))]
            terms[str(name)] = [f"{name}[T.{level}]" for level in levels.values[1:]]
        names = tuple(name for own in terms.values() for name in own)
        return cls(factors, np.array(columns, dtype=np.float64).T, names, terms)

    @property
    def cells(self) -> tuple[Any, ...]:
        """The labels of the cells: levels of the only factor, or tuples of levels."""
        codes = cell_codes(self.factors)
        parts = [[levels.values[code] for code in codes[name].tolist()] for name, levels in self.factors.items()]
        return tuple(parts[0]) if len(parts) == 1 else tuple(zip(*parts, strict=True))

    @property
    def labels(self) -> list[str]:
        """The labels of all levels, as "factor[label]"."""
        return [f"{name}[{level}]" for name, levels in self.factors.items() for level in levels.values]

    @property
    def shown(self) -> list[str]:
        """The labels of the cells as text."""
        single = len(self.factors) == 1
        return [str(cell) if single else ", ".join(map(str, cell)) for cell in self.cells]

    def find_places(self, d: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the positions of the d columns of numbers and of the columns of factors, among all slopes."""
        q = len(self.names)
        places = d + np.arange(q) if self.places is None else self.places
        return np.setdiff1d(np.arange(d + q), places), places


def cell_codes(factors: Mapping[Any, Categories]) -> dict[Any, NDArray[np.int64]]:
    """Return the code of each factor's level in each cell."""
    sizes = [len(levels) for levels in factors.values()]
    grid = np.indices(sizes).reshape(len(sizes), -1)
    return dict(zip(factors, np.asarray(grid), strict=True))


def label_columns(factors: Mapping[Any, Categories]) -> tuple[Column, ...]:
    """Return the columns of the labels of factors."""
    return tuple(
        Column("groups", name, levels, "factors", meaning="a label for each row") for name, levels in factors.items()
    )


def check_factors(factors: Any) -> dict[Any, Categories]:
    """Return the declared levels of the factors, or raise an error."""
    if factors is None:
        return {}
    if not isinstance(factors, Mapping):
        raise refuse("factors", given=factors, allowed="a mapping of column names to levels")
    found = {}
    for place, (name, levels) in enumerate(factors.items()):
        entry = f"the entry of factors at position {place}"
        found[name] = Categories(levels, entry)
        if len(found[name]) < 2:
            raise refuse(entry, given=levels, allowed="have at least two levels")
    check_cells(found)
    return found


def check_cells(factors: Mapping[Any, Categories]) -> None:
    """Refuse factors with too many combinations of levels."""
    count = math.prod(len(levels) for levels in factors.values())
    if count > MOST_CELLS:
        raise refuse(
            "factors",
            got=str(count),
            allowed=f"have at most {MOST_CELLS} combinations of levels",
            remedy="Declare the factors with rare levels, and leave others as columns of 0 and 1 in X, with x_bounds "
            "(0, 1).",
        )


# Plan of declared factors


@dataclass(frozen=True)
class FactorsPlan(LevelsPlan):
    """The plan of a linear regression with declared factors. All of it is public.

    Attributes
    ----------
    design, bits, missing, levels, randomized, steps, mu
        As for `LevelsPlan`. ``levels`` are the cells of all factors.
    coding : Coding
        The factors and their columns.
    """

    coding: Coding = field(repr=False, compare=False)

    @property
    def size(self) -> int:
        return self.design.size + len(self.coding.names)

    @property
    def inner(self) -> RegressionPlan:
        """The plan of the Newton steps."""
        assert self.steps is not None
        return self.steps

    def limit_bias(self, steps: LinearPath) -> float:
        # Slopes assume residuals of one shape. So each cell has the tails of all residuals.
        return min(super().limit_bias(steps), steps.tail / 2)

    def is_lost(self, rows: float) -> bool:
        """Return whether noise hides the slopes for this number of rows."""
        return self.inner.is_lost(rows)

    def notes(self) -> list[str]:
        names = show_names(self.coding.factors)
        notes = [f"factors {names} by levels: sums of {len(self.levels)} cells, around Newton steps for the slopes"]
        ratio, share = f"{self.noise_ratio:.2g}", f"{100 * self.smallest_share:.2g}"
        return [
            *notes,
            f"for {self._columns}, noise of a slope {ratio} times its sampling error",
            f"a level with {share}% of the rows has as much noise as sampling error",
            *self.share_notes(),
        ]

    @property
    def noise_ratios(self) -> dict[Any, float]:
        return {
            name: (self if name in self.coding.labels else self.inner).noise_ratio_of_share(share)
            for name, share in self.shares.items()
        }


def factors_plan(design: Design, coding: Coding, n: int, epsilon: float, delta: float, missing: str) -> FactorsPlan:
    """Return the plan of a linear regression of n rows on the columns of the design and on declared factors."""
    if design.center.size == 0:
        raise refuse("n_features", allowed="at least 1 with factors: X must have a column of numbers")
    if not design.intercept:
        raise refuse(
            "fit_intercept",
            allowed="True with factors: the levels of a factor have an intercept each",
            remedy="Or give the factors as columns of 0 and 1 in X.",
        )
    return levels_plan(
        design, coding.cells, n, epsilon, delta, missing, False, slopes=True, kind=FactorsPlan, coding=coding
    )


def check_shares(shares: Any, plan: DesignPlan, known: Sequence[Any] | None) -> dict[str, float]:
    """Return declared shares by the names that notes show, or raise an error: of columns, and of levels of factors.

    ``known`` are the names of the columns, None if they are not known.
    """
    if not isinstance(shares, Mapping):
        raise refuse("shares", given=shares, allowed="a mapping of columns to fractions of the rows")
    factors = plan.coding.factors if isinstance(plan, FactorsPlan) else {}
    d, found = plan.design.center.size, dict[str, Any]()
    for name, share in shares.items():
        if name in factors:
            if not isinstance(share, Mapping) or any(level not in factors[name].values for level in share):
                raise refuse("shares", got=f"an entry for the factor {show(name)}", allowed="a mapping of its levels")
            found |= {f"{name}[{level}]": each for level, each in share.items()}
            continue
        is_place = isinstance(name, int) and not isinstance(name, bool)
        if not (0 <= name < d if is_place else name in (known or ())):
            names = [*(known or ()), *factors]
            listed = f"known names ({show_names(names)}), or " if names else ""
            raise refuse(
                "shares",
                got="another key",  # a key may be a private entry
                allowed=f"{listed}positions of columns (n_features = {d})",
                remedy="" if known else "Names are known if x_bounds is a mapping {name: (low, high)}.",
            )
        found[f"column {name}" if is_place else str(name)] = share
    for label, share in found.items():
        most = 1.0 if factors and label in plan.coding.labels else 0.5  # type: ignore[attr-defined]
        found[label] = check_real(f"the share of {label}", share, above=0, at_most=most)
    return found
