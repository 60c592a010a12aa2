"""Ranges of parameters: the first value outside is refused by name, and the last value inside is accepted."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from dpstats.errors import InvalidParameter
from dpstats.privacy import (
    Neighbors,
    PrivacyBudget,
    PrivacyGuarantee,
    advanced_composition,
    compose,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_sigma,
    group_privacy,
    heterogeneous_composition,
    optimal_composition_delta,
    optimal_composition_epsilon,
    poisson_subsampling,
    tradeoff_curve,
    zcdp_epsilon,
    zcdp_rho,
)
from dpstats.privacy.events import (
    ZCDP,
    Approximate,
    BoundedRange,
    DiscreteLaplace,
    Gaussian,
    GaussianMixture,
    Pure,
    Sampled,
)
from dpstats.privacy.gaussian import zcdp_delta
from dpstats.privacy.plan import largest_cost

SMALLEST, LARGEST = math.ulp(0.0), math.nextafter(math.inf, 0.0)
BELOW_ONE, ABOVE_ONE = math.nextafter(1.0, 0.0), math.nextafter(1.0, 2.0)
ADDED = PrivacyGuarantee(0.1, neighbors=Neighbors.ADD_OR_REMOVE_ONE)
ONE = PrivacyGuarantee(1.0, 1e-6)


def outside(end: float, away: float) -> float:
    return math.nextafter(end, away)


Case = tuple[Callable[[Any], Any], str, list[Any], list[Any]]
NO_SIZE, COST = [-SMALLEST, math.nan, math.inf], [-SMALLEST, outside(1e100, math.inf), math.nan]
SHARE, POSITIVE = [0.0, 1.0, math.nan], [0.0, math.inf, math.nan]
# The call, the parameter, values inside, and values outside.
CASES: list[Case] = [
    (lambda x: PrivacyGuarantee(x), "epsilon", [0.0, LARGEST], NO_SIZE),
    (lambda x: PrivacyGuarantee(1.0, x), "delta", [0.0, 1.0], [-SMALLEST, ABOVE_ONE]),
    (lambda x: PrivacyBudget(x), "epsilon", [SMALLEST], [0.0, math.inf, math.nan]),
    (lambda x: PrivacyBudget(1.0, x), "delta", [0.0, BELOW_ONE], [-SMALLEST, 1.0]),
    (Pure, "epsilon", [0.0, 1e100], COST),
    (BoundedRange, "epsilon", [0.0, 1e100], COST),
    (ZCDP, "rho", [0.0, 1e100], COST),
    (lambda x: Approximate(x, 0.1), "epsilon", [0.0, 1e100], COST),
    (lambda x: Approximate(1.0, x), "delta", [0.0, 1.0], [-SMALLEST, ABOVE_ONE]),
    (Gaussian, "mu", [0.0, 1e100], COST),
    (lambda x: Gaussian(1.0, x), "total_variation", [0.0, LARGEST], NO_SIZE),
    (lambda x: DiscreteLaplace(x, 2.0**100), "sensitivity", [0, 2**100], [-1, 2**100 + 1, 0.5]),
    (lambda x: DiscreteLaplace(0, x), "scale", [SMALLEST, LARGEST], POSITIVE),
    (lambda x: Sampled(Pure(1.0), x), "rate", [SMALLEST, 1.0], [0.0, ABOVE_ONE, math.nan]),
    (lambda x: GaussianMixture([x], [1.0]), "shifts", [0.0, 100.0], [-SMALLEST, outside(100.0, math.inf)]),
    (lambda x: gaussian_delta(x, 1.0), "epsilon", [0.0, LARGEST], NO_SIZE),
    (lambda x: gaussian_delta(1.0, x), "sigma", [SMALLEST, LARGEST], POSITIVE),
    (lambda x: gaussian_delta(1.0, 1.0, x), "sensitivity", [SMALLEST, LARGEST], POSITIVE),
    (lambda x: gaussian_sigma(x, 0.1), "epsilon", [SMALLEST, 1e100], POSITIVE),
    (lambda x: gaussian_sigma(1.0, x), "delta", [1e-300, 0.9], [*SHARE, -SMALLEST]),
    (lambda x: gaussian_sigma(1.0, 0.1, x), "sensitivity", [1e-300, 1e300], POSITIVE),
    (lambda x: gaussian_epsilon(x, 0.1), "sigma", [1e-100, LARGEST], POSITIVE),
    (lambda x: gaussian_epsilon(1.0, x), "delta", [1e-300, BELOW_ONE], SHARE),
    (lambda x: gaussian_epsilon(1.0, 0.1, x), "sensitivity", [SMALLEST, 1e100], [*POSITIVE, outside(1e100, math.inf)]),
    (lambda x: zcdp_delta(x, 1.0), "rho", [0.0, LARGEST], NO_SIZE),
    (lambda x: zcdp_delta(1.0, x), "epsilon", [0.0, LARGEST], NO_SIZE),
    (lambda x: zcdp_epsilon(x, 0.1), "rho", [0.0, 1e300], NO_SIZE),
    (lambda x: zcdp_epsilon(1.0, x), "delta", [1e-300, BELOW_ONE], SHARE),
    (
        lambda x: zcdp_rho(x, 0.1),
        "epsilon",
        [1e-100, 1e100],
        [outside(1e-100, 0.0), outside(1e100, math.inf), math.nan],
    ),
    (lambda x: zcdp_rho(1.0, x), "delta", [1e-300, BELOW_ONE], SHARE),
    (lambda x: compose([ONE], x), "delta", [1e-6, BELOW_ONE], [-SMALLEST, 1.0, math.nan]),
    (lambda x: heterogeneous_composition([ONE], x), "delta_slack", [1e-300, BELOW_ONE], SHARE),
    (lambda x: optimal_composition_delta(x, 2, 0.1), "epsilon", [SMALLEST, 1e100], [0.0, outside(1e100, math.inf)]),
    (lambda x: optimal_composition_delta(1.0, x, 0.1), "k", [1, 10**6], [0, 10**10 + 1, 1.5]),
    (lambda x: optimal_composition_delta(1.0, 2, x), "total_epsilon", [0.0, LARGEST], NO_SIZE),
    (lambda x: optimal_composition_delta(1.0, 2, 0.1, x), "delta", [0.0, BELOW_ONE], [-SMALLEST, 1.0]),
    (lambda x: optimal_composition_epsilon(1.0, 2, x), "total_delta", [0.0, BELOW_ONE], [-SMALLEST, 1.0]),
    (lambda x: group_privacy(ONE, x), "size", [1, 10**12], [0, 10**12 + 1, 1.5]),
    (lambda x: poisson_subsampling(ADDED, x), "rate", [SMALLEST, 1.0], [0.0, ABOVE_ONE, math.nan]),
    (lambda x: tradeoff_curve(ONE, x), "type_one_error", [0.0, 1.0], [-SMALLEST, ABOVE_ONE, math.nan]),
    (lambda x: largest_cost(lambda cost: [Pure(cost)], ONE, x), "start", [0.5], POSITIVE),
]


@pytest.mark.parametrize(("call", "name", "within", "beyond"), CASES)
def test_ranges_include_their_last_values_and_no_further_ones(
    call: Callable[[Any], Any], name: str, within: list[Any], beyond: list[Any]
) -> None:
    for value in within:
        call(value)
    for value in beyond:
        with pytest.raises(InvalidParameter, match=f"^{name}"):
            call(value)


REFUSED = {
    "sensitivity must be smaller": lambda: gaussian_sigma(1e-3, 1e-12, 1e308),
    "epsilon must be at most 700 for theorem 3.20": lambda: advanced_composition(700.5, 2, 1e-6),
    "epsilon must be at most 700 for a budget": lambda: PrivacyBudget(701.0, 1e-6, method="gdp"),
    "GaussianMixture has no conversion": lambda: GaussianMixture([0.5], [1.0]).as_replace_one(),
    "delta must be greater than 0 for a budget": lambda: PrivacyBudget(1.0, method="gdp"),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_a_formula_does_not_cover_is_refused(words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        REFUSED[words]()
