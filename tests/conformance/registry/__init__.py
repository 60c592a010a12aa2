"""Everything in dpstats that releases private data, with what attacks it.

One entry per release (and per materially different configuration of it). An entry says how to
compute its exact statistic, how to draw from the core that the release itself uses, which
neighbouring datasets to try, and which broken versions an audit must catch. test_conformance.py
walks this list, and so does `make audit`, with more trials. One file for each file of releases.
"""

from __future__ import annotations

from registry import (
    adaptive_mean,
    additive,
    clipped_mean,
    complete_cases,
    covariance,
    discovery,
    filtering,
    group_quantiles,
    groups,
    histogram,
    hotelling,
    hypotheses,
    identity,
    levels,
    log_linear,
    observed,
    private_size,
    quantiles,
    randomized_response,
    rank_correlation,
    ranks,
    regression,
    regression_simple,
    scores,
    selection,
    shrunk_correlations,
    sparse_mean,
    sparse_vector,
    sql,
    sql_size,
    statistic,
    survival,
    tables,
    variance,
    whitened_mean,
    workload,
)
from registry.entry import Entry, PlantedBug, Understated

ENTRIES: tuple[Entry, ...] = (
    *additive.entries(),
    *randomized_response.entries(),
    *histogram.entries(),
    *selection.entries(),
    *sparse_vector.entries(),
    *clipped_mean.entries(),
    *identity.entries(),
    *filtering.entries(),
    *adaptive_mean.entries(),
    *sparse_mean.entries(),
    *variance.entries(),
    *covariance.entries(),
    *hotelling.entries(),
    *whitened_mean.entries(),
    *rank_correlation.entries(),
    *shrunk_correlations.entries(),
    *observed.entries(),
    *private_size.entries(),
    *complete_cases.entries(),
    *quantiles.entries(),
    *regression.entries(),
    *log_linear.entries(),
    *regression_simple.entries(),
    *scores.entries(),
    *groups.entries(),
    *levels.entries(),
    *group_quantiles.entries(),
    *discovery.entries(),
    *tables.entries(),
    *survival.entries(),
    *ranks.entries(),
    *hypotheses.entries(),
    *workload.entries(),
    *sql.entries(),
    *sql_size.entries(),
    *statistic.entries(),
)

__all__ = ["ENTRIES", "Entry", "PlantedBug", "Understated"]
