"""First mistakes of a new user, over several families: the error names the column and the remedy, and no entry."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpstats.covariance import PrivateCorrelation, PrivateCovariance
from dpstats.errors import InvalidData, InvalidParameter, Refusal
from dpstats.groups import CohortTable, GroupMeans, one_row_per_unit
from dpstats.means import AdaptiveMean, ClippedMean
from dpstats.privacy import PrivacyBudget
from dpstats.quantiles import PrivateQuantile
from dpstats.ranks import mann_whitney
from dpstats.regression import PrivateLinearRegression
from dpstats.sql import PrivateSQL
from dpstats.statistic import PrivateStatistic
from dpstats.survival import LogRankTest, PrivateSurvival
from dpstats.tables import ContingencyTable

rng = np.random.default_rng(0)
N = 60
TRIAL = pd.DataFrame(
    {
        "patient": np.arange(N) // 2,
        "age": rng.uniform(20, 80, N),
        "arm": rng.choice(["secret-old", "secret-new"], N),
        "day": pd.Timestamp("2020-01-01"),
        "months": rng.exponential(3, N),
        "died": rng.integers(0, 2, N),
    }
)
ARMS = ["secret-old", "secret-new"]
BOUNDS: dict[str, Any] = {"bounds": (20, 80)}
FAMILIES: dict[str, Callable[[Any], Any]] = {
    "ClippedMean": lambda X: ClippedMean(**BOUNDS).fit(X),
    "AdaptiveMean": lambda X: AdaptiveMean(bound=100.0, std=10.0).fit(X),
    "PrivateCovariance": lambda X: PrivateCovariance(**BOUNDS).fit(X),
    "PrivateCorrelation": lambda X: PrivateCorrelation().fit(X),
    "GroupMeans": lambda X: GroupMeans(groups=["a", "b"], **BOUNDS).fit(X, TRIAL["arm"]),
    "PrivateLinearRegression": lambda X: PrivateLinearRegression(x_bounds=(20, 80), y_bounds=(0, 1)).fit(
        X, TRIAL["died"]
    ),
    "PrivateStatistic": lambda X: PrivateStatistic(np.mean, bounds=(20, 80)).fit(X),
}
ONE_COLUMN: dict[str, Callable[[Any], Any]] = {
    "PrivateQuantile": lambda x: PrivateQuantile(q=0.5, **BOUNDS).fit(x),
    "PrivateSurvival": lambda x: PrivateSurvival(horizon=5.0).fit(x, TRIAL["died"]),
    "mann_whitney": lambda x: mann_whitney(x, TRIAL["age"], epsilon=1.0),
}


def refusal(call: Callable[[], Any], kind: type[Refusal] = InvalidData) -> str:
    with pytest.raises(kind) as caught:
        call()
    text = str(caught.value)
    assert "secret" not in text and len(text) < 420
    return text


@pytest.mark.parametrize(
    ("column", "remedy"), [("arm", "pandas.to_numeric(column"), ("day", "days since a public day")]
)
@pytest.mark.parametrize("family", [*FAMILIES, *ONE_COLUMN])
def test_text_and_dates_are_named(family: str, column: str, remedy: str) -> None:
    call = (FAMILIES | ONE_COLUMN)[family]
    text = refusal(lambda: call(TRIAL[["age", column]] if family in FAMILIES else TRIAL[column]))
    assert f"'{column}'" in text and remedy in text


@pytest.mark.parametrize("family", [*FAMILIES, "PrivateQuantile", "PrivateSurvival"])
def test_a_dict_becomes_a_data_frame(family: str) -> None:
    given = {"age": TRIAL["age"].to_numpy()}
    assert "pandas.DataFrame(X)" in refusal(lambda: (FAMILIES | ONE_COLUMN)[family](given))


def test_a_column_in_place_of_its_name() -> None:
    unit: Any = TRIAL["patient"]
    calls: list[Callable[[], Any]] = [
        lambda: PrivateStatistic(np.mean, unit=unit, **BOUNDS).fit(TRIAL[["age"]]),
        lambda: PrivateSurvival(horizon=5.0, unit=unit).fit(TRIAL["months"], TRIAL["died"]),
        lambda: one_row_per_unit(TRIAL, unit, {"age": "mean"}),
    ]
    for call in calls:
        text = refusal(call, InvalidParameter)
        assert "unit must be" in text and f"got a Series of {N}" in text and "unit='name'" in text
    assert "such as 'person'" in refusal(lambda: PrivacyBudget(1.0, unit=unit), InvalidParameter)


NEAREST: dict[str, Callable[[], Any]] = {
    "'arm'": lambda: CohortTable(groups=ARMS, by="Arm", columns={"age": {"mean": (20, 80)}}).fit(TRIAL),
    "'months'": lambda: PrivateSurvival(horizon=5.0, time="month", event="died").fit(TRIAL),
    "'patient'": lambda: one_row_per_unit(TRIAL, "patients", {"age": "mean"}),
    "'t.age'": lambda: PrivateSQL({"t": TRIAL}, epsilon=1.0, bounds={"t.ages": (20, 80)}),
}


@pytest.mark.parametrize("column", NEAREST)
def test_a_misspelt_column_has_the_nearest_as_its_remedy(column: str) -> None:
    if "." in column:
        pytest.importorskip("duckdb")
    assert f"Did you mean {column}?" in refusal(NEAREST[column], InvalidParameter)


# Entries of a container may be private values that were given by mistake: neither they nor a column like them is shown.
LISTED: list[Callable[[], Any]] = [
    lambda: CohortTable(groups=ARMS, by="arm", columns={"aeg": {"mean": (20, 80)}}).fit(TRIAL),
    lambda: ContingencyTable(levels={"dead": [0, 1]}).fit(TRIAL),
    lambda: GroupMeans(groups=ARMS, by="arm", columns=["days"], **BOUNDS).fit(TRIAL),
    lambda: one_row_per_unit(TRIAL, "patient", {"aeg": "mean", "day": "mean"}),
]


@pytest.mark.parametrize("call", LISTED)
def test_an_entry_that_is_no_column_is_not_shown(call: Callable[[], Any]) -> None:
    text = refusal(call, InvalidParameter)
    assert "'died'" in text and "got another at position 0" in text and "Did you mean" not in text


def test_a_formula_names_the_column_that_it_needs() -> None:
    bounds = {"died": (0, 1), "age": (20, 80)}
    gaps = TRIAL.assign(age=TRIAL["age"].where(TRIAL["age"] < 70), arm=TRIAL["arm"].where(TRIAL["age"] < 70))

    def fit(formula: str, rows: pd.DataFrame = TRIAL, **given: Any) -> Callable[[], Any]:
        return lambda: PrivateLinearRegression.from_formula(formula, rows, bounds=bounds, random_state=0, **given)

    assert "Did you mean 'age'?" in refusal(fit("died ~ aeg"), InvalidParameter)
    assert "Declare bounds={'months': (low, high)}" in refusal(fit("died ~ months"), InvalidParameter)
    assert "data['age'] must be finite" in refusal(fit("died ~ age", gaps))
    text = refusal(fit("died ~ arm", gaps, levels={"arm": ARMS}, unknown="error"))
    assert "data['arm'] must hold declared levels only" in text and "unknown='drop'" in text


def test_missing_entries_name_their_column() -> None:
    gaps = TRIAL.assign(age=TRIAL["age"].where(TRIAL["age"] < 70))
    table = CohortTable(groups=ARMS, by="arm", columns={"months": {"mean": (0, 9)}, "age": {"mean": (20, 80)}})
    assert "NaN or infinity in column 'age'" in refusal(lambda: table.fit(gaps))
    means = ClippedMean(bounds=(0, 80))
    assert "NaN or infinity in column 'age'" in refusal(lambda: means.fit(gaps[["months", "age"]]))


def test_levels_are_no_mapping() -> None:
    for levels in ({"a": "secret-old", "b": "secret-new"}, {"secret-old", "secret-new"}):
        table = CohortTable(groups=ARMS, by="arm", columns={"sex": {"levels": levels}})
        assert "columns['sex'] must be a sequence of distinct values" in refusal(
            lambda t=table: t.plan(60), InvalidParameter
        )


def test_factors_are_spelled_as_here() -> None:
    options: dict[str, Any] = {"bounds": {"died": (0, 1), "age": (20, 80)}}
    for formula, remedy in (
        ("died ~ age + factor(arm)", "Write C(arm), and declare its levels: levels={'arm': [...]}"),
        ("died ~ age + as.factor(arm)", "Write C(x) for as.factor(x)"),
    ):
        fit = lambda formula=formula: PrivateLinearRegression.from_formula(formula, TRIAL, **options)  # noqa: E731
        assert remedy in refusal(fit, InvalidParameter)


def test_levels_have_names_and_brackets() -> None:
    options: dict[str, Any] = {"bounds": {"died": (0, 1)}, "levels": ["old", "new"]}
    text = refusal(lambda: PrivateLinearRegression.from_formula("died ~ arm", TRIAL, **options), InvalidParameter)
    assert "levels={'arm': ['old', 'new']}" in text
    table = ContingencyTable(levels=["old", "new"])
    assert "[['yes', 'no'], ['old', 'new']]" in refusal(lambda: table.fit(TRIAL[["arm", "died"]]), InvalidParameter)


@pytest.mark.parametrize("kind", [PrivateSurvival, LogRankTest])
def test_times_come_before_events(kind: Any) -> None:
    groups = [] if kind is PrivateSurvival else [TRIAL["arm"]]
    model = kind(horizon=5.0, groups=["secret-old", "secret-new"] if groups else None)
    assert "Times come first: fit(times, events)" in refusal(lambda: model.fit(TRIAL["died"], TRIAL["months"], *groups))


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "PrivateStatistic"])
def test_a_file_needs_columns(family: str, tmp_path: Path) -> None:
    path = str(tmp_path / "trial.csv")
    TRIAL.to_csv(path, index=False)
    if family in ("GroupMeans", "PrivateLinearRegression"):
        model: Any = (
            GroupMeans(groups=["secret-old", "secret-new"], **BOUNDS)
            if family == "GroupMeans"
            else PrivateLinearRegression(x_bounds=(20, 80), y_bounds=(0, 1))
        )
        text = refusal(lambda: model.fit(path, "arm" if family == "GroupMeans" else "died"))
    else:
        text = refusal(lambda: FAMILIES[family](path))
    assert ("column 'arm'" in text or "column 'day'" in text) and "bounds={...}" in text
    formula = refusal(lambda: PrivateLinearRegression.from_formula("died ~ age", path, bounds={}))
    assert "pandas.read_csv(path)" in formula


def test_dropped_rows_are_named_before_the_charge() -> None:
    patients = one_row_per_unit(TRIAL, "patient", {"age": "mean", "months": "mean", "died": "max"})
    old = patients[patients["age"] > 50]
    budget = PrivacyBudget(1.0, unit="patient")
    calls: list[Callable[[], Any]] = [
        lambda: ClippedMean(budget=budget, **BOUNDS).fit(old[["age"]]),
        lambda: PrivateSurvival(horizon=5.0, budget=budget).fit(old["months"], old["died"]),
        lambda: PrivateLinearRegression.from_formula(
            "died ~ age", old, bounds={"died": (0, 1), "age": (20, 80)}, budget=budget
        ),
    ]
    for call in calls:
        text = refusal(call)
        assert "You dropped rows: keep them, and use missing='drop' or groups" in text and str(len(old)) not in text
    assert budget.spent.epsilon == 0
