"""What calls, commands and queries say, with every value of their options, and a record of it: `recorded_words.json`.

A line of the record has, for each value of each option, a sum of the words and sums of the numbers (`told.py`). So
a change of a word, a default, a limit or a digit shows. `python -m tests.nets.recorded` prints what changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

from tests.nets import calls, further, inputs, lines, parts
from tests.nets.told import Said, differ, digest

RECORD = Path(__file__).with_name("recorded_words.json")
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
        cell: [
            (place, one)
            for place, one in said
            if (scene, cell) not in ILL_CONDITIONED or isinstance(one, str)
        ]
        for cell, said in SCENES[scene]().items()
    }


@cache
def record() -> Mapping[str, Mapping[str, list[Any]]]:
    return json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}


def changes(scene: str) -> Iterator[str]:
    """Yield what is said otherwise than is recorded."""
    now, then = play(scene), record().get(scene, {})
    for cell in then.keys() - now.keys():
        yield f"{cell}: gone"
    for cell, said in now.items():
        if cell.endswith("without an answer") or cell not in then or differ(digest(said), then[cell]):
            words = ", ".join(str(value) for _, value in said)
            yield f"{cell}: {words[:300]}"


def write() -> None:
    """Record what is said now."""
    kept = [
        f"{json.dumps(scene)}: {json.dumps({cell: digest(said) for cell, said in play(scene).items()})}"
        for scene in SCENES
    ]
    RECORD.write_text("{\n" + ",\n".join(kept) + "\n}\n", encoding="utf-8")
