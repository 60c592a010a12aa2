"""A study: sampler x estimator x grid of public parameters x replications x loss."""

from __future__ import annotations

import copy
import inspect
import itertools
import math
import time
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import clone

from dpstats.data.parameters import check_integer, check_jobs
from dpstats.errors import DPStatsError, InvalidParameter, attempt, refuse, show
from dpstats.parallel import cut, one_blas_thread
from dpstats.release.estimator import PrivateEstimator
from dpstats.simulation.samplers import NEEDS_TRUTH, Loss, named_losses
from dpstats.simulation.store import Finished, Row, Store, describe, read_clocks, versions
from dpstats.simulation.table import Parameters, StudyResults, collect


class Adapter:
    """An estimator with a scikit-learn shape around any function of the rows.

    Parameters
    ----------
    function : callable
        ``function(X, rng, **parameters)`` returns the estimate. At the top level of a module, if the study
        is to run in several processes.
    attribute : str, default ``"mean_"``
        Where the estimate goes: ``"mean_"`` for the squared error, ``"support_"``, ``"reject_"`` for the
        others.
    **parameters
        Keyword arguments of the function with their defaults, which a grid may vary.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.simulation import Adapter, Gaussian, Study
    >>> def trimmed(X, rng, keep):
    ...     ordered, cut = np.sort(X, axis=0), round(len(X) * (1 - keep) / 2)
    ...     return ordered[cut : len(X) - cut].mean(axis=0)
    >>> study = Study(Gaussian(), Adapter(trimmed, keep=1.0), {"n": [50], "d": [1], "keep": [1.0, 0.1]}, 400)
    >>> study.run().mean().round(3)  # 1/50, and pi/2 times that for the median
    array([0.021, 0.03 ])
    """

    def __init__(self, function: Callable[..., Any], attribute: str = "mean_", **parameters: Any) -> None:
        if not callable(function):
            raise refuse("function", given=function, allowed="callable")
        _check_accepted(function, parameters)
        self._function = function
        self._attribute = attribute
        self._parameters = {"random_state": None, **parameters}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of the function, and ``random_state``."""
        return dict(self._parameters)

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters of the function."""
        _check_accepted(self._function, {key: value for key, value in parameters.items() if key != "random_state"})
        self._parameters |= parameters
        return self

    def fit(self, X: Any, y: Any = None) -> Self:
        """Call the function and keep what it returns."""
        parameters = dict(self._parameters)
        rng = np.random.default_rng(parameters.pop("random_state"))
        setattr(self, self._attribute, self._function(X, rng, **parameters))
        return self

    def __sklearn_clone__(self) -> Adapter:
        made = Adapter(self._function, self._attribute)
        made._parameters = dict(self._parameters)
        return made

    def __repr__(self) -> str:
        name = getattr(self._function, "__qualname__", type(self._function).__name__)
        shown = {key: value for key, value in self._parameters.items() if key != "random_state"}
        return f"Adapter({name}{''.join(f', {key}={value!r}' for key, value in shown.items())})"


def _check_accepted(function: Callable[..., Any], parameters: dict[str, Any]) -> None:
    """Refuse parameters that the function does not have: it would fail in every replication."""
    try:
        stated = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # of a built-in, which states nothing
        return
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in stated):
        return
    # After the rows and the generator.
    known = [parameter.name for parameter in list(stated)[2:] if parameter.kind is not parameter.VAR_POSITIONAL]
    unknown = [name for name in parameters if name not in known]
    if unknown:
        raise refuse(
            "parameters",
            allowed=f"names of parameters of function(X, rng, ...), which has {', '.join(known) or 'no others'}",
            got=", ".join(unknown),
        )


SIZES = ("n", "d")
"""Names of the grid that are neither the sampler's nor the estimator's: the size of the data."""

NAME = "estimator"
"""Parameter of the cells of a study of several estimators: which of them it is."""


def cells_of(grid: Any) -> list[dict[str, Any]]:
    """Return the parameters of every cell. A mapping of lists is their product, the last one varying fastest."""
    if isinstance(grid, Mapping):
        for values in grid.values():
            if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray):
                raise refuse("grid", given=grid, allowed="hold a list of values of every parameter")
        products = itertools.product(*grid.values())
        cells = [dict(zip(grid, values, strict=True)) for values in products]
    elif isinstance(grid, Sequence) and all(isinstance(cell, Mapping) for cell in grid):
        cells = [dict(cell) for cell in grid]
    else:
        raise refuse("grid", allowed="a mapping of lists, or a list of mappings")
    if not cells:
        raise refuse("grid", allowed="have at least one cell")
    return [
        {str(key): value.item() if isinstance(value, np.generic) else value for key, value in cell.items()}
        for cell in cells
    ]


def names_of_sampler(sampler: Any) -> frozenset[str] | None:
    """Return the parameters of a sampler; None if it takes any."""
    if hasattr(sampler, "__dataclass_fields__"):
        return frozenset(sampler.__dataclass_fields__)
    parameters = list(inspect.signature(sampler).parameters.values())
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return frozenset(parameter.name for parameter in parameters[3:])


def names_of_estimator(estimator: Any) -> frozenset[str]:
    """Return the parameters of an estimator and of those inside it."""
    return frozenset(estimator.get_params(deep=True))


def seeds_among(of_estimator: frozenset[str]) -> list[str]:
    """Return the parameters that seed an estimator and those inside it; always in the same order."""
    return sorted(name for name in of_estimator if name == "random_state" or name.endswith("__random_state"))


def owners_of(
    key: str, of_sampler: frozenset[str] | None, of_estimator: frozenset[str]
) -> tuple[str | None, str | None]:
    """Return the names of a grid parameter in the sampler and in the estimator, or None if they lack it."""
    if key in of_estimator:
        return key if of_sampler is not None and key in of_sampler else None, key
    plain = key.removeprefix("sampler__")
    if of_sampler is None or plain in of_sampler:
        return plain, None
    plain = key.removeprefix("estimator__")
    return None, plain if plain in of_estimator else None


def split_parameters(cell: Mapping[str, Any], sampler: Any, estimator: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters of a cell for the sampler and for the estimator, by their own names."""
    names = names_of_sampler(sampler), names_of_estimator(estimator)
    of_sampler: dict[str, Any] = {}
    of_estimator: dict[str, Any] = {}
    for key, value in cell.items():
        if key not in SIZES:
            to_sampler, to_estimator = owners_of(key, *names)
            of_sampler |= {} if to_sampler is None else {to_sampler: value}
            of_estimator |= {} if to_estimator is None else {to_estimator: value}
    return of_sampler, of_estimator


def check_names(cells: Sequence[Mapping[str, Any]], sampler: Any, estimator: Any) -> None:
    """Refuse cells without sizes, and names that neither the sampler nor the estimator has."""
    of_sampler, of_estimator = names_of_sampler(sampler), names_of_estimator(estimator)
    for cell in cells:
        for size in SIZES:
            if size not in cell:
                raise refuse("grid", got=f"{', '.join(cell) or 'nothing'}", allowed="name n and d")
            check_integer(size, cell[size], at_least=1)
        unknown = [key for key in cell if key not in SIZES and owners_of(key, of_sampler, of_estimator) == (None, None)]
        if unknown:
            theirs = ", ".join(sorted(of_sampler or ())) or "none"
            known = ", ".join(sorted(of_estimator - {"random_state", "budget"})) or "none"
            raise InvalidParameter(
                f"grid has unknown parameters {', '.join(unknown)}: the sampler has {theirs}; "
                f"the estimator has {known}; the sizes are n and d"
            )


@dataclass(frozen=True)
class Work:
    """Everything that a process needs; pickled with every block."""

    sampler: Any
    estimator: Any
    losses: Mapping[str, Loss]
    seed: int
    streams: int
    """Cells of one estimator: cells that are so far apart have the same seed, and so the same rows."""


def run_block(work: Work, cell: int, parameters: Parameters, replications: list[int]) -> Finished:
    """Run replications of one cell.

    BLAS has one thread, as it has in a process of several: its threads wait for each other longer than they help.
    """
    with one_blas_thread():
        start = read_clocks()
        rows = _run_rows(work, cell, parameters, replications)
        return rows, read_clocks(start), versions()


def _run_rows(work: Work, cell: int, parameters: Parameters, replications: list[int]) -> list[Row]:
    """Return the rows of replications of one cell."""
    try:
        run = _Replication(work, parameters)
    except Exception as error:
        return [(cell, r, None, _reason(error)) for r in replications]
    rows: list[Row] = []
    stream = cell % work.streams
    for r in replications:
        # The r-th child that SeedSequence.spawn would give the cell's seed, without making those before it.
        rng = np.random.default_rng(np.random.SeedSequence(work.seed, spawn_key=(stream, r)))
        try:
            rows.append((cell, r, run(rng), None))
        except Exception as error:
            rows.append((cell, r, None, _reason(error)))
    return rows


class _Replication:
    """Draw, fit, measure: in one cell."""

    def __init__(self, work: Work, parameters: Parameters) -> None:
        estimator = clone(work.estimator)
        self._of_data, changed = split_parameters(parameters, work.sampler, estimator)
        self._states = seeds_among(names_of_estimator(estimator))
        self._estimator = estimator.set_params(**changed) if changed else estimator
        self._sampler = work.sampler
        self._losses, self._measures = list(work.losses), list(work.losses.values())
        self._n, self._d = int(parameters["n"]), int(parameters["d"])
        true_mean = getattr(work.sampler, "true_mean", None)
        self._truth: Any = None if true_mean is None else true_mean(self._d, **self._of_data)
        self._takes_generator = isinstance(estimator, PrivateEstimator | Adapter)
        self._is_ours = isinstance(estimator, PrivateEstimator) and self._states == ["random_state"]
        # Any other estimator could keep state from one fit to the next: results would depend on the blocks.
        here = type(estimator).__module__.startswith("dpstats.")
        self._forgets = self._takes_generator and here

    def __call__(self, rng: np.random.Generator) -> tuple[float, ...]:
        drawn = self._sampler(self._n, self._d, rng, **self._of_data)
        X, y = drawn if isinstance(drawn, tuple) else (drawn, None)
        estimator = self._estimator if self._forgets else clone(self._estimator)
        if self._is_ours:
            # As set_params would, but without its check of all names, which takes a tenth of a small fit.
            estimator.random_state = rng
        else:
            for name in self._states:
                # scikit-learn's own estimators do not take a Generator: each gets an int drawn from it.
                state = rng if self._takes_generator else int(rng.integers(2**31))
                estimator.set_params(**{name: state})
        fitted = estimator.fit(X) if y is None else estimator.fit(X, y)
        values = tuple([float(loss(fitted, X, self._truth)) for loss in self._measures])
        if not all(map(math.isfinite, values)):
            wrong = next(pair for pair in zip(self._losses, values, strict=True) if not math.isfinite(pair[1]))
            raise DPStatsError("{} is {}".format(*wrong))
        return values


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


@dataclass(frozen=True)
class StudyCost:
    """The estimated time of a study before it is run: `Study.cost`.

    Attributes
    ----------
    seconds : float
        Of the whole study, on all processes together.
    cells, replications, n_jobs : int

    Examples
    --------
    >>> from dpstats.simulation.study import StudyCost
    >>> print(StudyCost(seconds=1680.0, cells=312, replications=30, n_jobs=2))
    about 14 minutes with 2 processes: 312 cells x 30 replications
    """

    seconds: float
    cells: int
    replications: int
    n_jobs: int

    def __str__(self) -> str:
        wall = self.seconds / self.n_jobs
        units = (("hour", 3600.0), ("minute", 60.0), ("second", 1.0))
        unit, size = next((pair for pair in units if wall >= 1.5 * pair[1]), units[-1])
        count = max(1, round(wall / size))
        processes = f"{self.n_jobs} process{'es' if self.n_jobs > 1 else ''}"
        of_what = f"{self.cells:,} cells x {self.replications:,} replications"
        return f"about {count:,} {unit}{'s' if count > 1 else ''} with {processes}: {of_what}"


_TRIED = 20  # replications, before a study is said not to work
BLOCK_SECONDS = 1.0
"""Target time of a block of replications, and interval between writes: a kill loses unwritten results."""


class Study:
    """Measure an estimator or a test on simulated data, over a grid of public parameters.

    Parameters
    ----------
    sampler : callable
        ``sampler(n, d, rng, **parameters)`` returns rows, or a pair ``(X, y)``. One of this package's, or any
        callable; ``true_mean(d, **parameters)``, where it has one, is what losses compare with.
    estimator : estimator with a scikit-learn shape, Adapter, or mapping of str to these
        A mapping names several: every one sees the same rows, ``estimator`` is a parameter of the cells, and
        `StudyResults.side_by_side` compares them.
        Cloned, never changed. Its ``random_state`` is set for every replication: all noise is simulated.
        Cloned for every replication, unless it is one of this package's.
    grid : mapping of lists, or sequence of mappings
        A mapping stands for the cartesian product of its lists, the last one varying fastest. ``n`` and ``d``
        must be there, and are sizes of the data. Other names are parameters of the sampler, of the estimator,
        or of both (``n_nonzero`` of sparse means, say); ``sampler__name`` and ``estimator__name`` are for one
        of them only.
    replications : int
        Datasets drawn in every cell.
    loss : str, callable, list of these, or mapping, default="squared_error"
        "squared_error", "support_recovery", "coverage", "simultaneous_coverage", "rejection", or
        ``loss(fitted, X, true_mean)``.
    seed : int, default=0
        Every cell has the seed ``SeedSequence(seed).spawn(...)[cell]`` and every replication a child of that.
        Results do not depend on the number of processes, on their order, or on interruptions, if the sampler,
        the loss and an Adapter's function have no state between calls.
    name : str, default="study"

    Examples
    --------
    The error of a private mean against its closed form, 4 R^2 d^2 s^2/n^2 of noise and d/n of sampling:

    >>> from dpstats.means import ClippedMean
    >>> from dpstats.simulation import Rademacher, Study
    >>> estimator = ClippedMean(clip=1.0, delta=1e-6)
    >>> study = Study(Rademacher(), estimator, {"n": [100, 1000], "d": [4], "epsilon": [0.5, 2.0]}, 200)
    >>> results = study.run()
    >>> expected = [
    ...     estimator.set_params(epsilon=cell["epsilon"]).plan(cell["n"], cell["d"]).expected_error(std=1.0)
    ...     for cell in study.cells
    ... ]
    >>> bool((abs(results.mean() / expected - 1) < 0.2).all())
    True
    """

    def __init__(
        self,
        sampler: Any,
        estimator: Any,
        grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]],
        replications: int,
        *,
        loss: Any = "squared_error",
        seed: int = 0,
        name: str = "study",
    ) -> None:
        if not callable(sampler):
            raise refuse("sampler", given=sampler, allowed="callable as sampler(n, d, rng)")
        named = isinstance(estimator, Mapping)
        if named and not (estimator and all(isinstance(key, str) and key for key in estimator)):
            raise refuse(
                "estimator", allowed="an estimator, or a mapping that has a name for each of one or more estimators"
            )
        self._estimators = list(estimator.values()) if named else [estimator]
        for one in self._estimators:
            for method in ("fit", "get_params", "set_params"):
                if not callable(getattr(one, method, None)):
                    raise refuse(
                        "estimator",
                        given=one,
                        allowed="have fit, get_params and set_params",
                        remedy="Adapter makes an estimator of any function.",
                    )
        self.sampler = sampler
        self.estimator = estimator
        self.replications = check_integer("replications", replications, at_least=1)
        self.seed = check_integer("seed", seed, at_least=0)
        if not isinstance(name, str):
            raise refuse("name", given=name, allowed="text")
        self.name = name
        self.losses = named_losses(loss)
        self._grid = cells_of(grid)
        if named and any(NAME in cell for cell in self._grid):
            raise refuse("grid", allowed=f"not name {NAME!r}: the names of the estimators are its values")
        for one in self._estimators:
            check_names(self._grid, sampler, one)
        self.cells = [{NAME: name, **cell} for name in estimator for cell in self._grid] if named else self._grid
        lacking = sorted(NEEDS_TRUTH & set(self.losses)) if not hasattr(sampler, "true_mean") else []
        if lacking:
            raise InvalidParameter(
                f"loss={show(lacking[0])} compares with the truth: give the sampler a method true_mean(d), "
                "or a callable loss"
            )

    @property
    def description(self) -> dict[str, Any]:
        """The identity of the study: a file is resumed only by a study with an equal description.

        Raises InvalidParameter if something in it can only be named by its class.
        """
        estimators = [clone(one) for one in self._estimators]
        for one in estimators:
            states = seeds_among(names_of_estimator(one))
            if states:  # replaced in every replication
                one.set_params(**dict.fromkeys(states))
        kinds = [describe("estimator", type(one)) for one in estimators]
        parameters = [describe("estimator", one) for one in estimators]
        single = not isinstance(self.estimator, Mapping)
        return {
            "sampler": describe("sampler", self.sampler),
            "estimator": kinds[0] if single else kinds,
            "estimator's parameters": parameters[0] if single else parameters,
            "grid": describe("grid", self.cells),
            "loss": describe("loss", list(self.losses.items())),
            "seed": self.seed,
        }

    def run(
        self,
        path: str | Path | None = None,
        *,
        n_jobs: int | None = None,
        progress: bool = False,
        retry_failed: bool = False,
    ) -> StudyResults:
        """Run the missing replications, and return the results.

        Parameters
        ----------
        path : path, optional
            SQLite file to which rows are appended as they finish. If it holds part of this study, only
            the rest is run. Default: memory.
        n_jobs : int, optional
            Processes; -1 is one per core. Default: the value of ``joblib.parallel_config``, or one. Within
            ``with joblib.parallel_config("dask"):`` the blocks go to a Dask cluster.
        progress : bool, default=False
            Whether to show a bar with the time left.
        retry_failed : bool, default=False
            Whether replications that the file has as failed are run again, with the seeds that they had:
            after a full disk or memory, say. Their results replace the failures, block by block.

        Raises
        ------
        InvalidParameter
            If no replication works; then nothing is run. If a path is given, and only the class of the
            sampler, the estimator or a loss is known, so that a file could not identify this study.
        StudyFileError
            If the file is another study's, or cannot be written (a full disk, for example). It contains the
            finished replications.
        """
        check_jobs(n_jobs)
        if not isinstance(path, str | Path | None):
            raise refuse("path", given=path, allowed="the name of a file, or None")
        if path is not None:
            _ = self.description  # raises, if it has none
        if path is None or not Path(path).exists():
            # Before there is a file, which a study that was mended could not go on with.
            self._check_runs()
        with self._store(path) as store:
            self._run_missing(store, n_jobs, progress, retry_failed)
            return self._collect(store)

    def cost(self, *, n_jobs: int | None = None) -> StudyCost:
        """Return the estimated time of the whole study, from one replication of three cells for each estimator.

        The smallest, the middle and the largest cell by n d are run, and times are interpolated between them.

        Parameters
        ----------
        n_jobs : int, optional
            Processes, as in `run`.

        Returns
        -------
        StudyCost
            Prints as "about 14 minutes with 2 processes: 312 cells x 30 replications".
        """
        from joblib import Parallel

        check_jobs(n_jobs)
        sizes = np.log([float(cell["n"]) * float(cell["d"]) for cell in self._grid])
        order = np.argsort(sizes, kind="stable")
        chosen = np.unique(order[[0, len(order) // 2, -1]])
        chosen = chosen[np.argsort(sizes[chosen], kind="stable")]
        total = 0.0
        for start in range(0, len(self.cells), len(self._grid)):
            run_block(*self._block(start + int(order[0])), [0])  # without the time of imports
            took = [run_block(*self._block(start + int(cell)), [0])[1].clock for cell in chosen]
            logs = np.interp(sizes, sizes[chosen], np.log(np.maximum(took, 1e-9)))
            total += self.replications * float(np.exp(logs).sum())
        return StudyCost(total, len(self.cells), self.replications, int(Parallel(n_jobs).n_jobs))

    def load(self, path: str | Path) -> StudyResults:
        """Return the results that a file holds so far, and run nothing."""
        if not attempt(Path(path).exists, OSError):  # the name may be too long for a file
            raise refuse("path", got=f"no file at {show(str(path))}", allowed="the file of a study")
        with self._store(path) as store:
            return self._collect(store)

    def _store(self, path: str | Path | None) -> Store:
        cells = [{key: _stated(value) for key, value in cell.items()} for cell in self.cells]
        return Store(path, None if path is None else self.description, cells, list(self.losses))

    def _collect(self, store: Store) -> StudyResults:
        rows = store.rows(self.replications)
        owners = [[split_parameters(cell, self.sampler, one) for cell in self._grid] for one in self._estimators]
        names = list(self.estimator) if isinstance(self.estimator, Mapping) else [None]
        facts = {
            "Sampler": _as_run(self.sampler, [given for given, _ in owners[0]]),
            **{
                "Estimator" if name is None else f"Estimator {name}": _as_run(one, [given for _, given in pairs])
                for name, one, pairs in zip(names, self._estimators, owners, strict=True)
            },
            "Replications": f"{self.replications:,} in each of {len(self.cells):,} cells",
            "Seed": str(self.seed),
        }
        used = store.versions(self.replications)
        return collect(self.name, self.cells, list(self.losses), rows, facts, store.seconds(), used)

    def _check_runs(self) -> None:
        """Raise if no replication works: a misspelt name, say, which would fail in each, and be in the file."""
        # The smallest cells first. One replication that works is enough, and is not kept.
        order = sorted(range(len(self._grid)), key=lambda i: self._grid[i]["n"] * self._grid[i]["d"])
        tried = [pair for pair in itertools.product(range(_TRIED), order) if pair[0] < self.replications]
        for start in range(0, len(self.cells), len(self._grid)):
            reasons = []
            for r, cell in tried[:_TRIED]:
                ((_, _, numbers, reason),), _, _ = run_block(*self._block(start + cell), [r])
                if numbers is not None:
                    break
                reasons.append(reason)
            else:
                name = f" {self.cells[start][NAME]!r}" if isinstance(self.estimator, Mapping) else ""
                raise InvalidParameter(
                    f"sampler, estimator{name} and loss must work on the grid. Nothing was run: all "
                    f"{len(reasons)} trial replications failed. The first error was {reasons[0]}"
                )

    def _block(self, cell: int) -> tuple[Work, int, Mapping[str, Any]]:
        """Return the arguments of `run_block` for a cell."""
        which, place = divmod(cell, len(self._grid))
        work = Work(self.sampler, self._estimators[which], self.losses, self.seed, len(self._grid))
        return work, cell, self._grid[place]

    def _run_missing(self, store: Store, n_jobs: int | None, progress: bool, retry_failed: bool) -> None:
        done = store.finished(but_failed=retry_failed)
        missing = {
            cell: [r for r in range(self.replications) if r not in done.get(cell, ())]
            for cell in range(len(self.cells))
        }
        missing = {cell: replications for cell, replications in missing.items() if replications}
        total = len(self.cells) * self.replications
        left = sum(map(len, missing.values()))
        if left == 0:
            return
        waiting: list[Finished] = []
        written = time.perf_counter()
        bar = None
        if progress:
            from tqdm import tqdm

            bar = tqdm(total=total, initial=total - left, desc=self.name, unit="fit")
        try:
            seconds: dict[int, float] = {}
            # One replication of every cell says how long the others take, and so how many make a block.
            firsts = [(cell, replications[:1]) for cell, replications in missing.items()]
            stages: tuple[Callable[[], Any], ...] = (lambda: firsts, lambda: _blocks(missing, seconds))
            for stage in stages:
                with closing(self._each(stage(), n_jobs)) as finished:
                    for rows, took, used in finished:
                        waiting.append((rows, took, used))
                        seconds.setdefault(rows[0][0], took.clock)
                        if bar is not None:
                            bar.update(len(rows))
                        # Not after every block: a transaction waits for the disk, which takes longer than a
                        # quick one.
                        if time.perf_counter() - written >= BLOCK_SECONDS:
                            store.append(_emptied(waiting), replace_failed=retry_failed)
                            written = time.perf_counter()
        finally:
            if bar is not None:
                bar.close()
            # After an interruption, too.
            if waiting:
                store.append(_emptied(waiting), replace_failed=retry_failed)

    def _each(self, blocks: Sequence[tuple[int, list[int]]], n_jobs: int | None) -> Generator[Finished, None, None]:
        from joblib import Parallel, delayed

        parallel = Parallel(n_jobs, return_as="generator_unordered")
        if parallel.n_jobs == 1 or len(blocks) == 1:
            for cell, replications in blocks:
                yield run_block(*self._block(cell), replications)
        else:
            tasks = (delayed(run_block)(*self._block(cell), replications) for cell, replications in blocks)
            finished = parallel(tasks)
            try:
                # Not "yield from", which would close it outside the handler below.
                for block in finished:  # noqa: UP028
                    yield block
            finally:
                # If a row cannot be written, the blocks that still run are canceled; joblib warns of that.
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)
                    finished.close()


def _blocks(missing: Mapping[int, list[int]], seconds: Mapping[int, float]) -> list[tuple[int, list[int]]]:
    """Cut the missing replications into blocks of about a second, in turn over all cells."""
    placed = []
    for cell, replications in missing.items():
        rest = replications[1:]
        size = max(1, min(len(rest), int(BLOCK_SECONDS / max(seconds[cell], 1e-6))))
        start = 0
        for length in cut(len(rest), size):
            placed.append((start / len(rest), cell, rest[start : start + length]))
            start += length
    # The bar extrapolates from finished blocks, which requires that fast and slow cells advance together.
    return [(cell, replications) for _, cell, replications in sorted(placed, key=lambda block: block[:2])]


def _emptied(waiting: list[Finished]) -> list[Finished]:
    """Return the blocks that wait to be written and forget them. If writing fails, they are not written again."""
    taken = waiting.copy()
    waiting.clear()
    return taken


class _OfTheCell:
    """Stands for a parameter that differs from cell to cell."""

    def __repr__(self) -> str:
        return "<by cell>"


def _as_run(thing: Any, given: Sequence[Mapping[str, Any]]) -> str:
    """Return a description of a sampler or an estimator, with the parameters that the cells replace."""
    values: dict[str, Any] = {}
    for name in dict.fromkeys(key for cell in given for key in cell):
        of_cells = [cell.get(name, _OfTheCell) for cell in given]
        same = all(type(value) is type(of_cells[0]) and value == of_cells[0] for value in of_cells)
        values[name] = of_cells[0] if same else _OfTheCell()
    try:
        if callable(getattr(thing, "set_params", None)):
            thing = clone(thing).set_params(**values)
        elif hasattr(thing, "__dataclass_fields__"):
            thing = copy.copy(thing)
            for name, value in values.items():
                object.__setattr__(thing, name, value)
    except Exception:  # what a class of somebody's own makes of a stand-in
        pass
    return str(_stated(thing))


def _stated(value: Any) -> Any:
    """Return a value as JSON can hold it; functions and objects by their names, never by their addresses."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray | tuple | list):
        return [_stated(item) for item in np.asarray(value, dtype=object).tolist()]
    name = getattr(value, "__qualname__", None)
    if name is not None:
        return f"{value.__module__}.{name}"
    text = " ".join(repr(value).split()).removesuffix(" [simulated noise, not a private release]")
    return text if " at 0x" not in text else f"{type(value).__module__}.{type(value).__qualname__}"
