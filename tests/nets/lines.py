"""Commands and queries in text, with what they print: every option of every command, and clauses of every kind."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from functools import cache, partial
from pathlib import Path
from typing import Any

import duckdb

from dpstats.cli import main
from dpstats.release.noise import noise_source
from dpstats.sql import PrivateSQL
from tests.cli.test_same_file import _commands, command_parser
from tests.nets.recorded import COMMANDS, table
from tests.nets.told import Said, outcome

VALUES = ("-1", "0.5", "x", "g=x,y")
"""Values of an option that is neither a choice nor a file."""

SLOW = {"identity-test": ("x",), "sql": ("x", "0.5")}
"""Other values of options of commands that simulate, or open tables."""

OF_FILES = ("FILE", "LEDGER", "FOLDER", "OUT")
ELSEWHERE = {"json", "quiet", "help", "jobs", "label", "encoding", "folder", "out", "database"}
"""Options about places and processes, which have tests of their own."""


def run(command: Sequence[str]) -> list[Any]:
    """Return the status of a command, what it prints, and its JSON."""
    out, err = io.StringIO(), io.StringIO()
    written = Path(table()).with_name("written.json")
    written.unlink(missing_ok=True)
    asked = [*command] if "--help" in command else [*command, "--json", str(written)]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main(asked)
        except SystemExit as end:
            status = end.code
    table_lines, errors = (one.getvalue().replace(table(), "FILE") for one in (out, err))
    kept = written.read_text(encoding="utf-8").replace(table(), "FILE") if written.exists() else ""
    return [status, "\n".join(" ".join(line.split()) for line in table_lines.splitlines()), errors, kept]


def whole(command: Sequence[str]) -> list[str]:
    """Return a command of the record with its table and its seed."""
    name, *given = command
    if name == "sql":
        return [name, *given, "--table", f"t={table()}", "--seed", "1"]
    return [name, *given] if name == "plan" else [name, table(), *given, "--seed", "1"]


MORE = [
    ["plan", "regress", "--rows", "400", "--columns", "2", "--bounds", "-4", "4", "c=-9,9", "--outcome", "c"],
    ["plan", "histogram", "--rows", "400", "--categories", "x,y"],
    ["plan", "quantile", "--rows", "400", "--bounds", "-4", "4"],
    ["plan", "survival", "--rows", "400", "--horizon", "8"],
    ["plan", "table", "--rows", "400", "--levels", "g=x,y,z"],
    ["plan", "proportion", "--rows", "400"],
    ["plan", "ks", "--rows", "400", "--by", "g", "--groups", "x,y"],
    ["plan", "ks", "--rows", "400", "--distribution", "norm,0,1"],
    ["plan", "identity-test", "--rows", "100", "--columns", "2"],
    ["plan", "sparse-mean", "--rows", "400", "--columns", "3", "--nonzero", "1", "--clip", "4", "--std", "1"],
    ["plan", "samples", "mean", "--columns", "2", "--bounds", "-4", "4", "--target-error", "0.1"],
    ["plan", "samples", "proportion", "--target-error", "0.1"],
    ["plan", "sql", "SELECT COUNT(*) FROM t"],
    # As few groups, levels and columns as may be.
    *(
        ["group-means", "--column", "a", "--by", "e", "--groups", groups, "--bounds", "-4", "4", *more]
        for groups in ("0,1", "0")
        for more in (["--anova"], ["--pairwise", "tukey"], ["--pairwise", "holm"])
    ),
    ["survival", "--time", "b", "--event", "e", "--horizon", "8", "--by", "e", "--groups", "0,1"],
    ["table", "--levels", "e=0,1"],
]


def words_of(command: Sequence[str]) -> tuple[str, ...]:
    """Return the words that name a command."""
    words: tuple[str, ...] = (command[0],)
    if command[0] == "plan":
        words = tuple(command[: 3 if command[1] == "samples" else 2])
    return words


def further(command: Sequence[str]) -> Iterator[list[str]]:
    """Yield a command with each further option, and with other values of it."""
    for action in command_parser(words_of(command))._actions:
        if not action.option_strings or action.dest in ELSEWHERE:
            continue
        if any(word in str(action.metavar) for word in OF_FILES):
            continue
        name = action.option_strings[-1]
        if name in command:
            place = list(command).index(name)
            end = next((i for i in range(place + 1, len(command)) if command[i].startswith("--")), len(command))
            rest = [*command[:place], *command[end:]]
        else:
            rest = list(command)
        if action.nargs == 0:
            yield [*rest, name]
        else:
            several = action.nargs if isinstance(action.nargs, int) else 1
            for value in SLOW.get(words_of(command)[0], action.choices or VALUES):
                yield [*rest, name, *[str(value)] * several]


def play_command(place: int) -> dict[str, list[Said]]:
    """Return what a command prints and writes, and with each further option."""
    command = [*COMMANDS, *MORE][place]
    given = whole(command)
    asked = [given]
    first = [words_of(one) for one in (*COMMANDS, *MORE)].index(words_of(command))
    if first == place:
        asked += [*further(given), [*words_of(command), "--help"]]
    return {" ".join(words[1:]).replace(table(), "FILE"): outcome(partial(run, words)) for words in asked}


def play_help() -> dict[str, list[Said]]:
    """Return the help of every command."""
    every = _commands(command_parser(()))
    return {" ".join(words): outcome(partial(run, [*words, "--help"])) for words in every}


WHERE = (
    "x > 0",
    "x >= 0 AND NOT y = 2",
    "x < 1 OR n IN (1, 2)",
    "y IS NULL",
    "y IS NOT NULL",
    "n BETWEEN 1 AND 3",
    "n NOT BETWEEN 1 AND 3",
    "x <> 1",
    "5 <= n",
    "n = y",
    "n < y + 1",
    "NOT (n > 2 OR x > 1)",
    "g NOT IN (0, 2)",
    "n = 2.5",
    "n > 2.5",
    "n IN (SELECT j FROM s)",
    "n = NULL",
    "TRUE",
    "x = 'a'",
    "word > 1",
    "x LIKE 'a%'",
    "EXISTS (SELECT 1 FROM s)",
)
VALUED = (
    "SUM(x)",
    "SUM(x * 2 - n)",
    "SUM(-n)",
    "SUM(n / 2)",
    "SUM(CASE WHEN x > 0 THEN n ELSE 1 END)",
    "SUM(COALESCE(y, 2))",
    "SUM(n) FILTER (WHERE x > 0)",
    "AVG(x)",
    "AVG(n), COUNT(*)",
    "STDDEV(x)",
    "VARIANCE(n)",
    "STDDEV_POP(n)",
    "VAR_POP(x)",
    "COUNT(y)",
    "COUNT_IF(x > 0)",
    "COUNT(*) AS a, SUM(x) AS b, AVG(n) AS c",
    "COUNT(DISTINCT u)",
    "COUNT(DISTINCT n)",
    "MEDIAN(x)",
    "QUANTILE_CONT(x, 0.9)",
    "QUANTILE_CONT(n, 0.2) AS low, MEDIAN(n)",
    "QUANTILE_CONT(n, 0.9) AS high, MEDIAN(n), QUANTILE_CONT(n, 0.4) AS low",
    "PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY x DESC)",
    "QUANTILE_CONT(x, 1.5)",
    "MAX(x)",
    "SUM(k)",
    "SUM(DISTINCT n)",
    "COUNT(*) + 1",
    "n",
)
FROM = (
    "r JOIN s USING (k)",
    "r JOIN s ON r.k = s.k AND r.n > 1",
    "r LEFT JOIN s ON r.k = s.k",
    "r LEFT JOIN s ON r.k = s.k WHERE s.j IS NULL",
    "r SEMI JOIN s ON r.k = s.k",
    "r ANTI JOIN s ON r.k = s.k",
    "r a JOIN r b ON a.u = b.u",
    "r a JOIN r b ON a.k = b.k JOIN s ON s.k = a.k",
    "(SELECT k, n FROM r WHERE x > 0) t",
    "(SELECT DISTINCT u, k FROM r) t",
    "(SELECT DISTINCT k FROM r) t",
    "(SELECT k AS z FROM s) t",
    "r WHERE k IN (SELECT k FROM s WHERE j > 2)",
    "r, s WHERE r.k = s.k",
    "r CROSS JOIN s",
    "r JOIN s ON r.k < s.k",
    "r FULL JOIN s USING (k)",
    "q",
    "r r2 JOIN s s2 ON r2.k = s2.k AND s2.j = r2.n",
    "r UNION SELECT 1",
    "r JOIN p USING (k)",
    "r JOIN p USING (k) JOIN s USING (k)",
    "r LEFT JOIN p USING (k) WHERE word IS NULL",
    "p WHERE word = 'w1'",
    "p WHERE word LIKE 'w%' AND late",
    "p WHERE word < 'w1' OR NOT late",
    "p WHERE day >= DATE '2026-03-01'",
    "p WHERE day BETWEEN '2026-02-01' AND '2026-03-01'",
    "p WHERE YEAR(day) = 2026",
    "p WHERE word = 1",
    "p a JOIN p b ON a.k = b.k JOIN p c ON c.word = b.word",
)
GROUPED = (
    "SELECT g, COUNT(*) FROM r GROUP BY g",
    "SELECT g, COUNT(*) AS c FROM r GROUP BY g HAVING COUNT(*) > 250",
    "SELECT g, COUNT(*) AS c FROM r GROUP BY g HAVING COUNT(*) > 250 AND COUNT(*) < 301",
    "SELECT g, COUNT(*), SUM(x) FROM r GROUP BY g HAVING SUM(x) > 700 ORDER BY COUNT(*), g DESC",
    "SELECT g, SUM(x) FROM r GROUP BY g ORDER BY SUM(x) DESC",
    "SELECT g, COUNT(*) FROM r GROUP BY g ORDER BY 2 LIMIT 2",
    "SELECT g, COUNT(*) FROM r GROUP BY g ORDER BY g DESC LIMIT 1 OFFSET 1",
    "SELECT g, n, COUNT(*) FROM r GROUP BY g, n",
    "SELECT g, MEDIAN(x) FROM r GROUP BY g",
    "SELECT g, AVG(x), COUNT(*) FROM r JOIN s USING (k) GROUP BY g",
    "SELECT g, STDDEV(n) FROM r GROUP BY g HAVING STDDEV(n) > 1 OR COUNT(*) > 1",
    "SELECT g, COUNT(DISTINCT u) FROM r GROUP BY g",
    "SELECT x, COUNT(*) FROM r GROUP BY x",
    "SELECT n, COUNT(*), SUM(x) FROM r GROUP BY n",
    "SELECT u, COUNT(*) FROM r GROUP BY u",
    "SELECT g, COUNT(*) FROM r GROUP BY g LIMIT 1.5",
    "SELECT g AS a, COUNT(*) AS a FROM r GROUP BY g",
    "SELECT word, COUNT(*) FROM p GROUP BY word",
    "SELECT word, g, AVG(x) FROM r JOIN p USING (k) GROUP BY word, g ORDER BY word LIMIT 4",
    "SELECT DATE_TRUNC('month', day), COUNT(*) FROM p GROUP BY DATE_TRUNC('month', day)",
    "SELECT DATE_TRUNC('month', day) AS m, COUNT(*) FROM p GROUP BY m",
    "SELECT YEAR(day), COUNT(*) FROM p GROUP BY YEAR(day)",
    "SELECT QUARTER(day), COUNT(*) FROM p GROUP BY QUARTER(day)",
    "SELECT MONTH(day), COUNT(*) FROM p GROUP BY MONTH(day) ORDER BY COUNT(*) LIMIT 3",
    "SELECT day, COUNT(*) FROM p GROUP BY day",
)
QUERIES = (
    *(f"SELECT COUNT(*) FROM r WHERE {one}" for one in WHERE),
    *(f"SELECT {one} FROM r" for one in VALUED),
    *(f"SELECT COUNT(*) FROM {one}" for one in FROM),
    *GROUPED,
    *("SELECT", "", "SELECT COUNT(*)", "SELECT 1; SELECT 2", "DROP TABLE r", "SELECT COUNT(*) FROM r LIMIT 0"),
)
DECLARED: dict[str, Any] = {
    "epsilon": 2.0,
    "random_state": 0,
    "bounds": {"r.x": (-2, 8), "r.y": (1, 3), "r.n": (0, 4)},
    "categories": {"r.g": [0, 1, 2, 3], "p.word": ["w0", "w1", "w3"]},
    "bins": {"r.x": [-3, 0, 2, 12], "p.day": [date(2026, 1, 1), date(2026, 7, 1)]},
}
OPTIONS: dict[str, dict[str, Any]] = {
    "rows": {},
    "units": {"unit": "u", "public_tables": ["s"]},
    "added rows, found keys": {
        "neighbors": "add_or_remove",
        "delta": 1e-4,
        "categories": {"r.g": "discover", "r.n": range(6)},
    },
    "limits of units": {"unit": "u", "public_tables": ["s"], "unit_limit": 3, "delta": 1e-6},
    "a race": {"unit": "u", "public_tables": ["s"], "truncation": "race", "interval": False},
    "keys, with a delta": {"keys": {"p": "k"}, "interval": False, "delta": 1e-6},
}


SHOWN = ("rows", "added rows, found keys")
"""Options with which all queries are answered, and every other query with the rest."""


def answer(sql: PrivateSQL, text: str) -> list[Any]:
    found: list[Any] = []
    asked: tuple[Callable[[str], Any], ...] = (sql.explain, sql.plan_for, sql.query)
    for question in asked:
        try:
            found.append(question(text))
        except Exception as error:
            found.append(error)
    return found


@cache
def shop() -> Any:
    """Return a connection to tables with numbers, words, dates and a key."""
    made = duckdb.connect()
    made.execute("CREATE TABLE r (u INTEGER, g INTEGER, x DOUBLE, y INTEGER, n INTEGER NOT NULL, k INTEGER)")
    made.execute(
        "INSERT INTO r SELECT i % 60, i % 3, (i % 13) - 3.0, CASE WHEN i % 5 > 0 THEN i % 4 END, i % 6, i % 17 "
        "FROM range(900) t(i)"
    )
    made.execute("CREATE TABLE s AS SELECT (i % 17)::INTEGER AS k, (i % 6)::INTEGER AS j FROM range(20) t(i)")
    made.execute(
        "CREATE TABLE p AS SELECT i::INTEGER AS k, 'w' || (i % 3) AS word, DATE '2026-01-20' + i::INTEGER * 9 AS day, "
        "i > 5 AS late FROM range(17) t(i)"
    )
    return made


@cache
def connected(options: str) -> PrivateSQL:
    return PrivateSQL(shop(), **{**DECLARED, **OPTIONS[options]})


def play_queries(options: str) -> dict[str, list[Said]]:
    """Return what all queries say."""

    def ask(text: str) -> Any:
        sql = connected(options)
        # Each with noise of its own, so that one more or fewer changes no other.
        sql._source = noise_source(0)
        return answer(sql, text)

    some = QUERIES if options in SHOWN else QUERIES[len(WHERE) :: 2]
    return {text: outcome(partial(ask, text)) for text in some}
