"""Random queries and mutated text, each refused, or bounded and answered rightly: by brute force in DuckDB itself.

python -m tests.sql.fuzz --queries 5000 --seed 1
"""

from __future__ import annotations

import argparse
import random
from typing import Any

import duckdb

from dpstats.errors import InvalidParameter
from dpstats.sql import PrivateSQL
from tests.sql.databases import connected

COLUMNS = {"r": ("a", "b"), "s": ("a", "c"), "p": ("a", "b")}
VALUES = [0, 1, None]
WORDS = [
    *(
        "LEFT",
        "RIGHT",
        "FULL",
        "OUTER",
        "CROSS",
        "NATURAL",
        "SEMI",
        "ANTI",
        "ASOF",
        "POSITIONAL",
        "INNER",
        "JOIN",
    ),
    *(
        "ON",
        "USING",
        "(a)",
        "DISTINCT",
        "UNION",
        "ALL",
        "INTERSECT",
        "EXCEPT",
        "LIMIT",
        "1",
        "OFFSET",
        "ORDER",
        "BY",
    ),
    *(
        "GROUP",
        "HAVING",
        "QUALIFY",
        "WINDOW",
        "OVER",
        "()",
        "FILTER",
        "EXISTS",
        "(SELECT a FROM s)",
        "IN",
        "NOT",
    ),
    *(
        "AND",
        "OR",
        "NULL",
        "IS",
        "TRUE",
        "FALSE",
        "r",
        "s",
        "p",
        "v",
        "r.a",
        "s.a",
        "--",
        "/*",
        "*/",
        ";",
        "'",
        '"',
    ),
    *(
        "SAMPLE",
        "50%",
        "TABLESAMPLE",
        "WITH",
        "RECURSIVE",
        "LATERAL",
        "UNNEST([1,2])",
        "range(3)",
        "read_csv('x')",
    ),
    *(
        "CASE",
        "WHEN",
        "THEN",
        "END",
        "CAST(a AS TEXT)",
        "+",
        "abs(a)",
        "?",
        "$1",
        "*",
        ",",
        "(",
        ")",
        "=",
        "<",
        "AS",
    ),
    *(
        "rowid",
        "ROLLUP",
        "CUBE",
        "GROUPING",
        "SETS",
        "PIVOT",
        "COUNT(b)",
        "SUM(a)",
        "COUNT(*)",
        "a",
        "b",
        "t0",
        "t1",
    ),
]


def random_query(rng: random.Random) -> str:
    """Return a query of the kind that is answered, most often."""
    names: list[tuple[str, tuple[str, ...]]] = []
    with_clause = ""
    parts: list[str] = []
    conditions: list[str] = []
    for i in range(rng.choice([1, 2, 2, 3])):
        table = rng.choice("rsp" if i else "rrs")
        alias = f"t{i}"
        columns = COLUMNS[table]
        kind = rng.random()
        if kind < 0.6:
            source = f"{table} AS {alias}"
        else:
            distinct = "DISTINCT " if rng.random() < 0.4 else ""
            columns = tuple(rng.sample(columns, rng.choice([1, 2])))
            where = f" WHERE {condition(rng, [('', columns)])}" if rng.random() < 0.4 else ""
            inner = f"SELECT {distinct}{', '.join(columns)} FROM {table}{where}"
            if kind < 0.85 or with_clause:
                source = f"({inner}) AS {alias}"
            else:
                with_clause, source = f"WITH w AS ({inner}) ", f"w AS {alias}"
        if not parts:
            parts.append(source)
        else:
            other, theirs = rng.choice(names)
            shared = set(columns).intersection(*(set(c) for _, c in names))
            if shared and rng.random() < 0.3 and len(names) == 1:
                parts.append(f" JOIN {source} USING ({rng.choice(sorted(shared))})")
            elif rng.random() < 0.2:
                parts.append(f", {source}")
                conditions.append(f"{alias}.{rng.choice(columns)} = {other}.{rng.choice(theirs)}")
            else:
                on = f"{alias}.{rng.choice(columns)} = {other}.{rng.choice(theirs)}"
                if rng.random() < 0.3:
                    on += f" AND {condition(rng, [*names, (alias, columns)])}"
                parts.append(f" {rng.choice(['', 'INNER '])}JOIN {source} ON {on}")
        names.append((alias, columns))
    if rng.random() < 0.5:
        conditions.append(condition(rng, names))
    alias, columns = rng.choice(names)
    column = f"{alias}.{rng.choice(columns)}"
    what = rng.choice(["COUNT(*)", "COUNT(*)", f"COUNT({column})", f"COUNT(DISTINCT {column})"])
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"{with_clause}SELECT {what} FROM {''.join(parts)}{where}"


def condition(rng: random.Random, names: list[tuple[str, tuple[str, ...]]], depth: int = 0) -> str:
    alias, columns = rng.choice(names)
    column = f"{alias}.{rng.choice(columns)}" if alias else rng.choice(columns)
    kind = rng.randrange(9 if depth < 2 else 6)
    if kind == 0:
        return f"{column} IS {rng.choice(['', 'NOT '])}NULL"
    if kind == 1:
        return f"{column} {rng.choice(['', 'NOT '])}IN ({rng.choice([0, 1])}, {rng.choice([0, 2])})"
    if kind == 2:
        return f"{column} BETWEEN {rng.choice([-1, 0])} AND {rng.choice([0, 1])}"
    if kind == 3:
        other, theirs = rng.choice(names)
        right = f"{other}.{rng.choice(theirs)}" if other else rng.choice(theirs)
        return f"{column} {rng.choice(['=', '<>', '<', '>='])} {right}"
    if kind < 6:
        return f"{column} {rng.choice(['=', '<>', '<=', '>'])} {rng.choice([0, 1])}"
    if kind == 6:
        return f"NOT ({condition(rng, names, depth + 1)})"
    return (
        f"({condition(rng, names, depth + 1)} {rng.choice(['AND', 'OR'])} {condition(rng, names, depth + 1)})"
    )


def mutated(rng: random.Random, text: str) -> str:
    """Return text with words put in, left out, or changed."""
    words = text.split(" ")
    for _ in range(rng.choice([1, 1, 2, 3])):
        place = rng.randrange(len(words))
        kind = rng.randrange(3)
        if kind == 0:
            words.insert(place, rng.choice(WORDS))
        elif kind == 1 and len(words) > 1:
            del words[place]
        else:
            words[place] = rng.choice(WORDS)
    return " ".join(words)


class Databases:
    """Small random databases, with all that are one row away."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        rows = {
            name: [tuple(rng.choice(VALUES) for _ in columns) for _ in range(rng.choice([2, 3]))]
            for name, columns in COLUMNS.items()
        }
        # Frequent values, which joins multiply.
        if rng.random() < 0.6:
            rows["r"] = [(0, rng.choice(VALUES)) for _ in rows["r"]]
        self.sizes = {name: len(held) for name, held in rows.items()}
        self.connection = connected(
            tuple(
                (name, ", ".join(f"{c} INTEGER" for c in columns), tuple(rows[name]))
                for name, columns in COLUMNS.items()
            )
        )
        self.connection.execute("CREATE VIEW v AS SELECT r.a FROM r, s")
        self.sql = PrivateSQL(self.connection, epsilon=1.0, public_tables=["p"], random_state=0)

    def moved(self, text: str, neighbours: int) -> int:
        """Return how far the answer of DuckDB moves at most, over some of the rows replaced."""
        here = self.answer(text)
        most = 0
        for _ in range(neighbours):
            table = self.rng.choice("rs")
            place, values = (
                self.rng.randrange(self.sizes[table]),
                [self.rng.choice(VALUES) for _ in COLUMNS[table]],
            )
            self.connection.execute("BEGIN")
            assigned = ", ".join(f"{c} = ?" for c in COLUMNS[table])
            self.connection.execute(f"UPDATE {table} SET {assigned} WHERE rowid = {place}", values)
            most = max(most, abs(self.answer(text) - here))
            self.connection.execute("ROLLBACK")
        return most

    def answer(self, text: str) -> int:
        ((count,),) = self.connection.execute(text).fetchall()
        return int(count)


def check(data: Databases, text: str, neighbours: int = 10) -> bool:
    """Return whether a query is accepted; fail where it is bounded or answered wrongly."""
    try:
        query = data.sql._parsed(text)
    except InvalidParameter:
        return False
    try:
        data.connection.execute(f"EXPLAIN {text}")
    except duckdb.ParserException:
        # A keyword as a name, say, which means what it says here and nothing there.
        return False
    plan = data.sql._planned(query)
    exact = int(data.sql._read(query, plan).numbers[0]) // plan.finer
    assert exact == data.answer(text), f"answered wrongly: {text}"
    bound = data.sql._elastic(query).at_distance(0)
    assert data.moved(text, neighbours) <= bound, f"bounded wrongly: {text}"
    return True


def run(queries: int, seed: int, per_database: int = 25) -> dict[str, int]:
    """Check queries, half of them mutated; return how many of each kind were accepted."""
    rng = random.Random(seed)
    found = {"queries": 0, "accepted": 0, "mutated": 0, "mutated and accepted": 0}
    data = Databases(rng)
    for i in range(queries):
        if i % per_database == per_database - 1:
            data = Databases(rng)
        text = random_query(rng)
        if i % 2:
            text = mutated(rng, text)
        accepted = check(data, text)
        found["mutated" if i % 2 else "queries"] += 1
        found["mutated and accepted" if i % 2 else "accepted"] += accepted
    return found


def units_moved(data: Databases, text: str) -> bool:
    """Return whether a query is accepted where units are protected; fail where one moves it by more than is said."""
    options: Any = {"epsilon": 1.0, "public_tables": ["p"], "unit": {"r": "a", "s": "a"}, "unit_limit": 8}
    try:
        first = PrivateSQL(data.connection, **options)
        query = first._parsed(text)
    except InvalidParameter:
        return False
    plan = first._planned(query)
    here = first._read(query, plan)
    for _ in range(4):
        # One unit goes with all its rows, and another comes with rows of its own.
        old, new = data.rng.choice([0, 1]), data.rng.choice([7, None])
        data.connection.execute("BEGIN")
        for table in "rs":
            data.connection.execute(f"DELETE FROM {table} WHERE a = {old}")
            for _ in range(data.rng.randrange(4)):
                data.connection.execute(f"INSERT INTO {table} VALUES (?, ?)", [new, data.rng.choice(VALUES)])
        data.connection.execute("COMMIT")
        there = PrivateSQL(data.connection, **options)
        near = there._read(query, plan)
        if plan.truncations:
            (name,) = near.cut or {}
            for power, a, b in zip(plan.truncations[0].each, here.cut[name], near.cut[name], strict=True):  # type: ignore[index]
                assert sum(abs(int(x) - int(y)) for x, y in zip(a, b, strict=True)) <= 2**power, text
            for x, y in zip(here.above[name], near.above[name], strict=True):  # type: ignore[index]
                assert abs(x - y) <= 1, text
        else:
            assert abs(int(here.numbers[0]) - int(near.numbers[0])) <= 1, text  # type: ignore[index]
        here = near
    return True


def run_units(queries: int, seed: int) -> int:
    """Check queries where units are protected; return how many were accepted."""
    rng = random.Random(seed)
    return sum(units_moved(Databases(rng), random_query(rng)) for _ in range(queries))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    options: Any = parser.parse_args()
    print(run(options.queries, options.seed))
    print("of units, accepted:", run_units(options.queries // 4, options.seed))


if __name__ == "__main__":
    main()
