"""Survival with hardly any noise, beside lifelines on its own data: curves, restricted means, tests, hazard ratios.

Needs lifelines, which dpstats does not: ``pip install lifelines``.

    python validation/studies/survival_lifelines.py
    python validation/studies/survival_lifelines.py --no-write
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import dpstats
from dpstats.survival import LogRankTest, PrivateSurvival

RESULTS = Path(__file__).resolve().parents[1] / "results" / "survival_lifelines.md"
EPSILON = 1e6
_FEWEST = 5  # rows at risk at an edge that is compared
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Data:
    """Data that lifelines ships, and what is declared of them.

    Attributes
    ----------
    loader, time, event, by : str
        ``by`` is a column of two groups, or a condition.
    horizon : float
    bins : int
    discrete : bool
        Whether times are whole units that are edges.
    """

    loader: str
    time: str
    event: str
    by: str
    horizon: float
    bins: int
    discrete: bool


DATA = {
    "rossi, weeks": Data("load_rossi", "week", "arrest", "fin", 52, 52, True),
    "leukemia, weeks": Data("load_leukemia", "t", "status", "Rx", 35, 35, True),
    "lymphoma, days": Data("load_lymphoma", "Time", "Censor", "Stage_group", 346, 346, True),
    "regimes, years": Data("load_dd", "duration", "observed", "democracy", 40, 40, True),
    "waltons, days": Data("load_waltons", "T", "E", "group", 75, 75, True),
    "gbsg2": Data("load_gbsg2", "time", "cens", "horTh", 2000, 100, False),
    "lymph nodes": Data("load_lymph_node", "survtime", "censdead", "hormone", 2000, 50, False),
    "lung": Data("load_lung", "time", "status", "sex", 900, 90, False),
    "larynx": Data("load_larynx", "time", "death", "Stage_II", 8, 80, False),
    "kidney transplants": Data("load_kidney_transplant", "time", "death", "black_male", 3000, 60, False),
}


def load(data: Data) -> tuple[Floats, NDArray[np.bool_], NDArray[np.bool_]]:
    """Return times, events, and which rows are in the second group."""
    from lifelines import datasets

    frame = getattr(datasets, data.loader)()
    labels = sorted(set(frame[data.by]))
    events = (frame[data.event] == frame[data.event].max()).to_numpy()
    return frame[data.time].to_numpy(float), events, (frame[data.by] == labels[1]).to_numpy()


def compare(name: str) -> dict[str, float]:
    """Return differences from lifelines in units of its standard errors, and ratios of standard errors."""
    from lifelines import CoxPHFitter, KaplanMeierFitter
    from lifelines.statistics import logrank_test
    from lifelines.utils import restricted_mean_survival_time

    data = DATA[name]
    times, events, second = load(data)
    # Times beyond the horizon are censored there, also for lifelines.
    within, seen = np.minimum(times, data.horizon), events & (times <= data.horizon)
    edges = np.linspace(0, data.horizon, data.bins + 1)[1:]
    given: dict[str, Any] = {"edges": edges, "epsilon": EPSILON, "discrete": data.discrete, "random_state": 0}
    found: dict[str, float] = {"n": len(times), "events": int(seen.sum())}
    model = PrivateSurvival(**given, groups=[False, True]).fit(times, events, second)

    end = float(min(model.usable_until_))
    curves, means, variances = [], [], []
    for group, rows in ((False, ~second), (True, second)):
        known = KaplanMeierFitter().fit(within[rows], seen[rows])
        table = known.event_table
        parts = table["observed"] / (table["at_risk"] * (table["at_risk"] - table["observed"]))
        place = np.searchsorted(table.index.to_numpy(), edges, side="right") - 1
        error = np.sqrt(parts.fillna(0.0).cumsum().to_numpy()[place])
        exact = known.survival_function_at_times(edges).to_numpy()
        at_risk = np.array([(within[rows] >= edge).sum() for edge in edges])
        used = (edges <= model.usable_until_[int(group)]) & (at_risk >= _FEWEST) & (error > 0)
        own = model.survival(edges, group)
        curves.append(np.abs(own - exact)[used] / (exact * error)[used])
        mean, variance = restricted_mean_survival_time(known, t=end, return_variance=True)
        means.append(mean)
        variances.append(variance / rows.sum())
    found["curve"] = float(np.concatenate(curves).max())
    found["edges"] = int(sum(each.size for each in curves))
    difference = float(model.rmst_difference(True, False, end).estimate) - (means[1] - means[0])
    found["restricted means"] = difference / float(np.sqrt(sum(variances)))

    exact_test = logrank_test(within[second], within[~second], seen[second], seen[~second])
    found["z"] = float(np.sqrt(exact_test.test_statistic))
    found["table z"] = float(np.sqrt(model.log_rank().statistic)) - found["z"]
    test = LogRankTest(**given, groups=[False, True]).fit(times, events, y=second)
    found["LogRankTest z"] = abs(test.statistic_) - found["z"]

    rows = pd.DataFrame({"time": within, "event": seen, "second": second.astype(int)})
    cox = CoxPHFitter().fit(rows, "time", "event")
    ratio = model.hazard_ratio(True, False, log=True)
    found["ratio"] = float(np.exp(cox.params_.iloc[0]))
    error = float(cox.standard_errors_.iloc[0])
    found["log ratio"] = float(ratio.estimate - cox.params_.iloc[0]) / error
    found["ratio width"] = float(ratio.high - ratio.low) / (2 * 1.959964 * error)
    return found


LARGEST = ("curve", "restricted means", "table z", "LogRankTest z", "log ratio")


def as_markdown(command: str) -> str:
    """Run everything, and return the page."""
    import lifelines

    results = {name: compare(name) for name in DATA}
    worst = {key: max(abs(found[key]) for found in results.values()) for key in LARGEST}
    lines = [
        "# Private survival with hardly any noise, beside lifelines",
        "",
        f"{time.strftime('%Y-%m-%d')}, dpstats {dpstats.__version__}, lifelines {lifelines.__version__}; simulated "
        f"noise, epsilon = {EPSILON:,.0f}.",
        "",
        f"    {command}",
        "",
        "All differences are in standard errors of lifelines, so that 1 is as large as the sampling error. Curves of "
        "both groups are those of `KaplanMeierFitter`, at all edges with five rows at risk; the largest difference is "
        "shown. Restricted means are up to the end of the usable range, and their difference between the groups is "
        "compared. Log-rank "
        "statistics are those of `logrank_test`, as normal variables. The hazard ratio is that of `CoxPHFitter` "
        "(Efron's ties), and its width is that of the 95% interval over lifelines'.",
        "",
        "Data with a unit have one bin a unit and `discrete=True`. Their curves are Kaplan and Meier's, but for the "
        "noise. The others have fewer bins than times. Events of one bin are ties. Cox's model divides them by "
        "Efron's rule, and the ratio here is of grouped times. They differ most with few rows and many ties.",
        "",
        "Largest differences: " + ", ".join(f"{key} {value:.3f}" for key, value in worst.items()) + ".",
        "",
        "| data | n | events | bins | curve | restricted means | log-rank z | table | `LogRankTest` | hazard ratio "
        "| log ratio | width |",
        "|---" * 12 + "|",
    ]
    for name, found in results.items():
        lines.append(
            f"| {name} | {found['n']} | {found['events']} | {DATA[name].bins} | {found['curve']:.3f} | "
            f"{found['restricted means']:+.3f} | {found['z']:.2f} | {found['table z']:+.3f} | "
            f"{found['LogRankTest z']:+.3f} | {found['ratio']:.3f} | {found['log ratio']:+.3f} | "
            f"{found['ratio width']:.3f} |"
        )
    return "\n".join([*lines, ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-write", action="store_true")
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # lifelines uses what pandas will drop
        text = as_markdown("python validation/studies/survival_lifelines.py")
    print(text)
    if not options.no_write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
