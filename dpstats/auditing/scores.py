"""Scores, which order the outputs from more probable on the neighbor to more probable on the dataset."""

from __future__ import annotations

import reprlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dpstats.auditing.outputs import Component, Encoder, Floats, Sample, outcome_keys, part
from dpstats.data.arithmetic import as_int64

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
    used = np.flatnonzero(
        (filled != filled[0]).any(axis=0) | (np.isnan(table) != np.isnan(table[0])).any(axis=0)
    )
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
