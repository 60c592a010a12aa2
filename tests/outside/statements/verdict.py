"""The verdict about a cell: are its answers as often right as they say, or does the output name why not?"""

from __future__ import annotations

import math
import os
import re
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpstats.errors import InvalidData, InvalidParameter
from tests.outside.statements.populations import Draw

FEWEST, MOST = 60, 1000
LOOKS = 20
"""Replications between two looks at the count."""
FALSE_ALARM = 1e-3
SHARES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 0.95)
"""Of the miss rates above the allowed one, those that the test mixes."""
WIDE = 5.0

STANDING = (
    "Simulated noise",
    "z and intervals include sampling error",
    "Standard errors assume residuals of one variance",
    "Coefficients describe a weighted fit with bounded rows and clipped residuals",
    "Intervals are not simultaneous",
    "E[clip(x)] is the mean of a group",
    "Groups whose noisy count is below",
    "This uses the release alone",
    "P-values are not adjusted",
    "Rows with a missing entry",
    "Rows with an undeclared or missing label",
    "factors ",
    "a level with",
    "for columns",
    "a yes/no column needs",
    "Groups count as randomized",
    "Groups are compared at equal covariates",
    "Censoring is assumed to be independent",
    "Events are assumed to be spread smoothly",
    "Proportional hazards are assumed",
    "The level is measured",
    "N, observed and expected are of the first stage",
    "The p-value is adjusted",
    "The curve",
    "The guarantee holds if the function uses only",
    "E[clip(x)] is the mean of the population",
    "The column 'std",
    "The column 'bias'",
    "The first half of the rows",
    "The intervals exclude sampling error",
    "The intervals include the largest bias",
    "The last stage clipped about",
    "The sampling error uses",
    "Selected columns",
    "Every entry beyond the bounds",
    "Entries at a bound may be codes",
    "Intervals assume no distribution",
    "Intervals hold for any rows",
    "Intervals assume that each unit",
    'estimand="tails" gives',
    'tails="variance" assumes',
    "Shares are of one distribution",
    "Answers are of one distribution",
    "The interval reflects privacy noise only",
    "Intervals reflect privacy noise only",
    "The interval accounts for",
    "Intervals account for",
    "Counts are as released",
    "The band assumes independent rows",
    "Bands include sampling error",
    "Intervals include sampling error",
    "The contribution of one",
    "The rows of one person",
    "COUNT(*) has the noise",
    "The p-value accounts for",
    "The group of every row",
    "The group sizes are private",
    "The critical value and the p-value",
    "The null hypothesis is the whole",
    "A single name is a variance",
    "The interval of the difference contains 0",
    "The limits are the reciprocals",
    "NaN: too few rows",
    "Rows in no cell",
    "Intervals cover ",
    "One sample may be empty",
    "Groups are not compared",
    "Intervals include sampling error and noise, by",
    "A limit that equals a bound",
    "Intervals hold for independent rows",
    "Rows with an undeclared label",
    "The bounds were chosen from the rows",
    "Bounds were chosen from the rows",
    "Coverage of at least",
    "Coverage assumes",
    "An interval is infinite",
    "A set has all classes",
    "–: hidden by the noise",
    "Numbers beyond the bounds of their column",
    "Equal values are put",
    "The p-value is the largest over all sizes",
    "No standard deviation is shown",  # it says nothing about means, tests and differences
)
"""Notes that do not say that something is off: most fits of a class have them."""
CONDITIONAL = {
    "Slopes assume residuals no more skewed": "skewness depends on x",
    "Slopes assume residuals hardly skewed": "skewed residuals",
    "ntercept assumes residuals": "heavy residuals",
    "assume outcomes within": "clipped outcomes",
    "Coefficients of factors assume": "skewness depends on x",
    "Differences assume residuals that are no more skewed": "skewness depends on x",
    "Intervals assume that the kurtosis": "long-tailed",
    "normal residuals": "other residuals",
    "residuals of a sixth": "narrow residuals",
    "Intervals assume that the clipped rows are normal": "not normal",
    'tails="symmetric" assumes': "skewed",
    "assumes that the tails": "other tails",
    "assume that the tails": "other tails",
    "Near the quantile there must be no gap": "uneven",
    "if many rows share a value near the quantile": "uneven",
    "not elliptical can have": "not elliptical",
    "The test may reject": "another null",
    "if scores have the tails": "other tails",
    "if rows have an elliptical": "not elliptical",
    "Intervals include sampling error, noise, a skewness of a row's": "beyond the allowances",
}
"""Notes that most fits have, and the fact about the population of which they warn."""
ABOUT_SOME = re.compile(r"^(?:Not identified[^:]*|Noise only): (?!at this n)(.*?)\. ")
"""Notes about the coefficients or groups that they list."""
ABOUT_INTERCEPT = re.compile(r"Slopes are not affected|The intercept assumes|^Intercept assumes")


@dataclass(frozen=True)
class Answer:
    """What one fit says.

    Attributes
    ----------
    missed : bool
        Whether it is wrong.
    notes : sequence of str
        Notes of the fit, of the answer and of the plan.
    width : float
        Length of the interval, NaN if there is none or it has one end.
    shown : bool
        False for a number that noise hides, where this depends on the number: it is then not wrong. Among fits that
        show a number just above the limit of what is shown, noise has raised most.
    """

    missed: bool
    notes: Sequence[str]
    width: float = math.nan
    shown: bool = True


@dataclass(frozen=True)
class Cell:
    """A population, an estimator with its options, and a question.

    Attributes
    ----------
    family, question : str
    facts : mapping
        What was drawn.
    about : sequence of str
        Names of the coefficients or groups that the question is about.
    nominal : float
        How often an answer may be wrong, as it says.
    answer : function of a generator
        Draws rows, fits, asks. None where the release does not answer, as of a group that was not found.
    reference : float
        Length of the interval of a public rule at the same privacy, NaN without one.
    is_test : bool
    without_privacy : function of a generator, optional
        Draws the same rows, and returns whether the usual method answers the question wrongly. It tells what privacy
        has no part in.
    """

    family: str
    question: str
    facts: dict[str, Any]
    about: Sequence[str]
    nominal: float
    answer: Callable[[Draw], Answer | None]
    reference: float = math.nan
    is_test: bool = False
    without_privacy: Callable[[Draw], bool] | None = None

    @property
    def allowed(self) -> float:
        """The miss rate above which answers are false: 0.065 for tests of level 0.05, and 0.07 for 95% intervals."""
        if self.is_test:
            return 0.065
        margin = 0.02 * math.sqrt(self.nominal * (1 - self.nominal) / (0.05 * 0.95))
        return self.nominal + margin


@dataclass
class Verdict:
    """What the replications of a cell showed.

    Attributes
    ----------
    kind : str
        "good", "false", "named", "as others", "useless", "undecided", "refused" or "crash".
    fits, missed : int
    noted : float
        Fraction of the fits whose output names a reason.
    ratio : float
        Median length over that of the public rule.
    notes : Counter
        The beginnings of the notes that name a reason.
    """

    kind: str = ""
    fits: int = 0
    missed: int = 0
    noted: float = 0.0
    ratio: float = math.nan
    words: str = ""
    seconds: float = 0.0
    notes: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        missed = f"missed {self.missed} of {self.fits}, noted {100 * self.noted:.0f}%"
        wide = "" if math.isnan(self.ratio) else f", {self.ratio:.2g} times the rule"
        return f"{self.kind}: {missed}{wide}{self.words and '; ' + self.words}"


def evidence(missed: int, fits: int, allowed: float) -> float:
    """Return the mixed likelihood ratio of larger miss rates. It exceeds 1/a with probability a, at all looks together.

    Each ratio is a martingale at the allowed rate, and a supermartingale below it (Ville's inequality).
    """
    rates = allowed + (1 - allowed) * np.array(SHARES)
    hits = (fits - missed) * np.log((1 - rates) / (1 - allowed))
    return float(np.mean(np.exp(np.minimum(missed * np.log(rates / allowed) + hits, 700.0))))


def names_reason(note: str, cell: Cell) -> bool:
    """Return whether a note names a reason for which the answers in a cell may be wrong."""
    if note.startswith("for columns") and cell.question != "planned error":
        return False  # a plan says for what its noise ratio is, and nothing about answers
    for words, fact in CONDITIONAL.items():
        if words in note:
            return bool(cell.facts.get(fact)) and _concerns(note, cell)
    if note.startswith(STANDING):
        return False
    about = cell.about
    if listed := ABOUT_SOME.match(note):
        some = listed[1].replace(" and ", ", ").split(", ")
        named = any(name in some or f"({name})" in listed[1] for name in about)
        intercept = "the intercept and the others are not" in note and "Intercept" in about
        return named or intercept or "..." in listed[1] or "more" in listed[1]
    return _concerns(note, cell)


def _concerns(note: str, cell: Cell) -> bool:
    """Return whether a note is about what a cell asks, as one about the intercept is not about slopes."""
    return "Intercept" in cell.about or not ABOUT_INTERCEPT.search(note)


def _shorten(note: str) -> str:
    """Return the beginning of a note, without the coefficients or groups that it lists."""
    return note.split(": ")[0] if ABOUT_SOME.match(note) else note[:60]


def _stopwatch() -> Callable[[], float]:
    """Return what reads the processor time since now, so that other work on a machine leaves no cell undecided.

    At least a fifth of the wall time: that of processes that are not over yet is not known.
    """

    def read() -> tuple[float, float]:
        return sum(os.times()[:4]), time.monotonic()

    start = read()
    return lambda: max(read()[0] - start[0], (read()[1] - start[1]) / 5)


def judge(cell: Cell, draws: Callable[[int], Draw], seconds: float, allowed: float | None = None) -> Verdict:
    """Return the verdict of as many replications as decide it, for about as long as given.

    ``allowed`` is the miss rate above which answers are false, by default that of the cell.
    """
    found, spent, widths, noted, shown = Verdict(), _stopwatch(), [], 0, 0
    allowed = cell.allowed if allowed is None else allowed
    for replication in range(2 * MOST):
        try:
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                answer = cell.answer(draws(replication))
        except InvalidData:
            # Noise may have left too few rows. Another sample may have an answer.
            answer = None
        except InvalidParameter as error:
            found.kind, found.words = "refused", str(error)[:160]
            break
        except Exception as error:
            found.kind, found.words = "crash", f"{type(error).__name__}: {str(error)[:160]}"
            break
        elapsed = spent()
        late = elapsed > seconds and (found.fits >= FEWEST or elapsed > 3 * seconds)
        if answer is not None:
            found.fits += 1
            found.missed += answer.missed
            shown += answer.shown
            widths.append(answer.width)
            notes = [*answer.notes, *(str(each.message) for each in warned if each.category is UserWarning)]
            reasons = {_shorten(note) for note in notes if names_reason(note, cell)}
            noted += bool(reasons)
            found.notes.update(reasons)
        if replication + 1 == FEWEST and 10 * shown < FEWEST:
            found.kind, found.words = "refused", "hardly ever an answer"
            break
        if late or (replication + 1) % LOOKS == 0 or found.fits == MOST:
            convicted = evidence(found.missed, found.fits, allowed) >= 1 / FALSE_ALARM
            doubtful = found.missed > allowed * found.fits
            if convicted or late or found.fits == MOST or (found.fits >= FEWEST and not doubtful):
                doubtful |= found.fits < FEWEST
                named = 2 * noted >= found.fits
                found.kind = ("named" if named else "false") if convicted else "undecided" if doubtful else "good"
                break
    found.noted = noted / max(found.fits, 1)
    if widths and not math.isnan(cell.reference):
        found.ratio = float(np.median(widths)) / cell.reference
        if found.ratio > WIDE and found.kind != "false":
            found.kind = "useless"
    found.seconds = spent()
    return found
