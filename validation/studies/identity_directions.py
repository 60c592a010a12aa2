"""Power of the identity tests towards the middle and away from it, and what they do on skewed rows.

Five tables. Directions: every test under normal and product nulls, as in identity_power.py (critical distance over the
non-private chi-square test's, noise integrated out); a mean that moves "towards the middle" makes signs less skewed,
"away" more, and "one column" is the first alone. The last column is the least power at any distance and epsilon: to be
nowhere below the level, up to its Monte Carlo error (about .02, .04 for staged and filtering).
Clip: the row distance with wider clips, on normal rows. Skewed rows: rejections on rows that are not normal and have
the right mean and covariance, and with their mean moved. zCDP: Gaussian noise at rho = epsilon^2/2. Level: fresh rows
of the null through the private path, against calibrations of the test's own.

    python validation/studies/identity_directions.py              # 200 datasets a distance, fewer for slow tests
    python validation/studies/identity_directions.py --tables skewed     # the other tables stay as written
    python validation/studies/identity_directions.py --replications 30 --no-write  # a look
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

import dpstats
from dpstats.identity import FilteringTest, LipschitzExtensionTest, RowDistanceTest, SpatialSignTest
from dpstats.identity.base import PrivateTest
from dpstats.identity.calibration import pvalue
from dpstats.identity.whitening import farthest_distance
from dpstats.release.session import Session
from dpstats.textbook import StagedInnerProductTest

sys.path.insert(0, str(Path(__file__).resolve().parent))
from identity_power import DELTA, LEVEL, POWER, exceed, nonprivate

RESULTS = Path(__file__).resolve().parents[1] / "results" / "identity_directions.md"
EPSILONS = (0.1, 0.5, 1.0)
RATIOS = (0.5, 1.0, 1.1, 1.25, 1.45, 1.75, 2.2, 2.9, 4.0, 6.0)
SLOW = 2 * 10**7  # n^2 d, from which the row distance gets a third of the datasets

Draws = dict[float, np.ndarray]
"""Statistics without noise, or released ones (size, epsilons), by the ratio of the distance; 0 is the null."""


def tests_of(null: str, mean: Any) -> dict[str, PrivateTest]:
    """Return the tests with one release each."""
    common = {"null": null, "mean": mean}
    # The default clip depends on epsilon under the normal null: 1 below .5, and 3 above. Here statistics are drawn
    # once for all epsilons, so it is stated.
    wide = null == "normal"
    tests: dict[str, PrivateTest] = {
        "row distance, clip 3" if wide else "row distance": RowDistanceTest(clip=3 if wide else None, **common),
        "spatial sign": SpatialSignTest(**common),
        "l1 extension": LipschitzExtensionTest(**common),
        "l1 extension, radius .4": LipschitzExtensionTest(radius=0.4, **common),
    }
    if not np.any(mean):
        tests["row distance, signs"] = RowDistanceTest(rows="sign", **common)
        tests["l1 extension, signs"] = LipschitzExtensionTest(rows="sign", **common)
        tests["inner products"] = LipschitzExtensionTest(constraint="inner_product", solver="surrogate", **common)
    if wide:
        tests["row distance, clip 1"] = RowDistanceTest(clip=1, **common)
    return tests


def several_releases(null: str) -> dict[str, PrivateTest]:
    """Return the tests whose early steps have noise of their own."""
    return {
        "staged (9.3.2)": StagedInnerProductTest(solver="surrogate", null=null),
        "filtering (9.3.3)": FilteringTest(delta=DELTA, null=null),
    }


def means(name: str, d: int) -> Any:
    return np.linspace(-0.9, 0.9, d) if name == "mixed" else float(name)


def directions(mean: Any, d: int, one_column: bool) -> dict[str, np.ndarray]:
    """Return unit vectors."""
    away = np.where(np.broadcast_to(mean, (d,)) >= 0, 1.0, -1.0) / np.sqrt(d)
    found = {"towards the middle": -away, "away": away}
    if one_column:
        first = np.eye(1, d)[0] * np.sign(away[0])
        found |= {"one column, middle": -first, "one column, away": first}
    return found


def threshold(null: np.ndarray, tail: Callable[[float, np.ndarray], float], reach: float) -> float:
    """Return the critical value: where the tail of null statistics with their noise is the level."""
    if reach == 0:
        return float(np.quantile(null, 1 - LEVEL, method="higher"))
    return float(brentq(lambda c: tail(c, null) - LEVEL, null.min() - reach, null.max() + reach))


def laplace(noise: float) -> tuple[Callable[[float, np.ndarray], float], float]:
    return lambda c, values: exceed(c, values, noise), 50 * noise


def gaussian(noise: float) -> tuple[Callable[[float, np.ndarray], float], float]:
    return lambda c, values: float(np.mean(ndtr((values - c) / noise))), 10 * noise


def powers(drawn: Draws, tail: Callable[[float, np.ndarray], float], reach: float) -> dict[float, float]:
    """Return the power at every ratio."""
    critical = threshold(drawn[0.0], tail, reach)
    return {ratio: tail(critical, values) for ratio, values in sorted(drawn.items()) if ratio}


def critical_ratio(power: dict[float, float]) -> str:
    """Return where the power first reaches .8, by interpolation, as it is written."""
    ratios, reached = list(power), np.maximum.accumulate(list(power.values()))
    i = int(np.argmax(reached >= POWER))
    if reached[i] < POWER:
        return f"> {ratios[-1]:.3g}"
    if i == 0:
        return f"< {ratios[0]:.3g}"
    part = (POWER - reached[i - 1]) / (reached[i] - reached[i - 1])
    return f"{ratios[i - 1] + part * (ratios[i] - ratios[i - 1]):.2f}"


def draws(
    test: PrivateTest, n: int, d: int, unit: np.ndarray, size: int, seed: list[int], ratios: Any = RATIOS
) -> Draws:
    """Return statistics without noise, in their units."""
    plan = test.plan(n, d)
    farthest = farthest_distance(plan.reference, unit)
    found = {}
    for index, ratio in enumerate((0.0, *ratios)):
        shift = ratio * nonprivate(n, d) * unit
        if ratio * nonprivate(n, d) > farthest:
            break
        rng = np.random.default_rng([*seed, index])
        steps = test._draw(plan, size * (1 if ratio else 4), rng, shift)[:, 0]
        found[ratio] = steps.astype(float) * plan.stages[0].spacing
    return found


def fewer(test: PrivateTest, n: int, d: int, replications: int) -> int:
    slow = isinstance(test, RowDistanceTest) and n * n * d > SLOW
    return max(replications // 3 if slow else replications, 10)


DIRECTION_CELLS = [
    *(("normal", "0", 500, d) for d in (1, 3, 7, 8, 20)),
    *(("product", m, 500, d) for m in ("0", "0.5", "0.9") for d in (1, 3, 8, 20)),
    ("product", "mixed", 500, 8),
    ("product", "mixed", 500, 20),
    *(("product", m, 1000, 100) for m in ("0.5", "0.9", "mixed")),
]


def direction_rows(replications: int) -> Iterator[list[str]]:
    for cell, (null, name, n, d) in enumerate(DIRECTION_CELLS):
        mean = means(name, d)
        label = f"{null} {name}" if null == "product" else null
        for direction, unit in directions(mean, d, one_column=d == 20).items():
            for index, (title, test) in enumerate(tests_of(null, mean).items()):
                if title.startswith("row distance, clip") and direction.startswith("one"):
                    continue  # depends on the distance alone, but for the clip of coordinates
                drawn = draws(test, n, d, unit, fewer(test, n, d, replications), [1, cell, index])
                scale = float(test.plan(n, d).stages[0].noise_scale) * test.epsilon
                found = [powers(drawn, *laplace(scale / e)) for e in EPSILONS]
                least = min(min(power.values()) for power in found)
                yield [label, str(n), str(d), direction, title, *map(critical_ratio, found), f"{least:.2f}"]
            for index, (title, test) in enumerate(several_releases(null).items()):
                if name != "0" or d not in (3, 20) or direction.startswith("one"):
                    continue
                found = [whole(test, e, n, d, unit, replications, [2, cell, index]) for e in EPSILONS]
                least = min(min(power.values()) for power in found)
                yield [label, str(n), str(d), direction, title, *map(critical_ratio, found), f"{least:.2f}"]


def whole(
    test: PrivateTest, epsilon: float, n: int, d: int, unit: np.ndarray, replications: int, seed: list[int]
) -> dict[float, float]:
    """Return the power at a few ratios of a test that is simulated with all its noise."""
    test = type(test)(**{**test.get_params(), "epsilon": epsilon})
    plan = test.plan(n, d)
    farthest = farthest_distance(plan.reference, unit) / nonprivate(n, d)
    ratios = [ratio for ratio in (0.0, 1.0, 4.0, 10.0, 20.0) if ratio <= farthest]
    drawn = {
        ratio: test._simulate(
            plan,
            replications * (1 if ratio else 3),
            np.random.default_rng([*seed, index]),
            ratio * nonprivate(n, d) * unit,
        )
        for index, ratio in enumerate(ratios)
    }
    return powers(drawn, lambda c, values: float(np.mean(values > c)), 0)


CLIPS = (1.0, 2.0, 2.5, 3.0, 4.0)


def clip_rows(replications: int) -> Iterator[list[str]]:
    for cell, (n, d) in enumerate(((500, 20), (2000, 20), (1000, 100))):
        unit = np.full(d, 1 / np.sqrt(d))
        for clip in CLIPS:
            test = RowDistanceTest(clip=clip)
            drawn = draws(test, n, d, unit, fewer(test, n, d, replications), [3, cell], RATIOS[1:9])
            ratios = [critical_ratio(powers(drawn, *laplace(1 / e))) for e in (*EPSILONS, 2.0)]
            yield [str(n), str(d), f"{clip:g}", *ratios]


LAWS: dict[str, Callable[[np.random.Generator, tuple[int, int]], np.ndarray]] = {
    "gamma(4), skewness 1": lambda rng, shape: (rng.gamma(4, size=shape) - 4) / 2,
    "lognormal(0, .5), skewness 1.75": lambda rng, shape: (
        (np.exp(0.5 * rng.standard_normal(shape)) - np.exp(0.125)) / np.sqrt(np.exp(0.25) * np.expm1(0.25))
    ),
    "exponential, skewness 2": lambda rng, shape: rng.exponential(size=shape) - 1,
    "Bernoulli(.1), skewness 2.7": lambda rng, shape: ((rng.random(shape) < 0.1) - 0.1) / 0.3,
    "t5, symmetric": lambda rng, shape: rng.standard_t(5, size=shape) / np.sqrt(5 / 3),
}
SKEWED: dict[str, PrivateTest] = {
    **{f"row distance, clip {clip:g}": RowDistanceTest(clip=clip) for clip in (1.0, 2.5, 3.0)},
    "row distance, signs": RowDistanceTest(rows="sign"),
    "spatial sign": SpatialSignTest(),
    "l1 extension": LipschitzExtensionTest(),
}
MOVES = (0.0, 2.0, 3.0, -2.0, -3.0)


def skewed_rows(replications: int) -> Iterator[list[str]]:
    for cell, (n, d) in enumerate(((500, 20), (2000, 20))):
        for index, (title, test) in enumerate(SKEWED.items()):
            plan = test.plan(n, d)
            stage = plan.stages[0]
            size = fewer(test, n, d, replications)
            null = test._draw(plan, 4 * size, np.random.default_rng([4, cell, index]), 0.0)[:, 0] * stage.spacing
            for number, (law, rows) in enumerate(LAWS.items()):
                row = [law, str(n), str(d), title]
                for move in MOVES:
                    rng = np.random.default_rng([5, cell, number])  # the same rows for every test and move
                    shift = move * nonprivate(n, d) / np.sqrt(d)
                    exact = [
                        test._exact(rows(rng, (n, d)) + shift, plan)[stage.name][0] * stage.spacing
                        for _ in range(max(3 * replications // 10, 10))
                    ]
                    tails = [laplace(float(stage.noise_scale) * test.epsilon / e) for e in (0.1, 1.0)]
                    found = [tail(threshold(null, tail, reach), np.array(exact)) for tail, reach in tails]
                    row.append(" / ".join(f"{power:.2f}" for power in found))
                yield row


def zcdp_rows(replications: int) -> Iterator[list[str]]:
    for cell, (n, d) in enumerate(((500, 20), (1000, 100))):
        test = RowDistanceTest(clip=1)
        unit = np.full(d, 1 / np.sqrt(d))
        drawn = draws(test, n, d, unit, fewer(test, n, d, 2 * replications), [6, cell], RATIOS[1:])
        for epsilon in (0.1, 0.2, 0.5, 1.0):
            found = [powers(drawn, *law(1 / epsilon)) for law in (laplace, gaussian)]
            yield [str(n), str(d), f"{epsilon:g}", f"{epsilon**2 / 2:g}", *map(critical_ratio, found)]


def level_rows(replications: int) -> Iterator[list[str]]:
    tests = {
        "row distance, default clip": RowDistanceTest(),
        "row distance, product .5": RowDistanceTest(null="product", mean=0.5),
        "row distance, product .9": RowDistanceTest(null="product", mean=0.9),
        "row distance, rho = .005": RowDistanceTest(epsilon=None, rho=0.005),
        "spatial sign, product .9": SpatialSignTest(null="product", mean=0.9),
        "l1 extension, product .9": LipschitzExtensionTest(null="product", mean=0.9),
    }
    for title, test in tests.items():
        for n, d in ((50, 1), (50, 20), (300, 5), (300, 20)):
            plan = test.plan(n, d)
            size = 6 * replications
            test = type(test)(**{**test.get_params(), "n_calibration": 1999})
            null = test._null_statistics(test.plan(n, d))
            rng = np.random.default_rng([7, n, d])
            rejected = 0
            for _ in range(size):
                if plan.reference.signs_mean is None:
                    X = rng.standard_normal((n, d))
                else:
                    X = np.where(rng.random((n, d)) < plan.reference.up(), 1.0, -1.0)
                with Session.simulated(plan, rng) as session:
                    test._release(test._exact(X, plan), plan, session)
                rejected += pvalue(null, float(test._combine(session.released, plan))) <= LEVEL
            yield [title, str(n), str(d), f"{size:,}", f"{rejected / size:.3f}"]


def tables(replications: int) -> dict[str, tuple[str, str, list[str], Iterator[list[str]]]]:
    """Return title, words, head and rows of every table, by name."""
    epsilons = [f"epsilon = {e:g}" for e in EPSILONS]
    moved = [f"moved {move:g}" for move in MOVES]
    error = np.sqrt(LEVEL * (1 - LEVEL) / (6 * replications))
    return {
        "directions": (
            "Directions",
            f"{replications} datasets a distance and four times as many of the null; a third of that for the row "
            f"distance where n^2 d > {SLOW:.0e}. Staged and filtering, with all their noise: {replications} and three "
            "times as many, so that the least of their twelve shares may be .03 below the level by chance.",
            ["null", "n", "d", "direction", "test", *epsilons, "least power"],
            direction_rows(replications),
        ),
        "clip": (
            "The clip of the row distance, on normal rows",
            f"{replications} datasets a distance, a third where n^2 d > {SLOW:.0e}; the same rows for all clips.",
            ["n", "d", "clip / sqrt(d)", *epsilons, "epsilon = 2"],
            clip_rows(replications),
        ),
        "skewed": (
            "Skewed rows: share rejected at epsilon = .1 / 1",
            "Null: standard normal rows. Rows have its mean and covariance, and then their mean moved by so many "
            "non-private critical distances, all columns alike; positive is towards the long tail. "
            f"{max(3 * replications // 10, 10)} datasets each.",
            ["rows", "n", "d", "test", *moved],
            skewed_rows(replications),
        ),
        "zcdp": (
            "Gaussian noise for budgets kept in zero-concentrated privacy",
            "Row distance, clip 1.",
            ["n", "d", "epsilon", "rho", "Laplace, epsilon", "Gaussian, rho"],
            zcdp_rows(replications),
        ),
        "level": (
            "Level of the tests that changed",
            "1,999 simulated null datasets a calibration, so that the level of one has a standard deviation of .005; "
            f"that of a share is {error:.3f} beside it.",
            ["test", "n", "d", "datasets", "rejected at .05"],
            level_rows(replications),
        ),
    }


NAMES = ("directions", "clip", "skewed", "zcdp", "level")

HEAD = """# Power of the identity tests in both directions, and on skewed rows

Critical distances (power .8, level .05) are over that of the non-private chi-square test on the mean; "> a": less power
than that at the largest distance tried, or at the farthest that signs can be. Simulated noise.
"""


def section(name: str, replications: int) -> str:
    """Return a table below its title and the command that made it."""
    start = time.process_time()
    title, words, head, rows = tables(replications)[name]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        print(*row, sep=" | ", flush=True)
        lines.append("| " + " | ".join(row) + " |")
    minutes = (time.process_time() - start) / 60
    command = f"python validation/studies/identity_directions.py --replications {replications} --tables {name}"
    run = f"{time.strftime('%Y-%m-%d')}, dpstats {dpstats.__version__}, numpy {np.__version__}"
    made = f"`{command}` ({run}; {minutes:.1f} minutes of one core)"
    return "\n".join([f"## {title}", "", made, "", words, "", *lines, ""])


def written() -> dict[str, str]:
    """Return the sections that are there, by the name in their command."""
    if not RESULTS.exists():
        return {}
    parts = re.split(r"^(?=## )", RESULTS.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {re.search(r"--tables (\w+)", part)[1]: part.rstrip() + "\n" for part in parts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replications", type=int, default=200)
    parser.add_argument("--tables", nargs="+", choices=NAMES, default=NAMES, help="the others stay as written")
    parser.add_argument("--no-write", action="store_true")
    options = parser.parse_args()
    for name in options.tables:
        made = section(name, options.replications)
        if not options.no_write:
            parts = {**written(), name: made}
            text = "\n".join([HEAD, *(parts[name] for name in NAMES if name in parts)])
            RESULTS.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
