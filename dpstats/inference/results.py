"""Results of fits: frozen objects with text for a terminal and HTML for a notebook."""

from __future__ import annotations

import html
import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import printable
from dpstats.errors import attempt, refuse
from dpstats.inference.papers import UNKNOWN, latex_table, markdown_table, split_indent, wrap_heads
from dpstats.inference.reports import SIMULATED, Printed, Records, Reported

__all__ = ["ConfidenceInterval", "JointTest", "Summary", "TermTests", "about_missing", "with_missing"]

Numbers = float | NDArray[np.float64]
FREE = "This uses the release alone, without additional privacy cost."
Result = TypeVar("Result", bound="HypothesisTest")


class OneNumber(np.ndarray[Any, np.dtype[np.float64]]):
    """An array of one number in any number of dimensions, which ``float`` and format specifications accept."""

    def __float__(self) -> float:
        return float(self.item())

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec else str(self)

    def __repr__(self) -> str:
        return repr(np.asarray(self))


def plain(values: Any) -> Any:
    """Return numbers as users get them: a float for no dimension, otherwise an array of this shape.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.inference.results import plain
    >>> pvalue = plain(np.array([0.25]))
    >>> pvalue.shape, float(pvalue), plain(np.float64(0.5))
    ((1,), 0.25, 0.5)
    """
    array = np.asarray(values)
    if array.ndim == 0:
        return float(array)
    return array.view(OneNumber) if array.size == 1 and array.dtype == np.float64 else array


class HypothesisTest(Printed):
    """Base of the results of tests.

    `_numbers` names the attributes that have a number for each row of the table, and `_facts_of_all` those about all
    rows. A row is for each of ``names`` if there are several, and otherwise for the null hypothesis.
    """

    __slots__ = ()

    _numbers: ClassVar[tuple[str, ...]] = ()
    _facts_of_all: ClassVar[tuple[str, ...]] = ("null",)
    _several: ClassVar[bool] = False

    @abstractmethod
    def summary(self) -> Summary:
        """Return a table. It prints as text, and shows as HTML in a notebook."""

    def _records(self) -> Records:
        columns = {name: np.ravel(getattr(self, name)).tolist() for name in self._numbers}
        facts = {name: getattr(self, name) for name in self._facts_of_all}
        rows = getattr(self, "names" if self._several else "null")
        return Records(rows if self._several else [rows], columns, {**facts, "simulated": self._simulated})

    @property
    def _simulated(self) -> bool:
        """Whether the noise of the release was simulated."""
        return self._background().simulated


class HasResult(Reported, Generic[Result]):
    """An estimator that tests a hypothesis: its fit sets ``result_``, whose tables are its own."""

    result_: Result

    def _result(self) -> Result:
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self, "result_")
        return self.result_

    def summary(self) -> Summary:
        """Return a table. It prints as text, and shows as HTML in a notebook."""
        return self._result().summary()

    def _records(self) -> Records:
        return self._result()._records()


@dataclass(frozen=True, slots=True, eq=False)
class ConfidenceInterval(Reported):
    """A confidence interval, or one per column.

    Unpacks and indexes as the pair ``(low, high)``, as scipy's does.

    Attributes
    ----------
    low, high : float or array
        Limits, in the units of the estimate.
    confidence_level : float
    estimand : str
        Description of the estimand.
    simultaneous : bool
        Whether ``confidence_level`` holds for all intervals simultaneously.
    names : sequence of str
        A name for each interval; can be empty.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.means import ClippedMean
    >>> X = np.random.default_rng(0).normal(size=(1000, 2))
    >>> interval = ClippedMean(clip=4.0, random_state=0).fit(X).confidence_interval(0.95)
    >>> low, high = interval
    >>> interval.estimand, low.shape
    ('the mean of the population if it were clipped, E[clip(x)]', (2,))
    """

    low: Numbers
    high: Numbers
    confidence_level: float = 0.95
    estimand: str = ""
    simultaneous: bool = False
    names: Sequence[str] = field(default=(), repr=False)

    @classmethod
    def around(
        cls, center: Any, half_width: Any, confidence_level: float, estimand: str, simultaneous: bool = False
    ) -> ConfidenceInterval:
        """Return the interval ``center`` plus or minus ``half_width``."""
        middle = attempt(lambda: np.asarray(center, dtype=np.float64), Exception)
        if middle is None:
            raise refuse("center", given=center, allowed="a number, or numbers")
        low, high = middle - half_width, middle + half_width
        if low.ndim == 0:
            return cls(float(low), float(high), confidence_level, estimand, simultaneous)
        return cls(low, high, confidence_level, estimand, simultaneous)

    def summary(self) -> Summary:
        """Return a table. It prints as text, and shows as HTML in a notebook."""
        names, columns, _ = self._records()
        rows = [(name, *(f"{end:.6g}" for end in ends)) for name, *ends in zip(names, *columns.values(), strict=True)]
        together = "Intervals are simultaneous." if self.simultaneous else "Intervals are not simultaneous."
        facts = [("Level", f"{100 * self.confidence_level:g}%"), ("Intervals cover", self.estimand)]
        return Summary("Confidence intervals", facts, ["", "low", "high"], rows, [together])

    def _records(self) -> Records:
        columns = {"low": np.ravel(self.low).tolist(), "high": np.ravel(self.high).tolist()}
        facts = {
            "estimand": self.estimand,
            "confidence_level": self.confidence_level,
            "simultaneous": self.simultaneous,
        }
        return Records(self.names or [str(i) for i in range(len(columns["low"]))], columns, facts)

    def __iter__(self) -> Iterator[Numbers]:
        return iter((self.low, self.high))

    def __getitem__(self, index: int) -> Numbers:
        return (self.low, self.high)[index]

    def __len__(self) -> int:
        return 2


@dataclass(frozen=True, slots=True)
class JointTest(HypothesisTest):
    """Joint test of several hypotheses, such as all coefficients are 0, without additional privacy cost.

    Attributes
    ----------
    statistic : float
        F: Wald's statistic over ``df_num``.
    pvalue : float
    df_num, df_denom : int
        Degrees of freedom.
    names : tuple of str
        Names of the coefficients, or the hypotheses as text.
    simulated : bool
        Whether the noise of the release was simulated.
    remarks : tuple of str
        They name the distribution of p-values, if it is not F with these degrees of freedom.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.regression import PrivateLinearRegression
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(5000, 3))
    >>> y = X @ [1.0, 0.5, 0.0] + np.random.default_rng(1).normal(size=5000)
    >>> model = PrivateLinearRegression(x_bounds=(-1, 1), y_bounds=(-5, 5), random_state=0).fit(X, y)
    >>> test = model.f_test(["x0", "x1"])
    >>> test.df_num, test.pvalue < 0.001
    (2, True)
    """

    _numbers: ClassVar[tuple[str, ...]] = ("statistic", "pvalue", "df_num", "df_denom")

    statistic: float
    pvalue: float
    df_num: int
    df_denom: int
    names: tuple[str, ...]
    simulated: bool = field(default=False, kw_only=True)
    remarks: tuple[str, ...] = field(default=(), kw_only=True)

    def summary(self) -> Summary:
        """Return a table. It prints as text, and shows as HTML in a notebook."""
        statistic, pvalue = print_test(self.statistic, self.pvalue)
        row = (statistic, f"{self.df_num}", f"{self.df_denom}", pvalue)
        return Summary(
            "Private test of several coefficients",
            [("Null hypothesis", self.null)],
            ["F", "df", "df of residuals", "p-value"],
            [row],
            [FREE, *self.remarks, *[SIMULATED] * self.simulated],
        )

    @property
    def null(self) -> str:
        """The null hypothesis as text."""
        names = ", ".join(self.names)
        return names if "=" in names else f"{names}: all 0"


@dataclass(frozen=True, slots=True, eq=False)
class TermTests(HypothesisTest):
    """Joint test of the coefficients of each term of a model, without additional privacy cost.

    Attributes
    ----------
    statistic, pvalue : ndarrays of shape (n_terms,)
        F, Wald's statistic over ``df_constraint``, and its p-value.
    df_constraint : ndarray of shape (n_terms,)
        Number of coefficients of each term.
    df_denom : int
        Degrees of freedom of the residuals.
    names : tuple of str
        The terms.
    simulated : bool
        Whether the noise of the release was simulated.
    remarks : tuple of str
        They name the distribution of p-values, if it is not F with these degrees of freedom.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.regression import PrivateLinearRegression
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(5000, 2))
    >>> y = X @ [1.0, 0.0] + np.random.default_rng(1).normal(size=5000)
    >>> model = PrivateLinearRegression(x_bounds=(-1, 1), y_bounds=(-5, 5), random_state=0).fit(X, y)
    >>> (model.wald_test_terms().to_frame()["pvalue"] < 0.001).to_dict()
    {'Intercept': False, 'x0': True, 'x1': False}
    """

    _numbers: ClassVar[tuple[str, ...]] = ("statistic", "pvalue", "df_constraint")
    _facts_of_all: ClassVar[tuple[str, ...]] = ("df_denom",)
    _several: ClassVar[bool] = True

    statistic: NDArray[np.float64]
    pvalue: NDArray[np.float64]
    df_constraint: NDArray[np.int64]
    df_denom: int
    names: tuple[str, ...]
    simulated: bool = field(default=False, kw_only=True)
    remarks: tuple[str, ...] = field(default=(), kw_only=True)

    def summary(self) -> Summary:
        """Return a table. It prints as text, and shows as HTML in a notebook."""
        numbers = zip(self.names, self.statistic, self.pvalue, self.df_constraint, strict=True)
        return Summary(
            "Private tests of terms",
            [("Null hypothesis", "all coefficients of the term are 0"), ("df of residuals", f"{self.df_denom:,}")],
            ["", "F", "P>F", "df constraint"],
            [(name, *print_test(f, p), str(df)) for name, f, p, df in numbers],
            [FREE, *self.remarks, *[SIMULATED] * self.simulated],
        )


def print_test(statistic: float, pvalue: float) -> tuple[str, str]:
    """Return a statistic and its p-value as text: dashes if both are NaN."""
    return (UNKNOWN, UNKNOWN) if np.isnan(statistic) else (f"{statistic:.3f}", f"{pvalue:.4g}")


@dataclass(frozen=True, slots=True)
class Summary(Reported):
    """A titled table with facts above and notes below: text in a terminal, HTML in a notebook.

    Attributes
    ----------
    title : str
    facts : sequence of (name, value)
        Facts about the whole fit.
    columns : sequence of str
        Headers of the table; the first is the name of the row.
    rows : sequence of sequences of str
    notes : sequence of str

    Examples
    --------
    >>> from dpstats.inference.results import Summary
    >>> print(Summary("Counts", [("Rows", "100")], ["", "count"], [["yes", "71"], ["no", "30"]]))
      Counts
    ==========
    Rows: 100
    ----------
         count
    ----------
    yes     71
    no      30
    ==========
    """

    title: str
    facts: Sequence[tuple[str, str]]
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    def summary(self) -> Summary:
        """Return the summary itself."""
        return self

    def to_latex(self, *, caption: str | None = None, label: str | None = None, notes: bool | None = None) -> str:
        """Return the table as LaTeX; see `dpstats.inference.reports.Reported.to_latex`."""
        return latex_table(self, caption=caption, label=label, notes=notes)

    def to_markdown(self, *, caption: str | None = None, label: str | None = None, notes: bool | None = None) -> str:
        """Return the table in Markdown; see `dpstats.inference.reports.Reported.to_markdown`."""
        return markdown_table(self, caption=caption, label=label, notes=notes)

    def _records(self) -> Records:
        names = [row[0] for row in self.rows]
        cells = zip(*(row[1:] for row in self.rows), strict=True)
        columns = dict(zip(self.columns[1:], map(list, cells), strict=True)) if self.rows else {}
        return Records(names, columns, {"title": self.title, **dict(self.facts), "notes": list(self.notes)})

    def as_text(self) -> str:
        """Return the summary as plain text."""
        table = [[printable(cell) for cell in row] for row in (self.columns, *self.aligned(" "))]
        heads = 1
        if sum(max(map(len, column)) + 2 for column in zip(*table, strict=True)) > _WIDEST + 2:
            lines = wrap_heads(self, len)
            heads = max(map(len, lines))
            above = [[""] * (heads - len(each)) + [*map(printable, each)] for each in lines]
            table[:1] = [list(row) for row in zip(*above, strict=True)]
        widths = [max(len(row[j]) for row in table) for j in range(len(self.columns))]

        def line(row: Sequence[str]) -> str:
            cells = [row[0].ljust(widths[0]), *[cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True)]]
            return "  ".join(cells).rstrip()

        names = max((len(name) for name, _ in self.facts), default=0)
        facts = [printable(f"{name + ':':<{names + 1}} {value}") for name, value in self.facts]
        notes = [printable(f"[{i}] {note}") for i, note in enumerate(self.notes, 1)]
        width = max(sum(widths) + 2 * (len(widths) - 1), len(self.title), *(len(fact) for fact in facts), 0)
        width = min(width, _WIDEST)
        # A fact of several sentences is a paragraph; a short one stays on its line, where a search finds it.
        facts = [line for fact in facts for line in (_wrapped(fact, width, names + 2) if ". " in fact else [fact])]
        body = [line(row) for row in table]
        parts = [self.title.center(width).rstrip(), "=" * width, *facts, "-" * width]
        parts += [*body[:heads], "-" * width, *body[heads:], "=" * width]
        for note in notes:
            parts += _wrapped(note, width)
        return "\n".join(parts)

    def aligned(self, blank: str) -> list[list[str]]:
        """Return the rows, numbers padded behind so that the decimal points of a column are below each other."""
        columns = [list(column) for column in zip(*self.rows, strict=True)]
        return [list(row) for row in zip(*(columns[:1] + [_padded(c, blank) for c in columns[1:]]), strict=True)]

    def as_html(self) -> str:
        """Return the summary as an HTML fragment with its style, without scripts or outside references."""
        cell, line = html.escape, "border-bottom:1px solid #dde3ea"
        left = f'style="text-align:left;padding:.15em .8em .15em 0;font-weight:normal;{line}"'
        right = (
            f'style="text-align:right;padding:.15em .8em;white-space:nowrap;font-variant-numeric:tabular-nums;{line}"'
        )
        facts = "".join(
            f"<tr><th {left}>{cell(name)}</th><td {left}>{cell(value)}</td></tr>" for name, value in self.facts
        )
        # Words of headers stand below each other where the page is narrow, and a table that is still wide scrolls.
        above = right.replace("nowrap", "normal;vertical-align:bottom")
        head = "".join(
            f'<th scope="col" {above if j else left}>{cell(name)}</th>' for j, name in enumerate(self.columns)
        )
        rows = "".join(
            f'<tr><th scope="row" {left}>{"".join(split_indent(cell(row[0]), "&emsp;"))}</th>'
            + "".join(f"<td {right}>{cell(value)}</td>" for value in row[1:])
            + "</tr>"
            for row in self.aligned("\u2007")
        )
        notes = "".join(f"<li>{cell(note)}</li>" for note in self.notes)
        table = 'style="border-collapse:collapse;margin:.4em 0"'
        return (
            f'<div class="dpstats-summary"><h4 style="margin:.4em 0">{cell(self.title)}</h4>'
            f'<table class="facts" {table}>{facts}</table>'
            + (
                f'<div style="overflow-x:auto"><table class="estimates" {table}><thead><tr>{head}</tr></thead>'
                f"<tbody>{rows}</tbody></table></div>"
                if self.columns
                else ""
            )
            + (f'<ol style="max-width:55em">{notes}</ol>' if notes else "")
            + "</div>"
        )

    def __str__(self) -> str:
        return self.as_text()

    __repr__ = __str__


def about_missing(missing: str, counts_as: str = "the center of the bounds", what: str = "Missing entries") -> str:
    """Return the treatment of missing entries and the estimand; "" if they raise an error.

    Parameters
    ----------
    missing : {"error", "center", "drop"}
        The policy of the fit.
    counts_as : str
        Replacement of a missing entry for ``missing="center"``.
    what : str
        Name of the replaced entries.

    Examples
    --------
    >>> from dpstats.inference.results import about_missing
    >>> about_missing("drop")
    'Rows with a missing entry are left out. The result is about the observed rows, whose number is private.'
    """
    if missing == "center":
        return (
            f"{what} count as {counts_as}. The result is about all rows after this replacement, not about the "
            "observed entries alone."
        )
    if missing == "drop":
        return "Rows with a missing entry are left out. The result is about the observed rows, whose number is private."
    return ""


def observed_rows(rows: float, noise_std: float) -> str:
    """Return the noisy number of observed rows, and its noise, as text.

    Examples
    --------
    >>> from dpstats.inference.results import observed_rows
    >>> observed_rows(3911.7, 14.2)
    '3,912 (noise sd 14.2)'
    """
    shown = f"{max(rows, 0.0):,.0f}" if noise_std >= 1 else significant(rows, noise_std)
    return f"{shown} (noise sd {noise_std:.3g})"


def in_percent(share: float, std: float) -> str:
    """Return a released fraction as text, with the standard deviation of its noise.

    Examples
    --------
    >>> from dpstats.inference.results import in_percent
    >>> in_percent(0.0312, 0.004)
    '3.1% (noise sd 0.4%)'
    """
    noise = f"{100 * std:.1g}" if std < 0.01 else f"{100 * std:.0f}"
    shown = f"{100 * min(max(share, 0.0), 1.0):.1f}%" if std < _HIDES_A_SHARE else "–"
    return f"{shown} (noise sd {noise}%)"


def few_observed(rows: float, noise_std: float) -> list[str]:
    """Return a note where the number of observed rows is noise alone."""
    if rows >= 2 * noise_std:
        return []
    return [
        "Noise only: the number of observed rows cannot be distinguished from 0, and the intervals show the bounds. "
        "Use more rows or a larger epsilon."
    ]


def with_missing(estimand: str, sentence: str) -> str:
    """Return an estimand, followed by the sentence of `about_missing` unless it is empty."""
    return f"{estimand}. {sentence}" if sentence else estimand


def _wrapped(text: str, width: int, indent: int = 4) -> list[str]:
    import textwrap

    return textwrap.wrap(text, max(width, 60), subsequent_indent=" " * indent)


_WIDEST = 110
"""Letters of a line of a printed summary."""
_HIDES_A_SHARE = 0.5
"""Noise from which a fraction is not shown."""
_NUMBER = re.compile(r"[-+]?[\d,]+(\.\d+)?")


def _padded(cells: Sequence[str], blank: str) -> list[str]:
    """Return the cells of a column, numbers padded behind to as many decimals as the longest has."""
    behind = [len(found.group(1) or "") if (found := _NUMBER.fullmatch(cell)) else -1 for cell in cells]
    most = max(behind, default=0)
    return [cell + blank * (most - count) if count >= 0 else cell for cell, count in zip(cells, behind, strict=True)]


def print_rounded(values: Iterable[float], errors: Iterable[float]) -> list[str]:
    """Return numbers to about two significant digits of their errors."""
    return [significant(*pair) for pair in zip(values, errors, strict=True)]


def list_some(names: Sequence[Any], most: int = 6) -> str:
    """Return the first names as text, and how many more there are.

    Examples
    --------
    >>> from dpstats.inference.results import list_some
    >>> list_some(["a", "b", "c", "d"], most=2)
    'a, b and 2 more'
    """
    left, shown = len(names) - most, map(str, names[:most])
    # Entries and cells have names such as "x0, x1". Formulas have commas in brackets.
    listed = ", ".join(f"({name})" if ", " in re.sub(r"[(\[].*[)\]]", "", name) else name for name in shown)
    return listed + (f" and {left:,} more" if left > 0 else "")


NOISE_ONLY = 2.0
"""Standard deviations of its noise below which a released number cannot be distinguished from 0."""
SHOWN_ALONE = 10 / 3
"""Standard deviations of its noise below which a number without an interval is not shown."""
_ONE_ROW = 0.01
"""Noise below this fraction of one row's effect hides nothing."""


def hide_noise(value: Any, noise_std: Any, one_row: Any, least: float = NOISE_ONLY) -> NDArray[np.float64]:
    """Return numbers that cannot be negative, such as variances: NaN where noise hides them.

    ``one_row`` is the most that one row moves a number by. Where the noise is far below it, a number that is smaller
    than its noise is 0. ``least`` counts standard deviations of the noise.

    >>> import numpy as np
    >>> from dpstats.inference.results import hide_noise
    >>> hide_noise([9.0, 1.0, -1.0], 1.0, 0.5)
    array([ 9., nan, nan])
    >>> hide_noise([9.0, 1e-4, -1e-4], 1e-3, 0.5)
    array([9., 0., 0.])
    """
    value, noise, unit = np.broadcast_arrays(np.asarray(value, dtype=np.float64), noise_std, one_row)
    with np.errstate(all="ignore"):
        seen = (value > 0) & (value >= least * noise)
        return np.where(seen, value, np.where(noise <= _ONE_ROW * unit, 0.0, np.nan))


def spread_of(
    variance: Any, noise_std: Any, one_row: Any, least: float = SHOWN_ALONE
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return standard deviations by `hide_noise`, and the standard deviation of their noise, NaN if hidden.

    >>> import numpy as np
    >>> from dpstats.inference.results import spread_of
    >>> std, noise = spread_of(np.array([25.0, 1.0]), 2.0, 1.0)
    >>> std, noise
    (array([ 5., nan]), array([0.2, nan]))
    """
    with np.errstate(all="ignore"):
        kept = hide_noise(variance, noise_std, one_row, least)
        std = np.sqrt(kept)
        # Near 0 the square root is not linear: the noise of a variance v moves it by at most sqrt(v).
        noise = np.minimum(noise_std / (2 * std), np.sqrt(np.maximum(noise_std, 0.0)))
    return std, np.where(np.isnan(kept), np.nan, noise)


def print_spreads(std: Any, noise_std: Any) -> list[str]:
    """Print standard deviations, each with its noise, as the cells of a column.

    >>> from dpstats.inference.results import print_spreads
    >>> print_spreads([5.0, float("nan")], [0.2, float("nan")])
    ['5.00 (0.20)', '–']
    """
    pairs = zip(np.ravel(std).tolist(), np.ravel(noise_std).tolist(), strict=True)
    return [
        UNKNOWN if np.isnan(value) else f"{significant(value, noise)} ({significant(noise)})" for value, noise in pairs
    ]


SPREAD = "std (noise sd)"
"""Header of a column of `print_spreads`."""


def hidden_spreads_note(names: Sequence[str], std: Any) -> list[str]:
    """Return a note that names the columns or groups whose standard deviation is hidden by noise, if there are any."""
    hidden = [name for name, value in zip(names, np.ravel(std).tolist(), strict=True) if np.isnan(value)]
    if not hidden:
        return []
    return [
        f"No standard deviation is shown for {list_some(hidden, 5)}: noise hides the variance. Use more rows, "
        "narrower bounds or a larger epsilon."
    ]


def significant(value: float, reference: float | None = None) -> str:
    """Format a number to about two significant digits of ``reference``, its error (default: itself).

    NaN is a dash.
    """
    if np.isnan(value):
        return UNKNOWN
    scale = abs(value if reference is None else reference)
    if not np.isfinite(value) or scale == 0 or not np.isfinite(scale):
        return f"{value:.6g}"
    digits = 1 - int(np.floor(np.log10(scale)))
    if digits > 12 or abs(value) >= 1e15:
        return f"{value:.6g}"
    return f"{value:,.{max(digits, 0)}f}"
