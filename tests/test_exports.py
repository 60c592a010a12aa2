"""Forms of a result follow from its table and its records."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest

from dpstats.errors import DPStatsError
from dpstats.inference.reports import Records, Reported, free_names
from dpstats.inference.results import Summary


class Half(Reported):
    """Counts, one of which is not known."""

    def summary(self) -> Summary:
        return Summary("Counts", [], ["", "count"], [["yes", "71"], ["no", ""]])

    def _records(self) -> Records:
        return Records(["yes", "no"], {"count": [71.0, math.nan]}, {"simulated": False})


def test_forms_follow_from_a_table_and_records() -> None:
    frame = Half().to_frame()
    assert frame["count"].tolist()[:1] == [71.0] and list(frame.index) == ["yes", "no"]
    assert frame.attrs == {"simulated": False}
    assert Half().to_dict()["rows"] == [{"name": "yes", "count": 71.0}, {"name": "no", "count": None}]
    assert "yes & 71" in Half().to_latex() and "| no |  |" in Half().to_markdown()
    assert Half()._repr_html_() == Half().summary().as_html()


def test_a_result_without_its_parts_names_its_class() -> None:
    class Nothing(Reported):
        pass

    with pytest.raises(TypeError, match="Nothing does not define summary"):
        Nothing().summary()
    with pytest.raises(TypeError, match="Nothing does not define _records"):
        Nothing().to_dict()


def test_a_frame_without_pandas_names_what_has_the_same_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(DPStatsError, match=r"install it, or use to_dict\(\)"):
        Half().to_frame()


def test_the_module_needs_the_standard_library_only() -> None:
    import dpstats.inference.reports

    text = Path(dpstats.inference.reports.__file__).read_text(encoding="utf-8")
    assert "import numpy" not in text and "from dpstats.inference.results" not in text.partition("Examples")[0]


def test_free_names_are_distinct_and_not_taken() -> None:
    assert free_names(["low", "s", "s", "low_"], ["low"]) == ["low_", "s", "s_", "low__"]
    records = Records(["a"], {"name": [1], "n": [2]}, {})
    assert records.as_dict()["rows"] == [{"name": "a", "name_": 1, "n": 2}]
