"""Parameters of estimators share one vocabulary: the glossary has the names of all that a user declares."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import dpstats
from dpstats.errors import BudgetExceeded
from dpstats.groups import GroupMeans
from dpstats.means import ClippedMean
from dpstats.privacy import PrivacyBudget
from dpstats.release.estimator import PrivateEstimator
from dpstats.release.mechanism import Mechanism

GLOSSARY = Path(__file__).resolve().parents[1] / "docs" / "glossary.md"
DECLARING = re.compile(
    r"bound|clip|level|label|class|categor|group|range|lower|upper|domain|horizon|cause|missing|unit"
)
"""Parts of names of ranges, labels and policies."""


def declared() -> set[str]:
    """Return the names in the first column of the glossary's table of parameters."""
    text = GLOSSARY.read_text(encoding="utf-8").partition("## Names of parameters")[2].partition("\n## ")[0]
    return {
        name
        for line in text.splitlines()
        for name in re.findall(r"`(\w+)`", line.split("|")[1] if line.startswith("|") else "")
    }


def released() -> dict[str, Any]:
    """Return every public class that releases, by its name."""
    found = {}
    for package in dpstats._SUBPACKAGES:
        module = importlib.import_module(f"dpstats.{package}")
        for name in getattr(module, "__all__", []):
            kind = getattr(module, name)
            if inspect.isclass(kind) and issubclass(kind, PrivateEstimator | Mechanism):
                found[name] = kind
    return found


def test_names_of_ranges_labels_and_policies_are_in_the_glossary() -> None:
    used = {name for kind in released().values() for name in inspect.signature(kind).parameters}
    assert {name for name in used if DECLARING.search(name)} <= declared()
    assert declared() <= used, "the glossary names a parameter that no estimator has"


def test_defaults_of_shared_parameters_are_the_same() -> None:
    defaults: dict[str, set[Any]] = {}
    for kind in released().values():
        for name, parameter in inspect.signature(kind).parameters.items():
            if name in ("delta", "random_state", "budget", "missing") and parameter.default is not parameter.empty:
                defaults.setdefault(name, set()).add(parameter.default)
    assert defaults == {"delta": {0.0, 1e-6}, "random_state": {None}, "budget": {None}, "missing": {"error"}}


@pytest.mark.parametrize("spent", [0.0, 1e-6])
def test_a_budget_that_lacks_delta_names_the_parameter(spent: float) -> None:
    budget = PrivacyBudget(3.0, spent)
    rows = [[0.5] * 60] * 50  # so many columns have Gaussian noise, which delta is for
    if spent:
        ClippedMean(clip=1.0, delta=spent, budget=budget).fit(rows)
    with pytest.raises(BudgetExceeded, match="Too little delta remains: set delta=0, or a smaller delta"):
        GroupMeans(groups=[0], bounds=(0, 1), budget=budget).fit(rows, [0] * 50)
    with pytest.raises(BudgetExceeded) as refusal:
        ClippedMean(clip=1.0, epsilon=9.0, budget=budget).fit(rows)
    assert "Too little delta" not in str(refusal.value)


POSITIVE = {
    "AdaptiveMean",
    "ContinualCounts",
    "ContinualMeans",
    "FilteringTest",
    "GroupMeans",
    "HotellingTest",
    "MarginalMWEM",
    "MeanPerRow",
    "PrivateCorrelation",
    "PrivateCountRegression",
    "PrivateCovariance",
    "PrivateGammaRegression",
    "PrivateLinearRegression",
    "PrivateLogisticRegression",
    "PrivateMedian",
    "PrivatePCA",
    "SparseMean",
    "SufficientStatisticsRegression",
    "WorkloadAnswers",
}
"""Releases with delta = 1e-6 by default: pure privacy costs them accuracy, or they cannot have it."""


def test_delta_is_zero_by_default_where_that_costs_little_and_docstrings_say_what_it_does() -> None:
    found = {}
    for name, kind in released().items():
        parameter = inspect.signature(kind).parameters.get("delta")
        if parameter is None or parameter.default is parameter.empty:
            continue
        found[name] = parameter.default
        described = re.search(r"^ *delta : float, default=(\S+)\n((?: {8}.*\n)+)", kind.__doc__ or "", re.MULTILINE)
        if described is not None:
            default, meaning = described.groups()
            assert float(default) == parameter.default, name
            assert parameter.default or re.search(r"(?i)\b0\b|zero|positive|pure", meaning), name
    assert {name for name, default in found.items() if default} == POSITIVE
    assert set(found.values()) == {0.0, 1e-6}
    text = GLOSSARY.read_text(encoding="utf-8")
    assert "`delta` is 0 by default where pure differential privacy costs little accuracy, and 1e-6 elsewhere" in text
