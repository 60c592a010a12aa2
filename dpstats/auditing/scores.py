"""Outputs as numbers, and scores that order them from more probable on the neighbor to less."""

from __future__ import annotations

import dataclasses
import reprlib
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import cache
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpstats.data.values import as_int64
from dpstats.errors import refuse

Floats: TypeAlias = NDArray[np.float64]
Component: TypeAlias = Floats | list[Any]
"""The outputs of one release, one per run: shape (n,), shape (n, d), or a list of objects."""
Sample: TypeAlias = tuple[Component, ...]
"""The outputs of all releases that were run together, run by run."""

_MISSING = {"NAType", "NaTType"}
"""Types of the missing values of pandas, which are not equal to themselves."""
_SINGLE = {str, bytes, bool, int, float, type(None)}
_WHOLE = 2.0**53
"""Floats have the exact values of whole numbers up to this one."""
_POSITIONS = 64
_CATEGORIES = 200  # the classifier bins features into 255


# Numbers and vectors of fixed length become float arrays, if floats have their exact values. Anything else stays a
# list of objects and has two views: an outcome (`outcome_keys`) that is equal to another or not, and a row of
# features (`Encoder`) for a classifier.
def as_component(outputs: Any, size: int, name: str = "release") -> Component:
    """Return the outputs of ``size`` runs as an array of floats, or as a list of objects."""
    if isinstance(outputs, np.ma.MaskedArray):
        outputs = outputs.tolist()  # a masked entry is None
    elif hasattr(outputs, "to_numpy"):  # a table, with one run in each row
        outputs = outputs.to_numpy()
    array = outputs if isinstance(outputs, np.ndarray) else None
    if array is None:
        try:
            outputs = list(outputs)
        except TypeError:
            raise refuse(name, given=outputs, allowed=f"return {size} outputs along the first axis") from None
        try:
            array = np.asarray(outputs)
        except (ValueError, OverflowError):  # lengths differ: not a table of numbers
            array = None
    if len(outputs) != size:
        shape = array.shape if array is not None else (len(outputs),)
        raise refuse(name, got=f"shape {shape}", allowed=f"return {size} outputs along the first axis")
    if array is not None and array.size and (table := _as_floats(array)) is not None:
        table = table.reshape(size, -1)
        return table[:, 0] if table.shape[1] == 1 else table
    if not isinstance(outputs, np.ndarray):
        return list(outputs)
    # A list of Python's numbers would lose digits of extended floats.
    found: Component = list(outputs) if outputs.dtype.kind in "fcmM" else outputs.tolist()
    return found


def _as_floats(array: NDArray[Any]) -> Floats | None:
    """Return numbers or dates as floats, or None where floats do not have their exact values."""
    if array.dtype.kind == "c":
        array = np.stack([array.real, array.imag], axis=-1)
    elif array.dtype.kind in "mM":
        array = array.view(np.int64)
    if array.dtype.kind not in "biuf":
        return None
    found = array.astype(np.float64, copy=False)
    if array.dtype.kind in "iu":
        exact = bool((np.abs(found) <= _WHOLE).all())
    else:
        exact = array.dtype.itemsize <= 8 or bool(((found == array) | np.isnan(found)).all())
    return found if exact else None


def join(blocks: Sequence[Sequence[Component]]) -> list[Component]:
    """Join the blocks of every dataset: all of them to arrays of the same width, or all to lists."""
    arrays = [[block for block in group if isinstance(block, np.ndarray)] for group in blocks]
    complete = sum(map(len, arrays)) == sum(map(len, blocks))
    if complete and len({array.shape[1:] for group in arrays for array in group}) == 1:
        return [group[0] if len(group) == 1 else np.concatenate(group) for group in arrays]
    return [
        [output for block in group for output in (block.tolist() if isinstance(block, np.ndarray) else block)]
        for group in blocks
    ]


def part(sample: Sample, rows: slice) -> Sample:
    """Return some of the runs."""
    return tuple(component[rows] for component in sample)


def outcome_keys(component: Component) -> list[Hashable]:
    """Return a key for each output; equal outputs have equal keys."""
    if isinstance(component, list):
        return [_canonical(output) for output in component]
    if component.ndim == 1:
        return list((component + 0.0).tolist())  # not -0.0
    # A number for each row that depends on all of its bits. Two rows that share one by chance count
    # as one outcome, which only reduces the power.
    words = np.ascontiguousarray(component + 0.0).view(np.uint64)
    odd = np.random.default_rng(0).integers(2**63, size=words.shape[1], dtype=np.uint64) * 2 + 1
    mixed = words ^ (words >> np.uint64(31))
    return list((mixed * odd).sum(axis=1).tolist())


def _canonical(output: Any) -> Hashable:
    if isinstance(output, str | bytes | bool | int) or output is None:
        return output
    if isinstance(output, float | np.floating):
        return "nan" if output != output else float(output) if float(output) == output else str(output)
    fields = _fields(output)
    if fields is not None:
        return (type(output).__name__, *map(_canonical, fields))
    kind: type = type(output)
    if kind.__name__ in _MISSING:
        return kind.__name__
    if isinstance(output, np.datetime64 | np.timedelta64):
        return str(output.dtype), int(output.view(np.int64))
    # A type without an own equality has values that are equal to themselves only.
    compared = any("__eq__" in vars(base) for base in kind.__mro__[:-1]) or issubclass(kind, Enum | type)
    if isinstance(output, Hashable) and compared:
        return output
    raise refuse(
        "release",
        got=f"{kind.__name__}",
        allowed="return numbers, text, dates, None, or tuples, lists, dicts and dataclasses of these",
    )


def _fields(output: Any) -> Sequence[Any] | None:
    """Return the parts of an output in a fixed order, or None for a single value."""
    if type(output) in _SINGLE:  # most leaves: the checks below are slow
        return None
    if isinstance(output, np.ndarray):
        return output.tolist() if output.ndim else [output.item()]
    if isinstance(output, Mapping):
        return [field for key in sorted(output, key=repr) for field in (key, output[key])]
    if isinstance(output, set | frozenset):
        return sorted(output, key=repr)
    if isinstance(output, complex | np.complexfloating):
        return [output.real, output.imag]
    if dataclasses.is_dataclass(output) and not isinstance(output, type):
        return [getattr(output, field.name) for field in dataclasses.fields(output)]
    return output if isinstance(output, list | tuple) else None


def _leaves(output: Any) -> list[Any]:
    # Every sequence is preceded by its length, so that lengths are features too.
    fields = _fields(output)
    if fields is None:
        return [output]
    return [len(fields), *(leaf for field in fields for leaf in _leaves(field))]


class Encoder:
    """Objects as rows of numbers; everything about it is fixed by the outputs that it is made from.

    An output is flattened into its leaves, each sequence preceded by its length. Each position has a column
    for its number and a column for its category. The category is a code of the word at that position, of "a
    number", of "nothing", or of "unseen" for a value that the encoder has not met. Two more columns hold the
    number of leaves and the sum of the numbers.

    Parameters
    ----------
    outputs : list of object
        Outputs on both datasets.
    """

    def __init__(self, outputs: list[Any]) -> None:
        rows = [_leaves(output) for output in outputs]
        self.positions = min(max(map(len, rows), default=0), _POSITIONS)
        self.codes = []
        for position in range(self.positions):
            present = [row[position] for row in rows if position < len(row)]
            words = Counter(_word(leaf, _number(leaf)) for leaf in present)
            common = sorted(words, key=lambda word: (-words[word], repr(word)))[:_CATEGORIES]
            self.codes.append({word: code for code, word in enumerate(common, 2)})

    @property
    def categorical(self) -> list[int]:
        """The columns that hold codes."""
        return list(range(2 + self.positions, 2 + 2 * self.positions))

    def __call__(self, outputs: list[Any]) -> Floats:
        """Return an array of shape (n, columns); NaN where there is no number."""
        table = np.full((len(outputs), 2 + 2 * self.positions), np.nan)
        table[:, self.categorical] = 0  # nothing
        for row, output in zip(table, outputs, strict=True):
            leaves = _leaves(output)
            numbers = [_number(leaf) for leaf in leaves]
            row[0] = len(leaves)
            row[1] = sum(number for number in numbers if number is not None)
            for position, codes in enumerate(self.codes[: len(leaves)]):
                number = numbers[position]
                if number is not None:
                    row[2 + position] = number
                row[2 + self.positions + position] = codes.get(_word(leaves[position], number), 1)  # 1: unseen
        return table


def _number(leaf: Any) -> float | None:
    if leaf is None or isinstance(leaf, str | bool):  # the abstract check below is slow
        return None
    if isinstance(leaf, np.datetime64 | np.timedelta64):
        leaf = leaf.view(np.int64)
    elif isinstance(leaf, datetime):
        leaf = (leaf - datetime(1970, 1, 1, tzinfo=leaf.tzinfo)).total_seconds()
    elif isinstance(leaf, date):
        leaf = leaf.toordinal()
    elif isinstance(leaf, timedelta):
        leaf = leaf.total_seconds()
    if isinstance(leaf, Real | Decimal):
        try:
            number = float(leaf)
        except (OverflowError, ValueError):
            return None
        return number if np.isfinite(number) else None
    return None


def _word(leaf: Any, number: float | None) -> Hashable:
    """Return the category of a leaf. Numbers have one, unless a float does not have their exact value."""
    return ("a number",) if number is not None and number == leaf else (type(leaf).__name__, _canonical(leaf))


Pair: TypeAlias = tuple[Sample, Sample]

# Added to every count, so that an outcome seen once or twice is not ranked first by chance.
_SMOOTHING = 2.0
_OUTCOMES, _FEW_OUTCOMES = 5000, 100
_TRAINING_ROWS = 20_000
_SORTED = 100_000  # values that say where the bins are
_QUADRATIC_COLUMNS = 20
_ADDITIVE_COLUMNS = 200
_FEWEST = 100  # with fewer runs on each dataset, only a table of outcomes is learned


# By the lemma of Neyman and Pearson, the best events have a large likelihood ratio. Plain scores (the number
# itself, a projection) only need its order. Learned scores estimate the logarithm of the ratio from separate
# training runs.
@dataclass(frozen=True)
class Score:
    """A score and its name; ``words`` describes an event {sign * score >= threshold}."""

    function: Callable[[Sample], Floats]
    words: Callable[[int, float], str]

    def __call__(self, sample: Sample) -> Floats:
        """Return a number for each run."""
        return self.function(sample)


def plain_scores(pair: Pair) -> Iterator[Score]:
    """Yield the scores that need almost no learning: the number itself, or Fisher's direction."""
    if any(isinstance(component, list) for component in pair[0]):
        return
    if len(pair[0]) == 1 and pair[0][0].ndim == 1:  # type: ignore[union-attr]
        yield Score(lambda sample: _drop_nan(sample[0]), _word_comparison("output"))
        return
    # Fisher's direction for uncorrelated coordinates, which does not depend on units.
    first, second = (_stack_samples(sample) for sample in pair)
    variance = (first.var(axis=0) + second.var(axis=0)) / 2
    apart = first.mean(axis=0) - second.mean(axis=0)
    direction = np.divide(apart, variance, out=apart.copy(), where=variance > 0)
    if not np.any(direction):
        direction = np.eye(1, direction.size)[0]
    yield Score(lambda sample: _stack_samples(sample) @ direction, _word_comparison("projection"))


def learned_scores(pair: Pair) -> Iterator[Score]:
    """Yield the scores that are learned from the runs of ``pair``."""
    n = min(len(pair[0][0]), len(pair[1][0]))
    if len(pair[0]) > 1:
        if n >= _FEWEST or any(isinstance(component, list) for component in pair[0]):
            yield from (_sum(pair, bins) for bins in (8, 32, 128))
        return
    first, second = pair[0][0], pair[1][0]
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray) and first.ndim == 1:
        if n >= _FEWEST:
            yield from (_binned_score(first, second, bins) for bins in (16, 256))
        return
    table = _table(first, second)
    if table is not None:
        yield table[0]
        if n < _FEWEST or table[1] <= _FEW_OUTCOMES:
            return  # a table of all outcomes leaves nothing to a classifier
    if not isinstance(first, list) and first.shape[1] <= _ADDITIVE_COLUMNS:
        columns = tuple(_columns(sample) for sample in (first, second))
        for bins in (8, 64):
            score = _sum(columns, bins)  # type: ignore[arg-type]
            yield Score(lambda sample, score=score: score(_columns(sample[0])), score.words)  # type: ignore[misc]
    yield from _classifiers(first, second)


def _word_comparison(name: str) -> Callable[[int, float], str]:
    def words(sign: int, threshold: float) -> str:
        return f"{name} {'>=' if sign > 0 else '<='} {sign * threshold:.6g}"

    return words


def _drop_nan(component: Component) -> Floats:
    values = np.asarray(component)
    missing = np.isnan(values)
    return np.where(missing, -np.inf, values) if missing.any() else values


def _stack_samples(sample: Sample) -> Floats:
    table = np.column_stack(sample) if len(sample) > 1 else np.asarray(sample[0])
    return table if np.isfinite(table.sum()) else np.nan_to_num(table, posinf=0.0, neginf=0.0)


def _columns(component: Component) -> Sample:
    return tuple(np.asarray(component).T)


def _log_ratio(first: Any, second: Any, n_first: int, n_second: int) -> Any:
    total = np.log((n_second + _SMOOTHING) / (n_first + _SMOOTHING))
    return np.log((first + _SMOOTHING) / (second + _SMOOTHING)) + total


class _Bins:
    """Values in bins: single values, and the open intervals between them.

    The single values are quantiles, so a value with positive mass is one of them, in a separate bin.
    """

    def __init__(self, values: Floats, bins: int) -> None:
        values = np.sort(values[~np.isnan(values)][:: 1 + values.size // _SORTED])
        edges = np.unique(values)
        if edges.size > bins:
            # Even steps, and shorter and shorter ones in the tails, where rare and telling outputs are.
            tails = 0.5 ** np.arange(1, max(1, np.log2(values.size / bins / 20))) / bins
            levels = np.concatenate([tails, np.arange(1, bins) / bins, 1 - tails])
            edges = np.unique(values[as_int64(levels * (values.size - 1))])
        self.edges = edges
        self.number = 2 * edges.size + 2

    def __call__(self, values: Floats) -> NDArray[np.int64]:
        """Return 2k for a value between edges k - 1 and k, 2k + 1 for edge k, the last bin for NaN."""
        left = np.searchsorted(self.edges, values, side="left")
        missing = np.isnan(values)
        at = np.append(self.edges, np.nan)[left] == values
        places = 2 * left + at
        if missing.any():
            places[missing] = self.number - 1
        return np.asarray(places)

    def words(self, chosen: NDArray[np.bool_]) -> str:
        """Return a description of the union of the chosen bins."""
        ends = [-np.inf, *self.edges.tolist(), np.inf]
        changes = np.flatnonzero(np.diff(np.concatenate([[False], chosen[:-1], [False]])))
        pieces = []
        for start, stop in changes.reshape(-1, 2).tolist():
            last = stop - 1
            if start == last and start % 2:
                pieces.append(f"{{{ends[start // 2 + 1]:.6g}}}")
                continue
            low = f"{'[' if start % 2 else '('}{ends[start // 2 + start % 2]:.6g}"
            pieces.append(f"{low}, {ends[last // 2 + 1]:.6g}{']' if last % 2 else ')'}")
        pieces += ["{nan}"] if chosen[-1] else []
        more = f" and {len(pieces) - 4} more intervals" if len(pieces) > 4 else ""
        return f"output in {' or '.join(pieces[:4])}{more}"


def _bin_scores(first: Floats, second: Floats, bins: int) -> tuple[_Bins, Floats]:
    """Return bins and the logarithm of the likelihood ratio in each."""
    places = _Bins(np.concatenate([first, second]), bins)
    counts = [np.bincount(places(values), minlength=places.number) for values in (first, second)]
    ratios = _log_ratio(counts[0], counts[1], first.size, second.size)
    # An edge that is no more than a quantile of continuous values goes with the interval below it.
    edges = np.arange(1, places.number - 1, 2)
    rare = edges[counts[0][edges] + counts[1][edges] <= 2]
    ratios[rare] = ratios[rare - 1]
    return places, ratios


def _binned_score(first: Floats, second: Floats, bins: int) -> Score:
    places, ratios = _bin_scores(first, second, bins)

    def words(sign: int, threshold: float) -> str:
        return places.words(sign * ratios >= threshold)

    return Score(lambda sample: ratios[places(np.asarray(sample[0]))], words)


def _table(first: Component, second: Component) -> tuple[Score, int] | None:
    """Return the log-likelihood ratio of every outcome, and their number; None where they hardly repeat."""
    samples = (first, second)
    if not all(_repeats(outcome_keys(component[:2000])) for component in samples):
        return None
    counts = [Counter(outcome_keys(component)) for component in samples]
    known = counts[0].keys() | counts[1].keys()
    if len(known) > _OUTCOMES:
        return None
    sizes = len(first), len(second)
    ratios = {key: float(_log_ratio(counts[0][key], counts[1][key], *sizes)) for key in known}

    def function(sample: Sample) -> Floats:
        keys = outcome_keys(sample[0])
        return np.fromiter((ratios.get(key, 0.0) for key in keys), dtype=np.float64, count=len(keys))

    def words(sign: int, threshold: float) -> str:
        inside = {key for key in known if sign * ratios[key] >= threshold}
        # The commonest outcomes are named first; ties are ordered by repr, which does not vary between
        # processes.
        shown = sorted(inside, key=lambda key: (-counts[0][key] - counts[1][key], repr(key)))[:4]
        examples = {}
        for component in samples:
            for key, output in zip(outcome_keys(component), component, strict=True):
                if key in shown and key not in examples:
                    examples[key] = output.tolist() if isinstance(output, np.ndarray) else output
        names = ", ".join(reprlib.repr(examples[key]) for key in shown)
        return f"output in {{{names}{', ...' if len(inside) > 4 else ''}}}, {len(inside)} of {len(known)} outcomes"

    return Score(function, words), len(known)


def _repeats(keys: list[Any]) -> bool:
    return len(keys) < _FEWEST or 2 * len(set(keys)) <= len(keys)


def _sum(pair: Pair, bins: int) -> Score:
    """Return the sum of the learned log-likelihood ratios of all components, the best score if they are independent."""
    terms = [_term(first, second, bins) for first, second in zip(*pair, strict=True)]

    def function(sample: Sample) -> Floats:
        total = np.zeros(len(sample[0]))
        for term, component in zip(terms, sample, strict=True):
            total += term(component)
        return total

    return Score(function, _word_comparison(f"sum of {len(terms)} learned log-likelihood ratios"))


def _term(first: Component, second: Component, bins: int) -> Callable[[Component], Floats]:
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray) and first.ndim == 1:
        places, ratios = _bin_scores(first, second, bins)
        return lambda component: ratios[places(np.asarray(component))]
    table = _table(first, second)
    score = next(_classifiers(first, second)) if table is None else table[0]
    return lambda component: score((component,))


def _classifiers(first: Component, second: Component) -> Iterator[Score]:
    """Yield classifiers of one dataset's outputs against the other's: boosted trees, and a quadratic form."""
    # Loaded here: audits of single numbers do without scikit-learn.
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import RidgeClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler

    rows = _TRAINING_ROWS // 2
    first, second = first[:rows], second[:rows]
    categorical: list[int] | None = None
    if isinstance(first, list) or isinstance(second, list):
        encode: Any = Encoder([*first, *second])
        categorical = encode.categorical
        table = encode([*first, *second])
    else:
        encode, table = _finite_or_nan, _finite_or_nan(np.concatenate([first, second]))
    filled = np.nan_to_num(table)
    # A column with one value in training cannot separate the datasets.
    used = np.flatnonzero((filled != filled[0]).any(axis=0) | (np.isnan(table) != np.isnan(table[0])).any(axis=0))
    if used.size == 0:
        used = np.array([0])
    mask = np.isin(used, categorical or [])
    labels = np.repeat([1, 0], [len(first), len(second)])

    def score_model(model: Any, fill: bool, name: str) -> Score:
        def function(sample: Sample) -> Floats:
            features = encode(sample[0])[:, used]
            with _threads().limit(limits=1):
                return np.asarray(model.decision_function(np.nan_to_num(features) if fill else features))

        return Score(function, _word_comparison(name))

    # One thread: a training set this small gains nothing from more, and on a busy machine threads that
    # wait for each other take a hundred times as long.
    trees = HistGradientBoostingClassifier(
        max_iter=min(40, max(10, labels.size // 50)),
        learning_rate=0.15,
        max_leaf_nodes=15,
        min_samples_leaf=max(20, labels.size // 200),
        early_stopping=False,
        categorical_features=mask if mask.any() else None,
        random_state=0,
    )
    with _threads().limit(limits=1):
        trees.fit(table[:, used], labels)
    yield score_model(trees, False, "log-odds of boosted trees")
    degree = 2 if used.size <= _QUADRATIC_COLUMNS else 1
    steps = StandardScaler(), PolynomialFeatures(degree, include_bias=False), StandardScaler()
    quadratic = make_pipeline(*steps, RidgeClassifier(alpha=10.0))
    with _threads().limit(limits=1):
        quadratic.fit(filled[:, used], labels)
    yield score_model(quadratic, True, "quadratic classifier" if degree == 2 else "linear classifier")


@cache
def _threads() -> Any:
    # scikit-learn depends on threadpoolctl; to look for its libraries takes as long as a small fit.
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _finite_or_nan(component: Component) -> Floats:
    table = np.asarray(component)
    return np.where(np.isfinite(table), table, np.nan)


def split_runs(pair: Pair, at: int) -> tuple[Pair, Pair]:
    """Cut both samples at a run: those before it, those from it on."""
    head, tail = slice(None, at), slice(at, None)
    return (part(pair[0], head), part(pair[1], head)), (part(pair[0], tail), part(pair[1], tail))
