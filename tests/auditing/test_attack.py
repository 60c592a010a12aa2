"""The auditor: right releases pass at the stated rate, wrong ones are caught, both ways round."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.auditing import audit, audit_outputs, release_check
from dpstats.errors import InvalidParameter
from dpstats.mechanisms import RandomizedResponse
from dpstats.privacy import gaussian_sigma
from tests.auditing.releases import answers, laplace, number, vector, words


def test_false_alarms_are_at_most_the_stated_rate() -> None:
    # 400 audits of a tight claim at confidence 0.9: alarms are Binomial(400, p <= 0.1); more than 64 has
    # probability below 1e-4 (the two one-sided bounds make the true rate much smaller).
    alarms = sum(
        audit(laplace, 0.0, 1.0, epsilon=1.0, n_trials=2000, confidence=0.9, batched=True, random_state=seed).violated
        for seed in range(400)
    )
    assert alarms <= 64


def test_delta_is_taken_into_account() -> None:
    sigma = gaussian_sigma(3.0, 1e-2)

    def gaussian(value, rng, size):
        return value + rng.normal(scale=sigma, size=size)

    options = {"n_trials": 200_000, "batched": True, "random_state": 0}
    honest = audit(gaussian, 0.0, 1.0, epsilon=3.0, delta=1e-2, **options)
    assert not honest.violated and honest.epsilon_lower > 2.0
    # The same release claimed at a hundredth of its delta is caught.
    assert audit(gaussian, 0.0, 1.0, epsilon=3.0, delta=1e-4, **options).violated


def test_one_output_at_a_time() -> None:
    def release(value, rng):
        return float(value + rng.laplace())

    result = audit(release, 0.0, 4.0, epsilon=1.0, n_trials=4000, random_state=0)
    assert result.violated and result.n_trials == 4000


def test_a_release_that_ignores_the_data_proves_nothing() -> None:
    def constant(value, rng, size):
        return np.zeros(size)

    assert audit(constant, 0.0, 1.0, epsilon=0.0, n_trials=1000, batched=True).epsilon_lower == 0.0


def test_bad_input() -> None:
    with pytest.raises(InvalidParameter, match="n_trials must"):
        audit(laplace, 0, 1, epsilon=1.0, n_trials=2, batched=True)
    with pytest.raises(InvalidParameter, match="epsilon must"):
        audit(laplace, 0, 1, epsilon=-1.0, batched=True)
    with pytest.raises(InvalidParameter, match="confidence must"):
        audit(laplace, 0, 1, epsilon=1.0, confidence=1.0, batched=True)
    with pytest.raises(InvalidParameter, match="release must"):
        audit(lambda v, rng, size: np.zeros(3), 0, 1, epsilon=1.0, n_trials=100, batched=True)
    with pytest.raises(InvalidParameter, match="release must"):
        audit(lambda v, rng: slice(2), 0, 1, epsilon=1.0, n_trials=100)
    with pytest.raises(InvalidParameter, match="release must"):
        audit([], 0, 1, epsilon=1.0, n_trials=100)


def test_randomized_response_is_proved_to_a_tenth() -> None:
    mechanism = RandomizedResponse(1.0, random_state=np.random.default_rng(0))

    def release(value, rng, size):
        return mechanism.randomize(np.full(size, value))

    result = audit(release, 0, 1, epsilon=1.0, n_trials=100_000, batched=True, random_state=0)
    assert not result.violated and result.epsilon_lower >= 0.9


def test_several_releases_together() -> None:
    def tenth(value, rng, size):
        return value + rng.laplace(scale=10.0, size=size)

    options = {"n_trials": 200_000, "batched": True, "random_state": 0}
    one = audit(tenth, 0.0, 1.0, epsilon=0.5, **options)
    assert one.epsilon_lower <= 0.1
    together = audit([tenth] * 10, 0.0, 1.0, epsilon=1.0, **options)
    assert not together.violated and together.epsilon_lower > 5 * one.epsilon_lower
    assert audit([tenth] * 10, 0.0, 1.0, epsilon=0.5, **options).violated


@pytest.mark.parametrize("release", [number, words, vector])
def test_the_result_does_not_depend_on_the_number_of_processes(release) -> None:
    options = {"epsilon": 1.0, "n_trials": 4000, "batched": True, "random_state": 3}
    assert audit(release, 0, 1, **options) == audit(release, 0, 1, n_jobs=2, **options)


def test_one_at_a_time_in_processes() -> None:
    results = [
        audit(lambda v, rng: v + rng.laplace(), 0, 1, epsilon=1.0, n_trials=12_000, random_state=1, n_jobs=jobs)
        for jobs in (1, 2)
    ]
    assert results[0] == results[1]


def test_a_release_that_repeats_itself_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="release must"):
        audit(
            lambda value, rng, size: value + np.random.default_rng(0).laplace(size=size),
            0,
            1,
            epsilon=1.0,
            n_trials=1000,
            batched=True,
        )


def test_recorded_outputs() -> None:
    rng = np.random.default_rng(0)
    recorded = [number(value, rng, 20_000) for value in (0, 1)]
    result = audit_outputs(*recorded, epsilon=0.8)
    assert result.violated and result.n_trials == 20_000
    # A list of numbers is what an array is, and an odd run is left out.
    lists = [[*values.tolist(), 0.0] for values in recorded]
    assert audit_outputs(lists[0][:-1], lists[1][:-1], epsilon=0.8) == result
    assert audit_outputs(*lists, epsilon=0.8).n_trials == 20_000
    with pytest.raises(InvalidParameter, match="neighbor_outputs must"):
        audit_outputs([1, 2], [1, 2, 3], epsilon=1.0)
    with pytest.raises(InvalidParameter, match="outputs must"):
        audit_outputs("text", [1, 2, 3, 4], epsilon=1.0)


@pytest.mark.parametrize("release", [answers, [answers, answers]])
def test_the_fewest_runs_prove_nothing_and_break_nothing(release) -> None:
    assert audit(release, 0, 1, epsilon=1.0, n_trials=4, random_state=0).epsilon_lower == 0.0


def test_the_event_is_chosen_on_runs_that_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {}
    choose, count = release_check.choose_event, release_check.count_event
    monkeypatch.setattr(
        release_check, "choose_event", lambda pair, delta: seen.update(chosen=pair) or choose(pair, delta)
    )
    monkeypatch.setattr(release_check, "count_event", lambda *rest: seen.update(counted=rest[-1]) or count(*rest))
    audit(laplace, 0.0, 1.0, epsilon=1.0, n_trials=2000, batched=True, random_state=0)
    for chosen, counted in zip(seen["chosen"], seen["counted"], strict=True):
        assert len(chosen[0]) == len(counted[0]) == 1000
        assert not set(np.ravel(chosen[0])) & set(np.ravel(counted[0]))
