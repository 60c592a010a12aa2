"""The result of a test of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.report import SIMULATED
from dpstats.results import FREE, HypothesisTest, Summary


@dataclass(frozen=True, slots=True, eq=False)
class TableTest(HypothesisTest):
    """Result of a test on a released table. The test has no additional privacy cost.

    Attributes
    ----------
    statistic : float
        Projected statistic of Kifer and Rogers (2017). With many rows its null distribution is close to chi-square.
    pvalue : float
        (1 + #{simulated >= statistic}) / (n_simulations + 1), for simulated releases under the null hypothesis.
    expected : ndarray
        Estimated counts under the null hypothesis.
    null : str
        The null hypothesis as text.
    level_note : str
        Statement about the level of the test.
    n_simulations : int
        Number of simulations in each bootstrap.
    privacy : PrivacyGuarantee
        Guarantee of the release.
    name : str
        Name of the statistic.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.tables import ContingencyTable
    >>> rng = np.random.default_rng(0)
    >>> arm = rng.integers(2, size=2000)
    >>> rows = np.column_stack([arm, rng.random(2000) < 0.3 + 0.1 * arm])
    >>> table = ContingencyTable(levels=[[0, 1], [0, 1]], epsilon=1.0, random_state=0).fit(rows)
    >>> test = table.independence(n_simulations=199)
    >>> test.null, test.pvalue < 0.01
    ('x0, x1: independent', True)
    """

    _numbers: ClassVar[tuple[str, ...]] = ("statistic", "pvalue")

    statistic: float
    pvalue: float
    expected: NDArray[np.float64]
    null: str
    level_note: str
    n_simulations: int
    privacy: PrivacyGuarantee
    name: str = "projected chi-square"

    def summary(self) -> Summary:
        """Return a table. It prints as text, and shows as HTML in a notebook."""
        notes = [f"{FREE} {self.level_note}", *[SIMULATED] * self.privacy.simulated]
        return Summary(
            "Private test of a table",
            [
                ("Null hypothesis", self.null),
                ("Privacy", str(self.privacy)),
                ("Null distribution", f"a fixed draw of {self.n_simulations:,} simulated releases"),
            ],
            ["", "statistic", "p-value"],
            [(self.name, f"{self.statistic:.4g}", f"{self.pvalue:.4g}")],
            notes,
        )
