"""One rule in every family: rows with an undeclared label are left out, and a group without rows is noticed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpstats.covariance import HotellingTest
from dpstats.data.undeclared import LEFT_OUT
from dpstats.errors import InvalidData
from dpstats.groups import GroupMeans, GroupQuantiles
from dpstats.mechanisms import Histogram
from dpstats.ranks import KruskalWallisTest, MannWhitneyTest
from dpstats.regression import PrivateLinearRegression, PrivateLogisticRegression
from dpstats.sql import PrivateSQL
from dpstats.survival import LogRankTest, PrivateSurvival
from dpstats.tables import ContingencyTable

ARMS, WIDE = ["control", "drug"], (0.0, 100.0)
SEED: dict[str, Any] = {"epsilon": 1e4, "random_state": 0}


def make_trial() -> pd.DataFrame:
    """Return a trial whose third arm, "other", has other outcomes, and where some rows have no arm."""
    rng, n = np.random.default_rng(0), 3000
    arm = rng.choice(np.array(["control", "drug", "other", None], dtype=object), n)
    shift = np.select([arm == "drug", arm == "other"], [4.0, 40.0])
    weeks = rng.exponential(np.select([arm == "drug", arm == "other"], [3.0, 0.1], 2.0))
    return pd.DataFrame(
        {
            "arm": arm,
            "score": rng.normal(40 + shift, 5),
            "age": rng.normal(50, 5, n),
            "better": (rng.random(n) < np.where(arm == "drug", 0.6, 0.4)).astype(int),
            "weeks": weeks,
            "event": (weeks <= 4).astype(int),
        }
    )


TRIAL = make_trial()
DECLARED = TRIAL[TRIAL["arm"].isin(ARMS)].reset_index(drop=True)
FOLLOWED = {"by": "arm", "time": "weeks", "event": "event", "horizon": 4.0, "bins": 8}
Release = Callable[..., tuple[Any, Any]]
"""Takes a frame and the declared arms, and returns numbers about the arms and a text."""


def means(frame: pd.DataFrame, arms: Any, **given: Any) -> Any:
    made = GroupMeans(groups=arms, by="arm", columns=["score"], bounds=WIDE, **SEED, **given).fit(frame)
    return made.means_[:2], made.summary()


def adjusted(frame: pd.DataFrame, arms: Any) -> Any:
    made = GroupMeans(groups=arms, by="arm", bounds={"score": WIDE, "age": WIDE}, adjust=["age"], **SEED)
    made.fit(frame[["arm", "score", "age"]])
    return made.means_[:2], made.summary()


def quantiles(frame: pd.DataFrame, arms: Any) -> Any:
    made = GroupQuantiles(groups=arms, bounds=WIDE, **SEED).fit(frame["score"], frame["arm"])
    return made.quantile_[:2], made.summary()


def table(frame: pd.DataFrame, arms: Any, **given: Any) -> Any:
    made = ContingencyTable(levels={"arm": arms, "better": [0, 1]}, **SEED, **given).fit(
        frame[["arm", "better"]]
    )
    return made.proportions(axis="better")[:2], made.summary()


def histogram(frame: pd.DataFrame, arms: Any, **given: Any) -> Any:
    return Histogram(arms, **SEED, **given).release(frame["arm"]).counts[:2], ""


def survival(frame: pd.DataFrame, arms: Any, **given: Any) -> Any:
    made = PrivateSurvival(groups=arms, **FOLLOWED, **SEED, **given).fit(frame)
    return [*made.survival_[:2].ravel(), made.log_rank(groups=ARMS).statistic], made.summary()


def log_rank(frame: pd.DataFrame, arms: Any, **given: Any) -> Any:
    made = LogRankTest(groups=arms, **FOLLOWED, **SEED, **given).fit(frame)
    return made.observed_minus_expected_[:2], made.summary()


def mann_whitney(frame: pd.DataFrame, arms: Any, missing: str = "drop") -> Any:
    made = MannWhitneyTest(groups=arms[:2], n_simulations=99, missing=missing, **SEED)
    made.fit(frame["score"], frame["arm"])
    # It is a sample, from which a few rows are left out.
    return made.statistic_ / made.n_rows_**2, made.result_.summary()


def kruskal_wallis(frame: pd.DataFrame, arms: Any, missing: str = "drop") -> Any:
    made = KruskalWallisTest(groups=arms, n_simulations=99, missing=missing, **SEED)
    made.fit(frame["score"], frame["arm"])
    return made.statistic_ / made.n_rows_**2, made.result_.summary()


def hotelling(frame: pd.DataFrame, arms: Any, missing: str = "drop") -> Any:
    made = HotellingTest(groups=arms[:2], bounds=WIDE, missing=missing, **SEED)
    made.fit(frame[["score", "age"]], frame["arm"])
    return made.difference_, made.estimates().summary()


def linear(frame: pd.DataFrame, arms: Any) -> Any:
    made = PrivateLinearRegression(factors={"arm": arms}, x_bounds={"age": WIDE}, y_bounds=WIDE, **SEED)
    made.fit(frame[["arm", "age"]], frame["score"])
    return made.coef_[[0, 1]], made.summary()


def by_formula(kind: Any, formula: str) -> Release:
    def release(frame: pd.DataFrame, arms: Any, missing: str = "drop") -> Any:
        bounds = {"age": WIDE, "score": WIDE, "better": (0, 1)}
        made = kind.from_formula(formula, frame, levels={"arm": arms}, bounds=bounds, missing=missing, **SEED)
        return made.coef_[0], made.summary()

    return release


def sql(select: str) -> Release:
    def release(frame: pd.DataFrame, arms: Any) -> Any:
        asked = PrivateSQL(
            {"trial": frame}, categories={"trial.arm": arms}, bounds={"trial.score": WIDE}, **SEED
        )
        found = asked.query(f"SELECT arm, {select} FROM trial GROUP BY arm")
        return np.ravel(found.values)[:2], found.summary()

    return release


FREE_RELEASES: dict[str, Release] = {
    "means": means,
    "adjusted means": adjusted,
    "quantiles": quantiles,
    "table": table,
    "histogram": histogram,
    "survival": survival,
    "log-rank": log_rank,
    "linear": linear,
    "counts in SQL": sql("COUNT(*)"),
    "means in SQL": sql("AVG(score), COUNT(*)"),
    "medians in SQL": sql("MEDIAN(score)"),
}
COUNTED: dict[str, Release] = {
    "Mann-Whitney": mann_whitney,
    "Kruskal-Wallis": kruskal_wallis,
    "Hotelling": hotelling,
    "linear formula": by_formula(PrivateLinearRegression, "score ~ C(arm) + age"),
    "logistic formula": by_formula(PrivateLogisticRegression, "better ~ C(arm) + age"),
}
"""Releases that need the number of rows: they leave rows out with ``missing="drop"``, which counts the others."""
EVERY = FREE_RELEASES | COUNTED
WITHOUT_COUNTS = ("histogram", *COUNTED, "linear")
"""Releases whose summaries have no counts of groups."""


@pytest.mark.parametrize("name", EVERY)
def test_rows_with_an_undeclared_label_are_left_out(name: str) -> None:
    release = EVERY[name]
    (found, summary), (alone, _) = release(TRIAL, ARMS), release(DECLARED, ARMS)
    # At this epsilon noise is below the tolerance, which a row of another arm would exceed.
    np.testing.assert_allclose(found, alone, rtol=0.03, atol=0.01)
    if name != "histogram":
        assert LEFT_OUT in " ".join(summary.notes)


@pytest.mark.parametrize("name", [name for name in EVERY if name not in WITHOUT_COUNTS])
def test_a_misspelled_label_is_noticed(name: str) -> None:
    _, summary = EVERY[name](TRIAL, [*ARMS, "palcebo"])
    (note,) = (note for note in summary.notes if note.startswith("Noise only"))
    assert "palcebo" in note and "heck the spelling" in note and "drug" not in note
    _, summary = EVERY[name](TRIAL, ARMS)
    assert "spelling" not in str(summary)


@pytest.mark.parametrize("name", ["table", "histogram", "survival", "log-rank"])
def test_they_can_be_refused(name: str) -> None:
    with pytest.raises(InvalidData, match="or give unknown='drop'"):
        EVERY[name](TRIAL, ARMS, unknown="error")
    EVERY[name](DECLARED, ARMS, unknown="error")


@pytest.mark.parametrize("name", COUNTED)
def test_a_release_that_needs_the_number_of_rows_says_what_leaves_them_out(name: str) -> None:
    with pytest.raises(InvalidData, match="or give missing='drop'"):
        EVERY[name](TRIAL, ARMS, missing="error")
