"""From normal rows to signs."""

from __future__ import annotations

import numpy as np

from dpstats.identity import sign_reduction


def test_sign_reduction_and_its_loss() -> None:
    # F(x) = sgn(cov^(-1/2) (x - mean)): E = erf(a/sqrt 2), here .6827 at a = 1.
    cov = np.array([[2.0, 0.6], [0.6, 1.0]])
    values, vectors = np.linalg.eigh(cov)
    root = vectors @ np.diag(np.sqrt(values)) @ vectors.T
    rng = np.random.default_rng(1)
    X = 3.0 + (rng.standard_normal((40_000, 2)) + np.array([1.0, 0.0])) @ root
    signs = sign_reduction(X, mean=3.0, cov=cov)
    assert set(np.unique(signs)) == {-1, 1}
    # Five standard errors: a false alarm below 1e-6.
    assert np.abs(signs.mean(axis=0) - [0.6827, 0.0]).max() < 5 / np.sqrt(40_000)
    assert abs(np.mean(signs[:, 0] * signs[:, 1] * 1.0)) < 5 / np.sqrt(40_000)
    assert sign_reduction([[0.0]]).tolist() == [[1]]
