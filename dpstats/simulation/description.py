"""What a study is: values of any kind as JSON, the same in every process, and different where they differ."""

from __future__ import annotations

import copyreg
import dis
import hashlib
import json
import sys
import types
from collections.abc import Iterable
from enum import Enum
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from dpstats.errors import InvalidParameter


def describe(role: str, value: Any) -> Any:
    """Return all that a value is, as JSON can hold it: equal in every process, different for different values.

    Objects are described by their class and the content of a pickle, estimators by their class and
    parameters. Functions are described by their name and a hash of code, defaults, closure and used globals,
    and arrays by a hash of all entries. Classes and functions of installed packages (and of this one) are
    described by their names, because the versions determine their code.

    Parameters
    ----------
    role : str
        What the value is to the study, for the message.
    value : object

    Raises
    ------
    InvalidParameter
        If there is something in it that can only be named by its class.
    """
    return _Description(role).of(value)


class _Description:
    """One walk over a value and everything in it."""

    def __init__(self, role: str) -> None:
        self._role = role
        self._path: list[int] = []
        # Objects are stored with their descriptions, because an id is reused after its object is deleted.
        self._known: dict[int, tuple[Any, Any]] = {}

    def of(self, value: Any) -> Any:
        if isinstance(value, np.generic) and not value.dtype.hasobject:
            plain = value.item()
            value = np.asarray(value) if isinstance(plain, np.generic) else plain
        if value is None or type(value) in (bool, int, float, str):
            return value
        if type(value) in (bytes, bytearray):
            return {"bytes": _digest(bytes(value))}
        if type(value) is complex:
            return {"complex": repr(value)}
        if id(value) in self._known:
            return self._known[id(value)][1]
        if id(value) in self._path:
            return {"itself": len(self._path) - self._path.index(id(value))}
        self._path.append(id(value))
        try:
            described = self._compound(value)
        finally:
            self._path.pop()
        if isinstance(value, types.FunctionType | type):
            # Kept, or functions that call the same helpers would have these walked once for each caller.
            self._known[id(value)] = (value, described)
        return described

    def _compound(self, value: Any) -> Any:
        if type(value) in (list, tuple):
            return [self.of(item) for item in value]
        if type(value) in (dict, types.MappingProxyType):
            return {"mapping": _ordered([self.of(key), self.of(item)] for key, item in value.items())}
        if type(value) in (set, frozenset):
            # The order of a set differs between processes.
            return {"set": _ordered(self.of(item) for item in value)}
        if type(value) in (np.ndarray, np.memmap):
            shape = [value.dtype.str, *value.shape]
            if value.dtype.hasobject:
                return {"array": shape, "items": self.of(value.tolist())}
            return {"array": shape, "bytes": _digest(str(value.dtype.descr).encode() + value.tobytes())}
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, types.ModuleType):
            return {"module": value.__name__}
        if isinstance(value, Enum):
            return {"member": value.name, "class": self.of(type(value))}
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, types.MethodType):
            return {"method": self.of(value.__func__), "self": self.of(value.__self__)}
        if value is Ellipsis or value is NotImplemented:
            return {"name": repr(value)}
        if value is check_random_state(None):
            # numpy's global generator, which scipy's distributions refer to: its state differs between
            # processes, and no study draws from it.
            return {"name": "numpy.random"}
        if isinstance(value, partial):
            inside = [value.func, value.args, value.keywords]
            return {"partial": [self.of(item) for item in inside], **self._attributes(value)}
        if _is_global(value):
            return {"name": _qualified(value)}
        if all(callable(getattr(value, name, None)) for name in ("fit", "get_params", "set_params")):
            # A clone has only the parameters, unless the class has its own clone method.
            said = getattr(type(value), "__sklearn_clone__", BaseEstimator.__sklearn_clone__)
            if said is BaseEstimator.__sklearn_clone__:
                parameters = value.get_params(deep=False)
                return {"estimator": self.of(type(value)), "parameters": self.of(parameters)}
        return self._object(value)

    def _object(self, value: Any) -> Any:
        if hasattr(value, "__wrapped__"):  # by lru_cache, say
            return {"object": self.of(type(value)), "wrapped": self.of(value.__wrapped__)}
        reduce = copyreg.dispatch_table.get(type(value))
        try:
            reduced = value.__reduce_ex__(4) if reduce is None else reduce(value)
        except Exception:
            return self._by_repr(value)
        if isinstance(reduced, str):  # only a name, and not of an installed object
            return self._by_repr(value)
        make, arguments, state, items, pairs = (*reduced[:5], None, None, None)[:5]
        try:
            return {
                "object": self.of(type(value)),
                "made": None if make in _PLAIN_MAKERS else self.of(make),
                "state": [self.of(arguments), self.of(state)],
                "items": [None if part is None else self.of(list(part)) for part in (items, pairs)],
            }
        except InvalidParameter as error:
            return self._by_repr(value, error)

    def _by_repr(self, value: Any, error: InvalidParameter | None = None) -> Any:
        kind = type(value)
        plain: Any = object.__repr__
        text = "" if kind.__repr__ is plain else repr(value)
        # The repr of an installed class is made to be read, and seldom states everything.
        installed = _installed(kind.__module__) and not kind.__module__.startswith("dpstats.")
        if not text or installed or " at 0x" in text or "..." in text:
            raise error or InvalidParameter(
                f"path cannot be given: {self._role} holds a {kind.__qualname__}, whose values a file cannot identify. "
                "Give its owner a __repr__ that states all values, make it a dataclass of plain fields, or run "
                "without path"
            )
        return {"object": self.of(kind), "repr": text}

    def _function(self, function: types.FunctionType) -> Any:
        name = _qualified(function)
        # A function made inside another one is not known by its name alone, even in an installed package:
        # what it closes over counts.
        written_here = not _installed(function.__module__)
        if not written_here and "<" not in function.__qualname__:
            return {"function": name}
        captured = []
        for cell in function.__closure__ or ():
            try:
                inside = cell.cell_contents
            except ValueError:  # not assigned yet
                captured.append("empty")
            else:
                captured.append(self.of(inside))
        known, read = function.__globals__, sorted(_used(function.__code__))
        parts = [
            self._code(function.__code__, function.__doc__) if written_here else None,
            self.of(function.__defaults__),
            self.of(function.__kwdefaults__),
            captured,
            {name: self.of(known[name]) for name in read if name in known} if written_here else None,
            self._attributes(function),
        ]
        return {"function": name, "hash": _digest(_text(parts).encode())}

    def _code(self, code: types.CodeType, docstring: str | None = None) -> Any:
        constants = [
            self._code(constant) if isinstance(constant, types.CodeType) else self.of(constant)
            for constant in code.co_consts
        ]
        if constants and docstring is not None and constants[0] == docstring:
            constants[0] = None
        counts = [code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags]
        names = [code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars]
        return [counts, list(map(list, names)), constants, code.co_code.hex(), code.co_exceptiontable.hex()]

    def _attributes(self, value: Any) -> dict[str, Any]:
        attributes = {key: item for key, item in vars(value).items() if key != "__wrapped__"}
        return {"attributes": self.of(attributes)} if attributes else {}

    def _class(self, kind: type) -> Any:
        name = _qualified(kind)
        if _installed(kind.__module__):
            return {"class": name}
        # The methods that dataclass generates follow from the fields: only written methods count.
        skipped = _OF_EVERY_CLASS | (_OF_DATACLASSES if "__dataclass_fields__" in vars(kind) else frozenset())
        own = {key: self._member(item) for key, item in sorted(vars(kind).items()) if key not in skipped}
        bases = [self.of(base) for base in kind.__bases__]
        return {"class": name, "hash": _digest(_text([own, bases]).encode())}

    def _member(self, value: Any) -> Any:
        """Describe an attribute of a class: its functions are inside descriptors."""
        if isinstance(value, types.MemberDescriptorType | types.GetSetDescriptorType):  # slots
            return None
        if isinstance(value, staticmethod | classmethod | property | cached_property):
            inside = [getattr(value, name, None) for name in ("__func__", "fget", "fset", "func")]
            return [type(value).__name__, *map(self.of, inside)]
        return self.of(value)


_PLAIN_MAKERS = (copyreg.__newobj__, copyreg.__newobj_ex__)  # type: ignore[attr-defined]

_OF_EVERY_CLASS = frozenset(
    [
        *(
            "__dict__",
            "__weakref__",
            "__doc__",
            "__module__",
            "__qualname__",
            "__annotations__",
            "__annotate__",
        ),
        *("__annotate_func__", "__annotations_cache__", "__abstractmethods__", "_abc_impl", "__parameters__"),
        *("__orig_bases__", "__static_attributes__", "__firstlineno__"),
        *("__dataclass_fields__", "__dataclass_params__", "__match_args__"),
    ]
)
_OF_DATACLASSES = frozenset(
    [
        *("__init__", "__repr__", "__eq__", "__hash__", "__lt__", "__le__", "__gt__", "__ge__"),
        *("__setattr__", "__delattr__", "__replace__", "__getstate__", "__setstate__"),
    ]
)


def _used(code: types.CodeType) -> set[str]:
    """Return the globals that code reads, with the functions inside it."""
    loads = ("LOAD_GLOBAL", "LOAD_NAME")
    names = {item.argval for item in dis.get_instructions(code) if item.opname in loads}
    inner = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return names.union(*map(_used, inner))


def _installed(module: str | None) -> bool:
    """Say whether a module is of an installed package, of Python or of this package: it has a version."""
    top = (module or "").partition(".")[0]
    if top == "dpstats" or top in sys.stdlib_module_names:
        return True
    file = getattr(sys.modules.get(top), "__file__", None)
    return file is not None and not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)


def _qualified(value: Any) -> str:
    """Return the name of a class or function. The module of a script is the one under which others import it."""
    module = value.__module__
    if module == "__main__":
        main = sys.modules["__main__"]
        file, spec = getattr(main, "__file__", None), getattr(main, "__spec__", None)
        module = spec.name if spec is not None else module if file is None else Path(file).stem
    return f"{module}.{value.__qualname__}"


def _is_global(value: Any) -> bool:
    """Say whether a value is what an installed module has under the value's own name: ufuncs, built-ins."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    name = name or getattr(value, "__name__", None)
    if not (isinstance(module, str) and isinstance(name, str) and _installed(module)):
        return False
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is value


def _ordered(items: Iterable[Any]) -> list[Any]:
    return sorted(items, key=_text)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _digest(value: bytes) -> str:
    return hashlib.blake2b(value, digest_size=16).hexdigest()
