"""The tables of a log-linear path, beside simulated outcomes and beside tables of one width at a time."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from dpstats.regression.log_linear_plan import SIZE_CLIP, make_family
from dpstats.regression.log_linear_tables import WEIGHTS, Predictors, expect_sizes, tabulate

ROWS = Predictors(center=0.7, spread=0.6, largest=math.log(200))
WIDTHS = (1.25, 2.0, 8.0)


@pytest.mark.parametrize(
    ("family", "dispersion"), [("counts", (1.0, 0.5)), ("counts", (2.0, 1e-3)), ("gamma", (0.0, 0.7))]
)
def test_several_widths_are_each_alone(family: str, dispersion: tuple[float, float]) -> None:
    together = tabulate(make_family(family), ROWS, dispersion, WIDTHS, 31)
    for i, width in enumerate(WIDTHS):
        alone = tabulate(make_family(family), ROWS, dispersion, width, 31)
        for name in ("scale", "curvature", "most_curved", "most_pull", "bias"):
            assert getattr(together, name)[i] == pytest.approx(getattr(alone, name), rel=1e-13), name
        for name in ("clip", "pull", "weight", "curved"):
            assert np.allclose(getattr(together.curves, name)[i], getattr(alone.curves, name), rtol=1e-13)


def test_functions_of_gamma_outcomes() -> None:
    tables = tabulate(make_family("gamma"), ROWS, (0.0, 0.5), 1.5)
    curves, at = tables.curves, np.array([0.7])
    mean, std, clip, pull, weight = (
        float(part[0]) for part in curves.evaluate(at, "mean", "std", "clip", "pull", "weight")
    )
    assert (mean, std, clip) == pytest.approx((math.exp(0.7), math.exp(0.7) / math.sqrt(2), 1.5 * std), rel=1e-3)
    assert weight == pytest.approx(1.0)  # the center's
    y = np.random.default_rng(1).gamma(2.0, mean / 2, 400_000)
    # 400,000 residuals in [-1, 1]: five standard errors are below 0.006.
    assert pull == pytest.approx(np.clip((y - mean) / clip, -1, 1).mean(), abs=6e-3)


def test_expected_sizes_are_those_of_outcomes() -> None:
    family = make_family("counts")
    tables = tabulate(family, replace(ROWS, spread=0.0), (1.0, 0.5), 2.0)
    below, above = expect_sizes(family, tables, (1.0, 0.5))
    mean = math.exp(0.7)
    most = SIZE_CLIP * math.sqrt(mean + 0.5 * mean**2)
    rng = np.random.default_rng(2)
    y = rng.poisson(mean * rng.gamma(2.0, 0.5, 400_000))
    # All rows are at the center, of which half counts on each side.
    assert below == pytest.approx(above)
    assert below + above == pytest.approx((np.abs(y - mean) / most).clip(0, 1).mean(), rel=0.01)
    every = expect_sizes(family, tables, (1.0, 0.5), every=True)[0]
    assert every.shape == family.dispersions()[0].shape
    # Sizes grow with the dispersion, until residuals are clipped.
    assert (np.diff(every[0, 1:14]) > 0).all()


def test_a_replay_looks_tables_up() -> None:
    family, width = make_family("counts", 0.25), 2.25
    assert tabulate(family, ROWS, (1.0, 0.5), width) is tabulate(
        make_family("counts", 0.25), replace(ROWS), (1.0, 0.5), width
    )
    assert WEIGHTS.sum() == pytest.approx(1.0)
