"""The table of the guide "A trial": visits of a simulated trial, as messy as real ones.

    python -m dpstats.simulation.trial visits.csv

writes it to a file. 12,000 visits of 4,000 patients in three arms, one of them rare. Missing entries are coded in
three ways: empty, -9 and "unk". Follow-up is censored, and two sites are not in the protocol.
"""

from __future__ import annotations

import sys
from statistics import NormalDist
from typing import Any

import numpy as np
import pandas as pd

from dpstats.data.values import as_int64

PATIENTS, VISITS = 4000, 3
SHARES = {"placebo": 0.46, "drug": 0.46, "high dose": 0.08}
EFFECTS = {"placebo": 0.0, "drug": -6.0, "high dose": -9.0}
"""Change of the blood pressure after treatment."""
RATES = {"placebo": 0.030, "drug": 0.021, "high dose": 0.018}
"""Relapses in a week."""
CURED = {"placebo": 0.40, "drug": 0.55, "high dose": 0.60}
SITES = ["north", "south", "east"]
UNKNOWN_SITES = ["test", "moved"]
_LOG_STAY, _SPREAD = {"placebo": 2.2, "drug": 2.0, "high dose": 1.9}, 0.6
_SLOPE = 0.02
"""Change of the log odds of a cure with a year of age."""


def make_visits(seed: int = 0, patients: int = PATIENTS) -> pd.DataFrame:
    """Return the visits of a simulated trial, one row each.

    Parameters
    ----------
    seed : int, default=0
    patients : int, default=4000

    Returns
    -------
    pandas.DataFrame
        Three rows for each patient, in random order. ``pulse`` differs between visits.

    Examples
    --------
    >>> from dpstats.simulation.trial import make_visits
    >>> visits = make_visits()
    >>> visits.shape, visits["patient"].nunique(), (visits["age"] == -9).mean().round(2)
    ((12000, 13), 4000, np.float64(0.03))
    """
    rng = np.random.default_rng(seed)
    arm = rng.choice(list(SHARES), patients, p=list(SHARES.values()))
    of = {name: np.array([values[each] for each in arm]) for name, values in _list_parameters().items()}
    age = np.clip(rng.normal(58, 11, patients), 18, 95).round()
    before = rng.normal(150, 12, patients)
    after = 60 + 0.6 * before + of["effect"] + rng.normal(0, 9, patients)
    odds = np.log(of["cured"] / (1 - of["cured"])) + _SLOPE * (age - 58)
    relapse, left = rng.exponential(1 / of["rate"]), rng.uniform(20, 80, patients)
    person = pd.DataFrame(
        {
            "patient": [f"p{number:05}" for number in range(patients)],
            "site": rng.choice(SITES + UNKNOWN_SITES, patients, p=[0.4, 0.3, 0.26, 0.02, 0.02]),
            "arm": arm,
            "age": age,
            "sex": rng.choice(["f", "m"], patients, p=[0.55, 0.45]),
            "before": before,
            "after": after,
            "stay": np.maximum(np.rint(rng.lognormal(of["log stay"], _SPREAD)), 1),
            "cured": as_int64(rng.random(patients) < 1 / (1 + np.exp(-odds))),
            "week": np.minimum(relapse, left),
            "relapse": as_int64(relapse <= left),
        }
    )
    visits = person.loc[person.index.repeat(VISITS)].reset_index(drop=True)
    visits.insert(1, "visit", np.tile(np.arange(1, VISITS + 1), patients))
    visits["pulse"] = rng.normal(75, 8, len(visits)).round()
    # Whether an entry is missing does not depend on it. All visits of a patient have the same entries of the patient.
    for column, code, share in (("age", -9, 0.03), ("sex", "unk", 0.02), ("stay", np.nan, 0.04)):
        lost = np.repeat(rng.random(patients) < share, VISITS)
        visits[column] = visits[column].astype(object).where(~lost, code)
    visits["age"] = visits["age"].astype(float)
    visits["stay"] = visits["stay"].astype(float)
    return visits.sample(frac=1, random_state=seed, ignore_index=True)


def _list_parameters() -> dict[str, dict[str, float]]:
    return {"effect": EFFECTS, "rate": RATES, "cured": CURED, "log stay": _LOG_STAY}


def _find_cure_rate(arm: str) -> float:
    """Return the probability of a cure, over the ages of the population."""
    rng = np.random.default_rng(1)
    age = np.clip(rng.normal(58, 11, 1_000_000), 18, 95).round()
    odds = np.log(CURED[arm] / (1 - CURED[arm])) + _SLOPE * (age - 58)
    return float((1 / (1 + np.exp(-odds))).mean())


def find_truth() -> dict[str, Any]:
    """Return the true values of the population, by the questions of the guide."""
    # Stays are whole days, so quantiles are rounded too.
    upper = np.exp(_SPREAD * NormalDist().inv_cdf(0.75))
    return {
        "age": 58.0,
        "effect": {arm: EFFECTS[arm] - EFFECTS["placebo"] for arm in ("drug", "high dose")},
        "stay": {arm: float(np.rint(np.exp(log))) for arm, log in _LOG_STAY.items()},
        "upper quartile": {arm: float(np.rint(np.exp(log) * upper)) for arm, log in _LOG_STAY.items()},
        "risk": {arm: _find_cure_rate(arm) - _find_cure_rate("placebo") for arm in ("drug", "high dose")},
        "odds ratio of a year": float(np.exp(_SLOPE)),
        "survival at 26": {arm: float(np.exp(-26 * rate)) for arm, rate in RATES.items()},
        "hazard ratio": {arm: RATES[arm] / RATES["placebo"] for arm in ("drug", "high dose")},
        "women": 0.55,
        "pulse": 75.0,
    }


if __name__ == "__main__":
    make_visits().to_csv(sys.argv[1], index=False)
