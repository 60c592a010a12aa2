from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from dpstats.data.opening import open_source
from dpstats.data.parameters import check_integer, check_random_state
from dpstats.error_distributions import usual_level
from dpstats.errors import refuse, refuse_data
from dpstats.exports import Records
from dpstats.report import Printed
from dpstats.results import Summary
from dpstats.statistic.blocks import block_rows, frame
from dpstats.statistic.copies import Frozen
from dpstats.statistic.isolation import value_of

Floats = NDArray[np.float64]

_FEWEST = 20
_LOW = 0.02
"""Coverage that is this far below the level, and three standard errors, gets a warning."""


@dataclass(frozen=True, slots=True, eq=False)
class Rehearsal(Printed):
    """Result of `PrivateStatistic.rehearse`, for each output.

    Attributes
    ----------
    value : array of shape (n_outputs,)
        The statistic of all public rows.
    coverage, coverage_error : arrays
        Fraction of the intervals that hold ``value``, and its Monte Carlo standard error.
    bias, bias_error : arrays
        Mean of the estimates minus ``value``, and its Monte Carlo standard error.
    width : array
        Median width of the intervals.
    located : array
        Fraction of the fits whose values were located.
    n_replications, n_samples, n_blocks : int
    confidence_level : float
    names : tuple of str
        Names of the outputs.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.statistic import PrivateStatistic
    >>> rows = np.random.default_rng(0).normal(size=(1000, 1))
    >>> found = PrivateStatistic(lambda block: block.mean()).rehearse(rows, n_replications=20)
    >>> found.coverage.shape, found.n_blocks
    ((1,), 60)
    """

    value: Floats
    coverage: Floats
    coverage_error: Floats
    bias: Floats
    bias_error: Floats
    width: Floats
    located: Floats
    n_replications: int
    n_samples: int
    n_blocks: int
    confidence_level: float
    names: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether no coverage is below the level by more than chance and 0.02."""
        short = self.confidence_level - self.coverage
        return bool((short <= np.maximum(_LOW, 3 * self.coverage_error)).all())

    def _records(self) -> Records:
        columns = ("value", "coverage", "coverage_error", "bias", "bias_error", "width", "located")
        facts = {
            key: getattr(self, key) for key in ("n_replications", "n_samples", "confidence_level", "holds")
        }
        return Records(list(self.names), {name: getattr(self, name).tolist() for name in columns}, facts)

    def summary(self) -> Summary:
        """Return a table. It prints as text, and shows as HTML in a notebook."""
        rows = [
            (
                name,
                f"{self.value[j]:.4g}",
                f"{self.coverage[j]:.3f} ± {self.coverage_error[j]:.3f}",
                f"{self.bias[j]:.2g} ± {self.bias_error[j]:.1g}",
                f"{self.width[j]:.3g}",
                f"{self.located[j]:.0%}",
            )
            for j, name in enumerate(self.names)
        ]
        notes = ["Rows were drawn from the public rows with replacement. Private rows can differ from these."]
        if not self.holds:
            notes.insert(
                0,
                "Warning: intervals cover less than they say on rows like these. Try fewer blocks, a larger skewness "
                "or remainder, a link, or another statistic.",
            )
        return Summary(
            "Rehearsal of a private statistic",
            [
                (
                    "Fits",
                    f"{self.n_replications:,} of {self.n_samples:,} rows, {self.n_blocks:,} blocks each",
                ),
                ("Level", f"{self.confidence_level:g}"),
                ("Value", "the statistic of all public rows"),
            ],
            ["", "value", "coverage", "bias", "width", "located"],
            rows,
            notes,
        )


def rehearse(
    estimator: Any,
    X: Any,
    y: Any,
    n_samples: int | None,
    n_replications: int,
    confidence_level: float | None,
    random_state: Any,
) -> Rehearsal:
    """Return what fits of a `PrivateStatistic` to samples of public rows say about the statistic of all of them."""
    count, level = (
        check_integer("n_replications", n_replications, at_least=_FEWEST),
        usual_level(confidence_level),
    )
    rng = check_random_state(random_state)
    if rng is None:
        allowed = "a seed or a generator for a rehearsal, which is simulated"
        raise refuse("random_state", given=None, allowed=allowed)
    if estimator.unit is not None:
        allowed = "None for a rehearsal, which draws single rows"
        raise refuse("unit", allowed=allowed, remedy="Use one row per unit.")
    source = open_source(X)
    schema, given = source.resolve(estimator._schema(), y)
    table = source.read(schema, given).whole()
    n = len(table) if n_samples is None else check_integer("n_samples", n_samples, at_least=2)
    (whole,) = block_rows(table, np.arange(len(table)), 1, estimator.missing == "drop")
    value = value_of(Frozen(estimator.function), whole, None, estimator.n_outputs)
    if not np.isfinite(value).all():
        allowed = "public rows for which the function returns finite numbers"
        raise refuse_data("X", allowed=allowed, remedy="Try check_locality.")
    estimates, low, high, located = (np.empty((count, value.size)) for _ in range(4))
    for run in range(count):
        rows = rng.integers(len(table), size=n)
        fit = clone(estimator).set_params(budget=None, random_state=int(rng.integers(2**31)))
        fit.fit(frame(table.X[rows], table.names), None if table.y is None else table.y[rows])
        estimates[run], located[run] = fit.estimate_, fit.located_
        ends = fit.confidence_interval(level)
        low[run], high[run] = ends.low, ends.high
    covered = ((low <= value) & (value <= high)).mean(axis=0)
    spread = np.nanstd(estimates, axis=0, ddof=1) / math.sqrt(count)
    return Rehearsal(
        value,
        covered,
        np.sqrt(np.maximum(covered * (1 - covered), 1 / count) / count),
        np.nanmean(estimates, axis=0) - value,
        spread,
        np.median(high - low, axis=0),
        located.mean(axis=0),
        count,
        n,
        fit.n_blocks_,
        level,
        fit.estimates().names,
    )
