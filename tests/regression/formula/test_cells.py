"""Cells of a formula's factors: their columns are those of the design, row by row."""

import numpy as np
import pandas as pd
import pytest

from dpstats.data.schema import Categories
from dpstats.errors import InvalidParameter
from dpstats.regression.formula import parse

LEVELS = {"a": ["u", "v", "w"], "k": [1, 2]}
BOUNDS = {"x": (-2, 2), "y": (0, 1), "z": (0, 1)}
rng = np.random.default_rng(0)
ROWS = pd.DataFrame({name: rng.uniform(*ends, 200) for name, ends in BOUNDS.items()}).assign(
    a=rng.choice(LEVELS["a"], 200), k=rng.choice(LEVELS["k"], 200)
)


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ x + a",
        "y ~ a*C(k) + x*z",
        "y ~ a:k + bs(x, knots=[0])",
        "y ~ I(x > 0.5) + C(a, contr.treatment('v')) + z",
        "y ~ C(k) + I(x**2) + I((x > 0) & (z > 0.5)):a",
    ],
)
def test_cells_have_the_columns_of_their_rows(formula: str) -> None:
    parsed = parse(formula, bounds=BOUNDS, levels=LEVELS)
    cells = parsed.find_cells(16)
    assert cells is not None
    X, y = parsed.rows(ROWS)
    numbers, response, codes = parsed.split_rows(cells, ROWS)
    assert y is not None and response is not None
    assert (numbers == X[:, ~cells.is_factor]).all() and (response == y).all()
    assert (cells.columns[codes] == X[:, cells.is_factor]).all()
    assert len(cells.columns) == np.prod([len(levels) for levels in cells.factors.values()])


@pytest.mark.parametrize("formula", ["y ~ a", "y ~ x + z", "y ~ x*a", "y ~ x:a + z"])
def test_other_designs_have_no_cells(formula: str) -> None:
    assert parse(formula, bounds=BOUNDS, levels=LEVELS).find_cells(16) is None


def test_too_many_cells_are_none() -> None:
    parsed = parse("y ~ x + a + k", bounds=BOUNDS, levels=LEVELS)
    assert parsed.find_cells(6) is not None and parsed.find_cells(5) is None


def test_a_missing_category_has_no_cell() -> None:
    parsed = parse("y ~ x + a + I(z > 0.5)", bounds=BOUNDS, levels=LEVELS)
    cells = parsed.find_cells(16)
    assert cells is not None and list(cells.factors) == ["a", "z > 0.5"]
    rows = pd.DataFrame({"x": [0, 1, 1], "y": 0.5, "z": [0.1, 0.9, np.nan], "a": ["w", None, "u"]})
    assert parsed.split_rows(cells, rows)[2].tolist() == [4, -1, -1]


def test_declared_fractions_say_how_rare_levels_are() -> None:
    levels = {"a": {"u": 0.5, "v": 0.47, "w": 0.03}, "k": [1, 2]}
    parsed = parse("y ~ x + a + k", bounds=BOUNDS, levels=levels)
    assert parsed.names == parse("y ~ x + a + k", bounds=BOUNDS, levels=LEVELS).names
    cells = parsed.find_cells(16)
    assert cells is not None and isinstance(cells.factors["a"], Categories)
    assert parsed.smallest_share(["a"], 0.01) == 0.03
    assert parsed.smallest_share(["a", "k"], 0.01) == 0.01
    for shares in ({"u": 0.9, "v": 0.2, "w": 0.1}, {"u": 0.0, "v": 0.5}, {"u": "much", "v": 0.5}):
        with pytest.raises(InvalidParameter, match="levels"):
            parse("y ~ x + a", bounds=BOUNDS, levels={"a": shares})
