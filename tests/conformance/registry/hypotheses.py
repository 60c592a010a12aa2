"""Small databases, nets, the iterative construction and multiplicative weights online; and how each of them breaks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from dpstats.data.opening import read_counts
from dpstats.privacy import Plan
from dpstats.queries.linear import ROW
from dpstats.release.noise import SimulatedNoise
from dpstats.release.session import Session
from dpstats.release.streams import Stream
from dpstats.textbook import IterativeConstruction, NetMechanism, OnlineMultiplicativeWeights, SmallDB
from dpstats.textbook.iterative_construction import Search, its_answer, worst_query
from dpstats.textbook.net_mechanism import DATABASE, worst_errors
from dpstats.textbook.online_multiplicative_weights import Conversation
from registry.entry import Dataset, Draw, Entry, PlantedBug, Traits, having
from registry.sparse_vector import InBlocks, KeepsThreshold

# A dataset is a histogram. That a row moves answers by at most one row is brute-forced in tests/queries/.

SUBSETS = (np.arange(1, 15)[:, None] >> np.arange(4)) & 1


def counts(*numbers: int) -> Dataset:
    return np.array(numbers, dtype=np.int64)


@cache
def planned(made: Any, n: int, size: int) -> Any:
    """Return a plan, which is public, once: calibrated by the exact total it takes a moment."""
    return made.plan(n, size)


# A choice among databases: audited by the log-ratio of the two laws, which is the best that an attacker can look at.


def _chosen(made: Any, pair: tuple[Dataset, Dataset], shrink: float = 1.0) -> Draw:
    first, second = (np.log(made.probabilities(data)) for data in pair)

    def draw(data: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        plan = made.plan(int(data.sum()))
        errors = worst_errors(made._read(read_counts(data), plan)[DATABASE], plan)
        stage = replace(plan.selection, scale_steps=plan.selection.scale_steps * shrink)
        with Session.simulated(replace(plan, stages=(stage,)), rng, size) as session:
            return (first - second)[session.select(DATABASE, -errors)[:, 0]]

    return draw


def _choice(name: str, made: Any, pair: tuple[Dataset, Dataset], power: float) -> Entry:
    n = int(pair[0].sum())

    def public(data: Dataset, budget: Any) -> tuple[Plan, np.ndarray]:
        fitted = type(made)(**{**made.get_params(), "budget": budget}).fit(data)
        return fitted.plan_, np.array([fitted.chosen_])

    return Entry(
        name=name,
        covers=type(made),
        proof="small-databases.md",
        plan=made.plan(n),
        integers=lambda data: [],
        pairs=lambda: iter(()),
        draw=_chosen(made, pair),
        dataset=pair[0],
        neighbor=pair[1],
        power=power,
        public=public,
        bugs=(
            PlantedBug("half the noise", _chosen(made, pair, 0.5), *pair, made.epsilon, 0.0),
            # The scores are in rows, the sensitivity is that of shares: n times too little noise.
            PlantedBug("sensitivity of a share for counts", _chosen(made, pair, 1 / n), *pair, made.epsilon, 0.0),
        ),
        estimator=made,
    )


# The iterative construction: rounds one after another.


class ExactSelection(IterativeConstruction):
    """Planted bug: the worst query is the worst, without noise; its check alone is charged."""

    def _release(self, private: Any, plan: Any, session: Session) -> None:
        search = Search(plan)
        for t in range(1, plan.rounds + 1):
            session.skip(worst_query(t), "the bug needs no noise")
            answers = plan.rule.answers(plan.queries, search.hypothesis)
            worst = int(np.argmax(np.abs(private - plan.n_samples * ROW * answers)))
            # What is selected is released all the same.
            session._released[worst_query(t)] = np.array([worst])
            (answer,) = session.add(its_answer(t), private[[worst]])
            search.step(worst, float(answer))


class FreeAnswers(IterativeConstruction):
    """Planted bug: the hypothesis learns from the data's own answer, and the noisy one alone is charged."""

    def _release(self, private: Any, plan: Any, session: Session) -> None:
        super()._release(private, plan, session)
        # What a hypothesis that has learnt so shows.
        session._released[its_answer(1)] = private[session._released[worst_query(1)]] / (ROW * plan.n_samples)


class FreeRounds(IterativeConstruction):
    """Planted bug: noise for one round, in all of them."""

    def plan(self, n_samples: int, n_features: int | None = None) -> Any:
        plan = super().plan(n_samples, n_features)
        one = IterativeConstruction(**{**self.get_params(), "max_updates": 0}).plan(n_samples)
        loud = {type(stage): stage.scale_steps for stage in one.stages}
        return replace(plan, stages=tuple(replace(s, scale_steps=loud[type(s)]) for s in plan.stages))


class ChoicesForgotten(IterativeConstruction):
    """Planted bug: the selections have a hundredth of their noise, and only the answers are state_charges for."""

    def plan(self, n_samples: int, n_features: int | None = None) -> Any:
        plan = super().plan(n_samples, n_features)
        quiet = [replace(s, scale_steps=s.scale_steps / 100) if s.name.startswith("worst") else s for s in plan.stages]
        return replace(plan, stages=tuple(quiet))


class QueriesChosenBefore(IterativeConstruction):
    """Planted bug: the queries are those of other runs on the same data, which were charged as one."""

    def _release(self, private: Any, plan: Any, session: Session) -> None:
        super()._release(private, plan, session)
        answers = plan.rule.answers(plan.queries, plan.rule.start())
        scores = np.abs(private - np.rint(plan.n_samples * ROW * answers).astype(np.int64))
        scale = plan.stage(worst_query(1)).scale_steps
        again = session._noise.top("gumbel", scores, scale, 1, 60)[:, 0]
        session._released[its_answer(1)] = np.array([np.mean(again == 0)])
        session._released[worst_query(1)] = np.array([0])


def _rounds(made: IterativeConstruction) -> Draw:
    """Return the core of a fit, one at a time: in every round which query, and its answer beside it."""

    def draw(data: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        plan = replace(
            planned(made, int(data.sum()), data.size), stop=-1.0
        )  # nothing is near enough: all rounds are drawn
        private, noise = made._read(read_counts(data), plan), SimulatedNoise(rng)
        found = np.zeros((size, 3 * plan.rounds))
        for row in found:
            session = Session(plan, noise).open()
            made._release(private, plan, session)
            for t in range(plan.rounds):
                worst = int(session.released[worst_query(t + 1)][0])
                row[3 * t] = worst
                row[3 * t + 1 + worst] = session.released[its_answer(t + 1)][0]
        return found

    return draw


def _construction(
    name: str, options: dict[str, Any], bugs: dict[str, tuple[type[IterativeConstruction], int, float]]
) -> Entry:
    given = {"queries": [[1, 0, 0], [0, 1, 0]], "max_updates": 1, **options}
    made = IterativeConstruction(**given)
    # Uniform is a third: one of the two queries is two rows off and the other one, and the other way round.
    pair = counts(5, 4, 0), counts(4, 5, 0)

    def public(data: Dataset, budget: Any) -> tuple[Plan, np.ndarray]:
        fitted = type(made)(**{**made.get_params(), "budget": budget}).fit(data)
        # A search that has ended leaves the rest out, and says so.
        left = fitted.plan_.rounds - fitted.n_rounds_
        return fitted.plan_, np.append(fitted.predict(), [np.inf] * left)

    return Entry(
        name=name,
        covers=IterativeConstruction,
        proof="iterative-construction.md",
        plan=planned(made, 9, 3),
        integers=lambda data: [],
        pairs=lambda: iter(()),
        draw=_rounds(made),
        dataset=pair[0],
        neighbor=pair[1],
        power=0.05,
        public=public,
        bugs=tuple(
            PlantedBug(
                bug,
                _rounds(kind(**{**given, "max_updates": more, "epsilon": epsilon})),
                *pair,
                epsilon,
                made.delta,
                2500,
            )
            for bug, (kind, more, epsilon) in bugs.items()
        ),
        estimator=made,
        most_trials=1500,
    )


# A stream of queries: which are answered from the data, and the answers.


class SkipsSome(Stream):
    """Planted bug: the counter skips all answers above but every hundredth."""

    _seen = 0

    def ask(self, steps: int, answer: int | None = None) -> Any:
        left = self._state[0]
        found = super().ask(steps, answer)
        if found is not None:
            self._seen += 1
            if self._seen % 100:
                self._state = left, self._state[1]
        return found


class NoEnd(KeepsThreshold):
    """Planted bug: more updates than were charged, since the stream has no end."""

    endless = True


# The hypothesis, uniform, has three rows in each point: the first query is right and the second three rows off; or
# one off and two. The threshold, which is public, is put in between.
APART = counts(3, 6, 0), counts(4, 5, 0)
FIRST, SECOND = np.eye(3)[:2]
BETWEEN, HIGHER = round(1.5 * ROW), round(2.5 * ROW)


def _pattern(
    made: OnlineMultiplicativeWeights, threshold: int = BETWEEN, answered: bool = False, **scales: float
) -> Draw:
    """Return the core of a stream: whether the fourth question alone is above; or what the first is answered.

    ``scales`` multiply those of the stage.
    """

    def draw(data: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        plan = planned(made, int(data.sum()), data.size)
        stage = plan.comparisons
        stage = replace(stage, threshold_steps=threshold)
        stage = replace(stage, **{name: factor * getattr(stage, name) for name, factor in scales.items()})
        noise, found = InBlocks(rng), np.zeros(size)
        for trial in range(size):
            asking = Conversation(data, plan, Stream(stage, noise))
            if answered:
                found[trial] = asking.ask(FIRST)
                continue
            for t, f in enumerate((FIRST, FIRST, FIRST, SECOND)):
                asking.ask(f)
                if asking.left < plan.max_updates:
                    found[trial] = t == 3
                    break
        return found

    return draw


def _many(made: OnlineMultiplicativeWeights, kind: type[Stream]) -> Draw:
    """Return a stream that goes on: how many of the second questions are above, less how many of the first."""

    def draw(data: Dataset, rng: np.random.Generator, size: int) -> np.ndarray:
        stage = replace(planned(made, int(data.sum()), data.size).comparisons, threshold_steps=BETWEEN)
        noise, found = InBlocks(rng), np.zeros(size)
        errors = [abs(int(k) - 3) * ROW for k in data[:2]]
        for trial in range(size):
            stream = kind(stage, noise)
            for j in (0, 1) * 30:
                if stream.left == 0:
                    break
                found[trial] += (2 * j - 1) * (stream.ask(errors[j], 0) is not None)
        return found

    return draw


def _online(
    name: str, options: dict[str, Any], bugs: Callable[[OnlineMultiplicativeWeights], dict[str, Draw]], power: float
) -> Entry:
    made = OnlineMultiplicativeWeights(n_queries=1000, **options)
    claim = made.epsilon, made.delta

    def public(data: Dataset, budget: Any) -> tuple[Plan, np.ndarray]:
        fitted = type(made)(**{**made.get_params(), "budget": budget}).fit(data)
        answers = []
        for query in (FIRST, SECOND) * 3:
            before = fitted.updates_left_
            if before == 0:
                break
            answer = fitted.answer(query)
            answers.append(answer if fitted.updates_left_ < before else -1e9)
        return fitted.plan_, np.array(answers)

    return Entry(
        name=name,
        covers=OnlineMultiplicativeWeights,
        proof="online-multiplicative-weights.md",
        plan=planned(made, 9, 3),
        integers=lambda data: [],
        pairs=lambda: iter(()),
        draw=_pattern(made),
        dataset=APART[0],
        neighbor=APART[1],
        power=power,
        public=public,
        bugs=tuple(PlantedBug(bug, draw, *APART, *claim, 3000) for bug, draw in bugs(made).items()),
        estimator=made,
        most_trials=3000,
    )


OF_COUNTS = {"rows": "it is fitted to counts of rows: tests/queries has nets of its own"}
AS_OTHERS = {"exact audit": "its choices draw as an exponential mechanism, and its queries as SparseVector"}
IN_ROUNDS = {"independent draws": "later rounds are about earlier answers: their choices go together by their nature"}
ASKED_LATER = "a fit asks nothing"


@having(
    {
        SmallDB: Traits(excused=OF_COUNTS),
        NetMechanism: Traits(excused=OF_COUNTS | AS_OTHERS),
        IterativeConstruction: Traits(excused=OF_COUNTS | AS_OTHERS | IN_ROUNDS),
        OnlineMultiplicativeWeights: Traits(excused=OF_COUNTS | AS_OTHERS | IN_ROUNDS),
    },
    {
        "online multiplicative weights, pure": {"not_replayed": ASKED_LATER},
        "online multiplicative weights, concentrated": {"not_replayed": ASKED_LATER},
    },
)
def entries() -> Iterator[Entry]:
    near = counts(3, 0, 0, 0), counts(2, 1, 0, 0)
    yield _choice("small databases", SmallDB(queries=SUBSETS, n_rows=3, epsilon=2.0), near, 0.3)
    yield _choice("net", NetMechanism(queries=SUBSETS, net=np.eye(4), accuracy=0.9, epsilon=2.0), near, 0.3)
    yield _construction(
        "iterative construction, Laplace",
        {"epsilon": 3.0},
        {
            "selection on exact errors": (ExactSelection, 1, 1.0),
            "learns from answers that are not charged": (FreeAnswers, 1, 1.0),
            "more rounds than charged": (FreeRounds, 7, 3.0),
            "the choices' budget forgotten": (ChoicesForgotten, 1, 1.0),
            "queries chosen before": (QueriesChosenBefore, 1, 3.0),
        },
    )
    yield _construction(
        "iterative construction, Gaussian",
        {"epsilon": 3.0, "delta": 1e-2},
        {"selection on exact errors": (ExactSelection, 1, 1.0)},
    )
    yield _online(
        "online multiplicative weights, pure",
        {"epsilon": 3.0, "max_updates": 1},
        lambda made: {
            "answers for free": _pattern(made, -1000 * ROW, True, answer_scale_steps=0.001),
            "more updates than charged": _many(made, NoEnd),
            "a counter that skips some": _many(made, SkipsSome),
            "question noise without c, threshold kept": _pattern(
                made, HIGHER, threshold_scale_steps=0.1, question_scale_steps=0.1
            ),
        },
        0.1,
    )
    yield _online(
        "online multiplicative weights, concentrated",
        {"epsilon": 1.0, "delta": 1e-2, "max_updates": 20},
        lambda made: {
            "charged an eighth and less": _pattern(made, HIGHER, threshold_scale_steps=0.01, question_scale_steps=0.01)
        },
        0.0,  # of twenty thresholds one shows next to nothing; the bug, in the same place, all
    )
