"""MeanPerRow: the mean of rows with a guarantee for whose they are; covering, priced, and what it refuses."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dpstats.data.rows import Table
from dpstats.errors import InvalidData, InvalidParameter
from dpstats.groups import MeanPerRow
from dpstats.groups.mean_per_row import unit_places
from dpstats.privacy import PrivacyBudget, gaussian_sigma
from dpstats.release.session import Session


def people(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and persons: who has more rows has larger entries, and rows of a person are alike."""
    counts = rng.integers(1, 6, n)
    level = rng.normal(2 + counts, 1.0)
    person = np.repeat(np.arange(n), counts)
    return np.clip(level[person] + rng.normal(0, 0.5, len(person)), 0, 20)[:, None], person


# E[c level]/E[c] = (2 E c + E c^2)/E c = 2 + 11/3.
TRUTH = 2 + 11 / 3


def test_intervals_cover_where_rows_of_a_person_are_alike_and_their_number_matters() -> None:
    # 400 datasets of 5 draws: a standard error of at most .011.
    rng = np.random.default_rng(0)
    made = MeanPerRow(bounds=(0, 20), max_rows=5)
    covered, naive = [], []
    for _ in range(400):
        X, person = people(1500, rng)
        plan = made.plan(1500, 1)
        with Session.simulated(plan, rng, 5) as session:
            made._release(made._read(Table(X, units=unit_places(person)), plan), plan, session)
        ratio = plan.totals.ratio(next(iter(session.released.values())), plan.totals_noise)
        low, high = ratio.ends(1.96)
        truth = (TRUTH - 10) / 10
        covered.append(((low <= truth) & (truth <= high)).mean())
        # Rows taken as independent would not do.
        naive.append(abs(X.mean() - TRUTH) <= 1.96 * X.std() / np.sqrt(len(X)))
    assert np.mean(covered) > 0.93 and np.mean(naive) < 0.85


def test_the_guarantee_says_whose_it_is_and_n_is_the_number_of_units() -> None:
    X, person = people(800, np.random.default_rng(1))
    frame = pd.DataFrame({"visits": X[:, 0], "who": person, "age": 40.0})
    model = MeanPerRow(unit="who", bounds={"visits": (0, 20)}, max_rows=5, random_state=0).fit(frame)
    assert str(model.privacy_).startswith("(epsilon = 1, delta = 0), one who replaced")
    assert "one who replaced" in str(model.plan_)
    assert model.plan_.n_samples == 800 and model.n_features_in_ == 1
    named = MeanPerRow(bounds=(0, 20), max_rows=5, called="patient", random_state=0).fit(X, person)
    assert "one patient replaced" in str(named.privacy_) and named.mean_ == model.mean_
    assert "one unit replaced" in str(MeanPerRow(bounds=(0, 20), max_rows=5).fit(X, person).privacy_)
    assert model.rows_ == pytest.approx(len(X), abs=6 * model.rows_noise_std_)
    assert model.mean_[0] == pytest.approx(X.mean(), abs=6 * model.noise_std_[0])
    text = str(model.summary())
    assert "at most 5 rows" in text and "visits" in text
    assert dict(named.summary().facts)["Patients, columns"] == "800, 1 (public)"
    assert model.test(TRUTH).pvalue[0] > 1e-6 > model.test(12.0).pvalue[0]


def test_the_count_is_free_and_products_cost_three_percent() -> None:
    noise = MeanPerRow(bounds=(0, 1), max_rows=4).plan(1000, 2).totals_noise
    sums_alone = 2 * np.sqrt(2) * gaussian_sigma(1.0, 1e-6)
    assert noise.total == pytest.approx(sums_alone * np.sqrt(1 + 1 / 16), rel=1e-4)
    assert noise.count == pytest.approx(noise.total / np.sqrt(2) / 1.5)
    # In proportion to the number of rows that count.
    wide = MeanPerRow(bounds=(0, 1), max_rows=40).plan(1000, 2)
    assert wide.mean_noise(100)[0] == pytest.approx(
        10 * MeanPerRow(bounds=(0, 1), max_rows=4).plan(1000, 2).mean_noise(100)[0]
    )
    assert "parts of 40 rows" in str(wide)


@pytest.mark.parametrize(("columns", "noise"), [(1, "laplace"), (4, "gaussian")])
def test_the_smaller_noise_is_taken(columns: int, noise: str) -> None:
    plan = MeanPerRow(bounds=(0, 1), max_rows=4).plan(1000, columns)
    assert plan.stages[0].noise == noise and plan.target.delta == (0.0 if noise == "laplace" else 1e-6)
    pure = MeanPerRow(bounds=(0, 1), max_rows=4, delta=0.0).plan(1000, columns)
    assert pure.stages[0].noise == "laplace" and pure.stages[0].sensitivity == 2 * columns * pure.totals.largest


@pytest.mark.parametrize("neighbors", ["replace_one", "add_or_remove"])
def test_intervals_under_laplace_noise_cover(neighbors: str) -> None:
    X, _ = people(20_000, np.random.default_rng(5))
    truth, covered = np.clip(X, 0, 20).mean(), 0
    for seed in range(120):
        X, person = people(400, np.random.default_rng([seed, 6]))
        made = MeanPerRow(bounds=(0, 20), max_rows=5, delta=0.0, neighbors=neighbors, random_state=seed)
        low, high = made.fit(X, person).confidence_interval()
        covered += bool(low[0] <= truth <= high[0])
    # Binomial(120, 0.95) is below 104 with probability 0.001.
    assert covered >= 104


def test_missing_entries_and_large_caps() -> None:
    X, person = people(300, np.random.default_rng(2))
    X[::7] = np.nan
    with pytest.raises(InvalidData, match="NaN or infinity"):
        MeanPerRow(bounds=(0, 20), max_rows=5).fit(X, person)
    made = MeanPerRow(bounds=(0, 20), max_rows=1000, missing="drop", epsilon=1e5, random_state=0)
    assert made.fit(X, person).mean_[0] == pytest.approx(np.nanmean(X), abs=0.5)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"max_rows": None}, "max_rows must"),
        ({"max_rows": 0}, "max_rows must"),
        ({"bounds": None}, "bounds must"),
        ({"bounds": (1, 0)}, "bounds must"),
        ({"called": " "}, "called must"),
        ({"columns": ["a"]}, "columns must"),
        ({"missing": "center"}, "missing must"),
    ],
)
def test_bad_parameters_are_refused_before_anything_is_charged(wrong: dict[str, object], message: str) -> None:
    budget = PrivacyBudget(5.0, 1e-5)
    with pytest.raises(InvalidParameter, match=message):
        MeanPerRow(**{"bounds": (0, 1), "max_rows": 2, "budget": budget, **wrong}).fit(np.ones((4, 1)), [1, 1, 2, 3])
    assert budget.history() == ()


def test_bad_data_are_refused_before_anything_is_charged() -> None:
    budget = PrivacyBudget(5.0, 1e-5)
    made, X = MeanPerRow(bounds=(0, 1), max_rows=2, budget=budget), np.ones((4, 1))
    for y, message in (
        (None, "requires y to be passed"),
        ([1, 2], "y must"),
        (["a", None, "b", "b"], "entry that is missing"),
        ([1, 1, 1, 1], "X must"),
    ):
        with pytest.raises(InvalidData, match=message):
            made.fit(X, y)
    with pytest.raises(InvalidParameter, match="y must"):
        MeanPerRow(bounds=(0, 1), max_rows=2, unit="u").fit(pd.DataFrame({"x": [1.0], "u": [1]}), [1])
    with pytest.raises(InvalidParameter, match="unit must"):
        MeanPerRow(bounds=(0, 1), max_rows=2, unit="v").fit(pd.DataFrame({"x": [1.0], "u": [1]}))
    assert budget.history() == ()


@pytest.mark.parametrize("rows", [None, "x", 0, -5, np.nan, {}, 10**400])
def test_rows_of_a_planned_mean_that_are_none_are_refused(rows: object) -> None:
    plan = MeanPerRow(bounds=(0, 1), max_rows=2).plan(400, 1)
    with pytest.raises(InvalidParameter, match="n_rows must"):
        plan.mean_noise(rows)  # type: ignore[arg-type]
