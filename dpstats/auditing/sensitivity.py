"""A neighbour, replayed: what it moves before noise, against what the release declares.

The release runs on a dataset, and then on a neighbour behind a witness that has every stage release what it released
before. Nothing is estimated: a movement above what is declared, another course, or an output that does not follow
from what was released, is a fact of these two datasets.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstats.auditing.movement import Movement, movement
from dpstats.data.parameters import check_choice, check_integer, check_real
from dpstats.errors import InvalidParameter
from dpstats.release.mechanism import Releasing
from dpstats.release.witness import NORMS, Seen, Witness
from dpstats.report import Reported
from dpstats.results import Summary

FOLLOWS = "follows from what was released"
DIFFERS = "differs: it does not follow from what was released"
NOT_COMPARED = "not compared: it is no number, text, array, or collection of these"

KEPT, VIOLATED, NOTHING_MOVED = "kept", "violated", "nothing moved"


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

    @property
    def violated(self) -> bool:
        """Whether this pair shows that the declaration is wrong."""
        return bool(self.course) or self.output == DIFFERS or not all(item.ok for item in self.movements)

    @property
    def verdict(self) -> str:
        """ "violated"; "kept"; or "nothing moved", which tests nothing."""
        if self.violated:
            return VIOLATED
        return KEPT if self.ratio > 0 else NOTHING_MOVED

    @property
    def ok(self) -> bool:
        """Whether something moved, and all within what was declared."""
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
        Two neighbouring datasets, passed on as they are; for an estimator with an outcome, pairs ``(X, y)``.
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
        neighbours.

    Notes
    -----
    The second run is released what the first was, stage by stage. So the stages of an adaptive release are compared
    after the same releases, which is what composition is about; a run that asks for other stages, and an output that
    differs, depend on something that was not released. Statistics of this package are integers and are compared
    exactly; those of a callable may exceed the declaration by 1e-9 of it.

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
        _check_apart(dataset, neighbor, check_integer("rows_apart", rows_apart, at_least=1))
    first = Witness(check_integer("seed", seed, at_least=0))
    returned = run(release, dataset, first)
    if not first.seen:
        raise InvalidParameter(
            "release must touch a stage, or nothing is checked: give its source as random_state to what it uses of "
            "dpstats, or draw from it (source.laplace, source.gaussian, source.select, source.statistic)"
        )
    return _compared(release, run, first, returned, neighbor, "")


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
        Rows to replace others by: ends of the bounds, rows far out, NaN where it is allowed.
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
    data, others = ([np.asarray(part) for part in _parts(given)] for given in (dataset, candidates))
    if len(data) != len(others) or any(a.shape[1:] != b.shape[1:] for a, b in zip(data, others, strict=True)):
        raise InvalidParameter("candidates must be rows of the same shape as those of dataset")
    places = range(len(data[0])) if rows is None else [check_integer("rows", i, at_least=0) for i in rows]
    first = Witness(check_integer("seed", seed, at_least=0))
    returned = run(release, _joined(data), first)
    found: list[SensitivityCheck] = []
    for i in places:
        for k in range(len(others[0])):
            near = [part.copy() for part in data]
            for part, other in zip(near, others, strict=True):
                part[i] = other[k]
            words = f"row {i} replaced by candidate {k}"
            found.append(_compared(release, run, first, returned, _joined(near), words))
    if not found or not first.seen:
        raise InvalidParameter("release must touch a stage, and there must be a row and a candidate")
    # The first of the worst.
    return max(found, key=lambda check: (check.violated, check.ratio))


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
    made.set_params(random_state=witness, budget=None)
    made.fit(*_parts(data))
    public = {
        name: value
        for name, value in vars(made).items()
        if name.endswith("_") and not name.startswith("_") and _comparable(value)
    }
    return {**public, "summary": str(made.summary())} if hasattr(made, "summary") else public


def _compared(
    release: Any, run: _Run, first: Witness, returned: Any, neighbor: Any, words: str
) -> SensitivityCheck:
    second = first.again()
    course, again = "", None
    try:
        again = run(release, neighbor, second)
    except Exception as error:
        # Not its message, which may show the data.
        course = second.parted or f"the neighbour is refused ({type(error).__name__})"
    else:
        # Whatever a release makes of the error of a stage that the first run did not ask for.
        course = second.finish()
    output = FOLLOWS
    if not course:
        both = _comparable(returned) and _comparable(again)
        output = (FOLLOWS if _key(returned) == _key(again) else DIFFERS) if both else NOT_COMPARED
    return SensitivityCheck(_worst_of_each(first.seen, second.seen), course, output, words)


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


def _parts(data: Any) -> tuple[Any, ...]:
    return data if isinstance(data, tuple) and len(data) == 2 else (data,)


def _joined(parts: Sequence[Any]) -> Any:
    return parts[0] if len(parts) == 1 else tuple(parts)


def _check_apart(dataset: Any, neighbor: Any, most: int) -> None:
    """Refuse tables that are not neighbours, as far as this can be told."""
    try:
        first, second = (
            np.column_stack([np.asarray(part).reshape(len(part), -1).astype(object) for part in _parts(data)])
            for data in (dataset, neighbor)
        )
    except (TypeError, ValueError):
        return
    if np.ndim(_parts(dataset)[0]) != 2:  # a histogram, say, of which two entries differ
        return
    if first.shape != second.shape:
        raise InvalidParameter(
            f"dataset and neighbor must have the same number of rows and columns, got {first.shape} and {second.shape}"
        )
    rows = [Counter(map(repr, table.tolist())) for table in (first, second)]
    apart = (rows[0] - rows[1]).total()
    if apart > most:
        raise InvalidParameter(
            f"dataset and neighbor must differ in one row (rows_apart={most}), got {apart}"
        )


def _comparable(output: Any) -> bool:
    if output is None or isinstance(output, bool | int | float | complex | str | bytes | np.generic):
        return True
    if isinstance(output, np.ndarray):
        return output.dtype != object or all(map(_comparable, output.ravel().tolist()))
    if isinstance(output, Mapping):
        return all(map(_comparable, output.keys())) and all(map(_comparable, output.values()))
    return isinstance(output, list | tuple) and all(map(_comparable, output))


def _key(output: Any) -> Any:
    """Return what two comparable outputs are compared by: all of their digits."""
    if isinstance(output, np.ndarray):
        return output.shape, _key(output.ravel().tolist())
    if isinstance(output, Mapping):
        return [(_key(name), _key(value)) for name, value in output.items()]
    if isinstance(output, list | tuple):
        return [_key(item) for item in output]
    return repr(output)


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.5g}"
