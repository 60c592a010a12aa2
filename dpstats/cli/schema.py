"""The JSON output of commands: its version, and its schema, which ``dpstats --json-schema`` prints.

The version rises if a field goes, or changes its type or its meaning. A new field does not raise it, so a reader
ignores fields that it does not know.
"""

from __future__ import annotations

from typing import Any

VERSION = 1

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_WHOLE: Schema = {"type": "integer"}
_NUMBER: Schema = {"anyOf": [{"type": "number"}, {"enum": ["Infinity", "-Infinity", "NaN"]}]}
_FLAG: Schema = {"type": "boolean"}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_OBJECTS: Schema = {"type": "array", "items": {"type": "object"}}
_ANY_TEXT: Schema = {"type": ["string", "null"]}


def _object(**fields: Schema) -> Schema:
    return {"type": "object", "required": list(fields), "properties": fields}


_PRIVACY = _object(epsilon=_NUMBER, delta=_NUMBER, neighbors=_TEXT, simulated=_FLAG, guarantee=_TEXT)
_PLAN = _object(selections=_OBJECTS, stages=_OBJECTS)
_AMOUNT = _object(epsilon=_NUMBER, delta=_NUMBER)
_RELEASE = {"estimator": _TEXT, "n_features": _WHOLE, "privacy": _PRIVACY, "notes": _TEXTS, "plan": _PLAN}
_LEDGER = {
    "ledger": _TEXT,
    "method": _TEXT,
    "neighbors": _TEXT,
    "unit": _ANY_TEXT,
    "charges": _WHOLE,
    **dict.fromkeys(("total", "spent", "remaining"), _AMOUNT),
}
_LEVEL = {"confidence_level": _NUMBER}
_COVERED = {**_LEVEL, "estimand": _TEXT}

COMMANDS: dict[str, dict[str, Schema]] = {
    "mean": {**_RELEASE, **_COVERED, "columns": _OBJECTS},
    "sparse-mean": {**_RELEASE, "columns": _OBJECTS},
    "group-means": {**_RELEASE, **_COVERED, "group_means": _OBJECTS},
    "proportion": {**_RELEASE, **_COVERED, "proportion": _NUMBER, "low": _NUMBER, "high": _NUMBER},
    "table": {**_RELEASE, **_COVERED, "cells": _OBJECTS},
    "survival": {**_RELEASE, **_COVERED, "life_table": _OBJECTS},
    "histogram": {**_RELEASE, **_COVERED, "bins": _OBJECTS},
    "quantile": {**_RELEASE, **_LEVEL, "quantiles": _OBJECTS},
    "bounds": {**_RELEASE, "bounds": _OBJECTS},
    "regress": {**_RELEASE, **_LEVEL, "params": _OBJECTS},
    "statistic": {**_RELEASE, **_COVERED, "estimates": _OBJECTS},
    "ks": {**_RELEASE, "statistic": _NUMBER, "cutoff": _NUMBER, "pvalue": _NUMBER},
    "conformal": {
        **_RELEASE,
        "scores": _OBJECTS,
        "alpha": _NUMBER,
        "coverage_bound": _NUMBER,
        "training": _TEXT,
    },
    "identity-test": {**_RELEASE, "statistic": _NUMBER, "pvalue": _NUMBER, "reject": _FLAG, "level": _NUMBER},
    "sql": {"query": _TEXT, "privacy": _PRIVACY},
    "budget new": _LEDGER,
    "budget show": {**_LEDGER, "undelivered": _WHOLE},
    "budget history": {"ledger": _TEXT, "charges": _OBJECTS},
    "budget results": {"results": _OBJECTS},
    "budget keys": {"ledger": _TEXT, "keys": _OBJECTS},
}
"""Fields of each command, in addition to the fields of all commands."""


def json_schema() -> Schema:
    """Return the schema of the JSON output, as JSON Schema (draft 2020-12) has it.

    Examples
    --------
    >>> from dpstats.cli.schema import json_schema
    >>> json_schema()["required"]
    ['dpstats', 'schema', 'command']
    """
    every = _object(dpstats=_TEXT, schema={"const": VERSION}, command=_TEXT)
    cases = [
        {"if": {"properties": {"command": {"const": name}}}, "then": _object(**fields)}
        for name, fields in COMMANDS.items()
    ]
    plans = {
        "if": {"properties": {"command": {"pattern": "^plan "}}},
        "then": _object(privacy=_PRIVACY, stages=_OBJECTS),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Output of dpstats commands with --json, version {VERSION}",
        **every,
        "allOf": [*cases, plans],
    }
