"""What scikit-learn records of the columns of a fit, and how later columns are compared with it."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpstats.data.rows import InvalidType
from dpstats.errors import InvalidData


def record_columns(estimator: Any, names: list[Any] | None, n_features: int) -> None:
    """Set ``n_features_in_``, and ``feature_names_in_`` where the columns have names."""
    estimator.n_features_in_ = n_features
    estimator.__dict__.pop("feature_names_in_", None)  # of a fit before
    if names and all(isinstance(name, str) for name in names):
        estimator.feature_names_in_ = np.asarray(names, dtype=object)


def check_names(names: list[Any] | None) -> None:
    """Refuse names of which some are text and some are not, as scikit-learn does."""
    texts = {isinstance(name, str) for name in names or ()}
    if len(texts) > 1:
        raise InvalidType(
            "Feature names are only supported if all input features have string names. Rename the columns of X, for "
            "example X.columns = X.columns.astype(str)."
        )


def check_columns_again(
    estimator: Any, names: list[Any] | None, n_features: int, shape: tuple[int, ...] | None = None
) -> None:
    """Refuse columns that are not those of the fit, in scikit-learn's words; ``shape`` is what the container states."""
    if shape is not None and len(shape) == 1 and estimator.n_features_in_ != 1:
        raise InvalidData(
            f"X must be a 2-d table of {estimator.n_features_in_} columns, got an array of one dimension. Reshape your "
            "data with X.reshape(1, -1) if it is a single row."
        )
    from sklearn.utils.validation import validate_data

    facts: Any = np.empty((0, n_features))
    if names is not None:
        import pandas as pd

        facts = pd.DataFrame(facts, columns=names)
    refusal = ""
    try:
        validate_data(estimator, facts, reset=False, skip_check_array=True)
    except ValueError as error:  # of names and their number, which are public
        refusal = str(error)
    if refusal:
        raise InvalidData(refusal)
