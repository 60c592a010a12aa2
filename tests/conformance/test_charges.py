"""Everything that opens a session is registered: the public call of an entry of the registry goes through it.

What is registered has its sensitivity brute-forced, a planted bug caught, and its plan compared with what reaches the
exact source. So whatever is outside of the registry is not checked, and fails here: found in the source, whether it is
a method, a function or the code of a module, and followed by the calls that users make.
"""

from __future__ import annotations

import ast
import copy
import importlib
import inspect
import pkgutil
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pytest
from registry import ENTRIES, Entry
from registry.reading import fit_data, settings, width

import dpstats
from dpstats.identity.base import PrivateTest
from dpstats.means import AdaptiveMean
from dpstats.privacy import PrivacyBudget
from dpstats.release.estimator import PrivateEstimator
from dpstats.release.session import Session


class Place(NamedTuple):
    """A call in the source of a module: in which function or method, and on which lines."""

    module: str
    name: str
    first: int
    last: int


OPENING = {"Session", "session_of", "_session", "_session_of", "open"}
"""Names of what makes a session, or opens one."""

# What hands a session on, in the frame that all releases share: who calls these is found by their names.
HANDED_ON = {
    "session_of",
    "PrivateEstimator._session",
    "Releasing._session_of",
    "Mechanism._session",
    "Session.__enter__",
}
FREE = {"order_rows"}
"""What draws orders, which depend on no row, and releases nothing."""


def calls(source: str, module: str = "") -> Iterator[tuple[Place, ast.Call]]:
    """Yield every call in a module, and where it is; no call whose session is only asked whether it can be paid."""

    def walk(node: ast.AST, within: tuple[str, ...]) -> Iterator[tuple[Place, ast.Call]]:
        for child in ast.iter_child_nodes(node):
            inside = within
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                inside = (*within, child.name)
            elif isinstance(child, ast.Call):
                if named(child) == "check":
                    continue
                name = ".".join(within) or "<module>"
                yield Place(module, name, child.lineno, child.end_lineno or child.lineno), child
            yield from walk(child, inside)

    yield from walk(ast.parse(source), ())


def named(call: ast.Call) -> str:
    """Return the last name of what is called."""
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def places(source: str, module: str = "") -> set[Place]:
    """Return where a module makes or opens a session; a file is opened by a function, or with arguments."""
    if OPENING.isdisjoint(re.findall(r"\w+", source)):
        return set()  # of most modules, whose calls need not be looked at
    return {
        place
        for place, call in calls(source, module)
        if named(call) in OPENING
        and (named(call) != "open" or not (isinstance(call.func, ast.Name) or call.args or call.keywords))
        # An address opens itself.
        and getattr(getattr(call.func, "value", None), "id", "") != "path"
    }


def modules() -> list[Any]:
    names = (module.name for module in pkgutil.walk_packages(dpstats.__path__, "dpstats."))
    return [importlib.import_module(name) for name in names if name != "dpstats.__main__"]


@cache
def all_places() -> list[Place]:
    """Return every place of the package where a session is made or opened."""
    found = (places(inspect.getsource(module), module.__name__) for module in modules())
    return sorted(place for place in set().union(*found) if place.name not in HANDED_ON | FREE)


@contextmanager
def followed() -> Iterator[set[tuple[str, str, int]]]:
    """Yield a set that gets every line that is running when a session of exact noise is made or opened."""
    found: set[tuple[str, str, int]] = set()
    made, opened = Session.__init__, Session.open

    def follow(noise: Any) -> None:
        frame = sys._getframe()
        while frame is not None and not noise.simulated:
            found.add((frame.f_globals.get("__name__", ""), frame.f_code.co_qualname, frame.f_lineno))
            frame = frame.f_back

    def making(self: Session, plan: Any, noise: Any, *args: Any, **options: Any) -> None:
        follow(noise)
        made(self, plan, noise, *args, **options)

    def opening(self: Session) -> Session:
        follow(self._noise)
        return opened(self)

    with patch.object(Session, "__init__", making), patch.object(Session, "open", opening):
        yield found


def near(place: Place) -> list[Entry]:
    """Return the entries of what a place may belong to, those of its own class first."""
    owner = place.name.partition(".")[0]
    of_class = [entry for entry in ENTRIES if owner in {entry.label, *(base.__name__ for base in entry.covers.__mro__)}]
    others = [] if of_class else list(ENTRIES)
    # What releases beside the fit is looked at first, then each class once.
    by_class = {(entry.covers, entry.method): entry for entry in reversed([*of_class, *others]) if entry.public}
    return sorted(by_class.values(), key=lambda entry: entry.method == "fit")


@cache
def lines_of(name: str) -> frozenset[tuple[str, str, int]]:
    """Return the lines that run when the public call of an entry makes or opens a session."""
    (entry,) = (entry for entry in ENTRIES if entry.name == name)
    with followed() as found:
        entry.public(entry.dataset, None)  # type: ignore[misc]
    return frozenset(found)


def is_registered(place: Place) -> bool:
    """Return whether the public call of an entry makes a session in this place."""
    return any(
        (module, name) == place[:2] and place.first <= line <= place.last
        for entry in near(place)
        for module, name, line in lines_of(entry.name)
    )


@cache
def lines_of_the_count() -> frozenset[tuple[str, str, int]]:
    """Return the lines that run when complete rows are counted before a release: a session before an entry's own.

    Its integers are those of the entries of `CompleteCases`; its charge and its plan are tested in
    tests/release/test_complete.py.
    """
    with followed() as found:
        AdaptiveMean(bound=9.0, std=1.0, missing="drop").fit(np.ones((500, 1)))
    return frozenset(found)


def is_the_count(place: Place) -> bool:
    """Return whether a place is the count of complete rows before a release."""
    return any(
        (module, name) == place[:2] and place.first <= line <= place.last for module, name, line in lines_of_the_count()
    )


def test_what_opens_a_session_is_registered() -> None:
    unregistered = [place for place in all_places() if not is_registered(place)]
    assert [place.name for place in unregistered if is_the_count(place)] == ["_count_and_sample"]
    unregistered = [place for place in unregistered if not is_the_count(place)]
    assert len(all_places()) > 5 and not unregistered, "no entry of the registry goes through these"


def test_budgets_are_charged_by_sessions_alone() -> None:
    found = set()
    for module in modules():
        source = inspect.getsource(module)
        for node in ast.walk(ast.parse(source)) if "charge" in source else ():
            if isinstance(node, ast.Attribute) and node.attr == "charge":
                found.add(module.__name__)
    # A ledger's own is that of its budget.
    assert found == {"dpstats.release.session", "dpstats.privacy.budget"}


# Faults, planted: each must fail its net.


def test_a_session_anywhere_else_would_be_noticed() -> None:
    def names(source: str) -> set[str]:
        return {place.name for place in places(source)}

    assert names("def count(X):\n    with Session(plan, noise) as s:\n        s.add('n', X)") == {"count"}
    assert names("class A:\n    def give(self):\n        return self._session().stream('n')") == {"A.give"}
    assert names("with release.Session(plan, noise) as s: pass") == {"<module>"}
    assert names("def f(s):\n    return s.open()") == {"f"}
    # A simulation protects nobody, and releases nothing; a session that is asked for its cost is not opened.
    assert names("def study(p, rng):\n    return Session.simulated(p, rng)") == set()
    assert names("def ask(self):\n    self._session(plan).check()") == set()
    assert names("def read(p):\n    return open(p), p.open('rb')") == set()


def test_a_second_session_of_a_method_would_be_noticed() -> None:
    (place,) = (place for place in all_places() if place.name == "PrivateLogisticRegression.score")
    assert is_registered(place)
    assert not is_registered(place._replace(first=10**6, last=10**6))


# What releases by fitting: `predict` of a test, of other rows.

TESTS = {type(entry.estimator): entry for entry in settings(ENTRIES) if isinstance(entry.estimator, PrivateTest)}


def fitting() -> set[str]:
    """Return the methods of estimators that fit one: not those that call `fit` of the class above."""
    found = set()
    for module in modules():
        kinds = {name for name, kind in vars(module).items() if inspect.isclass(kind)}
        kinds = {name for name in kinds if issubclass(getattr(module, name), PrivateEstimator)}
        if not kinds:
            continue
        for place, call in calls(inspect.getsource(module), module.__name__):
            above = isinstance(call.func, ast.Attribute) and "super" in ast.dump(call.func.value)
            if named(call) in ("fit", "fit_predict") and place.name.partition(".")[0] in kinds and not above:
                found.add(place.name)
    return found


def test_what_releases_by_fitting_is_known() -> None:
    # The first is below; the others are the fit itself, of this object or of one that is made.
    assert fitting() == {
        "PrivateTest.predict",
        "PrivateTest.fit_predict",
        "Regression._fit_formula",
        "PrivateLinearRegression._fit_formula",
    }


@pytest.mark.parametrize("entry", TESTS.values(), ids=lambda entry: entry.name)
def test_predict_of_a_test_is_charged_as_its_fit(entry: Entry) -> None:
    budget = PrivacyBudget(1000.0, 0.9)
    made = copy.copy(entry.estimator).set_params(random_state=None, budget=budget)
    rng = np.random.default_rng(0)
    first, second = (fit_data(made, rng.choice([-1.0, 1.0], size=(n, width(entry)))) for n in (20, 30))
    made.fit(*first)
    with followed() as found:
        made.predict(*second)
    assert "PrivateTest.predict" in {name for _, name, _ in found}
    assert [kept.guarantee for kept in budget.history()] == [
        made.plan(len(rows), width(entry)).guarantee for (rows,) in (first, second)
    ]


@pytest.mark.parametrize("entry", settings(ENTRIES), ids=lambda entry: entry.name)
def test_a_plan_is_for_the_unit_of_its_rows(entry: Entry) -> None:
    plan = copy.copy(entry.estimator).plan(40, width(entry))
    # Before its cost is known, and after: also where less is proved than was asked for.
    for _ in range(2):
        stated = plan.for_data("person", True).guarantee
        assert (stated.unit, stated.simulated) == ("person", True)
        assert (stated.epsilon, stated.delta) == (plan.guarantee.epsilon, plan.guarantee.delta)
