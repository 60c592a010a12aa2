"""Algorithm 9.3.3's steps: sensitivities by brute force, and the inequalities its proof rests on."""

import dataclasses
import itertools
import math

import numpy as np
import pytest

from dpstats.errors import NotPrivate
from dpstats.identity import FilteringTest
from dpstats.identity import by_filtering as f
from dpstats.privacy import gaussian_sigma
from dpstats.release.session import Session


def test_constants_are_the_printed_ones():
    n, d, e, x = 5000, 20, 0.25, 1e-6 / 14
    c = f.filtering_constants(n, d, 4 * e, 14 * x, calibration="textbook")
    log = math.log
    assert c.largest_scale == 2 / e and c.count_scale == 1 / e
    assert c.largest_threshold == pytest.approx(math.sqrt(2 * n * log(d / x)) + 2 / e * log(1 / x))
    assert c.sum_sigma == pytest.approx(math.sqrt(8 * d * log(5 / (4 * x))) / e)
    margin = 4 * d / e * math.sqrt(log(5 / (4 * x)) * log(n / x))
    delta = 16 * (
        d * log(d / x)
        + d / (n * e**2) * log(1 / x) ** 2
        + math.sqrt(n * d) * math.sqrt(log(d / x) * log(n / x))
        + math.sqrt(d) / e * log(1 / x) * math.sqrt(log(n / x))
    )
    assert c.Delta == pytest.approx(delta)
    assert c.filter_threshold == pytest.approx(delta + margin)
    assert c.count_threshold == pytest.approx(log(1 / x) / e)
    assert c.statistic_sensitivity == math.ceil(4 * delta + 48 * d / e * math.sqrt(log(1.25 / x) * log(n / x)))


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1, 1e-6), (2, 1e-3), (3, 1e-9)])
def test_exact_noise_never_exceeds_the_printed(epsilon, delta):
    for n, d in [(2, 1), (500, 20), (5000, 500)]:
        exact = f.filtering_constants(n, d, epsilon, delta)
        printed = f.filtering_constants(n, d, epsilon, delta, calibration="textbook")
        assert exact.sum_sigma <= printed.sum_sigma
        assert exact.sum_sigma == pytest.approx(gaussian_sigma(epsilon / 4, delta / 14, 2 * math.sqrt(d)))


def test_refused_where_the_printed_noise_is_not_private():
    with pytest.raises(ValueError, match="line 4"):
        f.filtering_constants(1000, 10, 60, 1e-5)


def test_bounds_of_the_proof_hold_over_a_grid():
    """The three inequalities of the last step's sensitivity, in the printed constants."""
    for n, d, epsilon, delta in itertools.product(
        (2, 10, 1000, 10**5), (1, 20, 1000), (0.01, 0.5, 2, 8), (1e-12, 1e-6, 1e-2)
    ):
        try:
            c = f.filtering_constants(n, d, epsilon, delta)
        except ValueError:
            continue
        e, x = c.epsilon, c.delta
        filtered = 2 * math.log(1 / x) / e  # rows replaced, given line 7 passed and its noise was typical
        gauss = c.sum_sigma * math.sqrt(d) * math.sqrt(2 * math.log(n / x))
        # A kept row: |<x, rest>| <= threshold + gauss + replaced rows, plus its own and the old row's d.
        kept = 2 * (c.filter_threshold + gauss + 2 * d * filtered) + 2 * d
        assert 2 * kept <= c.statistic_sensitivity
        # A row drawn anew: Hoeffding against the norm that line 3 allows.
        norm = math.sqrt(d) * (math.sqrt(2 * n * math.log(d / x)) + 4 / e * math.log(1 / x) + 2 * filtered + 2)
        assert norm * math.sqrt(2 * math.log(n / x)) <= c.statistic_sensitivity / 4


def test_sensitivities_by_brute_force():
    patterns = list(itertools.product((-1, 1), repeat=2))
    for rest in itertools.combinations_with_replacement(patterns, 3):
        for noise in ((0, 0), (6, -10)):
            stats = []
            for p in patterns:
                X = np.array([*rest, p])
                fixed = np.array([8, 4]) + noise
                stats.append((f.largest_coordinate(X), int(f.rows_beyond(X, fixed, 5).sum())))
            assert max(s[0] for s in stats) - min(s[0] for s in stats) <= 2
            # Given the released sum, the count moves by one.
            assert max(s[1] for s in stats) - min(s[1] for s in stats) <= 1


class Given:
    """A source whose noise and signs are given."""

    simulated = True

    def __init__(self, laplace=0, signs=1):
        self.noise, self.signs = laplace, signs

    def laplace(self, scale, size):
        return np.full(size, self.noise, dtype=np.int64)

    def gaussian(self, scale, size):
        return np.zeros(size, dtype=np.int64)

    def integers(self, below, size):
        return np.broadcast_to((np.asarray(self.signs) + 1) // 2, size)


def released(X, constants, source):
    """Return what the test releases of sign rows with constants of its own, line by line; None where it stopped."""
    test = FilteringTest()
    plan = test.plan(*X.shape)
    design = dataclasses.replace(plan.design, constants=constants)
    plan = dataclasses.replace(plan, design=design, stages=test._stages(design, *X.shape))
    with Session(plan, source) as session:
        test._release(X, plan, session)
    found = [session.released.get(stage.name) for stage in plan.additive]
    return [None if values is None or np.isnan(values).any() else values for values in found]


def test_the_statistic_is_that_of_the_filtered_data():
    # The printed line 13 reads T(X): with every row filtered, X itself must not matter any more.
    constants = f.filtering_constants(400, 3, 1.0, 1e-6)
    fresh = np.where(np.random.default_rng(0).random((400, 3)) < 0.5, 1, -1)
    quiet = Given(signs=fresh)
    all_filtered = dataclasses.replace(constants, filter_threshold=-1.0, count_threshold=1e9, largest_threshold=1e9)
    X = np.ones((400, 3), dtype=int)
    *_, statistic = released(X, all_filtered, quiet)
    assert statistic == f.quadratic_statistic(fresh) != f.quadratic_statistic(X)
    none_filtered = dataclasses.replace(constants, filter_threshold=1e9, largest_threshold=1e9)
    *_, statistic = released(X, none_filtered, quiet)
    assert statistic == f.quadratic_statistic(X) == 400**2 * 3 - 1200
    largest, *later = released(X, dataclasses.replace(constants, largest_threshold=1.0), quiet)
    assert largest == [400.0] and later == [None] * 3


def test_noise_is_added_to_integers_and_rounded_once():
    """Noise of 2^53 + 1 is no float: as one it would be 2^53 before the statistic is added."""
    wide = dataclasses.replace(
        f.filtering_constants(9, 2, 1.0, 1e-6), filter_threshold=1e18, largest_threshold=1e18, count_threshold=1e18
    )
    X = np.array([[1, 1]] * 5 + [[-1, 1]] * 4)
    assert (f.largest_coordinate(X), f.quadratic_statistic(X)) == (9, 64)
    for noise in (2**53 + 1, -(2**53) - 1, 2**53 - 1, 2**55 + 3):
        largest, _, count, statistic = released(X, wide, Given(laplace=noise))
        assert (largest, count, statistic) == (float(9 + noise), float(noise), float(64 + noise))
    assert float(64 + 2**53 + 1) != 64 + float(2**53 + 1) or float(9 + 2**55 + 3) != 9 + float(2**55 + 3)


def test_printed_constants_are_vacuous_at_moderate_sizes():
    # The last sensitivity against that of T itself, 4 d (n - 1): larger at every moderate size.
    for n, d in [(500, 20), (1000, 100), (2000, 20)]:
        c = f.filtering_constants(n, d, 1.0, 1e-6)
        assert c.statistic_scale > 4 * d * (n - 1) / 1.0


def test_each_row_decides_for_itself_exactly():
    rng = np.random.default_rng(3)
    X = np.where(rng.random((50, 9)) < 0.5, 1, -1)
    for size in (10, 2**40, 2**60):
        steps = rng.integers(-size, size, 9)
        inner = [abs(sum(int(a) * int(b) for a, b in zip(x, steps, strict=True))) for x in X]
        threshold = sorted(inner)[25]
        assert f.rows_beyond(X, steps, threshold).tolist() == [value > threshold for value in inner]


@pytest.mark.parametrize(("n", "epsilon", "delta"), [(2, 13.0, 0.3), (2, 4.0, 1e-2), (5, 10.0, 0.1)])
def test_what_the_proof_does_not_cover_is_refused(n, epsilon, delta):
    # Either condition of the proof fails, computed here from its inequalities.
    e, x = epsilon / 4, delta / 14
    first = (math.log(1 / x) + e / 4) ** 2 > math.log(1.25 / x) * math.log(n / x)
    second = math.log(1 / x) < 0.61 * e
    refused = first or second or gaussian_sigma(e, x, 2.0) > math.sqrt(8 * math.log(1.25 / x)) / e
    if refused:
        with pytest.raises(NotPrivate, match="needs a smaller epsilon"):
            f.filtering_constants(n, 1, epsilon, delta)
    else:
        f.filtering_constants(n, 1, epsilon, delta)


def test_each_condition_of_the_proof_refuses_by_itself():
    # The noise of line 4 is private in all of these; with many rows the first condition holds.
    refusals = set()
    for n, epsilon, delta in itertools.product((2, 10**9), np.geomspace(0.1, 60, 60), (0.9, 0.3, 1e-3, 1e-9)):
        e, x = epsilon / 4, delta / 14
        first = (math.log(1 / x) + e / 4) ** 2 > math.log(1.25 / x) * math.log(n / x)
        second = math.log(1 / x) < 0.61 * e
        try:
            f.filtering_constants(n, 1, float(epsilon), delta)
        except NotPrivate as refused:
            if "the proof" in str(refused):
                refusals.add((first, second))
            continue
        assert not first and not second
    assert (True, False) in refusals
