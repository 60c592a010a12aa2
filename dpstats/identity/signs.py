"""From normal rows to signs: the reduction of theorem 9.3.1."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.labels import by_name, column_names
from dpstats.data.rows import as_float64
from dpstats.errors import refuse_data
from dpstats.identity.whitening import Reference, signs_of


def sign_reduction(X: Any, mean: Any = 0.0, cov: Any = None) -> NDArray[np.int8]:
    """Return F(x) = sgn(cov^(-1/2) (x - mean)) for every row, with sgn 0 = 1.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Finite numbers.
    mean : float or array of shape (n_features,), default=0.0
        Public; with labels, by the names of a data frame's columns, and so is ``cov``.
    cov : None, array of shape (n_features,) or (n_features, n_features), default=None
        Public covariance matrix, or variances; None is the identity.

    Returns
    -------
    int8 array of shape (n_samples, n_features)
        Entries -1 and 1: uniform and independent if the rows are N(mean, cov).

    Notes
    -----
    **Mean.** If cov^(-1/2) (x - mean) has mean a, column i of the signs has mean erf(a_i/sqrt 2), which is close to
    sqrt(2/pi) a_i. For small a and without privacy, a test on signs needs pi/2 times as many rows as a test on the
    whitened rows. The chain in the text has a wrong sign and wrong constants in this step (docs/errata.md).

    **Privacy.** The map uses public numbers and acts on each row separately, so neighbors stay neighbors.

    **Ties.** Entries at their center have sign +1. Data with many such ties (counts, rounded or imputed numbers)
    therefore do not have uniform signs.

    Examples
    --------
    >>> from dpstats.identity import sign_reduction
    >>> sign_reduction([[0.5, -2.0], [3.0, 0.0]], mean=[1.0, 0.0])
    array([[-1, -1],
           [ 1,  1]], dtype=int8)
    """
    rows = np.asarray(X)
    if rows.ndim != 2 or rows.size == 0 or rows.dtype.kind not in "biuf":
        raise refuse_data("X", allowed="a non-empty 2-d table of real numbers")
    if rows.dtype.itemsize > 8:
        rows = as_float64(rows)
    names = column_names(X)
    reference = Reference.build(
        by_name("mean", mean, names), by_name("cov", cov, names), "normal", rows.shape[1]
    )
    result = np.empty(rows.shape, dtype=np.int8)
    for piece, Z in reference.blocks(rows, "error"):
        result[piece] = signs_of(Z)
    return result
