"""Private survival on public data, beside lifelines: rossi and gbsg2 as lifelines ships them, heart of statsmodels.

Needs lifelines, which dpstats does not: ``pip install lifelines``.

    python validation/studies/survival_data.py
    python validation/studies/survival_data.py --fits 20 --no-write
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from study_page import write_page

import dpstats
from dpstats.survival import LogRankTest, PrivateSurvival

RESULTS = Path(__file__).resolve().parents[1] / "results" / "survival_data.md"


@dataclass(frozen=True)
class Data:
    """Public rows, and what a private analysis declares of them.

    Attributes
    ----------
    load : callable
        Returns the rows.
    time, event, by : str
        Columns; ``by`` is empty where there are no groups.
    horizon : float
    bins : int
    asked : tuple of float
        Times of the table.
    discrete : bool
        Whether all times are edges.
    """

    load: Callable[[], pd.DataFrame]
    time: str
    event: str
    by: str
    horizon: float
    bins: int
    asked: tuple[float, ...]
    discrete: bool = False


def rossi() -> pd.DataFrame:
    """Return 432 prisoners: weeks to the next arrest, and who had financial aid."""
    from lifelines.datasets import load_rossi

    return load_rossi()


def gbsg2() -> pd.DataFrame:
    """Return 686 women with breast cancer: days without recurrence, and who had hormones."""
    from lifelines.datasets import load_gbsg2

    return load_gbsg2()


def heart() -> pd.DataFrame:
    """Return 69 heart transplants: days of survival."""
    import statsmodels.api as sm

    return sm.datasets.heart.load_pandas().data


DATA = {
    "rossi": Data(rossi, "week", "arrest", "fin", 52.0, 13, (16.0, 32.0, 52.0)),
    "gbsg2": Data(gbsg2, "time", "cens", "horTh", 2000.0, 10, (600.0, 1200.0, 1800.0)),
    "heart": Data(heart, "survival", "censors", "", 1200.0, 6, (200.0, 600.0, 1000.0)),
}


def private(data: Data, frame: pd.DataFrame, epsilon: float, seed: int, *, grouped: bool) -> Any:
    """Return a fit: of all rows, or by group."""
    labels = {"by": data.by, "groups": sorted(set(frame[data.by]))} if grouped else {}
    model = PrivateSurvival(
        horizon=data.horizon,
        bins=data.bins,
        time=data.time,
        event=data.event,
        epsilon=epsilon,
        discrete=data.discrete,
        random_state=seed,
        **labels,
    )
    used = [data.time, data.event, *([data.by] if grouped else [])]
    return model.fit(frame[used])


def curves(name: str, epsilon: float, fits: int) -> list[str]:
    """Return rows of the table of curves: the exact survival and its interval, and those of private fits."""
    from lifelines import KaplanMeierFitter

    data = DATA[name]
    frame = data.load()
    exact = KaplanMeierFitter().fit(frame[data.time], frame[data.event])
    known = exact.survival_function_at_times(data.asked).to_numpy()
    limits = exact.confidence_interval_survival_function_.loc[: data.horizon]
    widths = [float(np.diff(limits.loc[:t].to_numpy()[-1])[0]) for t in data.asked]
    intervals = []
    for seed in range(fits):
        model = private(data, frame, epsilon, seed, grouped=False)
        intervals.append(np.stack([model.survival(data.asked), *model.confidence_interval(t=data.asked)]))
    estimate, low, high = np.array(intervals).swapaxes(0, 1)
    inside = ((low <= known) & (known <= high)).mean(axis=0)
    return [
        f"| {name} | {len(frame)} | {epsilon:g} | {t:g} | {known[j]:.3f} | {np.nanmedian(estimate[:, j]):.3f} | "
        f"{np.nanstd(estimate[:, j]):.3f} | {np.median(high[:, j] - low[:, j]) / widths[j]:.2f} | {inside[j]:.2f} |"
        for j, t in enumerate(data.asked)
    ]


def groups(name: str, epsilon: float, fits: int) -> str:
    """Return a row of the table of comparisons: restricted means and log-rank tests of two groups."""
    from lifelines import KaplanMeierFitter
    from lifelines.statistics import logrank_test
    from lifelines.utils import restricted_mean_survival_time

    data = DATA[name]
    frame = data.load()
    first, second = sorted(set(frame[data.by]))
    parts = [frame[frame[data.by] == label] for label in (first, second)]
    means = [
        restricted_mean_survival_time(KaplanMeierFitter().fit(part[data.time], part[data.event]), t=data.horizon)
        for part in parts
    ]
    exact = logrank_test(*(part[data.time] for part in parts), *(part[data.event] for part in parts)).p_value
    differences, of_table, own = [], [], []
    for seed in range(fits):
        model = private(data, frame, epsilon, seed, grouped=True)
        differences.append(float(model.rmst_difference(first, second).estimate))
        of_table.append(model.log_rank().pvalue)
        test = LogRankTest(
            groups=[first, second],
            horizon=data.horizon,
            time=data.time,
            event=data.event,
            by=data.by,
            epsilon=epsilon,
            random_state=seed,
        )
        own.append(test.fit(frame[[data.time, data.event, data.by]]).pvalue_)
    low, middle, high = np.nanquantile(differences, [0.1, 0.5, 0.9])
    quantiles = " | ".join(
        " ".join(f"{q:.3f}" for q in np.quantile(pvalues, [0.1, 0.5, 0.9])) for pvalues in (of_table, own)
    )
    return (
        f"| {name} | {epsilon:g} | {means[0] - means[1]:.1f} | {middle:.1f} ({low:.1f} to {high:.1f}) | {exact:.4f} | "
        f"{quantiles} |"
    )


def as_markdown(fits: int, command: str) -> str:
    """Run everything, and return the page."""
    import lifelines

    lines = [
        "# Private survival on public data, beside lifelines",
        "",
        f"{time.strftime('%Y-%m-%d')}, dpstats {dpstats.__version__}, lifelines {lifelines.__version__}; simulated "
        f"noise; {fits} fits a row.",
        "",
        f"    {command}",
        "",
        "rossi: 432 prisoners, 13 bins up to 52 weeks. gbsg2: 686 patients, 10 bins up to 2000 days. heart: 69 "
        "patients, 6 bins up to 1200 days.",
        "",
        "## Curves",
        "",
        "The exact survival is that of lifelines' `KaplanMeierFitter`. The private one is the median over fits, beside "
        "its standard deviation, which is noise alone. Widths are those of private pointwise intervals over those of "
        "lifelines. The last column is how often a private interval contains the exact survival.",
        "",
        "| data | n | epsilon | t | exact | private | sd | width | contains |",
        "|---" * 9 + "|",
    ]
    for name in DATA:
        for epsilon in (1.0, 2.0):
            lines += curves(name, epsilon, fits)
    lines += [
        "",
        "## Two groups",
        "",
        "rossi: without and with financial aid. gbsg2: without and with hormones. The difference of restricted means "
        "up to the horizon, and p-values of log-rank tests: the tenth, the fiftieth and the ninetieth percentile over "
        "fits.",
        "",
        "| data | epsilon | difference, lifelines | private | p, lifelines | p of the table | p of `LogRankTest` |",
        "|---" * 7 + "|",
        *(groups(name, epsilon, fits) for name in ("rossi", "gbsg2") for epsilon in (1.0, 2.0)),
    ]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    write_page(as_markdown, RESULTS, fits=200)
