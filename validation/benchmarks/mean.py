"""The clipped mean beside numpy's sum, and vector noise beside numpy's normal numbers.

A private mean has to read the data once, so its limit is ``X.sum(axis=0)`` on the same 1,000,000 x
50 float64 numbers: how many such passes does a fit take, validation and exact noise included? The
memory that a fit takes beside the data is to stay below 64 MiB. Noise for a vector of 100,000
numbers has ``Generator.standard_normal`` as its limit, which is neither exact nor private.

Beside both are the peers: OpenDP, timed on one column and multiplied by the number of columns, and
diffprivlib, in an environment of its own (.venv-peers, built at the first run).

    python validation/benchmarks/mean.py            print the tables
    python validation/benchmarks/mean.py --write    and write validation/results/benchmark_mean.md

It takes two minutes and 2 GB.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import opendp.prelude as dp
import pandas as pd
from numpy.typing import NDArray
from rows import CLIP, N_COLUMNS, N_ROWS, checksum, make_rows
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

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "peers"))
import time_diffprivlib_mean

from dpstats.means import ClippedMean
from dpstats.mechanisms import GaussianMechanism

EPSILON, DELTA = 1.0, 1e-6
MEMORY_LIMIT = 64  # MiB
MEAN_ROUNDS = 11
NOISE_ROUNDS = 5
NOISE_SIZE = 100_000
FAR_RADIUS, NEAR_RADIUS = 9.0, 5.0  # rows of 50 normal numbers have a norm of about 7

LIMIT = "numpy, `X.sum(axis=0)`: the limit"
FROM_ARRAY = "OpenDP, one array column x 50"
FROM_LIST = "OpenDP, one column through a list x 50"

Rows = NDArray[np.float64]


def fits(X: Rows) -> dict[str, Case]:
    """Return the fits of dpstats: every kind of clipping, every kind of input."""
    clips, centers = np.linspace(3, 5, N_COLUMNS), np.linspace(-0.5, 0.5, N_COLUMNS)
    narrow = X.astype(np.float32)
    frame = pd.DataFrame(X)
    mixed = pd.DataFrame({f"column {j}": X[:, j] for j in range(N_COLUMNS - 1)}).assign(last=1)

    def ball(radius: float) -> tuple[str, Case]:
        projected = np.mean(np.einsum("ij,ij->i", X, X) > radius**2)
        return f"l2, {projected:.1%} of the rows projected", _fit(X, clip=radius, clip_norm="l2")

    plain = {
        "linf, one clip": _fit(X, clip=CLIP),
        "linf, one clip, with the spread": _fit(X, clip=CLIP, std="private"),
        "linf, one clip, with the spread and the clipped share": _fit(X, clip=CLIP, std="private", clipped_share=True),
    }
    return {
        **plain,
        **{f"{name}, without numba": without_numba(fit) for name, fit in plain.items()},
        "linf, a clip and a center per column": _fit(X, clip=clips, center=centers),
        "linf, per column, with the spread": _fit(X, clip=clips, center=centers, std="private"),
        **dict(map(ball, (FAR_RADIUS, NEAR_RADIUS))),
        "linf, float32": _fit(narrow, clip=CLIP),
        "linf, pandas": _fit(frame, clip=CLIP),
        "linf, pandas with an integer column": _fit(mixed, clip=CLIP),
    }


def _fit(X: object, std: str | None = None, **parameters: object) -> Case:
    return lambda: ClippedMean(epsilon=EPSILON, delta=DELTA, std=std, **parameters).fit(X)


def opendp_columns(X: Rows) -> dict[str, Case]:
    """Return OpenDP's mean of one column; its noise is that of one of 50 columns."""
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=N_ROWS)
    mean = (domain, dp.symmetric_distance()) >> dp.t.then_clamp((-CLIP, CLIP)) >> dp.t.then_mean()
    # One row replaced is a symmetric distance of 2.
    sensitivity = math.sqrt(N_COLUMNS) * mean.map(2)
    private = mean >> dp.m.then_gaussian(scale=GaussianMechanism(sensitivity, EPSILON, DELTA).sigma)
    return {FROM_ARRAY: lambda: private(X[:, 0]), FROM_LIST: lambda: private(X[:, 0].tolist())}


def mean_table(X: Rows, peer: dict) -> str:
    """Return the table of means."""
    ours = fits(X)
    times = interleaved({LIMIT: lambda: X.sum(axis=0), **ours, **opendp_columns(X)}, MEAN_ROUNDS)
    for name in (FROM_ARRAY, FROM_LIST):
        times[name] = [N_COLUMNS * seconds for seconds in times[name]]
    peaks = {name: _memory(peak_mib(fit)) for name, fit in ours.items()}
    rows = [
        [name, milliseconds(seconds), ratios(seconds, times[LIMIT]), peaks.get(name, "")]
        for name, seconds in times.items()
    ]
    theirs, their_limit = peer["times"]["diffprivlib"], peer["times"]["numpy"]
    rows.append(
        ["numpy, in the process of diffprivlib", milliseconds(their_limit), ratios(their_limit, their_limit), ""]
    )
    rows.append(["diffprivlib", milliseconds(theirs), ratios(theirs, their_limit), f"{peer['peak']:.0f}"])
    return table(["mean", "ms", "times the limit", "extra memory, MiB"], rows)


def _memory(peak: float) -> str:
    return f"{peak:.0f}" if peak < MEMORY_LIMIT else f"**{peak:.0f}, over the limit**"


def noise_table() -> str:
    """Return the table of vector noise."""
    ours = GaussianMechanism(sensitivity=1.0, epsilon=EPSILON, delta=DELTA)
    space = dp.vector_domain(dp.atom_domain(T="f64", nan=False)), dp.l2_distance(T="f64")
    theirs = dp.m.make_gaussian(*space, scale=ours.sigma)
    generator = np.random.default_rng(0)
    zeros = np.zeros(NOISE_SIZE)
    limit = "numpy, `sigma * standard_normal(size)`: the limit"
    cases: dict[str, Case] = {
        limit: lambda: ours.sigma * generator.standard_normal(NOISE_SIZE),
        "dpstats, GaussianMechanism, exact": lambda: ours.release(zeros),
        "OpenDP, make_gaussian on float64": lambda: theirs(zeros),
    }
    times = interleaved(cases, NOISE_ROUNDS)
    rows = [[name, milliseconds(seconds), ratios(seconds, times[limit])] for name, seconds in times.items()]
    return table(["noise", "ms", "times the limit"], rows)


def main() -> None:
    write = write_wanted(__doc__)
    dp.enable_features("contrib")
    X = make_rows()
    peer = time_diffprivlib_mean.run(MEAN_ROUNDS)
    if peer["checksum"] != checksum(X):
        raise SystemExit("diffprivlib was timed on other rows: the two versions of numpy draw other numbers")
    body = f"""\
## Mean of {N_ROWS:,} x {N_COLUMNS} numbers

Median times of {MEAN_ROUNDS} rounds in which all cases ran in turn, and the median ratio to the limit in the
same round (smallest to largest). A fit is `ClippedMean(epsilon={EPSILON:g}, delta={DELTA:g}, ...).fit(X)`, from
validation to exact noise, on as many threads as there are cores; everything else runs on one thread.

Extra memory is the peak above the data, in a run of its own, as tracemalloc sees it: numpy's arrays count,
OpenDP's memory does not. The limit is {MEMORY_LIMIT} MiB. A frame of several dtypes is first made one array
by pandas, and that array is the memory.

OpenDP clamps, averages and adds Gaussian noise to one column, taken from X in the time shown, which is
multiplied by {N_COLUMNS}. diffprivlib has Laplace noise only and ran on the same rows in a process of its own, with
scikit-learn {peer["versions"]["scikit-learn"]} and numpy {peer["versions"]["numpy"]}.

{mean_table(X, peer)}

## Gaussian noise for a vector of {NOISE_SIZE:,} numbers

Median of {NOISE_ROUNDS} rounds. All three draw at the standard deviation for sensitivity 1, epsilon = {EPSILON:g} and
delta = {DELTA:g}; numpy's numbers come from a generator that is neither secret nor exact.

{noise_table()}"""
    packages = versions("dpstats", "numpy", "numba", "scikit-learn", "pandas", "opendp")
    packages["diffprivlib"] = peer["versions"]["diffprivlib"]
    publish("benchmark_mean", "Benchmark: the clipped mean", body, packages, write=write)


if __name__ == "__main__":
    main()
