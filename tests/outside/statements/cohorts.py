"""Cells of `CohortTable`: what it prints, and the standard deviation of its noise, beside the rows without privacy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from dpstats.groups import CohortTable
from tests.outside.statements.group_means import draw_shares
from tests.outside.statements.populations import (
    CODED,
    SIZE,
    Draw,
    draw_bounds,
    draw_kind,
    draw_style,
    draw_values,
    log_uniform,
)
from tests.outside.statements.questions import draw_missing, draw_options, is_outside, seed
from tests.outside.statements.verdict import Answer, Cell

BY = "arm"
REACH, BEYOND = 1.64, 0.1
"""Standard deviations beyond which noise is in a tenth of the fits, whether it is Laplace, normal, or a sum of both."""
STATISTICS = {"mean": ["mean", "mean", "SD", "SMD", "interval"], "levels": ["n", "%", "%", "SMD"]}
STATISTICS["median"] = ["lower quartile", "median", "upper quartile"]
ROWS = 50
"""Rows times epsilon of each arm and column, with which noise hides no column of most tables."""
QUARTILES = dict(zip(STATISTICS["median"], (0.25, 0.5, 0.75), strict=True))


def draw_cell(draw: Draw, question: str = "") -> Cell:
    """Return a random cell of a table, with this statistic if it is given."""
    facts: dict[str, Any] = {}
    n, options = draw_options(draw, facts, (0.0,))
    del options["delta"]
    shares = draw_shares(draw, int(draw.integers(2, 5)))
    undeclared = int(len(shares) > 2 and draw.random() < 0.2)
    arms = [f"g{g}" for g in range(len(shares) - undeclared)]
    kinds = [str(draw.choice(list(STATISTICS))) for _ in range(int(draw.integers(1, 4)))]
    if question:
        kinds[0] = next(kind for kind, each in STATISTICS.items() if question in each)
    columns, frame = {}, {}
    for j, kind in enumerate(kinds):
        columns[f"x{j}"], frame[f"x{j}"] = _draw_column(draw, facts, kind, f"x{j}")
    moves = draw.random() < 0.5
    options |= {"groups": arms, "by": BY, "columns": columns}
    missing = draw_missing(draw, facts, options)
    if draw.random() < 0.8:
        # Most tables show their numbers.
        least = ROWS * len(shares) * (1 + len(kinds)) / min(options["epsilon"], 10)
        n = facts["n"] = round(min(max(n, least * log_uniform(draw, 1, 10)), 50_000))
    facts |= {"columns": ", ".join(kinds), "shares": " ".join(f"{share:.2g}" for share in shares)}
    asked = question or str(draw.choice([BY, *STATISTICS[kinds[0]]]))
    place = int(draw.integers(asked == "SMD", len(arms)))
    level = next(iter(columns["x0"].values()))[int(draw.integers(2))] if kinds[0] == "levels" else None
    nominal = 0.05 if asked == "interval" else BEYOND

    def sample(draw: Draw) -> Any:
        places = draw.choice(len(shares), n, p=shares)
        rows = draw.integers(SIZE, size=n)
        if moves:
            # The second arm has the upper half of the sorted rows.
            rows = np.where(places == 1, (rows + SIZE) // 2, rows)
        found = pd.DataFrame({name: values[rows] for name, values in frame.items()})
        for name, kind in zip(frame, kinds, strict=True):
            if missing and kind != "levels":
                found.loc[draw.random(n) < missing, name] = np.nan
        found[BY] = np.array([f"g{g}" for g in range(len(shares))])[places]
        return found

    def answer(draw: Draw) -> Answer | None:
        rows = sample(draw)
        model = CohortTable(**options, random_state=seed(draw, facts)).fit(rows)
        notes = model.summary().notes
        if asked == "interval":
            own = frame["x0"][SIZE // 2 if moves and place == 1 else 0 :]
            truth = own.clip(*columns["x0"]["mean"]).mean()
            low, high = (end[place, 0] for end in model.parts_["x0"].confidence_interval())
            return Answer(is_outside(low, high, truth, truth), notes, float(high - low))
        told = model.to_frame().reset_index()
        of = (told["group"] == arms[place]) & (told["statistic"] == ("n" if asked == BY else asked))
        of &= told["column"] == (BY if asked == BY else "x0")
        if kinds[0] == "levels" and asked != BY:
            of &= told["level"] == level
        ((value, std),) = told.loc[of, ["value", "noise_std"]].to_numpy(float)
        if np.isnan(value):
            return Answer(False, notes, shown=False)
        if asked in QUARTILES:
            off, std = (_ranks_off(rows, arms[place], columns["x0"], value, QUARTILES[asked]), _rank_error(model))
        else:
            exact = _exact(rows, arms, place, columns["x0"], asked, level)
            if np.isnan(exact):
                return None
            off = abs(value - exact)
        room = 1e-9 * (1 + abs(value))
        return Answer(bool(off > REACH * std + room), notes, 2 * REACH * std)

    words = "interval of a mean 0.95" if asked == "interval" else f"noise of {'an arm' if asked == BY else asked}"
    return Cell("CohortTable", words, facts, [arms[place]], nominal, answer)


def _draw_column(draw: Draw, facts: dict[str, Any], kind: str, name: str) -> tuple[dict[str, Any], Any]:
    """Return the declaration of a column, and its sorted population."""
    if kind == "levels":
        shares = draw_shares(draw, int(draw.integers(2, 6)))
        facts[name] = " ".join(f"{share:.2g}" for share in shares)
        levels = [f"l{k}" for k in range(len(shares))]
        return {"levels": levels}, np.sort(np.array(levels)[draw.choice(len(levels), SIZE, p=shares)])
    of, style = draw_kind(draw), draw_style(draw)
    values = draw_values(draw, of)
    low, high = draw_bounds(draw, values, style)
    facts |= {name: of, f"{name} bounds": style}
    if kind == "median" and of in CODED and draw.random() < 0.7:
        facts[f"{name} step"] = 1
        return {"median": (float(np.floor(low)), float(np.ceil(high))), "step": 1}, values
    return {kind: (low, high)}, values


def _exact(rows: Any, arms: list[str], place: int, declared: Any, asked: str, level: Any) -> float:
    """Return a statistic of an arm without privacy."""
    if asked == BY:
        return float((rows[BY] == arms[place]).sum())
    means, variances = [], []
    for arm in (arms[place], arms[0]):
        own = rows.loc[rows[BY] == arm, "x0"].dropna()
        if "levels" in declared:
            own = own == level
            if asked == "n":
                return float(own.sum())
        else:
            own = own.clip(*declared["mean"])
        own = own.to_numpy(float)
        if not own.size:
            return np.nan
        means.append(own.mean())
        variances.append(own.var())
    if asked == "SMD":
        spread = np.sqrt(sum(variances) / 2)
        return float((means[0] - means[1]) / spread) if spread > 0 else np.nan
    return {"mean": means[0], "SD": np.sqrt(variances[0]), "%": 100 * means[0]}[asked]


def _ranks_off(rows: Any, arm: str, declared: Any, value: float, q: float) -> float:
    """Return how many rows of an arm, beyond one, are between a value and the quantile of the rows."""
    own = np.sort(rows.loc[rows[BY] == arm, "x0"].dropna().clip(*declared["median"]).to_numpy(float))
    low, high = declared["median"]
    room = (high - low) * 2.0**-20 if "step" not in declared else 0.5
    below, up_to = np.searchsorted(own, value - room, "left"), np.searchsorted(own, value + room, "right")
    # Ranks are whole numbers of rows, also without noise.
    return float(max(below - q * own.size, q * own.size - up_to, 1.0)) - 1


def _rank_error(model: Any) -> float:
    """Return the standard deviation of the error of a rank, as the plan states it."""
    return float(model.parts_["x0"].plan_.rank_error)
