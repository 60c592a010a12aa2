"""Checks as commands print them."""

from __future__ import annotations

from dpstats.release.receipts import Check, as_text


def test_every_check_has_a_line_and_names_are_aligned() -> None:
    checks = [Check("noise", True, "exact"), Check("signature", False, "none")]
    assert as_text(checks) == "ok      noise      exact\nFAILED  signature  none"
