"""Complete cases: what is returned is a random sample of them, and neighbors' samples differ in one row."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import binom, chisquare
from sklearn.pipeline import make_pipeline

from dpstats.errors import InvalidData, InvalidParameter
from dpstats.groups import one_row_per_unit
from dpstats.identity import SpatialSignTest
from dpstats.means import AdaptiveMean, CompleteCases
from dpstats.privacy import PrivacyBudget


def returning(count: int, n: int, d: int = 1) -> CompleteCases:
    """Return a step whose transform returns so many of n rows."""
    made = CompleteCases(epsilon=1.0, fill=-1.0, random_state=0).fit(np.zeros((n, d)))
    made.n_rows_ = count
    made.random_state = np.random.default_rng(1)
    return made


def numbers(made: CompleteCases, X: np.ndarray) -> tuple[float, ...]:
    return tuple(made.transform(X)[:, 0].tolist())


def test_every_ordered_sample_of_complete_rows_is_equally_likely() -> None:
    X = np.array([[1.0], [np.nan], [2.0], [3.0], [np.inf], [4.0]])
    made = returning(2, len(X))
    found = Counter(numbers(made, X) for _ in range(3000))
    assert set(found) == set(itertools.permutations((1.0, 2.0, 3.0, 4.0), 2))
    assert chisquare(list(found.values())).pvalue > 1e-4


def test_rows_that_fill_up_are_at_any_place() -> None:
    X = np.array([[1.0], [np.nan], [2.0], [np.nan]])
    made = returning(3, len(X))
    found = Counter(numbers(made, X) for _ in range(2000))
    assert set(found) == set(itertools.permutations((1.0, 2.0, -1.0)))
    assert chisquare(list(found.values())).pvalue > 1e-4


def law(complete: tuple[int, ...], m: int) -> Counter[tuple[int, ...]]:
    """Return how many pairs of orders give each result, from all orders: of the rows, and of what is returned."""
    found: Counter[tuple[int, ...]] = Counter()
    for first in itertools.permutations(complete):
        chosen = [*first[:m], *[-1] * (m - len(complete))]
        for second in itertools.permutations(range(m)):
            found[tuple(chosen[place] for place in second)] += 1
    return found


@pytest.mark.parametrize("m", [1, 2, 3, 4])
@pytest.mark.parametrize("rest", [(0,), (0, 1), (0, 1, 2)])
def test_results_of_neighbors_are_paired_with_one_row_apart(rest: tuple[int, ...], m: int) -> None:
    # The proof's replacement of the row z, carried out on the whole law.
    z, one = 9, law(rest, m)
    other, replaced = law((*rest, z), m), Counter[tuple[int, ...]]()
    for result, count in other.items():
        if z not in result:
            replaced[result] += count * max(len(rest) - m + 1, 1)
            continue
        left = [-1] if len(rest) < m else [row for row in rest if row not in result]
        for new in left:
            replaced[tuple(new if row == z else row for row in result)] += count * (
                max(len(rest) - m + 1, 1) // len(left)
            )
    total, share = sum(one.values()), sum(replaced.values())
    assert {result: count * share for result, count in one.items()} == {
        result: count * total for result, count in replaced.items()
    }


@pytest.mark.parametrize("missing", [0.05, 0.6])
@pytest.mark.parametrize(
    "mean",
    [
        AdaptiveMean(epsilon=0.9, bound=50.0, std=2.0),
        AdaptiveMean(epsilon=0.9, bound=50.0, std="private", std_bound=10.0),
    ],
    ids=["public spread", "private spread"],
)
def test_intervals_cover_the_mean_of_the_observed_rows(mean: Any, missing: float) -> None:
    rng, truth, times = np.random.default_rng(0), np.array([7.0, -3.0]), 40
    covered = 0
    for _ in range(times):
        X = rng.normal(truth, 2.0, size=(1500, 2))
        X[rng.random(1500) < missing, rng.integers(2)] = np.nan
        made = make_pipeline(CompleteCases(epsilon=0.1), mean).set_params(
            completecases__random_state=rng, **{f"{type(mean).__name__.lower()}__random_state": rng}
        )
        interval = made.fit(X)[-1].confidence_interval(0.9)
        covered += int(((interval.low <= truth) & (truth <= interval.high)).sum())
    # Both columns; a false alarm in fewer than one in 10^4.
    assert covered >= binom.ppf(1e-4, 2 * times, 0.9)


def test_a_test_of_observed_rows_keeps_its_level_and_finds_a_shift() -> None:
    X = np.random.default_rng(0).normal(size=(2000, 3))
    X[::4, 1] = np.nan
    for shift, rejected in ((0.0, False), (0.5, True)):
        steps = CompleteCases(epsilon=0.1, random_state=0), SpatialSignTest(epsilon=1.0, random_state=0)
        assert (make_pipeline(*steps).fit(X + shift)[-1].result_.pvalue < 0.01) is rejected


def test_what_is_returned_is_what_the_release_says() -> None:
    X = np.random.default_rng(0).normal(size=(4000, 2))
    X[:1000, 0] = np.nan
    laplace, gaussian = CompleteCases(epsilon=0.5), CompleteCases(epsilon=0.5, delta=1e-6)
    for made, noise in ((laplace, 2.83), (gaussian, 8.06)):
        made.fit(X)
        assert made.rows_noise_std_ == pytest.approx(noise, rel=0.01)
        assert abs(made.rows_ - 3000) < 20 * noise and 3000 - 24 * noise < made.n_rows_ < 3000 + 17 * noise
        assert made.transform(X).shape == (made.n_rows_, 2)
    ran_out = [CompleteCases(random_state=seed).fit(X).n_rows_ > 3000 for seed in range(2000)]
    assert binom.ppf(1e-4, 2000, 0.0045) <= sum(ran_out) <= binom.ppf(1 - 1e-4, 2000, 0.005)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_a_frame_stays_one(kind: Any) -> None:
    frame = kind({"age": [float(k) for k in range(200)], "count": [None, *range(199)]})
    made = CompleteCases(epsilon=5.0, fill={"count": 1.0, "age": 40.0}, random_state=0)
    made.set_params(fill=pd.Series({"count": 1.0, "age": 40.0}))
    rows = made.fit_transform(frame)
    assert type(rows) is kind and list(rows.columns) == ["age", "count"]
    assert (
        len(rows) == made.n_rows_
        and not pd.DataFrame(rows.to_dict(as_series=False) if kind is pl.DataFrame else rows).isna().any().any()
    )


def test_the_unit_of_the_rows_is_kept() -> None:
    visits = pd.DataFrame({"who": [k // 2 for k in range(400)], "cost": [1.0, None] * 200})
    people = one_row_per_unit(visits, "who", {"cost": "mean"}, called="person")[["cost"]]
    made = CompleteCases(epsilon=5.0, random_state=0)
    rows = made.fit_transform(people)
    assert "one person replaced" in str(made.privacy_)
    assert "one person replaced" in str(AdaptiveMean(bound=9.0, std=1.0, random_state=0).fit(rows).privacy_)


def test_both_steps_are_charged() -> None:
    X = np.random.default_rng(0).normal(size=(500, 1))
    budget = PrivacyBudget(1.0, 1e-6)
    make_pipeline(
        CompleteCases(epsilon=0.1, budget=budget), AdaptiveMean(epsilon=0.9, bound=9.0, std=1.0, budget=budget)
    ).fit(X)
    assert budget.spent.epsilon == pytest.approx(1.0)
    assert [charge.label for charge in budget.history()] == ["CompleteCases", "AdaptiveMean"]


def test_bad_input_is_refused() -> None:
    X = np.zeros((100, 2))
    made = CompleteCases(epsilon=5.0, random_state=0).fit(X)
    with pytest.raises(InvalidData, match="X must be the rows of the fit"):
        made.transform(X[1:])
    with pytest.raises(InvalidData, match="X must have more complete rows"):
        CompleteCases(epsilon=1.0, random_state=0).fit_transform(np.full((100, 2), np.nan))
    with pytest.raises(InvalidParameter, match="fill"):
        CompleteCases(fill=[1.0, 2.0, 3.0]).fit(X)
