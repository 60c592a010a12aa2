"""Tests of distributions: statistics as scipy's, sensitivities, levels, and what is refused."""

from __future__ import annotations

import itertools
import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone

from dpstats.auditing import check_sensitivity
from dpstats.errors import InvalidData, InvalidParameter
from dpstats.inference.noisy_counts import CountNoise
from dpstats.privacy import PrivacyBudget
from dpstats.ranks import GoodnessOfFitTest, KolmogorovSmirnovTest, goodness_of_fit, ks_test
from dpstats.ranks.statistics import (
    GRAIN,
    STATISTICS,
    OneSample,
    TwoSamples,
    cutoff,
    distance_pvalue,
    find_probabilities,
    order_labels,
    two_sample_sensitivity,
    two_sample_steps,
)

RNG = np.random.default_rng(0)
X, LABELS = RNG.normal(size=150), RNG.choice(["a", "b"], size=150, p=[0.3, 0.7])
GIVEN: dict[str, Any] = {"n_simulations": 199, "random_state": 0}
LOUD: dict[str, Any] = {"n_simulations": 199, "epsilon": 1e6, "random_state": 0}


def test_at_a_large_epsilon_statistics_are_those_of_scipy() -> None:
    first, second = X[LABELS == "a"], X[LABELS == "b"]
    sizes = first.size, second.size
    scale = first.size * second.size / X.size
    for given in ({}, {"sizes": sizes}):
        found = {
            kind: KolmogorovSmirnovTest(groups=["a", "b"], statistic=kind, **given, **LOUD).fit(X, LABELS)
            for kind in STATISTICS
        }
        assert found["ks"].statistic_ == pytest.approx(scale * stats.ks_2samp(first, second).statistic, abs=1e-3)
        usual = stats.cramervonmises_2samp(first, second).statistic
        assert found["cvm"].statistic_ ** 2 == pytest.approx(scale * usual, rel=0.01)
        assert found["kuiper"].statistic_ >= found["ks"].statistic_
    assert found["ks"].result_.sizes == sizes


def test_one_sample_at_a_large_epsilon_is_that_of_scipy() -> None:
    law = stats.norm(0.1, 1.2)
    found = {kind: GoodnessOfFitTest(distribution=law, statistic=kind, **LOUD).fit(X).statistic_ for kind in STATISTICS}
    assert found["ks"] == pytest.approx(X.size * stats.kstest(X, law.cdf).statistic, abs=1e-3)
    usual = stats.cramervonmises(X, law.cdf).statistic
    assert found["cvm"] == pytest.approx(math.sqrt(X.size * usual), abs=1e-3)
    values = np.sort(law.cdf(X))
    high, low = np.arange(1, 151) - 150 * values, np.arange(150) - 150 * values
    assert found["kuiper"] == pytest.approx(high.max() - low.min(), abs=1e-3)
    named = GoodnessOfFitTest(distribution="norm", args=(0.1, 1.2), **LOUD).fit(X)
    assert named.statistic_ == found["ks"] and "norm(0.1, 1.2)" in named.result_.null


@pytest.mark.parametrize("kind", STATISTICS)
@pytest.mark.parametrize("n", [3, 5, 6])
def test_no_row_moves_two_samples_further(kind: str, n: int) -> None:
    @cache
    def steps(labels: tuple[int, ...]) -> int:
        return two_sample_steps(kind, np.array([label == 0 for label in labels if label >= 0], dtype=bool), n)

    largest, inside = 0, 0
    for rest in itertools.product((0, 1, -1), repeat=n - 1):
        # A row at every place and with every label, beside the others. Labels of -1 are not declared.
        rows = {(i, label): steps((*rest[:i], label, *rest[i:])) for i in range(n) for label in (0, 1, -1)}
        largest = max(largest, max(rows.values()) - min(rows.values()))
        for label in (0, 1) if -1 not in rest else ():
            stays = [found for (_, own), found in rows.items() if own == label]
            first = (*rest, label).count(0)
            inside = max(inside, max(stays) - min(stays) - two_sample_sensitivity(kind, n, (first, n - first)))
    assert inside <= 0 and largest <= two_sample_sensitivity(kind, n, None)
    assert kind == "cvm" or largest == n - 1


@pytest.mark.parametrize("kind", STATISTICS)
@pytest.mark.parametrize(("n", "epsilon"), [(3, 3.0), (7, 30.0), (8, 100.0), (9, 1.0)])
def test_every_number_of_declared_rows_has_the_level(kind: str, n: int, epsilon: float) -> None:
    # All orders of all labels are counted. Six declared rows of seven, half of them in each group, exceed cutoffs of
    # seven rows by Cramer and von Mises more often: twenty of their orders have the largest statistic twice.
    noise = CountNoise("laplace", two_sample_sensitivity(kind, n, None) / epsilon)
    nulls = TwoSamples(kind, n, None).nulls(np.zeros(1), noise, 9999)
    levels = np.linspace(0.005, 0.1, 40)
    ends = np.array([cutoff(nulls, level) for level in levels])
    rng = np.random.default_rng(0)
    for m in range(1, n + 1):
        labels = np.array(list(itertools.product((False, True), repeat=m)))
        found = np.array([two_sample_steps(kind, row, n) for row in labels])
        for first in range(m + 1):
            drawn = np.resize(found[labels.sum(1) == first], 20_000)
            drawn = np.sort(drawn + noise.draw(rng, drawn.shape))
            rates = 1 - np.searchsorted(drawn, ends, "right") / drawn.size
            assert np.all(rates < levels + 4 * np.sqrt(levels / 9999 + levels / drawn.size))


def test_ties_are_put_in_the_given_order() -> None:
    values, codes = np.array([1.0, 0.0, 1.0, 0.0]), np.array([0, 1, 1, 0])
    assert order_labels(values, codes, np.array([0, 1, 2, 3])).tolist() == [False, True, True, False]
    # A row with an undeclared label is left out, and moves no other.
    assert order_labels(values, np.array([0, -1, 1, 0]), np.array([3, 2, 1, 0])).tolist() == [True, False, True]
    assert order_labels(values, codes, np.array([3, 2, 1, 0])).tolist() == [True, False, False, True]
    # All rows alike, sorted by group: a random order finds nothing.
    found = [
        ks_test(np.zeros(40), np.repeat([0, 1], 20), groups=[0, 1], n_simulations=199, random_state=seed)
        for seed in range(30)
    ]
    assert np.mean([one.pvalue <= 0.2 for one in found]) < 0.45


def test_pvalues_and_cutoffs_agree() -> None:
    noise = CountNoise("laplace", 500.0)
    for statistic, released in (
        (TwoSamples("kuiper", 400, None), [0.0]),
        (TwoSamples("ks", 400, (100, 300)), [0.0]),
        (TwoSamples("ks", 400, None, 45), [0.0, 45 * 130.0]),
        (OneSample("cvm", 50), [0.0]),
    ):
        nulls = statistic.nulls(np.array(released), noise, 999)
        end = cutoff(nulls, 0.05, statistic.slack)
        assert (
            distance_pvalue(nulls, end + 1e-6 * abs(end), statistic.slack)
            <= 0.05
            < distance_pvalue(nulls, end, statistic.slack)
        )
    assert cutoff(nulls, 1e-4) == math.inf


def test_sizes_are_released_where_that_helps() -> None:
    test = KolmogorovSmirnovTest(groups=["a", "b"], **GIVEN)
    assert test.plan(1000).stages[-1].size == 2 and test.plan(100).stages[-1].size == 1
    x, labels = np.random.default_rng(1).normal(size=2000), np.arange(2000) < 300
    found = KolmogorovSmirnovTest(groups=[True, False], **GIVEN).fit(x, labels).result_
    assert found.released_sizes is not None
    assert abs(found.released_sizes[0] - 300) < 8 * found.sizes_std and sum(found.released_sizes) == 2000


@pytest.mark.parametrize("kind", STATISTICS)
@pytest.mark.parametrize(("n", "epsilon", "share"), [(12, 20.0, 0.5), (60, 1.0, 0.4), (600, 1.0, 0.1)])
def test_the_level_holds(kind: str, n: int, epsilon: float, share: float) -> None:
    test = KolmogorovSmirnovTest(groups=[0, 1], statistic=kind, n_simulations=999, epsilon=epsilon)
    law = stats.poisson(2)
    assert test.power(n, law, law, fraction=share, level=0.1, n_datasets=300) < 0.1 + 3.2 * 0.0173


@pytest.mark.parametrize("kind", STATISTICS)
def test_the_level_of_one_sample_holds(kind: str) -> None:
    for law in (stats.norm(3, 2), stats.binom(3, 0.2)):
        test = GoodnessOfFitTest(distribution=law, statistic=kind, n_simulations=999)
        assert test.power(150, law, level=0.1, n_datasets=300) < 0.1 + 3.2 * 0.0173


def test_calls_say_what_estimators_say() -> None:
    given = {"statistic": "kuiper", **GIVEN}
    made = KolmogorovSmirnovTest(groups=["a", "b"], **given)
    assert ks_test(X, LABELS, groups=["a", "b"], **given) == made.fit(X, LABELS).result_
    one = GoodnessOfFitTest(distribution="norm", **given)
    assert goodness_of_fit(X, distribution="norm", **given) == one.fit(X).result_
    assert clone(one).fit(X).pvalue_ == one.pvalue_


def test_missing_entries_are_dropped_and_a_budget_is_charged_once() -> None:
    x = np.where(RNG.random(150) < 0.1, np.nan, X)
    budget = PrivacyBudget(3.0)
    test = KolmogorovSmirnovTest(groups=["a", "b"], missing="drop", n_simulations=199, budget=budget)
    assert test.fit(x, LABELS).n_rows_ < 150 and budget.spent.epsilon == pytest.approx(1.0)
    with pytest.raises(InvalidData, match="finite"):
        test.set_params(missing="error").fit(x, LABELS)
    assert budget.spent.epsilon == pytest.approx(1.0)


def test_a_kept_answer_knows_its_distribution(tmp_path: Any) -> None:
    budget = PrivacyBudget(9.0, ledger=tmp_path / "b.db").once("today")
    fit = {"n_simulations": 199, "budget": budget}
    first = GoodnessOfFitTest(distribution=stats.norm(0, 1), **fit).fit(X).statistic_
    assert GoodnessOfFitTest(distribution=stats.norm(0, 1), **fit).fit(X).statistic_ == first
    with pytest.raises(InvalidParameter, match="distribution"):
        GoodnessOfFitTest(distribution=stats.norm(0, 2), **fit).fit(X)


@pytest.mark.parametrize(
    ("options", "parameter"),
    [
        ({"distribution": None}, "distribution"),
        ({"distribution": "nrm"}, "distribution"),
        ({"distribution": "norm", "args": (0, -1)}, "distribution"),
        ({"distribution": "norm", "args": (1, 2, 3)}, "distribution"),
        ({"distribution": "norm", "args": 3}, "args"),
        ({"distribution": stats.norm(), "args": (1,)}, "args"),
        ({"distribution": stats.norm([0, 1])}, "distribution"),
        ({"distribution": X}, "distribution"),
        ({"distribution": "norm", "statistic": "ad"}, "statistic"),
    ],
)
def test_bad_parameters_are_refused(options: dict[str, Any], parameter: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        GoodnessOfFitTest(**options).fit(X)
    assert refused.value.parameter == parameter


def test_more_bad_parameters_are_refused() -> None:
    test = KolmogorovSmirnovTest(groups=["a", "b", "c"])
    for call in (
        lambda: test.fit(X, LABELS),
        lambda: KolmogorovSmirnovTest(groups=["a", "b"], sizes=(1, 2)).fit(X, LABELS),
        lambda: KolmogorovSmirnovTest(groups=[0, 1], sizes=(1, 2)).required_samples(stats.norm(), stats.norm(1)),
        lambda: KolmogorovSmirnovTest(groups=[0, 1]).power(50, stats.norm(), "norm"),
        lambda: ks_test(X),
        lambda: GoodnessOfFitTest(distribution="norm", n_simulations=99).required_samples(
            stats.norm(), n_datasets=1, power=0.999
        ),
    ):
        with pytest.raises(InvalidParameter):
            call()


def test_a_step_of_one_sample_is_a_part_of_a_row() -> None:
    assert OneSample("ks", 10).sensitivity == GRAIN and OneSample("ks", 10).spacing * GRAIN == 1


@pytest.mark.parametrize("distribution", [stats.zipf(2.0), stats.logser(0.6), stats.betanbinom(5, 9.3, 1)])
def test_a_distribution_whose_function_is_a_long_sum_is_refused(distribution: Any) -> None:
    # Its memory and its time follow a row, and scipy's error shows it.
    with pytest.raises(InvalidParameter) as error:
        GoodnessOfFitTest(distribution=distribution).plan(100)
    assert error.value.parameter == "distribution"


def test_a_distribution_that_fails_for_an_entry_shows_no_entry_and_costs_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(self: Any, x: Any, *args: Any) -> Any:
        if np.any(np.asarray(x) > 12345):
            raise ValueError(f"no probability of {np.max(x)}")
        return np.zeros(np.shape(x))

    budget = PrivacyBudget(epsilon=2.0)
    test = GoodnessOfFitTest(distribution="norm", n_simulations=99, budget=budget)
    monkeypatch.setattr(type(stats.norm), "cdf", fail)
    with pytest.raises(InvalidData) as error:
        test.fit(np.array([1.0, 2.0, 67890.0]))
    assert "67890" not in str(error.value)
    assert budget.spent.epsilon == 0.0


def test_a_row_outside_the_support_moves_no_other() -> None:
    # Where all rows are inside, scipy's last digit of this probability is another one, and with it the integer.
    rows = np.full((1000, 1), 1.6405466727469749)
    outside = np.where(np.arange(1000)[:, None] == 0, -1.0, rows)
    test = GoodnessOfFitTest(distribution=stats.kappa3(1.0), n_simulations=99)
    assert not check_sensitivity(test, rows, outside).violated


@pytest.mark.parametrize("law", [stats.kappa3(1.0, loc=0.3, scale=1.7), stats.truncpareto(-2.0, 5.0)])
def test_a_row_moves_no_other_that_is_alone_in_the_support(law: Any) -> None:
    # The last digit of one power is another one than among several in 9 of 200 rows of the first distribution.
    rows = law.rvs(size=200, random_state=0)
    together = find_probabilities(law, rows).upper
    alone = [find_probabilities(law, np.array([row, -1e6])).upper[0] for row in rows]
    assert np.array_equal(alone, together)


@pytest.mark.parametrize(
    "law",
    [
        *(stats.kappa3(1.0), stats.truncpareto(2.0, 5.3), stats.pareto(2.6), stats.burr(10.5, 4.3)),
        *(stats.weibull_min(1.8), stats.beta(2.3, 0.6), stats.gamma(2.0), stats.norm(), stats.t(2.7)),
        *(stats.poisson(0.6), stats.binom(5, 0.4), stats.nbinom(5, 0.5)),
    ],
    ids=lambda law: law.dist.name,
)
def test_one_row_moves_no_other_probability(law: Any) -> None:
    rows = np.array(law.rvs(size=200, random_state=0), dtype=np.float64)
    first = find_probabilities(law, rows)
    with np.errstate(all="ignore"):
        _check_others(law, rows, first)


def _check_others(law: Any, rows: Any, first: Any) -> None:
    for other in (math.inf, -math.inf, math.nan, 1e300, -1e6, 0.0, 0.5):
        rows[7] = other
        for one, two in zip(first, find_probabilities(law, rows), strict=True):
            assert one is None or np.array_equal(np.delete(one, 7), np.delete(two, 7))
