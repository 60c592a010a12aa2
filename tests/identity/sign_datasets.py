"""Sign datasets for brute force: all of a size, their neighbors, and the plain definitions."""

import itertools
from collections import Counter

import numpy as np

A_, B_, C_, P_ = (-1, -1, 1), (-1, 1, -1), (1, -1, -1), (1, 1, 1)
# The smallest known counterexample to the printed 4 Delta (docs/errata.md): n = 12, d = 3, Delta = 4.
FIRST = np.array([A_] * 4 + [B_] * 4 + [C_] * 4)
SECOND = np.array([P_] * 2 + [A_] * 3 + [B_] * 3 + [C_] * 4)


def plain_statistic(X):
    X = np.asarray(X)
    return int((X.sum(axis=0) ** 2).sum() - X.size)


def inside_set(X, Delta):
    X = np.asarray(X)
    return bool((np.abs(X @ X.sum(axis=0)) <= Delta).all())


def datasets(n, d):
    patterns = list(itertools.product((-1, 1), repeat=d))
    return patterns, list(itertools.combinations_with_replacement(patterns, n))


def neighbor_groups(n, d):
    patterns, _ = datasets(n, d)
    for rest in itertools.combinations_with_replacement(patterns, n - 1):
        yield [tuple(sorted((*rest, p))) for p in patterns]


def distance(X, Y):
    return len(X) - sum((Counter(map(tuple, X)) & Counter(map(tuple, Y))).values())
