"""Descriptions of options in text, options that commands share, and the words of options in errors and notes."""

from __future__ import annotations

import argparse
import csv
import math
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from dpstats.cli.files import drop_stream, path_or_dash
from dpstats.data.labels import printable
from dpstats.errors import InvalidParameter, Refusal, refuse

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


# Descriptions

_TYPES: dict[str, Callable[[str], Any]] = {
    "float": float,
    "int": int,
    "path": Path,
    "path or dash": path_or_dash,
}


def add_options(parser: Any, text: str, **types: Callable[[str], Any]) -> None:
    """Add the options that a text describes. ``types`` are the types of some options, by their names in Python.

    An option is a line, and its help is the indented lines below it::

        --bounds LO HI, float, repeated, required
            public bounds of the column
        --method {clipped,adaptive}, default clipped
            how rows are limited
        --hard
            the bounds hold by nature
        --json [FILE], const -
            where the result goes

    After the names are the words for its values: none for a flag, "..." at the end for one value or more, and brackets
    if the value may be left out. An underscore stands for a space. A name without dashes is an argument.
    """
    described: list[tuple[str, list[str]]] = []
    for line in filter(str.strip, text.expandtabs().splitlines()):
        if re.match(r" {8}\S|\t{2}", line):
            described[-1][1].append(line.strip())
        else:
            described.append((line.strip(), []))
    for head, help_text in described:
        words, *facts = head.split(", ")
        names = [word for i, word in enumerate(words.split()) if word.startswith("-") or i == 0]
        values = words.split()[len(names) :]
        given: dict[str, Any] = {"help": " ".join(help_text) or None}
        own = names[-1].lstrip("-").replace("-", "_")
        if values and values[0].startswith("["):
            given["nargs"], values = "?", [values[0].strip("[]")]
        if not values and names[0].startswith("-"):
            given["action"] = "store_true"
        elif values and values[0].startswith("{"):
            given["choices"] = values[0].strip("{}").split(",")
        elif values:
            several = values[-1] == "..."
            shown = tuple(value.replace("_", " ") for value in values[: len(values) - several])
            given["metavar"] = shown[0] if len(shown) == 1 else shown
            if several or len(shown) > 1:
                given["nargs"] = "+" if several else len(shown)
        for fact in facts:
            if fact in _TYPES:
                given["type"] = _TYPES[fact]
            elif fact == "required":
                given["required"] = True
            elif fact in ("repeated", "extended"):
                given["action"] = {"repeated": "append", "extended": "extend"}[fact]
            else:
                key, _, value = fact.partition(" ")
                given[key] = given.get("type", str)(value)
        if own in types:
            given["type"] = types[own]
        parser.add_argument(*names, **given)


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for the output of the result and of remarks."""
    add_options(parser.add_argument_group("the result"), _JSON + QUIET)


_JSON = """
    --json [FILE], path or dash, const -
        write the result as JSON too; without FILE print it in place of the table
"""
QUIET = """
    --quiet
        nothing on standard error but errors
"""


def add_plot(parser: argparse.ArgumentParser, what: str) -> None:
    """Add where a picture goes."""
    add_options(parser, f"    --plot FILE, path\n        draw {what} (png, pdf or svg)")


def check_plot(path: Path | None) -> None:
    """Refuse a picture that cannot be drawn: of another kind, or without what draws it."""
    if path is None:
        return
    if path.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise refuse("--plot", got=str(path), allowed="name a png, pdf or svg file")
    if find_spec("matplotlib") is None:
        raise ModuleNotFoundError("no matplotlib", name="matplotlib")


NEIGHBORS = """
    --neighbors {replace_one,add_or_remove}, default replace_one
        neighboring files: one row replaced (default), or one row added or removed. The number of rows is then private
"""
_MISSING = {
    "error": "refuse the data, the default",
    "drop": "leave its row out",
    "center": "count as the center, which is public",
}


def add_privacy(
    parser: argparse.ArgumentParser,
    delta: float | None = None,
    *,
    missing: Sequence[str] = (),
    neighbors: bool = False,
) -> None:
    """Add the guarantee of a release, and its neighbors and treatment of missing entries if they can be chosen."""
    text = "    --epsilon E, float, default 1\n        of the guarantee (default: 1)\n"
    if delta is not None:
        words = f"of the guarantee (default: {delta:g}); 0 is pure privacy, with Laplace noise"
        text += f"    --delta D, float, default {delta}\n        {words}\n"
    if neighbors:
        text += NEIGHBORS
    if missing:
        words = ", ".join(f"{word}: {_MISSING[word]}" for word in missing)
        choices = "{" + ",".join(missing) + "}"
        text += f"    --missing {choices}, default error\n        what a missing entry does ({words})\n"
    add_options(parser, text)


# Words of options

_OPTIONS = {
    "random_state": "seed",
    "missing_codes": "na_values",
    "confidence_level": "confidence",
    "bounds_are": "hard",
    "categories": "levels",
    "types": "type",
    "keys": "key",
    "causes": "cause",
    "n_outputs": "outputs",
    "n_simulations": "simulations",
    "n_jobs": "jobs",
}
"""Options with another name than their parameter."""
_ARGUMENTS = ("", "file", "ledger", "name", "query")
"""Arguments without dashes."""
_PYTHON = re.compile(r"\b([a-z]\w*)=(?:'([^']*)'|(True|None)|\{'([^']*)': ([^}]*)\})")
_VALUES = {"[...]": "A,B,...", "(low, high)": "LOW,HIGH"}


def in_options(error: BaseException, options: argparse.Namespace) -> str:
    """Return the words of an error, with options in place of parameters."""
    text = str(error)
    if not isinstance(error, Refusal) or error.parameter is None:
        return spell(text, options)
    name, rest = re.match(r"(\w*)(.*)", error.parameter, re.DOTALL).groups()  # type: ignore[union-attr]
    option, text = _option(name, options), text.removeprefix(error.parameter)
    for part in filter(None, (error.allowed, error.remedy)):
        text = text.replace(part, spell(part, options), 1)
    if option is None:
        return error.parameter + text
    # A parameter of several declarations names the one that is meant.
    return option + re.sub(r"^\['([^']*)'\]", r" \1", rest) + text


def _option(name: str, options: argparse.Namespace) -> str | None:
    """Return the option of a parameter, if the command has it."""
    for own in (name, _OPTIONS.get(name, "")):
        if own in options and own not in _ARGUMENTS:
            return f"--{own.replace('_', '-')}"
    return None


def spell(text: str, options: argparse.Namespace) -> str:
    """Return a text with options in place of parameters.

    ``missing='drop'`` becomes ``--missing drop``, and ``types={'r.a': 'DOUBLE'}`` becomes ``--type r.a=DOUBLE``. A
    parameter without an option is marked as one of Python's.
    """

    def spelled(found: re.Match[str]) -> str:
        name, word, constant, key, value = found.groups()
        option = _option(name, options)
        if option is None:
            return found[0] if key else f"{found[0]} in Python"
        if key and name == "unit":
            path = value.strip("'").replace(" ", "")
            return f"{option} '{key}.{path}'"
        if key:
            return f"{option} {key}={_VALUES.get(value, value.strip(chr(39)))}"
        return option if constant == "True" or name == "bounds_are" else f"{option} {word or constant}"

    return _PYTHON.sub(spelled, text)


def spell_notes(table: Summary, options: argparse.Namespace) -> Summary:
    """Return a summary whose notes name options instead of parameters."""
    notes = [spell(note, options) for note in table.notes]
    for words, option in _NOTED.items():
        notes = [note.replace(words, option) for note in notes]
    return replace(table, notes=notes)


_NOTED = {
    "random_state": "--seed",
    "missing_codes": "--na-values",
    "ClippedMean(...).fit(X).test(value=...)": "'dpstats mean --test'",
}
"""What notes say of Python, and what commands have."""


# Values of options


def split_list(text: str) -> list[str]:
    """Return the words of A,B,... A word with a comma is in double quotes."""
    return next(csv.reader([text]), [])


_LIST = re.compile(r"-(?:\.?\d|inf)[^,]*,.*", re.DOTALL)


def join_lists(words: Sequence[str]) -> list[str]:
    """Return the words of a command with every list that begins with a minus joined to its option.

    argparse takes -999,unk for an option, and does not if it is written as --na-values=-999,unk. It takes -1e3 for one
    too, and not -1000.

    Examples
    --------
    >>> from dpstats.cli.options import join_lists
    >>> join_lists(["--groups", "-1,0,1", "--bounds", "-1e3", "5"])
    ['--groups=-1,0,1', '--bounds', '-1000', '5']
    """
    joined: list[str] = []
    for word in words:
        if re.fullmatch(r"-(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", word):
            word = format(Decimal(word), "f")
        option = joined[-1] if joined else ""
        if _LIST.fullmatch(word) and option.startswith("--") and option != "--" and "=" not in option:
            joined[-1] = f"{option}={word}"
        else:
            joined.append(word)
    return joined


def refuse_both(one: str, other: str, remedy: str = "Remove one of them.") -> InvalidParameter:
    """Return the error for two options that do not go together."""
    return refuse(one, allowed=f"not be given with {other}", remedy=remedy)


def check_ends(low: float, high: float) -> None:
    """Raise an error for public bounds without a finite middle and width."""
    if not low < high:
        raise refuse("--bounds", got=f"{low:g} {high:g}", allowed="two numbers LO < HI")
    if not math.isfinite(high - low) or not math.isfinite(high + low):
        raise refuse("--bounds", got=f"{low:g} {high:g}", allowed="have a finite sum and difference")


def per_column(option: str, values: list[Any], d: int) -> Any:
    """Return a single value for all columns, or a list with a value per column."""
    if len(values) not in (1, d):
        allowed = f"be given once, or once per column ({d})"
        raise refuse(option, got=f"{len(values)} times", allowed=allowed)
    return values[0] if len(values) == 1 else values


def numbers_of(option: str, texts: list[str], words: str) -> list[float]:
    """Return the numbers of an option that also takes words."""
    try:
        return [float(text) for text in texts]
    except ValueError:
        raise refuse(option, got=", ".join(map(repr, texts)), allowed=words) from None


def given(options: argparse.Namespace, names: str, **others: str) -> dict[str, Any]:
    """Return the values of options by the names of parameters; ``others`` are those with another name."""
    return {
        name: getattr(options, option) for name, option in ({n: n for n in names.split()} | others).items()
    }


def check_one(options: argparse.Namespace, what: str = "") -> str:
    """Return the only ``--column``."""
    if options.column is None or len(options.column) != 1:
        raise refuse("--column", allowed="be given once" + what)
    return str(options.column[0])
