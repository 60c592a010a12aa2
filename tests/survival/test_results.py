"""Results: frames, summaries and copies."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.survival.results import shown
from tests.survival.test_table import fitted


def test_results_read_well_and_can_be_copied() -> None:
    for found in (
        fitted().median(),
        fitted().rmst(2.0),
        fitted().rmst_difference(1, 0),
        fitted().difference(1, 0, 2.0),
    ):
        frame = found.to_frame(0.9)
        interval = found.confidence_interval(0.9)
        assert np.array_equal(frame["low"], np.atleast_1d(interval.low))
        assert (frame["low"] < frame["estimate"]).all() and (frame["estimate"] < frame["high"]).all()
        assert np.all(found.low < interval.low) and np.all(found.high > interval.high)
        text = str(found.summary())
        assert found.estimand in text and "This uses the release alone" in text and "Simulated noise" in text
        again = pickle.loads(pickle.dumps(found))
        assert str(again.summary(0.8)) == str(found.summary(0.8))
        assert found._repr_html_().startswith("<div")


def test_one_group_gives_numbers() -> None:
    found = fitted().median(0)
    assert isinstance(found.estimate, float) and isinstance(found.low, float)
    assert found.names == ("0",) and fitted().median().names == ("0", "1")
    assert fitted().rmst_difference(1, 0).pvalue < 1e-4


def test_a_level_is_checked() -> None:
    with pytest.raises(InvalidParameter, match="confidence_level"):
        fitted().median().confidence_interval(95)


def test_values_without_a_number_are_words() -> None:
    assert shown(np.nan, 1.0) == "unusable" and shown(np.inf, 1.0) == "not reached"
    assert shown(1.2345, 0.01) == "1.234" and shown(2.0, np.inf) == "2.0"


def test_a_log_rank_test_of_a_table_reads_as_survdiff() -> None:
    found = fitted().log_rank()
    assert found.pvalue < 1e-4 and found.degrees_of_freedom == 1
    assert found.difference.sum() == pytest.approx(0, abs=1e-9) and found.n.sum() == pytest.approx(3000, abs=100)
    text = str(found.summary())
    assert f"{found.statistic:.5g}" in text and "Simulated noise" in text
    assert found.to_frame().shape == (2, 4) and found.to_dict()["pvalue"] == found.pvalue
    assert fitted().log_rank(rho=1).statistic != found.statistic
    assert "S^1 (1 - S)^0" in str(fitted().log_rank(rho=1))
    assert "tabular" in found.to_latex()
