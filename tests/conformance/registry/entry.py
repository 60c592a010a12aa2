"""What an entry of the registry is: one release, and what attacks it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dpstats.auditing.movement import Steps
from dpstats.data.rows import Table
from dpstats.privacy import (
    Coins,
    Comparisons,
    Discovery,
    JointStage,
    OneOf,
    Plan,
    PrivacyGuarantee,
    Selection,
    Shuffle,
    Smooth,
    Stage,
)
from dpstats.release.session import Session
from registry.movement import joined

Dataset = Any
Draw = Callable[[Dataset, np.random.Generator, int], np.ndarray]


class Asked(Sequence[Steps]):
    """The integers of each stage, each read from the data when it is first asked for."""

    def __init__(self, answers: Sequence[Callable[[], Steps]]) -> None:
        self._answers, self._known = answers, dict[int, Steps]()

    def __len__(self) -> int:
        return len(self._answers)

    def __getitem__(self, place: Any) -> Any:
        if place >= len(self):
            raise IndexError(place)
        if place not in self._known:
            self._known[place] = self._answers[place]()
        return self._known[place]


def content(data: Dataset) -> Hashable:
    """Return what tells a dataset from any other: its values to the last bit, and their types."""
    if isinstance(data, list | tuple):
        return type(data), *map(content, data)
    if not isinstance(data, np.ndarray):
        if not isinstance(data, str | bytes | int | float | np.generic | None):
            raise TypeError(f"no content of a {type(data).__name__}")
        return type(data), repr(data)
    return data.dtype, data.shape, data.tobytes() if data.dtype.kind != "O" else content(data.tolist())


def remembered(read: Callable[[Dataset], Sequence[Steps]]) -> Callable[[Dataset], Sequence[Steps]]:
    """Return what reads a dataset once: each is in many pairs."""
    known: dict[Hashable, Sequence[Steps]] = {}

    def integers(data: Dataset) -> Sequence[Steps]:
        if (key := content(data)) not in known:
            known[key] = read(data)
        return known[key]

    return integers


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
class Understated:
    """A broken version that states less than a row moves it by, too little less for an audit: brute force must see it.

    ``integers`` are those of the stages of ``plan`` that add noise; ``pairs`` holds a pair that is too far apart.
    """

    name: str
    plan: Plan
    integers: Callable[[Dataset], list[Steps]]
    pairs: Callable[[], Iterator[tuple[Dataset, Dataset]]]


@dataclass(frozen=True)
class Traits:
    """What the nets must know of a class, where it is not what they would think.

    ``additive`` says whether the integers of rows are the sum of those of each row; None: as the stages say.
    ``unmoved`` has the names of integers that no few rows move, such as their public number. ``row_signs`` are the
    signs of rows that do add up. ``other_row`` makes of a row one that moves what is read. ``rows(estimator, X)``
    returns what is fitted, of rows of numbers; None: as registry/reading.py says. ``checked_with`` has parameters for
    the checks of scikit-learn. ``computed_once`` is what is computed once for several stages: a module and the name
    of a function.

    ``excused`` has the nets that do not fit, each with its reason: a check of scikit-learn, or one of NETS.
    """

    additive: bool | None = None
    unmoved: frozenset[str] = frozenset()
    row_signs: tuple[float, ...] = (-1.0, 1.0)
    other_row: Callable[[np.ndarray], np.ndarray] = np.asarray
    rows: Callable[[Any, Any], tuple[Any, ...]] | None = None
    checked_with: Mapping[str, Any] = field(default_factory=dict)
    computed_once: tuple[Any, str] | None = None
    excused: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if unknown := {name for name in self.excused if name not in NETS and not name.startswith("check_")}:
            raise ValueError(f"excused has no nets of the names {sorted(unknown)}. Known: {sorted(NETS)}.")


NETS = {
    "estimator": "an estimator in the entry of a fit, which all nets of rows are given",
    "rows": "an estimator that is fitted to rows, and not to counts of them",
    "missing rows": "rows with missing entries are refused",
    "odd row": "a row that is not read shows in what is read",
    "events": "the events of a plan are those of its stages",
    "independent draws": "the draws of a batch are independent",
    "exact audit": "an audit of real releases of the class",
    "estimates": "a fit has estimates with intervals",
    "null": "a test simulates the distribution of what it reads",
    "far from the null": "and also that of rows far from the null hypothesis",
}
"""Nets that a class may be excused from."""


@dataclass(frozen=True)
class Entry:
    """One release.

    ``plan`` is that of releasing ``dataset``; ``integers(dataset)`` returns the exact integers of each of ``stages``
    (by default those of the plan that add noise, and the scores of those that select; of a joint one a mapping by the
    names of its blocks); ``pairs()`` yields neighboring datasets for the brute force, which must attain the stated
    sensitivity, of all blocks of a stage together, to within 2%. ``unattained`` has the stages of which a search
    attains less, with a part that it attains at least, and ``unattained_reason`` says why. ``draw`` is the batched
    core; ``dataset`` and ``neighbor`` are a worst pair, with ``rows_apart`` other rows. ``public(dataset, budget)``
    makes the call that a user makes, with exact noise, and returns the plan that was released and the released
    numbers; None where an entry is about a part of a release. ``method`` is what releases, and ``label`` that of its
    charge, where it is not the class's name.

    ``most_trials`` is for releases that are drawn one at a time: `make audit` runs them no more often. Real releases
    of the first entry of a class are audited, or of those with ``exact_audit``. ``not_replayed`` says why
    ``estimator`` is not one of that pair, ``no_estimator`` why an entry of a fit has none, and ``drawn_together`` why
    a draw of several is another than a draw alone. ``traits`` hold for the class, and one of its entries states them.
    ``file`` is the file of this folder that has the entry, which the registry fills in.
    """

    name: str
    covers: type
    proof: str
    plan: Plan
    integers: Callable[[Dataset], Sequence[Steps]]
    pairs: Callable[[], Iterator[tuple[Dataset, Dataset]]]
    draw: Draw
    dataset: Dataset
    neighbor: Dataset
    power: float
    public: Callable[[Dataset, Any], tuple[Plan, Any]] | None
    stages: tuple[Stage | JointStage | Selection, ...] = ()
    unattained: Mapping[str, float] = field(default_factory=dict)
    unattained_reason: str = ""
    bugs: tuple[PlantedBug, ...] = field(default=())
    understated: tuple[Understated, ...] = field(default=())
    estimator: Any = None
    most_trials: int = 1_000_000
    method: str = "fit"
    label: str = ""
    exact_audit: bool = False
    rows_apart: int = 1
    not_replayed: str = ""
    no_estimator: str = ""
    drawn_together: str = ""
    traits: Traits | None = None
    file: str = ""

    @property
    def adds_up(self) -> bool:
        """Whether the integers of rows are the sum of those of each row."""
        stated = traits_of(self).additive
        return additive_alone(self.plan) if stated is None else stated

    @property
    def claim(self) -> PrivacyGuarantee:
        """What the plan claims."""
        return self.plan.guarantee


def additive_alone(plan: Plan) -> bool:
    """Return whether all stages of a plan add noise to integers, or draw without the data."""
    return all(isinstance(stage, Stage | JointStage | Discovery | Coins | Shuffle) for stage in plan.stages)


def traits_of(thing: Any) -> Traits:
    """Return the traits of a class, or of that of an entry or an estimator: its own, or those of its nearest base."""
    if isinstance(thing, Entry) and thing.traits is not None:
        return thing.traits
    stated = stated_traits()
    kind = thing.covers if isinstance(thing, Entry) else thing if isinstance(thing, type) else type(thing)
    return next((stated[base] for base in kind.__mro__ if base in stated), Traits())


def stated_traits() -> Mapping[type, Traits]:
    """Return the traits of all classes that have any; none while the registry is being made."""
    if not _STATED:
        entries = getattr(sys.modules.get("registry"), "ENTRIES", ())
        _STATED.update({entry.covers: entry.traits for entry in entries if entry.traits is not None})
    return _STATED


_STATED: dict[type, Traits] = {}

Entries = Callable[[], Iterator["Entry"]]


def having(
    traits: Mapping[type, Traits], entries: Mapping[str, Mapping[str, Any]] | None = None
) -> Callable[[Entries], Entries]:
    """Return what gives traits to the entries of some classes, and further attributes to entries of some names."""
    named = dict(entries or {})

    def decorate(made: Entries) -> Entries:
        def decorated() -> Iterator[Entry]:
            left = set(named)
            for entry in made():
                left.discard(entry.name)
                more = dict(named.get(entry.name, {}))
                if entry.covers in traits:
                    more["traits"] = traits[entry.covers]
                yield replace(entry, **more)
            if left:
                raise ValueError(f"no entries of the names {sorted(left)}")

        return decorated

    return decorate


def core(estimator: Any, view: Callable[[Any, Any], np.ndarray] | None = None) -> Draw:
    """Return the batched core of a fit: `_read`, then `_release` through a session, as `fit` itself calls them.

    ``view`` is what an attacker looks at, of the plan and all that was released; by default all of it as it is.
    """

    def draw(X: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        plan = estimator.plan(*X.shape)
        with Session.simulated(plan, rng, size) as session:
            estimator._release(estimator._read(Table(X), plan), plan, session)
        return (view or columns)(plan, session.released)

    return draw


def columns(plan: Plan, released: Any) -> np.ndarray:
    """Return all that was released in many draws, one column a number; a selection in increasing order."""
    found = [
        np.sort(released[stage.name], axis=-1) if isinstance(stage, Selection) else joined(stage, released[stage.name])
        for stage in plan.stages
        if stage.name in released
    ]
    return np.concatenate(found, axis=1)


def measured(plan: Plan) -> tuple[Stage | JointStage | Selection, ...]:
    """Return the stages of a plan that add noise to integers or select by scores."""
    return tuple(stage for stage in plan.stages if isinstance(stage, Stage | JointStage | Selection))


def exact_integers(estimator: Any, plan: Plan) -> Callable[[Dataset], list[Steps]]:
    """Return what reads the integers of every stage that adds noise or selects from a dataset, as a fit does."""

    def integers(data: Dataset) -> list[Steps]:
        exact = estimator._read(Table(data), plan)
        return [exact[stage.name] for stage in measured(plan)]

    return integers


def fitted(estimator: Any, numbers: Callable[[Any], Any]) -> Callable[[Dataset, Any], tuple[Plan, np.ndarray]]:
    """Return the public call of an estimator: a fit with exact noise, and some numbers of it."""

    params = {**estimator.get_params(), "random_state": None}

    def public(data: Dataset, budget: Any) -> tuple[Plan, np.ndarray]:
        made = type(estimator)(**{**params, "budget": budget})
        made.fit(data)
        return made.plan_, np.ravel(numbers(made))

    return public


def less_noise(plan: Any, factor: float = 0.5) -> Any:
    """Return a plan with less noise in every stage: a bug, which its guarantee would show."""
    return replace(plan, stages=tuple(quieter(stage, factor) for stage in plan.stages))


def with_less_noise(kind: Any, factor: float = 0.5) -> Any:
    """Return an estimator's class with a planted bug: less noise in every stage than the guarantee needs."""

    class LessNoise(kind):  # type: ignore[misc]
        def plan(self, *sizes: Any, **named: Any) -> Any:
            return less_noise(super().plan(*sizes, **named), factor)

    return LessNoise


def quieter(stage: Any, factor: float) -> Any:
    """Return a stage with less noise, where it has any."""
    if isinstance(stage, JointStage):
        return replace(stage, scale=stage.scale * factor)
    if isinstance(stage, Discovery):
        return replace(stage, touched=quieter(stage.touched, factor))
    if isinstance(stage, Smooth):
        return replace(stage, levels=tuple(level * factor for level in stage.levels))
    if isinstance(stage, OneOf):
        return replace(stage, options=tuple(quieter(option, factor) for option in stage.options))
    if isinstance(stage, Comparisons) and factor < 1:
        scales = factor * stage.threshold_scale_steps, factor * stage.question_scale_steps
        return replace(stage, threshold_scale_steps=scales[0], question_scale_steps=scales[1])
    return replace(stage, scale_steps=stage.scale_steps * factor) if hasattr(stage, "scale_steps") else stage
