"""Plans of statistics: blocks, costs, and widths that are known before any row is read."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.privacy import compose
from dpstats.privacy.stages import Choice, JointStage, Shuffle, Stage
from dpstats.statistic import PrivateStatistic
from dpstats.statistic.plan import LEAST, RECOMMENDED


@pytest.mark.parametrize(
    ("n", "epsilon", "delta", "outputs"),
    [(2000, 1.0, 0.0, 1), (20_000, 0.2, 0.0, 1), (100_000, 0.5, 1e-6, 4), (50_000, 1.0, 0.0, 3), (3000, 1e3, 0.0, 1)],
)
def test_the_stages_cost_what_was_asked(n: int, epsilon: float, delta: float, outputs: int) -> None:
    plan = PrivateStatistic(np.mean, epsilon=epsilon, delta=delta, n_outputs=outputs).plan(n, 3)
    total = compose(plan.events, delta)
    assert 0.95 * epsilon < total.epsilon <= epsilon
    kinds = [type(stage) for stage in plan.stages]
    assert kinds[:-1] == [Shuffle, *[Choice] * outputs] and kinds[-1] in (Stage, JointStage)


def test_gaussian_noise_is_taken_where_it_is_less() -> None:
    pure = PrivateStatistic(np.mean, n_outputs=12).plan(100_000, 1)
    mixed = PrivateStatistic(np.mean, n_outputs=12, delta=1e-6).plan(100_000, 1)
    assert pure.sums_noise.law == "laplace" and mixed.sums_noise.law == "gaussian"
    assert mixed.planned_width < pure.planned_width


@pytest.mark.parametrize(("bias", "parameters", "least"), [("jackknife", 1, 16), ("jackknife2", 3, 90), (None, 4, 80)])
def test_blocks_have_rows_for_every_parameter(bias: str | None, parameters: int, least: int) -> None:
    plan = PrivateStatistic(np.mean, bias=bias, parameters=parameters).plan(10_000, 1)
    assert plan.block_size >= least


def test_blocks_grow_with_the_rows_where_many_parameters_are_estimated() -> None:
    plan = PrivateStatistic(np.mean, parameters=5).plan(2**24, 1)
    assert plan.block_size >= 14 * 64


@pytest.mark.parametrize(("n", "epsilon"), [(3000, 1.0), (20_000, 0.3), (26_046, 0.33), (100_000, 0.5)])
def test_a_larger_skewness_takes_larger_blocks(n: int, epsilon: float) -> None:
    plans = [PrivateStatistic(np.mean, skewness=g, epsilon=epsilon).plan(n, 1) for g in (8.0, 12.0, 16.0, 24.0)]
    sizes = [plan.block_size for plan in plans[1:]]
    assert sizes == sorted(sizes)
    for plan in plans[1:]:
        # Blocks are as large as epsilon allows.
        assert plan.block_skewness <= 1.5 or plan.strength <= 80
        assert plan.planned_width > plans[0].planned_width


def test_wider_skewness_gives_wider_intervals() -> None:
    widths = [PrivateStatistic(np.mean, skewness=g).plan(20_000, 1).planned_width for g in (0.0, 3.0, 8.0)]
    assert widths == sorted(widths) and widths[0] < widths[2]


def test_blocks_are_larger_where_a_remaining_bias_is_allowed_for() -> None:
    # 5,000 rows at epsilon = 1: figures of the study of variants.
    plans = [PrivateStatistic(np.mean, remainder=r).plan(5000, 1) for r in (0.0, 0.35, 2.0)]
    assert [plan.n_blocks for plan in plans[:2]] == [217, 166]
    sizes = [plan.block_size for plan in plans]
    assert sizes == sorted(sizes) and sizes[1] == 30 and plans[1].clip == 2.5
    assert plans[1].block_bias == 0.35 / 30 and plans[1].block_skewness == 8 / np.sqrt(30)
    assert 0.04 < plans[1].price_of_allowances < 0.07
    assert "a skewness of a row's influence of at most 8, and a bias" in str(plans[1].notes())
    # Without a correction the function is taken to be unbiased.
    assert PrivateStatistic(np.mean, bias=None).plan(5000, 1).remainder == 0.0


def test_the_planned_width_counts_the_loss_of_small_blocks() -> None:
    # The variance of a block's value grows by 1 + (2 + 2 parameters)/size; the blocks are the same.
    few, many = (PrivateStatistic(np.mean, blocks=100, parameters=q).plan(12_000, 1) for q in (1, 4))
    assert (few.clip, few.n_blocks, few.block_size) == (many.clip, many.n_blocks, 120)
    ratio = many.planned_width / few.planned_width
    assert ratio == pytest.approx(np.sqrt((1 + 10 / 120) / (1 + 4 / 120)), rel=1e-12)


def test_too_few_blocks_are_refused_with_the_number_of_rows_that_suffices() -> None:
    with pytest.raises(InvalidParameter, match="n_samples must be at least 9,600 at"):
        PrivateStatistic(np.mean, epsilon=0.1).plan(9_599, 1)
    with pytest.raises(InvalidParameter, match="n_samples must be at least 17,592,186,044,416 at"):
        PrivateStatistic(np.mean, epsilon=1e-320).plan(9_600, 1)
    plan = PrivateStatistic(np.mean, epsilon=0.1).plan(9_600, 1)
    assert LEAST <= plan.strength < RECOMMENDED
    assert any(note.startswith("Warning: blocks times epsilon is 60") for note in plan.notes())
    assert not any("Warning" in note for note in PrivateStatistic(np.mean).plan(5000, 1).notes())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"blocks": 59}, "blocks must be between 60 and the number of rows, got 59"),
        ({"blocks": 119, "n_outputs": 2}, "blocks must be between 120 and the number of rows, got 119"),
        ({"blocks": 5001}, "blocks must be between 60 and the number of rows, got 5,001"),
        ({"blocks": "many"}, "blocks must be"),
        ({"bounds": (1.0, -1.0)}, "bounds must be .low, high. with low < high"),
        ({"bounds": (0.0, np.inf)}, "bounds must be"),
        ({"bounds": "wide"}, "bounds must be"),
        ({"bounds": [(0, 1), (0, 1), (0, 1)], "n_outputs": 2}, "such a pair for each of n_outputs = 2"),
        ({"n_outputs": 0}, "n_outputs"),
        ({"parameters": 0}, "parameters"),
        ({"skewness": -1.0}, "skewness"),
        ({"remainder": -0.1}, "remainder"),
        ({"bias": "bootstrap"}, "bias must"),
        ({"link": "probit"}, "link must"),
        ({"resolution": 0.0}, "resolution"),
        ({"missing": "center"}, "missing must be one of 'error', 'drop'"),
        ({"time_limit": 0.0}, "time_limit"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"function": 3}, "function must"),
        ({"function": lambda a, b, c: 0.0}, "function must"),
        ({"epsilon": 0.0}, "epsilon"),
    ],
)
def test_bad_parameters_are_refused_by_name(options: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidParameter, match=words):
        PrivateStatistic(**{"function": np.mean, **options}).plan(5000, 2)


def test_a_plan_says_how_it_locates() -> None:
    text = str(PrivateStatistic(np.mean).plan(5000, 2))
    assert "one of 324,032,126 centers and scales" in text
    assert "order: a uniform order of 5,000, not released" in text


@pytest.mark.parametrize(("n", "epsilon"), [(6000, 2.0), (20_000, 0.3), (100_000, 1.0)])
def test_a_larger_skewness_than_usual_never_makes_blocks_smaller(n: int, epsilon: float) -> None:
    counts = [
        PrivateStatistic(np.mean, bounds=(0, 1), epsilon=epsilon, skewness=skewness).plan(n).n_blocks
        for skewness in (8.0, 10.0, 12.0, 16.0, 30.0)
    ]
    assert counts == sorted(counts, reverse=True) and counts[-1] < counts[0]


def test_allowances_of_blocks_with_missing_rows_are_those_of_half_as_many() -> None:
    plans = [PrivateStatistic(np.mean, missing=policy).plan(20_000) for policy in ("error", "drop")]
    whole, left = plans
    assert left.block_size == whole.block_size and left.stages == whole.stages
    assert left.block_skewness == pytest.approx(math.sqrt(2) * whole.block_skewness)
    assert left.block_bias == pytest.approx(2 * whole.block_bias)
    assert left.planned_width > whole.planned_width
