"""One word of text: the same number in Python and in SQL, whatever stands beside it."""

from __future__ import annotations

import math
import random
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpstats.data.rows import column_of
from dpstats.data.schema import Categories
from dpstats.data.values import FOREIGN, MISSING_WORDS, Words, exact_number, number, number_sql, numbers
from dpstats.errors import InvalidData

WORDS = {
    "1": 1.0,
    " +1.5e3\t": 1500.0,
    ".5": 0.5,
    "1.": 1.0,
    "007": 7.0,
    "-0": -0.0,
    "1e400": math.inf,
    "5e-324": 5e-324,
    "-Infinity": -math.inf,
    "9007199254740993": 2.0**53,
    "TRUE": 1.0,
    " false ": 0.0,
    "NaN": math.nan,
    "NA": math.nan,
    "": math.nan,
    "\n": math.nan,
}
NO_NUMBERS = ["x", "1_0", "+-1", "nan(1)", "١", "９", "1\u00a0", "\x1c1", "0x10", "1,000", "1 000", "yes", "na", "1d"]
LETTERS = "0123456789.eE+-_ xinfatyNQ\tIs%,'\"()#/<>\x0b\x0c\r\n\x1c\x1f\u00a0١\x00"


@pytest.mark.parametrize("word", WORDS)
def test_words_that_are_numbers_or_missing(word: str) -> None:
    np.testing.assert_equal(number(word), WORDS[word])


@pytest.mark.parametrize("word", NO_NUMBERS)
def test_other_words_are_refused_where_numbers_are_asked_for(word: str) -> None:
    assert number(word) is None
    assert numbers(["1", word, "x"])[1] == 1
    with pytest.raises(InvalidData, match="an entry must be a number, true, false or missing"):
        column_of("y", Words(["1", word]))


def test_a_missing_word_of_the_caller_is_looked_for_first() -> None:
    found, wrong = numbers(["31", "NA", "x"], MISSING_WORDS | {"31"})
    assert math.isnan(found[0]) and math.isnan(found[1]) and wrong == 2


def _random_words(count: int, seed: int) -> list[str]:
    draw = random.Random(seed)
    known = [*WORDS, *NO_NUMBERS, *MISSING_WORDS]
    words = []
    for _ in range(count):
        word = list(draw.choice(known) if draw.random() < 0.5 else f"{draw.uniform(-1, 1)!r}e{draw.randint(-400, 400)}")
        for _ in range(draw.randint(0, 2)):
            word.insert(draw.randint(0, len(word)), draw.choice(LETTERS))
        words.append("".join(word))
    return words


def test_sql_reads_every_word_as_python_does() -> None:
    # Part of a comparison of 990,000 words, which found nan(1).
    duckdb = pytest.importorskip("duckdb")
    words = [*_random_words(20_000, seed=1), *WORDS, *NO_NUMBERS, *MISSING_WORDS]
    frame = pd.DataFrame({"w": pd.Series(words, dtype=object)})
    connection = duckdb.connect()
    connection.register("frame", frame)

    def differing(sql: str, asked: set[str]) -> list[str]:
        found = connection.execute(f"SELECT {sql} FROM frame").fetchall()
        read = [(word, math.nan if value is None else value) for word, (value,) in zip(words, found, strict=True)]
        wrong = []
        for word, value in read:
            expected = number(word)
            same = value == -7.25e77 if expected is None else repr(value) == repr(expected)
            same = same or (expected is not None and math.isnan(expected) and math.isnan(value))
            if word in asked and not same:
                wrong.append(word)
        return wrong

    assert not differing(number_sql("w", "-7.25e77::DOUBLE"), {*words})
    unguarded = number_sql("w", "-7.25e77::DOUBLE", guarded=False)
    assert not differing(unguarded, {word for word in words if not any(part in word for part in FOREIGN)})
    # The guard is needed.
    assert {"1_0", "+-1", "nan(1)"} <= set(differing(unguarded, {*words}))


def test_sql_refuses_a_word_that_is_no_number() -> None:
    duckdb = pytest.importorskip("duckdb")
    with pytest.raises(duckdb.InvalidInputException, match="an entry must be a number"):
        duckdb.connect().execute(f"SELECT {number_sql('w')} FROM (VALUES ('x')) t(w)").fetchall()


def test_a_label_is_compared_by_its_text_and_then_by_its_value() -> None:
    words = Words(["01", "1", "1.0", "", "NA", "true", "x", "2"])
    assert Categories(["01", 1, None]).codes(words).tolist() == [0, 1, 1, 2, 2, 1, -1, -1]
    assert Categories(["", "NA", None, True]).codes(words).tolist() == [3, 3, 3, 0, 1, 3, -1, -1]
    np.testing.assert_array_equal(column_of("y", Words(["1", "", "true"])), [1.0, math.nan, 1.0])


def test_the_page_lists_the_words_that_are_missing() -> None:
    page = (Path(__file__).parents[2] / "docs/missing-data.md").read_text(encoding="utf-8")
    listed = page.split("these words are missing, too:")[1].split("`true`")[0]
    assert set(re.findall(r"`([^`]+)`", listed)) == MISSING_WORDS - {""} | {"NaN"}


@pytest.mark.parametrize("word", [*sorted(MISSING_WORDS), "NaN", "nan", "-nan", " NA "])
def test_every_missing_word_is_the_level_of_missing_entries(word: str) -> None:
    assert Categories(["a", None, 1.0, "here"]).codes(Words([word])).tolist() == [1]
    assert Categories(["a", None, 1.0, "here"]).codes([word]).tolist() == [1]
    assert Categories(["a", None]).codes([word]).tolist() == [1]
    # A level with this text comes first.
    assert Categories(["a", None, 1.0, word]).codes(Words([word])).tolist() == [3]


def test_a_word_has_its_exact_number() -> None:
    found = [exact_number(word) for word in (" 9007199254740993 ", "1e400", "+.5", "true", "1_0", "x", "١")]
    assert found == [2**53 + 1, 10**400, 0.5, 1.0, None, None, None]
    assert exact_number("1e99999999999999999999") == math.inf and math.isnan(exact_number("NA") or 0.0)
