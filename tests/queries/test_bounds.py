"""The theorems' bounds against their formulas, and what is vacuous."""

from __future__ import annotations

import math

import pytest

from dpstats.errors import InvalidParameter
from dpstats.textbook.error_bounds import (
    AccuracyBound,
    construction_bound,
    log_trivial_net,
    median_bound,
    median_updates,
    multiplicative_weights_updates,
    net_bound,
    online_bound,
    perceptron_bound,
    perceptron_updates,
    small_db_bound,
    vc_bound,
)


def test_small_databases() -> None:
    printed = small_db_bound(10_000, size=100, n_queries=50, epsilon=0.5, printed=True)
    root = (16 * math.log(100) * math.log(50) + 4 * math.log(20)) / 5000
    assert printed.error == pytest.approx(root ** (1 / 3), rel=1e-12) and "4.5" in printed.source
    # Proposition 4.4 at the alpha of the theorem is what the theorem is made of: never above it twofold.
    at = small_db_bound(10_000, size=100, n_queries=50, epsilon=0.5, accuracy=0.2, printed=True)
    expected = 0.2 + 2 * (math.log(100) * math.log(50) / 0.04 + math.log(20)) / 5000
    assert at.error == pytest.approx(expected, rel=1e-12) and "4.4" in at.source
    tight = small_db_bound(10_000, size=100, n_queries=50, epsilon=0.5)
    assert tight.error < printed.error and not tight.vacuous
    assert small_db_bound(100, size=4096, n_queries=50, epsilon=0.5).vacuous


def test_nets_and_vc_dimension() -> None:
    bound = net_bound(1000, n_databases=20, net_error=0.1, epsilon=2.0, beta=0.01)
    assert bound.error == pytest.approx(0.1 + (math.log(20) + math.log(100)) / 1000, rel=1e-12)
    few, many = (vc_bound(n, size=10**9, vc_dimension=1, epsilon=1.0).error for n in (10**8, 10**6))
    assert few < many
    # For more queries than it pays to count, on more points than rounding pays for.
    assert few < small_db_bound(10**8, size=10**9, n_queries=10**300, epsilon=1.0).error


def test_updates() -> None:
    assert multiplicative_weights_updates(4096, 0.1) == math.floor(math.log(4096) / 0.02)
    assert multiplicative_weights_updates(4096, 0.1, printed=True) == math.floor(4 * math.log(4096) / 0.01)
    assert median_updates(1) == 0 and median_updates(1024) == 10 and median_updates(1023) == 9
    assert perceptron_updates(100, 0.1, printed=True) == 10_000
    assert perceptron_updates(100, 0.1, norm=0.05) == math.floor((5 - 1) / 0.04)
    assert perceptron_updates(100, 0.1, norm=0.01) == 0  # uniform, which the start is
    assert log_trivial_net(10, 5) == pytest.approx(5 * math.log(10))


def test_online_bounds_solve_their_equations() -> None:
    # The figure of the RAND example: vacuous, and said so.
    bound = online_bound(20_190, size=4096, n_queries=10_000, epsilon=1.0)
    assert bound.error == pytest.approx(1.9546, abs=1e-3) and bound.vacuous and "vacuous" in str(bound)
    for delta in (0.0, 1e-6):
        alpha = online_bound(10**7, size=100, n_queries=50, epsilon=1.0, delta=delta).error / 3
        c = 4 * math.log(100) / alpha**2
        logs = math.log(100) + math.log(4 * c / 0.05)
        expected = 9 * c * logs / 10**7
        if delta:
            expected = (2 + 32 * math.sqrt(2)) * math.sqrt(c * math.log(2e6)) * logs / 10**7
        assert alpha == pytest.approx(expected, rel=1e-9)


def test_constructions() -> None:
    updates = 4 * math.log(100)
    for delta in (0.0, 1e-6):
        bound = construction_bound(10**6, updates=lambda a: updates / a**2, n_queries=50, epsilon=1.0, delta=delta)
        rounds = updates / bound.error**2
        each = 1 / (4 * math.sqrt(rounds * math.log(1e6))) if delta else 1 / (2 * rounds)
        assert bound.error == pytest.approx(16 * math.log(2 * 50 * rounds / 0.05) / (1e6 * each), rel=1e-9)
    given = {"size": 100, "n_queries": 50, "epsilon": 1.0, "delta": 1e-6}
    expected = 16 * math.sqrt(math.log(100) * math.log(1e6)) / 1e4
    assert median_bound(10**8, **given, printed=True).error == pytest.approx(
        expected * math.log(100 * 1e8 * math.log(100) / 0.05), rel=1e-9
    )
    # A dense database has a small norm: 1/size of it is a hundredth, and a tenth of the square root.
    dense, sparse = (perceptron_bound(10**6, **given, norm=norm, printed=True).error for norm in (0.01, 1.0))
    assert dense < sparse / 3
    length = 1e6
    logs = math.log(2 * 50 * 100 * length**2 / 0.05)
    expected = 4**0.25 * math.sqrt(length) * (400 * math.log(1e6)) ** 0.25 * math.sqrt(logs) / 1e6
    assert sparse == pytest.approx(expected, rel=1e-12)


def test_what_follows_for_medians_and_perceptrons_is_above_what_is_printed() -> None:
    n, size, k, log_delta = 10**6, 64, 100, math.log(1e6)
    given = {"size": size, "n_queries": k, "epsilon": 1.0, "delta": 1e-6}
    true, printed = (median_bound(n, **given, printed=flag) for flag in (False, True))
    rounds = n * math.log(size)
    expected = 64 * math.sqrt(math.log(size) * log_delta / n) * math.log(2 * k * rounds / 0.05)
    assert true.error == pytest.approx(expected, rel=1e-9)
    assert true.error / printed.error == pytest.approx(4.0, rel=1e-9) and "corrected" in true.source
    for norm, ratio in ((1.0, 2.52), (1 / 64, 2.50)):
        true, printed = (perceptron_bound(n, **given, norm=norm, printed=flag) for flag in (False, True))
        assert true.error / printed.error == pytest.approx(ratio, abs=0.01) and "printed" in printed.source
        # The printed form with 8 in the place of 2 is above it, as its logarithm is of more rounds.
        roots = 8 * math.sqrt(math.sqrt(norm) * n) * (size * log_delta) ** 0.25
        with_eight = roots * math.sqrt(math.log(2 * k * size * norm * n**2 / 0.05)) / n
        assert with_eight == pytest.approx(4 * printed.error, rel=1e-9) and with_eight >= true.error
        rounds = norm * size / true.error**2
        assert true.error == pytest.approx(
            64 * math.sqrt(rounds * log_delta) * math.log(2 * k * rounds / 0.05) / n, rel=1e-9
        )


def test_a_bound_is_a_number_and_a_sentence() -> None:
    bound = AccuracyBound(0.1, 0.05, "theorem 1")
    assert float(bound) == 0.1 and not bound.vacuous
    assert str(bound) == "every answer is within 0.1 of the data's, but for probability 0.05 (theorem 1)"
    with pytest.raises(InvalidParameter, match=r"^beta must"):
        net_bound(10, n_databases=2, net_error=0.1, epsilon=1.0, beta=0.0)


def test_a_probability_beyond_one_is_refused() -> None:
    for printed in (False, True):
        with pytest.raises(InvalidParameter, match=r"^beta must"):
            small_db_bound(10_000, size=100, n_queries=50, epsilon=0.5, beta=2.0, printed=printed)
