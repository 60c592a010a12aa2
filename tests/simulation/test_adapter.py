"""Adapter: any function of the rows with the shape of an estimator."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from dpstats.errors import InvalidParameter
from dpstats.simulation import Adapter


def power_mean(X: np.ndarray, rng: np.random.Generator, power: int) -> np.ndarray:
    return (X**power).mean(axis=0) + rng.integers(0, 2**40)


def test_parameters_go_to_the_function_and_clones_are_apart() -> None:
    X = np.array([[1.0], [3.0]])
    made = Adapter(power_mean, "estimate_", power=1)
    other = clone(made).set_params(power=2, random_state=5)
    assert made.get_params() == {"random_state": None, "power": 1}
    # The generator is that of the seed, fresh in every fit: 1^2 and 3^2 have the mean 5.
    drawn = np.random.default_rng(5).integers(0, 2**40)
    assert other.fit(X).estimate_.tolist() == [5.0 + drawn] == other.fit(X).estimate_.tolist()
    assert repr(other) == "Adapter(power_mean, power=2)"


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="function must"):
        Adapter("mean")


def test_a_misspelt_parameter_fails_at_once() -> None:
    def shifted(X: np.ndarray, rng: np.random.Generator, shift: float = 0.0) -> np.ndarray:
        return X.mean(axis=0) + shift

    with pytest.raises(InvalidParameter, match=r"parameters must .* got shfit"):
        Adapter(shifted, shfit=1.0)
    with pytest.raises(InvalidParameter, match="got keep"):
        Adapter(shifted).set_params(keep=1, random_state=2)
    # What takes anything, or states nothing, is taken as it is.
    assert Adapter(lambda X, rng, **more: X.mean(), any=1).get_params()["any"] == 1
    assert Adapter(max, key=len).get_params()["key"] is len
