"""The stages of algorithm 9.3.2: a public schedule of constraints, thresholds and noise.

Canonne, Kamath, McMillan, Ullman and Zakynthinou (2020), for sign rows, with the corrected constant of
`inner_product_constant`. Proof: docs/proofs/lipschitz-extension.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from dpstats.data.parameters import check_integer, check_real
from dpstats.errors import InvalidParameter
from dpstats.identity.inner_products import inner_product_constant


@dataclass(frozen=True)
class LipschitzStage:
    """One call of algorithm 9.3.1 inside algorithm 9.3.2."""

    Delta: float
    sensitivity: float
    epsilon: float
    threshold: float

    @property
    def scale(self) -> float:
        """Scale of the Laplace noise."""
        return self.sensitivity / self.epsilon


def staged_reduction(
    n: int,
    d: int,
    epsilon: float,
    distance: float,
    *,
    floor_constant: float = 1000.0,
    step_constant: float = 11.0,
    null_constant: float = 10.0,
    beta: float | None = None,
    constant: Callable[[int, int, float], float] = inner_product_constant,
) -> list[LipschitzStage]:
    """Return the stages of algorithm 9.3.2: a public schedule of Delta, thresholds and noise.

    Parameters
    ----------
    n, d : int
        Shape of the sign data; n at least 2.
    epsilon : float
        Total. Every stage, the last included, spends epsilon / M with M = ceil(log n); there are at most M.
    distance : float
        The alternative: a mean of norm at least this.
    floor_constant, step_constant, null_constant : float
        The printed 1000 (line 2), 11 (line 8) and 10 (algorithm 9.3.1, line 4).
    beta : float, optional
        Failure probability of a stage; 1/(10 n) as printed.
    constant : callable
        (n, d, Delta) -> Lipschitz constant of T on C(Delta); not 4 Delta, which is not one.

    Returns
    -------
    list of LipschitzStage
        Reject where a stage's noisy extension exceeds its threshold. The last threshold may be calibrated.
    """
    n, d = check_integer("n", n, at_least=2), check_integer("d", d, at_least=1)
    stages = math.ceil(math.log(n))
    e = check_real("epsilon", epsilon, above=0) / stages
    distance = check_real("distance", distance, above=0)
    beta = 1 / (10 * n) if beta is None else check_real("beta", beta, above=0, below=1)
    if min(floor_constant, step_constant, null_constant) <= 0:
        raise InvalidParameter("floor_constant, step_constant and null_constant must be greater than 0")
    log_b = math.log(1 / beta)
    # A row moves T by at most this anywhere, which is less than K(nd).
    anywhere = 4.0 * d * (n - 1)
    floor = floor_constant * max(d, math.sqrt(n * d), log_b / e) * log_b
    Delta, schedule = float(n * d), []
    for _ in range(stages - 1):
        if Delta <= floor:
            break
        K = min(constant(n, d, Delta), anywhere)
        schedule.append(LipschitzStage(Delta, K, e, null_constant * n * math.sqrt(d) + K * log_b / e))
        # Every dataset satisfies Delta = nd, so skip a step that would enlarge Delta. Below d, C(Delta) may be empty
        # for an odd number of rows. At d it is not: opposite pairs and one more row have |<x_j, S>| = d.
        reduced = step_constant * (d + math.sqrt(n * d) + Delta / (n * e) + math.sqrt(Delta / e)) * log_b
        Delta = max(float(d), min(Delta, reduced))
    last = LipschitzStage(Delta, min(constant(n, d, Delta), anywhere), e, n * (n - 1) * distance**2 / 4)
    return [*schedule, last]
