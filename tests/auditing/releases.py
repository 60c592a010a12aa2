"""Releases with a known epsilon, which the tests of the auditor share."""

from __future__ import annotations

import math

import numpy as np


def laplace(value, rng, size):
    return value + rng.laplace(scale=1.0, size=size)


WORDS = np.array(["none", "some", "many"])


def words(value, rng, size):
    # Three-way randomized response at epsilon = 1.
    keep = math.e / (math.e + 2)
    other = (value + rng.integers(1, 3, size)) % 3
    return WORDS[np.where(rng.random(size) < keep, value, other)]


def vector(value, rng, size):
    return value / 2 + rng.laplace(size=(size, 2))  # epsilon = 1/2 + 1/2


def answers(value, rng):
    # A list of variable length that holds no data, and two numbers at epsilon 1/2 each.
    length = rng.integers(1, 3)
    return ["above"] * int(length), float(value / 2 + rng.laplace()), float(value / 2 + rng.laplace())


def number(value, rng, size):
    return value + rng.laplace(size=size)
