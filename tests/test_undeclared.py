"""One rule in every family: rows with an undeclared label are left out, and a group without rows is noticed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpstats.covariance import HotellingTest
from dpstats.data.rows import LEFT_OUT
from dpstats.errors import InvalidData, InvalidParameter
from dpstats.groups import GroupMeans, GroupQuantiles
from dpstats.mechanisms import Histogram
from dpstats.ranks import KolmogorovSmirnovTest, KruskalWallisTest, MannWhitneyTest
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
    made = ContingencyTable(levels={"arm": arms, "better": [0, 1]}, **SEED, **given).fit(frame[["arm", "better"]])
    return made.proportions(axis="better")[:2], made.summary()


def histogram(frame: pd.DataFrame, arms: Any, **given: Any) -> Any:
    return Histogram(arms, **SEED, **given).release(frame["arm"]).counts[:2], ""


def survival(frame: pd.DataFrame, arms: Any, **given: Any) -> Any:
    made = PrivateSurvival(groups=arms, **FOLLOWED, **SEED, **given).fit(frame)
    return [*made.survival_[:2].ravel(), made.log_rank(groups=ARMS).statistic], made.summary()


def log_rank(frame: pd.DataFrame, arms: Any, **given: Any) -> Any:
    made = LogRankTest(groups=arms, **FOLLOWED, **SEED, **given).fit(frame)
    return made.observed_minus_expected_[:2], made.summary()


def mann_whitney(frame: pd.DataFrame, arms: Any, **given: Any) -> Any:
    made = MannWhitneyTest(groups=arms[:2], n_simulations=99, **SEED, **given)
    made.fit(frame["score"], frame["arm"])
    # With missing="drop" it is a sample, from which a few rows are left out.
    return made.statistic_ / getattr(made, "n_rows_", len(DECLARED)) ** 2, made.result_.summary()


def kruskal_wallis(frame: pd.DataFrame, arms: Any, **given: Any) -> Any:
    made = KruskalWallisTest(groups=arms, n_simulations=99, **SEED, **given)
    made.fit(frame["score"], frame["arm"])
    return made.statistic_ / getattr(made, "n_rows_", len(DECLARED)) ** 2, made.result_.summary()


def smirnov(frame: pd.DataFrame, arms: Any, **given: Any) -> Any:
    made = KolmogorovSmirnovTest(groups=arms[:2], n_simulations=99, **SEED, **given)
    made.fit(frame["score"], frame["arm"])
    return made.statistic_ / getattr(made, "n_rows_", len(DECLARED)), made.result_.summary()


def hotelling(frame: pd.DataFrame, arms: Any, **given: Any) -> Any:
    made = HotellingTest(groups=arms[:2], bounds=WIDE, **SEED, **given)
    made.fit(frame[["score", "age"]], frame["arm"])
    return made.difference_, made.estimates().summary()


def linear(frame: pd.DataFrame, arms: Any) -> Any:
    made = PrivateLinearRegression(factors={"arm": arms}, x_bounds={"age": WIDE}, y_bounds=WIDE, **SEED)
    made.fit(frame[["arm", "age"]], frame["score"])
    return made.coef_[[0, 1]], made.summary()


def by_formula(kind: Any, formula: str) -> Release:
    def release(frame: pd.DataFrame, arms: Any, **given: Any) -> Any:
        bounds = {"age": WIDE, "score": WIDE, "better": (0, 1)}
        made = kind.from_formula(formula, frame, levels={"arm": arms}, bounds=bounds, **SEED, **given)
        return made.coef_[0], made.summary()

    return release


def sql(select: str) -> Release:
    def release(frame: pd.DataFrame, arms: Any) -> Any:
        asked = PrivateSQL({"trial": frame}, categories={"trial.arm": arms}, bounds={"trial.score": WIDE}, **SEED)
        found = asked.query(f"SELECT arm, {select} FROM trial GROUP BY arm")
        return np.ravel(found.values)[:2], found.summary()

    return release


UNCOUNTED: dict[str, Release] = {
    "histogram": histogram,
    "linear": linear,
    "Mann-Whitney": mann_whitney,
    "Kruskal-Wallis": kruskal_wallis,
    "Kolmogorov-Smirnov": smirnov,
    "Hotelling": hotelling,
    "linear formula": by_formula(PrivateLinearRegression, "score ~ C(arm) + age"),
    "logistic formula": by_formula(PrivateLogisticRegression, "better ~ C(arm) + age"),
}
"""Releases whose summaries have no counts of groups."""
EVERY: dict[str, Release] = UNCOUNTED | {
    "means": means,
    "adjusted means": adjusted,
    "quantiles": quantiles,
    "table": table,
    "survival": survival,
    "log-rank": log_rank,
    "counts in SQL": sql("COUNT(*)"),
    "means in SQL": sql("AVG(score), COUNT(*)"),
    "medians in SQL": sql("MEDIAN(score)"),
}
REFUSING = [name for name in EVERY if name in (*UNCOUNTED, "table", "survival", "log-rank") and name != "linear"]
DROPPING = [name for name in UNCOUNTED if name not in ("histogram", "linear")]


@pytest.mark.parametrize("name", EVERY)
def test_rows_with_an_undeclared_label_are_left_out(name: str) -> None:
    release = EVERY[name]
    (found, summary), (alone, _) = release(TRIAL, ARMS), release(DECLARED, ARMS)
    # At this epsilon noise is below the tolerance, which a row of another arm would exceed.
    np.testing.assert_allclose(found, alone, rtol=0.03, atol=0.01)
    if name != "histogram":
        assert LEFT_OUT in " ".join(summary.notes)


@pytest.mark.parametrize("name", [name for name in EVERY if name not in UNCOUNTED])
def test_a_misspelled_label_is_noticed(name: str) -> None:
    _, summary = EVERY[name](TRIAL, [*ARMS, "palcebo"])
    (note,) = (note for note in summary.notes if note.startswith("Noise only"))
    assert "palcebo" in note and "heck the spelling" in note and "drug" not in note
    _, summary = EVERY[name](TRIAL, ARMS)
    assert "spelling" not in str(summary)


@pytest.mark.parametrize("name", REFUSING)
def test_they_can_be_refused(name: str) -> None:
    with pytest.raises(InvalidData, match="or give unknown='drop'"):
        EVERY[name](TRIAL, ARMS, unknown="error")
    EVERY[name](DECLARED, ARMS, unknown="error")


@pytest.mark.parametrize("name", DROPPING)
def test_they_can_be_refused_where_rows_with_a_missing_entry_are_left_out(name: str) -> None:
    for wrong in ("other", None):
        frame = DECLARED.assign(arm=DECLARED["arm"].where(DECLARED.index > 0, wrong))
        with pytest.raises(InvalidData, match="or give unknown='drop'"):
            EVERY[name](frame, ARMS, missing="drop", unknown="error")
    summary = EVERY[name](DECLARED, ARMS, missing="drop", unknown="error")[1]
    assert LEFT_OUT not in " ".join(summary.notes)


@pytest.mark.parametrize("name", DROPPING)
def test_rows_with_a_missing_entry_are_left_out_too_or_refused(name: str) -> None:
    seen = TRIAL.index % 50 > 0
    holes = TRIAL.assign(age=TRIAL["age"].where(seen), score=TRIAL["score"].where(seen))
    with pytest.raises(InvalidData, match=r"finite|NaN"):
        EVERY[name](holes, ARMS)
    found, summary = EVERY[name](holes, ARMS, missing="drop")
    alone, _ = EVERY[name](DECLARED, ARMS)
    np.testing.assert_allclose(found, alone, rtol=0.15, atol=0.05)
    text = " ".join(str(summary).split())
    assert LEFT_OUT in text and "Rows with a missing entry are left out." in text
    with pytest.raises(InvalidParameter, match="unknown must be one of"):
        EVERY[name](holes, ARMS, unknown="keep")


def test_labels_of_no_row_are_named_after_the_count() -> None:
    for given, missing in (({}, False), ({"missing": "drop"}, True)):
        with pytest.raises(InvalidData, match="Check the spelling of groups") as found:
            hotelling(TRIAL, ["contrl", "durg"], **given)
        assert LEFT_OUT in str(found.value) and ("missing entries" in str(found.value)) == missing


@pytest.mark.parametrize("release", [mann_whitney, smirnov])
def test_released_sizes_notice_a_misspelled_label(release: Release) -> None:
    notes = " ".join(release(TRIAL, ["contrl", "drug"])[1].notes)
    assert "Noise only: 'contrl'" in notes and "heck the spelling" in notes
    assert "spelling" not in str(release(TRIAL, ARMS)[1])


def test_undeclared_rows_move_no_statistic_of_ranks() -> None:
    # Also their values do not: only the number of rows is in the noise.
    far = TRIAL.assign(score=np.where(TRIAL["arm"].isin(ARMS), TRIAL["score"], 1e6))
    for release in (mann_whitney, kruskal_wallis, smirnov):
        assert release(TRIAL, ARMS)[0] == release(far, ARMS)[0]


def test_new_rows_with_an_undeclared_level_have_no_prediction() -> None:
    made = PrivateLinearRegression.from_formula(
        "score ~ C(arm) + age", TRIAL, levels={"arm": ARMS}, bounds={"age": WIDE, "score": WIDE}, **SEED
    )
    new = pd.DataFrame({"arm": ["drug", "other", None], "age": [50.0, 50.0, 50.0]})
    assert np.isnan(made.predict(new)).tolist() == [False, True, True]
    with pytest.raises(InvalidData, match="finite"):
        made.predict(new.assign(age=np.nan))
