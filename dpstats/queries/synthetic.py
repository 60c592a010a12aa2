"""A released distribution over a domain. It answers any query, and generates synthetic rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpstats.data.counts import MOST_ROWS
from dpstats.data.parameters import check_integer, check_random_state
from dpstats.errors import refuse
from dpstats.queries.domain import Domain
from dpstats.queries.linear import LinearQueries, Numbers


@dataclass(frozen=True, eq=False)
class SyntheticDistribution:
    """Released distribution over a domain. It is post-processing, without additional privacy cost.

    Attributes
    ----------
    domain : Domain
        Attributes and their levels.
    probabilities : ndarray of the domain's shape
        Probabilities of the cells. They are not negative and add up to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.queries import Domain
    >>> from dpstats.queries.synthetic import SyntheticDistribution
    >>> domain = Domain({"smokes": ["yes", "no"], "sex": ["f", "m"]})
    >>> made = SyntheticDistribution(domain, np.array([[0.1, 0.1], [0.4, 0.4]]))
    >>> made.sample(3, random_state=0).values.tolist()
    [['no', 'm'], ['no', 'f'], ['yes', 'f']]
    """

    domain: Domain
    probabilities: Numbers = field(repr=False)

    def answers(self, queries: LinearQueries) -> Numbers:
        """Return the answers to queries on the domain: shape (n_queries,), in [0, 1]."""
        if queries.size != self.domain.size:
            raise refuse(
                "queries",
                got=f"queries on {queries.size:,}",
                allowed=f"on the domain's {self.domain.size:,} cells",
            )
        return np.clip(np.asarray(queries.answers(self.probabilities.ravel()), dtype=np.float64), 0.0, 1.0)

    def sample(self, n: int, random_state: Any = None, backend: str = "pandas") -> Any:
        """Draw n independent rows from the distribution into a data frame, without additional privacy cost.

        The rows have the errors of this distribution, plus the sampling error of n rows. Intervals computed from them
        would include neither the noise nor the sampling error of the real rows.

        Parameters
        ----------
        n : int
            Number of rows.
        random_state : None, int or numpy.random.Generator, default=None
            Seed of the drawing. It does not affect privacy.
        backend : str, default="pandas"
            Library of the data frame: "pandas", "polars" or "pyarrow".
        """
        count = check_integer("n", n, at_least=1, at_most=MOST_ROWS)
        rng = check_random_state(random_state) or np.random.default_rng()
        cumulative = np.cumsum(self.probabilities.ravel())
        places = np.searchsorted(cumulative, rng.random(count) * cumulative[-1], side="right")
        return self.domain.rows(np.minimum(places, self.domain.size - 1), backend)
