"""A witness of a release: it sees what every stage is given, and can have a second run released what the first was.

On a dataset, a release draws simulated noise, and the witness stores the input and output of every stage. On
a neighbor, with the same witness's `again`, every stage returns its first value. Everything that follows from
releases is then the same, and any difference is due to the row. This isolates the sensitivity, for adaptive
releases too. A run that requests another stage depends on unreleased data.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import CellType, FunctionType, MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_choice, check_real
from dpstats.errors import DPStatsError, attempt, refuse
from dpstats.privacy.budget import PrivacyBudget
from dpstats.privacy.guarantee import Neighbors
from dpstats.privacy.plan import Plan
from dpstats.privacy.stages import KINDS, AnyStage, Comparisons
from dpstats.release.groups import Nested, Windows
from dpstats.release.noise import Noise, SimulatedNoise, StandIn
from dpstats.release.session import Drawn, Part, Session
from dpstats.release.streams import Above, NumberStream, Stream

Numbers = NDArray[np.float64]
NORMS = ("l1", "l2", "linf")


@dataclass(frozen=True, slots=True)
class Declared:
    """What a release of somebody's own says of one of its statistics, before noise.

    Attributes
    ----------
    name : str
    norm : {"l1", "l2", "linf"}
        Of the sensitivity; for scores that the best is selected of, "linf".
    sensitivity : float
        Largest change of the statistic between neighboring datasets.
    scale : float
        Scale of its noise.
    selection : bool
        Whether the best of scores is selected.
    monotone : bool
        Whether a row changes all scores in the same direction.
    """

    name: str
    norm: str
    sensitivity: float
    scale: float
    selection: bool = field(default=False, kw_only=True)
    monotone: bool = field(default=False, kw_only=True)


class Seen(NamedTuple):
    """One stage of a run: what it is about, what it was given before noise, and what came out."""

    stage: AnyStage | Declared
    given: Any
    outcome: Any


class Diverged(DPStatsError):
    """A second run asks for another stage than the first."""


class Witness(StandIn):
    """Stands in for noise: give it as ``random_state`` to anything of this package, or draw from it.

    Parameters
    ----------
    seed : int
        Seed of the simulated noise.
    first : sequence of Seen, optional
        A run whose releases are repeated.
    """

    def __init__(self, seed: int = 0, first: Sequence[Seen] | None = None) -> None:
        self.seen: list[Seen] = []
        self.parted = ""
        self.relations: set[Neighbors] = set()  # which neighbors its plans are for
        self._seed = seed
        self._first = first
        self._generator = np.random.default_rng(seed)

    @property
    def noise(self) -> Noise:
        """The source of noise of sessions."""
        return WitnessedNoise(self, self._generator)

    def again(self) -> Witness:
        """Return a witness of a second run, which is released what this run was."""
        return Witness(self._seed, tuple(self.seen))

    # Draws of a user's own release

    def laplace(self, value: Any, *, sensitivity: float, scale: float | None = None, name: str | None = None) -> Any:
        """Return a number or an array with Laplace noise; its l1 norm moves by at most ``sensitivity``.

        Parameters
        ----------
        value : number or array
        sensitivity : float
        scale : float, optional
            Scale of the noise; default: the sensitivity, as for epsilon = 1.
        name : str, optional
            Name of the statistic, for the report.
        """
        return self._added("laplace", "l1", value, sensitivity, scale, name)

    def gaussian(self, value: Any, *, sensitivity: float, scale: float | None = None, name: str | None = None) -> Any:
        """Return a number or an array with Gaussian noise; its l2 norm moves by at most ``sensitivity``."""
        return self._added("gaussian", "l2", value, sensitivity, scale, name)

    def select(
        self,
        scores: Any,
        *,
        sensitivity: float,
        scale: float | None = None,
        monotone: bool = False,
        name: str | None = None,
    ) -> int:
        """Return the place of the best score by Gumbel noise; each moves by at most ``sensitivity``."""
        numbers = _numbers("scores", scores).ravel()
        stage = self._declared("selection", "linf", sensitivity, scale, name, selection=True, monotone=monotone)
        return int(
            self.witness(
                stage,
                numbers,
                lambda: np.argmax(numbers.astype(np.float64) + stage.scale * self._generator.gumbel(size=numbers.size)),
            )
        )

    def statistic(self, value: Any, *, sensitivity: float, norm: str = "l1", name: str | None = None) -> None:
        """Look at a statistic whose noise is drawn elsewhere: nothing is returned."""
        check_choice("norm", norm, list(NORMS))
        numbers = _numbers("value", value)
        self.witness(self._declared("statistic", norm, sensitivity, None, name), numbers.ravel(), lambda: None)

    def _added(self, law: str, norm: str, value: Any, sensitivity: float, scale: float | None, name: str | None) -> Any:
        numbers = _numbers("value", value)
        stage = self._declared(law, norm, sensitivity, scale, name)
        draw = self._generator.laplace if law == "laplace" else self._generator.normal
        released = self.witness(
            stage, numbers.ravel(), lambda: numbers.astype(np.float64) + stage.scale * draw(size=numbers.shape)
        )
        return float(released) if numbers.ndim == 0 else released.copy()

    def _declared(
        self, law: str, norm: str, sensitivity: float, scale: float | None, name: str | None, **more: bool
    ) -> Declared:
        moved = check_real("sensitivity", sensitivity, at_least=0)
        of_noise = moved if scale is None else check_real("scale", scale, above=0)
        return Declared(name or f"{law} {len(self.seen) + 1}", norm, moved, of_noise, **more)

    # Recorded stages

    def witness(self, stage: AnyStage | Declared, given: Any, draw: Callable[[], Any]) -> Any:
        """Store the input of a stage, and return its release: new, or from the first run."""
        # Before the draw, and both ways: a release may change what it gives and what it gets.
        kept = _kept(given)
        if self._first is None:
            outcome = draw()
        else:
            place = len(self.seen)
            known = self._first[place].stage if place < len(self._first) else None
            if known is None or (type(known), known.name) != (type(stage), stage.name):
                asked = "no further stage" if known is None else f"stage {known.name!r}"
                self.parted = f"where one run asks for {asked}, the other asks for stage {stage.name!r}"
                raise Diverged(self.parted)
            if isinstance(self._first[place].given, str) and not isinstance(given, str):
                self.parted = f"where one run leaves stage {stage.name!r} out, the other releases it"
                raise Diverged(self.parted)
            outcome = _kept(self._first[place].outcome)
        self.seen.append(Seen(stage, kept, _kept(outcome)))
        return outcome

    def finish(self) -> str:
        """Return a description of the first difference of a finished second run; "" if there is none."""
        if self._first is not None and not self.parted and len(self.seen) < len(self._first):
            missing = self._first[len(self.seen)].stage.name
            self.parted = f"where one run asks for stage {missing!r}, the other asks for no further stage"
        return self.parted

    def __repr__(self) -> str:
        return "Witness()"


class WitnessedNoise(SimulatedNoise):
    """Simulated noise whose sessions tell a witness."""

    def __init__(self, witness: Witness, generator: np.random.Generator) -> None:
        super().__init__(generator)
        self.witness = witness


class WitnessedSession(Session):
    """A session that tells a witness what its stages are given, and releases what that says."""

    _noise: WitnessedNoise

    def __init__(
        self, plan: Plan, noise: Noise, budget: PrivacyBudget | None = None, label: str = "", size: int | None = None
    ) -> None:
        super().__init__(plan, noise, budget, label, size)
        self._noise.witness.relations.add(plan.guarantee.neighbors)

    def _obtain(self, name: str, given: Callable[[], Any], draw: Callable[[], Drawn]) -> Drawn:
        stage = self._stage(name, *KINDS)
        drawn: list[Drawn] = []

        def drawing() -> tuple[Any, Drawn]:
            drawn.append(draw())
            return self._released.get(name), drawn[0]

        returned: Drawn
        released, returned = self._noise.witness.witness(stage, given(), drawing)
        if not drawn:
            self._take(name)
            self._released[name] = released
        return returned

    def stream(self, name: str) -> Stream:
        stage: Comparisons = self._stage(name, Comparisons)
        Session.stream(self, name)
        return WitnessedStream(stage, self._noise)

    def numbers(self, name: str) -> NumberStream:
        return WitnessedNumbers(self._number_stage(name), self._noise)

    def skip(self, name: str, why: str) -> None:
        stage = self._stage(name, *KINDS)
        self._noise.witness.witness(stage, why, lambda: None)
        Session.skip(self, name, why)


class WitnessedStream(Stream):
    """A stream that tells a witness of every question."""

    _noise: WitnessedNoise

    def ask(self, steps: int, answer: int | None = None) -> Above | None:
        drawn: list[Any] = []

        def drawing() -> Any:
            drawn.append(Stream.ask(self, steps, answer))
            return drawn[0]

        above: Above | None = self._noise.witness.witness(self._stage, (steps, answer), drawing)
        if not drawn and above is not None:
            self._state = (self._state[0] - 1, None)
        return above


class WitnessedNumbers(NumberStream):
    """A stream of random numbers that shows each of them to a witness."""

    _noise: WitnessedNoise

    def add(self, steps: NDArray[np.int64]) -> NDArray[np.int64]:
        part = replace(self._stage, size=steps.size)
        found: NDArray[np.int64] = self._noise.witness.witness(
            part, (steps, True), lambda: NumberStream.add(self, steps)
        )
        return found


def _numbers(name: str, value: Any) -> NDArray[Any]:
    """Return floats; Python's numbers, where an integer is too large to be a float exactly."""
    given = attempt(lambda: np.asarray(value), Exception)
    if given is not None and np.iscomplexobj(given):
        raise refuse(name, got="complex ones", allowed="real numbers", remedy="Give both parts as two columns.")
    numbers = attempt(lambda: np.asarray(given).astype(np.float64), Exception)
    if given is None or numbers is None or not np.isfinite(numbers).all():
        raise refuse(name, allowed="finite numbers")
    if not isinstance(value, np.ndarray):
        given = np.asarray(value, dtype=object)  # integers next to a float stay integers
    if given.dtype.kind in "iuO" and (np.abs(numbers) >= 2**53).any():
        return given.astype(object)
    return numbers


def _kept(given: Any, memo: dict[int, Any] | None = None) -> Any:
    """Copy the input or the output of a stage, because the caller may change its arrays later."""
    memo = {} if memo is None else memo
    if isinstance(given, MappingProxyType):
        # Keep a mapping that occurs twice as one object.
        if id(given) not in memo:
            memo[id(given)] = MappingProxyType({key: _kept(value, memo) for key, value in given.items()})
        return memo[id(given)]
    if isinstance(given, Part):
        return Part([_kept(groups, memo) for groups in given.cases], _kept(given.case, memo))
    if isinstance(given, Windows | Nested):
        # The windows compute their limits from the rows later.
        return replace(given, ends=_kept(given.ends, memo))
    if isinstance(given, FunctionType):
        cells = tuple(CellType(_kept(cell.cell_contents, memo)) for cell in given.__closure__ or ())
        return FunctionType(given.__code__, given.__globals__, given.__name__, given.__defaults__, cells)
    if type(given) in (list, tuple):
        return type(given)(_kept(value, memo) for value in given)
    return copy.deepcopy(given, memo)
