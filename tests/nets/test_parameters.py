"""The plan of every estimator checks every parameter: the error for an invalid value names the parameter."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dpstats.errors import DPStatsError
from tests.nets.test_one_way_out import EVERY, fitted

ANYTHING = object()
BAD = [ANYTHING, "no such", -1, math.nan, math.inf, []]

OF_DATA = {"by", "columns", "unit", "time", "event", "random_state", "budget", "cache_dir"}
"""Names of columns, sources of chance and places: what they must be is known where they are used."""
UNUSED = {
    "ClippedMean": {"center"},
    "PrivateVariance": {"center"},
    "InnerProductTest": {"constants", "distance"},
    "LipschitzExtensionTest": {"constants", "distance", "solver"},
    "FilteringTest": {"distance"},
    "IterativeConstruction": {"domain", "net", "net_error", "norm"},
    "NetMechanism": {"domain"},
    "SmallDB": {"domain"},
    "OnlineMultiplicativeWeights": {"domain", "queries"},
    "PrivateStatistic": {"function"},
    "PrivateSurvival": {"censored"},
    "LogRankTest": {"censored"},
}
"""Parameters that the given ones leave unused, or that accept any value."""
GOOD: dict[str, list[Any]] = {"mean": [-1], "n_jobs": [-1], "fill": [-1], "called": ["no such"]}
"""Of these, a value of the list is one that may be asked for."""
ALSO_NAMED = {"domain": "attributes must be"}


@pytest.mark.parametrize("name", EVERY)
def test_what_a_parameter_cannot_be_is_refused_by_name(name: str) -> None:
    model = fitted(name)
    sizes = model.plan_.n_samples, model.plan_.n_features
    given = model.get_params(deep=False)
    for parameter in given.keys() - OF_DATA - UNUSED.get(name, set()):
        for value in BAD:
            if any(value is good or value == good for good in GOOD.get(parameter, [])):
                continue
            made = type(model)(**{**given, parameter: value})
            with pytest.raises(DPStatsError) as caught:
                made.plan(*sizes)
            words = str(caught.value)
            assert parameter in words or ALSO_NAMED.get(parameter, parameter) in words, (parameter, value)
