"""The exit statuses of commands. The type of an error determines its status."""

from __future__ import annotations

from typing import NamedTuple

from dpstats.errors import BudgetExceeded, ChargedError, Exhausted, InvalidData, InvalidParameter


class Exit(NamedTuple):
    """An exit status.

    Attributes
    ----------
    status : int
    word, meaning : str
    errors : tuple of types
        What ends a command with it; of two that fit, the first.
    """

    status: int
    word: str
    meaning: str
    errors: tuple[type[BaseException], ...] = ()


EXITS = (
    Exit(0, "done", "everything requested was delivered"),
    Exit(1, "defect", "an error that dpstats did not expect"),
    Exit(2, "usage", "an option or an argument is not allowed; nothing was charged", (InvalidParameter,)),
    Exit(
        3, "data", "the table cannot be read, or its rows cannot be used; nothing was charged", (InvalidData,)
    ),
    Exit(4, "budget", "the budget cannot pay; nothing was charged", (BudgetExceeded, Exhausted)),
    Exit(5, "violation", "'audit' proves that the claim is false, or 'verify' that a receipt is"),
    Exit(
        6,
        "environment",
        "a ledger, an output, a package that is missing, or memory; nothing was charged",
        (OSError, MemoryError, ImportError),
    ),
    Exit(
        7,
        "charged",
        "a failure after the charge; read the message before you repeat the command",
        (ChargedError,),
    ),
    Exit(130, "interrupted", "by the keyboard (SIGINT)", (KeyboardInterrupt,)),
)
VIOLATION = 5


def status_of(error: BaseException) -> int:
    """Return the exit status of an error: 1 for an undeclared type."""
    return next((found.status for found in EXITS if isinstance(error, found.errors)), 1)


def epilog() -> str:
    """Return a description of the statuses, for the end of a help text."""
    return "exit status: " + ", ".join(f"{found.status} {found.word}" for found in EXITS)
