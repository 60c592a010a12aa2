"""The sparse mean: select the few columns whose mean is not zero, and release these.

A file for the plan, for each kind of selection, for what sees data, and for the estimator.
"""

from dpstats.means.sparse.estimator import SparseMean

__all__ = ["SparseMean"]
