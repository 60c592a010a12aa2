"""Declared factors of a linear regression: their cells, the columns that code them, and the plan.

A factor costs the noise of one sum per level, however rare the level is (`dpstats.regression.levels`). Several factors
are cross-classified, so that a row has one cell. The means of the cells at equal covariates then give the coefficients
by weighted least squares. Proof: docs/proofs/levels.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.levels import Categories
from dpstats.data.parameters import check_real
from dpstats.data.schema import Column
from dpstats.errors import refuse, show, show_names
from dpstats.regression.bins import Floats
from dpstats.regression.design import Design
from dpstats.regression.design_plan import DesignPlan
from dpstats.regression.levels_plan import LevelsPlan, levels_plan
from dpstats.regression.plan import RegressionPlan

if TYPE_CHECKING:
    from dpstats.regression.linear_path import LinearPath


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
        parts = [
            [levels.values[code] for code in codes[name].tolist()] for name, levels in self.factors.items()
        ]
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
        Column("groups", name, levels, "factors", meaning="a label for each row")
        for name, levels in factors.items()
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


# Plan


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
        notes = [
            f"factors {names} by levels: sums of {len(self.levels)} cells, around Newton steps for the slopes"
        ]
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


def factors_plan(
    design: Design, coding: Coding, n: int, epsilon: float, delta: float, missing: str
) -> FactorsPlan:
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
        raise refuse("shares", given=shares, allowed="a mapping of columns to shares of the rows")
    factors = plan.coding.factors if isinstance(plan, FactorsPlan) else {}
    d, found = plan.design.center.size, dict[str, Any]()
    for name, share in shares.items():
        if name in factors:
            if not isinstance(share, Mapping) or any(level not in factors[name].values for level in share):
                raise refuse(
                    "shares", got=f"an entry for the factor {show(name)}", allowed="a mapping of its levels"
                )
            found |= {f"{name}[{level}]": each for level, each in share.items()}
            continue
        is_place = isinstance(name, int) and not isinstance(name, bool)
        if not (0 <= name < d if is_place else name in (known or ())):
            names = [*(known or ()), *factors]
            listed = f"known names ({show_names(names)}), or " if names else ""
            raise refuse(
                "shares",
                given=name,
                allowed=f"{listed}positions of columns (n_features = {d})",
                remedy="" if known else "Names are known if x_bounds is a mapping {name: (low, high)}.",
            )
        found[f"column {name}" if is_place else str(name)] = share
    for label, share in found.items():
        most = 1.0 if factors and label in plan.coding.labels else 0.5  # type: ignore[attr-defined]
        found[label] = check_real(f"the share of {label}", share, above=0, at_most=most)
    return found
