"""The exceptions of the package.

Every one derives from a built-in that callers already catch: a wrong parameter or unusable data is a
``ValueError``. Messages name the parameter, the received value and the allowed values. They never show a
value of the data.
"""

__all__ = [
    "BudgetExceeded",
    "ChargedError",
    "DPStatsError",
    "Exhausted",
    "InvalidData",
    "InvalidParameter",
    "LedgerError",
    "NoiseUnavailable",
    "NotDelivered",
    "NotEnoughMemory",
    "NotPrivate",
    "ScaleOutOfRange",
]


class DPStatsError(Exception):
    """Base of every error that dpstats raises on purpose."""


class InvalidParameter(DPStatsError, ValueError):
    """A parameter is not allowed. Nothing was charged.

    Examples
    --------
    >>> from dpstats.privacy import PrivacyGuarantee
    >>> PrivacyGuarantee(-1.0)
    Traceback (most recent call last):
        ...
    dpstats.errors.InvalidParameter: epsilon must be a finite number at least 0, got -1.0
    """


class InvalidData(DPStatsError, ValueError):
    """The data cannot be used as given; nothing was charged.

    Examples
    --------
    >>> from dpstats.means import ClippedMean
    >>> ClippedMean(clip=1.0, random_state=0).fit([[0.5], [float("nan")]])
    Traceback (most recent call last):
        ...
    dpstats.errors.InvalidData: Input X contains NaN or infinity. Where the estimator offers it, set missing=...
    """


class NotPrivate(InvalidParameter):
    """A requested calibration does not give the privacy it claims.

    Examples
    --------
    >>> from dpstats.means import ClippedMean
    >>> ClippedMean(clip=1.0, epsilon=3.0, delta=1e-2, calibration="textbook").plan(100, 1)
    Traceback (most recent call last):
        ...
    dpstats.errors.NotPrivate: calibration='textbook' is not private at epsilon = 3, delta = 0.01: ...
    """


class ScaleOutOfRange(InvalidParameter):
    """Noise of the scale asked for cannot be drawn exactly in 64 bits; nothing was charged.

    Examples
    --------
    >>> from dpstats.mechanisms import LaplaceMechanism
    >>> LaplaceMechanism(sensitivity=1.0, epsilon=1e-17).release(0.0)
    Traceback (most recent call last):
        ...
    dpstats.errors.ScaleOutOfRange: the noise scale must be between 0.001 and 1e+16 lattice steps, got 2e+17:
    ...
    """


class BudgetExceeded(DPStatsError, RuntimeError):
    """The charge exceeds the remaining budget. Nothing was charged.

    Examples
    --------
    >>> from dpstats.privacy import PrivacyBudget, PrivacyGuarantee
    >>> budget = PrivacyBudget(epsilon=1.0)
    >>> budget.charge(PrivacyGuarantee(2.0))
    Traceback (most recent call last):
        ...
    dpstats.errors.BudgetExceeded: asked for (epsilon = 2, delta = 0), one row replaced; spent is ...
    >>> budget.history()
    ()
    """


class ChargedError(DPStatsError, RuntimeError):
    """The release was charged, and failed afterwards. The message states the charge.

    Attributes
    ----------
    released : dict
        Values that were released before the failure, by the names of their stages. They are public.

    Examples
    --------
    >>> from dpstats.means import ClippedMean
    >>> from dpstats.privacy import PrivacyBudget
    >>> class Broken(ClippedMean):
    ...     def _report(self, released, plan):
    ...         raise ZeroDivisionError
    >>> budget = PrivacyBudget(epsilon=1.0, delta=1e-6)
    >>> try:
    ...     Broken(bounds=(0, 9), epsilon=1.0, budget=budget).fit([[1.0], [2.0]])
    ... except ChargedError as error:
    ...     print(*error.released)
    clipped moments
    """

    def __init__(self, message: str, released: dict[str, object] | None = None) -> None:
        super().__init__(message)
        self.released = {} if released is None else released


class Exhausted(DPStatsError, RuntimeError):
    """A stream has given all the answers that it may; nothing was charged.

    Examples
    --------
    >>> from dpstats.mechanisms import AboveThreshold
    >>> stream = AboveThreshold(10.0, epsilon=1.0, random_state=0)
    >>> stream.query(1000.0)
    True
    >>> stream.query(0.0)
    Traceback (most recent call last):
        ...
    dpstats.errors.Exhausted: this AboveThreshold has given its 1 answer(s) above the threshold ...
    """


class LedgerError(DPStatsError, OSError):
    """A budget's ledger cannot be read or written; nothing was charged and nothing is released.

    Examples
    --------
    >>> from dpstats.privacy import PrivacyBudget
    >>> PrivacyBudget(epsilon=1.0, ledger="no-such-folder/ledger.sqlite")
    Traceback (most recent call last):
        ...
    dpstats.errors.LedgerError: ...ledger.sqlite: the file cannot be opened or created
    """


class NoiseUnavailable(DPStatsError, ImportError):
    """Exact noise cannot be drawn, because its library is missing or broken. Nothing was charged.

    Examples
    --------
    >>> from dpstats.errors import NoiseUnavailable
    >>> issubclass(NoiseUnavailable, ImportError)
    True
    """


class NotEnoughMemory(DPStatsError, MemoryError):
    """The release needs more memory than is available. Nothing was charged.

    Examples
    --------
    >>> from dpstats.errors import NotEnoughMemory
    >>> issubclass(NotEnoughMemory, MemoryError)
    True
    """


class NotDelivered(DPStatsError, OSError):
    """The release could not be written to the requested file. It was charged, if a budget was given.

    Examples
    --------
    >>> from dpstats.errors import NotDelivered
    >>> issubclass(NotDelivered, OSError)
    True
    """
