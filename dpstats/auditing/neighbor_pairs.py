"""Checks that two datasets are neighbors, and the comparison of two outputs, item by item."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import pathlib
import types
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from dpstats.errors import InvalidParameter, refuse
from dpstats.privacy.guarantee import Neighbors
from dpstats.release.witness import Witness


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


Path = tuple[Any, ...]
Ids = tuple[int, int]

_PLAIN = (
    *(bool, int, float, complex, str, bytes, bytearray, np.generic, np.dtype, enum.Enum, range, slice),
    *(datetime.date, datetime.time, datetime.timedelta, decimal.Decimal, fractions.Fraction, uuid.UUID),
    pathlib.PurePath,
)
"""Types that their repr describes completely."""


# An item of an unknown type is never treated as equal. It is reported as not compared.
def compare_outputs(first: Any, second: Any) -> tuple[set[Path], set[Path]]:
    """Return the places at which two outputs differ, and the places that cannot be compared."""
    found = _Comparison()
    found.compare(first, second, (), frozenset())
    return found.differ, found.unknown


class _Comparison:
    """The places at which two outputs differ, and those that cannot be compared."""

    def __init__(self) -> None:
        self.differ: set[Path] = set()
        self.unknown: set[Path] = set()
        # Pairs that are equal throughout. The objects are kept, because their ids must not be given to others.
        self._equal: dict[Ids, tuple[Any, Any]] = {}

    def compare(self, a: Any, b: Any, path: Path, within: frozenset[Ids]) -> bool:
        """Add the places below ``path`` that are not equal; return whether everything was compared and is equal.

        ``within`` has the pairs that contain this one.
        """
        if type(a) is not type(b):
            self.differ.add(path)
            return False
        if a is None or isinstance(a, _PLAIN):
            return self._compare_plain(a, b, path, within)
        if isinstance(a, Witness) or (isinstance(a, type | types.ModuleType) and a is b):
            return True  # independent of the data
        pair = id(a), id(b)
        if pair in self._equal or pair in within:
            return pair in self._equal
        one, other = _items(a), _items(b)
        if one is None or other is None:
            self.unknown.add(path)
            return False
        # The order is visible too.
        names = list(map(repr, one))
        if names != list(map(repr, other)):
            self.differ.add(path)
            return False
        within, same = within | {pair}, True
        for name, left, right in zip(names, one.values(), other.values(), strict=True):
            same = self.compare(left, right, (*path, name), within) and same
        if same:
            self._equal[pair] = a, b
        return same

    def _compare_plain(self, a: Any, b: Any, path: Path, within: frozenset[Ids]) -> bool:
        same = _exactly(a) == _exactly(b)
        if not same:
            self.differ.add(path)
        # A subclass may keep more than the value.
        if hasattr(a, "__dict__") and not isinstance(a, enum.Enum):
            same = self.compare(vars(a), vars(b), (*path, "attributes"), within) and same
        return same


def _items(output: Any) -> dict[Any, Any] | None:
    """Return the parts of a collection or an object, or None for an unknown type."""
    if isinstance(output, np.ndarray):
        return _array(output)
    if type(output).__module__.partition(".")[0] == "pandas":
        return _frame(output)
    kept = _name_items(output, getattr(output, "__dict__", ()))
    if isinstance(output, Mapping):
        return {**kept, **output} if all(map(_is_plain, output)) else None
    if isinstance(output, set | frozenset):
        return {**kept, **dict.fromkeys(sorted(output, key=repr))} if all(map(_is_plain, output)) else None
    if isinstance(output, list | tuple):
        return {**kept, **dict(enumerate(output))}
    if isinstance(output, types.FunctionType):
        closure = [cell.cell_contents for cell in output.__closure__ or ()]
        return {"code": repr(output.__code__), "given": output.__defaults__, "closure": closure}
    if isinstance(output, types.MethodType):
        return {"function": output.__func__, "self": output.__self__}
    if isinstance(output, functools.partial):
        return {"function": output.func, "args": output.args, "keywords": output.keywords}
    # A model of scikit-learn keeps its state in its attributes, as the classes of this package do.
    ours = type(output).__module__.partition(".")[0] == "dpstats" or hasattr(output, "__sklearn_tags__")
    if dataclasses.is_dataclass(output) or ours or isinstance(output, types.SimpleNamespace):
        slots = [kind.__dict__.get("__slots__", ()) for kind in type(output).__mro__]
        names = [name for given in slots for name in ((given,) if isinstance(given, str) else given)]
        return _name_items(output, [*names, *getattr(output, "__dict__", ())])
    return None


def _exactly(item: Any) -> tuple[str, bytes]:
    """Return the repr of an item, and the bits of a number: a NaN may carry more than its repr shows."""
    if isinstance(item, float):
        return repr(item), np.float64(item).tobytes()
    if isinstance(item, complex):
        return repr(item), np.complex128(item).tobytes()
    return repr(item), _bits(np.asarray(item)) if isinstance(item, np.generic) else b""


def _bits(values: np.ndarray[Any, Any]) -> bytes:
    """Return the bits of an array of numbers or text; none of a type with padding, whose bits mean nothing."""
    kind, size = values.dtype.kind, values.dtype.itemsize
    padded = kind in "VO" or size > {"f": 8, "c": 16}.get(kind, 1 << 31)
    return b"" if padded else np.ascontiguousarray(values).tobytes()


def _array(output: np.ndarray[Any, Any]) -> dict[Any, Any]:
    # A view shows the array that it is a view of; a subclass, what it keeps.
    form = {"base": output.base, "attributes": getattr(output, "__dict__", None)}
    if isinstance(output, np.ma.MaskedArray):
        return {**form, "data": np.asarray(output.data), "mask": np.ma.getmaskarray(output)}
    form |= {"shape": output.shape, "dtype": str(output.dtype)}
    if output.dtype.hasobject:
        return {**form, **dict(enumerate(output.ravel().tolist()))}
    return {**form, "values": repr(output.ravel().tolist()), "bits": _bits(output)}


def _frame(output: Any) -> dict[Any, Any] | None:
    """Return the parts of a pandas table, one of its columns or an index."""
    if not hasattr(output, "to_numpy"):
        return None
    parts: dict[Any, Any] = {"values": output.to_numpy(dtype=object), "attrs": getattr(output, "attrs", None)}
    for name in ("index", "columns"):
        if hasattr(output, name):
            axis = getattr(output, name)
            parts[name] = (list(axis.names), axis.to_numpy(dtype=object), _categories([axis.dtype]))
    parts["name"] = repr(getattr(output, "name", None))
    kinds: Any = getattr(output, "dtypes", None)
    kinds = kinds.tolist() if hasattr(kinds, "tolist") else [kinds]
    return {**parts, "dtype": str(kinds), "categories": _categories(kinds)}


def _categories(kinds: Iterable[Any]) -> list[Any]:
    """Return the categories of columns, those that no entry has among them."""
    return [kind.categories.to_numpy(dtype=object) for kind in kinds if hasattr(kind, "categories")]


def _name_items(output: Any, names: Iterable[str]) -> dict[Any, Any]:
    return {f".{name}": getattr(output, name) for name in names if hasattr(output, name)}


def _is_plain(item: Any) -> bool:
    """Return whether the repr of an item describes it completely."""
    if isinstance(item, tuple | frozenset):
        return all(map(_is_plain, item))
    return item is None or isinstance(item, _PLAIN)
