"""A neighbour, replayed: what it moves before noise, against what the release declares.

The release runs on a dataset, and then on a neighbour behind a witness that has every stage release what it released
before. Nothing is estimated: a movement above what is declared, another course, or an output that does not follow
from what was released, is a fact of these two datasets.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstats.auditing.apart import check_apart, check_relation, parts_of
from dpstats.auditing.compared import Path, compared
from dpstats.auditing.movement import Movement, movement
from dpstats.data.parameters import check_choice, check_integer, check_real
from dpstats.errors import InvalidData, InvalidParameter
from dpstats.release.mechanism import Releasing
from dpstats.release.witness import NORMS, Seen, Witness
from dpstats.report import Reported
from dpstats.results import Summary

FOLLOWS = "follows from what was released"
DIFFERS = "differs: it does not follow from what was released"
NOT_COMPARED = "not compared: it has more than numbers, text, arrays, and collections of these"
NOT_REACHED = "not compared: the runs part before it"
NOT_REPEATED = "not compared: two runs on the same dataset, with the same releases, return different ones"

KEPT, VIOLATED, NOTHING_MOVED = "kept", "violated", "nothing moved"
REFUSED, LEFT_OPEN = "refused", "output not compared"


@dataclass(frozen=True, slots=True)
class SensitivityCheck(Reported):
    """What a neighbour moved, stage by stage, against what was declared.

    Attributes
    ----------
    movements : tuple of Movement
        Of every stage that is given something of the data: ``stage``, ``norm``, ``moved``, ``declared``, ``ratio``,
        ``ok`` and ``problem``. Of a stream it is the worst question.
    course : str
        How the two runs part, in words; "" where both ask for the same stages in the same order.
    output : str
        Whether what the release returns follows from what its stages released, in words.
    neighbor : str
        Which neighbour it was, where several were tried.
    refused : bool
        Whether one of the two is refused as bad data (`InvalidData`), in public, before anything else differs.

    See Also
    --------
    check_sensitivity

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.auditing import check_sensitivity
    >>> check = check_sensitivity(np.sum, [1, 0, 1], [1, 1, 1], sensitivity=1.0)
    >>> check.ok, check.ratio
    (True, 1.0)
    """

    movements: tuple[Movement, ...]
    course: str
    output: str
    neighbor: str = ""
    refused: bool = False

    @property
    def violated(self) -> bool:
        """Whether this pair shows that the declaration is wrong."""
        parted = bool(self.course) and not self.refused
        return parted or self.output == DIFFERS or not all(item.ok for item in self.movements)

    @property
    def verdict(self) -> str:
        """ "violated"; "kept"; "nothing moved", "refused" or "output not compared", which show neither."""
        if self.violated:
            return VIOLATED
        if self.refused:
            return REFUSED
        if self.output != FOLLOWS:
            return LEFT_OPEN
        return KEPT if self.ratio > 0 else NOTHING_MOVED

    @property
    def ok(self) -> bool:
        """Whether something moved, all within what was declared, and the output follows."""
        return self.verdict == KEPT

    @property
    def worst(self) -> Movement | None:
        """The stage that is wrong, or comes nearest to it."""
        return max(self.movements, key=_rank, default=None)

    @property
    def stage(self) -> str:
        """The name of the worst stage."""
        return "" if self.worst is None else self.worst.stage

    @property
    def ratio(self) -> float:
        """The largest of what moved over what was declared."""
        return max((item.ratio for item in self.movements if not math.isnan(item.ratio)), default=0.0)

    def summary(self) -> Summary:
        """Return one row per stage; prints as text, shows as HTML in a notebook."""
        facts = [
            ("Verdict", self.verdict),
            ("Course", self.course or "the same stages, in the same order"),
            ("Output", self.output),
            *([("Neighbour", self.neighbor)] if self.neighbor else []),
        ]
        rows = [
            (
                item.stage,
                item.norm,
                *(map(_number, (item.moved, item.declared, item.ratio))),
                "yes" if item.ok else "NO",
            )
            for item in self.movements
        ]
        notes = [f"{item.stage}: {item.problem}." for item in self.movements if item.problem]
        if self.verdict == NOTHING_MOVED:
            notes.append("No stage moved: this pair tests nothing. Choose a row that counts.")
        if self.verdict == LEFT_OPEN:
            notes.append("The output may hold more than was released: return what can be compared, or None.")
        if self.verdict == REFUSED:
            notes.append(
                "That bad data are refused is seen by all: bounds, or checks beforehand, must make it public."
            )
        notes.append(
            "Of these two datasets alone. A violation is a proof; that none is seen is not: other rows may move more."
        )
        notes.append("What moved is a fact of the rows: of private data it is private.")
        return Summary(
            "Sensitivity check",
            facts,
            ("stage", "measured by", "moved", "declared", "ratio", "within"),
            rows,
            notes,
        )

    def __str__(self) -> str:
        return str(self.summary())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.summary().as_html()


def check_sensitivity(
    release: Any,
    dataset: Any,
    neighbor: Any,
    *,
    sensitivity: float | None = None,
    norm: str = "l1",
    rows_apart: int = 1,
    seed: int = 0,
) -> SensitivityCheck:
    """Replay a release on a neighbour, and compare what moved with what is declared.

    Parameters
    ----------
    release : estimator or callable
        An estimator of this package: it is fitted to copies of itself, and its plan declares. Or a callable
        ``release(data, source)``, which gives ``source`` as ``random_state`` to what it uses of this package, or draws
        from it: ``source.laplace(value, sensitivity=...)``, ``source.gaussian(...)``, ``source.select(scores, ...)``,
        or ``source.statistic(value, sensitivity=..., norm=...)`` where the noise is elsewhere. With ``sensitivity``, a
        callable ``release(data)`` that returns the statistic.
    dataset, neighbor : object
        Two neighbouring datasets, of which every run gets a copy; for an estimator with an outcome, pairs ``(X, y)``.
    sensitivity : float, optional
        What is declared of a statistic that ``release(data)`` returns.
    norm : {"l1", "l2", "linf"}, default="l1"
        Of ``sensitivity``.
    rows_apart : int, default=1
        In how many rows the tables that an estimator is given may differ: more where a person has several.
    seed : int, default=0
        Of the simulated noise, which both runs share.

    Returns
    -------
    SensitivityCheck

    Raises
    ------
    InvalidParameter
        If the release touches no stage: nothing would be checked. If the tables given to an estimator are not
        neighbours, or their numbers of rows those of another relation than the stages are for. If the release does
        not repeat itself on the same dataset.

    Notes
    -----
    The second run is released what the first was, stage by stage. So the stages of an adaptive release are compared
    after the same releases, which is what composition is about; a run that asks for other stages, and an output that
    differs, depend on something that was not released. Statistics of this package are integers and are compared
    exactly; those of a callable may exceed the declaration by 1e-9 of it.

    The release runs on the first dataset twice: what differs then (a clock, noise drawn elsewhere) is not held against
    the neighbour, and the output is "not compared". Every run has a copy of the release, as far as it can be copied;
    what a function keeps elsewhere (in its closure, in globals or files) is its own affair, and may hide what moves.
    Data that are refused (`InvalidData`: NaN, say) on one side only are "refused" and not "violated"; any other error
    on one side only is a violation.

    Examples
    --------
    The sum of incomes, clipped, at a sensitivity that is right; and where the clip is forgotten:

    >>> import numpy as np
    >>> from dpstats.auditing import check_sensitivity
    >>> def total(incomes, source):
    ...     return source.laplace(np.clip(incomes, 0, 100).sum(), sensitivity=100, scale=100)
    >>> def not_clipped(incomes, source):
    ...     return source.laplace(incomes.sum(), sensitivity=100, scale=100)
    >>> incomes, other = np.array([20.0, 35.0, 60.0]), np.array([20.0, 35.0, 900.0])
    >>> check_sensitivity(total, incomes, other).ok
    True
    >>> check = check_sensitivity(not_clipped, incomes, other)
    >>> check.violated, check.ratio
    (True, 8.4)

    An estimator declares by its plan:

    >>> from dpstats.means import ClippedMean
    >>> X = np.zeros((50, 2))
    >>> Z = X.copy()
    >>> X[0], Z[0] = 1.0, -1.0
    >>> check_sensitivity(ClippedMean(clip=1.0, delta=1e-6), X, Z).ok
    True
    """
    run = _runner(release, sensitivity, norm)
    if run is _fitted:
        tags = release.__sklearn_tags__().input_tags
        counts = bool(tags.one_d_array and tags.positive_only)  # a histogram, of which two entries differ
        check_apart(dataset, neighbor, check_integer("rows_apart", rows_apart, at_least=1), counts=counts)
    return _Replay(release, run, dataset, check_integer("seed", seed, at_least=0)).on(neighbor, "")


def worst_neighbor(
    release: Any,
    dataset: Any,
    candidates: Any,
    *,
    rows: Iterable[int] | None = None,
    sensitivity: float | None = None,
    norm: str = "l1",
    seed: int = 0,
) -> SensitivityCheck:
    """Replace each row by each candidate in turn, and return the check of the pair that moved most.

    Parameters
    ----------
    release, sensitivity, norm, seed
        As for `check_sensitivity`.
    dataset : array of shape (n, d) or (n,), or a pair of these ``(X, y)``
    candidates : array of shape (m, d) or (m,), or a pair of these
        Rows to replace others by: ends of the bounds, rows far out, NaN where it is allowed. Both are taken to a type
        that holds them: of integers and fractions, floating point.
    rows : iterable of int, optional
        Which rows are replaced; default: each.

    Returns
    -------
    SensitivityCheck
        The worst of all that were tried. Of other rows, and of other datasets, it says nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.auditing import worst_neighbor
    >>> def mean_of_odd(x):  # drops the last row where n is even
    ...     return x[: len(x) - (len(x) + 1) % 2].mean()
    >>> worst = worst_neighbor(mean_of_odd, np.full(8, -1.0), [-1.0, 1.0], sensitivity=2 / 8)
    >>> worst.violated, worst.neighbor
    (True, 'row 0 replaced by candidate 1')
    """
    run = _runner(release, sensitivity, norm)
    data, others = _alike(dataset, candidates)
    size = len(data[0])
    places = (
        range(size)
        if rows is None
        else [check_integer("rows", i, at_least=0, at_most=size - 1) for i in rows]
    )
    if not len(places) or not len(others[0]):
        raise InvalidParameter(
            f"there must be a row and a candidate, got {len(places)} rows and {len(others[0])} candidates"
        )
    replay = _Replay(release, run, _joined(data), check_integer("seed", seed, at_least=0))
    found: list[SensitivityCheck] = []
    for i in places:
        for k in range(len(others[0])):
            near = [part.copy() for part in data]
            for part, other in zip(near, others, strict=True):
                part[i] = other[k]
            found.append(replay.on(_joined(near), f"row {i} replaced by candidate {k}"))
    # The first of the worst.
    return max(
        found, key=lambda check: (check.violated, check.verdict == LEFT_OPEN, not check.refused, check.ratio)
    )


_Run = Callable[[Any, Any, Witness], Any]


def _runner(release: Any, sensitivity: float | None, norm: str) -> _Run:
    """Return what runs a release on data before a witness."""
    check_choice("norm", norm, list(NORMS))
    if isinstance(release, Releasing):
        name = type(release).__name__
        raise InvalidParameter(
            f"release must be an estimator or a callable, got a {name}: give a callable that makes it with "
            f"random_state=source, such as lambda data, source: {name}(..., random_state=source).release(...)"
        )
    if sensitivity is not None:
        moved = check_real("sensitivity", sensitivity, at_least=0)
        if not callable(release):
            raise InvalidParameter(
                "release must be a callable that returns a statistic, where sensitivity is given"
            )

        def looked_at(release: Any, data: Any, witness: Witness) -> None:
            witness.statistic(release(data), sensitivity=moved, norm=norm, name="statistic")

        return looked_at
    if all(callable(getattr(release, name, None)) for name in ("fit", "get_params", "set_params")):
        return _fitted
    if not callable(release):
        raise InvalidParameter(f"release must be an estimator or a callable, got {type(release).__name__}")
    return lambda release, data, witness: release(data, witness)


def _fitted(estimator: Any, data: Any, witness: Witness) -> dict[str, Any]:
    """Fit a copy of an estimator, and return all that is public of it afterwards."""
    if not {"random_state", "budget"} <= estimator.get_params(deep=False).keys():
        raise InvalidParameter(
            f"release must be an estimator of dpstats, or a callable that uses one, got {type(estimator).__name__}"
        )
    made = copy.copy(estimator)
    made.set_params(random_state=None, budget=None)
    made = _copied(made).set_params(random_state=witness)
    made.fit(*parts_of(data))
    if not witness.seen:
        name = type(made).__name__
        raise InvalidParameter(
            f"release must touch a stage when it is fitted, which {name} does not: give a callable that fits "
            f"{name}(..., random_state=source) and asks it what it answers"
        )
    # With what is worked out when it is asked for; always in one order.
    names = sorted({*vars(made), *dir(type(made))})
    public = {name: _shown(made, name) for name in names if name.endswith("_") and not name.startswith("_")}
    return {**public, "summary": str(made.summary())} if hasattr(made, "summary") else public


def _shown(made: Any, name: str) -> Any:
    try:
        return getattr(made, name)
    except Exception as error:  # some are there on request only
        return f"refused ({type(error).__name__})"


class _Replay:
    """The run on the first dataset, which runs on neighbours are compared with."""

    def __init__(self, release: Any, run: _Run, dataset: Any, seed: int) -> None:
        self._release, self._run, self._dataset, self._seed = release, run, dataset, seed
        self._first = Witness(seed)
        self._error: Exception | None = None
        self._changing: set[Path] = set()
        try:
            self._returned = self._done(dataset, self._first)
        except Exception as error:
            self._error = error
            return
        if not self._first.seen:
            raise InvalidParameter(
                "release must touch a stage, or nothing is checked: give its source as random_state to what it uses of "
                "dpstats, or draw from it (source.laplace, source.gaussian, source.select, source.statistic)"
            )
        self._changing = self._repeated()

    def _done(self, data: Any, witness: Witness) -> Any:
        # Copies, as a release may change both.
        return self._run(_copied(self._release), _copied(data), witness)

    def _repeated(self) -> set[Path]:
        """Return where the output differs on the same dataset; refuse stages that do."""
        again = self._first.again()
        try:
            returned, parted = self._done(self._dataset, again), again.finish()
        except Exception as error:
            returned, parted = None, again.parted or f"a run fails ({type(error).__name__})"
        moved = _worst_of_each(self._first.seen, again.seen)
        if parted or any(not item.ok or item.ratio > 0 for item in moved):
            what = parted or "its stages are given other numbers"
            raise InvalidParameter(
                "release must repeat itself on the same dataset, where all it draws is released again, or nothing can "
                f"be told from a neighbour: {what}. Draw from source, and use no clock and no other noise before it"
            )
        return compared(self._returned, returned)[0]

    def on(self, neighbor: Any, words: str) -> SensitivityCheck:
        """Return the check of a neighbour."""
        if self._error is not None:
            # The fault of the call, if it fails on both.
            self._done(neighbor, Witness(self._seed))
            course = f"the dataset is refused ({type(self._error).__name__}), and the neighbour is not"
            return SensitivityCheck((), course, NOT_REACHED, words, isinstance(self._error, InvalidData))
        second = self._first.again()
        course, again, refused = "", None, False
        try:
            again = self._done(neighbor, second)
        except Exception as error:
            # Not its message, which may show the data.
            course = second.parted or f"the neighbour is refused ({type(error).__name__})"
            refused = not second.parted and isinstance(error, InvalidData)
        else:
            # Whatever a release makes of the error of a stage that the first run did not ask for.
            course = second.finish()
        check_relation(self._dataset, neighbor, {*self._first.relations, *second.relations})
        output = NOT_REACHED if course else self._output(again)
        return SensitivityCheck(_worst_of_each(self._first.seen, second.seen), course, output, words, refused)

    def _output(self, again: Any) -> str:
        differ, unknown = compared(self._returned, again)
        # What differs on the same dataset, too, is not the neighbour's doing.
        if not all(map(self._excused, differ)):
            return DIFFERS
        if self._changing:
            return NOT_REPEATED
        return NOT_COMPARED if unknown else FOLLOWS

    def _excused(self, path: Path) -> bool:
        return any(path[:k] in self._changing for k in range(len(path) + 1))


def _copied(given: Any) -> Any:
    """Return a copy of what a run may change, or itself where there is no way to copy it."""
    try:
        return copy.deepcopy(given)
    except Exception:
        return given


def _alike(dataset: Any, candidates: Any) -> tuple[list[np.ndarray[Any, Any]], list[np.ndarray[Any, Any]]]:
    """Return rows and candidates, part by part of one type that holds both."""
    try:
        data, others = ([np.asarray(part) for part in parts_of(given)] for given in (dataset, candidates))
    except ValueError:
        raise InvalidParameter("dataset and candidates must be arrays of rows") from None
    if (
        len(data) != len(others)
        or any(a.ndim == 0 or b.ndim == 0 for a, b in zip(data, others, strict=True))
        or any(a.shape[1:] != b.shape[1:] for a, b in zip(data, others, strict=True))
    ):
        raise InvalidParameter("candidates must be rows of the same shape as those of dataset")
    for j, (part, other) in enumerate(zip(data, others, strict=True)):
        data[j], others[j] = _promoted(part, other)
    return data, others


def _promoted(
    part: np.ndarray[Any, Any], other: np.ndarray[Any, Any]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    if part.dtype == other.dtype:  # nothing is changed, of objects neither
        return part, other
    refusal = InvalidParameter(
        f"dataset and candidates must have a common type that holds both exactly, got {part.dtype} and {other.dtype}"
    )
    numbers = [array.dtype.kind in "biuf" for array in (part, other)]
    if part.dtype.kind != other.dtype.kind and not all(numbers):
        raise refusal
    kind = np.result_type(part, other)
    held = part.astype(kind), other.astype(kind)
    for before, after in zip((part, other), held, strict=True):
        if kind.hasobject or not _same_numbers(before, after):
            raise refusal
    return held


def _same_numbers(before: np.ndarray[Any, Any], after: np.ndarray[Any, Any]) -> bool:
    # As Python's numbers, which are compared exactly: int(2**53 + 1) is no float.
    pairs = zip(before.ravel().tolist(), after.ravel().tolist(), strict=True)
    return all(a == b or (a != a and b != b) for a, b in pairs)


def _worst_of_each(first: Sequence[Seen], second: Sequence[Seen]) -> tuple[Movement, ...]:
    """Return what moved, of questions of one stream the worst."""
    found: dict[str, Movement] = {}
    for pair in zip(first, second, strict=False):
        item = movement(*pair)
        if item is None:
            continue
        known = found.get(item.stage)
        if known is None or _rank(item) > _rank(known):
            found[item.stage] = item
    return tuple(found.values())


def _rank(item: Movement) -> tuple[bool, float]:
    """Return how bad a movement is, for comparisons."""
    return not item.ok, math.inf if math.isnan(item.ratio) else item.ratio


def _joined(parts: Sequence[Any]) -> Any:
    return parts[0] if len(parts) == 1 else tuple(parts)


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.5g}"
