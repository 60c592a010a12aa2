"""Proof pages say what the code does: files that are there, a theorem and its proof, and sensitivities as formulas.

A page may state the sensitivities of its stages in a table of expressions, which are evaluated for every entry of the
registry and compared with the plan. That a proof is right no test can tell.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from registry import ENTRIES, Entry

from dpstats.auditing.movement import noisy
from dpstats.lattice import BallLattice, isqrt_up
from dpstats.lattice.base import FREE_SQUARES
from dpstats.privacy import JointStage, Stage
from dpstats.release.estimator import PrivateEstimator
from dpstats.release.receipts import named_files, proof_hashes

ROOT = Path(__file__).resolve().parents[2]
PROOFS = ROOT / "docs" / "proofs"
# What several entries rest on has a page of its own.
PAGES = sorted({entry.proof for entry in ENTRIES} | {"free-squares.md"})
HEADER = "| stage | of | noise | neighbors | sensitivity in steps |"

# What every page must have, once the text is in lower case.
REQUIRED = {
    "the claim": r"\*\*claim\.\*\*",
    "the code": r"`dpstats/[\w/]+\.py`",
    "the neighbors": r"\*\*neighbou?rs\.\*\*|## neighbou?rs",
    "the sensitivity": r"sensitivity",
    "a theorem": r"(^#+|\*\*|^)\s*theorem",
    "its proof": r"\*proof",
    "floating point": r"floating.point",
    "the tests": r"## tests|`tests/[\w/.]+`|`tests/conformance/`",
}


def missing_from(text: str) -> set[str]:
    """Return what a page lacks."""
    return {name for name, pattern in REQUIRED.items() if not re.search(pattern, text.lower(), flags=re.MULTILINE)}


def absent_files(text: str) -> set[str]:
    """Return the files that a page names and that are not there."""
    return {name for name in named_files(text) if not (ROOT / name).exists()}


class Row(NamedTuple):
    """What a page says of a stage."""

    stage: str
    of: str
    noise: str
    neighbors: str
    sensitivity: str


def table_of(text: str) -> list[Row]:
    """Return the rows of a page's table of sensitivities."""
    _, _, rest = text.partition(HEADER + "\n")
    lines = rest.split("\n\n")[0].splitlines()[1:] if rest else []
    return [Row(*(cell.strip().strip("`") for cell in line.strip("|").split(" | "))) for line in lines]


TABLES = [page for page in PAGES if HEADER in (PROOFS / page).read_text(encoding="utf-8")]
WITH_TABLES = [entry for entry in ENTRIES if entry.proof in TABLES]


def names_of(entry: Entry, stage: Stage | JointStage) -> dict[str, Any]:
    """Return what an expression is about."""
    found: dict[str, Any] = {"root": isqrt_up, "floor_root": math.isqrt, "sqrt": math.sqrt, "sum": sum}
    lattice = getattr(entry.plan, "lattice", None)
    if lattice is None:
        return found | {"d": stage.size, "one": round(1 / float(stage.spacing))}  # type: ignore[union-attr, arg-type]
    bounds = [lattice.radius] if isinstance(lattice, BallLattice) else [int(k) for k in lattice._bounds()]
    found |= {"d": lattice.n_features, "K": bounds, "T": [k * k >> lattice.bits for k in bounds]}
    weights, power = entry.plan.weights, 1 if stage.noise == "laplace" else 2  # type: ignore[attr-defined]
    return found | of_weights(weights.powers, power) | {"v": weights.outside, "F": FREE_SQUARES}


def of_weights(powers: tuple[float, ...], power: int) -> dict[str, float]:
    """Return the weight of squares, and what weighted powers and their rounding move: docs/proofs/free-squares.md."""
    z = np.linspace(-1.0, 1.0, 100_001)
    movement = sum((w * (1 - z**b)) ** power for b, w in enumerate(powers, 1))
    rounding = sum((w * e) ** power for w, e in zip(powers, (0, 1, 3, 3), strict=False))
    return {"w": (*powers, 0.0)[1], "M": float(np.max(movement)), "E": rounding}


def kind_of(entry: Entry) -> str:
    """Return what a table tells releases of one class apart by: the shape of the clip, or what a variance is about."""
    made = entry.estimator
    return str(getattr(made, "clip_norm", None) or getattr(made, "about", None) or entry.covers.__name__)


def check_table(entry: Entry, rows: list[Row]) -> None:
    """Fail unless a page has one row for each stage of an entry, and the stage is what it says."""
    for stage in entry.plan.stages:
        assert isinstance(stage, Stage | JointStage)
        stated = [
            row
            for row in rows
            if (row.stage, row.of, row.noise, row.neighbors)
            == (stage.name, kind_of(entry), stage.noise, stage.neighbors.name.lower())
        ]
        assert len(stated) == 1, f"{entry.proof} has {len(stated)} rows for {entry.name}: {stage.name}"
        value = eval(stated[0].sensitivity, {"__builtins__": {}, **names_of(entry, stage)})
        if isinstance(stage, Stage):
            assert value == stage.sensitivity_steps, stated[0]
        else:
            # Maxima are over a grid of another width, and raised in the code by what its own can miss.
            assert value * (1 - 1e-12) <= stage.sensitivity <= value * (1 + 2e-6), stated[0]


def test_pages_have_their_parts_and_name_files_that_are_there() -> None:
    texts = {page: (PROOFS / page).read_text(encoding="utf-8") for page in PAGES}
    found = {page: missing_from(text) | absent_files(text) for page, text in texts.items()}
    assert len(found) > 25 and {page: lacks for page, lacks in found.items() if lacks} == {}


@pytest.mark.parametrize("part", REQUIRED)
def test_a_page_without_a_part_would_be_noticed(part: str) -> None:
    texts = {page: (PROOFS / page).read_text(encoding="utf-8") for page in PAGES}
    less = {page: re.sub(REQUIRED[part], "", text, flags=re.MULTILINE | re.IGNORECASE) for page, text in texts.items()}
    assert [page for page, text in less.items() if part not in missing_from(text)] == []


def test_receipts_have_the_hash_of_a_proof_of_every_estimator() -> None:
    proofs: dict[type, set[str]] = {}
    for entry in ENTRIES:
        if issubclass(entry.covers, PrivateEstimator):
            proofs.setdefault(entry.covers, set()).add(entry.proof)
    without = [kind for kind, pages in proofs.items() if pages.isdisjoint(proof_hashes(kind.__module__))]
    assert len(proofs) > 30 and not without, "let a proof page of these name the file of their class"


def test_a_file_that_is_gone_would_be_noticed() -> None:
    assert absent_files("`dpstats/release/noise.py`, `additive.py`, `tests/conformance/`") == set()
    assert absent_files("`dpstats/release/noise.py`, `sampling.py`, `tests/nowhere/`") == {
        "dpstats/release/sampling.py",
        "tests/nowhere/",
    }


def test_sensitivities_on_the_page_are_the_plans() -> None:
    wrong = {}
    for entry in WITH_TABLES:
        try:
            check_table(entry, table_of((PROOFS / entry.proof).read_text(encoding="utf-8")))
        except AssertionError as error:
            wrong[entry.name] = str(error)
    assert len(WITH_TABLES) > 10 and wrong == {}


def test_every_row_of_a_table_is_about_an_entry() -> None:
    assert len(TABLES) >= 3
    for page in TABLES:
        rows = table_of((PROOFS / page).read_text(encoding="utf-8"))
        assert len(rows) == len(set(rows)) >= 4
        for row in rows:
            entries = [entry for entry in WITH_TABLES if entry.proof == page]
            assert any(
                (row.stage, row.noise) == (stage.name, stage.noise) for entry in entries for stage in noisy(entry.plan)
            ), row


WRONG = {
    "clipped mean and its spread, linf, Gaussian": "sqrt(sum(4.0001 * k * k for k in K))",
    "clipped mean, its spread and the share outside, Laplace": "sum(2 * k + w for k in K)",
    "variance, Gaussian": "sqrt(sum(M * k * k for k in K)) * 1.0001",
}


@pytest.mark.parametrize("name", WRONG)
def test_a_page_that_says_something_else_of_several_blocks_would_be_noticed(name: str) -> None:
    (entry,) = [entry for entry in ENTRIES if entry.name == name]
    rows = table_of((PROOFS / entry.proof).read_text(encoding="utf-8"))
    (stage,) = entry.plan.stages
    key = stage.name, kind_of(entry), stage.noise
    wrong = [row._replace(sensitivity=WRONG[name]) if row[:3] == key else row for row in rows]
    assert wrong != rows
    with pytest.raises(AssertionError):
        check_table(entry, wrong)


@pytest.mark.parametrize(
    "change",
    [
        {"sensitivity": "1 + 2 * sum(K)"},
        {"sensitivity": "sum(K)"},
        {"noise": "gaussian"},
        {"neighbors": "add_or_remove_one"},
        {"of": "l2"},
    ],
    ids=str,
)
def test_a_page_that_says_something_else_would_be_noticed(change: dict[str, str]) -> None:
    (entry,) = [entry for entry in ENTRIES if entry.name == "clipped mean, linf, Laplace"]
    rows = table_of((PROOFS / entry.proof).read_text(encoding="utf-8"))
    right = Row("clipped mean", "linf", "laplace", "replace_one", "2 * sum(K)")
    wrong = [row._replace(**change) if row == right else row for row in rows]
    assert right in rows and wrong != rows
    with pytest.raises(AssertionError):
        check_table(entry, wrong)
