"""All that a result says: its numbers, words and pictures, found by its public attributes, properties and methods."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import math
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property
from typing import Any

import numpy as np

import dpstats
from dpstats.errors import DPStatsError
from dpstats.inference.reports import Reported

Said = tuple[str, str | float]
"""The place of a word or of a number, and itself."""

DEEP = 3
"""How far inside a result its parts are asked."""

WHOLE = "_steps"
"""The end of the names of whole numbers of steps, which are told digit by digit: of 2^40 steps one is an allowance."""

MANY = 100
"""An array of more numbers is told by sums of them."""

SAYS = ("notes", "facts")
"""Methods by which an object tells of itself: these and one of its tables are called, others where a net asks them."""

UNASKED = {
    # Times, and what scikit-learn has.
    *("budget", "random_state", "seconds", "time", "versions", "feature_names_in_")
}
"""Public names that are not asked."""

_NUMBER = re.compile(r"(?<![\w.])[-+]?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?(?!\w)", re.IGNORECASE)
_PLACE = re.compile(r"0x[0-9a-f]{6,}|/tmp/\S+|\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?")


@cache
def parts_of(text: str) -> tuple[str, tuple[float, ...]]:
    """Return the words of a text, and its numbers."""
    text = _PLACE.sub("@", text.replace(dpstats.__version__, "VERSION"))
    return _NUMBER.sub("#", text), tuple(float(found.replace(",", "")) for found in _NUMBER.findall(text))


def of_text(place: str, text: str) -> Iterator[Said]:
    """Yield the words of a text, and its numbers."""
    words, numbers = parts_of(text)
    yield place, words
    for number in numbers:
        yield place, number


OF_OTHERS = ("InvalidType",)
"""Errors of ours with words of scikit-learn."""


def of_error(place: str, error: BaseException) -> Iterator[Said]:
    """Yield the kind of an error, and the words of those that are ours."""
    yield place, type(error).__name__
    if isinstance(error, DPStatsError) and type(error).__name__ not in OF_OTHERS:
        yield from of_text(place, str(error))


def of_picture(place: str, figure: Any) -> Iterator[Said]:
    """Yield texts, lines, areas and points of a picture."""
    for axes in figure.axes:
        for text in axes.findobj(lambda artist: hasattr(artist, "get_text")):
            yield from of_text(place, text.get_text())
        for line in axes.lines:
            yield from tell(np.asarray(line.get_xydata(), dtype=float), f"{place}.line")
        for patch in axes.patches:
            yield from tell(np.asarray(patch.get_extents().bounds, dtype=float), f"{place}.area")
        for several in axes.collections:
            for path in several.get_paths():
                yield from tell(path.vertices, f"{place}.path")
            yield from tell(np.asarray(several.get_offsets(), dtype=float), f"{place}.points")
        for image in axes.images:
            yield from tell(np.asarray(image.get_array(), dtype=float), f"{place}.image")


@cache
def is_ours(kind: type) -> bool:
    return kind.__module__.split(".")[0] == "dpstats"


@cache
def names_of(kind: type) -> frozenset[str]:
    """Return the public names that a class of the package defines."""
    return frozenset(name for one in kind.__mro__ if is_ours(one) for name in vars(one) if not name.startswith("_"))


def of_object(place: str, thing: Any, deep: int) -> Iterator[Said]:
    """Yield what an object of the package has: attributes, properties, and what it says of itself."""
    yield place, type(thing).__name__
    # What was computed once is kept among the attributes, and is asked as the property that it is.
    names = {
        name
        for name in getattr(thing, "__dict__", {})
        if not name.startswith("_") and not isinstance(getattr(type(thing), name, None), cached_property)
    }
    if deep == DEEP or not isinstance(thing, Reported):
        names |= names_of(type(thing))
    if dataclasses.is_dataclass(thing):
        names |= {field.name for field in dataclasses.fields(thing)}
    called = (*SAYS, "summary" if deep == DEEP else "to_dict")
    for name in sorted({*names, *called} - UNASKED):
        where = f"{place}.{name}"
        try:
            value = getattr(thing, name, None)
            if inspect.ismethod(value):
                value = value() if name in called else None
        except Exception as error:
            yield from of_error(where, error)
        else:
            if name.endswith(WHOLE) and isinstance(value, int):
                yield where, str(value)
            elif value is not None or name not in called:
                yield from tell(value, where, deep - 1)


def tell(thing: Any, place: str = "", deep: int = DEEP) -> Iterator[Said]:
    """Yield all that a thing says: places, with a number or with words in which a number is #."""
    if thing is None or isinstance(thing, enum.Enum):
        yield place, str(thing)
    elif isinstance(thing, str):
        yield from of_text(place, thing)
    elif isinstance(thing, (bool, int, float, np.number, np.bool_)):
        yield place, float(thing) if abs(thing) < 1e300 else math.copysign(math.inf, thing)
    elif isinstance(thing, np.ndarray):
        yield place, str(thing.shape)
        if thing.size > MANY and thing.dtype.kind in "biuf":
            seen = np.arcsinh(1e6 * thing[np.isfinite(thing)].astype(float))
            yield from ((place, float(total)) for total in (seen.size, seen.sum(), seen @ np.cos(np.arange(seen.size))))
            return
        if thing.dtype.kind in "biuf":
            for number in thing.ravel().tolist():
                yield place, float(number)
            return
        for value in thing.ravel().tolist():
            yield from tell(value, place, deep)
    elif isinstance(thing, Mapping):
        for key, value in thing.items():
            if str(key) not in UNASKED:
                yield from tell(value, f"{place}[{key}]", deep)
    elif isinstance(thing, (tuple, list)):
        for value in thing:
            yield from tell(value, place, deep)
    elif isinstance(thing, (set, frozenset)):
        yield place, str(sorted(map(str, thing)))
    elif isinstance(thing, BaseException):
        yield from of_error(place, thing)
    elif hasattr(thing, "get_figure"):
        yield from of_picture(place, thing.get_figure())
    elif hasattr(thing, "savefig"):
        yield from of_picture(place, thing)
    elif hasattr(thing, "to_numpy"):
        yield from tell([str(thing.index.tolist()), thing.to_numpy(dtype=object)], place, deep)
    elif is_ours(type(thing)) and not isinstance(thing, type):
        if deep > 0:
            yield from of_object(place, thing, deep)
    elif isinstance(thing, Iterator):
        for value, _ in zip(thing, range(50), strict=False):
            yield from tell(value, place, deep)
    elif callable(thing):
        yield place, getattr(thing, "__qualname__", type(thing).__qualname__)
    else:
        yield place, type(thing).__name__


def outcome(call: Callable[[], Any]) -> list[Said]:
    """Return all that the result of a call says, or its error."""
    try:
        return list(tell(call()))
    except Exception as error:
        return list(of_error("", error))


def digest(said: list[Said]) -> list[Any]:
    """Return a sum of the words, how many numbers there are, and two sums of them.

    Numbers are added on a scale of their logarithms, so that a small one counts as much as a large one.
    """
    words = "\n".join(f"{place}: {value}" for place, value in said if isinstance(value, str))
    numbers = np.array([value for _, value in said if not isinstance(value, str)])
    finite = np.isfinite(numbers)
    seen = np.arcsinh(1e6 * np.where(finite, numbers, 0.0))
    shares = 2 + np.cos(np.arange(seen.size))
    words += f"\n{numbers[~finite].tolist()}"
    sums = [float(f"{total:.9g}") for total in (seen @ shares, np.abs(seen).sum())]
    return [zlib.crc32(words.encode()), seen.size, *sums]


ROOM = 1e-5
"""Relative difference of a number that libraries and processors may make."""


def differ(now: list[Any], then: list[Any]) -> bool:
    """Return whether two digests are not of the same words and numbers."""
    room = 3 * ROOM * max(now[1], 1)
    return now[:2] != then[:2] or any(abs(a - b) > room for a, b in zip(now[2:], then[2:], strict=True))
