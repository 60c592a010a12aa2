"""Trade-off curves, against the definition."""

import itertools

import numpy as np
import pytest
from scipy import stats

from dpstats.errors import InvalidParameter
from dpstats.means import ClippedMean
from dpstats.plots import plot_tradeoff
from dpstats.privacy import Neighbors, PrivacyBudget, PrivacyGuarantee, ReleaseCost, compose, tradeoff_curve
from dpstats.privacy.events import DiscreteLaplace, Gaussian, Pure

ERRORS = np.linspace(0, 1, 101)


def test_pure_privacy_is_randomized_response():
    # Test "the answer is the true one" has errors (1/(1 + e), 1/(1 + e)); mixtures with the trivial tests between.
    corner = 1 / (1 + np.e)
    expected = np.where(corner > ERRORS, 1 - np.e * ERRORS, (1 - ERRORS) / np.e)
    for item in (PrivacyGuarantee(1.0), Pure(1.0)):
        np.testing.assert_allclose(tradeoff_curve(item, ERRORS), expected, atol=1e-12)


def test_gaussian_noise_is_the_likelihood_ratio_test():
    # N(0, 1) against N(mu, 1), rejecting above z_a.
    expected = stats.norm.cdf(stats.norm.isf(ERRORS), loc=0.7)
    np.testing.assert_allclose(tradeoff_curve(Gaussian(0.7), ERRORS), expected, atol=1e-12)
    discrete = tradeoff_curve(Gaussian(0.7, total_variation=1e-3), ERRORS)
    assert np.all(discrete <= expected)
    # Two-sided: any curve between the ideal ones of the moved errors.
    assert np.all(discrete >= stats.norm.cdf(stats.norm.isf(np.minimum(1, ERRORS + 1e-3)), loc=0.7) - 1.01e-3)


def test_laplace_noise_by_brute_force():
    # Discrete Laplace at 0 against at 5, scale 4: the likelihood ratio orders outputs.
    event = DiscreteLaplace(5, 4.0)
    steps = np.arange(-400, 401)
    p = np.exp(-np.abs(steps) / 4.0)
    q = np.exp(-np.abs(steps - 5) / 4.0)
    p, q = p / p.sum(), q / q.sum()
    order = np.argsort(-(np.abs(steps) - np.abs(steps - 5)), kind="stable")
    type_one = np.concatenate([[0], np.cumsum(p[order])])
    type_two = 1 - np.concatenate([[0], np.cumsum(q[order])])
    exact = np.interp(ERRORS, type_one, type_two)
    curve = tradeoff_curve(event, ERRORS)
    assert np.all(curve <= exact + 1e-9)
    np.testing.assert_allclose(curve, exact, atol=2e-3)


def test_a_plan_explains_itself():
    keeps = PrivacyBudget(1.0, 1e-6, method="gdp")  # Gaussian noise
    plan = ClippedMean(epsilon=1.0, delta=1e-6, clip=1.0, budget=keeps).plan(1000, 3)
    text = plan.explain()
    # mu = 1/4.224679: power at level 5% is Phi(mu - 1.645) = 8.0%, below the 13.6% of (1, 1e-6) alone.
    assert "at most 13.6%" in text and "in fact at most 8.0%" in text
    assert "clipped mean: 3 numbers" in text


def test_explain_speaks_of_the_relation_and_claims_no_odds_with_delta():
    added = PrivacyGuarantee(0.5, neighbors=Neighbors.ADD_OR_REMOVE_ONE).explain()
    assert "was in the data" in added and "factor of at most 1.65" in added
    approximate = PrivacyGuarantee(0.5, 1e-6).explain()
    assert "odds" not in approximate and "plus 1e-06" in approximate


def test_relations_convert_one_way():
    added = PrivacyGuarantee(0.5, 1e-6, Neighbors.ADD_OR_REMOVE_ONE)
    replaced = added.as_replace_one()
    assert (replaced.epsilon, replaced.neighbors) == (1.0, Neighbors.REPLACE_ONE)
    assert replaced.delta == pytest.approx((1 + np.exp(0.5)) * 1e-6, rel=1e-14)
    assert replaced.as_replace_one() is replaced


def test_the_picture_has_a_curve_for_each(tmp_path):
    figure = plot_tradeoff({"one": PrivacyGuarantee(1.0), "two": Gaussian(0.5)})
    assert [text.get_text() for text in figure.axes[0].get_legend().get_texts()] == ["perfect privacy", "one", "two"]
    figure.savefig(tmp_path / "t.png")


def test_a_curve_of_several_is_never_above_that_of_one():
    # With one Gaussian event among two, or none, or both.
    for events in itertools.combinations_with_replacement([Gaussian(0.2), Pure(1.0), DiscreteLaplace(3, 4.0)], 2):
        curve = tradeoff_curve(ReleaseCost(events, compose(list(events), 1e-6)), ERRORS)
        for event in events:
            assert np.all(curve <= tradeoff_curve(event, ERRORS) + 1e-12)


def test_bad_input():
    with pytest.raises(InvalidParameter, match="type_one_error must"):
        tradeoff_curve(PrivacyGuarantee(1.0), 1.5)


@pytest.mark.parametrize(
    "item",
    [
        PrivacyGuarantee(0.7, 1e-2),
        Pure(1.3),
        Gaussian(0.7),
        Gaussian(0.7, total_variation=0.03),
        DiscreteLaplace(3, 2.0),
    ],
    ids=str,
)
def test_a_curve_is_its_own_inverse(item):
    # Either of two neighbors can be the null hypothesis, so both errors have one relation.
    errors = np.linspace(0.0, 1.0, 41)
    curve = tradeoff_curve(item, errors)
    assert np.all(np.diff(curve) <= 1e-15) and np.all(curve <= 1 - errors)
    inside = curve > 1e-6
    np.testing.assert_allclose(tradeoff_curve(item, curve)[inside], errors[inside], atol=1e-9)
