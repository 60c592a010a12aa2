"""The formula interface of regression: declared columns, nothing of the design taken from the data."""

from dpstats.regression.formula.model import Formula, parse
from dpstats.regression.formula.source import FormulaRows

__all__ = ["Formula", "FormulaRows", "parse"]
