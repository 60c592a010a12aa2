"""Totals of many releases: dpstats beside dp_accounting, autodp and prv_accountant, value and time.

Four totals at delta = 1e-6: a thousand Gaussian releases, two hundred different Laplace ones, and
a thousand and a million copies of a pure guarantee. Smaller is better as long as it is not below
the truth, which is known for all but the Laplace releases.

autodp and prv_accountant run in an environment of their own (.venv-peers-accounting, built at the
first run).

    python validation/benchmarks/accounting.py            print the table
    python validation/benchmarks/accounting.py --write    and write validation/results/benchmark_accounting.md

It takes two minutes.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dp_accounting
from dp_accounting import pld
from dp_accounting.pld.accountant import advanced_composition
from dp_accounting.pld.common import DifferentialPrivacyParameters
from dp_accounting.pld.privacy_loss_distribution import from_privacy_parameters
from timing import interleaved, milliseconds, publish, table, versions, write_wanted

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "peers"))
import time_accountants as peers
from time_accountants import COPIES, DELTA, GAUSSIANS, LAPLACES, SIGMA

from dpstats.privacy import compose, gaussian_epsilon, optimal_composition_epsilon
from dpstats.privacy.events import DiscreteLaplace, Gaussian

ROUNDS = 5
STEPS = 2**31  # of a lattice so fine that its noise is continuous for all practical purposes
GRID = 1e-4  # dp_accounting's default

Total = Callable[[], float]


def _gaussian() -> float:
    return compose([Gaussian(1 / SIGMA)] * GAUSSIANS, DELTA).epsilon


def _laplace() -> float:
    return compose([DiscreteLaplace(STEPS, STEPS / epsilon) for epsilon in LAPLACES], DELTA).epsilon


def _accountant(events: list[tuple[Any, int]]) -> float:
    accountant = pld.PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    for event, count in events:
        accountant.compose(event, count)
    return accountant.get_epsilon(DELTA)


def _theirs_gaussian() -> float:
    return _accountant([(dp_accounting.GaussianDpEvent(SIGMA), GAUSSIANS)])


def _theirs_laplace() -> float:
    return _accountant([(dp_accounting.LaplaceDpEvent(1 / epsilon), 1) for epsilon in LAPLACES])


def _copies(k: int, epsilon: float) -> dict[str, Total]:
    each = DifferentialPrivacyParameters(epsilon, 0)

    def composed() -> float:
        one = from_privacy_parameters(each, value_discretization_interval=GRID)
        return one.self_compose(k).get_epsilon_for_delta(DELTA)

    return {
        "dpstats": lambda: optimal_composition_epsilon(epsilon, k, DELTA),
        "dp_accounting, loss distribution": composed,
        "dp_accounting, `advanced_composition`": lambda: advanced_composition(each, k, DELTA),
    }


def rows(cases: dict[str, Total], peer_names: dict[str, str], python: Any, packages: dict[str, str]) -> list[list[str]]:
    """Return what each case says and how long it takes: here in turn, the peers one after the other."""
    result = []
    values: dict[str, float] = {}
    for name, case in list(cases.items()):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                values[name] = case()
        except (ArithmeticError, ValueError, MemoryError) as error:
            result.append([name, f"{type(error).__name__}: {error.args[-1]}", ""])
    times = interleaved({name: cases[name] for name in values}, ROUNDS)
    result = [[name, f"{value:.6f}", milliseconds(times[name])] for name, value in values.items()] + result
    for name, case in peer_names.items():
        peer = peers.run(python, case)
        packages.update({p: n for p, n in peer.get("versions", {}).items() if p in ("autodp", "prv_accountant")})
        if "error" in peer:
            result.append([name, peer["error"], ""])
        else:
            result.append([name, f"{peer['value']:.6f}", milliseconds(peer["times"])])
    return result


def main() -> None:
    write = write_wanted(__doc__)
    python = peers.environment()
    packages = versions("dpstats", "numpy", "scipy", "dp-accounting")
    header = ["", "epsilon", "ms"]

    def section(cases: dict[str, Total], peer_names: dict[str, str]) -> str:
        return table(header, rows(cases, peer_names, python, packages))

    def both(case: str, how: str) -> dict[str, str]:
        return {f"autodp, {how}": f"autodp {case}", "prv_accountant": f"prv_accountant {case}"}

    gaussian = section(
        {"dpstats": _gaussian, "dp_accounting": _theirs_gaussian},
        {
            **both("gaussian", "`ComposeGaussian`"),
            "autodp, Renyi": "autodp-renyi gaussian",
            "autodp, `ComposeAFA`": "autodp-fourier gaussian",
        },
    )
    laplace = section({"dpstats": _laplace, "dp_accounting": _theirs_laplace}, both("laplace", "Renyi"))
    copies = {name: section(_copies(k, epsilon), both(name, "Renyi")) for name, (k, epsilon) in COPIES.items()}
    truth = gaussian_epsilon(SIGMA / math.sqrt(GAUSSIANS), DELTA)
    (k, epsilon), (many, small) = COPIES["thousand"], COPIES["million"]
    body = f"""\
Totals at delta = {DELTA:g}, and milliseconds: dpstats and dp_accounting in turn, median of {ROUNDS} rounds after an
untimed one; autodp and prv_accountant in processes of their own, one after the other, with {peers.SECONDS} s and
{peers.GIBIBYTES} GiB each, median of three runs after the first or, where that is slow, of what fits into ten seconds.
A smaller epsilon is better unless it is below the truth. prv_accountant gives an interval for epsilon (asked for
0.01 either way, and a thousandth of delta): its upper end is shown. What a library says instead of an answer is
shown as it says it.

## {GAUSSIANS} Gaussian releases of standard deviation {SIGMA:g}, sensitivity 1

The exact answer is {truth:.6f}. `ComposeAFA` is autodp's accountant by characteristic
functions, called as in its tutorial; with these versions it finds no root.

{gaussian}

## {len(LAPLACES)} Laplace releases of epsilon {LAPLACES[0]:g}, {LAPLACES[1]:g}, ..., {LAPLACES[-1]:g}

dpstats counts in steps of a lattice, 2^31 to the sensitivity; the others have continuous noise.

{laplace}

## {k} copies of a pure guarantee of {epsilon:g}

dpstats: `optimal_composition_epsilon`, exact. `advanced_composition` is dp_accounting's function for the same theorem.

{copies["thousand"]}

## {many:,} copies of a pure guarantee of {small:g}

{copies["million"]}"""
    publish("benchmark_accounting", "Benchmark: totals of many releases", body, packages, write=write)


if __name__ == "__main__":
    main()
