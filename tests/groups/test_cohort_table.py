"""CohortTable: its numbers, what noise hides, its one charge, and what it refuses."""

from __future__ import annotations

import pickle
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

from dpstats.errors import BudgetExceeded, DPStatsError, InvalidData, InvalidParameter
from dpstats.groups import CohortTable, GroupMeans, GroupQuantiles
from dpstats.means import UnknownBounds
from dpstats.privacy import PrivacyBudget, compose
from dpstats.release.session import join_stages
from dpstats.tables import ContingencyTable

DECLARED: dict[str, Any] = {
    "age": {"mean": (18, 100)},
    "sex": {"levels": ["f", "m"]},
    "stay": {"median": (0, 60), "step": 1},
    "smoker": {"levels": ["never", "ever", None]},
}
GIVEN: dict[str, Any] = {"groups": ["placebo", "drug"], "by": "arm", "columns": DECLARED, "random_state": 0}


def make_trial(n: int = 4000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    arm = rng.choice(["placebo", "drug", "palcebo"], n, p=[0.49, 0.49, 0.02])
    return pd.DataFrame(
        {
            "arm": arm,
            "age": rng.normal(np.where(arm == "drug", 62, 60), 9),
            "sex": rng.choice(["f", "m", "?"], n, p=[0.6, 0.39, 0.01]),
            "stay": rng.poisson(8, n),
            "smoker": rng.choice(np.array(["never", "ever", None], dtype=object), n, p=[0.5, 0.4, 0.1]),
        }
    )


TRIAL = make_trial()


def fitted(data: Any = TRIAL, **given: Any) -> CohortTable:
    return CohortTable(**{**GIVEN, **given}).fit(data)


def test_with_little_noise_the_numbers_are_those_of_the_rows() -> None:
    frame = fitted(epsilon=1e5).to_frame().set_index(["column", "level", "statistic", "group"])["value"]
    of = dict(list(TRIAL.groupby("arm")))
    for arm in GIVEN["groups"]:
        rows = of[arm]
        assert frame["arm", np.nan, "n", arm] == pytest.approx(len(rows), abs=0.1)
        assert frame["age", np.nan, "mean", arm] == pytest.approx(rows["age"].clip(18, 100).mean(), abs=0.01)
        assert frame["age", np.nan, "SD", arm] == pytest.approx(rows["age"].std(), abs=0.05)
        for statistic, q in (("lower quartile", 0.25), ("median", 0.5), ("upper quartile", 0.75)):
            assert frame["stay", np.nan, statistic, arm] == np.quantile(rows["stay"], q)
        known = rows[rows["sex"] != "?"]
        assert frame["sex", "f", "n", arm] == (rows["sex"] == "f").sum()
        assert frame["sex", "f", "%", arm] == pytest.approx(100 * (known["sex"] == "f").mean(), abs=0.01)
    means, stds = ([getattr(of[arm]["age"], name)() for arm in ("drug", "placebo")] for name in ("mean", "std"))
    expected = (means[0] - means[1]) / np.sqrt((stds[0] ** 2 + stds[1] ** 2) / 2)
    assert frame["age", np.nan, "SMD", "drug"] == pytest.approx(expected, abs=0.01)


def test_the_table_reads_as_a_paper_prints_it() -> None:
    model = fitted(epsilon=20.0)
    text = str(model.summary())
    head = ("placebo (n = 1,9", "age, mean (SD)", "sex, n (%)", "stay, median [quartiles]")
    assert all(words in text for words in (*head, "8 [6, 10]", "missing"))
    assert "SMD drug" in text and "left out" in text and "-0.00" not in text
    assert r"\toprule" in model.to_latex() and model.to_markdown().count("\n") == len(model.summary().rows) + 1
    assert "<table" in str(model.summary()._repr_html_())
    again = pickle.loads(pickle.dumps(model))
    assert str(again.summary()) == text and "CohortTable" in model.methods_text() and model.receipt().to_json()


def test_what_noise_hides_is_a_dash() -> None:
    model = fitted(groups=["placebo", "drug", "nobody"], epsilon=0.5)
    rows = {row[0]: row[1:] for row in model.summary().rows}
    assert rows["age, mean (SD)"][2] == "–" == rows["stay, median [quartiles]"][2]
    assert rows["  f"][2] == "–" == rows["  f"][4] and "Check the spelling" in str(model.summary())
    assert "(n = –)" in model.summary().columns[3]


def test_a_misspelled_level_and_the_rows_that_it_leaves_out_are_noticed() -> None:
    columns = {**DECLARED, "sex": {"levels": ["f", "man"]}}
    notes = fitted(columns=columns, epsilon=4.0).summary().notes
    (empty,) = [note for note in notes if "spelling" in note]
    (left,) = [note for note in notes if "Their noisy numbers" in note]
    missed = (TRIAL["sex"] != "f") | (TRIAL["arm"] == "palcebo")
    assert "'sex = man'" in empty and "smoker" not in empty
    sizes = dict(part.split() for part in left.split(": ")[1].split(". ")[0].rstrip(".").split(", "))
    assert int(sizes["sex"].replace(",", "")) == pytest.approx(missed.sum(), abs=40)


def test_one_charge_pays_for_all_parts() -> None:
    budget = PrivacyBudget(1.0)
    model = fitted(random_state=None, budget=budget)
    (entry,) = budget.history()
    assert entry.guarantee.epsilon == 1.0 == model.privacy_.epsilon and budget.remaining.epsilon == 0
    assert compose(model.plan_.events, 0.0).epsilon <= 1.0
    each = [part.privacy_.epsilon for part in model.parts_.values()]
    assert each == pytest.approx([0.2] * 4) and list(model.parts_) == list(DECLARED)
    with pytest.raises(BudgetExceeded):
        fitted(random_state=None, budget=budget)
    kinds = [type(part) for part in model.parts_.values()]
    assert kinds == [GroupMeans, ContingencyTable, GroupQuantiles, ContingencyTable]
    assert model.parts_["age"].difference("drug", "placebo").estimate.shape == (1,)
    assert model.parts_["sex"].difference(groups=("drug", "placebo")).estimate < 1
    assert budget.history() == (entry,)


def test_a_plan_states_the_noise_of_every_column() -> None:
    plan = CohortTable(**GIVEN).plan(4000)
    notes = "\n".join(plan.notes())
    for name in ("arm", *DECLARED):
        assert f"  {name}: " in notes
    assert plan.guarantee.epsilon == 1.0 and plan.notes() == fitted().plan_.notes()


def test_missing_numbers_and_codes_are_left_out_of_their_column() -> None:
    holes = TRIAL.assign(age=TRIAL["age"].where(TRIAL.index % 3 > 0, -9.0))
    with pytest.raises(InvalidData):
        fitted(holes, missing_codes=[-9])
    model = fitted(holes, missing="drop", missing_codes=[-9], epsilon=1e5)
    assert model.parts_["age"].counts_.sum() < 0.7 * model.counts_.sum()
    assert model.parts_["stay"].counts_.sum() == pytest.approx(model.counts_.sum(), abs=1)


@pytest.mark.parametrize("kind", ["relation", "file", "polars"])
def test_other_containers_give_the_same_table(kind: str, tmp_path: Any) -> None:
    import polars as pl

    frame = TRIAL[["arm", "age", "sex", "stay"]]
    frame.to_csv(tmp_path / "trial.csv", index=False)
    columns = {name: DECLARED[name] for name in ("age", "sex", "stay")}
    data = {"relation": lambda: duckdb.read_csv(str(tmp_path / "trial.csv")), "file": lambda: tmp_path / "trial.csv"}
    found = fitted(data.get(kind, lambda: pl.from_pandas(frame))(), columns=columns)
    assert str(found.summary()) == str(fitted(frame, columns=columns).summary())


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"groups": None}, "groups must"),
        ({"groups": ["a"]}, "groups must"),
        ({"by": None}, "by must"),
        ({"columns": None}, "columns must"),
        ({"columns": {}}, "columns must"),
        ({"columns": {"arm": {"levels": ["a", "b"]}}}, "columns must"),
        ({"columns": {"age": (18, 100)}}, r"columns\['age'\] must be one of"),
        ({"columns": {"age": {"mean": (18, 100), "step": 1}}}, r"columns\['age'\] must"),
        ({"columns": {"age": {"mean": (100, 18)}}}, r"columns\['age'\] must"),
        ({"columns": {"age": {"mean": "private"}}}, r"columns\['age'\] must"),
        ({"columns": {"age": {"median": UnknownBounds()}}}, r"columns\['age'\] must"),
        ({"columns": {"height": {"mean": (1, 2)}}}, "height|columns must"),
        ({"epsilon": 0}, "epsilon must"),
        ({"missing": "center"}, "missing must"),
    ],
)
def test_bad_parameters_are_refused_before_the_charge(given: dict[str, Any], words: str) -> None:
    budget = PrivacyBudget(1.0)
    with pytest.raises((InvalidParameter, InvalidData), match=words):
        fitted(random_state=None, budget=budget, **given)
    assert budget.history() == ()


def test_rows_without_names_and_labels_beside_are_refused() -> None:
    with pytest.raises(InvalidData, match="named columns"):
        fitted(TRIAL.to_numpy())
    with pytest.raises(InvalidParameter, match="y must"):
        CohortTable(**GIVEN).fit(TRIAL, TRIAL["arm"])


def test_a_part_has_no_release_before_its_stages() -> None:
    plan = GroupMeans(groups=["a", "b"], bounds="private", epsilon=2.0).plan(5000, 1)
    with pytest.raises(DPStatsError, match="must have all of its stages"):
        join_stages({"age": plan})
