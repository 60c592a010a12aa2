"""The row distance: agreement with a plain definition, the sensitivity by search, and searches that must fail."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from dpstats.errors import InvalidData, InvalidParameter
from dpstats.identity import row_distance_statistic as rows
from dpstats.identity.row_distance_statistic import (
    Centering,
    distance_of_row_sums,
    round_to_steps,
    row_distance,
    row_sums,
)


def plain_distance(X, rho, a0, tau0, increment=8, centering=None):
    """The definition, in Python integers and fractions; ``increment`` is the constant under attack.

    The threshold is 2 a0 k + increment/4 * width * k (k - 1), so 8 is the one that is proved.
    """
    X = [[int(v) for v in row] for row in X]
    n = len(X)

    def entry(i, j):
        K = max(-rho, min(rho, sum(a * b for a, b in zip(X[i], X[j], strict=True))))
        if centering is None:
            return K
        if not (any(X[i]) and any(X[j])):
            return 0
        G = K - int(centering.terms[i]) - int(centering.terms[j]) + centering.mean
        return max(centering.low, min(centering.high, G))

    r = [sum(entry(i, j) for j in range(n) if j != i) for i in range(n)]
    width = 2 * rho if centering is None else centering.high - centering.low
    return plain_distance_of_sums(r, width, a0, tau0, increment)


def plain_distance_of_sums(r, width, a0, tau0, increment=8):
    n = len(r)
    positive = sorted((max(v, 0) for v in r), reverse=True)
    for k in range(n + 1):
        a = a0 + width * k
        f = sum(r) - 2 * sum(positive[:k]) + 2 * sum(max(-a - v, 0) for v in r)
        if f <= tau0 + 2 * a0 * k + Fraction(increment, 4) * width * k * (k - 1):
            return k
    return n


@pytest.mark.parametrize("seed", range(20))
def test_agrees_with_the_definition(seed):
    rng = np.random.default_rng(seed)
    for _ in range(40):
        n, d, size = rng.integers(1, 14), rng.integers(1, 6), rng.choice([1, 2, 5, 32])
        X = rng.integers(-size, size + 1, (n, d)) + rng.choice([0, 0, 1]) * (size // 2)
        rho, a0 = int(rng.integers(0, 2 * size**2 * d)), int(rng.integers(0, 3 * size**2 * d))
        tau0 = float(rng.normal() * size**2 * d * n)
        X[rng.random(n) < 0.1] = 0
        terms = rng.integers(-rho, rho + 1, n)
        low, high = -int(rng.integers(0, 2 * rho + 2)), int(rng.integers(0, 2 * rho + 2))
        for centering in (None, Centering(terms, int(rng.integers(-rho, rho + 1)), low, high)):
            expected = plain_distance(X, rho, a0, tau0, centering=centering)
            for dtype in (np.int16, np.int64, np.float32, np.float64):
                assert row_distance(X.astype(dtype), rho, a0, tau0, centering=centering) == expected


@pytest.mark.parametrize(("low", "high"), [(-1, 2), (0, 3), (-3, 1), (0, 1), (-4, 0)])
def test_a_row_moves_the_distance_by_at_most_one_in_any_window(low, high):
    # Exhaustively: rows of zeros, which stand for missing ones, among the others, and each row replaced by each. Of a
    # row its term is any function.
    values, moved = (-2, 0, 1, 3), 0
    terms = {-2: 1, 0: 0, 1: -1, 3: 2}
    for rho, a0, tau0 in itertools.product((2, 6), (0, 3), (-4, 0, 5)):
        found = {
            X: row_distance(
                np.array(X)[:, None], rho, a0, tau0, centering=Centering(np.array([terms[x] for x in X]), 1, low, high)
            )
            for X in itertools.product(values, repeat=4)
        }
        for X, distance in found.items():
            for value in values:
                step = abs(found[(value, *X[1:])] - distance)
                assert step <= 1
                moved += step
    assert moved


def test_a_term_that_depends_on_other_rows_moves_it_by_two():
    """The planted bug that a function of the row alone, bit for bit, excludes: the same search finds it."""
    values, worst = (-3, 1), 0
    for tau0 in range(-12, 1):
        found = {}
        for X in itertools.product(itertools.product(values, repeat=2), repeat=5):
            rows_ = np.array(X)
            terms = np.rint(np.clip(rows_ @ rows_.T, -3, 3).mean(axis=1)).astype(np.int64)
            found[X] = row_distance(rows_, 3, 3, tau0, centering=Centering(terms, 0, -3, 5), threads=1)
        for rest in {X[1:] for X in found}:
            moves = [found[(row, *rest)] for row in itertools.product(values, repeat=2)]
            worst = max(worst, max(moves) - min(moves))
        if worst > 1:
            return
    raise AssertionError("the search finds nothing")


def test_a_window_wider_than_its_stated_width_moves_it_by_two():
    """The planted bug, by hand: G in {-1, 2}, of width 3; with the thresholds of width 2 one row moves D by 2."""
    G = np.array([[0, 2, 2, -1], [2, 0, 2, -1], [2, 2, 0, -1], [-1, -1, -1, 0]])
    H = with_row(G, np.array([-1, -1, 2]))
    sums = [M.sum(axis=1).tolist() for M in (G, H)]
    assert sums == [[3, 3, 3, -3], [0, 0, 0, 0]]
    assert [plain_distance_of_sums(r, 2, 0, 0) for r in sums] == [2, 0]
    zeros = np.zeros(4, dtype=np.int64)
    D = [row_distance(incidence_rows(M), 2, 0, 0, centering=Centering(zeros, 0, -1, 2)) for M in (G, H)]
    assert D == [1, 0]


def test_windows_and_terms_are_checked():
    X, zeros = np.ones((3, 2)), np.zeros(3, dtype=np.int64)
    for low, high, named in ((1, 2, "low"), (-2, -1, "high"), (-1.5, 2, "low")):
        with pytest.raises(InvalidParameter, match=named):
            row_distance(X, 1, 1, 0, centering=Centering(zeros, 0, low, high))
        with pytest.raises(InvalidParameter, match=named):
            distance_of_row_sums(zeros, 1, 1, 0, window=(low, high))
    for terms in (zeros[:2], zeros.astype(float), zeros + 2):
        with pytest.raises(InvalidData, match="terms"):
            row_distance(X, 1, 1, 0, centering=Centering(terms, 0, -1, 1))


def test_blocks_and_precisions_agree(monkeypatch):
    # Several tiles on and off the diagonal, against the whole Gram matrix in 64-bit integers.
    monkeypatch.setattr(rows, "_TILE_ROWS", 7)
    monkeypatch.setattr(rows, "_TILE_COLUMNS", 16)
    rng = np.random.default_rng(1)
    for n in (1, 6, 7, 8, 50, 101):
        for size in (3, 32, 5000, 2**20):
            X = rng.integers(-size, size + 1, (n, 5))
            G = X @ X.T
            for rho in (0, size**2, 10**9 * size**2):
                clipped = np.clip(G, -rho, rho)
                np.fill_diagonal(clipped, 0)
                for threads in (1, 3):
                    assert np.array_equal(row_sums(X, rho, threads=threads), clipped.sum(axis=1))


def test_datasets_with_other_signs_share_products(monkeypatch):
    monkeypatch.setattr(rows, "_TILE_ROWS", 7)
    monkeypatch.setattr(rows, "_TILE_COLUMNS", 16)
    rng = np.random.default_rng(2)
    for n in (0, 1, 7, 40):
        X = rng.integers(-32, 33, (n, 3))
        signs = (2 * rng.integers(0, 2, (n, 5)) - 1).astype(np.int8)
        for threads in (1, 3):
            found = row_sums(X, 900, threads=threads, signs=signs)
            expected = [row_sums(X * column[:, None], 900) for column in signs.T]
            assert np.array_equal(found, np.stack(expected, axis=1))


def test_precision_is_chosen_by_the_public_bound():
    # Extreme rows: all products at the bound, so that a wrong choice of precision would show.
    assert rows._dtype(32**2 * 1000, 2024) is np.float32
    assert rows._dtype(32**2 * 2**14, 2024) is np.float64
    for bound, d in [(32, 16383), (32, 16385), (2895, 2), (2897, 2)]:
        X = np.full((3, d), bound)
        X[0, 0] -= 1
        product = bound**2 * d
        expected = [2 * (product - bound), 2 * product - bound, 2 * product - bound]
        assert row_sums(X, product).tolist() == expected


def test_refuses_what_is_not_an_integer():
    for bad in (np.full((3, 2), 0.5), np.full((3, 2), np.nan), np.full((3, 2), np.inf), np.full((3, 2), 2.0**40)):
        with pytest.raises(ValueError, match="integers"):
            row_distance(bad, 1, 1, 0)
    with pytest.raises(ValueError, match="bound"):
        row_distance(np.full((3, 2), 5), 1, 1, 0, bound=4)
    with pytest.raises(ValueError, match="rho"):
        row_distance(np.ones((3, 2)), 1.5, 1, 0)
    with pytest.raises(ValueError, match="a0"):
        row_distance(np.ones((3, 2)), 1, -1, 0)


def test_rounding_maps_every_number_into_the_box():
    Z = np.array([[0.0, 0.0624, 0.0626, -5.0, 3.9, 4.1, 1e300, -1e300]])
    with np.errstate(over="ignore"):
        assert round_to_steps(Z).tolist() == [[0, 0, 1, -32, 31, 32, 32, -32]]
    # What is no number, because memory changed after it was checked, say, is a point of the grid as well.
    for dtype in (np.float32, np.float64):
        odd = np.array([np.nan, -np.nan, np.inf, -np.inf], dtype=dtype)
        found = round_to_steps(odd)
        assert np.all((np.abs(found) <= 32) & (found == np.rint(found)))


@pytest.mark.parametrize("late", [np.nan, np.inf, 0.5, 2.0**25])
def test_rows_that_change_after_their_check_are_refused(monkeypatch, late):
    # Another process writes to the caller's memory between the check and the products.
    X = np.ones((40, 3), dtype=np.float32)
    check = rows._check_integer_rows

    def then_written_to(given, bound):
        found = check(given, bound)
        X[5, 1] = late
        return found

    monkeypatch.setattr(rows, "_check_integer_rows", then_written_to)
    with pytest.raises(InvalidData, match="X"):
        row_sums(X, 2, bound=32)


def test_room_for_exact_arithmetic_is_a_public_matter():
    # At n = 1000 and this rho, 4 n (n - 1 + 2 (n + 1)) rho is 2^62.02: refused whatever the sums are, or a
    # refusal would tell two datasets from each other.
    n, rho = 1000, 2**62 // (4 * 1000 * 2980)
    for sums in (np.zeros(n), np.full(n, (n - 1) * rho), np.full(n, -rho)):
        with pytest.raises(InvalidParameter, match="small enough for exact 64-bit"):
            distance_of_row_sums(sums.astype(np.int64), rho, 0, 0.0)
    least = 2**62 // (4 * n * (3 * n + 1) + 1)
    assert distance_of_row_sums(np.zeros(n, dtype=np.int64), least, 0, 0.0) == 0
    # and sums that no rows have would leave that room
    with pytest.raises(InvalidData, match="row_sums"):
        distance_of_row_sums(np.array([0, 3, 0]), 1, 0, 0.0)


def exhaustive_violations(distance, n, d, values, settings):
    """Count pairs of neighbors whose distances differ by more than one; rows unordered, so multisets."""
    patterns = list(itertools.product(values, repeat=d))
    pairs = violations = 0
    for rho, a0, tau0 in settings:
        known = {
            rows_: distance(rows_, rho, a0, tau0) for rows_ in itertools.combinations_with_replacement(patterns, n)
        }
        # All datasets that share n - 1 rows are neighbors: only the range over the last row matters.
        for rest in itertools.combinations_with_replacement(patterns, n - 1):
            values_ = [known[tuple(sorted((*rest, p)))] for p in patterns]
            pairs += len(patterns) * (len(patterns) - 1) // 2
            violations += max(values_) - min(values_) > 1
    return pairs, violations


SETTINGS = [(1, 0, -3), (1, 1, 0), (2, 1, 1), (2, 3, -8), (3, 2, 5)]


@pytest.mark.parametrize(
    ("n", "d", "values"), [(4, 2, (-1, 1)), (6, 2, (-1, 1)), (4, 3, (-1, 1)), (4, 1, (-2, -1, 0, 1, 2))]
)
def test_one_lipschitz_exhaustively(n, d, values):
    pairs, violations = exhaustive_violations(
        lambda r, rho, a0, tau0: plain_distance_of_sums(plain_sums(r, rho), 2 * rho, a0, tau0), n, d, values, SETTINGS
    )
    assert pairs > 500
    assert violations == 0


def plain_sums(r, rho):
    n = len(r)
    return [
        sum(max(-rho, min(rho, sum(a * b for a, b in zip(r[i], r[j], strict=True)))) for j in range(n) if j != i)
        for i in range(n)
    ]


# --- attacks on the constant ---
#
# The proof uses of G only symmetry, the zero diagonal and its window, so the attacks work on such matrices.
# With entries +-rho each of them is the Gram matrix of integer rows (`incidence_rows`), so what they find
# are violations by datasets.


def incidence_rows(G):
    """Integer rows whose inner products are G (entries -1, 0, 1, zero diagonal): one column for every pair."""
    n = len(G)
    pairs = list(itertools.combinations(range(n), 2))
    X = np.zeros((n, len(pairs)), dtype=int)
    for column, (i, j) in enumerate(pairs):
        # The larger index carries the 1: replacing row 0 leaves all others alone.
        X[j, column], X[i, column] = 1, G[i, j]
    return X


def random_gram(rng, n, low=-1, high=1):
    G = np.triu(np.where(rng.random((n, n)) < rng.random(), high, low), 1)
    return G + G.T


def random_row(rng, n, low=-1, high=1):
    return np.where(rng.random(n - 1) < rng.random(), high, low)


def with_row(G, row):
    H = G.copy()
    H[0, 1:] = H[1:, 0] = row
    return H


def curve(r, a0, increment, width=2):
    """g_k = f_k - threshold_k at tau0 = 0, for k = 0..n."""
    k = np.arange(len(r) + 1)
    top = np.concatenate([[0], np.cumsum(np.sort(np.maximum(r, 0))[::-1])])
    f = r.sum() - 2 * top + 2 * np.maximum(-(a0 + width * k)[:, None] - r, 0).sum(axis=1)
    return f - 2 * a0 * k - increment / 4 * width * k * (k - 1)


def jump(r, s, a0, increment, width=2):
    """The largest, over k, of min_{j <= k+1} g_j(X') - g_k(X), and the tau0 at which it shows.

    With tau0 = g_k(X), D(X) <= k; and D(X') >= k + 2 exactly where this is positive (and k + 1 < n).
    """
    best = (-np.inf, 0.0)
    for first, second in ((r, s), (s, r)):
        g = curve(first, a0, increment, width)
        gaps = np.minimum.accumulate(curve(second, a0, increment, width))[1:-1] - g[:-2]
        best = max(best, (gaps.max(), g[:-2][gaps.argmax()]))
    return best


def climb(increment, seed, steps=400, low=-1, high=1, width=2):
    """Hill climbing on the jump: flip entries of G and of the new row, move a0. Returns the best instance."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(8, 15))
    G, row, a0 = random_gram(rng, n, low, high), random_row(rng, n, low, high), int(rng.integers(0, 4))
    best = jump(G.sum(axis=1), with_row(G, row).sum(axis=1), a0, increment, width)
    for _ in range(steps):
        G2, row2, a2 = G.copy(), row.copy(), a0
        for _ in range(int(rng.integers(1, 4))):
            move = rng.integers(3)
            if move == 0:
                i, j = rng.choice(n, 2, replace=False)
                G2[i, j] = G2[j, i] = low + high - G2[i, j]
            elif move == 1:
                place = rng.integers(n - 1)
                row2[place] = low + high - row2[place]
            else:
                a2 = max(0, a0 + int(rng.integers(-1, 2)))
        found = jump(G2.sum(axis=1), with_row(G2, row2).sum(axis=1), a2, increment, width)
        if found[0] >= best[0]:
            G, row, a0, best = G2, row2, a2, found
    return best, G, with_row(G, row), a0


@pytest.mark.parametrize("seed", range(6))
def test_climbing_finds_nothing_against_the_proved_increment(seed):
    (gap, tau0), G, H, a0 = climb(8, seed)
    # Zero: the bound is attained, so the climb gets as far as anything can.
    assert gap == 0
    D = [row_distance(incidence_rows(M), 1, a0, tau0) for M in (G, H)]
    assert abs(D[0] - D[1]) == 1


@pytest.mark.parametrize(("low", "high"), [(-1, 2), (-2, 3), (-3, 1)])
def test_climbing_in_other_windows(low, high):
    """Nothing against the stated width; a width that is stated one too small breaks, by two neighboring datasets."""
    (gap, tau0), G, H, a0 = climb(8, 1, low=low, high=high, width=high - low)
    assert gap == 0
    zeros = np.zeros(len(G), dtype=np.int64)
    rho = max(-low, high)
    D = [row_distance(incidence_rows(M), rho, a0, tau0, centering=Centering(zeros, 0, low, high)) for M in (G, H)]
    assert abs(D[0] - D[1]) == 1
    (gap, tau0), G, H, a0 = climb(8, 1, low=low, high=high, width=high - low - 1)
    D = [plain_distance_of_sums(M.sum(axis=1).tolist(), high - low - 1, a0, tau0) for M in (G, H)]
    assert gap > 0 and abs(D[0] - D[1]) >= 2


@pytest.mark.parametrize("increment", [7.75, 7.5, 7, 6, 4])
def test_climbing_breaks_every_smaller_increment(increment):
    """The planted bug: the same search must break it, by two neighboring integer datasets."""
    (gap, tau0), G, H, a0 = climb(increment, seed=0)
    assert gap > 0
    X, Y = incidence_rows(G), incidence_rows(H)
    assert np.array_equal(X[1:], Y[1:])
    D = [plain_distance(Z, 1, a0, tau0, Fraction(increment)) for Z in (X, Y)]
    assert abs(D[0] - D[1]) >= 2
    # The statistic itself survives the same pair.
    assert abs(row_distance(X, 1, a0, tau0) - row_distance(Y, 1, a0, tau0)) <= 1


def float_distance(X, rho, a0, tau0):
    """The same algorithm in the dtype of X: what must not be done."""
    G = np.clip(X @ X.T, -rho, rho)
    np.fill_diagonal(G, 0)
    r = G @ np.ones(len(G), G.dtype)
    for k in range(len(r) + 1):
        top = np.sort(np.maximum(r, 0))[::-1][:k].sum()
        f = r.sum() - 2 * top + 2 * np.maximum(-(a0 + 2 * rho * k) - r, 0).sum()
        if f <= tau0 + 2 * a0 * k + 4 * rho * k * (k - 1):
            return k
    return len(r)


def test_floating_point_breaks_ties():
    """Equality cases of the proof, in units of 0.1: float32 distances of neighbors differ by two."""
    caught = exact = 0
    for seed in range(12):
        (_, tau0), G, H, a0 = climb(8, seed, steps=150)
        unit = np.float32(0.1)
        rho = unit * unit
        pair = [incidence_rows(M).astype(np.float32) for M in (G, H)]
        floats = [float_distance(Z * unit, rho, np.float32(a0) * rho, np.float32(tau0) * rho) for Z in pair]
        caught += abs(floats[0] - floats[1]) > 1
        integers = [row_distance(Z, 1, a0, tau0) for Z in pair]
        exact += abs(integers[0] - integers[1]) > 1
    assert exact == 0
    assert caught > 0
