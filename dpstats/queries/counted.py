"""Private counts of the cells of a domain, from the codes of rows or from given counts."""

from __future__ import annotations

from dpstats.data.counts import Tally
from dpstats.data.schema import Schema
from dpstats.data.tables import Counts as Histogram
from dpstats.data.tables import Rows
from dpstats.errors import InvalidData
from dpstats.queries.domain import Counts, Domain


def domain_schema(domain: Domain, declared: bool = True, n_features: int | None = None) -> Schema:
    """Return the schema of rows of a domain or counts of its cells. Without a declared domain, counts only."""
    names = domain.names if domain.named else None
    levels = domain.kinds if declared else None
    return Schema(names, levels=levels, cells=domain.shape, counted=not declared, n_features=n_features)


def counts_of(rows: Rows, shape: tuple[int, ...]) -> Counts:
    """Return the number of rows in each cell, from the codes of rows or from given counts."""
    if isinstance(rows, Histogram):
        counted: Counts = rows.X.reshape(shape)
        return counted
    counts = Tally(shape).of(rows)
    if counts[-1]:
        raise outside_levels()
    return counts[:-1].reshape(shape)


def codes_of(rows: Rows) -> Counts:
    """Return the codes of rows, or raise an error if an entry has an undeclared level."""
    codes: Counts = rows.whole().X
    if (codes < 0).any():
        raise outside_levels()
    return codes


def outside_levels() -> InvalidData:
    """Return the error for entries with an undeclared level."""
    return InvalidData(
        "X must hold declared levels only, got at least one entry outside those of the domain, or missing. Declare it, "
        "or give the domain other=[the attributes that may have such entries]."
    )
