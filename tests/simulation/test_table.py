"""The table of results: rows, selections, derived parameters."""

from __future__ import annotations

import pytest

from dpstats.errors import InvalidParameter
from dpstats.simulation import (
    Rademacher,
    Study,
)
from tests.simulation.rows import ESTIMATOR, GRID


def test_tables() -> None:
    pandas = pytest.importorskip("pandas")
    results = Study(Rademacher(), ESTIMATOR, GRID, 20, name="a <study>").run()
    frame = results.to_pandas()
    assert isinstance(frame, pandas.DataFrame) and frame["n"].tolist() == [20, 20, 200, 200]
    assert results.as_records()[0]["n"] == 20 and "a &lt;study&gt;" in results._repr_html_()
    derived = results.derive("x", lambda cell: cell["n"] * 2, instead_of="n")
    assert derived.parameter("x").tolist() == [40, 40, 400, 400] and "n" not in derived.cells[0].parameters
    assert len(results.where(lambda cell: cell["d"] == 3).cells) == 2
    with pytest.raises(InvalidParameter, match="parameter must be one of n, d, epsilon, got 'm'"):
        results.parameter("m")
    with pytest.raises(InvalidParameter, match="loss must be one of squared_error, got 'risk'"):
        results.mean("risk")
