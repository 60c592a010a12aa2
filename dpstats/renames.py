"""Former names of classes, which still work and warn."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def renamed(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a ``__getattr__`` of a module that knows former names, as ``{"Old": "package.module.New"}``."""

    def find(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warnings.warn(
            f"{module}.{name} has been replaced. Use {names[name]}.", DeprecationWarning, stacklevel=2
        )
        home, _, new = names[name].rpartition(".")
        return getattr(import_module(home), new)

    return find
