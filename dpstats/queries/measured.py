"""Noisy residuals of tables of a domain, and how well distributions fit them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dpstats.queries.contrasts import Contrasts, places, residual_coefficients
from dpstats.queries.entropic import Evaluate
from dpstats.queries.linear import Numbers
from dpstats.queries.marginals import Table
from dpstats.queries.residuals import whole_factor


@dataclass(frozen=True, eq=False)
class Measured:
    """Noisy contrasts of a table of n rows.

    Attributes
    ----------
    contrasts : Contrasts
        The transform.
    coefficients : array of shape (draws, *shape)
        Released coefficients, and 0 for the others.
    precisions : array of shape (draws, *shape), or (*shape,)
        Inverse variances of their noise, and 0 for coefficients that were not released.
    n_samples : int
        Public number of rows.
    """

    contrasts: Contrasts
    coefficients: Numbers
    precisions: Numbers
    n_samples: int

    @property
    def degrees_of_freedom(self) -> int:
        """Number of released coefficients."""
        return int(np.count_nonzero(self.precisions))

    def evaluate(self) -> Evaluate:
        """Return the function that maps distributions to half of their chi-square, and its gradient."""
        shape, n = self.contrasts.shape, self.n_samples

        def chi_square(p: Numbers) -> tuple[Numbers, Numbers]:
            off = n * self.contrasts.coefficients(p.reshape(-1, *shape)) - self.coefficients
            weighted = self.precisions * off
            misfit = (weighted * off).reshape(len(p), -1).sum(axis=1) / 2
            return misfit, n * self.contrasts.tables(weighted).reshape(p.shape)

        return chi_square


def measured(
    residuals: Mapping[Table, Numbers], weights: Mapping[Table, float], shape: Sequence[int], n_samples: int
) -> Measured:
    """Return residuals with noise variance 1/weight per cell, as measurements of the full table."""
    coefficients, precisions = np.zeros((1, *shape)), np.zeros(shape)
    cells = math.prod(shape)
    for table, values in residuals.items():
        others = cells // whole_factor(table, shape)
        at = places(table, shape)
        coefficients[(0, *at)] = residual_coefficients(values) / math.sqrt(others)
        precisions[at] = weights[table] * others
    return Measured(Contrasts(shape), coefficients, precisions, n_samples)
