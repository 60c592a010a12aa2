"""Every mechanism as it is called, with data of the caller's choice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstats.means import ContinualMeans
from dpstats.mechanisms import (
    AboveThreshold,
    ContinualCounts,
    Count,
    ExponentialMechanism,
    GaussianMechanism,
    Histogram,
    LaplaceMechanism,
    NoisyTopK,
    NumericSparseVector,
    PermuteAndFlip,
    RandomizedResponse,
    ReportNoisyMax,
    SparseVector,
)


@dataclass(frozen=True)
class MechanismCall:
    """A mechanism: ``build(random_state=, budget=)``, the ``method`` that releases, and its data.

    ``data(n, rng)`` is n rows (utilities, questions) of numbers that are found nowhere else; ``bad(secret, number)``
    are data that must be refused, by what is wrong with them, in which some text and a number are private. ``keeps``
    says why a mechanism keeps data.
    """

    build: Callable[..., Any]
    method: str
    data: Callable[[int, np.random.Generator], Any]
    bad: Callable[[str, float], dict[str, Any]]
    keeps: str = ""

    @property
    def is_stream(self) -> bool:
        """Whether all calls together are one release."""
        return self.method in ("stream", "update_many")

    def __call__(self, made: Any, data: Any) -> Any:
        released = getattr(made, self.method)(data)
        return list(released) if self.method == "stream" else released


def _numbers(secret: str, number: float) -> dict[str, Any]:
    nan, inf = float("nan"), float("inf")
    return {
        "NaN beside it": [number, nan],
        "infinite beside it": [number, inf],
        "text beside it": [number, secret],
        "text": secret,
        "an object beside it": [number, {secret: number}],
        "a table": [[number, number]],
        "ragged": [[number], [number, number]],
        "complex": [complex(number, number)],
        "an array of text": np.array([secret, str(number)]),
        "a mapping": {secret: number},
        "empty beside nothing": [number, None],
    }


def _answers(secret: str, number: float) -> dict[str, Any]:
    whole = round(number)
    return {
        "out of range": [0, 1, whole],
        "below range": [0, -whole],
        "an array out of range": np.array([0, whole]),
        "not whole": [0, number],
        "floats": np.array([0.0, number]),
        "NaN beside it": [number, float("nan")],
        "text beside it": [0, secret],
        "an object": [0, {secret: number}],
        "ragged": [[0], [whole, 1]],
    }


def _categories(secret: str, number: float) -> dict[str, Any]:
    return {
        "undeclared": ["a", secret],
        "an undeclared number": ["a", number],
        "an array": np.array(["a", secret]),
        "an object": ["a", {secret: number}],
        "a table": [["a", secret], ["b", secret]],
        "text": secret,
        "a mapping": {secret: number},
    }


def _one(n: int, rng: np.random.Generator) -> Any:
    return float(rng.normal(1e4, 1e3))


def _several(n: int, rng: np.random.Generator) -> Any:
    return rng.normal(1e4, 1e3, size=n)


def _means(secret: str, number: float) -> dict[str, Any]:
    # Each step has the values of its rows.
    return {name: [bad] for name, bad in _numbers(secret, number).items()}


def _one_number(secret: str, number: float) -> dict[str, Any]:
    # A table of numbers is a value like any other.
    bad = {name: data for name, data in _numbers(secret, number).items() if name != "a table"}
    return {**bad, "a number in text": f"{number} {secret}"}


def _additive(kind: Any, *args: float) -> MechanismCall:
    return MechanismCall(lambda **kw: kind(1.0, *args, **kw), "release", _one, _one_number)


def _selection(build: Callable[..., Any]) -> MechanismCall:
    return MechanismCall(build, "select", _several, _numbers)


def _stream(build: Callable[..., Any]) -> MechanismCall:
    def questions(secret: str, number: float) -> dict[str, Any]:
        # A stream is asked one value at a time.
        return {name: [bad] for name, bad in _numbers(secret, number).items()}

    return MechanismCall(build, "stream", _several, questions)


CALLS: dict[type, MechanismCall] = {
    LaplaceMechanism: _additive(LaplaceMechanism, 1.0),
    GaussianMechanism: _additive(GaussianMechanism, 1.0, 1e-3),
    RandomizedResponse: MechanismCall(
        lambda **kw: RandomizedResponse(1.0, 5, **kw), "randomize", lambda n, rng: rng.integers(5, size=n), _answers
    ),
    Histogram: MechanismCall(
        lambda **kw: Histogram(["a", "b"], 1.0, unknown="error", **kw),
        "release",
        lambda n, rng: rng.choice(["a", "b"], size=n).tolist(),
        _categories,
    ),
    Count: MechanismCall(
        lambda **kw: Count(1.0, **kw), "release", lambda n, rng: (rng.random(n) < 0.5).tolist(), _categories
    ),
    ContinualCounts: MechanismCall(
        lambda **kw: ContinualCounts(4096, 1.0, 1e-3, **kw),
        "update_many",
        lambda n, rng: rng.integers(10**5, size=n),
        _numbers,
        keeps="Later numbers of the stream need the counts of earlier steps.",
    ),
    ContinualMeans: MechanismCall(
        lambda **kw: ContinualMeans((0, 1), 4096, epsilon=1.0, delta=1e-3, **kw),
        "update_many",
        lambda n, rng: rng.random((n, 40)),
        _means,
        keeps="Later numbers of the stream need the counts and sums of earlier steps.",
    ),
    ExponentialMechanism: _selection(lambda **kw: ExponentialMechanism(1.0, 1.0, **kw)),
    ReportNoisyMax: _selection(lambda **kw: ReportNoisyMax(1.0, 1.0, **kw)),
    PermuteAndFlip: _selection(lambda **kw: PermuteAndFlip(1.0, 1.0, **kw)),
    NoisyTopK: _selection(lambda **kw: NoisyTopK(2, 1.0, 1.0, **kw)),
    AboveThreshold: _stream(lambda **kw: AboveThreshold(1e9, 1.0, **kw)),
    SparseVector: _stream(lambda **kw: SparseVector(1e9, 1.0, max_above=2, **kw)),
    NumericSparseVector: _stream(lambda **kw: NumericSparseVector(1e9, 1.0, max_above=2, **kw)),
}
