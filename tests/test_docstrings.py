"""Docstrings of what is public: each parameter and attribute has an entry, and each entry is one of them."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dpstats
from tests.nets.calls import ESTIMATORS, fitted
from tests.nets.parts import list_public

SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
ENTRY = re.compile(r"^([\w*]+(?:, [\w*]+)*)(?: : .*)?$", re.MULTILINE)
SWALLOWED = re.compile(r"[.)] \w+ : (?:bool|int|float|str|array|sequence|tuple|ndarray)\b")
"""An entry in the middle of the text of another one."""


def sections(thing: Any) -> dict[str, set[str]]:
    """Return the names of the entries of each section of a docstring."""
    _, *parts = SECTION.split(inspect.cleandoc(thing.__doc__ or ""))
    return {
        name: {entry.lstrip("*") for line in ENTRY.findall(body) for entry in line.split(", ")}
        for name, body in zip(parts[::2], parts[1::2], strict=True)
    }


def entries(thing: Any, *names: str) -> set[str]:
    """Return the names of the entries of sections, also of those of its bases."""
    kinds = thing.__mro__ if inspect.isclass(thing) else (thing,)
    ours = [sections(one) for one in kinds if one.__module__.startswith("dpstats")]
    return {entry for found in ours for name in names for entry in found.get(name, ())}


def public() -> Iterator[Any]:
    """Yield every public class and function of the package, once."""
    seen = set()
    for _, _, thing in list_public():
        if inspect.isclass(thing) or inspect.isfunction(thing):
            if thing.__module__.startswith("dpstats") and thing not in seen:
                yield thing
            seen.add(thing)


def names_of(thing: Any) -> set[str]:
    """Return the parameters of a call, or the fields of a data class."""
    if dataclasses.is_dataclass(thing):
        return {field.name for field in dataclasses.fields(thing) if field.name[0] != "_"}
    try:
        return {name.lstrip("_") for name in inspect.signature(thing).parameters}
    except ValueError:
        return set()


@pytest.mark.parametrize("thing", [*public()], ids=lambda thing: f"{thing.__module__}.{thing.__qualname__}")
def test_parameters_and_fields_are_those_that_are_documented(thing: Any) -> None:
    internal = {field.name for field in getattr(thing, "__dataclass_fields__", {}).values() if not field.repr}
    own, told = sections(thing), entries(thing, "Parameters", "Attributes")
    assert not told or names_of(thing) - told - internal - {"args", "kwargs"} == set()
    others = own.get("Parameters", set()) | (own.get("Attributes", set()) if dataclasses.is_dataclass(thing) else set())
    # Names that end with _ are results of a fit, below.
    assert {one for one in others - names_of(thing) if one[-1] != "_" and not hasattr(thing, one)} == set()


@pytest.mark.parametrize("name", ESTIMATORS)
def test_results_of_a_fit_are_those_that_are_documented(name: str) -> None:
    model = fitted(name)
    kept = {
        attribute for attribute in {*vars(model), *dir(type(model))} if attribute[-1] == "_" and attribute[0] != "_"
    }
    explained = {name for name in kept if inspect.getdoc(getattr(type(model), name, None))}
    assert kept - entries(type(model), "Attributes") - explained - OF_SKLEARN == set()


OF_SKLEARN = {"n_features_in_", "feature_names_in_"}
FILES = sorted(Path(dpstats.__file__).parent.rglob("*.py"))


def test_the_first_line_is_a_sentence() -> None:
    broken = []
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Expr) and isinstance(text := getattr(node.value, "value", None), str):
                first = inspect.cleandoc(text).partition("\n\n")[0]
                if first.endswith(":") or SWALLOWED.search(inspect.cleandoc(text)):
                    broken.append(f"{path}:{node.lineno} {first[:60]}")
    assert not broken, "\n".join(broken)
