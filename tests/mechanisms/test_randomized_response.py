"""Randomized response: exact probabilities, unbiased estimates, intervals, and what is refused."""

import math
import traceback
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats

from dpstats.errors import BudgetExceeded, InvalidData, InvalidParameter
from dpstats.mechanisms import RandomizedResponse, randomized_response
from dpstats.privacy import PrivacyBudget, PrivacyGuarantee, Responses
from tests.data.awkward import COLUMNS, Raises


@pytest.mark.parametrize("categories", [2, 3, 10, 1000])
@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, math.log(3), 5.0, 30.0])
def test_the_odds_are_at_most_e_to_the_epsilon_exactly(epsilon, categories):
    # Odds in rationals against e^epsilon in rationals with fifty correct digits.
    import mpmath

    mechanism = RandomizedResponse(epsilon, categories)
    grains = mechanism.plan.stages[0].keep_grains
    odds = Fraction(grains * (categories - 1), Responses.GRAIN - grains)
    with mpmath.workdps(60):
        bound = mpmath.exp(mpmath.mpf(epsilon))
        assert mpmath.mpf(odds.numerator) / odds.denominator <= bound
        # and below it by no more than the margin and two grains
        lost = 1e-12 + 2 / (Responses.GRAIN - grains)
        assert mpmath.mpf(odds.numerator) / odds.denominator >= bound * (1 - lost)
    keep = math.exp(epsilon) / (math.exp(epsilon) + categories - 1)
    assert mechanism.keep_probability == pytest.approx(keep, rel=1e-12)


@pytest.mark.parametrize(
    ("epsilon", "categories"),
    [
        *((epsilon, 2) for epsilon in (1e-9, 1e-12, 2.0**-50, 1e-16, 1e-17, 2.0**-59)),
        *((epsilon, 3) for epsilon in (1e-9, 2.0**-51, 1e-17)),
        (1e-15, 1000),
        (1e-9, 2**31),
    ],
)
def test_the_odds_hold_in_both_directions_at_a_tiny_epsilon(epsilon, categories):
    # 1 + epsilon <= e^epsilon in rationals, and the condition of the theorem: kept more often than another is given.
    survey = RandomizedResponse(epsilon, categories, random_state=0)
    grains = survey.plan.stages[0].keep_grains
    odds = Fraction(grains * (categories - 1), Responses.GRAIN - grains)
    assert 1 < odds <= 1 + Fraction(epsilon) + Fraction(epsilon) ** 2
    # The estimate is finite and its error as large as it has to be: sqrt(p (1 - p)/n) over the contrast.
    if categories == 2:
        result = survey.estimate([0, 1, 1, 0])
        contrast = float(Fraction(2 * grains - Responses.GRAIN, Responses.GRAIN))
        np.testing.assert_allclose(result.standard_errors, math.sqrt(0.25 / 3) / contrast, rtol=1e-12)


@pytest.mark.parametrize(("epsilon", "categories"), [(1e-19, 2), (1e-19, 3), (1e-300, 2), (1e-12, 2**31)])
def test_an_epsilon_below_the_grain_is_refused(epsilon, categories):
    with pytest.raises(InvalidParameter, match="epsilon must"):
        RandomizedResponse(epsilon, categories)
    # The limit that the message gives is one: a hundredth more is accepted.
    least = categories**2 / ((categories - 1) * Responses.GRAIN)
    assert RandomizedResponse(1.01 * least, categories).keep_probability >= 1 / categories


def test_the_coins_of_the_text():
    survey = RandomizedResponse.from_coins()
    assert survey.keep_probability == 0.75
    assert survey.epsilon == pytest.approx(math.log(3), rel=1e-11) and survey.epsilon >= math.log(3)
    np.testing.assert_array_equal(survey.probabilities(1), [0.25, 0.75])


def test_any_keep_probability():
    survey = RandomizedResponse.from_keep_probability(0.5, 4)
    assert survey.epsilon == pytest.approx(math.log(3), rel=1e-11)
    np.testing.assert_allclose(survey.probabilities(2), [1 / 6, 1 / 6, 0.5, 1 / 6])


@pytest.mark.parametrize("seed", [None, 3])
def test_responses_have_the_stated_probabilities(seed):
    # Chi-square over answers and responses; false alarm 1e-7, and epsilon a tenth off is rejected.
    mechanism = RandomizedResponse(1.5, 4, random_state=seed)
    n = 60_000
    pvalues = {factor: [] for factor in (0.9, 1.0, 1.1)}
    for value in range(4):
        observed = np.bincount(mechanism.randomize(np.full(n, value)), minlength=4)
        for factor in pvalues:
            expected = n * RandomizedResponse(1.5 * factor, 4).probabilities(value)
            pvalues[factor].append(stats.chisquare(observed, expected).pvalue)
    assert min(pvalues[1.0]) > 1e-7
    assert min(pvalues[0.9]) < 1e-7 and min(pvalues[1.1]) < 1e-7


def test_estimates_are_unbiased_and_intervals_cover():
    truth = np.array([0.5, 0.3, 0.15, 0.05])
    rng = np.random.default_rng(0)
    estimates, inside, together = [], [], []
    for _ in range(2000):
        survey = RandomizedResponse(1.0, 4, random_state=rng)
        result = survey.estimate(survey.randomize(rng.choice(4, size=500, p=truth)))
        estimates.append(result.proportions)
        low, high = result.confidence_interval()
        inside.append((low <= truth) & (truth <= high))
        low, high = result.confidence_interval(simultaneous=True)
        together.append(np.all((low <= truth) & (truth <= high)))
    estimates = np.array(estimates)
    # Five standard errors: false alarm below 1e-5.
    error = estimates.std(axis=0) / math.sqrt(2000)
    assert np.all(np.abs(estimates.mean(axis=0) - truth) < 5 * error)
    np.testing.assert_allclose(estimates.sum(axis=1), 1.0)
    assert abs(np.mean(inside) - 0.95) < 5 * math.sqrt(0.95 * 0.05 / 2000)
    assert np.mean(together) > 0.95 - 5 * math.sqrt(0.95 * 0.05 / 2000)
    # Power control: intervals that forget the randomization cover far less.
    naive = 1.96 * np.sqrt(truth * (1 - truth) / 500)
    assert np.mean(np.abs(estimates - truth) < naive) < 0.7


def test_standard_error_formula():
    # n = 1000 responses, 600 and 400, keep 0.75: lambda (1 - lambda)/((n - 1)(p - q)^2).
    survey = RandomizedResponse.from_coins()
    result = survey.estimate(np.repeat([0, 1], [600, 400]))
    np.testing.assert_allclose(result.proportions, [(0.6 - 0.25) / 0.5, (0.4 - 0.25) / 0.5])
    np.testing.assert_allclose(result.standard_errors, math.sqrt(0.6 * 0.4 / 999) / 0.5)


def test_shapes_types_and_budget():
    budget = PrivacyBudget(1.0)
    survey = RandomizedResponse(0.6, budget=budget)
    responses = survey.randomize(np.zeros((3, 4), dtype=bool))
    assert responses.shape == (3, 4) and responses.dtype == np.int64
    assert [(entry.label, entry.guarantee) for entry in budget.history()] == [
        ("RandomizedResponse", PrivacyGuarantee(0.6))
    ]
    with pytest.raises(BudgetExceeded):
        survey.randomize([0, 1])
    assert RandomizedResponse(0.6, random_state=0).guarantee.simulated
    same = [RandomizedResponse(0.6, 5, random_state=4).randomize([0, 1, 2, 3, 4] * 4) for _ in range(2)]
    np.testing.assert_array_equal(*same)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: RandomizedResponse(0.0), "epsilon must"),
        (lambda: RandomizedResponse(41.0), "epsilon must"),
        (lambda: RandomizedResponse(1.0, 1), "n_categories must"),
        (lambda: RandomizedResponse.from_keep_probability(0.5), "keep_probability must"),
        (lambda: RandomizedResponse.from_keep_probability(1.0), "keep_probability must"),
        (lambda: RandomizedResponse(1.0, random_state=1, budget=PrivacyBudget(1.0)), "random_state and budget"),
    ],
)
def test_bad_parameters(build, message):
    with pytest.raises(InvalidParameter, match=message):
        build()


@pytest.mark.parametrize("values", [[0, 7], [-1, 0], [0.5], ["yes"], [], [np.nan], [[0], [1, 2]], None])
def test_bad_answers_are_refused_without_showing_them(values):
    budget = PrivacyBudget(1.0)
    with pytest.raises(InvalidData) as caught:
        RandomizedResponse(1.0, budget=budget).randomize(values)
    assert "7" not in str(caught.value) and "yes" not in str(caught.value)
    assert budget.history() == ()


def _read(survey, values):
    """Return the answers that are read, or None where they are refused."""
    try:
        return survey._check_values(values, "values").tolist()
    except InvalidData:
        return None


@pytest.mark.parametrize("kind", [kind for kind in COLUMNS if kind != "iterator"])
def test_an_answer_is_what_it_is_alone(kind):
    column, values = COLUMNS[kind]
    # Answers have any shape: a list is no answer, but a row of them.
    values = [value for value in values if not hasattr(value, "__len__") or isinstance(value, str | bytes)]
    survey = RandomizedResponse(1.0, 2**31)
    alone = [_read(survey, column([value])) for value in values]
    good = [i for i, answer in enumerate(alone) if answer is not None]
    if good:
        assert _read(survey, column([values[i] for i in good])) == [alone[i][0] for i in good]
        for i in set(range(len(values))) - set(good):
            assert _read(survey, column([values[good[0]], values[i]])) is None


def test_answers_of_any_type_of_number():
    survey = RandomizedResponse(1.0, 5)
    for values in ([0, 1.0, True, Decimal(4), np.int8(3)], [0, Fraction(1), 1, 4, np.float16(3)]):
        assert _read(survey, values) == [0, 1, 1, 4, 3]
    assert _read(survey, [[0, True], (2.0, 3)]) == [[0, 1], [2, 3]] and _read(survey, 3) == 3
    for column in (pd.Series([1, 4], dtype="Int64"), pl.Series([1, 4]), pd.Series([1, 4], dtype=object)):
        assert _read(survey, column) == [1, 4]
    for bad in (1.5, "1", b"1", None, pd.NA, Decimal("1.5"), Decimal("1.00000000000000000000000001"), 1j, 1e300):
        assert _read(survey, [1, bad]) is None and _read(survey, [bad]) is None


def test_a_masked_answer_is_refused_and_never_what_it_hides():
    survey = RandomizedResponse(1.0)
    row = np.ma.masked_array([1, 0], mask=[True, False])
    for values in (row, [row, row], [[row]], [1, np.ma.masked]):
        assert _read(survey, values) is None


@pytest.mark.parametrize("value", ["secret", ["secret"], {"secret": 1}, Raises(), b"secret", 4242, -4242, 0.4242])
def test_refusals_show_no_data(value):
    with pytest.raises(InvalidData) as caught:
        RandomizedResponse(1.0).randomize([0, value])
    assert caught.value.__context__ is None and caught.value.__cause__ is None
    shown = "".join(traceback.format_exception(caught.value))
    assert "secret" not in shown and "4242" not in shown


def test_answers_that_change_while_they_are_checked_are_still_answers(monkeypatch):
    # Another process writes to the caller's memory, after the last check of a value.
    answers = np.array([0, 1, 1, 0])
    seen = []

    def changing(number):
        seen.append(number)
        if len(seen) == 2:
            answers[:] = 1000
        return number.__int__()

    mechanism = RandomizedResponse(1.0, random_state=0)
    monkeypatch.setattr(randomized_response, "int", changing, raising=False)
    responses = mechanism.randomize(answers)
    assert answers.min() == 1000 and set(responses.tolist()) <= {0, 1}


def test_intervals_are_exact_where_a_category_is_rare_or_has_every_response():
    survey = RandomizedResponse(10, 2, random_state=0)
    result = survey.estimate(np.zeros(100, dtype=int))
    low, high = result.confidence_interval()
    # Clopper and Pearson: 1 - 0.025^(1/100) of the responses, and the odds of the coin.
    np.testing.assert_allclose([low[0], high[1]], [0.96378, 0.03622], atol=1e-4)
    assert high[0] == 1 and low[1] == 0 and (result.standard_errors > 0).all()
    assert result.test(0.02).pvalue[1] > 0.2 and result.test(0.02, "less").pvalue[1] > 0.1
    assert (result.estimate_ <= high).all() and (result.estimate_ >= low).all()


@pytest.mark.parametrize(("n", "epsilon", "shares"), [(60, 8.0, [0.97, 0.02, 0.01]), (300, 1.0, [0.5, 0.5])])
def test_exact_intervals_cover_together_and_tests_hold_their_level(n, epsilon, shares):
    rng, survey = np.random.default_rng(3), RandomizedResponse(epsilon, len(shares), random_state=4)
    together, rejected = 0, np.zeros(len(shares))
    for _ in range(300):
        result = survey.estimate(survey.randomize(rng.choice(len(shares), size=n, p=shares)))
        low, high = result.confidence_interval(simultaneous=True)
        together += bool(((low <= shares) & (shares <= high)).all())
        rejected += result.test(np.array(shares)).pvalue < 0.05
    assert together >= 277 and (rejected <= 26).all()


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
@pytest.mark.parametrize("n", [1, 30, 500])
def test_no_count_leaves_an_interval_of_length_0(n, epsilon):
    # A count far below its mean at a proportion of 0 rejects every proportion.
    survey = RandomizedResponse(epsilon, 2)
    for ones in range(0, n + 1, max(n // 30, 1)):
        low, high = survey.estimate(np.arange(n) < ones).confidence_interval()
        assert np.all((low >= 0) & (high <= 1) & (low < high)), ones
