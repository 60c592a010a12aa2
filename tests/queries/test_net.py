"""Choices among databases: the whole output law, for all neighbors; nets, sizes and refusals."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpstats.errors import InvalidData, InvalidParameter
from dpstats.privacy import PrivacyBudget
from dpstats.queries import LinearQueries
from dpstats.release.session import Session
from dpstats.textbook import NetMechanism, SmallDB
from dpstats.textbook.error_bounds import multisets, n_multisets, net_bound
from dpstats.textbook.net_mechanism import DATABASE, worst_errors

SUBSETS = (np.arange(1, 15)[:, None] >> np.arange(4)) & 1
DATA = multisets(4, 3)


def law(queries: np.ndarray, x: np.ndarray, m: int, epsilon: float) -> np.ndarray:
    """Return P(y) proportional to exp(-epsilon n max_f |f(x) - f(y)|/2) by its definition, in rational arithmetic."""
    n = int(x.sum())
    weights = []
    for y in multisets(queries.shape[1], m).tolist():
        errors = [
            abs(
                sum(Fraction(v) * c for v, c in zip(f, x.tolist(), strict=True)) / n
                - sum(Fraction(v) * c for v, c in zip(f, y, strict=True)) / m
            )
            for f in queries.tolist()
        ]
        weights.append(math.exp(-epsilon * float(n * max(errors)) / 2))
    return np.array(weights) / sum(weights)


def neighbors(x: np.ndarray) -> list[np.ndarray]:
    """Return all histograms with one row elsewhere."""
    moves = np.eye(4, dtype=int)
    return [x - moves[i] + moves[j] for i in range(4) for j in range(4) if i != j and x[i] > 0]


def worst_loss(made: SmallDB) -> float:
    laws = {tuple(x): made.probabilities(x) for x in DATA}
    return max(float(np.abs(np.log(laws[tuple(x)] / laws[tuple(other)])).max()) for x in DATA for other in neighbors(x))


def test_the_output_law_is_the_stated_one_and_private_for_all_neighbors() -> None:
    made = SmallDB(queries=SUBSETS, n_rows=3, epsilon=1.0)
    for x in DATA[:6]:
        # Answers are rounded to 2^-20 rows.
        assert made.probabilities(x) == pytest.approx(law(SUBSETS, x, 3, 1.0), rel=1e-5)
    # Every pair of neighbors; .63 to .70 of the epsilon is used, as far as a bounded range lets it.
    assert 0.63 <= worst_loss(made) <= 0.70
    # A count's sensitivity taken for that of a share: three times the exponent.
    assert worst_loss(SmallDB(queries=SUBSETS, n_rows=3, epsilon=3.0)) > 1.0


def test_what_is_drawn_has_that_law() -> None:
    made, x = SmallDB(queries=SUBSETS, n_rows=3, epsilon=2.0), DATA[4]
    plan = made.plan(3)
    errors = worst_errors(made._read(_counts(x), plan)[DATABASE], plan)
    with Session.simulated(plan, np.random.default_rng(0), 40_000) as session:
        drawn = session.select(DATABASE, -errors)[:, 0]
    expected = made.probabilities(x)
    # False alarm 1e-6; a law at another epsilon is rejected at the same level.
    counts = np.bincount(drawn, minlength=expected.size)
    assert stats.chisquare(counts, 40_000 * expected).pvalue > 1e-6
    other = SmallDB(queries=SUBSETS, n_rows=3, epsilon=1.5).probabilities(x)
    assert stats.chisquare(counts, 40_000 * other).pvalue < 1e-6


def _counts(x: np.ndarray) -> object:
    from dpstats.data.opening import read_counts

    return read_counts(x)


def test_a_fit_reports_the_database_that_was_chosen() -> None:
    budget = PrivacyBudget(1.0)
    made = SmallDB(queries=SUBSETS, n_rows=5, epsilon=1.0, budget=budget).fit([40, 30, 20, 10])
    assert made.database_.sum() == 5 and made.synthetic_ == pytest.approx(made.database_ / 5)
    assert np.array_equal(made.plan_.databases[made.chosen_], made.synthetic_)
    assert made.predict() == pytest.approx(SUBSETS @ made.synthetic_)
    assert budget.remaining is None or budget.remaining.epsilon == 0
    bound = made.plan_.error_bound(0.05)
    expected = net_bound(100, n_databases=56, net_error=made.plan_.net_error, epsilon=1.0)
    assert bound.error == pytest.approx(expected.error, rel=1e-9) == pytest.approx(made.error_bound_, rel=1e-9)
    low, high = made.confidence_interval()
    assert np.all(low <= made.predict()) and np.all(made.predict() <= high)
    assert "Chosen from:         56 databases" in str(made.summary())


def test_the_error_bound_holds() -> None:
    # Of 400 choices a bound at .2 may fail for 80; that more than 120 do has a probability below 1e-6.
    made = SmallDB(queries=SUBSETS, n_rows=6, epsilon=1.0, beta=0.2, random_state=np.random.default_rng(1))
    x = np.array([25, 12, 2, 1])
    true = SUBSETS @ x / x.sum()
    plan = made.plan(40)
    errors = worst_errors(made._read(_counts(x), plan)[DATABASE], plan)
    with Session.simulated(plan, np.random.default_rng(3), 400) as session:
        drawn = session.select(DATABASE, -errors)[:, 0]
    found = np.abs(plan.databases[drawn] @ SUBSETS.T - true).max(axis=1)
    assert np.count_nonzero(found > plan.error_bound(0.2).error) <= 120


def test_sizes_of_small_databases() -> None:
    two = SUBSETS[:2]
    assert SmallDB(queries=two, accuracy=0.2).fit([5, 5, 5, 5]).database_.sum() == 5
    # Printed: ceil(log 2/0.04) = 18.
    printed = SmallDB(queries=two, accuracy=0.2, calibration="textbook").fit([5, 5, 5, 5])
    assert printed.database_.sum() == 18
    with pytest.raises(InvalidParameter, match="no rows for one query"):
        SmallDB(queries=two[:1], accuracy=0.2, calibration="textbook").plan(10)
    with pytest.raises(InvalidParameter, match="accuracy or n_rows must be given, at most one of them, got both"):
        SmallDB(queries=two, accuracy=0.1, n_rows=3).plan(10)
    with pytest.raises(InvalidParameter, match="multiplicative_weights"):
        SmallDB(queries=np.eye(50), n_rows=50).plan(10)
    with pytest.raises(InvalidParameter, match="queries must"):
        SmallDB(n_rows=3).plan(10)


@pytest.mark.parametrize("n", [20, 500, 10_000])
def test_without_an_accuracy_the_bound_is_the_smallest(n: int) -> None:
    plan = SmallDB(queries=SUBSETS).plan(n)
    bounds = [SmallDB(queries=SUBSETS, n_rows=m).plan(n).error_bound().error for m in range(1, 25)]
    assert plan.error_bound().error <= 1.01 * min(bounds)
    assert SmallDB(queries=SUBSETS).fit([n // 4] * 4).database_.sum() == round(
        1 / plan.databases[plan.databases > 0].min()
    )


def test_the_printed_accuracy_of_theorem_4_5() -> None:
    # Half of ((16 log 4 log 6 + 4 log 20)/(n epsilon))^(1/3) is for the databases: log 6/accuracy^2 rows.
    n, queries = 400, SUBSETS
    k = len(queries)
    alpha = ((16 * math.log(4) * math.log(k) + 4 * math.log(20)) / n) ** (1 / 3)
    plan = SmallDB(queries=queries, calibration="textbook").plan(n)
    assert len(plan.databases) == n_multisets(4, math.ceil(math.log(k) / (alpha / 2) ** 2))
    assert SmallDB(queries=[[1.0], [0.5]]).plan(10).databases.tolist() == [[1.0]]


def test_nets_are_given_or_built() -> None:
    queries = LinearQueries.from_matrix(SUBSETS)
    built = NetMechanism(queries=queries, accuracy=0.2, epsilon=1.0, random_state=0).fit([400, 300, 200, 100])
    assert np.abs(built.predict() - SUBSETS @ [0.4, 0.3, 0.2, 0.1]).max() <= built.error_bound_ < 0.3
    given = NetMechanism(queries=queries, net=np.eye(4), random_state=0).fit([0, 1000, 0, 0])
    assert given.synthetic_.tolist() == [0, 1, 0, 0]
    assert given.error_bound_ == 1.0  # of a net of which nothing is known
    assert NetMechanism(queries=queries, net=np.eye(4), accuracy=0.9).plan(10).net_error == 0.9
    with pytest.raises(InvalidParameter, match="net or accuracy must be given"):
        NetMechanism(queries=queries).plan(10)


def test_a_delta_buys_a_little() -> None:
    made = [SmallDB(queries=SUBSETS, n_rows=2, epsilon=1.0, delta=d).plan(10) for d in (0.0, 1e-2)]
    assert made[1].selection.scale_steps < made[0].selection.scale_steps
    assert all(plan.guarantee.epsilon <= 1.0 for plan in made)


def test_a_histogram_of_another_universe_is_refused() -> None:
    with pytest.raises(InvalidData, match=r"^X must"):
        SmallDB(queries=SUBSETS, n_rows=2).fit([1, 2, 3])
