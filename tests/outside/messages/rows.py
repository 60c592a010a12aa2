"""Rows with one odd canary through every fit, and files of them through every command: nothing released shows it."""

from __future__ import annotations

import contextlib
import io
import pickle
import struct
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd

from dpstats.cli import main
from dpstats.privacy import PrivacyBudget
from tests.outside.messages.canaries import Canaries, texts
from tests.outside.messages.net import Count, work_folder

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "conformance"))

_PICTURES = ("plot",)
_TEXTS = ("summary", "methods_text", "to_markdown", "to_latex", "_repr_html_")


def forms(number: float) -> list[bytes]:
    """Return the bytes of a number in a pickle, of either byte order and of 32 bits."""
    return [struct.pack(form, number) for form in ("<d", ">d", "<f", ">f")]


def fitted_texts(made: Any) -> Iterator[str]:
    """Yield every text of a fitted estimator: its words, its attributes, its plan, its receipt and its picture."""
    yield repr(made)
    yield repr({name: value for name, value in vars(made).items() if name[0] != "_"})
    yield f"{made.plan_} {made.privacy_} {made.plan_.notes()}"
    for name in _TEXTS:
        if hasattr(made, name):
            with contextlib.suppress(NotImplementedError):
                yield str(getattr(made, name)())
    if hasattr(made, "to_html"):
        made.to_html(page := Path("page.html"))
        yield page.read_text(encoding="utf-8")
    if hasattr(made, "receipt"):
        yield str(made.receipt())
    for name in _PICTURES:
        if hasattr(made, name):
            with contextlib.suppress(ImportError), io.StringIO() as file:
                drawn = getattr(made, name)()
                getattr(drawn, "figure", drawn).savefig(file, format="svg")
                yield file.getvalue()


def fit_rows(seed: int, deadline: float, most: int | None = None) -> Count:
    """Fit the estimators of the registry, in a random order, to rows of which one is a canary."""
    from registry import ENTRIES, reading

    rng = Random(seed)
    canaries, count = Canaries.draw(rng), Count(seed)
    entries = reading.settings(ENTRIES)
    rng.shuffle(entries)
    # The registry takes longer to build than some shares of time.
    deadline = max(deadline, time.monotonic() + 5)
    with work_folder() as folder:
        for entry in entries[:most]:
            if time.monotonic() > deadline:
                break
            ledger = folder / f"{len(count.tried)}.db"
            rows = np.random.default_rng(seed).uniform(-1, 1, (60, reading.width(entry)))
            rows[rng.randrange(60)] = number = rng.choice(canaries.numbers)
            options = {
                **entry.estimator.get_params(),
                "random_state": None,
                "budget": PrivacyBudget(1e4, 0.9, neighbors=entry.claim.neighbors, ledger=ledger),
            }
            made = type(entry.estimator)(**options)
            data = reading.fit_data(made, rows)
            count.tried.add((entry.name, "rows"))
            said = io.StringIO()
            with warnings.catch_warnings(record=True) as warned, contextlib.redirect_stderr(said):
                warnings.simplefilter("always")
                try:
                    found = list(fitted_texts(made.fit(*data)))
                    kept = pickle.dumps({name: value for name, value in vars(made).items() if name != "budget"})
                    count.outcomes["fitted"] += 1
                except Exception as error:
                    found, kept = list(texts(error)), b""
                    count.outcomes[f"ended by {type(error).__name__}"] += 1
            found += [str(warning.message) for warning in warned] + [said.getvalue()]
            kept += ledger.read_bytes() if ledger.exists() else b""
            shown = next((text for text in found if canaries.find(text, rounded=False)), None)
            if shown is not None or any(form in kept for form in forms(number)):
                what = "pickle or ledger" if shown is None else shown.strip()[:300]
                count.leaks.append(f"{entry.name}: {number} in {what!r}")
    return count


def run_commands(seed: int, deadline: float, share: float = 1.0) -> Count:
    """Run every command with every option, on a file with odd rows; then with a private file in the option's place."""
    from tests.cli.test_options_arrive import OPTIONS

    rng = Random(seed)
    canaries, count = Canaries.draw(rng), Count(seed)
    cases = [
        (command.name, option, given)
        for command, changes in OPTIONS.values()
        for option, (_, given, _) in changes.items()
    ]
    rng.shuffle(cases)
    with work_folder() as folder:
        for name, option, given in cases[: max(1, round(share * len(cases)))]:
            for odd in ("number", "word", "missing"):
                if time.monotonic() > deadline:
                    return count
                file = _write(folder / "rows.csv", canaries, odd, rng)
                _check(canaries, count, folder, [name, str(file), *given], (name, f"file with a {odd}"))
            flag = f"--{option.replace('_', '-')}"
            if flag in given[:-1]:
                place = given.index(flag) + 1
                private = _write(folder / "private.csv", canaries, "word", rng)
                arguments = [*given[:place], str(private), *given[place + 1 :]]
                _check(canaries, count, folder, [name, str(file), *arguments], (name, flag))
    return count


def _write(file: Path, canaries: Canaries, odd: str, rng: Random) -> Path:
    frame = pd.DataFrame({name: np.linspace(0, 1, 50).round(2) for name in "abc"}, dtype=object)
    entries = {"number": canaries.numbers, "word": canaries.words, "missing": (None,)}[odd]
    for name in frame:
        frame.loc[rng.randrange(50), name] = rng.choice(entries)
    frame.to_csv(file, index=False)
    return file


def _check(canaries: Canaries, count: Count, folder: Path, arguments: list[str], which: tuple[str, str]) -> None:
    count.tried.add(which)
    said = io.StringIO()
    with (
        warnings.catch_warnings(record=True) as warned,
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(said),
    ):
        warnings.simplefilter("always")
        try:
            status: Any = main(arguments)
        except SystemExit as end:
            status = end.code
    count.outcomes[f"ended with status {status}"] += 1
    text = f"{said.getvalue()} {[str(warning.message) for warning in warned]}".replace(str(folder), "")
    if (trace := canaries.find(text, rounded=False)) is not None:
        count.leaks.append(f"dpstats {' '.join(arguments)}: {trace!r} in {text.strip()[:300]!r}")
