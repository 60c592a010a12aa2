"""What pages are made of: the pages that one lists, the limits of classes, and the verdicts on random cells."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

CONTENTS = "<!-- contents -->"
ENOUGH = 20
FAMILIES = {
    "regressions": (
        "PrivateLinearRegression",
        "PrivateLogisticRegression",
        "PrivateCountRegression",
        "PrivateGammaRegression",
        "SufficientStatisticsRegression",
    ),
    "group means": ("GroupMeans",),
    "survival": ("PrivateSurvival",),
    "statistics": ("PrivateStatistic",),
    "means": ("ClippedMean", "AdaptiveMean", "SparseMean"),
    "variances": ("PrivateVariance",),
    "units": ("MeanPerRow",),
    "private bounds": ("PrivateBounds",),
    "quantiles": ("PrivateQuantile", "PrivateDistribution", "PrivateMedian"),
    "group quantiles": ("GroupQuantiles",),
    "Table 1": ("CohortTable",),
    "conformal": ("PrivateConformalRegressor", "PrivateConformalClassifier"),
    "proportions": ("PrivateProportion",),
    "tables": ("ContingencyTable",),
    "counts": ("Histogram", "RandomizedResponse"),
    "ranks": ("MannWhitneyTest", "KruskalWallisTest", "SignedRankTest"),
    "distribution tests": ("KolmogorovSmirnovTest", "GoodnessOfFitTest"),
    "identity": ("RowDistanceTest", "SpatialSignTest", "LipschitzExtensionTest", "FilteringTest"),
    "covariances": ("PrivateCovariance",),
    "correlations": ("PrivateCorrelation",),
    "components": ("PrivatePCA",),
    "Hotelling": ("HotellingTest",),
    "workloads": ("WorkloadAnswers", "MarginalMWEM"),
    "SQL": ("PrivateSQL",),
    "streams": ("ContinualCounts", "ContinualMeans"),
}
"""Classes of the families of the net (tests/outside/statements/net.py)."""
_LIMITS = re.compile(r"^\*\*Limits\.\*\* (.*?)(?=\n\n|\n\w[\w ]*\n-{3}|\Z)", re.MULTILINE | re.DOTALL)


class Limits(NamedTuple):
    """The limits of a class; empty if its docstring states none."""

    package: str
    name: str
    words: str


def list_limits(packages: Iterable[str]) -> list[Limits]:
    """Return the limits of every public class that makes releases, in the order of the reference."""
    found = []
    for package in packages:
        module = importlib.import_module(package)
        for name in module.__all__:
            if is_release(getattr(module, name)):
                stated = _LIMITS.search(inspect.getdoc(getattr(module, name)) or "")
                words = " ".join(stated[1].split()).replace("``", "`") if stated else ""
                found.append(Limits(package, name, words))
    return found


def is_release(thing: Any) -> bool:
    """Return whether a public name is a class that spends epsilon on answers."""
    answers = any(hasattr(thing, method) for method in ("plan", "query"))
    return inspect.isclass(thing) and answers and "epsilon" in inspect.signature(thing).parameters


def read_cells(page: str) -> dict[str, str]:
    """Return the verdicts on random cells by class, such as "5 good, 1 named".

    A page has the tables of several runs, by class or by family. The last one with `ENOUGH` cells counts, or the last
    one that has the class.
    """
    kinds, found, most = list[str](), dict[str, str](), dict[str, int]()
    for line in page.splitlines():
        if re.match(r" +cells +good\b", line):
            kinds = re.findall(r"as others|\w+", line)[1:]
        place = len(line.split()) - len(kinds) - 1
        # "survival, 40 of 591202": the cells of a seed.
        name = re.sub(r", \d+ of .*", "", " ".join(line.split()[:place]))
        counts = [cell.replace(",", "") for cell in line.split()[place:]]
        if kinds and place > 0 and all(count.isdecimal() for count in counts):
            cells, *each = map(int, counts)
            verdicts = [f"{count} {kind}" for count, kind in zip(each, kinds, strict=True) if count]
            for stated in FAMILIES.get(name, (name,)):
                if cells >= min(ENOUGH, most.get(stated, 0)):
                    found[stated], most[stated] = ", ".join(verdicts), cells
    return found


def list_contents(text: str) -> list[str]:
    """Return the pages that a page of contents links, without their suffix, in order."""
    linked = re.findall(r"\]\(([\w./-]+)\.md\)", text) if CONTENTS in text else []
    return list(dict.fromkeys(linked))
