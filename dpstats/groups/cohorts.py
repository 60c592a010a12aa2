"""Table 1 of a study: counts, means and medians of several columns by arm, in one release.

Proof: docs/proofs/composition.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dpstats.data.opening import open_source
from dpstats.data.parameters import check_integer, check_real
from dpstats.data.rows import LEFT_OUT, Rows, Table, check_codes, empty_groups_note
from dpstats.data.schema import Categories, Schema, Source
from dpstats.errors import refuse, refuse_data, refuse_name, show
from dpstats.groups.group_means import GroupMeans
from dpstats.groups.group_points import GroupQuantilesPlan
from dpstats.groups.group_quantiles import GroupQuantiles
from dpstats.groups.ratios import GroupMeansPlan
from dpstats.inference.papers import UNKNOWN
from dpstats.inference.reports import Records, told_parameters
from dpstats.inference.results import Summary, about_missing, hide_noise, list_some, significant
from dpstats.mechanisms.unknown_bounds import wants_bounds
from dpstats.privacy.budget import PrivacyBudget
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan
from dpstats.quantiles.grid import check_bounds
from dpstats.release.estimator import PrivateEstimator, fitted, parameters, privacy_facts, read_rows
from dpstats.release.session import PartSession, Released, Session, join_stages, released_part
from dpstats.tables.contingency import ContingencyTable, TablePlan

Numbers = NDArray[np.float64]

QUARTILES = (0.25, 0.5, 0.75)
_KINDS = ("levels", "mean", "median")
_BALANCE = 0.05
"""Largest noise of a standardized difference that is shown: half of 0.1, the usual limit of balanced arms."""
_SHARP = 0.05
"""Largest noise of a mean or percentage that is shown, as a fraction of its range."""
_MOST_COLUMNS = 100


@dataclass(frozen=True)
class CohortPlan(ReleasePlan):
    """The plan of a `CohortTable`: the stages of the plans of its parts.

    Attributes
    ----------
    parts : mapping of str to ReleasePlan
        The plan of the counts of the arms, under the name of their column, and of each column.
    groups : tuple
        The declared arms.
    """

    parts: Mapping[str, ReleasePlan] = field(repr=False, compare=False)
    groups: tuple[Any, ...]

    def notes(self) -> list[str]:
        """Return the noise of each part, for arms of equal size."""
        each = self.n_samples / len(self.groups)
        found = [f"noise in an arm of n/{len(self.groups)} = {each:.6g} rows:"]
        for name, plan in self.parts.items():
            if isinstance(plan, GroupMeansPlan):
                least = float(plan.least_std(each)[0])
                words = f"{plan.describe_noise(each)}; a standard deviation needs {least:.3g}"
            elif isinstance(plan, GroupQuantilesPlan):
                error = f"ranks have errors of sd {plan.rank_error:.3g} evenly spaced rows"
                words = f"{error}; quartiles need {plan.least_rows:,}"
            else:
                assert isinstance(plan, TablePlan)
                std = plan.cell_noise.std
                words = f"a count has sd {std:.3g} rows, {100 * std / each:.2g}% of the arm"
            found.append(f"  {name}: {words}")
        return found


@parameters
class CohortTable(PrivateEstimator[CohortPlan]):
    """Private Table 1 of a study: the columns of a cohort by arm, from one release with one budget.

    A column has numbers and percentages, means with standard deviations, or medians with quartiles. Each takes an
    equal part of epsilon, and so do the sizes of the arms. `parts_` has the fitted estimator of each column, whose
    comparisons and intervals cost nothing further.

    Parameters
    ----------
    groups : sequence
        Public, distinct labels of the arms, two at least. The first is the reference of standardized differences. Rows
        with another label, and rows without one, are left out.
    by : column name
        Column of the arm of each row.
    columns : mapping of column names to declarations
        The statistic of each column, declared from public knowledge:

        * ``{"levels": ["f", "m"]}``: numbers and percentages of declared levels. None is the level of missing entries;
        * ``{"mean": (low, high)}``: mean and standard deviation within bounds;
        * ``{"median": (low, high)}``: median and quartiles within bounds. Add ``"step": 1`` for counts and other
          numbers that many rows share.
    missing : {"error", "drop"}, default="error"
        Treatment of a missing number. "drop" leaves its row out of its column. A missing level that is not declared is
        left out in any case.
    missing_codes : sequence of numbers and text, optional
        Public codes of missing entries, such as ``[-999, "unk"]``, in all columns. Numbers are compared by value, words
        by text.
    epsilon : float, default=1.0
        Privacy parameter of the whole table. Must be positive. It is purely private: delta is 0.
    random_state : None, int or numpy.random.Generator, default=None
        None draws exact noise. Any other value simulates noise: the result is then not private.
    budget : PrivacyBudget, optional
        Budget that every call of ``fit`` charges once, for the whole table, before it draws noise. Clones share it.

    Attributes
    ----------
    groups_ : tuple
        The declared arms, in their order.
    counts_ : ndarray of shape (n_groups,)
        Noisy number of rows of each arm. It can be negative.
    counts_noise_std_ : float
        Standard deviation of the noise in ``counts_``.
    parts_ : mapping of column names to fitted estimators
        `GroupMeans`, `GroupQuantiles` or `ContingencyTable` of each column.
    privacy_ : PrivacyGuarantee
        Guarantee of the fit, for neighboring datasets that differ in one row. The number of rows is public; the sizes
        of the arms are private.
    plan_ : CohortPlan
        The release plan: every released quantity and its noise.
    n_features_in_ : int
        Number of columns that are described.

    Notes
    -----
    **Hidden numbers** are shown as "–". Noise hides a number of rows below two standard deviations of the noise. It
    hides a mean or a percentage if the noise has a standard deviation above a twentieth of the range, and a
    standardized difference if that is above 0.05. Quantiles of too few rows are hidden too.

    **Standardized differences** compare an arm with the reference: the difference of two means or proportions, over
    the root of the mean of both variances. Their noise includes the noise of the variances.
    Medians have none.

    **Limits.** Numbers that noise hides stay hidden: small arms and rare levels need a larger epsilon. Each column
    adds to the noise of the others, because they share epsilon.

    References
    ----------
    Austin (2009), Balance diagnostics for comparing the distribution of baseline covariates between treatment groups.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from dpstats.groups import CohortTable
    >>> rng = np.random.default_rng(0)
    >>> trial = pd.DataFrame({"arm": rng.choice(["placebo", "drug"], 4000), "age": rng.normal(60, 9, 4000)})
    >>> trial["sex"] = rng.choice(["f", "m"], 4000)
    >>> declared = {"age": {"mean": (20, 100)}, "sex": {"levels": ["f", "m"]}}
    >>> table = CohortTable(groups=["placebo", "drug"], by="arm", columns=declared, random_state=0)
    >>> print(table.fit(trial).to_markdown())
    |  | placebo (n = 1,975) | drug (n = 2,032) | SMD drug |
    | --- | ---: | ---: | ---: |
    | age, mean (SD) | 59.8 (7.5) | 61.0 (7.6) | 0.16 |
    | sex, n (%) |  |  |  |
    | &emsp;f | 962 (48.9) | 1,060 (52.3) | 0.07 |
    | &emsp;m | 1,004 (51.1) | 965 (47.7) | -0.07 |
    """

    groups: Any = None
    by: Any = None
    columns: Any = None
    missing: str = "error"
    missing_codes: Any = None
    epsilon: float = 1.0
    random_state: Any = None
    budget: Any = None
    groups_: tuple[Any, ...] = fitted()
    counts_: Numbers = fitted()
    counts_noise_std_: float = fitted()
    parts_: dict[str, Any] = fitted()

    _min_samples = 2

    def plan(self, n_samples: int, n_features: int | None = None) -> CohortPlan:
        """Return the release plan of a fit on data of this size, with the noise of each column.

        Parameters
        ----------
        n_samples : int
            Public: the number of rows, of all arms together.
        n_features : int, optional
            Number of described columns. Must equal the number of declared ones.

        Examples
        --------
        >>> from dpstats.groups import CohortTable
        >>> declared = {"age": {"mean": (18, 100)}, "visits": {"median": (0, 50), "step": 1}}
        >>> print(CohortTable(groups=["placebo", "drug"], by="arm", columns=declared).plan(4000))
        Release plan for n = 4000, d = 2: (epsilon = 1, delta = 0), one row replaced
          arm: cells: 3 numbers, Laplace noise of scale 6
          age: totals of the groups, together:
            shares of the lower end: 2 numbers, Laplace noise of scale 6
            shares between: 2 numbers, Laplace noise of scale 6
            shares of the upper end: 2 numbers, Laplace noise of scale 6
          visits: rows of each group: 2 numbers, Laplace noise of scale 25.0488
          visits: points: 6 of 51 points, exponential mechanism of scale 15.7798 in half rows of a group
          noise in an arm of n/2 = 2000 rows:
            arm: a count has sd 8.48 rows, 0.42% of the arm
            age: noise of its mean 0.246 (0.389 at a bound); a standard deviation needs 6.42
            visits: ranks have errors of sd 22.2 evenly spaced rows; quartiles need 370
        """
        n = check_integer("n_samples", n_samples, at_least=2, at_most=2**31)
        parts = self._make_parts()
        d = len(parts) - 1
        if n_features is not None and check_integer("n_features", n_features, at_least=1) != d:
            raise refuse("n_features", given=n_features, allowed=f"{d}, one for each of columns")
        plans = {name: part.plan(n, 1 + _is_cross_table(part)) for name, part in parts.items()}
        target = PrivacyGuarantee(check_real("epsilon", self.epsilon, above=0))
        return CohortPlan(join_stages(plans), target, n, d, parts=plans, groups=self._arms().values)

    def _arms(self) -> Categories:
        if self.groups is None:
            raise refuse("groups", allowed="given: the public labels of the arms")
        found = Categories(self.groups, "groups")
        if len(found) < 2:
            raise refuse("groups", given=len(found), allowed="two or more")
        return found

    def _make_parts(self) -> dict[str, Any]:
        """Return an estimator of the sizes of the arms and of each column, with their equal parts of epsilon."""
        arms, columns = self._arms().values, self.columns
        self._policy()
        if not isinstance(self.by, str):
            raise refuse("by", given=self.by, allowed="the name of the column of the arms")
        if not isinstance(columns, Mapping) or not 1 <= len(columns) <= _MOST_COLUMNS:
            raise refuse(
                "columns",
                got=f"a {type(columns).__name__}",
                allowed="a mapping of other columns to their statistics, such as "
                "{'age': {'mean': (18, 100)}, 'sex': {'levels': ['f', 'm']}}",
            )
        if self.by in columns:
            remedy = "The table has the sizes of the arms already."
            raise refuse("columns", given=self.by, allowed="columns other than the column of the arms", remedy=remedy)
        epsilon = check_real("epsilon", self.epsilon, above=0)
        # The scales of the parts are rounded up, and their sum must not exceed epsilon.
        each = epsilon / (1 + len(columns)) * (1 - 2.0**-40)
        given = {"epsilon": each, "random_state": self.random_state}
        parts: dict[str, Any] = {self.by: ContingencyTable(levels={self.by: arms}, **given)}
        for place, (name, declared) in enumerate(columns.items()):
            if not isinstance(name, str):
                raise refuse("columns", got=f"another key at position {place}", allowed="name columns by text")
            kind, options = _read_declaration(name, declared)
            rows = {"groups": arms, "by": self.by, "missing": self.missing, "missing_codes": self.missing_codes}
            if kind == "levels":
                parts[name] = ContingencyTable(levels={self.by: arms, name: options[kind]}, **given)
            elif kind == "mean":
                parts[name] = GroupMeans(bounds=options[kind], columns=[name], delta=0.0, **rows, **given)
            else:
                step = options.get("step")
                parts[name] = GroupQuantiles(
                    QUARTILES, bounds=options[kind], step=step, confidence_level=None, **rows, **given
                )
        return parts

    def fit(self, X: Any, y: None = None) -> CohortTable:
        """Release the table from the rows of a container with named columns.

        Bad parameters and bad data raise before anything is charged. The budget, if there is one, is charged once
        before any noise is drawn.

        Parameters
        ----------
        X : data frame, DuckDB relation, path of a file or other container of rows with named columns
            Private rows.
        y : None
            The arm is the column that ``by`` names.

        Returns
        -------
        self
        """
        return super().fit(CohortSource(open_source(X), self), y)

    def _read(self, rows: Rows, plan: CohortPlan) -> Any:
        assert isinstance(rows, CohortRows)
        return {
            name: read_rows(part, rows.parts[name], plan.parts[name], [name])
            for name, part in self._make_parts().items()
        }

    def _release(self, private: Any, plan: CohortPlan, session: Session) -> None:
        for name, part in self._make_parts().items():
            own: Any = PartSession(session, name, plan.parts[name])
            part._release(private[name], plan.parts[name], own)

    def _report(self, released: Released, plan: CohortPlan) -> None:
        fitted_parts = {}
        for name, part in self._make_parts().items():
            own = plan.parts[name].for_data(plan.target.unit, self.privacy_.simulated)
            part.plan_, part.privacy_, part._parameters = own, own.guarantee, told_parameters(part)
            columns = [self.by, name][name == self.by :] if _is_cross_table(part) else [name]
            part.n_features_in_, part.feature_names_in_ = len(columns), np.asarray(columns, dtype=object)
            part._report(released_part(released, name, plan.parts[name]), own)
            fitted_parts[name] = part
        arms = fitted_parts.pop(self.by)
        self.groups_, self.counts_, self.counts_noise_std_ = plan.groups, arms.counts_, arms.noise_std_
        self.parts_ = fitted_parts

    # The table

    def _rows(self) -> Iterator[_Row]:
        """Yield the rows of the table in order."""
        for name, part in self.parts_.items():
            if isinstance(part, GroupMeans):
                yield _mean_row(name, part)
            elif isinstance(part, GroupQuantiles):
                yield _median_row(name, part)
            else:
                yield _Row(f"{name}, n (%)", name, None, {}, [""] * len(self.groups_))
                for j, level in enumerate(part.levels[name]):
                    yield _level_row(name, level, part, j)

    def summary(self) -> Summary:
        """Return the table: prints as text, shows as HTML in a notebook."""
        check_is_fitted(self)
        sizes = hide_noise(self.counts_, self.counts_noise_std_, 1.0).tolist()
        std = self.counts_noise_std_
        arms = [f"{arm} (n = {_show_count(n, std)})" for arm, n in zip(self.groups_, sizes, strict=True)]
        others = [f"SMD {arm}" for arm in self.groups_[1:]]
        rows = [
            [row.name, *row.cells, *([""] * len(others) if row.smd is None else map(_show_smd, row.smd))]
            for row in self._rows()
        ]
        facts = [
            ("Rows, columns, arms", f"{self.plan_.n_samples:,}, {self.plan_.n_features:,}, {len(arms)} (public)"),
            *privacy_facts(self),
            ("Noise of an arm's size", f"sd {self.counts_noise_std_:.3g} rows"),
        ]
        return Summary("Private table of a cohort", facts, ["", *arms, *others], rows, self._notes(sizes))

    def _notes(self, sizes: list[float]) -> list[str]:
        notes = [
            "–: hidden by the noise; the plan states what each column needs. SMD: standardized difference from "
            f"{self.groups_[0]}."
        ]
        empty, left_out = [arm for arm, n in zip(self.groups_, sizes, strict=True) if not n > 0], []
        for name, part in self.parts_.items():
            if isinstance(part, ContingencyTable):
                rows, std = part.counts_.sum(axis=0), part.noise_std_ * math.sqrt(len(sizes))
                empty += [
                    f"{name} = {level}"
                    for level, n in zip(part.levels[name], rows.tolist(), strict=True)
                    if n < 2 * std
                ]
                left_out += [f"{name} {part.dropped_:,.0f}"] * (part.dropped_ > 2 * part.noise_std_)
        notes += empty_groups_note(empty)
        numbers = f"Their noisy numbers: {', '.join(left_out)}." if left_out else ""
        notes.append(" ".join(filter(None, [LEFT_OUT, numbers, about_missing(self.missing)])))
        if any(isinstance(part, GroupMeans | GroupQuantiles) for part in self.parts_.values()):
            notes.append("Numbers beyond the bounds of their column count as the nearer bound.")
        if tied := [name for name, part in self.parts_.items() if isinstance(part, GroupQuantiles) and not part.step]:
            notes.append(
                f"Quartiles of {list_some(tied)} can have ranks far from 25%, 50% and 75% if many rows share a value, "
                "such as rounded numbers or zeros. Declare step."
            )
        return notes

    def _records(self) -> Records:
        check_is_fitted(self)
        keys = ("column", "level", "statistic", "group", "value", "noise_std")
        found = [
            (self.by, None, "n", str(arm), n, self.counts_noise_std_)
            for arm, n in zip(self.groups_, self.counts_.tolist(), strict=True)
        ]
        for row in self._rows():
            for statistic, (values, noise) in row.numbers.items():
                for arm, value, std in zip(self.groups_, values, np.broadcast_to(noise, len(values)), strict=True):
                    found.append((row.column, row.level, statistic, str(arm), float(value), float(std)))
            for arm, (value, std) in zip(self.groups_[1:], row.smd or (), strict=row.smd is not None):
                found.append((row.column, row.level, "SMD", str(arm), value, std))
        columns = {key: list(each) for key, each in zip(keys, zip(*found, strict=True), strict=True)}
        names = [f"{one[0]}{'' if one[1] is None else f' {one[1]}'}: {one[2]}, {one[3]}" for one in found]
        facts = {"n_samples": self.plan_.n_samples, "privacy": str(self.privacy_)}
        return Records(names, columns, facts)


class _Row(NamedTuple):
    """A row of the table."""

    name: str
    column: str
    level: Any
    # Values of each arm and the standard deviations of their noise, by statistic.
    numbers: Mapping[str, tuple[Numbers, Any]]
    cells: list[str]
    # Standardized difference of each arm but the first, and the standard deviation of its noise.
    smd: list[tuple[float, float]] | None = None


def _mean_row(name: str, part: GroupMeans) -> _Row:
    means, stds, std_noise = part.means_[:, 0], part.std_[:, 0], part.std_noise_std_[:, 0]
    rows = np.maximum(part.counts_, part.counts_noise_std_)
    noise = np.array(
        [float(part.plan_.mean_noise(n, mean)[0]) for n, mean in zip(rows.tolist(), means.tolist(), strict=True)]
    )
    hidden = (part.counts_ < 2 * part.counts_noise_std_) | (noise > _SHARP * 2 * part.plan_.half[0])
    means = np.where(hidden, np.nan, means)
    cells = [
        UNKNOWN if math.isnan(mean) else f"{_show(mean, one, std)} ({_show(std, of_std, std)})"
        for mean, one, std, of_std in zip(*(x.tolist() for x in (means, noise, stds, std_noise)), strict=True)
    ]
    numbers = {"mean": (means, noise), "SD": (stds, std_noise)}
    covariances = part.plan_.half[0] ** 3 * part._ratio.noise_covariance[:, 0]
    return _Row(
        f"{name}, mean (SD)",
        name,
        None,
        numbers,
        cells,
        _standardize(means, noise, stds**2, 2 * stds * std_noise, covariances),
    )


def _median_row(name: str, part: GroupQuantiles) -> _Row:
    cells = []
    for low, middle, high in part.quantile_.tolist():
        grid = part.plan_.grid
        noise = 2 * grid.spacing if grid.declared else 0.0
        low, middle, high = (_show(value, noise, high - low) for value in (low, middle, high))
        cells.append(UNKNOWN if UNKNOWN in (low, middle, high) else f"{middle} [{low}, {high}]")
    statistics = ("lower quartile", "median", "upper quartile")
    numbers = {one: (part.quantile_[:, j], np.nan) for j, one in enumerate(statistics)}
    return _Row(f"{name}, median [quartiles]", name, None, numbers, cells)


def _level_row(name: str, level: Any, part: ContingencyTable, place: int) -> _Row:
    counts, std, n_levels = part.counts_[:, place], part.noise_std_, part.counts_.shape[1]
    # A total that noise may have made has no percentages.
    total = part.counts_.sum(axis=1)
    total = np.where(total > 2 * std * math.sqrt(n_levels), total, np.nan)
    shown = hide_noise(counts, std, 1.0)
    share = np.clip(counts / total, 0.0, 1.0)
    noise = std / total * np.sqrt((1 - share) ** 2 + share**2 * (n_levels - 1))
    share = np.where(noise > _SHARP, np.nan, share)
    cells = [
        UNKNOWN if math.isnan(n) else f"{_show_count(n, std)} ({_show(100 * p, 100 * one, 1.0)})"
        for n, p, one in zip(shown.tolist(), share.tolist(), noise.tolist(), strict=True)
    ]
    numbers = {"n": (counts, std), "%": (100 * share, 100 * noise)}
    steep = 1 - 2 * share
    smd = _standardize(share, noise, share * (1 - share), steep * noise, steep * noise**2)
    label = "missing" if level is None else level
    return _Row(f"  {label}", name, level, numbers, cells, smd)


def _standardize(
    values: Numbers, noise: Numbers, variances: Numbers, variance_noise: Numbers, covariances: Numbers
) -> list[tuple[float, float]]:
    """Return the standardized difference of each arm from the first, and its noise; NaN where that hides it."""
    found = []
    with np.errstate(all="ignore"):
        for k in range(1, len(values)):
            spread = np.sqrt((variances[k] + variances[0]) / 2)
            value = float((values[k] - values[0]) / spread)
            # An arm's noise moves the difference, and through its variance the root that divides it.
            share = value / (4 * spread)
            own = noise**2 + (share * variance_noise) ** 2
            both = own[k] + own[0] - 2 * share * (covariances[k] - covariances[0])
            std = float(np.sqrt(np.maximum(both, 0.0)) / spread)
            found.append((value if std <= _BALANCE else math.nan, std))
    return found


def _show(value: float, noise: float, spread: float) -> str:
    """Return a number to the last digit that its noise leaves, and no further than rows of this spread need."""
    return significant(value, np.nanmax([5 * noise, abs(spread) / 5, 1e-12]))


def _show_count(count: float, noise: float) -> str:
    return significant(count, max(noise, 10.0))


def _show_smd(smd: tuple[float, float]) -> str:
    return UNKNOWN if math.isnan(smd[0]) else f"{smd[0]:z.2f}"


def _read_declaration(name: str, declared: Any) -> tuple[str, Mapping[str, Any]]:
    """Return the kind of a declared column and its options, or raise an error."""
    given = dict(declared) if isinstance(declared, Mapping) else {}
    kinds = [key for key in given if key in _KINDS]
    allowed = {*kinds, "step"} if kinds == ["median"] else {*kinds}
    # The bounds of a part would be a separate release, which the stages of the table do not have.
    if len(kinds) != 1 or given.keys() - allowed or wants_bounds(given[kinds[0]]):
        raise refuse(
            f"columns[{show(name)}]",
            got=f"a {type(declared).__name__}",
            allowed="one of {'levels': [...]}, {'mean': (low, high)} and {'median': (low, high)}, the last also "
            "with 'step', with declared bounds",
        )
    what, kind = f"columns[{show(name)}]", kinds[0]
    if kind == "levels":
        if len(Categories(given[kind], what)) < 2:
            raise refuse(what, given=1, allowed="two levels or more")
    else:
        check_bounds(given[kind], what)
    if given.get("step") is not None:
        check_real(f"the step of {what}", given["step"], above=0)
    return kind, given


def _is_cross_table(part: Any) -> bool:
    return isinstance(part, ContingencyTable) and len(part.levels) == 2


# Rows, read once for each column


@dataclass(frozen=True, eq=False)
class CohortRows(Rows):
    """Private rows as each part of a table reads them."""

    parts: Mapping[str, Rows]
    n_features: int

    @property
    def names(self) -> None:  # type: ignore[override]
        return None

    @property
    def local(self) -> bool:
        return all(rows.local for rows in self.parts.values())

    @property
    def shape(self) -> tuple[int, int]:
        sizes = {rows.shape[0] for rows in self.parts.values()}
        if len(sizes) != 1:
            raise refuse_data("X", got="another number of rows while it was read", allowed="unchanged during a fit")
        return sizes.pop(), self.n_features

    # Each part reads its own rows: there is no one table of all parts.
    def total(self, work: Any) -> dict[str, NDArray[np.int64]]:
        raise TypeError(f"{type(self).__name__} does not define total")

    def whole(self) -> Table:
        raise TypeError(f"{type(self).__name__} does not define whole")


class CohortSource(Source):
    """A container of rows, read once for each part of a table."""

    def __init__(self, source: Source, table: CohortTable) -> None:
        self._container, self._table = source, table
        self.names, self.unit, self.ordered = source.names, source.unit, source.ordered

    def _schemas(self) -> dict[str, Schema]:
        """Return the columns that each part reads, or refuse names that X has not."""
        codes, found = check_codes(self._table.missing_codes), {}
        for name, part in self._table._make_parts().items():
            schema = replace(part._schema(), codes=codes)
            if isinstance(part, GroupQuantiles):
                schema = replace(schema, numbers=(name,))
            found[name] = self._container.resolve(schema, None)[0]
        return found

    def resolve(self, schema: Schema, y: Any) -> tuple[Schema, dict[str, Any]]:
        if y is not None:
            raise refuse("y", allowed="not be given: by names the column of the arms")
        if self.names is None:
            raise refuse_data(
                "X",
                got="columns without names",
                allowed="a container with named columns",
                remedy="Make one: pandas.DataFrame(X), of an array with columns=[...].",
            )
        self._table._make_parts()  # refuses what cannot be a name
        for place, name in enumerate([self._table.by, *self._table.columns]):
            if self.names.count(name) != 1:
                # Keys of a mapping may be entries that were given by mistake.
                got = f"another at position {place - 1}" if place else None
                raise refuse_name("columns" if place else "by", name, self.names, got=got)
        self._schemas()
        return replace(schema, numbers=tuple(self._table.columns)), {}

    def size(self, schema: Schema) -> tuple[int, int] | None:
        stated = self._container.size(self._schemas()[self._table.by])
        return None if stated is None else (stated[0], len(self._table.columns))

    def read(self, schema: Schema, given: Mapping[str, Any] | None = None) -> Rows:
        parts = {name: self._container.read(one, {}) for name, one in self._schemas().items()}
        return CohortRows(parts, len(self._table.columns))


def cohort_table(
    data: Any,
    *,
    by: Any,
    groups: Any,
    columns: Any,
    missing: str = "error",
    missing_codes: Any = None,
    epsilon: float = 1.0,
    random_state: Any = None,
    budget: PrivacyBudget | None = None,
) -> CohortTable:
    """Release Table 1 of a study in one call, and return the fitted `CohortTable`.

    Print its `summary`, or use `to_frame`, `to_latex`, `to_markdown` or `to_html`.

    Parameters
    ----------
    data : container of rows with named columns
        Private.
    by, groups, columns, missing, missing_codes, epsilon, random_state, budget
        The same as in `CohortTable`.

    Examples
    --------
    >>> import pandas as pd
    >>> from dpstats.groups import cohort_table
    >>> trial = pd.DataFrame({"arm": ["placebo", "drug"] * 1000, "sex": ["f"] * 1500 + ["m"] * 500})
    >>> sexes = {"sex": {"levels": ["f", "m"]}}
    >>> print(cohort_table(trial, by="arm", groups=["placebo", "drug"], columns=sexes, random_state=0).to_markdown())
    |  | placebo (n = 1,002) | drug (n = 1,002) | SMD drug |
    | --- | ---: | ---: | ---: |
    | sex, n (%) |  |  |  |
    | &emsp;f | 752 (75.5) | 761 (73.8) | -0.04 |
    | &emsp;m | 244 (24.5) | 270 (26.2) | 0.04 |
    """
    table = CohortTable(
        groups=groups,
        by=by,
        columns=columns,
        missing=missing,
        missing_codes=missing_codes,
        epsilon=epsilon,
        random_state=random_state,
        budget=budget,
    )
    return table.fit(data)
