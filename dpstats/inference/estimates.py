"""Estimates with the distribution of their errors: intervals, tests, tables and frames, for every estimator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, wraps
from inspect import Parameter, signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import by_name, check_choice, check_columns, check_flag
from dpstats.errors import attempt, refuse
from dpstats.inference.error_distributions import SIDAK, ErrorDistribution, Together
from dpstats.inference.figures import draw_intervals, new_figure, row_heights, row_names
from dpstats.inference.papers import UNKNOWN
from dpstats.inference.reports import SIMULATED, Printed, Records, Reported, free_names
from dpstats.inference.results import FREE, ConfidenceInterval, Summary, list_some, plain, significant

Floats = NDArray[np.float64]

ALTERNATIVES = ("two-sided", "less", "greater")

_NO_NULL = "For a proportion, a standard deviation or a quantile, give the value to be tested."
_IN_WORDS = {"two-sided": "is not", "less": "is less than", "greater": "is greater than"}


class StandardErrors:
    """Field of `Estimates` that is computed when it is first read, where None was given. Tests may not need it."""

    def __get__(self, estimates: Estimates, owner: type[Estimates]) -> Floats:
        state = estimates.__dict__
        if state["_error"] is None:
            state["_error"] = estimates.distribution.standard_error
        error: Floats = state["_error"]
        return error

    def __set__(self, estimates: Estimates, error: Floats | None) -> None:
        estimates.__dict__["_error"] = error


class ShownEstimates:
    """Field of `Estimates` that is NaN where noise hides an estimate.

    This is the one place that decides it: summaries, frames, LaTeX and pictures read this field.
    """

    def __get__(self, estimates: Estimates, owner: type[Estimates]) -> Floats:
        state = estimates.__dict__
        if "_known" not in state:
            given, hidden = state["_given"], estimates._hidden
            # A family can have estimates in another form than its errors.
            state["_known"] = (
                np.where(hidden, np.nan, given) if np.shape(given) == hidden.shape and hidden.any() else given
            )
        shown: Floats = state["_known"]
        return shown

    def __set__(self, estimates: Estimates, given: Floats) -> None:
        estimates.__dict__["_given"] = given


def find_hidden(distribution: ErrorDistribution) -> NDArray[np.bool_]:
    """Mark intervals that hold all values between public bounds at the usual level: these have no estimate."""
    low, high = distribution.box
    bounded = np.isfinite(low) & np.isfinite(high) & (low < high)
    if not distribution.known or not bounded.any():
        return np.zeros(np.shape(bounded), dtype=bool)
    with np.errstate(all="ignore"):
        least, most = distribution.limits((1 - distribution.confirm_level(None)) / 2)
        # A limit in the units of the data has a rounding error.
        near = 1e-9 * np.where(bounded, high - low, 0.0)
        return np.asarray(bounded & (least <= low + near) & (most >= high - near))


_HIDDEN = (
    "Not estimated: {}. Noise hides the estimate, and the interval shows which values are possible. Use more rows, "
    "narrower bounds or a larger epsilon."
)


@dataclass(frozen=True, eq=False, repr=False)
class Estimates(Printed):
    """Estimates with the distribution of their errors.

    Attributes
    ----------
    estimate, error : arrays of one shape
        Estimates and their standard errors, NaN where these are not known. An estimate is not known if its interval
        at the usual level holds all values between public bounds. Give None as ``error`` for the standard errors of
        the distribution, which are computed when they are first read.
    names : tuple of str
        A name for each estimate, in the order of ``numpy.ravel``.
    estimand : str
        Description of the estimand of the intervals, and of its assumptions.
    distribution : ErrorDistribution
    title : str
        Title of the summary.
    header : str
        Header of the column of estimates.
    facts : sequence of (name, value)
        Facts about the whole fit, for the summary.
    notes : sequence of str
    rows : str
        Header of the column of names in the summary.
    exact : bool
        Whether the summary shows all digits, for values on a declared grid.
    beside, before : mapping of headers to sequences of str
        More columns of the summary, as text: behind the others, and before the estimates.
    together : Together
        Method for simultaneous intervals and adjusted p-values.
    jointly : bool
        Whether intervals are simultaneous, and p-values are adjusted, by default.
    axis : int, optional
        Axis of the estimates that are combined by default; None combines all.
    null : float or array, optional
        Value under the usual null hypothesis, if there is one. The summary then shows its test.
    tested : array of bool, optional
        Estimates whose test is shown; None shows all.
    alternative : {"two-sided", "less", "greater"}
        Default alternative of intervals and tests.
    index : list, optional
        The index of data frames; None is ``names``.
    labels : mapping of str to list
        More columns of names for machines: the group of each estimate, for example.
    noise : array, optional
        Standard deviations of the noise alone. The summary then shows them in place of the standard errors, and
        as many digits of an estimate as they leave.
    simulated : bool
        Whether the noise of the release was simulated.
    columns : tuple of str, optional
        Names of the columns along the last axis, empty if they have none. A tested value is then a number, or one per
        column, and its labels are matched with these names.
    unknown : sequence of str
        Notes on estimates without a number, in place of the general one.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.means import ClippedMean
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> estimates = ClippedMean(clip=4.0, random_state=0).fit(X).estimates()
    >>> estimates.to_frame().round(2)
        estimate  std_error   low  high
    x0     -0.02       0.04 -0.10  0.06
    x1     -0.01       0.04 -0.09  0.07
    """

    estimate: Floats
    error: Any
    names: tuple[str, ...]
    estimand: str
    distribution: ErrorDistribution
    title: str = "Private estimates"
    header: str = "estimate"
    facts: Sequence[tuple[str, str]] = ()
    notes: Sequence[str] = ()
    rows: str = ""
    exact: bool = False
    beside: Mapping[str, Sequence[str]] = field(default_factory=dict)
    together: Together = SIDAK
    jointly: bool = False
    axis: int | None = None
    null: float | Floats | None = None
    tested: NDArray[np.bool_] | None = None
    alternative: str = "two-sided"
    index: list[Any] | None = None
    labels: Mapping[str, list[Any]] = field(default_factory=dict)
    noise: Floats | None = None
    before: Mapping[str, Sequence[str]] = field(default_factory=dict)
    simulated: bool = field(default=False, kw_only=True)
    columns: tuple[str, ...] | None = field(default=None, kw_only=True)
    unknown: Sequence[str] = field(default=(), kw_only=True)

    @property
    def statistic(self) -> Any:
        """The statistics of the test of the usual null hypothesis."""
        return self._shown(self._usual_test.statistic)

    @property
    def pvalue(self) -> Any:
        """The p-values of the test of the usual null hypothesis."""
        return self._shown(self._usual_test.pvalue)

    def _shown(self, values: Any) -> Any:
        return values if self.tested is None else plain(np.where(self.tested, values, np.nan))

    @cached_property
    def _usual_test(self) -> Test:
        if self.null is None:
            raise AttributeError("these estimates have no usual null hypothesis: call test(value)")
        return self.test(self.null)

    def confidence_interval(
        self, confidence_level: float | None = None, *, simultaneous: bool | None = None, alternative: str | None = None
    ) -> ConfidenceInterval:
        """Return an interval for each estimate, which includes sampling error and noise.

        Parameters
        ----------
        confidence_level : float, optional
            Default: 0.95, or the only level of the estimates.
        simultaneous : bool, optional
            Whether the level holds for all intervals that are returned, simultaneously. Default: ``jointly``, along
            ``axis``.
        alternative : {"two-sided", "less", "greater"}, optional
            Default: the alternative of the estimates. A one-sided interval contains the values that a test
            for this alternative does not reject.

        Returns
        -------
        ConfidenceInterval
        """
        level = self.distribution.confirm_level(confidence_level)
        both = check_flag("simultaneous", self.jointly if simultaneous is None else simultaneous)
        side = self._side(alternative)
        # There may be no estimate, where a release found no group.
        each = level
        if both:
            # Several families, one along the axis for each column, hold together by Bonferroni's inequality.
            family = 1 - (1 - level) / self._families(simultaneous)
            each = self.together.each(family, max(self._count, 1))
        if side == "two-sided":
            low, high = self.distribution.interval((1 - each) / 2)
        else:
            low, high = self.distribution.box
            ends = self.distribution.limits(min(1 - each, 0.5))
            low, high = (low, ends[1]) if side == "less" else (ends[0], high)
        return ConfidenceInterval(plain(low), plain(high), level, self.estimand, both, self.names)

    def _side(self, alternative: str | None) -> str:
        return check_choice("alternative", self.alternative if alternative is None else alternative, ALTERNATIVES)

    @property
    def _count(self) -> int:
        """The number of estimates that are combined in one family."""
        return self.estimate.size if self.axis is None else self.estimate.shape[self.axis]

    def _families(self, simultaneous: bool | None) -> int:
        """Return the number of families that hold together: all of them only on request."""
        return 1 if simultaneous is None else max(self.estimate.size // max(self._count, 1), 1)

    def _adjust(self, pvalues: Floats, simultaneous: bool | None) -> Floats:
        if self.axis is None:
            return self.together.adjust(pvalues)
        found = np.apply_along_axis(self.together.adjust, self.axis, pvalues)
        return np.asarray(np.minimum(1.0, self._families(simultaneous) * found))

    def test(self, value: Any = None, alternative: str | None = None, *, simultaneous: bool | None = None) -> Test:
        """Test each estimand for equality with ``value``, without additional privacy cost.

        The test rejects at level a where the interval of level 1 - a excludes the value.

        Parameters
        ----------
        value : float or array, optional
            Value under the null hypothesis. Default: ``null`` if there is one, otherwise 0 if the estimand can be
            positive and negative. It must be given for others, such as a proportion.
        alternative : {"two-sided", "less", "greater"}, optional
            Alternative hypothesis: the estimand is not, is less than, or is greater than the value. Default:
            the alternative of the estimates.
        simultaneous : bool, optional
            Whether p-values are adjusted for all tests that are returned. Default: ``jointly``, along ``axis``.

        Returns
        -------
        Test
        """
        side = self._side(alternative)
        adjust = check_flag("simultaneous", self.jointly if simultaneous is None else simultaneous)
        low, high = self.distribution.box
        if value is not None and self.columns is not None:
            ordered = by_name("value", value, list(self.columns) or None)
            shape = np.shape(self.estimate)
            # Several rows of estimates need a value for each of them.
            if len(shape) == 1 or attempt(lambda: np.shape(ordered), Exception) != shape:
                value = check_columns("value", ordered, shape[-1])
        given = value
        if value is None:
            if self.null is None and not ((low < 0) & (high > 0)).all():
                raise refuse("value", allowed="given: there is no usual null hypothesis", remedy=_NO_NULL)
            value = 0.0 if self.null is None else self.null
        at = _checked_value(value, np.shape(self.estimate))
        inside = (low <= at) & (at <= high)
        if not inside.all():
            where = np.unravel_index(int(np.argmin(inside)), at.shape)
            allowed = f"between the bounds of the estimand, {low[where]:g} and {high[where]:g}"
            raise refuse("value", given=given, allowed=allowed)
        if side == "two-sided":
            pvalue = self.distribution.two_sided(at)
        else:
            pvalue = self.distribution.tails(at)[0 if side == "less" else 1]
        statistic = self.distribution.statistic(self, at)
        adjusted = self._adjust(pvalue, simultaneous) if adjust else pvalue
        return Test(plain(statistic), plain(adjusted), plain(at), side, self, adjust, scope=simultaneous)

    def summary(self, confidence_level: float | None = None) -> Summary:
        """Return a table of estimates and intervals. It prints as text, and shows as HTML in a notebook."""
        low, high, level = self._ends(confidence_level)
        spread, error = ("std error", self.error) if self.noise is None else ("noise sd", self.noise)
        error, percent = np.ravel(error), f"{100 * level:g}%"
        # Where the noise exceeds all possible values, numbers have the digits of these, and not of the error.
        digits = np.where(np.isnan(error) | (high - low < error), (high - low) / 4, error).tolist()
        table = {self.header: self._column(np.ravel(self.estimate), digits)}
        if np.isfinite(error).any():
            table[spread] = [significant(each) for each in error.tolist()]
        if self.distribution.known:
            table[f"[{percent} low"] = self._column(low, digits)
            table[f"{percent} high]"] = self._column(high, digits)
        if self.null is not None:
            table["z"] = ["" if np.isnan(z) else f"{z:.3f}" for z in np.ravel(self.statistic)]
            table["p-value"] = ["" if np.isnan(p) else f"{p:.4g}" for p in np.ravel(self.pvalue)]
        shown: dict[str, Sequence[str]] = {**self.before, **table, **self.beside}
        return Summary(
            self.title,
            [*self.facts, *([("Intervals cover", self.estimand)] if self.distribution.known else [])],
            [self.rows, *shown],
            list(zip(self.names, *shown.values(), strict=True)),
            [*self.notes, *self._hidden_note(), *[SIMULATED] * (self.simulated and SIMULATED not in self.notes)],
        )

    @cached_property
    def _hidden(self) -> NDArray[np.bool_]:
        return find_hidden(self.distribution)

    def _hidden_note(self) -> list[str]:
        """Return a note that names the estimates without a number, if there are any."""
        if self.unknown or not self.distribution.known:
            return list(self.unknown)
        unknown = np.isnan(np.ravel(self.estimate)).tolist()
        named = [name for name, hides in zip(self.names, unknown, strict=True) if hides]
        return [_HIDDEN.format(list_some(named, 5))] if named else []

    def _column(self, values: Floats, errors: list[float]) -> list[str]:
        pairs = zip(values.tolist(), errors, strict=True)
        return [
            f"{value:,.10g}" if self.exact and not np.isnan(value) else significant(value, error)
            for value, error in pairs
        ]

    def _ends(self, confidence_level: float | None) -> tuple[Floats, Floats, float]:
        """Return the limits of all intervals and their level; NaN where there are none."""
        if not self.distribution.known:
            nowhere = np.full(self.estimate.size, np.nan)
            return nowhere, nowhere, np.nan
        interval = self.confidence_interval(confidence_level)
        return np.ravel(interval.low), np.ravel(interval.high), interval.confidence_level

    def plot(self, ax: Any = None, confidence_level: float | None = None, **style: Any) -> Any:
        """Draw the estimates with their intervals, and return the Axes.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default: one of a new figure.
        confidence_level : float, optional
            Default: 0.95, or the only level of the estimates.
        **style
            matplotlib's, of ``Axes.errorbar``: colors and labels.
        """
        low, high, _ = self._ends(confidence_level)
        if ax is None:
            ax = new_figure(figsize=(5.2, 0.9 + row_heights(row_names(self.names, 5.2), 5.2))).add_subplot()
        draw_intervals(ax, self.names, np.ravel(self.estimate), low, high, **style)
        ax.set_xlabel(self.header)
        return ax

    def _records(self, confidence_level: float | None = None) -> Records:
        low, high, level = self._ends(confidence_level)
        columns = {"estimate": self.estimate, "std_error": self.error, "low": low, "high": high}
        if self.null is not None:
            columns |= {"statistic": self.statistic, "pvalue": self.pvalue}
        # Users name the columns of labels, and may name one as a column of numbers is named.
        keys = free_names(self.labels, columns)
        table = {
            # JSON has no other kinds of labels.
            key: [each if isinstance(each, str | bool | int | float | None) else str(each) for each in labels]
            for key, labels in zip(keys, self.labels.values(), strict=True)
        }
        table |= {name: np.ravel(values).tolist() for name, values in columns.items()}
        facts = {
            "estimand": self.estimand,
            "confidence_level": level if self.distribution.known else None,
            "simulated": self.simulated,
        }
        return Records(self.names, table, facts)

    def to_frame(self, confidence_level: float | None = None) -> Any:
        """Return estimates, standard errors and intervals as a data frame of pandas, a row for each estimate."""
        frame = self._records(confidence_level).as_frame()
        return frame if self.index is None else frame.set_axis(self.index)

    def to_dict(self, confidence_level: float | None = None) -> dict[str, Any]:
        """Return the same as JSON has it."""
        return self._records(confidence_level).as_dict()

    def to_latex(self, confidence_level: float | None = None, **paper: Any) -> str:
        """Return the table of the summary as LaTeX, with the options of `Summary.to_latex`."""
        return self.summary(confidence_level).to_latex(**paper)

    def to_markdown(self, confidence_level: float | None = None, **paper: Any) -> str:
        """Return the table of the summary in Markdown, with the same options."""
        return self.summary(confidence_level).to_markdown(**paper)


# Set here, because a dataclass takes what stands in its body for a default.
Estimates.error = StandardErrors()
Estimates.estimate = ShownEstimates()  # type: ignore[assignment]


@dataclass(frozen=True, eq=False, repr=False)
class Test(Printed):
    """Test of the value of each estimand, without additional privacy cost.

    Attributes
    ----------
    statistic : float or array
        Distance of the estimate from the value in standard errors. For means of groups and for tables these are
        the standard errors if the value is true, as in a score test.
    pvalue : float or array
    value : float or array
        Value under the null hypothesis.
    alternative : {"two-sided", "less", "greater"}
    estimates : Estimates
    adjusted : bool
        Whether p-values are adjusted for all tests together.
    scope : bool, optional
        Whether to adjust all tests together. None is the default of the estimates.
    joint : str
        Name of the one test of all estimates together. Empty if each estimate has its own test.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.means import ClippedMean
    >>> X = np.random.default_rng(0).normal(0.3, 1.0, size=(1000, 1))
    >>> test = ClippedMean(clip=4.0, random_state=0).fit(X).test(value=0.0)
    >>> test.alternative, bool((test.pvalue < 0.01).all())
    ('two-sided', True)
    """

    __test__ = False  # of pytest's

    statistic: Any
    pvalue: Any
    value: Any
    alternative: str
    estimates: Estimates = field(repr=False)
    adjusted: bool = False
    joint: str = ""
    scope: bool | None = None

    @property
    def estimand(self) -> str:
        """Description of the tested quantity."""
        return self.estimates.estimand

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tests: of the tested estimates, or of the one joint test."""
        return (self.joint,) if self.joint else self.estimates.names

    @property
    def simulated(self) -> bool:
        """Whether the noise of the release was simulated."""
        return self.estimates.simulated

    def confidence_interval(self, confidence_level: float | None = None) -> ConfidenceInterval:
        """Return the interval of the values that are not rejected; one-sided for a one-sided alternative."""
        return self.estimates.confidence_interval(
            confidence_level,
            simultaneous=self.scope if self.scope is not None else (True if self.joint else None),
            alternative=self.alternative,
        )

    def summary(self) -> Summary:
        """Return a table. It prints as text, and shows as HTML in a notebook."""
        numbers = (np.ravel(column) for column in (self.value, self.statistic, self.pvalue))
        rows = zip(self.names, *numbers, strict=True)
        notes = [FREE]
        if self.adjusted and not self.joint:
            words = self.estimates.together.words
            notes.append(f"P-values are adjusted for all tests together by {words}.")
        elif not self.joint:
            notes.append("P-values are not adjusted for several tests.")
        return Summary(
            "Private test of a value",
            [("Tested", self.estimand), ("Alternative", f"it {_IN_WORDS[self.alternative]} the value")],
            ["", "value", "statistic", "p-value"],
            [(name, f"{value:g}", UNKNOWN if np.isnan(z) else f"{z:.3f}", f"{p:.4g}") for name, value, z, p in rows],
            [*notes, *[SIMULATED] * self.simulated],
        )

    def _records(self) -> Records:
        columns = {"value": self.value, "statistic": self.statistic, "pvalue": self.pvalue}
        return Records(
            self.names,
            {name: np.ravel(values).tolist() for name, values in columns.items()},
            {"estimand": self.estimand, "alternative": self.alternative, "simulated": self.simulated},
        )


class HasEstimates(Reported, ABC):
    """Base of the objects with `Estimates`, which share their intervals, tests, tables and plot.

    A class with a choice of estimates defines it once, as a parameter of `estimates`. Intervals, tests and the
    summary take it too.

    Examples
    --------
    >>> from dpstats.inference import HasEstimates
    >>> from dpstats.means import ClippedMean
    >>> issubclass(ClippedMean, HasEstimates)
    True
    """

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        if "estimates" in vars(cls):
            for name in ("confidence_interval", "test", "summary"):
                if getattr(cls, name).__qualname__ == f"HasEstimates.{name}":
                    setattr(cls, name, _add_options(getattr(HasEstimates, name), cls.estimates))

    @abstractmethod
    def estimates(self, *args: Any, **options: Any) -> Estimates:
        """Return the estimates with the distribution of their errors. They can be pickled alone."""

    @property
    def estimate_(self) -> Any:
        """The estimates that intervals are about: a number, or an array."""
        return plain(self.estimates().estimate)

    @property
    def standard_error_(self) -> Any:
        """Standard deviations of the errors of ``estimate_``: sampling error and noise."""
        return plain(self.estimates().error)

    @property
    def names_(self) -> tuple[str, ...]:
        """A name for each estimate, in the order of ``numpy.ravel``."""
        return self.estimates().names

    @property
    def estimand_(self) -> str:
        """Description of the estimand of the default intervals."""
        return self.estimates().estimand

    def test(
        self, value: Any = None, alternative: str | None = None, *, simultaneous: bool | None = None, **options: Any
    ) -> Test:
        """Test each estimand for equality with ``value``, without additional privacy cost.

        The test rejects at level a where the interval of level 1 - a excludes the value.

        Parameters
        ----------
        value : float or array, optional
            Value under the null hypothesis. Labels are matched to columns by name. Default: the usual null hypothesis,
            which is 1 for ratios, and 0 for what can be positive and negative. It must be given for others, such as a
            proportion.
        alternative : {"two-sided", "less", "greater"}, default="two-sided"
            Alternative hypothesis: the estimand is not, is less than, or is greater than the value.
        simultaneous : bool, default=False
            Adjust the p-values for all estimates together.
        **options
            Options of `estimates`, if there are any.

        Returns
        -------
        Test
            ``statistic`` and ``pvalue``, of the shape of the estimates, and ``confidence_interval()``.
        """
        return self.estimates(**options).test(value, alternative, simultaneous=simultaneous)

    def summary(self, confidence_level: float | None = None, *given: Any, **options: Any) -> Summary:
        """Return a table of estimates and intervals; prints as text, shows as HTML in a notebook."""
        return self.estimates(*given, **options).summary(confidence_level)

    def confidence_interval(
        self,
        confidence_level: float | None = None,
        *,
        simultaneous: bool | None = None,
        alternative: str | None = None,
        **options: Any,
    ) -> ConfidenceInterval:
        """Return an interval for each estimate, which accounts for the privacy noise.

        Parameters
        ----------
        confidence_level : float, optional
            Default: 0.95, or the only level that the estimator has.
        simultaneous : bool, optional
            Whether the level holds for all intervals simultaneously. By default it holds for each interval.
        alternative : {"two-sided", "less", "greater"}, optional
            A one-sided interval contains the values that a test for this alternative does not reject.
        **options
            Options of `estimates`, if there are any.

        Returns
        -------
        ConfidenceInterval
            ``low`` and ``high``, of the shape of the estimates, and a description of the ``estimand``.
        """
        found = self.estimates(**options)
        return found.confidence_interval(confidence_level, simultaneous=simultaneous, alternative=alternative)

    def _records(self, confidence_level: float | None = None) -> Records:
        return self.estimates()._records(confidence_level)

    def to_frame(self, confidence_level: float | None = None) -> Any:
        """Return estimates, standard errors and intervals as a data frame of pandas, a row for each estimate."""
        return self._records(confidence_level).as_frame()

    def to_dict(self, confidence_level: float | None = None) -> dict[str, Any]:
        """Return the same as JSON has it."""
        return self._records(confidence_level).as_dict()

    def to_latex(self, confidence_level: float | None = None, **paper: Any) -> str:
        """Return the table of the summary as LaTeX, with the options of `Summary.to_latex`."""
        return self.summary(confidence_level).to_latex(**paper)

    def to_markdown(self, confidence_level: float | None = None, **paper: Any) -> str:
        """Return the table of the summary in Markdown, with the same options."""
        return self.summary(confidence_level).to_markdown(**paper)

    def plot(self, ax: Any = None, confidence_level: float | None = None, **style: Any) -> Any:
        """Draw the estimates with their intervals, and return the Axes; see `Estimates.plot`."""
        return self.estimates().plot(ax, confidence_level, **style)


def _add_options(question: Callable[..., Any], estimates: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that takes the options of ``estimates``, with a signature that names them."""

    @wraps(question)
    def ask(self: HasEstimates, *given: Any, **options: Any) -> Any:
        return question(self, *given, **options)

    _, *options = signature(estimates).parameters.values()
    stated = signature(question)
    own = [each for each in stated.parameters.values() if each.name not in ("given", "options")]
    named = [option.replace(kind=Parameter.KEYWORD_ONLY) for option in options]
    ask.__signature__ = stated.replace(parameters=[*own, *named])  # type: ignore[attr-defined]
    return ask


def _checked_value(value: Any, shape: tuple[int, ...]) -> Floats:
    """Return values under a null hypothesis, one for each estimate."""
    found = attempt(lambda: np.array(np.broadcast_to(np.asarray(value, dtype=np.float64), shape)), Exception)
    if found is None:
        allowed = f"a number, or one for each estimate (an array of shape {shape})"
        raise refuse("value", given=value, allowed=allowed)
    return found
