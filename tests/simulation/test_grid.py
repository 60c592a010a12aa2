"""The grid: names go to the sampler, to the estimator, or to both."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from dpstats.errors import InvalidParameter
from dpstats.means import ClippedMean
from dpstats.simulation import Gaussian, Study
from dpstats.simulation.study import check_names, names_of_estimator, owners_of


def draw(n: int, d: int, rng: np.random.Generator, location: float = 0.0) -> np.ndarray:
    return rng.normal(location, 1.0, (n, d))


def positive(fitted: ClippedMean, X: np.ndarray, truth: None) -> float:
    return float(fitted.mean_[0] > 0)


def test_names_go_to_whom_they_belong() -> None:
    # The callable's own location; the estimator's clip and epsilon: noise of about 20.
    grid = {"n": [9], "d": [1], "location": [900.0, -900.0], "clip": [1e3], "epsilon": [100.0]}
    assert Study(draw, ClippedMean(clip=1.0, delta=1e-6), grid, 3, loss=positive).run().mean().tolist() == [1, 0]
    # The sampler's std and the estimator's: risk and interval both grow. Noise of deviation 0.06.
    estimator = ClippedMean(clip=50.0, epsilon=50.0, std=1.0)
    losses = ["coverage", "squared_error"]
    both = Study(Gaussian(), estimator, {"n": [50], "d": [1], "std": [1.0, 9.0]}, 200, loss=losses).run()
    assert both.losses == ("coverage", "squared_error") and (both.mean("coverage") > 0.85).all()
    assert both.mean("squared_error")[1] > 20 * both.mean("squared_error")[0]
    # The sampler's alone: an interval a third as wide as it should be covers half of the time.
    one = [{"n": 50, "d": 1, "sampler__std": 3.0, "estimator__std": 1.0}]
    assert 0.35 < Study(Gaussian(), estimator, one, 200, loss="coverage").run().mean()[0] < 0.7


def test_names_inside_an_estimator_are_known() -> None:
    nested = Pipeline([("scale", StandardScaler()), ("mean", ClippedMean(clip=1.0))])
    assert {"mean", "mean__clip", "scale__with_mean"} <= names_of_estimator(nested)
    assert owners_of("mean__clip", frozenset(), names_of_estimator(nested)) == (None, "mean__clip")


@pytest.mark.parametrize("cell", [{"d": 1}, {"n": 1}, {}])
def test_cells_without_sizes_are_refused(cell: dict[str, int]) -> None:
    with pytest.raises(InvalidParameter, match="grid must"):
        check_names([cell], draw, ClippedMean(clip=1.0))
