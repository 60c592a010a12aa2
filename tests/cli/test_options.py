"""Arguments that commands share: errors on one line."""

from __future__ import annotations

import argparse

import pytest

from dpstats.cli import main
from dpstats.cli.options import in_options


def test_unexpected_words_stay_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["budget", "show", "b.db", "two\nlines"])
    assert "two lines" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("leave rows out by missing='drop'", "leave rows out by --missing drop"),
        ("say so by bounds_are='hard'", "say so by --hard"),
        ("or set clipped_share=True to see", "or set --clipped-share to see"),
        ("random_state was given", "--seed was given"),
        ("set coverage='any'", "set coverage='any' in Python"),
        ("--levels must be NAME=A,B, got age=18", "--levels must be NAME=A,B, got age=18"),
    ],
)
def test_notes_name_the_options_of_their_command(text: str, shown: str) -> None:
    options = argparse.Namespace(missing="error", hard=False, clipped_share=False, seed=1)
    assert in_options(text, options) == shown
