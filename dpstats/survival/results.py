"""Estimates of survival releases with their limits, by group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_level
from dpstats.report import SIMULATED, Reported
from dpstats.results import ConfidenceInterval, Summary, significant

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Limits = Callable[[float], tuple[Floats, Floats]]
"""Returns the limits of each row at a level."""

FREE = "Computed from the release: it costs no privacy."


@dataclass(frozen=True, slots=True, eq=False)
class SurvivalEstimate(Reported):
    """Estimates of a survival release with their limits: a median of each group, say.

    Attributes
    ----------
    estimate : float, or array of shape (groups,)
        NaN where the usable range of the curve does not reach it; an infinite time is not reached.
    low, high : float, or array of shape (groups,)
        Limits at the level 0.95.
    pvalue : float, optional
        The p-value of no difference, for a difference.
    estimand : str
        The estimand, for readers.
    names : tuple of str
        A name for each estimate.
    simulated : bool
        Whether the noise of the release was simulated.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.survival import PrivateSurvival
    >>> rng = np.random.default_rng(0)
    >>> times, limit = rng.exponential(2.0, 2000), rng.uniform(1.0, 5.0, 2000)
    >>> model = PrivateSurvival(horizon=4.0, random_state=0)
    >>> model = model.fit(np.minimum(times, limit), times <= limit)
    >>> found = model.median()
    >>> bool(found.low < found.estimate < found.high)
    True
    """

    estimate: Any
    estimand: str
    names: tuple[str, ...]
    limits: Limits = field(repr=False)
    pvalue: float | None = None
    notes: Sequence[str] = ()
    simulated: bool = field(default=False, kw_only=True)

    @property
    def low(self) -> Any:
        """The lower limits at the level 0.95."""
        return self.confidence_interval().low

    @property
    def high(self) -> Any:
        """The upper limits at the level 0.95."""
        return self.confidence_interval().high

    def confidence_interval(self, confidence_level: float = 0.95) -> ConfidenceInterval:
        """Return an interval for each estimate, counting sampling error and privacy noise."""
        level = check_level("confidence_level", confidence_level)
        low, high = self.limits(level)
        if np.ndim(self.estimate) == 0:
            return ConfidenceInterval(float(low[0]), float(high[0]), level, self.estimand)
        return ConfidenceInterval(low, high, level, self.estimand)

    def to_frame(self, confidence_level: float = 0.95) -> pd.DataFrame:
        """Return a data frame with a row for each estimate."""
        import pandas as pd

        interval = self.confidence_interval(confidence_level)
        found = {
            "estimate": np.atleast_1d(self.estimate),
            "low": np.atleast_1d(interval.low),
            "high": np.atleast_1d(interval.high),
        }
        if self.pvalue is not None:
            found["pvalue"] = np.atleast_1d(self.pvalue)
        return pd.DataFrame(found, index=list(self.names))

    def summary(self, confidence_level: float = 0.95) -> Summary:
        """Return a table; prints as text, shows as HTML in a notebook."""
        frame = self.to_frame(confidence_level)
        percent = f"{100 * confidence_level:g}%"
        columns = [
            "",
            "estimate",
            f"[{percent} low",
            f"{percent} high]",
            *["p-value"] * (self.pvalue is not None),
        ]
        rows = []
        for name, values in zip(self.names, frame.to_numpy(), strict=True):
            error = (values[2] - values[1]) / 4
            cells = [shown(value, error) for value in values[:3]]
            rows.append((name, *cells, *(f"{value:.4g}" for value in values[3:])))
        notes = [FREE, *self.notes, *[SIMULATED] * self.simulated]
        return Summary("Private survival estimate", [("Estimated", self.estimand)], columns, rows, notes)

    def _repr_html_(self) -> str:
        return self.summary().as_html()


def shown(value: float, error: float) -> str:
    """Format an estimate to the precision of its error; an infinite time is not reached."""
    if np.isnan(value):
        return "unusable"
    if np.isinf(value):
        return "not reached"
    return significant(float(value), float(error) if np.isfinite(error) and error > 0 else None)
