"""The copier's table of forms: memory that one block could leave to the next, in everything that Python calls."""

from __future__ import annotations

import abc
import array
import collections
import contextlib
import dataclasses
import datetime
import enum
import functools
import importlib
import io
import logging
import multiprocessing
import pickle
import random
import re
import signal
import sys
import threading
import types
import typing
import weakref
import zoneinfo
from collections.abc import Callable, Iterator
from multiprocessing.shared_memory import ShareableList
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest

from dpstats.data import Table
from dpstats.errors import InvalidParameter
from dpstats.privacy import PrivacyBudget
from dpstats.statistic import PrivateStatistic, check_locality
from dpstats.statistic.copies import Frozen, is_installed
from dpstats.statistic.isolation import block_rows, evaluate_blocks

X = np.random.default_rng(0).normal(size=(60, 1))

# Every form makes a function with a memory: a second call of one and the same object gives another value.
FORMS: dict[str, Callable[[], Callable[..., Any]]] = {}
Form = Callable[[], Callable[..., Any]]


def form(make: Form) -> Form:
    FORMS[make.__name__] = make
    return make


def counter() -> Callable[..., float]:
    seen: list[float] = []

    def count(block: Any, scale: float = 1.0) -> float:
        seen.append(float(np.sum(block)))
        return scale * len(seen)

    return count


form(counter)


@form
def nonlocal_number() -> Any:
    n = 0

    def count(block: Any) -> float:
        nonlocal n
        n += 1
        return n

    return count


@form
def shared_cell() -> Any:
    n = 0

    def bump() -> None:
        nonlocal n
        n += 1

    def count(block: Any) -> float:
        bump()
        return n

    return count


@form
def default() -> Any:
    def count(block: Any, seen: list[int] = []) -> float:  # noqa: B006
        seen.append(1)
        return len(seen)

    return count


@form
def keyword_default() -> Any:
    def count(block: Any, *, seen: dict[int, int] = {}) -> float:  # noqa: B006
        seen[len(seen)] = 1
        return len(seen)

    return count


@form
def attribute_of_itself() -> Any:
    def count(block: Any) -> float:
        count.n += 1  # type: ignore[attr-defined]
        return float(count.n)  # type: ignore[attr-defined]

    count.n = 0  # type: ignore[attr-defined]
    return count


@form
def attribute_of_another() -> Any:
    other = counter()
    other.kept = []  # type: ignore[attr-defined]

    def count(block: Any) -> float:
        other.kept.append(1)  # type: ignore[attr-defined]
        return len(other.kept)  # type: ignore[attr-defined]

    return count


@form
def recursive() -> Any:
    seen: list[int] = []

    def count(block: Any, depth: int = 3) -> float:
        seen.append(depth)
        return len(seen) if depth == 0 else count(block, depth - 1)

    return count


@form
def mutually_recursive() -> Any:
    seen: list[int] = []

    def even(block: Any, depth: int = 4) -> float:
        seen.append(depth)
        return len(seen) if depth == 0 else odd(block, depth - 1)

    def odd(block: Any, depth: int) -> float:
        return even(block, depth - 1)

    return even


@form
def wrapped() -> Any:
    inner = counter()

    @functools.wraps(inner)
    def count(block: Any) -> float:
        return count.__wrapped__(block)

    return count


@form
def partial() -> Any:
    return functools.partial(counter(), scale=2.0)


@form
def partial_argument() -> Any:
    def count(seen: list[int], block: Any) -> float:
        seen.append(1)
        return len(seen)

    return functools.partial(count, [])


class Called:
    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __call__(self, block: Any) -> float:
        return float(self.inner(block))

    def method(self, block: Any) -> float:
        return float(self.inner(block))

    by_part = functools.partialmethod(lambda self, scale, block: self.inner(block, scale), 2.0)


class Slotted:
    __slots__ = ("__weakref__", "inner")

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __call__(self, block: Any) -> float:
        return float(self.inner(block))


@dataclasses.dataclass
class Data:
    seen: list[int] = dataclasses.field(default_factory=list)

    def __call__(self, block: Any) -> float:
        self.seen.append(len(dataclasses.fields(self)))
        return sum(self.seen)


class Mapping(dict[str, int]):
    def __call__(self, block: Any) -> float:
        self["n"] = self.get("n", 0) + 1
        return self["n"]


@form
def called() -> Any:
    return Called(counter())


@form
def bound_method() -> Any:
    return Called(counter()).method


@form
def partial_method() -> Any:
    return Called(counter()).by_part


@form
def slots() -> Any:
    return Slotted(counter())


@form
def data_class() -> Any:
    return Data()


@form
def subclass_of_a_container() -> Any:
    return Mapping()


@form
def nested() -> Any:
    held = Called(Slotted({"k": [functools.partial(counter(), scale=2.0)]}))
    return lambda block: held.inner.inner["k"][0](block)


@form
def in_containers() -> Any:
    ordered = collections.OrderedDict(f=(counter(),))
    return lambda block: ordered["f"][0](block)


@form
def default_dict() -> Any:
    seen: Any = collections.defaultdict(list)

    def count(block: Any) -> float:
        seen["x"].append(1)
        return len(seen["x"])

    return count


@form
def other_containers() -> Any:
    many, few = collections.deque([0]), array.array("d", [0.0])

    def count(block: Any) -> float:
        many.append(1)
        few[0] += 1
        return len(many) + few[0]

    return count


@form
def mapping_proxy() -> Any:
    seen: dict[str, list[int]] = {"x": []}
    view = types.MappingProxyType(seen)

    def count(block: Any) -> float:
        view["x"].append(1)
        return len(view["x"])

    return count


@form
def arrays() -> Any:
    kept, column = np.zeros(1), np.zeros((3, 2), order="F")[::2]

    def count(block: Any) -> float:
        kept[0] += 1
        column[0, 1] += 1
        return float(kept[0] + column[0, 1])

    return count


@form
def array_of_objects() -> Any:
    kept = np.array([counter()], dtype=object)
    return lambda block: kept[0](block)


@form
def frame() -> Any:
    kept = pd.DataFrame({"n": [0.0]})

    def count(block: Any) -> float:
        kept.loc[0, "n"] += 1
        return float(kept.loc[0, "n"])

    return count


@form
def estimator() -> Any:
    from sklearn.linear_model import SGDRegressor

    model = SGDRegressor(random_state=0, warm_start=True)
    return lambda block: float(model.partial_fit(block, 1 + block[:, 0]).coef_[0])


@form
def generator_of_numpy() -> Any:
    rng = np.random.default_rng(0)
    return lambda block: float(rng.random())


@form
def old_generator_of_numpy() -> Any:
    draw = np.random.RandomState(0).normal
    return lambda block: float(draw())


@form
def generator_of_python() -> Any:
    rng = random.Random(0)
    return lambda block: rng.random()


@form
def iterator() -> Any:
    numbers = iter(range(10**6))
    return lambda block: float(next(numbers))


@form
def text_in_memory() -> Any:
    kept = io.StringIO()
    return lambda block: float(kept.write("a") + kept.tell())


@form
def method_of_a_list() -> Any:
    seen: list[Any] = []
    keep = seen.append
    return lambda block: float(len(seen) if keep(1) is None else 0)


@form
def cache() -> Any:
    @functools.lru_cache
    def seen() -> list[int]:
        return []

    def count(block: Any) -> float:
        seen().append(1)
        return len(seen())

    return count


@form
def recursive_cache() -> Any:
    @functools.cache
    def seen(depth: int = 2) -> list[int]:
        return seen(depth - 1) if depth else []

    def count(block: Any) -> float:
        seen().append(1)
        return len(seen())

    return count


@form
def cached_property() -> Any:
    class Holder:
        @functools.cached_property
        def seen(self) -> list[int]:
            return []

    held = Holder()

    def count(block: Any) -> float:
        held.seen.append(1)
        return len(held.seen)

    return count


@form
def weak_reference() -> Any:
    held = Called([])
    weak = weakref.ref(held)

    def count(block: Any) -> float:
        weak().inner.append(1)  # type: ignore[union-attr]
        return len(held.inner)

    return count


@form
def single_dispatch() -> Any:
    inner = counter()

    @functools.singledispatch
    def count(block: Any) -> float:
        raise TypeError

    count.register(np.ndarray, lambda block: inner(block))
    return lambda block: count(block)


@form
def local_class() -> Any:
    class Local:
        n = 0

        def __call__(self, block: Any) -> float:
            Local.n += 1
            return Local.n

    return Local()


@form
def base_of_a_local_class() -> Any:
    class Base(abc.ABC):
        seen: typing.ClassVar[list[int]] = []

        @classmethod
        def keep(cls) -> int:
            cls.seen.append(1)
            return len(cls.seen)

        @abc.abstractmethod
        def number(self) -> int: ...

        @property
        def value(self) -> float:
            return self.number()

    class Derived(Base):
        __slots__ = ("held",)

        def __init__(self) -> None:
            super().__init__()
            self.held = 1

        @staticmethod
        def one() -> int:
            return 1

        def number(self) -> int:
            return super().keep() * self.held * self.one()

    return lambda block: Derived().value


@form
def generic_class() -> Any:
    T = typing.TypeVar("T")

    class Box(typing.Generic[T]):
        seen: typing.ClassVar[list[int]] = []

        def count(self) -> float:
            self.seen.append(1)
            return len(self.seen)

    return lambda block: Box[int]().count()


@form
def named_tuple() -> Any:
    Pair = collections.namedtuple("Pair", "seen n")
    pair = Pair([], 1)

    def count(block: Any) -> float:
        pair.seen.append(pair.n)
        return len(pair._replace(n=2).seen)

    return count


@form
def enumeration() -> Any:
    class Kind(enum.Enum):
        KEPT = [0]  # noqa: RUF012
        OTHER = 2

        def next(self) -> int:
            self.value.append(1)
            return len(self.value)

    return lambda block: Kind.KEPT.next() if Kind["KEPT"] is Kind.KEPT else 0


@form
def exception() -> Any:
    class Kept(Exception):
        seen: typing.ClassVar[list[int]] = []

    def count(block: Any) -> float:
        try:
            raise Kept("a")
        except Kept as error:
            error.seen.append(1)
            return len(Kept.seen)

    return count


class Alone:
    """A class whose objects are all told to be copied as themselves."""

    def __init__(self) -> None:
        self.n = 0

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __call__(self, block: Any) -> float:
        self.n += 1
        return self.n


@form
def own_deep_copy() -> Any:
    return Alone()


KEPT: list[int] = []
N = 0


def of_the_module(block: Any) -> float:
    KEPT.append(1)
    return len(KEPT)


def by_global(block: Any) -> float:
    global N
    N += 1
    return N


def by_a_called_function(block: Any) -> float:
    return [of_the_module(block) for _ in range(2)][-1]


class InModule:
    seen: typing.ClassVar[list[int]] = []

    def __call__(self, block: Any) -> float:
        self.seen.append(1)
        return len(InModule.seen)


for each in (of_the_module, by_global, by_a_called_function):
    FORMS[each.__name__] = lambda each=each: each  # type: ignore[misc]
FORMS["class_of_the_module"] = InModule

HELPER = """
import math
seen, box, lock = [], {"n": 0}, __import__("threading").Lock()
def count(block):
    seen.append(1)
    return len(seen)
class Holder:
    seen = []
    def count(self, block):
        self.seen.append(1)
        return len(Holder.seen)
"""


@pytest.fixture(autouse=True)
def helper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make a package of the user: its modules are in no folder of installed packages."""
    folder = tmp_path / "own_helpers"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "kept.py").write_text(HELPER)
    (folder / "beside.py").write_text("def count(block):\n    from . import kept\n    return kept.count(block)\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in [name for name in sys.modules if name.startswith("own_helpers")]:
        del sys.modules[name]


def written(text: str) -> Any:
    names: dict[str, Any] = {"__name__": "written"}
    exec(text, names)
    return names["count"]


TEXTS = {
    "imported_module": "import own_helpers.kept as k\ndef count(b): return k.count(b)",
    "imported_package": "import own_helpers.kept\ndef count(b): return own_helpers.kept.count(b)",
    "imported_function": "from own_helpers.kept import count",
    "imported_class": "from own_helpers.kept import Holder\ndef count(b): return Holder().count(b)",
    "variable_of_a_module": "import own_helpers.kept as k\ndef count(b):\n k.box['n'] += 1\n return k.box['n']",
    "set_variable_of_a_module": "import own_helpers.kept as k\nk.n = 0\ndef count(b):\n k.n += 1\n return k.n",
    "import_inside": "def count(b):\n from own_helpers.kept import count\n return count(b)",
    "module_import_inside": "def count(b):\n import own_helpers.kept\n return own_helpers.kept.count(b)",
    "relative_import_inside": "from own_helpers.beside import count",
    "both_paths": "import own_helpers.kept as k\ndef count(b):\n import own_helpers.beside as x\n k.seen.append(1)\n"
    " return x.count(b)",
}


@form
def logger() -> Any:
    kept = logging.getLogger("dpstats.tests.copies")
    kept.n = 0  # type: ignore[attr-defined]

    def count(block: Any) -> float:
        kept.n += 1  # type: ignore[attr-defined]
        kept.error("%s", block)
        return float(kept.n)  # type: ignore[attr-defined]

    return count


FORMS |= {name: lambda text=text: written(text) for name, text in TEXTS.items()}  # type: ignore[misc]


@pytest.mark.parametrize("make", FORMS.values(), ids=FORMS)
def test_no_form_carries_a_block_to_the_next(make: Form) -> None:
    found = check_locality(make(), X)
    assert found.local and not found.failed, found.first_error


@pytest.mark.parametrize("make", FORMS.values(), ids=FORMS)
def test_every_form_has_a_memory_that_the_check_finds(make: Form, monkeypatch: pytest.MonkeyPatch) -> None:
    # Planted: all blocks call the function itself, which gives the n-th call another value than the first, and find
    # the modules of the user.
    monkeypatch.setattr("dpstats.statistic.isolation.hide_modules", lambda: contextlib.nullcontext(lambda: None))
    monkeypatch.setattr(Frozen, "thaw", lambda self: self.live)
    monkeypatch.setattr(Frozen, "__init__", lambda self, function: setattr(self, "live", function))
    assert not check_locality(make(), X).local


@pytest.mark.parametrize("make", FORMS.values(), ids=FORMS)
def test_a_copy_in_another_process_has_the_value_of_one_here(make: Form) -> None:
    frozen = Frozen(make())
    again = pickle.loads(pickle.dumps(frozen))
    block = X[:6]
    assert [np.ravel(again.thaw()(block)).tolist() for _ in range(2)] == [np.ravel(frozen.thaw()(block)).tolist()] * 2


# What cannot be copied


def generator() -> Any:
    numbers = (float(i) for i in range(10**6))
    return lambda block: next(numbers)


def lock() -> Any:
    guard = threading.Lock()

    def count(block: Any) -> float:
        with guard:
            return 1.0

    return count


def held_lock() -> Any:
    held = Called(None)
    held.inner = {"k": [threading.Lock()]}
    return lambda block: float(held.inner["k"][0].locked())


def open_file() -> Any:
    kept = sys.__stderr__
    return functools.partial(lambda kept, block: float(kept.tell()), kept)


def of_threads() -> Any:
    kept = threading.local()

    def count(block: Any, *, kept: Any = kept) -> float:
        kept.n = getattr(kept, "n", 0) + 1
        return float(kept.n)

    return count


def dead_reference() -> Any:
    weak = weakref.ref(Called(None))
    return lambda block: float(weak() is None)


class Single:
    """Reduces to its name, which all copies would find."""

    def __init__(self) -> None:
        self.n = 0

    def __reduce__(self) -> str:
        return "SINGLE"

    def __call__(self, block: Any) -> float:
        self.n += 1
        return self.n


SINGLE = Single()


def single() -> Any:
    return lambda block: SINGLE(block)


def planets() -> Any:
    class Planet(enum.Enum):
        EARTH = (1.0, [])

        def __init__(self, mass: float, seen: Any) -> None:
            self.seen = seen

    return lambda block: float(len(Planet.EARTH.seen))


class Finds:
    """Reduces to a function of an installed package that finds the same object again and again."""

    def __reduce__(self) -> Any:
        return logging.getLogger, ("dpstats.tests.copies",)


def found_again() -> Any:
    kept = Finds()
    return lambda block: float(kept is None)


def shared_memory() -> Any:
    # Its name leads every copy to the same memory.
    kept = ShareableList([0])
    kept.shm.unlink()

    def count(block: Any) -> float:
        kept[0] += 1
        return float(kept[0])

    return count


def lock_of_a_module() -> Any:
    return written("import own_helpers.kept as k\ndef count(b):\n with k.lock: return 1.0")


REFUSED = {
    generator: "the variable 'numbers' of an enclosing function, of type generator",
    lock: "the variable 'guard' of an enclosing function, of type lock",
    held_lock: "the attribute 'inner', of type lock",
    open_file: "an argument of a partial, of type TextIOWrapper",
    of_threads: "the default of 'kept', of type _local",
    dead_reference: "the variable 'weak' of an enclosing function, of type ",
    single: "the module variable 'SINGLE', of type Single",
    planets: "the variable 'Planet' of an enclosing function, of type Enum",
    found_again: "the variable 'kept' of an enclosing function, of type Finds",
    shared_memory: "the variable 'kept' of an enclosing function, of type ShareableList",
    lock_of_a_module: "the variable k.lock, of type lock",
}


@pytest.mark.parametrize(("make", "what"), REFUSED.items(), ids=lambda item: getattr(item, "__name__", ""))
def test_what_has_no_copy_is_refused_before_the_charge(make: Form, what: str) -> None:
    budget = PrivacyBudget(epsilon=1.0)
    estimator = PrivateStatistic(make(), blocks=60, bias=None, epsilon=1.0, budget=budget)
    with pytest.raises(InvalidParameter) as refusal:
        estimator.fit(np.tile(X, (5, 1)))
    assert f"got {what}" in str(refusal.value)
    assert refusal.value.__suppress_context__ and "Create it inside the function" in str(refusal.value)
    assert budget.spent.epsilon == 0


def test_a_handle_of_another_process_is_refused() -> None:
    # Its copies would all append to one list.
    with multiprocessing.Manager() as manager:
        kept = manager.list()
        with pytest.raises(InvalidParameter, match="the variable 'kept' of an enclosing function, of type ListProxy"):
            Frozen(lambda block: kept.append(1))


def test_constants_that_packages_look_up_are_no_memory() -> None:
    constants = [
        *(re.compile("x"), zoneinfo.ZoneInfo("UTC"), datetime.UTC, np.dtype("f8"), np.float64, np.sum, signal.SIGINT),
        *(
            pd.NA,
            pd.NaT,
            pd.CategoricalDtype(["a"]),
            pd.Int64Dtype(),
            pd.DatetimeTZDtype(tz="UTC"),
            ...,
            NotImplemented,
        ),
    ]
    assert Frozen(lambda block: float(len(constants))).thaw()(X) == len(constants)


def test_a_refusal_shows_no_value_of_what_was_captured() -> None:
    class Telling:
        def __reduce__(self) -> Any:
            raise ValueError("31.4159 Baker Street")

    told = Telling()
    with pytest.raises(InvalidParameter) as refusal:
        Frozen(lambda block: float(told is None))
    assert "31.4159" not in str(refusal.value) and "'told'" in str(refusal.value)


# What is shared, and what a copy is like


def test_installed_modules_are_shared_and_modules_of_the_user_are_not() -> None:
    assert all(is_installed(name) for name in ("numpy", "os", "sys", "builtins", "random", "pytest", "dpstats"))
    import own_helpers.kept  # noqa: F401

    assert not any(is_installed(name) for name in ("__main__", __name__, "own_helpers.kept", "none", None))
    for function in (np.mean, np.add, len, pd.Series.mean, np.median):
        assert Frozen(function).thaw() is function


def test_the_global_generators_are_shared_as_every_call_seeds_them() -> None:
    from numpy.random import normal

    draw, of_python = normal, random.random
    found = check_locality(lambda block: float(draw()) + of_python(), X)
    assert found.local and not found.failed
    made = Frozen(lambda block: (draw.__self__, of_python.__self__)).thaw()(0)
    assert made[0] is normal.__self__ and made[1] is random.random.__self__


def test_a_copy_does_what_the_function_does() -> None:
    if X.size == 0:
        helper_that_is_not_there = None

    def absent(block: Any) -> Any:
        """Use a variable that was never set."""
        return helper_that_is_not_there

    with pytest.raises(NameError):
        Frozen(absent).thaw()(X)
    assert Frozen(absent).thaw().__doc__ == absent.__doc__
    made = Frozen(base_of_a_local_class()).thaw()
    assert made(X) == 1.0

    def told(block: Any) -> Any:
        return (dataclasses.is_dataclass(Data), isinstance(Data(), Data), len(dataclasses.fields(Data)), __name__)

    assert Frozen(told).thaw()(X) == (True, True, 1, __name__)
    assert Frozen(told).thaw().__module__ == __name__


def test_the_function_and_its_variables_stay_as_they_were() -> None:
    before = len(KEPT), N, list(InModule.seen)
    for function in (of_the_module, by_global, InModule()):
        Frozen(function).thaw()(X)
    assert (len(KEPT), N, list(InModule.seen)) == before


def test_a_later_change_does_not_reach_what_was_frozen() -> None:
    weights = np.array([1.0])
    frozen = Frozen(lambda block: float(weights[0]))
    weights[0] = 2.0
    assert frozen.thaw()(X) == 1.0


def test_read_only_arrays_stay_so() -> None:
    kept = np.zeros(3)
    kept.flags.writeable = False
    assert not Frozen(lambda block: kept.flags.writeable).thaw()(X)


@pytest.mark.parametrize("make", [counter, local_class, recursive, lambda: by_global, lambda: InModule()])
@pytest.mark.parametrize("jobs", [1, 2])
def test_one_row_moves_one_block_on_any_number_of_processes(make: Form, jobs: int) -> None:
    # The order is public here. The value of a block counts the calls in it: six with the jackknife.
    rows = np.random.default_rng(1).normal(size=(400, 1))
    other = rows.copy()
    other[17] = 90.0
    found = []
    for data in (rows, other):
        estimator = PrivateStatistic(make(), blocks=80, n_jobs=jobs)
        plan = estimator.plan(len(data), 1)
        from dpstats.data.rows import Table

        private = estimator._read(Table(data), plan)
        found.append(estimator._values(private, np.arange(len(data)), plan))
    assert (found[0] != found[1]).sum() <= 1
    assert len(np.unique(found[0])) == 1


def test_threads_that_the_surroundings_prefer_are_not_used() -> None:
    def name(block: Any) -> float:
        return float(threading.current_thread() is threading.main_thread())

    with joblib.parallel_config(backend="threading"):
        fit = PrivateStatistic(name, blocks=60, bias=None, epsilon=1e4, n_jobs=2, random_state=0).fit(
            np.tile(X, (5, 1))
        )
    assert fit.estimate_ == pytest.approx(1.0, abs=0.01)


def write_module(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "module_of_a_user.py").write_text("class Kept:\n    total = 0.0\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "module_of_a_user", raising=False)


MANY = "".join(f"    c{i} = {i}.5\n" for i in range(300))
IMPORTS = {
    "a statement after many constants": f"{MANY}    from module_of_a_user import Kept\n",
    "importlib": "    import importlib\n    Kept = importlib.import_module('module_of_a_user').Kept\n",
    "a function": "    Kept = __import__('module_of_a_user').Kept\n",
    "code in text": "    own = {}\n    exec('import module_of_a_user', own)\n    Kept = own['module_of_a_user'].Kept\n",
    "sys.modules": "    import module_of_a_user, sys\n    Kept = sys.modules['module_of_a_user'].Kept\n",
    "the module that is run": (
        "    import sys\n    own = vars(sys.modules['__main__'])\n"
        "    Kept = own.setdefault('Kept', type('Kept', (), {'total': 0.0}))\n"
    ),
}


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("how", IMPORTS)
def test_no_way_to_import_leads_to_what_another_block_left(
    how: str, known: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_module(tmp_path, monkeypatch)
    if known:
        importlib.import_module("module_of_a_user")
    variables: dict[str, Any] = {}
    exec(f"def told(block):\n{IMPORTS[how]}    Kept.total += 1\n    return Kept.total\n", variables)
    found = check_locality(variables["told"], np.arange(100.0))
    assert found.local
    if known:
        assert sys.modules["module_of_a_user"].Kept.total == 0.0


def test_a_module_that_only_has_the_name_of_an_installed_one_is_copied() -> None:
    made = types.ModuleType("json")
    made.total = 0.0  # type: ignore[attr-defined]

    def told(block: Any) -> float:
        made.total += 1.0  # type: ignore[attr-defined]
        return float(made.total)  # type: ignore[attr-defined]

    assert check_locality(told, np.arange(100.0)).local and made.total == 0.0  # type: ignore[attr-defined]


def test_modules_that_a_block_makes_or_takes_away_are_not_so_for_the_next(capsys: pytest.CaptureFixture[str]) -> None:
    importlib.import_module("colorsys")
    before = dict(sys.modules)

    class Loud:
        def __del__(self) -> None:
            print("left")

    def told(block: Any) -> float:
        found = sys.modules.pop("colorsys") is not None and "made by a block" not in sys.modules
        sys.modules["made by a block"] = sys.modules[31] = Loud()  # type: ignore
        return float(found)

    blocks = block_rows(Table(np.zeros((20, 1))), np.arange(20), 4, False)
    values = evaluate_blocks(Frozen(told), blocks, None, 1)
    assert np.array_equal(values, np.ones((4, 1))) and sys.modules == before
    assert capsys.readouterr().out == ""


LIMIT = 0.5


def test_names_in_text_that_libraries_evaluate_are_found() -> None:
    import pandas as pd

    def told(block: Any) -> float:
        return float(len(pd.DataFrame({"a": block[:, 0]}).query("a > @LIMIT")))

    assert Frozen(told).thaw()(np.array([[0.0], [1.0]])) == 1.0


def test_a_masked_number_is_a_failed_block() -> None:
    assert check_locality(lambda block: np.ma.masked, np.arange(100.0)).failed == 10
    assert check_locality(lambda block: np.ma.array([1.0], mask=[True]), np.arange(100.0)).failed == 10
