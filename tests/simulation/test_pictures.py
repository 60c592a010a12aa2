"""Pictures of studies."""

from __future__ import annotations

import pytest

from dpstats.errors import InvalidParameter
from dpstats.inference.figures import new_figure
from dpstats.means import ClippedMean
from dpstats.simulation import Rademacher, Study, crossing_point, fit_rate
from dpstats.simulation.study_report import crossover, named_study, plot_crossing, plot_power, plot_risk


def test_pictures(results) -> None:
    terms = {"sampling": lambda cell: cell["d"] / cell["n"], "privacy": lambda cell: (99 * cell["d"] / cell["n"]) ** 2}
    figure = plot_risk(results, "n", terms=terms, title="x")
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert "sampling" in labels and "privacy" in labels and figure.axes[0].get_xscale() == "log"
    with pytest.raises(InvalidParameter, match="parameter must"):
        plot_risk(results, "m")
    assert crossover([1.0, 2.0], [1.0, 1.0], [3.0, 2.0]) is None
    found = crossing_point(lambda x, rng: rng.random(20) < x / 10, 1, 9, replications=40)
    assert "target power" in plot_crossing(found).axes[0].get_legend().get_texts()[0].get_text()


def test_results_draw_themselves_on_given_axes(results) -> None:
    ax = new_figure().subplots()
    assert results.plot("n", ax, color="black", label="mine") is ax and ax.get_ylabel() == "squared error"
    assert [text.get_text() for text in ax.get_xticklabels()] == ["50", "100", "200"]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["mine"]
    found = crossing_point(lambda x, rng: rng.random(20) < x / 10, 1, 9, replications=40)
    ax = new_figure().subplots()
    assert found.plot(ax, name="x", color="black") is ax and ax.get_xlabel() == "x"
    assert results.plot("n").figure is not ax.figure


def test_power_curves_have_their_lines() -> None:
    results = named_study("power").study("power", {"n": [60, 120]}, replications=20).run()
    labels = {text.get_text() for text in plot_power(results, "n", level=0.05, target=0.8).axes[0].get_legend().texts}
    assert {"level 0.05", "target power 0.8"} <= labels


def test_legends_name_what_differs_and_slopes(results) -> None:
    def labels(figure) -> list[str]:
        return [text.get_text() for text in figure.axes[0].get_legend().get_texts()]

    assert labels(plot_risk(results, "n")) == ["measured"]
    rate = fit_rate(results, "n")
    assert labels(plot_risk(results, "n", rate=rate)) == [f"slope {rate.slope:.3g}", "measured"]
    grid = {"n": [50, 100, 200], "d": [4], "epsilon": [0.1, 0.5], "delta": [1e-6]}
    several = Study(Rademacher(), ClippedMean(clip=1.0), grid, 5).run()
    assert labels(plot_risk(several, "n")) == ["epsilon = 0.1", "epsilon = 0.5"]
