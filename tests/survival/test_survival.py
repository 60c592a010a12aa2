"""The estimator: exact noise, coverage, reports, and what it says where it fails."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from statsmodels.duration.survfunc import SurvfuncRight, survdiff

from dpstats.errors import InvalidParameter
from dpstats.privacy import PrivacyBudget
from dpstats.survival import LogRankTest, PrivateSurvival
from dpstats.survival.curves import critical_values, limits, monotone
from tests.survival.test_table import fitted


def subjects(n: int, seed: int = 0, mean: float = 3.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    times, left = rng.exponential(mean, n), rng.exponential(6.0, n)
    return np.minimum(times, left), times <= left


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_exact_noise_is_charged_once_and_gives_the_curve(delta: float) -> None:
    budget = PrivacyBudget(1.0, delta)
    model = PrivateSurvival(horizon=4.0, bins=16, delta=delta, budget=budget).fit(*subjects(20_000))
    assert budget.spent.epsilon == pytest.approx(1.0) and not model.privacy_.simulated
    assert len(budget.history()) == 1 and len(model.plan_.stages) == 1
    # Errors of the curve are below 0.0035 each; 0.025 is more than six of them.
    assert np.abs(model.survival_ - np.exp(-model.edges_ / 3)).max() < 0.025
    assert "simulated" not in str(model.summary()).lower()


@pytest.mark.parametrize(("n", "epsilon", "delta"), [(5000, 1.0, 0.0), (1000, 1.0, 0.0), (2000, 0.5, 1e-6)])
def test_intervals_cover(n: int, epsilon: float, delta: float) -> None:
    repeats = 200
    plan = PrivateSurvival(horizon=4.0, bins=16, epsilon=epsilon, delta=delta).plan(n)
    rng = np.random.default_rng(1)
    exact = []
    for seed in range(repeats):
        times, events = subjects(n, seed)
        totals = plan.cells.totals(times, events.astype(np.int64), np.zeros(n, dtype=np.int64))
        exact.append(plan.levels.steps(totals) * np.asarray(plan.table_stage.spacing))
    scale = np.asarray(plan.table_stage.noise_scale)
    noise = rng.normal(size=(repeats, scale.size)) if delta else rng.laplace(size=(repeats, scale.size))
    cells, positions = plan.estimate_cells(np.array(exact) + noise * scale)
    curves = plan.curves(cells[:, 0], None if positions is None else positions[:, 0])
    pointwise, band = critical_values(curves, plan.cell_noise[:1000], 0.95)
    truth = np.exp(-np.asarray(plan.cells.edges)[1:] / 3)
    low, high = limits(curves, pointwise)
    assert ((low <= truth) & (truth <= high)).mean() > 0.92
    low, high = monotone(*limits(curves, band))
    # 200 datasets: a band that covers in 95% of them is below 0.89 in fewer than 5e-4 of runs.
    assert ((low <= truth) & (truth <= high)).all(axis=1).mean() > 0.89
    # Greenwood's variance alone, without the noise, covers less.
    naive = np.abs(curves.survival - truth) <= 1.96 * np.sqrt(curves.sampling_variance)
    if n == 1000:
        assert naive.mean() < 0.93


def test_methods_have_the_shape_of_the_groups() -> None:
    model = fitted()
    assert model.survival_.shape == (2, 9) and model.usable_until_.tolist() == [4.0, 4.0]
    assert model.survival(1.0).shape == (2,) and model.survival([1.0, 2.0], group=1).shape == (2,)
    assert isinstance(model.survival(1.0, group=0), float) and isinstance(model.cumulative_hazard(1.0, 0), float)
    assert model.confidence_interval(t=[1.0, 2.0]).low.shape == (2, 2)
    assert model.band().low.shape == (2, 9) and model.band(group=0).simultaneous
    assert isinstance(model.confidence_interval(t=1.0, group=0).low, float)
    assert len(model.life_table()) == 16 and len(model.life_table(1)) == 8
    assert model.at_risk_.shape == (2, 8) and model.at_risk_noise_std_.shape == (8,)


@pytest.mark.parametrize("discrete", [False, True])
def test_estimates_are_the_curves_with_their_limits(discrete: bool) -> None:
    model = PrivateSurvival(horizon=4.0, bins=8, groups=[0, 1], discrete=discrete, random_state=0)
    times, events = subjects(600)
    model.fit(times, events, np.arange(600) % 2)
    found = model.estimates()
    assert found.names[:2] == ("0, 0.5", "0, 1") and found.labels["group"][8] == "1"
    np.testing.assert_array_equal(found.estimate, model.survival_[:, 1:])
    low, high = model.confidence_interval()
    table = model.life_table()
    np.testing.assert_allclose([table["low"], table["high"]], [low.ravel(), high.ravel()])
    # Between two edges the curve is between its limits at both.
    wide = model.confidence_interval(t=[0.7, 1.0], group=1)
    assert wide.low[0] == low[1, 0 if discrete else 1] and wide.high[0] == high[1, 0]
    assert wide.low[1] == low[1, 1] and wide.high[1] == high[1, 1]
    together = model.confidence_interval(simultaneous=True)
    band = model.band()
    assert (together.low <= band.low[:, 1:] + 0.01).all() and (together.high >= band.high[:, 1:] - 0.01).all()
    test = model.test(0.5, "less", t=4.0, group=1)
    assert 0 <= test.pvalue < 0.05 and test.confidence_interval().high < 0.5


def test_beyond_the_usable_range_nothing_is_tested() -> None:
    times, events = subjects(300)
    model = PrivateSurvival(horizon=30.0, bins=15, random_state=0).fit(times, events)
    found = model.estimates()
    assert np.isnan(found.estimate[-1]) and np.isnan(found.error[-1])
    high = found.confidence_interval().high[-1]
    assert model.test(0.0, t=30.0).pvalue == model.test(high / 2, t=30.0).pvalue == 1


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m: m.survival(5.0), "t must"),
        (lambda m: m.survival(-1.0), "t must"),
        (lambda m: m.survival(np.nan), "t must"),
        (lambda m: m.survival(1.0, group=7), "group must"),
        (lambda m: m.confidence_interval(0, t=1.0), "confidence_level"),
        (lambda m: m.quantile(1.0), "q must"),
        (lambda m: m.rmst(9.0), "until must"),
        (lambda m: m.difference(0, 0, 1.0), "b must"),
        (lambda m: m.rmst_difference(0, None), "b must"),
        (lambda m: m.cumulative_incidence(2), "cause must"),
    ],
)
def test_questions_without_an_answer_are_refused(call: Any, words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        call(fitted())
    with pytest.raises(InvalidParameter, match="there are none"):
        PrivateSurvival(horizon=4.0, random_state=0).fit(*subjects(50)).survival(1.0, group=1)


def test_competing_causes_add_up() -> None:
    times, events = subjects(5000)
    cause = events * (1 + np.random.default_rng(1).integers(2, size=5000))
    model = PrivateSurvival(horizon=4.0, bins=8, causes=[1, 2], random_state=0).fit(times, cause)
    whole = model.cumulative_incidence(1) + model.cumulative_incidence(2) + model.survival_
    assert np.abs(whole - 1).max() < 0.02
    for code in (1, 2):
        low, high = model.incidence_interval(code)
        truth = (1 - np.exp(-model.edges_ / 3)) / 2
        assert ((low <= truth) & (truth <= high)).mean() > 0.8
    assert isinstance(model.cumulative_incidence(1, 2.0), float)


def test_a_group_that_nobody_is_in_has_the_widest_interval() -> None:
    times, events = subjects(2000)
    model = PrivateSurvival(horizon=4.0, groups=["here", "nobody"], random_state=0)
    model.fit(times, events, ["here"] * 2000)
    assert model.usable_until_[1] == 0 and np.isnan(model.survival(1.0, "nobody"))
    assert tuple(model.confidence_interval(t=1.0, group="nobody")) == (0.0, 1.0)
    median = model.median("nobody")
    assert (median.low, median.high) == (0.0, np.inf)
    bounds = model.rmst(group="nobody").confidence_interval()
    assert (bounds.low, bounds.high) == (0.0, 4.0) and np.isnan(model.rmst(group="nobody").estimate)
    compared = model.difference("here", "nobody", 1.0)
    assert np.isnan(compared.estimate) and compared.low < 0 < compared.high and compared.pvalue == 1
    assert model.rmst_difference("here", "nobody").low < 0
    assert "is not distinguishable from its noise" in str(model.summary())


def test_the_summary_says_where_it_fails() -> None:
    few = PrivateSurvival(horizon=4.0, bins=8, epsilon=5.0, random_state=0).fit(np.full(3000, 9.0), np.ones(3000))
    assert "fewer than five events" in str(few.summary())
    early = PrivateSurvival(horizon=40.0, bins=20, random_state=0).fit(*subjects(500))
    assert "is usable to" in str(early.summary()) and early.usable_until_ < 40
    rng = np.random.default_rng(0)
    steep = PrivateSurvival(horizon=8.0, bins=4, random_state=0)
    steep.fit(20 * rng.weibull(0.4, 200_000), np.ones(200_000))
    # The positions of the events give the area inside a bin, whatever its shape. A part of a bin needs the shape.
    assert "The width of the bins may change the restricted mean" not in str(steep.summary())
    truth = np.trapezoid(np.exp(-((np.linspace(0, 8, 800_001) / 20) ** 0.4)), dx=8 / 800_000)
    low, high = steep.rmst().confidence_interval(0.99)
    assert low < truth < high
    assert any("The width of the bins may change" in note for note in steep.rmst(0.5).notes)
    assert "Censoring is assumed to be independent" in str(early.summary())


@pytest.mark.parametrize("n", [1, 2, 10])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 1e5])
def test_tiny_data_give_true_statements(n: int, epsilon: float) -> None:
    model = PrivateSurvival(horizon=4.0, bins=8, epsilon=epsilon, random_state=0).fit(*subjects(n))
    low, high = model.band()
    assert ((low >= 0) & (low <= high) & (high <= 1)).all()
    assert model.median().low <= model.median().high
    assert "Private survival" in str(model.summary())


def test_discrete_times_are_steps() -> None:
    times = np.random.default_rng(0).geometric(0.1, 5000).astype(float)
    model = PrivateSurvival(edges=range(1, 13), discrete=True, epsilon=5.0, random_state=0)
    model.fit(times, np.ones(5000))
    assert model.survival([3.0, 3.9]).tolist() == [model.survival_[3]] * 2
    assert model.median().estimate == 7.0  # 0.9^7 = 0.478
    truth = sum(0.9**j for j in range(12))
    assert model.rmst().low < truth < model.rmst().high


def visits(seed: int, n: int = 2000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows with the event at whole times, which drop out at any time, and sooner in the first group."""
    rng = np.random.default_rng(seed)
    arm, times = rng.integers(2, size=n), np.ceil(rng.exponential(2.0, n))
    left = rng.uniform(0, np.where(arm == 0, 3.0, 10.0))
    return np.minimum(times, left), times <= left, arm


def test_discrete_curves_are_kaplan_meier_where_rows_drop_out_between_edges() -> None:
    times, events, _ = visits(0)
    model = PrivateSurvival(horizon=5.0, bins=5, discrete=True, epsilon=1e6, random_state=0).fit(times, events)
    known = [
        np.prod([1 - (events & (times == j)).sum() / (times >= j).sum() for j in range(1, t + 1)]) for t in range(6)
    ]
    assert model.survival_ == pytest.approx(known, abs=1e-4)
    assert "spread smoothly" not in str(model.summary())
    shared = PrivateSurvival(horizon=5.0, bins=5, epsilon=1e6, random_state=0).fit(times, events)
    # Positions show that events are at the end of each bin. Evenly spread ones would miss by 0.03 at time 3.
    assert shared.survival_ == pytest.approx(known, abs=0.02)
    assert "spread smoothly" in str(shared.summary()) and "near one end of" in str(shared.summary())
    few = PrivateSurvival(horizon=5.0, bins=5, epsilon=0.1, random_state=0).fit(times, events)
    assert few.plan_.cells.position_share == 0 and "near one end" not in str(few.summary())


def from_zero(n: int = 3000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows with events and censored times at 0, 1, 2, ..., and a group."""
    rng = np.random.default_rng(3)
    arm = rng.integers(2, size=n)
    times, left = rng.geometric(np.where(arm == 0, 0.15, 0.2)) - 1, rng.integers(0, 12, n)
    return np.minimum(times, left).astype(float), times <= left, arm


def test_discrete_curves_from_0_are_kaplan_meier_with_events_at_0() -> None:
    times, events, arm = from_zero()
    given: dict[str, Any] = {"edges": range(9), "discrete": True, "epsilon": 1e6, "random_state": 0}
    model = PrivateSurvival(**given).fit(times, events)
    steps = [1 - (events & (times == j)).sum() / (times >= j).sum() for j in range(9)]
    known, theirs = np.cumprod(steps), SurvfuncRight(times, events.astype(int))
    assert theirs.surv_prob[:9] == pytest.approx(known) and theirs.surv_times[0] == 0
    assert model.edges_.tolist() == list(range(9)) and model.survival_ == pytest.approx(known, abs=1e-4)
    assert model.survival([0.0, 0.5, 1.0]) == pytest.approx(known[[0, 0, 1]], abs=1e-4)
    assert model.median().estimate == np.flatnonzero(known <= 0.5)[0]
    assert model.quantile(1e-3).estimate == 0  # more than that at time 0
    assert model.rmst(4.5).estimate == pytest.approx(known[:4].sum() + known[4] / 2, abs=1e-4)
    # The error of a proportion, at 0.
    low, high = model.estimates(0.0).confidence_interval()
    assert high - low == pytest.approx(2 * 1.96 * np.sqrt(known[0] * (1 - known[0]) / 3000), rel=0.01)
    assert (model.band().low <= known).all() and (known <= model.band().high).all()
    assert model.band().low.shape == model.confidence_interval().low.shape == (9,)
    first = model.life_table().iloc[0]
    assert (first["start"], first["end"]) == (0, 0) and first["at_risk"] == pytest.approx(3000, abs=0.01)
    assert first["events"] == pytest.approx((events & (times == 0)).sum(), abs=0.01)
    late = PrivateSurvival(**{**given, "edges": range(1, 9)}).fit(times, events)
    assert late.survival_[0] == 1 and abs(late.survival_[1] - known[1]) > 0.01, "another estimate"

    codes = np.where(events, 1 + (np.arange(3000) % 3 == 0), 0)
    two = PrivateSurvival(**given, groups=[0, 1], causes=[1, 2]).fit(times, codes, arm)
    whole = two.cumulative_incidence(1) + two.cumulative_incidence(2) + two.survival_
    np.testing.assert_allclose(whole, 1, atol=1e-4)
    shares = [((codes == 1) & (times == 0) & (arm == group)).sum() / (arm == group).sum() for group in (0, 1)]
    assert two.cumulative_incidence(1, 0.0) == pytest.approx(shares, abs=1e-4)
    assert two.difference(0, 1, 0).estimate == pytest.approx(np.subtract(*two.survival(0.0)))
    # Events of all bins count in the tests, with those at 0.
    expected = survdiff(np.minimum(times, 9), events & (times < 9), arm)[1]
    assert two.log_rank().pvalue == pytest.approx(expected, rel=0.01)
    test = LogRankTest(groups=[0, 1], **given).fit(times, events, arm)
    assert test.pvalue_ == pytest.approx(expected, rel=0.01)


def test_discrete_tests_keep_their_level_where_rows_drop_out_between_edges() -> None:
    given = {"horizon": 5.0, "bins": 5, "groups": [0, 1], "epsilon": 5.0}
    pvalues = [
        PrivateSurvival(**given, discrete=True, random_state=seed).fit(*visits(seed)).log_rank().pvalue
        for seed in range(40)
    ]
    # At a level of 0.05, P(8 or more of 40) is below 0.001.
    assert sum(pvalue < 0.05 for pvalue in pvalues) < 8
    smooth = PrivateSurvival(**given, random_state=0).fit(*visits(0)).log_rank()
    assert "spread smoothly" in str(smooth.summary())


def test_a_fit_can_be_copied_drawn_and_written(tmp_path: Path) -> None:
    model = fitted()
    again = pickle.loads(pickle.dumps(model))
    assert str(again.summary()) == str(model.summary())
    assert "survival" in model.to_html(tmp_path / "page.html").read_text().lower()
    axis = model.plot(group=1)
    assert len(axis.figure.axes) == 2
    assert fitted(True).plot(axis) is axis


def test_a_mean_whose_end_few_rows_reach_says_so() -> None:
    rng = np.random.default_rng(0)
    times, left = rng.exponential(size=3000), rng.exponential(2.0, size=3000)
    few = times[:600], left[:600]
    for (time, censored), until, said in (((times, left), 1.0, False), (few, 2.0, True)):
        model = PrivateSurvival(horizon=2.0, bins=10, epsilon=0.15 if said else 1.0, random_state=1)
        model.fit(np.minimum(time, censored), time <= censored)
        found = model.rmst(until=until)
        if np.isfinite(np.asarray(found.estimate)).all():
            assert any("may cover less than they state. Give" in note for note in found.notes) is said
        elif not said:
            raise AssertionError("the curve reaches this time")


def test_zero_has_no_sign() -> None:
    rng = np.random.default_rng(0)
    times, events, labels = rng.exponential(size=300), rng.random(300) < 0.5, rng.choice(["a", "b"], 300)
    given: dict[str, Any] = {"horizon": 1.0, "bins": 2, "epsilon": 8.0, "groups": ["a", "b", "c"]}
    rows = []
    for seed in range(10):
        model = PrivateSurvival(**given, random_state=seed).fit(times, events, labels)
        rows += [*model.summary().rows, *model.log_rank().summary().rows]
        assert not np.signbit(model.cumulative_hazard(0.0, group="a"))
    assert not any(cell == "-0" for row in rows for cell in row)
