"""Rehearsals on public rows: coverage and bias of what fits say, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dpstats.errors import InvalidData, InvalidParameter
from dpstats.privacy import PrivacyBudget
from dpstats.statistic import PrivateStatistic

rng = np.random.default_rng(0)
ROWS = rng.exponential(size=(3000, 1))


def mean(block: np.ndarray) -> float:
    return float(block.mean())


def test_a_good_statistic_holds_and_charges_nothing() -> None:
    budget = PrivacyBudget(epsilon=1.0)
    found = PrivateStatistic(mean, bounds=(0, 10), budget=budget).rehearse(ROWS, n_replications=40)
    assert budget.spent.epsilon == 0
    assert found.holds and found.coverage[0] >= 0.85 and found.located[0] == 1
    assert found.value[0] == pytest.approx(ROWS.mean())
    assert abs(found.bias[0]) < 4 * found.bias_error[0]
    assert (found.n_samples, found.n_replications) == (3000, 40)
    assert "Warning" not in str(found.summary()) and "coverage" in str(found.to_frame().columns)


def test_a_biased_statistic_is_seen() -> None:
    # The maximum of a block is far from the maximum of all rows.
    found = PrivateStatistic(lambda block: block.max(), bounds=(0, 20), bias=None).rehearse(
        ROWS, n_samples=2000, n_replications=20
    )
    assert not found.holds and found.coverage[0] == 0 and found.bias[0] < -1
    assert "intervals undercover" in str(found.summary())


def test_frames_outcomes_links_and_outputs() -> None:
    frame = pd.DataFrame({"a": rng.normal(size=3000), "b": rng.normal(size=3000)})

    def two(block: pd.DataFrame, y: np.ndarray) -> list[float]:
        return [float(np.corrcoef(block["a"], y)[0, 1]), float(np.corrcoef(block["b"], y)[0, 1])]

    estimator = PrivateStatistic(two, link="fisher", n_outputs=2, bounds=(-3, 3), epsilon=4.0)
    found = estimator.rehearse(frame, frame["a"] + rng.normal(size=3000), n_replications=20)
    assert found.value == pytest.approx([0.7, 0.0], abs=0.06) and found.coverage.shape == (2,)
    assert len(found.to_frame()) == 2


def test_what_is_refused() -> None:
    estimator = PrivateStatistic(mean, bounds=(0, 10))
    with pytest.raises(InvalidParameter, match="n_replications"):
        estimator.rehearse(ROWS, n_replications=2)
    with pytest.raises(InvalidParameter, match="random_state"):
        estimator.rehearse(ROWS, random_state=None)
    with pytest.raises(InvalidParameter, match="unit"):
        PrivateStatistic(mean, bounds=(0, 10), unit="person").rehearse(ROWS)
    with pytest.raises(InvalidData, match="finite numbers"):
        PrivateStatistic(lambda block: float("nan"), bounds=(0, 1)).rehearse(ROWS)
