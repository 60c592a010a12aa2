"""The powers and indices in a text."""

from __future__ import annotations

import re
from collections.abc import Iterator

_BRACES = r"\{((?:[^{}]|\{[^{}]*\})+)\}"
_ROUND = r"(\([^()\s]*\)(?!\w))"
_POWER = rf"(?<=\S)\^(?:{_BRACES}|([−-]?\w+)|{_ROUND})"
# An index is one letter or number, or in brackets: `n_min` and `replace_one` are names.
_INDEX = rf"(?<=[^\s_])_(?:{_BRACES}|([^\W_])(?![A-Za-z0-9])|{_ROUND})"
SCRIPT = re.compile(f"{_POWER}|{_INDEX}")


def split_scripts(text: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of a text, each with its kind: "", "superscript" or "subscript"."""
    end = 0
    for match in SCRIPT.finditer(text):
        if match.start() > end:
            yield "", text[end : match.start()]
        power, index = match[1] or match[2] or match[3], match[4] or match[5] or match[6]
        yield ("superscript", power) if power else ("subscript", index)
        end = match.end()
    if end < len(text):
        yield "", text[end:]
