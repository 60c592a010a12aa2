"""What an entry of the registry is: one release, and what attacks it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpstats.privacy import PrivacyGuarantee, Stage
from dpstats.privacy.events import Event

Dataset = Any
Draw = Callable[[Dataset, np.random.Generator, int], np.ndarray]


@dataclass(frozen=True)
class PlantedBug:
    """A broken version of a release, the claim it breaks and the pair that shows it."""

    name: str
    draw: Draw
    dataset: Dataset
    neighbor: Dataset
    epsilon: float
    delta: float
    trials: int = 20_000


@dataclass(frozen=True)
class Entry:
    """One release.

    ``statistic(dataset)`` returns the exact integers of each stage; ``pairs()`` yields neighbouring
    datasets for the brute force, which must attain the stated sensitivity unless ``slack`` (in steps)
    explains the difference; ``draw`` is the batched core; ``dataset`` and ``neighbor`` are a worst pair.
    A release without additive noise has ``events`` in place of stages. ``most_trials`` is for releases that are
    drawn one at a time: `make audit` runs them no more often.
    """

    name: str
    covers: type
    proof: str
    stages: tuple[Stage, ...]
    claim: PrivacyGuarantee
    statistic: Callable[[Dataset], list[np.ndarray]]
    pairs: Callable[[], Iterator[tuple[Dataset, Dataset]]]
    draw: Draw
    dataset: Dataset
    neighbor: Dataset
    power: float
    slack: tuple[float, ...] = (0.0,)
    slack_reason: str = ""
    events: tuple[Event, ...] = ()
    bugs: tuple[PlantedBug, ...] = field(default=())
    estimator: Any = None
    most_trials: int = 1_000_000
