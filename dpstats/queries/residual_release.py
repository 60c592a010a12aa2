"""Marginals from one release of the residuals of their tables: integers, noise, answers and errors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpstats.data.tables import Counts as Histogram
from dpstats.data.tables import Rows
from dpstats.errors import refuse, show
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import Block
from dpstats.queries.allocation import allocate, movement
from dpstats.queries.counted import codes_of, counts_of
from dpstats.queries.domain import Counts
from dpstats.queries.entropic import Fit, fit
from dpstats.queries.linear import Numbers
from dpstats.queries.marginals import MarginalQueries, Table, margins
from dpstats.queries.measured import measured
from dpstats.queries.residuals import added_up, cell_variance, residual, whole_factor, whole_residual
from dpstats.queries.workload import FULL_TABLE
from dpstats.release.additive import JointIntegers

# Proof: docs/proofs/workload-answers.md.

RESIDUALS = "residuals of tables"

_LARGEST_MARGIN = 1 << 24
_UNIT = 2.0**20  # joint sensitivity of all residuals, in the units of the stage
_BITS = 30  # bits of the steps of a residual, if 64-bit integers allow them
_NOISE_LEAVES, _MUCH_NOISE = 0.8, 0.2

Noisy = Mapping[str, Numbers]


@dataclass(frozen=True, eq=False)
class ResidualRelease:
    """The joint release of several tables. It is determined by public sizes.

    Attributes
    ----------
    queries : MarginalQueries
        Cells of the tables.
    n_samples : int
        Public number of rows.
    weights : mapping of tables to float
        Relative precisions of the residuals: with noise variances 1/weights, the joint sensitivity is 1.
    """

    queries: MarginalQueries
    n_samples: int

    title = "tables by residuals of their parts"

    @cached_property
    def weights(self) -> dict[Table, float]:
        """Precisions of the residuals: their joint sensitivity is 1, in units of their noise."""
        for table, shape in zip(self.queries.tables, self.queries.shapes, strict=True):
            if math.prod(shape) > _LARGEST_MARGIN:
                raise refuse(
                    "workload",
                    got=f"{math.prod(shape):,} in {show(self.queries.domain.label(table))}",
                    allowed=f"have tables of at most {_LARGEST_MARGIN:,} cells",
                )
        return dict(allocate(self.queries.tables, self.shape))

    @property
    def shape(self) -> tuple[int, ...]:
        """Numbers of levels of the attributes of the domain."""
        return self.queries.domain.shape

    @property
    def full(self) -> bool:
        """Whether the domain is small enough for distributions over it."""
        return self.queries.size <= FULL_TABLE

    def items(self) -> JointIntegers:
        """Return the integers of the stage: a block for each residual."""
        blocks = []
        for table, weight in self.weights.items():
            whole = whole_factor(table, self.shape) << self._bits(table)
            size = whole_factor(table, self.shape)
            blocks.append(Block(self._name(table), size, 1 / whole, whole / (math.sqrt(weight) * _UNIT)))
        moved = _UNIT * math.sqrt(movement(self.weights, self.shape)) * (1 + 1e-12)
        return JointIntegers(RESIDUALS, tuple(blocks), l1=math.inf, l2=moved)

    def integers(self, rows: Rows) -> dict[str, dict[str, Counts]]:
        """Return the exact residuals of private rows, or of their counts, in steps."""
        exact = dict(self._margins(rows))
        return {
            RESIDUALS: {
                self._name(part): (whole_residual(exact[part]) << self._bits(part)).ravel()
                for part in self.weights
            }
        }

    def linear(self, released: Mapping[str, Any]) -> Numbers:
        """Return the unbiased answers, as counts."""
        parts = self._residuals(released)
        tables = [added_up(parts, table, self.shape, self.n_samples) for table in self.queries.tables]
        return np.concatenate([table.ravel() for table in tables])

    def noise_std(self, plan: ReleasePlan) -> Numbers:
        """Return the standard deviation of the noise of each unbiased answer, as counts."""
        variances = self._variances(plan)
        weights = {part: 1 / variance for part, variance in variances.items()}
        stds = [math.sqrt(cell_variance(weights, table, self.shape)) for table in self.queries.tables]
        return np.repeat(stds, [math.prod(shape) for shape in self.queries.shapes])

    def fitted(self, released: Mapping[str, Any], plan: ReleasePlan, error: str) -> Fit | None:
        """Return the distribution that fits the release, or None if the domain is too large."""
        if not self.full:
            return None
        weights = {part: 1 / variance for part, variance in self._variances(plan).items()}
        known = measured(self._residuals(released), weights, self.shape, self.n_samples)
        freedom = known.degrees_of_freedom
        # Chi-square is twice the misfit. It compares with the release only, never with the rows.
        enough = self.noise_leaves(plan) * freedom / 2 if error == "mean" else 0.0
        return fit(known.evaluate(), self.queries.size, freedom, enough)

    def noise_leaves(self, plan: ReleasePlan) -> float:
        """Return the target chi-square of a fit with small mean error, per degree of freedom: at most 0.8.

        It depends on the expected l1 error of a table. The constants come from two public tables (docs/queries.md).
        """
        l1 = math.sqrt(2 / math.pi) * float(self.noise_std(plan).sum()) / self.n_samples
        return _NOISE_LEAVES * min(1.0, math.sqrt(l1 / len(self.queries.tables) / _MUCH_NOISE))

    def _residuals(self, released: Mapping[str, Any]) -> dict[Table, Numbers]:
        noisy: Noisy = released[RESIDUALS]
        return {
            part: residual(noisy[self._name(part)].reshape([self.shape[j] for j in part]))
            for part in self.weights
        }

    def _variances(self, plan: ReleasePlan) -> dict[Table, float]:
        return {part: float(np.asarray(plan.noise(self._name(part)).std)) ** 2 for part in self.weights}

    def _margins(self, rows: Rows) -> list[tuple[Table, Counts]]:
        """Return the tables of all parts, from the full table if there is one, otherwise from the rows."""
        parts = tuple(self.weights)
        if self.full or isinstance(rows, Histogram):  # given counts are the full table
            return list(margins(counts_of(rows, self.shape), parts))
        domain, codes = self.queries.domain, codes_of(rows)
        found: dict[Table, Counts] = {}
        for own in self.queries.tables:
            shape = [self.shape[j] for j in own]
            counts = np.bincount(domain.cells_of(codes, own), minlength=math.prod(shape)).reshape(shape)
            inside = [part for part in parts if part not in found and set(part) <= set(own)]
            places = {tuple(own.index(j) for j in part): part for part in inside}
            found |= {places[at]: part for at, part in margins(counts, tuple(places))}
        return list(found.items())

    def _name(self, table: Table) -> str:
        return self.queries.domain.label(table)

    def _bits(self, table: Table) -> int:
        """Return the number of bits by which the steps of a residual are finer than exactness requires."""
        factor = whole_factor(table, self.shape)
        return max(0, min(_BITS - factor.bit_length(), 61 - (factor * self.n_samples).bit_length()))
