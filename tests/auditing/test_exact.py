"""Exact epsilon and delta against closed forms and against every event."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dpstats.auditing import audit_probabilities, exact_delta, exact_epsilon
from dpstats.errors import InvalidParameter
from dpstats.mechanisms import ExponentialMechanism, RandomizedResponse


@pytest.mark.parametrize("categories", [2, 5])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_randomized_response(epsilon: float, categories: int) -> None:
    laws = [RandomizedResponse(epsilon, categories).probabilities(value) for value in (0, 1)]
    assert exact_epsilon(*laws) == pytest.approx(epsilon, rel=1e-9)
    # p = e^eps/(e^eps + k - 1) and q = 1/(e^eps + k - 1): the excess over e^t is p - e^t q.
    total = math.exp(epsilon) + categories - 1
    for smaller in (0.0, epsilon / 2):
        delta = (math.exp(epsilon) - math.exp(smaller)) / total
        assert exact_delta(*laws, smaller) == pytest.approx(delta, rel=1e-9)
        assert exact_epsilon(*laws, delta) == pytest.approx(smaller, abs=1e-9)


def test_every_event_of_random_laws() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        p, q = rng.dirichlet(np.ones(6), size=2)
        events = np.array(list(itertools.product([False, True], repeat=6)))
        for epsilon in (0.0, 0.3, 1.0):
            ways = ((p, q), (q, p))
            delta = max(np.max(events @ a - math.exp(epsilon) * (events @ b)) for a, b in ways)
            assert exact_delta(p, q, epsilon) == pytest.approx(delta, abs=1e-12)
            if delta > 0:
                assert exact_epsilon(p, q, delta) == pytest.approx(epsilon, abs=1e-9)


def test_outcomes_that_one_of_them_never_has() -> None:
    p, q = {"a": 0.5, "b": 0.5}, {"b": 0.4, "c": 0.6}
    assert exact_epsilon(p, q) == math.inf and exact_epsilon(p, q, 0.55) == math.inf
    # At 0.6 all of "c" is paid for; what is left is log(0.5/0.4) less what the other way pays.
    assert exact_epsilon(p, q, 0.6) == pytest.approx(math.log(1.0 - 0.6) - math.log(0.4), abs=1e-12)
    assert exact_delta(p, q, 800.0) == pytest.approx(0.6)
    assert exact_epsilon([1.0, 0.0], [1.0, 0.0]) == 0.0


def counts(dataset: tuple[int, ...]) -> np.ndarray:
    return np.bincount(dataset, minlength=3).astype(float)


DATASETS = list(itertools.product(range(3), repeat=3))
PAIRS = [(a, b) for a in DATASETS for b in DATASETS if sum(x != y for x, y in zip(a, b, strict=True)) == 1]


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_exponential_mechanism_over_all_neighbors(epsilon: float) -> None:
    mechanism = ExponentialMechanism(sensitivity=1.0, epsilon=epsilon, random_state=0)
    result = audit_probabilities(
        lambda data: mechanism.probabilities(counts(data)), PAIRS, epsilon=epsilon, tolerance=1e-7
    )

    # Weights e^(eps u/2): the worst pair from the same closed form in plain numpy.
    def law(data):
        weights = np.exp(epsilon * counts(data) / 2)
        return weights / weights.sum()

    worst = max(np.max(np.log(law(a) / law(b))) for a, b in PAIRS)
    assert not result.violated and result.n_pairs == len(PAIRS) == 162
    assert result.epsilon_lower == pytest.approx(worst, rel=1e-6)
    # Half the sensitivity, the planted bug: the probabilities give it away without a single draw.
    wrong = ExponentialMechanism(sensitivity=0.5, epsilon=epsilon, random_state=0)
    bad = audit_probabilities(lambda data: wrong.probabilities(counts(data)), PAIRS, epsilon=epsilon)
    assert bad.violated and bad.confidence == 1.0 and "violated" in str(bad)


def test_the_tolerance_is_for_rounding_alone() -> None:
    def law(value: int) -> list[float]:
        p = math.exp(1.0) / (1 + math.exp(1.0))
        return [p, 1 - p] if value else [1 - p, p]

    assert not audit_probabilities(law, [(0, 1)], epsilon=1.0).violated
    assert audit_probabilities(law, [(0, 1)], epsilon=1.0 - 1e-8).violated


def test_bad_input() -> None:
    with pytest.raises(InvalidParameter, match="p must"):
        exact_epsilon([0.5, 0.6], [0.5, 0.5])
    with pytest.raises(InvalidParameter, match="q must"):
        exact_delta([0.5, 0.5], [-0.5, 1.5], 1.0)
    with pytest.raises(InvalidParameter, match="q must"):
        exact_epsilon([0.5, 0.5], [1.0])
    with pytest.raises(InvalidParameter, match="q must"):
        exact_epsilon([0.5, 0.5], {"a": 1.0})
    with pytest.raises(InvalidParameter, match="pairs must"):
        audit_probabilities(lambda data: [1.0], [], epsilon=1.0)
    with pytest.raises(InvalidParameter, match="probabilities must"):
        audit_probabilities({0: [0.5, 0.5]}, [(0, 1)], epsilon=1.0)  # type: ignore[arg-type]
