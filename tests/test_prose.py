"""The English of docstrings, comments, messages and pages gets better, and never worse."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import prose

SLACK = 10
"""The table must fall after more than this many findings of a group are gone, so that they cannot come back."""


def test_no_group_has_more_findings_than_the_table() -> None:
    counts, allowed = prose.counts(), prose.allowed()
    worse = [group for group, count in counts.items() if count > allowed.get(group, 0)]
    found = [f"{finding.group} {finding}" for finding in prose.check_all()[0] if finding.group in worse]
    assert not worse, "Mend some of these, so that no group has more than in tests/prose.txt:\n" + "\n".join(found)
    loose = [group for group in allowed if allowed[group] > counts.get(group, -SLACK) + SLACK]
    assert not loose, f"lower the counts of {loose}: python tests/prose.py --lower"


def test_what_everybody_reads_has_no_finding() -> None:
    allowed = prose.allowed()
    assert prose.NEVER and [group for group in prose.NEVER if allowed[group]] == []


BREACHES = {
    "name the thing": "# The noise is drawn from what is released.",
    "repeat the noun": "# The error is that of a mean.",
    "distribution": "# This draws from the exact law.",
    "American spelling": "# Rows of a neighbour.",
    "write a zero": "# The level is .05 here.",
    "words in a sentence": "# " + "One word follows another in a sentence " * 5,
    "words in a paragraph": "# " + "This is a short sentence. " * 20,
    "a fragment": "# Of both.",
    "needs a verb": 'def f():\n    """Return what a row adds."""',
    "words in a message": "text = '" + "many words " * 30 + "'",
    "PARAMETER must be": "raise ValueError('bounds must be of columns, got 3')",
    "without a value": "raise ValueError('the stream has ended at last')",
    "a function is a verb": "def names_of():\n    pass",
}
"""Each rule, by its remedy, with a line that breaks it."""

CLEAN = '''
"""Mean of clipped rows.

The noise is proportional to the width of the bounds.

Examples
--------
>>> law = "of which, whatever is left"
"""

LEVEL = 0.95  # nominal level of intervals


def release_sum(rows, bounds):
    """Return the noisy sum of the clipped rows."""
    # The lattice is public, so that its spacing reveals no row.
    if bounds is None:
        raise ValueError("bounds must be a pair of numbers, got None. Declare public bounds of every column.")
    return "SELECT what is left of the rows beside it"
'''


@pytest.mark.parametrize("remedy", BREACHES)
def test_each_breach_is_found(remedy: str) -> None:
    found, _ = prose.check("planted.py", BREACHES[remedy], "planted")
    assert [remedy in finding.remedy for finding in found] == [True]


def test_plain_english_is_no_breach() -> None:
    assert prose.check("plain.py", CLEAN, "plain")[0] == []


def test_a_page_is_read_without_its_code() -> None:
    page = (
        "# What is left of it\n\nRelease the mean.\n\n```python\n# whatever is left\n```\n\n"
        "| a | b |\n|---|---|\n| whatever it finds | `what is left` |\n"
    )
    found, _ = prose.check("page.md", page, "page")
    assert [finding.line for finding in found] == [11]


def test_errors_count_in_a_group_of_their_own() -> None:
    found, words = prose.check("a.py", BREACHES["without a value"] + "\n# Of both.\n", "package")
    assert [finding.group for finding in found] == [prose.ERRORS, "package"]
    assert words == {prose.ERRORS: 6, "package": 2}


def test_the_table_can_only_fall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = tmp_path / "prose.txt"
    table.write_text("# Head.\nbetter 5\ngone 3\nworse 1\n")
    monkeypatch.setattr(prose, "TABLE", table)
    monkeypatch.setattr(prose, "counts", lambda: {"better": 2, "new": 4, "worse": 9})
    prose.lower()
    assert table.read_text() == "# Head.\nbetter 2\nnew 0\nworse 1\n"
