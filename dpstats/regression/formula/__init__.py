"""The formula interface of regression. The design depends on declared columns only, never on the data."""

from dpstats.regression.formula.model import Formula, FormulaRows, parse

__all__ = ["Formula", "FormulaRows", "parse"]
