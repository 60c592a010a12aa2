"""Pages with examples: run one, and put into it what they print. The tests ask that this changes nothing.

python tests/pages.py docs/regression.md     # in place, with the pictures that its examples save

An example is what stands behind `>>> `; a block of ```python without such prompts, whose output is the block of ```text
after it; or a `$ dpstats` command in a block of ```console. One with the words "yours will differ" draws exact noise:
what it printed once stays, as long as all but its figures is the same.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dpstats.cli import main

DIFFERS = "# yours will differ"
_BLOCK = re.compile(
    r"```console\n(?P<console>.*?)```"
    r"|```python\n(?!>>> )(?P<script>.*?)```(?:\n\n```text\n(?P<output>.*?)```)?",
    re.DOTALL,
)
_COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


def has_examples(text: str) -> bool:
    """Say whether a page has any."""
    return ">>> " in text or _BLOCK.search(text) is not None


def rewritten(text: str, name: str) -> str:
    """Return the text of a page with what its examples print now; they run in the current directory."""
    names: dict[str, Any] = {"__name__": "__main__"}
    made, end = "", 0
    for block in _BLOCK.finditer(text):
        made += _prompted(text[end : block.start()], names, name)
        made += _console(block["console"]) if block["script"] is None else _script(block, names, name)
        end = block.end()
    return made + _prompted(text[end:], names, name)


def _prompted(text: str, names: dict[str, Any], name: str) -> str:
    parts = doctest.DocTestParser().parse(text, name)
    return "".join(part if isinstance(part, str) else _example(part, names, name) for part in parts)


def _example(example: doctest.Example, names: dict[str, Any], name: str) -> str:
    code = compile(example.source, f"{name}, line {example.lineno + 1}", "single")
    printed = [line or "<BLANKLINE>" for line in _printed(lambda: exec(code, names))]
    prompts = ["... "] * len(example.source.splitlines())
    prompts[0] = ">>> "
    asked = [prompt + line for prompt, line in zip(prompts, example.source.splitlines(), strict=True)]
    answered = _settled(example.source, example.want.splitlines(), printed)
    return "".join(f"{' ' * example.indent}{line}".rstrip() + "\n" for line in [*asked, *answered])


def _script(block: re.Match[str], names: dict[str, Any], name: str) -> str:
    code = compile(block["script"], name, "exec")
    answered = _settled(block["script"], (block["output"] or "").splitlines(), _printed(lambda: exec(code, names)))
    output = "".join(f"{line}\n" for line in answered)
    return f"```python\n{block['script']}```" + (f"\n\n```text\n{output}```" if output else "")


def _console(text: str) -> str:
    lines: list[str] = []
    for command, stated in _COMMAND.findall(text):
        program, *words = shlex.split(command, comments=True)
        if program != "dpstats":
            raise ValueError(f"only dpstats commands run in a console, got {command!r}")
        printed = _printed(lambda words=words: _called(words))
        lines += [f"$ {command}", *_settled(command, stated.splitlines(), printed)]
    return "```console\n" + "".join(f"{line}\n" for line in lines) + "```"


def _called(words: list[str]) -> None:
    with contextlib.redirect_stderr(sys.stdout), contextlib.suppress(SystemExit):
        main(words)


def _printed(run: Callable[[], Any]) -> list[str]:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        run()
    return [line.rstrip() for line in printed.getvalue().splitlines()]


def _settled(source: str, stated: list[str], answered: list[str]) -> list[str]:
    """Return what a page says that was printed: what stands there, where only figures of exact noise differ."""
    return stated if DIFFERS in source and _shape(stated) == _shape(answered) else answered


def _shape(lines: list[str]) -> list[str]:
    """Return the words without figures, and without rules and spaces, which are as wide as the figures ask for."""
    words = re.sub(r"[-+]?\d[\d,.:]*(e[-+]?\d+)?", "#", "\n".join(lines))
    return re.sub(r"[-=]{3,}", "", words).split()


if __name__ == "__main__":
    for page in [Path(word).resolve() for word in sys.argv[1:]]:
        # Ledgers and files of an example are gone after it; its pictures belong to the page.
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            page.write_text(rewritten(page.read_text(encoding="utf-8"), page.name), encoding="utf-8")
            for picture in Path(folder).glob("*.png"):
                shutil.copy(picture, page.parent)
