"""Each of several draws asks its stages what a session of one draw asks; and a witness keeps copies.

Studies and audits draw a release many times in one session. Each draw is repeated alone here: it is released what it
was among the others, and must ask every stage the same. All of it is exact: no test here can raise a false alarm.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from types import FunctionType
from typing import Any

import numpy as np
import pytest
from registry import ENTRIES, Entry

from dpstats.privacy.stages import Comparisons, Discovery
from dpstats.release import witness as recorder
from dpstats.release.session import Part, Session
from dpstats.release.witness import Seen, Witness, WitnessedNoise, WitnessedSession

DRAWS = 11
ONE_WAY = (Comparisons, Discovery)
"""Stages of one draw, and those whose labels are of all draws together."""


def of_draw(thing: Any, place: int, size: int | None = None) -> Any:
    """Return what one draw of several has of a release or of what is asked; of a session of one, or without a size."""
    if isinstance(thing, Part):
        case = 0 if thing.case is None else int(thing.case[place])
        return Part([thing.cases[case]], None)
    if isinstance(thing, np.ndarray) and thing.ndim > 0 and len(thing) == DRAWS:
        one = thing[place : place + 1]
        return one if size == 1 else bool(one[0]) if thing.ndim == 1 and thing.dtype.kind == "b" else one[0]
    if isinstance(thing, Mapping):
        return {key: of_draw(value, place, size) for key, value in thing.items()}
    if isinstance(thing, list | tuple):
        return tuple(of_draw(value, place, size) for value in thing)
    return thing


def arrays_in(thing: Any) -> Iterator[np.ndarray]:
    """Yield every array in what a stage is given, also behind the windows of a choice."""
    if isinstance(thing, np.ndarray):
        yield thing
    elif isinstance(thing, Mapping):
        for value in thing.values():
            yield from arrays_in(value)
    elif isinstance(thing, Part):
        yield from arrays_in([*thing.cases, thing.case])
    elif isinstance(thing, (tuple, list)):
        for value in thing:
            yield from arrays_in(value)
    elif isinstance(thing, FunctionType):
        for cell in thing.__closure__ or ():
            yield from arrays_in(cell.cell_contents)
    elif dataclasses.is_dataclass(thing):
        yield from arrays_in([getattr(thing, item.name) for item in dataclasses.fields(thing)])


def same(one: Any, other: Any) -> bool:
    """Return whether two stages are asked the same; windows of a choice are compared by their arrays."""
    if isinstance(one, Part):
        return same(one.cases[0], other.cases[0 if other.case is None else int(other.case[0])])
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(map(same, one, other))
    if dataclasses.is_dataclass(one):
        return same(list(arrays_in(one)), list(arrays_in(other)))
    return np.array_equal(np.ravel(np.asarray(one, dtype=object)), np.ravel(np.asarray(other, dtype=object)))


def draw(entry: Entry, witness: Witness, size: int | None) -> list[Seen]:
    """Draw a release in one session, and return what its stages are asked; nothing, where it is drawn in several."""
    sizes = []

    def simulated(plan: Any, generator: Any, asked: int | None = None) -> Session:
        sizes.append(asked)
        return WitnessedSession(plan, WitnessedNoise(witness, generator), size=asked if size else None)

    # Of one draw, what the registry looks at afterwards may have another shape.
    expected = () if size == DRAWS else Exception
    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(expected):
        patch.setattr(Session, "simulated", simulated)
        entry.draw(entry.dataset, np.random.default_rng(0), size or 1)
    return witness.seen if size != DRAWS or sizes == [DRAWS] else []


def repeated(entry: Entry, together: list[Seen], place: int, size: int | None) -> list[Seen]:
    """Return what one of several draws asks, in a session of one draw or in one without a size."""
    first = tuple(seen._replace(outcome=of_draw(seen.outcome, place, size)) for seen in together)
    return draw(entry, Witness(first=first), size)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_each_of_several_draws_asks_what_it_asks_alone(entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[Any, Any]] = []
    keep = recorder._kept

    def kept(thing: Any, memo: Any = None) -> Any:
        found = keep(thing, memo)
        given.append((thing, found))
        return found

    monkeypatch.setattr(recorder, "_kept", kept)
    together = draw(entry, Witness(), DRAWS)
    for thing, found in given:
        for one in arrays_in(thing):
            assert not any(np.shares_memory(one, other) for other in arrays_in(found)), "an array is kept"
    if not together or entry.drawn_together or any(isinstance(seen.stage, ONE_WAY) for seen in together):
        return  # It is drawn one by one, or otherwise.
    for place in range(DRAWS):
        alone = repeated(entry, together, place, None)
        if len(alone) < len(together):
            alone = repeated(entry, together, place, 1)
        assert len(alone) == len(together)
        for one, seen in zip(alone, together, strict=True):
            assert same(of_draw(seen.given, place), one.given), (seen.stage.name, place)
