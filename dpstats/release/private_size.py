"""How many rows count: samples of complete rows where their number is public, and private numbers of rows.

Proofs: docs/proofs/complete-cases.md, docs/proofs/private-size.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dpstats.data.parameters import check_integer
from dpstats.data.rows import Rows, Table
from dpstats.data.schema import Schema
from dpstats.errors import InvalidParameter, refuse_data
from dpstats.inference.error_distributions import usual_level
from dpstats.inference.results import ConfidenceInterval, observed_rows
from dpstats.lattice.rounding import finite_rows
from dpstats.privacy.guarantee import Neighbors, PrivacyGuarantee, parse_neighbors
from dpstats.privacy.plan import ReleasePlan
from dpstats.release.additive import Integers, additive_stages
from dpstats.release.session import Session

# Samples of complete rows

# The number of complete rows is released first. A random sample of them follows, of a public size, in random order.

ROWS = "number of complete rows"
TOO_MANY = 0.005
"""Probability that more rows are used than are complete, and the others are filled."""
_LEAST, _MOST = 0.01, 0.25  # part of epsilon that counts the complete rows


def plan_count(n: int, d: int, epsilon: float) -> ReleasePlan:
    """Return the plan of the count that precedes a release of ``epsilon`` in all.

    The part s of epsilon is public. It minimizes s + log(100)/(s n epsilon): the noise that the release
    gains, and the proportion of rows that the sample loses.

    Examples
    --------
    >>> from dpstats.release.private_size import plan_count
    >>> print(plan_count(10_000, 2, 1.0))
    Release plan for n = 10000, d = 2: (epsilon = 0.0214597, delta = 0), one row replaced
      number of complete rows: 1 number, Laplace noise of scale 46.5991
    """
    part = min(max(math.sqrt(-math.log(2 * TOO_MANY) / (n * epsilon)), _LEAST), _MOST)
    # The difference is exact, so that both parts add up to epsilon.
    count = epsilon - epsilon * (1 - part)
    stages = additive_stages([Integers(ROWS, 1, 1.0, 1, 1)], count, 0.0)
    return ReleasePlan(stages, PrivacyGuarantee(count), n, d)


def usable_rows(plan: ReleasePlan, rows: float) -> int:
    """Return the public size of the sample after a noisy count of ``rows`` complete rows."""
    noise = plan.noise(ROWS)
    scale = float(np.max(noise.scale))
    margin = scale * (-math.log(2 * TOO_MANY) if noise.law == "laplace" else -ndtri(TOO_MANY))
    return int(np.clip(math.floor(rows - margin), 0, plan.n_samples))


def count_complete(rows: Rows) -> NDArray[np.int64]:
    """Return the exact number of complete rows: private."""

    def count(table: Table) -> dict[str, NDArray[np.int64]]:
        return {ROWS: np.array([np.count_nonzero(complete_rows(table))], dtype=np.int64)}

    return rows.total(count)[ROWS]


def complete_rows(table: Table) -> NDArray[np.bool_]:
    """Return whether each row has finite numbers, and a declared label if there are labels."""
    finite = finite_rows(table.X)
    return finite if table.groups is None else finite & (table.groups >= 0)


def release_count(rows: Rows, session: Session) -> float:
    """Release the number of complete rows."""
    exact = count_complete(rows)
    with session:
        return float(session.add(ROWS, exact)[0])


def sample_complete(table: Table, orders: Sequence[NDArray[np.intp]], fill: Any) -> Table:
    """Return complete rows, chosen at random, in random order: private.

    ``orders`` has a random order of the rows of the table, and one of the rows to return. If there are fewer
    complete rows, copies of the public row ``fill`` are added, with the first label.
    """
    first, second = orders
    chosen = first[complete_rows(table)[first]][: len(second)]
    groups = None
    if table.groups is not None:
        groups = np.zeros(len(second), dtype=np.int64)
        groups[: len(chosen)] = table.groups[chosen]
        groups = groups[second]
    return Table(_sample(table.X, chosen, second, fill), groups=groups, names=table.names)


def _sample(X: Any, chosen: NDArray[np.intp], second: NDArray[np.intp], fill: Any) -> Any:
    """Return the chosen rows of a dense or sparse table, filled up, in another order."""
    from scipy.sparse import csr_array, issparse, vstack

    if issparse(X):  # filled with zeros
        places = np.full(len(second), X.shape[0])
        places[: len(chosen)] = chosen
        return csr_array(vstack([X, csr_array((1, X.shape[1]))]).tocsr()[places[second]])
    filled = np.empty((len(second), X.shape[1]))
    filled[:] = fill
    filled[: len(chosen)] = X[chosen]
    return filled[second]


# Private numbers of rows

# The number of rows is private if neighboring datasets differ by one row added or removed. The plan, charge and errors
# then do not depend on it, and no number of rows is too small.


class SizeNoise(Protocol):
    """Noise of a released number of rows."""

    @property
    def std(self) -> float:
        """Standard deviation."""

    def quantile(self, tail: float) -> float:
        """Return the smallest distance that the noise exceeds with at most this probability, on one side."""


@dataclass(frozen=True)
class ReleasedSize:
    """A released number of rows and its noise."""

    rows: float
    noise: SizeNoise

    @property
    def words(self) -> str:
        """The number of rows as a summary states it."""
        return f"{observed_rows(self.rows, self.noise.std)}, private"

    def interval(self, confidence_level: float | None = None) -> ConfidenceInterval:
        """Return an interval for the number of rows that count in these data."""
        level = usual_level(confidence_level)
        half = self.noise.quantile((1 - level) / 2)
        low, high = (max(self.rows + side * half, 0.0) for side in (-1, 1))
        return ConfidenceInterval(low, high, level, "the number of rows that count in these data")


@dataclass(frozen=True)
class HiddenSize:
    """A private number of rows that no release contains."""

    advice: str
    words: str = "private, not released"

    def interval(self, confidence_level: float | None = None) -> ConfidenceInterval:
        """Raise an error."""
        raise InvalidParameter(f"n_interval needs a number of rows that was released. {self.advice}")


def has_private_size(estimator: Any) -> bool:
    """Return whether an estimator, or a mechanism, treats the number of rows as private."""
    neighbors = getattr(estimator, "neighbors", Neighbors.REPLACE_ONE)
    return parse_neighbors(neighbors) is Neighbors.ADD_OR_REMOVE_ONE


def check_container(X: Any, schema: Schema) -> Schema:
    """Return the schema of a private number of rows, or refuse a container that has no columns without rows."""
    if schema.levels is None and isinstance(X, list | tuple):
        raise refuse_data(
            "X",
            got=f"a {type(X).__name__}",
            allowed="an array, a data frame, a file or a relation with neighbors='add_or_remove'",
            remedy="Convert it with numpy.array, because a list without rows has no columns.",
        )
    return replace(schema, private_size=True)


def check_size(estimator: Any, n_samples: Any, *, at_least: int = 2, at_most: int | None = None) -> int | None:
    """Return the number of rows of a plan, which may be None if it is private."""
    private = has_private_size(estimator)
    if private and n_samples is None:
        return None
    return check_integer("n_samples", n_samples, at_least=1 if private else at_least, at_most=at_most)


def record_size(estimator: Any, rows: float, noise: SizeNoise) -> None:
    """Set the released number of rows of a fit."""
    estimator._released_size = ReleasedSize(rows, noise)
    estimator.n_, estimator.n_noise_std_ = rows, noise.std
