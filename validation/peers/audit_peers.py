"""Audit releases of other libraries: what can be proved about them, by the same attack as about ours.

OpenDP runs in this process. diffprivlib needs an older scikit-learn than dpstats, so its outputs are
drawn in an environment of its own (.venv-peers, built where it is missing) and read back.

    python validation/peers/audit_peers.py               print the table
    python validation/peers/audit_peers.py --write       and write validation/results/audit_peers.md

It takes seven minutes, nearly all of it in diffprivlib's GaussianNB.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import opendp.prelude as dp

import dpstats
from dpstats.auditing import audit_outputs

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "benchmarks"))
from environment import run_in_peers  # noqa: E402
from timing import publish, table, versions, write_wanted  # noqa: E402

TRIALS, SEED = 100_000, 2026
DELTA = 1e-2


class Run(NamedTuple):
    """Outputs of a release on two neighbors, and what its library states for it."""

    library: str
    name: str
    outputs: Any
    epsilon: float
    delta: float = 0.0


def opendp_runs() -> Iterator[Run]:
    """Yield OpenDP's releases; the claims are those of its own maps."""
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="f64", nan=False))
    steps = np.zeros(TRIALS), np.ones(TRIALS)  # as many independent draws as there are entries
    scalar = dp.atom_domain(T="f64", nan=False), dp.absolute_distance(T="f64")

    laplace = dp.m.make_laplace(domain, dp.l1_distance(T="f64"), scale=1.0)
    claim = dp.m.make_laplace(*scalar, scale=1.0).map(1.0)
    yield Run("OpenDP", "make_laplace", [np.array(laplace(data)) for data in steps], claim)

    gaussian = dp.m.make_gaussian(domain, dp.l2_distance(T="f64"), scale=2.0)
    approximate = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*scalar, scale=2.0))
    outputs = [np.array(gaussian(data)) for data in steps]
    yield Run("OpenDP", "make_gaussian", outputs, approximate.map(1.0).epsilon(DELTA), DELTA)

    scores = dp.vector_domain(dp.atom_domain(T="f64", nan=False))
    noisy_max = dp.m.make_noisy_max(scores, dp.linf_distance(T="f64"), dp.max_divergence(), scale=2.0)
    # All scores but the first go up by one, the first goes down.
    data = [1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 1.0, 1.0]
    outputs = [np.array([noisy_max(given) for _ in range(TRIALS)]) for given in data]
    yield Run("OpenDP", "make_noisy_max, four candidates", outputs, noisy_max.map(1.0))


def diffprivlib_runs() -> tuple[list[Run], dict[str, str]]:
    """Return diffprivlib's releases and the versions of its environment."""
    with tempfile.TemporaryDirectory() as folder:
        told = run_in_peers(HERE / "diffprivlib_outputs.py", folder, str(TRIALS), str(SEED))
        outputs = {name: np.load(Path(folder) / file) for name, file in told["files"].items()}
    runs = []
    for name, pair in outputs.items():
        epsilon = 3.0 if "GaussianNB" in name else 1.0
        runs.append(
            Run("diffprivlib", name, pair, epsilon, DELTA if name.startswith("Gaussian") and pair.ndim == 2 else 0.0)
        )
    return runs, told["versions"]


NOTES = """\
The claim is the epsilon that was asked for (diffprivlib), or that the library's map states (OpenDP). Bounds are for
one pair of neighbors each and for the attacks of `dpstats.auditing`; a bound below a claim proves nothing wrong, nor
that all is right.

Two rows are about what a claim is for, and not about noise that is wrong. The docstrings of the two functions name
no neighboring relation.

* diffprivlib's `GaussianNB` charges epsilon once for all classes, a third each for the counts, the sums and the
  squares. That is right where two datasets differ inside one class. A row *moved to another class* changes all
  three in two classes, at up to twice the epsilon, and the audit proves more than the epsilon asked for. Whoever
  takes class labels as private, and neighbors as datasets with one row replaced, has to halve epsilon.
* diffprivlib's `mean` scales its noise to (upper - lower)/n, the sensitivity for one row *replaced*. With a row
  *removed* the scale changes, too. Of n rows one is 1 and the others are 0; without the 1 the loss at 1/n is
  log(n/(n - 1)) + epsilon (1 - 1/n), by the two densities. At epsilon = 1 and n = 2 that is 1.19. It exceeds
  epsilon where log(n/(n - 1)) > epsilon/n, so for every n where epsilon is at most 1: at epsilon = 0.1 and n = 2 it
  is 0.743. That is a derivation, computed in `tests/validation/test_peers.py`. This audit, at epsilon = 1 and with
  this many runs, does not prove more than 1."""


def main() -> None:
    write = write_wanted(__doc__)
    theirs, packages = diffprivlib_runs()
    runs = [*opendp_runs(), *theirs]
    # One confidence for all audits together: 99%.
    confidence = 1 - 0.01 / len(runs)
    rows = []
    for run in runs:
        result = audit_outputs(*run.outputs, epsilon=run.epsilon, delta=run.delta, confidence=confidence)
        verdict = "**exceeded**" if result.violated else "not exceeded"
        numbers = [f"{run.epsilon:.4g}", f"{run.delta:g}", f"{result.epsilon_lower:.3f}", verdict]
        rows.append([f"{run.library}: {run.name}", *numbers])
        print(run.name, result.event, file=sys.stderr)
    body = (
        f"{TRIALS:,} runs on each of two neighboring datasets, joint confidence 99% over {len(runs)} audits, "
        f"seed {SEED} for\ndiffprivlib; OpenDP draws from the operating system. diffprivlib ran with scikit-learn "
        f"{packages['scikit-learn']} and numpy {packages['numpy']}.\n\n"
        + table(["release", "epsilon claimed", "delta", "epsilon proved at least", "claim"], rows)
        + f"\n\n{NOTES}"
    )
    numbers = {"dpstats": dpstats.__version__, **versions("numpy", "scikit-learn", "opendp")}
    numbers["diffprivlib"] = packages["diffprivlib"]
    publish("audit_peers", "Audit of releases of other libraries", body, numbers, write=write)


if __name__ == "__main__":
    main()
