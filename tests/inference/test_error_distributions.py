"""Error distributions: limits from tails, tails from limits, and the ones that every family uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpstats.errors import DPStatsError, InvalidParameter
from dpstats.inference.error_distributions import (
    ErrorDistribution,
    Limits,
    NoLimits,
    NormalErrors,
    SelectedErrors,
    Tail,
    chosen_limits,
    usual_level,
)


@dataclass(frozen=True, eq=False)
class ByTails(ErrorDistribution):
    """Normal errors, known by their tails, of estimands between -10 and 10."""

    estimate: Any
    error: Any

    @property
    def start(self) -> Any:
        return self.estimate

    @property
    def box(self) -> Limits:
        return np.full(self.estimate.shape, -10.0), np.full(self.estimate.shape, 10.0)

    def tails(self, value: Any) -> Limits:
        z = (self.estimate - value) / self.error
        return stats.norm.cdf(z), stats.norm.sf(z)


@dataclass(frozen=True, eq=False)
class ByLimits(ErrorDistribution):
    """The same, known by their limits."""

    estimate: Any
    error: Any

    @property
    def start(self) -> Any:
        return self.estimate

    def limits(self, tail: Tail) -> Limits:
        half = self.error * stats.norm.isf(tail)
        return self.estimate - half, self.estimate + half


ESTIMATE, ERROR = np.array([0.5, -1.0, 2.0]), np.array([0.2, 0.5, 1.0])


@pytest.mark.parametrize("kind", [ByTails, ByLimits, NormalErrors])
def test_limits_and_tails_are_those_of_a_normal_variable(kind: type) -> None:
    errors = kind(ESTIMATE, ERROR)
    half = stats.norm.isf(0.05) * ERROR
    np.testing.assert_allclose(errors.limits(0.05), [ESTIMATE - half, ESTIMATE + half], rtol=1e-9)
    z = (ESTIMATE - 0.3) / ERROR
    value = np.full(3, 0.3)
    np.testing.assert_allclose(errors.tails(value), [stats.norm.cdf(z), stats.norm.sf(z)], rtol=1e-9)
    np.testing.assert_allclose(errors.two_sided(value), 2 * stats.norm.sf(abs(z)), rtol=1e-9)


def test_a_distribution_that_knows_neither_is_an_error_where_it_is_written() -> None:
    with pytest.raises(TypeError, match="Neither must define limits or tails"):

        class Neither(ErrorDistribution):
            @property
            def start(self) -> Any:
                return np.zeros(1)


def test_normal_errors_stay_inside_their_bounds() -> None:
    errors = NormalErrors(np.array([1.5]), np.array([1.0]), least=0.0, largest=1.0)
    assert errors.start.tolist() == [1.0]
    low, high = errors.limits(0.025)
    assert low.tolist() == [0.0] and high.tolist() == [1.0]


def test_selected_errors_have_the_tail_times_the_proportion() -> None:
    each = NormalErrors(ESTIMATE, ERROR)
    selected = SelectedErrors(each, 0.25)
    np.testing.assert_array_equal(selected.limits(0.04), each.limits(0.01))
    np.testing.assert_allclose(selected.tails(ESTIMATE - 3 * ERROR)[1], 4 * stats.norm.sf(3.0))
    assert np.isnan(selected.standard_error).all() and selected.known


def test_chosen_limits_have_one_level_and_no_pvalue() -> None:
    errors = chosen_limits(ESTIMATE, ESTIMATE - 1, ESTIMATE + 1, 0.9)
    assert errors.confirm_level(None) == 0.9
    np.testing.assert_array_equal(errors.limits(0.05), [ESTIMATE - 1, ESTIMATE + 1])
    with pytest.raises(InvalidParameter, match=r"confidence_level must be 0\.9"):
        errors.confirm_level(0.95)
    for question in (lambda: errors.limits(0.025), lambda: errors.tails(ESTIMATE)):
        with pytest.raises(DPStatsError):
            question()


def test_without_limits_every_question_says_why() -> None:
    errors = chosen_limits(ESTIMATE, np.nan, np.nan, None)
    assert isinstance(errors, NoLimits) and not errors.known
    for question in (lambda: errors.confirm_level(None), lambda: errors.tails(ESTIMATE)):
        with pytest.raises(InvalidParameter, match="there are no intervals"):
            question()


def test_the_usual_level_is_95_percent() -> None:
    assert usual_level(None) == 0.95 and usual_level(0.9) == 0.9
