"""Private bounds: a window among the floats, and the tails on both sides of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from dpstats.errors import DPStatsError
from dpstats.means import PrivateBounds
from dpstats.mechanisms.unknown_bounds import TAILS, WINDOWS
from dpstats.mechanisms.windows import count_tails, window_utilities
from dpstats.privacy.plan import Plan
from dpstats.release.groups import Runs
from dpstats.release.session import Part, Session
from dpstats.sql import PrivateSQL
from registry.entry import Dataset, Entry, PlantedBug, Traits, core, fitted, having, with_less_noise

Pair = tuple[Dataset, Dataset]

N = 60
THREE: dict[str, Any] = {"epsilon": 3.0}
# A window that the choice could have released.
CENTER, WIDTH = 4.0, 4.0


def rows(start: float) -> Dataset:
    return np.append(start, np.linspace(2, 6, N - 1))[:, None]


def pairs() -> Iterator[Pair]:
    """Yield rows of which one differs: zeros, in the window, beyond it on both sides, and far away."""
    for a, b in itertools.combinations((0.0, 4.1, 5.0, -1.0, 90.0, 1e300, -1e-300), 2):
        yield rows(a), rows(b)


def tails(data: Dataset) -> list[Any]:
    return [count_tails(data[:, 0], CENTER, WIDTH)]


def added() -> Iterator[Pair]:
    """Yield rows with and without one: zero, in the window, in its middle, and beyond it."""
    for a in (0.0, 4.1, 4.0, 5.0, -1.0, 90.0, 1e300):
        yield rows(a), rows(a)[1:]


def all_bins(data: Dataset) -> list[Any]:
    return [count_tails(data[:, 0], CENTER, WIDTH, whole=True)]


class OnlyWindowsWithRows(PrivateBounds):
    """Planted bug: the candidates are windows that hold a row, which depends on the data."""

    def _release(self, private: Any, plan: Any, session: Session) -> None:
        x = np.asarray(private.whole().X)[:, 0]
        runs = window_utilities(x, plan.candidates(0), plan.window_epsilon)
        k = plan.candidates(0).exponents
        at = np.ldexp(np.abs(x).max(), -(k - 1)) + 1
        # Windows up to the furthest row, of a few widths, all as likely.
        some = (k[runs.line] >= 4) & (k[runs.line] <= 6) & (np.abs(runs.low) <= at[runs.line])
        line, low = runs.line[some], runs.low[some]
        alike = Runs(line, low, low, np.zeros_like(line), np.ones_like(line))
        session.choose(WINDOWS, [Part([alike])])
        session.skip(TAILS, "the windows are what is audited")


HalfTheNoise = with_less_noise(PrivateBounds, 0.25)  # a quarter of the noise, in both stages


def view(plan: Any, released: Any) -> np.ndarray:
    """Return the line and the place of the window of many draws, and the difference of the counts of both rows."""
    chosen = np.asarray(released[WINDOWS], dtype=np.float64)
    if TAILS not in released:
        return chosen
    first, second = (int(np.argmax(count_tails(np.array([x]), CENTER, WIDTH))) for x in (4.6, 90.0))
    counts = np.asarray(released[TAILS])
    return np.column_stack([chosen, counts[:, second] - counts[:, first]])


def choose_for_sql(data: Dataset, budget: Any) -> tuple[Plan, np.ndarray]:
    """Return the plan of a choice of bounds for queries, and the bounds: zeros where none were found."""
    sql = PrivateSQL({"t": pd.DataFrame({"x": data[:, 0]})}, epsilon=1.0, budget=budget)
    found = np.zeros(2)
    try:
        found[:] = tuple(sql.choose_bounds("t.x", epsilon=3.0))
    except DPStatsError as error:
        if "no bounds of" not in str(error):
            raise
    return PrivateBounds(**THREE, for_epsilon=1.0).plan(N, 1), found


@having(
    {
        PrivateBounds: Traits(
            additive=False,
            excused={
                "estimates": "bounds have no intervals",
                "estimator": "its plan refuses few rows: tests/mechanisms/test_windows.py moves rows of windows",
            },
        )
    }
)
def entries() -> Iterator[Entry]:
    estimator = PrivateBounds(**THREE)
    pair = rows(4.6), rows(90.0)
    entry = partial(Entry, covers=PrivateBounds, proof="private-bounds.md", power=0.02, most_trials=20_000)
    yield entry(
        name="private bounds",
        plan=estimator.plan(N, 1),
        integers=tails,
        pairs=pairs,
        draw=core(estimator, view),
        dataset=pair[0],
        neighbor=pair[1],
        public=fitted(estimator, lambda made: np.nan_to_num(np.append(made.low_, made.high_))),
        bugs=(
            PlantedBug("a quarter of the noise", core(HalfTheNoise(**THREE), view), *pair, 3.0, 0.0),
            PlantedBug("candidates that depend on the data", core(OnlyWindowsWithRows(**THREE), view), *pair, 3.0, 0.0),
        ),
    )
    private = PrivateBounds(**THREE, neighbors="add_or_remove")
    pair = rows(90.0), rows(90.0)[1:]
    yield entry(
        name="private bounds, a row added",
        plan=private.plan(None, 1),
        integers=all_bins,
        pairs=added,
        draw=core(private, view),
        dataset=pair[0],
        neighbor=pair[1],
        public=fitted(private, lambda made: np.nan_to_num(np.append(made.low_, made.high_))),
        bugs=(
            PlantedBug(
                "a quarter of the noise", core(HalfTheNoise(**THREE, neighbors="add_or_remove"), view), *pair, 3.0, 0.0
            ),
        ),
    )
    # The same release of a column of a table. The charge has the name of the class that makes it.
    chosen = PrivateBounds(**THREE, for_epsilon=1.0)
    pair = rows(4.6), rows(90.0)
    yield entry(
        name="private bounds of a column of SQL",
        method="choose_bounds",
        label="PrivateSQL",
        plan=chosen.plan(N, 1),
        integers=tails,
        pairs=pairs,
        draw=core(chosen, view),
        dataset=pair[0],
        neighbor=pair[1],
        public=choose_for_sql,
        bugs=(PlantedBug("a quarter of the noise", core(HalfTheNoise(**THREE), view), *pair, 3.0, 0.0),),
    )
