"""Modules that load at their first use, and not at their import.

scikit-learn imports pandas and `scipy.stats`, and uses neither for what most commands do. They would take half of the
time of a command. A process that is not the command's own loads modules as ever.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


class _Deferred(ModuleType):
    """A module of which nothing is loaded. Its first use loads it, and it stands for the loaded one from then on."""

    def __getattr__(self, name: str) -> Any:
        found = sys.modules.get(self.__name__)
        if found is None:
            # The import system asks for what a module that it makes has already.
            raise AttributeError(name)
        if found is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


class _Finder(MetaPathFinder, Loader):
    def __init__(self, names: Sequence[str]) -> None:
        self._names = set(names)

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        # A module is deferred once: its second import is its first use.
        if name not in self._names or PathFinder.find_spec(name, path) is None:
            return None
        self._names.remove(name)
        return ModuleSpec(name, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Deferred(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Load nothing."""


def defer(*names: str) -> None:
    """Load these modules at their first use, where they are not loaded yet."""
    sys.meta_path.insert(0, _Finder(names))
