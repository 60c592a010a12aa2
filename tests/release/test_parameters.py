"""Declared parameters make the constructor that scikit-learn reads."""

from __future__ import annotations

import inspect
import pickle
from dataclasses import field
from typing import Any, ClassVar

import pytest
from sklearn.base import BaseEstimator, clone

from dpstats.release.estimator import fitted, parameters


@parameters
class Shared(BaseEstimator):
    epsilon: float = 1.0
    budget: Any = None

    title: ClassVar[str] = "no parameter"
    delta = 0.0


@parameters
class Own(Shared):
    clip: Any = None
    epsilon: float = 0.5
    delta: float = 1e-6


def test_the_signature_is_that_of_the_declarations() -> None:
    signature = inspect.signature(Own).parameters
    assert {name: parameter.default for name, parameter in signature.items()} == {
        "epsilon": 0.5,
        "budget": None,
        "clip": None,
        "delta": 1e-6,
    }
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in signature.values())
    assert inspect.signature(Shared).parameters["epsilon"].default == 1.0 and Shared().delta == 0.0
    for wrong in ((1.0,), {}), ((), {"title": "x"}):
        with pytest.raises(TypeError, match="argument"):
            Own(*wrong[0], **wrong[1])


def test_estimators_are_what_scikit_learn_takes_them_for() -> None:
    bounds = [1.0, 2.0]
    made = Own(clip=bounds, epsilon=2.0)
    assert made.clip is bounds and made.get_params() == {"budget": None, "clip": bounds, "delta": 1e-6, "epsilon": 2.0}
    assert repr(made) == repr(clone(made)) == "Own(clip=[1.0, 2.0], epsilon=2.0)"
    assert made != clone(made) and len({made, clone(made)}) == 2
    again = pickle.loads(pickle.dumps(made.set_params(delta=0.1)))
    assert again.get_params() == made.get_params() and vars(again) == vars(made)


def test_a_subclass_without_parameters_of_its_own_has_those_of_its_base() -> None:
    class Planted(Own):
        pass

    assert Planted(clip=3.0).get_params() == Own(clip=3.0).get_params()


def test_a_field_can_be_positional() -> None:
    @parameters
    class First(BaseEstimator):
        q: float = field(default=0.5, kw_only=False)
        step: float = 1.0

    assert First(0.25).get_params() == {"q": 0.25, "step": 1.0} and First().q == 0.5
    with pytest.raises(TypeError, match="positional"):
        First(0.25, 2.0)


def test_every_signature_has_the_one_order_and_no_results_of_a_fit() -> None:
    @parameters
    class Late(Own):
        y_bounds: Any
        option: int = 3
        coef_: Any = fitted()

    assert [*inspect.signature(Late).parameters] == ["y_bounds", "clip", "option", "epsilon", "delta", "budget"]
    assert next(iter(inspect.signature(Late.__init__).parameters)) == "self"
    made = Late(y_bounds=(0, 1))
    assert not hasattr(made, "coef_") and made.get_params()["y_bounds"] == (0, 1) and "coef_" not in repr(made)
