"""Runs of a release on a dataset, and on neighbors with a witness that repeats the released values."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from dpstats.auditing.apart import check_relation, split_parts
from dpstats.auditing.compared import Path, compare_outputs
from dpstats.auditing.sensitivity_check import (
    DIFFERS,
    FOLLOWS,
    NOT_COMPARED,
    NOT_REACHED,
    NOT_REPEATED,
    SensitivityCheck,
    worst_of_each,
)
from dpstats.data.parameters import check_choice, check_real
from dpstats.errors import InvalidData, refuse
from dpstats.release.mechanism import Releasing
from dpstats.release.witness import NORMS, Witness

Run = Callable[[Any, Any, Witness], Any]


def runner(release: Any, sensitivity: float | None, norm: str) -> Run:
    """Return a function that runs a release on data with a witness."""
    check_choice("norm", norm, list(NORMS))
    if isinstance(release, Releasing):
        name = type(release).__name__
        raise refuse(
            "release",
            got=f"a {name}",
            allowed="an estimator or a callable",
            remedy="Give a callable that makes it with random_state=source, such as "
            f"lambda data, source: {name}(..., random_state=source).release(...)",
        )
    if sensitivity is not None:
        moved = check_real("sensitivity", sensitivity, at_least=0)
        if not callable(release):
            raise refuse("release", allowed="a callable that returns a statistic, where sensitivity is given")

        def run_statistic(release: Any, data: Any, witness: Witness) -> None:
            witness.statistic(release(data), sensitivity=moved, norm=norm, name="statistic")

        return run_statistic
    if all(callable(getattr(release, name, None)) for name in ("fit", "get_params", "set_params")):
        return fit_copy
    if not callable(release):
        raise refuse("release", given=release, allowed="an estimator or a callable")
    return lambda release, data, witness: release(data, witness)


def fit_copy(estimator: Any, data: Any, witness: Witness) -> dict[str, Any]:
    """Fit a copy of an estimator, and return all of its visible values."""
    return list_visible(fit(estimator, data, witness))


def fit(estimator: Any, data: Any, witness: Witness) -> Any:
    """Return a copy of an estimator, fitted with a witness."""
    if not {"random_state", "budget"} <= estimator.get_params(deep=False).keys():
        raise refuse(
            "release", given=estimator, allowed="an estimator of dpstats, or a callable that uses one"
        )
    made = copy.copy(estimator)
    made.set_params(random_state=None, budget=None)
    made = _copy_data(made).set_params(random_state=witness)
    made.fit(*split_parts(data))
    if not witness.seen:
        name = type(made).__name__
        raise refuse(
            "release",
            given=estimator,
            allowed="have a stage when it is fitted",
            remedy=f"Give a callable that fits {name}(..., random_state=source) and asks it what it answers.",
        )
    return made


def list_visible(made: Any) -> dict[str, Any]:
    """Return the public values of a fitted estimator, and all of its attributes, which a pickle contains."""
    # Include values that are computed on access, always in one order.
    names = sorted({*vars(made), *dir(type(made))})
    public = {name: _shown(made, name) for name in names if name.endswith("_") and not name.startswith("_")}
    seen = {**public, "kept": vars(made), "repr": repr(made)}
    return {**seen, "summary": str(made.summary())} if hasattr(made, "summary") else seen


def _shown(made: Any, name: str) -> Any:
    try:
        return getattr(made, name)
    except Exception as error:  # some are there on request only
        return f"refused ({type(error).__name__})"


# With the witness, every stage returns its value from the first run. So every difference is due to the neighbor.
class Replay:
    """The run on the first dataset, with which runs on neighbors are compared."""

    def __init__(self, release: Any, run: Run, dataset: Any, seed: int, rows_apart: int = 1) -> None:
        self._release, self._run, self._dataset, self._seed = release, run, dataset, seed
        self._rows_apart = rows_apart
        self._first = Witness(seed)
        self._error: Exception | None = None
        self._changing: set[Path] = set()
        try:
            self._returned = self._done(dataset, self._first)
        except Exception as error:
            self._error = error
            return
        if not self._first.seen:
            raise refuse(
                "release",
                allowed="have a stage, or nothing is checked",
                remedy="Give its source as random_state to what it uses of dpstats, or draw from it "
                "(source.laplace, source.gaussian, source.select, source.statistic).",
            )
        self._changing = self._find_differences()

    def _done(self, data: Any, witness: Witness) -> Any:
        # Copies, as a release may change both.
        return self._run(_copy_data(self._release), _copy_data(data), witness)

    def _find_differences(self) -> set[Path]:
        """Return the differences of the output on the same dataset; raise an error for stages that differ."""
        again = self._first.again()
        try:
            returned, parted = self._done(self._dataset, again), again.finish()
        except Exception as error:
            returned, parted = None, again.parted or f"a run fails ({type(error).__name__})"
        moved = worst_of_each(self._first.seen, again.seen)
        if parted or any(not item.ok or item.ratio > 0 for item in moved):
            what = parted or "its stages are given other numbers"
            raise refuse(
                "release",
                allowed="give the same result on the same dataset when all that it draws is replayed, so that a "
                f"neighbor can be compared: {what}",
                remedy="Draw from source only, and use no clock.",
            )
        return compare_outputs(self._returned, returned)[0]

    def compare_neighbor(self, neighbor: Any, words: str) -> SensitivityCheck:
        """Compare the release on a neighboring dataset with the first."""
        if self._error is not None:
            # If it fails on both, the call is wrong.
            self._done(neighbor, Witness(self._seed))
            course = f"the dataset is refused ({type(self._error).__name__}), and the neighbor is not"
            return SensitivityCheck((), course, NOT_REACHED, words, isinstance(self._error, InvalidData))
        second = self._first.again()
        course, again, refused = "", None, False
        try:
            again = self._done(neighbor, second)
        except Exception as error:
            # Omit its message, which may show the data.
            course = second.parted or f"the neighbor is refused ({type(error).__name__})"
            refused = not second.parted and isinstance(error, InvalidData)
        else:
            # A release may handle the error of a stage that the first run did not request.
            course = second.finish()
        check_relation(self._dataset, neighbor, {*self._first.relations, *second.relations}, self._rows_apart)
        output = NOT_REACHED if course else self._output(again)
        movements = worst_of_each(self._first.seen, second.seen, self._rows_apart)
        return SensitivityCheck(movements, course, output, words, refused)

    def _output(self, again: Any) -> str:
        differ, unknown = compare_outputs(self._returned, again)
        for path in differ:
            # A difference on the same dataset is not due to the neighbor.
            if not any(path[:k] in self._changing for k in range(len(path) + 1)):
                return DIFFERS
        if self._changing:
            return NOT_REPEATED
        return NOT_COMPARED if unknown else FOLLOWS


def _copy_data(given: Any) -> Any:
    """Return a copy of data that a run may change, or the data if they cannot be copied."""
    try:
        return copy.deepcopy(given)
    except Exception:
        return given
