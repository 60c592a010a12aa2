"""The spatial-sign test: the normal limit that it simulates from."""

from __future__ import annotations

import numpy as np
from scipy import stats


def test_normal_limit_of_the_spatial_sign() -> None:
    """At the size from which the limit is used, against rows: KS, false alarm 1e-5; 3% off is noticed."""
    from dpstats.identity.by_spatial_sign import integer_norm, normal_limit, spatial_sign_lattice

    rng = np.random.default_rng(2)
    n, d = 2000, 3
    for shift in (0.0, np.array([0.02, 0.0, 0.02])):
        lattice = spatial_sign_lattice(n, d)
        rows = [
            integer_norm(lattice.sums(rng.standard_normal((n, d)) + shift)[0]) * lattice.spacing for _ in range(1500)
        ]
        limit = normal_limit(n, d, 0.75 * np.sqrt(d), 40_000, rng, shift)
        assert stats.ks_2samp(rows, limit).pvalue > 1e-5
        assert stats.ks_2samp(rows, 1.15 * limit).pvalue < 1e-5
