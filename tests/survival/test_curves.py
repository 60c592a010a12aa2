"""Kaplan-Meier curves: exact on discrete data, with the right gradients and a usable range."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from statsmodels.duration.survfunc import SurvfuncRight

from dpstats.survival import PrivateSurvival
from dpstats.survival.cells import Cells
from dpstats.survival.curves import Curves, PlacedCurves, risk_sums
from dpstats.survival.table import Area

M = 8


def cells_of(times: np.ndarray, events: np.ndarray, m: int = M, n_causes: int = 1) -> np.ndarray:
    """Return the exact cells of rows in bins of width 1."""
    cells = Cells(tuple(np.arange(m + 1.0)), n_causes, 1, 16)
    return cells.count(times, events, np.zeros(len(times), dtype=np.int64)) / 2.0**16


def exact(found: np.ndarray, m: int = M, n_causes: int = 1) -> Curves:
    return Curves(found, m, n_causes, np.zeros((found.shape[1], found.shape[1])))


def discrete_rows(n: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    times, left = rng.geometric(0.15, n), rng.geometric(0.08, n)
    return np.minimum(times, left).astype(float), (times <= left).astype(np.int64)


def test_discrete_times_give_exactly_kaplan_meier_and_greenwood() -> None:
    # Half or whole exposure of censored rows, or cells in the wrong bin, would show.
    times, events = discrete_rows()
    curves = exact(cells_of(times, events))
    within = np.where(times > M, M, times)
    known = SurvfuncRight(within, events * (times <= M))
    at = np.searchsorted(known.surv_times, np.arange(1, M + 1), side="right") - 1
    assert curves.n_usable[0] == M
    assert np.allclose(curves.survival[0], known.surv_prob[at], rtol=1e-12)
    deviation = curves.survival[0] * np.sqrt(curves.greenwood[0])
    assert np.allclose(deviation, known.surv_prob_se[at], rtol=1e-9)
    assert np.allclose(curves.at_risk[0], [(times >= j).sum() for j in range(1, M + 1)])


def test_continuous_censoring_has_little_bias() -> None:
    # Exponential times and censoring, ten bins: a bias of at most 0.3 standard errors at n = 5000.
    rng = np.random.default_rng(1)
    n, repeats = 5000, 60
    found = []
    for _ in range(repeats):
        times, left = rng.exponential(8.0, n), rng.exponential(10.0, n)
        found.append(cells_of(np.minimum(times, left), (times <= left).astype(np.int64))[0])
    curves = exact(np.array(found))
    error = curves.survival.mean(axis=0) - np.exp(-np.arange(1, M + 1) / 8.0)
    spread = curves.survival.std(axis=0)
    # 0.3 standard errors, and 4 Monte Carlo errors of 1/sqrt(60): fails by chance in fewer than 1e-3 of runs.
    assert np.abs(error / spread).max() < 0.3 + 4 / np.sqrt(repeats)
    whole = exact(np.array(found) @ moved_to_later_edges().T)
    wrong = whole.survival.mean(axis=0) - np.exp(-np.arange(1, M + 1) / 8.0)
    assert np.abs(wrong / spread).max() > 2


def moved_to_later_edges() -> np.ndarray:
    """Return the map of cells that counts every censored row at the later edge: whole exposure."""
    moved = np.eye(2 * M + 1)
    for edge in range(M):
        moved[M + edge, M + edge] = 0
        moved[M + edge + 1, M + edge] = 1
    return moved


@pytest.mark.parametrize("n_causes", [1, 2])
def test_gradients_are_derivatives(n_causes: int) -> None:
    rng = np.random.default_rng(2)
    cells = rng.uniform(5, 20, size=(1, (n_causes + 1) * M + 1))
    cells[0, -1] += 200
    curves = exact(cells, n_causes=n_causes)
    assert curves.n_usable[0] == M
    for cell in range(cells.shape[1]):
        more = cells.copy()
        more[0, cell] += 1e-4
        slope = (np.log(exact(more, n_causes=n_causes).survival) - np.log(curves.survival))[0] / 1e-4
        assert np.allclose(slope, curves.gradients[0, :, cell], atol=1e-7)


def test_noise_of_the_curve_is_that_of_simulated_cells() -> None:
    rng = np.random.default_rng(3)
    times, events = discrete_rows(4000)
    cells = cells_of(times, events)
    size = cells.shape[1]
    noise = np.diag(rng.uniform(1, 9, size))
    drawn = Curves(cells + rng.normal(size=(4000, size)) * np.sqrt(np.diag(noise)), M, 1, noise)
    stated = Curves(cells, M, 1, noise).noise_variance[0]
    # Variances of 4,000 draws have standard errors of 2.2%; 15% is more than six of them.
    assert np.allclose(drawn.survival.var(axis=0), stated, rtol=0.15)


def test_the_usable_range_ends_where_few_are_at_risk_or_noise_is_large() -> None:
    cells = np.zeros((1, 2 * M + 1))
    cells[0, :M] = 10
    curves = exact(cells)
    # With no censored rows the last bin has as many events as rows at risk.
    assert curves.n_usable[0] == M - 1
    noisy = Curves(cells, M, 1, np.eye(2 * M + 1) * 100.0)
    least = 2 * noisy.at_risk_std
    expected = np.logical_and.accumulate(curves.at_risk[0] > np.maximum(least, 5)).sum()
    assert noisy.n_usable[0] == expected < M - 1
    assert np.isnan(noisy.estimate[0, expected:]).all() and np.isfinite(noisy.estimate[0, :expected]).all()


def test_estimates_never_increase_and_stay_in_the_unit_interval() -> None:
    rng = np.random.default_rng(4)
    noise = np.eye(2 * M + 1) * 16.0
    few = np.array([2.0] * M + [0.0] * M + [300.0])
    curves = Curves(few + 4 * rng.normal(size=(200, 2 * M + 1)), M, 1, noise)
    values = np.nan_to_num(curves.estimate, nan=0.0)
    assert (np.diff(values, axis=1) <= 1e-12).all() and ((values >= 0) & (values <= 1)).all()
    assert (curves.survival > 1).any()  # noise does that, and intervals need it


def test_risk_sums_are_those_of_the_definition() -> None:
    sums = risk_sums(3, 2)
    assert sums.tolist() == [
        [1, 1, 1, 1, 1, 1, 0, 1, 1, 1],
        [0, 1, 1, 0, 1, 1, 0, 0, 1, 1],
        [0, 0, 1, 0, 0, 1, 0, 0, 0, 1],
    ]


def placed(n: int = 40_000, std: float = 1e-6) -> PlacedCurves:
    """Return curves of rows whose events are early in the first bins, with positions and hardly any noise of cells."""
    rng = np.random.default_rng(0)
    times, left = 6 * rng.weibull(0.6, n), rng.exponential(3.0, n)
    cells = Cells(tuple(np.arange(M + 1.0)), 1, 1, 16, position_share=0.1)
    rows = np.minimum(times, left), (times <= left).astype(np.int64), np.zeros(n, dtype=np.int64)
    positions = cells.count_positions(*rows) / 2.0**16 * np.array([[[0.5], [0.25]]])
    noise = 1e-12 * np.eye(2 * M + 1)
    return PlacedCurves(cells.count(*rows) / 2.0**16, M, 1, noise, positions, np.full(2, std))


def test_positions_move_curves_as_their_gradients_say(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MISFIT", "_TILT", "_HIDDEN", "_BENT"):
        monkeypatch.setattr(f"dpstats.survival.curves.{name}", 0.0)
    curves, rng = placed(std=3.0), np.random.default_rng(0)
    drawn = 3.0 * rng.normal(size=(4000, 2, M))
    moved = replace(curves, cells=np.repeat(curves.cells, 4000, 0), positions=curves.positions + drawn)
    known = replace(curves.shapes, known=np.ones_like(curves.shapes.known))
    certain = replace(curves)
    certain.__dict__["shapes"] = known  # without the unknown part of the slopes
    assert np.log(moved.survival).std(axis=0) == pytest.approx(
        np.sqrt(certain.position_variance(certain.per_at_risk)[0]), rel=0.15
    )


def test_what_positions_do_not_say_of_shapes_widens_intervals() -> None:
    curves = placed(2000, 20.0)
    known = np.sqrt(curves.noise_variance[0])
    slopes = curves.increments[0] * curves.censored_positions[0] * curves.shapes.unknown_std[0]
    assert (known >= curves.survival[0] * np.sqrt(np.cumsum(slopes**2)) * (1 - 1e-9)).all()
    # Draws have this part too: critical values of bands use them.
    rng = np.random.default_rng(0)
    draws = np.hstack([np.zeros((4000, 2 * M + 1)), np.zeros((4000, 2 * M)), rng.normal(size=(4000, M))])
    assert curves.noise_errors(0, draws).std(axis=0) == pytest.approx(np.sqrt(np.cumsum(slopes**2)), rel=0.08)


def test_curves_with_positions_are_right_where_events_are_early() -> None:
    n = 400_000
    curves = placed(n)
    truth = np.exp(-((np.arange(1, M + 1) / 6) ** 0.6))
    plain = Curves(curves.cells, M, 1, curves.noise)
    assert curves.survival[0, :4] == pytest.approx(truth[:4], abs=0.003)
    assert abs(plain.survival[0, 0] - truth[0]) > 0.004


def test_a_reduced_hazard_has_no_lower_limit() -> None:
    """In the second of two bins the hazard is 7, and S falls from 0.37 to 0.0003."""
    hits = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        times, ends = rng.weibull(3, 3000), rng.exponential(1.0, 3000)
        fit = PrivateSurvival(horizon=2.0, bins=2, epsilon=1.0, random_state=seed)
        fit.fit(np.minimum(times, ends), (times <= ends).astype(int))
        interval = fit.estimates(2.0).confidence_interval(0.95)
        hits.append(float(np.ravel(interval.low)[0]) <= np.exp(-8))
    assert np.mean(hits) > 0.7


NAMED = "depends on the shape of the hazard inside"


def test_bins_whose_shape_decides_are_named() -> None:
    # One bin of two mean lifetimes, with censoring inside: intervals hold for smooth hazards only.
    rng = np.random.default_rng(0)
    time, end = rng.exponential(1, 3000), rng.uniform(0, 3, 3000)
    for bins, named in ((1, True), (12, False)):
        model = PrivateSurvival(horizon=2.0, bins=bins, random_state=0).fit(np.minimum(time, end), time <= end)
        assert (NAMED in str(model.summary())) == named


@pytest.mark.parametrize(("n", "epsilon"), [(20_000, 3.0), (675, 0.2)])
def test_a_peak_inside_the_first_of_few_bins_is_named(n: int, epsilon: float) -> None:
    # With 675 rows there are no positions.
    rng = np.random.default_rng(0)
    peak = np.where(rng.random(n) < 0.5, np.abs(rng.normal(0.35, 0.08, n)), rng.exponential(8.0, n))
    end = np.where(rng.random(n) < 0.6, rng.uniform(0, 1, n), np.inf)
    given = np.minimum(np.minimum(peak, end), 4.0), (peak <= end) & (peak < 4)
    model = PrivateSurvival(horizon=4.0, bins=4, epsilon=epsilon, random_state=0).fit(*given)
    assert isinstance(model._table.curves(0), PlacedCurves) == (n > 1000)
    assert f"{NAMED} it" in str(model.summary())
    exact = PrivateSurvival(horizon=4.0, bins=4, epsilon=epsilon, discrete=True, random_state=0).fit(*given)
    assert NAMED not in str(exact.summary())  # events are at the edges


def test_late_events_of_rows_that_leave_widen_restricted_means() -> None:
    curves, edges = placed(), np.arange(M + 1.0)
    shapes = replace(curves.shapes, mixed=0 * curves.shapes.mixed)
    certain = replace(curves)
    certain.__dict__["shapes"] = shapes
    wide, narrow = (Area.compute(each, edges, float(M), discrete=False).variance[0] for each in (curves, certain))
    assert wide > narrow
    nobody_left = replace(curves, positions=curves.positions * np.array([[[1.0], [0.0]]]))
    assert nobody_left.shape_std.max() == 0 and not nobody_left.shaped.any()
