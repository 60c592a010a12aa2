"""Replay of a release on neighbors: check one neighbor, or search for the worst."""

from __future__ import annotations

import copy
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import pathlib
import types
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dpstats.auditing.movement import (
    DIFFERS,
    FOLLOWS,
    LEFT_OPEN,
    NOT_COMPARED,
    NOT_REACHED,
    NOT_REPEATED,
    SensitivityCheck,
    worst_of_each,
)
from dpstats.data.parameters import check_choice, check_integer, check_real
from dpstats.errors import InvalidData, InvalidParameter, attempt, refuse
from dpstats.privacy.guarantee import Neighbors, parse_neighbors
from dpstats.release.mechanism import Releasing
from dpstats.release.witness import NORMS, Witness

# Two datasets that are neighbors, and the comparison of two outputs, item by item


def split_parts(data: Any) -> tuple[Any, ...]:
    """Return rows, or rows and their outcome."""
    return data if isinstance(data, tuple) and len(data) == 2 else (data,)


def check_relation(dataset: Any, neighbor: Any, relations: Iterable[Neighbors], most: int = 1) -> None:
    """Raise an error for a pair that visibly has another relation than the stages.

    A unit has at most ``most`` rows.
    """
    sizes = _rows(dataset), _rows(neighbor)
    if sizes[0] is None or sizes[1] is None:
        return
    more = abs(sizes[0] - sizes[1])
    pair = Neighbors.REPLACE_ONE if more == 0 else Neighbors.ADD_OR_REMOVE_ONE if more <= most else None
    words = "no neighbors" if pair is None else f"a pair of {pair.name} ({pair.value})"
    for relation in sorted(set(relations), key=lambda item: item.name):
        if relation is not pair:
            raise InvalidParameter(
                f"dataset and neighbor must be neighboring datasets of the release, {relation.name} "
                f"({relation.value}): with {sizes[0]} and {sizes[1]} rows they are {words}"
            )


def _rows(data: Any) -> int | None:
    first = split_parts(data)[0]
    if isinstance(first, str | bytes | Mapping):
        return None
    try:
        return len(first)
    except TypeError:  # one number, say
        return None


def check_neighbors(dataset: Any, neighbor: Any, most: int, *, counts: bool = False, added: bool = False) -> None:
    """Raise an error for tables (or histograms, if they are counts) that are visibly not neighbors.

    If rows are ``added`` or removed, the tables have different numbers of rows.
    """
    try:
        first, second = (_table(data) for data in (dataset, neighbor))
    except (TypeError, ValueError):
        return
    if first.shape[1:] != second.shape[1:] or (not added and len(first) != len(second)):
        raise refuse(
            "neighbor", got=f"{second.shape}", allowed=f"have as many rows and columns as dataset, {first.shape}"
        )
    if counts:
        try:
            less = sum(max(a - b, 0) for a, b in zip(first.ravel(), second.ravel(), strict=True))
        except TypeError:
            return
        _check_distance(less, most)
        return
    rows = [Counter(tuple(map(_value, row)) for row in table.tolist()) for table in (first, second)]
    _check_distance(max((rows[0] - rows[1]).total(), (rows[1] - rows[0]).total()), most)


def _check_distance(apart: Any, most: int) -> None:
    if apart > most:
        raise refuse("neighbor", got=f"{apart}", allowed=f"not differ from dataset in more than rows_apart={most} rows")


def _table(data: Any) -> np.ndarray[Any, Any]:
    return np.column_stack([np.asarray(part).reshape(len(part), -1).astype(object) for part in split_parts(data)])


def _value(item: Any) -> Any:
    """Return a key that is equal for equal values: for 1 and 1.0, and for NaN and NaN."""
    if isinstance(item, float) and item != item:
        return "NaN"
    try:
        hash(item)
    except TypeError:
        return repr(item)
    return item


Path = tuple[Any, ...]
Ids = tuple[int, int]

_PLAIN = (
    *(bool, int, float, complex, str, bytes, bytearray, np.generic, np.dtype, enum.Enum, range, slice),
    *(datetime.date, datetime.time, datetime.timedelta, decimal.Decimal, fractions.Fraction, uuid.UUID),
    pathlib.PurePath,
)
"""Types that their repr describes completely."""


# An item of an unknown type is never treated as equal. It is reported as not compared.
def compare_outputs(first: Any, second: Any) -> tuple[set[Path], set[Path]]:
    """Return the places at which two outputs differ, and the places that cannot be compared."""
    found = _Comparison()
    found.compare(first, second, (), frozenset())
    return found.differ, found.unknown


class _Comparison:
    """The places at which two outputs differ, and those that cannot be compared."""

    def __init__(self) -> None:
        self.differ: set[Path] = set()
        self.unknown: set[Path] = set()
        # Pairs that are equal throughout. The objects are kept, because their ids must not be given to others.
        self._equal: dict[Ids, tuple[Any, Any]] = {}

    def compare(self, a: Any, b: Any, path: Path, within: frozenset[Ids]) -> bool:
        """Add the places below ``path`` that are not equal; return whether everything was compared and is equal.

        ``within`` has the pairs that contain this one.
        """
        if type(a) is not type(b):
            self.differ.add(path)
            return False
        if a is None or isinstance(a, _PLAIN):
            return self._compare_plain(a, b, path, within)
        if isinstance(a, Witness) or (isinstance(a, type | types.ModuleType) and a is b):
            return True  # independent of the data
        pair = id(a), id(b)
        if pair in self._equal or pair in within:
            return pair in self._equal
        one, other = _items(a), _items(b)
        if one is None or other is None:
            self.unknown.add(path)
            return False
        # The order is visible too.
        names = list(map(repr, one))
        if names != list(map(repr, other)):
            self.differ.add(path)
            return False
        within, same = within | {pair}, True
        for name, left, right in zip(names, one.values(), other.values(), strict=True):
            same = self.compare(left, right, (*path, name), within) and same
        if same:
            self._equal[pair] = a, b
        return same

    def _compare_plain(self, a: Any, b: Any, path: Path, within: frozenset[Ids]) -> bool:
        same = _exactly(a) == _exactly(b)
        if not same:
            self.differ.add(path)
        # A subclass may keep more than the value.
        if hasattr(a, "__dict__") and not isinstance(a, enum.Enum):
            same = self.compare(vars(a), vars(b), (*path, "attributes"), within) and same
        return same


def _items(output: Any) -> dict[Any, Any] | None:
    """Return the parts of a collection or an object, or None for an unknown type."""
    if isinstance(output, np.ndarray):
        return _array(output)
    if type(output).__module__.partition(".")[0] == "pandas":
        return _frame(output)
    kept = _name_items(output, getattr(output, "__dict__", ()))
    if isinstance(output, Mapping):
        return {**kept, **output} if all(map(_is_plain, output)) else None
    if isinstance(output, set | frozenset):
        return {**kept, **dict.fromkeys(sorted(output, key=repr))} if all(map(_is_plain, output)) else None
    if isinstance(output, list | tuple):
        return {**kept, **dict(enumerate(output))}
    if isinstance(output, types.FunctionType):
        closure = [cell.cell_contents for cell in output.__closure__ or ()]
        return {"code": repr(output.__code__), "given": output.__defaults__, "closure": closure}
    if isinstance(output, types.MethodType):
        return {"function": output.__func__, "self": output.__self__}
    if isinstance(output, functools.partial):
        return {"function": output.func, "args": output.args, "keywords": output.keywords}
    # A model of scikit-learn keeps its state in its attributes, as the classes of this package do.
    ours = type(output).__module__.partition(".")[0] == "dpstats" or hasattr(output, "__sklearn_tags__")
    if dataclasses.is_dataclass(output) or ours or isinstance(output, types.SimpleNamespace):
        slots = [kind.__dict__.get("__slots__", ()) for kind in type(output).__mro__]
        names = [name for given in slots for name in ((given,) if isinstance(given, str) else given)]
        return _name_items(output, [*names, *getattr(output, "__dict__", ())])
    return None


def _exactly(item: Any) -> tuple[str, bytes]:
    """Return the repr of an item, and the bits of a number: a NaN may carry more than its repr shows."""
    if isinstance(item, float):
        return repr(item), np.float64(item).tobytes()
    if isinstance(item, complex):
        return repr(item), np.complex128(item).tobytes()
    return repr(item), _bits(np.asarray(item)) if isinstance(item, np.generic) else b""


def _bits(values: np.ndarray[Any, Any]) -> bytes:
    """Return the bits of an array of numbers or text; none of a type with padding, whose bits mean nothing."""
    kind, size = values.dtype.kind, values.dtype.itemsize
    padded = kind in "VO" or size > {"f": 8, "c": 16}.get(kind, 1 << 31)
    return b"" if padded else np.ascontiguousarray(values).tobytes()


def _array(output: np.ndarray[Any, Any]) -> dict[Any, Any]:
    # A view shows the array that it is a view of; a subclass, what it keeps.
    form = {"base": output.base, "attributes": getattr(output, "__dict__", None)}
    if isinstance(output, np.ma.MaskedArray):
        return {**form, "data": np.asarray(output.data), "mask": np.ma.getmaskarray(output)}
    form |= {"shape": output.shape, "dtype": str(output.dtype)}
    if output.dtype.hasobject:
        return {**form, **dict(enumerate(output.ravel().tolist()))}
    return {**form, "values": repr(output.ravel().tolist()), "bits": _bits(output)}


def _frame(output: Any) -> dict[Any, Any] | None:
    """Return the parts of a pandas table, one of its columns or an index."""
    if not hasattr(output, "to_numpy"):
        return None
    parts: dict[Any, Any] = {"values": output.to_numpy(dtype=object), "attrs": getattr(output, "attrs", None)}
    for name in ("index", "columns"):
        if hasattr(output, name):
            axis = getattr(output, name)
            parts[name] = (list(axis.names), axis.to_numpy(dtype=object), _categories([axis.dtype]))
    parts["name"] = repr(getattr(output, "name", None))
    kinds: Any = getattr(output, "dtypes", None)
    kinds = kinds.tolist() if hasattr(kinds, "tolist") else [kinds]
    return {**parts, "dtype": str(kinds), "categories": _categories(kinds)}


def _categories(kinds: Iterable[Any]) -> list[Any]:
    """Return the categories of columns, those that no entry has among them."""
    return [kind.categories.to_numpy(dtype=object) for kind in kinds if hasattr(kind, "categories")]


def _name_items(output: Any, names: Iterable[str]) -> dict[Any, Any]:
    return {f".{name}": getattr(output, name) for name in names if hasattr(output, name)}


def _is_plain(item: Any) -> bool:
    """Return whether the repr of an item describes it completely."""
    if isinstance(item, tuple | frozenset):
        return all(map(_is_plain, item))
    return item is None or isinstance(item, _PLAIN)


Run = Callable[[Any, Any, Witness], Any]


def runner(release: Any, sensitivity: float | None, norm: str) -> Run:
    """Return a function that runs a release on data with a witness."""
    check_choice("norm", norm, list(NORMS))
    if isinstance(release, Releasing):
        name = type(release).__name__
        raise refuse(
            "release",
            got=f"a {name}",
            allowed="an estimator or a callable",
            remedy="Give a callable that makes it with random_state=source, such as "
            f"lambda data, source: {name}(..., random_state=source).release(...)",
        )
    if sensitivity is not None:
        moved = check_real("sensitivity", sensitivity, at_least=0)
        if not callable(release):
            raise refuse("release", allowed="a callable that returns a statistic, where sensitivity is given")

        def run_statistic(release: Any, data: Any, witness: Witness) -> None:
            witness.statistic(release(data), sensitivity=moved, norm=norm, name="statistic")

        return run_statistic
    if all(callable(getattr(release, name, None)) for name in ("fit", "get_params", "set_params")):
        return fit_copy
    if not callable(release):
        raise refuse("release", given=release, allowed="an estimator or a callable")
    return lambda release, data, witness: release(data, witness)


def fit_copy(estimator: Any, data: Any, witness: Witness) -> dict[str, Any]:
    """Fit a copy of an estimator, and return all of its visible values."""
    return list_visible(fit(estimator, data, witness))


def fit(estimator: Any, data: Any, witness: Witness) -> Any:
    """Return a copy of an estimator, fitted with a witness."""
    if not {"random_state", "budget"} <= estimator.get_params(deep=False).keys():
        raise refuse("release", given=estimator, allowed="an estimator of dpstats, or a callable that uses one")
    made = copy.copy(estimator)
    made.set_params(random_state=None, budget=None)
    made = _copy_data(made).set_params(random_state=witness)
    made.fit(*split_parts(data))
    if not witness.seen:
        name = type(made).__name__
        raise refuse(
            "release",
            given=estimator,
            allowed="have a stage when it is fitted",
            remedy=f"Give a callable that fits {name}(..., random_state=source) and asks it what it answers.",
        )
    return made


def list_visible(made: Any) -> dict[str, Any]:
    """Return the public values of a fitted estimator, and all of its attributes, which a pickle contains."""
    # Include values that are computed on access, always in one order.
    names = sorted({*vars(made), *dir(type(made))})
    public = {name: _shown(made, name) for name in names if name.endswith("_") and not name.startswith("_")}
    seen = {**public, "kept": vars(made), "repr": repr(made)}
    return {**seen, "summary": str(made.summary())} if hasattr(made, "summary") else seen


def _shown(made: Any, name: str) -> Any:
    try:
        return getattr(made, name)
    except Exception as error:  # some exist on request only
        return f"refused ({type(error).__name__})"


# With the witness, every stage returns its value from the first run. So every difference is due to the neighbor.
class Replay:
    """The run on the first dataset, with which runs on neighbors are compared."""

    def __init__(self, release: Any, run: Run, dataset: Any, seed: int, rows_apart: int = 1) -> None:
        self._release, self._run, self._dataset, self._seed = release, run, dataset, seed
        self._rows_apart = rows_apart
        self._first = Witness(seed)
        self._error: Exception | None = None
        self._changing: set[Path] = set()
        try:
            self._returned = self._done(dataset, self._first)
        except Exception as error:
            self._error = error
            return
        if not self._first.seen:
            raise refuse(
                "release",
                allowed="have a stage, or nothing is checked",
                remedy="Give its source as random_state to what it uses of dpstats, or draw from it "
                "(source.laplace, source.gaussian, source.select, source.statistic).",
            )
        self._changing = self._find_differences()

    def _done(self, data: Any, witness: Witness) -> Any:
        # Copies, as a release may change both.
        return self._run(_copy_data(self._release), _copy_data(data), witness)

    def _find_differences(self) -> set[Path]:
        """Return the differences of the output on the same dataset; raise an error for stages that differ."""
        again = self._first.again()
        try:
            returned, parted = self._done(self._dataset, again), again.finish()
        except Exception as error:
            returned, parted = None, again.parted or f"a run fails ({type(error).__name__})"
        moved = worst_of_each(self._first.seen, again.seen)
        if parted or any(not item.ok or item.ratio > 0 for item in moved):
            what = parted or "its stages are given other numbers"
            raise refuse(
                "release",
                allowed="give the same result on the same dataset when all that it draws is replayed, so that a "
                f"neighbor can be compared: {what}",
                remedy="Draw from source only, and use no clock.",
            )
        return compare_outputs(self._returned, returned)[0]

    def compare_neighbor(self, neighbor: Any, words: str) -> SensitivityCheck:
        """Compare the release on a neighboring dataset with the first."""
        if self._error is not None:
            # If it fails on both, the call is wrong.
            self._done(neighbor, Witness(self._seed))
            course = f"the dataset is refused ({type(self._error).__name__}), and the neighbor is not"
            return SensitivityCheck((), course, NOT_REACHED, words, isinstance(self._error, InvalidData))
        second = self._first.again()
        course, again, refused = "", None, False
        try:
            again = self._done(neighbor, second)
        except Exception as error:
            # Omit its message, which may show the data.
            course = second.parted or f"the neighbor is refused ({type(error).__name__})"
            refused = not second.parted and isinstance(error, InvalidData)
        else:
            # A release may handle the error of a stage that the first run did not request.
            course = second.finish()
        check_relation(self._dataset, neighbor, {*self._first.relations, *second.relations}, self._rows_apart)
        output = NOT_REACHED if course else self._output(again)
        movements = worst_of_each(self._first.seen, second.seen, self._rows_apart)
        return SensitivityCheck(movements, course, output, words, refused)

    def _output(self, again: Any) -> str:
        differ, unknown = compare_outputs(self._returned, again)
        for path in differ:
            # A difference on the same dataset is not due to the neighbor.
            if not any(path[:k] in self._changing for k in range(len(path) + 1)):
                return DIFFERS
        if self._changing:
            return NOT_REPEATED
        return NOT_COMPARED if unknown else FOLLOWS


def _copy_data(given: Any) -> Any:
    """Return a copy of data that a run may change, or the data if they cannot be copied."""
    try:
        return copy.deepcopy(given)
    except Exception:
        return given


def check_sensitivity(
    release: Any,
    dataset: Any,
    neighbor: Any,
    *,
    sensitivity: float | None = None,
    norm: str = "l1",
    rows_apart: int = 1,
    seed: int = 0,
) -> SensitivityCheck:
    """Replay a release on a neighbor, and compare its changes with the declared sensitivities.

    Parameters
    ----------
    release : estimator or callable
        An estimator of this package: it is fitted to copies of itself, and its plan declares. Or a callable
        ``release(data, source)``, which gives ``source`` as ``random_state`` to what it uses of this package,
        or draws from it: ``source.laplace(value, sensitivity=...)``, ``source.gaussian(...)``,
        ``source.select(scores, ...)``, or ``source.statistic(value, sensitivity=..., norm=...)`` where the
        noise is elsewhere. With ``sensitivity``, a callable ``release(data)`` that returns the statistic.
    dataset, neighbor : object
        Two neighboring datasets. Every run gets a copy. For an estimator with an outcome, pairs ``(X, y)``.
    sensitivity : float, optional
        Declared sensitivity of a statistic that ``release(data)`` returns.
    norm : {"l1", "l2", "linf"}, default="l1"
        Norm of ``sensitivity``.
    rows_apart : int, default=1
        Largest number of rows in which the tables of an estimator may differ: more than one if a person has several.
    seed : int, default=0
        Seed of the simulated noise, which both runs share.

    Returns
    -------
    SensitivityCheck

    Raises
    ------
    InvalidParameter
        If the release does not use a stage, so that nothing would be checked. If the tables of an estimator
        are not neighbors, or their numbers of rows imply another relation than the stages have. If the
        release does not repeat itself on the same dataset.

    Notes
    -----
    The second run receives the released values of the first, stage by stage. So the stages of an adaptive
    release are compared given the same releases, as composition requires. A run that requests other stages,
    or returns another output, depends on unreleased data. Statistics of this package are integers and are
    compared exactly. Statistics of a callable may exceed the declaration by a relative 1e-9.

    The release runs on the first dataset twice. A difference between these runs (a clock, noise drawn
    elsewhere) is not due to the neighbor, and the output is "not compared". If the release can be copied,
    every run has a copy. State of a function elsewhere (in its closure, in globals or files) is not
    controlled, and may hide changes. If data on one side only are rejected (`InvalidData`, for NaN), the
    check is "refused" rather than "violated". Any other error on one side only is a violation.

    Examples
    --------
    The sum of incomes, clipped, at a sensitivity that is right; and where the clip is forgotten:

    >>> import numpy as np
    >>> from dpstats.auditing import check_sensitivity
    >>> def total(incomes, source):
    ...     return source.laplace(np.clip(incomes, 0, 100).sum(), sensitivity=100, scale=100)
    >>> def not_clipped(incomes, source):
    ...     return source.laplace(incomes.sum(), sensitivity=100, scale=100)
    >>> incomes, other = np.array([20.0, 35.0, 60.0]), np.array([20.0, 35.0, 900.0])
    >>> check_sensitivity(total, incomes, other).ok
    True
    >>> check = check_sensitivity(not_clipped, incomes, other)
    >>> check.violated, check.ratio
    (True, 8.4)

    An estimator declares by its plan:

    >>> from dpstats.means import ClippedMean
    >>> X = np.zeros((50, 2))
    >>> Z = X.copy()
    >>> X[0], Z[0] = 1.0, -1.0
    >>> check_sensitivity(ClippedMean(clip=1.0, delta=1e-6), X, Z).ok
    True
    """
    run = runner(release, sensitivity, norm)
    rows_apart = check_integer("rows_apart", rows_apart, at_least=1)
    if run is fit_copy:
        tags = release.__sklearn_tags__().input_tags
        counts = bool(tags.one_d_array and tags.positive_only)  # a histogram: two entries differ
        relation = parse_neighbors(getattr(release, "neighbors", "replace_one"))
        added = relation is Neighbors.ADD_OR_REMOVE_ONE
        check_neighbors(dataset, neighbor, rows_apart, counts=counts, added=added)
    return Replay(release, run, dataset, check_integer("seed", seed, at_least=0), rows_apart).compare_neighbor(
        neighbor, ""
    )


def worst_neighbor(
    release: Any,
    dataset: Any,
    candidates: Any,
    *,
    rows: Iterable[int] | None = None,
    sensitivity: float | None = None,
    norm: str = "l1",
    seed: int = 0,
) -> SensitivityCheck:
    """Replace each row by each candidate in turn, and return the check of the pair that moved most.

    Parameters
    ----------
    release, sensitivity, norm, seed
        As for `check_sensitivity`.
    dataset : array of shape (n, d) or (n,), or a pair of these ``(X, y)``
    candidates : array of shape (m, d) or (m,), or a pair of these
        Replacement rows: rows at the bounds, rows far outside, NaN if it is allowed. Rows and candidates are
        converted to a common type, such as floating point for integers and fractions.
    rows : iterable of int, optional
        Indices of the replaced rows; default: all.

    Returns
    -------
    SensitivityCheck
        The worst of all tried pairs. Other rows, and other datasets, may be worse.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.auditing import worst_neighbor
    >>> def mean_of_odd(x):  # drops the last row where n is even
    ...     return x[: len(x) - (len(x) + 1) % 2].mean()
    >>> worst = worst_neighbor(mean_of_odd, np.full(8, -1.0), [-1.0, 1.0], sensitivity=2 / 8)
    >>> worst.violated, worst.neighbor
    (True, 'row 0 replaced by candidate 1')
    """
    run = runner(release, sensitivity, norm)
    data, others = _alike(dataset, candidates)
    size = len(data[0])
    places = (
        range(size) if rows is None else [check_integer("rows", i, at_least=0, at_most=size - 1, of=rows) for i in rows]
    )
    if not len(places) or not len(others[0]):
        raise refuse("rows", got=f"{len(places)} rows and {len(others[0])} candidates", allowed="a row and a candidate")
    replay = Replay(release, run, _join_parts(data), check_integer("seed", seed, at_least=0))
    found: list[SensitivityCheck] = []
    for i in places:
        for k in range(len(others[0])):
            near = [part.copy() for part in data]
            for part, other in zip(near, others, strict=True):
                part[i] = other[k]
            found.append(replay.compare_neighbor(_join_parts(near), f"row {i} replaced by candidate {k}"))
    # The first of the worst.
    return max(found, key=lambda check: (check.violated, check.verdict == LEFT_OPEN, not check.refused, check.ratio))


def _alike(dataset: Any, candidates: Any) -> tuple[list[np.ndarray[Any, Any]], list[np.ndarray[Any, Any]]]:
    """Return rows and candidates, part by part of one type that holds both."""
    found = attempt(
        lambda: [[np.asarray(part) for part in split_parts(given)] for given in (dataset, candidates)], Exception
    )
    if found is None:
        raise refuse("candidates", allowed="an array of rows, as dataset is")
    data, others = found
    if (
        len(data) != len(others)
        or any(a.ndim == 0 or b.ndim == 0 for a, b in zip(data, others, strict=True))
        or any(a.shape[1:] != b.shape[1:] for a, b in zip(data, others, strict=True))
    ):
        raise refuse("candidates", allowed="have the same number of columns as dataset")
    pairs = [_promote_types(part, other) for part, other in zip(data, others, strict=True)]
    return [part for part, _ in pairs], [other for _, other in pairs]


def _promote_types(
    part: np.ndarray[Any, Any], other: np.ndarray[Any, Any]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    if part.dtype == other.dtype:  # nothing is changed, of objects neither
        return part, other
    refusal = refuse("candidates", got=str(other.dtype), allowed=f"of a type that holds them and {part.dtype} exactly")
    numbers = [array.dtype.kind in "biuf" for array in (part, other)]
    if part.dtype.kind != other.dtype.kind and not all(numbers):
        raise refusal
    kind = np.result_type(part, other)
    held = part.astype(kind), other.astype(kind)
    for before, after in zip((part, other), held, strict=True):
        # Python's numbers are compared exactly: int(2**53 + 1) is not a float.
        pairs = zip(before.ravel().tolist(), after.ravel().tolist(), strict=True)
        if kind.hasobject or not all(a == b or (a != a and b != b) for a, b in pairs):
            raise refusal
    return held


def _join_parts(parts: Sequence[Any]) -> Any:
    return parts[0] if len(parts) == 1 else tuple(parts)
