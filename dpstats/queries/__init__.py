"""Query release: many linear queries on a finite universe, answered from one budget."""

from dpstats.queries.linear import LinearQueries

__all__ = ["LinearQueries"]
