"""Query release on large universes: one update beside a numpy multiply, and a hundred thousand queries online.

An update of multiplicative weights has to read the query and write the weights, so that its limit is one product of
two vectors of that length. A query online has to look at all counts once, and at the hypothesis once: two dot products.

    python validation/benchmarks/queries.py            print the tables: a minute
    python validation/benchmarks/queries.py --write    and write validation/results/benchmark_queries.md
"""

from __future__ import annotations

import time

import numpy as np
from timing import interleaved, milliseconds, peak_mib, publish, ratios, table, versions, write_wanted

from dpstats.queries import LinearQueries
from dpstats.textbook import IterativeConstruction, OnlineMultiplicativeWeights
from dpstats.textbook.histogram_release import MultiplicativeWeights, Perceptron

POINTS, ROUNDS = 1 << 20, 25
UNIVERSE, ASKED = 1 << 16, 100_000
LIMIT = "numpy, `np.multiply(x, f, out=y)`: the limit"


def updates() -> str:
    rng = np.random.default_rng(0)
    f = (rng.random(POINTS) < 0.3).astype(np.float64)
    weights, out = np.full(POINTS, 1 / POINTS), np.empty(POINTS)
    rule, printed, perceptron = (MultiplicativeWeights(POINTS), MultiplicativeWeights(POINTS, 0.05), Perceptron(POINTS))
    uniform = rule.start()
    cases = {
        LIMIT: lambda: np.multiply(weights, f, out=out),
        "one update, multiplicative weights": lambda: rule.updated(weights, f, 0.3, 0.3001, 0.00005),
        "the same as printed (exponentials)": lambda: printed.updated(weights, f, 0.3, 0.2, 0.0),
        "one update, perceptron": lambda: perceptron.updated(uniform, f, 0.3, 0.3001, 0.00005),
    }
    times = interleaved(cases, ROUNDS)
    rows = [
        (name, milliseconds(found), ratios(found, times[LIMIT]), f"{peak_mib(cases[name]):.1f}")
        for name, found in times.items()
    ]
    return table((f"{POINTS:,} points", "ms", "over the limit", "memory, MiB"), rows)


def stream() -> str:
    """Return the time of a hundred thousand queries, chosen as they come, and what was held."""
    rng = np.random.default_rng(1)
    counts = rng.multinomial(1_000_000, rng.dirichlet(np.full(UNIVERSE, 0.05)))
    # Random halves of the universe, shifted: a query is a view, and costs nothing to make.
    half = rng.permutation(np.repeat([0.0, 1.0], UNIVERSE // 2))
    ring = np.concatenate([half, half])
    online = OnlineMultiplicativeWeights(n_queries=ASKED, accuracy=0.3, epsilon=1.0, delta=1e-6)

    def ask(queries: int) -> float:
        online.fit(counts)
        start = time.perf_counter()
        for j in range(queries):
            online.answer(ring[j % UNIVERSE : j % UNIVERSE + UNIVERSE])
        return time.perf_counter() - start

    held = peak_mib(lambda: ask(300))
    seconds = ask(ASKED)
    dots = min(timed(lambda: half @ half) for _ in range(200))
    each = seconds / ASKED
    rows = [
        (
            f"{ASKED:,} queries online, {UNIVERSE:,} points, exact noise",
            f"{seconds:.1f} s",
            f"{1e6 * each:.0f} us",
            f"{each / (2 * dots):.1f}",
            f"{held:.1f}",
        )
    ]
    return table(("", "time", "a query", "over two dot products", "memory, MiB"), rows)


def timed(run: object) -> float:
    start = time.perf_counter()
    run()  # type: ignore[operator]
    return time.perf_counter() - start


def offline() -> str:
    rng = np.random.default_rng(2)
    size, k = 4096, 2000
    counts = rng.multinomial(100_000, rng.dirichlet(np.full(size, 0.05)))
    queries = LinearQueries.from_matrix(rng.integers(2, size=(k, size)))
    made = IterativeConstruction(queries=queries, max_updates=50, epsilon=1.0, delta=1e-6)
    seconds = timed(lambda: made.fit(counts))
    rounds = made.n_rounds_
    return table(
        ("", "time", "a round"),
        [
            (
                f"{rounds} rounds, {k:,} queries on {size:,} points, exact noise",
                f"{seconds:.2f} s",
                f"{1000 * seconds / rounds:.1f} ms",
            )
        ],
    )


def main() -> None:
    write = write_wanted(__doc__)
    body = "\n\n".join([updates(), stream(), offline()])
    publish("benchmark_queries", "Query release on large universes", body, versions("numpy", "opendp"), write=write)


if __name__ == "__main__":
    main()
