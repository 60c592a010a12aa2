"""Hypotheses about coefficients as text, distributions of their errors, and limits of columns with two values."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit, gammaln, kve, logit, ndtr, ndtri

from dpstats.data.values import quiet
from dpstats.errors import InvalidParameter, refuse
from dpstats.inference.error_distributions import ErrorDistribution, Limits, StatedErrors, Tail
from dpstats.regression.passes import Floats

# Hypotheses as text


@dataclass(frozen=True, eq=False)
class Hypotheses:
    """Linear combinations of coefficients, and their values under the null hypothesis.

    As text they are "x1 = x2", "dose = 0.5, age = weight = 0", or whole terms such as "C(plan)". Names are searched for
    from the longest to the shortest, plain or in backticks as in a formula: "`-x` = `a b`".

    Attributes
    ----------
    matrix : array of shape (n_hypotheses, n_coefficients)
    values : array of shape (n_hypotheses,)
    names : tuple of str
        Each hypothesis as text.
    """

    matrix: Floats
    values: Floats
    names: tuple[str, ...]

    @classmethod
    def parse(
        cls,
        asked: Any,
        names: Sequence[str],
        first: int,
        parameter: str,
        terms: Mapping[str, Sequence[str]] | None = None,
    ) -> Hypotheses:
        """Parse hypotheses about named coefficients.

        Parameters
        ----------
        asked : str, int, sequence of these, or array of shape (n_hypotheses, n_coefficients)
            Text, positions of slopes, or rows of weights, also as lists of numbers. The hypothesis of a position or a
            row of weights is that the combination equals 0.
        names : sequence of str
            Names of all coefficients, the intercept first if there is one.
        first : int
            The position of the first slope.
        parameter : str
            Name of ``asked`` in error messages.
        terms : mapping of str to sequences of str, optional
            Names of the coefficients of each term. Without it, names such as "C(plan)[T.paid]" show the factors.
        """
        size = len(names)
        if _is_matrix(asked):
            return cls._of_matrix(asked, size, parameter)
        parts = asked if isinstance(asked, Iterable) and not isinstance(asked, str) else [asked]
        whole = _list_factors(names) if terms is None else terms
        whole = {**_quote({name: [name] for name in names} | dict(whole)), **whole}
        # A term with one coefficient has its name.
        whole = {term: columns for term, columns in whole.items() if term not in names}
        found = [hypothesis for part in parts for hypothesis in _one(part, names, first, parameter, whole, asked)]
        if not found:
            raise refuse(parameter, got="none", allowed="have at least one hypothesis")
        rows = np.array([row for row, _ in found])
        made = cls(rows[:, :-1], 0.0 - rows[:, -1], tuple(words for _, words in found))
        return made._checked(parameter)

    @classmethod
    def _of_matrix(cls, asked: Any, size: int, parameter: str) -> Hypotheses:
        widths = {len(row) for row in asked} or {0}
        if widths != {size}:
            got = " or ".join(map(str, sorted(widths)))
            allowed = f"have a column for each coefficient, the intercept first ({size})"
            raise refuse(parameter, got=got, allowed=allowed)
        try:
            matrix = np.array(asked, dtype=np.float64)
        except (TypeError, ValueError):
            matrix = np.full((1, size), np.nan)
        if not np.isfinite(matrix).all():
            raise refuse(parameter, given=asked, allowed="have finite numbers as weights")
        words = tuple(f"c{i}" for i in range(len(matrix)))
        return cls(matrix, np.zeros(len(matrix)), words)._checked(parameter)

    def _checked(self, parameter: str) -> Hypotheses:
        if np.linalg.matrix_rank(self.matrix) < len(self.matrix):
            got = f"{len(self.names)}: {', '.join(self.names[:_MOST_SHOWN_NAMES])}"
            raise refuse(parameter, got=got, allowed="linearly independent hypotheses")
        return self


def _is_matrix(asked: Any) -> bool:
    """Return whether hypotheses are rows of weights."""
    if isinstance(asked, list | tuple):
        return bool(asked) and all(isinstance(row, list | tuple | np.ndarray) for row in asked)
    return isinstance(asked, np.ndarray) and asked.ndim == 2


def _quote(terms: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    """Return the coefficients of each name in backticks, as a whole and for each part of an interaction."""
    plain = {name: columns for name, columns in terms.items() if "`" not in name}
    parts = {":".join(f"`{part}`" for part in name.split(":")): columns for name, columns in plain.items()}
    return parts | {f"`{name}`": columns for name, columns in plain.items()}


def unquote(name: str, names: Sequence[str]) -> str:
    """Return the name of the coefficient that a name, perhaps in backticks, stands for, or the name unchanged."""
    return name if name in names else _quote({each: [each] for each in names}).get(name, [name])[0]


def _list_factors(names: Sequence[str]) -> dict[str, list[str]]:
    """Return the columns of each factor. Columns of its interactions do not belong to it."""
    found: dict[str, list[str]] = {}
    for name in names:
        if "[" in name and name[-1] == "]" and "]:" not in name:
            found.setdefault(name[: name.index("[")], []).append(name)
    return found


def _one(
    asked: Any, names: Sequence[str], first: int, parameter: str, terms: Mapping[str, Sequence[str]], of: Any
) -> list[tuple[Floats, str]]:
    """Return the hypotheses of one text or position: weights with a constant, whose sum is 0, and their text.

    Errors describe ``of``, the text or the container that it is from.
    """
    if isinstance(asked, str):
        return [
            each
            for part in _split(asked, [*names, *terms])
            for each in _Reader(part, names, parameter, terms, of).hypotheses()
        ]
    if isinstance(asked, bool) or not isinstance(asked, int | np.integer):
        allowed = "text as 'x1 = x2', names of coefficients or positions in coef_"
        raise refuse(parameter, got=type(asked).__name__, allowed=allowed)
    slopes = len(names) - first
    if not -slopes <= asked < slopes:
        raise refuse(parameter, given=of, allowed=f"positions in coef_ (n_features = {slopes})")
    place = first + int(asked) % slopes
    return [(np.eye(len(names) + 1)[place], names[place])]


def _split(text: str, names: Sequence[str]) -> list[str]:
    """Return the parts of a text between commas. A comma inside a name does not separate."""
    parts, start, place = [], 0, 0
    while place < len(text):
        found = _name_at(text, place, names)
        if found:
            place += len(found)
            continue
        if text[place] == ",":
            parts.append(text[start:place])
            start = place + 1
        place += 1
    return [*parts, text[start:]]


def _name_at(text: str, place: int, names: Iterable[str]) -> str:
    """Return the longest name that begins at a place and ends as a word, or an empty string."""
    before = text[place - 1 : place]
    if before and (before.isalnum() or before == "_") and (text[place].isalnum() or text[place] == "_"):
        return ""
    fitting = [name for name in names if name and text.startswith(name, place)]
    for name in sorted(fitting, key=len, reverse=True):
        after = text[place + len(name) : place + len(name) + 1]
        ends_a_word = name[-1].isalnum() or name[-1] == "_"
        if not (ends_a_word and after and (after.isalnum() or after in "_[")):
            return name
    return ""


_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_MOST_SHOWN_NAMES = 8
"""Names of coefficients in an error at most."""


class _Reader:
    """Reads ``side = side = ...``, where a side is a sum of coefficients, terms and numbers with signs."""

    def __init__(
        self, text: str, names: Sequence[str], parameter: str, terms: Mapping[str, Sequence[str]], of: Any
    ) -> None:
        self._of = of
        self._text, self._names, self._parameter, self._terms = text, names, parameter, terms
        self._place = 0

    def hypotheses(self) -> list[tuple[Floats, str]]:
        sides = [self._side()]
        while self._takes("="):
            sides.append(self._side())
        if self._rest():
            raise self._refused()
        if len(sides) == 1:
            return [(row, self._words(row)) for row in sides[0]]
        rows = [row for left, right in pairwise(sides) for row in left - right]
        return [(row, f"{self._words(np.append(row[:-1], 0.0))} = {0.0 - row[-1]:g}") for row in rows]

    def _side(self) -> Floats:
        total = np.zeros((1, len(self._names) + 1))
        sign = 1.0
        # A name may begin with a sign.
        if not self._find_name():
            sign = -1.0 if self._takes("-") else 1.0
            self._takes("+")
        while True:
            total = total + sign * self._term()
            if self._takes("+"):
                sign = 1.0
            elif self._takes("-"):
                sign = -1.0
            else:
                return total

    def _term(self) -> Floats:
        found = self._factor()
        while True:
            times, over = self._takes("*"), False
            if not times:
                over = self._takes("/")
            if not times and not over:
                return found
            other = self._factor()
            left, right = (bool(part[:, :-1].any()) for part in (found, other))
            if (left and right) or (over and (right or not other[0, -1])):
                raise self._refused()
            number, rest = (other, found) if not right else (found, other)
            found = rest / number[0, -1] if over else rest * number[0, -1]

    def _factor(self) -> Floats:
        size = len(self._names)
        if name := self._find_name():
            self._place += len(name)
            places = [self._names.index(column) for column in self._terms.get(name, [name])]
            return np.eye(size + 1)[places]
        if self._takes("("):
            found = self._side()
            if not self._takes(")"):
                raise self._refused()
            return found
        rest = self._rest()
        number = _NUMBER.match(rest)
        if number is None:
            raise self._refused()
        self._place += number.end()
        return float(number.group()) * np.eye(size + 1)[[size]]

    def _find_name(self) -> str:
        """Return the name at the place, after blanks outside it, or an empty string."""
        known, place = [*self._names, *self._terms], self._place
        while place < len(self._text):
            if found := _name_at(self._text, place, known):
                self._place = place
                return found
            if not self._text[place].isspace():
                break
            place += 1
        return ""

    def _rest(self) -> str:
        rest = self._text[self._place :].lstrip()
        self._place = len(self._text) - len(rest)
        return rest

    def _takes(self, sign: str) -> bool:
        found = self._rest().startswith(sign)
        self._place += found
        return found

    def _words(self, row: Floats) -> str:
        """Return a combination as text."""
        terms = ""
        for weight, name in zip(row.tolist(), [*self._names, ""], strict=True):
            if weight:
                size = f"{abs(weight):g}"
                term = size if not name else name if size == "1" else f"{size} * {name}"
                sign = "-" if weight < 0 else "+"
                terms += f" {sign} {term}" if terms else f"-{term}" if weight < 0 else term
        return terms

    def _refused(self) -> InvalidParameter:
        known = [name for name in (*self._names, *self._terms) if name[:1] != "`"]
        shown = ", ".join(known[:_MOST_SHOWN_NAMES]) + (", ..." if len(known) > _MOST_SHOWN_NAMES else "")
        return refuse(
            self._parameter,
            given=self._of,
            allowed=f"sums of coefficients ({shown}) and numbers, with = between them",
            remedy="Write a name with signs or blanks in backticks.",
        )


# Distributions of errors


class ErrorLaw(Protocol):
    """The functions of an error distribution that intervals and tests use."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences on errors that p-values of joint tests include, besides the residuals' degrees of freedom."""

    def tail(self, z: Any) -> NDArray[np.float64]:
        """Return the probability of an error above z."""

    def reach(self, tail: float) -> float:
        """Return the upper quantile: errors exceed it with probability ``tail``."""

    def joint_tail(self, statistic: float, q: int, left: int) -> float:
        """Return the probability that the Wald statistic of q errors, divided by q, exceeds ``statistic``."""


class Normal:
    """Normal errors."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """No remarks: joint tests have F distributions."""
        return ()

    def tail(self, z: Any) -> NDArray[np.float64]:
        """Return the probability of an error above z."""
        return np.asarray(ndtr(-np.asarray(z)))

    def reach(self, tail: float) -> float:
        """Return the upper quantile: errors exceed it with probability ``tail``."""
        return -float(ndtri(tail))

    def joint_tail(self, statistic: float, q: int, left: int) -> float:
        """Return the probability that the Wald statistic of q errors, divided by q, exceeds ``statistic``."""
        return float(stats.f.sf(statistic, q, max(left, 1)))


class Student(Normal):
    """Errors whose variance is estimated with ``degrees`` degrees of freedom, at least 1."""

    def __init__(self, degrees: float) -> None:
        self.degrees = max(degrees, 1)

    def tail(self, z: Any) -> NDArray[np.float64]:
        """Return the probability of an error above z."""
        return np.asarray(stats.t.sf(z, self.degrees))

    def reach(self, tail: float) -> float:
        """Return the upper quantile: errors exceed it with probability ``tail``."""
        return float(stats.t.isf(tail, self.degrees))


class Robust(Student):
    """Errors whose covariance is estimated by a sandwich, with ``degrees`` degrees of freedom of its meat."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """That the covariance has fewer degrees of freedom than the residuals."""
        return (
            f"The p-value is of Hotelling's T-squared: a robust covariance has about {self.degrees:,.0f} degrees of "
            "freedom.",
        )

    def joint_tail(self, statistic: float, q: int, left: int) -> float:
        """Return the probability that the Wald statistic of q errors, divided by q, exceeds ``statistic``.

        The statistic has the distribution of Hotelling's T^2.
        """
        rest = max(self.degrees - q + 1, 1)
        return float(stats.f.sf(statistic * rest / max(self.degrees, rest), q, rest))


class NormalAndLaplace(Student):
    """Errors that are sums of a normal error and Laplace noise, in any proportions.

    Such an error is normal with a random variance, a weighted sum of exponential variables. Its distribution lies
    between the normal and the Laplace distribution. This class uses the larger of their two tails. The tail of a sum
    exceeds it by at most one part in ten thousand (tests/regression/test_error_laws.py). Student's tails replace
    normal ones where the variance of the normal error is estimated.
    """

    @property
    def remarks(self) -> tuple[str, ...]:
        """That tails are the tails of Laplace noise where these are heavier."""
        return ("The p-value is the larger of those for normal errors and for Laplace noise.",)

    def tail(self, z: Any) -> NDArray[np.float64]:
        """Return the probability of an error above z."""
        z = np.asarray(z, dtype=np.float64)
        both = super().tail(np.abs(z)), np.exp(-math.sqrt(2) * np.abs(z)) / 2
        return np.asarray(np.where(z < 0, 1 - np.minimum(*both), np.maximum(*both)))

    def reach(self, tail: float) -> float:
        """Return the upper quantile: errors exceed it with probability ``tail``."""
        side = 1 if tail <= 0.5 else -1
        laplace = -side * math.log(2 * min(tail, 1 - tail)) / math.sqrt(2)
        return max(super().reach(tail), laplace)

    def joint_tail(self, statistic: float, q: int, left: int) -> float:
        """Return the probability that the Wald statistic of q errors, divided by q, exceeds ``statistic``.

        The errors are normal with a common exponential variance, which has the heaviest tails. The integral is a
        Bessel function.
        """
        normal, half, root = super().joint_tail(statistic, q, left), q / 2, math.sqrt(2 * q * statistic)
        if root == 0 or not math.isfinite(root):
            return normal
        bessel = math.log(kve(half, root)) - root if kve(half, root) > 0 else -math.inf
        mixed = math.exp(math.log(2) + half * math.log(root / 2) + bessel - float(gammaln(half)))
        return max(normal, min(mixed, 1.0))


NORMAL = Normal()


@dataclass(frozen=True, eq=False)
class ScaledErrors(StatedErrors, ErrorDistribution):
    """Errors that follow a distribution after division by their standard errors.

    Attributes
    ----------
    law : ErrorLaw
    """

    law: ErrorLaw

    def limits(self, tail: Tail) -> Limits:
        reach = np.array([self.law.reach(each) for each in np.ravel(tail)]).reshape(np.shape(tail))
        half = reach * self.error
        return self.estimate - half, self.estimate + half

    def tails(self, value: Floats) -> Limits:
        z = (self.estimate - value) / self.error
        return self.law.tail(-z), self.law.tail(z)


@dataclass(frozen=True, eq=False)
class MappedErrors(ErrorDistribution):
    """Errors of an increasing function of estimates.

    Attributes
    ----------
    errors : ErrorDistribution
        Distribution of the errors of the estimates.
    forward, backward : function
        The function, and its inverse.
    """

    errors: ErrorDistribution
    forward: Callable[[Floats], Floats]
    backward: Callable[[Floats], Floats]

    @property
    def start(self) -> Floats:
        return self.forward(self.errors.start)

    @property
    def box(self) -> Limits:
        return self._map(self.errors.box)

    def limits(self, tail: Tail) -> Limits:
        return self._map(self.errors.limits(tail))

    def tails(self, value: Floats) -> Limits:
        with quiet():
            return self.errors.tails(self.backward(value))

    def _map(self, limits: Limits) -> Limits:
        # A limit beyond the largest float is infinite.
        with quiet():
            low, high = (self.forward(end) for end in limits)
        return low, high


# Limits of columns with two values

_COARSE_NOISE = 0.1
"""Noise of a level in the last gradient, over its mean, from which its own lower limit counts too."""
_LARGEST_LOG_ODDS = 30.0


@dataclass(frozen=True)
class Level(ABC):
    """The linear predictor of the rows with one value of a column.

    The logarithm of a mean near 0 is far from normal, and so are log odds of a rate near 0 or 1. The noisy mean itself
    is nearly normal. So a level has the limits of its mean, which are infinite if the mean may be 0.

    Attributes
    ----------
    before, after : float
        Linear predictor before the last step, and of the estimate.
    moved : float
        The last move of the linear predictor, averaged over the rows with the weights of the curvature.
    std : float
        Standard error of the estimate, to first order in its mean.
    seen, noise, sampling : float
        Mean that the last gradient alone shows, over the mean before the step, with the standard deviations of its
        noise and of its sampling error. For log odds it is a rate.
    one : float
        The change of ``seen`` by one more outcome in these rows.
    most : float
        Largest linear predictor that the bounds of the outcome allow. Limits beyond it are infinite.
    """

    before: float
    after: float
    moved: float
    std: float
    seen: float
    noise: float
    sampling: float
    one: float = 0.0
    most: float = math.inf

    @property
    def error(self) -> float:
        """Standard deviation of the error of ``seen``."""
        return math.hypot(self.noise, self.sampling)

    def reach_unseen(self, z: float) -> float:
        """Return the distance of the upper limit from ``seen``, at z standard errors of the limit.

        Without any outcome ``seen`` has no sampling error. This is Wilson's limit of a rare outcome.
        """
        half = z * self.one / 2
        return z * (half + math.hypot(self.error, half))

    @abstractmethod
    def lower_distance(self, z: float) -> float:
        """Return the distance of the lower limit at z standard errors, infinite if there is none."""

    @abstractmethod
    def upper_distance(self, z: float) -> float:
        """Return the distance of the upper limit."""

    @abstractmethod
    def is_settled(self, errors: float) -> bool:
        """Return whether the last gradient agrees with the estimate, within this many standard errors of both."""


@dataclass(frozen=True)
class LogLevel(Level):
    """The log mean of a level."""

    def lower_distance(self, z: float) -> float:
        least = self.seen - z * self.error
        if least <= 0 or z * self.std >= 1:
            return math.inf
        usual = -math.log1p(-z * self.std)
        return max(usual, self.after - self.before - math.log(least)) if self.noise > _COARSE_NOISE else usual

    def upper_distance(self, z: float) -> float:
        usual = math.log1p(z * self.std)
        if math.isfinite(self.lower_distance(z)):
            return usual
        # The steps may have gone far below the mean. The last gradient knows how far the mean can be above them.
        most = self.seen + self.reach_unseen(z)
        alone = self.before + math.log(most) - self.after if most > 0 else -math.inf
        return math.inf if self.after + alone >= self.most else max(usual, alone)

    def is_settled(self, errors: float) -> bool:
        factor = math.exp(min(self.moved, 50.0))
        return abs(self.seen - factor) <= errors * math.hypot(self.error, min(factor, 2.0) * self.std)


@dataclass(frozen=True)
class LogitLevel(Level):
    """The log odds of a level."""

    @property
    def _rate(self) -> float:
        return float(expit(np.clip(self.after, -_LARGEST_LOG_ODDS, _LARGEST_LOG_ODDS)))

    def lower_distance(self, z: float) -> float:
        return self._distance(z, self._rate, self.seen)

    def upper_distance(self, z: float) -> float:
        return self._distance(z, 1 - self._rate, 1 - self.seen)

    def _distance(self, z: float, rate: float, seen: float) -> float:
        """Return the distance to the lower limit of the rate of one of both outcomes."""
        least, alone = self._least(z, rate, seen)
        if min(least, alone) <= 0:
            return math.inf
        if rate > 0.5:
            if min(self._least(z, 1 - rate, 1 - seen)) <= 0:
                # The other outcome may never happen: its rate has no lower limit.
                least = min(least, seen - self.reach_unseen(z))
            elif self.noise > _COARSE_NOISE * (1 - rate):
                # The average of two noisy log odds is too far from 0.
                least = min(least, alone)
        return float(logit(rate) - logit(least)) if least > 0 else math.inf

    def _least(self, z: float, rate: float, seen: float) -> tuple[float, float]:
        """Return the lower limits of a rate by the estimate, and by the last gradient alone."""
        return rate - rate * (1 - rate) * z * self.std, seen - z * self.error

    def is_settled(self, errors: float) -> bool:
        rate = float(expit(self.before + self.moved))
        return abs(self.seen - rate) <= errors * math.hypot(self.error, rate * (1 - rate) * self.std)


_USUAL_LEVEL = 0.95
"""Level of the limits that a slope is said to have or not to have."""


@dataclass(frozen=True)
class Levels:
    """Both levels of the column of one slope.

    Attributes
    ----------
    place : int
        Position of the slope.
    low, high : float
        Both values of the column, in its units.
    width : float
        Their distance. Values far from 0 may be rounded to the same float.
    upper, lower : Level
        Levels of the rows with the values ``high`` and ``low``.
    """

    place: int
    low: float
    high: float
    width: float
    upper: Level
    lower: Level

    def distances(self, z: float) -> tuple[float, float]:
        """Return the distances of the slope from its lower and upper limit at z standard errors."""
        down = math.hypot(self.upper.lower_distance(z), self.lower.upper_distance(z))
        up = math.hypot(self.upper.upper_distance(z), self.lower.lower_distance(z))
        return down / self.width, up / self.width

    def is_settled(self, errors: float) -> bool:
        """Return whether both levels have settled. A level without a limit counts: its interval says more."""
        open_at = {value for value, _ in self.list_unlimited()}
        levels = (self.upper, self.high), (self.lower, self.low)
        return all(value in open_at or level.is_settled(errors) for level, value in levels)

    def list_unlimited(self) -> list[tuple[float, int]]:
        """Return the value of the column at each level without a limit, and the sign of the slope's missing limit."""
        z = NORMAL.reach((1 - _USUAL_LEVEL) / 2)
        return [
            (value, side * sign)
            for level, value, side in ((self.upper, self.high, 1), (self.lower, self.low, -1))
            for sign, end in ((-1, level.lower_distance(z)), (1, level.upper_distance(z)))
            if math.isinf(end)
        ]

    def directions(self, z: float, first: int, size: int) -> list[Floats]:
        """Return the directions in which coefficients have no limit at z standard errors.

        They move the linear predictor of one level by 1 or -1, and keep the other level.
        """
        found = []
        for level, other, side in ((self.upper, self.low, 1.0), (self.lower, self.high, -1.0)):
            move = np.zeros(size)
            move[first + self.place] = side / self.width
            move[:first] = -side * other / self.width
            found += [
                sign * move
                for sign, end in ((-1, level.lower_distance(z)), (1, level.upper_distance(z)))
                if math.isinf(end)
            ]
        return found


_LARGEST_SCORE = 1e9
"""Standard errors up to which a score is searched. Its inverse is the smallest score."""
_SCORE_HALVINGS = 52


@dataclass(frozen=True, eq=False)
class LevelErrors(ScaledErrors):
    """Errors of linear combinations of coefficients. Some of these have `Levels`.

    A limit combines the distances of the coefficients from their limits, with their correlations (MOVER: Zou and Donner
    2008, Construction of confidence limits about effect measures). It is infinite if the combination changes along a
    direction without a limit. P-values invert the limits. With normal levels these are the usual intervals.

    Attributes
    ----------
    weights : array of shape (n_combinations, n_coefficients)
    covariance : array of shape (n_coefficients, n_coefficients)
    levels : sequence of Levels
    first : int
        Position of the first slope.
    """

    weights: Floats
    covariance: Floats
    levels: Sequence[Levels]
    first: int

    def limits(self, tail: Tail) -> Limits:
        usual = super().limits(tail)
        tails = np.broadcast_to(np.asarray(tail, dtype=np.float64), self.estimate.shape)
        low, high = (np.array(np.broadcast_to(end, self.estimate.shape)) for end in usual)
        for each in np.unique(tails):
            chosen = (tails == each) & self._concerned
            down, up = self._distances(self.law.reach(float(each)), self.weights[chosen])
            low[chosen], high[chosen] = self.estimate[chosen] - down, self.estimate[chosen] + up
        return low, high

    def tails(self, value: Floats) -> Limits:
        z = self._score(value)
        return self.law.tail(-z), self.law.tail(z)

    def statistic(self, estimates: object, value: Floats) -> Floats:
        return self._score(value)

    @cached_property
    def _concerned(self) -> NDArray[np.bool_]:
        """Select the combinations of the constant and of columns with levels. Others have the usual limits."""
        places = [*range(self.first), *(self.first + each.place for each in self.levels)]
        return np.asarray((self.weights[:, places] != 0).any(axis=1) & np.isfinite(self.error))

    @cached_property
    def _scales(self) -> tuple[Floats, Floats]:
        """Standard errors of the coefficients, and the correlations of their errors."""
        errors = np.sqrt(np.maximum(np.diagonal(self.covariance), 1e-300))
        return errors, self.covariance / np.outer(errors, errors)

    def _distances(self, z: float, weights: Floats) -> tuple[Floats, Floats]:
        """Return the distances of combinations from both limits at z standard errors."""
        errors, correlation = self._scales
        down, up = z * errors, z * errors
        beyond: list[Floats] = []
        for each in self.levels:
            place = self.first + each.place
            beyond += each.directions(z, self.first, errors.size)
            for side, end in zip((down, up), each.distances(z), strict=True):
                if math.isfinite(end):
                    side[place] = end
        found = []
        for sign, below, above in ((1, down, up), (-1, up, down)):
            parts = weights * np.where(weights > 0, below, above)
            distance = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", parts, correlation, parts), 0.0))
            for direction in beyond:
                rounding = 1e-9 * (np.abs(weights) @ np.abs(direction))
                distance = np.where(sign * (weights @ direction) < -rounding, np.inf, distance)
            found.append(distance)
        return found[0], found[1]

    def _score(self, value: Floats) -> Floats:
        """Return the distance of each estimate above a value, in standard errors of the limit at the value."""
        at = np.broadcast_to(value, self.estimate.shape)
        score = np.array((self.estimate - at) / self.error)
        for place in np.flatnonzero(self._concerned):
            off, weights = float(self.estimate[place] - at[place]), self.weights[[place]]
            least, most = 1 / _LARGEST_SCORE, _LARGEST_SCORE
            for _ in range(_SCORE_HALVINGS):
                z = math.sqrt(least * most)
                beyond = abs(off) > self._distances(z, weights)[0 if off > 0 else 1][0]
                least, most = (z, most) if beyond else (least, z)
            score[place] = math.copysign(least if least > 1 / _LARGEST_SCORE else 0.0, off)
        return score


def find_one_sided(levels: Sequence[Levels], d: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Find the slopes that have only an upper (-1) or a lower (1) limit of level 0.95, and those without any limit."""
    side, hidden = np.zeros(d, dtype=np.int64), np.zeros(d, dtype=np.bool_)
    for each in levels:
        signs = {sign for _, sign in each.list_unlimited()}
        side[each.place], hidden[each.place] = sum(signs), len(signs) == 2
    return side, hidden
