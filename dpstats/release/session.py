"""A session: the only access to noise. It is charged for a plan, and then draws each stage of the plan once.

The arguments of a source of noise come from the stages of the plan, which also determine the cost. Neither
can be changed without the other. The noise is drawn after the charge, by the name of a stage. An unknown
name, a second use, a wrong length and a forgotten stage are errors.

Several releases can be one: the stages of all of them in one plan, which is charged once. Proof:
docs/proofs/composition.md.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from fractions import Fraction
from types import MappingProxyType, TracebackType
from typing import Any, Concatenate, NamedTuple, NoReturn, ParamSpec, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import DPStatsError, running_accounts
from dpstats.privacy.budget import PrivacyBudget, check_budget
from dpstats.privacy.plan import Plan, check_memory
from dpstats.privacy.stages import (
    KINDS,
    AnyStage,
    Block,
    Choice,
    Coins,
    Comparisons,
    Discovery,
    JointStage,
    KeyCounts,
    OneOf,
    Responses,
    Selection,
    Shuffle,
    Smooth,
    Spacing,
    Stage,
)
from dpstats.release.groups import Groups
from dpstats.release.noise import Noise, SimulatedNoise
from dpstats.release.streams import NumberStream, Stream

Released = Mapping[str, Any]
"""Released values by the name of the stage, in its units. They are public, and the only input of a report."""

_SALT = 20_107  # of the order of simulated keys; any number
_BLOCK = 1 << 16  # responses that stay in cache

Keeper = Callable[[str, Plan, Released], None]
"""Called with a session's label, its plan and what it has released."""
_KEEPER: ContextVar[Keeper | None] = ContextVar("keeper", default=None)


@contextlib.contextmanager
def keeping(keeper: Keeper) -> Iterator[None]:
    """Pass releases to ``keeper`` immediately, before any report, so that a later error does not lose them.

    A session that ends with an error passes its releases until then. Simulated releases are not passed.
    """
    before = _KEEPER.set(keeper)
    try:
        yield
    finally:
        _KEEPER.reset(before)


class Part(NamedTuple):
    """An independent part of a `Choice`.

    Attributes
    ----------
    cases : sequence of Groups
        The weights of its candidates: one case for every way that earlier releases went.
    case : array of shape (size,), optional
        The case of each draw; None: the only one.
    """

    cases: Sequence[Groups]
    case: NDArray[np.intp] | None = None


Given = ParamSpec("Given")
Drawn = TypeVar("Drawn")
Drawing = Callable[Concatenate["Session", str, Given], Drawn]
"""A method that draws a stage, by its name."""


def drawing(*hidden: str) -> Callable[[Drawing[Given, Drawn]], Drawing[Given, Drawn]]:
    """Let the kind of session decide whether a method draws: every value of a stage comes through `Session._obtain`.

    Parameters
    ----------
    *hidden : str
        The arguments that the noise hides, for a witness.
    """

    def decorate(draw: Drawing[Given, Drawn]) -> Drawing[Given, Drawn]:
        bind = inspect.signature(draw).bind

        @functools.wraps(draw)
        def obtain(self: Session, name: str, /, *args: Given.args, **options: Given.kwargs) -> Drawn:
            def given() -> Any:
                bound = bind(self, name, *args, **options)
                bound.apply_defaults()
                values = tuple(bound.arguments[key] for key in hidden)
                return values[0] if len(values) == 1 else values

            return self._obtain(name, given, lambda: draw(self, name, *args, **options))

        return obtain

    return decorate


class Session:
    """The releases of one plan.

    Parameters
    ----------
    plan : Plan
    noise : Noise
        Exact or simulated.
    budget : PrivacyBudget, optional
        Charged by `open`, whole and durably, before anything is drawn.
    label : str
        Label of the charge.
    size : int, optional
        How many times everything is drawn, for simulations and audits: releases have this many rows. None is
        once.

    Notes
    -----
    `open` and every stage are tickets that are taken before they are used: wherever a session is interrupted,
    nothing is drawn that was not charged, and nothing twice. A session cannot be copied or pickled, and is
    refused in a process that was forked.
    """

    def __init__(
        self, plan: Plan, noise: Noise, budget: PrivacyBudget | None = None, label: str = "", size: int | None = None
    ) -> None:
        self._plan = plan
        self._noise = noise
        self._budget = check_budget(budget, simulated=noise.simulated)
        self._label = label
        self._size = size
        self._process = os.getpid()
        self._entry = [plan]
        self._tickets: dict[str, AnyStage] | None = None
        self._released: dict[str, Any] = {}
        self._skipped: dict[str, str] = {}
        if len({stage.name for stage in plan.stages}) < len(plan.stages):
            raise DPStatsError("the stages of a plan must have different names")

    @classmethod
    def simulated(cls, plan: Plan, generator: np.random.Generator, size: int | None = None) -> Session:
        """Return a session whose noise is reproducible and protects nobody."""
        return cls(plan, SimulatedNoise(generator), size=size)

    @property
    def plan(self) -> Plan:
        """The plan of the session."""
        return self._plan

    @property
    def size(self) -> int | None:
        """How many times everything is drawn; None is once."""
        return self._size

    @property
    def released(self) -> Released:
        """The releases so far, by the name of the stage: read-only."""
        return MappingProxyType(self._released)

    def is_answered(self) -> bool:
        """Return whether an earlier session with the same key has the whole answer. Nothing is drawn then."""
        return False

    # Paying.

    def check(self) -> None:
        """Raise if the release cannot be made or paid for; charges nothing. Called before the data are touched."""
        self._in_its_process()
        self._rehearse()
        if self._budget is not None:
            self._budget.check(self._plan)

    def open(self) -> Self:
        """Charge the budget for the whole plan; nothing can be drawn before.

        Where this fails the session is dead: whether the charge was kept may be unknown.
        """
        self._in_its_process()
        self._rehearse()
        if not self._noise.simulated:
            # Certified before anything is drawn, also where no budget asks; the plan keeps it.
            _ = self._plan.guarantee
        try:
            plan = self._entry.pop()
        except IndexError:
            raise DPStatsError("a session is opened once: it was, or it failed when it was") from None
        if self._budget is not None:
            self._charge(self._budget, plan)
        self._tickets = {stage.name: stage for stage in plan.stages}
        return self

    def resume(self) -> Self:
        """Open a session that was charged before, as the stored state of its stream says. It charges nothing."""
        self._in_its_process()
        self._rehearse()
        self._entry.clear()
        self._tickets = {stage.name: stage for stage in self._plan.stages}
        return self

    def _rehearse(self) -> None:
        """Raise for what would make the release fail after its charge: a noise library that does not load, memory."""
        if not self._noise.simulated:
            self._noise.rehearse(self._plan.noise_kinds)
            check_memory(self._plan)

    def _charge(self, budget: PrivacyBudget, plan: Plan) -> None:
        self._pay(budget, plan)

    def _pay(self, budget: PrivacyBudget, plan: Plan, **options: Any) -> Any:
        """Charge the budget, and tell the running calls, whose errors then state the charge."""
        charge, accounts = (self._label, str(plan.guarantee)), running_accounts()
        for account in accounts:
            account.charges.append(charge)
            account.released.append(self.released)
            account.unknown = True
        try:
            kept = budget.charge(plan, label=self._label, **options)
        except DPStatsError:
            for account in accounts:
                account.charges.pop()
                account.released.pop()
                account.unknown = False
            raise
        for account in accounts:
            account.unknown = False
        return kept

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        left, self._tickets = self._tickets, None
        keeper = _KEEPER.get()
        if keeper is not None and self._released and not self._noise.simulated:
            keeper(self._label, self._plan, self.released)
        if left and kind is None:
            raise DPStatsError(f"stages of the plan were neither released nor skipped: {', '.join(left)}")

    # Drawing.

    @drawing("integers", "where")
    def add(self, name: str, integers: Any, where: Any = True, units: bool = True) -> Any:
        """Release integers with the noise of a stage, and return the release.

        Parameters
        ----------
        name : str
            A `Stage` or a `JointStage`.
        integers : array of shape (k,), or (size, k); a mapping of these by the names of the blocks
            Exact, in steps of the stage's lattice; int64 or Python integers.
        where : bool, or array of shape (size,)
            Which of the draws are released; the others, where a procedure has stopped early, are NaN.
        units : bool, default=True
            Whether to return the release in its units, or in steps as integers (0 where not released).

        Returns
        -------
        float64 array of shape (k,), or (size, k); a mapping of these for a joint stage
        """
        stage: Stage | JointStage = self._stage(name, Stage, JointStage)
        if isinstance(stage, Stage):
            steps = self._checked(name, integers, stage.size)
            self._take(name)
            noisy, released = self._noisy(stage.noise, stage.scale_steps, steps, stage.size, stage.spacing, where)
            self._released[name] = released
            return released if units else noisy
        if integers.keys() != {block.name for block in stage.blocks}:
            raise DPStatsError(
                f"stage {name!r} must get the blocks {', '.join(block.name for block in stage.blocks)} together"
            )
        exact = {block.name: self._checked(block.name, integers[block.name], block.size) for block in stage.blocks}
        self._take(name)
        both = {
            block.name: self._noisy(
                stage.noise, stage.scale_steps(block), exact[block.name], block.size, block.spacing, where
            )
            for block in stage.blocks
        }
        self._released[name] = MappingProxyType({key: released for key, (_, released) in both.items()})
        return self._released[name] if units else {key: noisy for key, (noisy, _) in both.items()}

    @drawing("labels", "integers")
    def discover(self, name: str, labels: Sequence[Any], integers: Mapping[str, Any]) -> Released:
        """Release the keys whose noisy count reaches a threshold, and the noisy numbers of these.

        Parameters
        ----------
        name : str
            A `Discovery`.
        labels : sequence of length k
            The keys that have rows, each once, in an order that is a function of the keys alone.
        integers : mapping of names of blocks to arrays of shape (k, width)
            Exact, in steps.

        Returns
        -------
        mapping
            ``"labels"`` and every block, of shape (found, width). In a session with a size the labels are all
            keys, and the blocks have shape (size, k, width), with NaN for a key that was not found.
        """
        stage: Discovery = self._stage(name, Discovery)
        if integers.keys() != {block.name for block in stage.blocks}:
            raise DPStatsError(f"stage {name!r} must get the blocks {', '.join(b.name for b in stage.blocks)} together")
        exact = {}
        for block in stage.blocks:
            steps = exact[block.name] = np.asarray(integers[block.name])
            if steps.shape != (len(labels), stage.width(block)) or steps.dtype.kind not in "iu":
                raise DPStatsError(f"stage {name!r} must get {stage.width(block)} integers of each key")
        if (exact[stage.counts.name] < stage.row_steps).any() or len(set(labels)) < len(labels):
            raise DPStatsError(f"stage {name!r} must get keys that have rows, each once")
        self._take(name)
        noisy = {block.name: self._noisy_keys(stage, block, exact[block.name]) for block in stage.blocks}
        passed = noisy[stage.counts.name][..., 0] >= stage.threshold_steps
        found: dict[str, Any] = {}
        for block in stage.blocks:
            units = noisy[block.name].astype(np.float64) * np.asarray(block.spacing)
            found[block.name] = units[passed] if self._size is None else np.where(passed[..., None], units, np.nan)
        kept = passed if self._size is None else np.ones(len(labels), dtype=bool)
        found["labels"] = tuple(label for label, keep in zip(labels, kept.tolist(), strict=True) if keep)
        released = self._released[name] = MappingProxyType(found)
        return released

    @drawing("scores")
    def select(self, name: str, scores: NDArray[np.int64]) -> NDArray[np.intp]:
        """Select the best candidates by noisy score, and return their positions, best first.

        Parameters
        ----------
        name : str
            A `Selection`.
        scores : int64 array of shape (candidates,), or (size, candidates) where each draw has scores of its
        own
            Exact, in steps.

        Returns
        -------
        array of shape (k,), or (size, k)
        """
        stage: Selection = self._stage(name, Selection)
        own = scores.ndim == 2 and len(scores) == self._size
        if (scores.ndim != 1 and not own) or stage.candidates not in (None, scores.shape[-1]):
            raise DPStatsError(
                f"stage {name!r} must get {stage.candidates} scores, got an array of shape {scores.shape}"
            )
        self._take(name)
        if own:
            rows = [self._noise.top(stage.noise, row, stage.scale_steps, stage.size) for row in scores]
            chosen = np.array(rows, dtype=np.intp)
        elif stage.times == 1:
            chosen = self._noise.top(stage.noise, scores, stage.scale_steps, stage.size, self._size)
        else:
            chosen = self._peeled(stage, scores)
        self._released[name] = chosen
        return chosen

    @drawing("parts")
    def choose(self, name: str, parts: Sequence[Part]) -> NDArray[np.int64]:
        """Choose candidates by their utility, and return them.

        Parameters
        ----------
        name : str
            A `Choice`.
        parts : sequence of Part
            The weights of the independent parts, in steps of utility; together of the stage's size.

        Returns
        -------
        int64 array of shape (k,), or (size, k)
        """
        stage: Choice = self._stage(name, Choice)
        sizes = [part.cases[0].size for part in parts]
        right = set(sizes) <= {stage.size} if stage.per_key else sum(sizes) == stage.size
        if not right or any(len({groups.size for groups in part.cases}) != 1 for part in parts):
            raise DPStatsError(f"stage {name!r} must get {stage.size} numbers")
        self._take(name)
        count = 1 if self._size is None else self._size
        drawn = [self._chosen(part, stage.scale_steps, count) for part in parts]
        chosen = np.concatenate(drawn, axis=1) if drawn else np.empty((count, 0), dtype=np.int64)
        self._released[name] = chosen[0] if self._size is None else chosen
        return np.asarray(self._released[name])

    def _chosen(self, part: Part, scale: float, count: int) -> NDArray[np.int64]:
        if part.case is None:
            return self._noise.candidate(part.cases[0], scale, count)
        found = np.empty((count, part.cases[0].size), dtype=np.int64)
        for place, groups in enumerate(part.cases):
            draws = np.flatnonzero(part.case == place)
            found[draws] = self._noise.candidate(groups, scale, draws.size)
        return found

    @drawing("integers", "level")
    def smooth(self, name: str, integers: Any, level: int) -> NDArray[np.float64]:
        """Release integers with noise of one of the levels of a `Smooth`, which is private as the integers are.

        Both must belong to the data. The level changes by at most one between neighbors, and bounds the
        change of the integers, as the stage states.
        """
        stage: Smooth = self._stage(name, Smooth)
        if not 0 <= level < len(stage.levels):
            raise DPStatsError(f"stage {name!r} must get one of its {len(stage.levels)} levels")
        steps = self._checked(name, np.atleast_1d(integers), stage.size)
        self._take(name)
        _, released = self._noisy(stage.noise, stage.levels[level], steps, stage.size, stage.spacing, True)
        self._released[name] = released
        return released

    @drawing("integers", "option")
    def add_one(self, name: str, integers: Any, option: int) -> NDArray[np.float64]:
        """Release integers with the noise of an option of a `OneOf`, which has to follow from earlier releases alone.

        It releases the option and the numbers.
        """
        stage: OneOf = self._stage(name, OneOf)
        if not 0 <= option < len(stage.options):
            raise DPStatsError(f"stage {name!r} must get one of its {len(stage.options)} options")
        chosen = stage.options[option]
        steps = self._checked(name, integers, stage.size)
        self._take(name)
        _, released = self._noisy(chosen.noise, chosen.scale_steps, steps, stage.size, chosen.spacing, True)
        self._released[name] = (option, released)
        return released

    @drawing("answers")
    def respond(self, name: str, answers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return a randomized response to every answer in 0, ..., n_categories - 1, of shape (n,) or (size, n)."""
        stage: Responses = self._stage(name, Responses)
        self._take(name)
        flat = answers if self._size is None else np.tile(answers, self._size)
        responses = np.empty_like(flat)
        for start in range(0, flat.size, _BLOCK):
            block = flat[start : start + _BLOCK]
            kept = self._noise.integers(stage.GRAIN, block.size) < stage.keep_grains
            responses[start : start + _BLOCK] = np.where(kept, block, self._others(block, stage.n_categories))
        self._released[name] = responses.reshape(self._shape(answers.size))
        return np.asarray(self._released[name])

    @drawing()
    def coins(self, name: str) -> NDArray[np.int64]:
        """Toss coins: uniform -1 and 1, of the stage's shape, or (size, *shape); private, if the stage says no more."""
        stage: Coins = self._stage(name, Coins)
        self._take(name)
        signs = 2 * self._noise.integers(2, self._shape(*stage.shape)) - 1
        if stage.released:
            self._released[name] = signs
        return signs

    @drawing()
    def shuffle(self, name: str) -> NDArray[np.intp]:
        """Return a uniform order of the units of a `Shuffle`, of shape (k,). All draws of a simulation share it."""
        stage: Shuffle = self._stage(name, Shuffle)
        self._take(name)
        while True:
            # Uniform keys without ties have a uniform order.
            keys = self._noise.integers(1 << 62, stage.size)
            if self._noise.simulated:
                # Rows may be drawn from an equal seed. Keys in their order would sort rows of few values.
                keys = np.random.default_rng(_SALT).permutation(keys)
            order = find_order(keys)
            if order is not None:
                return order

    def stream(self, name: str) -> Stream:
        """Return the stream of a `Comparisons`, once; it lives on when the session does not."""
        stage: Comparisons = self._stage(name, Comparisons)
        self._take(name)
        self._released[name] = None  # what it releases it gives to who asks
        return Stream(stage, self._noise)

    def numbers(self, name: str) -> NumberStream:
        """Return the stream of the numbers of a Gaussian `Stage`, once; it lives on when the session does not."""
        stage = self._number_stage(name)
        return NumberStream(stage, self._noise)

    def _number_stage(self, name: str) -> Stage:
        stage: Stage = self._stage(name, Stage)
        if self._size is not None or stage.noise != "gaussian" or stage.times != 1:
            raise DPStatsError(f"stage {name!r} must have Gaussian noise for a stream of its numbers")
        self._take(name)
        self._released[name] = None  # what it releases it gives to who asks
        return stage

    def skip(self, name: str, why: str) -> None:
        """Leave a stage out, for a public reason: it was charged, and is not drawn."""
        self._stage(name, *KINDS)
        self._take(name)
        self._skipped[name] = why

    def take_units(self, stages: Sequence[AnyStage]) -> None:
        """Release further stages in the units of these, which must be equal except for the length of a step.

        The units may follow from earlier releases. The integers, their noise and the cost are as planned.
        """
        for stage in stages:
            planned = self._stage(stage.name, *KINDS)
            if planned != stage and _drop_units(planned) != _drop_units(stage):
                raise DPStatsError(f"stage {stage.name!r} must be as planned, but for its units")
            assert self._tickets is not None
            self._tickets[stage.name] = stage

    # Mechanics

    def _obtain(self, name: str, given: Callable[[], Any], draw: Callable[[], Drawn]) -> Drawn:
        """Return the value of a stage: it is drawn now. Other kinds of sessions may have an earlier one."""
        return draw()

    def _stage(self, name: str, *kinds: type[AnyStage]) -> Any:
        """Return an unreleased stage of one of these kinds."""
        self._in_its_process()
        if self._tickets is None:
            raise DPStatsError("nothing can be drawn: the session is not open")
        stage = self._tickets.get(name)
        if stage is None:
            known = {item.name for item in self._plan.stages}
            raise DPStatsError(
                f"stage {name!r} was released before: each is once"
                if name in known
                else f"the stage must be in the plan ({', '.join(sorted(known))}), got {name!r}"
            )
        if not isinstance(stage, kinds):
            raise DPStatsError(
                f"stage {name!r} must be a {' or '.join(k.__name__ for k in kinds)}, got a {type(stage).__name__}"
            )
        return stage

    def _take(self, name: str) -> None:
        """Take a stage's ticket, after which it cannot be drawn again; of two takers one gets it."""
        tickets = self._tickets
        if tickets is None or tickets.pop(name, None) is None:
            raise DPStatsError(f"stage {name!r} was released before: each is once")

    def _shape(self, *shape: int) -> tuple[int, ...]:
        return shape if self._size is None else (self._size, *shape)

    def _checked(self, name: str, integers: Any, size: int) -> NDArray[Any]:
        """Return exact integers of the shape of a stage."""
        steps = np.asarray(integers)
        if (steps.shape != (size,) and steps.shape != self._shape(size)) or steps.dtype.kind not in "iuO":
            raise DPStatsError(
                f"stage {name!r} releases {size} integers, got an array of {steps.shape} of type {steps.dtype}"
            )
        # The sum of unsigned 64-bit integers with signed noise would be a float in numpy.
        return steps.astype(object) if steps.dtype == np.uint64 else steps

    def _noisy(
        self, noise: str, scale: float, steps: NDArray[Any], size: int, spacing: Spacing, where: Any
    ) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Draw noise for integers: the sum in steps, and in units."""
        shape = self._shape(size)
        kept = np.asarray(where)
        if not kept.any():
            return np.zeros(shape, dtype=np.int64), np.full(shape, np.nan)
        # The method has the name of the distribution.
        draw: Callable[..., NDArray[np.int64]] = getattr(self._noise, noise)
        noisy = steps + draw(scale, shape)
        fits = noisy.dtype != object
        released = noisy.astype(np.float64) * np.asarray(spacing) if fits else to_units(noisy, spacing)
        if kept.all():
            return noisy, released
        return np.where(kept[:, None], noisy, 0), np.where(kept[:, None], released, np.nan)

    def _noisy_keys(self, stage: Discovery, block: Block, steps: NDArray[np.int64]) -> NDArray[np.int64]:
        """Add the noise of a block for all keys. Noise of counts is drawn until it is below the threshold."""
        draw = self._noise.laplace if stage.noise == "laplace" else self._noise.gaussian
        scale, shape = stage.touched.scale_steps(block), self._shape(*steps.shape)
        if block is not stage.counts:
            return steps + draw(scale, shape)
        limit, gap = stage.threshold_steps, stage.gap if isinstance(stage, KeyCounts) else math.inf

        def is_refused(noise: NDArray[np.int64]) -> NDArray[np.bool_]:
            beyond = noise >= limit
            # A geometric variable reaches x with probability exp(-x/gap).
            return beyond if gap == math.inf else beyond | (self._geometric(gap, noise.shape) < noise)

        return steps + _redraw(lambda shape: draw(scale, shape), shape, is_refused)

    def _geometric(self, scale: float, shape: tuple[int, ...]) -> NDArray[np.int64]:
        """Draw P(k) proportional to exp(-k/scale) for k >= 0: Laplace noise given that it is not negative."""
        return _redraw(lambda shape: self._noise.laplace(scale, shape), shape, lambda noise: noise < 0)

    def _peeled(self, stage: Selection, scores: NDArray[np.int64]) -> NDArray[np.intp]:
        """Select one after another, with new noise for all remaining candidates."""
        count = 1 if self._size is None else self._size
        taken = np.zeros((count, scores.size), dtype=bool)
        chosen = np.empty((count, stage.size), dtype=np.intp)
        for t in range(stage.times):
            noisy = scores + self._noise.laplace(stage.scale_steps, taken.shape)
            noisy[taken] = np.iinfo(np.int64).min
            # The first of equal sums, on neighboring datasets alike.
            chosen[:, t] = np.argmax(noisy, axis=1)
            taken[np.arange(count), chosen[:, t]] = True
        return chosen[0] if self._size is None else chosen

    def _others(self, answers: NDArray[np.int64], n_categories: int) -> NDArray[np.int64]:
        """Return for each answer one of the other categories, each equally likely."""
        if n_categories == 2:
            return 1 - answers
        others = self._noise.integers(n_categories - 1, answers.size)
        return others + (others >= answers)

    def _in_its_process(self) -> None:
        if os.getpid() != self._process:
            raise DPStatsError("a session belongs to the process that made it: two copies would cost twice")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Session cannot be copied or pickled: two copies would cost twice")


def find_order(keys: NDArray[np.int64]) -> NDArray[np.intp] | None:
    """Return the places of keys that are not negative, in increasing order, or None if two keys are equal."""
    # Numbers sort in a third of the time that places take: the first bits of each key, then its place.
    bits = keys.size.bit_length()
    packed = np.sort(keys >> bits << bits | np.arange(keys.size))
    order = packed & (1 << bits) - 1
    first = packed >> bits
    if (first[1:] > first[:-1]).all():
        return order
    order = order[np.argsort(keys[order], kind="stable")]  # few are in another order: those with equal first bits
    ordered = keys[order]
    return order if (ordered[1:] > ordered[:-1]).all() else None


def _drop_units(stage: AnyStage) -> AnyStage:
    """Return a stage whose integers are not in units of the data."""
    if isinstance(stage, Stage | Smooth):
        return replace(stage, spacing=1.0)
    if isinstance(stage, JointStage):
        return replace(stage, blocks=tuple(replace(block, spacing=1.0) for block in stage.blocks))
    if isinstance(stage, Discovery):
        touched = _drop_units(stage.touched)
        assert isinstance(touched, JointStage)
        return replace(stage, touched=touched)
    return stage


def to_units(noisy: NDArray[Any], spacing: Spacing) -> NDArray[np.float64]:
    """Put Python integers back into units; what exceeds the largest float becomes that float."""
    if all(abs(number) <= 2**53 for number in noisy.ravel().tolist()):
        # Floats stay exact: a product of two is the product of fractions, rounded once.
        with np.errstate(over="ignore"):
            product = noisy.astype(np.float64) * np.asarray(spacing)
        if np.isfinite(product).all():
            return np.asarray(product)
    largest = Fraction(np.finfo(np.float64).max)
    steps = [Fraction(step) for step in np.broadcast_to(spacing, noisy.shape).ravel().tolist()]
    values = [
        float(max(-largest, min(largest, number * step))) for number, step in zip(noisy.ravel(), steps, strict=True)
    ]
    return np.array(values).reshape(noisy.shape)


def _redraw(
    draw: Callable[[tuple[int, ...]], NDArray[np.int64]],
    shape: tuple[int, ...],
    is_refused: Callable[[NDArray[np.int64]], NDArray[np.bool_]],
) -> NDArray[np.int64]:
    """Draw numbers, each again until it is not refused."""
    drawn = draw(shape)
    refused = is_refused(drawn)
    while refused.any():
        again = draw((int(refused.sum()),))
        drawn[refused] = again
        refused[refused] = is_refused(again)
    return drawn


# Several releases as one: the stages of all of them in one plan, which is charged once


_BETWEEN = ": "


def join_stages(plans: Mapping[str, Plan]) -> tuple[AnyStage, ...]:
    """Return the stages of several plans in order, each with the name of its plan before its own.

    Examples
    --------
    >>> from dpstats.groups import GroupMeans
    >>> from dpstats.release.session import join_stages
    >>> plan = GroupMeans(groups=["a", "b"], bounds=(0, 10), epsilon=0.5).plan(5000, 1)
    >>> [stage.name for stage in join_stages({"age": plan, "height": plan})]
    ['age: totals of the groups', 'height: totals of the groups']
    """
    found: list[AnyStage] = []
    for name, plan in plans.items():
        # A release before the stages, such as one of bounds, would be forgotten.
        if getattr(plan, "counted", None) is not None or getattr(plan, "located", None) is not None:
            raise DPStatsError(f"the part {name!r} must have all of its stages in one plan")
        for stage in plan.stages:
            named: Any = stage  # each kind of stage has a name
            found.append(replace(named, name=f"{name}{_BETWEEN}{stage.name}"))
    return tuple(found)


def released_part(released: Released, name: str, plan: Plan) -> dict[str, Any]:
    """Return the released values of a part, by the names of the stages of its own plan."""
    return {stage.name: released[f"{name}{_BETWEEN}{stage.name}"] for stage in plan.stages}


class PartSession:
    """The session of a joint plan as one of its parts sees it: the stages have the names of the part's own plan.

    It draws through the whole session, which is charged, and has no other way to noise.
    """

    def __init__(self, session: Session, name: str, plan: Plan) -> None:
        self._session, self._name, self.plan = session, name, plan

    @property
    def size(self) -> int | None:
        """How many times everything is drawn; None is once."""
        return self._session.size

    def add(self, name: str, integers: Any, **options: Any) -> Any:
        """Release integers with the noise of a stage; see `Session.add`."""
        return self._session.add(f"{self._name}{_BETWEEN}{name}", integers, **options)

    def choose(self, name: str, parts: Any) -> Any:
        """Choose candidates by their utility; see `Session.choose`."""
        return self._session.choose(f"{self._name}{_BETWEEN}{name}", parts)
