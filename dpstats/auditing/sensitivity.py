"""A neighbor, replayed: what it moves before noise, against what the release declares.

The release runs on a dataset, and then on a neighbor behind a witness that has every stage release what it released
before. Nothing is estimated: a movement above what is declared, another course, or an output that does not follow
from what was released, is a fact of these two datasets.
"""

from __future__ import annotations

from typing import Any

from dpstats.auditing.apart import check_apart
from dpstats.auditing.replay import Replay, fitted, runner
from dpstats.auditing.sensitivity_check import SensitivityCheck
from dpstats.data.parameters import check_integer


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
    """Replay a release on a neighbor, and compare what moved with what is declared.

    Parameters
    ----------
    release : estimator or callable
        An estimator of this package: it is fitted to copies of itself, and its plan declares. Or a callable
        ``release(data, source)``, which gives ``source`` as ``random_state`` to what it uses of this package, or draws
        from it: ``source.laplace(value, sensitivity=...)``, ``source.gaussian(...)``, ``source.select(scores, ...)``,
        or ``source.statistic(value, sensitivity=..., norm=...)`` where the noise is elsewhere. With ``sensitivity``, a
        callable ``release(data)`` that returns the statistic.
    dataset, neighbor : object
        Two neighboring datasets, of which every run gets a copy; for an estimator with an outcome, pairs ``(X, y)``.
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
        neighbors, or their numbers of rows those of another relation than the stages are for. If the release does
        not repeat itself on the same dataset.

    Notes
    -----
    The second run is released what the first was, stage by stage. So the stages of an adaptive release are compared
    after the same releases, which is what composition is about; a run that asks for other stages, and an output that
    differs, depend on something that was not released. Statistics of this package are integers and are compared
    exactly; those of a callable may exceed the declaration by 1e-9 of it.

    The release runs on the first dataset twice: what differs then (a clock, noise drawn elsewhere) is not held against
    the neighbor, and the output is "not compared". Every run has a copy of the release, as far as it can be copied;
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
    run = runner(release, sensitivity, norm)
    rows_apart = check_integer("rows_apart", rows_apart, at_least=1)
    if run is fitted:
        tags = release.__sklearn_tags__().input_tags
        counts = bool(tags.one_d_array and tags.positive_only)  # a histogram, of which two entries differ
        check_apart(dataset, neighbor, rows_apart, counts=counts)
    return Replay(release, run, dataset, check_integer("seed", seed, at_least=0), rows_apart).on(neighbor, "")
