"""Private quantiles: one or many of them, a median, a whole distribution."""

from dpstats.quantiles.quantile import PrivateQuantile

__all__ = ["PrivateQuantile"]
