"""The results of a study, one line per cell, and the risks that fits use."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import refuse
from dpstats.inference.reports import Printed, Records, draw
from dpstats.inference.results import ConfidenceInterval, Summary, significant
from dpstats.simulation.cell_fits import Cells, Vector

Parameters = Mapping[str, Any]
MOST_FAILED = 0.05
"""Share of the replications of a cell that may fail before fits leave the cell out."""


@dataclass(frozen=True, slots=True)
class CellResult:
    """One cell of the grid.

    Attributes
    ----------
    parameters : mapping
    losses : mapping of str to ndarray
        One number per replication that did not fail.
    failures : mapping of str to int
        How many replications failed, by the reason.
    """

    parameters: Parameters
    losses: Mapping[str, NDArray[np.float64]] = field(repr=False)
    failures: Mapping[str, int]

    @property
    def failed(self) -> int:
        """Number of replications that raised."""
        return sum(self.failures.values())

    @property
    def few_failed(self) -> bool:
        """Whether at most a twentieth of the replications raised: what the others say still counts."""
        total = self.failed + max((values.size for values in self.losses.values()), default=0)
        return self.failed <= MOST_FAILED * total

    def mean(self, loss: str) -> float:
        """Monte Carlo mean; NaN where nothing succeeded."""
        values = self.losses[loss]
        return float(values.mean()) if values.size else math.nan

    def standard_error(self, loss: str) -> float:
        """Monte Carlo standard error of the mean; NaN below two replications."""
        values = self.losses[loss]
        return float(values.std(ddof=1) / math.sqrt(values.size)) if values.size > 1 else math.nan


@dataclass(frozen=True, slots=True, repr=False)
class StudyResults(Printed):
    """Results of a study.

    Attributes
    ----------
    name : str
    cells : tuple of CellResult
        Cells in the order of the grid.
    losses : tuple of str
    facts : mapping of str to str
        Sampler, estimator, seed, replications: what a report prints.
    seconds : float
        Processor time of the replications, added over processes. Threads of one process are each counted as all of it.
    versions : tuple of mapping of str to str
        Versions with which the rows were computed, by package: more than one if other versions resumed a
        file.

    Examples
    --------
    >>> from dpstats.means import ClippedMean
    >>> from dpstats.simulation import Rademacher, Study
    >>> estimator = ClippedMean(clip=1.0, delta=1e-6)
    >>> results = Study(Rademacher(), estimator, {"n": [100, 400], "d": [2]}, 50, seed=1).run()
    >>> results.parameter("n")
    array([100, 400])
    >>> results.table().dtype.names
    ('n', 'd', 'replications', 'failed', 'squared_error', 'squared_error_se')
    """

    name: str
    cells: tuple[CellResult, ...]
    losses: tuple[str, ...]
    facts: Mapping[str, str]
    seconds: float = 0.0
    versions: tuple[Mapping[str, str], ...] = ()

    def parameter(self, name: str) -> NDArray[Any]:
        """Return a parameter of all cells."""
        missing = [i for i, cell in enumerate(self.cells) if name not in cell.parameters]
        if missing:
            known = ", ".join(dict.fromkeys(key for cell in self.cells for key in cell.parameters))
            raise refuse("parameter", given=name, allowed=f"one of {known}")
        return np.array([cell.parameters[name] for cell in self.cells])

    def mean(self, loss: str | None = None) -> NDArray[np.float64]:
        """Return the Monte Carlo mean of every cell."""
        chosen = self.check_loss(loss)
        return np.array([cell.mean(chosen) for cell in self.cells])

    def standard_error(self, loss: str | None = None) -> NDArray[np.float64]:
        """Return the Monte Carlo standard error of every cell."""
        chosen = self.check_loss(loss)
        return np.array([cell.standard_error(chosen) for cell in self.cells])

    def check_loss(self, loss: str | None) -> str:
        """Return a loss of this study; the first for None."""
        if loss is None:
            return self.losses[0]
        if loss not in self.losses:
            raise refuse("loss", given=loss, allowed=f"one of {', '.join(self.losses)}")
        return loss

    def plot(self, parameter: str, ax: Any = None, *, loss: str | None = None, **options: Any) -> Any:
        """Draw the mean loss against a parameter, one line for every value of the others.

        Parameters
        ----------
        parameter : str
        ax : matplotlib Axes, optional
            Default: the Axes of a new figure.
        loss : str, optional
            Default: the first loss of the study.
        **options
            ``terms``, ``constants``, ``rate`` and ``logarithmic`` of `dpstats.simulation.study_report.draw_risk`;
            others are matplotlib's, of ``Axes.errorbar``.

        Returns
        -------
        matplotlib Axes
        """
        return draw(self, ax, parameter=parameter, loss=loss, **options)

    def where(self, condition: Callable[[Parameters], bool]) -> StudyResults:
        """Return the cells whose parameters meet a condition."""
        _check_function("condition", condition)
        return replace(self, cells=tuple(cell for cell in self.cells if condition(cell.parameters)))

    def derive(
        self, name: str, function: Callable[[Parameters], Any], *, instead_of: str | None = None
    ) -> StudyResults:
        """Return the results with one more parameter, a public function of the others.

        Parameters
        ----------
        name : str
        function : callable
            Function of a cell's parameters.
        instead_of : str, optional
            A parameter that the new one replaces: log sigma in place of epsilon, say.
        """
        _check_function("function", function)
        cells = []
        for cell in self.cells:
            parameters = {key: value for key, value in cell.parameters.items() if key != instead_of}
            cells.append(replace(cell, parameters={**parameters, name: function(cell.parameters)}))
        return replace(self, cells=tuple(cells))

    def without(self, *names: str) -> StudyResults:
        """Return the results without parameters that depend on others, such as a clip that is a function of n."""
        cells = [
            replace(cell, parameters={key: value for key, value in cell.parameters.items() if key not in names})
            for cell in self.cells
        ]
        return replace(self, cells=tuple(cells))

    @property
    def failed_cells(self) -> tuple[CellResult, ...]:
        """The cells in which at least one replication raised."""
        return tuple(cell for cell in self.cells if cell.failures)

    def table(self) -> NDArray[np.void]:
        """Return a structured array with one row per cell: parameters, replications, failures, means and errors."""
        names = list(dict.fromkeys(key for cell in self.cells for key in cell.parameters))
        columns: dict[str, NDArray[Any]] = {}
        for name in names:
            values = [cell.parameters.get(name) for cell in self.cells]
            array = np.array(values) if all(isinstance(value, int | float | str) for value in values) else None
            columns[name] = np.array(list(map(str, values))) if array is None else array
        first = self.losses[0]
        columns["replications"] = np.array([cell.losses[first].size for cell in self.cells])
        columns["failed"] = np.array([cell.failed for cell in self.cells])
        for loss in self.losses:
            columns[loss], columns[f"{loss}_se"] = self.mean(loss), self.standard_error(loss)
        table = np.empty(len(self.cells), dtype=[(name, column.dtype) for name, column in columns.items()])
        for name, column in columns.items():
            table[name] = column
        return table

    def to_pandas(self) -> Any:
        """Return `to_frame` with the positions of the cells as its index."""
        return self.to_frame().reset_index(drop=True)

    def _records(self) -> Records:
        table = self.table()
        columns = {name: table[name].tolist() for name in table.dtype.names or ()}
        names = [str(i + 1) for i in range(len(table))]
        return Records(names, columns, {"study": self.name, "facts": dict(self.facts), "seconds": self.seconds})

    def as_records(self) -> list[dict[str, Any]]:
        """Return `table` as plain dictionaries, for JSON; non-numeric values are None."""
        table = self.table()
        names = table.dtype.names or ()
        return [
            {
                name: None if isinstance(value, float) and not math.isfinite(value) else value
                for name, value in zip(names, row.tolist(), strict=True)
            }
            for row in table
        ]

    def summary(self) -> Summary:
        """Return the table for reading, with the failures below it."""
        table = self.table()
        shown = [name for name in table.dtype.names or () if name != "failed" or self.failed_cells]
        rows = [[str(i + 1), *(_word(row[name]) for name in shown)] for i, row in enumerate(table)]
        return Summary(
            f"Study: {self.name}",
            list(self.facts.items()),
            ["cell", *shown],
            rows,
            [*self.failure_notes(), *self.version_notes()],
        )

    def by_estimator(self) -> dict[str, StudyResults]:
        """Return the results of each named estimator, by name, without that parameter; by "" where there is one."""
        parts: dict[str, list[CellResult]] = {}
        for cell in self.cells:
            parts.setdefault(str(cell.parameters.get("estimator", "")), []).append(cell)
        return {name: replace(self, cells=tuple(cells)).without("estimator") for name, cells in parts.items()}

    def side_by_side(self, loss: str | None = None) -> Summary:
        """Return a loss of several named estimators: a row for every cell of the grid, a column for each estimator.

        Monte Carlo standard errors are in parentheses. Ratios are to the first estimator. Their standard
        errors count that the estimators see the same rows, and are left out where a replication failed.
        """
        chosen = self.check_loss(loss)
        parts = self.by_estimator()
        if len(parts) < 2:
            raise refuse("estimator", allowed="a mapping of two or more estimators for side_by_side")
        first, *others = parts
        keys = list(dict.fromkeys(key for cell in parts[first].cells for key in cell.parameters))
        rows = []
        for together in zip(*(part.cells for part in parts.values()), strict=True):
            numbers = [f"{one.mean(chosen):.4g} ({one.standard_error(chosen):.2g})" for one in together]
            ratios = [_ratio(one, together[0], chosen) for one in together[1:]]
            rows.append([*(_word(together[0].parameters.get(key)) for key in keys), *numbers, *ratios])
        columns = [*keys, *parts, *(f"{other} / {first}" for other in others)]
        facts = [("Loss", chosen), *self.facts.items()]
        notes = [*self.failure_notes(), *self.version_notes()]
        return Summary(f"Study: {self.name}, side by side", facts, columns, rows, notes)

    def failure_notes(self) -> list[str]:
        """Return a description of the failed cells, with counts and reasons."""
        return [
            f"Cell {i + 1} failed in {count:,} of {cell.failed + cell.losses[self.losses[0]].size:,} replications: "
            f"{reason}"
            for i, cell in enumerate(self.cells)
            for reason, count in cell.failures.items()
        ]

    def version_notes(self) -> list[str]:
        """Return a warning if rows were computed with different versions."""
        differing = {
            package: " and ".join(found)
            for package in dict.fromkeys(name for used in self.versions for name in used)
            if len(found := dict.fromkeys(used.get(package, "none") for used in self.versions)) > 1
        }
        if not differing:
            return []
        stated = ", ".join(f"{package} {found}" for package, found in differing.items())
        return [f"Rows of this study were computed with different versions: {stated}."]


def _ratio(one: CellResult, other: CellResult, loss: str) -> str:
    """Return the ratio of mean losses, with the standard error that pairs of losses on the same rows have."""
    above, below = one.mean(loss), other.mean(loss)
    if not (math.isfinite(above) and math.isfinite(below)) or below == 0:
        return ""
    ratio = above / below
    if one.failed or other.failed or one.losses[loss].size < 2:
        return f"{ratio:.4g}"
    spread = np.std((one.losses[loss] - ratio * other.losses[loss]) / below, ddof=1)
    return f"{ratio:.4g} ({spread / math.sqrt(one.losses[loss].size):.2g})"


def _word(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, float | np.floating) else str(value)


def collect(
    name: str,
    cells: Sequence[Parameters],
    losses: Sequence[str],
    rows: Sequence[tuple[int, int, tuple[float, ...] | None, str | None]],
    facts: Mapping[str, str],
    seconds: float,
    versions: Sequence[Mapping[str, str]] = (),
) -> StudyResults:
    """Gather the rows of a store by cell."""
    values: list[list[tuple[float, ...]]] = [[] for _ in cells]
    failures: list[dict[str, int]] = [{} for _ in cells]
    for cell, _, numbers, error in rows:
        if numbers is None:
            reason = error or "unknown"
            failures[cell][reason] = failures[cell].get(reason, 0) + 1
        else:
            values[cell].append(numbers)
    gathered = []
    for parameters, numbers_of_cell, reasons in zip(cells, values, failures, strict=True):
        array = np.array(numbers_of_cell, dtype=np.float64).reshape(-1, len(losses))
        by_loss = {loss: array[:, j] for j, loss in enumerate(losses)}
        gathered.append(CellResult(parameters, by_loss, reasons))
    return StudyResults(
        name=name, cells=tuple(gathered), losses=tuple(losses), facts=facts, seconds=seconds, versions=tuple(versions)
    )


def _check_function(name: str, function: Any) -> None:
    if not callable(function):
        raise refuse(name, given=function, allowed="a function of the parameters of a cell")


Term = Callable[[Parameters], float]
"""A term of a formula, without its constant, as a function of a cell's parameters."""


def usable_cells(results: StudyResults, loss: str, positive: bool = True) -> StudyResults:
    """Return the results without cells in which more than a few replications failed.

    At least one cell must remain.
    """
    cells = tuple(
        cell
        for cell in results.cells
        if cell.few_failed and cell.losses[loss].size > 1 and (not positive or cell.mean(loss) > 0)
    )
    if not cells:
        raise refuse(
            "results",
            allowed=f"have a cell in which at most {MOST_FAILED:.0%} of the replications failed, and at least two "
            "did not",
        )
    return replace(results, cells=cells)


def failure_words(results: StudyResults, used: StudyResults, loss: str | None = None) -> str:
    """Say of how many replications that failed a fit knows nothing, and how many cells it leaves out.

    With a loss, those too that have no logarithm of its mean.
    """
    words = []
    failed = sum(cell.failed for cell in used.cells)
    if failed:
        total = failed + sum(max(values.size for values in cell.losses.values()) for cell in used.cells)
        words.append(
            f"{failed:,} of their {total:,} replications failed, and are not counted, "
            "as if failures had nothing to do with the loss"
        )
    out = sum(not cell.few_failed for cell in results.cells)
    if out:
        words.append(f"{out} left out: more than {MOST_FAILED:.0%} of the replications failed")
    if loss is not None:
        nil = sum(cell.few_failed and cell.losses[loss].size > 1 and not cell.mean(loss) > 0 for cell in results.cells)
        if nil:
            words.append(f"{nil} left out: the mean of {loss} is not above 0")
    return f" ({'; '.join(words)})" if words else ""


def cells_to_fit(results: StudyResults, loss: str, spread: Sequence[str] | None = None, accuracy: float = 0.0) -> Cells:
    """Prepare the cells for a fit.

    Parameters
    ----------
    results : StudyResults
    loss : str
    spread : sequence of str, optional
        Parameters on which the relative variance of a loss depends. By default the number of columns for squared
        errors of a mean, which have the variance 2/d, and otherwise none.
    accuracy : float, default=0
        Relative error that the formula is known to have.
    """
    varied = [
        name
        for name in dict.fromkeys(key for cell in results.cells for key in cell.parameters)
        if len({repr(cell.parameters.get(name)) for cell in results.cells}) > 1
    ]
    if spread is None:
        names = ["d"] if loss in _SQUARED_ERRORS and "d" in varied else []
    elif isinstance(spread, str) or not all(isinstance(name, str) for name in spread):
        raise refuse("spread", given=spread, allowed="a sequence of names of parameters")
    else:
        # A parameter that does not vary is only checked.
        names = [name for name in spread if log_parameter(results, name, "spread").size and name in varied]
    columns = [np.ones(len(results.cells))]
    for name in names:
        logs = log_parameter(results, name, "spread")
        columns.append(logs - logs.mean())
    losses = [cell.losses[loss] for cell in results.cells]
    return Cells(losses, np.column_stack(columns), accuracy, len(varied) > 1, tuple(names))


_SQUARED_ERRORS = ("squared_error", "released_squared_error")


def log_parameter(results: StudyResults, parameter: str, argument: str = "parameter") -> Vector:
    """Return the log of a parameter of all cells; ``argument`` names it in errors."""
    known = dict.fromkeys(name for cell in results.cells for name in cell.parameters)
    if argument != "parameter" and parameter not in known:
        # A name in a list may be an entry of data that was given by mistake.
        raise refuse(argument, got="another name", allowed=f"names of parameters: {', '.join(known)}")
    values = results.parameter(parameter)
    if not (np.issubdtype(values.dtype, np.number) and (values > 0).all()):
        raise refuse(argument, given=parameter, allowed="a parameter that is a positive number in every cell")
    return np.log(values.astype(np.float64))


def check_one_estimator(results: StudyResults, call: str) -> None:
    """Refuse results of several named estimators: each has a separate exponent."""
    names = list(results.by_estimator())
    if len(names) > 1:
        raise refuse(
            "results",
            got=f"results of {len(names)} ({', '.join(names)})",
            allowed=f"of one estimator for {call}",
            remedy="Use results.by_estimator()[name], or fit_rates for all.",
        )


def evaluate(results: StudyResults, function: Term, name: str = "") -> Vector:
    """Return a term in every cell."""
    told = f"the term {name!r}" if name else "each term"
    if not callable(function):
        raise refuse("terms", given=function, allowed=f"have a function of a cell's parameters as {told}")
    values = np.empty(len(results.cells))
    for i, cell in enumerate(results.cells):
        failure = ""
        try:
            values[i] = float(function(cell.parameters))
        except KeyError as error:
            failure = f"the parameter {error} in {told}"
        except Exception as error:
            failure = f"{type(error).__name__} from {told}"
        if failure:
            raise refuse(
                "terms",
                got=failure,
                allowed=f"functions of the parameters of a cell ({', '.join(cell.parameters)}) that return a number",
            )
    if not (np.isfinite(values).all() and (values > 0).all()):
        i = int(np.argmin(np.where(np.isfinite(values) & (values > 0), 1, 0)))
        raise refuse("terms", got=f"{values[i]:g} from {told} in cell {i + 1}", allowed="positive in every cell")
    return values


def interval_words(interval: ConfidenceInterval) -> str:
    """Return an interval for a table, to as many digits as its width is worth."""
    half = float(interval.high - interval.low) / 2
    return f"[{significant(float(interval.low), half)}, {significant(float(interval.high), half)}]"


REPRODUCED = "reproduced"
FINITE_SIZE = "reproduced at finite size"
UNDECIDED = "undecided"
NOT_REPRODUCED = "not reproduced"


def judge(interval: ConfidenceInterval, theory: float, tolerance: float) -> str:
    """Return the verdict on a theory by the interval alone.

    "reproduced" if the whole interval is within the tolerance of the theory, so that the error is not larger.
    "not reproduced" if the interval excludes the theory. Otherwise "undecided".
    """
    if theory - tolerance <= interval.low and interval.high <= theory + tolerance:
        return REPRODUCED
    return UNDECIDED if interval.low <= theory <= interval.high else NOT_REPRODUCED


def reproduced(verdict: str) -> bool:
    """Return whether a verdict is one of the two good ones."""
    return verdict in (REPRODUCED, FINITE_SIZE)
