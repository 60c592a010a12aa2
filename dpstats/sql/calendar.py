"""Years, quarters and months of dates in GROUP BY, as comparisons with the dates of a declared period."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

from dpstats.errors import refuse
from dpstats.sql.conditions import Literal
from dpstats.sql.predicates import literal
from dpstats.sql.query import Span
from dpstats.sql.scope import Known
from dpstats.sql.syntax import allow_only, kind_of, refuse_clause

_MONTHS = {"year": 12, "quarter": 3, "month": 1}
_MOST_YEARS = 200
_TRUNCATED = "by_"


def read_part(node: Any) -> tuple[str, Any]:
    """Return the part of a date that a node computes, and the node of the date. The part is empty for a bare date.

    A part is "year", "quarter" or "month". The part of DATE_TRUNC begins with "by_".
    """
    kind = kind_of(node)
    if kind in ("Year", "Quarter", "Month"):
        allow_only(node, "this")
        return kind.lower(), node.this
    if kind == "Extract":
        allow_only(node, "this", "expression")
        return _unit(node.this, "EXTRACT"), node.expression
    if kind == "TimestampTrunc":
        allow_only(node, "this", "unit")
        return _TRUNCATED + _unit(node.args.get("unit"), "DATE_TRUNC"), node.this
    return "", node


def _unit(node: Any, function: str) -> str:
    unit = str(node.this).lower() if kind_of(node) in ("Var", "Literal") else ""
    if unit not in _MONTHS:
        refuse_clause(f"{function} of this unit", "the units of a date are YEAR, QUARTER and MONTH")
    return unit


def read_period(name: str, given: Any) -> tuple[date, date]:
    """Return the first date of a declared period, and the date after its last."""
    try:
        first, end = (
            day if type(day) is date else date.fromisoformat(str(day))
            for day in (() if isinstance(given, str) else given)
        )
    except (TypeError, ValueError):
        raise refuse(
            name,
            given=given,
            allowed="two dates for a column of dates: the first, and the one after the last",
            remedy="For example ('2023-01-01', '2025-01-01').",
        ) from None
    if not first < end or end.year - first.year > _MOST_YEARS:
        raise refuse(
            name,
            got=f"{first} and {end}",
            allowed=f"two dates that rise, at most {_MOST_YEARS} years apart",
        )
    return first, end


def list_spans(part: str, period: tuple[date, date], known: Known) -> tuple[Span, ...]:
    """Return the spans of the period with each value of a part, in the order of values."""
    months = _MONTHS[part.removeprefix(_TRUNCATED)]
    found: dict[Any, list[tuple[Any, Any]]] = {}
    begin, end = period
    while begin < end:
        unit = (12 * begin.year + begin.month - 1) // months * months
        stop = min(_first_day(unit + months), end)
        value = {"year": unit // 12, "quarter": unit % 12 // 3 + 1, "month": unit % 12 + 1}.get(
            part, _first_day(unit)
        )
        found.setdefault(value, []).append((_bound(begin, known), _bound(stop, known)))
        begin = stop
    return tuple(Span(value, tuple(found[value])) for value in sorted(found))


def list_ends(known: Known) -> tuple[Literal, Literal] | None:
    """Return the first and the last date or time of Python, for a column of such."""
    kind = {"date": date, "time": datetime}.get(known.type.kind)
    return None if kind is None else (literal(kind.min, False, known), literal(kind.max, False, known))


def _first_day(months: int) -> date:
    """Return the first day of a month, counted from the year 0."""
    year, month = divmod(months, 12)
    return date(year, month + 1, 1) if year <= date.max.year else date.max


def _bound(day: date, known: Known) -> Any:
    whole = day if known.type.kind == "date" else datetime(day.year, day.month, day.day)
    return literal(whole, False, known)
