"""Fingerprints of requests, and answers as text."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.tree import DecisionTreeRegressor

from dpstats.errors import InvalidParameter
from dpstats.means import ClippedMean
from dpstats.privacy import Neighbors, PrivacyBudget, PrivacyGuarantee
from dpstats.privacy.kept_answers import AlreadyCharged, fingerprint, may_run, new_owner, plan_fingerprint
from dpstats.release.once import decode, encode


def power(x: float, exponent: float) -> float:
    return x**exponent


DIFFERENT: list[Any] = [
    *(
        0,
        1,
        2**53,
        2**53 + 1,
        0.1,
        0.1 + 1e-17 + 1e-16,
        "0",
        "a",
        True,
        None,
        b"a",
        (0,),
        (0, 1),
        ((0,), 1),
        [],
        {},
        {0},
    ),
    *({"a": 1}, {"a": 2}, {"b": 1}, np.arange(3.0), np.arange(4.0), Neighbors.REPLACE_ONE, Neighbors.ADD_OR_REMOVE_ONE),
    *(
        date(2026, 1, 1),
        Decimal("1.5"),
        np.mean,
        np.median,
        power,
        partial(power, exponent=2),
        partial(power, exponent=3),
    ),
    *(lambda x: x + 1, lambda x: x + 2, ClippedMean(clip=1.0), ClippedMean(clip=2.0), float, int),
]


def test_different_values_have_different_fingerprints() -> None:
    found = [fingerprint(value) for value in DIFFERENT]
    same = [(a, b) for i, a in enumerate(DIFFERENT) for j, b in enumerate(DIFFERENT[:i]) if found[i] == found[j]]
    # Sequences, and mappings and sets, are told apart by their entries and kinds.
    assert same == []


def test_fitted_models_are_told_apart() -> None:
    # The nodes of a tree are in a compiled object, which has no attributes.
    x = np.arange(40.0)[:, None]
    first, second, again = (DecisionTreeRegressor(random_state=0).fit(x, y) for y in (x[:, 0], -x[:, 0], x[:, 0]))
    assert fingerprint(first) != fingerprint(second)
    assert fingerprint(first) == fingerprint(again) == fingerprint(pickle.loads(pickle.dumps(first)))


def test_distributions_of_samples_are_told_apart() -> None:
    first, second = (stats.rv_discrete(values=([0, 1], [p, 1 - p]))() for p in (0.25, 0.5))
    assert fingerprint(first) != fingerprint(second)
    assert fingerprint(stats.norm(0, 1)) == fingerprint(stats.norm(0.0, 1.0)) != fingerprint(stats.norm(0, 2))


def test_equal_values_have_equal_fingerprints() -> None:
    assert fingerprint((0, 100)) == fingerprint([0.0, np.float64(100)]) == fingerprint(np.array([0, 100]))
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})


def test_fingerprints_are_equal_in_every_process() -> None:
    code = (
        "from dpstats.privacy.kept_answers import fingerprint, plan_fingerprint; "
        "from dpstats.means import ClippedMean; import numpy as np; m = ClippedMean(bounds=(0, 9)); "
        "print(fingerprint([m, {'b', 'a'}, np.mean]), plan_fingerprint(m.plan(9, 1)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    model = ClippedMean(bounds=(0, 9))
    assert found == [fingerprint([model, {"a", "b"}, np.mean]), plan_fingerprint(model.plan(9, 1))]


def test_last_digits_of_a_plan_do_not_count() -> None:
    assert fingerprint(1.0 + 1e-13, 10) == fingerprint(1.0, 10) != fingerprint(1.0 + 1e-8, 10)


VALUES: list[Any] = [
    *(None, True, 3, 2**80, 0.1, float("inf"), "a", b"\x00", (1, ("a", None)), [1.5], date(2026, 1, 2)),
    *(datetime(2026, 1, 2, 3), timedelta(1, 2, 3), Decimal("1.50"), Fraction(1, 3), {1: "a", "b": (2,)}),
    *(np.float64(0.1), np.int32(3), np.datetime64("2026-01-01"), np.arange(6.0).reshape(2, 3)),
    *(np.array([2**70, 1], dtype=object), np.array([], dtype=np.int64), np.array(["a", "bc"]), np.array([True])),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_an_answer_is_equal_after_storage(value: Any) -> None:
    found = decode(json.loads(json.dumps(encode(value))))
    assert type(found) is type(value) and np.array_equal(np.asarray(found, object), np.asarray(value, object))
    if isinstance(value, np.ndarray):
        assert found.dtype == value.dtype and found.shape == value.shape


def test_mappings_stay_read_only_and_other_values_are_refused() -> None:
    assert isinstance(decode(encode(MappingProxyType({"a": 1}))), MappingProxyType)
    with pytest.raises(TypeError, match="got object"):
        encode(object())


def test_a_guarantee_is_charged_once() -> None:
    budget = PrivacyBudget(1.0)
    budget.once("a").charge(PrivacyGuarantee(0.5))
    with pytest.raises(AlreadyCharged):
        budget.once("a").charge(PrivacyGuarantee(0.5))
    with pytest.raises(InvalidParameter, match="another one"):
        budget.once("a").charge(PrivacyGuarantee(0.4))
    assert budget.spent.epsilon == 0.5 and budget.key is None and budget.once("a").key == "a"


def test_a_process_is_found_while_it_runs() -> None:
    assert may_run(new_owner()) and not may_run("not made by a process")
    host, boot, _, _, token = json.loads(new_owner())
    assert not may_run(json.dumps([host, boot, 2**22 + 1, "1", token]))
    # The number was given to another process later.
    assert not may_run(json.dumps([host, boot, 1, "another start", token]))


def test_another_question_under_a_key_is_refused(tmp_path) -> None:
    import numpy as np
    import pandas as pd

    from dpstats.groups import GroupMeans
    from dpstats.mechanisms import ExponentialMechanism, Histogram, RandomizedResponse
    from dpstats.regression import PrivateLinearRegression

    rng = np.random.default_rng(0)
    data = pd.DataFrame(rng.normal(size=(400, 3)), columns=["a", "b", "y"]).assign(g=rng.choice(["s", "t"], 400))
    data["h"], bounds = data["g"], dict.fromkeys("aby", (-4, 4))
    budget = PrivacyBudget(epsilon=100.0, delta=1e-3)

    def fit(formula: str) -> None:
        PrivateLinearRegression.from_formula(formula, data, bounds=bounds, budget=budget.once("formula"))

    def means(label: str) -> None:
        GroupMeans(groups=["s", "t"], bounds=(-4, 4), budget=budget.once("groups")).fit(data[["a", label]], label)

    def select(utilities: list[float]) -> None:
        ExponentialMechanism(1.0, 1.0, budget=budget.once("selection")).select(utilities)

    def respond(n: int) -> None:
        RandomizedResponse(1.0, budget=budget.once("responses")).randomize([1] * n)

    def count(n: int) -> None:
        Histogram(bins=[0, 1, 2], epsilon=1.0, budget=budget.once("density")).release([0.5] * n)

    for ask, first, other in (
        (fit, "y ~ a + b", "y ~ b + a"),
        (means, "g", "h"),
        (select, [1.0, 2.0, 3.0], [-np.inf, 2.0, 3.0]),
        (respond, 4, 6),
        (count, 100, 3),
    ):
        ask(first)
        ask(first)
        with pytest.raises(InvalidParameter, match="the key"):
            ask(other)
