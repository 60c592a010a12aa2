"""Answers to a workload: errors as planned, intervals that cover, frames and summaries that say what is true."""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np
import pandas as pd
import pytest

from dpstats.errors import InvalidParameter
from dpstats.queries import Domain, LinearQueries, WorkloadAnswers

SHAPE = (3, 2, 4)
RNG = np.random.default_rng(0)
# Skewed, and the attributes go together.
FIRST = RNG.choice(3, p=[0.85, 0.14, 0.01], size=800)
CODES = np.column_stack([FIRST, (FIRST > 0) ^ (RNG.random(800) < 0.1), RNG.choice(4, p=[0.7, 0.3, 0, 0], size=800)])
TRUTH = LinearQueries.marginals(SHAPE, 2).answers(Domain(SHAPE).histogram(CODES)) / 800


@cache
def fits(count: int, **options: object) -> list[WorkloadAnswers]:
    return [WorkloadAnswers(domain=SHAPE, random_state=seed, **options).fit(CODES) for seed in range(count)]  # type: ignore[arg-type]


def test_errors_are_as_planned_and_intervals_cover() -> None:
    made = fits(120, epsilon=0.5)
    errors = np.array([one.linear_ - TRUTH for one in made])
    # Estimated deviations are off by 6.5% each, and the mean error by an 11th of one.
    assert errors.std(axis=0) == pytest.approx(made[0].noise_std_, rel=0.3)
    assert np.abs(errors.mean(axis=0) / made[0].noise_std_).max() < 5 / math.sqrt(120)
    assert (errors**2).sum(axis=1).mean() == pytest.approx(made[0].plan_.expected_error(), rel=0.15)

    def coverage(centers: list[np.ndarray]) -> np.ndarray:
        return np.mean([np.abs(center - TRUTH) <= 1.96 * made[0].noise_std_ for center in centers], axis=0)

    ends = [one.confidence_interval() for one in made]
    covered = np.mean([(i.low <= TRUTH) & (i.high >= TRUTH) for i in ends], axis=0)
    # 120 intervals of one share: four deviations of .02.
    assert (covered > 0.95 - 4 * 0.02).all()
    assert coverage([one.linear_ for one in made]).mean() == pytest.approx(0.95, abs=0.02)
    # About the point answers, which are biased, they would not cover: planted.
    assert coverage([one.answers_ for one in made]).min() < 0.87


def test_point_answers_are_nearer_than_unbiased_ones() -> None:
    made = fits(10, epsilon=0.1)
    errors = np.array([[np.abs(a - TRUTH).mean() for a in (one.answers_, one.linear_)] for one in made])
    assert errors[:, 0].mean() < 0.75 * errors[:, 1].mean()
    for one in made[:3]:
        tables = [one.answers_[at] for at in (slice(0, 6), slice(6, 18), slice(18, 26))]
        assert [table.sum() for table in tables] == pytest.approx([1.0] * 3) and min(one.answers_) >= 0


def test_a_table_comes_as_a_frame() -> None:
    domain = Domain({"plan": ["a", "b", "c"], "ill": [0, 1], "age": 4})
    made = WorkloadAnswers(domain=domain, workload=[("age", "plan")], random_state=0)
    made.fit(pd.DataFrame({"plan": np.array(["a", "b", "c"])[FIRST], "ill": CODES[:, 1], "age": CODES[:, 2]}))
    frame = made.marginal(("plan", "age"))
    assert list(frame.columns) == ["plan", "age", "share", "low", "high"] and len(frame) == 12
    assert frame["share"].sum() == pytest.approx(1.0) and (frame["low"] <= frame["high"]).all()
    whole = made.confidence_interval()
    assert np.array_equal(frame["low"], whole.low) and np.array_equal(frame["high"], whole.high)
    wider = made.marginal(("plan", "age"), estimand="population")
    assert ((wider["high"] - wider["low"]) >= (frame["high"] - frame["low"]) - 1e-9).mean() > 0.9
    with pytest.raises(InvalidParameter, match="attributes must"):
        made.marginal(("plan",))


def test_a_domain_too_large_for_a_table_is_answered_without_one() -> None:
    shape = (2,) * 22
    codes = np.random.default_rng(5).integers(0, 2, size=(500, 22))
    tables = list(itertools.pairwise(range(22)))
    made = WorkloadAnswers(domain=shape, workload=tables, epsilon=2.0, random_state=0).fit(codes)
    assert made.synthetic_ is None and made.uniform_ is None
    assert np.array_equal(made.answers_, np.clip(made.linear_, 0, 1))
    truth = np.concatenate([np.bincount(codes[:, a] * 2 + codes[:, b], minlength=4) / 500 for a, b in tables])
    assert np.abs((made.linear_ - truth) / made.noise_std_).max() < 5
    assert "too large for one distribution" in str(made.summary())
    with pytest.raises(InvalidParameter, match="queries must"):
        made.predict(1)


def test_the_summary_says_what_there_is() -> None:
    (few,) = fits(1, workload=1)
    text = str(few.summary())
    assert "x0 = 0" in text and "Rows:" in text and "800 (public)" in text and "Simulated noise" in text
    assert len(few.summary().rows) == 9
    (many,) = fits(1, workload=3, epsilon=0.01)
    assert "use fewer queries" in str(many.summary())
    wide = WorkloadAnswers(domain=(5, 5, 4), workload=2, random_state=0).fit(CODES)
    assert "x0 × x1" in str(wide.summary()) and "65 queries in 3 tables" in str(wide.summary())
    assert "26 queries" in str(fits(1)[0].plan_) and len(str(fits(1)[0].plan_).splitlines()) == 3


def test_the_uniform_baseline_is_estimated_without_bias() -> None:
    made = fits(120, epsilon=0.5)
    uniform = np.sqrt(np.mean((made[0].uniform_ - TRUTH) ** 2))
    assert np.mean([one.uniform_error_**2 for one in made]) == pytest.approx(uniform**2, rel=0.2)


def test_a_value_that_is_no_choice_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="error must"):
        WorkloadAnswers(domain=SHAPE, error="least").plan(10)
    queries = LinearQueries.from_matrix([[0.5, 1.0]])
    made = WorkloadAnswers(workload=queries, random_state=0).fit(np.array([5, 5]))
    with pytest.raises(InvalidParameter, match="estimand must"):
        made.confidence_interval(estimand="population")
    with pytest.raises(InvalidParameter, match="workload must"):
        made.marginal(("x0",))
    with pytest.raises(InvalidParameter, match="attributes must"):
        fits(1)[0].marginal("x0")


def test_where_no_distribution_comes_as_near_as_the_noise_the_unbiased_answers_are_given() -> None:
    (made,) = fits(1, epsilon=3e5)
    assert not made.fitted_ and np.array_equal(made.answers_, np.clip(made.linear_, 0, 1))
    assert "further off" in str(made.summary()) and np.abs(made.answers_ - TRUTH).max() < 1e-4
    assert fits(1, workload=1)[0].fitted_


def test_many_tables_are_shown_by_answers_where_the_population_is_asked_about() -> None:
    rows = np.random.default_rng(0).integers(0, 2, size=(500, 6))
    domain = {f"a{k}": [0, 1] for k in range(6)}
    found = WorkloadAnswers(domain=domain, workload=3, random_state=0).fit(rows)
    data, population = str(found.summary()), str(found.summary(estimand="population"))
    assert "160 queries in 20 tables" in data and "160 queries\n" in population.replace(" \n", "\n")
