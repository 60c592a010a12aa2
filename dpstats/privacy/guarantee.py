"""The guarantee of a release, and arithmetic that never understates one. It needs the standard library only."""

from __future__ import annotations

import enum
import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from dpstats.data.parameters import check_real
from dpstats.errors import refuse
from dpstats.inference.reports import Background, Records, Reported

if TYPE_CHECKING:
    from dpstats.inference.results import Summary

TINY = 5e-324  # the smallest positive float
_SPLIT = 134217729.0  # 2^27 + 1
_ROOT_BITS = 128


# Sums, products and roots of floats are computed with exact rationals, or with a correctly rounded sum, and rounded
# up once.
def up(value: Fraction) -> float:
    """Return the smallest float at least the value; infinity if there is none."""
    try:
        number = float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    return number if Fraction(number) >= value else math.nextafter(number, math.inf)


def down(value: Fraction) -> float:
    """Return the largest float at most the value."""
    return -up(-value)


@lru_cache(maxsize=1024)
def multiply_up(a: float, b: float) -> float:
    """Return the smallest float at least the product of two floats; infinity if there is none."""
    return up(Fraction(a) * Fraction(b))


def quotient_up(numerator: float, denominator: float) -> float:
    """Return the smallest float at least the quotient; infinity if there is none."""
    (top, below), (divisor, above) = numerator.as_integer_ratio(), denominator.as_integer_ratio()
    top, divisor = top * above, below * divisor
    try:
        nearest = top / divisor
        p, q = nearest.as_integer_ratio()
    except (OverflowError, ZeroDivisionError):
        return math.inf
    return nearest if p * divisor >= top * q else math.nextafter(nearest, math.inf)


def sum_up(values: Iterable[float]) -> float:
    """Return the smallest float at least the exact sum of floats."""
    numbers = list(values)
    try:
        total = math.fsum(numbers)  # correctly rounded, so that the remainder has the correct sign
        left = math.fsum([*numbers, -total])
    except OverflowError:
        return math.inf
    return math.nextafter(total, math.inf) if left > 0 else total


def root_up(value: Fraction) -> float:
    """Return a float that is at least the square root, and the exact root if it is a float."""
    if value <= 0:
        return 0.0
    top, bottom = value.numerator, value.denominator
    shift = max(0, (_ROOT_BITS - top.bit_length() + bottom.bit_length() + 1) // 2)
    scaled = -((-top << (2 * shift)) // bottom)
    root = math.isqrt(scaled)
    return up(Fraction(root + (root * root < scaled), 1 << shift))


def check_cost(name: str, value: Any, *, at_most: float | None = None, dearer: float = math.inf) -> float:
    """Return a checked number as a Python float. A number that is not a float is rounded to the more expensive side.

    A number of any type stands for its exact value: float16(0.1) is 0.0999755859375. It is converted before any
    arithmetic, because sums of narrow types overflow and lose small terms.
    """
    if type(value) is float and 0 <= value <= (sys.float_info.max if at_most is None else at_most):
        return value + 0.0  # not -0.0
    number = check_real(name, value, at_least=0.0, at_most=at_most)
    if type(value) is not float:
        short = number < value if dearer > 0 else number > value
        if short:
            number = math.nextafter(number, dearer)
    return number


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """Return a + b and its exact rounding error (Knuth). The arguments may be arrays."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def two_product(a: Any, b: Any) -> tuple[Any, Any]:
    """Return a b and its exact rounding error (Dekker), for sizes between 1e-140 and 1e140. Arguments may be arrays."""
    product = a * b
    high_a, high_b = _SPLIT * a, _SPLIT * b
    high_a, high_b = high_a - (high_a - a), high_b - (high_b - b)
    low_a, low_b = a - high_a, b - high_b
    return product, ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b


_PLURALS = {"person": "people", "child": "children", "man": "men", "woman": "women"}


def plural(unit: str) -> str:
    """Return the plural of the name of a unit.

    Examples
    --------
    >>> from dpstats.privacy.guarantee import plural
    >>> [plural(unit) for unit in ("row", "person", "patient", "family", "patient_id")]
    ['rows', 'people', 'patients', 'families', 'values of patient_id']
    """
    if unit in _PLURALS:
        return _PLURALS[unit]
    if not unit.isalpha() or not unit.islower():
        return f"values of {unit}"  # the name of a column
    if unit.endswith(("s", "x", "ch", "sh")):
        return f"{unit}es"
    return f"{unit[:-1]}ies" if unit[-1] == "y" and unit[-2:-1] not in "aeiou" else f"{unit}s"


class Neighbors(enum.Enum):
    """Neighboring relation: the pairs of datasets that a guarantee makes indistinguishable.

    ``REPLACE_ONE``: two datasets of the same public size that differ in one row.
    ``ADD_OR_REMOVE_ONE``: one dataset is the other plus one row. The size is private.

    Examples
    --------
    >>> from dpstats.privacy import Neighbors, PrivacyGuarantee
    >>> print(PrivacyGuarantee(1.0, neighbors=Neighbors.ADD_OR_REMOVE_ONE))
    (epsilon = 1, delta = 0), one row added or removed
    """

    REPLACE_ONE = "one row replaced"
    ADD_OR_REMOVE_ONE = "one row added or removed"

    def __reduce__(self) -> tuple[type[Neighbors], tuple[str]]:
        # For skops, which asks for no protocol and writes the call that this names.
        return Neighbors, (self.value,)


_WORDS = {"replace_one": Neighbors.REPLACE_ONE, "add_or_remove": Neighbors.ADD_OR_REMOVE_ONE}


def parse_neighbors(neighbors: Any) -> Neighbors:
    """Return the neighboring relation of a member of `Neighbors`, or of "replace_one" or "add_or_remove"."""
    if isinstance(neighbors, Neighbors):
        return neighbors
    if isinstance(neighbors, str) and neighbors in _WORDS:
        return _WORDS[neighbors]
    allowed = ", ".join(map(repr, _WORDS))
    raise refuse("neighbors", given=neighbors, allowed=f"one of {allowed}, or a member of Neighbors")


def delta_of_two(epsilon: float, delta: float) -> float:
    """Return (1 + e^epsilon) delta, the delta of two steps with (epsilon, delta) each: rounded up, at most 1."""
    if delta == 0:
        return 0.0
    if epsilon > 700:
        log_delta = epsilon + math.log(delta)  # e^epsilon may overflow; rounding error below 1e-12
        return 1.0 if log_delta >= -1e-12 else min(1.0, math.exp(log_delta) * (1 + 1e-12) + 5e-324)
    return min(1.0, (1 + math.exp(epsilon)) * delta * (1 + 2.0**-50) + 5e-324)


@dataclass(frozen=True, slots=True)
class PrivacyGuarantee(Reported):
    """An (epsilon, delta) differential-privacy guarantee.

    For all neighboring datasets D, D' and all sets S of outputs,
    ``P(M(D) in S) <= exp(epsilon) * P(M(D') in S) + delta``.

    Numbers may have any real type and stand for their exact value. They are stored as Python floats.

    Parameters
    ----------
    epsilon : float
        Privacy parameter, at least 0. Smaller is more private.
    delta : float, default=0.0
        Privacy parameter, in [0, 1]. 0 is pure differential privacy.
    neighbors : Neighbors, default=Neighbors.REPLACE_ONE
        The neighboring relation.
    simulated : bool, default=False
        Whether a seeded generator drew the noise. The numbers are then the guarantee of the same release with exact
        noise, and the simulated release itself has no guarantee.
    unit : str, default="row"
        Unit of privacy: what a row of the data stands for. For example "person", if each person has one row.
        Comparisons ignore the unit. Sums do not, because guarantees for different units do not add up.

    Examples
    --------
    >>> from dpstats.privacy import PrivacyGuarantee
    >>> print(PrivacyGuarantee(1.0, 1e-6))
    (epsilon = 1, delta = 1e-06), one row replaced
    """

    epsilon: float
    delta: float = 0.0
    neighbors: Neighbors = Neighbors.REPLACE_ONE
    simulated: bool = False
    unit: str = field(default="row", compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_cost("epsilon", self.epsilon))
        object.__setattr__(self, "delta", check_cost("delta", self.delta, at_most=1))
        if not isinstance(self.neighbors, Neighbors):
            raise refuse("neighbors", given=self.neighbors, allowed="a member of Neighbors")
        if not isinstance(self.unit, str) or not self.unit.strip():
            raise refuse("unit", given=self.unit, allowed="the name of a unit, such as 'person'")

    @property
    def relation(self) -> str:
        """The neighboring relation as text, such as "one person replaced"."""
        return self.neighbors.value.replace("row", self.unit)

    @property
    def units(self) -> str:
        """The units of privacy as text, such as "rows" or "patients"."""
        return plural(self.unit)

    def __str__(self) -> str:
        numbers = f"(epsilon = {self.epsilon:.6g}, delta = {self.delta:.6g}), {self.relation}"
        return f"{numbers} [simulated noise, not a private release]" if self.simulated else numbers

    def as_replace_one(self) -> PrivacyGuarantee:
        """Convert the guarantee to the relation "one row replaced".

        A replacement is a removal and an addition. So (epsilon, delta) for rows added or removed implies
        (2 epsilon, (1 + e^epsilon) delta) for rows replaced. There is no conversion in the other direction.
        """
        if self.neighbors is Neighbors.REPLACE_ONE:
            return self
        delta = delta_of_two(self.epsilon, self.delta)
        return PrivacyGuarantee(2 * self.epsilon, delta, Neighbors.REPLACE_ONE, self.simulated, self.unit)

    def explain(self) -> str:
        """Return a plain explanation of the guarantee for one person.

        The bound on the power of a test comes from the hypothesis-testing view. At level a the power is at most
        min(e^epsilon a + delta, 1 - e^-epsilon (1 - delta - a)). A factor on the odds is stated for delta = 0 only,
        because (epsilon, delta) does not imply it outside an event of probability delta.

        Examples
        --------
        >>> from dpstats.privacy import PrivacyGuarantee
        >>> print(PrivacyGuarantee(1.0).explain())
        epsilon = 1, delta = 0, neighbors: one row replaced.
        For any prior knowledge, the release changes the odds that a row had one value rather than another
        by a factor of at most 2.72.
        Any test at level 5% of one value against the other has power at most 13.6%.
        """
        factor = math.exp(min(self.epsilon, 700.0))
        level = 0.05
        power = min(factor * level + self.delta, 1 - (1 - self.delta - level) / factor, 1.0)
        replaced = self.neighbors is Neighbors.REPLACE_ONE
        if self.delta == 0:
            what = (
                f"that a {self.unit} had one value rather than another"
                if replaced
                else f"that a {self.unit} was in the data"
            )
            effect = f"For any prior knowledge, the release changes the odds {what}\nby a factor of at most"
            effect = f"{effect} {factor:.3g}."
        else:
            that = f"that {self.unit}"
            other = f"if {that} had held another value" if replaced else f"with {that} out of (or in) the data"
            effect = (
                f"Anything the release may show is at most {factor:.3g} times as probable as it would be\n"
                f"{other}, plus {self.delta:.3g}."
            )
        hypotheses = "one value against the other" if replaced else "in against out"
        lines = [
            f"epsilon = {self.epsilon:.6g}, delta = {self.delta:.6g}, neighbors: {self.relation}.",
            effect,
            f"Any test at level 5% of {hypotheses} has power at most {100 * power:.1f}%.",
        ]
        if not replaced:
            lines.append(f"It implies {self._implied}.")
        if self.simulated:
            lines.append("The noise was simulated from a seed: this is not a private release.")
        return "\n".join(lines)

    @property
    def _implied(self) -> str:
        """The guarantee for one unit replaced, without the mark of simulated noise."""
        return str(replace(self.as_replace_one(), simulated=False))

    def facts(self) -> list[tuple[str, str]]:
        """Return the facts of a summary: the guarantee, and the guarantee for one unit replaced that it implies.

        Examples
        --------
        >>> from dpstats.privacy import Neighbors, PrivacyGuarantee
        >>> for name, fact in PrivacyGuarantee(0.5, neighbors=Neighbors.ADD_OR_REMOVE_ONE).facts():
        ...     print(name, fact)
        Privacy (epsilon = 0.5, delta = 0), one row added or removed
        Implied privacy (epsilon = 1, delta = 0), one row replaced
        """
        own = [("Privacy", str(self))]
        if self.unit != "row":
            own.append(("Units of privacy", self.units))
        return own if self.neighbors is Neighbors.REPLACE_ONE else [*own, ("Implied privacy", self._implied)]

    def to_dict(self) -> dict[str, Any]:
        """Return the parts of the guarantee by name, for JSON. The unit "row" is left out."""
        unit = {} if self.unit == "row" else {"unit": self.unit}
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "neighbors": self.neighbors.name,
            "simulated": self.simulated,
            "guarantee": str(self),
            **unit,
        }

    def _records(self) -> Records:
        return Records([str(self)], {"epsilon": [self.epsilon], "delta": [self.delta]}, self.to_dict())

    def summary(self) -> Summary:
        """Return a table with the meaning of the guarantee. It prints as text, and shows as HTML in a notebook."""
        from dpstats.inference.results import Summary  # on demand: this module needs the standard library only

        row = (self.relation, f"{self.epsilon:.6g}", f"{self.delta:.6g}")
        meaning = " ".join(self.explain().splitlines()[1:])
        return Summary("Privacy guarantee", [], ("Neighbors", "epsilon", "delta"), [row], [meaning])

    def _background(self) -> Background:
        return Background(self.explain(), self.simulated)


def common_neighbors(items: Iterable[Any]) -> Neighbors:
    """Return the common neighboring relation of all items, or raise an error."""
    relations = {item.neighbors for item in items}
    if len(relations) > 1:
        raise refuse(
            "guarantees",
            got=" and ".join(sorted(relation.name for relation in relations)),
            allowed="have the same neighbors",
            remedy="Convert the ADD_OR_REMOVE_ONE ones with as_replace_one().",
        )
    return relations.pop() if relations else Neighbors.REPLACE_ONE


def common_unit(items: Iterable[Any]) -> str:
    """Return the common unit of all items, or raise an error. An event states no unit and counts as "row".

    A guarantee for a person does not imply one for a row: a replaced row may belong to another person, and then
    changes the rows of two.
    """
    units = {getattr(item, "unit", "row") for item in items}
    if len(units) > 1:
        raise refuse(
            "guarantees",
            got=" and ".join(sorted(units)),
            allowed="for the same unit",
            remedy="Convert them to one unit with group_privacy(guarantee, size, unit=...).",
        )
    return units.pop() if units else "row"
