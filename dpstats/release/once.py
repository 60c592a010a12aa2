"""Releases that are charged once: their session draws for a new key, and returns the kept answer of a known one.

The first session under a key charges, draws every stage, and stores what the stages released and returned. A later one
for the same request is given these values. It charges nothing and draws nothing. Proof: docs/proofs/budget.md.
"""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import time
import zlib
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType, TracebackType
from typing import Any, NamedTuple, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import ChargedError, DPStatsError, running_accounts
from dpstats.privacy.budget import PrivacyBudget, refuse_key
from dpstats.privacy.kept_answers import (
    ANSWERED,
    CHARGED,
    FAILED,
    AlreadyCharged,
    Kept,
    may_run,
    moment,
    place_of_owner,
)
from dpstats.privacy.plan import Plan
from dpstats.privacy.stages import KINDS, Coins, Comparisons, Shuffle
from dpstats.release.session import Drawn, Session
from dpstats.release.streams import Above, NumberStream, Stream

_LOGGER = logging.getLogger(__name__)

WAIT_SECONDS = 60.0
"""How long a release waits for the answer of another process with the same key."""
_PAUSE = 0.1
_SILENT_SECONDS = 1.0


# Sessions


class _Stored(NamedTuple):
    """What a stage released, and what its call returned."""

    released: Any
    returned: Any


class _KeptStream(Stream):
    """A stream whose answers are kept, or given again."""

    def __init__(self, stage: Comparisons, noise: Any, answers: list[Any], *, again: bool = False) -> None:
        super().__init__(stage, noise)
        self._answers, self._again, self._next = answers, again, 0

    def ask(self, steps: int, answer: int | None = None) -> Above | None:
        if self._again:
            if self._next == len(self._answers):
                raise DPStatsError("the kept answer must have every answer of the stream, got fewer. Use another key.")
            self._next += 1
            kept = self._answers[self._next - 1]
            return None if kept is None else Above(*kept)
        above = super().ask(steps, answer)
        self._answers.append(None if above is None else tuple(above))
        return above


class OnceSession(Session):
    """A session of a budget with a key: it draws once, and then returns the same values.

    A second session under the key waits for the first one, if its process may still run.
    """

    def __init__(self, plan: Plan, noise: Any, budget: PrivacyBudget, label: str = "", size: int | None = None) -> None:
        super().__init__(plan, noise, budget, label, size)
        self._asked: Kept | None = None
        self._within = False
        self._drawn: dict[str, Any] = {}
        self._streams: dict[str, list[Any]] = {}
        self._answer: dict[str, _Stored] | None = None

    def is_answered(self) -> bool:
        # Answers are never removed, so a kept answer is still kept when this session opens.
        if self._answer is None and self._asked is None and self._budget is not None:
            accounts = running_accounts()
            kept = self._budget.find_kept(accounts[-1].steps(self._budget.key or "") if accounts else 0)
            return kept is not None and kept.state == ANSWERED
        return self._answer is not None

    def __enter__(self) -> Self:
        self._within = True
        return super().__enter__()

    def _charge(self, budget: PrivacyBudget, plan: Plan) -> None:
        if not self._within and any(isinstance(stage, Comparisons) for stage in self._plan.stages):
            # A stream that outlives its session has no last answer.
            refuse_key(budget)
        accounts = running_accounts()
        # The innermost call counts: an interrupt may leave a stale outer account.
        step = accounts[-1].next_step(budget.key or "") if accounts else 0
        known = None
        try:
            self._asked = self._pay(budget, plan, step=step)
        except AlreadyCharged as error:
            known = error.kept
        # Outside of the handler, so that no error has this one as its context.
        if known is not None:
            self._take_answer(self._await(budget, known, step))

    def _await(self, budget: PrivacyBudget, kept: Kept, step: int) -> Kept:
        """Wait until another process has stored its answer, and return it."""
        start, told = time.monotonic(), False
        while kept.state == CHARGED and may_run(kept.owner) and time.monotonic() < start + WAIT_SECONDS:
            if not told and time.monotonic() > start + _SILENT_SECONDS:
                told = True
                _LOGGER.warning("waiting for %s, which releases %r", place_of_owner(kept.owner), kept.key)
            time.sleep(_PAUSE)
            kept = budget.find_kept(step) or kept
        return kept

    def _take_answer(self, kept: Kept) -> None:
        found = {} if kept.answer is None else decode_answer(kept.answer)
        accounts = running_accounts()
        if kept.state != ANSWERED:
            values = accounts[-1].values() if accounts else {}  # of earlier steps, such as a count
            values |= {name: stored.released for name, stored in found.items() if stored.released is not None}
            raise ChargedError(_explain(kept, values), values)
        _LOGGER.info("the answer of %r is returned again, nothing was charged", kept.key)
        self._answer = found
        self._released.update({name: stored.released for name, stored in found.items()})
        for account in accounts:
            account.kept.append(f"The key {kept.key!r} was charged for {kept.label!r} at {moment(kept.time)}.")
            account.released.append(self._released)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._answer is not None:
            # Nothing was drawn: no stage is forgotten, and no result can be lost.
            self._tickets = None
            return
        if self._asked is not None:
            whole = kind is None and not self._tickets
            self._store(self._asked, ANSWERED if whole else FAILED)
        super().__exit__(kind, error, trace)

    def _store(self, asked: Kept, state: str) -> None:
        # The release is made and paid for. A ledger that fails now must not take it away from the caller.
        assert self._budget is not None
        self._drawn.update({name: [None, [encode(given)]] for name, given in self._streams.items()})
        try:
            self._budget.keep(asked, state, encode_answer(self._drawn))
        except Exception as error:
            why = str(error) if isinstance(error, DPStatsError) else type(error).__name__
            _LOGGER.warning("the answer of %r is not kept, and cannot be returned again: %s", asked.key, why)

    # Drawing

    def _obtain(self, name: str, given: Callable[[], Any], draw: Callable[[], Drawn]) -> Drawn:
        stage = self._stage(name, *KINDS)
        if isinstance(stage, Shuffle) or (isinstance(stage, Coins) and not stage.released):
            # Secret orders and coins are in no answer. A fit whose answer is kept does not ask for coins.
            return draw()
        if self._answer is not None:
            found: Drawn = self._take_kept(name)
            return found
        returned = draw()
        # As text at once, because the caller may change its arrays.
        released = self._released[name]
        self._drawn[name] = [encode(released), None if returned is released else [encode(returned)]]
        return returned

    def _take_kept(self, name: str) -> Any:
        """Take a stage's ticket, and return what the kept answer has in its place."""
        assert self._answer is not None
        self._take(name)
        if name not in self._answer:
            raise DPStatsError(f"the kept answer must have the stage {name!r}, got none. Use another key.")
        return self._answer[name].returned

    def stream(self, name: str) -> Stream:
        stage: Comparisons = self._stage(name, Comparisons)
        if self._answer is not None:
            return _KeptStream(stage, self._noise, self._take_kept(name), again=True)
        Session.stream(self, name)
        answers = self._streams[name] = []
        return _KeptStream(stage, self._noise, answers)

    def numbers(self, name: str) -> NumberStream:
        refuse_key(self._budget)
        return Session.numbers(self, name)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Session cannot be copied or pickled: two copies would cost twice")


class StoredSession(Session):
    """A session of a stream whose state is on disk: it charges once under the key of the state.

    A job may be killed after the charge and before its state is marked. The next job finds the charge under the key,
    and opens the stream: nothing was drawn before.
    """

    def _charge(self, budget: PrivacyBudget, plan: Plan) -> None:
        with contextlib.suppress(AlreadyCharged):
            asked = self._pay(budget, plan)
            with contextlib.suppress(DPStatsError):
                budget.keep(asked, ANSWERED, encode_answer({}))


def _explain(kept: Kept, values: Mapping[str, Any]) -> str:
    """Return the words for a key that was charged and has no whole answer."""
    head = f"the key {kept.key!r} was charged at {moment(kept.time)} by {place_of_owner(kept.owner)}"
    spent = "Epsilon is spent and nothing was released"
    if values:
        names = ", ".join(map(repr, values))
        spent = f"Epsilon is spent. Attribute released of this error has the released values: {names}"
    if kept.state == CHARGED and may_run(kept.owner):
        return (
            f"{head}, which has not stored its answer yet. If it still runs, repeat this later: nothing more is "
            f"charged. If it does not: {spent}. Use another key."
        )
    failed = "the release failed afterwards" if kept.state == FAILED and values else "no answer was kept"
    return f"{head}, and {failed}. {spent}. Use another key to release and charge again."


# Answers as text: only the kinds of values that stages release.


def encode_answer(drawn: Mapping[str, Any]) -> bytes:
    """Return the bytes of an answer."""
    return zlib.compress(json.dumps(dict(drawn)).encode())


def decode_answer(answer: bytes) -> dict[str, _Stored]:
    """Return the values of an answer, by the names of the stages."""
    found = {}
    for name, pair in json.loads(zlib.decompress(answer)).items():
        released = decode(pair[0])
        found[name] = _Stored(released, released if pair[1] is None else decode(pair[1][0]))
    return found


def encode(value: Any) -> Any:
    """Return a released value as JSON can hold it. Every value of `decode` is equal and of the same type.

    Examples
    --------
    >>> from dpstats.release.once import decode, encode
    >>> decode(encode((1, 2.5, "a")))
    (1, 2.5, 'a')
    """
    if value is None or type(value) in (bool, str):
        return value
    if type(value) is int:
        return ["int", str(value)]
    if type(value) is float:
        return ["float", value.hex()]
    if isinstance(value, np.ndarray):
        return _encode_array(value)
    if isinstance(value, np.generic):
        return ["scalar", _encode_array(np.asarray(value))]
    if isinstance(value, Mapping):
        pairs = [[encode(key), encode(entry)] for key, entry in value.items()]
        return ["read-only" if isinstance(value, MappingProxyType) else "mapping", pairs]
    if type(value) in (tuple, list):
        return [type(value).__name__, [encode(entry) for entry in value]]
    if type(value) is bytes:
        return ["bytes", base64.b64encode(value).decode()]
    if type(value) in (date, datetime):
        return [type(value).__name__, value.isoformat()]
    if type(value) is timedelta:
        return ["timedelta", [value.days, value.seconds, value.microseconds]]
    if type(value) in (Decimal, Fraction):
        return [type(value).__name__, str(value)]
    raise TypeError(f"a released value must be a number, text, array or mapping, got {type(value).__name__}")


def _encode_array(array: NDArray[Any]) -> Any:
    if array.dtype.hasobject:
        return ["objects", list(array.shape), [encode(entry) for entry in array.ravel().tolist()]]
    data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return ["array", array.dtype.str, list(array.shape), data]


def decode(text: Any) -> Any:
    """Return the value of `encode`."""
    if not isinstance(text, list):
        return text
    kind, *rest = text
    if kind == "array":
        dtype, shape, data = rest
        return np.frombuffer(base64.b64decode(data), dtype=np.dtype(dtype)).reshape(shape).copy()
    if kind == "objects":
        made = np.empty(len(rest[1]), dtype=object)
        made[:] = [decode(entry) for entry in rest[1]]
        return made.reshape(rest[0])
    return _DECODERS[kind](rest[0])


_DECODERS: dict[str, Callable[[Any], Any]] = {
    "int": int,
    "float": float.fromhex,
    "scalar": lambda entry: decode(entry)[()],
    "mapping": lambda pairs: {decode(key): decode(value) for key, value in pairs},
    "read-only": lambda pairs: MappingProxyType({decode(key): decode(value) for key, value in pairs}),
    "tuple": lambda entries: tuple(map(decode, entries)),
    "list": lambda entries: list(map(decode, entries)),
    "bytes": base64.b64decode,
    "date": date.fromisoformat,
    "datetime": datetime.fromisoformat,
    "timedelta": lambda parts: timedelta(*parts),
    "Decimal": Decimal,
    "Fraction": Fraction,
}
