"""dpstats regress: the table and the JSON are what was fitted, and bad input is one line before anything is charged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpstats.cli import main
from dpstats.data.rows import LEFT_OUT
from dpstats.privacy import PrivacyBudget
from dpstats.regression import PrivateGammaRegression, PrivateLinearRegression, PrivateLogisticRegression
from tests.cli.commands import failed, json_of

PLANS = ["free", "paid", "NA"]
SLOPES = {"age": 0.05, "paid": -1.0, "NA": 0.5}
BOUNDS = ["--bounds", "age=0,80", "cost=0,10"]
LINEAR = ["--outcome", "cost", "--column", "age", *BOUNDS]
LOGISTIC = ["--logistic", "--outcome", "any", "--column", "age", "--bounds", "0", "80"]
LEVELS = ["--levels", "plan=free,paid,NA"]
FORMULA = ["--formula", "cost ~ age + plan", *BOUNDS, *LEVELS]


def people(n: int = 4000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    age, plan = rng.uniform(20, 60, n), rng.choice(PLANS, n)
    mean = 2 + SLOPES["age"] * age + SLOPES["paid"] * (plan == "paid") + SLOPES["NA"] * (plan == "NA")
    any_visit = rng.random(n) < 1 / (1 + np.exp(-0.1 * (age - 40)))
    return pd.DataFrame(
        {"age": age, "plan": plan, "cost": mean + rng.normal(size=n), "any": any_visit.astype(int)}
    ).assign(name="secret")


@pytest.fixture
def costs(tmp_path: Path) -> Path:
    path = tmp_path / "costs.csv"
    people().to_csv(path, index=False)
    return path


def near(record: dict[str, Any], truth: float) -> bool:
    """Say whether an estimate is within six standard errors: a false alarm of 2e-9."""
    return abs(record["estimate"] - truth) < 6 * record["standard_error"]


def test_regress_prints_a_table(costs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["regress", str(costs), *LINEAR]) == 0
    out = capsys.readouterr().out
    assert "Private linear regression" in out and "epsilon = 1, delta = 1e-06" in out and "imulated" not in out
    lines = [line.split()[0] for line in out.splitlines() if line]
    assert "Intercept" in lines and "age" in lines
    assert main(["regress", str(costs), *LOGISTIC]) == 0
    out = capsys.readouterr().out
    assert "Private logistic regression" in out and "odds ratio" in out


def test_the_json_is_what_was_fitted(costs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = json_of(["regress", str(costs), *LINEAR, "--seed", "3", "--confidence", "0.9"], capsys)
    rows = pd.read_csv(costs)
    model = PrivateLinearRegression(x_bounds=(0, 80), y_bounds=(0, 10), random_state=3)
    model.fit(rows[["age"]], rows["cost"])
    assert (result["estimator"], result["noise"]) == ("PrivateLinearRegression", "gaussian")
    assert (result["n_samples"], result["n_features"]) == (4000, 1)
    privacy = {"epsilon": 1.0, "delta": 1e-6, "neighbors": "REPLACE_ONE", "simulated": True}
    assert result["privacy"].items() >= privacy.items()
    assert (result["outcome"], result["formula"], result["cov_type"]) == ("cost", None, "HC")
    intercept, age = result["params"]
    interval, whole = model.confidence_interval(0.9), model.intercept_confidence_interval(0.9)
    assert age == {
        "name": "age",
        "estimate": model.coef_[0],
        "standard_error": model.standard_errors_[0],
        "z": model.test("age").statistic[0],
        "pvalue": model.test("age").pvalue[0],
        "low": interval.low[0],
        "high": interval.high[0],
        "privacy_share": model.privacy_share_[0],
        "identified": True,
    }
    assert (intercept["name"], intercept["estimate"]) == ("Intercept", model.intercept_)
    assert (intercept["low"], intercept["high"]) == (whole.low, whole.high)
    assert intercept["privacy_share"] == model.intercept_privacy_share_ and intercept["identified"] is None
    assert result["covariance"] == model.params_cov_.tolist() and result["condition"] == model.condition_
    assert (result["scale"], result["clipped_share"]) == (model.scale_, model.clipped_share_)
    test = model.f_test()
    assert result["f_test"] == {"statistic": test.statistic, "pvalue": test.pvalue, "df_num": 1, "df_denom": 3998}
    assert [stage["name"] for stage in result["plan"]["stages"]] == [stage.name for stage in model.plan_.stages]
    assert result["family"] == "linear" and not result["noise_only"]
    assert result["notes"] == [note.replace("random_state", "--seed") for note in model.summary(0.9).notes]


def test_the_json_of_a_logistic_regression(costs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = json_of(["regress", str(costs), *LOGISTIC, "--seed", "3"], capsys)
    rows = pd.read_csv(costs)
    model = PrivateLogisticRegression(x_bounds=(0, 80), random_state=3).fit(rows[["age"]], rows["any"])
    age = result["params"][1]
    ratio = model.odds_ratio_interval()
    assert age["odds_ratio"] == pytest.approx(model.odds_ratios_[0], rel=1e-12)
    assert (age["odds_ratio_low"], age["odds_ratio_high"]) == pytest.approx((ratio.low[0], ratio.high[0]))
    assert near(age, 0.1) and result["family"] == "logistic" and not result["separated"]
    assert result["outcome_rate"] == model.outcome_rate_ and "scale" not in result


def test_the_json_of_a_regression_of_amounts(costs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--gamma", "--outcome", "cost", "--column", "age", "--bounds", "age=0,80", "cost=0,40"]
    result = json_of(["regress", str(costs), *arguments, "--seed", "3"], capsys)
    rows = pd.read_csv(costs)
    model = PrivateGammaRegression(x_bounds=(0, 80), y_bounds=(0, 40), random_state=3)
    model.fit(rows[["age"]], rows["cost"])
    age, ratio = result["params"][1], model.rate_ratio_interval()
    assert age["rate_ratio"] == pytest.approx(model.rate_ratios_[0], rel=1e-12)
    assert (age["rate_ratio_low"], age["rate_ratio_high"]) == pytest.approx((ratio.low[0], ratio.high[0]))
    assert result["family"] == "gamma" and result["unsettled"] == model.unsettled_
    assert result["clipped_share"] == model.clipped_share_ and "odds_ratio" not in age


@pytest.mark.parametrize(
    ("method", "noise", "estimator"),
    [
        ("sufficient", "laplace", "SufficientStatisticsRegression"),
        ("functional", "laplace", "FunctionalMechanismRegression"),
    ],
)
def test_methods_of_one_release(
    method: str, noise: str, estimator: str, costs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["regress", str(costs), *LINEAR, "--method", method]
    result = json_of([*arguments, "--epsilon", "20"], capsys)
    assert (result["estimator"], result["noise"]) == (estimator, noise)
    # With one column Laplace noise is the smaller one.
    assert result["privacy"]["delta"] == 0
    intercept, age = result["params"]
    assert near(age, SLOPES["age"]) and age["identified"] and intercept["identified"]
    assert main(arguments) == 0
    assert estimator in capsys.readouterr().out


@pytest.mark.parametrize("method", ["newton", "sufficient"])
def test_pure_privacy_has_laplace_noise(method: str, costs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = json_of(["regress", str(costs), *LINEAR, "--delta", "0", "--method", method], capsys)
    assert result["privacy"]["delta"] == 0 and result["noise"] == "laplace"


@pytest.mark.parametrize("epsilon", ["1", "8"])
def test_without_an_intercept(epsilon: str, costs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["regress", str(costs), *LINEAR, "--no-intercept", "--epsilon", epsilon, "--seed", "1"]
    result = json_of(arguments, capsys)
    assert [record["name"] for record in result["params"]] == ["age"]
    assert len(result["covariance"]) == 1 and result["params"][0]["identified"]


def test_a_formula_and_the_columns_it_means_are_one_model(costs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seeded = ["--seed", "1", "--epsilon", "4"]
    by_formula = json_of(["regress", str(costs), *FORMULA, *seeded], capsys)
    columns = ["--column", "plan", "--column", "age", "--outcome", "cost"]
    by_column = json_of(["regress", str(costs), *columns, *BOUNDS, *LEVELS, *seeded], capsys)
    for result, order in (
        (by_formula, ["age", "plan[T.paid]", "plan[T.NA]"]),
        (by_column, ["plan[T.paid]", "plan[T.NA]", "age"]),
    ):
        records = {record["name"]: record for record in result["params"]}
        assert list(records) == ["Intercept", *order]
        assert near(records["age"], SLOPES["age"])
        # The level "NA" is a level, and no missing entry.
        assert near(records["plan[T.paid]"], SLOPES["paid"]) and near(records["plan[T.NA]"], SLOPES["NA"])
    assert (by_formula["formula"], by_column["formula"]) == ("cost ~ age + plan", None)
    without = [*columns[:2], *columns[4:], *BOUNDS[:1], BOUNDS[2], *LEVELS, "--no-intercept"]
    every = json_of(["regress", str(costs), *without, *seeded], capsys)
    assert [record["name"] for record in every["params"]] == [f"plan[{level}]" for level in PLANS]


def test_levels_are_compared_entry_by_entry(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # What pandas makes of a column depends on all of its rows: numbers here, but for one.
    path, rows = tmp_path / "codes.csv", people(400)
    rows["plan"] = rows["plan"].map({"free": "1", "paid": "02", "NA": ""})
    arguments = ["regress", str(path), "--column", "plan", "--outcome", "any", "--logistic", "--seed", "1"]
    rows.to_csv(path, index=False)
    result = json_of([*arguments, "--levels", "plan=1,02,"], capsys)
    assert [record["name"] for record in result["params"][1:]] == ["plan[T.02]", "plan[T.]"]
    # Labels that are numbers are compared by value, so that 02 is 2. The empty entry is missing.
    refused = failed([*arguments, "--levels", "plan=1,2", "--unknown", "error"], capsys)
    assert "codes.csv: data['plan'] must hold declared levels only" in refused
    fewer = [*arguments, "--levels", "plan=1,2"]
    # Rows without a declared level are left out.
    result = json_of(fewer, capsys)
    assert LEFT_OUT in " ".join(result["notes"])
    assert result["plan"]["stages"][0]["name"] == "observed rows"


def test_a_ledger_is_charged_once(costs: Path, tmp_path: Path) -> None:
    ledger = tmp_path / "b.db"
    PrivacyBudget(epsilon=1.0, delta=1e-6, ledger=ledger)
    assert main(["regress", str(costs), *LINEAR, "--budget", str(ledger)]) == 0
    assert len(PrivacyBudget.open(ledger).history()) == 1
    assert main(["regress", str(costs), *LINEAR, "--budget", str(ledger)]) == 4
    assert len(PrivacyBudget.open(ledger).history()) == 1


def test_bounds_are_chosen_from_the_rows(costs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start = ["regress", str(costs), "--epsilon", "4", "--seed", "3"]
    columns = ["--outcome", "cost", "--column", "age"]
    rows = pd.read_csv(costs)
    for own, given in (
        (["--bounds", "private", "cost=private"], {"x_bounds": "private", "y_bounds": "private"}),
        (["--bounds", "age=private", "cost=0,10"], {"x_bounds": "private", "y_bounds": (0, 10)}),
        (["--bounds", "age=0,80", "--bounds", "cost=private"], {"x_bounds": (0, 80), "y_bounds": "private"}),
    ):
        result = json_of([*start, *columns, *own], capsys)
        model = PrivateLinearRegression(**given, epsilon=4, random_state=3).fit(rows[["age"]], rows["cost"])
        assert result["params"][1]["estimate"] == model.coef_[0]
        for name in ("x_bounds", "y_bounds"):
            assert (name in result) == (given[name] == "private")
        assert result["beyond_bounds"] == model.beyond_bounds_.tolist()
    formula = ["--formula", "cost ~ age", "--bounds", "age=private", "cost=private"]
    same = json_of([*start, *formula], capsys)
    both = json_of([*start, *columns, "--private-bounds", "--bounds", "cost=private"], capsys)
    assert same["params"] == both["params"]


AGE = ["--column", "age", "--bounds", "age=0,80"]
BAD = {
    "no outcome": (AGE, "--outcome must be given, or --formula"),
    "no column": (["--outcome", "cost", *BOUNDS[:1], BOUNDS[2]], "--column must be given, once for each"),
    "the outcome's bounds": (["--outcome", "cost", *AGE], "--bounds must have the outcome: cost=LO"),
    "no bounds": (["--outcome", "cost", "--column", "age", "--bounds", "cost=0,1"], "got none for 'age'"),
    "bounds reversed": ([*LINEAR[:5], "age=80,0", "cost=0,9"], "--bounds must be two numbers LO < HI"),
    "bounds of nobody": ([*LINEAR, "--bounds", "agee=0,1"], "--bounds must name a column of --column or --outcome"),
    "other words": ([*LINEAR[:4], "--bounds", "age=privat", "cost=0,9"], "or private in place of LO,HI, got 'privat'"),
    "chosen bounds of moments": (
        [*LINEAR[:4], "--bounds", "private", "cost=0,9", "--method", "sufficient"],
        "--bounds private must not be given with --method sufficient",
    ),
    "chosen bounds of counts": (
        ["--counts", *LINEAR[:4], "--bounds", "age=0,9", "cost=private"],
        "--bounds must have LO,HI of the outcome with --counts, got private",
    ),
    "chosen bounds of weights": (
        [*LINEAR, "--weights", "w", "--bounds", "w=private"],
        "--bounds must have the column of --weights: w=LO,HI",
    ),
    "levels of nobody": (
        [*LINEAR, "--levels", "p=a,b"],
        "--levels must name a column of --column or --outcome, got 'p'",
    ),
    "bounds and levels": ([*LINEAR, "--levels", "age=1,2"], "have --bounds or --levels, not both, got 'age'"),
    "outcome among columns": (
        ["--outcome", "age", *AGE, "--bounds", "age=0,1"],
        "--bounds must name each column once, got 'age' twice",
    ),
    "outcome is a column": (
        ["--outcome", "age", *AGE],
        "--outcome must be another column than each --column, got 'age'",
    ),
    "no such column": ([*LINEAR, "--column", "x", "--bounds", "0", "1"], "--column and --outcome must name"),
    "a column twice": ([*LINEAR, "--column", "age"], "must name each column once"),
    "text": ([*LINEAR, "--column", "name", "--bounds", "0", "1"], "an entry must be a number, true, false or missing"),
    "text as outcome": (["--outcome", "name", *AGE, "--bounds", "name=0,1"], "column 'name': an entry must be"),
    "counts for logistic": (
        ["--logistic", "--outcome", "cost", *AGE],
        "costs.csv: y must be 0 or 1 (or False and True) for every row",
    ),
    "bounds of an indicator": ([*LOGISTIC, "--bounds", "any=0,1"], "with --logistic"),
    "a covariance": ([*LOGISTIC, "--cov-type", "HC"], "--cov-type must be given for linear regression by newton only"),
    "a covariance of moments": (
        [*LINEAR, "--cov-type", "HC", "--method", "sufficient"],
        "--cov-type must be given for linear regression by newton only, got sufficient",
    ),
    "a method": ([*LOGISTIC, "--method", "functional"], "--method functional must not be given with --logistic"),
    "two families": ([*LINEAR, "--counts", "--gamma"], "--counts must not be given with --gamma"),
    "a method of counts": (
        [*LINEAR, "--counts", "--method", "sufficient"],
        "--method sufficient must not be given with --counts",
    ),
    "delta of what is pure": (
        [*LINEAR, "--method", "functional", "--delta", "1e-6"],
        "--delta must not be given with --method functional",
    ),
    "epsilon 0": ([*LINEAR, "--epsilon", "0"], "epsilon must be a finite number greater than 0, got 0"),
    "confidence": ([*LINEAR, "--confidence", "95"], "--confidence must be"),
    "seed and budget": ([*LINEAR, "--seed", "1", "--budget", "b"], "--seed must not be given with --budget"),
}
BAD_FORMULAS = {
    "outcome": ([*FORMULA, "--outcome", "cost"], "--outcome must not be given with --formula. Give it in the formula"),
    "column": ([*FORMULA, "--column", "age"], "--column must not be given with --formula"),
    "no intercept": ([*FORMULA, "--no-intercept"], "--no-intercept must not be given with --formula"),
    "bounds without names": ([*FORMULA, "--bounds", "0", "1"], "--bounds must name their columns"),
    "no left side": (["--formula", "age", *BOUNDS], "--formula must have an outcome: 'y ~ x', got 'age'"),
    "no sense": (["--formula", "cost ~ age +", *BOUNDS], "formula must be like 'y ~ x + C(plan)'"),
    "no levels": (["--formula", "cost ~ C(plan)", *BOUNDS], "Declare --levels plan=A,B,..."),
    "no bounds": (["--formula", "cost ~ any", *BOUNDS], "bounds must have the (low, high) of 'any'"),
    "a level": ([*FORMULA[:-1], "plan=free,paid", "--unknown", "error"], "data['plan'] must hold declared levels only"),
    "levels of no column": (
        [*FORMULA, "--levels", "town=a,b"],
        "--formula, --bounds and --levels must name columns of costs.csv",
    ),
    "logistic": ([*FORMULA, "--logistic"], "--bounds must not have the outcome ('cost') with --logistic"),
}


@pytest.mark.parametrize("name", [*BAD, *(f"formula: {name}" for name in BAD_FORMULAS)])
def test_bad_input_is_one_line_and_exit_2(name: str, costs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kind, _, rest = name.rpartition(": ")
    arguments, message = BAD_FORMULAS[rest] if kind else BAD[name]
    assert message in failed(["regress", str(costs), *arguments], capsys)


PLAN = ["plan", "regress", "--rows", "4000"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--outcome", "y", "--bounds", "0", "1", "y=0,1"], "--columns must be given: the number of columns"),
        (["--columns", "2", *LINEAR[:2], *BOUNDS], "--bounds must name each of the --columns (2) or none, got 1"),
        (["--columns", "2", *LINEAR[:2], *LEVELS], "--levels must have the names"),
        (["--columns", "3", *FORMULA], "--columns must not be given. By the other options there are 3 of them"),
        (["--columns", "2", "--bounds", "0", "1"], "--outcome must be given, or --formula"),
        (["--columns", "2", "--outcome", "y", "--bounds", "y=0,1"], "--bounds must be given once, or once per"),
    ],
)
def test_plans_that_say_too_little_or_too_much(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in failed([*PLAN, *arguments], capsys)


def test_plans_of_formulas_and_of_columns(costs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counts_rows = json_of([*PLAN, *FORMULA], capsys)
    planned = json_of([*PLAN, *FORMULA, "--unknown", "error"], capsys)
    counted = json_of([*PLAN, "--columns", "3", "--outcome", "y", "--bounds", "0", "1", "y=0,2"], capsys)
    released = json_of(["regress", str(costs), *FORMULA], capsys)
    assert planned["n_features"] == 3 and planned == counted
    assert counts_rows["stages"] == released["plan"]["stages"] != planned["stages"]
    named = ["--columns", "2", "--logistic", "--outcome", "y", "--bounds", "a=0,1", "b=0,2"]
    assert json_of([*PLAN, *named], capsys)["family"] == "logistic"


def test_a_plan_that_is_noise_only_says_so_once(capsys: pytest.CaptureFixture[str]) -> None:
    few = ["plan", "regress", "--rows", "100", "--columns", "9", "--outcome", "y", "--bounds", "0", "1", "y=0,1"]
    assert json_of(few, capsys)["noise_only"]
    assert main(few) == 0
    assert capsys.readouterr().out.count("warning: noise only") == 1


def test_a_parquet_file_with_categories(costs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "out.json"
    duckdb = pytest.importorskip("duckdb")
    parquet = costs.with_suffix(".parquet")
    duckdb.connect().from_df(people()).write_parquet(str(parquet))
    assert main(["regress", str(parquet), *FORMULA, "--json", str(target), "--epsilon", "8"]) == 0
    assert "Private linear regression" in capsys.readouterr().out
    records = {record["name"]: record for record in json.loads(target.read_text())["params"]}
    assert near(records["plan[T.NA]"], SLOPES["NA"])


def test_weights_offsets_and_exposures_are_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(5)
    rows = people().assign(w=rng.uniform(0, 2, 4000), o=rng.normal(size=4000), years=rng.uniform(0.5, 2, 4000))
    path = tmp_path / "rows.csv"
    rows.to_csv(path, index=False)
    further = ["--weights", "w", "--offset", "o"]
    result = json_of(["regress", str(path), *LINEAR, "w=0,2", "o=-3,3", *further, "--seed", "1"], capsys)
    made = PrivateLinearRegression(
        x_bounds=(0, 80),
        y_bounds=(0, 10),
        weights="w",
        weight_bounds=(0, 2),
        offset="o",
        offset_bounds=(-3, 3),
        random_state=1,
    ).fit(rows[["age", "w", "o"]], rows["cost"])
    assert [record["estimate"] for record in result["params"]] == made.params_.tolist()
    assert result["total_weight"] == made.total_weight_
    assert [term["name"] for term in result["terms"]] == ["Intercept", "age"]
    counts = ["--counts", "--formula", "any ~ age", "--bounds", "age=0,80", "any=0,3", "years=0.5,2"]
    rates = json_of(["regress", str(path), *counts, "--exposure", "years", "--seed", "1"], capsys)
    assert rates["n_features"] == 1
    for words, message in (
        ([*LINEAR, "--weights", "w"], "--bounds must have the column of --weights"),
        ([*LINEAR, "years=0.5,2", "--exposure", "years"], "--exposure must be given with --counts or --gamma"),
        ([*LINEAR, "--weights", "age"], "--weights must be another column"),
        ([*counts, "o=-3,3", "--offset", "o"], "--offset must not be given with --counts"),
    ):
        assert message in failed(["regress", str(path), *words], capsys)


@pytest.mark.parametrize("name", [" age", "age ", "-age", "age = 1", "3", "age, b", "a b", "(age)"])
def test_names_of_columns_may_have_any_characters(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, ledger = tmp_path / "named.csv", tmp_path / "b.db"
    people(400).rename(columns={"age": name}).to_csv(path, index=False)
    assert main(["budget", "new", str(ledger), "--epsilon", "1", "--delta", "1e-6"]) == 0
    capsys.readouterr()
    words = ["--outcome", "cost", f"--column={name}", "--bounds", "0", "80", "cost=0,10"]
    found = json_of(["regress", str(path), *words, "--budget", str(ledger)], capsys)
    assert [row["name"] for row in found["params"]] == ["Intercept", name]
    assert [row["name"] for row in found["terms"]] == ["Intercept", name]
