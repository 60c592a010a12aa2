"""A study: sampler x estimator x grid of public parameters x replications x loss."""

from __future__ import annotations

import inspect
import itertools
import math
import time
import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from dpstats.data.parameters import check_integer
from dpstats.errors import DPStatsError, InvalidParameter
from dpstats.parallel import cut
from dpstats.release.estimator import PrivateEstimator
from dpstats.simulation.adapter import Adapter
from dpstats.simulation.losses import NEEDS_TRUTH, Loss, named_losses
from dpstats.simulation.store import Finished, Row, Store, describe, versions
from dpstats.simulation.table import Parameters, StudyResults, collect

_BLOCK_SECONDS = 1.0
"""What a block of replications should take, and how often results are written: a kill loses what is not."""

_SIZES = ("n", "d")


@dataclass(frozen=True)
class _Work:
    """Everything that a process needs; pickled with every block."""

    sampler: Any
    estimator: Any
    losses: Mapping[str, Loss]
    seed: int


class Study:
    """Measure an estimator or a test on simulated data, over a grid of public parameters.

    Parameters
    ----------
    sampler : callable
        ``sampler(n, d, rng, **parameters)`` returns rows, or a pair ``(X, y)``. One of this package's, or any
        callable; ``true_mean(d, **parameters)``, where it has one, is what losses compare with.
    estimator : estimator with a scikit-learn shape, or Adapter
        Cloned, never changed. Its ``random_state`` is set for every replication: all noise is simulated.
        Cloned for every replication, unless it is one of this package's.
    grid : mapping of lists, or sequence of mappings
        A mapping is taken as the cartesian product of its lists, the last one varying fastest. ``n`` and
        ``d`` must be there, and are sizes of the data. Other names are parameters of the sampler, of the
        estimator, or of both (``n_nonzero`` of sparse means, say); ``sampler__name`` and ``estimator__name`` are
        for one of them only.
    replications : int
        Datasets drawn in every cell.
    loss : str, callable, list of these, or mapping, default="squared_error"
        "squared_error", "support_recovery", "coverage", "simultaneous_coverage", "rejection", or
        ``loss(fitted, X, true_mean)``.
    seed : int, default=0
        Every cell has the seed ``SeedSequence(seed).spawn(...)[cell]`` and every replication a child of that:
        results do not depend on the number of processes, on their order, or on what was resumed (if the
        sampler, the loss and an Adapter's function keep nothing from one call to the next).
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
            raise InvalidParameter(f"sampler must be callable as sampler(n, d, rng), got {sampler!r}")
        for method in ("fit", "get_params", "set_params"):
            if not callable(getattr(estimator, method, None)):
                raise InvalidParameter(
                    f"estimator must have fit, get_params and set_params, got {type(estimator).__name__}: "
                    "Adapter makes an estimator of any function"
                )
        self.sampler = sampler
        self.estimator = estimator
        self.replications = check_integer("replications", replications, at_least=1)
        self.seed = check_integer("seed", seed, at_least=0)
        self.name = name
        self.losses = named_losses(loss)
        self.cells = _cells(grid)
        self._check_names()
        lacking = sorted(NEEDS_TRUTH & set(self.losses)) if not hasattr(sampler, "true_mean") else []
        if lacking:
            raise InvalidParameter(
                f"loss={lacking[0]!r} compares with the truth: give the sampler a method true_mean(d), "
                "or a callable loss"
            )

    def _check_names(self) -> None:
        of_sampler, of_estimator = _names_of_sampler(self.sampler), _names_of_estimator(self.estimator)
        for cell in self.cells:
            for size in _SIZES:
                if size not in cell:
                    raise InvalidParameter(f"grid must name n and d, got {', '.join(cell) or 'nothing'}")
                check_integer(size, cell[size], at_least=1)
            unknown = [
                key
                for key in cell
                if key not in _SIZES and _target(key, of_sampler, of_estimator) == (None, None)
            ]
            if unknown:
                sampler = ", ".join(sorted(of_sampler or ())) or "none"
                estimator = ", ".join(sorted(of_estimator - {"random_state", "budget"})) or "none"
                raise InvalidParameter(
                    f"grid has unknown parameters {', '.join(unknown)}: the sampler has {sampler}; "
                    f"the estimator has {estimator}; the sizes are n and d"
                )

    @property
    def description(self) -> dict[str, Any]:
        """What makes this study this study: a file is resumed only by a study that has the same.

        Raises InvalidParameter if something in it can only be named by its class.
        """
        estimator = clone(self.estimator)
        states = _states(_names_of_estimator(estimator))
        if states:  # replaced in every replication
            estimator.set_params(**dict.fromkeys(states))
        return {
            "sampler": describe("sampler", self.sampler),
            "estimator": describe("estimator", type(estimator)),
            "estimator's parameters": describe("estimator", estimator),
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
        """Run what is missing, and return the results.

        Parameters
        ----------
        path : path, optional
            SQLite file to which rows are appended as they finish. If it holds part of this study, only
            the rest is run. Default: memory.
        n_jobs : int, optional
            Processes; -1 is one per core. Default: what ``joblib.parallel_config`` says, else one. Within
            ``with joblib.parallel_config("dask"):`` the blocks go to a Dask cluster.
        progress : bool, default=False
            Whether to show a bar with the time left.
        retry_failed : bool, default=False
            Whether replications that the file has as failed are run again, with the seeds that they had:
            after a full disk or memory, say. What they give replaces the failure, block by block.

        Raises
        ------
        InvalidParameter
            If a path is given and the sampler, the estimator or a loss is an object of which nothing but its
            class is known: a file could not tell this study from another.
        StudyFileError
            If the file is another study's, or cannot be written (no space left, say): what was finished is in it.
        """
        if n_jobs is not None and check_integer("n_jobs", n_jobs, at_least=-1) == 0:
            raise InvalidParameter("n_jobs must be a positive integer, or -1 for one per core, got 0")
        with self._store(path) as store:
            self._run_missing(store, n_jobs, progress, retry_failed)
            return self._collect(store)

    def load(self, path: str | Path) -> StudyResults:
        """Return the results that a file holds so far, and run nothing."""
        if not Path(path).exists():
            raise InvalidParameter(f"path must be the file of a study, and there is no {path}")
        with self._store(path) as store:
            return self._collect(store)

    def _store(self, path: str | Path | None) -> Store:
        cells = [{key: _stated(value) for key, value in cell.items()} for cell in self.cells]
        return Store(path, None if path is None else self.description, cells, list(self.losses))

    def _collect(self, store: Store) -> StudyResults:
        rows = store.rows(self.replications)
        facts = {
            "Sampler": str(_stated(self.sampler)),
            "Estimator": str(_stated(self.estimator)),
            "Replications": f"{self.replications:,} in each of {len(self.cells):,} cells",
            "Seed": str(self.seed),
        }
        used = store.versions(self.replications)
        return collect(self.name, self.cells, list(self.losses), rows, facts, store.seconds(), used)

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
            for stage in (lambda: firsts, lambda: _blocks(missing, seconds)):
                with closing(self._each(stage(), n_jobs)) as finished:
                    for rows, took, used in finished:
                        waiting.append((rows, took, used))
                        seconds.setdefault(rows[0][0], took)
                        if bar is not None:
                            bar.update(len(rows))
                        # A transaction waits for the disk, longer than a quick replication takes.
                        if time.perf_counter() - written >= _BLOCK_SECONDS:
                            store.append(_emptied(waiting), replace_failed=retry_failed)
                            written = time.perf_counter()
        finally:
            if bar is not None:
                bar.close()
            # After an interruption, too.
            if waiting:
                store.append(_emptied(waiting), replace_failed=retry_failed)

    def _each(
        self, blocks: Sequence[tuple[int, list[int]]], n_jobs: int | None
    ) -> Generator[Finished, None, None]:
        work = _Work(self.sampler, self.estimator, self.losses, self.seed)
        from joblib import Parallel, delayed

        parallel = Parallel(n_jobs, return_as="generator_unordered")
        if parallel.n_jobs == 1 or len(blocks) == 1:
            for cell, replications in blocks:
                yield _run_block(work, cell, self.cells[cell], replications)
        else:
            tasks = (
                delayed(_run_block)(work, cell, self.cells[cell], replications)
                for cell, replications in blocks
            )
            finished = parallel(tasks)
            try:
                # Not "yield from", which would close it outside the handler below.
                for block in finished:  # noqa: UP028
                    yield block
            finally:
                # If a row cannot be written, what still runs is called off, and joblib need not say so.
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)
                    finished.close()


def _blocks(missing: Mapping[int, list[int]], seconds: Mapping[int, float]) -> list[tuple[int, list[int]]]:
    """Cut what is missing into blocks of about a second, all cells going forward together."""
    placed = []
    for cell, replications in missing.items():
        rest = replications[1:]
        size = max(1, min(len(rest), int(_BLOCK_SECONDS / max(seconds[cell], 1e-6))))
        start = 0
        for length in cut(len(rest), size):
            placed.append((start / len(rest), cell, rest[start : start + length]))
            start += length
    # The time left is told from what is done: it is right only if cheap and dear cells advance alike.
    return [(cell, replications) for _, cell, replications in sorted(placed, key=lambda block: block[:2])]


def _emptied(waiting: list[Finished]) -> list[Finished]:
    """Take what waits: if it cannot be written, it is not tried again."""
    taken = waiting.copy()
    waiting.clear()
    return taken


def _run_block(work: _Work, cell: int, parameters: Parameters, replications: list[int]) -> Finished:
    """Run replications of one cell."""
    start = time.perf_counter()
    rows: list[Row] = []
    try:
        run = _Replication(work, parameters)
    except Exception as error:
        rows = [(cell, r, None, _reason(error)) for r in replications]
        return rows, time.perf_counter() - start, versions()
    for r in replications:
        # The r-th child of the cell's seed, without making the others: SeedSequence.spawn counts like this.
        rng = np.random.default_rng(np.random.SeedSequence(work.seed, spawn_key=(cell, r)))
        try:
            rows.append((cell, r, run(rng), None))
        except Exception as error:
            rows.append((cell, r, None, _reason(error)))
    return rows, time.perf_counter() - start, versions()


class _Replication:
    """Draw, fit, measure: in one cell."""

    def __init__(self, work: _Work, parameters: Parameters) -> None:
        estimator = clone(work.estimator)
        of_sampler, of_estimator = _names_of_sampler(work.sampler), _names_of_estimator(estimator)
        self._of_data: dict[str, Any] = {}
        changed: dict[str, Any] = {}
        for key, value in parameters.items():
            if key in _SIZES:
                continue
            to_sampler, to_estimator = _target(key, of_sampler, of_estimator)
            if to_sampler is not None:
                self._of_data[to_sampler] = value
            if to_estimator is not None:
                changed[to_estimator] = value
        self._estimator = estimator.set_params(**changed) if changed else estimator
        self._sampler = work.sampler
        self._losses, self._measures = list(work.losses), list(work.losses.values())
        self._n, self._d = int(parameters["n"]), int(parameters["d"])
        true_mean = getattr(work.sampler, "true_mean", None)
        self._truth: Any = None if true_mean is None else true_mean(self._d, **self._of_data)
        self._states = _states(of_estimator)
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
            # What set_params does, without its look at all parameters: a tenth of a small fit.
            estimator.random_state = rng
        else:
            for name in self._states:
                # scikit-learn's own estimators take no Generator; an int of its own serves them.
                state = rng if self._takes_generator else int(rng.integers(2**31))
                estimator.set_params(**{name: state})
        fitted = estimator.fit(X) if y is None else estimator.fit(X, y)
        values = tuple([float(loss(fitted, X, self._truth)) for loss in self._measures])
        if not all(map(math.isfinite, values)):
            wrong = next(
                pair for pair in zip(self._losses, values, strict=True) if not math.isfinite(pair[1])
            )
            raise DPStatsError("{} is {}".format(*wrong))
        return values


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _cells(grid: Any) -> list[dict[str, Any]]:
    if isinstance(grid, Mapping):
        for key, values in grid.items():
            if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray):
                raise InvalidParameter(f"grid must hold a list of values of {key}, got {values!r}")
        products = itertools.product(*grid.values())
        cells = [dict(zip(grid, values, strict=True)) for values in products]
    elif isinstance(grid, Sequence) and all(isinstance(cell, Mapping) for cell in grid):
        cells = [dict(cell) for cell in grid]
    else:
        raise InvalidParameter("grid must be a mapping of lists, or a list of mappings")
    if not cells:
        raise InvalidParameter("grid must have at least one cell")
    return [
        {str(key): value.item() if isinstance(value, np.generic) else value for key, value in cell.items()}
        for cell in cells
    ]


def _names_of_sampler(sampler: Any) -> frozenset[str] | None:
    """Return the parameters of a sampler; None if it takes any."""
    if hasattr(sampler, "__dataclass_fields__"):
        return frozenset(sampler.__dataclass_fields__)
    parameters = list(inspect.signature(sampler).parameters.values())
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return frozenset(parameter.name for parameter in parameters[3:])


def _names_of_estimator(estimator: Any) -> frozenset[str]:
    return frozenset(estimator.get_params(deep=True))


def _states(of_estimator: frozenset[str]) -> list[str]:
    """Return the parameters that seed an estimator and those inside it; always in the same order."""
    return sorted(name for name in of_estimator if name == "random_state" or name.endswith("__random_state"))


def _target(
    key: str, of_sampler: frozenset[str] | None, of_estimator: frozenset[str]
) -> tuple[str | None, str | None]:
    """Return what a name of the grid is called by the sampler and by the estimator; None where it is not theirs."""
    if key in of_estimator:
        return key if of_sampler is not None and key in of_sampler else None, key
    plain = key.removeprefix("sampler__")
    if of_sampler is None or plain in of_sampler:
        return plain, None
    plain = key.removeprefix("estimator__")
    return None, plain if plain in of_estimator else None


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
