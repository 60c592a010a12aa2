"""The exceptions of the package.

Every one derives from a built-in that callers already catch: a wrong parameter or
unusable data is a ``ValueError``. Messages name the parameter, what was given and what is
allowed; they never show a value of the data.
"""


class DPStatsError(Exception):
    """Base of every error that dpstats raises on purpose."""


class InvalidParameter(DPStatsError, ValueError):
    """A parameter is outside what is allowed; nothing was charged."""


class InvalidData(DPStatsError, ValueError):
    """The data cannot be used as given; nothing was charged."""


class NotPrivate(InvalidParameter):
    """A requested calibration does not give the privacy it claims."""


class ScaleOutOfRange(InvalidParameter):
    """Noise of the scale asked for cannot be drawn exactly in 64 bits; nothing was charged."""


class BudgetExceeded(DPStatsError, RuntimeError):
    """A charge does not fit into what is left of a budget; nothing was charged."""


class Exhausted(DPStatsError, RuntimeError):
    """A stream has given all the answers that it may; nothing was charged."""


class LedgerError(DPStatsError, OSError):
    """A budget's ledger cannot be read or written; nothing was charged and nothing is released."""
