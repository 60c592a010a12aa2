"""Containers of canaries, which are numbers and words that are found nowhere else, and their traces in a text."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

LETTERS = "qxzjkvw"
SIZES = (1, 2, 4, 7, 12, 60)


@dataclass(frozen=True)
class Canaries:
    """Rare numbers and words, and the digits and letters that show them, rounded or not."""

    numbers: tuple[float, ...]
    words: tuple[str, ...]

    @classmethod
    def draw(cls, rng: Random) -> Canaries:
        """Draw three numbers with exact fractions, and three words."""
        numbers = tuple(rng.randrange(23_457, 98_765) + rng.choice((25, 27, 29, 45, 55, 59)) / 64 for _ in range(3))
        words = tuple("".join(rng.choices(LETTERS, k=9)) for _ in range(3))
        return cls(numbers, words)

    def traces(self, rounded: bool = True) -> re.Pattern[str]:
        """Return a pattern of what must not occur. Rounded numbers may occur by chance among released ones."""
        numbers = [form for number in self.numbers for form in (str(int(number)), str(round(number)))]
        if rounded:
            numbers += [re.escape(f"{number:.{digits}g}") for number in self.numbers for digits in (3, 4)]
        words = "|".join(word[:6] for word in self.words)
        # The digits of another number behind its point are no trace.
        return re.compile(rf"{words}|(?<![\d.])(?:{'|'.join(numbers)})(?!\d)")

    def find(self, text: str, rounded: bool = True) -> str | None:
        """Return the first trace in a text, or None."""
        plain = re.sub(r"(?<=\d)[,_\u202f](?=\d{3})", "", text).lower()
        found = self.traces(rounded).search(plain)
        return None if found is None else found.group()

    def containers(self, rng: Random, folder: Path) -> dict[str, Callable[[], Any]]:
        """Return makers of private containers by name. A generator is read once, so each call makes a new one."""
        size = rng.choice(SIZES)
        numbers = [rng.choice(self.numbers) for _ in range(size)]
        words = [rng.choice(self.words) for _ in range(size)]
        mixed = [rng.choice((number, word)) for number, word in zip(numbers, words, strict=True)]

        def path() -> Path:
            file = folder / "column.csv"
            pd.DataFrame({"a": numbers, "b": words}).to_csv(file, index=False)
            return file

        return {
            "list of numbers": lambda: list(numbers),
            "list of words": lambda: list(words),
            "mixed list": lambda: list(mixed),
            "list of lists": lambda: [[number] for number in numbers],
            "list of pairs": lambda: list(zip(numbers, words, strict=True)),
            "array of numbers": lambda: np.array(numbers),
            "array of words": lambda: np.array(words),
            "array of objects": lambda: np.array(mixed, dtype=object),
            "matrix": lambda: np.array([numbers, numbers]),
            "Series of numbers": lambda: pd.Series(numbers, name="a"),
            "Series of words": lambda: pd.Series(words, name="b"),
            "indexed Series": lambda: pd.Series([1.0] * size, index=words),
            "categorical": lambda: pd.Series(words, name="b", dtype="category"),
            "frame": lambda: pd.DataFrame({"a": numbers, "b": words}),
            "polars Series": lambda: pl.Series("a", numbers),
            "polars frame": lambda: pl.DataFrame({"a": numbers, "b": words}),
            "Arrow column": lambda: pa.array(words),
            "dict of words": lambda: dict(zip(words, numbers, strict=True)),
            "dict of numbers": lambda: dict(zip(numbers, words, strict=True)),
            "dict of lists": lambda: {"a": list(numbers), "b": list(words)},
            "set": lambda: set(words),
            "tuple": lambda: tuple(mixed * 4),
            "generator": lambda: (entry for entry in mixed),
            "bytes": lambda: " ".join(words).encode(),
            "long text": lambda: " ".join(words * 8),
            "path": path,
        }


def chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and all that it was raised from or beside, suppressed or not."""
    left, seen = [error], set()
    while left:
        one = left.pop()
        if id(one) not in seen:
            seen.add(id(one))
            yield one
            left += [other for other in (one.__cause__, one.__context__) if other is not None]
            left += getattr(one, "exceptions", ())


def texts(error: BaseException) -> Iterator[str]:
    """Yield everything that an error can print, less lines of code."""
    for one in chain(error):
        yield f"{type(one).__name__}: {one}"
        yield repr(one.args)
        yield repr(vars(one))
        yield repr(getattr(one, "__notes__", ""))
        yield "".join(traceback.format_exception_only(one))
