"""Rounds: what a row moves scores by, and what is learnt from counts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dpstats.data.rows import Table
from dpstats.privacy import PrivacyGuarantee
from dpstats.queries import Domain, LinearQueries, MarginalMWEM
from dpstats.queries.domain import MarginalQueries
from dpstats.queries.linear import ROW
from dpstats.queries.mwem import MOVED, Rounds, default_rounds

SHAPE = (2, 3)
MADE = MarginalMWEM(domain=SHAPE, workload=(1, 2), rounds=2)
PLAN = MADE.plan(3)
# So little noise that counts are fitted closely.
SHARP = MarginalMWEM(domain=SHAPE, workload=(1, 2), rounds=2, epsilon=1e4).plan(3)


def rounds_at(p: np.ndarray) -> Rounds:
    rounds = Rounds(PLAN, len(p))
    rounds.p = p
    return rounds


def test_a_row_moves_a_score_by_two_rows_at_most() -> None:
    rounds = rounds_at(np.vstack([np.full(6, 1 / 6), np.random.default_rng(0).dirichlet(np.ones(6), size=20)]))
    kinds = list(itertools.product(range(2), range(3)))
    most = np.zeros(3, dtype=np.int64)
    scores = {
        rows: rounds.scores(MADE._read(Table(np.array(rows)), PLAN)) for rows in itertools.product(kinds, repeat=3)
    }
    for rows, found in scores.items():
        for other in kinds:
            most = np.maximum(most, np.abs(found - scores[*rows[:2], other]).max(axis=0))
    # Attained by every table, and twice what an added row could do.
    assert most.tolist() == [MOVED * ROW] * 3
    assert all(stage.sensitivity_steps == MOVED * ROW for stage in PLAN.selections)


def test_a_row_moves_two_counts_of_a_table_and_the_noise_is_for_both() -> None:
    padded = [
        Rounds(PLAN).padded(MADE._read(Table(np.array([[0, 0], [0, 1], row])), PLAN), np.arange(3))
        for row in itertools.product(range(2), range(3))
    ]
    squared = max(int(((a - b) ** 2).sum(axis=1).max()) for a, b in itertools.combinations(padded, 2))
    assert squared == 2 * ROW**2
    assert all((stage.sensitivity_steps - 1) ** 2 < squared <= stage.sensitivity_steps**2 for stage in PLAN.additive)


def test_counts_are_fitted_and_precision_adds_up() -> None:
    exact = MADE._read(Table(np.array([[0, 0], [0, 1], [1, 2]])), PLAN)
    rounds = Rounds(SHARP, 4)
    chosen = np.array([0, 1, 2, 2])
    noisy = rounds.padded(exact, chosen) / ROW
    for _ in range(3):
        rounds.learn(chosen, noisy)
    p = rounds.p.reshape(4, *SHAPE)
    assert p[0].sum(axis=1) == pytest.approx([2 / 3, 1 / 3], abs=0.05)
    # What was not measured stays even.
    assert p[0][0] == pytest.approx(np.full(3, p[0][0].mean()), rel=1e-6)
    assert p[1].sum(axis=0) == pytest.approx(np.full(3, 1 / 3), abs=1e-6)
    assert p[2] == pytest.approx(p[3]) and p[2][0, 0] > 0.2 > p[2][1, 0]


def test_a_smaller_table_is_padded_with_zeros() -> None:
    exact = MADE._read(Table(np.array([[0, 0], [0, 1], [1, 2]])), PLAN)
    rows = Rounds(PLAN).padded(exact, np.array([0, 2]))
    assert (rows // ROW).tolist() == [[2, 1, 0, 0, 0, 0], [1, 1, 0, 0, 0, 1]]


def test_rounds_grow_with_the_budget_and_the_rows() -> None:
    queries = LinearQueries.marginals(Domain(dict.fromkeys("abcdefgh", 4)), (2, 3))
    assert isinstance(queries, MarginalQueries)

    def rounds(n: int, epsilon: float) -> int:
        return default_rounds(queries, n, PrivacyGuarantee(epsilon, 1e-6))

    by_epsilon = [rounds(20_000, epsilon) for epsilon in (0.1, 1.0, 2.0, 4.0, 100.0)]
    assert by_epsilon[0] == 8 and by_epsilon[-1] == len(queries.tables) == 84
    assert by_epsilon == sorted(by_epsilon) and by_epsilon[1] < by_epsilon[2] < by_epsilon[3]
    assert rounds(2_000, 1.0) == 8 < rounds(20_000, 1.0) < rounds(200_000, 1.0)
    made = MarginalMWEM(domain=Domain(dict.fromkeys("abcdefgh", 4)), workload=(2, 3), epsilon=4.0)
    assert made.plan(20_000).rounds == by_epsilon[3]
