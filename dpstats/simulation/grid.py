"""The grid of a study: its cells, and to whom the names of their parameters belong."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpstats.data.parameters import check_integer
from dpstats.errors import InvalidParameter, refuse

SIZES = ("n", "d")
"""Names of the grid that are neither the sampler's nor the estimator's: the size of the data."""

NAME = "estimator"
"""Parameter of the cells of a study of several estimators: which of them it is."""


def cells_of(grid: Any) -> list[dict[str, Any]]:
    """Return the parameters of every cell. A mapping of lists is their product, the last one varying fastest."""
    if isinstance(grid, Mapping):
        for values in grid.values():
            if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray):
                raise refuse("grid", given=grid, allowed="hold a list of values of every parameter")
        products = itertools.product(*grid.values())
        cells = [dict(zip(grid, values, strict=True)) for values in products]
    elif isinstance(grid, Sequence) and all(isinstance(cell, Mapping) for cell in grid):
        cells = [dict(cell) for cell in grid]
    else:
        raise refuse("grid", allowed="a mapping of lists, or a list of mappings")
    if not cells:
        raise refuse("grid", allowed="have at least one cell")
    return [
        {str(key): value.item() if isinstance(value, np.generic) else value for key, value in cell.items()}
        for cell in cells
    ]


def names_of_sampler(sampler: Any) -> frozenset[str] | None:
    """Return the parameters of a sampler; None if it takes any."""
    if hasattr(sampler, "__dataclass_fields__"):
        return frozenset(sampler.__dataclass_fields__)
    parameters = list(inspect.signature(sampler).parameters.values())
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return frozenset(parameter.name for parameter in parameters[3:])


def names_of_estimator(estimator: Any) -> frozenset[str]:
    """Return the parameters of an estimator and of those inside it."""
    return frozenset(estimator.get_params(deep=True))


def seeds_among(of_estimator: frozenset[str]) -> list[str]:
    """Return the parameters that seed an estimator and those inside it; always in the same order."""
    return sorted(name for name in of_estimator if name == "random_state" or name.endswith("__random_state"))


def owners_of(
    key: str, of_sampler: frozenset[str] | None, of_estimator: frozenset[str]
) -> tuple[str | None, str | None]:
    """Return the names of a grid parameter in the sampler and in the estimator, or None if they lack it."""
    if key in of_estimator:
        return key if of_sampler is not None and key in of_sampler else None, key
    plain = key.removeprefix("sampler__")
    if of_sampler is None or plain in of_sampler:
        return plain, None
    plain = key.removeprefix("estimator__")
    return None, plain if plain in of_estimator else None


def split_parameters(
    cell: Mapping[str, Any], sampler: Any, estimator: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters of a cell for the sampler and for the estimator, by their own names."""
    names = names_of_sampler(sampler), names_of_estimator(estimator)
    of_sampler: dict[str, Any] = {}
    of_estimator: dict[str, Any] = {}
    for key, value in cell.items():
        if key not in SIZES:
            to_sampler, to_estimator = owners_of(key, *names)
            of_sampler |= {} if to_sampler is None else {to_sampler: value}
            of_estimator |= {} if to_estimator is None else {to_estimator: value}
    return of_sampler, of_estimator


def check_names(cells: Sequence[Mapping[str, Any]], sampler: Any, estimator: Any) -> None:
    """Refuse cells without sizes, and names that neither the sampler nor the estimator has."""
    of_sampler, of_estimator = names_of_sampler(sampler), names_of_estimator(estimator)
    for cell in cells:
        for size in SIZES:
            if size not in cell:
                raise refuse("grid", got=f"{', '.join(cell) or 'nothing'}", allowed="name n and d")
            check_integer(size, cell[size], at_least=1)
        unknown = [
            key
            for key in cell
            if key not in SIZES and owners_of(key, of_sampler, of_estimator) == (None, None)
        ]
        if unknown:
            theirs = ", ".join(sorted(of_sampler or ())) or "none"
            known = ", ".join(sorted(of_estimator - {"random_state", "budget"})) or "none"
            raise InvalidParameter(
                f"grid has unknown parameters {', '.join(unknown)}: the sampler has {theirs}; "
                f"the estimator has {known}; the sizes are n and d"
            )
