"""What follows a release follows from what it released, bit for bit: nothing else of the data is behind it.

Two nets, which know of no particular fault. A release that is run on other rows, of the same public shape, and is given
again what its first run released, must return and keep what the first run did. And a release whose rows are exchanged
between two of its stages must ask the next stage what it asks of the other rows from the start: from stage to stage
it carries what was released alone. All of it is exact: no test here can raise a false alarm.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import MappingProxyType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from registry import ENTRIES, Entry
from registry.calls import CALLS
from registry.entry import traits_of
from registry.reading import fit_data, settings, table_of, width
from sklearn.base import clone

from dpstats.auditing.movement import FOLLOWS
from dpstats.auditing.sensitivity import Replay, compare_outputs, fit, list_visible
from dpstats.data.opening import read_counts
from dpstats.errors import Exhausted
from dpstats.identity.base import PrivateTest
from dpstats.inference import reports as report
from dpstats.means import AdaptiveMean, ClippedMean
from dpstats.means.adaptive_estimate import Trail
from dpstats.mechanisms import RandomizedResponse
from dpstats.privacy import Plan
from dpstats.privacy.stages import KINDS, Comparisons
from dpstats.queries import Domain, MarginalMWEM
from dpstats.queries.linear import ROW
from dpstats.queries.mwem import Rounds, its_counts, worst_table
from dpstats.regression import PrivateLinearRegression
from dpstats.regression.engine import first_path
from dpstats.release import witness as recorder
from dpstats.release.mechanism import session_of
from dpstats.release.witness import Diverged, Seen, Witness
from dpstats.sql import PrivateSQL
from dpstats.statistic import PrivateStatistic
from dpstats.textbook import IterativeConstruction, NetMechanism, OnlineMultiplicativeWeights
from dpstats.textbook import online_multiplicative_weights as online
from dpstats.textbook.iterative_construction import Search
from tests.sql.databases import known_engine, shared

SETTINGS = settings(ENTRIES)
fits = pytest.mark.parametrize("entry", SETTINGS, ids=lambda entry: entry.name)

N = 40
"""Rows of a dataset."""


def rows_of(estimator: Any, d: int, seed: int, n: int = N) -> np.ndarray:
    """Return rows that have nothing to do with those of another seed; signs, where a test is about these."""
    rng = np.random.default_rng(seed)
    if getattr(estimator, "null", "") == "product":
        return rng.choice([-1.0, 1.0], size=(n, d), p=[0.5 - 0.3 * seed, 0.5 + 0.3 * seed])
    return rng.normal(0.4 * seed, 1 + seed, size=(n, d))


def mean_of(block: Any) -> float:
    """Return the mean of a block."""
    return float(block.mean())


# What can be asked after a release.

NOT_ASKED = {
    "fit",
    "fit_predict",
    "close",
    "plot",
    "heat_map",
    "scree_plot",
    "biplot",
    "get_params",
    "get_metadata_routing",
}


# Of simulations that a method makes of what was released.
FEWEST = {"n_simulations": 19, "n_points": 1}


def page(made: Any) -> str:
    """Return the page of a release, less the time at which it is written, and the picture."""
    return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "", report.page_of(made).as_html())


def answers(made: Any) -> dict[str, Any]:
    """Return what all methods return that need nothing given."""
    found = {}
    for name, method in inspect.getmembers(made, inspect.ismethod):
        parameters = inspect.signature(method).parameters.values()
        needed = any(item.default is item.empty and item.kind < item.VAR_POSITIONAL for item in parameters)
        if name.startswith(("_", "set_")) or name in NOT_ASKED or needed:
            continue
        few = {key: least for key, least in FEWEST.items() if key in inspect.signature(method).parameters}
        try:
            found[name] = method(**few)
        except Exception as error:  # some are there for some parameters
            found[name] = type(error).__name__
    if hasattr(found.get("receipt"), "content"):
        # Less the second at which it is written, and the digest, which has it too.
        found["receipt"] = {key: item for key, item in found["receipt"].content.items() if key != "made"}
    return found


def check_follows(run: Callable[[Any, Witness], Any], first: Any, other: Any) -> None:
    """Fail unless a run on other data that releases the same returns the same, by the same course."""
    # In mappings, as what differs in all rows is no neighbor.
    replay = Replay(None, lambda _, data, witness: run(data["data"], witness), {"data": first}, 0)
    check = replay.compare_neighbor({"data": other}, "")
    assert not check.course, check.course
    assert check.output == FOLLOWS


@pytest.fixture(autouse=True)
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave pictures out, which take long: they are drawn from what is compared."""
    monkeypatch.setattr(report, "picture_of", lambda thing: None)


def fitted(estimator: Any, X: Any, witness: Witness) -> Any:
    """Return a copy of an estimator, fitted to rows before a witness."""
    data = fit_data(estimator, X)
    return fit(estimator, data if len(data) == 2 else data[0], witness)


def all_of(made: Any) -> Any:
    """Return all that can be seen of a release; fail if something that comes of simulated noise does not say so."""
    found = answers(made)
    for name, marked in marks(found, ""):
        assert marked, f"{name} does not say that its noise is simulated"
    return found, page(made), list_visible(made)


def marks(found: Any, name: str) -> Iterator[tuple[str, bool]]:
    """Yield whether results say that they are of simulated noise; a plan is of none."""
    if isinstance(found, Plan):
        return
    if isinstance(found, Mapping):
        for key, item in found.items():
            yield from marks(item, f"{name} {key}")
    elif isinstance(found, list | tuple) and not hasattr(found, "_fields"):
        for item in found:
            yield from marks(item, name)
    elif type(found).__module__.startswith("dpstats."):
        if isinstance(getattr(found, "simulated", None), bool):
            yield name, found.simulated
        yield from marks(getattr(found, "__dict__", {}), name)
        slots = (slot for kind in type(found).__mro__ for slot in getattr(kind, "__slots__", ()))
        yield from marks({slot: getattr(found, slot, None) for slot in slots}, name)


@pytest.mark.kinds
@fits
def test_a_fit_follows_from_what_it_released(entry: Entry) -> None:
    made, d = entry.estimator, width(entry)
    check_follows(lambda X, witness: all_of(fitted(made, X, witness)), *(rows_of(made, d, seed) for seed in (0, 1)))


# A statistic needs more blocks than the others have rows.
BLOCKS = 60
STATISTIC = PrivateStatistic(mean_of, blocks=BLOCKS, bias=None, bounds=(-4, 4), epsilon=1.0)


def test_a_statistic_follows_from_what_it_released() -> None:
    check_follows(
        lambda X, witness: all_of(fitted(STATISTIC, X, witness)),
        *(rows_of(STATISTIC, 1, seed, BLOCKS) for seed in (0, 1)),
    )


# Estimators whose methods release again, of other rows than the fit: each class once.
AGAIN = {
    type(entry.estimator): entry
    for entry in SETTINGS
    if hasattr(entry.estimator, "score") or isinstance(entry.estimator, PrivateTest)
}


@pytest.mark.parametrize("entry", AGAIN.values(), ids=lambda entry: entry.name)
def test_a_second_release_follows_from_what_it_released(entry: Entry) -> None:
    made, d = entry.estimator, width(entry)
    public = rows_of(made, d, 0)

    def run(X: Any, witness: Witness) -> Any:
        found = fitted(made, public, witness)
        again = found.predict if isinstance(found, PrivateTest) else found.score
        return again(*fit_data(made, X)), list_visible(found)

    # Rows that are all alike, too: some statistics of these are no numbers.
    for other in (rows_of(made, d, 1), np.ones((N, d))):
        check_follows(run, public, other)


def values(kind: type, seed: int) -> Any:
    """Return what a mechanism is given: of a stream, questions on both sides of the threshold."""
    rng = np.random.default_rng(seed)
    call = CALLS[kind]
    return rng.normal(1e9, 30, size=N) if call.method == "stream" else call.data(N, rng)


@pytest.mark.parametrize("kind", CALLS, ids=lambda kind: kind.__name__)
def test_a_mechanism_follows_from_what_it_released(kind: type) -> None:
    call = CALLS[kind]

    def run(data: Any, witness: Witness) -> Any:
        made = call.build(random_state=witness)
        # The second release of a stream is its next answers.
        found = [_until_exhausted(call, made, data) for _ in range(2)]
        kept = vars(made).keys() - {"_source", "_stream", "_lock"}  # which cannot be copied
        if call.keeps:
            kept -= {"_state", "_numbers", "_given", "_rows"}
        return found, {name: vars(made)[name] for name in sorted(kept)}, made.guarantee

    check_follows(run, values(kind, 0), values(kind, 1))


def _until_exhausted(call: Any, made: Any, data: Any) -> Any:
    try:
        return call(made, data)
    except Exhausted as error:
        return str(error)


# Releases from a histogram.

HISTOGRAMS = [entry for entry in ENTRIES if entry.estimator is not None and "rows" in traits_of(entry).excused]
QUERIES = np.random.default_rng(2).integers(0, 2, size=(12, 4))
COUNTS = np.array([[600, 250, 100, 50], [20, 80, 300, 600]])
TINY = np.array([[12, 5, 2, 1], [0, 2, 6, 12]])


def of_histogram(entry: Entry) -> Any:
    """Return an estimator of an entry with queries of a small universe, and rounds to learn in."""
    more = {"queries": QUERIES}
    if hasattr(entry.estimator, "max_updates"):
        more["max_updates"] = 4
    return clone(entry.estimator).set_params(**more)


def histogram(made: Any, seed: int) -> Any:
    """Return a histogram: of few rows, where all small databases are looked through."""
    return (TINY if isinstance(made, NetMechanism) else COUNTS)[seed]


@pytest.mark.parametrize("entry", HISTOGRAMS, ids=lambda entry: entry.name)
def test_answers_follow_from_what_was_released(entry: Entry) -> None:
    made = of_histogram(entry)

    def run(counts: Any, witness: Witness) -> Any:
        found = clone(made).set_params(random_state=witness).fit(counts)
        told = []
        if isinstance(found, OnlineMultiplicativeWeights):
            with contextlib.suppress(Exhausted):
                for query in QUERIES:
                    told.append(found.answer(query))
            assert found.updates_left_ < made.max_updates  # some were answered from the data
            found.close()
            told.append(found._conversation.hypothesis)
            del found._conversation  # it refuses to be copied
            return told, found.error_bound_, found.plan_
        return all_of(found)

    check_follows(run, histogram(made, 0), histogram(made, 1))


# Queries of SQL.

SQL = [entry for entry in ENTRIES if entry.covers is PrivateSQL]


def asked(entry: Entry) -> tuple[str, dict[str, Any]]:
    """Return the query of an entry, and its options."""
    made = entry.public.__self__  # type: ignore[union-attr]
    return made.text, made.options


def databases(entry: Entry) -> tuple[Any, Any]:
    """Return the database of an entry, and one of as many rows in which everything private is another."""
    options = asked(entry)[1]
    public, keys = options.get("public_tables", ()), {*options.get("keys", {}).items()}
    units = options.get("unit", {})
    found = units.values() if isinstance(units, dict) else [units]
    paths = [unit.partition("->")[2].strip() for unit in found if "->" in unit]
    keys |= {tuple(path.split(".")) for path in paths}

    def change(table: Any) -> Any:
        # A key stays one: its values are the same.
        kept = [(table[0], words.split()[0]) in keys for words in table[1].split(", ")]
        rows = [tuple(x if keep else _other(x) for x, keep in zip(row, kept, strict=True)) for row in table[2]]
        return (*table[:2], tuple(rows))

    return entry.dataset, tuple(table if table[0] in public else change(table) for table in entry.dataset)


def _other(value: Any) -> Any:
    return 0 if value is None else None if value == 0 else (value + 1) % 3


@pytest.mark.kinds
@pytest.mark.parametrize("entry", SQL, ids=lambda entry: entry.name)
def test_a_query_follows_from_what_it_released(entry: Entry) -> None:
    text, options = asked(entry)

    def run(data: Any, witness: Witness) -> Any:
        with known_engine():
            answer = PrivateSQL(shared(data), **options, random_state=witness).query(text)
        return answers(answer), page(answer), answer

    check_follows(run, *databases(entry))


# From stage to stage.


@dataclass(frozen=True)
class Release:
    """What a release does with its private data: ``read(seed)`` returns those of one dataset or the other."""

    name: str
    plan: Any
    read: Callable[[int], Any]
    go: Callable[[Any, Any, Any], None]
    kind: type = object

    def held(self, seed: int) -> Any:
        """Return private data that can be exchanged: not in a tuple with names, but in what has these names."""
        private = self.read(seed)
        return SimpleNamespace(**private._asdict()) if hasattr(private, "_asdict") else private

    def run(self, private: Any, witness: Witness) -> Sequence[Seen]:
        """Return what every stage was given, of a run that takes the course of the first."""
        try:
            with session_of(self.plan, witness.noise) as session:
                self.go(private, self.plan, session)
        except Diverged as error:
            raise AssertionError(f"a stage knows of rows what was not released: {error}") from None
        assert not witness.finish()
        return witness.seen


def of_estimator(made: Any, d: int, name: str = "", n: int = N) -> Release:
    """Return the release of an estimator of rows."""
    plan = made._prepare(made.plan(n, d))
    return Release(
        name, plan, lambda seed: made._read(table_of(made, rows_of(made, d, seed, n)), plan), made._release, type(made)
    )


def of_counts(made: Any, name: str = "") -> Release:
    """Return the release of an estimator of histograms; of a conversation, with the questions that it is asked."""
    plan = made.plan(int(histogram(made, 0).sum()))
    if isinstance(made, OnlineMultiplicativeWeights):
        return Release(name, plan, lambda seed: histogram(made, seed).astype(np.float64), _converse)
    return Release(name, plan, lambda seed: made._read(read_counts(histogram(made, seed)), plan), made._release)


def _converse(private: Any, plan: Any, session: Any) -> None:
    conversation = online.Conversation(private, plan, session.stream(online.ERRORS))
    conversation._counts = private  # the same array, which is exchanged
    with contextlib.suppress(Exhausted):
        for query in QUERIES:
            conversation.ask(query)


def of_query(entry: Entry) -> Release:
    """Return the release of a query."""
    text, options = asked(entry)
    with known_engine():
        made = [PrivateSQL(shared(data), **options) for data in databases(entry)]
    plan = made[0].plan_for(text)

    def read(seed: int) -> Any:
        with known_engine():
            return made[seed]._kind(made[seed]._parsed(text)).read(plan)

    return Release(entry.name, plan, read, made[0]._kind(plan.query).release)


def of_answers() -> Release:
    """Return randomized responses."""
    plan = CALLS[RandomizedResponse].build().plan
    return Release(
        "randomized response",
        plan,
        lambda seed: values(RandomizedResponse, seed),
        lambda private, plan, session: session.respond(plan.stages[0].name, private),
    )


@cache
def releases() -> dict[str, Release]:
    """Return all releases that have a core: made once, when they are asked for."""
    found = [of_estimator(entry.estimator, width(entry), entry.name) for entry in SETTINGS]
    found += [of_counts(of_histogram(entry), entry.name) for entry in HISTOGRAMS]
    found += [of_query(entry) for entry in SQL]
    return {release.name: release for release in found}


def overwrite(held: Any, other: Any) -> bool:
    """Put other private data in the place of some, in the same objects; return whether this is done."""
    if isinstance(held, np.ndarray):
        if held.shape != other.shape or held.dtype != other.dtype:
            return False
        held.setflags(write=True)
        np.copyto(held, other)
        return True
    if isinstance(held, MappingProxyType | tuple):
        places = held.keys() if isinstance(held, Mapping) else range(len(held))
        return len(held) == len(other) and all(overwrite(held[place], other[place]) for place in places)
    if isinstance(held, dict) and not other:
        held.clear()  # remembered when it was asked for
        return True
    if isinstance(held, dict | list):
        places = held.keys() if isinstance(held, dict) else range(len(held))
        for place in places:
            if not overwrite(held[place], other[place]):
                held[place] = other[place]
        return True
    if hasattr(held, "__dict__") and not callable(held):
        for name in {*vars(held)} - {*vars(other)}:
            del held.__dict__[name]  # computed when it was asked for
        for name, value in vars(other).items():
            if name not in vars(held) or not overwrite(vars(held)[name], value):
                held.__dict__[name] = value
        return True
    return bool(held is other or (type(held) is type(other) and held == other))


@contextlib.contextmanager
def computed_again(kind: type) -> Iterator[Callable[[], None]]:
    """Yield what brings up to date, in place, what an estimator computes once of rows that are exchanged."""
    once = traits_of(kind).computed_once
    if once is None:
        yield lambda: None
        return
    module, name = once
    compute, known = getattr(module, name), []

    def kept(*args: Any) -> Any:
        known.append((args, compute(*args)))
        return known[-1][1]

    with patch.object(module, name, kept):
        yield lambda: [np.copyto(found, compute(*args)) for args, found in known] and None


class Exchanged(Witness):
    """A witness of a second run that exchanges its data after every stage."""

    def __init__(self, first: Sequence[Seen], exchange: Callable[[int], None]) -> None:
        super().__init__(0, first)
        self._exchange = exchange

    def witness(self, stage: Any, given: Any, draw: Any) -> Any:
        outcome = super().witness(stage, given, draw)
        self._exchange(len(self.seen))
        return outcome


def check_carries_what_was_released(release: Release) -> None:
    """Fail if what a stage is given depends on what other rows gave to the stages before."""
    first = Witness()
    release.run(release.held(0), first)
    whole = [release.run(release.held(seed), first.again()) for seed in (0, 1)]
    assert any(compare_outputs(a.given, b.given)[0] for a, b in zip(*whole, strict=True))
    stages = range(len(first.seen) + 1)
    # By turns, from either; and two by two, as what looks for something and measures it goes together.
    for places in ([k % 2 for k in stages], [(k + 1) % 2 for k in stages], [k // 2 % 2 for k in stages]):
        private = release.held(places[0])
        with computed_again(release.kind) as update:

            def exchange(k: int, private: Any = private, places: Any = places, update: Any = update) -> None:
                assert overwrite(private, release.held(places[k]))
                update()

            seen = release.run(private, Exchanged(first.seen, exchange))
        for k, (stage, given, _) in enumerate(seen):
            differ, unknown = compare_outputs(given, whole[places[k]][k].given)
            assert not differ and not unknown, f"stage {stage.name!r} knows of rows what was not released"


def is_stream(entry: Entry) -> bool:
    """Return whether one stage is asked again and again."""
    return any(isinstance(stage, Comparisons) for stage in entry.plan.stages)


# A release of one stage has nothing to carry. Filtering decides in one stage which rows it replaces in another, in
# private: of these rows it replaces none.
STAGED = [
    *(entry.name for entry in SETTINGS if len(entry.plan.stages) > 1),
    *(entry.name for entry in HISTOGRAMS if len(entry.plan.stages) > 1 or is_stream(entry)),
    *(entry.name for entry in SQL if len(entry.plan.stages) > 1),
]


@pytest.mark.parametrize("name", STAGED)
def test_stages_carry_what_was_released_alone(name: str) -> None:
    check_carries_what_was_released(releases()[name])


# The record.


def scribble(given: Any, by: int) -> None:
    """Change every array in what a stage is given or releases."""
    if isinstance(given, np.ndarray):
        given.setflags(write=True)
        given += np.array(by).astype(given.dtype)
    elif isinstance(given, Mapping):
        for item in given.values():
            scribble(item, by)
    elif isinstance(given, tuple | list):
        for item in given:
            scribble(item, by)
    elif dataclasses.is_dataclass(given) and not isinstance(given, type):
        scribble([getattr(given, field.name) for field in dataclasses.fields(given)], by)


def plain(given: Any) -> Any:
    """Return a copy in which all mappings are dictionaries."""
    if isinstance(given, Mapping):
        return {key: plain(item) for key, item in given.items()}
    return tuple(map(plain, given)) if type(given) is tuple else copy.deepcopy(given)


class Scribbled(Witness):
    """A witness whose caller changes everything it gave, and got, as soon as it is recorded."""

    def witness(self, stage: Any, given: Any, draw: Any) -> Any:
        before = plain(given)
        outcome = super().witness(stage, given, draw)
        after = plain(outcome)
        for changed in (given, outcome):
            scribble(changed, 1)
        kept, place = self.seen[-1], len(self.seen) - 1
        again = kept if self._first is None else self._first[place]
        differ, unknown = compare_outputs(
            (before, after, after), (plain(kept.given), plain(kept.outcome), plain(again.outcome))
        )
        for changed in (outcome, given):
            scribble(changed, -1)
        # The copy of a view is none.
        differ = {path for path in differ if "'base'" not in path}
        assert not differ and not unknown, f"the record of stage {stage.name!r} is the caller's"
        return outcome


def by_kind() -> dict[str, Release]:
    """Return releases that have every kind of stage together."""
    found = {}
    for release in (*releases().values(), of_answers(), of_estimator(STATISTIC, 1, n=BLOCKS)):
        for stage in release.plan.stages:
            found.setdefault(type(stage).__name__, release)
    return found


def test_a_record_is_a_copy() -> None:
    found = by_kind()
    assert found.keys() == {kind.__name__ for kind in KINDS}
    for release in found.values():
        witness = Scribbled()
        release.run(release.read(0), witness)
        assert witness.seen
        # A second run, too, is given copies.
        release.run(release.read(0), Scribbled(0, witness.seen))


# Faults, planted: each must fail its net.


class LearnsFromCounts(MarginalMWEM):
    """Planted bug: the distribution learns from the exact counts, and the noisy ones are shown."""

    def _release(self, private: Any, plan: Any, session: Any) -> None:
        rounds = Rounds(plan)
        for t in range(1, plan.rounds + 1):
            chosen = np.reshape(session.select(worst_table(t), rounds.scores(private)[0]), -1)
            steps = rounds.padded(private, chosen)
            session.add(its_counts(t), steps[0])
            rounds.learn(chosen, steps / ROW)


class LearnsFromAnswers(IterativeConstruction):
    """Planted bug: the search goes on with the exact answer."""

    def _release(self, private: Any, plan: Any, session: Any) -> None:
        step = Search.step

        def stepped(search: Search, worst: int, answer: float) -> None:
            step(search, worst, float(private[worst]) / ROW / plan.n_samples)

        with patch.object(Search, "step", stepped):
            super()._release(private, plan, session)


class CentersOnRows(AdaptiveMean):
    """Planted bug: a stage is about the middle of the rows, which was never released."""

    def _release(self, private: Any, plan: Any, session: Any) -> None:
        trail = Trail(plan)
        for t, stage in enumerate(plan.stages):
            steps = self._steps(private.rows, plan, t, trail.ahead()[0])
            released = session.add(stage.name, steps)
            if isinstance(steps, np.ndarray):
                released = steps * stage.spacing
            trail.add(released)


class TakesAnswers(PrivateLinearRegression):
    """Planted bug: the path takes what the rows answered."""

    def _release(self, private: Any, plan: Any, session: Any) -> None:
        path = first_path(plan)
        for stage in plan.stages:
            found = private.answer(path.question(stage.name))
            joint = hasattr(stage, "blocks")
            session.add(stage.name, found if joint else found[stage.name])
            exact = {b.name: found[b.name] * np.asarray(b.spacing) for b in stage.blocks} if joint else None
            path.take(stage.name, exact if joint else found[stage.name] * np.asarray(stage.spacing))


def carrying() -> dict[str, Release]:
    """Return releases that carry more than they released."""
    domain = Domain({"a": 2, "b": 2})
    mwem = LearnsFromCounts(domain=domain, workload=1, rounds=4, epsilon=200.0)
    construction = LearnsFromAnswers(queries=QUERIES, max_updates=4, epsilon=1.0)
    mean = CentersOnRows(bound=9.0, std=1.0, epsilon=5.0, delta=1e-6)
    regression = TakesAnswers(x_bounds=(-4, 4), y_bounds=(-8, 8), epsilon=200.0)
    return {
        "tables by MWEM": of_estimator(mwem, 2),
        "a search": of_counts(construction),
        "an adaptive mean": of_estimator(mean, 2),
        "a regression": of_estimator(regression, 2),
    }


@pytest.mark.parametrize("name", ["tables by MWEM", "a search", "an adaptive mean", "a regression"])
def test_stages_that_carry_more_would_be_noticed(name: str) -> None:
    with pytest.raises(AssertionError, match="knows of rows what was not released"):
        check_carries_what_was_released(carrying()[name])


def test_an_answer_without_noise_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = online.Conversation.ask

    def frank(self: online.Conversation, f: Any) -> float:
        left = self.left
        answer = ask(self, f)
        return answer if self.left == left else float(f @ self._counts / self._plan.n_samples)

    monkeypatch.setattr(online.Conversation, "ask", frank)
    for entry in HISTOGRAMS:
        if isinstance(entry.estimator, OnlineMultiplicativeWeights):
            with pytest.raises(AssertionError):
                test_answers_follow_from_what_was_released(entry)


def shows(where: str) -> type[ClippedMean]:
    """Planted bug: an exact sum is in what can be seen of a fit."""

    class Shows(ClippedMean):
        def _read(self, table: Any, plan: Any) -> Any:
            self.__dict__["_exact"] = float(np.mean(np.clip(table.X, -1, 1)))
            return super()._read(table, plan)

        def _report(self, released: Any, plan: Any) -> None:
            super()._report(released, plan)
            exact = self.__dict__.pop("_exact")
            if where == "an attribute":
                self.mean_ = np.full_like(self.mean_, exact)
            elif where == "what a pickle keeps":
                self._kept = [{"mean": exact}]
            elif where == "a closure":
                self._later = lambda: exact
            elif where == "the plan":
                plan.__dict__["about"] = exact
            else:
                self._sign = exact > 0

        def summary(self, *given: Any) -> Any:
            made = super().summary(*given)
            return made if "_sign" not in vars(self) or self._sign else replace(made, title="Of few rows")

    return Shows


@pytest.mark.parametrize(
    "where", ["an attribute", "what a pickle keeps", "a closure", "the plan", "words of a summary"]
)
def test_an_exact_number_that_can_be_seen_would_be_noticed(where: str) -> None:
    made = shows(where)(clip=1.0)
    with pytest.raises(AssertionError):
        check_follows(
            lambda X, witness: all_of(fitted(made, X, witness)), *(rows_of(made, 2, seed) - 0.16 for seed in (0, 1))
        )


def test_a_record_that_is_the_callers_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "_kept", lambda given, memo=None: given)
    for release in by_kind().values():
        if not any(isinstance(stage, Comparisons) for stage in release.plan.stages):
            with pytest.raises(AssertionError, match="is the caller's"):
                release.run(release.read(0), Scribbled())
