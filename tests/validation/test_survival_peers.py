"""Survival with hardly any noise, beside lifelines on its own data. Skipped where lifelines is not installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpstats.survival import LogRankTest, PrivateSurvival

DATA = {
    # Loader, time, event, groups, horizon, bins, and whether times are weeks that are edges.
    "rossi": ("load_rossi", "week", "arrest", "fin", 52, 52, True),
    "gbsg2": ("load_gbsg2", "time", "cens", "horTh", 2000, 100, False),
    "waltons": ("load_waltons", "T", "E", "group", 75, 75, False),
    "lung": ("load_lung", "time", "status", "sex", 900, 90, False),
    "larynx": ("load_larynx", "time", "death", "Stage_II", 8, 80, False),
}


@pytest.mark.filterwarnings("ignore")  # lifelines uses what pandas will drop
@pytest.mark.parametrize("name", DATA)
def test_curves_tests_and_hazard_ratios_are_those_of_lifelines(name: str) -> None:
    pytest.importorskip("lifelines")
    from lifelines import CoxPHFitter, KaplanMeierFitter, datasets
    from lifelines.statistics import logrank_test

    loader, time, event, by, horizon, bins, discrete = DATA[name]
    frame = getattr(datasets, loader)()
    times, groups = frame[time].to_numpy(float), frame[by].to_numpy()
    events = (frame[event] == frame[event].max()).to_numpy()
    labels = sorted(set(groups))
    edges = np.linspace(0, horizon, bins + 1)[1:]
    given: dict[str, Any] = {"edges": edges, "epsilon": 1e6, "discrete": discrete, "random_state": 0}

    curve = PrivateSurvival(**given).fit(times, events)
    known = KaplanMeierFitter().fit(times, events).survival_function_at_times(edges).to_numpy()
    usable = edges <= curve.usable_until_
    assert usable.sum() > bins / 2
    assert curve.survival_[1:][usable] == pytest.approx(known[usable], abs=1e-3)

    within, seen = np.minimum(times, horizon), events & (times <= horizon)
    second = groups == labels[1]
    exact = logrank_test(within[second], within[~second], seen[second], seen[~second])
    model = PrivateSurvival(**given, groups=labels).fit(times, events, groups)
    assert model.log_rank().statistic == pytest.approx(exact.test_statistic, rel=0.03)
    test = LogRankTest(**given, groups=labels).fit(times, events, y=groups)
    assert test.statistic_**2 == pytest.approx(exact.test_statistic, rel=0.03)

    rows = pd.DataFrame({"time": within, "event": seen, "second": second.astype(int)})
    cox = CoxPHFitter().fit(rows, "time", "event")
    ratio, error = model.hazard_ratio(labels[1], labels[0], log=True), cox.standard_errors_.iloc[0]
    assert float(ratio.estimate) == pytest.approx(cox.params_.iloc[0], abs=0.2 * error)
    assert (ratio.high - ratio.low) / 3.92 == pytest.approx(error, rel=0.05)
