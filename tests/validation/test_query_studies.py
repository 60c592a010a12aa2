"""The study of query release, reduced: every method answers, and AIM as a peer does what it is said to."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "validation" / "studies"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "validation" / "peers"))
import aim
import query_release

from dpstats.queries import Domain
from dpstats.queries.domain import margins

RNG = np.random.default_rng(0)
FIRST = RNG.choice(3, p=[0.8, 0.15, 0.05], size=2000)
CODES = np.column_stack([FIRST, FIRST > 0, RNG.choice(4, p=[0.7, 0.2, 0.1, 0], size=2000)])
SMALL = query_release.Case("small", Domain((3, 2, 4)), Domain((3, 2, 4)).histogram(CODES))


def test_the_real_tables_are_cut_at_public_places() -> None:
    for case, rows in ((query_release.rand_hie(), 20_190), (query_release.fair(), 6_366)):
        # No row is outside, and every level has rows.
        assert case.counts.sum() == rows and case.domain.size <= 1 << 20
        whole = case.counts.reshape(case.domain.shape)
        for _, counts in margins(whole, [(j,) for j in range(len(case.domain))]):
            assert counts.min() > 0


def test_the_study_runs_and_its_verdicts_can_be_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(query_release, "EPSILONS", (0.5,))
    quick = query_release.workload(), query_release.mwem(1), query_release.independent, query_release.aim_of
    monkeypatch.setattr(query_release, "METHODS", quick)
    rows = query_release.errors_of([SMALL], 2, 1, 1, 0)
    cells = [[part.strip() for part in row.strip("|").split("|")] for row in rows]
    mean = {cell[2]: float(cell[4].split()[0]) for cell in cells}
    assert len(rows) == 8 and all(0 < error < 0.5 for error in mean.values())
    assert mean["WorkloadAnswers, unbiased"] < mean["independent Laplace, pure"]
    query_release.picture(rows, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000


def test_a_fast_run_and_a_run_of_one_table_leave_the_page_of_all_tables(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def answers(script: Path, source: str, python: Path) -> dict[str, list[object]]:
        return {"answers": [[0.5] * (26 if len(np.load(source)["tables"]) == 3 else 50)], "seconds": [1.0]}

    monkeypatch.setattr(query_release, "workload", lambda: query_release.independent)
    monkeypatch.setattr(query_release, "mwem", lambda rounds: query_release.independent)
    monkeypatch.setattr(query_release, "aim_of", query_release.independent)
    monkeypatch.setattr(query_release, "RESULTS", tmp_path / "query_release.md")
    monkeypatch.setattr(query_release, "CASES", {"Fair": lambda: SMALL, "other": lambda: None})
    monkeypatch.setattr(query_release, "prepare", lambda *requirements: Path())
    monkeypatch.setattr(query_release, "run_in_peers", answers)
    assert "| small | OpenDP's AIM |" in query_release.main(["--fast", "--opendp", "1"])
    assert list(tmp_path.iterdir()) == []
    query_release.main(["--opendp", "1", "--only", "Fair"])
    (page,) = tmp_path.iterdir()
    assert page.name == "query_opendp_Fair.md" and "--opendp 1 --only Fair`" in page.read_text(encoding="utf-8")
    with pytest.raises(SystemExit):
        query_release.main(["--only", "Fair"])


def test_aim_spends_what_it_has_and_learns() -> None:
    counts = SMALL.counts.reshape(3, 2, 4).astype(float)
    truth = counts / counts.sum()
    far, near = (
        np.mean(
            [np.abs(aim.aim(counts, [(0, 1), (1, 2)], rho, np.random.default_rng(s)) - truth).sum() for s in range(3)]
        )
        for rho in (1e-4, 1.0)
    )
    assert near < 0.1 < far
    assert aim.all_tables(3, (2,)) == [(0, 1), (0, 2), (1, 2)]
