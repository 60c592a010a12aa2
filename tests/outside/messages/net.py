"""The net: a private container in every slot of every call, and what is said about it."""

from __future__ import annotations

import contextlib
import copy
import inspect
import io
import logging
import os
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from sklearn.base import BaseEstimator, clone

from tests.outside.messages.canaries import Canaries, texts
from tests.outside.messages.examples import Script, is_public, public_methods, run, scripts

EXEMPT = {
    "name": "the name of a parameter in messages",
    "names": "the public names of columns",
    "state": "the path of a file",
    "what": "the purpose that a message states",
}
"""Slots of functions for developers, whose words are part of a message by their meaning."""
EXEMPT_METHODS = {"codes", "resolve", "check_size", "read"}
DATA = {"X", "y", "data", "frame", "rows", "values", "dataset", "counts", "utilities", "value", "groups", "units"}
"""Names of slots that hold data in methods that release: there a single number is private, too."""
RELEASES = {"fit", "fit_predict", "release", "stream", "select", "query", "randomize", "one_row_per_unit"}
SLOW = 1.0
"""Calls that take as many seconds are tried only without a limit on time."""


@dataclass
class Count:
    """What the net has tried, and what it has found."""

    seed: int
    tried: set[tuple[str, str]] = field(default_factory=set)
    outcomes: Counter[str] = field(default_factory=Counter)
    leaks: list[str] = field(default_factory=list)
    foreign: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        words = ", ".join(f"{number:,} {word}" for word, number in sorted(self.outcomes.items()))
        return f"seed {self.seed}: {len(self.tried):,} slots, {words}; {len(self.leaks):,} leaks"


def name_call(function: Any) -> str:
    """Return the class and method of a call, or the function's name."""
    home = getattr(function, "__self__", None)
    if home is None or inspect.ismodule(home):
        return str(getattr(function, "__qualname__", function))
    kind = home if inspect.isclass(home) else type(home)
    return f"{kind.__name__}.{function.__name__}"


def copied(thing: Any) -> Any:
    """Return a copy, or the thing itself where it has none."""
    try:
        return copy.deepcopy(thing)
    except Exception:
        return thing


class Net:
    """Try slots with containers of canaries.

    Parameters
    ----------
    seed : int
        Of the choice of canaries, containers and calls.
    each : int
        Number of containers that every slot is tried with; 0 for all.
    deadline : float
        Time after which nothing new is tried.
    """

    def __init__(self, seed: int, each: int, deadline: float, share: float = 1.0) -> None:
        self.rng = Random(seed)
        self.canaries = Canaries.draw(self.rng)
        self.count = Count(seed)
        self.each, self.deadline, self.share = each, deadline, share
        self.times: Counter[tuple[str, str]] = Counter()
        self.busy = False

    def walk(self) -> Count:
        """Run all examples in a random order, and try every slot of every call that they make."""
        order = list(scripts())
        self.rng.shuffle(order)
        with work_folder() as folder:
            self.folder = folder
            for script in order:
                if time.monotonic() > self.deadline:
                    break
                self.run(script)
        return self.count

    def run(self, script: Script) -> None:
        """Try the calls of some examples."""

        def called(function: Any, /, *args: Any, **options: Any) -> Any:
            if self.busy or not is_public(function) or time.monotonic() > self.deadline:
                return function(*args, **options)
            before = [copied(arg) for arg in args], {key: copied(value) for key, value in options.items()}
            function_before = _bound_copy(function)
            start, made = time.monotonic(), None
            try:
                made = function(*args, **options)
                return made
            finally:
                if time.monotonic() - start < SLOW:
                    self.busy = True
                    try:
                        self.slots(function_before, *before)
                        self.methods(made)
                    finally:
                        self.busy = False

        run(script, called)

    def slots(self, function: Any, args: list[Any], options: dict[str, Any]) -> None:
        """Try each slot of a call, and of the estimator whose method it is."""
        try:
            signature = inspect.signature(function)
            given = signature.bind(*args, **options).arguments
        except (TypeError, ValueError):
            return
        name = name_call(function)
        for slot, parameter in signature.parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                continue
            spread = parameter.kind is parameter.VAR_POSITIONAL

            def call(container: Any, slot: str = slot, spread: bool = spread) -> Any:
                bound = inspect.BoundArguments(
                    signature, {**copied(dict(given)), slot: (container,) if spread else container}
                )
                # Arguments in the signature's order, as BoundArguments reads them.
                ordered = {key: bound.arguments[key] for key in signature.parameters if key in bound.arguments}
                bound = inspect.BoundArguments(signature, ordered)  # type: ignore[arg-type]
                return _bound_copy(function)(*bound.args, **bound.kwargs)

            private = slot in DATA and name.rpartition(".")[2] in RELEASES
            self.slot((name, slot), call, private)
        home = getattr(function, "__self__", None)
        unfitted = isinstance(home, BaseEstimator) and not hasattr(home, "privacy_")
        if unfitted and not name.endswith(("set_params", "get_params")):
            for slot in home.get_params(deep=False):

                def call_with(container: Any, slot: str = slot) -> Any:
                    made = clone(home)
                    made.set_params(**{slot: container})
                    for shown in (repr, str, lambda one: one._repr_html_()):
                        if (trace := self.canaries.find(shown(made) or "")) is not None:
                            raise AssertionError(f"repr of {type(made).__name__} shows {trace}: {shown(made)[:200]}")
                    return getattr(made, function.__name__)(*copied(args), **copied(options))

                self.slot((f"{name}, parameter", slot), call_with, False)

    def methods(self, made: Any) -> None:
        """Try each slot of each method of a result, with nothing in the others that have a default."""
        if isinstance(made, BaseEstimator) and not hasattr(made, "privacy_"):
            return
        for method in public_methods(made):
            stated = inspect.signature(method).parameters.values()
            needed = sum(each.default is each.empty and each.kind is not each.VAR_KEYWORD for each in stated)
            which = type(made).__name__, method.__name__
            if self.times[which] < max(self.each, 1):
                self.times[which] += 1
                self.slots(method, [0.5] * needed, {})

    def slot(self, which: tuple[str, str], call: Callable[[Any], Any], private: bool) -> None:
        """Try some containers in a slot that was not tried as often."""
        if which[1] in EXEMPT and which[0].rpartition(".")[2] in EXEMPT_METHODS:
            return
        makers = self.canaries.containers(self.rng, self.folder)
        if private:
            makers |= {"number": lambda: self.canaries.numbers[0], "word": lambda: self.canaries.words[0]}
        chosen = list(makers) if not self.each else self.rng.sample(list(makers), min(self.each, len(makers)))
        most = self.each or len(makers)
        for kind in chosen:
            if self.times[which] >= most or time.monotonic() > self.deadline or self.rng.random() > self.share:
                return
            self.times[which] += 1
            self.count.tried.add(which)
            self.attempt(f"{which[0]}({which[1]}=<{kind}>)", lambda kind=kind: call(makers[kind]()))

    def attempt(self, what: str, call: Callable[[], Any]) -> None:
        """Make a call, and look for canaries in all that it says."""
        said = io.StringIO()
        handler = logging.StreamHandler(said)
        logging.getLogger().addHandler(handler)
        logging.getLogger("dpstats").setLevel(logging.DEBUG)
        found: list[str] = []
        try:
            with (
                warnings.catch_warnings(record=True) as warned,
                contextlib.redirect_stdout(said),
                contextlib.redirect_stderr(said),
            ):
                warnings.simplefilter("always")
                try:
                    call()
                    self.count.outcomes["accepted"] += 1
                except Exception as error:
                    ours = type(error).__module__.startswith("dpstats")
                    self.count.outcomes["refused" if ours else "errors of others"] += 1
                    if not ours:
                        self.count.foreign[f"{what}: {type(error).__name__}"] += 1
                    found += texts(error)
        finally:
            logging.getLogger().removeHandler(handler)
            logging.getLogger("dpstats").setLevel(logging.NOTSET)
        found += [str(warning.message) for warning in warned] + [said.getvalue()]
        for text in found:
            text = text.replace(str(self.folder), "")
            if (trace := self.canaries.find(text)) is not None:
                self.count.leaks.append(f"{what}: {trace!r} in {text.strip()[:300]!r}")
                return


def _bound_copy(function: Any) -> Any:
    """Return a method of a copy of its object; anything else unchanged."""
    home = getattr(function, "__self__", None)
    if home is None or inspect.ismodule(home) or inspect.isclass(home):
        return function
    return getattr(copied(home), function.__name__, function)


@contextlib.contextmanager
def work_folder() -> Iterator[Path]:
    """Work in an empty folder, in which examples may write."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield Path(folder)
        finally:
            os.chdir(before)
