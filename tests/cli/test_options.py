"""Arguments that commands share: errors on one line."""

from __future__ import annotations

import pytest

from dpstats.cli import main


def test_unexpected_words_stay_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["budget", "show", "b.db", "two\nlines"])
    assert "two lines" in capsys.readouterr().err
