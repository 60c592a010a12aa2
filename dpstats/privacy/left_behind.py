"""The parameter ``budget`` of a saved estimator.

A file outlives the process and the machine of a budget. A second copy of a budget in memory could be spent twice, and
the path of a ledger may mean nothing elsewhere. So a fitted estimator is saved without its budget. After loading, it
has a `LeftBehind`, and a release is refused until somebody says who pays.
"""

from __future__ import annotations

from typing import Any

from dpstats.errors import InvalidParameter, LedgerError


class LeftBehind:
    """The parameter ``budget`` of an estimator that was saved with a budget, and loaded.

    It refuses every release. ``set_params(budget=...)`` replaces it: by a budget, or by None for a release that is
    charged to no budget.

    Examples
    --------
    >>> import pickle
    >>> from dpstats.means import ClippedMean
    >>> from dpstats.privacy import PrivacyBudget
    >>> model = ClippedMean(bounds=(0, 9), budget=PrivacyBudget(1.0)).fit([[1.0], [2.0]])
    >>> loaded = pickle.loads(pickle.dumps(model))
    >>> bool(loaded.mean_ == model.mean_), loaded.budget
    (True, <budget left behind>)
    >>> loaded.fit([[1.0], [2.0]])
    Traceback (most recent call last):
        ...
    dpstats.errors.InvalidParameter: this estimator was saved without its budget, which stayed where it was made.
    Nothing was released. Use set_params(budget=...) before the next release, or budget=None for one that is charged
    to no budget.
    """

    def refuse(self) -> None:
        """Raise the error of a release."""
        raise InvalidParameter(
            "this estimator was saved without its budget, which stayed where it was made. Nothing was released. Use "
            "set_params(budget=...) before the next release, or budget=None for one that is charged to no budget."
        )

    def __repr__(self) -> str:
        return "<budget left behind>"

    def __reduce__(self) -> str:
        return "LEFT_BEHIND"


LEFT_BEHIND = LeftBehind()
"""The only one."""


class _Carried:
    """A budget with a ledger, on the way to another process. Where the ledger is missing, a `LeftBehind` arrives."""

    def __init__(self, budget: Any) -> None:
        self._budget = budget

    def __reduce__(self) -> Any:
        return _arrive, self._budget.__reduce__()


def _arrive(rebuild: Any, arguments: Any) -> Any:
    try:
        return rebuild(*arguments)
    except LedgerError:
        return LEFT_BEHIND


def carry(budget: Any, *, fitted: bool) -> Any:
    """Return the parameter ``budget`` of a pickled estimator.

    An estimator that is not fitted yet is on its way to a worker, and its ledger pays there.
    """
    if budget is None or isinstance(budget, LeftBehind) or not hasattr(budget, "ledger"):
        return budget
    return LEFT_BEHIND if fitted or budget.ledger is None else _Carried(budget)
