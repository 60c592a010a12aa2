"""What calls, commands and queries say is as recorded: see `tests/nets/recorded_words.py`."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from tests.nets import recorded_words
from tests.nets.calls import ESTIMATORS, OTHERS
from tests.nets.parts import list_public
from tests.nets.recorded_words import SCENES, changes, record
from tests.nets.told import Said

ELSEWHERE = {
    "dpstats.data": "columns and tables behind estimators: tests/nets/test_forms.py, tests/data",
    "dpstats.lattice": "integers behind estimators: tests/conformance/test_row_ownership.py",
    "study_report": "a page with versions and times: tests/simulation/test_study_report.py",
    **dict.fromkeys(
        [
            "construction_bound",
            "median_bound",
            "median_updates",
            "multiplicative_weights_updates",
            "net_bound",
            "online_bound",
            "perceptron_bound",
            "perceptron_updates",
            "small_db_bound",
            "vc_bound",
        ],
        "bounds of chapters 4 and 5: the recorded scene of bounds plays them",
    ),
    **dict.fromkeys(
        [
            "identity_lower_bound",
            "identity_upper_bound",
            "mean_lower_bound",
            "sparse_mean_lower_bound",
            "kl_divergence",
        ],
        "numbers of the source texts: tests/test_sources.py computes them",
    ),
    **dict.fromkeys(["power", "power_curve"], "simulations of seconds: tests/simulation/test_power.py"),
    **dict.fromkeys(
        ["plot_crossing", "plot_power", "plot_risk"], "pictures of studies: tests/simulation/test_pictures.py"
    ),
    **dict.fromkeys(["paper_figures", "side_by_side"], "forms for papers: tests/inference/test_papers.py"),
    "cohort_table": "the scene of CohortTable",
    "private_bounds": "the scene of PrivateBounds",
    **dict.fromkeys(["about_missing", "with_missing"], "words of summaries, which every scene has"),
}
"""Public functions without a scene, each with its reason."""


def public_functions() -> dict[str, Any]:
    """Return everything public that is called, but for classes of results, plans and queries."""
    return {
        name: thing for module, name, thing in list_public() if module not in ELSEWHERE and inspect.isfunction(thing)
    }


def test_every_public_function_has_a_scene() -> None:
    assert public_functions().keys() - ESTIMATORS.keys() - OTHERS.keys() == {
        name for name in ELSEWHERE if not name.startswith("dpstats.")
    }
    assert {name for name in names_of_estimators() if name not in ESTIMATORS} == set()


def names_of_estimators() -> set[str]:
    """Return the names of every public estimator."""
    from tests.nets.test_one_way_out import public

    return set(public())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("scene", SCENES)
def test_words_are_as_recorded(scene: str) -> None:
    found = list(changes(scene))
    assert not found, "\n".join([*found[:20], "If this is meant: make record"])


def test_every_recorded_scene_is_played() -> None:
    assert record().keys() == SCENES.keys()


def scenes(words: str) -> dict[str, Any]:
    """Return two scenes that say the same sentence, in a list and in a table."""
    told: dict[str, list[Said]] = {
        "ClippedMean": [("", f"{words} count."), ("", 2.0)],
        "queries, rows": [("", f"g | mean\n[#] {words}\n    count.\n[#] Other words."), ("", 3.0)],
    }
    return {scene: lambda said=said: {"": said} for scene, said in told.items()}


def test_a_changed_word_is_told_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(recorded_words, "RECORD", tmp_path / "record.json")
    monkeypatch.setattr(recorded_words, "WORDS", tmp_path / "words")
    monkeypatch.setattr(recorded_words, "SCENES", scenes("Intervals"))
    for kept in (record, recorded_words.words):
        monkeypatch.setattr(recorded_words, kept.__name__, kept.__wrapped__)
    recorded_words.write()
    assert (tmp_path / "words" / "sql.txt").read_text() == "\n== queries, rows\ng | mean\nOther words.\n"
    assert not [*changes("ClippedMean"), *changes("queries, rows")]
    monkeypatch.setattr(recorded_words, "SCENES", scenes("Bands"))
    assert [*changes("ClippedMean")] == ["- Intervals count.", "+ Bands count."]
    assert not [*changes("queries, rows")]
