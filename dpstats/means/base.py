"""What the estimators of a number per column share: intervals, tests, predictions, and the frame of a summary."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dpstats.data.labels import by_name
from dpstats.data.parameters import check_choice, check_columns, check_level
from dpstats.data.tables import Rows
from dpstats.errors import InvalidParameter
from dpstats.intervals import simultaneous_level
from dpstats.lattice import check_finite_rows
from dpstats.release.estimator import Plan, PrivateEstimator
from dpstats.results import ConfidenceInterval, Summary, ValueTest, significant, with_missing

Numbers = NDArray[np.float64]
Ends = tuple[Numbers, Numbers]

_SMALLEST_TAIL = 1e-300
_HALVINGS = 60


class ColumnEstimator(PrivateEstimator[Plan], ABC):
    """Base of the estimators that report a number for each column.

    Subclasses have the parameter ``missing`` beside those of a `PrivateEstimator`. What they report is some columns'
    numbers, of which `_limits` and `_tails` know the law.
    """

    missing: str

    @abstractmethod
    def summary(self, confidence_level: float = 0.95) -> Summary:
        """Return a table of estimates, noise and intervals; prints as text, shows as HTML in a notebook."""

    # What an estimator knows of its numbers.

    @abstractmethod
    def _estimands(self) -> dict[str, str]:
        """Return what intervals can cover, each in words by its name; the first is the default."""

    @abstractmethod
    def _about_missing(self) -> str:
        """Return what missing entries of the fit counted as, as `about_missing` has it."""

    @abstractmethod
    def _limits(self, tail: float | Numbers, estimand: str) -> Ends:
        """Return lower and upper limits of every column, each wrong with at most this probability, up to one half.

        ``tail`` is a number, or one per column.
        """

    def _interval(self, tail: float | Numbers, estimand: str) -> Ends:
        """Return the ends of intervals that miss with at most twice this probability: both limits, or ends nearer."""
        return self._limits(tail, estimand)

    @abstractmethod
    def _estimates(self) -> tuple[Numbers, Numbers]:
        """Return the estimates that intervals are about, and their standard errors."""

    def _box(self, estimand: str) -> Ends:
        """Return the public ends between which the estimand lies, if there are any."""
        nowhere = np.full(self._estimates()[0].shape, np.inf)
        return -nowhere, nowhere

    def _tails(self, value: Numbers, estimand: str) -> Ends:
        """Return the p-values of every column for the alternatives "less" and "greater"."""
        less = least_tail(lambda tail: self._limits(tail, estimand)[1] < value, value.shape)
        greater = least_tail(lambda tail: self._limits(tail, estimand)[0] > value, value.shape)
        neither = np.ones(value.shape)
        return (
            np.where(np.isnan(less), np.where(np.isnan(greater), neither, 1 - greater), less),
            np.where(np.isnan(greater), np.where(np.isnan(less), neither, 1 - less), greater),
        )

    def _two_sided(self, value: Numbers, less: Numbers, greater: Numbers, estimand: str) -> Numbers:
        """Return the p-values against any other value, from those against smaller and against greater ones."""
        return np.asarray(np.minimum(1.0, 2 * np.minimum(less, greater)))

    def _each_level(self, level: float, count: int) -> float:
        """Return the level of each interval, of those that are to cover together."""
        return simultaneous_level(level, count)

    # What a user asks.

    @property
    def estimand_(self) -> str:
        """In words, what intervals cover if nothing else is asked for."""
        check_is_fitted(self)
        return self._covered(next(iter(self._estimands())))

    def _covered(self, name: str) -> str:
        """Return in words what intervals for an estimand cover, given what missing entries counted as."""
        return with_missing(self._estimands()[name], self._about_missing())

    def _estimand(self, name: Any) -> str:
        known = self._estimands()
        if name is None:
            return next(iter(known))
        return check_choice("estimand", name, list(known))

    def confidence_interval(
        self, confidence_level: float = 0.95, simultaneous: bool = False, *, estimand: str | None = None
    ) -> ConfidenceInterval:
        """Return an interval for each column, counting sampling error and privacy noise.

        Parameters
        ----------
        confidence_level : float, default=0.95
        simultaneous : bool, default=False
            Make all columns covered together at this level.
        estimand : str, optional
            What to cover; see the estimator.

        Returns
        -------
        ConfidenceInterval
            ``low`` and ``high``, one number per column, and the ``estimand`` in words.
        """
        check_is_fitted(self)
        level, name = check_level("confidence_level", confidence_level), self._estimand(estimand)
        each = self._each_level(level, self._estimates()[0].size) if simultaneous else level
        low, high = self._interval((1 - each) / 2, name)
        return ConfidenceInterval(low, high, level, self._covered(name), bool(simultaneous))

    def test(
        self, value: Any = 0.0, alternative: str = "two-sided", *, estimand: str | None = None
    ) -> ValueTest:
        """Test whether each column's estimand is ``value``, from what was released: it costs no privacy.

        It rejects at level a where the interval of level 1 - a excludes the value. For pairs of measurements, fit
        their differences.

        Parameters
        ----------
        value : float or array of shape (n_features,), default=0.0
            With labels it goes by the names of the columns.
        alternative : {"two-sided", "less", "greater"}, default="two-sided"
            What speaks against the null hypothesis: that the estimand is not, is less than, or is greater than the
            value.
        estimand : str, optional
            What is tested; see `confidence_interval`.

        Returns
        -------
        ValueTest
            ``statistic`` and ``pvalue``, one number per column, and ``confidence_interval()``.
        """
        check_is_fitted(self)
        side, name = (
            check_choice("alternative", alternative, ["two-sided", "less", "greater"]),
            self._estimand(estimand),
        )
        estimates, errors = self._estimates()
        names = getattr(self, "feature_names_in_", None)
        given = by_name("value", value, None if names is None else list(names))
        checked = check_columns("value", given, estimates.size)
        at = np.full(estimates.shape, checked)
        low, high = self._box(name)
        if not np.all((low <= at) & (at <= high)):
            where = int(np.argmin((low <= at) & (at <= high)))
            raise InvalidParameter(
                f"value must lie inside the declared bounds, outside which no mean can be, got {at[where]:g} for a "
                f"column between {low[where]:g} and {high[where]:g}"
            )
        less, greater = self._tails(at, name)
        pvalues = {
            "less": less,
            "greater": greater,
            "two-sided": self._two_sided(at, less, greater, name),
        }

        def interval(confidence_level: float = 0.95) -> ConfidenceInterval:
            if side == "two-sided":
                return self.confidence_interval(confidence_level, estimand=name)
            level = check_level("confidence_level", confidence_level)
            ends = self._limits(1 - level, name) if level > 0.5 else self._limits(0.5, name)
            one = (low, ends[1]) if side == "less" else (ends[0], high)
            return ConfidenceInterval(*one, level, self._covered(name))

        with np.errstate(divide="ignore", invalid="ignore"):
            statistic = (estimates - at) / errors
        return ValueTest(
            statistic,
            pvalues[side],
            checked,
            side,
            self._covered(name),
            self._names_of_all(),
            interval,
            simulated=self.privacy_.simulated,
        )

    def _names_of_all(self) -> list[str]:
        """Return the names of the columns that are reported."""
        return self._names(range(self._estimates()[0].size))

    def predict(self, X: Any) -> Numbers:
        """Return the estimate for every row: shape (n_samples, n_features). Releases nothing new."""
        return self._for_every_row("mean_", X)

    def _for_every_row(self, attribute: str, X: Any) -> Numbers:
        rows = self._checked(X)
        return np.tile(getattr(self, attribute), (rows.shape[0], 1))

    def _checked(self, X: Any) -> Rows:
        """Return rows to predict for: what a fit takes, of as many columns."""
        check_is_fitted(self)
        rows = self._again(X)
        if self.missing != "center":
            check_finite_rows(rows)
        return rows

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "center"
        return tags

    # The parts of a summary.

    def _framed(
        self,
        title: str,
        facts: Sequence[tuple[str, str]],
        table: Mapping[str, Sequence[str]],
        notes: Sequence[str],
    ) -> Summary:
        """Return a summary of a table, its columns by their headers, below the facts of any fit and those given."""
        of_any = [
            ("Estimator", type(self).__name__),
            ("Rows, columns", f"{self.plan_.n_samples:,}, {self.plan_.n_features:,} (public)"),
            ("Privacy", str(self.privacy_)),
        ]
        return Summary(title, [*of_any, *facts], list(table), list(zip(*table.values(), strict=True)), notes)

    def _names(self, columns: Iterable[int]) -> list[str]:
        """Return the names of columns of the data, or x0, x1, ... where they have none."""
        names = getattr(self, "feature_names_in_", None)
        return [f"x{j}" if names is None else str(names[j]) for j in columns]

    def _simulated_note(self) -> list[str]:
        simulated = "Simulated noise, not a private release: random_state was given."
        return [simulated] if self.privacy_.simulated else []


def least_tail(excluded: Callable[[Numbers], NDArray[np.bool_]], shape: tuple[int, ...]) -> Numbers:
    """Return for each column the least probability, of at most one half, whose limit excludes a value; NaN for none."""
    least, most = np.full(shape, math.log(_SMALLEST_TAIL)), np.full(shape, math.log(0.5))
    ever = excluded(np.exp(most))
    for _ in range(_HALVINGS if ever.any() else 0):
        middle = (least + most) / 2
        out = excluded(np.exp(middle))
        least, most = np.where(out, least, middle), np.where(out, middle, most)
    return np.where(ever, np.exp(most), np.nan)


def with_noise(header: str, values: Numbers, errors: Numbers) -> dict[str, list[str]]:
    """Return the columns of a table for estimates, to the digits that their noise leaves, and for the noise."""
    return {header: rounded(values, errors), "noise sd": rounded(errors, errors)}


def of_interval(interval: ConfidenceInterval, errors: Numbers) -> dict[str, list[str]]:
    """Return the columns of a table for the ends of intervals."""
    percent = f"{100 * interval.confidence_level:g}%"
    headers = f"[{percent} low", f"{percent} high]"
    return {
        header: rounded(np.atleast_1d(end), errors) for header, end in zip(headers, interval, strict=True)
    }


def rounded(values: Numbers, errors: Numbers) -> list[str]:
    """Return numbers to about two significant digits of their errors."""
    return [significant(*pair) for pair in zip(values, errors, strict=True)]
