"""Strata, pairs and trends: textbook results without noise, and intervals that hold with it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import ndtr, ndtri
from scipy.stats import norm
from statsmodels.stats.contingency_tables import StratifiedTable, Table, mcnemar
from statsmodels.stats.proportion import confint_proportions_2indep

from dpstats.errors import InvalidParameter
from dpstats.inference import Estimates
from dpstats.inference.error_distributions import NormalErrors
from dpstats.inference.noisy_counts import CountNoise
from dpstats.tables import ContingencyTable
from dpstats.tables.equations import (
    DIFFERENCE,
    ODDS_RATIO,
    RISK_RATIO,
    CommonErrors,
    Measure,
    PairedErrors,
    SkewedErrors,
    Strata,
    TrendErrors,
    common,
    fitted_shares,
    homogeneity_pvalue,
    reciprocal,
)

MEASURES = [ODDS_RATIO, RISK_RATIO, DIFFERENCE]
NAMES = [measure.name for measure in MEASURES]
STRATA = np.array([[[300, 200], [150, 350]], [[120, 400], [60, 500]], [[80, 50], [90, 140]]], dtype=float)
WITHOUT_NOISE = Strata(STRATA, np.zeros(2))
NONE = CountNoise("gaussian", 0.0)
HARDLY = CountNoise("laplace", 1e-6)


def pvalue(errors: Any, value: float) -> float:
    return float(2 * norm.sf(abs(errors.score(np.asarray(value)))))


def test_without_noise_the_estimates_and_the_test_are_mantel_and_haenszels() -> None:
    wanted = StratifiedTable([table.astype(float) for table in STRATA])
    errors = {measure.name: CommonErrors(WITHOUT_NOISE, measure) for measure in MEASURES}
    assert errors["odds ratio"].estimate == pytest.approx(wanted.oddsratio_pooled, rel=1e-12)
    assert errors["risk ratio"].estimate == pytest.approx(wanted.riskratio_pooled, rel=1e-12)
    # Their variance divides by n - 1 where ours divides by n.
    statistic = wanted.test_null_odds(correction=False).statistic
    for each in errors.values():
        assert float(each.score(np.asarray(each.measure.none))) ** 2 == pytest.approx(statistic, rel=3e-3)
    low, high = errors["odds ratio"].limits(0.025)
    assert (float(low), float(high)) == pytest.approx(wanted.oddsratio_pooled_confint(), rel=0.01)
    found = WITHOUT_NOISE.heterogeneity(ODDS_RATIO)
    assert float(found) == pytest.approx(wanted.test_equal_odds().statistic, rel=0.01)


@pytest.mark.parametrize(("measure", "compare"), list(zip(MEASURES, ["odds-ratio", "ratio", "diff"], strict=True)))
def test_one_stratum_without_noise_has_the_score_interval(measure: Measure, compare: str) -> None:
    errors = CommonErrors(Strata(STRATA[:1], np.zeros(2)), measure)
    wanted = confint_proportions_2indep(300, 500, 150, 500, compare=compare, method="score")
    low, high = errors.limits(0.025)
    assert (float(low), float(high)) == pytest.approx(wanted, rel=0.01)
    for end in (low, high):
        assert pvalue(errors, float(end)) == pytest.approx(0.05, abs=1e-6)


@pytest.mark.parametrize("measure", MEASURES, ids=NAMES)
@pytest.mark.parametrize("value", [0.3, 0.9])
def test_fitted_shares_are_the_likeliest(measure: Measure, value: float) -> None:
    counts = STRATA[0]
    first, second = fitted_shares(measure, counts[None], value)[0]
    assert float(measure.of(first, second)) == pytest.approx(value, rel=1e-9)

    def likelihood(b: float) -> float:
        a = {"difference": b + value, "risk ratio": b * value}.get(measure.name, value * b / (1 - b + value * b))
        shares = np.array([a, b])
        return float((counts[:, 0] * np.log(shares) + counts[:, 1] * np.log1p(-shares)).sum())

    assert likelihood(second) > max(likelihood(second + 1e-4), likelihood(second - 1e-4))


def test_without_noise_pairs_have_mcnemars_test() -> None:
    wanted = mcnemar([[70, 50], [10, 70]], exact=False, correction=False)
    errors = PairedErrors(50, 10, 200, NONE)
    assert errors.estimate == 0.2
    assert float(errors.score(np.asarray(0.0))) ** 2 == pytest.approx(wanted.statistic)
    # Wald's standard error of a paired difference.
    assert errors.error == pytest.approx(math.sqrt(60 - 40**2 / 200) / 200)


def test_without_noise_a_trend_has_cochran_and_armitages_test() -> None:
    table = np.array([[20, 80], [30, 70], [50, 50], [40, 20]], dtype=float)
    scores = np.array([0.0, 1.0, 2.0, 4.0])
    sizes = table.sum(axis=1)
    errors = TrendErrors(table[:, 0], table[:, 1], scores, (HARDLY, HARDLY))
    wanted = Table(table, shift_zeros=False).test_ordinal_association(row_scores=scores, col_scores=np.array([1, 0]))
    # The correction for skewness makes the variance larger by this part, on one side.
    away, share = scores - sizes @ scores / sizes.sum(), table[:, 0].sum() / sizes.sum()
    square, cube = sizes @ away**2, (1 - 2 * share) * (sizes @ away**3)
    larger = max(wanted.zscore * cube, 0.0) / (3 * square * math.sqrt(share * (1 - share) * square))
    assert larger > 0.003
    assert float(errors.score(np.asarray(0.0))) == pytest.approx(wanted.zscore / math.sqrt(1 + larger), rel=3e-3)
    assert errors.estimate == pytest.approx(np.polyfit(scores, table[:, 0] / sizes, 1, w=np.sqrt(sizes))[0])


@pytest.mark.parametrize("z", [0.1, 1.0, 3.0, 30.0])
@pytest.mark.parametrize("counts", [(5.0, 1.0), (0.0, 0.0), (-3.0, 8.0), (0.0, 40.0), (60.0, -1.0)])
@pytest.mark.parametrize("noise", [NONE, CountNoise("laplace", 4.0)], ids=["exact", "noisy"])
def test_limits_hold_every_value_with_a_small_score(counts: Any, noise: CountNoise, z: float) -> None:
    errors = PairedErrors(*counts, 50.0, noise)
    low, high = (float(end) for end in errors.limits(float(norm.sf(z))))
    values = np.linspace(-1, 1, 5001)
    near = values[np.abs(errors.score(values)) <= z * (1 - 1e-9)]
    assert low <= errors.estimate <= high
    # No end is further than it must be.
    assert all(
        end == errors.estimate or abs(float(errors.score(np.asarray(end)))) <= z * (1 + 1e-6) for end in (low, high)
    )
    assert not near.size or (low <= near.min() + 1e-9 and near.max() - 1e-9 <= high)


def test_changed_rows_have_their_maximum_likelihood() -> None:
    gained, lost, n = 12, 5, 80
    errors = PairedErrors(gained, lost, n, NONE)
    for v in (-0.2, 0.0, 0.05, 0.3, 0.9):
        shares = np.linspace(max(-v, 0.0), (1 - v) / 2, 200_001)[1:-1]
        logs = gained * np.log(shares + v) + lost * np.log(shares) + (n - gained - lost) * np.log(1 - v - 2 * shares)
        changed = 2 * shares[np.argmax(logs)] + v
        variance, third, _ = errors.cumulants(np.asarray(v))
        assert float(variance) == pytest.approx(n * (changed - v**2), rel=1e-3)
        assert float(third) == pytest.approx(n * (v - 3 * changed * v + 2 * v**3), rel=1e-3, abs=1e-9)


# With noise. Seeds are fixed; a false alarm over seeds has probability below 1e-4 for each cell.


@pytest.mark.parametrize("measure", MEASURES, ids=NAMES)
def test_variances_are_those_of_the_terms(measure: Measure) -> None:
    # At expected counts with the value: products of errors are a third of the variance.
    shares, sizes = np.array([0.36, 0.2]), np.array([40, 25])
    value = float(measure.of(*shares))
    expected = np.stack([sizes * shares, sizes * (1 - shares)], axis=-1)[None]
    noise, rng, runs = CountNoise("laplace", 6.0), np.random.default_rng(0), 200_000
    strata = Strata(expected, np.full(2, noise.variance))
    having = rng.binomial(sizes, shares, size=(runs, 1, 2))
    drawn = np.stack([having, sizes - having], axis=-1) + noise.draw(rng, (runs, 1, 2, 2))
    terms = Strata(drawn, strata.noise).sums(measure, value) / Strata(drawn, strata.noise).weights
    claimed = strata.variances(measure, value) / strata.weights**2
    assert float(claimed[0]) == pytest.approx(float(terms.var()), rel=0.03)


CELLS = {
    "many rows, little noise": (5, 400, 2.0, 1.5),
    "few rows": (4, 60, 2.0, 1.5),
    "noise dominates": (3, 1000, 25.0, 1.5),
    "many small strata": (12, 60, 3.0, 1.5),
    "no effect": (5, 200, 4.0, 1.0),
    "noise as large as counts": (40, 60, 12.0, 1.5),
}


@pytest.mark.parametrize("measure", MEASURES, ids=NAMES)
@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("share", [0.3, 0.8])
def test_common_values_are_covered(name: str, measure: Measure, share: float) -> None:
    count, n, scale, odds = CELLS[name]
    rng, noise, runs = np.random.default_rng(7), CountNoise("laplace", scale), 500
    second = rng.uniform(0.15, 0.35, count)
    value = {"odds ratio": odds, "risk ratio": odds**0.7}.get(measure.name, 0.2 * (odds - 1))
    first = {"odds ratio": value * second / (1 - second + value * second), "risk ratio": second * value}.get(
        measure.name, second + value
    )
    sizes = rng.multinomial(n, [share, 1 - share], size=(runs, count))
    having = rng.binomial(sizes, np.stack([first, second], axis=1))
    counts = np.stack([having, sizes - having], axis=-1) + noise.draw(rng, (runs, count, 2, 2))
    variances = np.full(2, noise.variance)
    tables = Strata(counts, variances)
    spread = tables.variances(measure, value).sum(axis=-1)
    z = tables.sums(measure, value).sum(axis=-1) / np.sqrt(spread)
    one = CommonErrors(Strata(counts[0], variances), measure)
    assert float(one.score(np.asarray(value))) == pytest.approx(z[0])
    chance = 4 * math.sqrt(0.05 * 0.95 / runs)
    assert np.mean(np.abs(z) > norm.isf(0.025)) <= 0.05 + chance
    # Nor much wider than it must be.
    assert 0.6 < np.std(z) < 1.12


@pytest.mark.parametrize("scale", [1.0, 12.0])
def test_paired_differences_and_trends_are_covered(scale: float) -> None:
    rng, noise, runs, n = np.random.default_rng(3), CountNoise("laplace", scale), 2000, 600
    drawn = rng.multinomial(n, [0.4, 0.2, 0.12, 0.28], size=runs) + noise.draw(rng, (runs, 4))
    pairs = np.array(
        [float(PairedErrors(gained, lost, n, noise).score(np.asarray(0.08))) for _, gained, lost, _ in drawn]
    )
    scores = np.array([0.0, 1.0, 3.0])
    sizes = rng.multinomial(n, [0.2, 0.5, 0.3], size=runs)
    having = rng.binomial(sizes, 0.2 + 0.1 * scores)
    lacking = sizes - having + noise.draw(rng, (runs, 3))
    having = having + noise.draw(rng, (runs, 3))
    trends = np.array(
        [
            float(TrendErrors(a, b, scores, (noise, noise)).score(np.asarray(0.1)))
            for a, b in zip(having.astype(float), lacking.astype(float), strict=True)
        ]
    )
    for z in (pairs, trends):
        assert np.mean(np.abs(z) > norm.isf(0.025)) <= 0.05 + 4 * math.sqrt(0.05 * 0.95 / runs)
        assert np.std(z) > 0.8


@pytest.mark.parametrize("scale", [0.2, 2.0, 20.0])
def test_trends_keep_their_level_where_outcomes_are_rare_in_a_small_group(scale: float) -> None:
    rng, noise, runs, n = np.random.default_rng(5), CountNoise("laplace", scale), 2000, 200
    sizes = rng.multinomial(n, [0.95, 0.05], size=runs)
    having = rng.binomial(sizes, 0.02)
    lacking = sizes - having + noise.draw(rng, (runs, 2))
    having = having + noise.draw(rng, (runs, 2))
    rejected = 0
    for place, (a, b) in enumerate(zip(having.astype(float), lacking.astype(float), strict=True)):
        errors = TrendErrors(a, b, np.array([0.0, 1.0]), (noise, noise))
        excluded = abs(float(errors.score(np.asarray(0.0)))) > norm.isf(0.025)
        rejected += excluded
        if place < 200:
            low, high = (float(end) for end in errors.limits(0.025))
            assert excluded or low <= 0 <= high
            hidden = math.isnan(errors.estimate)
            assert (low, high) == (-1.0, 1.0) if hidden else low <= errors.estimate <= high
    # Without the corrections it is 0.07 and 0.06 at the first two scales.
    assert rejected / runs <= 0.05


def test_the_variance_of_a_trend_counts_products_of_errors() -> None:
    rng, noise, runs = np.random.default_rng(6), CountNoise("laplace", 20.0), 40_000
    sizes, scores = np.array([60.0, 50.0, 40.0]), np.array([0.0, 1.0, 3.0])
    having = rng.binomial(sizes.astype(int), 0.5, size=(runs, 3))
    a, b = having + noise.draw(rng, (runs, 3)), sizes - having + noise.draw(rng, (runs, 3))
    exact = TrendErrors(sizes / 2, sizes / 2, scores, (noise, noise))
    stated = float(exact.cumulants(np.asarray(0.0))[0])
    # The sum over pairs of groups has no quotient. It is the equation times the number of rows.
    gaps = scores[:, None] - scores
    found = np.einsum("rg,gh,rh->r", a - (a + b) / 2, gaps, a + b) / sizes.sum()
    # The standard error of the variance is 1% of it.
    assert np.var(found) == pytest.approx(stated, rel=0.04)
    assert stated > 1.1 * float((sizes / 4 + noise.variance / 2) @ exact.away**2)


@pytest.mark.parametrize("scale", [0.5, 8.0])
def test_homogeneity_has_its_level_and_some_power(scale: float) -> None:
    rng, noise, runs = np.random.default_rng(5), CountNoise("laplace", scale), 60
    second, sizes = np.array([0.2, 0.3, 0.4]), np.full((3, 2), 300)
    rejected = []
    for ratios in (np.full(3, 2.0), np.array([0.7, 2.0, 6.0])):
        first = ratios * second / (1 - second + ratios * second)
        count = 0
        for _ in range(runs):
            having = rng.binomial(sizes, np.stack([first, second], axis=1))
            counts = np.stack([having, sizes - having], axis=-1) + noise.draw(rng, (3, 2, 2))
            strata = Strata(counts.astype(float), np.full(2, noise.variance))
            count += homogeneity_pvalue(strata, ODDS_RATIO, noise, noise, 99)[1] <= 0.05
        rejected.append(count / runs)
    assert rejected[0] <= 0.05 + 4 * math.sqrt(0.05 * 0.95 / runs)
    assert rejected[1] > 0.8


# Through the estimator.

LEVELS = {"arm": ["new", "old"], "event": [1, 0], "site": list("abc"), "later": [1, 0]}


def rows(n: int = 6000) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    arm, site = rng.integers(2, size=n), rng.integers(3, size=n)
    event = rng.random(n) < 0.2 + 0.1 * site + 0.08 * (arm == 0)
    later = np.where(rng.random(n) < 0.8, event, rng.random(n) < 0.2)
    return pd.DataFrame(
        {
            "arm": np.array(["new", "old"])[arm],
            "event": event.astype(int),
            "site": np.array(list("abc"))[site],
            "later": later.astype(int),
        }
    )


DATA = rows()
EXACT = ContingencyTable(levels=LEVELS, epsilon=5000.0, random_state=0).fit(DATA)
PAIR = {"attributes": ["arm", "event"]}


def test_a_table_answers_what_its_rows_would() -> None:
    tables = [
        np.array([[((part.arm == arm) & (part.event == event)).sum() for event in (1, 0)] for arm in ("new", "old")])
        for _, part in DATA.groupby("site")
    ]
    wanted = StratifiedTable([table.astype(float) for table in tables])
    assert EXACT.odds_ratio(**PAIR, strata="site").estimate == pytest.approx(wanted.oddsratio_pooled)
    test = EXACT.homogeneity(**PAIR, strata="site", n_simulations=199)
    assert test.pvalue == pytest.approx(wanted.test_equal_odds().pvalue, abs=0.12)
    cross = pd.crosstab(DATA.event, DATA.later).loc[[1, 0], [1, 0]].to_numpy()
    paired = EXACT.paired_difference(outcome=1, attributes=["event", "later"])
    assert paired.estimate == pytest.approx((cross[0, 1] - cross[1, 0]) / len(DATA))
    assert paired.pvalue == pytest.approx(mcnemar(cross, exact=False, correction=False).pvalue, rel=1e-6)
    slope = EXACT.trend(outcome=1, attributes=["site", "event"])
    assert slope.confidence_interval().low < 0.1 < slope.confidence_interval().high


def test_the_number_needed_to_treat_is_one_over_the_difference() -> None:
    difference = EXACT.difference(**PAIR).confidence_interval()
    needed = EXACT.number_needed_to_treat(**PAIR)
    found = needed.confidence_interval()
    assert (found.low, found.high) == pytest.approx((1 / difference.high, 1 / difference.low))
    # Groups that do not differ: any number.
    table = ContingencyTable(levels=LEVELS, epsilon=1.0, random_state=0).fit(rows(200))
    none = table.number_needed_to_treat(**PAIR)
    low, high = none.confidence_interval()
    assert (low, high) == (-math.inf, math.inf)
    assert "has no limit on either side" in str(none.summary())


def test_one_sided_and_shifted_tests() -> None:
    ratio = EXACT.risk_ratio(**PAIR, strata="site")
    assert ratio.test(1.0, alternative="greater").pvalue < 1e-6 < ratio.test(1.0, alternative="less").pvalue
    bound = ratio.confidence_interval(alternative="greater")
    assert bound.high == math.inf and bound.low > ratio.confidence_interval().low
    # Not inferior: the difference is above a margin.
    assert EXACT.difference(**PAIR).test(-0.02, alternative="greater").pvalue < 1e-6


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1e4])
@pytest.mark.parametrize("n", [3, 40])
def test_every_answer_is_made_of_few_rows_and_any_epsilon(epsilon: float, n: int) -> None:
    table = ContingencyTable(levels=LEVELS, epsilon=epsilon, random_state=3).fit(rows(n))
    found = [getattr(table, name)(**PAIR, strata="site") for name in ("difference", "risk_ratio", "odds_ratio")]
    found += [table.paired_difference(attributes=["event", "later"]), table.trend(attributes=["site", "event"])]
    found += [table.number_needed_to_treat(**PAIR, strata="site")]
    for each in found:
        low, high = each.confidence_interval()
        assert low <= high
        assert math.isnan(each.estimate) or low <= each.estimate <= high or "needed" in each.names[0]
        str(each.summary())
    assert 0 < table.homogeneity(**PAIR, strata="site", n_simulations=99).pvalue <= 1


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda t: t.odds_ratio(strata="site"), "attributes must"),
        (lambda t: t.odds_ratio(**PAIR, strata="arm"), "attributes must"),
        (lambda t: t.odds_ratio(**PAIR, strata="ward"), "an attribute must"),
        (lambda t: t.homogeneity(**PAIR, strata=None), "strata must"),
        (lambda t: t.homogeneity("slope", **PAIR, strata="site"), "measure must"),
        (lambda t: t.paired_difference(attributes=["arm", "event"]), "must have the same levels"),
        (lambda t: t.paired_difference(attributes="event"), "attributes must"),
        (lambda t: t.trend(scores=[1, 2], attributes=["site", "event"]), "scores must"),
        (lambda t: t.trend(scores="abc", attributes=["site", "event"]), "scores must"),
        (lambda t: t.trend(scores=[1, None, {}], attributes=["site", "event"]), "scores must"),
        (lambda t: t.trend(scores=[1, 1, 1], attributes=["site", "event"]), "not all equal"),
        (lambda t: t.trend(attributes=["arm", "site"]), "outcome must"),
    ],
)
def test_bad_questions_are_refused(ask: Any, words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        ask(EXACT)


def test_one_sided_intervals_of_a_reciprocal_cover_where_the_sign_is_unknown() -> None:
    # Difference 0 from below: the limit of 1/x is wrong if x seems larger, and if x seems positive.
    at, truth = ndtri((np.arange(400) + 0.5) / 400), np.array(-1e9)
    found = dict.fromkeys(("two-sided", "less", "greater"), 0)
    for x in at.tolist():
        number = NormalErrors(np.array(x), np.array(1.0))
        estimates = reciprocal(Estimates(number.estimate, None, ("x",), "x", number))
        for side in found:
            low, high = estimates.confidence_interval(0.9, alternative=side)
            found[side] += bool(low <= truth <= high)
    assert found["two-sided"] == 360 and min(found.values()) >= 360
    # A two-sided test rejects where the two-sided interval excludes the value.
    assert estimates.test(1e6).pvalue == pytest.approx(2 * ndtr(1e-6 - at[-1]), rel=1e-6)
    assert estimates.test(1 / at[-1]).pvalue == 1.0


def test_pairs_without_a_change_have_a_sampling_error() -> None:
    low, high = PairedErrors(0.0, 0.0, 100.0, NONE).limits(0.025)
    # At a difference v rows change with probability v at least.
    assert -low == pytest.approx(high) and float(high) == pytest.approx(1.96**2 / (100 + 1.96**2), rel=0.3)


@pytest.mark.parametrize(
    ("n", "share", "scale"), [(1000, 0.003, 0.0), (1000, 0.003, 0.4), (100, 0.05, 0.4), (10, 0.3, 0.0)]
)
def test_few_changed_rows_are_covered(n: int, share: float, scale: float) -> None:
    rng, noise = np.random.default_rng(1), CountNoise("laplace", scale) if scale else NONE
    gained = rng.binomial(n, share, size=2000) + noise.draw(rng, (2000,))
    lost = noise.draw(rng, (2000,))
    z = np.array(
        [float(PairedErrors(a, b, n, noise).score(np.asarray(share))) for a, b in zip(gained, lost, strict=True)]
    )
    assert np.mean(np.abs(z) > 1.959964) <= 0.065
    for side in (z, -z):
        assert np.mean(side > 1.644854) <= 0.075


@pytest.mark.parametrize("measure", [DIFFERENCE, ODDS_RATIO, RISK_RATIO], ids=lambda measure: measure.name)
def test_expected_counts_are_of_possible_counts(measure: Measure) -> None:
    counts = np.array([[[-3.0, 40.0], [10.0, 30.0]], [[12.0, 20.0], [15.0, 18.0]]])
    expected = Strata(counts, np.full(2, 4.0)).expected_counts(measure)
    assert (expected >= 0).all()
    assert np.allclose(expected.sum(axis=-1), np.maximum(counts, 0.0).sum(axis=-1))


class OneNumber(SkewedErrors):
    """Errors of one number with Laplace noise of variance 2."""

    start = box = None

    def left_side(self, value: Any) -> Any:
        return np.asarray(value)

    def cumulants(self, value: Any) -> Any:
        return np.full_like(value, 2.0), np.zeros_like(value), np.full_like(value, 12.0)


def test_noise_alone_has_its_own_tails() -> None:
    values = np.array([-9.0, -0.5, 0.1, 3.0, 20.0])
    exact = stats.laplace.sf(np.abs(values))
    np.testing.assert_allclose(stats.norm.sf(np.abs(OneNumber().score(values))), exact, rtol=1e-3)


@pytest.mark.parametrize("scale", [1e-9, 0.3])
@pytest.mark.parametrize("measure", [ODDS_RATIO, RISK_RATIO], ids=NAMES[:2])
def test_a_common_ratio_is_infinite_where_its_reciprocal_is_zero(measure: Measure, scale: float) -> None:
    # Every row of the first group has the outcome, and no row of the second has it.
    counts, noise = (np.array([[[8.0, 0.0], [0.0, 5.0]], [[9.0, 0.0], [0.0, 2.0]]]), CountNoise("laplace", scale))
    variances = np.full(2, noise.variance)
    found, other = (
        common(CommonErrors(Strata(each, variances), measure), "ratio", False) for each in (counts, counts[:, ::-1])
    )
    assert (found.estimate, other.estimate) == (math.inf, 0.0)
    (low, high), (least, most) = found.confidence_interval(), other.confidence_interval()
    assert (high, least) == (math.inf, 0.0) and low == pytest.approx(1 / most, rel=1e-3)
    assert found.pvalue == pytest.approx(other.pvalue, rel=1e-6) and low > 1
    assert homogeneity_pvalue(Strata(counts, variances), measure, noise, noise, 199)[1] > 0.5


def test_a_common_ratio_is_hidden_where_noise_does_not_explain_an_infinite_one() -> None:
    counts = np.array([[[8.0, -40.0], [30.0, 2.0]]])
    errors = CommonErrors(Strata(counts, np.full(2, 0.5)), ODDS_RATIO)
    assert math.isnan(errors.estimate) and errors.limits(0.025) == errors.box
