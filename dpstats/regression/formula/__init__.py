"""The formula interface of regression: declared columns, nothing of the design taken from the data."""

from dpstats.regression.formula.model import Formula, parse

__all__ = ["Formula", "parse"]
