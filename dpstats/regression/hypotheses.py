"""Hypotheses about linear combinations of coefficients, as text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from dpstats.errors import InvalidParameter, refuse
from dpstats.regression.passes import Floats


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
