"""Means as ratios of released totals: plans, intervals and tests, for declared and for discovered groups.

Proof: docs/intervals/groups.md.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dpstats.data.columns import DISCOVER, in_order
from dpstats.data.parameters import check_real
from dpstats.data.rows import Table
from dpstats.data.schema import Categories
from dpstats.errors import refuse
from dpstats.inference.estimates import Estimates, HasEstimates, find_hidden
from dpstats.inference.noisy_counts import FURTHEST, FoundCounts, NormalNoise
from dpstats.inference.results import SHOWN_ALONE, about_missing, list_some, with_missing
from dpstats.lattice import BoxLattice
from dpstats.lattice.rounding import rows_that_count
from dpstats.means.moments import Region, calibrate_totals, finest
from dpstats.means.ratio import (
    COUNTS,
    FIRST,
    LAST,
    MIDDLE,
    TOTALS,
    GaussianTotals,
    LaplaceTotals,
    Noise,
    Ratio,
    RatioErrors,
    group_sums,
)
from dpstats.privacy.guarantee import Neighbors, PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import Discovery, JointStage, KeyCounts, count_keys
from dpstats.release.additive import choose_smaller, count_discovery, discovery_stage
from dpstats.release.estimator import PrivateEstimator

# Plans

_EXAMPLE = 1000  # rows


class Totals(Protocol):
    """The noise of released totals."""

    def noise(self, stage: JointStage) -> Noise: ...


Of = TypeVar("Of", bound=Totals)


@dataclass(frozen=True)
class RatioPlan(ReleasePlan, Generic[Of]):
    """The plan of releasing sums whose ratios are means, with the public facts that the fit and its report use.

    Attributes
    ----------
    region : Region
        The declared bounds of the columns.
    lattice : BoxLattice
    totals : GaussianTotals, LaplaceTotals or UnitTotals
    missing : {"error", "drop"}
    """

    region: Region = field(repr=False, compare=False)
    lattice: BoxLattice = field(repr=False, compare=False)
    totals: Of
    missing: str

    @property
    def totals_noise(self) -> Noise:
        """The noise of the totals: see `Ratio` for their units."""
        (stage,) = self.stages
        sums = stage.touched if isinstance(stage, Discovery) else stage
        assert isinstance(sums, JointStage)
        return self.totals.noise(sums)

    @property
    def half(self) -> NDArray[np.float64]:
        """Half the width of the bounds of each column."""
        return np.full(self.n_features, self.region.clip, dtype=np.float64)


@dataclass(frozen=True)
class GroupMeansPlan(RatioPlan[GaussianTotals | LaplaceTotals]):
    """The plan of a `GroupMeans`.

    Attributes
    ----------
    region, lattice, totals, missing
        As for `RatioPlan`.
    groups : tuple
        The declared groups.
    """

    groups: tuple[Any, ...]

    def mean_noise(self, n_rows: float, means: Any = None) -> NDArray[np.float64]:
        """Return the standard deviation of the noise in the mean of a group of ``n_rows`` rows, in units of the data.

        For a mean in the middle of its bounds by default. The noise of the count adds to it for other ``means``: at a
        bound, about as much.
        """
        center, noise = self.lattice.center, self.totals_noise
        off = 0.0 if means is None else (np.asarray(means) - center) / self.half
        return np.asarray(self.half * np.hypot(noise.total, noise.count * off) / check_real("n_rows", n_rows, above=0))

    def least_std(self, n_rows: float) -> NDArray[np.float64]:
        """Return the least standard deviation of a group of ``n_rows`` rows that noise does not hide.

        For a mean in the middle of its bounds: it is larger for other means. Below it there is no standard deviation,
        and the interval of Hedges' g has infinite limits.
        """
        rows = check_real("n_rows", n_rows, above=0)
        return np.asarray(self.half * np.sqrt(SHOWN_ALONE * self.totals_noise.square / rows))

    def describe_noise(self, n_rows: float) -> str:
        """Return text about the noise of the mean of a group: in the middle of its bounds, and at a bound."""
        middle, end = (
            ", ".join(f"{value:.3g}" for value in values[:6]) + ", ..." * (self.n_features > 6)
            for values in (self.mean_noise(n_rows), self.mean_noise(n_rows, self.lattice.center + self.half))
        )
        return f"noise of its mean {middle} ({end} at a bound)"

    def facts(self) -> dict[str, Any]:
        """Return facts about the plan that its stages do not show, by name."""
        return {"groups": [str(group) for group in self.groups]}

    def notes(self) -> list[str]:
        """Return the facts as text, one line each."""
        units = self.guarantee.units
        if self.n_planned is None:
            return [f"a group of {_EXAMPLE} {units}: {self.describe_noise(_EXAMPLE)}"]
        each = self.n_planned / len(self.groups)
        enough = 2 * self.totals_noise.count
        least = ", ".join(f"{value:.3g}" for value in self.least_std(each)[:6]) + ", ..." * (self.n_features > 6)
        found = [
            f"a group of n/{len(self.groups)} = {each:.6g} {units}: {self.describe_noise(each)}",
            f"noise hides standard deviations there below about {least}, and Hedges' g with them",
        ]
        if each < enough:
            found.append(
                f"warning: groups of fewer than {enough:.0f} {units} cannot be distinguished from noise, and "
                f"n/{len(self.groups)} is fewer: their intervals will be the bounds (more rows, a larger epsilon, "
                "fewer columns or groups help)"
            )
        return found


def group_means_plan(
    groups: Sequence[Any],
    region: Region,
    n: int | None,
    d: int,
    epsilon: float,
    delta: float,
    missing: str,
    neighbors: Neighbors,
) -> GroupMeansPlan:
    """Return the plan of releasing the totals of declared groups of n rows."""

    def build(bits: int) -> GroupMeansPlan:
        lattice, totals, stages = calibrate_totals(region, len(groups), d, epsilon, delta, neighbors, bits)
        return GroupMeansPlan(
            stages,
            PrivacyGuarantee(epsilon, delta, neighbors),
            n,
            d,
            groups=tuple(groups),
            region=region,
            lattice=lattice,
            totals=totals,
            missing=missing,
        )

    return finest(build)


def group_totals(plan: GroupMeansPlan, table: Table) -> dict[str, NDArray[np.int64]]:
    """Return the exact totals of some rows by group."""
    assert table.groups is not None
    return group_sums(table.X, table.groups, plan.lattice, plan.totals, plan.missing)


# Base class of the estimators of ratios

Floats = NDArray[np.float64]
Plan = TypeVar("Plan", bound=RatioPlan[Any])


class RatioEstimator(HasEstimates, PrivateEstimator[Plan]):
    """Base of the estimators of means that are ratios of released sums; a fit sets ``_ratio``."""

    missing: str
    _ratio: Ratio
    _per_column = ("bounds",)

    @abstractmethod
    def _estimand(self) -> str:
        """Return the estimand if no entry is missing."""

    def _covered(self, estimand: str) -> str:
        """Return an estimand and what missing entries of the fit counted as."""
        return with_missing(estimand, about_missing(self.plan_.missing))

    @abstractmethod
    def _all_names(self) -> list[str]:
        """Return a name for each mean."""

    def estimates(self) -> Estimates:
        """Return the means with the distribution of their errors: they can be pickled without the estimator."""
        check_is_fitted(self)
        errors = self._errors()
        return Estimates(
            errors.start,
            None,
            tuple(self._all_names()),
            self._covered(self._estimand()),
            errors,
            title="Private means",
            header="mean",
            labels=self._labels(),
            simulated=self.privacy_.simulated,
            columns=tuple(getattr(self, "feature_names_in_", ())),
        )

    def _known_means(self) -> Floats:
        """Return the means, NaN where the interval holds all values between the bounds."""
        errors = self._errors()
        return np.where(find_hidden(errors), np.nan, errors.start)

    def _errors(self) -> RatioErrors:
        plan = self.plan_
        return RatioErrors(self._ratio, plan.lattice.center, plan.half, *plan.region.ends(plan.n_features))

    def _labels(self) -> dict[str, list[Any]]:
        """Return the columns that label each mean in exports."""
        return {"column": self._column_names()}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


def place_of_group(name: str, group: Any, groups: tuple[Any, ...]) -> int:
    """Return the position of a declared group, or raise `InvalidParameter`."""
    place = int(Categories(groups).codes([group])[0])
    if place < 0:
        raise refuse(name, given=group, allowed=f"a declared group ({list_some([*map(repr, groups)])})")
    return place


def list_pairs(groups: tuple[Any, ...], reference: Any = None) -> list[tuple[int, int]]:
    """Return the positions of all pairs of groups, or of every other group with the reference.

    Examples
    --------
    >>> from dpstats.groups.ratios import list_pairs
    >>> list_pairs(("a", "b", "c")), list_pairs(("a", "b", "c"), "b")
    ([(0, 1), (0, 2), (1, 2)], [(0, 1), (2, 1)])
    """
    if len(groups) < 2:
        raise refuse("groups", got=f"{len(groups)}", allowed="at least two to be compared")
    if reference is None:
        return list(itertools.combinations(range(len(groups)), 2))
    last = place_of_group("reference", reference, groups)
    return [(place, last) for place in range(len(groups)) if place != last]


# Discovered groups: intervals given that a group was found

_NODES = 65
_AT_ONCE = 10**6  # scores


@dataclass(frozen=True)
class DiscoveredMeansPlan(GroupMeansPlan):
    """The plan of a `GroupMeans` that discovers its groups; ``groups`` is empty.

    Examples
    --------
    >>> from dpstats.groups import GroupMeans
    >>> plan = GroupMeans(groups="discover", bounds=(0, 1)).plan(10_000, 1)
    >>> round(plan.threshold, 1)
    41.0
    >>> round(plan.expected_groups([20, 50, 500]), 1)
    1.8
    """

    @property
    def discovery(self) -> Discovery:
        """The stage."""
        (stage,) = self.stages
        assert isinstance(stage, Discovery)
        return stage

    @property
    def threshold(self) -> float:
        """The least noisy count of a released group, in rows."""
        return self.discovery.threshold

    def make_totals(self, n_groups: int) -> GaussianTotals | LaplaceTotals:
        """Return the totals of a number of groups."""
        return replace(self.totals, n_groups=n_groups)

    @property
    def has_separate_counts(self) -> bool:
        """Whether groups are found by counts with Laplace noise of their own."""
        return isinstance(self.discovery, KeyCounts)

    @property
    def cautions(self) -> list[tuple[str, str]]:
        if not self.has_separate_counts:
            return super().cautions
        words = "Laplace, smaller in the sums than Gaussian noise of the same guarantee"
        return [*super().cautions, ("Noise chosen", words)]

    def expected_groups(self, sizes: Any) -> float:
        """Return the expected number of released groups, for groups of these sizes.

        Parameters
        ----------
        sizes : sequence of numbers
            Hypothetical numbers of rows, one for each group.
        """
        return float(self.discovery.compute_power(sizes).sum())

    def facts(self) -> dict[str, Any]:
        return {"groups": DISCOVER, "threshold": self.threshold}

    def notes(self) -> list[str]:
        half, most = map(self.discovery.find_size, (0.5, 0.95))
        return [
            f"a group of {half:.0f} {self.guarantee.units} is found with probability 0.50, one of {most:.0f} with 0.95",
            f"a group of {10 * half:.0f} {self.guarantee.units}: {self.describe_noise(10 * half)}",
        ]


COUNTS_SHARE = 0.4
"""Fraction of epsilon for counts apart: groups are then found at no higher a threshold than under Gaussian noise."""


def discovered_means_plan(
    region: Region,
    n: int | None,
    d: int,
    epsilon: float,
    delta: float,
    missing: str,
    neighbors: Neighbors,
    budget: Any = None,
) -> DiscoveredMeansPlan:
    """Return the plan of releasing the totals of undeclared groups of n rows, with the smaller noise of the sums."""
    if delta == 0:
        raise refuse(
            "delta",
            given=delta,
            allowed="positive for groups='discover'",
            remedy="Declare the groups, or give delta=1e-6 for example.",
        )

    target, keys = PrivacyGuarantee(epsilon, delta, neighbors), count_keys(neighbors)

    def build(bits: int, kind: type[GaussianTotals] | type[LaplaceTotals]) -> DiscoveredMeansPlan:
        lattice = BoxLattice.build(
            region.clip, region.center, d, common=False, bits=bits, ends=(region.low, region.high)
        )
        totals = kind(keys, d, bits, neighbors)
        stage: Discovery
        if isinstance(totals, GaussianTotals):
            stage = discovery_stage(totals.integers(), 1 << bits, epsilon, delta, neighbors)
        else:
            stage = count_discovery(TOTALS, COUNTS, target, bits, totals.integers(), COUNTS_SHARE)
        return DiscoveredMeansPlan(
            (stage,), target, n, d, groups=(), region=region, lattice=lattice, totals=totals, missing=missing
        )

    return choose_smaller(
        finest(lambda bits: build(bits, GaussianTotals)),
        lambda: finest(lambda bits: build(bits, LaplaceTotals)),
        lambda plan: plan.totals_noise.total,
        budget,
    )


def labeled_totals(table: Table, plan: DiscoveredMeansPlan) -> tuple[list[Any], dict[str, NDArray[np.int64]]]:
    """Return the labels of some rows in their order, and the exact totals of each: a row of integers a label."""
    assert table.labels is not None
    counted = rows_that_count(table.X, plan.missing)
    labels = [label if counts else None for label, counts in zip(table.labels, counted.tolist(), strict=True)]
    found = in_order(set(labels) - {None})
    code = {label: place for place, label in enumerate(found)}
    codes = np.fromiter((code.get(label, -1) for label in labels), dtype=np.int64, count=len(labels))
    totals = plan.make_totals(len(found))
    sums = group_sums(table.X, codes, plan.lattice, totals, plan.missing)
    by_group = {name: each.reshape(len(found), each.size // max(len(found), 1)) for name, each in sums.items()}
    if plan.has_separate_counts:
        # The three numbers of an entry add up to one row.
        by_group[COUNTS] = sum(by_group[name][:, :1] for name in (FIRST, MIDDLE, LAST))  # type: ignore[assignment]
    return found, by_group


def found_ratio(released: Mapping[str, Any], plan: DiscoveredMeansPlan) -> FoundRatio | RatioBesideCounts:
    """Return the ratios of the released totals of the groups that were found."""
    totals = plan.make_totals(len(released["labels"]))
    flat = {block.name: np.ravel(released[block.name]) for block in plan.discovery.blocks}
    known = totals.ratio(flat, plan.totals_noise)
    parts = known.T, known.N, known.Q, known.X, known.R, known.noise
    if not plan.has_separate_counts:
        return FoundRatio(*parts, threshold=plan.threshold)
    found = FoundCounts(released[COUNTS], plan.discovery.count_noise, plan.threshold)
    return RatioBesideCounts(*parts, found=found)


@dataclass(frozen=True, eq=False)
class RatioBesideCounts(Ratio):
    """Ratios of groups that were found by counts with noise of their own.

    Totals have independent noise. So given that a group was found, they have the distribution of a declared group's.

    Attributes
    ----------
    found : FoundCounts
        The noisy counts, and the sizes that they estimate.
    """

    found: FoundCounts = field(kw_only=True)

    @property
    def sizes(self) -> Floats:
        """The sizes of the groups for which the release has the median noisy count."""
        return self.found.sizes


@dataclass(frozen=True, eq=False)
class FoundRatio(Ratio):
    """Ratios of groups that were found: intervals hold given that.

    The noisy count N of a group of c rows has a normal distribution between the threshold and c + threshold. Each c
    has a score of N, and given c the rest has the score of a known count. A mean is kept if some c has a small sum of
    both squares.

    Attributes
    ----------
    threshold : float
        The threshold in rows.
    """

    threshold: float = 0.0

    @cached_property
    def found(self) -> FoundCounts:
        """The noisy counts, and the sizes that they estimate."""
        return FoundCounts(self.N, NormalNoise(self.noise.count), self.threshold)

    @property
    def sizes(self) -> Floats:
        """The sizes of the groups for which the release has the median N."""
        return self.found.sizes

    @property
    def estimate(self) -> Floats:
        return np.asarray(np.clip(self.T / np.maximum(self.sizes, self.noise.count), -1.0, 1.0))

    def score(self, value: Any) -> Floats:
        m = np.asarray(value, dtype=np.float64)
        sizes, squares = self._nodes
        shape = (len(sizes), *[1] * max(m.ndim - self.N.ndim, 0), *self.N.shape)
        sizes, squares = sizes.reshape(shape), squares.reshape(shape)
        step = max(1, _AT_ONCE // max(m.size, self.T.size, 1))
        best = np.full(np.broadcast_shapes(m.shape, self.shape), np.inf)
        for start in range(0, len(sizes), step):
            some = slice(start, start + step)
            both = self._fix_sizes(sizes[some]).score(m) ** 2 + squares[some]
            best = np.minimum(best, both.min(axis=0))
        return np.asarray(np.where(m * self.sizes > self.T, -1.0, 1.0) * np.sqrt(best))

    def _fix_sizes(self, size: Floats) -> Ratio:
        """Return the ratios of groups with these sizes, as if they were declared."""
        noise = self.noise
        center = noise.square_spread / noise.count**2
        alone = np.sqrt(np.maximum(np.square(noise.square) - (center * noise.count) ** 2, 0.0))
        known = Noise(noise.total, 0.0, alone, noise.total, 0.0, 0.0)
        return Ratio(self.T, size, self.Q + center * (size - self.N), self.T, size, known)

    @cached_property
    def _nodes(self) -> tuple[Floats, Floats]:
        """Return sizes, and the squared scores of N: above the least, as some size is the right one."""
        sizes = np.maximum(self.found.find_sizes(np.linspace(FURTHEST, -FURTHEST, _NODES)), 1.0)
        squares = self.found.score_sizes(sizes) ** 2
        return sizes, squares - squares.min(axis=0)
