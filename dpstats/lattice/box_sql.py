"""The box: each column clipped separately, in memory or by a database.

In SQL, the operations on doubles are the operations of the row map, in its order, so that every entry gives the same
integer. Integers add up exactly. Adding `SHIFT` rounds; SQL's round() would round ties away from zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.arithmetic import as_int64
from dpstats.data.tables import Rows
from dpstats.lattice.rounding import SHIFT

Integers = NDArray[np.int64]

_COLUMNS = 64  # of one statement


def power_sums(
    rows: Rows,
    *,
    shift: Any,
    factor: Any,
    offset: Any,
    unit: float,
    bound: Any,
    largest: Any,
    ends: tuple[Any, Any],
    powers: int,
    outside: bool,
) -> tuple[list[Integers], Integers, int] | None:
    """Return the sums of powers of steps, the counts of entries outside, and the number of non-numeric entries.

    The step of x is (x - shift) * factor, rounded, less ``offset``, within ``bound``; factors are of
    ``unit``. None from rows that do not aggregate.
    """
    _, d = rows.shape
    columns = range(d)
    given = [
        np.broadcast_to(value, (d,)).tolist() for value in (shift, factor, offset, bound, largest, *ends)
    ]
    entries = [rows.expression(j) for j in columns]
    numbers: list[int] = []
    # A statement of a hundred columns is slow to plan, and slower for twice as many.
    for start in range(0, d, _COLUMNS):
        steps: list[str] = []
        asked: list[str] = []
        some = zip(
            entries[start : start + _COLUMNS],
            *(value[start : start + _COLUMNS] for value in given),
            strict=True,
        )
        for place, (x, away, times, center, most, top, low, high) in enumerate(some):
            # Not isnan: DuckDB decides that by the statistics of a file, which leave out NaN.
            k, finite = f"c{2 * place}", f"coalesce(isfinite({x}), FALSE)"
            number = x if away == 0 else f"({x} - {_double(away)})"
            number = number if times == 1 else f"({number} * {_double(times)})"
            least, greatest = ((SHIFT + sign * most) * unit for sign in (-1, 1))
            shifted = f"{number} + {_double((SHIFT - center) * unit)}"
            clipped = f"greatest(least({shifted}, {_double(greatest)}), {_double(least)})"
            step = f"CAST(({clipped} - {_double(SHIFT * unit)}) / {_double(unit)} AS BIGINT)"
            # 0 inside, 1 outside, 2 no number.
            place_of = f"CASE WHEN {x} < {_double(low)} OR {x} > {_double(high)} THEN 1 ELSE 0 END"
            steps += [
                f"CASE WHEN {finite} THEN {step} ELSE 0 END",
                f"CASE WHEN {finite} THEN {place_of if outside else '0'} ELSE 2 END",
            ]
            asked += [f"sum({power})" for power in _powers(k, int(top), powers)]
            asked += [f"count(*) FILTER (WHERE c{2 * place + 1} = {kind})" for kind in (1, 2)]
        found = rows.aggregates(asked, steps)
        if found is None:
            return None
        numbers += found
    table = np.array(numbers, dtype=object).reshape(d, powers + 2).T
    sums = [as_int64(row) for row in table[:powers]]
    counts = as_int64(table[powers]) if outside else np.zeros(0, dtype=np.int64)
    return sums, counts, int(table[-1].sum())


def _powers(k: str, largest: int, powers: int) -> Sequence[str]:
    """Return the SQL of the powers of a step k, each over the largest and rounded down: see `Moments`."""
    bits = largest.bit_length() - 1
    if largest == 1 << bits:
        second = f"(({k} * {k}) >> {bits})"
        # Raised above 0 by a multiple of the largest, so that the shift rounds down as the division does.
        third = f"((({k} * {second} + {1 << 62}) >> {bits}) - {1 << 62 - bits})"
        return [k, second, third, f"(({second} * {second}) >> {bits})"][:powers]
    second = f"(({k} * {k}) // {largest})"
    raised = (1 << 62) // largest
    third = f"(({k} * {second} + {raised * largest}) // {largest} - {raised})"
    return [k, second, third, f"(({second} * {second}) // {largest})"][:powers]


def _double(value: float) -> str:
    """Return a float as a constant of SQL, to the last bit."""
    return f"CAST('{float(value)!r}' AS DOUBLE)"
