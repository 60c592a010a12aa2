"""Check of a release by replaying a neighbor: its change before noise, and the declared sensitivity."""

from __future__ import annotations

from typing import Any

from dpstats.auditing.apart import check_neighbors
from dpstats.auditing.replay import Replay, fit_copy, runner
from dpstats.auditing.sensitivity_check import SensitivityCheck
from dpstats.data.parameters import check_integer
from dpstats.privacy.guarantee import Neighbors, parse_neighbors


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
    """Replay a release on a neighbor, and compare its changes with the declared sensitivities.

    Parameters
    ----------
    release : estimator or callable
        An estimator of this package: it is fitted to copies of itself, and its plan declares. Or a callable
        ``release(data, source)``, which gives ``source`` as ``random_state`` to what it uses of this package,
        or draws from it: ``source.laplace(value, sensitivity=...)``, ``source.gaussian(...)``,
        ``source.select(scores, ...)``, or ``source.statistic(value, sensitivity=..., norm=...)`` where the
        noise is elsewhere. With ``sensitivity``, a callable ``release(data)`` that returns the statistic.
    dataset, neighbor : object
        Two neighboring datasets. Every run gets a copy. For an estimator with an outcome, pairs ``(X, y)``.
    sensitivity : float, optional
        Declared sensitivity of a statistic that ``release(data)`` returns.
    norm : {"l1", "l2", "linf"}, default="l1"
        Norm of ``sensitivity``.
    rows_apart : int, default=1
        Largest number of rows in which the tables of an estimator may differ: more than one if a person has several.
    seed : int, default=0
        Seed of the simulated noise, which both runs share.

    Returns
    -------
    SensitivityCheck

    Raises
    ------
    InvalidParameter
        If the release does not use a stage, so that nothing would be checked. If the tables of an estimator
        are not neighbors, or their numbers of rows imply another relation than the stages have. If the
        release does not repeat itself on the same dataset.

    Notes
    -----
    The second run receives the released values of the first, stage by stage. So the stages of an adaptive
    release are compared given the same releases, as composition requires. A run that requests other stages,
    or returns another output, depends on unreleased data. Statistics of this package are integers and are
    compared exactly. Statistics of a callable may exceed the declaration by a relative 1e-9.

    The release runs on the first dataset twice. A difference between these runs (a clock, noise drawn
    elsewhere) is not due to the neighbor, and the output is "not compared". If the release can be copied,
    every run has a copy. State of a function elsewhere (in its closure, in globals or files) is not
    controlled, and may hide changes. If data on one side only are rejected (`InvalidData`, for NaN), the
    check is "refused" rather than "violated". Any other error on one side only is a violation.

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
    if run is fit_copy:
        tags = release.__sklearn_tags__().input_tags
        counts = bool(tags.one_d_array and tags.positive_only)  # a histogram: two entries differ
        relation = parse_neighbors(getattr(release, "neighbors", "replace_one"))
        added = relation is Neighbors.ADD_OR_REMOVE_ONE
        check_neighbors(dataset, neighbor, rows_apart, counts=counts, added=added)
    return Replay(
        release, run, dataset, check_integer("seed", seed, at_least=0), rows_apart
    ).compare_neighbor(neighbor, "")
