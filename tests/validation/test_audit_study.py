"""The study of all audits: it runs in several processes, writes each row as it comes, and adds what a table lacks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "validation" / "studies"), str(ROOT / "tests" / "conformance")]


def test_rows_of_a_release_are_replaced_and_missing_ones_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import audit

    page, own = tmp_path / "audit.md", [i for i, (entry, _) in enumerate(audit.AUDITS) if entry is audit.AUDITS[0][0]]
    name = audit.AUDITS[0][0].name
    page.write_text(audit.as_markdown(["* before"], {audit.AUDITS.index(audit.AUDITS[-1]): audit.label(-1)}))
    monkeypatch.setattr(audit, "RESULTS", page)
    for trials, option in ((2000, "--only"), (3000, "--missing")):
        given = [option, name] if option == "--only" else [option, "--only", name]
        monkeypatch.setattr(sys, "argv", ["audit.py", *given, "--trials", str(trials), "--jobs", "2"])
        audit.main()
        capsys.readouterr()
    runs, rows = audit.written()
    assert runs[0] == "* before" and len(runs) == 2 and sorted(rows) == [*own, len(audit.AUDITS) - 1]
    # The second call found nothing missing.
    assert "| 2,000 |" in rows[0] and "3,000 |" not in page.read_text()
