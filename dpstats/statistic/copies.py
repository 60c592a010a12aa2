"""Copies of a user's function: frozen once before the charge, and thawed afresh for every block.

Freezing writes the function and all objects that it reaches as bytes, so that no block can change the copy of the next
one. All copies share the contents of installed packages. Functions, classes and modules of the user are copied with
their variables. An object without a copy is refused. Proof: docs/proofs/statistic.md.
"""

from __future__ import annotations

import builtins
import contextlib
import dis
import enum
import functools
import importlib.util
import io
import itertools
import logging
import marshal
import os
import pickle
import sys
import sysconfig
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from multiprocessing.managers import BaseManager, BaseProxy
from multiprocessing.shared_memory import ShareableList, SharedMemory
from operator import attrgetter
from typing import Any, TypeVar

from dpstats.errors import refuse

_CONSTANTS = {type(None), bool, int, float, complex, str, bytes}
_DATA = {type(None), bool, int, float, complex, str, bytes, list, tuple, set, frozenset}
_OF_A_CLASS = (
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
)
_STORAGE = (types.GetSetDescriptorType, types.MemberDescriptorType)
_AT_CREATION = ("__slots__", "__orig_bases__", "__module__", "__qualname__")
_LEFT_OUT = {
    *_AT_CREATION,
    "__annotations__",
    "__annotate__",
    "__annotate_func__",
    "__annotations_cache__",
    "_abc_impl",
}
_HEAP_TYPE = 1 << 9


class Frozen:
    """Snapshot of a function.

    Every call of `thaw` returns a copy. Copies share only the contents of installed packages. The snapshot can be
    pickled, and thaws to equal copies in another process.

    Examples
    --------
    >>> from dpstats.statistic.copies import Frozen
    >>> seen = []
    >>> def count(block):
    ...     seen.append(block)
    ...     return len(seen)
    >>> frozen = Frozen(count)
    >>> frozen.thaw()(1), frozen.thaw()(2), seen
    (1, 1, [])
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        try:
            self._freeze(function)
        except Exception:
            # The error may hold values of captured variables.
            what = _find_uncopied(function, "itself", set())
            raise refuse(
                "function",
                got=f"{what}, which has no copy",
                allowed="be made of parts that can be copied for every block",
                remedy="Create it inside the function.",
            ) from None

    def _freeze(self, function: Callable[..., Any]) -> None:
        freezer = _Freezer()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            freezer.freeze(function)
            self._data, self._loads = freezer.file.getvalue(), freezer.dumps
            self._buffers, self._shared = freezer.buffers, freezer.shared
            # Thaw now: after the charge it is too late for a refusal.
            _refuse_same(self._thaw()[1], self._thaw()[1])
            self._described = [_describe(each) for each in self._shared]

    def thaw(self) -> Callable[..., Any]:
        """Return a copy of the function."""
        return self._thaw()[0]

    def _thaw(self) -> tuple[Callable[..., Any], _Thawer]:
        """Return a copy of the function, and what made it."""
        copied = [each if type(each) is bytes else bytearray(each) for each in self._buffers]
        thawer = _Thawer(self._data, copied, self._shared)
        function: Callable[..., Any] = thawer.load()
        for _ in range(1, self._loads):
            thawer.load()
        return function, thawer

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._data, self._loads, self._buffers, self._described)


def _restore(data: bytes, loads: int, buffers: list[Any], described: list[tuple[Any, Any]]) -> Frozen:
    made = Frozen.__new__(Frozen)
    made._data, made._loads, made._buffers = data, loads, buffers
    made._described, made._shared = described, [find(given) for find, given in described]
    return made


def _describe(shared: Any) -> tuple[Any, Any]:
    """Return a function that finds a shared object in another process, and its argument."""
    if isinstance(shared, types.CodeType):
        return marshal.loads, marshal.dumps(shared)
    if isinstance(shared, types.ModuleType):
        return importlib.import_module, shared.__name__
    if isinstance(shared, type) and not _is_named(shared):
        # Some classes of the interpreter have other names than they say, such as CellType.
        found = [name for name, each in vars(types).items() if each is shared]
        return _find_variable, (types.__name__, found[0])
    variable = _variable(shared)
    return (pickle.loads, pickle.dumps(shared)) if variable is None else (_find_variable, variable)


def _find_variable(place: tuple[str, str]) -> Any:
    return attrgetter(place[1])(importlib.import_module(place[0]))


# Shared objects


@functools.cache
def _installed_folders() -> tuple[str, ...]:
    paths = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")} | {os.path.dirname(os.__file__)}
    return tuple(os.path.realpath(path) + os.sep for path in paths if path)


def is_installed(name: Any) -> bool:
    """Return whether a module belongs to Python, to an installed package or to this package.

    A module is installed if it lies below ``site-packages`` or ``dist-packages``, or is part of Python. All other
    modules are the user's, including packages that are installed in place.
    """
    module = sys.modules.get(name) if isinstance(name, str) else None
    if module is None or name == "__main__":
        return False
    if name.partition(".")[0] == __name__.partition(".")[0]:
        return True
    file = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), None)
    if not isinstance(file, str):
        return getattr(getattr(module, "__spec__", None), "origin", None) in ("built-in", "frozen")
    folders = file.split(os.sep)
    if "site-packages" in folders or "dist-packages" in folders:
        return True
    return os.path.realpath(file).startswith(_installed_folders())


@contextlib.contextmanager
def hide_modules() -> Iterator[Callable[[], None]]:
    """Give a new module to code that imports a module of the user by a name made at run time.

    It does not find the module that all blocks share. The import statements of copies find copies. The function that
    is yielded undoes what a block did to the modules. Call it after every block.
    """
    before, hidden = _find_hidden()
    shown = before.copy()
    for name in hidden:
        del shown[name]

    def restore() -> None:
        shown["__main__"] = sys.modules["__main__"] = types.ModuleType("__main__")
        if sys.modules != shown:
            for name, module in list(sys.modules.items()):
                if name not in shown and _is_of_installed(name, module):
                    shown[name] = module
                elif name not in shown:
                    del sys.modules[name]
            sys.modules.update(shown)

    def leave() -> None:
        restore()
        sys.modules.update(hidden)

    try:
        restore()
        yield restore
    finally:
        try:
            leave()
        except BaseException:  # an interrupt must not leave modules hidden
            leave()
            raise


_LAST: list[dict[str, Any]] = [{}, {}]
"""The modules that existed before the last blocks, and the hidden ones among them."""


def _find_hidden() -> list[dict[str, Any]]:
    """Return all modules, and the user's modules, by name."""
    if sys.modules != _LAST[0]:
        modules = dict(sys.modules)
        found = {name: module for name, module in modules.items() if not _is_of_installed(name, module)}
        _LAST[:] = modules, found
    return _LAST


_INSTALLED: dict[str, Any] = {}
"""Modules that were found to be of installed packages, by their names: there are thousands of them."""


def _is_of_installed(name: str, module: Any) -> bool:
    """Return whether a module, or the package that it is in, is installed."""
    if name not in _INSTALLED or _INSTALLED[name] is not module:
        if name == "__main__" or not any(map(is_installed, (name, str(name).partition(".")[0]))):
            return False
        _INSTALLED[name] = module
    return True


def _is_named(value: Any) -> bool:
    """Return whether a function or a class is found in an installed module under its own name."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not (isinstance(module, str) and isinstance(name, str) and is_installed(module)):
        return False
    found: Any = sys.modules[module]
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is value


def _variable(value: Any) -> tuple[str, str] | None:
    """Return the installed module and the name of a variable, or None for other objects.

    Only the module of the object's class is searched, where libraries keep sentinels and their one instance of a
    class, as `random` and `numpy.random` do for the global generators.
    """
    module = type(value).__module__
    if module == "builtins" or not is_installed(module):
        return None
    found = [name for name, each in vars(sys.modules[module]).items() if each is value]
    return (module, found[0]) if found else None


def _is_shared(value: Any) -> bool:
    if isinstance(value, types.CodeType):
        return True
    if isinstance(value, types.ModuleType):
        # An object with the name of a module may be another one.
        return is_installed(value.__name__) and sys.modules.get(value.__name__) is value
    if isinstance(value, type):
        return _is_named(value) or not value.__flags__ & _HEAP_TYPE
    if isinstance(value, types.FunctionType):
        return _is_named(value)
    if isinstance(value, types.BuiltinFunctionType):
        return value.__self__ is None or isinstance(value.__self__, types.ModuleType)
    if isinstance(value, _OF_A_CLASS):
        return _is_shared(value.__objclass__)
    return _variable(value) is not None


# Freezing


class _Imports:
    """The import statement of copies: it finds the copies of the user's modules."""

    def __init__(self) -> None:
        self.modules: dict[str, Any] = {}

    def __call__(self, name: str, variables: Any = None, own: Any = None, chosen: Any = (), level: int = 0) -> Any:
        package = (variables or {}).get("__package__") or ""
        absolute = importlib.util.resolve_name("." * level + name, package) if level else name
        found = self.modules.get(absolute if chosen or level else absolute.partition(".")[0])
        return builtins.__import__(name, variables, own, chosen, level) if found is None else found


class _Space:
    """Stands for the variables of a module of the user while they are frozen."""

    def __init__(self, variables: dict[str, Any]) -> None:
        self.variables = variables
        self.frozen: set[str] = set()


class _Filled:
    """Stands for the variables that a copy of a module, or the table of imports, is filled with."""

    def __init__(self, filled: Any, variables: dict[str, Any]) -> None:
        self.filled, self.variables = filled, variables

    def __reduce__(self) -> Any:
        return _fill, (self.filled, self.variables)


class _Freezer(pickle.Pickler):
    """Writes a function and all objects that it reaches, and lists the shared objects."""

    def __init__(self) -> None:
        self.file = io.BytesIO()
        self.buffers: list[bytes | bytearray] = []
        self.shared: list[Any] = []
        self.dumps = 0
        self._places: dict[int, int] = {}
        self._spaces: dict[int, _Space] = {}
        self._modules: dict[str, _Space] = {}
        self._names: set[str] = set()
        self._imports = _Imports()
        super().__init__(self.file, protocol=5, buffer_callback=self._keep_buffer)

    def freeze(self, function: Any) -> None:
        """Write the function, then all variables of the user's modules that the code which was met names."""
        self._write(function)
        while self._write_modules():
            pass
        if self._modules:
            self._write(_Filled(self._imports.modules, dict(self._modules)))

    def _write_modules(self) -> bool:
        """Write the variables of modules that have been named since, and return whether there were any."""
        found = False
        for space in list(self._modules.values()):
            named = sorted((self._names - space.frozen) & space.variables.keys())
            space.frozen.update(named)
            if named:
                self._write(_Filled(space, {name: space.variables[name] for name in named}))
            found |= bool(named)
        return found

    def _write(self, value: Any) -> None:
        self.dump(value)
        self.dumps += 1

    def _keep_buffer(self, buffer: pickle.PickleBuffer) -> None:
        raw = buffer.raw()
        self.buffers.append(bytes(raw) if raw.readonly else bytearray(raw))

    def persistent_id(self, value: Any) -> int | None:
        if type(value) in _DATA or type(value) is dict:
            return None
        place = self._places.get(id(value))
        if place is None and _is_shared(value):
            place = self._places[id(value)] = len(self.shared)
            self.shared.append(value)
        return place

    def reducer_override(self, value: Any) -> Any:
        for kind, take_apart in _PARTS.items():
            if isinstance(value, kind):
                return take_apart(self, value)
        return NotImplemented

    def _space(self, variables: dict[str, Any]) -> Any:
        """Return an installed module itself, and for other modules the object that stands for their variables."""
        name = variables.get("__name__")
        if isinstance(name, str) and is_installed(name) and vars(sys.modules[name]) is variables:
            return sys.modules[name]
        return self._spaces.setdefault(id(variables), _Space(variables))

    def _reduce_function(self, value: types.FunctionType) -> Any:
        space = self._space(value.__globals__)
        named: dict[str, Any] = {}
        if isinstance(space, _Space):
            # The copy has its own module variables: all that its code names.
            named = {name: space.variables[name] for name in self._read_code(value) if name in space.variables}
        # Cells travel empty and are filled afterwards: a function may refer to itself.
        filled = [(cell, cell.cell_contents) for cell in value.__closure__ or () if not _is_empty(cell)]
        names = ("__defaults__", "__kwdefaults__", "__module__", "__qualname__", "__doc__")
        attributes = {name: getattr(value, name) for name in names}
        made = (value.__code__, space, value.__name__, value.__closure__)
        return _make_function, made, (filled, attributes, vars(value), named), None, None, _set_function

    def _read_code(self, function: types.FunctionType) -> set[str]:
        """Return the names of module variables in a function's code, and note its imports and all of its names."""
        found = set()
        for code in _all_code(function.__code__):
            self._names.update(code.co_names)
            instructions = [each for each in dis.get_instructions(code) if each.opname != "EXTENDED_ARG"]
            for place, each in enumerate(instructions):
                if each.opname == "IMPORT_NAME":
                    level, chosen = instructions[place - 2].argval, instructions[place - 1].argval
                    self._import(function.__globals__, each.argval, chosen, level)
                elif "GLOBAL" in each.opname or "NAME" in each.opname:
                    found.add(each.argval)
        return found

    def _import(self, variables: dict[str, Any], name: str, chosen: Any, level: int) -> None:
        # A module that is not installed fails in the block.
        with contextlib.suppress(Exception):
            module = builtins.__import__(name, variables, None, chosen, level)
            if not is_installed(module.__name__):
                self._modules[module.__name__] = self._space(vars(module))

    def _reduce_module(self, value: types.ModuleType) -> Any:
        imported = sys.modules.get(value.__name__) is value
        key = value.__name__ if imported else f"{value.__name__} at {id(value)}"
        space = self._modules[key] = self._space(vars(value))
        return _return_space, (space,)

    def _reduce_space(self, value: _Space) -> Any:
        # Names in text that libraries evaluate, such as a formula, are not names of the code.
        unnamed = {
            name: each
            for name, each in value.variables.items()
            if not name.startswith("__")
            and (type(each) in _CONSTANTS or (isinstance(each, types.ModuleType) and _is_shared(each)))
        }
        made = (value.variables.get("__name__"), value.variables.get("__package__"), self._imports, unnamed)
        return _make_space, made

    def _reduce_class(self, value: type) -> Any:
        own = {name: each for name, each in vars(value).items() if not isinstance(each, _STORAGE)}
        if isinstance(value, enum.EnumMeta):
            return self._reduce_enum(value, own)
        first = {name: own[name] for name in _AT_CREATION if name in own}
        rest = {name: each for name, each in own.items() if name not in _LEFT_OUT}
        made = (type(value), value.__name__, value.__bases__, first)
        return _make_class, made, rest, None, None, _set_class

    def _reduce_enum(self, value: enum.EnumMeta, own: dict[str, Any]) -> Any:
        if not own.keys().isdisjoint({"__init__", "__new_member__"}):
            # Calling them again could have effects.
            raise pickle.PicklingError
        members: dict[str, Any] = {name: value[name].value for name in value.__members__}
        functions = (types.FunctionType, classmethod, staticmethod, property)
        rest = {
            name: each
            for name, each in own.items()
            if isinstance(each, functions) and name not in dir(enum.Enum) and not _is_shared(each)
        }
        made = (type(value), value.__name__, value.__bases__, members, value.__module__)
        return _make_enum, made, rest, None, None, _set_class


def _all_code(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _all_code(each)


def _is_empty(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - the only way to learn it
    except ValueError:
        return True
    return False


# Reduction of objects that pickle cannot reduce


def _reduce_type_variable(_: _Freezer, value: TypeVar) -> Any:
    kind = (value.__bound__, value.__covariant__, value.__contravariant__)
    return _make_type_variable, (value.__name__, value.__constraints__, *kind)


def _reduce_reference(_: _Freezer, value: weakref.ref[Any]) -> Any:
    target = value()
    if target is None:
        raise pickle.PicklingError
    return type(value), (target, value.__callback__)


def _reduce_logger(_: _Freezer, value: logging.Logger) -> Any:
    # Pickle would find the one logger of this name. Nothing shows the messages of a copy.
    own = {name: each for name, each in vars(value).items() if name not in vars(logging.Logger(""))}
    return type(value), (value.name, value.level), own


_HANDLES = (SharedMemory, ShareableList, BaseManager, BaseProxy)
"""Types whose copies would all have the same memory, here or in the process of a manager."""


def _refuse_handle(_: _Freezer, value: Any) -> Any:
    raise pickle.PicklingError


_PARTS: dict[type, Callable[[_Freezer, Any], Any]] = {
    types.FunctionType: _Freezer._reduce_function,
    types.CellType: lambda _, value: (types.CellType, ()),
    types.MethodType: lambda _, value: (types.MethodType, (value.__func__, value.__self__)),
    types.ModuleType: _Freezer._reduce_module,
    _Space: _Freezer._reduce_space,
    type(functools.lru_cache(len)): lambda _, value: (_make_cached, (value.__wrapped__, value.cache_parameters())),
    type: _Freezer._reduce_class,
    classmethod: lambda _, value: (type(value), (value.__func__,)),
    staticmethod: lambda _, value: (type(value), (value.__func__,)),
    property: lambda _, value: (property, (value.fget, value.fset, value.fdel, value.__doc__)),
    functools.cached_property: lambda _, value: (
        functools.cached_property,
        (value.func,),
        {"attrname": value.attrname, "__doc__": value.__doc__},
    ),
    types.MappingProxyType: lambda _, value: (types.MappingProxyType, (dict(value),)),
    TypeVar: _reduce_type_variable,
    weakref.ref: _reduce_reference,
    logging.Logger: _reduce_logger,
    **dict.fromkeys(_HANDLES, _refuse_handle),
}


# Thawing


class _Thawer(pickle.Unpickler):
    def __init__(self, data: bytes, buffers: list[Any], shared: list[Any]) -> None:
        super().__init__(io.BytesIO(data), buffers=buffers)
        self._shared = shared
        self.found: list[Any] = []

    def persistent_load(self, place: int) -> Any:
        return self._shared[place]

    def find_class(self, module: str, name: str) -> Any:
        # An object that is found by its name would be the same in all copies.
        found = super().find_class(module, name)
        if not is_installed(module):
            raise pickle.UnpicklingError
        self.found.append(found)
        return found


def _refuse_same(first: _Thawer, second: _Thawer) -> None:
    """Raise an error for an object that two copies have both, where its class looks up an instance to restore it.

    Contents of installed packages may be in both, and constants without attributes, such as NaT.
    """
    known = {id(each) for each in first.found}
    other: dict[int, Any] = second.memo.copy()
    for place, value in first.memo.copy().items():
        is_same = other.get(place) is value and id(value) not in known and not isinstance(value, enum.Enum)
        # NaT of pandas has a name of its module only.
        has_own = bool(getattr(value, "__dict__", {}).keys() - {"__module__"})
        if is_same and has_own:
            raise pickle.PicklingError


def _return_space(space: Any) -> Any:
    return space


def _make_space(name: Any, package: Any, imports: _Imports, unnamed: dict[str, Any]) -> types.ModuleType:
    made = types.ModuleType(str(name))
    vars(made).update(unnamed)
    vars(made).update(__name__=name, __package__=package, __builtins__={**vars(builtins), "__import__": imports})
    return made


def _fill(filled: Any, variables: dict[str, Any]) -> None:
    (filled if isinstance(filled, dict) else vars(filled)).update(variables)


def _make_function(code: Any, space: types.ModuleType, name: str, cells: Any) -> types.FunctionType:
    return types.FunctionType(code, vars(space), name, None, cells)


def _set_function(made: types.FunctionType, state: Any) -> None:
    filled, attributes, own, named = state
    for cell, contents in filled:
        cell.cell_contents = contents
    for name, value in attributes.items():
        setattr(made, name, value)
    vars(made).update(own)
    made.__globals__.update(named)


def _make_class(kind: Any, name: str, bases: tuple[type, ...], own: dict[str, Any]) -> Any:
    return kind(name, bases, dict(own))


def _make_enum(kind: Any, name: str, bases: tuple[type, ...], members: dict[str, Any], module: str) -> Any:
    names = kind.__prepare__(name, bases)
    names["__module__"] = module
    for member, value in members.items():
        names[member] = value
    return kind(name, bases, names)


def _set_class(made: type, own: dict[str, Any]) -> None:
    for name, value in own.items():
        type.__setattr__(made, name, value)


def _make_type_variable(name: str, constraints: Any, bound: Any, covariant: bool, contravariant: bool) -> Any:
    return TypeVar(name, *constraints, bound=bound, covariant=covariant, contravariant=contravariant)


def _make_cached(function: Any, parameters: dict[str, Any]) -> Any:
    return functools.lru_cache(**parameters)(function)


# Refusals


def _find_uncopied(value: Any, path: str, seen: set[int]) -> str:
    """Return the name and the type of the innermost part that cannot be copied."""
    seen.add(id(value))
    for name, part in () if isinstance(value, _HANDLES) else _parts(value):
        if id(part) not in seen and not _can_freeze(part):
            return _find_uncopied(part, name or path, seen)
    return f"{path}, of type {type(value).__name__}"


def _can_freeze(value: Any) -> bool:
    try:
        Frozen.__new__(Frozen)._freeze(value)
    except Exception:
        return False
    return True


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of an object with their names, which are empty for entries of containers."""
    if isinstance(value, types.FunctionType):
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            if not _is_empty(cell):
                yield f"the variable {name!r} of an enclosing function", cell.cell_contents
        for each in value.__defaults__ or ():
            yield "a default of an argument", each
        for name, each in (value.__kwdefaults__ or {}).items():
            yield f"the default of {name!r}", each
        if not _is_shared(value):
            reader, variables = _Freezer(), value.__globals__
            for name in sorted(reader._read_code(value) & variables.keys()):
                yield f"the module variable {name!r}", variables[name]
                if isinstance(variables[name], types.ModuleType) and not _is_shared(variables[name]):
                    own = vars(variables[name])
                    yield from ((f"the variable {name}.{each}", own[each]) for each in reader._names & own.keys())
    elif isinstance(value, functools.partial):
        yield "the function of a partial", value.func
        yield from (("an argument of a partial", each) for each in value.args)
        yield from ((f"the argument {name!r} of a partial", each) for name, each in value.keywords.items())
    elif isinstance(value, types.MethodType):
        yield "the object of a method", value.__self__
        yield "the function of a method", value.__func__
    elif isinstance(value, dict | types.MappingProxyType):
        yield from (("", each) for each in itertools.chain(value, value.values()))
    elif isinstance(value, list | tuple | set | frozenset):
        yield from (("", each) for each in value)
    own = getattr(value, "__dict__", {})
    if isinstance(own, dict | types.MappingProxyType) and not isinstance(value, types.ModuleType | enum.EnumMeta):
        yield from ((f"the attribute {name!r}", each) for name, each in own.items() if not isinstance(each, _STORAGE))
