"""Other values of every parameter: the same for all, and those that its own errors name.

An error that says "must be 'a' or 'b'" names the words that are allowed, and "must be at least 2" a limit. These are
tried too, so that each limit shows on which side it is.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from dpstats.privacy import Neighbors
from tests.nets.told import Said, outcome

COMMON: tuple[Any, ...] = (None, True, "x", -1, 0, 2, 0.5, 1e300, np.nan, (0.5, 2.0))
"""Values that are tried for every parameter."""

SHARED = {"epsilon", "delta", "bounds", "bounds_are", "missing", "neighbors", "x_bounds", "y_bounds", "weights"}
SOME: tuple[Any, ...] = ("x", 0, 0.5, 1e-300, (0.5, 2.0))
"""Parameters that most estimators share, and the values that are tried for them."""

FURTHER: dict[str, tuple[Any, ...]] = {"neighbors": tuple(Neighbors)}
"""Values of one parameter, beside those of all."""

FEW: tuple[Any, ...] = ("x", True, 0.5)
"""Values that are tried where a parameter is one of many classes."""

LARGEST = 200
"""Limits beyond it are not tried: they take long."""

UNTRIED = {
    "budget",
    "random_state",
    "self",
    "cache_dir",
    "state",
    "n_jobs",
    "progress",
    "ax",
    "style",
    "parameters",
    "ledger",
}
"""Parameters with values that do not change what is said, or with a test of their own for every class."""

_QUOTED = re.compile(r"'([a-z_0-9A-Z-]+)'")


UNTRIED_VALUES = {("n_calibration", "None"), ("update", "'median'")}
"""Values that take seconds."""


def parameters(call: Callable[..., Any]) -> list[str]:
    """Return the parameters of a call that are tried."""
    given = inspect.signature(call).parameters.values()
    return [one.name for one in given if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]


def named(said: list[Said]) -> Iterator[Any]:
    """Yield the words and the limits that an error names as allowed."""
    texts = [value for _, value in said[1:] if isinstance(value, str)]
    numbers = [value for _, value in said[1:] if not isinstance(value, str)]
    before, must, after = (texts or [""])[0].partition(" must ")
    if must:
        allowed = after.partition(", got ")[0]
        yield from _QUOTED.findall(allowed)
        first = before.count("#")
        for number in numbers[first : first + allowed.count("#")]:
            if abs(number) <= LARGEST:
                yield int(number) if "integer" in allowed else number


def climb(
    name: str, ask: Callable[[Any], Any], first: tuple[Any, ...] = COMMON, most: int = 30
) -> Iterator[tuple[str, list[Said]]]:
    """Yield what a call says for one value of a parameter after the other, with the value."""
    waiting, tried = [*first, *FURTHER.get(name, ())], set[str]()
    while waiting and len(tried) < most:
        value = waiting.pop(0)
        if repr(value) in tried or (name, repr(value)) in UNTRIED_VALUES:
            continue
        tried.add(repr(value))
        said = outcome(lambda value=value: ask(value))
        yield repr(value), said
        if len(said) > 1 and len(tried) <= len(first):
            waiting += [more for more in named(said) if repr(more) not in tried]


def ladders(
    call: Callable[..., Any], given: Mapping[str, Any], first: tuple[Any, ...] = COMMON
) -> dict[str, list[Said]]:
    """Return what a call says as it is given, and with every other value of each parameter."""
    found = {"": outcome(lambda: call(**given))}
    for name in parameters(call) if first else ():
        if name not in UNTRIED:
            values = SOME if first is COMMON and name in SHARED else first
            for value, said in climb(name, lambda value, name=name: call(**{**given, name: value}), values):
                found[f"{name}={value}"] = said
    return found
