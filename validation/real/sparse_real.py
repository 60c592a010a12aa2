"""SparseMean on real data: which pairs of pixels of a handwritten digit vary together.

scikit-learn's digits (1797 images of 8 x 8 pixels, 0 to 16). A row is a pair of consecutive images: the products
u_i u_j of their differences, u = (first - second)/16, for all 2016 pairs of pixels; its mean is twice the
covariance of the pixels. One row replaced is one pair of images. The bounds used are public: |u| <= 1.

    python validation/real/sparse_real.py
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from dpstats.means import SparseMean

RESULTS = Path(__file__).resolve().parents[1] / "results" / "sparse_real.md"
N_SELECTED = 20
STD = 0.25  # a guess that no product's spread exceeds by much; public


def products() -> np.ndarray:
    """Return the table of products, (898, 2016)."""
    images = load_digits().data
    u = (images[0:-1:2] - images[1::2]) / 16
    i, j = np.triu_indices(u.shape[1], 1)
    return u[:, i] * u[:, j]


def study(replications: int, seed: int = 0) -> tuple[np.ndarray, list[tuple[str, float, float, float, float]]]:
    """Return the true means, and (estimator, epsilon, threshold, overlap with the largest, squared error)."""
    X = products()
    truth = X.mean(axis=0)
    largest = np.argsort(-np.abs(truth))[:N_SELECTED]
    rng = np.random.default_rng(seed)
    rows = []
    for epsilon in (1.0, 3.0, 10.0):
        for name, options in (("gumbel", {}), ("pure", {"delta": 0.0}), ("peeling", {"selection": "peeling"})):
            made = SparseMean(n_nonzero=N_SELECTED, epsilon=epsilon, clip=1.0, std=STD, random_state=rng, **options)
            overlaps, errors = [], []
            for _ in range(replications):
                fitted = made.fit(X)
                overlaps.append(np.isin(fitted.support_, largest).mean())
                errors.append(np.sum((fitted.mean_ - truth) ** 2))
            threshold = made.plan_.selection_threshold * STD
            rows.append((name, epsilon, threshold, float(np.mean(overlaps)), float(np.mean(errors))))
    return truth, rows


def as_markdown(truth: np.ndarray, rows: list, replications: int) -> str:
    ordered = np.sort(np.abs(truth))[::-1]
    floor = float(np.sum(ordered[N_SELECTED:] ** 2))
    lines = [
        "# SparseMean on scikit-learn's digits",
        "",
        f"{time.strftime('%Y-%m-%d')}, `python validation/real/sparse_real.py`: "
        f"898 pairs of images, 2016 products, {N_SELECTED} selected; "
        f"{replications} draws of the noise. Errors are about the means of these rows, not a population's.",
        "",
        f"The largest mean is {ordered[0]:.3f}, the {N_SELECTED}th {ordered[N_SELECTED - 1]:.3f}, "
        f"the 100th {ordered[99]:.3f}: they fall slowly, the vector is not sparse. Reporting 0 has squared error "
        f"{np.sum(ordered**2):.3f}; the {N_SELECTED} largest means without noise {floor:.3f}.",
        "",
        "| selection | epsilon | surely found above | overlap with the largest 20 | squared error |",
        "|---|---|---|---|---|",
    ]
    lines += [f"| {a} | {b:g} | {c:.3f} | {o:.2f} | {e:.3f} |" for a, b, c, o, e in rows]
    lines += [
        "",
        "What this shows: with 898 rows and 20 selections a private answer to this question needs an epsilon of "
        "several units. Below the threshold, which is public and known beforehand, the selection is a draw among many "
        "candidates of nearly the same size; overlap by chance is 0.01. Gumbel selection leads at epsilon = 1 and 3. "
        "At 10 it does not; the likely cause: products are skewed, clipping at one standard deviation moves their "
        "means, and "
        "noise no longer hides that (a larger `selection_clip` was not tried here).",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replications", type=int, default=50)
    parser.add_argument("--no-write", action="store_true")
    given = parser.parse_args()
    text = as_markdown(*study(given.replications), given.replications)
    print(text)
    if not given.no_write:
        RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
