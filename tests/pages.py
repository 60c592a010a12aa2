"""Pages with examples: run one, and put into it what they print. The tests ask that this changes nothing.

python tests/pages.py docs/regression.md     # in place, with the pictures that its examples save
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import sys
from pathlib import Path
from typing import Any


def rewritten(text: str, name: str) -> str:
    """Return the text of a page with what its examples print now; they run in the current directory."""
    names: dict[str, Any] = {"__name__": "__main__"}
    parts = doctest.DocTestParser().parse(text, name)
    return "".join(part if isinstance(part, str) else _run(part, names, name) for part in parts)


def _run(example: doctest.Example, names: dict[str, Any], name: str) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(example.source, f"{name}, line {example.lineno + 1}", "single"), names)
    prompts = ["... "] * len(example.source.splitlines())
    prompts[0] = ">>> "
    asked = [prompt + line for prompt, line in zip(prompts, example.source.splitlines(), strict=True)]
    answered = [line.rstrip() or "<BLANKLINE>" for line in printed.getvalue().splitlines()]
    return "".join(f"{' ' * example.indent}{line}".rstrip() + "\n" for line in [*asked, *answered])


if __name__ == "__main__":
    for word in sys.argv[1:]:
        page = Path(word).resolve()
        os.chdir(page.parent)
        page.write_text(rewritten(page.read_text(encoding="utf-8"), page.name), encoding="utf-8")
