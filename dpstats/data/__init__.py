"""The only entry point for private data. This package alone defines what a row is."""

from __future__ import annotations

import importlib
from typing import Any

_NAMES = {
    "Column": "dpstats.data.schema",
    "Schema": "dpstats.data.schema",
    "Source": "dpstats.data.schema",
    "Rows": "dpstats.data.rows",
    "Table": "dpstats.data.rows",
    "files": "dpstats.data.file_rows",
    "open_source": "dpstats.data.opening",
    "register": "dpstats.data.opening",
}

__all__ = list(_NAMES)


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(importlib.import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'dpstats.data' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
