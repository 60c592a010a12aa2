"""The selections."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from dpstats.mechanisms import ExponentialMechanism, NoisyTopK, PermuteAndFlip, ReportNoisyMax
from dpstats.privacy import Neighbors, Plan, compose
from dpstats.privacy.events import BoundedRange
from registry.entry import Dataset, Draw, Entry, PlantedBug

# A dataset is the vector of utilities itself where nothing else is said. The lattice of the utilities is
# brute-forced in tests/mechanisms/test_selection.py.

_OTHERS = 9
_ONE_UP = np.eye(1, 1 + _OTHERS)[0]  # the first candidate is one better than the others, or one worse
_OTHERS_UP = 1 - _ONE_UP


def _selects(
    build: Callable[..., Any],
    *,
    utilities: Callable[[Dataset], Any] = np.asarray,
    k: int = 1,
    watched: int = 1,
    shrink: float = 1.0,
) -> Draw:
    """Return the batched core of a selection: how many of the first candidates are selected.

    ``shrink`` multiplies the noise; ``k`` selects more than is paid for.
    """

    def draw(data: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        made = build(rng)
        stage = made.plan.selections[0]
        wrong = replace(stage, size=max(k, stage.size), scale_steps=stage.scale_steps * shrink)
        made._plan = replace(made.plan, stages=(wrong,))
        return np.count_nonzero(made._select(utilities(data), size) < watched, axis=1).astype(float)

    return draw


def _selection(
    name: str,
    build: Callable[..., Any],
    pair: tuple[Dataset, Dataset],
    power: float,
    bugs: tuple[PlantedBug, ...],
    *,
    utilities: Callable[[Dataset], Any] = np.asarray,
    watched: int = 1,
) -> Entry:
    made = build(None)

    def public(data: Dataset, budget: Any) -> tuple[Plan, np.ndarray]:
        mechanism = build(None, budget)
        return mechanism.plan, np.atleast_1d(mechanism.select(utilities(data)))

    return Entry(
        name=name,
        covers=type(made),
        proof="selection.md",
        plan=made.plan,
        integers=lambda data: [],
        pairs=lambda: iter(()),
        draw=_selects(build, utilities=utilities, watched=watched),
        dataset=pair[0],
        neighbor=pair[1],
        power=power,
        public=public,
        bugs=bugs,
    )


def _revenues(bids: Dataset) -> np.ndarray:
    """Return what each price earns: the utilities of an auction; one bid moves each by up to the price."""
    prices = np.arange(1, 11)[::-1]
    return prices * (np.asarray(bids)[:, None] >= prices).sum(axis=0)


def _tallies(rows: Dataset) -> np.ndarray:
    """Return how often each of ten categories occurs: monotone utilities."""
    return np.bincount(np.asarray(rows, dtype=int), minlength=10)


def _winner_and_value(utilities: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
    """Planted bug: the noisy utility of the winner is released along with its index."""
    made = ReportNoisyMax(1.0, 1.0)
    noisy = np.asarray(utilities) + rng.laplace(scale=made.scale, size=(size, len(utilities)))
    return np.column_stack([noisy.argmax(axis=1) == 0, noisy.max(axis=1)])


def _many_flips(gap: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
    """Return how often the first of two candidates is selected, in 25 selections of epsilon = 0.2."""
    flips = PermuteAndFlip(1.0, 0.2, random_state=rng)._select([0.0, gap], 25 * size)
    return np.count_nonzero(flips.reshape(size, 25) == 0, axis=1).astype(float)


def entries() -> Iterator[Entry]:
    add = Neighbors.ADD_OR_REMOVE_ONE
    pair = (_ONE_UP, _OTHERS_UP)

    def exponential(rng: Any, budget: Any = None) -> ExponentialMechanism:
        return ExponentialMechanism(1.0, 1.0, random_state=rng, budget=budget)

    def monotone(rng: Any, budget: Any = None) -> ExponentialMechanism:
        return ExponentialMechanism(1.0, 1.0, monotone=True, neighbors=add, random_state=rng, budget=budget)

    yield _selection(
        "exponential mechanism",
        exponential,
        pair,
        0.5,
        (
            PlantedBug("scale sensitivity/epsilon", _selects(exponential, shrink=0.5), *pair, 1.0, 0.0),
            # One bid of 10 replaced by one of 0 moves the revenue at price 10 by 10, not by 1.
            PlantedBug(
                "sensitivity of the utility forgotten",
                _selects(exponential, utilities=_revenues),
                (10,),
                (0,),
                1.0,
                0.0,
            ),
        ),
    )

    def noisy_counts(rng: Any, budget: Any = None) -> ReportNoisyMax:
        return ReportNoisyMax(1.0, 1.0, monotone=True, neighbors=add, random_state=rng, budget=budget)

    def flipped_counts(rng: Any, budget: Any = None) -> PermuteAndFlip:
        return PermuteAndFlip(1.0, 1.0, monotone=True, neighbors=add, random_state=rng, budget=budget)

    def top_count(rng: Any, budget: Any = None) -> NoisyTopK:
        return NoisyTopK(1, 1.0, 1.0, monotone=True, neighbors=add, random_state=rng, budget=budget)

    for name, counted in (
        ("exponential mechanism, monotone", monotone),
        ("report noisy max, laplace, monotone", noisy_counts),
        ("permute and flip, monotone", flipped_counts),
        ("noisy top 1, monotone", top_count),
    ):
        yield _selection(
            name,
            counted,
            ((0,), ()),
            0.5,
            (
                PlantedBug(
                    "monotone under replacement",
                    _selects(counted, utilities=_tallies),
                    (0, 1, 1, 1, 1),
                    (1, 1, 1, 1, 1),
                    1.0,
                    0.0,
                    trials=200_000,
                ),
            ),
            utilities=_tallies,
        )
    for noise in ("laplace", "exponential", "gumbel"):

        def noisy(rng: Any, budget: Any = None, noise: str = noise) -> ReportNoisyMax:
            return ReportNoisyMax(1.0, 1.0, noise=noise, random_state=rng, budget=budget)

        bugs = [PlantedBug("scale sensitivity/epsilon", _selects(noisy, shrink=0.5), *pair, 1.0, 0.0)]
        if noise == "laplace":
            low, high = np.zeros(6), np.ones(6)
            bugs.append(PlantedBug("value of the winner for free", _winner_and_value, low, high, 1.0, 0.0, 200_000))
        yield _selection(f"report noisy max, {noise}", noisy, pair, 0.5, tuple(bugs))

    def flip(rng: Any, budget: Any = None) -> PermuteAndFlip:
        return PermuteAndFlip(1.0, 1.0, random_state=rng, budget=budget)

    # The total that 25 selections of bounded range would have; these have not.
    claimed = compose([BoundedRange(0.2)] * 25, 0.05)
    yield _selection(
        "permute and flip",
        flip,
        (np.array([0.0, 2.0]), np.array([1.0, 1.0])),
        0.8,
        (
            PlantedBug("scale sensitivity/epsilon", _selects(flip, shrink=0.5), *pair, 1.0, 0.0),
            PlantedBug("charged as bounded range", _many_flips, 0.0, 2.0, claimed.epsilon, claimed.delta),
        ),
    )

    # The two best candidates change places with the others.
    two = (np.arange(10) < 2).astype(float)

    def top(rng: Any, budget: Any = None) -> NoisyTopK:
        return NoisyTopK(2, 1.0, 2.0, random_state=rng, budget=budget)

    yield _selection(
        "noisy top 2, pure",
        top,
        (two, 1 - two),
        0.5,
        (PlantedBug("k for the price of one", _selects(top, k=2, watched=2, shrink=0.5), two, 1 - two, 2.0, 0.0),),
        watched=2,
    )
    best = (np.arange(40) < 10).astype(float)

    def many(rng: Any, budget: Any = None) -> NoisyTopK:
        return NoisyTopK(10, 1.0, 2.0, 1e-2, random_state=rng, budget=budget)

    yield _selection(
        "noisy top 10, zero-concentrated",
        many,
        (best, 1 - best),
        0.25,
        (
            PlantedBug(
                "k selections at the rho of one",
                _selects(many, k=10, watched=10, shrink=1 / math.sqrt(10)),
                best,
                1 - best,
                2.0,
                1e-2,
            ),
        ),
        watched=10,
    )
