"""The comparison of means, reduced: the same code, fewer datasets, its strongest facts."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "validation" / "studies"))
import mean_comparison as study

CELL = ("normal", 1000, 50, 1.0, 10.0)
SKEWED = ("exponential", 500, 5, 1.0, 10.0)


@pytest.fixture(scope="module")
def results() -> dict:
    return study.study([CELL], 40, peers=True) | study.study([SKEWED], 60, peers=False)


def test_three_times_better_than_the_printed_algorithm(results: dict) -> None:
    ours, printed = results[CELL]["subgaussian"], results[CELL]["9.2.1"]
    # Five standard errors each: a false alarm below 1e-6.
    assert printed.ratio - 5 * printed.ratio_error > 3 * (ours.ratio + 5 * ours.ratio_error)


def test_near_the_oracle(results: dict) -> None:
    # Measured with many datasets: 0.99 and 0.90. Five standard errors are less than the room to 1.2.
    for tails in ("subgaussian", "symmetric"):
        result = results[CELL][tails]
        assert result.ratio + 5 * result.ratio_error < 1.2


def test_better_than_coinpress_at_its_best(results: dict) -> None:
    ours, theirs = results[CELL]["subgaussian"], results[CELL]["CoinPress"]
    assert theirs.ratio - 5 * theirs.ratio_error > 1.5 * ours.ratio


def test_intervals_cover(results: dict) -> None:
    normal, skewed = results[CELL]["subgaussian"], results[SKEWED]["variance"]
    # Five standard errors about 0.95 to 0.965: bounds on bias and spread make intervals a little too wide.
    assert normal.coverage + 5 * normal.coverage_error > 0.95
    assert normal.coverage - 5 * normal.coverage_error < 0.965
    assert normal.coverage_error < 0.015
    assert skewed.coverage >= 0.94


def test_jobs_do_not_matter_and_tables_are_complete(results: dict) -> None:
    small = study.study([SKEWED], 4, peers=True)
    assert small == study.study([SKEWED], 4, peers=True)
    parts = study.normal_sections(small) | study.dominated_section(small) | study.other_section(small)
    text = study.merge("", parts, "today")
    assert text.count("| exponential | 500 | 5 | 1 | 10 |") == 1
    assert "not run" in text  # OpenDP and diffprivlib


def test_a_part_that_is_run_again_keeps_the_others() -> None:
    page = study.merge("", {"## One": ["a"], "## Two": ["b"]}, "then")
    again = study.merge(page, {"## Two": ["c"], "## Three": ["d"]}, "now")
    assert again.split("\n## ")[1:] == ["One\n\nthen\n\na\n", "Two\n\nnow\n\nc\n", "Three\n\nnow\n\nd\n"]


def test_a_bound_on_the_spread_that_is_too_large_costs_little() -> None:
    found = study.spread_block(("normal", 700, 7, 1.0, 10.0), 12, np.random.default_rng(0))
    errors, inside = found.mean(axis=1)
    assert np.all(errors < 1.4 * errors[0]) and np.all(inside > 0.9)
    (line,) = study.spread_table([("normal", 300, 2, 1.0, 10.0)], 3)[2:]
    assert line.startswith("| 300 | 2 | 1 | 10 | 1.00 ±")


def test_where_noise_dominates_shrinking_is_no_worse_than_no_data() -> None:
    (found,) = study.study([study.DOMINATED[0]], 20, peers=False).values()
    middle = found["middle"].error
    for tails in study.TAILS:
        assert found[tails].error < 1.05 * middle < 0.8 * found[f"{tails}, cut"].error
