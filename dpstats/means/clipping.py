from __future__ import annotations

import math

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
        Public bound on the distance of the mean from the clip center.
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
