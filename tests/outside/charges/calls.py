"""What releases and is charged: the public call of every entry of the registry, and every command."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpstats.cli import main
from dpstats.cli.output import KeptResults
from dpstats.errors import ChargedError
from dpstats.privacy import PrivacyBudget

sys.path.append(str(Path(__file__).parents[2] / "conformance"))
from registry import ENTRIES

Watch = AbstractContextManager[Any]
STANDS, UNKNOWN = "The charge stands", "may have been stored"


@dataclass(frozen=True)
class Outcome:
    """What a caller sees of a call.

    Attributes
    ----------
    answered, charged : bool
    said : str
        All words of the error, its notes and its arguments.
    states_charge, may_be_charged : bool
        Whether the error states a charge, or that there may be one.
    leaks : bool
        Whether the error leads to another one, whose message may show data.
    """

    answered: bool
    charged: bool
    said: str
    states_charge: bool
    may_be_charged: bool
    leaks: bool = False


@dataclass(frozen=True)
class Call:
    """A call that charges a budget."""

    name: str
    make: Callable[[Watch], Outcome]
    """Makes the call within a context, and nothing else of this package."""


def _entry_call(entry: Any) -> Callable[[Watch], Outcome]:
    neighbors = entry.claim.neighbors

    def make(watch: Watch) -> Outcome:
        budget = PrivacyBudget(1e6, 0.99, neighbors=neighbors)
        try:
            with watch:
                entry.public(entry.dataset, budget)
        except BaseException as error:
            said = " ".join([str(error), *map(str, error.args), *getattr(error, "__notes__", ())])
            if isinstance(error, KeyboardInterrupt):
                said = " ".join(getattr(error, "__notes__", ()))  # an interrupt keeps what it was made with
            states = STANDS in said and (isinstance(error, ChargedError) or not isinstance(error, Exception))
            leaks = error.__cause__ is not None or error.__context__ is not None
            return Outcome(False, budget.spent.epsilon > 0, said, states, UNKNOWN in said, leaks)
        return Outcome(True, budget.spent.epsilon > 0, "", False, False)

    return make


COMMANDS: dict[str, list[str]] = {
    "mean": ["mean", "people.csv", "--column", "age", "--bounds", "0", "100"],
    "mean, adaptive": [
        "mean",
        "people.csv",
        "--column",
        "age",
        "--method",
        "adaptive",
        "--bound",
        "100",
        "--std",
        "10",
    ],
    "sparse-mean": [
        *["sparse-mean", "people.csv", "--column", "age", "--column", "b", "--nonzero", "1"],
        *["--clip", "60", "--std", "10"],
    ],
    "group-means": [
        *["group-means", "people.csv", "--column", "age", "--by", "name", "--groups", "a,b"],
        *["--bounds", "0", "100"],
    ],
    "proportion": ["proportion", "people.csv", "--column", "name=a"],
    "table": ["table", "people.csv", "--levels", "name=a,b"],
    "histogram": ["histogram", "people.csv", "--column", "age", "--bins", "0", "50", "100", "--unknown", "drop"],
    "bounds": ["bounds", "people.csv", "--column", "age"],
    "quantile": ["quantile", "people.csv", "--column", "age", "--bounds", "0", "100"],
    "regress": [*["regress", "people.csv", "--column", " b", "--outcome", "age"], *["--bounds", "0", "9", "age=0,100"]],
    "survival": [*["survival", "people.csv", "--time", "time", "--event", "event", "--horizon", "10"]],
    "conformal": [
        *["conformal", "people.csv", "--column", "age", "--prediction", "z", "--training", "public"],
        *["--score-bounds", "100"],
    ],
    "ks": ["ks", "people.csv", "--column", "age", "--by", "name", "--groups", "a,b"],
    "sql": [
        *["sql", "SELECT SUM(age) FROM p", "--table", "p=people.csv", "--bounds", "p.age=0,100"],
        *["--type", "p.age=DOUBLE"],
    ],
    "statistic": ["statistic", "people.csv", "--column", "age", "--function", "middle:middle", "--epsilon", "20"],
    "identity-test": [*["identity-test", "people.csv", "--column", "z", "--mean", "0"]],
}


def _command_call(arguments: Sequence[str]) -> Callable[[Watch], Outcome]:
    def make(watch: Watch) -> Outcome:
        for name in ("b.db", "b.db.results"):
            Path(name).unlink(missing_ok=True)
        budget = PrivacyBudget(1e6, 0.99, ledger="b.db")
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                with watch:
                    status: Any = main([*arguments, "--budget", "b.db"])
            except BaseException as error:
                status = f"{type(error).__name__}: {error}"
        charged, said = bool(budget.history()), err.getvalue()
        kept = len(KeptResults(Path("b.db")).all())
        if charged and (kept > 0) != ("budget results" in said) and status != 0:
            said += f" (kept {kept} results and says otherwise)"
            status = "kept"
        states = status in (7, 130) and STANDS in said
        return Outcome(status == 0 and bool(out.getvalue()), charged, said, states, UNKNOWN in said)

    return make


@contextmanager
def folder(path: Path) -> Iterator[None]:
    """Work in a folder with the table of the commands."""
    before = Path.cwd()
    rng = np.random.default_rng(0)
    os.chdir(path)
    try:
        frame = pd.DataFrame({"age": rng.integers(0, 100, 1000), "b": rng.integers(0, 9, 1000)})
        frame[" b"], frame["name"] = frame["b"], rng.choice(["a", "b"], 1000)
        frame["z"] = rng.normal(size=1000)
        frame["time"], frame["event"] = rng.uniform(0, 10, 1000), rng.integers(0, 2, 1000)
        frame.to_csv("people.csv", index=False)
        Path("middle.py").write_text("def middle(rows):\n    return float(rows.mean().iloc[0])\n", encoding="utf-8")
        yield
    finally:
        os.chdir(before)


def registered_calls() -> list[Call]:
    """Return the public calls of the registry."""
    return [Call(entry.name, _entry_call(entry)) for entry in ENTRIES if entry.public is not None]


def command_calls() -> list[Call]:
    """Return a call of every command that releases; for use in `folder`."""
    return [Call(f"dpstats {name}", _command_call(words)) for name, words in COMMANDS.items()]
