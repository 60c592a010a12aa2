"""The plan of every estimator checks every parameter: the error for an invalid value names the parameter."""

from __future__ import annotations

import math
import re
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
    "StagedInnerProductTest": {"distance"},
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
GOOD: dict[str, list[Any]] = {
    "mean": [-1],
    "n_jobs": [-1],
    "fill": [-1],
    "called": ["no such"],
    "missing_codes": [[]],
    "args": [[]],
}
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


SHARE, POSITIVE = "a finite number greater than 0 and less than 1", "a finite number greater than 0"
RANGES = {
    "accuracy": SHARE,
    "beta": SHARE,
    "blocks": "an integer at least 2",
    "bound": POSITIVE,
    "clip": "a finite number at least 0.001 and at most 20",
    "confidence_level": SHARE,
    "delta": "a finite number at least 0 and less than 1",
    "epsilon": POSITIVE,
    "fill": "a finite number",
    "gamma": "a finite number at least 0 and at most 10",
    "horizon": POSITIVE,
    "level": SHARE,
    "max_rows": "an integer at least 1 and at most 65536",
    "max_signal": "a finite number at least 0 and at most 1e+06",
    "mean": "a finite number",
    "n_calibration": "an integer at least 1",
    "n_components": "an integer at least 1 and at most 2",
    "n_jobs": "an integer at least -1",
    "n_nonzero": "an integer at least 1 and at most 2",
    "n_outputs": "an integer at least 1",
    "n_queries": "an integer at least 1",
    "n_rows": "an integer at least 1",
    "n_simulations": "an integer at least 99 and at most 1e+07",
    "overdispersion": "a finite number at least 0 and at most 1e+100",
    "parameters": "an integer at least 1",
    "q": SHARE,
    "radius": "a finite number greater than 0 and at most 100",
    "resolution": "a finite number greater than 0 and at most 2",
    "rho": "a finite number at least 0 and at most 10",
    "rounds": "an integer at least 1 and at most 1000",
    "selection_clip": POSITIVE,
    "selection_share": SHARE,
    "skewness": "a finite number at least 0",
    "remainder": "a finite number at least 0",
    "smaller_fraction": "a finite number greater than 0 and at most 0.5",
    "std": POSITIVE,
    "std_share": SHARE,
    "step": POSITIVE,
    "time_limit": "a finite number at least 0.001 and at most 1e+06",
}
"""The range of each parameter that is a number."""
OTHER_RANGES = {
    ("bins", "PrivateDistribution"): "an integer at least 2 and at most 1.04858e+06",
    ("bins", "PrivateSurvival"): "an integer at least 1 and at most 500",
    ("bins", "LogRankTest"): "an integer at least 1 and at most 500",
    ("clip", "SparseMean"): POSITIVE,
    ("clip", "RowDistanceTest"): "a finite number greater than 0 and at most 100",
    ("max_updates", "IterativeConstruction"): "an integer at least 0 and at most 9999",
    ("max_updates", "OnlineMultiplicativeWeights"): "an integer at least 1",
    ("radius", "SpatialSignTest"): POSITIVE,
}
"""Ranges that are those of one class."""
_LIMIT = re.compile(r"(greater than|at least|less than|at most) ([-+.e\d]+)")
_RANGE = re.compile(r"^(\w+) must be (an? (?:finite number|integer).*?), got nan")


def values_outside(words: str) -> list[float]:
    """Return the values next to a range, outside of it."""
    whole, found = words.startswith("an integer"), [math.nan, math.inf]
    for kind, text in _LIMIT.findall(words):
        end, away = float(text), -math.inf if kind in ("greater than", "at least") else math.inf
        if kind in ("greater than", "less than"):
            found.append(end)
        else:
            found.append(int(end) + (1 if away > 0 else -1) if whole else math.nextafter(end, away))
    return found


@pytest.mark.parametrize("name", EVERY)
def test_the_first_values_outside_of_a_range_are_refused(name: str) -> None:
    model = fitted(name)
    sizes = model.plan_.n_samples, model.plan_.n_features
    given = model.get_params(deep=False)
    variants = [given]
    if name == "SmallDB":
        variants.append({**given, "n_rows": None, "accuracy": 0.5})
    for base in variants:
        for parameter in base.keys() - OF_DATA:
            refused = None
            try:
                type(model)(**{**base, parameter: math.nan}).plan(*sizes)
            except DPStatsError as error:
                refused = _RANGE.match(str(error))
            if refused is None or refused[1] != parameter:
                continue
            # A parameter of a new class: what its error states is where values are refused.
            words = OTHER_RANGES.get((parameter, name)) or RANGES.get(parameter, refused[2])
            assert refused[2] == words, parameter
            for value in values_outside(words):
                with pytest.raises(DPStatsError, match=f"^{parameter} must be {re.escape(words)}, got"):
                    type(model)(**{**base, parameter: value}).plan(*sizes)
