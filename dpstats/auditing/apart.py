"""Checks that two datasets are neighbors: one row replaced, or one added or removed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from dpstats.errors import InvalidParameter, refuse
from dpstats.privacy.guarantee import Neighbors


def split_parts(data: Any) -> tuple[Any, ...]:
    """Return rows, or rows and their outcome."""
    return data if isinstance(data, tuple) and len(data) == 2 else (data,)


def check_relation(dataset: Any, neighbor: Any, relations: Iterable[Neighbors], most: int = 1) -> None:
    """Raise an error for a pair that visibly has another relation than the stages.

    A unit has at most ``most`` rows.
    """
    sizes = _rows(dataset), _rows(neighbor)
    if sizes[0] is None or sizes[1] is None:
        return
    more = abs(sizes[0] - sizes[1])
    pair = Neighbors.REPLACE_ONE if more == 0 else Neighbors.ADD_OR_REMOVE_ONE if more <= most else None
    words = "no neighbors" if pair is None else f"a pair of {pair.name} ({pair.value})"
    for relation in sorted(set(relations), key=lambda item: item.name):
        if relation is not pair:
            raise InvalidParameter(
                f"dataset and neighbor must be neighboring datasets of the release, {relation.name} "
                f"({relation.value}): with {sizes[0]} and {sizes[1]} rows they are {words}"
            )


def _rows(data: Any) -> int | None:
    first = split_parts(data)[0]
    if isinstance(first, str | bytes | Mapping):
        return None
    try:
        return len(first)
    except TypeError:  # one number, say
        return None


def check_neighbors(
    dataset: Any, neighbor: Any, most: int, *, counts: bool = False, added: bool = False
) -> None:
    """Raise an error for tables (or histograms, if they are counts) that are visibly not neighbors.

    If rows are ``added`` or removed, the tables have different numbers of rows.
    """
    try:
        first, second = (_table(data) for data in (dataset, neighbor))
    except (TypeError, ValueError):
        return
    if first.shape[1:] != second.shape[1:] or (not added and len(first) != len(second)):
        raise refuse(
            "neighbor",
            got=f"{second.shape}",
            allowed=f"have as many rows and columns as dataset, {first.shape}",
        )
    if counts:
        try:
            less = sum(max(a - b, 0) for a, b in zip(first.ravel(), second.ravel(), strict=True))
        except TypeError:
            return
        _check_distance(less, most)
        return
    rows = [Counter(tuple(map(_value, row)) for row in table.tolist()) for table in (first, second)]
    _check_distance(max((rows[0] - rows[1]).total(), (rows[1] - rows[0]).total()), most)


def _check_distance(apart: Any, most: int) -> None:
    if apart > most:
        raise refuse(
            "neighbor", got=f"{apart}", allowed=f"not differ from dataset in more than rows_apart={most} rows"
        )


def _table(data: Any) -> np.ndarray[Any, Any]:
    return np.column_stack(
        [np.asarray(part).reshape(len(part), -1).astype(object) for part in split_parts(data)]
    )


def _value(item: Any) -> Any:
    """Return a key that is equal for equal values: for 1 and 1.0, and for NaN and NaN."""
    if isinstance(item, float) and item != item:
        return "NaN"
    try:
        hash(item)
    except TypeError:
        return repr(item)
    return item
