"""GroupQuantiles: what users do with it, its coverage, and what it refuses."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpstats.errors import BudgetExceeded, DPStatsError, InvalidData, InvalidParameter
from dpstats.groups import GroupQuantiles, group_points
from dpstats.privacy import PrivacyBudget

RNG = np.random.default_rng(0)
WARD = RNG.choice(["A", "B", "C"], size=6000)
DAYS = RNG.lognormal(np.where(WARD == "A", 1.5, 1.0))
OPTIONS = {"groups": ["A", "B"], "bounds": (0, 365), "random_state": 0}


def fitted(**given: object) -> GroupQuantiles:
    return GroupQuantiles(**{**OPTIONS, **given}).fit(DAYS, WARD)


@pytest.mark.parametrize("q", [0.25, 0.5, 0.9])
@pytest.mark.parametrize("step", [None, 0.5])
def test_with_little_noise_estimates_are_the_quantiles_of_the_groups(q: float, step: float | None) -> None:
    model = fitted(q=q, epsilon=1e4, step=step)
    expected = [np.quantile(DAYS[ward == WARD], q) for ward in ("A", "B")]
    # Within a few rows of the quantile, or half a step.
    off = 0.0 if step is None else step / 2
    assert model.quantile_ == pytest.approx(expected, abs=off + 0.05)
    assert np.all((model.low_ - off < expected) & (model.high_ + off > expected))
    assert model.counts_.tolist() == [np.count_nonzero(ward == WARD) for ward in ("A", "B")]


def coverage(
    laws: list[stats.rv_frozen], sizes: tuple[int, ...], q: float, epsilon: float, step: float | None = None
) -> tuple[np.ndarray, float]:
    """Return how often intervals cover, of each group and of the first difference."""
    rng = np.random.default_rng(5)
    truth, labels = np.array([one.ppf(q) for one in laws]), np.repeat(np.arange(len(laws)), sizes)
    each, both = np.zeros(len(laws)), 0
    for _ in range(REPEATS):
        x = np.concatenate([one.rvs(n, random_state=rng) for one, n in zip(laws, sizes, strict=True)])
        model = GroupQuantiles(
            q=q, groups=range(len(laws)), bounds=(0, 1000), step=step, epsilon=epsilon, random_state=rng
        ).fit(x, labels)
        each += (model.low_ <= truth) & (truth <= model.high_)
        low, high = model.difference(0, 1).confidence_interval()
        both += bool(low[0] <= truth[0] - truth[1] <= high[0])
    return each / REPEATS, both / REPEATS


REPEATS = 200
LOGNORMAL, EXPONENTIAL = stats.lognorm(1), stats.expon(scale=10)


@pytest.mark.parametrize(
    ("laws", "sizes", "q", "epsilon", "step"),
    [
        ([LOGNORMAL, EXPONENTIAL], (300, 1500), 0.5, 1.0, None),
        ([LOGNORMAL, EXPONENTIAL], (2000, 2000), 0.9, 1.0, None),
        ([stats.poisson(4), stats.poisson(3)], (500, 100), 0.5, 0.5, 1.0),
        ([LOGNORMAL, LOGNORMAL], (4000, 0), 0.5, 0.1, None),
        ([EXPONENTIAL, EXPONENTIAL], (11, 8), 0.5, 1e3, None),
    ],
)
def test_intervals_cover(
    laws: list[stats.rv_frozen], sizes: tuple[int, ...], q: float, epsilon: float, step: float | None
) -> None:
    # Of 0.95, 200 runs show less than 0.88 with probability 5e-5; all right ends of half the tail cover 0.9 and less.
    each, both = coverage(laws, sizes, q, epsilon, step)
    assert each.min() >= 0.88 and both >= 0.88


def test_intervals_without_the_error_of_the_choice_would_not_cover(monkeypatch: pytest.MonkeyPatch) -> None:
    from dpstats.groups import group_points as quantile_plan
    from dpstats.quantiles.grid import Law

    exact = Law(-1, np.array([0.0, 1.0, 0.0]))
    monkeypatch.setattr(quantile_plan, "group_rank_errors", lambda size, scale: exact)
    quantile_plan._aims.cache_clear()
    each, _ = coverage([LOGNORMAL, EXPONENTIAL], (4000, 4000), 0.5, 0.1)
    quantile_plan._aims.cache_clear()
    assert each.max() < 0.88


def test_a_difference_combines_both_intervals() -> None:
    model = fitted()
    found = model.difference("A", "B")
    (a, b), (low_a, low_b), (high_a, high_b) = model.quantile_, model.low_, model.high_
    low, high = found.confidence_interval()
    assert found.estimate[0] == a - b and found.pairs == (("A", "B"),)
    assert low[0] == pytest.approx(a - b - np.hypot(a - low_a, high_b - b))
    assert high[0] == pytest.approx(a - b + np.hypot(high_a - a, b - low_b))
    back_low, back_high = model.difference("B", "A").confidence_interval()
    assert (back_low[0], back_high[0]) == pytest.approx((-high[0], -low[0]))
    assert "difference of the populations' medians" in found.estimand and "A - B" in str(found.summary())
    assert pickle.loads(pickle.dumps(found)).to_dict() == found.to_dict()
    with pytest.raises(DPStatsError, match="there are no p-values"):
        found.test()
    with pytest.raises(InvalidParameter, match="b must"):
        model.difference("A", "A")
    with pytest.raises(InvalidParameter, match=r"b must"):
        model.difference("A", "D")


def test_a_group_with_too_few_rows_has_the_bounds() -> None:
    model = fitted(groups=["A", "nobody"])
    assert np.isfinite(model.quantile_[0]) and np.isnan(model.quantile_[1])
    assert (model.low_[1], model.high_[1]) == (0.0, 365.0)
    low, high = model.difference("A", "nobody").confidence_interval()
    assert (low[0], high[0]) == (model.low_[0] - 365, model.high_[0])
    shown = " ".join(str(model.summary()).split())
    assert f"Too few rows for an estimate: nobody. A group needs about {model.plan_.least_rows:,} rows" in shown


def test_a_group_with_some_of_its_quantiles_is_not_said_to_have_none() -> None:
    ward = np.where(np.arange(WARD.size) < 300, "rare", WARD)
    model = GroupQuantiles([0.5, 0.95], groups=["A", "rare"], bounds=(0, 365), epsilon=2.0, random_state=0)
    shown = model.fit(DAYS, ward).quantile_[1]
    assert np.isfinite(shown[0]) and np.isnan(shown[1])
    note = f"Too few rows for some quantiles: rare. A group needs about {model.plan_.least_rows:,} rows for all of them"
    assert any(each.startswith(note) for each in model.summary().notes)


def test_without_intervals_only_points_are_chosen() -> None:
    model = fitted(confidence_level=None)
    assert np.all(np.isfinite(model.quantile_)) and np.all(np.isnan(model.low_))
    with pytest.raises(DPStatsError, match="there are no intervals"):
        model.difference("A", "B").confidence_interval()
    assert "independent rows" not in str(model.summary())


def test_results_are_labeled() -> None:
    frame = pd.DataFrame({"ward": WARD, "days": DAYS})
    model = GroupQuantiles(**OPTIONS, by="ward").fit(frame)
    assert model.quantile_.tolist() == fitted().quantile_.tolist()
    found = model.to_frame()
    assert found["group"].tolist() == ["A", "B"] and "days" in str(model.summary())
    assert model.estimates().names == ("A", "B")


def test_rows_without_a_value_count_nowhere() -> None:
    x = DAYS.copy()
    x[:500] = np.nan
    with pytest.raises(InvalidData, match="contains NaN"):
        GroupQuantiles(**OPTIONS).fit(x, WARD)
    dropped = GroupQuantiles(**OPTIONS, missing="drop").fit(x, WARD)
    without = GroupQuantiles(**OPTIONS, missing="drop").fit(np.where(np.arange(6000) < 500, np.inf, DAYS), WARD)
    assert dropped.quantile_.tolist() == without.quantile_.tolist()
    counted = np.count_nonzero(WARD[500:] == "A")
    assert abs(dropped.counts_[0] - counted) < 10 * dropped.counts_noise_std_
    assert "observed" in dropped.estimand_


def test_bad_parameters_are_refused_before_the_charge() -> None:
    budget = PrivacyBudget(1.0, 0.0)
    for options, words in (
        ({"q": 1.0}, "q must"),
        ({"q": [0.5, 0.5]}, "q must"),
        ({"q": []}, "q must"),
        ({"groups": None}, "groups must"),
        ({"groups": ["A", "A"]}, "groups"),
        ({"bounds": None}, "bounds must"),
        ({"epsilon": 0.0}, "epsilon must"),
        ({"confidence_level": 2.0}, "confidence_level must"),
        ({"missing": "center"}, "missing must"),
    ):
        with pytest.raises(InvalidParameter, match=words):
            GroupQuantiles(**{**OPTIONS, "random_state": None, "budget": budget, **options}).fit(DAYS, WARD)
    with pytest.raises(InvalidData, match="X must"):
        GroupQuantiles(**{**OPTIONS, "random_state": None, "budget": budget}).fit(np.column_stack([DAYS, DAYS]), WARD)
    assert budget.remaining.epsilon == 1.0
    GroupQuantiles(**{**OPTIONS, "random_state": None, "budget": budget}).fit(DAYS, WARD)
    with pytest.raises(BudgetExceeded):
        GroupQuantiles(**{**OPTIONS, "random_state": None, "budget": budget}).fit(DAYS, WARD)


@pytest.mark.parametrize("each", [1, 3])
def test_points_are_chosen_for_two_rows_at_least_and_for_all_rows_at_most(
    each: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = GroupQuantiles(**OPTIONS).plan(6000)
    anchors: list[int] = []

    def windows(own: object, ranks: object, anchor: int, steps: int, unit: int) -> None:
        assert unit == each and steps == plan.grid.steps
        anchors.append(anchor)

    class Chooses:
        def choose(self, name: str, parts: object) -> None:
            assert name == plan.choice.name

    monkeypatch.setattr(group_points, "group_windows", windows)
    counts = np.array([-5.0, 0.4, 2 * each - 0.6, 2 * each + 0.6, 6000.4, 1e9])
    group_points.choose_group_points([None] * 6, counts, plan, Chooses(), each)  # type: ignore[arg-type]
    assert anchors == [2 * each] * 3 + [2 * each + 1, 6000, 6000]


@pytest.mark.parametrize(("q", "name"), [(0.25, "q = 0.25"), (0.5, "median"), (0.75, "q = 0.75")])
def test_estimates_are_named_by_their_fraction(q: float, name: str) -> None:
    assert name in str(fitted(q=q).estimates().summary())


QUARTILES = (0.25, 0.5, 0.75)


def test_several_quantiles_are_one_release() -> None:
    model = fitted(q=[0.75, 0.25, 0.5], epsilon=1e4)
    expected = np.array([np.quantile(DAYS[ward == WARD], QUARTILES) for ward in ("A", "B")])
    assert model.plan_.q == QUARTILES and model.quantile_ == pytest.approx(expected, abs=0.06)
    assert (model.low_ < expected).all() and (expected < model.high_).all()
    assert model.plan_.choice.size == 2 * model.plan_.each and len(model.plan_.stages) == 2
    frame = model.to_frame()
    assert frame["q"].tolist() == [*QUARTILES] * 2 and frame["group"].tolist() == ["A"] * 3 + ["B"] * 3
    assert list(frame.index[:1]) == ["A, q = 0.25"]
    one = fitted(q=0.25, epsilon=1e4)
    assert one.quantile_ == pytest.approx(model.quantile_[:, 0], abs=0.05) and one.quantile_.shape == (2,)


def test_differences_and_ratios_of_several_quantiles_and_pairs() -> None:
    model = fitted(q=QUARTILES, groups=["A", "B", "C"], epsilon=10.0)
    difference, ratio = model.difference("A", "B"), model.ratio("A", "B")
    assert difference.estimate == pytest.approx(model.quantile_[0] - model.quantile_[1])
    assert ratio.estimate == pytest.approx(model.quantile_[0] / model.quantile_[1])
    low, high = ratio.confidence_interval()
    assert (low < np.exp(0.5)).all() and (np.exp(0.5) < high).all()
    pairs = model.pairwise()
    assert pairs.estimate.shape == (9,) and pairs.estimate[:3] == pytest.approx(difference.estimate)
    against = model.pairwise("C")
    assert [*dict.fromkeys(against.to_frame()["first"])] == ["A", "B"] and against.estimate.shape == (6,)
    with pytest.raises(InvalidParameter, match="bounds must"):
        fitted(bounds=(-1, 365)).ratio("A", "B")
    nothing = GroupQuantiles(**OPTIONS).fit(DAYS[:20], WARD[:20]).ratio("A", "B").confidence_interval()
    assert (nothing.low, nothing.high) == (0.0, np.inf)


def test_three_quantiles_are_drawn_as_boxes() -> None:
    ax = fitted(q=QUARTILES, groups=["A", "B", "nobody"]).plot()
    assert len(ax.patches) == 2 and ax.get_xlabel() == "x"
    assert [label.get_text() for label in ax.get_yticklabels()] == ["A", "B", "nobody\n(too few rows)"]
    whiskers = fitted(q=[0.05, *QUARTILES, 0.95], epsilon=5.0).plot()
    assert len(whiskers.patches) == 2 and len(whiskers.collections) > len(ax.collections)
    assert fitted().plot().get_xlabel() == "median"


@pytest.mark.parametrize("law", [LOGNORMAL, EXPONENTIAL])
def test_intervals_of_quartiles_cover(law: stats.rv_frozen) -> None:
    rng, labels, truth = np.random.default_rng(2), np.repeat([0, 1], [3000, 600]), law.ppf(QUARTILES)
    covered = np.zeros((2, 3))
    for _ in range(REPEATS):
        x = law.rvs(labels.size, random_state=rng)
        model = GroupQuantiles(QUARTILES, groups=[0, 1], bounds=(0, 1000), epsilon=1.0, random_state=rng)
        model.fit(x, labels)
        covered += (model.low_ <= truth) & (truth <= model.high_)
    # As above: of 0.95, 200 runs show less than 0.88 with probability 5e-5.
    assert covered.min() / REPEATS >= 0.88
