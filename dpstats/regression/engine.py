"""How a regression reads, releases and reports, by the kind of its plan.

Noisy Newton steps: in each stage the path queries the rows, the session adds noise, the path updates. Few rows, and
the regressions with one release, take second moments instead. Rows may have weights, offsets and exposures with
declared bounds. The score of a model on private rows is a separate release.

Proof: docs/proofs/regression.md, "Scores".
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.rows import Rows, column_of
from dpstats.data.schema import Column
from dpstats.data.values import as_int64, quiet
from dpstats.errors import refuse, refuse_data, state_charges
from dpstats.lattice import check_finite_rows
from dpstats.lattice.base import FREE_SQUARES, FREE_SQUARES_L1, box_movement, free_weight
from dpstats.lattice.products import Sums
from dpstats.means.moments import check_bounds
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import Block as StageBlock
from dpstats.regression.blocks import Design, DesignRows
from dpstats.regression.hidden_levels import HidingPath
from dpstats.regression.levels import LevelsPath
from dpstats.regression.levels_plan import LevelsPlan
from dpstats.regression.linear_path import STAGE, LinearPath, MomentsPlan, coefficients
from dpstats.regression.log_linear_path import LogLinearPath
from dpstats.regression.passes import Floats
from dpstats.regression.path import Estimate, Path, symmetric
from dpstats.regression.plan import OFFSETS, ROWS, WEIGHT, DesignPlan, RegressionPlan
from dpstats.regression.rows import MOMENTS, OUTSIDE
from dpstats.regression.two_valued import LogisticPath
from dpstats.release.additive import Integers, JointIntegers, additive_stages
from dpstats.release.session import Released, Session

# Further columns: weights, offsets and exposures

ROLES = {"offset": "offset", "exposure": "exposure", "weights": "weight"}
"""Roles of the further columns, by parameter. The bounds are ``{role}_bounds``."""
_WIDEST = 1e100
"""Largest ratio of the bounds of an exposure."""
ARTICLES = {"weight": "a weight", "offset": "an offset", "exposure": "an exposure"}
EFFECTS = {
    "offset": "coefficients may be biased",
    "exposure": "rates may be biased",
    "weight": "coefficients describe rows with other weights",
}
"""Effect of clipping a further column, by its role."""


def add_columns(model: Any, design: Design) -> Design:
    """Return the design with the bounds of the further columns, and with the columns of two values of a formula."""
    ends: dict[str, Any] = {role: _find_ends(model, name, role) for name, role in model._roles.items()}
    return replace(design, **ends, two_valued=vars(model).get("_two_valued", ()))


def _find_ends(model: Any, parameter: str, role: str) -> tuple[float, float] | None:
    """Return the declared bounds of a further column, or None if rows do not have it."""
    name = f"{role}_bounds"
    given = getattr(model, name)
    if given is None:
        if getattr(model, parameter) is not None:
            raise refuse(name, allowed=f"given with {parameter}: a pair (low, high)")
        return None
    low, high = (float(np.ravel(end)[0]) for end in check_bounds(name, given, 1))
    if parameter != "offset" and (low < 0 or (low == 0 and parameter == "exposure")):
        least = "greater than 0" if parameter == "exposure" else "at least 0"
        raise refuse(name, given=given, allowed=least)
    if parameter == "exposure" and high / _WIDEST > low:  # so that all rates of the working model are finite
        allowed = f"a pair (low, high) with high at most {_WIDEST:g} times low"
        raise refuse(name, given=given, allowed=allowed, remedy="Give narrower bounds.")
    return low, high


def list_columns(model: Any) -> tuple[Column, ...]:
    """Return the further columns that the rows have, by the parameters of a regression."""
    return tuple(
        Column(role, getattr(model, name), parameter=name, meaning=f"{ARTICLES[role]} for each row")
        for name, role in model._roles.items()
        if getattr(model, f"{role}_bounds") is not None
    )


def join_columns(model: Any, y: Any, given: Mapping[str, Any]) -> Any:
    """Return the outcomes with the further columns that a fit is given; the estimator names others, or none exist."""
    columns = []
    for parameter, role in model._roles.items():
        column = given.get(parameter)
        if column is None:
            continue
        if getattr(model, f"{role}_bounds") is None:
            raise refuse(f"{role}_bounds", allowed=f"given with {parameter}: a pair (low, high)")
        if getattr(model, parameter) is not None:
            raise refuse(parameter, allowed="not be given twice: the estimator names its column")
        columns.append(column)
    return (y, *columns) if columns else y


def check_offset(offset: Any, n: int) -> Floats | float:
    """Return the offsets of n rows to predict for, or 0 if there are none."""
    if offset is None:
        return 0.0
    found = column_of("offset", offset)
    if found.shape != (n,) or not np.isfinite(found).all():
        raise refuse_data("offset", allowed=f"{n} finite numbers, one for each row of X")
    return found


# Newton steps


def first_path(plan: DesignPlan) -> Path | LevelsPath | HidingPath:
    """Return the path of a plan before the first release."""
    if isinstance(plan, LevelsPlan):
        return LevelsPath(plan)
    assert isinstance(plan, RegressionPlan)
    kinds: dict[str, Any] = {"linear": LinearPath, "logistic": LogisticPath}
    kind = kinds.get(plan.family, LogLinearPath)
    hides = plan.design.intercept and any(plan.design.two_valued)
    path: Path | HidingPath = HidingPath(plan, kind) if hides else kind(plan)
    return path


def read(rows: Rows, plan: DesignPlan, *, keep: bool = False) -> DesignRows:
    """Return the rows that a fit uses: all rows, or the observed ones. Raise an error for a missing entry otherwise.

    With ``keep``, rows that are few enough are converted now, once for all queries.
    """
    found = DesignRows(rows, plan.design, plan.missing == "drop")
    if keep:
        found = found.keep()
    if found.blocks is None and not found.drops:
        check_finite_rows(rows)
    return found


def release(rows: DesignRows, plan: DesignPlan, session: Session) -> None:
    """Release every stage. If the session has several draws, each draw follows its own path."""
    several = session.size
    paths = [first_path(plan) for _ in range(several or 1)]
    for stage in plan.stages:
        answers = [rows.answer(path.question(stage.name)) for path in paths]
        together = {
            name: np.stack([answer[name] for answer in answers]) if several else answers[0][name] for name in answers[0]
        }
        released = session.add(stage.name, together if hasattr(stage, "blocks") else together[stage.name])
        for draw, path in enumerate(paths):
            path.take(stage.name, of_draw(released, draw) if several else released)
    if not several:
        _walked[:] = [(plan, session.released, paths[0])]


_walked: list[tuple[DesignPlan, Released, Any]] = []
"""The last release, and its path: public numbers, from which a report need not compute the path again."""


def walked(released: Released, plan: DesignPlan) -> Any:
    """Return the path after all released values."""
    with contextlib.suppress(IndexError):  # another thread may be first
        same, values, path = _walked.pop()
        if plan is same and all(released[stage.name] is values[stage.name] for stage in plan.stages):
            return path
    path = first_path(plan)
    for stage in plan.stages:
        path.take(stage.name, released[stage.name])
    return path


def of_draw(released: Any, draw: int) -> Any:
    """Return the released values of one draw."""
    if isinstance(released, Mapping):
        return {name: values[draw] for name, values in released.items()}
    return released[draw]


def report_steps(model: Any, released: Released, plan: RegressionPlan, cov: str) -> Estimate:
    """Set the attributes that Newton steps release, and return the estimate; ``cov`` names its covariance."""
    found: Estimate = walked(released, plan).estimate()
    model._set_params(found.params, getattr(found, cov), found.privacy)
    report_counts(model, released, plan, found)
    return found


def report_counts(model: Any, released: Released, plan: RegressionPlan, found: Estimate) -> None:
    """Set the number of rows, their total weight, and the fractions of further columns outside their bounds."""
    model.condition_ = found.condition
    if plan.count_stage is not None:
        count, noise = (
            plan.n_samples * float(np.ravel(part)[0])
            for part in (released[plan.count_stage], plan.noise(plan.count_stage).std)
        )
        model._counted = found.rows
        if plan.count_stage == ROWS:
            model.rows_, model.rows_noise_std_ = count, noise
        elif plan.design.weight is not None:
            largest = plan.design.weight[1]
            model.total_weight_, model.total_weight_noise_std_ = largest * count, largest * noise
            model.effective_rows_ = found.effective
    for role in EFFECTS:
        share, std = f"clipped_{role}_share_", f"clipped_{role}_share_std_"
        for name in (share, std):  # of an earlier fit
            model.__dict__.pop(name, None)
        if getattr(plan.design, role) is not None:
            stage, factor = (WEIGHT, math.sqrt(5) / 2) if role == "weight" else (OFFSETS, 1.0)
            noise = factor * float(np.max(plan.noise(stage).std)) * plan.n_samples / found.rows
            setattr(model, share, found.weight_outside if role == "weight" else found.offset_outside)
            setattr(model, std, noise)


def report_clipped(model: Any, share: float, rows: float | None = None) -> None:
    """Set the fraction of outcomes outside their bounds; ``rows`` is the number of observed rows."""
    plan = model.plan_
    model.clipped_share_ = share
    noise = float(np.max(plan.noise(OUTSIDE).std))
    model.clipped_share_std_ = noise * plan.n_samples / (rows or plan.n_samples)


# Second moments of (1, x, y), released once


def read_moments(rows: Rows, plan: MomentsPlan) -> dict[str, Sums]:
    """Return the second moments of the rows. A dropped row adds 0 to every sum, and coefficients are ratios of sums."""
    return {STAGE: read(rows, plan).answer(plan.question)}


def report_moments(model: Any, released: Released, plan: MomentsPlan) -> None:
    """Set the attributes of a fit from the released second moments."""
    found = released[STAGE]
    moments = symmetric(found[f"{MOMENTS}, diagonal"], found[f"{MOMENTS}, above the diagonal"])
    units, offset = plan.to_units()
    intercept = plan.design.intercept
    said = coefficients(moments, plan.matrix_noise, plan.n_samples, plan.constant, intercept, units)
    model._set_params(said.estimate + offset, said.cov, said.privacy)
    model.intercept_identified_ = bool(said.known[0]) if intercept else True
    model.identified_ = said.known[int(intercept) :]
    model.condition_, model.scale_ = said.condition, said.scale * plan.outcome_unit
    report_clipped(model, float(found[OUTSIDE][0]))
    if plan.missing == "drop":
        # Each observed row counts with its weight, so the count is at most the number of observed rows.
        model._counted = said.share * plan.n_samples


# Scores


_BITS = 30
MEANS, SQUARES, CORRECT = "means", "squares", "share that is right"
VARIATION = "residuals and outcomes"


def variation_plan(n: int, epsilon: float, delta: float) -> ReleasePlan:
    """Return the plan of releasing means and squares of residuals and outcomes, each in [-1, 1], of n rows."""
    norm = "l2" if delta > 0 else "l1"
    weight = free_weight(FREE_SQUARES, _BITS) if delta > 0 else FREE_SQUARES_L1
    step, unit = 2.0**-_BITS / n, 2.0**_BITS
    moved = box_movement((1.0, weight), 2**_BITS, norm)
    both = math.sqrt(2 * moved) if delta > 0 else 2 * moved
    moved_units = both / unit * (1 + 1e-12)
    blocks = (StageBlock(MEANS, 2, step, unit), StageBlock(SQUARES, 2, step, unit / weight))
    item = JointIntegers(VARIATION, blocks, moved_units, moved_units)
    return ReleasePlan(additive_stages([item], epsilon, delta), PrivacyGuarantee(epsilon, delta), n, 2)


def accuracy_plan(n: int, epsilon: float, delta: float) -> ReleasePlan:
    """Return the plan of releasing the number of correct predictions for n rows."""
    item = Integers(CORRECT, 1, 2.0**-_BITS / n, 1 << _BITS, 1 << _BITS)
    return ReleasePlan(additive_stages([item], epsilon, delta), PrivacyGuarantee(epsilon, delta), n, 1)


def release_variation(plan: ReleasePlan, session: Session, residuals: Floats, outcomes: Floats) -> None:
    """Release moments of residuals and outcomes, clipped to [-1, 1]. A residual that overflows to NaN counts as 1."""
    known = np.where(np.isnan(residuals), 1.0, residuals)
    both = np.clip(np.stack([known, outcomes], axis=1), -1.0, 1.0)
    steps = as_int64(np.rint(both * 2.0**_BITS))
    squares = steps * steps >> _BITS
    session.add(VARIATION, {MEANS: steps.sum(axis=0), SQUARES: squares.sum(axis=0)})


def release_accuracy(plan: ReleasePlan, session: Session, right: NDArray[np.bool_]) -> None:
    """Release the number of correct predictions."""
    session.add(CORRECT, np.array([np.count_nonzero(right) << _BITS]))


def determination(released: Any) -> float:
    """Return R^2 from the values that `release_variation` released, in half-widths of the outcome."""
    means, squares = released[VARIATION][MEANS], released[VARIATION][SQUARES]
    total = float(squares[1] - means[1] ** 2)
    if total <= 0:
        return math.nan
    # Residuals are clipped at twice the half-width, so their squares are in units of 4.
    return float(np.clip(1 - 4 * max(float(squares[0]), 0.0) / total, -1e6, 1.0))


@state_charges
def score_variation(model: Any, X: Any, fitted: Floats, outcomes: Floats) -> float:
    """Return a private R^2 of fitted outcomes: a charged release of their squared residuals."""
    design = model.plan_.design
    center, half = design.outcome or (design.y_center, design.y_half)
    plan = model._smaller_noise(
        partial(variation_plan, fitted.size, model.epsilon),
        getattr(model, "delta", 0.0),
        lambda plan: plan.noise(SQUARES).std,
    )
    session = model._session(plan, f"{type(model).__name__} score", X)
    with quiet():
        inside = np.clip((outcomes - center) / half, -1.0, 1.0)
        residuals = (inside - (fitted - center) / half) / 2
    with session:
        release_variation(plan, session, residuals, inside)
    return determination(session.released)
