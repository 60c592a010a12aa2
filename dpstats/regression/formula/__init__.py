"""The formula interface of regression. The design depends on declared columns only, never on the data."""

from dpstats.regression.formula.model import Formula, parse
from dpstats.regression.formula.source import FormulaRows

__all__ = ["Formula", "FormulaRows", "parse"]
