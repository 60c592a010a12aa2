"""The private choice of a conformal score: its rank, the coverage that follows, its plan and its release.

Proof: docs/proofs/conformal.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpstats.data.values import as_int64
from dpstats.errors import refuse
from dpstats.groups.group_points import ROWS, group_scales, group_stages
from dpstats.inference.results import list_some
from dpstats.privacy.guarantee import PrivacyGuarantee, quotient_up
from dpstats.privacy.plan import ReleasePlan
from dpstats.privacy.stages import Choice, Stage
from dpstats.quantiles.grid import group_windows, windows
from dpstats.quantiles.quantile_plan import LEAST_SCALE
from dpstats.release.groups import first_reach
from dpstats.release.session import Part, Released, Session

SCORE = "score"
TRAINING = {
    "public": "fitted without private rows",
    "private": "a private release",
    "unprotected": "fitted on sensitive rows, which the guarantee does not cover",
}
"""Description of the rows that the model was fitted on, by the value of ``training``."""

Numbers = NDArray[np.float64]

_POINTS = tuple(1 << k for k in range(5, 13))
"""Numbers of points that a plan chooses among."""
_SPARE_ROWS = 0.25
"""Rows by which the rank of a group is raised for counts that are too high by chance."""
_ROUNDED_UP = 1 + 1e-9
_TAIL = 0.43
"""Relative change of a width by a relative change of the rows above it, for exponential scores at alpha = 0.1."""
_LINEAR_SPAN = 4.0


# The price of privacy in rows


# Of the n + 1 rows at most n - r are above rank r + 1 of all, and are counted as not covered. Of the others, the
# expected number that the choice does not cover is at most the price. It is a supremum over the places of all rows
# among the points. A tangent of x/(1 + x) at every term bounds it, for any slopes p^2.
@lru_cache(maxsize=1024)
def price_in_rows(epsilon: float, points: int) -> float:
    """Return an upper bound on the expected number of rows, of all ranks, that the choice of a point leaves uncovered.

    Parameters
    ----------
    epsilon : float
        The bounded range of the choice: a point k rows off has weight e^(-k epsilon/2).
    points : int
        Number of candidates.
    """
    # The price falls with epsilon, so the price at 1,000 is a bound. At 2,000 the decay is 0 in floating point.
    decay = math.exp(-min(epsilon, 1000.0) / 2)
    start = 1 / (1 - decay)
    return min(_bound_price(factor * start, decay, points - 1) for factor in np.geomspace(0.05, 20, 121).tolist())


def _bound_price(level: float, decay: float, others: int) -> float:
    """Return the bound with slopes for which every place of the other points is as bad: ``level`` rows."""
    if level >= others:
        return others * _ROUNDED_UP * max((v + 1) * decay**v for v in range(math.ceil(1 / (1 - decay)) + 1))
    total, slope = level, level / others
    slopes = slope
    while slope < 1:
        total += (1 - math.sqrt(slope)) ** 2
        slope = slopes * (1 / decay - 1)
        slopes /= decay
    return total * _ROUNDED_UP


def find_rank(n: int, alpha: float, price: float) -> int | None:
    """Return the least rank that covers a new row with probability 1 - alpha, or None if n rows are too few."""
    rank = max(math.ceil((1 - alpha) * (n + 1) + price - 1), 0)
    return rank if rank <= n else None


def least_rows(alpha: float, price: float) -> int:
    """Return the least number of rows at which there is a rank."""
    n = max(math.ceil(price / alpha) - 2, 1)
    while find_rank(n, alpha, price) is None:
        n += 1
    return n


class GroupRule(NamedTuple):
    """The rank of a group by its noisy number of rows, and the least such number for a finite interval."""

    alpha: float
    extra: float
    least: int

    def rank(self, counted: int) -> int:
        """Return the rank for a noisy number of rows."""
        return max(math.ceil((1 - self.alpha) * counted + self.extra), 0)


# The target of a group with N rows and the noisy count M is t = r + (N - M)/2. A rank r that is linear in M has the
# right expected target for every N. Noise can take the target beyond N, where a bound on coverage stops to rise. What
# this loses falls exponentially with N, and is less than the spare rows from a size on. Smaller groups have an infinite
# interval unless their count is too high, which has probability alpha at most.
def find_group_rule(alpha: float, price: float, scale: float) -> GroupRule:
    """Return the rule for groups whose numbers of rows have discrete Laplace noise of this scale, in rows."""
    decay, slope = math.exp(-1 / scale), 0.5 - alpha
    surplus = 1 - alpha + _SPARE_ROWS
    beyond = math.ceil(scale * math.log(max(slope / (_SPARE_ROWS * -math.expm1(-2 / scale)), 1.0)))
    enough = math.ceil((slope * (beyond + 1) + price + surplus - 1) / alpha)
    rarely = math.ceil(scale * max(-math.log(alpha * (1 + decay)), 0.0)) + 1
    return GroupRule(alpha, price - 0.5 + surplus, enough + rarely)


# Plans


@dataclass(frozen=True)
class ConformalPlan(ReleasePlan):
    """The release plan of a conformal predictor.

    Attributes
    ----------
    alpha : float
    thresholds : tuple of (float, float, bool)
        The least and the largest finite point, and whether points are spaced by ratio.
    points : int
        Number of public points. The last one is infinite.
    price : float
        Rows that privacy costs: an upper bound on the expected number of uncovered rows up to the rank.
    rank : int or None
        Rank that the choice aims at. None with groups.
    rule : GroupRule or None
        The rule of the ranks of groups.
    groups : tuple
        Declared groups. Empty without groups.
    training : {"public", "private", "unprotected"}
    model : str
        Class of the model, and "at" its guarantee if it is a private release that states one.
    """

    alpha: float
    thresholds: tuple[float, float, bool]
    points: int
    price: float
    rank: int | None
    rule: GroupRule | None
    groups: tuple[Any, ...]
    training: str
    model: str

    @property
    def grid(self) -> Numbers:
        """The public points, in increasing order. The last is infinite."""
        low, high, by_ratio = self.thresholds
        space = np.geomspace if by_ratio else np.linspace
        return np.append(space(low, high, self.points - 1), np.inf)

    @property
    def coverage_bound(self) -> float:
        """The proved probability that the interval or set of a new row has its outcome: at least 1 - alpha."""
        if self.rank is None:
            return 1 - self.alpha
        return (self.rank + 1 - self.price) / (self.n_samples + 1)

    @property
    def count_std(self) -> float:
        """Standard deviation of the noise in the number of rows of a group. 0 without groups."""
        return float(np.max(self.noise(ROWS).std)) if self.groups else 0.0

    @property
    def cautions(self) -> list[tuple[str, str]]:
        """Origin of the model, as a fact of plans and summaries."""
        name, _, guarantee = self.model.partition(" at ")
        found = [*super().cautions, ("Model", f"{name}, {TRAINING[self.training]} (training={self.training!r})")]
        return [*found, ("Model's privacy", guarantee)] if guarantee else found

    def facts(self) -> dict[str, Any]:
        """Return the facts of the plan other than its stages."""
        return {
            "alpha": self.alpha,
            "training": self.training,
            "points": self.points,
            "price_in_rows": self.price,
            **({"groups": [str(group) for group in self.groups]} if self.groups else {}),
            **({} if self.rank is None else {"rank": self.rank, "coverage_bound": self.coverage_bound}),
            **({} if self.rule is None else {"least_rows": self.rule.least}),
        }

    def notes(self) -> list[str]:
        """Return the facts as sentences."""
        if self.rule is not None:
            units = self.guarantee.units
            return [
                f"a group has a finite interval if its noisy number of {units} is at least {self.rule.least:,}",
                f"privacy costs {self.price:.3g} {units} of each group",
            ]
        plain = math.ceil((1 - self.alpha) * (self.n_samples + 1) - 1e-9)
        return [f"rank {self.rank:,} of {self.n_samples:,} scores, {plain:,} without privacy"]


def conformal_plan(
    n: int,
    d: int,
    alpha: float,
    epsilon: float,
    thresholds: tuple[float, float, bool],
    points: int | None,
    groups: tuple[Any, ...],
    training: str,
    model: str,
) -> ConformalPlan:
    """Return the plan of one private score, or of one in each group."""
    if points is None:
        low, high, by_ratio = thresholds
        span = math.log(high / low) if by_ratio else _LINEAR_SPAN
        own = n / max(len(groups), 1)

        def widening(count: int) -> float:
            # Scores are rounded up to a point, and the rank is higher by the price. Too few rows have no rank.
            price = price_in_rows(epsilon, count)
            rounding = span / (2 * (count - 1))
            return rounding + _TAIL * price / (alpha * (own + 1)) + 10 * (price > alpha * (own + 1))

        points = min(_POINTS, key=widening)
    facts = (alpha, thresholds, points)
    if groups:
        stages, price, rule = _group_stages(alpha, epsilon, points, groups)
        return ConformalPlan(
            stages, PrivacyGuarantee(epsilon), n, d, *facts, price, None, rule, groups, training, model
        )
    scale = max(quotient_up(2, epsilon), LEAST_SCALE)
    first_reach(scale, 1)
    price = price_in_rows(2 / scale, points)
    rank = find_rank(n, alpha, price)
    if rank is None:
        raise refuse(
            "n_samples",
            got=f"{n} for epsilon = {epsilon:g} and alpha = {alpha:g}",
            allowed=f"at least {least_rows(alpha, price):,} calibration rows",
            remedy="Use more rows, or a larger epsilon or alpha.",
        )
    words = "{size} of {candidates:,} points, exponential mechanism of scale {scale:.6g} in ranks"
    stage = Choice(SCORE, 1, 2, scale, points, words=words)
    return ConformalPlan((stage,), PrivacyGuarantee(epsilon), n, d, *facts, price, rank, None, (), training, model)


def _group_stages(
    alpha: float, epsilon: float, points: int, groups: tuple[Any, ...]
) -> tuple[tuple[Stage, Choice], float, GroupRule]:
    """Return the stages of `GroupQuantiles`: the sizes of the groups, then a point in each."""
    # The fraction of epsilon that minimizes the variance of the target, as for quantiles of groups.
    ratio = ((0.5 - alpha) ** 2 / 2) ** (1 / 3)
    counts, scale = group_scales(ratio, epsilon)
    price = price_in_rows(4 / scale, points)
    return group_stages(SCORE, len(groups), counts, scale, 1, points), price, find_group_rule(alpha, price, counts)


# The release


def place_scores(scores: Any, plan: ConformalPlan) -> NDArray[np.int64]:
    """Return the first point that is not below each score. A score that is not a number has the last point."""
    places = np.searchsorted(plan.grid, np.where(np.isnan(scores), np.inf, scores), side="left")
    return as_int64(np.minimum(places, plan.points - 1))


def release_score(places: list[NDArray[np.int64]], plan: ConformalPlan, session: Session) -> None:
    """Choose a point for all rows, or in each group, from sorted places."""
    last = plan.points - 1
    if plan.rank is not None:
        session.choose(SCORE, [Part([windows(places[0], (plan.rank,), last)])])
        return
    assert plan.rule is not None
    counts = as_int64(np.rint(session.add(ROWS, np.array([own.size for own in places]))))
    parts = []
    for own, count in zip(places, np.moveaxis(counts, -1, 0), strict=True):
        found, case = np.unique(count, return_inverse=True)
        cases = [group_windows(own, (plan.rule.rank(one),), one, last) for one in found.tolist()]
        parts.append(Part(cases, case.reshape(-1)))
    session.choose(SCORE, parts)


def read_scores(released: Released, plan: ConformalPlan) -> tuple[Numbers, Numbers | None]:
    """Return the chosen scores, one for each group if there are any, and the noisy numbers of rows of the groups."""
    scores = plan.grid[np.asarray(released[SCORE])]
    if plan.rule is None:
        return scores, None
    counts = np.asarray(released[ROWS], dtype=np.float64)
    return np.where(np.rint(counts) >= plan.rule.least, scores, np.inf), counts


def conformal_notes(plan: ConformalPlan, scores: Numbers, infinite: str) -> list[str]:
    """Return the assumptions of the coverage, and what the reader must know about infinite scores."""
    about = "in each group" if plan.groups else "on average over all rows"
    notes = [
        f"Coverage of at least {1 - plan.alpha:.6g} holds {about}. It includes the noise, and holds for any "
        "distribution. It does not hold for each single row.",
        "Coverage assumes that calibration rows and new rows are exchangeable, and that no calibration row was used to "
        "fit the model.",
    ]
    if plan.training == "unprotected":
        notes.insert(
            0,
            "Warning: the model was fitted on sensitive rows without protection. The guarantee covers the calibration "
            "rows only, on the assumption that no calibration row was used to fit the model.",
        )
    if not np.isfinite(scores).all():
        where = [str(group) for group, x in zip(plan.groups, scores, strict=False) if np.isinf(x)]
        notes.append(
            f"{infinite}{': ' * bool(where)}{list_some(where) if where else ''}. There are too few rows for this "
            "epsilon, or scores are beyond the largest point."
        )
    return notes
