"""What can become of a theory that is measured: four words, which fits and comparisons share."""

from __future__ import annotations

REPRODUCED = "reproduced"
FINITE_SIZE = "reproduced at finite size"
UNDECIDED = "undecided"
NOT_REPRODUCED = "not reproduced"


def reproduced(verdict: str) -> bool:
    """Return whether a verdict is one of the two good ones."""
    return verdict in (REPRODUCED, FINITE_SIZE)
