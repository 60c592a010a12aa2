"""Errors and warnings show no data: not in their message, not in what they were raised from, not in a traceback.

A text and a number that are found nowhere else are planted in data that must be refused, for every estimator, every
mechanism and every command that reads files; and in good data, where the source of noise fails after the charge. These
nets are exact: no test here can raise a false alarm.
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from registry import ENTRIES, Entry
from registry.calls import CALLS
from registry.entry import traits_of
from registry.reading import fit_rows, outcomes, settings, width
from scipy import sparse

from dpstats.cli import main
from dpstats.data.rows import Table
from dpstats.errors import ChargedError, InvalidData
from dpstats.means import ClippedMean, SparseMean
from dpstats.privacy import PrivacyBudget
from dpstats.release.additive import has_private_size
from dpstats.release.noise import ExactNoise
from tests.outside.messages.canaries import chain

SECRET = "hushhush"
NUMBER = 739.1846

# As digits, whatever is done to the number: rounded, cut, or taken as an integer.
TRACES = (SECRET, "739", "1846")

SETTINGS = settings(ENTRIES)
fits = pytest.mark.parametrize("entry", SETTINGS, ids=lambda entry: entry.name)


def texts(error: BaseException, warned: list[warnings.WarningMessage]) -> Iterator[str]:
    """Yield everything that an error and warnings can print, less the paths and lines of code."""
    for one in chain(error):
        yield str(one)
        yield repr(one)
        yield repr(one.args)
        yield repr(getattr(one, "__notes__", ""))
        yield "".join(traceback.format_exception_only(one))
    # Line numbers are no data.
    whole = traceback.format_exception(error)
    yield "".join(line for part in whole for line in part.splitlines() if not line.startswith('  File "'))
    for warning in warned:
        yield f"{warning.message} {warning.message!r}"


@contextmanager
def nothing_shown(kind: type[BaseException]) -> Iterator[None]:
    """Fail unless the block raises an error of a kind, and it and all warnings show nothing that was planted."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            yield
        except kind as error:
            found = error
        else:
            pytest.fail(f"no {kind.__name__} was raised")
    for text in texts(found, warned):
        for trace in TRACES:
            assert trace not in text, f"data in {text[:80]!r}"


# Data that must be refused.


class Unhelpful:
    """A value whose class raises, with data in the message."""

    def __float__(self) -> float:
        raise ValueError(f"cannot convert {SECRET} {NUMBER}")

    def __repr__(self) -> str:
        return f"{SECRET} {NUMBER}"


def bad_rows(n: int, d: int) -> dict[str, Any]:
    """Return tables that every estimator must refuse, by what is wrong with them."""
    good = np.full((n, d), NUMBER)

    def with_entry(entry: Any, dtype: Any = None) -> np.ndarray:
        rows = good.astype(dtype or float)
        rows[n - 1, d - 1] = entry
        return rows

    ragged = [*good.tolist()[:-1], [NUMBER] * (d + 1)]
    return {
        "NaN beside it": with_entry(np.nan),
        "infinite beside it": with_entry(np.inf),
        "NaN in a list": with_entry(np.nan).tolist(),
        "NaN in a frame": pd.DataFrame(with_entry(np.nan), columns=[f"c{j}" for j in range(d)]),
        "text beside it": with_entry(SECRET, object),
        "text in a list": with_entry(SECRET, object).tolist(),
        "text in a frame": pd.DataFrame(with_entry(SECRET, object), columns=[f"c{j}" for j in range(d)]),
        "text": np.full((n, d), SECRET),
        "None in a list": with_entry(None, object).tolist(),
        "an object": with_entry(Unhelpful(), object),
        "an object in a list": with_entry(Unhelpful(), object).tolist(),
        "a mapping as an entry": with_entry({SECRET: NUMBER}, object).tolist(),
        "three dimensions": good[None],
        "ragged": ragged,
        "complex": good + 1j * NUMBER,
        "masked": np.ma.masked_greater(good, 1e9),
        "one row": good[:1],
        "no number": SECRET,
        "a number": NUMBER,
        "a mapping": {SECRET: NUMBER},
        "a set": {SECRET, NUMBER},
    }


@pytest.mark.kinds
@fits
def test_refused_rows_are_not_shown(entry: Entry) -> None:
    options = entry.estimator.get_params()
    budget = PrivacyBudget(1000.0, 0.9, neighbors=entry.claim.neighbors)
    refusing = {name: "error" for name in ("missing", "unknown") if name in options}
    made = type(entry.estimator)(**{**options, **refusing, "random_state": None, "budget": budget})
    found = outcomes(made, np.zeros((6, 1)))
    outcome = () if found is None else (found,)
    excused, bad = traits_of(entry).excused, bad_rows(6, width(entry))
    for name, data in bad.items():
        if "missing rows" in excused and name.startswith(("NaN", "infinite", "None")):
            continue
        if has_private_size(made) and name == "one row":
            continue  # no number of rows is too small
        with nothing_shown(InvalidData):
            made.fit(data, *outcome)
    assert budget.history() == ()


@pytest.mark.parametrize("missing", ["error", "center"])
def test_stored_entries_that_are_refused_are_not_shown(missing: str) -> None:
    twice = sparse.coo_array(([NUMBER] * 4, ([0, 1, 2, 2], [0, 1, 0, 0])), shape=(3, 2))
    beside = sparse.csr_array(np.array([[NUMBER, np.nan], [NUMBER, 0.0]]))
    mean = SparseMean(n_nonzero=1, clip=1.0, std=1.0, missing=missing)
    for table in (twice, *([beside] if missing == "error" else ())):
        with nothing_shown(InvalidData):
            mean.fit(table)


@pytest.mark.parametrize("kind", CALLS, ids=lambda kind: kind.__name__)
def test_refused_values_are_not_shown(kind: type) -> None:
    call = CALLS[kind]
    budget = PrivacyBudget(1000.0, 0.9, neighbors=call.build().guarantee.neighbors)
    for data in call.bad(SECRET, NUMBER).values():
        with nothing_shown(InvalidData):
            call(call.build(budget=budget), data)
    assert budget.history() == ()


# A source of noise that fails, after the charge.


@pytest.fixture
def no_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **options: Any) -> Any:
        raise OSError("the source of randomness is not there")

    for name in ("laplace", "gaussian", "cauchy", "student", "joint", "integers", "top", "candidate"):
        monkeypatch.setattr(ExactNoise, name, fail)


@fits
def test_a_source_that_fails_shows_nothing(entry: Entry, no_noise: None) -> None:
    budget = PrivacyBudget(1000.0, 0.9, neighbors=entry.claim.neighbors)
    options = {**entry.estimator.get_params(), "random_state": None, "budget": budget}
    signs = getattr(entry.estimator, "null", "") == "product"
    made = type(entry.estimator)(**options)
    with nothing_shown(ChargedError):
        fit_rows(made, np.full((6, width(entry)), 1.0 if signs else NUMBER))
    # Charged, and nothing fitted.
    assert len(budget.history()) == 1 and not hasattr(made, "plan_") and not hasattr(made, "privacy_")


@pytest.mark.parametrize("kind", CALLS, ids=lambda kind: kind.__name__)
def test_a_source_that_fails_shows_nothing_of_a_mechanism(kind: type, no_noise: None) -> None:
    call = CALLS[kind]
    budget = PrivacyBudget(1000.0, 0.9, neighbors=call.build().guarantee.neighbors)
    data = call.data(3, np.random.default_rng(0))
    if isinstance(data, float) or (isinstance(data, np.ndarray) and data.dtype.kind == "f"):
        data = NUMBER + 0 * data
    with nothing_shown(ChargedError):
        call(call.build(budget=budget), data)
    assert len(budget.history()) == 1


# Commands.

COMMANDS = {
    "mean": ["--column", "a", "--bounds", "0", "1"],
    "adaptive": ["--column", "a", "--method", "adaptive", "--bound", "9", "--std", "1", "--delta", "1e-6"],
    "sparse-mean": ["--nonzero", "1", "--clip", "6", "--std", "1", "--epsilon", "5"],
    "group-means": ["--column", "a", "--by", "b", "--groups", "x,y", "--bounds", "0", "1"],
    "identity-test": ["--column", "a", "--mean", "0", "--level", "0.4", "--test", "spatial-sign"],
    "quantile": ["--column", "a", "--bounds", "0", "1"],
    "audit": ["--epsilon", "1", "--column", "a", "--column", "b"],
}
FILES: dict[str, str | bytes] = {
    "text": f"a,b\n{SECRET},{SECRET}\n{NUMBER},{NUMBER}\n",
    "an empty cell": f"a,b\n{NUMBER},{NUMBER}\n,\n{NUMBER},\n{NUMBER},{NUMBER}\n",
    "infinite": f"a,b\n{NUMBER},{NUMBER}\ninf,inf\n{NUMBER},{NUMBER}\n",
    "a cell too many": f"a,b\n1,2\n1,2,{NUMBER},{SECRET}\n",
    "an open quote": f'a,b\n1,"{SECRET}\n{NUMBER},2\n',
    "not text": f"a,b\n{SECRET},".encode() + b"\xff\xfe\x00\x81\n",
    "one row": f"a,b\n{NUMBER},{SECRET}\n",
}


def check_command(command: str, name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Fail unless a command refuses a file in one line that shows nothing of it."""
    content = FILES[name]
    file = folder / "rows.csv"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    word = "mean" if command == "adaptive" else command
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        status = main([word, str(file), *COMMANDS[command]])
    captured = capsys.readouterr()
    # Beside its line a command may show how far it is.
    lines = [line for line in captured.err.splitlines() if line.startswith("dpstats ")]
    shown = captured.out + captured.err + "".join(f"{warning.message}" for warning in warned)
    # The folder's name is not the file's content.
    shown = shown.replace(str(folder), "")
    assert status in (2, 3) and captured.out == "" and len(lines) == 1  # usage, data
    assert not any(trace in shown for trace in TRACES), f"data in {shown!r}"


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", FILES)
def test_a_refused_file_is_not_shown(
    command: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check_command(command, name, tmp_path, capsys)


# Bugs, planted: each must fail its net.


def shows(how: str) -> type[ClippedMean]:
    """Planted bug: a refusal shows the rows, one way or another."""

    class Shows(ClippedMean):
        def _read(self, table: Table, plan: Any) -> Any:
            X = np.asarray(table.X)
            if how == "a warning":
                warnings.warn(f"odd rows {X[0]}", stacklevel=2)
                raise InvalidData("X must be finite")
            if how == "the message":
                raise InvalidData(f"X must be finite, got {X[0]}")
            if how == "an argument":
                error = InvalidData("X must be finite")
                error.args = ("X must be finite", X[0, 0])
                raise error
            if how == "a note":
                noted = InvalidData("X must be finite")
                noted.add_note(f"the first row is {X[0]}")
                raise noted
            try:
                float(f"{SECRET} {X[0, 0]}")
            except ValueError as error:
                if how == "the cause":
                    raise InvalidData("X must be finite") from error
                if how == "a suppressed context":
                    raise InvalidData("X must be finite") from None
                raise InvalidData("X must be finite")  # noqa: B904
            return {}

    return Shows


HOW = ["the message", "an argument", "a note", "the cause", "the context", "a suppressed context", "a warning"]


@pytest.mark.parametrize("how", HOW)
def test_data_that_are_shown_would_be_noticed(how: str) -> None:
    made = shows(how)(clip=1.0)
    with pytest.raises(AssertionError, match="data in"), nothing_shown(InvalidData):
        made.fit(np.full((6, 2), NUMBER))


def test_what_is_not_refused_would_be_noticed() -> None:
    with pytest.raises(pytest.fail.Exception, match="no InvalidData"), nothing_shown(InvalidData):
        ClippedMean(clip=1.0).fit(np.full((6, 2), NUMBER))


def test_a_command_that_shows_data_would_be_noticed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpstats.data import text

    def shown(stream: Any, *args: Any, **options: Any) -> Any:
        raise InvalidData(f"cannot read {stream.read().decode().splitlines()[1]!r}")

    monkeypatch.setattr(text, "read_delimited", shown)
    for command in COMMANDS:
        with pytest.raises(AssertionError, match="data in"):
            check_command(command, "text", tmp_path, capsys)
