"""Private regressions beside one product X'X, and beside fits without privacy.

A regression has to form X'X once: numpy's product of the same 1,000,000 x 20 float64 numbers, on as many threads as
there are cores, is the limit of one pass. A fit takes four steps, of a product for the coordinates and one for the
curvature each, and about ten shorter looks at the rows: at most 15 passes is what is asked of it. Loops of numba, where
it is installed, have the same integers. Beside it are statsmodels' OLS and Logit and scikit-learn's, which protect
nobody.

    python validation/benchmarks/regression.py            print the table
    python validation/benchmarks/regression.py --write    and write validation/results/benchmark_regression.md

It takes four minutes and 1.5 GB.
"""

from __future__ import annotations

import time

import numpy as np
import statsmodels.api as sm
from sklearn.linear_model import LinearRegression, LogisticRegression
from timing import (
    Case,
    interleaved,
    milliseconds,
    peak_mib,
    publish,
    ratios,
    table,
    versions,
    without_numba,
    write_wanted,
)

from dpstats.parallel import one_blas_thread
from dpstats.regression import PrivateLinearRegression, PrivateLogisticRegression

N_ROWS, N_COLUMNS, ROUNDS = 1_000_000, 20, 5
LIMIT = "numpy, `X.T @ X`: one pass"


def main() -> None:
    write = write_wanted(__doc__)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, N_COLUMNS))
    predictor = X @ np.full(N_COLUMNS, 0.2)
    y, binary = (predictor + rng.normal(size=N_ROWS), (rng.random(N_ROWS) < 1 / (1 + np.exp(-predictor))).astype(float))
    linear = PrivateLinearRegression(x_bounds=(-4, 4), y_bounds=(-8, 8))
    logistic = PrivateLogisticRegression(x_bounds=(-4, 4))
    ours: dict[str, Case] = {
        "PrivateLinearRegression": lambda: linear.fit(X, y),
        "PrivateLogisticRegression": lambda: logistic.fit(X, binary),
    }
    ours |= {f"{name}, without numba": without_numba(fit) for name, fit in ours.items()}
    others: dict[str, Case] = {
        "scikit-learn, LinearRegression": lambda: LinearRegression().fit(X, y),
        "scikit-learn, LogisticRegression": lambda: LogisticRegression(C=np.inf).fit(X, binary),
        "statsmodels, OLS (pinv)": lambda: sm.OLS(y, X).fit(),
        "statsmodels, Logit": lambda: sm.Logit(binary, X).fit(disp=0),
    }
    cases: dict[str, Case] = {LIMIT: lambda: X.T @ X, **ours, **others}
    times = interleaved(cases, ROUNDS)
    with one_blas_thread():
        cpu = interleaved(cases, ROUNDS, time.process_time)
    peaks = {name: f"{peak_mib(fit):.0f}" for name, fit in ours.items()}
    rows = [
        [name, milliseconds(seconds), ratios(seconds, times[LIMIT]), ratios(cpu[name], cpu[LIMIT]), peaks.get(name, "")]
        for name, seconds in times.items()
    ]
    body = f"""\
Median times of {ROUNDS} rounds in which all cases ran in turn, and the median ratio to one pass in the same round
(smallest to largest). CPU time is from {ROUNDS} rounds of its own, with one thread of BLAS: other programs disturb it
less. A fit has exact noise, epsilon = 1 and delta = 1e-6, from validation to standard errors. Extra memory is the peak
above the data, in a run of its own, as tracemalloc sees it.

{table([f"{N_ROWS:,} x {N_COLUMNS}", "ms", "passes", "passes of CPU time", "extra memory, MiB"], rows)}
"""
    packages = versions("dpstats", "numpy", "numba", "scikit-learn", "statsmodels")
    publish("benchmark_regression", "Benchmark: regression", body, packages, write=write)


if __name__ == "__main__":
    main()
