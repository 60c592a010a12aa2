"""Error, coverage and width of regressions over those of a fit without privacy: the cells of two studies.

A cell is a design, a size, a method and an epsilon. Its datasets depend on the design, the size and the seed only, so
that every method has the same rows, and noise on the cell and the dataset: neither depends on what else is run, in
which blocks, or on how many processes. `regression.py` and `logistic.py` say which methods there are.
"""

from __future__ import annotations

import csv
import itertools
import json
import math
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from regression_designs import Design, dimensions, family_design

from dpstats.parallel import cut, run_blocks

Numbers = NDArray[np.float64]

SIZES = (2000, 20_000, 200_000)
EPSILONS = (0.2, 1.0, 3.0)
LEAST = 0.93
NORMAL = 1.959963984540054  # the ends of a reference's intervals are this many standard errors off
_ENTRIES = 4_000_000  # of the rows that a block goes through


@dataclass(frozen=True)
class Fit:
    """Coefficients in units of the data, with the ends of 95% intervals where a method has any.

    ``identified`` says which coefficients the output itself does not call noise.
    """

    coef: Numbers
    ends: tuple[Numbers, Numbers] | None = None
    intercept_ends: tuple[float, float] | None = None
    identified: NDArray[np.bool_] | None = None


# A method fits one dataset at several epsilons, each with a seed for its noise. None stands for a fit that failed.
Method = Callable[[Design, Numbers, Numbers, Sequence[float], Sequence[int]], list[Fit | None]]
FAILURES = (ValueError, ArithmeticError, np.linalg.LinAlgError)


class Family(NamedTuple):
    """What the study of linear and the study of logistic regression do not share.

    Attributes
    ----------
    name : "linear" or "logistic"
    reference : str
        The fit without privacy that all errors and widths are over.
    fit : callable
        ``fit(X, y)`` returns its parameters, intercept first, and their covariance.
    methods : mapping of str to Method
        Ours first.
    libraries : callable
        ``libraries(family, design, n, seed, start, size, epsilons, names, python)`` returns fits of datasets.
    outside : sequence of str
        Names of libraries.
    """

    name: str
    reference: str
    fit: Callable[[Numbers, Numbers], tuple[Numbers, Numbers]]
    methods: dict[str, Method]
    outside: tuple[str, ...]


class Key(NamedTuple):
    """Which cell; the reference has an infinite epsilon."""

    design: str
    d: int
    n: int
    method: str
    epsilon: float


@dataclass(frozen=True)
class Cell:
    """One method in one cell.

    Attributes
    ----------
    error, error_se : float
        Squared errors over those of the reference on the same datasets, coefficients weighed by the reference's
        variances and averaged, and the Monte Carlo standard error of that.
    coverage, coverage_se : float
        Of 95% intervals, over all coefficients; not numbers where a method has none.
    worst : float
        Coverage of the coefficient that is covered least.
    intercept : float
        Coverage of the intercept.
    width : float
        Median of an interval's width over that of the reference's interval, over coefficients and datasets.
    identified, known : float
        Share of coefficients that the output does not call noise, and coverage of these.
    failed : float
        Share of datasets without a fit; they cover nothing and have no error.
    seconds : float
        Mean time of a fit, on one core that others may have shared.
    datasets : int
    date : str
    """

    error: float
    error_se: float
    coverage: float
    coverage_se: float
    worst: float
    intercept: float
    width: float
    identified: float
    known: float
    failed: float
    seconds: float
    datasets: int
    date: str

    @property
    def noise_only(self) -> bool:
        """Whether the output calls most of the coefficients noise."""
        return self.identified < 0.5

    @property
    def verdict(self) -> str:
        """In a word: whether intervals cover, and what the output says if they do not."""
        if math.isnan(self.coverage):
            return "no intervals"
        if self.coverage >= LEAST:
            return "covers"
        if self.noise_only:
            return "noise only"
        return "unclear" if self.coverage + 2 * self.coverage_se >= LEAST else "BELOW"


@dataclass
class Run:
    """What is kept of one fit: errors and widths in the reference's standard errors."""

    error: Numbers  # (d,), in units
    reference_error: Numbers  # (d,)
    reference_variance: Numbers  # (d,)
    covered: Numbers  # (d,) of 0 and 1; not numbers where there are no intervals
    width: Numbers  # (d,), over the reference's
    intercept: float
    identified: NDArray[np.bool_]
    failed: bool
    seconds: float

    @classmethod
    def of(cls, design: Design, fit: Fit | None, reference: Fit, seconds: float) -> Run:
        """Compare a fit with the truth and with the reference."""
        missing = np.full(design.d, np.nan)
        low, high = reference.ends or (missing, missing)
        variance = ((high - low) / (2 * NORMAL)) ** 2
        plain = reference.coef - design.coef
        if fit is None or not np.isfinite(fit.coef).all():
            gone = np.zeros(design.d, dtype=bool)
            return cls(missing, plain, variance, gone.astype(float), missing, 0.0, gone, True, seconds)
        covered, width, intercept = missing, missing, math.nan
        if fit.ends is not None:
            covered = ((fit.ends[0] <= design.coef) & (design.coef <= fit.ends[1])).astype(float)
            width = (fit.ends[1] - fit.ends[0]) / (high - low)
        if fit.intercept_ends is not None:
            intercept = float(fit.intercept_ends[0] <= design.intercept <= fit.intercept_ends[1])
        identified = np.ones(design.d, dtype=bool) if fit.identified is None else fit.identified
        error = fit.coef - design.coef
        return cls(error, plain, variance, covered, width, intercept, identified, False, seconds)


def cell_of(runs: Sequence[Run]) -> Cell:
    """Return what the runs of one cell come to."""

    def kept(name: str) -> Any:
        return np.array([getattr(run, name) for run in runs])

    covered, width, identified, failed = (kept(name) for name in ("covered", "width", "identified", "failed"))
    without = bool(np.isnan(covered).all(axis=1)[~failed].any()) or bool(failed.all())
    error, error_se = _ratio(
        kept("error")[~failed], kept("reference_error")[~failed], kept("reference_variance")[~failed]
    )
    each = covered.mean(axis=1)
    count = len(runs)
    # A cell in which nothing was missed still has an error: that of one miss.
    spread = max(float(each.std(ddof=1)), 1 / math.sqrt(covered.size)) if count > 1 else 1.0
    known = covered[identified]
    return Cell(
        error,
        error_se,
        math.nan if without else float(each.mean()),
        math.nan if without else spread / math.sqrt(count),
        math.nan if without else float(covered.mean(axis=0).min()),
        float(kept("intercept")[~failed].mean()) if not failed.all() else math.nan,
        math.nan if np.isnan(width).all() else float(np.nanmedian(width)),
        float(identified.mean()),
        float(known.mean()) if known.size and not without else math.nan,
        float(failed.mean()),
        float(kept("seconds").mean()),
        count,
        time.strftime("%Y-%m-%d"),
    )


def _ratio(error: Numbers, plain: Numbers, variance: Numbers) -> tuple[float, float]:
    """Return the ratio of mean squared errors, in the reference's variances, and its standard error.

    The same datasets: the error of a ratio of means is that of the paired difference. Datasets for which the
    reference has no fit count for nobody.
    """
    there = np.isfinite(plain).all(axis=1) & np.isfinite(variance).all(axis=1)
    if there.sum() < 2:
        return math.nan, math.nan
    weights = 1 / variance[there].mean(axis=0)
    ours, theirs = ((part[there] ** 2 * weights).mean(axis=1) for part in (error, plain))
    ratio = ours.mean() / theirs.mean()
    return float(ratio), float(np.std(ours - ratio * theirs, ddof=1) / theirs.mean() / math.sqrt(ours.size))


# One block of datasets.


class Task(NamedTuple):
    """Datasets of one design and size, and what is fitted to them: methods of ours, or libraries."""

    family: Family
    design: str
    d: int
    n: int
    methods: tuple[str, ...]
    epsilons: tuple[float, ...]
    seed: int
    start: int
    size: int
    python: Path | None  # of the libraries' environment


def noise_seed(task: Task, method: str, epsilon: float, place: int) -> int:
    """Return the seed of the noise of one fit."""
    names = [zlib.crc32(word.encode()) for word in (task.design, method)]
    entropy = [task.seed, *names, task.d, task.n, round(1000 * epsilon), place]
    return int(np.random.SeedSequence(entropy).generate_state(1)[0])


def block(task: Task, rng: np.random.Generator) -> dict[Key, list[Run]]:
    """Return the runs of a block; every fit has a seed of its own, so that ``rng`` is not needed."""
    design = family_design(task.family.name, task.design, task.d)
    theirs = None if task.python is None else of_libraries(task, design)
    found: dict[Key, list[Run]] = {}

    def add(method: str, epsilon: float, run: Run) -> None:
        found.setdefault(Key(task.design, task.d, task.n, method, epsilon), []).append(run)

    for place in range(task.start, task.start + task.size):
        X, y = design.dataset(task.n, task.seed, place)
        start = time.perf_counter()
        reference = reference_fit(task.family, X, y)
        add(task.family.reference, math.inf, Run.of(design, reference, reference, time.perf_counter() - start))
        if theirs is not None:
            total, fits = theirs[place - task.start]
            if not math.isclose(total, X.sum() + y.sum(), rel_tol=1e-6, abs_tol=1e-3):
                raise RuntimeError(f"the other environment drew other rows of {task.design}")
            for (method, epsilon), (fit, seconds) in fits.items():
                add(method, epsilon, Run.of(design, fit, reference, seconds))
            continue
        for method in task.methods:
            seeds = [noise_seed(task, method, epsilon, place) for epsilon in task.epsilons]
            start = time.perf_counter()
            fits = task.family.methods[method](design, X, y, task.epsilons, seeds)
            seconds = (time.perf_counter() - start) / len(task.epsilons)
            for epsilon, fit in zip(task.epsilons, fits, strict=True):
                add(method, epsilon, Run.of(design, fit, reference, seconds))
    return found


def reference_fit(family: Family, X: Numbers, y: Numbers) -> Fit:
    """Return the fit without privacy, with its 95% intervals."""
    theta, cov = family.fit(X, y)
    half = NORMAL * np.sqrt(np.diagonal(cov))
    low, high = theta - half, theta + half
    return Fit(theta[1:], (low[1:], high[1:]), (float(low[0]), float(high[0])))


def of_libraries(task: Task, design: Design) -> list[tuple[float, dict[Any, tuple[Fit | None, float]]]]:
    """Return for each dataset a sum of its numbers, and the fits of libraries by name and epsilon."""
    from environment import run_in_peers

    script = Path(__file__).resolve().parents[1] / "peers" / "regression_libraries.py"
    asked = [task.family.name, task.design, task.d, task.n, task.seed, task.start, task.size]
    answers = run_in_peers(script, json.dumps([*asked, list(task.epsilons), list(task.methods)]), python=task.python)
    parsed = []
    for answer in answers:
        fits = {
            (method, epsilon): (_parsed(one), one["seconds"])
            for method, each in answer["fits"].items()
            for epsilon, one in zip(task.epsilons, each, strict=True)
        }
        parsed.append((answer["sum"], fits))
    return parsed


def _parsed(one: dict[str, Any]) -> Fit | None:
    if "coef" not in one:
        return None
    ends = (np.array(one["low"]), np.array(one["high"])) if "low" in one else None
    return Fit(np.array(one["coef"]), ends)


# The study.

OUTSIDE = 20  # datasets of libraries
SLOW = {"BinAgg": 1_000_000}  # entries of X beyond which a library is not run: a fit takes from half a minute


def replications_of(n: int, d: int, replications: int) -> int:
    """Return fewer datasets where one takes seconds; their coefficients count too."""
    fewer = (4 if n > 20_000 else 1) * (2 if d > 20 else 1)
    return max(2, replications // fewer)


def study(
    family: Family,
    designs: Sequence[str],
    *,
    sizes: Sequence[tuple[int, int]] | None = None,
    methods: Sequence[str] | None = None,
    epsilons: Sequence[float] = EPSILONS,
    replications: int = 200,
    seed: int = 2026,
    jobs: int = 1,
    known: Iterable[Key] = (),
    python: Path | None = None,
) -> Iterable[dict[Key, Cell]]:
    """Yield the cells of every design and size that are not known; sizes are pairs (n, d), None for all."""
    known = set(known)
    asked = [*family.methods, *family.outside] if methods is None else methods
    for name in designs:
        for d, n in itertools.product(dimensions(name), SIZES):
            if sizes is not None and (n, d) not in sizes:
                continue

            def wanted(method: str, name: str = name, d: int = d, n: int = n) -> bool:
                return any(Key(name, d, n, method, epsilon) not in known for epsilon in epsilons)

            count = replications_of(n, d, replications)
            common = (tuple(epsilons), seed)
            tasks = []
            for library in filter(wanted, family.outside if python is not None else ()):
                if library in asked and n * d <= SLOW.get(library, n * d):
                    tasks.append(Task(family, name, d, n, (library,), *common, 0, min(count, OUTSIDE), python))
            ours = tuple(method for method in family.methods if method in asked and wanted(method))
            start = 0
            for size in cut(count, max(1, min(25, _ENTRIES // (n * d)))) if ours else []:
                tasks.append(Task(family, name, d, n, ours, *common, start, size, None))
                start += size
            if tasks:
                yield cells_of(run_blocks(block, [(task,) for task in tasks], random_state=seed, n_jobs=jobs))


def cells_of(blocks: Sequence[dict[Key, list[Run]]]) -> dict[Key, Cell]:
    """Return the cells of one design and size; of the reference the longest list of datasets counts."""
    lists: dict[Key, list[list[Run]]] = {}
    for key, runs in itertools.chain.from_iterable(part.items() for part in blocks):
        lists.setdefault(key, []).append(runs)
    cells = {}
    for key, parts in lists.items():
        runs = [run for part in parts for run in part]
        if math.isinf(key.epsilon):
            runs = list({run.reference_error.tobytes(): run for run in runs}.values())
        cells[key] = cell_of(runs)
    return cells


# The store: a line per cell.


def read_cells(path: Path) -> dict[Key, Cell]:
    """Return the cells of earlier runs."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(line for line in file if not line.startswith("#")))
    kinds = {"int": int, "float": float, "str": str}
    return {
        Key(**{name: kinds[_name(kind)](line[name]) for name, kind in Key.__annotations__.items()}): Cell(
            **{part.name: kinds[_name(part.type)](line[part.name]) for part in fields(Cell)}
        )
        for line in lines
    }


def _name(kind: Any) -> str:
    return getattr(kind, "__forward_arg__", kind)


def write_cells(cells: dict[Key, Cell], path: Path, script: str) -> None:
    """Write all cells, in order."""
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(f"# python validation/studies/{script}.py\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*Key._fields, *(part.name for part in fields(Cell))])
        for key, cell in cells.items():
            values = [f"{value:.5g}" if isinstance(value, float) else value for value in asdict(cell).values()]
            writer.writerow([*key, *values])


def in_order(cells: dict[Key, Cell], designs: Sequence[str], methods: Sequence[str]) -> dict[Key, Cell]:
    """Return cells in the order of the study, of designs and methods that there still are."""
    kept = {key: cell for key, cell in cells.items() if key.design in designs and key.method in methods}
    places = {name: place for place, name in enumerate(designs)}
    order = {name: place for place, name in enumerate(methods)}
    return {
        key: kept[key] for key in sorted(kept, key=lambda k: (places[k.design], k.d, k.n, order[k.method], k.epsilon))
    }
