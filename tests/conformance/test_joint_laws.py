"""The numbers of a release go together as independent ones do: of a stage, of stages, of rows, of releases.

A law of every number that is right on its own says nothing of one coin for two rows, or of one draw for two stages.
What was drawn is recorded where a session hands it out, for every entry of the registry, with exact noise as a user
draws it and in the simulated batch that is audited.

False alarms: every p-value is compared with 1e-8, of which there are fewer than 10,000 with exact noise: 1e-4 a run.
Simulated noise has fixed seeds.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from registry import ENTRIES, Entry
from registry.calls import CALLS
from registry.entry import traits_of
from scipy.special import chdtrc

from dpstats.auditing import audit
from dpstats.mechanisms import RandomizedResponse
from dpstats.release.noise import ExactNoise, SimulatedNoise
from dpstats.release.session import Session
from dpstats.release.streams import NumberStream

SMALLEST = 1e-8
MOST_COLUMNS = 12
BATCH, CALLED = 1000, 100
SOURCES = {"exact": ExactNoise, "simulated": SimulatedNoise}
sources = pytest.mark.parametrize("source", SOURCES)


def parts_of(values: np.ndarray, count: int) -> tuple[np.ndarray, int]:
    """Return values as the numbers of at most so many parts of about equal size, and how many there are."""
    few = np.unique(values)
    if few.size <= count:
        # Of responses, say, of which the quartiles may all be one.
        return np.searchsorted(few, values), few.size
    edges = np.unique(np.quantile(values, np.arange(1, count) / count))
    codes = np.unique(np.searchsorted(edges, values), return_inverse=True)[1]
    return codes, int(codes.max()) + 1


def pair_pvalue(first: np.ndarray, second: np.ndarray) -> float:
    """Return a p-value that pairs are independent: chi-square of their quarters, or of their halves."""
    for count in (4, 2):
        (a, k), (b, m) = parts_of(first, count), parts_of(second, count)
        counts = np.bincount(a * m + b, minlength=k * m).reshape(k, m)
        expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / a.size
        # Fewer than five expected make the law of chi-square wrong far out.
        if expected.min() >= 5 and k > 1 and m > 1:
            statistic = float(((counts - expected) ** 2 / expected).sum())
            return float(chdtrc((k - 1) * (m - 1), statistic))
    return 1.0


def check_independent(draws: np.ndarray) -> None:
    """Fail unless the numbers of a draw, one row each, and of one draw and the next, look independent."""
    draws = draws[:, :MOST_COLUMNS]
    half = len(draws) // 2 * 2
    before, after = draws[0:half:2], draws[1:half:2]
    columns = range(draws.shape[1])
    for j, k in itertools.combinations(columns, 2):
        assert pair_pvalue(draws[:, j], draws[:, k]) > SMALLEST, f"numbers {j} and {k} go together"
    for j, k in itertools.product(columns, columns[:4]):
        assert pair_pvalue(before[:, j], after[:, k]) > SMALLEST, "one release goes with the next"


class Drawn:
    """What sessions handed out, less what they were given: for every stage, one array a session."""

    def __init__(self) -> None:
        self.found: dict[int, list[np.ndarray]] = {}
        self._last: Any = None
        self._count = 0

    def keep(self, session: Any, values: np.ndarray) -> None:
        if session.size and not getattr(self._last, "size", None):
            self.found.clear()  # single draws before these only found which stages to ask
        self._count = self._count + 1 if session is self._last else 0
        self._last = session
        self.found.setdefault(self._count, []).append(values if session.size else np.atleast_2d(values))

    def draws(self) -> np.ndarray:
        """Return all that was drawn of stages that every session released, one row a draw."""
        stacked = [np.vstack(values) for values in self.found.values()]
        rows = np.hstack([values for values in stacked if len(values) == len(stacked[0])])
        # One response for each row of data, all in one call.
        return rows.T if len(rows) == 1 else rows


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Drawn:
    found = Drawn()
    noisy, respond, coins, select = Session._noisy, Session.respond, Session.coins, Session.select

    def watched_noise(self: Session, noise: str, scale: float, steps: Any, *rest: Any) -> Any:
        result = noisy(self, noise, scale, steps, *rest)
        if np.all(rest[-1]):
            # Of joint noise one number: the others go with it by their nature.
            some = slice(0, 1) if noise == "joint" else slice(None)
            found.keep(self, (result[0] - steps)[..., some].astype(float))
        return result

    def watched(method: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(self: Session, *args: Any) -> Any:
            result = method(self, *args)
            flat = result.reshape(self.size, -1) if self.size else result.ravel()
            found.keep(self, flat.astype(float))
            return result

        return wrapped

    noisy_keys = Session._noisy_keys

    def watched_keys(self: Session, stage: Any, block: Any, steps: Any) -> Any:
        result = noisy_keys(self, stage, block, steps)
        noise = (result - steps).astype(float)
        found.keep(self, noise.reshape(self.size, -1) if self.size else noise.ravel())
        return result

    numbers = NumberStream.add

    def watched_numbers(self: NumberStream, steps: Any) -> Any:
        result = numbers(self, steps)
        found.keep(SimpleNamespace(size=None), (result - steps).astype(float))
        return result

    monkeypatch.setattr(NumberStream, "add", watched_numbers)
    monkeypatch.setattr(Session, "_noisy", watched_noise)
    monkeypatch.setattr(Session, "_noisy_keys", watched_keys)
    monkeypatch.setattr(Session, "respond", watched(respond))
    monkeypatch.setattr(Session, "coins", watched(coins))

    def watched_choice(self: Session, *args: Any) -> Any:
        chosen = select(self, *args)
        # The best alone: the second best is another one by its nature.
        found.keep(self, np.atleast_1d(chosen[..., 0])[:, None].astype(float))
        return chosen

    monkeypatch.setattr(Session, "select", watched_choice)
    choose = Session.choose

    def watched_points(self: Session, name: str, *args: Any) -> Any:
        # One of them: points that are chosen together go together, and those of later levels with the first.
        chosen = choose(self, name, *args)
        if name in {stage.name for stage in self.plan.stages[:1]}:
            found.keep(self, np.atleast_1d(chosen[..., 0])[:, None].astype(float))
        return chosen

    monkeypatch.setattr(Session, "choose", watched_points)
    return found


# One entry for each class and way to draw; streams have a net of their own below. Rounds of a construction draw as
# these do.
PLAIN = [
    entry
    for entry in ENTRIES
    if "independent draws" not in traits_of(entry).excused
    and (CALLS.get(entry.covers) is None or CALLS[entry.covers].method != "stream")
]


def vectors_of(entry: Entry) -> int:
    """Return how many vectors a release draws: of a stage one, of a joint stage one for each block."""
    return sum(len(getattr(stage, "blocks", [stage])) for stage in entry.plan.stages)


PUBLIC = list(
    {(entry.covers, entry.method, min(vectors_of(entry), 2)): entry for entry in PLAIN if entry.public}.values()
)


def releases(entry: Entry, drawn: Drawn, times: int) -> np.ndarray:
    """Return what a user's calls drew, one row a call."""
    assert entry.public is not None
    for _ in range(times):
        entry.public(entry.dataset, None)
    return drawn.draws()


@pytest.mark.kinds
@pytest.mark.parametrize("entry", PLAIN, ids=lambda entry: entry.name)
def test_the_audited_batch_is_of_independent_numbers(entry: Entry, drawn: Drawn) -> None:
    entry.draw(entry.dataset, np.random.default_rng(23), BATCH)
    if drawn.found:
        check_independent(drawn.draws())


@pytest.mark.parametrize("entry", PUBLIC, ids=lambda entry: entry.name)
def test_exact_releases_are_of_independent_numbers(entry: Entry, drawn: Drawn) -> None:
    check_independent(releases(entry, drawn, CALLED))


# Responses: one for each row, of which a user may have many.


def check_responses(source: str, categories: int) -> None:
    """Fail unless responses of rows near each other, and of two calls, look independent."""
    survey = RandomizedResponse(1.0, categories, random_state=None if source == "exact" else 29)
    calls = np.array([survey.randomize(np.zeros(6000, dtype=int)) for _ in range(2)])
    for shift in (0, 1):
        # Rows of one call against those of the next.
        assert pair_pvalue(calls[0, shift:], calls[1, : 6000 - shift]) > SMALLEST
    for row, lag in itertools.product(calls, range(1, 9)):
        # Pairs that share no row.
        first = np.flatnonzero(np.arange(6000 - lag) // lag % 2 == 0)
        assert pair_pvalue(row[first], row[first + lag]) > SMALLEST, f"rows {lag} apart go together"
        halves = row[:3000], row[3000:]
        assert pair_pvalue(*halves) > SMALLEST


@sources
@pytest.mark.parametrize("categories", [2, 3, 5, 300])
def test_responses_of_rows_and_calls_are_independent(source: str, categories: int) -> None:
    check_responses(source, categories)


def words(source: str, categories: int) -> Any:
    """Return the draw of an audit: all that the rows respond together, as one word."""

    def draw(answers: Any, rng: np.random.Generator, size: int) -> np.ndarray:
        given = np.array(answers)
        mechanism = RandomizedResponse(1.0, categories, random_state=None if source == "exact" else rng)
        with mechanism._session(size=size) as session:
            return session.respond("responses", given) @ (categories ** np.arange(given.size)).astype(float)

    return draw


def audited(source: str, categories: int) -> Any:
    return audit(
        words(source, categories),
        (0, 0, 1),
        (1, 0, 1),
        epsilon=1.0,
        n_trials=20_000,
        confidence=1 - 1e-6,  # of four audits: the rate of false alarms
        batched=True,
        random_state=7,
    )


@sources
@pytest.mark.parametrize("categories", [2, 5])
def test_all_responses_together_are_as_private_as_one(source: str, categories: int) -> None:
    result = audited(source, categories)
    assert not result.violated
    assert result.epsilon_lower > 0.6


# Streams: thresholds and questions anew.


def questions(source: str, times: int) -> np.ndarray:
    """Return what a source of noise gave to streams of eight questions, all below: a threshold and eight draws."""
    from dpstats.mechanisms import SparseVector

    found: list[int] = []
    kind = SOURCES[source]
    laplace = kind.laplace

    def watched(self: Any, scale: float, size: Any) -> Any:
        result = laplace(self, scale, size)
        found.extend(int(k) for k in result)
        return result

    generator = np.random.default_rng(31)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, "laplace", watched)
        rows = []
        for _ in range(times):
            made = SparseVector(1e9, 1.0, max_above=1, random_state=None if source == "exact" else generator)
            found.clear()
            list(made.stream([0.0] * 8))
            rows.append(found[:9])
    return np.array(rows, dtype=float)


@sources
def test_the_noise_of_a_stream_is_of_independent_numbers(source: str) -> None:
    check_independent(questions(source, 200))


# Bugs, planted: each must fail its net.


def patched(monkeypatch: pytest.MonkeyPatch, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    for kind, name in itertools.product(SOURCES.values(), ("laplace", "gaussian", "integers")):
        monkeypatch.setattr(kind, name, wrap(getattr(kind, name)))


def one_draw_for_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: every second number is that before it."""

    def wrap(draw: Callable[..., Any]) -> Callable[..., Any]:
        def wrong(self: Any, parameter: Any, size: Any) -> Any:
            flat = draw(self, parameter, size).ravel()
            flat[1::2] = flat[0 : len(flat) - 1 : 2][: len(flat[1::2])]
            return flat.reshape(size)

        return wrong

    patched(monkeypatch, wrap)


def draws_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted bug: what was drawn once of a law, scale and size is drawn again."""
    kept: dict[Any, Any] = {}

    def wrap(draw: Callable[..., Any]) -> Callable[..., Any]:
        def wrong(self: Any, parameter: Any, size: Any) -> Any:
            key = (draw, str(size))
            # Every second time, in units of the scale: a law that is right on its own.
            if key in kept:
                first, scale = kept.pop(key)
                return np.rint(first * (parameter / scale)).astype(np.int64)
            result = draw(self, parameter, size)
            kept[key] = (result, parameter)
            return result

        return wrong

    patched(monkeypatch, wrap)


def entry_of(name: str) -> Entry:
    (entry,) = [entry for entry in ENTRIES if entry.name == name]
    return entry


@pytest.mark.parametrize("batch", [True, False])
@pytest.mark.parametrize(
    ("name", "bug"),
    [
        # Numbers of a stage, stages of a plan, and two releases.
        ("clipped mean, linf, Gaussian", one_draw_for_two),
        ("Laplace mechanism, 3 number(s)", one_draw_for_two),
        ("histogram, Laplace, REPLACE_ONE", one_draw_for_two),
        ("randomized response, 2 categories", one_draw_for_two),
        ("clipped mean and its spread, linf, Laplace", draws_again),
        ("adaptive mean, Gaussian", draws_again),
        ("variance, Gaussian", draws_again),
    ],
)
def test_numbers_that_go_together_would_be_noticed(
    name: str, bug: Callable[[pytest.MonkeyPatch], None], batch: bool, drawn: Drawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    bug(monkeypatch)
    entry = entry_of(name)
    if batch:
        entry.draw(entry.dataset, np.random.default_rng(23), BATCH)
        draws = drawn.draws()
    else:
        draws = releases(entry, drawn, 4 * CALLED)
    with pytest.raises(AssertionError, match=r"go together|goes with"):
        check_independent(draws)


@pytest.mark.parametrize("name", ["Laplace mechanism, 1 number(s)", "Gaussian mechanism, 1 number(s)", "count"])
def test_a_release_that_is_given_twice_would_be_noticed(
    name: str, drawn: Drawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws_again(monkeypatch)
    with pytest.raises(AssertionError, match=r"go together|goes with"):
        check_independent(releases(entry_of(name), drawn, 8 * CALLED))


@sources
@pytest.mark.parametrize("categories", [2, 5])
def test_one_coin_for_two_rows_would_be_noticed(source: str, categories: int, monkeypatch: pytest.MonkeyPatch) -> None:
    one_draw_for_two(monkeypatch)
    with pytest.raises(AssertionError):
        check_responses(source, categories)
    # Rows 0 and 1 respond alike but for their answers, which differ in one of the neighbors.
    assert audited(source, categories).violated


@sources
def test_a_stream_that_draws_again_would_be_noticed(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    draws_again(monkeypatch)
    with pytest.raises(AssertionError, match=r"go together|goes with"):
        check_independent(questions(source, 200))


def independent_numbers() -> Iterator[np.ndarray]:
    rng = np.random.default_rng(37)
    yield rng.normal(size=(2000, 6))
    yield rng.integers(2, size=(2000, 6)).astype(float)
    yield np.floor(rng.exponential(size=(2000, 6)))


def test_independent_numbers_pass() -> None:
    for draws in independent_numbers():
        check_independent(draws)
