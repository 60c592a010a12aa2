"""Options of commands: descriptions in text, words in errors, and values."""

from __future__ import annotations

import argparse
import csv
import importlib
import math
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

from dpstats.cli.output import drop_stream, path_or_address, path_or_dash
from dpstats.data.parameters import printable
from dpstats.errors import InvalidParameter, Refusal, refuse, show

if TYPE_CHECKING:
    from dpstats.inference.results import Summary

# Modules that load at their first use


class _Deferred(ModuleType):
    """A module that is not loaded yet. Its first use loads it, and it stands for the loaded one from then on.

    scikit-learn and scipy import pandas, `scipy.stats` and others, and use them for nothing that most commands do.
    They would take half of the time of a command. A process that is not the command's own loads modules as ever.
    """

    def __getattr__(self, name: str) -> Any:
        found = sys.modules.get(self.__name__)
        if found is None:
            # The import system asks for what a module that it makes has already.
            raise AttributeError(name)
        if found is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)


class _Finder(MetaPathFinder, Loader):
    def __init__(self, names: Sequence[str]) -> None:
        self._names = set(names)

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        # A module is deferred once: its second import is its first use.
        if name not in self._names or PathFinder.find_spec(name, path) is None:
            return None
        self._names.remove(name)
        return ModuleSpec(name, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Deferred(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Load nothing."""


def defer(*names: str) -> None:
    """Load these modules at their first use, where they are not loaded yet."""
    sys.meta_path.insert(0, _Finder(names))


# The parser


class Parser(argparse.ArgumentParser):
    """A parser that reports an error in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {one_line(message)} (see '{self.prog} --help')\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Reject unknown arguments here, so that the error names the command whose help lists the known ones."""
        known, unknown = super().parse_known_args(args, namespace)
        if unknown:
            import difflib

            # An option of another command, or a misspelled one: the nearest of this command.
            wrong = unknown[0].partition("=")[0]
            near = difflib.get_close_matches(wrong, self._option_string_actions, n=1, cutoff=0.8)
            meant = f". Did you mean {near[0]}?" if wrong.startswith("--") and near else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{meant}")
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


# Descriptions of options

_OPTION_TYPES: dict[str, Callable[[str], Any]] = {
    "float": float,
    "int": int,
    "path": Path,
    "path or dash": path_or_dash,
    "path or address": path_or_address,
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
            if shown:
                given["metavar"] = shown[0] if len(shown) == 1 else shown
            if several or len(shown) > 1:
                given["nargs"] = "+" if several else len(shown)
        for fact in facts:
            if fact in _OPTION_TYPES:
                given["type"] = _OPTION_TYPES[fact]
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


# Options that commands share

_JSON_OPTION = """
    --json [FILE], path or dash, const -
        write the result as JSON too; without FILE print it in place of the table
"""
QUIET = """
    --quiet
        nothing on standard error but errors
"""


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for the output of the result and of remarks."""
    add_options(parser.add_argument_group("the result"), _JSON_OPTION + QUIET)


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
_MISSING_POLICIES = {
    "error": "refuse the data, the default",
    "drop": "leave its row out",
    "center": "count as the center, which is public",
}


def add_privacy(
    parser: argparse.ArgumentParser, delta: float | None = None, *, missing: Sequence[str] = (), neighbors: bool = False
) -> None:
    """Add the guarantee of a release, and its neighbors and treatment of missing entries if they can be chosen."""
    text = "    --epsilon E, float, default 1\n        of the guarantee (default: 1)\n"
    if delta is not None:
        words = f"of the guarantee (default: {delta:g}); 0 is pure privacy, with Laplace noise"
        text += f"    --delta D, float, default {delta}\n        {words}\n"
    if neighbors:
        text += NEIGHBORS
    if missing:
        words = ", ".join(f"{word}: {_MISSING_POLICIES[word]}" for word in missing)
        choices = "{" + ",".join(missing) + "}"
        text += f"    --missing {choices}, default error\n        what a missing entry does ({words})\n"
    add_options(parser, text)


# Words of options in errors and notes

_OTHER_NAMES = {
    "random_state": "seed",
    "missing_codes": "na_values",
    "confidence_level": "confidence",
    "bounds_are": "hard",
    "categories": "levels",
    "types": "type",
    "keys": "key",
    "causes": "cause",
    "n_outputs": "outputs",
    "n_points": "points",
    "n_simulations": "simulations",
    "n_jobs": "jobs",
}
"""Options with another name than their parameter."""
_UNDASHED = ("", "file", "ledger", "name", "query")
"""Arguments without dashes."""


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
    # A parameter of several declarations names one of them.
    return option + re.sub(r"^\['([^']*)'\]", r" \1", rest) + text


def _option(name: str, options: argparse.Namespace) -> str | None:
    """Return the option of a parameter, if the command has it."""
    for own in (name, _OTHER_NAMES.get(name, "")):
        if own in options and own not in _UNDASHED:
            return f"--{own.replace('_', '-')}"
    return None


_PYTHON_ARGUMENT = re.compile(r"\b([a-z]\w*)=(?:'([^']*)'|(True|None)|\{'([^']*)': ([^}]*)\})(?! in Python)")
_SPELLED_VALUES = {"[...]": "A,B,...", "(low, high)": "LOW,HIGH"}


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
            return f"{option} {key}={_SPELLED_VALUES.get(value, value.strip(chr(39)))}"
        return option if constant == "True" or name == "bounds_are" else f"{option} {word or constant}"

    return _PYTHON_ARGUMENT.sub(spelled, text)


_SPELLED_NOTES = {
    "random_state": "--seed",
    "missing_codes": "--na-values",
    "ClippedMean(...).fit(X).test(value=...)": "'dpstats mean --test'",
}
"""What notes say of Python, and what commands have."""


def spell_notes(table: Summary, options: argparse.Namespace) -> Summary:
    """Return a summary whose notes name options instead of parameters."""
    notes = [spell(note, options) for note in table.notes]
    for words, option in _SPELLED_NOTES.items():
        notes = [note.replace(words, option) for note in notes]
    return replace(table, notes=notes)


# Values of options


def given(options: argparse.Namespace, names: str, **others: str) -> dict[str, Any]:
    """Return the values of options by the names of parameters; ``others`` are those with another name."""
    return {name: getattr(options, option) for name, option in ({n: n for n in names.split()} | others).items()}


def split_list(text: str) -> list[str]:
    """Return the words of A,B,... A word with a comma is in double quotes."""
    return next(csv.reader([text]), [])


_NEGATIVE_LIST = re.compile(r"-(?:\.?\d|inf)[^,]*,.*", re.DOTALL)


def join_lists(words: Sequence[str]) -> list[str]:
    """Return the words of a command with every list that begins with a minus joined to its option.

    argparse takes -999,unk for an option, and does not if it is written as --na-values=-999,unk. It takes -1e3 for one
    too, and not -1000.

    Examples
    --------
    >>> from dpstats.cli.options import join_lists
    >>> join_lists(["--groups", "-1,0,1", "--bounds", "-1e3", "5"])
    ['--groups=-1,0,1', '--bounds', '-1000', '5']
    >>> join_lists(["--bounds", "private"])
    ['--private-bounds']
    >>> join_lists(["--bounds", "private", "cost=0,10"])
    ['--private-bounds', '--bounds', 'cost=0,10']
    """
    joined: list[str] = []
    for word in words:
        if re.fullmatch(r"-(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", word):
            word = format(Decimal(word), "f")
        option = joined[-1] if joined else ""
        if _NEGATIVE_LIST.fullmatch(word) and option.startswith("--") and option != "--" and "=" not in option:
            joined[-1] = f"{option}={word}"
        elif (option, word) == ("--bounds", "private"):
            # The option of two numbers cannot take a word.
            joined[-1] = "--private-bounds"
        else:
            # Bounds of named columns may follow.
            joined += ["--bounds"] * (option == "--private-bounds" and bool(_NAMED.search(word))) + [word]
    return joined


def numbers_of(option: str, texts: list[str], words: str) -> list[float]:
    """Return the numbers of an option that also takes words."""
    try:
        return [float(text) for text in texts]
    except ValueError:
        raise refuse(option, got=", ".join(map(repr, texts)), allowed=words) from None


def per_column(option: str, values: list[Any], d: int) -> Any:
    """Return a single value for all columns, or a list with a value per column."""
    if len(values) not in (1, d):
        allowed = f"be given once, or once per column ({d})"
        raise refuse(option, got=f"{len(values)} times", allowed=allowed)
    return values[0] if len(values) == 1 else values


def check_one(options: argparse.Namespace, what: str = "") -> str:
    """Return the only ``--column``."""
    if options.column is None or len(options.column) != 1:
        raise refuse("--column", allowed="be given once" + what)
    return str(options.column[0])


def check_ends(low: float, high: float) -> None:
    """Raise an error for public bounds without a finite middle and width."""
    if not low < high:
        raise refuse("--bounds", got=f"{low:g} {high:g}", allowed="two numbers LO < HI")
    if not math.isfinite(high - low) or not math.isfinite(high + low):
        raise refuse("--bounds", got=f"{low:g} {high:g}", allowed="have a finite sum and difference")


def refuse_both(one: str, other: str, remedy: str = "Remove one of them.") -> InvalidParameter:
    """Return the error for two options that do not go together."""
    return refuse(one, allowed=f"not be given with {other}", remedy=remedy)


# Bounds and levels of named columns

Pair = tuple[float, float]
Pairs = list[Any]
PRIVATE = "private"
"""In place of two bounds: the fit chooses them."""
_NAMED = re.compile(rf"=({PRIVATE}|[^,]+,[^,]+)$")


def bounds_of(given: list[list[str]] | None, *, private: bool = False) -> tuple[Pairs, dict[str, Any]]:
    """Parse the arguments of ``--bounds`` into the pair without a name (LO HI) and the named ones (NAME=LO,HI).

    With ``private``, the word "private" is allowed in place of two bounds, for bounds that a fit chooses.
    """
    pairs: Pairs = []
    named: dict[str, Any] = {}
    for words in given or []:
        rest = iter(words)
        for word in rest:
            name, equals, ends = word.rpartition("=")
            if private and ends == PRIVATE:
                _keep(name, PRIVATE, pairs, named)
                continue
            texts = ends.split(",") if equals else [word, next(rest, "")]
            try:
                low, high = map(float, texts)
            except ValueError:
                got = show(" ".join(texts).strip())
                others = f", or {PRIVATE} in place of LO,HI" * private
                raise refuse("--bounds", got=got, allowed=f"LO HI or NAME=LO,HI{others}") from None
            check_ends(low, high)
            _keep(name, (low, high), pairs, named)
    return pairs, named


def _keep(name: str, bounds: Any, pairs: Pairs, named: dict[str, Any]) -> None:
    """Add the bounds of a name, or those without one."""
    if name in named:
        raise refuse("--bounds", got=f"{show(name)} twice", allowed="name each column once")
    if name:
        named[name] = bounds
    else:
        pairs.append(bounds)


def by_column(columns: list[str], pairs: Pairs, named: dict[str, Pair]) -> Any:
    """Return bounds as a single pair for all columns, or as a list with a pair per column.

    Pairs without a name are of the columns without one: one for all of these, or one for each in their order.
    """
    others = [name for name in columns if name not in named]
    if others and not pairs:
        allowed = "be given for every column (LO HI, or NAME=LO,HI)"
        raise refuse("--bounds", got=f"none for {show(others[0])}", allowed=allowed)
    if pairs and not others:
        allowed = "have a name (NAME=LO,HI), as every column has named bounds"
        raise refuse("--bounds", got="bounds without a name", allowed=allowed)
    shared = per_column("--bounds", pairs, len(others)) if pairs else []
    if not named:
        return shared
    rest = iter(shared if isinstance(shared, list) else [shared] * len(others))
    return [named[name] if name in named else next(rest) for name in columns]


DISCOVER = "discover"
"""In place of declared labels: labels of many rows are found."""


def levels_of(given: list[str] | None, option: str = "--levels", *, discover: bool = False) -> dict[str, Any]:
    """Parse the arguments of ``--levels``, NAME=A,B,... A level with a comma is in double quotes.

    With ``discover``, NAME=discover is allowed too, for labels that are not declared.
    """
    found: dict[str, Any] = {}
    for text in given or []:
        name, equals, words = text.partition("=")
        undeclared = discover and words == DISCOVER
        levels = DISCOVER if undeclared else split_list(words)
        if not equals or (not undeclared and (len(levels) < 2 or len(set(levels)) < len(levels))):
            raise refuse(option, given=text, allowed="NAME=A,B,... of two different levels or more")
        if name in found:
            raise refuse(option, got=f"{show(name)} twice", allowed="name each column once")
        found[name] = levels
    return found


def check_discovery(option: str, delta: float) -> None:
    """Raise an error for a discovery of labels without a positive delta."""
    if delta == 0:
        remedy = "Declare the labels, or give --delta 1e-6 for example."
        raise refuse("--delta", got="0", allowed=f"positive with {option}", remedy=remedy)
