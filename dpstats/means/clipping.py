"""What clipping does to a mean: how wide to clip, and how far that can move the mean.

Public facts in, public numbers out: nothing here sees data.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import ndtr

from dpstats.data.parameters import check_integer, check_real


def clipping_radius(n_samples: int, sigma: float, bound: float, *, constant: float = 2.0) -> float:
    """Return theorem 9.2.2's clipping radius for sub-Gaussian rows, from public facts alone.

    Parameters
    ----------
    n_samples : int
        Number of rows, at least 2.
    sigma : float
        Sub-Gaussian parameter of a column: E exp(t(x - mu)) <= exp(t^2 sigma^2), the source's
        convention; a normal column of standard deviation s has sigma = s/sqrt(2).
    bound : float
        Public bound on the distance of the mean from the clip centre.
    constant : float, default=2.0
        The theorem's "large enough K". At 2 an entry is clipped with probability at most 2/n.

    Returns
    -------
    float
        ``bound + constant * sigma * sqrt(log n)``: the bound is part of the radius, or clipping
        bias dominates (docs/errata.md).

    Examples
    --------
    >>> from dpstats.means import clipping_radius
    >>> round(clipping_radius(1000, sigma=1.0, bound=3.0), 4)
    8.2565
    """
    n = check_integer("n_samples", n_samples, at_least=2)
    sigma = check_real("sigma", sigma, above=0)
    bound = check_real("bound", bound, at_least=0)
    constant = check_real("constant", constant, above=0)
    return bound + constant * sigma * math.sqrt(math.log(n))


def clipping_bias_bound(std: Any, clip: Any, distance: Any) -> Any:
    """Return a bound on how far clipping moves a column's mean, for any law with this variance.

    With r = clip - distance it is (sqrt(std^2 + r^2) - r)/2: the sharp bound on E(x - t)_+ for a
    given mean and variance (Scarf 1958), at the nearer end of the clip.

    Parameters
    ----------
    std : float or array
        Standard deviation of the column.
    clip : float or array
        The clip R.
    distance : float or array
        Distance of the true mean from the clip centre.
    """
    room = np.asarray(clip) - distance
    return (np.hypot(std, room) - room) / 2


def normal_clipping_bias_bound(std: Any, clip: Any, distance: Any) -> Any:
    """Return `clipping_bias_bound` for a normal column: E(x - c - R)_+."""
    # An estimated deviation can be 0: then what is left is how far the mean is outside.
    std = np.maximum(std, 1e-12 * np.asarray(clip))
    room = (np.asarray(clip) - distance) / std
    density = np.exp(-(room**2) / 2) / math.sqrt(2 * math.pi)
    return np.maximum(0.0, std * (density - room * ndtr(-room)))
