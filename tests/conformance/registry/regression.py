"""The regression engine: linear and logistic, each stage asked about the worst rows, and whole fits attacked."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from typing import Any

import numpy as np

from dpstats.auditing.movement import vectors
from dpstats.data.rows import Table
from dpstats.privacy import JointStage, Plan
from dpstats.regression import PrivateLinearRegression, PrivateLogisticRegression
from dpstats.regression.blocks import Blocks, Question
from dpstats.regression.engine import first_path, release
from dpstats.regression.log_linear import LogLinearRegression
from dpstats.regression.log_linear_plan import EXCESS, TILT
from dpstats.regression.plan import TAIL, step_name
from dpstats.regression.rows import GRADIENT, LinearStep, LogisticStep, Step, Tail
from dpstats.release.session import Session
from registry.entry import Asked, Dataset, Entry, PlantedBug, Traits, Understated, having, less_noise, quieter

WHOLE = 800
"""Trials of whole fits, which are drawn one at a time."""

LINEAR = {"x_bounds": (-1.0, 1.0), "y_bounds": (-1.0, 1.0), "epsilon": 3.0, "delta": 1e-2}
LOGISTIC = {"x_bounds": (-1.0, 1.0), "epsilon": 3.0, "delta": 1e-2}
TIGHT = {"epsilon": 1.0}
MIDDLING = "probabilities on this path are far from 0 and 1, where gradient and Hessian move most"


FURTHER = {"exposure": (0.5, 2.0), "offset": (-0.1, 0.1), "weight": (0.2, 1.0)}
"""Ranges of the further columns that a path is made from."""


def further(estimator: Any) -> list[str]:
    """Return the roles of the columns that the estimator takes after the outcome."""
    roles = getattr(estimator, "_roles", {}).values()
    return [role for role in roles if getattr(estimator, f"{role}_bounds") is not None]


def split(estimator: Any, data: Dataset) -> tuple[Dataset, ...]:
    """Return rows and outcomes, which are the last column, and the further columns, if there are any after that."""
    d = data.shape[1] - 1 - len(further(estimator))
    return data[:, :d], *data[:, d:].T


def table(estimator: Any, data: Dataset) -> Table:
    """Return rows as a table."""
    X, y, *columns = split(estimator, data)
    return Table(X, y=y, **dict(zip(further(estimator), columns, strict=True)))


def given(private: Any) -> tuple[Any, Any, Any]:
    """Return the rows, the outcomes and the design of what a regression has read."""
    whole = private.rows.whole()
    return whole.X, whole.y, private.design


def plan_of(estimator: Any, data: Dataset) -> Any:
    return estimator.plan(*split(estimator, data)[0].shape)


def background(n: int, outcome: float = 0.0) -> Dataset:
    """Return rows of one column that all reach the same norm in whitened coordinates."""
    return np.stack([np.where(np.arange(n) % 2, 0.5, -0.5), np.full(n, outcome)], axis=1)


def with_row(data: Dataset, *row: float) -> Dataset:
    changed = data.copy()
    changed[0] = row
    return changed


def raw(plan: Any, released: Any) -> np.ndarray:
    """Return the first step's gradient."""
    return np.asarray(released[step_name(1)][GRADIENT])


def whole_fits(estimator: Any, seen: Callable[..., np.ndarray]) -> Any:
    """Return the core of a fit, drawn many times: every draw goes its own way."""

    def draw(data: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        plan = plan_of(estimator, data)
        with Session.simulated(plan, rng, size) as session:
            estimator._release(estimator._read(table(estimator, data), plan), plan, session)
        return seen(plan, session.released)

    return draw


def on_one_way(estimator: Any, pair: tuple[Dataset, Dataset]) -> Any:
    """Return all stages of a fit, drawn many times on one way that it could go, as an attacker best sees them.

    An attacker knows both datasets: what tells them apart is the sum of what each stage released along the difference
    of its answers, over the noise's variance. The way is walked when it is first drawn on.
    """

    @cache
    def find_way() -> tuple[Any, list[Question]]:
        return questions(estimator, *split(estimator, pair[0])[0].shape)

    def answers(data: Dataset) -> list[Any]:
        # As the estimator reads and answers, bugs included.
        rows = estimator._bent(estimator._read(table(estimator, data), find_way()[0]))
        return [rows.answer(question) for question in find_way()[1]]

    @cache
    def answer_pair() -> tuple[list[Any], ...]:
        return tuple(map(answers, pair))

    def draw(data: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        plan = find_way()[0]
        with Session.simulated(plan, rng, size) as session:
            return attack(session, plan.stages, answers(data), *answer_pair())[:, None]

    return draw


def answered(rows: Any, plan: Any, asked: Sequence[Question]) -> Asked:
    """Return the integers of each stage, which the rows of a fit answer."""

    def answer(stage: Any, question: Question) -> Any:
        found = rows.answer(question)
        return found if isinstance(stage, JointStage) else found[stage.name]

    return Asked([partial(answer, *both) for both in zip(plan.stages, asked, strict=True)])


def attack(session: Session, stages: Any, found: list[Any], first: list[Any], second: list[Any]) -> np.ndarray:
    """Return what releases of many draws say about which of two datasets answered, whose answers are given."""
    total: Any = 0.0
    for stage, steps, a, b in zip(stages, found, first, second, strict=True):
        joint = isinstance(stage, JointStage)
        released = session.add(stage.name, steps if joint else steps[stage.name], units=False)
        for vector in vectors(stage):
            noisy_steps = released[vector.name] if joint else released
            apart = (a[vector.name] - b[vector.name]) / vector.scale
            total += ((noisy_steps - b[vector.name]) / vector.scale) @ apart
    return np.asarray(total)


def public(estimator: Any) -> Any:
    def call(data: Dataset, budget: Any) -> tuple[Plan, np.ndarray]:
        made = type(estimator)(**{**estimator.get_params(), "random_state": None, "budget": budget})
        made.fit(*split(estimator, data))
        return made.plan_, made.params_

    return call


def questions(estimator: Any, n: int, d: int) -> tuple[Any, list[Question]]:
    """Return a plan, and what its stages ask of the rows on one way that noise could lead to."""
    rng = np.random.default_rng(3)
    X = rng.uniform(-0.8, 0.8, (n, d))
    y = X @ np.full(d, 0.4) + rng.normal(scale=0.05, size=n)
    if isinstance(estimator, PrivateLogisticRegression):
        y = (y > 0).astype(float)
    elif isinstance(estimator, LogLinearRegression):
        y = rng.poisson(np.exp(1 + y)).astype(float)
    data = np.column_stack([X, y, *(rng.uniform(*FURTHER[role], n) for role in further(estimator))])
    plan = estimator.plan(n, d)
    return plan, walk(plan, estimator._read(table(estimator, data), plan), rng)


def walk(plan: Any, rows: Any, rng: np.random.Generator) -> list[Question]:
    """Return what the stages of a plan ask of rows, on one way that noise could lead to."""
    asked, path = [], first_path(plan)
    with Session.simulated(plan, rng) as session:
        for stage in plan.stages:
            asked.append(path.question(stage.name))
            found = rows.answer(asked[-1])
            path.take(
                stage.name, session.add(stage.name, found if isinstance(stage, JointStage) else found[stage.name])
            )
    return asked


def at_radius(question: Step, design: Any, direction: np.ndarray) -> np.ndarray:
    """Return a row, in the units of the data, whose whitened norm is the radius at which rows are bounded."""
    first = int(design.intercept)
    low, high = 0.0, 2.0**12
    for _ in range(80):
        middle = (low + high) / 2
        row = np.append(np.ones(first), middle * direction) * 2.0**18
        low, high = (middle, high) if np.linalg.norm(question.whitening @ row) < question.radius else (low, middle)
    return design.center + design.half * (low * direction + question.shift * 2.0**-18)


def worst_rows(question: Question, design: Any, d: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield pairs of rows (x, y) that a stage can tell apart best; and any others."""
    rng = np.random.default_rng(4)
    corners = np.ones(d)
    yield np.append(np.zeros(d), 0.0), np.append(1e5 * corners, 0.0)
    far = [np.append(sign * corners, y) for sign in (-1, 1) for y in (-1.0, 0.0, 1.0)]
    yield from ((a, b) for a in far for b in far)
    for v in [*np.eye(d), *rng.standard_normal((6, d))]:
        w = np.roll(v, 1) * np.append(-1, np.ones(d - 1)) if d > 1 else -v
        for size in (1e-3, 1.0, 50.0):
            for y, z in ((1.0, -1.0), (0.0, 1.0)):
                yield np.append(size * v, y), np.append(size * w, z)
                yield np.append(size * v, y), np.append(size * v, z)
        if isinstance(question, LinearStep):
            x = at_radius(question, design, v)
            fitted = fit_of(question, design, x)
            inside, beyond = fitted + question.width * (1 - 1e-9), fitted - 3 * question.width
            yield np.append(x, inside), np.append(x, beyond)
            yield np.append(x, beyond), np.append(x, fitted + 3 * question.width)
        elif isinstance(question, Tail):
            x = at_radius(question, design, v)
            yield np.append(x, 1.0), np.append(x, -1.0)
        elif isinstance(question, LogisticStep):
            x = at_radius(question, design, v)
            for scale in (1.0, 1e2, 1e4):
                for y in (0.0, 1.0):
                    yield np.append(x, 1.0), np.append(scale * x, y)
        elif hasattr(question, "theta"):
            fitted = fit_of(question, design, v)
            yield np.append(v, fitted), np.append(v, 1.0)
            yield np.append(v, 1.0), np.append(v, -1.0)
            yield np.append(v, fitted), np.append(v, 3.0)


def fit_of(question: Any, design: Any, x: np.ndarray) -> float:
    """Return what the model says of a row, in half-widths of the outcome."""
    z = np.rint((x - design.center) / design.half * 2.0**18) - question.shift
    row = np.append(np.full(int(design.intercept), 2.0**18), z)
    return float(row @ question.theta)


def regression_entry(
    name: str,
    estimator: Any,
    pair: tuple[Dataset, Dataset],
    draw: Any,
    *,
    d: int,
    power: float,
    bugs: tuple[PlantedBug, ...],
    understated: tuple[Understated, ...] = (),
    unattained: Mapping[str, float] | None = None,
    unattained_reason: str = "",
    rows: Callable[..., Iterator[tuple[np.ndarray, np.ndarray]]] = worst_rows,
    proof: str = "regression.md",
) -> Entry:
    plan, asked = questions(estimator, len(pair[0]), d)

    def pairs() -> Iterator[tuple[Dataset, Dataset]]:
        seen = set()
        for first, second in chain.from_iterable(rows(question, plan.design, d) for question in asked):
            # Several stages have the same worst rows.
            if (pair := (first.tobytes(), second.tobytes())) not in seen:
                seen.add(pair)
                yield first[None], second[None]
                if plan.missing == "drop":
                    yield first[None], np.append(second[:-1], np.nan)[None]
                    yield np.append([np.inf], first[1:])[None], second[None]

    given = {**estimator.get_params(), "epsilon": 200.0, "random_state": 0}
    for role in further(estimator):
        given[f"{role}_bounds"] = None  # whole-package nets give outcomes only
    return Entry(
        name=name,
        covers=type(estimator),
        proof=proof,
        plan=plan,
        integers=lambda data: answered(estimator._read(table(estimator, data), plan), plan, asked),
        pairs=pairs,
        draw=draw,
        dataset=pair[0],
        neighbor=pair[1],
        power=power,
        public=public(estimator),
        bugs=bugs,
        understated=understated,
        unattained=unattained or {},
        unattained_reason=unattained_reason,
        estimator=type(estimator)(**given),
    )


class Linear(PrivateLinearRegression):
    """The estimator, with a place where planted bugs bend what the rows answer."""

    def _bent(self, rows: Blocks) -> Blocks:
        return rows

    def _release(self, private: Blocks, plan: Any, session: Session) -> None:
        release(self._bent(private), plan, session)


class Logistic(PrivateLogisticRegression):
    """The same."""

    def _bent(self, rows: Blocks) -> Blocks:
        return rows


class LittleNoise(Linear):
    """Planted bug: half the noise that the guarantee needs."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        return less_noise(super().plan(n_samples, n_features))


class VeryLittleNoise(Linear):
    """Planted bug: a quarter of the noise."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        return less_noise(super().plan(n_samples, n_features), 0.25)


class LittleLogisticNoise(Logistic):
    """Planted bug: a quarter of the noise."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        return less_noise(super().plan(n_samples, n_features), 0.25)


class EveryStepInFull(Linear):
    """Planted bug: every step takes the noise of the whole budget."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        plan = super().plan(n_samples, n_features)
        stages = [
            quieter(stage, math.sqrt(plan.share(stage.name))) if stage.name.startswith("step") else stage
            for stage in plan.stages
        ]
        return replace(plan, stages=tuple(stages))


class _OutcomeFree(Blocks):
    """Rows whose scaling forgets the outcome: x is bounded, and the residual as it is."""

    def answer(self, question: Question) -> Any:
        found = super().answer(question)
        if isinstance(question, LinearStep):
            block = self.block(slice(None))
            rows, fitted = block.bound(question.ball)[0], question.fitted(block)
            v = np.rint((block.y - fitted) / question.width * 2.0**question.bits)
            found[GRADIENT] = (v @ rows).astype(np.int64)
        return found


class OnlyRowsScaled(Linear):
    """Planted bug: x is bounded, and y is not."""

    def _bent(self, rows: Blocks) -> Blocks:
        return _OutcomeFree(*given(rows))


class _OwnWidth(Blocks):
    """Rows whose residuals are clipped at a multiple of their own largest, which was never released."""

    def answer(self, question: Question) -> Any:
        if isinstance(question, LinearStep):
            block = self.block(slice(None))
            largest = float(np.abs(np.where(block.far, 0.0, block.y - question.fitted(block))).max())
            question = replace(question, width=max(largest, 1e-6))
        return super().answer(question)


class WidthFromTheResiduals(Linear):
    """Planted bug: residuals are clipped at what they themselves reach."""

    def _bent(self, rows: Blocks) -> Blocks:
        return _OwnWidth(*given(rows))


class _Heavy(Blocks):
    """Rows whose weights are divided by their bound, and not clipped to it."""

    def block(self, where: slice) -> Any:
        block = super().block(where)
        assert self.weight is not None and self.design.weight is not None
        return replace(block, weight=self.weight[where] / self.design.weight[1])


class WeightsNotClipped(Linear):
    """Planted bug: a row counts with any weight."""

    def _bent(self, rows: Any) -> Blocks:
        whole = rows.rows.whole()
        return _Heavy(whole.X, whole.y, rows.design, offset=whole.offset, weight=whole.weight)


class BoundsFromTheData(Linear):
    """Planted bug: the outcome's bounds are its range."""

    def _read(self, table: Table, plan: Any) -> Blocks:
        X, y, design = given(super()._read(table, plan))
        middle, half = (y.max() + y.min()) / 2, max(float(np.ptp(y)) / 2, 1e-9)
        return Blocks(X, y, replace(design, y_center=float(middle), y_half=half))


def non_private_covariance(data: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
    """Planted bug: standard errors from the sampling covariance of the rows themselves."""
    Z = np.column_stack([np.ones(len(data)), data[:, :-1]])
    r = data[:, -1] - Z @ np.linalg.lstsq(Z, data[:, -1], rcond=None)[0]
    errors = np.sqrt(np.diag(np.linalg.inv(Z.T @ Z)) * (r @ r) / len(data))
    return np.tile(errors, (size, 1))


def product_clip() -> Understated:
    """Return the Gram matrix taken as free beside a gradient whose product with the residual is clipped."""
    estimator = PrivateLinearRegression(**LINEAR)
    plan, asked = questions(estimator, 500, 2)
    place = next(i for i, stage in enumerate(plan.stages) if stage.name == step_name(1))
    question, stage = asked[place], plan.stages[place]
    assert isinstance(question, LinearStep)

    def integers(data: Dataset) -> list[Any]:
        rows = Blocks(data[:, :-1], data[:, -1], plan.design)
        block = rows.block(slice(None))
        found = rows.answer(question)
        inside, fitted = block.bound(question.ball)[0], question.fitted(block)
        v = (block.y - fitted) / question.width
        product = np.linalg.norm(inside, axis=1) * np.abs(v) * 2.0**-question.bits
        # min(1, C/|x r|): short rows may pull as long ones do, and then the Gram matrix moves beside them.
        pulls = inside * (v / np.maximum(product, 1.0))[:, None]
        found[GRADIENT] = np.rint(pulls * (1 - 1e-5)).astype(np.int64).sum(axis=0) << question.bits
        return [found]

    def pairs() -> Iterator[tuple[Dataset, Dataset]]:
        for v in np.eye(2):
            x = at_radius(question, plan.design, v)
            fitted = fit_of(question, plan.design, x)
            for part in np.linspace(0.05, 0.95, 19):
                short = part * x
                at = fit_of(question, plan.design, short)
                for pull in (0.5, 1.0, 2.0, 4.0, 8.0):
                    yield (
                        np.append(x, fitted + question.width)[None],
                        np.append(short, at - pull * question.width)[None],
                    )

    one = replace(plan, stages=(stage,))
    return Understated("Gram matrix free beside a product clip", one, integers, pairs)


def free_unclipped() -> Understated:
    """Return a later step with the noise of the first: as if the Gram matrix of the unclipped rows were free."""
    estimator = PrivateLinearRegression(**LINEAR)
    plan, asked = questions(estimator, 500, 2)
    first, later = (next(i for i, stage in enumerate(plan.stages) if stage.name == step_name(t)) for t in (1, 2))

    def integers(data: Dataset) -> list[Any]:
        return [Blocks(data[:, :-1], data[:, -1], plan.design).answer(asked[later])]

    def pairs() -> Iterator[tuple[Dataset, Dataset]]:
        yield from ((a[None], b[None]) for a, b in worst_rows(asked[later], plan.design, 2))

    one = replace(plan, stages=(plan.stages[first],))
    return Understated("Gram matrix of unclipped rows free", one, integers, pairs)


def planted(name: str, draw: Any, pair: tuple[Dataset, Dataset], options: dict[str, Any], trials: int) -> PlantedBug:
    return PlantedBug(name, draw, *pair, options["epsilon"], options["delta"], trials)


def pulling(estimator: Any, n: int, d: int) -> tuple[Dataset, Dataset]:
    """Return neighbors whose differing row is as long as rows can be, with outcomes at either end."""
    plan, asked = questions(estimator, n, d)
    rng = np.random.default_rng(5)
    binary = isinstance(estimator, PrivateLogisticRegression)
    y = rng.integers(0, 2, n).astype(float) if binary else np.zeros(n)
    further_columns = [np.full(n, float(role == "weight")) for role in further(estimator)]
    data = np.column_stack([rng.uniform(-0.8, 0.8, (n, d)), y, *further_columns])
    own = [20.0 * (role == "weight") for role in further(estimator)]  # more than the largest weight
    last = next(question for question in reversed(asked) if isinstance(question, Step))
    x = at_radius(last, plan.design, np.ones(d))
    return with_row(data, *x, 1.0, *own), with_row(data, *x, 0.0 if binary else -1.0, *own)


def weighted_rows(question: Question, design: Any, d: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield pairs of rows (x, y, offset, weight): the worst rows with the largest weight, and with others."""
    heavy, wild = design.weight[1], 1e3 * design.weight[1]
    low, high = design.offset
    ones = np.ones(d)
    for offsets in ((low, high), (high, low), (0.0, 1e9)):
        yield (
            np.append(ones, [1.0, offsets[0], heavy]),
            np.append(-ones, [0.0 if design.outcome is None else -1.0, offsets[1], heavy]),
        )
    for first, second in worst_rows(question, design, d):
        for one, other in ((heavy, heavy), (wild, -1.0), (heavy / 2, wild), (0.3 * heavy, 0.0)):
            yield np.append(placed(first, design), one), np.append(placed(second, design), other)


def placed(row: np.ndarray, design: Any) -> np.ndarray:
    """Return a row (x, y, offset) whose outcome minus offset is as many half-widths as ``row`` has."""
    if design.outcome is None:
        return np.append(row, 0.0)
    difference = row[-1] * design.y_half
    y = np.clip(difference, -1.0, 1.0)
    return np.append(row[:-1], [y, y - difference])


def weighted_entries() -> Iterator[Entry]:
    """Yield the regressions of rows with weights and offsets."""
    columns = {"weight_bounds": (0.0, 2.0), "offset_bounds": (-0.5, 0.5)}
    options, tight = LINEAR | columns, LINEAR | TIGHT | columns
    pair = pulling(PrivateLinearRegression(**options), 500, 2)
    yield regression_entry(
        "linear regression with weights and offsets",
        PrivateLinearRegression(**options),
        pair,
        on_one_way(Linear(**options), pair),
        d=2,
        power=0.35,
        rows=weighted_rows,
        bugs=(
            planted("a quarter of the noise", on_one_way(VeryLittleNoise(**tight), pair), pair, tight, 20_000),
            planted("weights not clipped", on_one_way(WeightsNotClipped(**tight), pair), pair, tight, 20_000),
        ),
    )
    options, tight = LOGISTIC | columns, LOGISTIC | TIGHT | columns
    options["missing"] = tight["missing"] = "drop"
    both = pulling(PrivateLogisticRegression(**options), 300, 2)
    yield regression_entry(
        "logistic regression of observed rows with weights and offsets",
        PrivateLogisticRegression(**options),
        both,
        on_one_way(Logistic(**options), both),
        d=2,
        power=0.1,
        rows=weighted_rows,
        # In the last step the meat is largest for sure outcomes, and the Hessian for unsure ones.
        unattained={step_name(t): 0.8 for t in range(1, 4)} | {step_name(4): 0.55},
        unattained_reason=MIDDLING,
        bugs=(planted("a quarter of the noise", on_one_way(LittleLogisticNoise(**tight), both), both, tight, 20_000),),
    )


FEW_EXCEED = frozenset({TAIL, TILT, EXCESS})
"""Counts of rows beyond a threshold: none of few is."""


@having(
    {PrivateLinearRegression: Traits(unmoved=FEW_EXCEED)},
    {
        "logistic regression of observed rows with weights and offsets": {
            "not_replayed": "weights come after the outcome"
        },
        "logistic regression": {"exact_audit": True},
    },
)
def entries() -> Iterator[Entry]:
    estimator, tight = PrivateLinearRegression(**LINEAR), LINEAR | TIGHT
    pair = pulling(estimator, 1000, 2)
    rows = background(200)
    beside = with_row(rows, 0.5, 1.0), rows  # a row that others look like, and one that they do not

    yield regression_entry(
        "linear regression",
        estimator,
        pair,
        on_one_way(Linear(**LINEAR), pair),
        d=2,
        power=0.35,
        bugs=(
            planted("half the noise", on_one_way(LittleNoise(**tight), pair), pair, tight, 20_000),
            planted("every step at the full budget", on_one_way(EveryStepInFull(**tight), pair), pair, tight, 20_000),
            planted("only x scaled and not y", on_one_way(OnlyRowsScaled(**tight), pair), pair, tight, 20_000),
            planted("non-private covariance", non_private_covariance, beside, tight, 20_000),
            planted(
                "clip from unreleased residuals",
                whole_fits(WidthFromTheResiduals(**tight), raw),
                (with_row(background(200, 0.3), 0.5, 1.0), background(200, 0.3)),
                tight,
                WHOLE,
            ),
            planted("bounds from the data", whole_fits(BoundsFromTheData(**tight), raw), beside, tight, WHOLE),
        ),
        understated=(product_clip(), free_unclipped()),
    )
    observed, tight = LINEAR | {"missing": "drop"}, LINEAR | TIGHT | {"missing": "drop"}
    pair = pulling(PrivateLinearRegression(**observed), 500, 2)
    gone = pair[0], with_row(pair[0], *pair[0][0, :-1], np.nan)
    yield regression_entry(
        "linear regression of observed rows",
        PrivateLinearRegression(**observed),
        gone,
        on_one_way(Linear(**observed), gone),
        d=2,
        power=0.1,
        bugs=(planted("half the noise", on_one_way(LittleNoise(**tight), pair), pair, tight, 20_000),),
    )
    yield from weighted_entries()
    logistic = PrivateLogisticRegression(**LOGISTIC)
    both, tight = pulling(logistic, 200, 2), LOGISTIC | TIGHT
    yield regression_entry(
        "logistic regression",
        logistic,
        both,
        on_one_way(Logistic(**LOGISTIC), both),
        d=2,
        power=0.15,
        unattained={step_name(t): 0.84 for t in range(1, 5)},
        unattained_reason=MIDDLING,
        bugs=(planted("a quarter of the noise", on_one_way(LittleLogisticNoise(**tight), both), both, tight, 20_000),),
    )
    observed, tight = LOGISTIC | {"missing": "drop"}, LOGISTIC | TIGHT | {"missing": "drop"}
    both = pulling(PrivateLogisticRegression(**observed), 200, 2)
    gone = both[0], with_row(both[0], *both[0][0, :-1], np.nan)
    yield regression_entry(
        "logistic regression of observed rows",
        PrivateLogisticRegression(**observed),
        gone,
        on_one_way(Logistic(**observed), gone),
        d=2,
        power=0.05,
        unattained={step_name(t): 0.84 for t in range(1, 5)},
        unattained_reason=MIDDLING,
        bugs=(planted("a quarter of the noise", on_one_way(LittleLogisticNoise(**tight), both), both, tight, 20_000),),
    )
