"""Counts and densities as they are reported; intervals of counts are in test_histogram.py."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

from dpstats.errors import InvalidData, InvalidParameter
from dpstats.inference.reports import picture_of
from dpstats.mechanisms import CountEstimate, DensityEstimate, Histogram, RandomizedResponse
from dpstats.privacy import Neighbors, PrivacyBudget

EDGES = [0.0, 1.0, 2.0, 4.0, 8.0]


def test_densities_integrate_to_the_share_inside() -> None:
    x = np.random.default_rng(0).exponential(size=2000)
    result = Histogram(bins=EDGES, epsilon=50.0).release(x)
    assert isinstance(result, DensityEstimate) and result.n_rows == 2000
    exact = np.histogram(x, EDGES)[0]
    assert result.counts.tolist() == exact.tolist()
    assert result.densities @ np.diff(EDGES) == pytest.approx(np.mean(x <= 8))
    assert result.categories == ("[0, 1)", "[1, 2)", "[2, 4)", "[4, 8]")


@pytest.mark.parametrize("delta", [0.0, 1e-3])
@pytest.mark.parametrize(("n", "epsilon"), [(50, 0.5), (1000, 0.2), (1000, 5.0)])
def test_bands_cover_together(n: int, epsilon: float, delta: float) -> None:
    # 60 releases; five standard errors: a false alarm below 1e-6.
    rng = np.random.default_rng(1)
    truth = -np.diff(np.exp(-np.array(EDGES))) / np.diff(EDGES)
    histogram = Histogram(bins=EDGES, epsilon=epsilon, delta=delta, unknown="drop", random_state=rng)
    together, each = [], []
    for _ in range(60):
        result = histogram.release(rng.exponential(size=n))
        for band, hits in ((result.density_interval(0.9), together), (result.density_interval(0.9, False), each)):
            hits.append((band.low <= truth) & (truth <= band.high))
    error = np.sqrt(0.09 / 60)
    assert np.mean(np.all(together, axis=1)) > 0.9 - 5 * error
    assert np.mean(each, axis=0).min() > 0.9 - 5 * error
    # Those that are to cover each alone do not cover all so often.
    assert np.all(each, axis=1).sum() <= np.all(together, axis=1).sum()


def test_densities_need_a_public_number_of_rows() -> None:
    made = Histogram(bins=EDGES, epsilon=1.0, neighbors=Neighbors.ADD_OR_REMOVE_ONE, random_state=0)
    result = made.release([1.0, 2.0])
    with pytest.raises(InvalidParameter, match="REPLACE_ONE"):
        _ = result.densities
    with pytest.raises(InvalidParameter, match="public number of rows"):
        result.density_interval()
    assert "density" not in str(result.summary())


def test_summary_has_densities() -> None:
    text = str(Histogram(bins=EDGES, epsilon=1.0, random_state=0).release([0.5, 3.0] * 50).summary())
    assert "density" in text and "[4, 8]" in text and "100 (public)" in text and "all bins together" in text


def test_bad_bins_and_bad_numbers_charge_nothing() -> None:
    budget = PrivacyBudget(1.0)
    histogram = Histogram(bins=EDGES, epsilon=1.0, unknown="error", budget=budget)
    for data in ([9.0], [np.nan], ["x"], [[1.0, 2.0]]):
        with pytest.raises(InvalidData):
            histogram.release(data)
    assert budget.history() == ()
    for given in ({}, {"categories": [1], "bins": [0, 1]}, {"bins": [1, 0]}):
        with pytest.raises(InvalidParameter, match="bins"):
            Histogram(epsilon=1.0, **given)
    with pytest.raises(InvalidParameter, match="epsilon"):
        Histogram(bins=EDGES)


def test_categories_have_no_densities() -> None:
    assert type(Histogram(["a"], 1.0, random_state=0).release(["a"])) is CountEstimate


@pytest.mark.parametrize(("epsilon", "delta"), [(0.05, 0.0), (1.0, 0.0), (50.0, 0.0), (1.0, 1e-6)])
def test_tests_of_counts_agree_with_intervals(epsilon: float, delta: float) -> None:
    found = Histogram(["a", "b"], epsilon, delta, random_state=0).release(["a"] * 70 + ["b"] * 30).estimates()
    for side in ("two-sided", "less", "greater"):
        low, high = found.confidence_interval(0.9, alternative=side)
        # A step outside the interval every count is rejected, and at its end none.
        for end, out in ((low, -1.0), (high, 1.0)):
            if np.isfinite(end).all():
                assert np.all(np.asarray(found.test(end + out, side).pvalue) <= 0.1)
                assert np.all(np.asarray(found.test(end, side).pvalue) >= 0.1 - 1e-9)


def test_counts_and_proportions_have_every_form() -> None:
    counts = Histogram(["a", "b"], 1.0, random_state=0).release(["a"] * 70 + ["b"] * 30)
    survey = RandomizedResponse(1.0, random_state=0)
    shares = survey.estimate(survey.randomize(np.repeat([0, 1], [700, 300])))
    for result in (counts, shares):
        found = result.estimates()
        frame, said = result.to_frame(0.9), json.loads(json.dumps(result.to_dict(0.9)))
        low, high = result.confidence_interval(0.9)
        np.testing.assert_allclose(frame[["low", "high"]], np.column_stack([low, high]))
        assert said["simulated"] and said["estimand"] == result.estimand_
        assert result.to_latex().startswith(r"\begin{tabular}") and result.to_markdown().startswith("| ")
        assert "<table" in result._repr_html_() and "not a private release" in str(result.summary())
        assert pickle.loads(pickle.dumps(found)).to_dict() == found.to_dict()
        assert result.plot().get_xlabel() == found.header


def test_a_page_has_bars_for_sixty_categories_at_most() -> None:
    few, many = (Histogram(categories=range(size), epsilon=1.0, random_state=0).release([0] * 9) for size in (60, 61))
    assert picture_of(few) is not None and picture_of(many) is None
