"""What a fitted object is, and holds: the last fit and nothing before it; releases, and no data.

A second fit with other parameters, on data of another size, must be that of a fresh object, and be charged as that.
What is fitted, and all that it refers to, must hold no rows and no exact sums. Where noise is exact, a false alarm
needs it to hit one of 47 numbers on a lattice of about 2^40 steps: less than one in 10^9. Elsewhere seeds are fixed.
"""

from __future__ import annotations

import copy
import gc
import inspect
import pickle
import re
import struct
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from registry import ENTRIES, Entry
from registry.calls import CALLS
from registry.reading import ends_of, fit_rows, settings, width

from dpstats.covariance import HotellingTest, PrivateCorrelation, PrivateCovariance, PrivatePCA
from dpstats.data.rows import Table
from dpstats.groups import GroupMeans, MeanPerRow
from dpstats.means import AdaptiveMean, ClippedMean, PrivateVariance, SparseMean
from dpstats.mechanisms import GaussianMechanism, LaplaceMechanism
from dpstats.privacy import Neighbors, PrivacyBudget
from dpstats.privacy.guarantee import parse_neighbors
from dpstats.quantiles import PrivateDistribution, PrivateQuantile
from dpstats.regression import PrivateLinearRegression, PrivateLogisticRegression
from dpstats.regression.log_linear import LogLinearRegression
from dpstats.regression.logistic import CurvedRegression
from dpstats.regression.sufficient import LeastSquares
from dpstats.release.estimator import PrivateEstimator
from dpstats.release.mechanism import Mechanism
from dpstats.release.session import Session
from dpstats.statistic import PrivateStatistic
from dpstats.survival import PrivateSurvival
from dpstats.tables import ContingencyTable, PrivateProportion

SETTINGS = settings(ENTRIES)
fits = pytest.mark.parametrize("entry", SETTINGS, ids=lambda entry: entry.name)
calls = pytest.mark.parametrize("kind", CALLS, ids=lambda kind: kind.__name__)

# Primes, which nothing public has as a length.
FEW, MANY = 47, 43


def rows_of(entry: Entry, n: int) -> np.ndarray:
    """Return rows of numbers that are found nowhere else; signs, where a test is about these."""
    rng = np.random.default_rng(n)
    shape = (n, width(entry))
    signs = getattr(entry.estimator, "null", "") == "product"
    return rng.choice([-1.0, 1.0], size=shape) if signs else rng.normal(size=shape)


def with_other_parameters(estimator: Any) -> dict[str, Any]:
    """Return parameters for a second fit: less privacy spent, wider bounds, other levels."""
    given = estimator.get_params()
    cost = "epsilon" if given["epsilon"] is not None else "rho"
    changed: dict[str, Any] = {cost: 0.75 * given[cost]}
    for name in ("clip", "bound", "max_signal"):
        if given.get(name) is not None:
            changed[name] = (2 * np.asarray(given[name])).tolist()
    if "level" in given:
        changed["level"] = 2 * given["level"]
    return changed


def fresh(estimator: Any, **changes: Any) -> Any:
    return type(estimator)(**{**estimator.get_params(), "random_state": None, "budget": None, **changes})


# One fit after another.


def check_second_fit(estimator: Any, first: np.ndarray, *others: np.ndarray) -> None:
    """Fail unless every further fit, with other parameters, leaves what a fresh object has."""
    changes = with_other_parameters(estimator)
    again = fit_rows(fresh(estimator, random_state=5), first)
    before = again.plan_
    again.set_params(**changes)
    for X in others:
        fit_rows(again, X)
        new = fit_rows(fresh(estimator, **changes, random_state=5), X)
        assert same(again.plan_, new.plan_) and not same(new.plan_, before)
        assert again.privacy_ == new.privacy_
        assert same(vars(again), vars(new)), "a second fit is not the fit of a fresh object"


def same(a: Any, b: Any) -> bool:
    """Return whether two fitted states are equal, arrays bit by bit."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, tuple | list):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and np.array_equal(a, b, equal_nan=True)
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (a != a and b != b)
    if hasattr(type(a), "__dataclass_fields__"):
        # Two results of NaN are as equal as two NaNs.
        return type(a) is type(b) and all(
            same(getattr(a, name), getattr(b, name)) for name in type(a).__dataclass_fields__
        )
    if not isinstance(a, PrivateEstimator) and type(a).__eq__ is object.__eq__ and hasattr(a, "__dict__"):
        return type(a) is type(b) and same(vars(a), vars(b))
    return bool(a == b)


def check_both_are_charged(estimator: Any, first: np.ndarray, second: np.ndarray) -> None:
    """Fail unless two fits with exact noise are two charges, each that of its own plan."""
    neighbors = parse_neighbors(getattr(estimator, "neighbors", "replace_one"))
    budget = PrivacyBudget(1000.0, 0.9, neighbors=neighbors)
    changes = with_other_parameters(estimator)
    made = fit_rows(fresh(estimator, budget=budget), first)
    plans = [made.plan_, fit_rows(made.set_params(**changes), second).plan_]
    expected = [fresh(estimator).plan(*first.shape), fresh(estimator, **changes).plan(*second.shape)]
    assert [charge.guarantee for charge in budget.history()] == [plan.guarantee for plan in expected]
    assert [plan.stages for plan in plans] == [plan.stages for plan in expected]
    assert budget.spent.epsilon > expected[0].guarantee.epsilon
    # Three of one plan are three charges.
    fit_rows(made, second)
    assert len(budget.history()) == 3 and budget.history()[2].guarantee == expected[1].guarantee


@pytest.mark.kinds
@fits
def test_a_second_fit_is_that_of_a_fresh_object(entry: Entry) -> None:
    few, many = rows_of(entry, FEW), rows_of(entry, MANY)
    # Of the same size first: a plan that was kept by its size would still fit.
    check_second_fit(entry.estimator, few, few, many)


@pytest.mark.kinds
@fits
def test_every_fit_is_charged_its_own_plan(entry: Entry) -> None:
    check_both_are_charged(entry.estimator, rows_of(entry, FEW), rows_of(entry, MANY))


# What is held.

Private = set[float | int]


def private_numbers(X: Any, recorded: list[Any]) -> Private:
    """Return what must be found nowhere: entries of the data, and large exact integers that reached a session."""
    raw = {float(x) for x in np.ravel(X)} if np.asarray(X).dtype.kind == "f" else set()
    # A small number may be anything, and a power of two a public unit.
    return {x for x in raw if x != round(x)} | {k for k in recorded if abs(k) > 1000 and abs(k) & (abs(k) - 1)}


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list of the exact integers that reach sessions."""
    found: list[Any] = []

    def watch(name: str) -> None:
        method = getattr(Session, name)

        def watched(self: Session, stage: str, integers: Any, *args: Any, **options: Any) -> Any:
            if self.size is None:
                values = list(integers.values()) if isinstance(integers, dict) else [integers]
                found.extend(int(k) for block in values for k in np.ravel(block))
            return method(self, stage, integers, *args, **options)

        monkeypatch.setattr(Session, name, watched)

    watch("add")
    watch("select")
    choose, smooth, discover = Session.choose, Session.smooth, Session.discover

    def discovered(self: Session, stage: str, labels: Any, integers: Any) -> Any:
        found.extend(int(k) for block in integers.values() for k in np.ravel(block))
        return discover(self, stage, labels, integers)

    def chosen(self: Session, stage: str, parts: Any) -> Any:
        if self.size is None:
            found.extend(k for part in parts for groups in part.cases for k in ends_of(groups))
        return choose(self, stage, parts)

    def smoothed(self: Session, stage: str, integer: int, level: int) -> Any:
        found.extend([integer, level])
        return smooth(self, stage, integer, level)

    monkeypatch.setattr(Session, "choose", chosen)
    monkeypatch.setattr(Session, "discover", discovered)
    monkeypatch.setattr(Session, "smooth", smoothed)
    return found


SKIPPED = (type, types.ModuleType, types.BuiltinFunctionType, np.random.Generator, PrivacyBudget)


def held(root: Any) -> Iterator[Any]:
    """Yield all that an object refers to, through containers, slots, closures and the bases of views."""
    seen: set[int] = set()
    kept = [vars(root)]  # alive, so that no id is used again
    for item in kept:
        if id(item) in seen or isinstance(item, SKIPPED):
            continue
        seen.add(id(item))
        yield item
        if isinstance(item, types.FunctionType):
            kept.extend(cell.cell_contents for cell in item.__closure__ or ())
            kept.extend(item.__defaults__ or ())
        elif isinstance(item, np.ndarray):
            kept.extend([item.base, *(item.ravel().tolist() if item.dtype == object else ())])
        else:
            kept.extend(gc.get_referents(item))


def check_holds_no_data(root: Any, n: int, private: Private, pickled: bool = True) -> None:
    """Fail if an object holds anything of n entries, or any private number; or says so when it is pickled."""
    for item in held(root):
        if isinstance(item, np.ndarray):
            assert n not in item.shape, f"an array of shape {item.shape} is kept"
            numbers = item.ravel().tolist() if item.dtype.kind in "fiu" else []
        elif isinstance(item, list | tuple | set | frozenset | dict | bytes):
            assert len(item) != n or isinstance(item, bytes), f"a {type(item).__name__} of {n} items is kept"
            numbers = []
        else:
            numbers = [item] if isinstance(item, int | float | np.number) else []
        assert private.isdisjoint(numbers), "private numbers are kept"
    if pickled:
        written = pickle.dumps(root)
        assert not any(form in written for number in private for form in forms(number)), "private numbers are written"


def forms(number: float | int) -> list[bytes]:
    """Return how a number may look in a pickle: on its own, or in an array."""
    if isinstance(number, float):
        return [struct.pack("<d", number), struct.pack(">d", number)]
    short = number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True)
    whole = [number.to_bytes(8, "little", signed=True)] if abs(number) < 2**63 else []
    # What is shorter than four bytes is found anywhere.
    return [form for form in (short, *whole) if len(form) >= 4]


# Beside what docstrings declare, and why.
UNDECLARED = {
    ClippedMean: {
        "_score": "the released mean before it is cut to the bounds, and what is known of its error",
        "_counted": "how many rows count, as released, for standard errors",
        "_spread": "the public or released spread as clipped, where noise hides it too, for standard errors",
    },
    AdaptiveMean: {"_found": "the released averages before they are shrunk, and their errors, for the intervals"},
    SparseMean: {"_found": "what was released of the selected columns, for the intervals"},
    PrivateDistribution: {
        "_fit": "the released cdf before it is made to rise, for the band",
        "_rows": "the public or released number of rows, for the band",
    },
    HotellingTest: {"_found": "the last ellipsoid, and what was released of rows in it"},
    PrivatePCA: {"_found": "what was released of the scores, for intervals"},
    PrivateCorrelation: {
        "_sums": "the released sums, before correlations are cut to their range",
        "_found": "what the stages released: products of shrunk rows",
        "_population": "the same, corrected for the shrinking, for the population",
    },
    PrivateCovariance: {"_sums": "the released sums over n, which the moments of higher order are for"},
    PrivateVariance: {
        "_score": "the same of the released variance, before it is cut to its range",
        "_sampling": "the standard deviations of the sampling errors, from what was released",
        "_counted": "how many rows count, as public or released, for which spreads noise hides",
    },
    PrivateEstimator: {
        "_found_by_fit": "the names of the attributes that the fit has set",
        "_parameters": "the parameters of the fit as text, for reports",
        "_released_size": "the released number of rows and its noise, for the interval",
    },
    LeastSquares: {"_counted": "how many rows count, as released, for degrees of freedom"},
    PrivateLinearRegression: {
        "_counted": "the released number of observed rows, for standard errors",
        "_robust": "which standard errors the fit has",
        "_hidden_level": "the bias of the intercept that noise can hide, for a note",
    },
    CurvedRegression: {
        "_levels": "what the fit knows of the levels of columns with two values, for intervals",
        "_noise_hides": "which coefficients noise hides, for notes",
    },
    PrivateLogisticRegression: {
        "_counted": "the released number of observed rows, for standard errors",
        "_diverged": "whether the released steps diverged, for a note",
    },
    LogLinearRegression: {
        "_counted": "the released number of observed rows, for standard errors",
        "_dispersion_of_mean": "the coefficients of the released variance, for a note",
        "_long_tailed": "whether the released excess is larger than expected, for a note",
    },
    ContingencyTable: {"_cells": "the released counts with the levels and the noise of the fit"},
    PrivateQuantile: {"_fractions": "the fractions of the fit"},
    PrivateStatistic: {"_estimand": "what the fit estimates", "_label": "the name of the function of the fit"},
    PrivateProportion: {"_zeros": "the released number of observed rows without the property, for intervals"},
    GroupMeans: {
        "_ratio": "what was released of the groups, for intervals and tests",
        "_adjusted": "what was released with covariates, for the same",
    },
    PrivateSurvival: {"_table": "what was released of the table, for curves and intervals"},
    MeanPerRow: {"_ratio": "what was released of the units, for intervals and tests"},
}


def declared(kind: type) -> set[str]:
    """Return the fitted attributes that a class and its bases declare in their docstrings."""
    found = {"n_features_in_", "feature_names_in_"}
    for base in kind.__mro__:
        _, _, section = (base.__doc__ or "").partition("Attributes\n    ----------\n")
        section = re.split(r"\n    -{4,}\n", section)[0]
        for names in re.findall(r"^    ([\w, ]+?)(?: :|$)", section, flags=re.MULTILINE):
            found |= set(names.split(", "))
    return {name for name in found if name.endswith("_")}


def check_attributes(made: Any) -> None:
    """Fail if an object has attributes that are no parameters and are not declared."""
    allowed = declared(type(made)) | {
        name for kind, names in UNDECLARED.items() if isinstance(made, kind) for name in names
    }
    found = vars(made).keys() - made.get_params().keys()
    assert found <= allowed, f"{', '.join(sorted(found - allowed))} of {type(made).__name__} is not declared"


@pytest.mark.kinds
@fits
@pytest.mark.parametrize("source", ["exact", "simulated"])
def test_a_fitted_object_holds_no_data(entry: Entry, source: str, recorded: list[Any]) -> None:
    X = rows_of(entry, FEW)
    made = fresh(entry.estimator, random_state=None if source == "exact" else 3)
    if source == "exact":
        made.set_params(budget=PrivacyBudget(1000.0, 0.9, neighbors=entry.claim.neighbors))
    fit_rows(made, X)
    check_attributes(made)
    # With exact noise a release equals its exact integers now and then: there, only the rows themselves.
    private = private_numbers(X, recorded if source == "simulated" else [])
    # Two rows of a table have the integer of its sensitivity, which is public.
    private -= {getattr(stage, "sensitivity_steps", None) for stage in made.plan_.stages}
    assert recorded and (private or entry.estimator.null == "product")
    check_holds_no_data(made, FEW, private, pickled=source == "simulated")
    made.set_params(budget=None)
    check_holds_no_data(copy.deepcopy(made), FEW, private)


def test_declared_attributes_are_read_from_docstrings() -> None:
    names = {"mean_", "noise_scale_", "privacy_", "plan_", "n_features_in_", "feature_names_in_"}
    assert names <= declared(ClippedMean) and names <= declared(SparseMean)
    assert "support_" in declared(SparseMean) - declared(ClippedMean)


# Mechanisms.


def test_every_mechanism_is_called() -> None:
    assert set(CALLS) == {entry.covers for entry in ENTRIES if issubclass(entry.covers, Mechanism)}


def check_mechanism(made: Any, kind: type, recorded: list[Any]) -> None:
    """Fail if a release changes what a mechanism is, or leaves data with it."""
    before = dict(vars(made))
    data = CALLS[kind].data(FEW, np.random.default_rng(2))
    CALLS[kind](made, data)
    after = vars(made)
    # A stream is opened by its first question; all else is fixed at construction.
    assert before.keys() == after.keys()
    assert all(after[name] is value for name, value in before.items() if name != "_stream")
    private = private_numbers(data, recorded)
    check_holds_no_data(made, FEW, private, pickled="_stream" not in before)


@pytest.mark.parametrize("kind", [kind for kind in CALLS if not CALLS[kind].keeps], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("source", ["exact", "simulated"])
def test_a_mechanism_holds_no_data(kind: type, source: str, recorded: list[Any]) -> None:
    made = CALLS[kind].build(random_state=None if source == "exact" else 3)
    check_mechanism(made, kind, recorded)


@calls
def test_every_release_of_a_mechanism_is_charged(kind: type) -> None:
    declared = [{"neighbors": each} for each in Neighbors if "neighbors" in inspect.signature(kind).parameters]
    for more in declared or [{}]:
        relation = more.get("neighbors", CALLS[kind].build().guarantee.neighbors)
        budget = PrivacyBudget(1000.0, 0.9, neighbors=relation)
        made = CALLS[kind].build(budget=budget, **more)
        data = CALLS[kind].data(FEW, np.random.default_rng(2))
        for releases in (1, 2):
            CALLS[kind](made, data)
            # A stream is one release, however long.
            assert len(budget.history()) == (1 if CALLS[kind].is_stream else releases)
            assert budget.history()[-1].guarantee == made.guarantee


# Bugs, planted: each must fail its net.


class FirstPlanKept(ClippedMean):
    """Planted bug: a plan is kept for every size, whatever the parameters."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plans = self.__dict__.setdefault("plans", {})
        if (n_samples, n_features) not in plans:
            plans[n_samples, n_features] = super().plan(n_samples, n_features)
        return plans[n_samples, n_features]


class FirstReportKept(ClippedMean):
    """Planted bug: attributes are set by the first fit."""

    def _report(self, released: Any, plan: Any) -> None:
        if not hasattr(self, "reported"):
            super()._report(released, plan)
            self.reported = {name: value for name, value in vars(self).items() if name.endswith("_")}
        vars(self).update(self.reported)


class SecondForFree(ClippedMean):
    """Planted bug: only the first fit is charged."""

    def fit(self, X: Any, y: Any = None) -> Any:
        budget = self.budget
        if hasattr(self, "plan_"):
            self.budget = None
        super().fit(X)
        self.budget = budget
        return self


@pytest.mark.parametrize("kind", [FirstPlanKept, FirstReportKept])
def test_a_stale_second_fit_would_be_noticed(kind: type) -> None:
    few, many = (np.random.default_rng(0).normal(size=(n, 2)) for n in (FEW, MANY))
    with pytest.raises(AssertionError):
        check_second_fit(kind(clip=1.0), few, few, many)


@pytest.mark.parametrize("kind", [FirstPlanKept, SecondForFree])
def test_a_wrong_second_charge_would_be_noticed(kind: type) -> None:
    few, same_size = np.random.default_rng(0).normal(size=(2, FEW, 2))
    with pytest.raises(AssertionError):
        check_both_are_charged(kind(clip=1.0), few, same_size)


def keeps(how: str) -> type[ClippedMean]:
    """Planted bug: rows or exact sums are kept, one way or another."""

    class Keeps(ClippedMean):
        def _read(self, table: Table, plan: Any) -> Any:
            X, exact = np.asarray(table.X), super()._read(table, plan)
            sums = exact[plan.stages[0].name]["clipped mean"]
            if how == "rows":
                self._rows = X
            elif how == "a row":
                self.last_ = X[-1].tolist()
            elif how == "a view":
                self.row_ = X[0]
            elif how == "in the plan":
                plan.__dict__["_rows"] = [X]
            elif how == "in a closure":
                plan.__dict__["again"] = lambda: X
            elif how == "sums":
                self.sums_ = sums
            elif how == "sums as numbers":
                self.sums_ = {"sums": tuple(int(k) for k in sums)}
            elif how == "sums in the plan":
                plan.__dict__["sums"] = exact
            return exact

    return Keeps


HOW = ["rows", "a row", "a view", "in the plan", "in a closure", "sums", "sums as numbers", "sums in the plan"]


@pytest.mark.parametrize("how", HOW)
def test_kept_data_would_be_noticed(how: str, recorded: list[Any]) -> None:
    X = np.random.default_rng(0).normal(size=(FEW, 2))
    made = keeps(how)(clip=1.0, random_state=0).fit(X)
    with pytest.raises(AssertionError, match=r"kept|written"):
        check_holds_no_data(made, FEW, private_numbers(X, recorded), pickled=False)
    undeclared = vars(made).keys() & {"_rows", "last_", "row_", "sums_"}
    if undeclared:
        with pytest.raises(AssertionError, match="is not declared"):
            check_attributes(made)


@pytest.mark.parametrize("how", ["rows", "a row", "sums", "sums as numbers"])
def test_what_is_pickled_is_read_as_bytes(how: str, recorded: list[Any]) -> None:
    X = np.random.default_rng(0).normal(size=(FEW, 2))
    made = keeps(how)(clip=1.0, random_state=0).fit(X)
    # As an attribute of a class that can be pickled.
    plain = ClippedMean(clip=1.0)
    plain.__dict__.update(vars(made))
    written = pickle.dumps(plain)
    assert any(form in written for number in private_numbers(X, recorded) for form in forms(number))


@pytest.mark.parametrize("where", ["an attribute", "the plan"])
def test_a_mechanism_that_keeps_its_value_would_be_noticed(where: str, recorded: list[Any]) -> None:
    for kind in (LaplaceMechanism, GaussianMechanism):

        class Keeps(kind):  # type: ignore[misc, valid-type]
            def release(self, value: Any) -> Any:
                kept = vars(self) if where == "an attribute" else vars(self.plan)
                kept["last"] = (value,)
                return super().release(value)

        made = CALLS[kind].build(random_state=0)
        made.__class__ = Keeps
        with pytest.raises(AssertionError):
            check_mechanism(made, kind, recorded)
