"""Time diffprivlib's mean beside numpy's sum of the same rows, and print the times as JSON.

diffprivlib needs an older scikit-learn than dpstats, so mean.py runs this file in an environment
of its own. Times of the two processes are compared through numpy's sum, which both of them measure.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from environment import run_in_peers

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
from rows import CLIP, checksum, make_rows
from timing import interleaved, peak_mib, versions


def run(rounds: int) -> dict[str, Any]:
    """Run this file in its environment and return what it printed."""
    return run_in_peers(Path(__file__), str(rounds))


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
