"""The choice between Laplace and Gaussian noise: never more noise than at delta = 0, and Gaussian for many columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpstats.covariance import PrivateCovariance
from dpstats.groups import GroupMeans, MeanPerRow
from dpstats.means import AdaptiveMean, ClippedMean, PrivateVariance
from dpstats.mechanisms import Histogram
from dpstats.privacy import PrivacyBudget
from dpstats.privacy.plan import Plan
from dpstats.quantiles import PrivateDistribution
from dpstats.survival import LogRankTest, PrivateSurvival
from dpstats.tables import ContingencyTable, PrivateProportion

SQUARES = "second moment about the center"
ARMS = {"groups": ["a", "b"], "horizon": 10.0, "bins": 5}


def unit(d: int) -> dict[str, Any]:
    return {"bounds": [(0.0, 1.0)] * d}


Case = tuple[Callable[..., Any], Callable[[Any], Any]]

FAMILIES: dict[str, Case] = {
    "clipped mean": (lambda d, **g: ClippedMean(**unit(d), **g).plan(1000, d), lambda p: p.mean_noise),
    "clipped mean, private size": (
        lambda d, **g: ClippedMean(**unit(d), neighbors="add_or_remove", **g).plan(1000, d),
        lambda p: p.mean_noise,
    ),
    "clipped mean, observed rows": (
        lambda d, **g: ClippedMean(**unit(d), missing="drop", **g).plan(1000, d),
        lambda p: p.mean_noise,
    ),
    "ball": (lambda d, **g: ClippedMean(clip=1.0, clip_norm="l2", std=None, **g).plan(1000, d), lambda p: p.mean_noise),
    "variance": (lambda d, **g: PrivateVariance(**unit(d), **g).plan(1000, d), lambda p: p.noise(SQUARES).std),
    "means of groups": (
        lambda d, **g: GroupMeans(groups=["a", "b"], **unit(d), **g).plan(1000, d),
        lambda p: p.totals_noise.total,
    ),
    "mean per row": (
        lambda d, **g: MeanPerRow(**unit(d), max_rows=3, **g).plan(1000, d),
        lambda p: np.hypot(p.totals_noise.total, p.totals_noise.count),
    ),
    "covariance": (lambda d, **g: PrivateCovariance(**unit(d), **g).plan(1000, d), lambda p: p.products_std),
    "adaptive mean": (
        lambda d, **g: AdaptiveMean(bound=50.0, std=1.0, tails="variance", **g).plan(5000, d),
        lambda p: p.interval_reach,
    ),
}
ONE_COLUMN: dict[str, Case] = {
    "proportion": (lambda **g: PrivateProportion(**g).plan(1000), lambda p: p.count_noise.std),
    "table": (lambda **g: ContingencyTable(levels=[[0, 1]] * 2, **g).plan(1000), lambda p: p.cell_noise.std),
    "histogram": (lambda **g: Histogram([0, 1, 2], **{"epsilon": 1.0} | g).plan, lambda p: p.additive[0].noise_std),
    "survival": (lambda **g: PrivateSurvival(horizon=10.0, **g).plan(2000), lambda p: p.at_risk_std),
    "log-rank": (lambda **g: LogRankTest(**ARMS, **g).plan(500, 1), lambda p: p.residual_stage.noise_std),
}
EVERY: dict[str, Case] = {
    **{
        f"{name}, {d} columns": (lambda build=build, d=d, **given: build(d, **given), noise)
        for name, (build, noise) in FAMILIES.items()
        for d in (1, 3, 40)
    },
    **ONE_COLUMN,
    **{
        f"distribution, {bins} bins": (
            lambda bins=bins, **g: PrivateDistribution(bounds=(0, 1), bins=bins, **g).plan(1000),
            lambda p: p.noise(p.stages[0].name).std,
        )
        for bins in (8, 1024)
    },
}


def size(noise: Any) -> float:
    return float(np.sum(np.square(noise)))


@pytest.mark.parametrize("name", EVERY)
def test_noise_is_never_larger_than_at_delta_0_or_than_gaussian_noise(name: str) -> None:
    build, noise = EVERY[name]
    for epsilon, delta in ((0.5, 1e-6), (1.0, 1e-2), (3.0, 1e-9)):
        # A budget that adds up squares of mu keeps Gaussian noise.
        keeps = PrivacyBudget(epsilon, delta, method="gdp")
        pure, normal = build(epsilon=epsilon, delta=0.0), build(epsilon=epsilon, delta=delta, budget=keeps)
        found: Plan = build(epsilon=epsilon, delta=delta)
        assert pure.noise_kinds >= {"laplace"} and "gaussian" in normal.noise_kinds
        least = min(size(noise(pure)), size(noise(normal)))
        assert size(noise(found)) == pytest.approx(least, rel=1e-12)
        # The guarantee is the one of the noise that was chosen, and the plan says so.
        chosen = "laplace" in found.noise_kinds
        assert found.guarantee.epsilon == epsilon and found.guarantee.delta == (0.0 if chosen else delta)
        assert ("smaller than Gaussian noise" in str(found)) == chosen
        assert found.events == (pure if chosen else normal).events


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "ball"])
def test_gaussian_noise_is_chosen_for_many_columns(name: str) -> None:
    build, _ = FAMILIES[name]
    assert build(1, delta=1e-6).guarantee.delta == 0 and build(60, delta=1e-6).guarantee.delta == 1e-6
    assert "Noise chosen" not in str(build(60, delta=1e-6)) and "delta_asked" in build(1, delta=1e-6).to_dict()


def test_the_first_example_of_the_readme_has_the_noise_of_delta_0() -> None:
    noise = [float(ClippedMean(bounds=(0, 52), epsilon=0.5, delta=d).plan(20_190, 1).mean_noise) for d in (0.0, 1e-6)]
    assert noise[0] == noise[1] == pytest.approx(0.00728, abs=1e-5)


def test_the_budget_is_charged_the_stronger_guarantee() -> None:
    budget = PrivacyBudget(1.0, 1e-5)
    ClippedMean(bounds=(0, 1), epsilon=0.5, delta=1e-6, budget=budget).fit(np.zeros((100, 1)))
    assert (budget.spent.epsilon, budget.spent.delta) == (0.5, 0.0)


def test_a_share_of_a_budget_that_adds_squares_fits_as_often_as_it_is_promised() -> None:
    budget = PrivacyBudget(1.0, 1e-6, method="gdp")
    share = budget.share(5)
    for _ in range(5):
        made = ClippedMean(bounds=(0, 1), epsilon=share.epsilon, delta=share.delta, budget=budget).fit(
            np.zeros((100, 1))
        )
        assert made.plan_.distribution == "gaussian"


def test_a_sample_of_complete_rows_has_the_noise_that_its_plan_was_charged_for() -> None:
    rows = np.random.default_rng(0).normal(size=(3000, 1))
    rows[::7] = np.nan
    made = AdaptiveMean(
        bound=50.0, std=1.0, tails="variance", missing="drop", epsilon=1.0, delta=1e-6, random_state=0
    ).fit(rows)
    assert made.privacy_.delta == 0 and made.plan_.law == "laplace" and made.plan_.delta_asked == 1e-6
