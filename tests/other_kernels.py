"""Run the numerical tests with the kernels of another processor.

numpy and BLAS choose their inner loops by the processor they find, and the loops differ in the last digits: of exp
and log, and of sums, whose order is another. A test that compares such digits exactly passes on one machine and
fails on the next. Here numpy's loops are those of its baseline, and BLAS's those of an old processor, on one thread.

    python tests/other_kernels.py [arguments of pytest]

Without test files among the arguments: those of `NUMERICAL`, which take a minute. Which loops to do without is
asked of numpy when it runs, and is nothing on some machines: then BLAS's alone are others.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]

# Pure functions of numbers, laws and bounds: not what fits, simulates or audits at length.
NUMERICAL = (
    "tests/lattice",
    "tests/inference/test_intervals.py",
    "tests/identity/test_counterexamples.py",
    "tests/identity/test_by_inner_products.py",
    "tests/identity/test_rows.py",
    "tests/identity/test_filtering.py",
    "tests/identity/test_row_constants.py",
    "tests/identity/test_rows.py",
    "tests/identity/test_spatial.py",
    "tests/means/test_clipped.py",
    "tests/means/test_sample_sizes.py",
    "tests/means/test_staging.py",
    "tests/mechanisms",
    "tests/privacy/test_calibration.py",
    "tests/privacy/test_composition.py",
    "tests/privacy/test_convolution.py",
    "tests/privacy/test_events.py",
    "tests/privacy/test_gaussian.py",
    "tests/privacy/test_guarantee.py",
    "tests/privacy/test_plan.py",
    "tests/privacy/test_tradeoff.py",
    "tests/privacy/test_zcdp.py",
    "tests/regression/formula",
    "dpstats/inference/error_distributions.py",
    "dpstats/lattice",
    "dpstats/mechanisms",
    "dpstats/privacy",
)

# Tests among them that take long over what kernels have no part in: exact noise, processes, enumeration.
LONG = "million or both_samplers or stated_law or answers_have_the_exact or bounded_range or forked"

_OLD_PROCESSORS = {"x86_64": "Prescott", "amd64": "Prescott", "aarch64": "ARMV8", "arm64": "ARMV8"}


def features() -> list[str]:
    """Return the processor's features that numpy has loops for here, beyond its baseline."""
    return list(np.show_config(mode="dicts").get("SIMD Extensions", {}).get("found", []))


def environment() -> dict[str, str]:
    """Return the variables that make another processor of this one."""
    variables = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    if found := features():
        variables["NPY_DISABLE_CPU_FEATURES"] = " ".join(found)
    if old := _OLD_PROCESSORS.get(platform.machine().lower()):
        variables["OPENBLAS_CORETYPE"] = old
    return variables


def main(arguments: list[str]) -> int:
    changed = environment()
    # numpy reads its variable once, when it is loaded: what is left is asked of a new process.
    ask = "import sys; sys.path.insert(0, 'tests'); import other_kernels; print(*other_kernels.features())"
    whole = {**os.environ, **changed}
    left = subprocess.run([sys.executable, "-c", ask], cwd=ROOT, env=whole, check=True, capture_output=True, text=True)
    if left.stdout.strip():
        print(f"numpy still uses {left.stdout.strip()}", file=sys.stderr)
        return 1
    print(*(f"{name}={value!r}" for name, value in changed.items()), flush=True)
    if not any((ROOT / argument.split("::")[0]).exists() for argument in arguments):
        arguments = ["-k", f"not ({LONG})", *arguments, *NUMERICAL]
    command = [sys.executable, "-m", "pytest", "-q", *arguments]
    return subprocess.run(command, cwd=ROOT, env=whole, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
