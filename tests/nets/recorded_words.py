"""What calls, commands and queries say, with every value of their options, and a record of it.

`words/PACKAGE.txt` has every sentence, error and line of a table, in the first scene that says it, with # for numbers.
`recorded_words.json` has, for each value of each option, a sum of the words and sums of the numbers (`told.py`). So a
change of a word, a default, a limit or a digit shows. `python -m tests.nets.recorded` prints what changed.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from tests.nets import calls, further, inputs, lines, parts
from tests.nets.told import Said, differ, digest

RECORD = Path(__file__).with_name("recorded_words.json")
WORDS = Path(__file__).with_name("words")
ILL_CONDITIONED = {("PrivateGammaRegression", "epsilon=1e-300")}
"""Fits to noise alone, whose numbers depend on rounding: only their words are recorded."""

SCENES: dict[str, Callable[[], dict[str, list[Said]]]] = {
    **{name: partial(calls.play, name) for name in (*calls.ESTIMATORS, *calls.OTHERS)},
    **{
        f"dpstats {' '.join(command)}": partial(lines.play_command, place)
        for place, command in enumerate((*lines.COMMANDS, *lines.MORE))
    },
    **{f"queries, {options}": partial(lines.play_queries, options) for options in lines.OPTIONS},
    **{f"data of {name}": partial(calls.play_data, name) for name in calls.ESTIMATORS},
    **{f"{name}, a variant": partial(calls.play_variant, name) for name in calls.VARIANTS},
    **further.SCENES,
    "powers": calls.play_powers,
    "little privacy": calls.play_little,
    "parts": parts.play,
    "signatures": parts.play_signatures,
    "help": lines.play_help,
    "tables": inputs.play_tables,
    "containers": inputs.play_containers,
    "labels": inputs.play_labels,
    "levels": inputs.play_levels,
    "files": inputs.play_files,
    "ends of names": inputs.play_ends,
    "outputs": inputs.play_outputs,
    "formulas": inputs.play_formulas,
    "charges": inputs.play_charges,
}


def play(scene: str) -> dict[str, list[Said]]:
    """Return what a scene says."""
    return {
        cell: [(place, one) for place, one in said if (scene, cell) not in ILL_CONDITIONED or isinstance(one, str)]
        for cell, said in SCENES[scene]().items()
    }


def package_of(scene: str) -> str:
    """Return the file of words of a scene."""
    name = scene.removeprefix("data of ").removesuffix(", a variant")
    known = {**calls.ESTIMATORS, **calls.OTHERS, **calls.VARIANTS}
    if name in known:
        return known[name].made.__module__.split(".")[1]
    return "cli" if scene.startswith("dpstats") else "sql" if scene.startswith("queries") else "several"


_NOTE = re.compile(r"^\[#\] ", re.MULTILINE)


@cache
def sentences(text: str) -> tuple[str, ...]:
    """Return the notes and lines of a text, each without its place in a table, a list or JSON."""
    head, *notes = _NOTE.split(text)
    found = [" ".join(part.split()) for part in [*head.split("\n"), *notes]]
    return tuple(part for one in found if re.search(r"[a-z]", part := one.rstrip(",").strip('"')))


def distinct(said: Iterable[Said]) -> list[str]:
    """Return every sentence, once, in order."""
    return list(dict.fromkeys(one for _, text in said if isinstance(text, str) for one in sentences(text)))


def sums(texts: Iterable[str]) -> set[int]:
    return {zlib.crc32(text.encode()) for text in texts}


@cache
def record() -> Mapping[str, Mapping[str, Any]]:
    return json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}


@cache
def words() -> Mapping[str, list[str]]:
    """Return the recorded sentences, by the scene that has them."""
    found: dict[str, list[str]] = {}
    for path in sorted(WORDS.glob("*.txt")):
        for scene in path.read_text(encoding="utf-8").split("\n== ")[1:]:
            name, *texts = scene.splitlines()
            found[name] = [text for text in texts if text]
    return found


def changes(scene: str) -> Iterator[str]:
    """Yield what is said otherwise than is recorded.

    A sentence of several scenes belongs to the first, and a change of its words is a change of that scene alone.
    """
    now, then = play(scene), record().get(scene, {"cells": {}, "shared": []})
    said = distinct(one for cell in now.values() for one in cell)
    known = {text for texts in words().values() for text in texts}
    new = {text for text in said if text not in known}
    gone = [text for text in words().get(scene, []) if text not in said]
    yield from (f"- {text}" for text in gone)
    if gone or not set(then["shared"]) - sums(said):
        yield from (f"+ {text}" for text in said if text in new)
    for cell in then["cells"].keys() - now.keys():
        yield f"{cell}: gone"
    for cell, ones in now.items():
        if cell.endswith("without an answer") or cell not in then["cells"]:
            yield f"{cell}: {shorten(ones)}"
            continue
        old, current = then["cells"][cell], digest(ones)
        if not new.isdisjoint(distinct(ones)):
            current[0] = old[0]  # told above, or by another scene
        if differ(current, old):
            yield f"{cell}: {shorten(ones)}"


def shorten(said: list[Said]) -> str:
    return ", ".join(str(value) for _, value in said)[:300]


def write() -> None:
    """Record what is said now."""
    kept, known, files = [], set[str](), dict[str, list[str]]()
    for scene in SCENES:
        now = play(scene)
        said = distinct(one for cell in now.values() for one in cell)
        shared = sorted(sums(text for text in said if text in known))
        cells = {cell: digest(ones) for cell, ones in now.items()}
        kept.append(f"{json.dumps(scene)}: {json.dumps({'shared': shared, 'cells': cells})}")
        own = [text for text in said if text not in known]
        files.setdefault(package_of(scene), []).append("\n".join([f"\n== {scene}", *own]))
        known.update(own)
    RECORD.write_text("{\n" + ",\n".join(kept) + "\n}\n", encoding="utf-8")
    for path in WORDS.glob("*.txt"):
        path.unlink()
    WORDS.mkdir(exist_ok=True)
    for package, scenes in files.items():
        (WORDS / f"{package}.txt").write_text("\n".join(scenes) + "\n", encoding="utf-8")
