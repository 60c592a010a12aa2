"""Parts that results and plans are made of: which values of their fields are accepted."""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
import pkgutil
from collections.abc import Iterator, Mapping
from functools import cache, partial
from typing import Any

import dpstats
from tests.nets import calls, lines
from tests.nets.ladders import climb
from tests.nets.told import Said, is_ours, names_of, of_text

FROM = (
    *("ClippedMean", "PrivateMedian", "PrivateQuantile", "GroupQuantiles", "SmallDB", "PrivateStatistic"),
    *("AboveThreshold", "RandomizedResponse", "NoisyTopK", "ExponentialMechanism", "PrivacyBudget"),
)
"""Calls whose results have parts of every kind, beside answers to queries."""

DEEP = 6
"""How far inside a result parts are looked for."""


def inside(thing: Any, deep: int = DEEP) -> Iterator[Any]:
    """Yield every part of a result that is a data class of the package."""
    if deep == 0 or isinstance(thing, type):
        return
    if isinstance(thing, Mapping):
        thing = list(thing.values())
    if isinstance(thing, (tuple, list)):
        for value in thing[:8]:
            yield from inside(value, deep - 1)
    if is_ours(type(thing)):
        if dataclasses.is_dataclass(thing):
            yield thing
            names = [field.name for field in dataclasses.fields(thing)]
        else:
            names = sorted(getattr(thing, "__dict__", {}))
        for name in names:
            yield from inside(getattr(thing, name, None), deep - 1)


@cache
def parts() -> dict[type, Any]:
    """Return one of each kind of part that checks its fields, of the first result that has it."""
    made = {**calls.ESTIMATORS, **calls.OTHERS}
    results = [made[name](**made[name].given) for name in FROM]
    sql = lines.connected("rows")
    for text in lines.QUERIES:
        results += lines.answer(sql, text)
        try:
            results.append(sql._parsed(text))
        except Exception:
            continue
    found: dict[type, Any] = {}
    for part in (one for each in results for one in inside(each)):
        if hasattr(type(part), "__post_init__"):
            found.setdefault(type(part), part)
    return {kind: found[kind] for kind in sorted(found, key=lambda kind: (kind.__module__, kind.__name__))}


def play() -> dict[str, list[Said]]:
    """Return which values each part accepts in its checked fields, and the words with which it refuses others."""
    said: dict[str, list[Said]] = {}
    for kind, part in parts().items():
        for field in dataclasses.fields(part):
            if not field.init:
                continue
            rungs = dict(climb(field.name, partial(_replaced, part, field.name)))
            if len({one[0] for one in rungs.values()}) > 1:
                place = f"{kind.__module__}.{kind.__name__}.{field.name}"
                said |= {f"{place}={value}": one for value, one in rungs.items()}
    return said


def list_public() -> Iterator[tuple[str, str, Any]]:
    """Yield the module, the name and the object of everything public."""
    for found in pkgutil.iter_modules(dpstats.__path__):
        if found.name != "__main__":
            module = importlib.import_module(f"dpstats.{found.name}")
            for name in getattr(module, "__all__", ()):
                yield module.__name__, name, getattr(module, name)


def play_signatures() -> dict[str, list[Said]]:
    """Return the parameters of everything public, with their defaults."""
    said: dict[str, list[Said]] = {}
    for module, name, thing in list_public():
        asked = {name: thing} if callable(thing) else {}
        if isinstance(thing, type):
            asked |= {f"{name}.{word}": inspect.getattr_static(thing, word) for word in names_of(thing)}
        for place, one in sorted(asked.items()):
            one = getattr(one, "__func__", one)  # of a class or static method
            if callable(one) and not (isinstance(one, type) and issubclass(one, (Exception, enum.Enum))):
                said[f"{module}.{place}"] = [*of_text("", str(inspect.signature(one)))]
    return said


def _replaced(part: Any, name: str, value: Any) -> type:
    return type(dataclasses.replace(part, **{name: value}))
