"""LaplaceMechanism and GaussianMechanism."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dpstats.lattice import exact_steps
from dpstats.mechanisms import GaussianMechanism, LaplaceMechanism
from dpstats.privacy import Plan
from registry.entry import Dataset, Entry, PlantedBug, less_noise


def _mechanism_entry(name: str, build: Callable[..., Any], size: int, proof: str, power: float) -> Entry:
    mechanism = build(None)
    plan = mechanism._plan_of(size)
    stage = plan.additive[0]
    apart = np.ones(size) * mechanism.sensitivity / (size if stage.norm == "l1" else math.sqrt(size))

    def draw(value: Dataset, rng: np.random.Generator, count: int, plan: Plan = plan) -> np.ndarray:
        # What `release` does after validation, drawn many times at once.
        with build(rng)._session(plan, count) as session:
            return session.add("value", exact_steps(value, stage.spacing))

    def half(value: Dataset, rng: np.random.Generator, count: int) -> np.ndarray:
        return draw(value, rng, count, less_noise(plan))

    def public(value: Dataset, budget: Any) -> tuple[Plan, np.ndarray]:
        made = build(None, budget)
        return made._plan_of(size), made.release(value)

    def pairs() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        rng = np.random.default_rng(2)
        for _ in range(4000):
            x = rng.normal(size=size) * 10.0 ** rng.integers(-6, 9)
            step = rng.normal(size=size) if rng.random() < 0.5 else np.eye(size)[rng.integers(size)]
            step *= mechanism.sensitivity / np.linalg.norm(step, 1 if stage.norm == "l1" else 2)
            y = x + step
            # The neighbor as a float may be further away than the sensitivity: step back.
            while np.linalg.norm(y - x, 1 if stage.norm == "l1" else 2) > mechanism.sensitivity:
                y = x + 0.999999 * (y - x)
            yield x, y
        yield np.zeros(size), apart * (1 - 2.0**-52)

    return Entry(
        name=name,
        covers=type(mechanism),
        proof=proof,
        plan=plan,
        integers=lambda value: [exact_steps(value, stage.spacing)],
        pairs=pairs,
        draw=draw,
        dataset=np.zeros(size),
        neighbor=apart,
        power=power,
        public=public,
        bugs=(PlantedBug("half the noise", half, np.zeros(size), apart, mechanism.epsilon, mechanism.delta),),
    )


def low_bits(outputs: np.ndarray) -> np.ndarray:
    """Score small outputs by whether they are multiples of 2^-53: 1 if not (Mironov 2012).

    Noise near 0 has finer bits than 2^-53; a sum with a value of about 1 is rounded to them.
    """
    scaled = outputs * 2.0**53
    return ((np.abs(outputs) < 0.25) & (scaled != np.rint(scaled))).astype(float)


def float_noise(rows: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
    """Planted bug: a floating-point sum with floating-point Laplace noise."""
    return low_bits(np.sum(rows) + rng.laplace(size=size))


def entries() -> Iterator[Entry]:
    bits = PlantedBug(
        "least significant bits of floating-point noise", float_noise, np.zeros(3), np.eye(1, 3)[0], 1.0, 0.0
    )
    for size in (1, 3):
        laplace = _mechanism_entry(
            f"Laplace mechanism, {size} number(s)",
            lambda rng, budget=None: LaplaceMechanism(2.5, 1.0, random_state=rng, budget=budget),
            size,
            "laplace.md",
            0.4,
        )
        yield replace(laplace, bugs=(*laplace.bugs, bits)) if size == 1 else laplace
        yield _mechanism_entry(
            f"Gaussian mechanism, {size} number(s)",
            lambda rng, budget=None: GaussianMechanism(2.5, 3.0, 1e-2, random_state=rng, budget=budget),
            size,
            "gaussian.md",
            0.5,
        )
