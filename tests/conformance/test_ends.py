"""Rows on every end: of bounds, of parts, of blocks, of what a ratio can be; and columns in every order.

Every test states a property that holds for all rows, and looks at the few rows where it is most easily lost. Examples
are the same in every run and nothing is estimated, so that there are no false alarms.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as settings_of_hypothesis
from hypothesis import strategies as st
from registry import ENTRIES, Entry
from registry.reading import fit_data, settings, width

from dpstats.auditing.sensitivity import Replay, fit_copy
from dpstats.errors import InvalidData
from dpstats.groups import GroupMeans
from dpstats.means import ClippedMean
from dpstats.mechanisms import RandomizedResponse
from dpstats.quantiles import PrivateQuantile, grid
from dpstats.queries import Domain, LinearQueries, WorkloadAnswers
from dpstats.queries import workload as gaussian_release
from dpstats.release.additive import has_private_size
from dpstats.tables import ContingencyTable

FAR = 1e300  # beyond every bound
SETTINGS = settings(ENTRIES)


# Rows at the ends of bounds


def ends_of(estimator: Any) -> np.ndarray:
    """Return the numbers among the parameters, with both signs, and what is far beyond them."""
    found = [0.0, 1.0, FAR]
    for value in estimator.get_params().values():
        if isinstance(value, int | float | list | tuple | np.ndarray) and not isinstance(value, bool):
            numbers = np.asarray(value)
            found += numbers.astype(float).ravel().tolist() if numbers.dtype.kind in "if" else []
    return np.unique([*found, *(-number for number in found)])


def given_to(estimator: Any, rows: np.ndarray) -> Any:
    """Return rows as an estimator takes them, with outcomes that are made of them row by row."""
    found = fit_data(estimator, rows)
    return found if len(found) > 1 else found[0]


@st.composite
def neighbors(draw: st.DrawFn, ends: np.ndarray, d: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Draw a dataset of numbers on ends, with ties, and two others that differ from it in the same row."""
    n, entry = draw(st.sampled_from([2, 3, 5, 8])), st.sampled_from(ends.tolist())
    kinds = draw(st.lists(st.lists(entry, min_size=d, max_size=d), min_size=1, max_size=n))
    rows = np.array([kinds[i % len(kinds)] for i in range(n)])
    place = draw(st.integers(0, n - 1))
    others = [rows.copy(), rows.copy()]
    others[0][place] = -rows[place]
    others[1][place] = draw(st.lists(entry, min_size=d, max_size=d))
    return rows, others


@pytest.mark.kinds
@pytest.mark.parametrize("entry", SETTINGS, ids=lambda entry: entry.name)
def test_a_row_at_an_end_moves_no_release_further_than_its_plan_declares(entry: Entry) -> None:
    estimator, checked = entry.estimator, []

    @settings_of_hypothesis(max_examples=5, derandomize=True, database=None, deadline=None)
    @given(neighbors(ends_of(estimator), width(entry)))
    def moves(drawn: tuple[np.ndarray, list[np.ndarray]]) -> None:
        rows, others = drawn
        if has_private_size(estimator):
            # The row that is replaced is the last, and is removed: units are numbered.
            last = np.argsort(np.any([other != rows for other in others], axis=(0, 2)), kind="stable")
            rows, others = rows[last], [rows[last[:-1]]]
        with contextlib.suppress(InvalidData):  # fewer rows than it takes
            replay = Replay(estimator, fit_copy, given_to(estimator, rows), 0)
            for other in others:
                check = replay.compare_neighbor(given_to(estimator, other), "")
                assert not check.violated, f"{len(rows)} rows: {check}"
                checked.append(len(rows))

    moves()
    assert len(checked) >= 2


# Rows at the ends of parts


@pytest.mark.parametrize("seed", range(6))
def test_every_row_is_in_exactly_one_part_of_a_level(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng, seen = np.random.default_rng(seed), []
    cells = grid.cells

    def kept(places: Any, *more: Any) -> Any:
        seen.append(places.tolist())
        return cells(places, *more)

    monkeypatch.setattr(grid, "cells", kept)
    # On so coarse a grid that chosen points have many rows, which are the ends of parts.
    rows = rng.integers(0, 6, size=40).astype(float)
    fractions = [j / 8 for j in range(1, 8)]
    options = {"bounds": (0, 5), "step": 1.0, "method": "halving", "confidence_level": None}
    PrivateQuantile(q=fractions, epsilon=50.0, random_state=seed, **options).fit(rows[:, None])
    assert len(seen) == 7
    for first, size in ((0, 1), (1, 2), (3, 4)):  # the parts of each level
        assert sorted(itertools.chain(*seen[first : first + size])) == sorted(rows.tolist())


# More queries than a block, and values that floating point rounds


def distance_by_brute_force(rows: np.ndarray) -> int:
    """Return the largest squared distance of two columns, in steps, exactly."""
    steps = (rows * 2**gaussian_release.FRACTION_BITS).astype(np.int64)
    return max(int(((a - b) ** 2).sum()) for a, b in itertools.combinations(steps.T, 2))


@pytest.mark.parametrize("block", [1, 2, 3, 5, 8, 1 << 22])
@pytest.mark.parametrize("counting", [True, False])
def test_the_distance_of_columns_counts_every_query(
    block: int, counting: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gaussian_release, "_BLOCK", 2 * block)
    # Each query in turn is the only one that tells the points apart.
    for j in range(7):
        rows = np.zeros((7, 2))
        rows[j] = [1.0, 0.0] if counting else [0.75, 0.25]
        found = gaussian_release.squared_column_distance(LinearQueries.from_matrix(rows))
        assert distance_by_brute_force(rows) <= found <= distance_by_brute_force(rows) * (1 + 1e-9)


def test_the_distance_of_columns_counts_what_floating_point_rounds() -> None:
    rng, steps = np.random.default_rng(0), 2**gaussian_release.FRACTION_BITS
    for _ in range(4):
        # Squared distances above 2^53 steps, of which floats have only every second, fourth or eighth.
        rows = rng.integers(0, steps, size=(60_000, 2), endpoint=True) / steps
        found = gaussian_release.squared_column_distance(LinearQueries.from_matrix(rows))
        assert found >= distance_by_brute_force(rows)
        # Columns a step apart: their squares cancel, and leave their rounding.
        rows[:, 1] = np.abs(rows[:, 0] - rng.choice([0, 1], size=len(rows)) / steps)
        found = gaussian_release.squared_column_distance(LinearQueries.from_matrix(rows))
        assert found >= distance_by_brute_force(rows)


# Ratios of nothing by nothing


@pytest.mark.parametrize("counts", [(40, 0, 40, 0), (1, 2, 1, 0), (3, 0, 500, 0), (0, 0, 5, 5), (2, 9, 90, 1)])
@pytest.mark.parametrize("measure", ["risk_ratio", "odds_ratio"])
def test_a_ratio_the_other_way_round_is_one_over_it(counts: tuple[int, ...], measure: str) -> None:
    rows = np.repeat(list(itertools.product((0, 1), repeat=2)), counts, axis=0)
    for seed in range(3):
        table = ContingencyTable(levels=[[0, 1]] * 2, epsilon=1.0, random_state=seed).fit(rows)
        ratio = getattr(table, measure)
        for level in (0.5, 0.95):
            one, other = (ratio(groups, 1).confidence_interval(level) for groups in ((0, 1), (1, 0)))
            with np.errstate(divide="ignore"):
                turned = 1 / np.array([other.high, other.low], dtype=float)
            np.testing.assert_allclose([one.low, one.high], turned, rtol=1e-9)


# The first number outside

OUTSIDE: dict[str, tuple[Callable[[Any], Any], int]] = {
    **{
        f"responses, {kind}": (
            lambda value, kind=kind: RandomizedResponse(1.0, 3, random_state=0).randomize(
                np.array([0, value], dtype=kind)
            ),
            3,
        )
        for kind in ("int64", "float32", "object")
    },
    "estimate of responses": (
        lambda value: RandomizedResponse(1.0, 3, random_state=0).estimate(np.array([0, value])),
        3,
    ),
    "levels of a table": (
        lambda value: ContingencyTable(levels=[[0, 1, 2]] * 2, unknown="error", random_state=0).fit([[0, value]] * 9),
        3,
    ),
    "rows of a domain": (
        lambda value: WorkloadAnswers(domain=Domain({"a": 3, "b": 4}), workload=1, random_state=0).fit(
            [[0, value]] * 9
        ),
        4,
    ),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_the_first_number_outside_is_refused_and_the_last_inside_is_not(name: str) -> None:
    ask, first = OUTSIDE[name]
    ask(first - 1)
    for value in (first, -1):
        with pytest.raises(InvalidData):
            ask(value)


# Columns in every order


PAIRS = {"x": (0.0, 1.0), "y": (2.0, 3.0), "z": (4.0, 9.0)}
FORMS: dict[str, Callable[[list[str]], Any]] = {
    "mapping": lambda order: {name: PAIRS[name] for name in order},
    "frame of two rows": lambda order: pd.DataFrame({name: PAIRS[name] for name in order}, index=["low", "high"]),
    "frame of two columns": lambda order: pd.DataFrame(
        [PAIRS[name] for name in order], index=order, columns=["low", "high"]
    ),
}
ORDERS = [list(order) for order in itertools.permutations(PAIRS)]


@pytest.mark.parametrize("form", FORMS)
def test_labeled_bounds_go_by_name_in_every_form_and_order(form: str) -> None:
    rng = np.random.default_rng(0)
    held = {name: rng.uniform(low, high, size=50) for name, (low, high) in PAIRS.items()}
    for columns in ORDERS:
        plain = ClippedMean(bounds=[PAIRS[name] for name in columns], epsilon=1.0, random_state=0)
        wanted = plain.fit(pd.DataFrame({name: held[name] for name in columns}).to_numpy())
        for order in ORDERS:
            made = ClippedMean(bounds=FORMS[form](order), epsilon=1.0, random_state=0)
            for frame in (pd.DataFrame, pl.DataFrame):
                fitted = made.fit(frame({name: held[name] for name in columns}))
                assert list(fitted.feature_names_in_) == columns
                np.testing.assert_array_equal(fitted.mean_, wanted.mean_)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_columns_are_shown_in_the_order_in_which_they_are_asked_for(frame: Callable[[Mapping[str, Any]], Any]) -> None:
    rng = np.random.default_rng(0)
    held = {name: rng.uniform(low, high, size=60) for name, (low, high) in PAIRS.items()}
    table = frame({"label": np.repeat(["a", "b"], 30).tolist(), **held})
    for order in ORDERS:
        asked = [{"bounds": {name: PAIRS[name] for name in order}}]
        asked.append({"bounds": [PAIRS[name] for name in order], "columns": order})
        for options in asked:
            fitted = GroupMeans(by="label", groups=["a", "b"], epsilon=1e6, random_state=0, **options).fit(table)
            assert list(fitted.feature_names_in_) == order
            near = [[np.mean(held[name][part]) for name in order] for part in (slice(30), slice(30, 60))]
            np.testing.assert_allclose(fitted.means_, near, atol=1e-3)


def test_the_share_of_a_part_is_that_of_its_rows() -> None:
    # Shares of parts multiply to the fraction that was asked for.
    for count in (1, 2, 3, 7, 10):
        fractions = tuple(j / (count + 1) for j in range(1, count + 1))
        place: dict[int | None, Fraction] = {}
        for level in grid.levels_of(fractions):
            for node in level:
                low = Fraction(0) if node.lower is None else place[node.lower]
                high = Fraction(1) if node.upper is None else place[node.upper]
                place[node.index] = low + node.share * (high - low)
        assert [place[i] for i in range(count)] == [Fraction(j, count + 1) for j in range(1, count + 1)]
