"""The one place where a fit opens the data, plans, charges, releases and reports.

Every estimator of the package is a `PrivateEstimator`. It states its columns (`_schema`) and its release
(`plan`), reads the rows (`_read`), releases through a session (`_release`), and sets the fitted attributes
(`_report`). Their order, and the charge, are defined here only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar, dataclass_transform

Estimator = TypeVar("Estimator")


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
def parameters(cls: type[Estimator]) -> type[Estimator]:
    """Give an estimator the keyword-only ``__init__`` of its annotated attributes, after its bases' attributes.

    A base declares what its estimators share and an estimator its own, each with its default; the constructor
    assigns them and does nothing else, as scikit-learn wants. Other attributes are annotated as ``ClassVar``,
    or in a base without this decorator.

    >>> from sklearn.base import BaseEstimator
    >>> @parameters
    ... class Shared(BaseEstimator):
    ...     epsilon: float = 1.0
    >>> @parameters
    ... class Own(Shared):
    ...     clip: float = 2.0
    >>> Own(clip=3.0), sorted(Own().get_params())
    (Own(clip=3.0), ['clip', 'epsilon'])
    """
    # Compared by identity and printed by scikit-learn, as estimators are.
    return dataclass(kw_only=True, eq=False, repr=False, match_args=False)(cls)


@parameters
class HasMissingCodes:
    """Base of the estimators with the parameter ``missing``, whose data may have codes of missing entries."""

    missing_codes: Any = None
