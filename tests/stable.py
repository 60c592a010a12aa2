"""The names that docs/stable-names.txt promises: public classes and functions, and their parameters.

python tests/stable.py           # what the list promises and the package no longer has
python tests/stable.py --add     # add new names and parameters, for a release
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / "docs" / "stable-names.txt"


def packages() -> list[str]:
    """Return the public packages: those of the reference."""
    text = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    return re.findall(r"^   (dpstats\.[\w.]+)$", text, re.MULTILINE)


def parameters(thing: Any) -> list[str]:
    """Return the public parameters of a class or a function."""
    try:
        found = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):  # an exception or a type of numpy
        return []
    return [each.name for each in found if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)]


def promised() -> dict[str, list[str]]:
    """Return the promised names with their parameters."""
    lines = [line for line in LIST.read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
    pairs = [line.split("(") for line in lines]
    return {name: [word for word in rest.rstrip(")").split(", ") if word] for name, rest in pairs}


def present() -> dict[str, list[str]]:
    """Return the public names of the package with their parameters."""
    modules = {name: importlib.import_module(name) for name in packages()}
    return {
        f"{name}.{public}": parameters(getattr(module, public))
        for name, module in modules.items()
        for public in module.__all__
        if callable(getattr(module, public))
    }


def broken(names: dict[str, list[str]]) -> list[str]:
    """Return the promised names and parameters that are gone."""
    found = []
    for name, words in names.items():
        module, _, public = name.rpartition(".")
        thing = getattr(importlib.import_module(module), public, None)
        if thing is None:
            found.append(name)
            continue
        here = inspect.signature(thing).parameters if words else {}
        open_ended = any(each.kind is each.VAR_KEYWORD for each in here.values())
        found += [f"{name}({word})" for word in words if word not in here and not open_ended]
    return found


def main(arguments: list[str]) -> None:
    if arguments == ["--add"]:
        head = [line for line in LIST.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
        names = promised()
        for name, words in present().items():
            names[name] = list(dict.fromkeys([*names.get(name, []), *words]))
        lines = [f"{name}({', '.join(words)})" for name, words in sorted(names.items())]
        LIST.write_text("\n".join([*head, *lines]) + "\n", encoding="utf-8")
    print("\n".join(broken(promised())) or f"{len(promised()):,} names are there")


if __name__ == "__main__":
    main(sys.argv[1:])
