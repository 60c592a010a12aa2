"""Regressions of counts and of amounts: each stage asked about the worst rows, and whole fits attacked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dpstats.regression import PrivateCountRegression, PrivateGammaRegression
from dpstats.regression.blocks import Blocks, Question
from dpstats.regression.engine import release
from dpstats.regression.log_linear_plan import Excess, LogLinearStep, Spread
from dpstats.regression.plan import STEPS, size_name, step_name
from dpstats.regression.rows import GRADIENT
from dpstats.release.session import Session
from registry.entry import Entry, Traits, having, less_noise
from registry.regression import FEW_EXCEED, at_radius, on_one_way, planted, questions, regression_entry, with_row

HIGH = 60.0
COUNTS = {"x_bounds": (-1.0, 1.0), "y_bounds": (0.0, HIGH), "epsilon": 3.0, "delta": 1e-2}
EXPOSED = COUNTS | {"exposure_bounds": (0.25, 4.0), "missing": "drop"}
TIGHT = {"epsilon": 1.0}

STEEP = (
    "outcomes do not decide about the curvature, and the expected residual that is subtracted has one sign; before the "
    "first step all rows have one linear predictor, and add to one of the two sizes"
)
# The expected residual p has one sign: v is in [-(1 - p)/(1 + p), 1]. The shortest thresholds have p = 0.16.
TOO_STEEP = {size_name(1): 0.7} | {step_name(t): 0.85 for t in range(1, STEPS + 1)}


def worst_rows(
    question: Question, design: Any, d: int, exposed: bool = False
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield pairs of rows (x, y), perhaps with an exposure, that a stage can tell apart best; and any others."""
    last = [1.0] if exposed else []

    def row(x: np.ndarray, y: float, exposure: float = 1.0) -> np.ndarray:
        return np.append(x, [y, exposure] if exposed else [y])

    far = [row(size * np.ones(d), y) for size in (-1.0, 1.0) for y in (0.0, 2.0, HIGH, 4 * HIGH, -5.0)]
    far += [row(size * np.ones(d), 1.0, end) for size in (-1.0, 1.0) for end in (0.25, 4.0, 9.0)] if last else []
    yield from ((a, b) for a in far for b in far)
    directions = [*np.eye(d), *np.random.default_rng(4).standard_normal((4, d))]
    if isinstance(question, LogLinearStep | Spread | Excess):
        # Along the linear predictor, which decides about a half and about the tilt.
        directions.append(question.theta[1:] / max(float(np.linalg.norm(question.theta[1:])), 1e-300))
    for v in directions:
        x = at_radius(question, design, v) if isinstance(question, LogLinearStep) else v
        across = at_radius(question, design, -v) if isinstance(question, LogLinearStep) else -v
        for scale in (1.0, 1.5):
            yield row(scale * x, HIGH), row(scale * x, 0.0)
            yield row(scale * x, HIGH), row(scale * across, HIGH)
            yield row(scale * x, 0.0), row(scale * across, 0.0)
            yield row(scale * x, HIGH), row(0 * x, 0.0)


class Counted(PrivateCountRegression):
    """The estimator, with a place where planted bugs bend what the rows answer."""

    def _bent(self, rows: Any) -> Any:
        return rows

    def _release(self, private: Any, plan: Any, session: Session) -> None:
        release(self._bent(private), plan, session)


class LittleNoise(Counted):
    """Planted bug: a quarter of the noise that the guarantee needs."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        return less_noise(super().plan(n_samples, n_features), 0.25)


class _Unclipped(Blocks):
    """Rows whose residuals are divided by their threshold, and not clipped."""

    def answer(self, question: Question) -> Any:
        found = super().answer(question)
        if isinstance(question, LogLinearStep):
            block = self.block(slice(None))
            linear = question.fitted(block) + block.offset
            mean, clip = question.curves.evaluate(linear, "mean", "clip")
            rows, factors = block.bound(question.ball)
            v = np.rint(((block.y + 1) * question.half - mean) / clip * factors * 2.0**question.bits)
            found[GRADIENT] = (v @ rows).astype(np.int64)
        return found


class ResidualsNotClipped(Counted):
    """Planted bug: rows are bounded, and residuals are not."""

    def _bent(self, rows: Any) -> Any:
        whole = rows.rows.whole()
        return _Unclipped(whole.X, whole.y, rows.design, whole.exposure)


class Amounts(PrivateGammaRegression):
    """The estimator, with the place of planted bugs."""

    def _bent(self, rows: Any) -> Any:
        return rows


class LittleAmounts(Amounts):
    """Planted bug: a quarter of the noise."""

    def plan(self, n_samples: int, n_features: int) -> Any:
        return less_noise(super().plan(n_samples, n_features), 0.25)


def far_apart(estimator: Any, n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Return neighbors whose differing row is as long as rows can be, with outcomes at either end."""
    plan, asked = questions(estimator, n, d)
    rng = np.random.default_rng(5)
    X = rng.uniform(-0.8, 0.8, (n, d))
    data = np.column_stack([X, rng.poisson(3.0, n)]).astype(float)
    last = next(question for question in reversed(asked) if isinstance(question, LogLinearStep))
    x = at_radius(last, plan.design, np.ones(d))
    return with_row(data, *x, HIGH), with_row(data, *x, 0.0)


NOT_NEGATIVE = Traits(
    unmoved=FEW_EXCEED,
    excused={"check_regressors_train": "outcomes below 0 are clipped, so that the fit to standardized ones is poor"},
)


@having(dict.fromkeys((PrivateCountRegression, PrivateGammaRegression), NOT_NEGATIVE))
def entries() -> Iterator[Entry]:
    tight = COUNTS | TIGHT
    counts = PrivateCountRegression(**COUNTS)
    pair = far_apart(counts, 200, 2)
    yield regression_entry(
        "regression of counts",
        counts,
        pair,
        on_one_way(Counted(**COUNTS), pair),
        d=2,
        power=0.2,
        proof="log-linear.md",
        rows=worst_rows,
        unattained=TOO_STEEP,
        unattained_reason=STEEP,
        bugs=(
            planted("a quarter of the noise", on_one_way(LittleNoise(**tight), pair), pair, tight, 20_000),
            planted("residuals not clipped", on_one_way(ResidualsNotClipped(**tight), pair), pair, tight, 20_000),
        ),
    )
    exposed = PrivateCountRegression(**EXPOSED)
    with_exposure = [np.column_stack([data, np.ones(len(data))]) for data in pair]
    gone = with_exposure[0], with_row(with_exposure[0], *with_exposure[0][0, :-1], np.nan)

    def exposed_rows(question: Question, design: Any, d: int) -> Any:
        return worst_rows(question, design, d, True)

    yield regression_entry(
        "regression of counts of observed rows, by exposure",
        exposed,
        gone,
        on_one_way(Counted(**EXPOSED), gone),
        d=2,
        power=0.05,
        proof="log-linear.md",
        rows=exposed_rows,
        unattained=TOO_STEEP,
        unattained_reason=STEEP,
        bugs=(
            planted(
                "a quarter of the noise",
                on_one_way(LittleNoise(**EXPOSED | TIGHT), (with_exposure[0], with_exposure[1])),
                (with_exposure[0], with_exposure[1]),
                EXPOSED | TIGHT,
                20_000,
            ),
        ),
    )
    gamma = PrivateGammaRegression(**COUNTS)
    pair = far_apart(gamma, 200, 2)
    yield regression_entry(
        "regression of amounts",
        gamma,
        pair,
        on_one_way(Amounts(**COUNTS), pair),
        d=2,
        power=0.2,
        proof="log-linear.md",
        rows=worst_rows,
        unattained=TOO_STEEP,
        unattained_reason=STEEP,
        bugs=(planted("a quarter of the noise", on_one_way(LittleAmounts(**tight), pair), pair, tight, 20_000),),
    )
