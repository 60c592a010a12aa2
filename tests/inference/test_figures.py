"""Forest plots: estimates and intervals are where they are, rows from above, a panel for each column."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.inference.figures import draw_intervals, forest, new_figure, place_bars
from dpstats.inference.results import ConfidenceInterval


@pytest.mark.parametrize("columns", [1, 2, 5])
def test_intervals_are_where_they_are(columns: int) -> None:
    rng = np.random.default_rng(columns)
    values = rng.normal(size=(3, columns))
    interval = ConfidenceInterval(values - 1.0, values + 0.5)
    names = [f"c{j}" for j in range(columns)]
    panels = np.ravel(forest(["first", "second", "third"], names, values, interval, title="Means"))
    figure = panels[0].figure
    shown = [axis for axis in figure.axes if axis.get_visible()]
    assert len(shown) == columns and figure.get_suptitle() == "Means"
    for j, axis in enumerate(shown):
        (points, _, (bars,)) = axis.containers[0]
        assert np.allclose(points.get_xdata(), values[:, j]) and axis.get_xlabel() == f"c{j}"
        # The first row is the uppermost.
        assert points.get_ydata().tolist() == [2, 1, 0]
        for k, segment in enumerate(bars.get_segments()):
            assert np.allclose(segment[:, 0], [values[k, j] - 1.0, values[k, j] + 0.5])
    assert [label.get_text() for label in shown[0].get_yticklabels()] == ["first", "second", "third"]


def test_names_with_dollars_are_names_and_no_formulas() -> None:
    interval = ConfidenceInterval(np.zeros((1, 2)), np.ones((1, 2)))
    panels = forest(["from $1 to $2"], ["$a$ in $", "x_1"], np.full((1, 2), 0.5), interval)
    texts = [panels[0].get_xlabel(), panels[0].get_yticklabels()[0].get_text()]
    assert texts == [r"\$a\$ in \$", r"from \$1 to \$2"]
    panels[0].figure.draw_without_rendering()


def test_infinite_intervals_are_drawn_with_an_arrow_and_unknown_estimates_without_a_marker() -> None:
    # matplotlib draws no bar that is infinite, and none of an estimate that is NaN.
    values, low, high = (np.array([1.0, 5.0, np.nan, np.inf]), [0.0, -np.inf, 2.0, 0.0], [2.0, np.inf, 3.0, np.inf])
    ax = new_figure().subplots()
    draw_intervals(ax, list("abcd"), values, np.array(low), np.array(high), color="green")
    (points, _, (bars,)) = ax.containers[0]
    assert points.get_markevery() == [0, 1]
    ends = np.array([segment[:, 0] for segment in bars.get_segments()])
    assert np.allclose(ends, [[0, 2], [-1.5, 6.5], [2, 3], [0, 6.5]])
    arrows = [(line.get_marker(), line.get_xdata().tolist()) for line in ax.lines if line.get_marker() in "<>"]
    assert arrows == [("<", [-1.5]), (">", [6.5, 6.5])]
    middle, errors, marked = place_bars([np.nan], [-np.inf], [np.inf])
    assert np.isfinite(middle).all() and (errors > 0).all() and marked == []
