"""Every call of the package that an example makes, with the arguments that it is given.

The examples of docstrings and of the documentation call everything public with arguments that are allowed. So they say
how each slot is reached, and a new public name has its slots here as soon as it has an example.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib
import inspect
import io
import pkgutil
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import dpstats
from tests.stable import packages

ROOT = Path(__file__).resolve().parents[3]
CALLED = "__called__"


@dataclass(frozen=True)
class Script:
    """The examples of a docstring or of a page."""

    name: str
    sources: tuple[str, ...]


@cache
def scripts() -> tuple[Script, ...]:
    """Return the examples of all public docstrings and pages."""
    finder, found = doctest.DocTestFinder(exclude_empty=True), {}
    for module in pkgutil.walk_packages(dpstats.__path__, "dpstats."):
        if not module.name.endswith("__main__"):
            for test in finder.find(importlib.import_module(module.name)):
                found[test.name] = tuple(example.source for example in test.examples)
    parser = doctest.DocTestParser()
    for page in sorted((ROOT / "docs").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        found[page.name] = tuple(example.source for example in parser.get_examples(text))
        blocks = [part.split("```")[0] for part in text.split("```python\n")[1:]]
        found[f"{page.name}, blocks"] = tuple(block for block in blocks if ">>>" not in block)
    return tuple(Script(name, sources) for name, sources in found.items() if sources)


class _Calls(ast.NodeTransformer):
    """Replace every call f(x) by one of a function that is given f and x."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        called = ast.Call(ast.Name(CALLED, ast.Load()), [node.func, *node.args], node.keywords)
        return ast.copy_location(called, node)


def run(script: Script, called: Callable[..., Any]) -> None:
    """Run examples, with ``called(function, *args, **options)`` in place of every call."""
    names = {CALLED: called, "__name__": "examples"}
    for source in script.sources:
        try:
            tree = ast.fix_missing_locations(_Calls().visit(ast.parse(source)))
        except SyntaxError:
            continue
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(tree, script.name, "exec"), names)


def _home(function: Any) -> Any:
    """Return the object or the class that a method is bound to, or None."""
    home = getattr(function, "__self__", None)
    return None if inspect.ismodule(home) else home


@cache
def _public() -> dict[int, Any]:
    """Return every public class and function by its identity."""
    modules = [importlib.import_module(name) for name in packages()]
    things = [getattr(module, name) for module in modules for name in module.__all__]
    return {id(thing): thing for thing in things if callable(thing)}


def is_public(function: Any) -> bool:
    """Return whether a callable is a public class or function, or a public method of an object of the package."""
    home = _home(function)
    if home is None:
        return id(function) in _public()
    kind = home if inspect.isclass(home) else type(home)
    ours = kind.__module__.partition(".")[0] == "dpstats"
    return ours and kind.__name__[0] != "_" and function.__name__[0] != "_"


def public_methods(thing: Any) -> Iterator[Any]:
    """Yield the public methods of an object of the package that take arguments."""
    if type(thing).__module__.partition(".")[0] != "dpstats":
        return
    for name, method in inspect.getmembers(type(thing), inspect.isfunction):
        if name[0] != "_" and method.__module__.startswith("dpstats"):
            yield getattr(thing, name)


def public_slots() -> Iterator[tuple[str, str]]:
    """Yield the name of every public class, function and method, and each of its parameters."""
    for thing in _public().values():
        things = [(thing.__qualname__, thing)]
        if inspect.isclass(thing):
            things += [
                (f"{thing.__qualname__}.{name}", method)
                for name, method in inspect.getmembers(thing, inspect.isfunction)
                if name[0] != "_" and method.__module__.startswith("dpstats")
            ]
        for word, each in things:
            with contextlib.suppress(ValueError, TypeError):
                for slot, parameter in inspect.signature(each).parameters.items():
                    if slot != "self" and parameter.kind is not parameter.VAR_KEYWORD:
                        yield word, slot
