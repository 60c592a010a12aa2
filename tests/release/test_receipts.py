"""Receipts: what was changed is found, costs are recomputed, and every estimator has one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpstats
from dpstats.errors import InvalidParameter
from dpstats.groups import one_row_per_unit
from dpstats.means import ClippedMean
from dpstats.release import receipts
from dpstats.release.receipts import named_files, verify_receipt
from tests.nets.test_one_way_out import EVERY

KEY = "sixteen bytes or more"
ROWS = np.linspace(-1.0, 1.0, 200)[:, None]
TEXT = ClippedMean(clip=1.0, clip_norm="l2", missing="drop", epsilon=0.5, delta=1e-6).fit(ROWS).receipt(KEY).to_json()


def failed(text: str, key: str | None = KEY) -> set[str]:
    return {check.name for check in verify_receipt(text, key) if not check.passed}


def forged(change: Callable[[dict[str, Any]], None]) -> str:
    """Return the receipt after a change, with the hash of what it now says."""
    found = json.loads(TEXT)
    change(found)
    content = {name: value for name, value in found.items() if name not in ("sha256", "hmac_sha256")}
    return json.dumps(found | {"sha256": hashlib.sha256(receipts._canonical(content)).hexdigest()})


def test_a_receipt_of_exact_noise_passes() -> None:
    assert failed(TEXT) == failed(TEXT, None) == set()
    notes = {check.name: check.found for check in verify_receipt(TEXT)}
    assert "not checked" in notes["signature"] and "epsilon = 0.5" in notes["cost"]
    assert notes["proofs"] == "the pages installed here: clipped-mean.md, private-size.md"


def test_what_was_changed_is_found() -> None:
    assert failed(TEXT.replace("clipped moments", "clipped moment")) == {"content", "signature"}
    assert failed(TEXT, "another key of many bytes") == {"signature"}
    unsigned = json.dumps(json.loads(TEXT) | {"hmac_sha256": None})
    assert failed(unsigned) == {"signature"} and failed(unsigned, None) == set()


CHANGES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "a smaller epsilon": (lambda found: found["guarantee"].update(epsilon=0.499), "cost"),
    "no delta": (lambda found: found["guarantee"].update(delta=0.0), "cost"),
    "neighbors that cost less": (lambda found: found["guarantee"].update(neighbors="ADD_OR_REMOVE_ONE"), "cost"),
    "no events": (lambda found: found["events"].clear(), "cost"),
    "an event of another kind": (lambda found: found["events"][0].update(event="Event"), "cost"),
    "a function in place of an event": (
        lambda found: found["events"].append({"event": "as_event", "item": 1.0, "neighbors": "REPLACE_ONE"}),
        "cost",
    ),
    "an event that is no mapping": (lambda found: found["events"].append("x"), "cost"),
    "a number without a value": (lambda found: found["events"][0].update(mu=float("nan")), "cost"),
    "a negative number": (lambda found: found["events"][0].update(mu=-1.0), "cost"),
    "another proof": (lambda found: found["proofs"].update({"clipped-mean.md": "0" * 64}), "proofs"),
    "simulated noise": (lambda found: found["guarantee"].update(simulated=True), "noise"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_forged_receipt_fails_its_check_even_with_a_right_hash(name: str) -> None:
    change, check = CHANGES[name]
    assert failed(forged(change), None) == {check}
    assert failed(forged(change)) == {check, "signature"}


@pytest.mark.parametrize("name", ["guarantee", "epsilon", "sha256"])
def test_a_name_that_occurs_twice_is_refused(name: str) -> None:
    # The last one counts for a check, and a reader may see the first.
    twice = TEXT.replace(f'"{name}":', f'"{name}": {{"epsilon": 0.01}}, "{name}":', 1)
    assert twice != TEXT and json.loads(twice) == json.loads(TEXT)
    with pytest.raises(InvalidParameter, match="receipt must be a file"):
        verify_receipt(twice, KEY)


def test_a_larger_guarantee_is_no_fault() -> None:
    assert failed(forged(lambda found: found["guarantee"].update(epsilon=0.6)), None) == set()


@pytest.mark.parametrize(
    "text", [None, 3, "", "{}", "[" * 100_000, "null", "1" * 10_000, TEXT[:-2], TEXT.replace(", version 1", "")]
)
def test_other_text_is_refused(text: Any) -> None:
    with pytest.raises(InvalidParameter, match="receipt must be a file"):
        verify_receipt(text)


@pytest.mark.parametrize("key", ["short", b"", 3])
def test_a_weak_key_is_refused_and_not_shown(key: Any) -> None:
    with pytest.raises(InvalidParameter, match="at least 16 bytes") as refusal:
        verify_receipt(TEXT, key)
    assert "short" not in str(refusal.value)


def test_other_versions_and_missing_pages_are_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    other = forged(lambda found: (found["versions"].update(dpstats="0.0.9"), found["proofs"].update(a="0")))
    notes = {check.name: check for check in verify_receipt(other)}
    assert "dpstats 0.0.9" in notes["versions"].found
    assert notes["proofs"].passed and "other ones" in notes["proofs"].found
    monkeypatch.setattr(receipts, "_pages", lambda: iter(()))
    assert "not installed here" in {check.name: check.found for check in verify_receipt(TEXT)}["proofs"]


@pytest.mark.parametrize("name", EVERY)
def test_every_estimator_has_a_receipt(name: str) -> None:
    fitted = EVERY[name]()
    found = json.loads(fitted.receipt(KEY).to_json())
    assert failed(json.dumps(found)) == {"noise"}
    assert found["proofs"] and found["guarantee"]["epsilon"] == fitted.privacy_.epsilon


def test_files_of_a_page_are_read_with_their_folder() -> None:
    page = "Code: `dpstats/means/a.py`, `b.py`, `dpstats/lattice/` and `c.py`."
    assert named_files(page) == {"dpstats/means/a.py", "dpstats/means/b.py", "dpstats/lattice/", "dpstats/lattice/c.py"}


def test_a_wheel_has_the_pages(tmp_path: Path) -> None:
    # As setup.py copies them: the pages of an installation come first.
    package = tmp_path / "dpstats"
    (package / "proofs").mkdir(parents=True)
    (package / "proofs" / "a.md").write_text("`dpstats/means/clipped.py`")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dpstats, "__file__", str(package / "__init__.py"))
        assert set(receipts.proof_hashes("dpstats.means.clipped")) == {"a.md"}


def test_a_receipt_names_the_unit_of_the_guarantee() -> None:
    visits = pd.DataFrame({"person": np.arange(400) // 2, "x": np.linspace(-1, 1, 400)})
    persons = one_row_per_unit(visits, unit="person", how={"x": "mean"})
    made = ClippedMean(clip=1.0, epsilon=0.5).fit(persons[["x"]])
    assert made.receipt().content["guarantee"]["unit"] == made.privacy_.unit == "person"
    assert json.loads(TEXT)["guarantee"]["unit"] == "row"


def test_a_receipt_names_events_only() -> None:
    for other in ({"event": "PrivacyGuarantee", "epsilon": 0.5, "delta": 0.0}, {"event": "Event"}):

        def change(found: dict[str, Any], other: dict[str, Any] = other) -> None:
            found["events"] = [other | {"neighbors": found["events"][0]["neighbors"]}]

        text = forged(change)
        assert "cost" in failed(text, None)
        assert "cannot be read" in {check.name: check.found for check in verify_receipt(text)}["cost"]
