"""Time diffprivlib's mean beside numpy's sum of the same rows, and print the times as JSON.

diffprivlib needs an older scikit-learn than dpstats, so mean.py runs this file in an environment
of its own, .venv-peers, which `run` builds where it is missing. Times of the two processes are
compared through numpy's sum, which both of them measure.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from _rows import CLIP, checksum, make_rows
from _timing import ROOT, interleaved, peak_mib, versions

ENVIRONMENT = ROOT / ".venv-peers"
REQUIREMENTS = ["diffprivlib>=0.6.6", "scikit-learn<1.6"]


def run(rounds: int) -> dict[str, Any]:
    """Run this file in its environment and return what it printed."""
    if not ENVIRONMENT.exists():
        subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
    python = ENVIRONMENT / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", *REQUIREMENTS]
    subprocess.run([python, *install], check=True, stdout=sys.stderr)
    measure = subprocess.run(
        [python, Path(__file__), str(rounds)], check=True, stdout=subprocess.PIPE, text=True
    )
    return json.loads(measure.stdout)


def _measure(rounds: int) -> dict[str, Any]:
    from diffprivlib import tools

    X = make_rows()

    def mean() -> object:
        return tools.mean(X, epsilon=1.0, bounds=(-CLIP, CLIP), axis=0)

    times = interleaved({"numpy": lambda: X.sum(axis=0), "diffprivlib": mean}, rounds)
    return {
        "checksum": checksum(X),
        "times": times,
        "peak": peak_mib(mean),
        "versions": versions("diffprivlib", "numpy", "scikit-learn"),
    }


if __name__ == "__main__":
    print(json.dumps(_measure(int(sys.argv[1]))))
