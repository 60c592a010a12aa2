"""What options declare of columns, by their names: public bounds, and levels of categories."""

from __future__ import annotations

from typing import Any

from dpstats.cli.options import check_ends, per_column, split_list
from dpstats.errors import refuse, show

Pair = tuple[float, float]
Pairs = list[Pair]

DISCOVER = "discover"
"""In place of declared labels: labels of many rows are found."""


def bounds_of(given: list[list[str]] | None) -> tuple[Pairs, dict[str, Pair]]:
    """Parse the arguments of ``--bounds`` into the pair without a name (LO HI) and the named ones (NAME=LO,HI)."""
    pairs: Pairs = []
    named: dict[str, Pair] = {}
    for words in given or []:
        rest = iter(words)
        for word in rest:
            name, equals, ends = word.rpartition("=")
            texts = ends.split(",") if equals else [word, next(rest, "")]
            try:
                low, high = map(float, texts)
            except ValueError:
                got = show(" ".join(texts).strip())
                raise refuse("--bounds", got=got, allowed="LO HI or NAME=LO,HI") from None
            check_ends(low, high)
            if not equals:
                pairs.append((low, high))
                continue
            if name in named:
                raise refuse("--bounds", got=f"{show(name)} twice", allowed="name each column once")
            named[name] = low, high
    return pairs, named


def levels_of(given: list[str] | None, option: str = "--levels", *, discover: bool = False) -> dict[str, Any]:
    """Parse the arguments of ``--levels``, NAME=A,B,... A level with a comma is in double quotes.

    With ``discover``, NAME=discover is allowed too, for labels that are not declared.
    """
    found: dict[str, Any] = {}
    for text in given or []:
        name, equals, words = text.partition("=")
        undeclared = discover and words == DISCOVER
        levels = DISCOVER if undeclared else split_list(words)
        if not equals or (not undeclared and (len(levels) < 2 or len(set(levels)) < len(levels))):
            raise refuse(option, given=text, allowed="NAME=A,B,... of two different levels or more")
        if name in found:
            raise refuse(option, got=f"{show(name)} twice", allowed="name each column once")
        found[name] = levels
    return found


def check_discovery(option: str, delta: float) -> None:
    """Raise an error for a discovery of labels without a positive delta."""
    if delta == 0:
        remedy = "Declare the labels, or give --delta 1e-6 for example."
        raise refuse("--delta", got="0", allowed=f"positive with {option}", remedy=remedy)


def by_column(columns: list[str], pairs: Pairs, named: dict[str, Pair]) -> Any:
    """Return bounds as a single pair for all columns, or as a list with a pair per column.

    Pairs without a name are of the columns without one: one for all of these, or one for each in their order.
    """
    others = [name for name in columns if name not in named]
    if others and not pairs:
        allowed = "be given for every column (LO HI, or NAME=LO,HI)"
        raise refuse("--bounds", got=f"none for {show(others[0])}", allowed=allowed)
    if pairs and not others:
        allowed = "have a name (NAME=LO,HI), as every column has named bounds"
        raise refuse("--bounds", got="bounds without a name", allowed=allowed)
    shared = per_column("--bounds", pairs, len(others)) if pairs else []
    if not named:
        return shared
    rest = iter(shared if isinstance(shared, list) else [shared] * len(others))
    return [named[name] if name in named else next(rest) for name in columns]
