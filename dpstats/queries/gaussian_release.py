"""Any linear queries from one Gaussian release, projected onto the possible answers of distributions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpstats.data.arithmetic import as_int64
from dpstats.data.tables import Rows
from dpstats.errors import refuse
from dpstats.lattice import isqrt_up
from dpstats.privacy.plan import ReleasePlan
from dpstats.queries.counted import counts_of
from dpstats.queries.domain import Counts, Domain
from dpstats.queries.entropic import Fit, fit
from dpstats.queries.linear import FRACTION_BITS, LinearQueries, Numbers
from dpstats.queries.workload import FULL_TABLE
from dpstats.release.additive import Integers

# Proof: docs/proofs/workload-answers.md. Nikolov, Talwar and Zhang (2013), The geometry of differential privacy.

ANSWERS = "answers"

_PAIRWISE = 1 << 12  # points up to which all pairs of columns are compared
_BLOCK = 1 << 22


@dataclass(frozen=True, eq=False)
class GaussianRelease:
    """The release of the answers to linear queries. It is determined by the queries.

    Attributes
    ----------
    queries : LinearQueries
    domain : Domain
    n_samples : int
    """

    queries: LinearQueries
    domain: Domain
    n_samples: int

    title = "one Gaussian release of all answers"

    @property
    def full(self) -> bool:
        """Whether the domain is small enough for distributions over it."""
        return True

    def items(self) -> Integers:
        """Return the integers of the stage."""
        if self.queries.size > FULL_TABLE:
            points = f"queries on {self.queries.size:,}"
            raise refuse("workload", got=points, allowed=f"on at most {FULL_TABLE:,} points")
        # The sensitivity of all answers jointly is the largest distance of two columns.
        moved = isqrt_up(squared_column_distance(self.queries))
        most = len(self.queries) << FRACTION_BITS
        return Integers(ANSWERS, len(self.queries), 2.0**-FRACTION_BITS, l1=most, l2=max(moved, 1))

    def integers(self, rows: Rows) -> dict[str, Counts]:
        """Return the exact answers of private rows, or of their counts, in steps."""
        answers = np.asarray(self.queries.answers(counts_of(rows, self.domain.shape).ravel()))
        if answers.dtype.kind == "i":
            return {ANSWERS: answers << FRACTION_BITS}
        # Answers are multiples of 2^-20 below 2^32, so the conversion is exact.
        return {ANSWERS: as_int64(np.ldexp(answers, FRACTION_BITS))}

    def linear(self, released: Mapping[str, Any]) -> Numbers:
        """Return the unbiased answers, as counts."""
        return np.asarray(released[ANSWERS])

    def noise_std(self, plan: ReleasePlan) -> Numbers:
        """Return the standard deviation of the noise of each unbiased answer, as counts."""
        return np.full(len(self.queries), float(np.asarray(plan.noise(ANSWERS).std)))

    def fitted(self, released: Mapping[str, Any], plan: ReleasePlan, error: str) -> Fit | None:
        """Return the distribution whose answers are closest to the release."""
        noisy, n, queries = np.asarray(released[ANSWERS]), self.n_samples, self.queries
        precision = float(np.asarray(plan.noise(ANSWERS).std)) ** -2

        def distance(p: Numbers) -> tuple[Numbers, Numbers]:
            off = n * np.asarray(queries.answers(p[0]), dtype=np.float64) - noisy
            return np.array([precision * float(off @ off) / 2]), n * precision * queries.transpose(off)[None]

        return fit(distance, queries.size, len(queries))


def squared_column_distance(queries: LinearQueries) -> int:
    """Return an upper bound on the squared distance of any two columns of the query matrix, in steps of 2^-20.

    Up to 4,096 points it compares all pairs. Above, it uses that values in [0, 1] differ by at most 1 in every query.
    """
    one, size = 1 << 2 * FRACTION_BITS, queries.size
    if size > _PAIRWISE:
        return len(queries) * one
    products, rows = np.zeros((size, size)), max(1, _BLOCK // size)
    for start in range(0, len(queries), rows):
        block = np.array([queries.query(j) for j in range(start, min(start + rows, len(queries)))])
        products += block.T @ block
    squares = np.diagonal(products)
    largest = float((squares[:, None] + squares[None, :] - 2 * products).max())
    # Sums of 0/1 values are exact. Other sums have a rounding error with one term per query.
    rounding = 0.0 if queries.is_counting else 8 * len(queries) * 2.0**-52 * float(squares.max())
    return min(math.ceil((largest + rounding) * one), len(queries) * one)
