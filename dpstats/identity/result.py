"""The result of an identity test."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.report import SIMULATED
from dpstats.results import HypothesisTest, Summary

_FULL_POWER = 0.99  # below, a note says that the power is bounded


@dataclass(frozen=True, slots=True)
class TestResult(HypothesisTest):
    """Result of a private identity test: a released statistic and its p-value.

    The null hypothesis is the whole distribution of the rows, not only the mean. For the mean alone, use the ``test``
    of a mean, ``ClippedMean(...).fit(X).test(value=...)``.

    Attributes
    ----------
    test : str
        Name of the test.
    statistic : float
        Released statistic including noise. Infinite if an earlier stage of the test rejected.
    pvalue : float
        (1 + #{null >= statistic})/(n_calibration + 1). It includes sampling error and privacy noise. NaN with printed
        constants, which have no p-value.
    threshold : float
        Critical value. The test rejects if the statistic is larger.
    level : float
        Nominal level.
    null : str
        The null hypothesis as text.
    n_samples, n_features : int
    privacy : PrivacyGuarantee
    n_calibration : int
        Number of simulated null datasets; 0 for printed constants.
    level_range : tuple of float
        Range that contains the level of this calibration with probability 0.95.
    attainable_power : float
        Probability of rejecting a mean at the largest possible distance, equal in all columns. Noise keeps it below 1
        if ``n_samples * epsilon`` is small. A test that does not reject is then weak evidence.
    missing : str
        Treatment of missing entries as text. Empty if they raise an error.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.identity import RowDistanceTest
    >>> X = np.random.default_rng(0).normal(0.3, 1.0, size=(300, 5))
    >>> result = RowDistanceTest(epsilon=1.0, n_calibration=199, random_state=0).fit(X).result_
    >>> result.reject, result.pvalue, result.statistic > result.threshold
    (True, 0.005, True)
    """

    __test__: ClassVar[bool] = False  # not a class of pytest's

    _numbers: ClassVar[tuple[str, ...]] = ("statistic", "threshold", "level", "pvalue", "reject")

    test: str
    statistic: float
    pvalue: float
    threshold: float
    level: float
    null: str
    n_samples: int
    n_features: int
    privacy: PrivacyGuarantee
    n_calibration: int = 0
    level_range: tuple[float, float] = (float("nan"), float("nan"))
    attainable_power: float = float("nan")
    missing: str = ""

    @property
    def reject(self) -> bool:
        """Whether the null hypothesis is rejected."""
        return self.statistic > self.threshold

    def summary(self) -> Summary:
        """Return a table. It prints as text, and shows as HTML in a notebook."""
        calibrated = self.n_calibration > 0
        low, high = self.level_range
        notes = [SIMULATED] * self.privacy.simulated
        if calibrated:
            notes.append(
                f"The critical value and the p-value use {self.n_calibration:,} simulated null datasets with the noise "
                f"of the release. The level is {self.level:g} on average over calibrations. For this calibration it is "
                f"in [{low:.4f}, {high:.4f}] with probability 0.95."
            )
        else:
            notes.append(
                "The critical value uses printed constants. There is no p-value, and theory only bounds the level."
            )
        if self.attainable_power < _FULL_POWER:
            notes.append(
                f"The power is at most {self.attainable_power:.2f}, however far the mean is from the null hypothesis: "
                "n times epsilon is small. Collect more rows, or spend a larger epsilon."
            )
        notes.append(
            "The null hypothesis is the whole distribution of the rows, not only its mean. Rows of another "
            "distribution with this mean may be rejected. To test the mean alone, use "
            "ClippedMean(...).fit(X).test(value=...)."
        )
        if self.missing:
            notes.append(self.missing)
        if self.statistic == float("inf"):
            notes.append("An earlier stage rejected, so there is no further statistic.")
        return Summary(
            f"{self.test}: private identity test",
            [
                ("Null hypothesis", self.null),
                ("Rows, columns", f"{self.n_samples:,}, {self.n_features:,} (public)"),
                ("Privacy", str(self.privacy)),
                ("Calibration", "public simulation" if calibrated else "printed constants"),
                *(
                    []
                    if math.isnan(self.attainable_power)
                    else [("Largest attainable power", f"{self.attainable_power:.3f}")]
                ),
            ],
            ["", "statistic", "critical value", "p-value", "decision"],
            [
                (
                    self.test,
                    f"{self.statistic:.6g}",
                    f"{self.threshold:.6g}",
                    f"{self.pvalue:.4g}" if calibrated else "",
                    f"{'reject' if self.reject else 'do not reject'} at {self.level:g}",
                )
            ],
            notes,
        )
