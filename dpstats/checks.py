"""Results of checks, as commands print them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """One checked fact.

    Attributes
    ----------
    name : str
    passed : bool
    found : str
        Description of the result.
    """

    name: str
    passed: bool
    found: str


def as_text(checks: Sequence[Check]) -> str:
    """Return a line for each check."""
    width = max(len(check.name) for check in checks)
    return "\n".join(
        f"{'ok' if check.passed else 'FAILED':8}{check.name:{width}}  {check.found}" for check in checks
    )
