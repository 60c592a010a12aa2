"""The result of a rank test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.report import SIMULATED
from dpstats.results import HypothesisTest, Summary, significant


@dataclass(frozen=True, slots=True)
class RankTestResult(HypothesisTest):
    """Result of a private rank test.

    Attributes
    ----------
    test : str
        Name of the test.
    statistic : float
        Released statistic including noise, in ranks.
    pvalue : float
        (1 + #{simulated at least as extreme}) / (n_simulations + 1), for the noisy statistic.
    alternative : str
        Alternative hypothesis.
    null : str
        Null hypothesis as text.
    n_samples : int
        Public number of rows in the test.
    sizes : tuple of int or None
        Sizes of the groups, if they are public.
    noise_std : float
        Standard deviation of the noise in the statistic.
    privacy : PrivacyGuarantee
        Guarantee of the release.
    n_simulations : int
        Number of simulations of the null distribution.
    missing : str
        Treatment of missing entries as text. Empty if they raise an error.
    released_sizes : pair of float, or None
        Noisy sizes of two groups with private sizes, where they are released.
    sizes_std : float
        Standard deviation of their noise.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.ranks import wilcoxon_signed_rank
    >>> x = np.random.default_rng(0).normal(0.5, 1.0, size=300)
    >>> result = wilcoxon_signed_rank(x, epsilon=1.0, n_simulations=999, random_state=0)
    >>> result.test, result.pvalue < 0.01
    ('Signed-rank test', True)
    """

    _numbers: ClassVar[tuple[str, ...]] = ("statistic", "noise_std", "pvalue")

    test: str
    statistic: float
    pvalue: float
    alternative: str
    null: str
    n_samples: int
    sizes: tuple[int, ...] | None
    noise_std: float
    privacy: PrivacyGuarantee
    n_simulations: int
    missing: str = ""
    released_sizes: tuple[float, float] | None = None
    sizes_std: float = 0.0

    def summary(self) -> Summary:
        """Return a table. It prints as text, and shows as HTML in a notebook."""
        notes = [
            f"The p-value accounts for sampling and noise, by {self.n_simulations:,} simulations of the release. It is "
            "exact without ties. With ties it is mostly conservative, except for few rows at a large epsilon."
        ]
        if self.sizes is not None:
            notes.append("The group of every row is public. Only its value is protected.")
        elif self.released_sizes is not None:
            notes.append(
                "The group sizes are private. The p-value is the largest over all sizes near the released ones."
            )
        elif self.test != "Signed-rank test":
            notes.append(
                "The group sizes are private, so the p-value is for equal sizes and conservative for others. If the "
                "sizes are public, declare them: unequal groups then have smaller p-values."
            )
        if self.missing:
            notes.append(self.missing)
        notes += [SIMULATED] * self.privacy.simulated
        about = ", ".join(significant(size, self.sizes_std) for size in self.released_sizes or ())
        facts = [
            ("Null hypothesis", self.null),
            ("Alternative", self.alternative),
            ("Rows", f"{self.n_samples:,} (public)"),
            *([("Group sizes", f"{', '.join(map(str, self.sizes))} (public)")] if self.sizes else []),
            *([("Group sizes", f"{about} (noise sd {significant(self.sizes_std)})")] if about else []),
            ("Privacy", str(self.privacy)),
        ]
        numbers = significant(self.statistic, self.noise_std), significant(self.noise_std)
        row = (self.test, *numbers, f"{self.pvalue:.4g}")
        return Summary(f"Private {self.test}", facts, ["", "statistic", "noise sd", "p-value"], [row], notes)
