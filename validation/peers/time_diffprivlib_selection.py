"""Time diffprivlib's selections among many candidates, and print the times as JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from environment import run_in_peers

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
from timing import interleaved, versions


def run(candidates: int, rounds: int) -> dict[str, Any]:
    """Run this file in its environment and return what it printed."""
    return run_in_peers(Path(__file__), str(candidates), str(rounds))


def _measure(candidates: int, rounds: int) -> dict[str, Any]:
    from diffprivlib import mechanisms

    utilities = np.random.default_rng(0).integers(1000, size=candidates).tolist()

    def exponential() -> object:
        return mechanisms.Exponential(epsilon=1.0, sensitivity=1.0, utility=utilities).randomise()

    def flip() -> object:
        return mechanisms.PermuteAndFlip(epsilon=1.0, sensitivity=1.0, utility=utilities).randomise()

    times = interleaved({"exponential": exponential, "permute and flip": flip}, rounds)
    return {"times": times, "versions": versions("diffprivlib", "numpy")}


if __name__ == "__main__":
    print(json.dumps(_measure(int(sys.argv[1]), int(sys.argv[2]))))
