"""Totals by loss distributions."""

import itertools
import math
from collections import Counter

import pytest
from dp_accounting.pld import privacy_loss_distribution

from dpstats.privacy import compose, optimal_composition_epsilon
from dpstats.privacy import totals as loss_distribution
from dpstats.privacy.events import Approximate, BoundedRange, DiscreteLaplace, Gaussian, Pure
from dpstats.privacy.totals import _coarse_step, _rounding_slack, loss_distribution_epsilon


def test_the_order_hardly_matters_to_loss_distributions():
    events = [Pure(0.263), DiscreteLaplace(2, 1.0327), Approximate(0.0861, 1e-9), BoundedRange(0.11)]
    totals = [compose(order, 3.8e-5).epsilon for order in itertools.permutations(events)]
    assert max(totals) <= min(totals) * (1 + 2e-4)


def test_the_order_does_not_matter_to_loss_distributions():
    events = [Pure(0.263), DiscreteLaplace(2, 1.0327), Approximate(0.0861, 1e-9), BoundedRange(0.11)]
    assert len({compose(order, 3.8e-5).epsilon for order in itertools.permutations(events)}) == 1


@pytest.mark.parametrize("ceiling", [0.7, 3.0, 40.0])
def test_a_coarse_grid_has_every_loss_that_is_a_multiple_of_the_smallest(ceiling: float) -> None:
    losses = [0.3, 0.1, 0.2]
    step = _coarse_step(losses, ceiling, 0.3)
    assert [loss / step for loss in losses] == pytest.approx([round(loss / step) for loss in losses], abs=1e-9)
    assert ceiling / 4000 <= step <= ceiling / 1000
    # Other losses share a grid of one of them only.
    other = _coarse_step([0.1, 0.2718], ceiling, 0.2718)
    assert 0.2718 / other == pytest.approx(round(0.2718 / other), abs=1e-9)
    assert ceiling / 4000 <= other <= ceiling / 1000


@pytest.mark.parametrize("counts", [(1, 1), (30, 1), (1000, 500)])
@pytest.mark.parametrize("mu", [0.0, 0.5, 20.0])
def test_the_slack_of_transforms_is_that_of_the_points_that_are_transformed(counts: tuple[int, int], mu: float) -> None:
    events = Counter({Pure(0.3): counts[0], DiscreteLaplace(2, 4.0): counts[1]})
    reach = {event: event.largest_loss() for event in events}
    step = 0.01
    points = sum(count * 2 * math.ceil(reach[event] / step) for event, count in events.items()) + 1
    if mu > 0:
        gaussian = privacy_loss_distribution.from_gaussian_mechanism(
            1 / mu, value_discretization_interval=step, use_connect_dots=True
        )
        points += gaussian._pmf_remove.size

    def slack(n: int) -> float:
        # docs/proofs/composition.md, "The Fourier transform needs a margin"; transforms are of up to 2n numbers.
        powers = sum(events.values()) * (7 * math.log2(2 * n) + 50)
        return math.sqrt(2 * n) * 2.0**-53 * (powers + 21 * (len(events) + 1) * math.log2(2 * n))

    found = _rounding_slack(events, reach, step, mu, mu**2 / 2 + 5 * mu)
    assert slack(points) <= found <= 3 * slack(points)


def test_one_event_with_losses_beyond_the_grid_leaves_no_answer() -> None:
    some = [Gaussian(0.5), Pure(0.1)]
    assert loss_distribution_epsilon(some, 1e-6, 50.0) is not None
    assert loss_distribution_epsilon([*some, Pure(600.0)], 1e-6, 450.0) is None


def test_many_distributions_in_pairs_have_the_total_of_one_after_the_other(monkeypatch) -> None:
    events = [Pure(0.02 + 0.0004 * k) for k in range(2 * loss_distribution._IN_TURN + 1)]
    pairs = loss_distribution_epsilon(events, 1e-6, sum(event.epsilon for event in events))
    monkeypatch.setattr(loss_distribution, "_IN_TURN", len(events))
    one = loss_distribution_epsilon(events, 1e-6, sum(event.epsilon for event in events))
    # In pairs, no power adds to the bound of the rounding errors.
    assert pairs is not None and one is not None and one * (1 - 1e-4) <= pairs <= one


@pytest.mark.parametrize("mu", [0.0, 0.3])
def test_many_distributions_have_the_total_of_plain_convolution(mu: float) -> None:
    events = Counter({Pure(0.05 + 0.001 * k): 1 + k % 3 for k in range(loss_distribution._IN_TURN + 6)})
    delta, step, reach = 1e-6, 0.01, {event: event.epsilon for event in events}
    plain = loss_distribution.convolved_epsilon(events, mu, step, delta, reach)
    quick = loss_distribution.convolved_epsilon(
        events, mu, step, delta, reach, convolve=loss_distribution.convolve_by_fft
    )
    assert quick == pytest.approx(plain, rel=1e-9)
    slack = _rounding_slack(events, reach, step, mu, plain)
    lower, upper = (
        loss_distribution.convolved_epsilon(events, mu, step, other, reach) for other in (delta + slack, delta - slack)
    )
    assert lower <= quick <= upper


def test_thousands_of_different_events_have_a_total_by_loss_distributions() -> None:
    """Costs that hardly differ have the total of equal ones, which is known."""
    events = [Pure(0.001 * (1 + 1e-9 * k)) for k in range(2500)]
    found = loss_distribution_epsilon(events, 1e-6, 2.5)
    exact = optimal_composition_epsilon(0.001, len(events), 1e-6)
    assert found is not None and exact <= found <= exact * 1.01
