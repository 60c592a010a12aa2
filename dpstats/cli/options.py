"""Arguments that commands share, and a parser whose errors are one line."""

from __future__ import annotations

import argparse
import csv
import math
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from dpstats.cli.files import drop_stream, path_or_dash
from dpstats.data.labels import printable
from dpstats.errors import InvalidParameter

if TYPE_CHECKING:
    from dpstats.results import Summary


class Parser(argparse.ArgumentParser):
    """A parser that reports an error in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {one_line(message)} (see '{self.prog} --help')\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Reject unknown arguments here, so that the error names the command whose help lists the known ones."""
        known, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return known, unknown

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        try:
            print(end="", flush=True)
        except OSError:
            drop_stream(sys.stdout)  # the reader of the help text has closed the pipe
        super().exit(status, message)


def one_line(message: str) -> str:
    """Return a message on one line, also if it quotes names with line breaks."""
    return printable(" ".join(message.splitlines()))


_PARAMETER = re.compile(r"\b([a-z][a-z_]*)=('[^']*'|True|None)")
_DECLARATION = re.compile(
    r"\b(types|categories|levels|bounds)=\{'([^']*)': (?:'([^']*)'|\[\.\.\.\]|\(low, high\))\}"
)
_LEVELS = ("levels", "A,B,...")
_DECLARED_BY = {
    "types": ("type", ""),
    "categories": _LEVELS,
    "levels": _LEVELS,
    "bounds": ("bounds", "LOW,HIGH"),
}
_SPELLED = (
    ("random_state", "seed", "--seed"),
    ("missing_codes", "na_values", "--na-values"),
    ("bounds_are='hard'", "hard", "--hard"),
    ("declare its encoding, for example", "encoding", "give --encoding, for example"),
    ("FunctionalMechanismRegression", "method", "--method functional"),
    ("None is the level of missing entries", "levels", "the empty level means a missing entry"),
    (
        "in groups (None is the label of missing entries)",
        "groups",
        "by --groups (the empty label means a missing entry)",
    ),
    ("Declare its value in causes or as censored", "cause", "Declare its value by --cause or --censored"),
    ("ClippedMean(...).fit(X).test(value=...)", "", "'dpstats mean --test'"),
    (
        "Convert the guarantee with group_privacy(guarantee, size, unit=...), or declare that every row is one unit "
        "with budget.count_rows_as(unit).",
        "budget",
        "Charge another ledger: 'dpstats budget new --unit NAME' makes one.",
    ),
)
"""What notes and errors say of Python, the option that a command must have, and what it says instead."""
_KEYED = re.compile(r"\b(keys|types|unit)\['([^']*)'\]")
_PATH = re.compile(r"\bunit=\{'([^']*)': '(\S+) -> (\S+)'\}")


def in_options(text: str, options: argparse.Namespace) -> str:
    """Return a note or an error with options in place of parameters: ``missing='drop'`` is ``--missing drop``.

    A parameter that the command lacks is marked as one of Python's, ``types={'r.a': 'DOUBLE'}`` is
    ``--type r.a=DOUBLE``, and ``keys['r']`` is ``--key r``.
    """
    for words, option, instead in _SPELLED:
        if not option or option in options:
            text = text.replace(words, instead)

    def spelled(found: re.Match[str]) -> str:
        name, value = found[1], found[2].strip("'")
        if name not in options:
            return f"{found[0]} in Python"
        option = f"--{name.replace('_', '-')}"
        return option if value == "True" else f"{option} {value}"

    def spell_declaration(found: re.Match[str]) -> str:
        option, values = _DECLARED_BY[found[1]]
        return f"--{option} {found[2]}={found[3] or values}" if option in options else found[0]

    def spell_key(found: re.Match[str]) -> str:
        option = found[1].removesuffix("s")
        return f"--{option} {found[2]}" if option in options else found[0]

    text = _KEYED.sub(spell_key, text)
    if "unit" in options:
        text = _PATH.sub(r"--unit '\1.\2->\3'", text)
    return _PARAMETER.sub(spelled, _DECLARATION.sub(spell_declaration, text))


def spell_notes(table: Summary, options: argparse.Namespace) -> Summary:
    """Return a summary whose notes name options instead of parameters."""
    return replace(table, notes=[in_options(note, options) for note in table.notes])


def split_list(text: str) -> list[str]:
    """Return the words of A,B,... A word with a comma is in double quotes."""
    return next(csv.reader([text]), [])


def join_lists(words: Sequence[str]) -> list[str]:
    """Return the words of a command with every list that begins with a minus joined to its option.

    argparse takes -999,unk for an option, and does not if it is written as --na-values=-999,unk.

    Examples
    --------
    >>> from dpstats.cli.options import join_lists
    >>> join_lists(["--groups", "-1,0,1", "--bounds", "-1e3", "5"])
    ['--groups=-1,0,1', '--bounds', '-1000', '5']
    """
    joined: list[str] = []
    for word in map(_plain_number, words):
        option = joined[-1] if joined else ""
        if _LIST.fullmatch(word) and option.startswith("--") and option != "--" and "=" not in option:
            joined[-1] = f"{option}={word}"
        else:
            joined.append(word)
    return joined


_LIST = re.compile(r"-(?:\.?\d|inf)[^,]*,.*", re.DOTALL)


def _plain_number(word: str) -> str:
    """Return a number such as -1e3 as -1000: argparse takes the former for an option."""
    number = re.fullmatch(r"-(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", word)
    return word if number is None else format(Decimal(word), "f")


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for the output of the result and of remarks."""
    result = parser.add_argument_group("the result")
    result.add_argument(
        "--json",
        type=path_or_dash,
        nargs="?",
        const="-",
        metavar="FILE",
        help="write the result as JSON too; without FILE print it in place of the table",
    )
    result.add_argument("--quiet", action="store_true", help="nothing on standard error but errors")


def add_plot(parser: argparse.ArgumentParser, what: str) -> None:
    """Add where a picture goes."""
    parser.add_argument("--plot", type=Path, metavar="FILE", help=f"draw {what} (png, pdf or svg)")


def check_plot(path: Path | None) -> None:
    """Refuse a picture that cannot be drawn: of another kind, or without what draws it."""
    if path is None:
        return
    if path.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise InvalidParameter(f"--plot must name a png, pdf or svg file, got {path}")
    if find_spec("matplotlib") is None:
        raise ModuleNotFoundError("no matplotlib", name="matplotlib")


def add_privacy(
    parser: argparse.ArgumentParser,
    delta: float | None = None,
    *,
    missing: Sequence[str] = (),
    neighbors: bool = False,
) -> None:
    """Add the guarantee of a release, and its neighbors and treatment of missing entries if they can be chosen."""
    parser.add_argument(
        "--epsilon", type=float, default=1.0, metavar="E", help="of the guarantee (default: 1)"
    )
    if delta is not None:
        parser.add_argument(
            "--delta",
            type=float,
            default=delta,
            metavar="D",
            help=f"of the guarantee (default: {delta:g}); 0 is pure privacy, with Laplace noise",
        )
    if neighbors:
        add_neighbors(parser)
    if missing:
        words = ", ".join(f"{word}: {_MISSING[word]}" for word in missing)
        parser.add_argument(
            "--missing", choices=missing, default="error", help=f"what a missing entry does ({words})"
        )


_MISSING = {
    "error": "refuse the data, the default",
    "drop": "leave its row out",
    "center": "count as the center, which is public",
}


def add_neighbors(parser: argparse.ArgumentParser) -> None:
    """Add the neighboring files of a guarantee."""
    parser.add_argument(
        "--neighbors",
        choices=["replace_one", "add_or_remove"],
        default="replace_one",
        help="neighboring files: one row replaced (default), or one row added or removed. The number of rows is "
        "then private",
    )


def check_ends(low: float, high: float) -> None:
    """Raise an error for public bounds without a finite middle and width."""
    if not low < high:
        raise InvalidParameter(f"--bounds must be two numbers LO < HI, got {low:g} {high:g}")
    if not math.isfinite(high - low) or not math.isfinite(high + low):
        raise InvalidParameter(f"--bounds must have a finite sum and difference, got {low:g} {high:g}")


def per_column(option: str, values: list[Any], d: int) -> Any:
    """Return a single value for all columns, or a list with a value per column."""
    if len(values) not in (1, d):
        raise InvalidParameter(
            f"{option} must be given once, or once per column ({d}), got {len(values)} times"
        )
    return values[0] if len(values) == 1 else values


def numbers_of(option: str, texts: list[str], words: str) -> list[float]:
    """Return the numbers of an option that also takes words."""
    try:
        return [float(text) for text in texts]
    except ValueError:
        raise InvalidParameter(f"{option} must be {words}, got {', '.join(map(repr, texts))}") from None
