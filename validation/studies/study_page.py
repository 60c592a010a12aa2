"""What studies share: numbers that the command line may change, a page that is printed, and written to the results."""

from __future__ import annotations

import argparse
import inspect
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any


def _ask(about: str | None, numbers: dict[str, int], only: str = "") -> dict[str, Any]:
    """Return the numbers, whether nothing is written, and with ``only`` the text that names the asked cells."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, usual in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=usual)
    if only:
        parser.add_argument("--only", default="", help=f"text in {only}")
    parser.add_argument("--no-write", action="store_true", help="print only")
    return vars(parser.parse_args())


def write_page(page: Callable[..., str], results: Path, **numbers: int) -> None:
    """Print the page of a study, and write it unless ``--no-write`` is given.

    ``numbers`` are options with their defaults. ``page`` takes them in this order, and then the command that makes the
    page again if it has a parameter ``command``.
    """
    script = Path(inspect.getfile(page))
    asked = _ask(inspect.getmodule(page).__doc__, numbers)
    no_write = asked.pop("no_write")
    options = "".join(f" --{name} {number}" for name, number in asked.items())
    with_command = "command" in inspect.signature(page).parameters
    text = page(*asked.values(), *[f"python validation/studies/{script.name}{options}"] * with_command)
    print(text)
    if not no_write:
        results.write_text(text, encoding="utf-8")


def table_page(title: str, command: str, words: str, header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a page with one table, after its command and what its columns are."""
    rows = ["| " + " | ".join(line) + " |" for line in lines]
    table = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header), *rows]
    return f"# {title}\n\n{time.strftime('%Y-%m-%d')}: `{command}`\n\n{words}\n\n" + "\n".join(table) + "\n"


def write_cells(
    cells: Iterable[Any],
    measured: Callable[..., list[str]],
    page: Callable[..., str],
    results: Path,
    name: Callable[[Any], str] = lambda cell: cell.name,
    **numbers: int,
) -> None:
    """Measure the cells of a study one after another, print their lines, and write the page of all of them."""
    asked = _ask(inspect.getmodule(page).__doc__, numbers, only="the name of a cell")
    no_write, only = asked.pop("no_write"), asked.pop("only")
    lines = []
    for cell in cells:
        if only in name(cell):
            lines.append(measured(cell, *asked.values()))
            print(" | ".join(lines[-1]), flush=True)
    if not (no_write or only):
        results.write_text(page(lines, *asked.values()), encoding="utf-8")
