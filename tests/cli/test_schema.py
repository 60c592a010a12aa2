"""The JSON of every command has the fields of the published schema, whose version does not change by accident."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest

from dpstats.cli import RELEASES, main
from dpstats.cli.output import COMMANDS, EXITS, VERSION, json_schema
from dpstats.privacy import PrivacyBudget, PrivacyGuarantee
from tests.outside.charges.calls import COMMANDS as CALLS
from tests.outside.charges.calls import folder as data_folder

KINDS: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "object": dict,
    "array": list,
    "null": type(None),
}


def errors(found: Any, schema: dict[str, Any], at: str = "") -> list[str]:
    """Return where a value is not what the schema says: of the part of JSON Schema that the schema uses."""
    known = {
        "$schema",
        "title",
        "type",
        "required",
        "properties",
        "items",
        "enum",
        "const",
        "anyOf",
        "allOf",
        "if",
        "then",
    }
    assert set(schema) <= known | {"pattern"}, schema
    wrong = []
    if "type" in schema:
        names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        fits = any(
            isinstance(found, KINDS[name]) and (name == "boolean" or not isinstance(found, bool)) for name in names
        )
        wrong += [] if fits else [f"{at} is no {names}"]
    if "const" in schema and found != schema["const"]:
        wrong.append(f"{at} is not {schema['const']}")
    if "enum" in schema and found not in schema["enum"]:
        wrong.append(f"{at} is not one of {schema['enum']}")
    if "pattern" in schema and not re.search(schema["pattern"], str(found)):
        wrong.append(f"{at} does not match")
    if isinstance(found, dict):
        wrong += [f"{at}/{name} is missing" for name in schema.get("required", []) if name not in found]
        for name, each in schema.get("properties", {}).items():
            wrong += errors(found[name], each, f"{at}/{name}") if name in found else []
    if isinstance(found, list) and "items" in schema:
        wrong += [one for place, item in enumerate(found) for one in errors(item, schema["items"], f"{at}/{place}")]
    if "anyOf" in schema and all(errors(found, each) for each in schema["anyOf"]):
        wrong.append(f"{at} fits none")
    for each in schema.get("allOf", []):
        wrong += errors(found, each, at)
    if "if" in schema and not errors(found, schema["if"]):
        wrong += errors(found, schema["then"], at)
    return wrong


OTHERS = {
    "budget new": ["budget", "new", "n.db", "--epsilon", "1"],
    **{f"budget {name}": ["budget", name, "b.db"] for name in ("show", "history", "keys", "results")},
    "plan mean": ["plan", "mean", "--rows", "99", "--columns", "1", "--bounds", "0", "9"],
    "plan sql": ["plan", *CALLS["sql"]],
    "sql, explained": [*CALLS["sql"], "--explain"],
}


@pytest.mark.parametrize("name", [*CALLS, *OTHERS])
def test_every_command_fits_the_schema(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with data_folder(tmp_path):
        budget = PrivacyBudget(1.0, ledger="b.db")
        budget.charge(PrivacyGuarantee(0.5), label="a")
        seed = [] if name in OTHERS else ["--seed", "1"]
        assert main([*(CALLS | OTHERS)[name], *seed, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert errors(found, json_schema()) == []
    assert found["command"] in COMMANDS or found["command"].startswith("plan ")
    # A field that is missing, or of another type, would be noticed.
    for field in COMMANDS.get(found["command"], ()):
        assert errors({key: value for key, value in found.items() if key != field}, json_schema())
        assert errors(copy.copy(found) | {field: {"x": 1} if isinstance(found[field], list) else [1]}, json_schema())


def test_keys_are_shown_with_what_was_released(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with data_folder(tmp_path):
        PrivacyBudget(1.0, ledger="b.db")
        assert main([*CALLS["mean"], "--epsilon", "0.5", "--budget", "b.db", "--once", "night"]) == 0
        capsys.readouterr()
        assert main(["budget", "keys", "b.db", "--json"]) == 0
        (row,) = json.loads(capsys.readouterr().out)["keys"]
        assert row["key"] == "night" and row["state"] == "answered" and "clipped moments" in row["released"]
        assert main(["budget", "keys", "b.db"]) == 0
        assert "night: people.csv (age): ClippedMean" in capsys.readouterr().out


def test_the_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--json-schema"])
    assert ended.value.code == 0 and json.loads(capsys.readouterr().out) == json_schema()
    assert {command.name for command in RELEASES} < set(COMMANDS)


def test_the_version_and_the_exit_statuses_are_kept() -> None:
    """Who changes one of these breaks scripts: a field that goes needs a new version."""
    fields = {name: sorted(found) for name, found in COMMANDS.items()}
    assert VERSION == 1 and fields["mean"] == sorted(
        ["columns", "confidence_level", "estimand", "estimator", "n_features", "notes", "plan", "privacy"]
    )
    assert {found.status: found.word for found in EXITS} == {
        0: "done",
        1: "defect",
        2: "usage",
        3: "data",
        4: "budget",
        5: "violation",
        6: "environment",
        7: "charged",
        130: "interrupted",
    }
