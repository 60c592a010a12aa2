"""Additive noise: calibration, lattice, budget, intervals, and what is refused."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpstats.errors import BudgetExceeded, ChargedError, InvalidData, InvalidParameter
from dpstats.lattice import exact_steps, isqrt_up
from dpstats.mechanisms import GaussianMechanism, LaplaceMechanism
from dpstats.privacy import Neighbors, PrivacyBudget, PrivacyGuarantee, compose
from dpstats.privacy.events import DiscreteLaplace, Gaussian
from dpstats.privacy.totals import certifies
from dpstats.release.noise import ExactNoise, SimulatedNoise
from tests.release.test_additive import release

# Statistical decisions reject below this; each test makes at most ten: a false alarm has probability <= 1e-6.
REJECT = 1e-7


def mechanism(kind, sensitivity=1.0, epsilon=0.5, delta=1e-6, **others):
    if kind == "laplace":
        return LaplaceMechanism(sensitivity, epsilon, **others)
    return GaussianMechanism(sensitivity, epsilon, delta, **others)


both = pytest.mark.parametrize("kind", ["laplace", "gaussian"])


def plausible_count(n, p):
    law = stats.binom(n, p)
    return law.ppf(REJECT / 2) - 1, law.isf(REJECT / 2) + 1


# Calibration


def test_laplace_scale_is_sensitivity_over_epsilon():
    # Theorem 3.6 of the foundations text, and one step of rounding in sensitivity: a power of two in (2^-39, 2^-38]
    # here, so that nothing below is rounded.
    assert LaplaceMechanism(3.0, 0.5).scale == 6.0 + 2 * 2.0**-38
    assert LaplaceMechanism(3.0, 0.5).guarantee == PrivacyGuarantee(0.5)


def test_gaussian_sigma_is_the_exact_curves():
    one = GaussianMechanism(2.0, 1.0, 1e-6)
    assert one.sigma == one.scale == pytest.approx(2 * 4.224679, rel=1e-6)
    assert one.guarantee == PrivacyGuarantee(1.0, 1e-6)


@both
@pytest.mark.parametrize("sensitivity", [1e-200, 1e-3, 1.0, 1.3, 7e8, 1e200])
@pytest.mark.parametrize("size", [1, 2, 1000])
def test_the_stage_covers_rounding_and_no_more(kind, sensitivity, size):
    # Rounding moves a coordinate by half a step at either neighbor: one step a coordinate.
    one = mechanism(kind, sensitivity)
    stage = one._stage(size)
    assert math.frexp(stage.spacing)[0] == 0.5  # a power of two: dividing by it is exact
    in_steps = Fraction(sensitivity) / Fraction(stage.spacing)
    allowance = size if kind == "laplace" else isqrt_up(size)
    assert in_steps + allowance <= stage.sensitivity_steps < in_steps + allowance + 1
    assert certifies([stage.event], one.guarantee)
    assert stage.noise_scale >= one.scale
    # and the noise is as documented: scale/spacing >= 2^40, at most size + 1 steps more sensitivity
    assert stage.noise_scale <= one.scale * (1 + (size + 1) / (0.1 * 2**40))


def test_the_laplace_stage_is_exactly_epsilon_private():
    # In rationals: the ratio of probabilities of neighboring steps is e^{sensitivity/scale}.
    for sensitivity in (0.1, 1.0, 1 / 3, 12345.678):
        for epsilon in (0.1, 0.3, 1.0, 7.7):
            stage = LaplaceMechanism(sensitivity, epsilon)._stage(3)
            assert Fraction(stage.sensitivity_steps) / Fraction(stage.scale_steps) <= Fraction(epsilon)
            assert compose([stage.event], 0.0).epsilon <= epsilon


def test_events_are_for_the_relation_that_was_given():
    one = LaplaceMechanism(1.0, 1.0, neighbors=Neighbors.ADD_OR_REMOVE_ONE)
    assert isinstance(one.event, DiscreteLaplace)
    assert one.event.neighbors is one.guarantee.neighbors is Neighbors.ADD_OR_REMOVE_ONE
    two = GaussianMechanism(1.0, 1.0, 1e-6, neighbors=Neighbors.ADD_OR_REMOVE_ONE)
    assert isinstance(two.event, Gaussian) and two.event.neighbors is Neighbors.ADD_OR_REMOVE_ONE


# What is released


@pytest.mark.parametrize("source", ["exact", "simulated"])
@both
def test_the_noise_has_the_stated_law_in_units(kind, source):
    # The wrong scales are at least .0175 away: at 120,000 draws 6.06 in units where the threshold is 2.9,
    # missed with probability 2 exp(-2 * 3.16^2) < 1e-8 (Massart's inequality).
    one = mechanism(kind, 2.5, 0.5, random_state=None if source == "exact" else 11)
    noise = (one.release(np.full(120_000, 12.25)) - 12.25) / one.scale
    law = stats.laplace if kind == "laplace" else stats.norm
    assert stats.kstest(noise, law.cdf).pvalue > REJECT
    assert stats.kstest(noise / 0.9, law.cdf).pvalue < REJECT
    assert stats.kstest(noise / 1.1, law.cdf).pvalue < REJECT


@both
def test_intervals_cover(kind):
    one, n = mechanism(kind, random_state=1), 100_000
    interval = one.confidence_interval(one.release(np.full(n, 7.0)), 0.9)
    low, high = plausible_count(n, 0.9)
    assert low <= ((interval.low <= 7.0) & (interval.high >= 7.0)).sum() <= high
    assert interval.confidence_level == 0.9 and interval.estimand == "the value before noise"
    # Power control: intervals a tenth narrower cover too rarely.
    middle, half = (interval.low + interval.high) / 2, 0.45 * (interval.high - interval.low)
    assert ((middle - half <= 7.0) & (middle + half >= 7.0)).sum() < low


def test_interval_widths():
    # P(|L| > t) = e^{-t/b}: t = b log 20 at 95%, and a step of 2^-39; normal: 1.959964 sigma.
    low, high = LaplaceMechanism(1, 0.5).confidence_interval(10.0)
    half = 2 * (1 + 2.0**-39) * math.log(20) + 2.0**-39
    assert (high - low) / 2 == pytest.approx(half, rel=1e-15) and (high + low) / 2 == 10.0
    one = GaussianMechanism(1, 0.5, 1e-6)
    low, high = one.confidence_interval(10.0)
    assert (high - low) / 2 == pytest.approx(1.959963985 * one.sigma, rel=1e-9)


@pytest.mark.parametrize("size", [1, 10])
@both
def test_error_bounds_hold_together(kind, size):
    one, n, beta = mechanism(kind, random_state=2), 40_000, 0.1
    bound = one.error_bound(beta, size)
    worst = np.abs(one.release(np.zeros(n * size))).reshape(n, size).max(axis=1)
    # Gaussian: exact. Laplace (theorem 3.8): a union bound, exact is 1 - (1 - beta/size)^size.
    exact = beta if kind == "gaussian" else 1 - (1 - beta / size) ** size
    assert exact <= beta * (1 + 1e-12)
    low, high = plausible_count(n, exact)
    assert low <= (worst > bound).sum() <= high
    assert (worst > 0.9 * bound).sum() > high  # power control


def test_error_bounds_in_closed_form():
    # Steps of 2^-39: one a number more sensitivity, over epsilon, and one for the rounding of the value.
    for size in (1, 7):
        drawn = (1 + size * 2.0**-39) / 0.5
        expected = drawn * math.log(size / 0.05) + 2.0**-39
        assert LaplaceMechanism(1, 0.5).error_bound(0.05, size) == pytest.approx(expected, rel=1e-15)
    one = GaussianMechanism(1, 0.5, 1e-6)
    # Sidak at m = 5: each two-sided tail .0102062, normal quantile 2.568763.
    assert one.error_bound(0.05, 5) == pytest.approx(2.5688 * one.sigma, rel=1e-4)
    for call, name in [
        (lambda: one.error_bound(0.0), "beta"),
        (lambda: one.error_bound(1.0), "beta"),
        (lambda: one.error_bound(0.5, 0), "size"),
        (lambda: one.confidence_interval(1.0, 1.0), "confidence_level"),
    ]:
        with pytest.raises(InvalidParameter, match=f"^{name} must be"):
            call()


@pytest.mark.parametrize("size", [1, 30])
@both
def test_what_is_stated_is_what_is_drawn_at_a_tiny_epsilon(kind, size):
    # At 1e-12 the rounding allowance is as large as the sensitivity, and grows with the numbers released: from
    # sensitivity/epsilon, 95% Laplace intervals covered .864 for one number, and .1 for thirty.
    epsilon, n, level = 1e-12, 3000, 0.95
    one = (
        LaplaceMechanism(1.0, epsilon, random_state=4)
        if kind == "laplace"
        else GaussianMechanism(1.0, epsilon, 1e-15, random_state=4)
    )
    drawn = one._stage(size).noise_scale
    assert size > 1 or one.scale == drawn
    released = np.array([one.release(np.zeros(size)) for _ in range(n)])
    interval = one.confidence_interval(released[0], level)
    half = np.ravel(interval.high - interval.low)[0] / 2
    low, high = plausible_count(n * size, level)
    assert low <= (np.abs(released) <= half).sum() <= high
    bound = one.error_bound(1 - level, size)
    exact = level if kind == "gaussian" else (1 - (1 - level) / size) ** size
    low, high = plausible_count(n, exact)
    assert low <= (np.abs(released).max(axis=1) <= bound).sum() <= high
    # The law of the draws themselves is the one that is stated, and neither a tenth more nor less.
    law = stats.laplace if kind == "laplace" else stats.norm
    if size > 1:
        assert stats.kstest(released.ravel() / drawn, law.cdf).pvalue > REJECT
        assert stats.kstest(released.ravel() / drawn / 1.1, law.cdf).pvalue < REJECT
        assert stats.kstest(released.ravel() / drawn / 0.9, law.cdf).pvalue < REJECT


def test_intervals_cover_where_concentration_calibrates():
    # Beyond epsilon of about 39 the noise is calibrated through concentrated privacy: at 60 3.2% more than the
    # exact curve asks for, with which 95% intervals would cover 94.24%.
    one, n = GaussianMechanism(1.0, 60.0, 1e-6, random_state=3), 400_000
    low, high = one.confidence_interval(one.release(np.zeros(n)))
    assert ((low <= 0) & (high >= 0)).sum() >= plausible_count(n, 0.95)[0]


@both
def test_shapes_and_scalars(kind):
    one = mechanism(kind, random_state=0)
    for value in (3, 3.0, np.float32(3), np.int8(3), np.array(3.0), True):
        assert type(one.release(value)) is float
    for shape in [(1,), (4,), (2, 3), (1, 1, 2)]:
        released = one.release(np.ones(shape))
        assert released.shape == shape and released.dtype == np.float64
    assert one.release([1, 2, 3]).shape == (3,)
    given = np.arange(6.0).reshape(2, 3)
    one.release(given)
    np.testing.assert_array_equal(given, np.arange(6.0).reshape(2, 3))


@both
def test_vectors_get_independent_noise_in_their_order(kind):
    one = mechanism(kind, 1e-6, random_state=0)
    value = np.arange(12.0).reshape(3, 4)
    noise = one.release(value) - value
    assert np.unique(noise).size == 12
    assert np.abs(noise).max() < 1e-3  # 40 scales and more: probability below 1e-17


@both
def test_one_seed_one_release(kind):
    assert mechanism(kind, random_state=5).release(1.0) == mechanism(kind, random_state=5).release(1.0)
    assert mechanism(kind).release(1.0) != mechanism(kind).release(1.0)  # equal with probability about 2^-40
    assert mechanism(kind, random_state=5).guarantee.simulated and not mechanism(kind).guarantee.simulated


def test_huge_values_are_exact_integers():
    # 1e18 in steps of 2^-40 needs 100 bits.
    one = LaplaceMechanism(1.0, 1.0, random_state=0)
    stage = one._stage(1)
    assert stage.spacing == 2.0**-40
    steps = exact_steps(np.array([1e18, -1e18, 0.0]), stage.spacing)
    assert steps.tolist() == [10**18 * 2**40, -(10**18) * 2**40, 0]
    released = release(stage, steps[:1], np.random.default_rng(0))
    noise = int(SimulatedNoise(np.random.default_rng(0)).laplace(stage.scale_steps, (1,))[0])
    # float of the exact integer sum, correctly rounded
    assert released[0] == float(Fraction(10**18 * 2**40 + noise, 2**40))
    assert abs(one.release(1e18) - 1e18) <= 128  # the spacing of doubles there


def test_small_and_large_representations_agree():
    # 2^62 steps are where integers stop being 64-bit.
    for value in (2.0**21, 2.0**22, 2.0**23):
        assert exact_steps(np.array([value]), 2.0**-40).tolist() == [int(value) * 2**40]
        one = LaplaceMechanism(1.0, 1.0, random_state=0)
        # The same noise on top, to the resolution of a double near the value (2^-30).
        noise = LaplaceMechanism(1.0, 1.0, random_state=0).release(0.0)
        assert one.release(value) - value == pytest.approx(noise, rel=0, abs=2.0**-30)


def test_values_are_rounded_to_the_nearest_step():
    rng = np.random.default_rng(0)
    for spacing in (2.0**-40, 1.0, 2.0**30):
        values = rng.normal(size=50) * spacing * 100
        for value, step in zip(values.tolist(), exact_steps(values, spacing).tolist(), strict=True):
            assert abs(Fraction(value) / Fraction(spacing) - step) <= Fraction(1, 2)


@pytest.mark.parametrize("container", [list, np.array], ids=["int", "int64"])
def test_neighboring_integers_beyond_doubles_stay_neighbors(container):
    # 1e18 + 64 and 1e18 + 65 differ by the sensitivity; their nearest doubles are 1e18 and 1e18 + 128. Each
    # count is within 430 of its mean but with probability 2e-8 (Hoeffding).
    n = 20_000
    counts = [
        (LaplaceMechanism(1.0, 1.0, random_state=7).release(container([10**18 + offset] * n)) > 1e18).sum()
        for offset in (63, 64, 65, 66)
    ]
    for one, other in [*itertools.pairwise(counts), *itertools.pairwise(counts[::-1])]:
        assert one - 430 <= math.e * (other + 430)


def test_neighboring_doubles_stay_neighbors():
    # What the test above asks of integers holds for values that doubles can hold.
    rng = np.random.default_rng(1)
    for sensitivity in (1.0, 0.3, 1e5):
        stage = LaplaceMechanism(sensitivity, 1.0)._stage(3)
        for scale in (1.0, 1e6, 1e15):
            a = np.floor(rng.normal(size=3) * scale) * 8
            b = a.copy()
            b[1] += math.floor(sensitivity)
            gaps = [x - y for x, y in zip(*(exact_steps(v, stage.spacing).tolist() for v in (a, b)), strict=True)]
            assert sum(map(abs, gaps)) <= stage.sensitivity_steps


# Refusals


@both
@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, -math.inf, [1.0, math.nan], [], np.empty((0, 3)), "text", None, [[1], [1, 2]], {"a": 1}],
)
def test_bad_values_are_refused_before_the_charge_and_not_shown(kind, value):
    budget = PrivacyBudget(1.0, 1e-5)
    one = mechanism(kind, budget=budget)
    with pytest.raises(InvalidData, match="value must") as caught:
        one.release(value)
    assert "text" not in str(caught.value)
    assert budget.history() == ()


@pytest.mark.parametrize("value", [np.array([1 + 2j]), 1j, "12", ["1", "2"]], ids=["complex", "1j", "text", "texts"])
def test_values_that_are_not_real_numbers_are_refused(value):
    # Not converted: numpy would drop the imaginary part with a warning and read "12" as a number.
    with pytest.raises(InvalidData, match="value must"):
        LaplaceMechanism(1.0, 1.0, random_state=0).release(value)


@pytest.mark.parametrize("value", [1e308, -1.7976931348623157e308, 10**400], ids=str)
def test_values_far_beyond_64_bits_are_released(value):
    # A refusal would show their size. Noise of scale 1e-3 is far below the resolution of such floats;
    # what exceeds the largest float is released as that float.
    budget = PrivacyBudget(1.0)
    released = LaplaceMechanism(1e-3, 1.0, budget=budget).release(value)
    assert released == (value if isinstance(value, float) else 1.7976931348623157e308)
    assert len(budget.history()) == 1


@pytest.mark.parametrize("name", ["epsilon", "delta", "sensitivity", "guarantee", "scale", "event"])
def test_what_is_charged_and_drawn_is_fixed_at_construction(name):
    with pytest.raises(AttributeError):
        setattr(LaplaceMechanism(1.0, 0.1), name, 100.0)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: LaplaceMechanism(0.0, 1.0), "sensitivity"),
        (lambda: LaplaceMechanism(-1.0, 1.0), "sensitivity"),
        (lambda: LaplaceMechanism(math.inf, 1.0), "sensitivity"),
        (lambda: LaplaceMechanism("1", 1.0), "sensitivity"),
        (lambda: LaplaceMechanism(5e-324, 1.0), "sensitivity"),
        (lambda: LaplaceMechanism(1e300, 1.0), "sensitivity"),
        (lambda: LaplaceMechanism(1.0, 0.0), "epsilon"),
        (lambda: LaplaceMechanism(1.0, math.nan), "epsilon"),
        (lambda: LaplaceMechanism(1.0, 1.0, neighbors="replace"), "neighbors"),
        (lambda: LaplaceMechanism(1.0, 1.0, random_state=-1), "random_state"),
        (lambda: GaussianMechanism(1.0, 1.0, 0.0), "delta"),
        (lambda: GaussianMechanism(1.0, 1.0, 1.0), "delta"),
        (lambda: GaussianMechanism(1.0, -1.0, 1e-6), "epsilon"),
    ],
)
def test_bad_parameters_are_named(call, name):
    with pytest.raises(InvalidParameter, match=f"^{name} must be"):
        call()


def test_gaussian_delta_zero_is_refused_with_the_reason():
    with pytest.raises(InvalidParameter, match="tails are too light for pure privacy; use Laplace"):
        GaussianMechanism(1.0, 1.0, 0.0)


@pytest.mark.parametrize(("epsilon", "delta"), [(699.9, 0.999999), (701.0, 1 - 1e-16)])
def test_claims_that_cannot_be_certified_are_refused_at_once(epsilon, delta):
    # Calibrated an ulp or two below the claim: the defect was found at the first release.
    with pytest.raises(InvalidParameter, match="epsilon and delta are too extreme"):
        GaussianMechanism(1.0, epsilon, delta)


def test_noise_that_cannot_be_drawn_is_refused_at_once():
    # The rounding allowance alone, two steps, needs a scale of 2e17 steps.
    with pytest.raises(InvalidParameter, match="noise scale must be between"):
        LaplaceMechanism(1.0, 1e-17)


# The budget


class _Witness:
    """A source that notes what was spent when noise was drawn, and may fail."""

    simulated = False

    def __init__(self, budget, fail=False):
        self.budget, self.fail, self.seen = budget, fail, []

    def rehearse(self, kinds):
        assert not self.seen or kinds

    def laplace(self, scale, size):
        self.seen.append(self.budget.spent)
        if self.fail:
            raise OSError("no entropy")
        return ExactNoise().laplace(scale, size)

    gaussian = laplace


@both
def test_every_release_is_charged_once_before_its_noise(kind):
    budget = PrivacyBudget(1.0, 1e-5)
    one = mechanism(kind, budget=budget)
    one._source = _Witness(budget)
    one.release([1.0, 2.0, 3.0])
    one.release(5.0)
    assert [entry.guarantee for entry in budget.history()] == [one.guarantee] * 2
    assert {entry.label for entry in budget.history()} == {type(one).__name__}
    assert [spent.epsilon for spent in one._source.seen] == [0.5, 1.0]
    with pytest.raises(BudgetExceeded):
        one.release(5.0)
    assert len(one._source.seen) == 2  # nothing was drawn


@both
def test_a_release_that_fails_after_the_charge_has_spent_it(kind):
    budget = PrivacyBudget(1.0, 1e-5)
    one = mechanism(kind, budget=budget)
    one._source = _Witness(budget, fail=True)
    with pytest.raises(ChargedError, match=r"failed \(OSError in .*\)\. The charge stands: .* Nothing was released"):
        one.release(5.0)
    assert budget.spent == one.guarantee


@both
def test_planning_and_bounds_charge_nothing(kind):
    budget = PrivacyBudget(1.0, 1e-5)
    one = mechanism(kind, budget=budget)
    _ = one.event, one.guarantee, one.error_bound(0.1), one.confidence_interval(3.0)
    assert budget.history() == ()


@both
def test_a_seed_and_a_budget_together_are_refused(kind):
    for state in (0, np.random.default_rng(0)):
        with pytest.raises(InvalidParameter, match="random_state and budget cannot be given together"):
            mechanism(kind, random_state=state, budget=PrivacyBudget(1.0, 1e-5))


@both
def test_a_budget_of_another_relation_is_refused(kind):
    budget = PrivacyBudget(1.0, 1e-5, neighbors=Neighbors.ADD_OR_REMOVE_ONE)
    with pytest.raises(InvalidParameter, match="neighbors of the budget, ADD_OR_REMOVE_ONE"):
        mechanism(kind, budget=budget).release(1.0)
    assert budget.history() == ()


def test_a_budget_that_is_no_budget_is_refused():
    with pytest.raises(InvalidParameter, match="budget"):
        LaplaceMechanism(1.0, 1.0, budget=1.0)


def test_an_impossible_scale_is_refused_before_the_charge():
    # InvalidParameter promises that nothing was charged.
    budget = PrivacyBudget(1.0)
    with pytest.raises(InvalidParameter, match="noise scale must be between"):
        LaplaceMechanism(1.0, 1e-17, budget=budget).release(0.0)
    assert budget.history() == ()


def test_large_integers_beside_a_float_keep_their_digits():
    # As floats 2**60 + 128 and + 129 are 256 apart.
    from dpstats.mechanisms.additive import _check_value

    for first, second in ((2**60 + 128, 2**60 + 129), (2**53 + 1, 2**53 + 2)):
        steps = [exact_steps(_check_value([n, 0.5]).ravel(), 2.0**-10)[0] for n in (first, second)]
        assert steps[1] - steps[0] == 2**10


@both
def test_an_exhausted_budget_refuses_before_the_value_is_looked_at(kind):
    # Otherwise a refusal of bad numbers would tell of them for nothing.
    budget = PrivacyBudget(0.1, 1e-9)
    for bad in (np.nan, [1.0, np.inf]):
        with pytest.raises(BudgetExceeded):
            mechanism(kind, budget=budget).release(bad)


@pytest.mark.parametrize(
    ("epsilon", "delta", "checked"), [(100.0, 0.5, 0), (100.1, 1e-9, 1), (1.0, 0.51, 1), (101.0, 0.6, 1)]
)
def test_a_claim_beyond_everyday_numbers_is_checked(monkeypatch, epsilon, delta, checked):
    claims = []
    monkeypatch.setattr(GaussianMechanism, "_check_claim", lambda self: claims.append(self))
    GaussianMechanism(1.0, epsilon, delta)
    assert len(claims) == checked
