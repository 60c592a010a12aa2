"""The exceptions of the package, the one place that makes the words of a refusal, and accounts of running calls.

Every exception derives from a built-in that callers already catch: a wrong parameter or unusable data is a
``ValueError``. Messages name the parameter, the received value and the allowed values. They never show a
value of the data, also if a private column is given as a parameter by mistake: `show` renders every received
value, and shows only public scalars.
"""

from __future__ import annotations

import difflib
import functools
import reprlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from enum import Enum
from numbers import Number
from typing import Any, ParamSpec, TypeVar

__all__ = ["BudgetExceeded", "ChargedError", "DPStatsError", "Exhausted", "InvalidData", "InvalidParameter"]
__all__ += ["LedgerError", "NoiseUnavailable", "NotDelivered", "NotEnoughMemory", "NotPrivate", "ScaleOutOfRange"]


class DPStatsError(Exception):
    """Base of every error that dpstats raises on purpose."""


class Refusal(DPStatsError, ValueError):
    """An argument is refused.

    Attributes
    ----------
    parameter, given, allowed, remedy : str or None
        The name of the argument, a description of the received value, the allowed values, and the remedy. The received
        object is not kept, because it may hold private data. None if the error was made of text alone.

    Examples
    --------
    >>> from dpstats.errors import InvalidData, Refusal
    >>> issubclass(InvalidData, Refusal)
    True
    """

    parameter: str | None = None
    given: str | None = None
    allowed: str | None = None
    remedy: str | None = None


class InvalidParameter(Refusal):
    """A parameter is not allowed. Nothing was charged.

    Examples
    --------
    >>> from dpstats.privacy import PrivacyGuarantee
    >>> PrivacyGuarantee(-1.0)
    Traceback (most recent call last):
        ...
    dpstats.errors.InvalidParameter: epsilon must be a finite number at least 0, got -1.0
    """


class InvalidData(Refusal):
    """The data cannot be used as given; nothing was charged.

    Examples
    --------
    >>> from dpstats.means import ClippedMean
    >>> ClippedMean(clip=1.0, random_state=0).fit([[0.5], [float("nan")]])
    Traceback (most recent call last):
        ...
    dpstats.errors.InvalidData: Input X contains NaN or infinity. Where the estimator offers it, set missing=...
    """


class NotPrivate(InvalidParameter):
    """A requested calibration does not give the privacy it claims.

    Examples
    --------
    >>> from dpstats.means import ClippedMean
    >>> ClippedMean(clip=1.0, epsilon=3.0, delta=1e-2, calibration="textbook").plan(100, 1)
    Traceback (most recent call last):
        ...
    dpstats.errors.NotPrivate: calibration='textbook' is not private at epsilon = 3, delta = 0.01: ...
    """


class ScaleOutOfRange(InvalidParameter):
    """Noise of the scale asked for cannot be drawn exactly in 64 bits; nothing was charged.

    Examples
    --------
    >>> from dpstats.mechanisms import LaplaceMechanism
    >>> LaplaceMechanism(sensitivity=1.0, epsilon=1e-17).release(0.0)
    Traceback (most recent call last):
        ...
    dpstats.errors.ScaleOutOfRange: the noise scale must be between 0.001 and 1e+16 lattice steps, got 2e+17:
    ...
    """


class BudgetExceeded(DPStatsError, RuntimeError):
    """The charge exceeds the remaining budget. Nothing was charged.

    Examples
    --------
    >>> from dpstats.privacy import PrivacyBudget, PrivacyGuarantee
    >>> budget = PrivacyBudget(epsilon=1.0)
    >>> budget.charge(PrivacyGuarantee(2.0))
    Traceback (most recent call last):
        ...
    dpstats.errors.BudgetExceeded: Requested (epsilon = 2, delta = 0), one row replaced; already spent ...
    >>> budget.history()
    ()
    """


class ChargedError(DPStatsError, RuntimeError):
    """The release was charged, and failed afterwards.

    Attributes
    ----------
    message : str
        It states the charge.
    released : dict
        Values that were released before the failure, by the names of their stages. They are public.

    Examples
    --------
    >>> from dpstats.means import ClippedMean
    >>> from dpstats.privacy import PrivacyBudget
    >>> class Broken(ClippedMean):
    ...     def _report(self, released, plan):
    ...         raise ZeroDivisionError
    >>> budget = PrivacyBudget(epsilon=1.0, delta=1e-6)
    >>> try:
    ...     Broken(bounds=(0, 9), epsilon=1.0, budget=budget).fit([[1.0], [2.0]])
    ... except ChargedError as error:
    ...     print(*error.released)
    clipped moments
    """

    def __init__(self, message: str, released: dict[str, object] | None = None) -> None:
        super().__init__(message)
        self.released = {} if released is None else released


class Exhausted(DPStatsError, RuntimeError):
    """A stream has given all the answers that it may; nothing was charged.

    Examples
    --------
    >>> from dpstats.mechanisms import AboveThreshold
    >>> stream = AboveThreshold(10.0, epsilon=1.0, random_state=0)
    >>> stream.query(1000.0)
    True
    >>> stream.query(0.0)
    Traceback (most recent call last):
        ...
    dpstats.errors.Exhausted: this AboveThreshold has given its 1 answer(s) above the threshold ...
    """


class LedgerError(DPStatsError, OSError):
    """A budget's ledger cannot be read or written; nothing was charged and nothing is released.

    Examples
    --------
    >>> from dpstats.privacy import PrivacyBudget
    >>> PrivacyBudget(epsilon=1.0, ledger="no-such-folder/ledger.sqlite")
    Traceback (most recent call last):
        ...
    dpstats.errors.LedgerError: ...ledger.sqlite: the file cannot be opened or created
    """


class NoiseUnavailable(DPStatsError, ImportError):
    """Exact noise cannot be drawn, because its library is missing or broken. Nothing was charged.

    Examples
    --------
    >>> from dpstats.errors import NoiseUnavailable
    >>> issubclass(NoiseUnavailable, ImportError)
    True
    """


class NotEnoughMemory(DPStatsError, MemoryError):
    """The release needs more memory than is available. Nothing was charged.

    Examples
    --------
    >>> from dpstats.errors import NotEnoughMemory
    >>> issubclass(NotEnoughMemory, MemoryError)
    True
    """


class NotDelivered(DPStatsError, OSError):
    """The release could not be written to the requested file. It was charged, if a budget was given.

    Examples
    --------
    >>> from dpstats.errors import NotDelivered
    >>> issubclass(NotDelivered, OSError)
    True
    """


_MOST_CHARACTERS = 60
_MOST_BITS = 128
_MOST_TOGETHER = 3
_MEASURED = ("array", "builtins", "collections", "numpy", "pandas", "polars", "pyarrow", "scipy")
"""Modules with containers that know their size. Another container may compute its size from data."""
_FUNCTIONS = ("_ArrayFunctionDispatcher", "builtin_function_or_method", "method", "ufunc")


def show(value: Any) -> str:
    """Return the words for a received value: a public scalar itself, anything else as its type and size.

    A scalar is a number, a truth value, None, or a text of one line and at most 60 characters. A tuple of at most
    three scalars is shown too, for pairs such as bounds.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.errors import show
    >>> show(-1.0), show("yes"), show((5, 3))
    ('-1.0', "'yes'", '(5, 3)')
    >>> show([48271.5, 20.0]), show(np.zeros((4, 2))), show({"a": 1}), show(x for x in "ab")
    ('a list of 2', 'an array of shape (4, 2)', 'a dict of 1', 'a generator')
    """
    if _is_scalar(value):
        return _show_scalar(value)
    if is_public(value):
        return f"({', '.join(map(_show_scalar, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, type):
        return f"the type {value.__name__}"
    name = type(value).__name__
    kind = "function" if name in _FUNCTIONS else "array" if name == "ndarray" else name
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}{_describe_size(value)}"


def is_public(value: Any) -> bool:
    """Return whether `show` shows a value: a scalar, or a tuple of at most three.

    Examples
    --------
    >>> from dpstats.errors import is_public
    >>> is_public((0, 100)), is_public([0, 100])
    (True, False)
    """
    together = type(value) is tuple and len(value) <= _MOST_TOGETHER and all(map(_is_scalar, value))
    return together or _is_scalar(value)


def show_names(names: Iterable[Any]) -> str:
    """Return a list of at most six names that are public, such as columns of the data or declared levels.

    Examples
    --------
    >>> from dpstats.errors import show_names
    >>> show_names(["age", "sex"])
    "['age', 'sex']"
    """
    return reprlib.repr(list(names))


def refuse_name(
    parameter: str, name: Any, names: Iterable[Any], *, got: str | None = None, of: str = "X"
) -> InvalidParameter:
    """Return the error for a name that not exactly one column has, to be raised. Its remedy is the nearest column.

    Parameters
    ----------
    parameter : str
        Parameter that has the name.
    name : object
        The received name. It is shown if it is a number or a word, unless ``got`` describes it. An entry of a container
        may be private: neither the entry nor a column like it is shown.
    names : iterable
        Public names of the columns.
    got : str, optional
        A description of the name.
    of : str
        Name of the table in the message.

    Examples
    --------
    >>> from dpstats.errors import refuse_name
    >>> print(refuse_name("by", "Arm", ["age", "arm"]))
    by must name columns of X (['age', 'arm']), got 'Arm'. Did you mean 'arm'?
    """
    names = list(names)
    allowed = f"name columns of {of} ({show_names(names)})"
    if got is not None:
        return refuse(parameter, got=got, allowed=allowed)
    shown = show(name) if _is_scalar(name) else f"a {type(name).__name__}"
    return refuse(parameter, got=shown, allowed=allowed, remedy=nearest(name, names))


def nearest(name: Any, names: Iterable[Any]) -> str:
    """Return the remedy for a wrong name: the nearest of the public names, or nothing if none is near.

    Examples
    --------
    >>> from dpstats.errors import nearest
    >>> nearest("weigth", ["age", "Weight"]), nearest("pulse", ["age"])
    ("Did you mean 'Weight'?", '')
    """
    folded = {one.casefold(): one for one in names if isinstance(one, str)}
    near = difflib.get_close_matches(name.casefold(), folded, 1) if isinstance(name, str) else []
    return f"Did you mean {folded[near[0]]!r}?" if near else ""


def _is_scalar(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= _MOST_CHARACTERS and value.isprintable()
    # A number of numpy has a dtype and no axes.
    return value is None or isinstance(value, Number | Enum) or type(value).__name__ == "bool_"


def _show_scalar(value: Any) -> str:
    if isinstance(value, str):
        return str.__repr__(value)
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return f"an integer of {value.bit_length():,} bits"
    text = str(value) if isinstance(value, Enum) or type(value).__module__ == "numpy" else repr(value)
    return text if len(text) <= _MOST_CHARACTERS else f"a {type(value).__name__}"


def _describe_size(value: Any) -> str:
    if type(value).__module__.partition(".")[0] not in _MEASURED:
        return ""
    if isinstance(value, str):
        return f" of {len(value):,} characters"
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and len(shape) != 1:
        return f" of shape {shape}"
    return f" of {len(value):,}" if hasattr(type(value), "__len__") else ""


def refuse(
    parameter: str, *, given: Any = ..., got: str | None = None, allowed: str, remedy: str = ""
) -> InvalidParameter:
    """Return the error for a parameter that is not allowed, to be raised.

    Parameters
    ----------
    parameter : str
        Name of the parameter.
    given : object, optional
        The received value, which `show` describes.
    got : str, optional
        A description of it, in place of ``given``. It must not contain an entry of a container.
    allowed : str
        What the parameter must be, with or without a verb: "positive", "have two entries".
    remedy : str
        What to do, in full sentences.

    Examples
    --------
    >>> from dpstats.errors import refuse
    >>> error = refuse("bounds", given=[3.0, 1.0, 2.0], allowed="two numbers", remedy="Leave one out.")
    >>> print(error, "|", error.given)
    bounds must be two numbers, got a list of 3. Leave one out. | a list of 3
    """
    shown = got if given is ... else show(given)
    return _refusal(InvalidParameter, parameter, shown, allowed, remedy)


def refuse_data(parameter: str, *, got: str | None = None, allowed: str, remedy: str = "") -> InvalidData:
    """Return the error for data that cannot be used, to be raised. ``got`` says types, sizes and names, no entry.

    Examples
    --------
    >>> from dpstats.errors import refuse_data
    >>> print(refuse_data("y", got="3", allowed="have an entry for each row of X (4)"))
    y must have an entry for each row of X (4), got 3
    """
    return _refusal(InvalidData, parameter, got, allowed, remedy)


_VERBS = ("be", "give", "hold", "have", "lead", "make", "name", "not", "return")
_Refusal = TypeVar("_Refusal", bound=Refusal)


def _refusal(kind: type[_Refusal], parameter: str, given: str | None, allowed: str, remedy: str) -> _Refusal:
    must = allowed if allowed.partition(" ")[0] in _VERBS else f"be {allowed}"
    text = f"{parameter} must {must}" + ("" if given is None else f", got {given}")
    error = kind(f"{text}. {remedy}" if remedy else text)
    error.parameter, error.given, error.allowed, error.remedy = parameter, given, allowed, remedy or None
    return error


_Value = TypeVar("_Value")


def attempt(make: Callable[[], _Value], *failures: type[Exception]) -> _Value | None:
    """Return the result of ``make``, or None if it fails so.

    An error that is raised within ``except`` keeps the failure as its context, and the words of other packages may
    hold an entry. So the refusal is raised after the attempt.

    Examples
    --------
    >>> from dpstats.errors import attempt
    >>> attempt(lambda: float("12"), ValueError), attempt(lambda: float("twelve"), ValueError)
    (12.0, None)
    """
    try:
        return make()
    except failures:
        return None


# Accounts of running calls: an error after a charge states the charge and keeps the released values. Public calls that
# release are decorated with `state_charges`. A session reports its charge to the running calls. A later error of any
# type becomes a `ChargedError`. Its message states the charge, and ``released`` has the values. Proof:
# docs/proofs/session.md. Importing this module needs the standard library only.


Parameters = ParamSpec("Parameters")
Answer = TypeVar("Answer")


class Account:
    """The charges of one call, and of the calls within it.

    Attributes
    ----------
    charges : list of (str, str)
        Labels and guarantees of the charges.
    released : list of mappings
        The releases of each charge, by the names of their stages; filled while they are drawn.
    kept : list of str
        Earlier charges of a key whose answers this call was given again. ``released`` has their values too.
    unknown : bool
        Whether the last charge was interrupted, so that it may have been stored or not.
    where : str
        Where the releases are stored, if they are.
    """

    def __init__(self) -> None:
        self.charges: list[tuple[str, str]] = []
        self.released: list[Mapping[str, Any]] = []
        self.kept: list[str] = []
        self.unknown = False
        self.where = ""
        self._steps: Counter[str] = Counter()

    def steps(self, key: str) -> int:
        """Return the number of charges under a key."""
        return self._steps[key]

    def next_step(self, key: str) -> int:
        """Return the place of a key's next charge among its charges in this call."""
        self._steps[key] += 1
        return self._steps[key] - 1

    def explain(self) -> str:
        """Describe the charges and the place of the released values."""
        each = "; ".join(f"{guarantee} for {label!r}" for label, guarantee in self.charges)
        words = " ".join([*self.kept, *([f"The charge stands: {each}."] if self.charges else [])])
        if self.unknown:
            words = f"An interrupted charge may have been stored: {each}. See history() of the budget."
        if self.where:
            return f"{words} {self.where}"
        if names := list(map(repr, self.values())):
            return f"{words} Attribute released of this error has the released values: {', '.join(names)}."
        return f"{words} Nothing was released."

    def values(self) -> dict[str, Any]:
        """Return the released values, by the names of their stages."""
        # A stream has no released value.
        found = {name: value for each in self.released for name, value in each.items()}
        return {name: value for name, value in found.items() if value is not None}

    def failure(self, error: BaseException) -> BaseException:
        """Return the error that a failed call raises after its charge."""
        released = self.values()
        if hasattr(error, "released"):  # of a call within this one
            return error
        if not isinstance(error, Exception):
            # An interrupt keeps its type. The error that it interrupted may show data.
            error.__cause__ = error.__context__ = None
            vars(error).update(released=released)
            error.add_note(self.explain())
            return error
        # Only messages of this package are known to show no data.
        what = str(error).removesuffix(" Nothing was charged.") if isinstance(error, DPStatsError) else ""
        what = (what or f"the release failed ({type(error).__name__}{_place(error)})").rstrip(".")
        return ChargedError(f"{what}. {self.explain()}", released)


_ACCOUNTS: ContextVar[tuple[Account, ...]] = ContextVar("accounts", default=())
"""The accounts of the running calls, outermost first."""


def running_accounts() -> tuple[Account, ...]:
    """Return the accounts of the running calls, outermost first."""
    return _ACCOUNTS.get()


def state_charges(call: Callable[Parameters, Answer]) -> Callable[Parameters, Answer]:
    """Decorate a call that releases: replace an error after its charge by `ChargedError`."""

    @functools.wraps(call)
    def make_call(*args: Parameters.args, **options: Parameters.kwargs) -> Answer:
        account = Account()
        before = _ACCOUNTS.get()
        try:
            _ACCOUNTS.set((*before, account))
            try:
                return call(*args, **options)
            finally:
                _ACCOUNTS.set(before)
        except BaseException as error:
            if not account.charges and not account.kept:
                raise
            failure = account.failure(error)
        # Outside of the handler, so that the error has no context, which may show data.
        raise failure

    return make_call


def _place(error: Exception) -> str:
    """Return the last place inside the package where an error occurred."""
    place, trace = "", error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_globals.get("__name__", "")
        if name.partition(".")[0] == "dpstats" and name != __name__:
            place = f" in {name}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return place
