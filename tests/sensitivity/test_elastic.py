"""Elastic sensitivity: published figures, and never below what a row moves, at any distance: by brute force."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.sensitivity import ElasticSensitivity
from dpstats.sensitivity.elastic import Count, Distinct, Join, Project, Relation, Select, Table
from tests.sensitivity.databases import Database, count, frequencies, neighbors

NAMES = {"r": ("a", "b"), "s": ("a", "b"), "p": ("a", "b")}
VALUES = [(0, 0), (0, 1), (1, 0), (1, 1), (None, 1)]
R, S, P = Table("r"), Table("s"), Table("p", public=True)
R2 = Table("r", "r2")
ONCE = {f"{table}.{column}": 1 for table in NAMES for column in NAMES[table]}


def join(left: Relation, right: Relation, *on: str) -> Join:
    return Join(left, right, [tuple(pair.split("=")) for pair in on])


def left_join(left: Relation, right: Relation, *on: str) -> Join:
    return Join(left, right, [tuple(pair.split("=")) for pair in on], outer=True)


def told(row: dict[tuple[str, str], int | None]) -> bool:
    """Say whether a row of p counts: with a partner for one value, and without for the other."""
    return (row["s", "a"] is None) == (row["p", "a"] == 0)


QUERIES: dict[str, Count] = {
    "rows": Count(Select(R, lambda row: row["r", "a"] == 0)),
    "join": Count(join(R, S, "r.a=s.a")),
    "join on two columns": Count(join(R, S, "r.a=s.a", "r.b=s.b")),
    "join with a public table": Count(join(R, P, "r.a=p.a")),
    "self-join": Count(join(R, R2, "r.a=r2.b")),
    "self-join of what is selected": Count(
        Project(join(Select(R, lambda row: row["r", "b"] == 1), R2, "r.a=r2.a"), ())
    ),
    "chain": Count(join(join(R, S, "r.a=s.a"), P, "s.b=p.a")),
    "chain of four": Count(join(join(join(R, S, "r.a=s.a"), P, "s.b=p.a"), R2, "r.b=r2.a")),
    "triangle": Count(join(join(R, S, "r.a=s.a"), R2, "s.b=r2.b")),
    "distinct keys": Count(join(R, Distinct(S, ("s.a",)), "r.a=s.a")),
    "distinct rows": Count(Distinct(join(R, S, "r.a=s.a"), ("r.b", "s.b"))),
    "histogram": Count(join(R, S, "r.a=s.a"), "histogram"),
    "left join": Count(Select(left_join(R, S, "r.a=s.a"), lambda row: row["s", "b"] != 1)),
    "left join with a public table": Count(Select(left_join(R, P, "r.a=p.a"), lambda row: row["p", "a"] is not None)),
    "public rows with private partners": Count(Select(left_join(P, S, "p.a=s.a"), lambda row: told(row))),
    "left join with itself": Count(Select(left_join(R, R2, "r.a=r2.b"), lambda row: row["r2", "a"] is None)),
    "left join with distinct keys": Count(
        Select(left_join(R, Distinct(S, ("s.a",)), "r.a=s.a"), lambda row: row["s", "a"] is None)
    ),
    "join after a left join": Count(join(left_join(R, S, "r.a=s.a"), P, "s.b=p.a")),
    "left join, histogram": Count(left_join(R, S, "r.a=s.a"), "histogram"),
}


def random_databases(count: int, seed: int) -> Iterator[Database]:
    rng = np.random.default_rng(seed)
    for _ in range(count):
        # Skewed values, so that some are frequent.
        sizes = {"r": int(rng.integers(1, 4)), "s": int(rng.integers(1, 4)), "p": int(rng.integers(0, 4))}
        weights = rng.dirichlet(np.full(len(VALUES), 0.6))
        yield {name: tuple(VALUES[i] for i in rng.choice(len(VALUES), size, p=weights)) for name, size in sizes.items()}


def moves(query: Count, data: Database) -> int:
    """Return the local sensitivity: what one row moves a count by, or counts in l1."""
    here = count(query, data, NAMES, ("r", "b"))
    return max(
        sum(abs(x - y) for x, y in zip(here, count(query, near, NAMES, ("r", "b")), strict=True))
        for near in neighbors(data, ["r", "s"], VALUES)
    )


@pytest.mark.parametrize("name", QUERIES)
def test_it_is_never_below_what_a_row_moves(name: str) -> None:
    # 440 databases in all, and for 33 of them all that are one row away.
    query, attained = QUERIES[name], 0
    for i, data in enumerate(random_databases(40, seed=len(name))):
        elastic = ElasticSensitivity(query, frequencies(data, NAMES))
        local = moves(query, data)
        assert local <= elastic.at_distance(0)
        attained += local == elastic.at_distance(0)
        if i < 3:
            near = list(neighbors(data, ["r", "s"], VALUES))
            assert max(moves(query, other) for other in near) <= elastic.at_distance(1)
            # A smooth bound: at a neighbor a distance further has at least as much.
            for other in near:
                beside = ElasticSensitivity(query, frequencies(other, NAMES))
                assert all(elastic.at_distance(k) <= beside.at_distance(k + 1) for k in range(4))
    # A row of a left join with itself is its own partner, or is not: never all that the bound allows.
    assert attained or name == "left join with itself"


def test_a_partner_that_changes_its_key_moves_the_rows_of_two() -> None:
    # A bound for inner joins, mf(p.a) = 2, is half of what one row of s moves.
    data = {"r": (), "s": ((0, 0),), "p": ((0, 0), (0, 1), (1, 0), (1, 1))}
    query = QUERIES["public rows with private partners"]
    elastic = ElasticSensitivity(query, frequencies(data, NAMES))
    assert moves(query, data) == elastic.at_distance(0) == 4 and elastic.constant
    inner = Count(join(P, S, "p.a=s.a"))
    assert ElasticSensitivity(inner, frequencies(data, NAMES)).at_distance(0) == 2


def test_names_of_public_columns_do_not_tell_whether_a_bound_is_constant() -> None:
    public = Table("p", public=True)
    for column in ("id", "week", "k"):
        elastic = ElasticSensitivity(Count(join(R, public, f"r.a=p.{column}")), {f"p.{column}": 3})
        assert elastic.constant and elastic.at_distance(0) == elastic.at_distance(9) == 3


def test_a_declared_key_has_frequency_one_at_every_distance() -> None:
    keyed = Table("s", keys=("a",))
    for query in (Count(join(R, keyed, "r.a=s.a")), Count(left_join(R, keyed, "r.a=s.a"))):
        elastic = ElasticSensitivity(query, {"r.a": 3})
        both = 2 if isinstance(query.of, Join) and query.of.outer else 1
        assert [elastic.at_distance(k) for k in (0, 4)] == [3 * both, 7 * both]
    public = Count(left_join(R, Table("p", public=True, keys=("a",)), "r.a=p.a"))
    assert ElasticSensitivity(public, {}).at_distance(9) == 1 and ElasticSensitivity(public, {}).constant
    assert "left join on r.a = p.a: 1" in ElasticSensitivity(public, {}).explain()


def test_explanations_name_every_kind_of_join() -> None:
    found = {
        name: re.findall(r"^ +((?:left )?join(?: of a table with itself)?) on ", text, re.MULTILINE)
        for name, query in QUERIES.items()
        for text in [ElasticSensitivity(query, ONCE).explain()]
    }
    assert found["join"] == ["join"] and found["left join"] == ["left join"] and found["rows"] == []
    assert found["self-join"] == ["join of a table with itself"]
    assert found["left join with itself"] == ["left join of a table with itself"]
    assert found["triangle"] == ["join of a table with itself", "join"]
    assert found["join after a left join"] == ["join", "left join"]


def test_the_forms_that_are_wrong_are_seen() -> None:
    # Each planted bug moves by more than it says on a database of its own.
    twice: Database = {"r": ((0, 0), (0, 0), (1, 1)), "s": ((0, 0),), "p": ()}
    query = QUERIES["self-join"]
    most = frequencies(twice, NAMES)
    assert moves(query, twice) > max(most["r.a"], most["r.b"])  # a self-join as a join of two tables
    wrong = ElasticSensitivity(QUERIES["join"], {"r.a": most["r.b"], "s.a": 1})
    lopsided: Database = {"r": ((0, 0), (0, 1), (0, 2)), "s": ((1, 0),), "p": ()}
    right = ElasticSensitivity(QUERIES["join"], frequencies(lopsided, NAMES))
    wrong = ElasticSensitivity(QUERIES["join"], {"r.a": 1, "s.a": 1})  # the frequency of the wrong key, r.b
    assert wrong.at_distance(0) < moves(QUERIES["join"], lopsided) == right.at_distance(0) == 3
    # At the data alone: one row further away a row moves more.
    assert ElasticSensitivity(query, most).at_distance(0) < ElasticSensitivity(query, most).at_distance(1)


def test_figures_of_the_specification() -> None:
    two = Count(Join(Table("a"), Table("b"), [("a.x", "b.x")]))
    elastic = ElasticSensitivity(two, {"a.x": 3, "b.x": 2})
    beta = 0.7 / (2 * math.log(2 / 1e-8))
    assert beta == pytest.approx(0.018311350, rel=1e-7)
    assert elastic.smooth(0.7, 1e-8) == pytest.approx(21.224220, rel=1e-7)
    assert elastic.smooth(0.7, 1e-8) == math.exp(-beta * 52) * elastic.at_distance(52)
    assert 2 * elastic.smooth(0.7, 1e-8) / 0.7 == pytest.approx(60.640628, rel=1e-7)
    # On the grid of whole powers of e^beta.
    grid = max(math.ceil(math.log(elastic.at_distance(k)) / beta) - k for k in range(200))
    assert math.exp(beta * grid) == pytest.approx(21.284849, rel=1e-7)
    itself = Count(Join(Table("e"), Table("e", "f"), [("e.x", "f.x")]))
    same = ElasticSensitivity(itself, {"e.x": 65})
    assert same.smooth(0.7, 1e-8) == same.at_distance(0) == 131
    assert 2 * same.smooth(0.7, 1e-8) / 0.7 == pytest.approx(374.285714, rel=1e-8)
    grid = max(math.ceil(math.log(same.at_distance(k)) / beta) - k for k in range(200))
    assert math.exp(beta * grid) == pytest.approx(132.838, rel=1e-4)
    chain = Count(Join(Join(Table("a"), Table("b"), [("a.x", "b.x")]), Table("c", public=True), [("b.y", "c.y")]))
    assert ElasticSensitivity(chain, {"a.x": 5, "b.x": 3, "b.y": 9, "c.y": 3}).at_distance(0) == 15


def test_a_cap_and_public_sizes() -> None:
    query = Count(Join(Table("a", n_rows=4), Table("b"), [("a.x", "b.x")]))
    elastic = ElasticSensitivity(query, {"a.x": 3, "b.x": 2}, cap=2)
    assert [elastic.at_distance(k) for k in range(3)] == [6, 8, 12]


def test_symbols_say_what_numbers_do() -> None:
    for name, query in QUERIES.items():
        for numbers in itertools.product((1, 4), repeat=2):
            found = {f"{table}.{column}": numbers[i] for table in NAMES for i, column in enumerate(NAMES[table])}
            elastic = ElasticSensitivity(query, found)
            for k in (0, 3):
                said = elastic.formula
                for key, value in found.items():
                    said = said.replace(f"mf({key}, k)", str(value + k)).replace(f"mf({key})", str(value))
                assert eval(said, {"__builtins__": {}, "max": max, "min": min}) == elastic.at_distance(k)
        assert elastic.constant == (elastic.at_distance(0) == elastic.at_distance(9)), name
        assert not any(digit in elastic.explain() for digit in "3456789")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ElasticSensitivity(QUERIES["join"], {"r.a": 1}), "frequencies must"),
        (lambda: ElasticSensitivity(QUERIES["join"], {"r.a": -1}), "frequencies must"),
        (lambda: ElasticSensitivity(QUERIES["join"], {"r.a.b": 1}), r"got another key"),
        (lambda: ElasticSensitivity(QUERIES["join"], {"r.a": 1, ("r", "a"): 1, "s.a": 1}), "each column once"),
        (lambda: ElasticSensitivity(R, {}), "query must be a Count"),  # type: ignore[arg-type]
        (lambda: ElasticSensitivity(QUERIES["rows"], {}).smooth(1.0, 0.0), "delta must"),
    ],
)
def test_bad_input_is_named(call: object, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        call()  # type: ignore[operator]


def test_a_column_of_several_distinct_ones_keeps_its_frequency() -> None:
    several = Count(join(R, Distinct(S, ("s.a", "s.b")), "r.a=s.a"))
    alone = Count(join(R, Distinct(S, ("s.a",)), "r.a=s.a"))
    found = {"r.a": 2, "s.a": 5}
    assert ElasticSensitivity(several, found).at_distance(0) == 5
    assert ElasticSensitivity(alone, found).at_distance(0) == 2


def test_a_row_of_a_left_join_without_a_partner_counts() -> None:
    nobody = Table("p", public=True, n_rows=0)
    found = {"r.a": 4, "p.a": 0}
    assert ElasticSensitivity(Count(left_join(R, nobody, "r.a=p.a")), found).at_distance(0) == 1
    assert ElasticSensitivity(Count(join(R, nobody, "r.a=p.a")), found).at_distance(0) == 0
