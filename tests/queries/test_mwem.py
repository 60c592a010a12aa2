"""Tables by MWEM: few are measured, all are answered, and only what was measured has intervals."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.queries import Domain, LinearQueries, MarginalMWEM, WorkloadAnswers
from dpstats.queries.mwem import its_counts, worst_table
from dpstats.release.session import Session
from tests.queries.reading import private_table

SHAPE = (3, 4, 2, 5, 3)
RNG = np.random.default_rng(0)
FIRST = RNG.choice(3, p=[0.8, 0.15, 0.05], size=1500)
CODES = np.column_stack(
    [FIRST, FIRST + RNG.integers(0, 2, 1500), FIRST > 1, RNG.choice(5, p=[0.6, 0.3, 0.1, 0, 0], size=1500), FIRST]
)
TRUTH = LinearQueries.marginals(SHAPE, (2, 3)).answers(Domain(SHAPE).histogram(CODES)) / 1500


def test_it_beats_one_release_of_all_tables_where_epsilon_is_small() -> None:
    given = {"domain": SHAPE, "workload": (2, 3), "epsilon": 0.1}
    errors = []
    for seed in range(2):
        made = [kind(**given, random_state=seed).fit(CODES) for kind in (MarginalMWEM, WorkloadAnswers)]
        errors.append([np.abs(a - TRUTH).mean() for a in (made[0].answers_, made[1].linear_, made[1].uniform_)])
    mwem, unbiased, uniform = np.mean(errors, axis=0)
    assert mwem < 0.4 * unbiased and mwem < 0.7 * uniform


def test_measured_tables_have_intervals_that_cover() -> None:
    domain = Domain(SHAPE)
    covered = []
    for seed in range(15):
        made = MarginalMWEM(domain=domain, workload=1, rounds=2, epsilon=1.0, random_state=seed).fit(CODES)
        for names in set(made.measured_):
            frame = made.marginal(names)
            truth = LinearQueries.marginals(domain, [names]).answers(domain.histogram(CODES)) / 1500
            covered += ((frame["low"] <= truth) & (truth <= frame["high"])).tolist()
    # About 100 intervals: their share has a deviation of .022.
    assert np.mean(covered) == pytest.approx(0.95, abs=0.08)
    others = [name for name in domain.names if (name,) not in made.measured_]
    assert made.marginal(others[:1])[["low", "high"]].isna().all(axis=None)


def test_intervals_are_of_the_first_counts_of_a_table() -> None:
    # Whether it is measured again depends on their noise: about a mean of both they would cover less often.
    made = MarginalMWEM(domain=SHAPE, workload=[("x1",)], rounds=3, random_state=0).fit(CODES)
    frame, half = made.marginal(("x1",)), 1.959964 * made.plan_.noise_std / 1500
    first = made.counts_[0] / 1500
    assert made.measured_ == (("x1",),) * 3
    assert frame["low"].to_numpy() == pytest.approx(np.clip(first - half, 0, 1), abs=1e-8)
    assert frame["high"].to_numpy() == pytest.approx(np.clip(first + half, 0, 1), abs=1e-8)


def test_first_counts_cover_as_often_as_stated() -> None:
    domain, rounds, draws = Domain((6, 6)), 4, 1500
    estimator = MarginalMWEM(domain=domain, workload=1, rounds=rounds)
    plan = estimator.plan(10_000)
    exact = estimator._read(private_table(np.full(36, 10_000 // 36), domain, declared=True), plan)
    session = Session.simulated(plan, np.random.default_rng(1), size=draws)
    with session:
        estimator._release(exact, plan, session)
    first: dict[tuple[int, int], np.ndarray] = {}
    for t in range(1, rounds + 1):
        chosen = np.reshape(session.released[worst_table(t)], -1)
        for draw, i in enumerate(chosen):
            noise = session.released[its_counts(t)][draw] - exact[plan.queries.tables[i]].ravel()
            first.setdefault((draw, int(i)), np.abs(noise) <= 1.959964 * plan.noise_std)
    covered = np.mean(list(first.values()))
    # Of more than 12,000 cells: a deviation of .002; false alarm 1e-6.
    assert len(first) >= 2000 and abs(covered - 0.95) <= 0.01


def test_plan_and_summary_say_what_is_measured() -> None:
    made = MarginalMWEM(domain=SHAPE, workload=2, random_state=0).fit(CODES)
    assert made.plan_.rounds == 5 and str(made.plan_).endswith("and so on, 5 rounds")
    text = str(made.summary())
    assert "x0 × " in text and "10 tables" in text and "Simulated noise" in text
    assert [counts.size for counts in made.counts_] == [
        int(np.prod([SHAPE[int(name[1])] for name in names])) for names in made.measured_
    ]


def test_what_it_cannot_do_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="workload must"):
        MarginalMWEM(workload=LinearQueries.prefixes(4)).plan(10)
    with pytest.raises(InvalidParameter, match="at most 1,048,576 cells for a distribution over it"):
        MarginalMWEM(domain=(2,) * 21).plan(10)
    with pytest.raises(InvalidParameter, match="rounds must"):
        MarginalMWEM(domain=SHAPE, rounds=0).plan(10)
