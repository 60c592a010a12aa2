"""The smallest width of intervals of slopes whose steps release bounded gradients: normal rows, everything else known.

A row is scaled to the radius R with its residual, which is clipped at c standard deviations. R and c minimize the
width. The derivation is in docs/intervals/regression.md.

    python validation/searches/regression_width.py               # five seconds
    python validation/searches/regression_width.py --no-write
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, ndtr

from dpstats.privacy.gaussian import gaussian_sigma

Floats = NDArray[np.float64]
RESULTS = Path(__file__).resolve().parents[1] / "results" / "regression_width.md"
CELLS = ((5_000, 3, 1.0), (50_000, 3, 1.0), (20_000, 10, 1.0), (20_000, 50, 1.0))
SHARES = (0.48, 0.63, 1.0)
DELTA = 1e-6


def smallest_width(n: int, d: int, epsilon: float, share: float, constant: float) -> tuple[float, float, float]:
    """Return the smallest width relative to least squares, with its radius and its clip.

    ``constant`` is the length of the constant column: 1, or 0 if the intercept is left to another release.
    """
    points = (np.arange(20_000) + 0.5) / 20_000
    squares = chdtri(d, points)
    radii = np.geomspace(0.4, 3.0, 120) * np.sqrt(d + 1)
    factors = np.minimum(1.0, radii[:, None] ** 2 / (squares + constant**2))
    curvature = (factors * squares).mean(axis=1)[:, None] / d
    meat = (factors**2 * squares).mean(axis=1)[:, None] / d
    clips = np.linspace(0.2, 5.0, 481)
    density = np.exp(-(clips**2) / 2) / np.sqrt(2 * np.pi)
    kept = 2 * ndtr(clips) - 1
    clipped_square = kept - 2 * clips * density + 2 * clips**2 * (1 - ndtr(clips))
    mu = 1 / gaussian_sigma(epsilon, DELTA)
    noise = 4 * radii[:, None] ** 2 * clips**2 / (n * mu**2 * share)
    variance = (clipped_square * meat + noise) / (kept * curvature) ** 2
    best = np.unravel_index(int(variance.argmin()), variance.shape)
    return float(np.sqrt(variance[best])), float(radii[best[0]]), float(clips[best[1]])


def as_markdown() -> str:
    """Return the page of results."""
    header = ["n", "d", "ε", "constant", *(f"share {share:g}" for share in SHARES)]
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    for n, d, epsilon in CELLS:
        for constant in (1.0, 0.0):
            found = [smallest_width(n, d, epsilon, share, constant) for share in SHARES]
            cells = [f"{width:.3f} (R {radius:.2f}, c {clip:.2f})" for width, radius, clip in found]
            lines.append(" | ".join([f"| {n:,}", f"{d}", f"{epsilon:g}", f"{constant:g}", *cells]) + " |")
    words = (
        "Smallest width of intervals of slopes over least squares, for normal rows and residuals, if a fraction "
        "(*share*) of μ² releases bounded gradients and everything else is known. *constant*: length of the constant "
        "column in the ball. δ = 1e-6."
    )
    head = f"# Smallest widths of linear regressions\n\n{time.strftime('%Y-%m-%d')}: "
    return f"{head}`python validation/searches/regression_width.py`\n\n{words}\n\n" + "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--no-write", action="store_true")
    page = as_markdown()
    print(page, end="")
    if not parser.parse_args(arguments).no_write:
        RESULTS.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
