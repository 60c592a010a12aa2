"""Names are names: columns, levels, units and tables with other names, in other letters, are the same release."""

from __future__ import annotations

from functools import cache
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

from dpstats.errors import DPStatsError
from dpstats.release.noise import noise_source
from dpstats.sql import PrivateSQL
from tests.nets.calls import ESTIMATORS, LABELS, PAIRED, ROWS_OF
from tests.nets.lines import DECLARED, OPTIONS, QUERIES, shop
from tests.nets.test_containers import ASKED
from tests.nets.told import tell
from tests.sql.databases import fill

WORDS = (["u", "v", "w"], ["Z", "z", "\u00e9"], ["w", "v", "u"])
"""Names of three levels: in order, in letters of both cases, and in reverse order."""
OF_LEVELS = {"groups": [0, 1, 2], "levels": [[0, 1], [0, 1]], "domain": {"a": [0, 1], "b": [0, 1]}}


NAMELESS = [name for name in ASKED if not isinstance(ROWS_OF[ESTIMATORS[name].then][0], pd.DataFrame)]
"""Estimators whose columns need not be declared by name."""


def renamed(thing: Any, words: list[str]) -> Any:
    """Return levels with words in place of numbers."""
    if isinstance(thing, dict):
        return {word: renamed(levels, words) for word, levels in zip(words, thing.values(), strict=False)}
    return [renamed(level, words) if isinstance(level, list) else words[level] for level in thing]


def numbers(made: Any) -> list[float]:
    return [value for _, value in tell(made) if not isinstance(value, str)]


@cache
def fitted(name: str, place: int) -> list[float]:
    """Return the numbers of a fit whose levels have other names."""
    call, words = ESTIMATORS[name], WORDS[place]
    given = {**call.given, **{key: renamed(call.given[key], words) for key in OF_LEVELS if key in call.given}}
    rows = ROWS_OF[call.then]
    labelled = [
        np.array(words, object)[one] if one is LABELS or one is PAIRED or set(np.ravel(one)) <= {0, 1} else one
        for one in rows[-1:]
    ]
    return numbers(call.made(**given).fit(*rows[:-1], *labelled))


@pytest.mark.parametrize("name", [name for name in NAMELESS if OF_LEVELS.keys() & ESTIMATORS[name].given])
def test_levels_of_other_names_have_the_same_numbers(name: str) -> None:
    for place in (1, 2):
        np.testing.assert_array_equal(fitted(name, place), fitted(name, 0))


@pytest.mark.parametrize("name", NAMELESS)
def test_columns_of_other_names_have_the_same_numbers(name: str) -> None:
    call = ESTIMATORS[name]
    rows = ROWS_OF[call.then]
    found = []
    for columns in (["a", "b"], ["b", "B"], ["\u00e9 ~ 'x'", "A"]):
        given = {**call.given}
        if "domain" in given:
            given["domain"] = dict(zip(columns, given["domain"].values(), strict=True))
        X = pd.DataFrame(rows[0])
        X.columns = pd.Index(columns[: X.shape[1]])
        found.append(numbers(call.made(**given).fit(X, *rows[1:])))
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])


COLUMNS = {
    "r": '"{u}" INTEGER, "{g}" INTEGER, "{x}" DOUBLE PRECISION, "{y}" INTEGER, "{n}" INTEGER NOT NULL, "{k}" INTEGER',
    "s": '"{k}" INTEGER, "{j}" INTEGER',
    "p": '"{k}" INTEGER, "{word}" VARCHAR, "{day}" DATE, "{late}" BOOLEAN',
}
SHOUTED = {word: word.upper() for word in ("u", "g", "x", "y", "n", "k", "j", "word", "day", "late")}
ASKED_SQL = [text for text in QUERIES if " FROM " in text and "'" not in text][::3]


def shouting(connection: Any) -> Any:
    """Fill a connection with the tables of the shop in capital letters."""
    columns = {f'"{table.upper()}"': text.format(**SHOUTED) for table, text in COLUMNS.items()}
    fill(
        connection,
        columns,
        {f'"{table.upper()}"': shop().execute(f"FROM {table}").fetchall()[:150] for table in COLUMNS},
    )
    return connection


@cache
def whispering() -> Any:
    """Return a connection with the tables in small letters."""
    made = duckdb.connect()
    columns = {table: text.replace("{", "").replace("}", "") for table, text in COLUMNS.items()}
    fill(made, columns, {table: shop().execute(f"FROM {table}").fetchall()[:150] for table in COLUMNS})
    return made


@pytest.fixture(params=["duckdb", "postgres"])
def loud(request: pytest.FixtureRequest) -> Any:
    return shouting(duckdb.connect() if request.param == "duckdb" else request.getfixturevalue("postgres"))


def connected(connection: Any, options: str, upper: bool) -> PrivateSQL:
    """Return queries of tables whose declared names are in small or in capital letters."""
    given = {**DECLARED, **OPTIONS[options]}
    change = str.upper if upper else str.lower
    for key in ("bounds", "categories", "bins"):
        given[key] = {change(name): value for name, value in given[key].items()}
    given["public_tables"] = [*map(change, given.get("public_tables", []))]
    return PrivateSQL(connection, **given)


@cache
def whispered(options: str) -> list[str]:
    """Return all answers over tables in small letters."""
    return answers(connected(whispering(), options, False), ASKED_SQL)


def answers(sql: PrivateSQL, texts: list[str]) -> list[str]:
    """Return what is released for each query, or its refusal, in small letters."""
    found = []
    for text in texts:
        sql._source = noise_source(0)
        try:
            found.append(repr(sql.query(text).to_dict()).lower())
        except DPStatsError as error:
            found.append(type(error).__name__)
    return found


@pytest.mark.parametrize("options", ["rows", "units"])
def test_tables_and_columns_in_capital_letters_have_the_same_answers(loud: Any, options: str) -> None:
    wanted = whispered(options)
    assert sum("estimate" in one for one in wanted) > len(wanted) / 3
    assert answers(connected(loud, options, False), ASKED_SQL) == wanted
    assert answers(connected(loud, options, True), [text.upper() for text in ASKED_SQL]) == wanted
