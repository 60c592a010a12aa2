"""dpstats verify: a table or JSON of checks, and an exit status."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dpstats.cli import main
from dpstats.means import ClippedMean

KEY = "sixteen bytes or more"


@pytest.fixture
def receipt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    made = ClippedMean(clip=1.0, epsilon=0.5).fit(np.linspace(-1, 1, 100)[:, None]).receipt(KEY)
    Path("receipt.json").write_text(made.to_json())
    Path("key").write_text(KEY + "\n")
    return Path("receipt.json")


def test_a_right_receipt_passes(receipt: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "receipt.json", "--key-file", "key"]) == 0
    printed = capsys.readouterr().out
    assert "ok      signature  made with this key" in printed and "FAILED" not in printed
    assert main(["verify", "receipt.json", "--json"]) == 0
    checks = {check["name"]: check["found"] for check in json.loads(capsys.readouterr().out)}
    assert "give its key" in checks["signature"]


def test_a_changed_receipt_is_a_violation(receipt: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(receipt.read_text())
    found["guarantee"]["epsilon"] = 0.05
    receipt.write_text(json.dumps(found))
    assert main(["verify", "receipt.json"]) == 5
    printed = capsys.readouterr().out
    assert "FAILED  content" in printed and "FAILED  cost" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["receipt.json", "--key-file", "nowhere"], "--key-file must name a file that can be read"),
        (["nowhere"], "file must name a file that can be read"),
        (["."], "file must name a file that can be read"),
        (["receipt.json", "--key-file", "."], "--key-file must name a file that can be read"),
        (["key"], "receipt must be a file that"),
        (["binary"], "file must be a receipt in UTF-8"),
        (["receipt.json", "--key-file", "binary"], "key must be text or bytes of at least 16 bytes"),
    ],
)
def test_other_files_are_refused(
    arguments: list[str], message: str, receipt: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("binary").write_bytes(b"\xff\xfe")
    assert main(["verify", *arguments]) == 2
    assert message in capsys.readouterr().err
