"""CompleteCases: the count of complete rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dpstats.means import CompleteCases
from dpstats.means.estimator import ROWS
from dpstats.mechanisms.histogram import count_steps
from registry.entry import Entry, PlantedBug, Traits, Understated, core, exact_integers, fitted, having, with_less_noise

PRESENT = np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
GONE = np.array([[0.0, np.nan], [2.0, 3.0], [4.0, 5.0]])
ENTIRE = np.array([[np.nan, np.nan], [2.0, 3.0], [4.0, 5.0]])


HalfNoise = with_less_noise(CompleteCases)


class CountsEntries(CompleteCases):
    """Planted bug: every entry that is there counts, with the noise for one row."""

    def _read(self, rows: Any, plan: Any) -> Any:
        (stage,), finite = plan.additive, np.isfinite(rows.whole().X)
        return {ROWS: count_steps(stage, np.array([finite.sum()]), plan.n_samples)}


def pairs() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for value in (np.nan, np.inf, -np.inf, 0.0, 1e300):
        for place in ((0, 0), (2, 1)):
            other = PRESENT.copy()
            other[place] = value
            yield PRESENT, other
    yield PRESENT, ENTIRE


@having(
    {
        CompleteCases: Traits(
            other_row=lambda row: np.full(row.shape, np.nan),
            excused={
                "missing rows": "they are what it is for",
                **{
                    f"check_{name}": "transform returns other rows at every call, fewer than it is given"
                    for name in (
                        "transformer_data_not_an_array",
                        "transformer_general",
                        "methods_sample_order_invariance",
                        "methods_subset_invariance",
                        "fit_idempotent",
                    )
                },
            },
        )
    }
)
def entries() -> Iterator[Entry]:
    for law, delta, power in (("Laplace", 0.0, 0.5), ("Gaussian", 0.1, 0.3)):
        options = {"epsilon": 3.0, "delta": delta}
        right = CompleteCases(**options)
        plan = right.plan(*PRESENT.shape)
        yield Entry(
            name=f"complete cases, {law}",
            covers=CompleteCases,
            proof="complete-cases.md",
            plan=plan,
            integers=exact_integers(right, plan),
            pairs=pairs,
            draw=core(right),
            dataset=PRESENT,
            neighbor=GONE,
            power=power,
            public=fitted(right, lambda made: [made.rows_, made.n_rows_]),
            estimator=right,
            bugs=(
                PlantedBug("half the noise", core(HalfNoise(**options)), PRESENT, GONE, 3.0, delta),
                PlantedBug("entries for rows", core(CountsEntries(**options)), PRESENT, ENTIRE, 3.0, delta),
            ),
            understated=(
                Understated(
                    "entries for rows",
                    plan,
                    exact_integers(CountsEntries(**options), plan),
                    lambda: iter([(PRESENT, ENTIRE)]),
                ),
            ),
        )
