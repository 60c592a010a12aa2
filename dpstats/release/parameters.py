"""The one place where a fit opens the data, plans, charges, releases and reports.

Every estimator of the package is a `PrivateEstimator`. It states its columns (`_schema`) and its release
(`plan`), reads the rows (`_read`), releases through a session (`_release`), and sets the fitted attributes
(`_report`). Their order, and the charge, are defined here only.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, dataclass_transform

Estimator = TypeVar("Estimator")

_FIRST = (
    # what is estimated or tested
    *(
        "function",
        "n_outputs",
        "q",
        "n_components",
        "n_nonzero",
        "mean",
        "cov",
        "null",
        "n_queries",
        "queries",
    ),
    "workload",
    # what is publicly known of the data
    *("domain", "levels", "classes", "groups", "sizes", "by", "columns", "time", "event", "horizon", "edges"),
    *(
        "x_bounds",
        "y_bounds",
        "bounds",
        "bounds_are",
        "step",
        "bins",
        "clip",
        "clip_norm",
        "center",
        "bound",
        "std",
    ),
    *(
        "std_bound",
        "weights",
        "weight_bounds",
        "offset",
        "offset_bounds",
        "exposure",
        "exposure_bounds",
        "factors",
    ),
)
_LAST = ("missing", "missing_codes", "unknown", "neighbors", "epsilon", "delta", "random_state", "budget")


def place_of(name: str) -> int:
    """Return where a parameter stands: the estimand, public knowledge, options, missing entries, privacy, noise.

    Examples
    --------
    >>> from dpstats.release.parameters import place_of
    >>> sorted(["budget", "epsilon", "calibration", "missing", "bounds", "q"], key=place_of)
    ['q', 'bounds', 'calibration', 'missing', 'epsilon', 'budget']
    """
    if name in _FIRST:
        return _FIRST.index(name)
    return len(_FIRST) + (1 + _LAST.index(name) if name in _LAST else 0)


def fitted(*, init: Literal[False] = False) -> Any:
    """Declare an attribute that a fit sets, in the body of an estimator. It is no parameter."""
    return field(init=init)


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field, fitted))
def parameters(cls: type[Estimator]) -> type[Estimator]:
    """Give an estimator the keyword-only ``__init__`` of its annotated attributes and of those of its bases.

    A base declares what its estimators share and an estimator its own, each with its default; the constructor
    assigns them and does nothing else, as scikit-learn wants. Its signature has them in the order of `place_of`.
    Attributes of a fit are declared as `fitted`, and others as ``ClassVar``, or in a base without this decorator.

    >>> from sklearn.base import BaseEstimator
    >>> @parameters
    ... class Shared(BaseEstimator):
    ...     epsilon: float = 1.0
    >>> @parameters
    ... class Own(Shared):
    ...     clip: float = 2.0
    ...     mean_: float = fitted()
    >>> Own(clip=3.0), inspect.signature(Own)
    (Own(clip=3.0), <Signature (*, clip: 'float' = 2.0, epsilon: 'float' = 1.0) -> None>)
    """
    # Compared by identity and printed by scikit-learn, as estimators are.
    made = dataclass(kw_only=True, eq=False, repr=False, match_args=False)(cls)
    construct: Callable[..., None] = vars(made)["__init__"]
    stated = inspect.signature(construct)
    # A stable sort: "self" and parameters without a keyword stand before, and options as they are declared.
    ordered = sorted(
        stated.parameters.values(),
        key=lambda one: (one.kind, place_of(one.name) if one.kind is one.KEYWORD_ONLY else 0),
    )
    construct.__signature__ = stated.replace(parameters=ordered)  # type: ignore[attr-defined]
    return made


@parameters
class HasMissingCodes:
    """Base of the estimators with the parameter ``missing``, whose data may have codes of missing entries."""

    missing_codes: Any = None
