"""What releases return, as numbers an attack can work on."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import refuse

Floats: TypeAlias = NDArray[np.float64]
Component: TypeAlias = Floats | list[Any]
"""The outputs of one release, one per run: shape (n,), shape (n, d), or a list of objects."""
Sample: TypeAlias = tuple[Component, ...]
"""The outputs of all releases that were run together, run by run."""

_MISSING = {"NAType", "NaTType"}
"""Types of the missing values of pandas, which are not equal to themselves."""
_SINGLE = {str, bytes, bool, int, float, type(None)}
_WHOLE = 2.0**53
"""Floats have the exact values of whole numbers up to this one."""
_POSITIONS = 64
_CATEGORIES = 200  # the classifier bins features into 255


# Numbers and vectors of fixed length become float arrays, if floats have their exact values. Anything else stays a
# list of objects and has two views: an outcome (`outcome_keys`) that is equal to another or not, and a row of
# features (`Encoder`) for a classifier.
def as_component(outputs: Any, size: int, name: str = "release") -> Component:
    """Return the outputs of ``size`` runs as an array of floats, or as a list of objects."""
    if isinstance(outputs, np.ma.MaskedArray):
        outputs = outputs.tolist()  # a masked entry is None
    elif hasattr(outputs, "to_numpy"):  # a table, with one run in each row
        outputs = outputs.to_numpy()
    array = outputs if isinstance(outputs, np.ndarray) else None
    if array is None:
        try:
            outputs = list(outputs)
        except TypeError:
            raise refuse(name, given=outputs, allowed=f"return {size} outputs along the first axis") from None
        try:
            array = np.asarray(outputs)
        except (ValueError, OverflowError):  # lengths differ: not a table of numbers
            array = None
    if len(outputs) != size:
        shape = array.shape if array is not None else (len(outputs),)
        raise refuse(name, got=f"shape {shape}", allowed=f"return {size} outputs along the first axis")
    if array is not None and array.size and (table := _as_floats(array)) is not None:
        table = table.reshape(size, -1)
        return table[:, 0] if table.shape[1] == 1 else table
    if not isinstance(outputs, np.ndarray):
        return list(outputs)
    # A list of Python's numbers would lose digits of extended floats.
    found: Component = list(outputs) if outputs.dtype.kind in "fcmM" else outputs.tolist()
    return found


def _as_floats(array: NDArray[Any]) -> Floats | None:
    """Return numbers or dates as floats, or None where floats do not have their exact values."""
    if array.dtype.kind == "c":
        array = np.stack([array.real, array.imag], axis=-1)
    elif array.dtype.kind in "mM":
        array = array.view(np.int64)
    if array.dtype.kind not in "biuf":
        return None
    found = array.astype(np.float64, copy=False)
    if array.dtype.kind in "iu":
        exact = bool((np.abs(found) <= _WHOLE).all())
    else:
        exact = array.dtype.itemsize <= 8 or bool(((found == array) | np.isnan(found)).all())
    return found if exact else None


def join(blocks: Sequence[Sequence[Component]]) -> list[Component]:
    """Join the blocks of every dataset: all of them to arrays of the same width, or all to lists."""
    arrays = [[block for block in group if isinstance(block, np.ndarray)] for group in blocks]
    complete = sum(map(len, arrays)) == sum(map(len, blocks))
    if complete and len({array.shape[1:] for group in arrays for array in group}) == 1:
        return [group[0] if len(group) == 1 else np.concatenate(group) for group in arrays]
    return [
        [output for block in group for output in (block.tolist() if isinstance(block, np.ndarray) else block)]
        for group in blocks
    ]


def part(sample: Sample, rows: slice) -> Sample:
    """Return some of the runs."""
    return tuple(component[rows] for component in sample)


def outcome_keys(component: Component) -> list[Hashable]:
    """Return a key for each output; equal outputs have equal keys."""
    if isinstance(component, list):
        return [_canonical(output) for output in component]
    if component.ndim == 1:
        return list((component + 0.0).tolist())  # not -0.0
    # A number for each row that depends on all of its bits. Two rows that share one by chance count
    # as one outcome, which only reduces the power.
    words = np.ascontiguousarray(component + 0.0).view(np.uint64)
    odd = np.random.default_rng(0).integers(2**63, size=words.shape[1], dtype=np.uint64) * 2 + 1
    mixed = words ^ (words >> np.uint64(31))
    return list((mixed * odd).sum(axis=1).tolist())


def _canonical(output: Any) -> Hashable:
    if isinstance(output, str | bytes | bool | int) or output is None:
        return output
    if isinstance(output, float | np.floating):
        return "nan" if output != output else float(output) if float(output) == output else str(output)
    fields = _fields(output)
    if fields is not None:
        return (type(output).__name__, *map(_canonical, fields))
    kind: type = type(output)
    if kind.__name__ in _MISSING:
        return kind.__name__
    if isinstance(output, np.datetime64 | np.timedelta64):
        return str(output.dtype), int(output.view(np.int64))
    # A type without an own equality has values that are equal to themselves only.
    compared = any("__eq__" in vars(base) for base in kind.__mro__[:-1]) or issubclass(kind, Enum | type)
    if isinstance(output, Hashable) and compared:
        return output
    raise refuse(
        "release",
        got=f"{kind.__name__}",
        allowed="return numbers, text, dates, None, or tuples, lists, dicts and dataclasses of these",
    )


def _fields(output: Any) -> Sequence[Any] | None:
    """Return the parts of an output in a fixed order, or None for a single value."""
    if type(output) in _SINGLE:  # most leaves: the checks below are slow
        return None
    if isinstance(output, np.ndarray):
        return output.tolist() if output.ndim else [output.item()]
    if isinstance(output, Mapping):
        return [field for key in sorted(output, key=repr) for field in (key, output[key])]
    if isinstance(output, set | frozenset):
        return sorted(output, key=repr)
    if isinstance(output, complex | np.complexfloating):
        return [output.real, output.imag]
    if dataclasses.is_dataclass(output) and not isinstance(output, type):
        return [getattr(output, field.name) for field in dataclasses.fields(output)]
    return output if isinstance(output, list | tuple) else None


def _leaves(output: Any) -> list[Any]:
    # Every sequence is preceded by its length, so that lengths are features too.
    fields = _fields(output)
    if fields is None:
        return [output]
    return [len(fields), *(leaf for field in fields for leaf in _leaves(field))]


class Encoder:
    """Objects as rows of numbers; everything about it is fixed by the outputs that it is made from.

    An output is flattened into its leaves, each sequence preceded by its length. Each position has a column
    for its number and a column for its category. The category is a code of the word at that position, of "a
    number", of "nothing", or of "unseen" for a value that the encoder has not met. Two more columns hold the
    number of leaves and the sum of the numbers.

    Parameters
    ----------
    outputs : list of object
        Outputs on both datasets.
    """

    def __init__(self, outputs: list[Any]) -> None:
        rows = [_leaves(output) for output in outputs]
        self.positions = min(max(map(len, rows), default=0), _POSITIONS)
        self.codes = []
        for position in range(self.positions):
            present = [row[position] for row in rows if position < len(row)]
            words = Counter(_word(leaf, _number(leaf)) for leaf in present)
            common = sorted(words, key=lambda word: (-words[word], repr(word)))[:_CATEGORIES]
            self.codes.append({word: code for code, word in enumerate(common, 2)})

    @property
    def categorical(self) -> list[int]:
        """The columns that hold codes."""
        return list(range(2 + self.positions, 2 + 2 * self.positions))

    def __call__(self, outputs: list[Any]) -> Floats:
        """Return an array of shape (n, columns); NaN where there is no number."""
        table = np.full((len(outputs), 2 + 2 * self.positions), np.nan)
        table[:, self.categorical] = 0  # nothing
        for row, output in zip(table, outputs, strict=True):
            leaves = _leaves(output)
            numbers = [_number(leaf) for leaf in leaves]
            row[0] = len(leaves)
            row[1] = sum(number for number in numbers if number is not None)
            for position, codes in enumerate(self.codes[: len(leaves)]):
                number = numbers[position]
                if number is not None:
                    row[2 + position] = number
                row[2 + self.positions + position] = codes.get(
                    _word(leaves[position], number), 1
                )  # 1: unseen
        return table


def _number(leaf: Any) -> float | None:
    if leaf is None or isinstance(leaf, str | bool):  # the abstract check below is slow
        return None
    if isinstance(leaf, np.datetime64 | np.timedelta64):
        leaf = leaf.view(np.int64)
    elif isinstance(leaf, datetime):
        leaf = (leaf - datetime(1970, 1, 1, tzinfo=leaf.tzinfo)).total_seconds()
    elif isinstance(leaf, date):
        leaf = leaf.toordinal()
    elif isinstance(leaf, timedelta):
        leaf = leaf.total_seconds()
    if isinstance(leaf, Real | Decimal):
        try:
            number = float(leaf)
        except (OverflowError, ValueError):
            return None
        return number if np.isfinite(number) else None
    return None


def _word(leaf: Any, number: float | None) -> Hashable:
    """Return the category of a leaf. Numbers have one, unless a float does not have their exact value."""
    return ("a number",) if number is not None and number == leaf else (type(leaf).__name__, _canonical(leaf))
