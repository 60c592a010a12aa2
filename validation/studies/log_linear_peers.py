"""Private regressions of counts and of amounts beside statsmodels' GLM and other private methods, on the same datasets.

Subsample-and-aggregate is `PrivateStatistic` with the fit of a block as its statistic. Noisy gradient descent is
`validation/peers/glm_descent.py`, tuned on the truth.

    python validation/studies/log_linear_peers.py                        # writes validation/results/log_linear_peers.md
    python validation/studies/log_linear_peers.py --replications 4 --only RAND --no-write
"""

from __future__ import annotations

import sys
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import statsmodels.api as sm
from log_linear import NB, Cell, Floats, likelihood
from study_page import table_page, write_cells

from dpstats.errors import InvalidParameter
from dpstats.privacy import gaussian_sigma
from dpstats.statistic import PrivateStatistic

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "peers"))
from glm_descent import descend, settings

RESULTS = Path(__file__).resolve().parents[1] / "results" / "log_linear_peers.md"
NORMAL = 1.959963984540054
DELTA = 1e-6
CELLS = (
    Cell("Poisson", overdispersion=0.0),
    Cell("Poisson"),
    Cell(NB),
    Cell("negative binomial, alpha 3"),
    Cell("zero-inflated"),
    Cell("Poisson-lognormal"),
    Cell("variance 4 mu"),
    Cell("gamma, shape 2", family="gamma"),
    Cell("gamma, shape 1/2", family="gamma"),
    Cell("40% zeros", family="gamma"),
    Cell(NB, exposed=True),
    Cell(NB, mean=20.0),
    Cell("Poisson", mean=0.1, high=200.0),
    Cell("Poisson", mean=0.02, high=500.0),
    Cell(NB, n=5000, high=1e6, note="bounds far too wide"),
    Cell(NB, n=100_000, fits=0.3),
    Cell("RAND, visits", n=20_190, d=9, high=100.0),
)


def glm(cell: Cell, X: Floats, y: Floats, offset: Any) -> tuple[Floats, Floats]:
    """Return the estimate of statsmodels' GLM with the same weights, and its HC0 standard errors."""
    family = {
        "gamma": sm.families.Gamma(sm.families.links.Log()),
        "counts": sm.families.NegativeBinomial(alpha=cell.overdispersion)
        if cell.overdispersion
        else sm.families.Poisson(),
    }[cell.family]
    # The likelihood of a gamma outcome is not defined at 0, and its estimating equations are.
    outcome = np.maximum(y, 1e-9) if cell.family == "gamma" else y
    fit = sm.GLM(outcome, sm.add_constant(X), family=family, offset=offset).fit(cov_type="HC0")
    return np.asarray(fit.params), np.asarray(fit.bse)


def blocks_of(cell: Cell, X: Floats, y: Floats, offset: Any, seed: int) -> tuple[float, float] | None:
    """Return the estimate of the first slope and the half-width of its interval, or None if it needs more rows."""
    weight = cell.weight

    def slope(block: Floats, outcome: Floats) -> float:
        offsets = block[:, -1] if offset is not None else 0.0
        return float(likelihood(block[:, : X.shape[1]], outcome, weight, offsets)[0][1])

    rows = X if offset is None else np.column_stack([X, offset])
    made = PrivateStatistic(
        slope,
        bounds=(-10, 10),
        parameters=3 * (X.shape[1] + 1) // 4,
        epsilon=cell.epsilon,
        delta=DELTA,
        random_state=seed,
    )
    try:
        made = made.fit(rows, y)
    except InvalidParameter:
        return None
    low, high = (float(np.ravel(end)[0]) for end in made.confidence_interval(0.95))
    return float(np.ravel(made.estimate_)[0]), (high - low) / 2


def measured(cell: Cell, replications: int, seed: int) -> list[str]:
    """Return the line of a cell."""
    fits = max(int(replications * cell.fits), 2)
    rng = np.random.default_rng([seed, zlib.crc32(f"{cell.name} {cell.n}".encode())])
    errors: dict[Any, list[Floats]] = {}
    halves: dict[str, list[Floats]] = {"GLM": [], "ours": []}
    said, blocks = [], []
    mu = 1 / gaussian_sigma(cell.epsilon, DELTA)
    for _ in range(fits):
        X, y, exposure, bounds, truth = cell.dataset(rng)
        offset = None if exposure is None else np.log(exposure)
        made = cell.estimator(bounds, rng).fit(X, y, exposure=exposure)
        text = str(made.summary())
        said.append(made.unsettled_ or any(words in text for words in ("are rare", "Not ident", "Noise only")))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            plain, stds = glm(cell, X, y, offset)
            found = blocks_of(cell, X, y, offset, int(rng.integers(2**31)))
        ours = np.append(made.intercept_standard_error_, made.standard_errors_)
        for name, value, width in (("GLM", plain, NORMAL * stds), ("ours", made.params_, NORMAL * ours)):
            errors.setdefault(name, []).append(value - truth)
            halves[name].append(width)
        if found is not None:
            blocks.append((found[0] - truth[1], found[1], NORMAL * stds[1], plain[1] - truth[1]))
        for pair in settings():
            with np.errstate(all="ignore"):
                reached = descend(X, y, 0.0 if offset is None else offset, cell.weight, mu, rng, *pair)
            errors.setdefault(pair, []).append(reached - truth)
    e = {name: np.array(values)[:, 1:] for name, values in errors.items()}
    h = {name: np.array(values)[:, 1:] for name, values in halves.items()}
    unit = np.mean(h["GLM"], axis=0) ** 2  # slopes count in units of their own standard errors
    size = {name: float(np.mean(values**2 / unit)) for name, values in e.items()}
    best = min((pair for pair in settings() if np.isfinite(size[pair])), key=lambda pair: size[pair])

    def covered(name: str) -> str:
        inside = np.abs(e[name]) <= h[name]
        return f"{inside.mean():.3f} [{inside.mean(axis=0).min():.2f}]"

    def wide(name: str) -> str:
        return f"{np.nanmedian(h[name] / h['GLM']):.2f}"

    return [
        cell.name,
        f"{cell.n:,}",
        covered("GLM"),
        f"{size['ours'] / size['GLM']:.2f}",
        covered("ours"),
        wide("ours"),
        f"{np.mean(said):.2f}",
        *_of_blocks(np.array(blocks)),
        f"{size[best] / size['GLM']:.2f}",
        str(fits),
    ]


def _of_blocks(found: Floats) -> list[str]:
    """Return the error, the coverage and the width of the one slope of subsample-and-aggregate."""
    if not found.size:
        return ["needs more rows", "", ""]
    error, half, beside, plain = found.T
    ratio = np.mean(error**2) / np.mean(plain**2)
    return [f"{ratio:.1f}", f"{np.mean(np.abs(error) <= half):.2f}", f"{np.median(half / beside):.2f}"]


HEADER = (
    "outcomes, columns",
    "n",
    "GLM covers",
    "error",
    "covers",
    "width",
    "warned",
    "blocks: error",
    "covers",
    "width",
    "descent: error",
    "fits",
)


def as_markdown(lines: list[list[str]], replications: int, seed: int) -> str:
    """Return the page of results."""
    words = (
        "Slopes of log-linear models at ε = 1 and δ = 1e-6, on the same datasets. *GLM*: statsmodels, with the same "
        "weights and HC0 standard errors, without privacy. *error*, *covers*, *width*, *warned*: "
        "`PrivateCountRegression` or `PrivateGammaRegression`. *error*: mean squared error over that of GLM, slopes in "
        "units of their standard errors. *covers*: coverage of 95% intervals [of the worst slope]. *width*: over "
        "GLM's, median. *warned*: fraction of fits whose output says that intervals may miss. *blocks*: "
        "subsample-and-aggregate by `PrivateStatistic`, for the first slope alone at the whole ε, in blocks of 160 "
        "rows. Blocks with few events, or too few rows for their slope, have a bias, and their intervals cover less. "
        "All slopes together would need ten times the rows. Its error is nan if a fit has no estimate, and large "
        "if one is far off, with an interval that says so. *descent*: noisy gradient descent, with "
        "standardized columns, the mean outcome as its start, and the best of 20 pairs of step size and clip for the "
        "true slopes. No user has these, and it gives no intervals. "
        "Coverage of one slope has a standard error of 0.03 for 50 fits, of ten slopes together of about 0.01."
    )
    command = f"python validation/studies/log_linear_peers.py --replications {replications} --seed {seed}"
    return table_page("Log-linear models beside other methods", command, words, HEADER, lines)


if __name__ == "__main__":
    write_cells(CELLS, measured, as_markdown, RESULTS, replications=50, seed=2026)
