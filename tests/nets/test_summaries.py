"""Summaries print the numbers that frames have: each under the head of its column, in the row of its name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.nets.test_one_way_out import FITTED, NO_INTERVALS, ONE_LEVEL, TESTS, fitted

HEADS = {
    "low": ("low", "[0.025", "LCL"),
    "high": ("high]", "0.975]", "UCL"),
    "std_error": ("std err",),
    "noise_std": ("noise sd",),
    "pvalue": ("P>|z|", "p-value"),
    "threshold": ("critical value",),
    "statistic": ("statistic",),
    "difference": ("O - E",),
    "observed": ("observed",),
    "expected": ("expected",),
    "n": ("N",),
}
OTHERWISE = {
    "SparseMean": "its table has the means of the columns, and intervals of those that were chosen",
    "MarginalMWEM": "its table has the measured tables, and the frame has answers",
    "PrivateSurvival": "its table has medians and restricted means, and the frame has curves",
}


def is_printed(cell: str, number: float) -> bool:
    """Return whether a cell is a number, rounded to the digits that are shown."""
    shown = cell.replace(",", "").replace("<", "")
    digits, _, power = shown.partition("e")
    unit = 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
    return abs(float(shown) - number) <= 0.501 * unit or shown == f"{number:.4g}"


def check(summary: Any, frame: Any, least: int) -> None:
    """Compare a table with a frame, the last rows of both with each other."""
    found = 0
    rows = list(summary.rows)[len(summary.rows) - len(frame) :]
    for column, words in HEADS.items():
        places = [
            i for i, head in enumerate(summary.columns) if any(head.endswith(w) or head.startswith(w) for w in words)
        ]
        if column in frame and places:
            for row, number in zip(rows, frame[column], strict=True):
                if np.isfinite(number):
                    assert is_printed(row[places[0]], number), (column, row, number)
            found += 1
    if "estimate" in frame and "low" in frame:
        place = 1 + (summary.columns[1] == "rows")
        for row, number in zip(rows, frame["estimate"], strict=True):
            assert is_printed(row[place], number), (row, number)
        found += 1
    assert found >= least, summary.columns


@pytest.mark.parametrize("name", [name for name in FITTED if name not in OTHERWISE])
def test_a_table_of_estimates_prints_its_frame(name: str) -> None:
    check(fitted(name).summary(), fitted(name).to_frame(), 3)
    found = fitted(name).estimates()
    check(found.summary(), found.to_frame(), 3)


@pytest.mark.parametrize("name", [name for name in FITTED if name not in NO_INTERVALS])
def test_a_table_of_intervals_prints_six_digits_of_their_ends(name: str) -> None:
    found = fitted(name).confidence_interval()
    ends = np.column_stack([np.ravel(found.low), np.ravel(found.high)])
    printed = [[float(cell) for cell in row[1:]] for row in found.summary().rows]
    np.testing.assert_allclose(printed, ends[: len(printed)], rtol=1e-5)


@pytest.mark.parametrize("name", [name for name in FITTED if name not in {*ONE_LEVEL, *NO_INTERVALS}])
def test_a_table_of_pvalues_says_whether_they_are_adjusted(name: str) -> None:
    found = fitted(name).estimates()
    for together in (False, True):
        tested = found.test(found.distribution.start, simultaneous=together)
        said = " ".join(str(tested.summary()).split())
        assert ("not adjusted for several" in said) is (not together) or tested.joint
        assert ("adjusted for all tests together" in said) is together or tested.joint


def test_a_table_of_a_test_prints_its_frame() -> None:
    # One test of all: they share their heads.
    for name in [*TESTS, "LogRankTest"]:
        check(fitted(name).summary(), fitted(name).to_frame(), 3)


def test_tables_of_survival_print_their_frames() -> None:
    model = fitted("PrivateSurvival")
    for found in (
        *(ask(group) for group in (0, 1, 2) for ask in (model.median, lambda group: model.rmst(group=group))),
        model.rmst_difference(0, 1),
        model.difference(0, 2, 2.0),
    ):
        check(found.summary(), found.to_frame(), 2)


def test_every_summary_of_a_simulated_release_says_so() -> None:
    groups, table, survival = (fitted(name) for name in ("GroupMeans", "ContingencyTable", "PrivateSurvival"))
    line = fitted("PrivateLinearRegression")
    results = [
        *(fitted(name) for name in FITTED),
        *(fitted(name).estimates() for name in FITTED),
        *(fitted(name).result_ for name in TESTS),
        groups.anova(99),
        groups.pairwise(),
        groups.difference(0, 1),
        table.independence(n_simulations=99),
        table.goodness_of_fit(np.full((3, 2), 1 / 6), n_simulations=99),
        table.odds_ratio(groups=(0, 1)),
        survival.median(0),
        survival.log_rank(),
        line.f_test(),
        fitted("ClippedMean").test(0.1),
    ]
    for result in results:
        assert "not a private release" in " ".join(str(result.summary()).split()), type(result).__name__
