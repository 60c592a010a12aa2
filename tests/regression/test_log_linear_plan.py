"""The plan of a log-linear regression: its stages, their fractions, and their sensitivities."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from dpstats.regression.blocks import Design
from dpstats.regression.log_linear_plan import (
    CALIBRATION,
    RATES,
    TILT_WEIGHT,
    WIDER,
    log_linear_plan,
    rate_ends,
    shares,
)
from dpstats.regression.plan import (
    CENTER,
    DIRECTIONS,
    LAST_NORMS,
    LENGTHS,
    NORMS,
    OFFSETS,
    ROWS,
    STEPS,
    size_name,
    step_name,
)

DESIGN = Design.check((-1, 1), (0, 50), 3, True)


def plan(**facts: object) -> object:
    design = replace(DESIGN, exposure=facts.pop("exposure", None))  # type: ignore[arg-type]
    given = {"n": 20_000, "epsilon": 1.0, "delta": 1e-6, **facts}
    return log_linear_plan("counts", 1.0, design, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize("n", [50, 2000, 10**6])
@pytest.mark.parametrize("mu", [0.01, 0.25, 20.0])
def test_fractions_add_up_to_one_and_the_last_step_has_most(n: int, mu: float) -> None:
    for missing in ("error", "drop"):
        parts = dict(shares(n, mu, DESIGN, missing))
        assert math.fsum(parts.values()) == pytest.approx(1)
        assert max(parts, key=parts.__getitem__) == step_name(STEPS)
        assert (ROWS in parts) == (missing == "drop")


def test_a_plan_without_columns_has_no_stage_for_them() -> None:
    none = Design.check(np.zeros((0, 2)), (0, 100), 0, True)
    alone, exposed = (
        log_linear_plan("counts", 1.0, design, 20_000, 1.0, 1e-6)
        for design in (none, replace(none, exposure=(0.1, 10.0)))
    )
    names = [stage.name for stage in alone.stages]
    assert not {CENTER, LENGTHS, DIRECTIONS, NORMS} & set(names)
    assert names[0] == RATES and {stage.name for stage in exposed.stages} == {OFFSETS, CENTER, *names}
    assert alone.blur == 0 and not alone.noise_only


def test_stages_come_in_the_order_that_the_path_needs() -> None:
    names = [stage.name for stage in plan().stages]  # type: ignore[attr-defined]
    assert names[:1] == [CENTER] and names[-1] == CALIBRATION
    assert names.index(RATES) < names.index(size_name(1)) < names.index(step_name(1))
    assert names[-4:-1] == [size_name(4), LAST_NORMS, step_name(4)]


def test_sensitivities_are_those_of_the_proof() -> None:
    stages = {stage.name: stage for stage in plan().stages}  # type: ignore[attr-defined]
    early, last = stages[step_name(1)], stages[step_name(STEPS)]
    assert math.sqrt(4.5) < early.sensitivity < math.sqrt(4.5) * (1 + 1e-4)
    assert math.sqrt(4.25) < last.sensitivity < math.sqrt(4.25) * (1 + 1e-4)
    assert stages[CALIBRATION].sensitivity == pytest.approx(math.sqrt(1.25), rel=1e-8)
    assert stages[size_name(1)].sensitivity == pytest.approx(1.5)
    assert stages[size_name(2)].sensitivity_steps == pytest.approx(math.sqrt(2) * 2**30)
    assert stages[RATES].sensitivity_steps == pytest.approx(math.sqrt(2) * 2**20)


def test_the_offset_is_one_more_number_of_the_center() -> None:
    outside, with_offset = plan(exposure=(0.1, 2.0)).stages[:2]  # type: ignore[attr-defined]
    assert (outside.name, outside.size) == (OFFSETS, 1)
    without = plan().stages[0]  # type: ignore[attr-defined]
    assert (with_offset.size, without.size) == (4, 3)
    assert with_offset.sensitivity_steps > without.sensitivity_steps


def test_the_weight_of_the_tilt_is_the_largest_of_lemma_3() -> None:
    # Exhaustively over excesses and tilts: attained at the weight, and exceeded a little above it.
    x = np.concatenate([np.linspace(0, 2, 41), [3.0]])
    t = np.linspace(-1, 1, 21)
    e, h = np.minimum(x / WIDER, 1), np.minimum(x, 1)
    first = np.repeat(e, t.size)
    second = (h[:, None] * t).ravel()

    def most(weight: float) -> float:
        apart = (first[:, None] - first) ** 2 + weight**2 * (second[:, None] - second) ** 2
        return float(apart.max())

    assert most(TILT_WEIGHT) == pytest.approx(1 + TILT_WEIGHT**2)
    assert most(1.1 * TILT_WEIGHT) > 1 + (1.1 * TILT_WEIGHT) ** 2 + 1e-3


def test_bins_end_at_the_largest_outcome() -> None:
    ends = rate_ends()
    assert ends[-1] == 1 and np.allclose(ends[1:] / ends[:-1], 2)


def test_what_the_plan_says_of_noise() -> None:
    assert not plan().noise_only  # type: ignore[attr-defined]
    assert plan(n=200, epsilon=0.1).noise_only  # type: ignore[attr-defined]
    assert plan().facts()["overdispersion"] == 1.0  # type: ignore[attr-defined]
