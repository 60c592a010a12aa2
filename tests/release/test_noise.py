"""The noise: goodness of fit of both samplers, with power controls.

A fit is rejected where its p-value is below 1e-7; every statistical test here makes at most ten such
decisions, so its false-alarm probability is at most 1e-6. The wrong scales (x 0.9, x 1.1) are rejected
with more than five standard deviations to spare at these sizes.
"""

import math
from functools import cache

import numpy as np
import pytest
from scipy import stats

from dpstats.errors import InvalidParameter, NoiseUnavailable
from dpstats.means import AdaptiveMean, ClippedMean
from dpstats.mechanisms import AboveThreshold, GaussianMechanism, LaplaceMechanism, PermuteAndFlip
from dpstats.privacy import PrivacyBudget
from dpstats.release import noise
from dpstats.release.noise import MAX_SCALE, MIN_SCALE, ExactNoise, SimulatedNoise, noise_source

REJECT = 1e-7
LAWS = ("laplace", "gaussian")


def source(kind, seed=0):
    return ExactNoise() if kind == "exact" else SimulatedNoise(np.random.default_rng(seed))


@cache
def drawn(kind, law, scale):
    """Numbers that several tests look at: exact ones take 20 microseconds each."""
    return getattr(source(kind), law)(scale, 120_000 if scale == 3.0 else 60_000)


def cumulative(law, scale):
    """The discrete law itself on all steps that matter: weights exp(-|k|/b) or exp(-k^2/2s^2), summed."""
    reach = math.ceil(60 * scale) + 2
    steps = np.arange(-reach, reach + 1)
    weights = np.exp(-np.abs(steps) / scale) if law == "laplace" else np.exp(-0.5 * (steps / scale) ** 2)
    return steps, np.cumsum(weights) / weights.sum()


def chi_square(draws, law, scale, cells=40, least=150):
    """p-value of a chi-square test in up to 40 cells of near-equal probability."""
    steps, cdf = cumulative(law, scale)
    cut = np.unique(np.searchsorted(cdf, np.arange(1, cells) / cells))
    edges = steps[cut]  # cells (-inf, e0], (e0, e1], ..., (e_last, inf)
    probability = np.diff(np.concatenate([[0.0], cdf[cut], [1.0]]))
    counts = np.bincount(np.searchsorted(edges, draws, side="left"), minlength=probability.size)
    # Merge cells that expect few draws into their neighbor, from both ends and inside.
    merged_p, merged_n, p, n = [], [], 0.0, 0
    for cell_p, cell_n in zip(probability, counts, strict=True):
        p, n = p + cell_p, n + cell_n
        if p * draws.size >= least:
            merged_p.append(p)
            merged_n.append(n)
            p, n = 0.0, 0
    merged_p[-1] += p
    merged_n[-1] += n
    return stats.chisquare(merged_n, np.array(merged_p) * draws.size).pvalue


@pytest.mark.parametrize(
    ("law", "scale"),
    # Below these a draw other than 0 is too rare to tell scales apart.
    [("laplace", 0.3), ("gaussian", 0.4), *((law, scale) for law in LAWS for scale in (0.5, 3.0, 40.0))],
)
@pytest.mark.parametrize("kind", ["exact", "simulated"])
def test_small_scales_fit_the_discrete_law(kind, law, scale):
    draws = drawn(kind, law, scale)[:60_000]
    assert chi_square(draws, law, scale) > REJECT
    assert chi_square(draws, law, 0.9 * scale) < REJECT
    assert chi_square(draws, law, 1.1 * scale) < REJECT


@pytest.mark.parametrize("scale", [1.0, 10.0, 31.9, 32.0, 33.0])
def test_the_simulated_gaussian_on_both_sides_of_its_table(scale):
    draws = source("simulated", 5).gaussian(scale, 400_000)
    assert chi_square(draws, "gaussian", scale) > REJECT
    assert chi_square(draws, "gaussian", 0.98 * scale) < REJECT  # 400,000 draws tell 2%


def test_chi_square_notices_the_wrong_law():
    # Power control of the law itself: equal variance, other shape.
    draws = source("simulated").gaussian(40.0, 60_000)
    assert chi_square(draws, "laplace", 40.0 / math.sqrt(2)) < REJECT


@pytest.mark.parametrize("scale", [1e6, 1e16])
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("kind", ["exact", "simulated"])
def test_large_scales_fit_the_continuous_law(kind, law, scale):
    # At 1e6 steps the step of the discrete distribution function is 4e-7, the test's resolution 2e-3. The wrong
    # scales are .017 away: at 150,000 draws 6.5 in units where the threshold is 2.9, missed with
    # probability 2 exp(-2 * 3.6^2) < 1e-10 (Massart's inequality).
    draws = getattr(source(kind), law)(scale, 150_000) / scale
    law = stats.laplace if law == "laplace" else stats.norm
    assert stats.kstest(draws, law.cdf).pvalue > REJECT
    assert stats.kstest(draws / 0.9, law.cdf).pvalue < REJECT
    assert stats.kstest(draws / 1.1, law.cdf).pvalue < REJECT


@pytest.mark.parametrize("kind", ["exact", "simulated"])
def test_the_smallest_scale_draws_only_zeros(kind):
    # P(k != 0) is about 2 e^-1000 (Laplace) and 2 e^-500000 (Gaussian): never.
    for law in LAWS:
        assert not getattr(source(kind), law)(MIN_SCALE, 2000).any()


@pytest.mark.parametrize("scale", [0.5, 3.0, 1e9])
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("kind", ["exact", "simulated"])
def test_mean_and_variance(kind, law, scale):
    # Moments of the discrete law by summation (continuous at 1e9). |z| > 6 has probability 2e-9.
    if scale < 1e6:
        steps, cdf = cumulative(law, scale)
        probability = np.diff(np.concatenate([[0.0], cdf]))
        second, fourth = (float((probability * steps.astype(float) ** k).sum()) for k in (2, 4))
    else:
        second, fourth = (2 * scale**2, 24 * scale**4) if law == "laplace" else (scale**2, 3 * scale**4)
    n = 40_000
    draws = drawn(kind, law, scale)[:n].astype(float)
    assert abs(draws.mean()) < 6 * math.sqrt(second / n)
    error = 6 * math.sqrt((fourth - second**2) / n)
    assert abs((draws**2).mean() - second) < error
    assert abs((draws**2).mean() - 1.21 * second) > error  # a scale x 1.1 is seen


@pytest.mark.parametrize("law", LAWS)
def test_coordinates_are_uncorrelated(law):
    # Correlation of 60,000 pairs is normal with deviation 1/sqrt(n): |z| > 6 has probability 2e-9.
    for kind in ("exact", "simulated"):
        pairs = drawn(kind, law, 3.0).reshape(60_000, 2).astype(float)
        assert abs(np.corrcoef(pairs.T)[0, 1]) < 6 / math.sqrt(60_000)
        assert abs(np.corrcoef(pairs[:-1, 0], pairs[1:, 0])[0, 1]) < 6 / math.sqrt(60_000)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("kind", ["exact", "simulated"])
@pytest.mark.parametrize("scale", [3.0, 1e16])
def test_types_and_shapes(kind, law, scale):
    for size, shape in [(5, (5,)), ((2, 3), (2, 3)), ((), ()), ((1,), (1,)), ((4, 1, 2), (4, 1, 2))]:
        draws = getattr(source(kind), law)(scale, size)
        assert draws.dtype == np.int64 and draws.shape == shape


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("kind", ["exact", "simulated"])
@pytest.mark.parametrize("scale", [0.0, -1.0, 0.999e-3, 1.001e16, math.inf, math.nan])
def test_scales_outside_the_exact_range_are_refused(kind, law, scale):
    with pytest.raises(InvalidParameter, match=r"noise scale must be between 0.001 and 1e\+16 lattice steps"):
        getattr(source(kind), law)(scale, 1)


def test_the_range_includes_its_ends():
    for kind in ("exact", "simulated"):
        for law in LAWS:
            assert getattr(source(kind), law)(MAX_SCALE, 3).shape == (3,)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scale", [3.0, 1e9])
def test_one_seed_one_noise(law, scale):
    first, again, other = (getattr(source("simulated", seed), law)(scale, 20) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@pytest.mark.parametrize("law", LAWS)
def test_successive_draws_differ(law):
    # 20 draws at 1e9 steps agree with probability below 1e-180.
    for kind in ("exact", "simulated"):
        noise = source(kind)
        assert (getattr(noise, law)(1e9, 20) != getattr(noise, law)(1e9, 20)).any()


def test_noise_source_says_what_it_is():
    assert isinstance(noise_source(None), ExactNoise) and not noise_source(None).simulated
    for state in (0, np.random.default_rng(0)):
        assert isinstance(noise_source(state), SimulatedNoise) and noise_source(state).simulated
    generator = np.random.default_rng(0)
    assert noise_source(generator).generator is generator
    with pytest.raises(InvalidParameter, match="random_state"):
        noise_source("seed")


def test_exact_noise_ignores_seeds():
    # Two runs after the same global seed agree with probability below 1e-180.
    draws = []
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002
        draws.append(ExactNoise().laplace(1e9, 20))
    assert (draws[0] != draws[1]).any()


def uniform_source(kind, monkeypatch):
    """Return a source of integers that is the same in every run: the exact one's entropy is replaced."""
    generator = np.random.default_rng(20)
    if kind == "simulated":
        return SimulatedNoise(generator)
    monkeypatch.setattr("os.urandom", generator.bytes)
    return ExactNoise()


@pytest.mark.parametrize("kind", ["exact", "simulated"])
@pytest.mark.parametrize("below", [2, 3, 5, 6, 64, 100])
def test_integers_are_uniform(kind, below, monkeypatch):
    drawn = uniform_source(kind, monkeypatch).integers(below, (500, below))
    assert drawn.shape == (500, below) and drawn.dtype == np.int64
    counts = np.bincount(drawn.ravel(), minlength=below)
    assert counts.size == below and stats.chisquare(counts).pvalue > REJECT
    # One after the other, too: the pairs that differ by 0, 1, ... steps.
    steps = np.bincount((drawn.ravel()[1:] - drawn.ravel()[:-1]) % below, minlength=below)
    assert stats.chisquare(steps).pvalue > REJECT


@pytest.mark.parametrize("kind", ["exact", "simulated"])
def test_every_bit_of_large_integers_is_a_fair_coin(kind, monkeypatch):
    drawn = uniform_source(kind, monkeypatch).integers(2**62, 4000)
    assert drawn.min() >= 0 and np.unique(drawn).size == drawn.size
    ones = np.array([((drawn >> bit) & 1).mean() for bit in range(62)])
    # Six standard errors each: a false alarm below 2e-7 over all bits.
    assert np.all(np.abs(ones - 0.5) < 6 * 0.5 / np.sqrt(drawn.size))


def test_the_only_integer_below_one(monkeypatch):
    for kind in ("exact", "simulated"):
        assert uniform_source(kind, monkeypatch).integers(1, 3).tolist() == [0, 0, 0]


def test_equal_noisy_scores_go_to_the_first_candidate(monkeypatch):
    # On neighboring datasets alike: an order that depends on all scores would not be that of a fixed rule.
    noise = ExactNoise()
    monkeypatch.setattr(noise, "laplace", lambda scale, size: np.zeros(size, dtype=np.int64))
    scores = np.array([5, 7] * 40)
    best = [*range(1, 80, 2), *range(0, 80, 2)]
    for k in (1, 30, 60):
        assert noise.top("laplace", scores, 1.0, k).tolist() == best[:k]
        assert noise.top("laplace", scores, 1.0, k, size=2).tolist() == [best[:k]] * 2


# The rehearsal before a charge


def missing(*arguments):
    raise ImportError("no opendp")


def broken(*arguments):
    raise AttributeError("opendp has no symbol 4711")


def unloadable(*arguments):
    raise OSError("libopendp.so: wrong ELF class")


@pytest.mark.parametrize("failing", [missing, broken, unloadable])
@pytest.mark.parametrize(
    "release",
    [
        lambda budget: LaplaceMechanism(1.0, 0.5, budget=budget).release(1.0),
        lambda budget: GaussianMechanism(1.0, 0.5, 1e-6, budget=budget).release(1.0),
        lambda budget: AboveThreshold(1.0, 0.5, budget=budget).query(1.0),
        lambda budget: PermuteAndFlip(1.0, 0.5, budget=budget).select([0.0, 1.0]),
        lambda budget: ClippedMean(bounds=(0, 1), epsilon=0.5, budget=budget).fit([[0.5], [0.1]]),
    ],
)
def test_a_library_that_is_missing_or_broken_is_found_before_the_charge(failing, release, monkeypatch):
    budget = PrivacyBudget(1.0, 1e-5)
    monkeypatch.setattr(noise, "_REHEARSED", set())
    monkeypatch.setattr(noise, "_opendp_measurement", failing)
    monkeypatch.setattr(noise, "_opendp_selection", failing)
    with pytest.raises(NoiseUnavailable, match=r"opendp is missing or broken .* Nothing was charged") as found:
        release(budget)
    assert found.value.__cause__ is None and found.value.__context__ is None and "4711" not in str(found.value)
    assert budget.history() == ()


def test_noise_that_only_the_second_part_needs_is_rehearsed_before_the_first(monkeypatch):
    draw, budget = noise._opendp_measurement, PrivacyBudget(1.0, 1e-5)
    monkeypatch.setattr(noise, "_REHEARSED", set())
    monkeypatch.setattr(
        noise, "_opendp_measurement", lambda law, scale: missing() if law == "gaussian" else draw(law, scale)
    )
    model = AdaptiveMean(
        bound=9.0, std="private", std_bound=1.0, missing="drop", epsilon=0.5, delta=1e-6, budget=budget
    )
    with pytest.raises(NoiseUnavailable, match="gaussian"):
        model.fit(np.ones((500, 1)))
    assert budget.history() == ()


def test_a_kind_of_noise_is_rehearsed_once_in_a_process(monkeypatch):
    drawn, draw = [], noise._rehearse
    monkeypatch.setattr(noise, "_REHEARSED", set())
    monkeypatch.setattr(noise, "_rehearse", lambda kind: (drawn.append(kind), draw(kind)))
    for _ in range(3):
        LaplaceMechanism(1.0, 0.5, budget=PrivacyBudget(1.0)).release(1.0)
        GaussianMechanism(1.0, 0.5, 1e-6).release(1.0)
    LaplaceMechanism(1.0, 0.5, random_state=0).release(1.0)
    assert drawn == ["laplace", "gaussian"]
