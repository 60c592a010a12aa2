from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import refuse_data

# Protected units, such as people: of each unit a limited number of rows counts, chosen by its own rows alone.
# Proof: docs/proofs/private-size.md.


Codes = NDArray[np.int64]


def check_labels(units: NDArray[np.object_]) -> NDArray[np.object_]:
    """Return the labels of units, or refuse a missing one."""
    if any(label is None for label in units):
        raise refuse_data(
            "units",
            got="at least one entry that is missing or something else",
            allowed="text, numbers or times",
        )
    return units


def cut_units(units: NDArray[np.object_], values: Codes, most: int) -> Codes:
    """Return the values of the rows that count: of each unit at most ``most``.

    A unit with more rows keeps the rows with the smallest hashes. A hash is of the label of the unit, the value, and
    its place among equal values of the unit. So the choice depends on the rows of the unit only, in any order.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.data.units import cut_units
    >>> units = np.array(["a", "a", "a", "b"], dtype=object)
    >>> cut_units(units, np.array([0, 1, 1, 2]), 2)
    array([1, 1, 2])
    """
    places: dict[Any, int] = {}
    codes = np.array([places.setdefault(label, len(places)) for label in units], dtype=np.int64)
    order = np.lexsort((values, codes))
    ends = np.cumsum(np.bincount(codes, minlength=len(places)))
    kept = [np.zeros(0, dtype=np.int64)]
    for label, own in zip(places, np.split(values[order], ends[:-1]), strict=True) if len(places) else ():
        if len(own) > most:
            place = np.arange(len(own)) - np.searchsorted(own, own)
            parts = [f"{label!r},{value},{i}" for value, i in zip(own, place, strict=True)]
            hashes = [hashlib.sha256(part.encode()).digest() for part in parts]
            own = own[sorted(range(len(own)), key=hashes.__getitem__)[:most]]
        kept.append(own)
    return np.concatenate(kept)
