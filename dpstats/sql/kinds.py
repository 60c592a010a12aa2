"""Kinds of queries. One object for each kind knows how it is planned, read, released, answered and explained.

Proofs: docs/proofs/elastic-sensitivity.md, docs/proofs/truncated-sums.md, docs/proofs/several-aggregates.md,
docs/proofs/discovery.md.
"""

from __future__ import annotations

import contextlib
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpstats.errors import ScaleOutOfRange, refuse
from dpstats.groups.group_points import GroupQuantilesPlan, choose_group_points, release_group_points
from dpstats.privacy.guarantee import PrivacyGuarantee
from dpstats.privacy.stages import Smooth as SmoothStage
from dpstats.privacy.stages import Stage
from dpstats.quantiles.quantile import release_points
from dpstats.release.additive import Integers, additive_stages, count_discovery, smaller_noise
from dpstats.release.session import Session
from dpstats.sensitivity.elastic import Column, Count, ElasticSensitivity, Join, Relation, tables
from dpstats.sensitivity.smooth import LEVEL, LEVEL_SHARE, level_stage, smooth_level, smooth_stage
from dpstats.sql.answers import (
    ANSWER,
    DISCOVERY_BITS,
    ROWS,
    SHARES,
    PrivateTable,
    SQLPlan,
    Truncation,
    answered,
    plan_shares,
)
from dpstats.sql.catalogue import BaseTable
from dpstats.sql.compile import Compiled, Source, read_cells
from dpstats.sql.quantiles import (
    MOST_ROWS,
    QuantileAnswers,
    SQLQuantilesPlan,
    choose_unit_points,
    found_plan,
    quantiles_answered,
    quantiles_plan,
    repeat_places,
    sort_places,
    unit_quantiles_plan,
)
from dpstats.sql.query import FINEST, Measure, Query, Several
from dpstats.sql.scope import refuse_clause
from dpstats.sql.several import PrivateAnswers, all_answered

# Plans of answers of numbers, which follow from public facts


def exact_plan(query: Query, guarantee: PrivacyGuarantee) -> SQLPlan:
    """Return the plan of an answer from public tables only: it has no noise, and costs nothing."""
    return SQLPlan((), replace(guarantee, epsilon=0.0, delta=0.0), query)


def public_plan(query: Query, moved: int, guarantee: PrivacyGuarantee, budget: Any = None) -> SQLPlan:
    """Return the plan of an answer with a sensitivity of at most ``moved`` steps, for any private tables."""
    size = query.cells * query.measure.parts
    most = far = max(moved, 1)
    if isinstance(query.measure, Several):
        # In l2 columns move less than they add up to: many of them have less Gaussian noise.
        times = max(moved // query.moved, 1)
        far = math.isqrt(times**2 * query.measure.moved_squared(query.added) - 1) + 1

    def make_plan(delta: float) -> SQLPlan:
        integers = Integers(ANSWER, size, 1.0, most, far)
        stages = additive_stages([integers], guarantee.epsilon, delta, neighbors=guarantee.neighbors)
        return SQLPlan(stages, replace(guarantee, delta=delta), query)

    if not isinstance(query.measure, Several):
        return make_plan(0.0)
    return smaller_noise(make_plan, guarantee.delta, lambda plan: plan.noise(ANSWER).std, budget)


def discovery_plan(query: Query, guarantee: PrivacyGuarantee) -> SQLPlan:
    """Return the plan of numbers of keys that are not declared, where a row of the data is one row of the result."""
    several = query.measure
    assert isinstance(several, Several)
    if several.parts:
        return SQLPlan((plan_shares(several, guarantee),), guarantee, query)
    return SQLPlan((count_discovery(ANSWER, ROWS, guarantee, several.bits),), guarantee, query)


_PARTS_OF_A_STEP = 1 << 10
"""Parts of an integer in which noise with heavy tails is drawn. Its smallest scale is a few parts."""
_LARGEST_SCALE = 2.0**52


def smooth_plan(query: Query, guarantee: PrivacyGuarantee, interval: bool) -> SQLPlan:
    """Return the plan of an answer whose noise depends on frequencies in private tables."""
    size = query.cells * query.measure.parts
    law = "laplace" if guarantee.delta else "student"
    finer = 1 if law == "laplace" or query.moved >= _PARTS_OF_A_STEP else _PARTS_OF_A_STEP
    level = LEVEL_SHARE[law] * guarantee.epsilon if interval else 0.0
    epsilon = (guarantee.epsilon - level) * (1 - 2.0**-50) if interval else guarantee.epsilon

    def of(furthest: float) -> SmoothStage:
        return smooth_stage(
            ANSWER,
            epsilon,
            guarantee.delta,
            spacing=1 / finer,
            least=0.5 if law == "laplace" else 8.0,
            furthest=furthest,
            size=size,
            noise=law,
            steady=interval,
            neighbors=guarantee.neighbors,
        )

    # The largest sensitivity whose noise can still be drawn; with it the largest answer.
    small = of(1024.0)
    furthest = float(int(_LARGEST_SCALE * small.sensitivity_share / float(small.ratio)))
    largest = int(furthest) // (2 * finer * size)
    stage = of(furthest)
    stages: tuple[Stage | SmoothStage, ...] = (level_stage(level, guarantee.neighbors), stage) if interval else (stage,)
    total = guarantee if law == "laplace" else replace(guarantee, delta=0.0)
    return SQLPlan(stages, total, query, finer, largest)


def unit_plan(query: Query, guarantee: PrivacyGuarantee, method: str, rows: int) -> SQLPlan:
    """Return the plan of sums over units, cut at a threshold of up to 2^rows rows of the largest value."""
    measure, grouped = query.measure, bool(query.groups)
    # Start at a sixteenth of the largest value. Smaller thresholds would remove almost everything.
    bits, parts, moved = 0, ["all"], 2 if grouped and not query.added else 1
    if isinstance(measure, Several):
        moved = query.moved
    elif measure.kind == "sum":
        bits = max(measure.high, -measure.low, 1).bit_length()
        ends = (("positive", measure.high), ("negative", -measure.low))
        parts = [word for word, end in ends if end > 0] or parts
    epsilon = guarantee.epsilon if len(parts) == 1 else guarantee.epsilon / 2 * (1 - 2.0**-50)
    truncations = tuple(
        Truncation(
            part if len(parts) == 2 else ANSWER,
            method,
            epsilon,
            (max(bits - 4, 0), rows + bits),
            moved,
            query.cells * measure.parts,
            # The threshold is divided among the cells of a unit. With few rows, most of the result would be fractions.
            _PARTS_OF_A_STEP if grouped and measure.reach < _PARTS_OF_A_STEP else 1,
            guarantee.neighbors,
        )
        for part in parts
    )
    stages = tuple(stage for truncation in truncations for stage in truncation.stages())
    return SQLPlan(stages, replace(guarantee, delta=0.0), query, truncations=truncations)


# Queries and their kinds

_LARGEST_INTEGER = 2**62
_COARSEST = 17
"""Values have two to this power of steps, where noise of finer ones cannot be drawn."""
Answer = PrivateTable | PrivateAnswers | QuantileAnswers
Places = NDArray[np.int64]
Private = TypeVar("Private")


@dataclass(frozen=True)
class Setting:
    """Settings of all queries of a `PrivateSQL`, and its current tables.

    Attributes
    ----------
    promised : PrivacyGuarantee
    units : bool
        Whether units are protected.
    truncation : str
    powers : int
        No unit is expected to have more than two to this power of rows.
    interval : bool
    level : float or None
        Level of the intervals of quantiles.
    data : Source
    tables : mapping of str to BaseTable
        Tables by original name.
    budget : PrivacyBudget, optional
        Its method decides between two distributions of noise.
    """

    promised: PrivacyGuarantee
    units: bool
    truncation: str
    powers: int
    interval: bool
    level: float | None
    data: Source
    tables: Mapping[str, BaseTable]
    budget: Any = None

    @property
    def bare(self) -> PrivacyGuarantee:
        """The guarantee for a row, from which plans are made."""
        return replace(self.promised, simulated=False, unit="row")

    def elastic(self, query: Query, symbols: bool = False, public: bool = False) -> ElasticSensitivity:
        """Return the elastic sensitivity; for its symbols no frequency is read, where it is public no private one."""
        known = {}
        instances = {table.instance: table.name for table in tables(query.relation)}
        for column in _joined(query.relation):
            table = self.tables[instances[column.instance]]
            needless = symbols or (public and not table.public)
            known[table.name, column.name] = 1 if needless else self.data.frequency(table, column.name)
        kind = "histogram" if symbols and query.groups and not query.added else "count"
        return ElasticSensitivity(Count(query.relation, kind), known)

    def is_constant(self, query: Query) -> bool:
        """Return whether the sensitivity is the same for all private tables."""
        return self.elastic(query, symbols=True).constant

    def counts_once(self, query: Query) -> bool:
        """Return whether a row of the data is in at most one row of the result."""
        return self.is_constant(query) and self.elastic(query, public=True).at_distance(0) <= 1


def _joined(relation: Relation) -> set[Column]:
    """Return the columns that joins are on."""
    if isinstance(relation, Join):
        return _joined(relation.left) | _joined(relation.right) | {column for pair in relation.on for column in pair}
    return _joined(relation.of) if hasattr(relation, "of") else set()


def kind_of_query(query: Query, setting: Setting) -> Kind[Any]:
    """Return the kind of a query, or refuse one that no kind answers."""
    if all(table.public for table in tables(query.relation)):
        if isinstance(query.measure, Measure) and not query.quantiles and not query.discovers:
            return Exact(query, setting)
        if setting.units or query.quantiles:
            refuse_clause(
                "AVG, STDDEV, VARIANCE or a quantile of public tables only",
                "they need no privacy: ask the database. COUNT and SUM are exact",
            )
    measure = query.measure
    if isinstance(measure, Measure) and measure.kind == "distinct" and query.unit and measure.column not in query.unit:
        refuse_clause(
            f"COUNT(DISTINCT {measure.column and measure.column.name}) where units are protected",
            "only units can be counted so: another value may be of several",
        )
    if (
        setting.units
        and setting.truncation == "race"
        and (query.groups or query.quantiles or measure.kind == "several")
    ):
        raise refuse("truncation", got="'race'", allowed="'threshold' but for one count or sum")
    kind: type[Kind[Any]]
    if query.quantiles is not None:
        kind = FoundRanks if query.discovers else UnitRanks if setting.units else Ranks
    elif query.discovers:
        kind = Discovered
    elif setting.units:
        kind = CountedUnits if measure.kind == "distinct" and not query.groups else Units
    else:
        kind = Public if setting.is_constant(query) else Smooth
    return kind(query, setting)


class Kind(ABC, Generic[Private]):
    """A query, its plan, release and answer. ``Private`` is the type of the data read."""

    def __init__(self, query: Query, setting: Setting) -> None:
        self.query, self.setting = query, setting
        self.check()

    def check(self) -> None:
        """Refuse a query that this kind does not answer."""

    def plan(self) -> SQLPlan:
        """Return the plan, in the finest steps of values that its noise can be drawn in."""
        query = self.query
        for bits in (FINEST, 28, 24, 20):
            with contextlib.suppress(ScaleOutOfRange):
                return self._promise(self._plan(replace(query, measure=query.measure.of_bits(bits))))
        return self._promise(self._plan(replace(query, measure=query.measure.of_bits(_COARSEST))))

    @abstractmethod
    def _plan(self, query: Query) -> SQLPlan:
        """Return the plan in the steps of a query."""

    def _promise(self, plan: SQLPlan) -> SQLPlan:
        """Return a plan for the unit and the noise of the guarantee."""
        return plan.for_data(self.setting.promised.unit, self.setting.promised.simulated)

    def _compile(self, plan: SQLPlan) -> Compiled:
        return Compiled(plan.query, self.setting.tables, self.setting.data.dialect)

    @abstractmethod
    def read(self, plan: SQLPlan) -> Private:
        """Return the exact numbers of an answer, in steps of its noise: all private."""

    @abstractmethod
    def release(self, private: Private, plan: SQLPlan, session: Session) -> None:
        """Release the data."""

    def released(self, private: Private, plan: SQLPlan, session: Session) -> Any:
        """Release the data, and return the released values."""
        with session:
            self.release(private, plan, session)
        return session.released

    def answer(self, plan: SQLPlan, released: Any) -> Answer:
        """Return the answer from released values."""
        make = all_answered if isinstance(plan.query.measure, Several) else answered
        return make(plan.query, plan, released, plan.guarantee)

    def explain(self) -> str:
        """Return the number of rows of the result that a row of each table moves. A COUNT has this sensitivity."""
        text = self.setting.elastic(self.query, symbols=True).explain()
        if self.query.quantiles is None and self.query.measure.kind in ("count", "distinct"):
            return text
        _, colon, rest = text.partition(":")
        return f"rows of the result{colon}{rest}"

    def _explain_units(self, answer: str, what: str, powers: tuple[int, int]) -> str:
        unit = self.setting.promised.unit
        columns = " = ".join(map(str, self.query.unit))
        return (
            f"{answer}: 2^j, j chosen privately\n"
            f"  every row is of one {unit} ({columns}); rows without one do not count\n"
            f"  what a {unit} adds of {what} is cut at 2^j, j among {powers[0]}, ..., {powers[1]}"
        )


# Numbers of declared cells


class Cells(NamedTuple):
    """The numbers of all cells, and the level of noise by the smooth sensitivity."""

    numbers: NDArray[Any]
    level: int = 0


class Public(Kind[Cells]):
    """Numbers with a sensitivity that has a public bound."""

    def _plan(self, query: Query) -> SQLPlan:
        times = self.setting.elastic(query, public=True).at_distance(0)
        return public_plan(query, query.moved * times, self.setting.bare, self.setting.budget)

    def read(self, plan: SQLPlan) -> Cells:
        found = read_cells(self.setting.data.run(*self._compile(plan).cells()), plan.query, 1)[0]
        return Cells(np.clip(found, -plan.largest, plan.largest) * plan.finer)

    def release(self, private: Cells, plan: SQLPlan, session: Session) -> None:
        session.add(ANSWER, private.numbers)


class Exact(Public):
    """COUNT and SUM of public tables only: without noise, at no cost."""

    def plan(self) -> SQLPlan:
        return exact_plan(self.query, self.setting.promised)

    def released(self, private: Cells, plan: SQLPlan, session: Session) -> Any:
        return {ANSWER: private.numbers}


class CountedUnits(Public):
    """The number of units, each counted once."""

    def _plan(self, query: Query) -> SQLPlan:
        return public_plan(query, 1, self.setting.bare, self.setting.budget)

    def explain(self) -> str:
        return f"{self.query.measure.kind}: 1, as a {self.setting.promised.unit} is counted once"


class Smooth(Public):
    """Numbers with a private sensitivity, which depends on frequencies in private tables."""

    def _plan(self, query: Query) -> SQLPlan:
        # The longer the steps, the larger the answer may be.
        measure = query.measure
        kind = "whole" if isinstance(measure, Several) else measure.type and measure.type.kind
        query = replace(query, measure=measure.of_bits(20 if kind == "whole" else _COARSEST))
        return smooth_plan(query, self.setting.bare, self.setting.interval)

    def read(self, plan: SQLPlan) -> Cells:
        numbers = super().read(plan).numbers
        elastic, moved, stage = self.setting.elastic(plan.query), plan.finer * plan.query.moved, plan.smooth
        most = 2 * plan.largest * plan.finer * stage.size
        return Cells(numbers, smooth_level(lambda k: min(moved * elastic.at_distance(k), most), stage.limits))

    def release(self, private: Cells, plan: SQLPlan, session: Session) -> None:
        if len(plan.stages) == 2:
            session.add(LEVEL, np.array([private.level]))
        session.smooth(ANSWER, private.numbers, private.level)


class Cut(NamedTuple):
    """The numbers of units above each threshold, and the numbers after cutting at each threshold, by part."""

    above: dict[str, list[int]]
    cut: dict[str, NDArray[Any]]


class Units(Kind[Cut]):
    """Numbers where units are protected: what each of them adds is cut at a threshold."""

    def _plan(self, query: Query) -> SQLPlan:
        return unit_plan(query, self.setting.bare, self.setting.truncation, self.setting.powers)

    def read(self, plan: SQLPlan) -> Cut:
        query, compiled = plan.query, self._compile(plan)
        found = Cut({}, {})
        for truncation in plan.truncations:
            part = truncation.name
            if part == ANSWER:
                measure, part = query.measure, "all"
                if isinstance(measure, Measure) and measure.kind == "sum":
                    part = "positive" if measure.high > 0 else "negative"
            times = len(truncation.each)
            rows = self.setting.data.run(*compiled.units_cut(part, truncation.each, truncation.finer))
            found.above[truncation.name] = [sum(int(row[1 + i]) for row in rows) for i in range(times)]
            sums = [(row[0], *row[times + 1 :]) for row in rows]
            found.cut[truncation.name] = read_cells(sums, query, times)
        return found

    def release(self, private: Cut, plan: SQLPlan, session: Session) -> None:
        for truncation in plan.truncations:
            truncation.release(session, private.above[truncation.name], private.cut[truncation.name])

    def explain(self) -> str:
        planned = self.plan()
        measure, (first, last) = planned.query.measure, planned.truncations[0].powers
        if not isinstance(measure, Measure) or measure.kind != "sum":
            return self._explain_units(measure.kind, "rows", (first, last))
        # The length of a step is a power of two.
        power = math.frexp(measure.spacing)[1] - 1
        return self._explain_units(measure.kind, "values", (first + power, last + power))


# Values that are not declared


class Keys(NamedTuple):
    """The keys that have rows, and a row of numbers for each."""

    keys: tuple[Any, ...]
    numbers: NDArray[np.int64]


class _Discovery(Kind[Private]):
    """Base of the kinds that find values of GROUP BY. A row may be in each value once."""

    def check(self) -> None:
        names = ", ".join(group.name for group in self.query.groups if group.discovered)
        if self.setting.units:
            refuse_clause(
                f"GROUP BY undeclared values of {names} where units are protected",
                "a unit may have several of them: declare categories",
            )
        if not self.setting.promised.delta:
            raise refuse(
                "delta",
                got="0",
                allowed=f"positive to discover the values of {names}",
                remedy="Declare categories, or give delta=1e-6 for example.",
            )
        if not self.setting.counts_once(self.query):
            refuse_clause(
                f"GROUP BY undeclared values of {names} in this join",
                "a row may be in several rows of the result: join with public tables by their keys, or declare "
                "categories",
            )

    def explain(self) -> str:
        plan = self.plan()
        stage = plan.discovery
        half, most = map(stage.find_size, (0.5, 0.95))
        names = ", ".join(group.name for group in self.query.groups)
        return (
            f"{super().explain()}\n"
            f"values of {names} are shown if their noisy count reaches {stage.threshold:.1f} rows\n"
            f"  one of {half:.0f} rows is found with probability 0.50, one of {most:.0f} rows with 0.95"
            f"{_explain_ranks(plan)}"
        )


class Discovered(_Discovery[Keys]):
    """Aggregates of values whose noisy number of rows reaches a threshold."""

    def _plan(self, query: Query) -> SQLPlan:
        return discovery_plan(replace(query, measure=query.measure.of_bits(DISCOVERY_BITS)), self.setting.bare)

    def read(self, plan: SQLPlan) -> Keys:
        query, several = plan.query, plan.query.measure
        assert isinstance(several, Several)
        # A key has the values of all groups, as places among declared ones.
        count = sum(group.discovered for group in query.groups)
        rows = self.setting.data.run(*self._compile(plan).keys())
        found = sorted((query.key(row[:count], int(row[count])), row[count + 1 :]) for row in rows)
        numbers = np.zeros((len(found), 1 + several.parts), dtype=np.int64)
        for i, (_, (size, *shares)) in enumerate(found):
            # Cut as all that a 64-bit integer cannot hold: this moves nothing further.
            exact = [int(size) * several.row_steps, *(int(n or 0) for n in shares)]
            numbers[i] = [max(-_LARGEST_INTEGER, min(n, _LARGEST_INTEGER)) for n in exact]
        return Keys(tuple(key for key, _ in found), numbers)

    def release(self, private: Keys, plan: SQLPlan, session: Session) -> None:
        numbers = private.numbers
        shares = {SHARES: numbers[:, 1:]} if numbers.shape[1] > 1 else {}
        session.discover(ANSWER, private.keys, {ROWS: numbers[:, :1], **shares})


# Quantiles


class _Ranks(Kind[Private]):
    """Base of the kinds that choose points by their ranks."""

    def plan(self) -> SQLPlan:
        return self._promise(self._plan(self.query))

    def answer(self, plan: SQLPlan, released: Any) -> QuantileAnswers:
        assert isinstance(plan, SQLQuantilesPlan)
        return quantiles_answered(plan.query, plan, released, plan.guarantee)


class CellPlaces(NamedTuple):
    """The sorted places of the values of each cell, for each limit of a unit, and the units above each limit."""

    places: list[Sequence[Places]]
    above: list[int]


class Ranks(_Ranks[CellPlaces]):
    """Quantiles where a row of the data is in at most one row of the result."""

    def check(self) -> None:
        if not self.setting.counts_once(self.query):
            refuse_clause(
                "a quantile in this join",
                "a row may be in several rows of the result: join with public tables by their keys, or protect a unit",
            )

    def _plan(self, query: Query) -> SQLQuantilesPlan:
        setting = self.setting
        private = [setting.tables[table.name] for table in tables(query.relation) if not table.public]
        # Where the number of rows is private, a public limit takes its place.
        most = MOST_ROWS if query.added else max(map(setting.data.size, private))
        return quantiles_plan(query, setting.bare, most, setting.level)

    def read(self, plan: SQLPlan) -> CellPlaces:
        rows = self.setting.data.columns(*self._compile(plan).places())
        return CellPlaces([sort_places(rows, plan.query)], [])

    def release(self, private: CellPlaces, plan: SQLPlan, session: Session) -> None:
        assert isinstance(plan, SQLQuantilesPlan)
        if isinstance(plan.points, GroupQuantilesPlan):
            release_group_points(private.places[0], plan.points, session)
        else:
            release_points(private.places[0][0], plan.points, session)

    def explain(self) -> str:
        return super().explain() + _explain_ranks(self.plan())


class UnitRanks(_Ranks[CellPlaces]):
    """Quantiles where a unit is in any number of rows, and counts as a limited number of them."""

    def _plan(self, query: Query) -> SQLQuantilesPlan:
        return unit_quantiles_plan(query, self.setting.bare, self.setting.level, self.setting.powers)

    def read(self, plan: SQLPlan) -> CellPlaces:
        assert isinstance(plan, SQLQuantilesPlan) and plan.threshold is not None
        data, compiled = self.setting.data, self._compile(plan)
        (counts,) = data.run(*compiled.units_above("all", plan.threshold.each))
        rows = data.columns(*compiled.unit_places(plan.limits))
        places: list[Sequence[Places]] = [sort_places(rows, plan.query, i) for i in range(len(plan.limits))]
        return CellPlaces(places, [int(n) for n in counts])

    def release(self, private: CellPlaces, plan: SQLPlan, session: Session) -> None:
        assert isinstance(plan, SQLQuantilesPlan) and plan.threshold is not None
        limit = plan.threshold.choose(session, private.above)
        cells = private.places[limit]
        rows = session.add_one(plan.rows, np.array([cell.size for cell in cells]), limit)
        choose_unit_points(cells, rows, plan, limit, session)

    def explain(self) -> str:
        text = self._explain_units("quantiles", "rows", (0, self.setting.powers))
        return text + _explain_ranks(self.plan())


class KeyPlaces(NamedTuple):
    """One item: the keys that have rows, each with the sorted places of its values."""

    keyed: list[tuple[tuple[Any, Places], ...]]


class FoundRanks(_Discovery[KeyPlaces], _Ranks[KeyPlaces]):
    """A quantile of each value whose noisy number of rows reaches a threshold."""

    def _plan(self, query: Query) -> SQLQuantilesPlan:
        return found_plan(query, self.setting.bare, self.setting.level)

    def read(self, plan: SQLPlan) -> KeyPlaces:
        held: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
        for *found, cell, place, size in self.setting.data.run(*self._compile(plan).keys()):
            held.setdefault(plan.query.key(found, int(cell)), []).append((int(place), int(size)))
        return KeyPlaces([tuple((key, repeat_places(held[key])) for key in sorted(held))])

    def release(self, private: KeyPlaces, plan: SQLPlan, session: Session) -> None:
        assert isinstance(plan, SQLQuantilesPlan) and isinstance(plan.points, GroupQuantilesPlan)
        sizes = np.array([own.size * plan.discovery.row_steps for _, own in private.keyed[0]], dtype=np.int64)
        keys = tuple(key for key, _ in private.keyed[0])
        found = session.discover(plan.discovery.name, keys, {ROWS: sizes.reshape(-1, 1)})
        # A key that was found has rows, but a neighbor may have none of it.
        of, no_rows = dict(private.keyed[0]), np.empty(0, dtype=np.int64)
        cells = [of.get(key, no_rows) for key in found["labels"]]
        choose_group_points(cells, found[ROWS][:, 0], plan.points, session)


def _explain_ranks(plan: SQLPlan) -> str:
    """Return the line of `PrivateSQL.explain` about the ranks of quantiles."""
    if not isinstance(plan, SQLQuantilesPlan):
        return ""
    rows = "rows" if plan.threshold is None else "2^j rows"
    return f"\nquantiles are chosen by their ranks: sd of a rank's error about {plan.points.rank_error:.3g} {rows}"
