"""Every option of every command arrives where it is meant to: at the estimator, the study, the audit, the budget.

An option that a command forgot to pass on would give an answer, only another one than was asked for. So the options
are taken from the parsers themselves: one that is not in the tables here fails the test.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpstats.cli import RELEASES, main
from dpstats.cli.doctor import add_demo, add_simulate
from dpstats.cli.regress import PredictionColumns
from dpstats.cli.release import ReleaseCommand
from dpstats.cli.sql_and_ledgers import add_audit, add_budget
from dpstats.privacy import PrivacyBudget
from tests.cli.commands import parsed

MEAN, SPARSE_MEAN, GROUP_MEANS, PROPORTION, TABLE, SURVIVAL, HISTOGRAM, QUANTILE, BOUNDS, *others = RELEASES
REGRESS, STATISTIC, KS, CONFORMAL, IDENTITY_TEST = others

ADAPTIVE = ["--method", "adaptive", "--bound", "9", "--std", "1"]
FILTERING = ["--mean", "0", "--test", "filtering"]
COV = [[2.0, 0.5], [0.5, 1.0]]

# By the option's name: arguments without it, arguments with it, and what it changes in the estimator's parameters.
# "class" is the estimator's own; two columns.
Changes = dict[str, tuple[list[str], list[str], dict[str, Any]]]
CLIPPED = ["--bounds", "0", "1"]
SPARSE = ["--nonzero", "1", "--clip", "6", "--std", "1"]
LINEAR = ["--outcome", "b", "--bounds", "-4", "4", "b=0,5"]
LOGISTIC = ["--outcome", "b", "--bounds", "-4", "4", "--logistic"]
COUNTS = [*LINEAR, "--counts"]
FUNCTIONAL = [*LINEAR, "--method", "functional"]
SUFFICIENT = [*LINEAR, "--method", "sufficient"]
NAMED = ["--bounds", "a=0,1", "b=0,5", "c=0,7"]
FORMULA = ["--formula", "b ~ a + c", *NAMED]
LABELS = ["--by", "b", "--groups", "x,y", "--bounds", "0", "1"]
ADJUSTED = ["--by", "b", "--groups", "x,y", "--bounds", "a=0,1", "b=0,1", "--adjust", "a"]
DISCOVERED = ["--by", "b", "--groups", "discover", "--bounds", "0", "1"]
OPTIONS: dict[str, tuple[ReleaseCommand, Changes]] = {
    "mean": (
        MEAN,
        {
            "method": (CLIPPED, ADAPTIVE, {"class": "AdaptiveMean"}),
            "bounds": (CLIPPED, ["--bounds", "0", "4"], {"bounds": [0.0, 4.0]}),
            "private_bounds": (CLIPPED, ["--private-bounds"], {"bounds": "private"}),
            "hard": (CLIPPED, [*CLIPPED, "--hard"], {"bounds_are": "hard"}),
            "clipped_share": (CLIPPED, [*CLIPPED, "--clipped-share"], {"clipped_share": True}),
            "bound": (ADAPTIVE, [*ADAPTIVE[:2], "--bound", "7", "--std", "1"], {"bound": 7.0}),
            "std": (CLIPPED, [*CLIPPED, "--std", "3", "--std", "4"], {"std": [3.0, 4.0]}),
            "tails": (ADAPTIVE, [*ADAPTIVE, "--tails", "variance"], {"tails": "variance"}),
            "cov": (ADAPTIVE, [*ADAPTIVE, "--cov", "private"], {"cov": "private"}),
            "std_bound": (
                ADAPTIVE,
                [*ADAPTIVE[:4], "--std", "private", "--std-bound", "5"],
                {"std": "private", "std_bound": 5.0},
            ),
            "epsilon": (CLIPPED, [*CLIPPED, "--epsilon", "0.3"], {"epsilon": 0.3}),
            "delta": (CLIPPED, [*CLIPPED, "--delta", "1e-5"], {"delta": 1e-5}),
            "missing": (CLIPPED, [*CLIPPED, "--missing", "center"], {"missing": "center"}),
            "neighbors": (CLIPPED, [*CLIPPED, "--neighbors", "add_or_remove"], {"neighbors": "add_or_remove"}),
        },
    ),
    "mean, adaptive": (
        MEAN,
        {
            "std": (ADAPTIVE, [*ADAPTIVE[:4], "--std", "3"], {"std": 3.0}),
            "bounds": (
                ADAPTIVE,
                ["--method", "adaptive", "--bounds", "-1", "9", "--std", "1"],
                {"bounds": [-1.0, 9.0], "bound": None},
            ),
            "epsilon": (ADAPTIVE, [*ADAPTIVE, "--epsilon", "0.3"], {"epsilon": 0.3}),
            "delta": (ADAPTIVE, [*ADAPTIVE, "--delta", "1e-5"], {"delta": 1e-5}),
            "missing": (ADAPTIVE, [*ADAPTIVE, "--missing", "center"], {"missing": "center"}),
        },
    ),
    "sparse-mean": (
        SPARSE_MEAN,
        {
            "nonzero": (SPARSE, ["--nonzero", "2", *SPARSE[2:]], {"n_nonzero": 2}),
            "clip": (SPARSE, [*SPARSE[:2], "--clip", "5", *SPARSE[4:]], {"clip": 5.0}),
            "std": (SPARSE, [*SPARSE[:4], "--std", "2"], {"std": 2.0}),
            "std_bound": (
                SPARSE,
                [*SPARSE[:4], "--std", "private", "--std-bound", "5"],
                {"std": "private", "std_bound": 5.0},
            ),
            "max_signal": (SPARSE, [*SPARSE, "--max-signal", "0.5"], {"max_signal": 0.5}),
            "split": (SPARSE, [*SPARSE, "--split"], {"split": True}),
            "epsilon": (SPARSE, [*SPARSE, "--epsilon", "0.3"], {"epsilon": 0.3}),
            "delta": (SPARSE, [*SPARSE, "--delta", "1e-5"], {"delta": 1e-5}),
            "missing": (SPARSE, [*SPARSE, "--missing", "center"], {"missing": "center"}),
        },
    ),
    "regress": (
        REGRESS,
        {
            "outcome": (
                [*LINEAR[:2], *NAMED],
                ["--outcome", "c", *NAMED],
                {"x_bounds": [[0.0, 1.0], [0.0, 5.0]], "y_bounds": [0.0, 7.0]},
            ),
            "bounds": (LINEAR, [*LINEAR[:3], "-1", "2", "b=0,5"], {"x_bounds": [-1.0, 2.0]}),
            "private_bounds": (LINEAR, [*LINEAR[:3], "b=0,5", "--private-bounds"], {"x_bounds": "private"}),
            "formula": (FORMULA, ["--formula", "b ~ c + a", *NAMED], {"x_bounds": [[0.0, 7.0], [0.0, 1.0]]}),
            "missing": (LINEAR, [*LINEAR, "--missing", "drop"], {"missing": "drop"}),
            "levels": (
                FORMULA,
                ["--formula", "b ~ a + c", *NAMED[:3], "--levels", "c=x,y,z"],
                {"x_bounds": [[0.0, 1.0]] * 3},
            ),
            "unknown": (FORMULA, [*FORMULA, "--unknown", "error"], {}),
            "factor": (LINEAR, [*LINEAR, "--factor", "c=x,y"], {"factors": {"c": ["x", "y"]}}),
            "counts": (LINEAR, COUNTS, {"class": "PrivateCountRegression"}),
            "gamma": (LINEAR, [*LINEAR, "--gamma"], {"class": "PrivateGammaRegression"}),
            "logistic": (LINEAR, LOGISTIC, {"class": "PrivateLogisticRegression"}),
            "method": (LINEAR, FUNCTIONAL, {"class": "FunctionalMechanismRegression"}),
            "no_intercept": (LINEAR, [*LINEAR, "--no-intercept"], {"fit_intercept": False}),
            "cov_type": (LINEAR, [*LINEAR, "--cov-type", "nonrobust"], {"cov_type": "nonrobust"}),
            "weights": (LINEAR, [*LINEAR, "d=0,9", "--weights", "d"], {"weights": "d", "weight_bounds": [0.0, 9.0]}),
            "offset": (LINEAR, [*LINEAR, "d=0,9", "--offset", "d"], {"offset": "d", "offset_bounds": [0.0, 9.0]}),
            "exposure": (
                ["--counts", *LINEAR],
                ["--counts", *LINEAR, "d=1,9", "--exposure", "d"],
                {"exposure": "d", "exposure_bounds": [1.0, 9.0]},
            ),
            "epsilon": (LINEAR, [*LINEAR, "--epsilon", "0.3"], {"epsilon": 0.3}),
            "delta": (LINEAR, [*LINEAR, "--delta", "1e-5"], {"delta": 1e-5}),
        },
    ),
    "regress, functional": (
        REGRESS,
        {
            "method": (FUNCTIONAL, SUFFICIENT, {"class": "SufficientStatisticsRegression"}),
            "bounds": (FUNCTIONAL, [*FUNCTIONAL[:5], "b=-1,5", *FUNCTIONAL[6:]], {"y_bounds": [-1.0, 5.0]}),
            "no_intercept": (FUNCTIONAL, [*FUNCTIONAL, "--no-intercept"], {"fit_intercept": False}),
            "epsilon": (FUNCTIONAL, [*FUNCTIONAL, "--epsilon", "0.3"], {"epsilon": 0.3}),
        },
    ),
    "regress, sufficient": (
        REGRESS,
        {
            "no_intercept": (SUFFICIENT, [*SUFFICIENT, "--no-intercept"], {"fit_intercept": False}),
            "epsilon": (SUFFICIENT, [*SUFFICIENT, "--epsilon", "0.3"], {"epsilon": 0.3}),
            "delta": (SUFFICIENT, [*SUFFICIENT, "--delta", "1e-5"], {"delta": 1e-5}),
        },
    ),
    "regress, logistic": (
        REGRESS,
        {
            "bounds": (LOGISTIC, [*LOGISTIC[:3], "-1", "2", "--logistic"], {"x_bounds": [-1.0, 2.0]}),
            "no_intercept": (LOGISTIC, [*LOGISTIC, "--no-intercept"], {"fit_intercept": False}),
            "epsilon": (LOGISTIC, [*LOGISTIC, "--epsilon", "0.3"], {"epsilon": 0.3}),
            "delta": (LOGISTIC, [*LOGISTIC, "--delta", "1e-5"], {"delta": 1e-5}),
        },
    ),
    "regress, counts": (
        REGRESS,
        {
            "bounds": (COUNTS, [*COUNTS[:5], "b=0,9", "--counts"], {"y_bounds": [0.0, 9.0]}),
            "epsilon": (COUNTS, [*COUNTS, "--epsilon", "0.3"], {"epsilon": 0.3}),
            "missing": (COUNTS, [*COUNTS, "--missing", "drop"], {"missing": "drop"}),
        },
    ),
    "group-means": (
        GROUP_MEANS,
        {
            "groups": (LABELS, [*LABELS[:3], 'x,"y,z"', *LABELS[4:]], {"groups": ["x", "y,z"]}),
            "bounds": (LABELS, [*LABELS[:4], "--bounds", "0", "7"], {"bounds": [0.0, 7.0]}),
            "hard": (LABELS, [*LABELS, "--hard"], {"bounds_are": "hard"}),
            "adjust": (ADJUSTED, [*ADJUSTED[:-2], "--adjust", "b"], {"adjust": [1]}),
            "not_randomized": (ADJUSTED, [*ADJUSTED, "--not-randomized"], {"randomized": False}),
            "missing": (LABELS, [*LABELS, "--missing", "drop"], {"missing": "drop"}),
            "neighbors": (LABELS, [*LABELS, "--neighbors", "add_or_remove"], {"neighbors": "add_or_remove"}),
            "epsilon": (LABELS, [*LABELS, "--epsilon", "0.3"], {"epsilon": 0.3}),
            "delta": (LABELS, [*LABELS, "--delta", "1e-5"], {"delta": 1e-5}),
        },
    ),
    "group-means, discovered": (
        GROUP_MEANS,
        {
            "groups": (LABELS, DISCOVERED, {"groups": "discover"}),
            "bounds": (DISCOVERED, [*DISCOVERED[:4], "--bounds", "0", "7"], {"bounds": [0.0, 7.0]}),
            "hard": (DISCOVERED, [*DISCOVERED, "--hard"], {"bounds_are": "hard"}),
            "missing": (DISCOVERED, [*DISCOVERED, "--missing", "drop"], {"missing": "drop"}),
            "epsilon": (DISCOVERED, [*DISCOVERED, "--epsilon", "0.3"], {"epsilon": 0.3}),
            "delta": (DISCOVERED, [*DISCOVERED, "--delta", "1e-5"], {"delta": 1e-5}),
        },
    ),
    "identity-test": (
        IDENTITY_TEST,
        {
            "mean": (["--mean", "0"], ["--mean", "0.5", "1"], {"mean": [0.5, 1.0]}),
            "cov": (["--mean", "0"], ["--mean", "0", "--cov", "cov.csv"], {"cov": COV}),
            "std": (["--mean", "0"], ["--mean", "0", "--std", "2", "3"], {"cov": [4.0, 9.0]}),
            "null": (["--mean", "0"], ["--mean", "0", "--null", "product"], {"null": "product"}),
            "level": (["--mean", "0"], ["--mean", "0", "--level", "0.01"], {"level": 0.01}),
            "test": (["--mean", "0"], FILTERING, {"class": "FilteringTest"}),
            "rho": (
                [*FILTERING[:2], "--test", "row-distance"],
                [*FILTERING[:2], "--test", "row-distance", "--rho", "0.1"],
                {"rho": 0.1, "epsilon": None},
            ),
            "delta": (FILTERING, [*FILTERING, "--delta", "1e-5"], {"delta": 1e-5}),
            "epsilon": (["--mean", "0"], ["--mean", "0", "--epsilon", "0.3"], {"epsilon": 0.3}),
            "missing": (["--mean", "0"], ["--mean", "0", "--missing", "center"], {"missing": "center"}),
        },
    ),
}
COMPARED = ["--by", "g", "--groups", "x,y"]
WORDS = ["--levels", "a=x,y", "--levels", "c=u,v"]
BINS = ["--bins", "0", "1", "4"]
FOUND = ["--categories", "discover", "--delta", "1e-6"]
OPTIONS |= {
    "proportion": (
        PROPORTION,
        {
            "epsilon": ([], ["--epsilon", "0.3"], {"epsilon": 0.3}),
            "delta": ([], ["--delta", "1e-5"], {"delta": 1e-5}),
            "missing": ([], ["--missing", "drop"], {"missing": "drop"}),
            "neighbors": ([], ["--neighbors", "add_or_remove"], {"neighbors": "add_or_remove"}),
        },
    ),
    "table": (
        TABLE,
        {
            "levels": (WORDS, [*WORDS[:3], "c=u,v,w"], {"levels": {"a": ["x", "y"], "c": ["u", "v", "w"]}}),
            "unknown": (WORDS, [*WORDS, "--unknown", "error"], {"unknown": "error"}),
            "neighbors": (WORDS, [*WORDS, "--neighbors", "add_or_remove"], {"neighbors": "add_or_remove"}),
            "epsilon": (WORDS, [*WORDS, "--epsilon", "0.3"], {"epsilon": 0.3}),
            "delta": (WORDS, [*WORDS, "--delta", "1e-5"], {"delta": 1e-5}),
        },
    ),
    "histogram, discovered": (
        HISTOGRAM,
        {
            "categories": (["--categories", "a"], FOUND, {"categories": "discover", "delta": 1e-6}),
            "epsilon": (FOUND, [*FOUND, "--epsilon", "0.3"], {"epsilon": 0.3}),
            "delta": (FOUND, [*FOUND, "--delta", "1e-5"], {"delta": 1e-5}),
        },
    ),
    "histogram": (
        HISTOGRAM,
        {
            "bins": (BINS, ["--bins", "0", "2"], {"bins": [0.0, 2.0]}),
            "categories": (BINS, ["--categories", 'a,"b,c"'], {"categories": ["a", "b,c"], "bins": None}),
            "unknown": (BINS, [*BINS, "--unknown", "error"], {"unknown": "error"}),
            "neighbors": (BINS, [*BINS, "--neighbors", "add_or_remove"], {"neighbors": "add_or_remove"}),
            "epsilon": (BINS, [*BINS, "--epsilon", "0.3"], {"epsilon": 0.3}),
            "delta": (BINS, [*BINS, "--delta", "1e-5"], {"delta": 1e-5}),
        },
    ),
}
TIMES = ["--time", "t", "--event", "e", "--horizon", "9"]
PREDICTED = ["--prediction", "p", "--score-bounds", "9", "--training", "public"]
CLASSED = ["--classes", "a,b", "--probabilities", "p,q", "--training", "public"]
OF_BLOCKS = ["--function", "math:sqrt"]
OPTIONS |= {
    "quantile": (
        QUANTILE,
        {
            "quantile": (CLIPPED, [*CLIPPED, "-q", "0.2", "-q", "0.6"], {"q": [0.2, 0.6]}),
            "bounds": (CLIPPED, ["--bounds", "0", "4"], {"bounds": [0.0, 4.0]}),
            "private_bounds": (CLIPPED, ["--private-bounds"], {"bounds": "private"}),
            "step": (CLIPPED, [*CLIPPED, "--step", "0.5"], {"step": 0.5}),
            "coverage": (CLIPPED, [*CLIPPED, "--coverage", "any"], {"coverage": "any"}),
            "no_intervals": (CLIPPED, [*CLIPPED, "--no-intervals"], {"confidence_level": None}),
            "confidence": (CLIPPED, [*CLIPPED, "--confidence", "0.8"], {"confidence_level": 0.8}),
            "epsilon": (CLIPPED, [*CLIPPED, "--epsilon", "0.3"], {"epsilon": 0.3}),
            "delta": (CLIPPED, [*CLIPPED, "--delta", "1e-5"], {"delta": 1e-5}),
            "missing": (CLIPPED, [*CLIPPED, "--missing", "drop"], {"missing": "drop"}),
        },
    ),
    "bounds": (
        BOUNDS,
        {
            "step": ([], ["--step", "0.5"], {"step": 0.5}),
            "within": ([], ["--within", "0", "inf"], {"within": [0.0, float("inf")]}),
            "for_epsilon": ([], ["--for-epsilon", "0.9"], {"for_epsilon": 0.9}),
            "epsilon": ([], ["--epsilon", "0.3"], {"epsilon": 0.3}),
            "missing": ([], ["--missing", "drop"], {"missing": "drop"}),
        },
    ),
    "survival": (
        SURVIVAL,
        {
            "time": (TIMES, ["--time", "u", *TIMES[2:]], {"time": "u"}),
            "event": (TIMES, [*TIMES[:3], "u", *TIMES[4:]], {"event": "u"}),
            "cause": (TIMES, [*TIMES, "--cause", "2,3", "--cause", "4"], {"causes": [2, 3, 4]}),
            "censored": (TIMES, [*TIMES, "--censored", "lost"], {"censored": "lost", "causes": ["1"]}),
            "horizon": (TIMES, [*TIMES[:5], "7"], {"horizon": 7.0}),
            "bins": (TIMES, [*TIMES, "--bins", "7"], {"bins": 7}),
            "edges": (TIMES, [*TIMES, "--edges", "1,4.5,9"], {"edges": [1.0, 4.5, 9.0]}),
            "by": (TIMES, [*TIMES, "--by", "g", "--groups", 'x,"y,z"'], {"by": "g", "groups": ["x", "y,z"]}),
            "groups": (TIMES, [*TIMES, "--by", "g", "--groups", "x,y"], {"by": "g", "groups": ["x", "y"]}),
            "unit": (TIMES, [*TIMES, "--unit", "u"], {"unit": "u"}),
            "discrete": (TIMES, [*TIMES, "--discrete"], {"discrete": True}),
            "epsilon": (TIMES, [*TIMES, "--epsilon", "0.3"], {"epsilon": 0.3}),
            "delta": (TIMES, [*TIMES, "--delta", "1e-5"], {"delta": 1e-5}),
        },
    ),
    "ks": (
        KS,
        {
            "statistic": (COMPARED, [*COMPARED, "--statistic", "cvm"], {"statistic": "cvm"}),
            "groups": (COMPARED, [*COMPARED[:3], 'x,"y,z"'], {"groups": ["x", "y,z"]}),
            "by": (COMPARED, ["--by", "h", *COMPARED[2:]], {}),
            "unknown": (COMPARED, [*COMPARED, "--unknown", "error"], {"unknown": "error"}),
            "distribution": (
                ["--distribution", "norm"],
                ["--distribution", "t,3"],
                {"distribution": "t", "args": [3.0]},
            ),
            "epsilon": (COMPARED, [*COMPARED, "--epsilon", "0.3"], {"epsilon": 0.3}),
            "missing": (COMPARED, [*COMPARED, "--missing", "drop"], {"missing": "drop"}),
        },
    ),
    "conformal": (
        CONFORMAL,
        {
            "prediction": (PREDICTED, ["--prediction", "q", *PREDICTED[2:]], {}),
            "training": (PREDICTED, [*PREDICTED[:-1], "unprotected"], {"training": "unprotected"}),
            "score_bounds": (PREDICTED, [*PREDICTED[:3], "7", *PREDICTED[4:]], {"score_bounds": 7.0}),
            "upper": (PREDICTED, [*PREDICTED, "--upper", "u"], {"upper_estimator": PredictionColumns((1,))}),
            "scale": (PREDICTED, [*PREDICTED, "--scale", "s"], {"scale_estimator": PredictionColumns((1,))}),
            "y_bounds": (PREDICTED, [*PREDICTED, "--y-bounds", "0", "9"], {"y_bounds": [0.0, 9.0]}),
            "alpha": (PREDICTED, [*PREDICTED, "--alpha", "0.2"], {"alpha": 0.2}),
            "points": (PREDICTED, [*PREDICTED, "--points", "99"], {"n_points": 99}),
            "groups": (PREDICTED, [*PREDICTED, "--by", "g", "--groups", "x,y"], {"by": "g", "groups": ["x", "y"]}),
            "by": (PREDICTED, [*PREDICTED, "--by", "g", "--groups", "x,y"], {"by": "g", "groups": ["x", "y"]}),
            "epsilon": (PREDICTED, [*PREDICTED, "--epsilon", "0.3"], {"epsilon": 0.3}),
            "classes": (
                CLASSED,
                ["--classes", "c,d", *CLASSED[2:]],
                {"estimator": PredictionColumns((0, 1), ("c", "d"))},
            ),
            "probabilities": (CLASSED, [*CLASSED[:3], "r,q", *CLASSED[4:]], {}),
        },
    ),
    "statistic": (
        STATISTIC,
        {
            "function": (OF_BLOCKS, ["--function", "math:exp"], {"function": math.exp}),
            "bounds": (OF_BLOCKS, [*OF_BLOCKS, "--bounds", "0", "4"], {"bounds": [0.0, 4.0]}),
            "outputs": (OF_BLOCKS, [*OF_BLOCKS, "--outputs", "2"], {"n_outputs": 2}),
            "blocks": (OF_BLOCKS, [*OF_BLOCKS, "--blocks", "5"], {"blocks": 5}),
            "parameters": (OF_BLOCKS, [*OF_BLOCKS, "--parameters", "3"], {"parameters": 3}),
            "skewness": (OF_BLOCKS, [*OF_BLOCKS, "--skewness", "2"], {"skewness": 2.0}),
            "remainder": (OF_BLOCKS, [*OF_BLOCKS, "--remainder", "0.2"], {"remainder": 0.2}),
            "bias": (OF_BLOCKS, [*OF_BLOCKS, "--bias", "none"], {"bias": None}),
            "resolution": (OF_BLOCKS, [*OF_BLOCKS, "--resolution", "0.5"], {"resolution": 0.5}),
            "link": (OF_BLOCKS, [*OF_BLOCKS, "--link", "log"], {"link": "log"}),
            "unit": (OF_BLOCKS, [*OF_BLOCKS, "--unit", "u"], {"unit": "u"}),
            "missing": (OF_BLOCKS, [*OF_BLOCKS, "--missing", "drop"], {"missing": "drop"}),
            "time_limit": (OF_BLOCKS, [*OF_BLOCKS, "--time-limit", "9"], {"time_limit": 9.0}),
            "jobs": (OF_BLOCKS, [*OF_BLOCKS, "--jobs", "2"], {"n_jobs": 2}),
            "epsilon": (OF_BLOCKS, [*OF_BLOCKS, "--epsilon", "0.3"], {"epsilon": 0.3}),
            "delta": (OF_BLOCKS, [*OF_BLOCKS, "--delta", "1e-5"], {"delta": 1e-5}),
        },
    ),
}
REQUIRED = {"regress": LINEAR}
CASES = [(name, option) for name, (_, changes) in OPTIONS.items() for option in changes]
# What all commands that release have besides, and what a plan has in place of a file.
OF_TABLES = {"file", "pattern", "sep", "encoding", "na_values"}
OF_RELEASES = {*OF_TABLES, "column", "confidence", "seed", "budget", "label", "once", "json", "quiet"}
OF_PLANS = {"rows", "columns", "budget", "json", "quiet"}


def options_of(namespace: argparse.Namespace) -> dict[str, Any]:
    """Return the options by name, without the words and functions that say which command it is."""
    words = {"command", "planned", "action"}
    return {key: value for key, value in vars(namespace).items() if key not in words and not callable(value)}


def counts(command: ReleaseCommand) -> bool:
    """Return whether a command counts: its other options say how many columns it has."""
    return command.name in ("proportion", "table", "histogram")


def parameters(command: ReleaseCommand, arguments: list[str]) -> dict[str, Any]:
    """Return the parameters of the estimator that a command builds, and its class."""
    sizes = ["--rows", "50"] if counts(command) else ["--rows", "50", "--columns", "2"]
    options = parsed(command, ["plan", command.name, *sizes, *arguments])
    estimator = command.build(options, 50, command.width(options) or 2)
    return estimator.get_params() | {"class": type(estimator).__name__}


def plain(value: Any) -> Any:
    return np.asarray(value).tolist() if isinstance(value, np.ndarray | tuple | list) else value


@pytest.mark.parametrize(("name", "option"), CASES, ids=lambda word: word)
def test_options_reach_the_estimator(name: str, option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cov.csv").write_text("2,0.5\n0.5,1\n")
    command, changes = OPTIONS[name]
    without, given, expected = changes[option]
    before, after = parameters(command, without), parameters(command, given)
    assert {key: plain(after[key]) for key in expected} == expected
    assert all(plain(before[key]) != plain(after[key]) for key in expected)
    # And nothing else is moved by it, but the class, which has parameters of its own.
    if "class" not in expected:
        moved = {key for key in after if plain(before.get(key)) != plain(after[key])}
        assert moved == set(expected)


@pytest.mark.parametrize(
    "name",
    [
        "mean",
        "sparse-mean",
        "proportion",
        "table",
        "histogram",
        "regress",
        "identity-test",
        "quantile",
        "bounds",
        "survival",
        "statistic",
        "ks",
        "conformal",
    ],
)
def test_the_tables_have_every_option(name: str) -> None:
    command, changes = OPTIONS[name]
    required = REQUIRED.get(name, next(iter(changes.values()))[0])
    column = ["--column", "a"]
    released = options_of(parsed(command, [name, "x.csv", *column, *required])).keys()
    sizes = ["--rows", "9", "--columns", "2"]
    planned = options_of(parsed(command, ["plan", name, *sizes, *required])).keys()
    drawn = {"plot"} if command.picture else set()
    unit = ({"unit"} if command.unit else set()) - changes.keys()  # test_units.py
    more = {"outcome"} if name == "statistic" else set()  # test_statistic.py
    answers = {"test", "alternative"} if command.answers else set()  # test_mean.py
    usual = OF_RELEASES - (set() if command.intervals else {"confidence"})
    assert released - changes.keys() == usual | answers | drawn | unit | more
    assert planned - changes.keys() == OF_PLANS | unit | more
    assert changes.keys() < released


def test_the_table_of_groups_has_every_option() -> None:
    # The others are in test_group_means.py: what is asked of a release that was made.
    command, changes = OPTIONS["group-means"]
    released = options_of(parsed(command, ["group-means", "x.csv", "--column", "a", *LABELS])).keys()
    assert released - changes.keys() == OF_RELEASES | {"by", "unit", "anova", "pairwise", "plot"}


@pytest.mark.parametrize("name", ["mean", "sparse-mean", "regress", "identity-test"])
def test_options_of_every_release_arrive(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command, changes = OPTIONS[name]
    rows = np.random.default_rng(0).normal(size=(60, 3))
    table, ledger, target = tmp_path / "x.csv", tmp_path / "b.db", tmp_path / "out.json"
    np.savetxt(table, rows, delimiter=",", header="a,b,c", comments="")
    PrivacyBudget(epsilon=9.0, delta=1e-3, ledger=ledger)
    built: list[Any] = []

    def build(*given: Any) -> Any:
        built.append(command.build(*given))
        return built[-1]

    extra = ["--split"] if name == "sparse-mean" else ["--test", "spatial-sign"] if name == "identity-test" else []
    level = ["--confidence", "0.8"] if command.intervals else []
    required = REQUIRED.get(name, next(iter(changes.values()))[0])
    common = [name, str(table), "--column", "c", "--column", "a", *required, *extra, *level]
    spied = copy(command)
    spied.build = build  # type: ignore[method-assign]

    def run(*more: str) -> dict[str, Any]:
        options = parsed(spied, [*common, *more, "--json", str(target)])
        options.run(options)
        return json.loads(target.read_text())

    simulated = run("--seed", "7")
    assert built[-1].random_state == 7 and simulated["privacy"]["simulated"]
    assert list(built[-1].feature_names_in_) == ["c", "a"] and simulated["n_features"] == 2
    assert simulated.get("confidence_level") == (0.8 if command.intervals else None)
    if command.intervals:
        ends = [list(limits(found)) for found in (simulated, run("--seed", "7", "--confidence", "0.5"))]
        bare = {"Infinity", "-Infinity"}
        assert len(ends[0]) == len(ends[1]) and (ends[0] != ends[1] or bare.issuperset(ends[0]))
    paid = run("--budget", str(ledger))
    assert not paid["privacy"]["simulated"] and len(PrivacyBudget.open(ledger).history()) == 1
    assert capsys.readouterr().out


def limits(found: Any) -> Iterator[Any]:
    """Yield all limits of intervals in the JSON of a command."""
    if isinstance(found, list):
        for item in found:
            yield from limits(item)
    elif isinstance(found, dict):
        for key, item in found.items():
            if key.endswith(("low", "high")) and not isinstance(item, dict):
                yield item
            else:
                yield from limits(item)


class Called(Exception):
    """Raised by a spy, when it knows what it was asked for."""


def run_spied(add: Any, arguments: list[str]) -> dict[str, Any]:
    """Run a command that must end at a spy; return its options by name."""
    parser = argparse.ArgumentParser()
    add(parser.add_subparsers(dest="command"))
    options = parser.parse_args(arguments)
    with pytest.raises(Called):
        options.run(options)
    return options_of(options)


def spy(seen: dict[str, Any]) -> Any:
    def called(*arguments: Any, **named: Any) -> Any:
        seen.update(named, arguments=arguments)
        raise Called

    return called


@pytest.mark.parametrize("name", ["proportion", "table", "histogram"])
def test_options_of_counts_arrive(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command, changes = OPTIONS[name]
    table, ledger = tmp_path / "x.csv", tmp_path / "b.db"
    target, picture = tmp_path / "out.json", tmp_path / "p.png"
    table.write_text("a,b,c\n" + "x,1,u\ny,0,v\n" * 30)
    PrivacyBudget(epsilon=9.0, delta=1e-3, ledger=ledger)
    required = next(iter(changes.values()))[0]
    common = [name, str(table), *([] if name == "table" else ["--column", "b"]), *required, "--confidence", "0.8"]

    def run(*more: str) -> dict[str, Any]:
        options = parsed(command, [*common, *more, "--json", str(target)])
        options.run(options)
        return json.loads(target.read_text())

    simulated = run("--seed", "7")
    assert simulated["privacy"]["simulated"] and simulated["confidence_level"] == 0.8
    assert run("--seed", "7") == simulated != run("--seed", "8")
    paid = run("--budget", str(ledger), "--plot", str(picture))
    assert not paid["privacy"]["simulated"] and len(PrivacyBudget.open(ledger).history()) == 1
    assert picture.stat().st_size > 5000 and capsys.readouterr().out


def test_options_of_audits_arrive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs, seen = tmp_path / "runs.csv", {}
    runs.write_text("a,b\n" + "1,2\n" * 8)
    monkeypatch.setattr("dpstats.auditing.audit_outputs", spy(seen))
    claim = ["--epsilon", "0.7", "--delta", "1e-3", "--confidence", "0.8"]
    files = ["--plot", str(tmp_path / "p.png"), "--json", str(tmp_path / "out.json")]
    options = run_spied(add_audit, ["audit", str(runs), *claim, "--column", "b", "--column", "a", *files])
    assert options.keys() == {*OF_TABLES, "epsilon", "delta", "confidence", "column", "plot", "json", "quiet"}
    assert (seen["epsilon"], seen["delta"], seen["confidence"]) == (0.7, 1e-3, 0.8)
    assert [values.tolist() for values in seen["arguments"]] == [[2] * 8, [1] * 8]


def test_options_of_studies_arrive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    # Found on the class, the spy is given the study first.
    monkeypatch.setattr("dpstats.simulation.study.Study.run", lambda study, *a, **k: spy(seen)(study, *a, **k))
    rows, page, target = (tmp_path / name for name in ("rows.db", "page.html", "out.json"))
    arguments = ["simulate", "mean-rate", "--grid", '{"n": [50], "d": [3]}', "--reps", "4", "--jobs", "2"]
    arguments += ["--out", str(rows), "--retry-failed", "--seed", "7", "--report", str(page)]
    options = run_spied(add_simulate, [*arguments, "--json", str(target)])
    names = {"name", "grid", "reps", "jobs", "out", "retry_failed", "seed", "report", "json", "quiet"}
    assert options.keys() == names
    study, path = seen["arguments"]
    assert (study.name, study.replications, study.seed, path) == ("mean-rate", 4, 7, rows)
    assert [(cell["n"], cell["d"]) for cell in study.cells] == [(50, 3)]
    assert seen["n_jobs"] == 2 and seen["retry_failed"]


def test_options_of_budgets_arrive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    monkeypatch.setattr("dpstats.privacy.PrivacyBudget", spy(seen))
    arguments = ["budget", "new", str(tmp_path / "b.db"), "--epsilon", "2", "--delta", "1e-5"]
    arguments += ["--method", "zcdp", "--neighbors", "ADD_OR_REMOVE_ONE", "--unit", "patient"]
    options = run_spied(add_budget, arguments)
    assert options.keys() == {"ledger", "epsilon", "delta", "method", "neighbors", "unit", "json", "quiet"}
    assert seen["unit"] == "patient"
    assert seen["arguments"] == (2.0, 1e-5) and seen["method"] == "zcdp"
    assert seen["neighbors"].name == "ADD_OR_REMOVE_ONE" and seen["ledger"] == tmp_path / "b.db"


def test_options_of_the_demonstration_arrive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}
    monkeypatch.setattr("dpstats.cli.doctor.run", spy(seen))
    assert run_spied(add_demo, ["demo", "--out", str(tmp_path / "d")]).keys() == {"out", "quiet"}
    assert seen["arguments"] == (tmp_path / "d",)


PICTURED = {
    "group-means": ["--column", "x", "--by", "g", "--groups", "a,b,c", "--bounds", "0", "9"],
    "quantile": ["--column", "x", "--quantile", "0.5", "--bounds", "0", "9"],
    "histogram": ["--column", "x", "--bins", *map(str, range(10))],
    "table": ["--levels", "g=a,b,c", "--levels", "h=u,v"],
    "survival": ["--time", "x", "--event", "e", "--horizon", "8", "--bins", "4"],
}


@pytest.mark.parametrize("name", PICTURED)
def test_a_picture_has_the_level_that_was_asked(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"x": rng.uniform(0, 9, 400), "g": rng.choice([*"abc"], 400), "h": rng.choice([*"uv"], 400), "e": 1}
    )
    table.to_csv(tmp_path / "t.csv", index=False)
    drawn = []
    for level in ("0.5", "0.99", "0.5"):
        picture = tmp_path / f"{len(drawn)}.png"
        files = [str(tmp_path / "t.csv"), "--plot", str(picture), "--quiet"]
        assert main([name, *files, *PICTURED[name], "--seed", "1", "--confidence", level]) == 0
        drawn.append(picture.read_bytes())
    assert drawn[0] == drawn[2] != drawn[1]
