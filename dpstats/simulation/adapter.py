"""Other libraries' estimators in a study: one function makes an estimator."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from dpstats.errors import refuse


class Adapter:
    """An estimator with a scikit-learn shape around any function of the rows.

    Parameters
    ----------
    function : callable
        ``function(X, rng, **parameters)`` returns the estimate. At the top level of a module, if the study
        is to run in several processes.
    attribute : str, default ``"mean_"``
        Where the estimate goes: ``"mean_"`` for the squared error, ``"support_"``, ``"reject_"`` for the
        others.
    **parameters
        Keyword arguments of the function with their defaults, which a grid may vary.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.simulation import Adapter, Gaussian, Study
    >>> def trimmed(X, rng, keep):
    ...     ordered, cut = np.sort(X, axis=0), round(len(X) * (1 - keep) / 2)
    ...     return ordered[cut : len(X) - cut].mean(axis=0)
    >>> study = Study(Gaussian(), Adapter(trimmed, keep=1.0), {"n": [50], "d": [1], "keep": [1.0, 0.1]}, 400)
    >>> study.run().mean().round(3)  # 1/50, and pi/2 times that for the median
    array([0.021, 0.03 ])
    """

    def __init__(self, function: Callable[..., Any], attribute: str = "mean_", **parameters: Any) -> None:
        if not callable(function):
            raise refuse("function", given=function, allowed="callable")
        _check_accepted(function, parameters)
        self._function = function
        self._attribute = attribute
        self._parameters = {"random_state": None, **parameters}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of the function, and ``random_state``."""
        return dict(self._parameters)

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters of the function."""
        _check_accepted(
            self._function, {key: value for key, value in parameters.items() if key != "random_state"}
        )
        self._parameters |= parameters
        return self

    def fit(self, X: Any, y: Any = None) -> Self:
        """Call the function and keep what it returns."""
        parameters = dict(self._parameters)
        rng = np.random.default_rng(parameters.pop("random_state"))
        setattr(self, self._attribute, self._function(X, rng, **parameters))
        return self

    def __sklearn_clone__(self) -> Adapter:
        copy = Adapter(self._function, self._attribute)
        copy._parameters = dict(self._parameters)
        return copy

    def __repr__(self) -> str:
        name = getattr(self._function, "__qualname__", type(self._function).__name__)
        shown = {key: value for key, value in self._parameters.items() if key != "random_state"}
        return f"Adapter({name}{''.join(f', {key}={value!r}' for key, value in shown.items())})"


def _check_accepted(function: Callable[..., Any], parameters: dict[str, Any]) -> None:
    """Refuse parameters that the function does not have: it would fail in every replication."""
    try:
        stated = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # of a built-in, which states nothing
        return
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in stated):
        return
    # After the rows and the generator.
    known = [
        parameter.name for parameter in list(stated)[2:] if parameter.kind is not parameter.VAR_POSITIONAL
    ]
    unknown = [name for name in parameters if name not in known]
    if unknown:
        raise refuse(
            "parameters",
            allowed=f"names of parameters of function(X, rng, ...), which has {', '.join(known) or 'no others'}",
            got=", ".join(unknown),
        )
