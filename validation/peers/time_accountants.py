"""Totals by autodp and by prv_accountant, and the seconds they take; prints one case as JSON.

Neither is a dependency of dpstats, so accounting.py runs this file in an environment of its own,
.venv-peers-accounting, which `run` builds where it is missing. Every case has a process of its own,
with a limit on its time and its memory: what goes beyond is reported, not waited for.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
from timing import ROOT, versions

ENVIRONMENT = ROOT / ".venv-peers-accounting"
REQUIREMENTS = ["autodp>=0.2.3", "prv-accountant>=0.2"]

SECONDS, GIBIBYTES = 60, 4
DELTA = 1e-6
SIGMA, GAUSSIANS = 50.0, 1000
LAPLACES = [0.01 + 0.0005 * i for i in range(200)]
COPIES = {"thousand": (1000, 0.1), "million": (10**6, 0.001)}


def environment() -> Path:
    """Build the environment where it is missing, and return its Python."""
    if not ENVIRONMENT.exists():
        subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
    python = ENVIRONMENT / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", *REQUIREMENTS]
    subprocess.run([python, *install], check=True, stdout=sys.stderr)
    return python


def run(python: Path, name: str) -> dict[str, Any]:
    """Run one case and return its value, its seconds and the versions, or its error."""
    try:
        done = subprocess.run([python, Path(__file__), name], capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return {"error": f"no answer in {SECONDS} s"}
    if done.returncode:
        return {"error": f"ended with status {done.returncode}"}
    return json.loads(done.stdout)


def _autodp(mechanism: Callable[[Any], list[Any]], counts: list[int], transformer: str = "Composition") -> float:
    from autodp import mechanism_zoo, transformer_zoo

    composed = getattr(transformer_zoo, transformer)()(mechanism(mechanism_zoo), counts)
    return float(composed.get_approxDP(DELTA))


def _prv(mechanisms: Callable[[Any], list[Any]], counts: list[int]) -> float:
    import prv_accountant

    accountant = prv_accountant.PRVAccountant(
        mechanisms(prv_accountant), eps_error=0.01, delta_error=DELTA / 1000, max_self_compositions=counts
    )
    return float(accountant.compute_epsilon(DELTA, counts)[2])  # the upper end of its interval


def _cases() -> dict[str, Callable[[], float]]:
    ones = [1] * len(LAPLACES)
    cases = {
        "autodp gaussian": lambda: _autodp(lambda zoo: [zoo.GaussianMechanism(SIGMA)], [GAUSSIANS], "ComposeGaussian"),
        "autodp-renyi gaussian": lambda: _autodp(lambda zoo: [zoo.GaussianMechanism(SIGMA)], [GAUSSIANS]),
        "autodp-fourier gaussian": lambda: _autodp(
            lambda zoo: [zoo.GaussianMechanism(SIGMA, phi_off=False)], [GAUSSIANS], "ComposeAFA"
        ),
        "autodp laplace": lambda: _autodp(lambda zoo: [zoo.LaplaceMechanism(1 / e) for e in LAPLACES], ones),
        "prv_accountant gaussian": lambda: _prv(lambda prv: [prv.GaussianMechanism(SIGMA)], [GAUSSIANS]),
        "prv_accountant laplace": lambda: _prv(lambda prv: [prv.LaplaceMechanism(e) for e in LAPLACES], ones),
    }
    for name, (k, epsilon) in COPIES.items():
        cases[f"autodp {name}"] = lambda k=k, e=epsilon: _autodp(lambda zoo: [zoo.PureDP_Mechanism(e)], [k])
        cases[f"prv_accountant {name}"] = lambda k=k, e=epsilon: _prv(lambda prv: [prv.PureDPMechanism(e)], [k])
    return cases


def _measure(case: Callable[[], float]) -> dict[str, Any]:
    """Return the value and the seconds of three runs after the first, or of the first if it took long."""
    times: list[float] = []
    while len(times) < 4 and sum(times) < 10:
        start = time.perf_counter()
        try:
            value = case()
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}
        times.append(time.perf_counter() - start)
    packages = versions("autodp", "prv_accountant", "numpy", "scipy")
    return {"value": value, "times": times[1:] or times, "versions": packages}


if __name__ == "__main__":
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (GIBIBYTES * 2**30,) * 2)
    warnings.simplefilter("ignore")
    with contextlib.redirect_stdout(sys.stderr):  # autodp prints its searches
        result = _measure(_cases()[sys.argv[1]])
    print(json.dumps(result))
