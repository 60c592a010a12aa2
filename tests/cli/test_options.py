"""Arguments that commands share: errors on one line."""

from __future__ import annotations

import argparse

import pytest

from dpstats.cli import main
from dpstats.cli.options import in_options, spell
from dpstats.errors import refuse


def test_unexpected_words_stay_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["budget", "show", "b.db", "two\nlines"])
    assert "two lines" in capsys.readouterr().err


def test_unknown_options_lead_to_the_help_of_their_command(capsys: pytest.CaptureFixture[str]) -> None:
    for words, command in (
        (["quantile", "x.csv", "--bounds", "0", "7", "--quantiles", "0.5"], "dpstats quantile"),
        (["plan", "mean", "--rows", "9", "--columns", "1", "--what"], "dpstats plan mean"),
        (["plan", "samples", "mean", "--columns", "1", "--target-error", "1", "--what"], "dpstats plan samples mean"),
    ):
        with pytest.raises(SystemExit):
            main(words)
        error = capsys.readouterr().err
        assert error.startswith(f"{command}: unrecognized arguments: ")
        assert error.endswith(f"(see '{command} --help')\n")
    with pytest.raises(SystemExit):
        main(["quantile", "x.csv", "--bounds", "0", "7", "--quantiles", "0.5"])
    assert "--quantiles 0.5. Did you mean --quantile? (see" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("leave rows out by missing='drop'", "leave rows out by --missing drop"),
        ("say so by bounds_are='hard'", "say so by --hard"),
        ("or set clipped_share=True to see", "or set --clipped-share to see"),
        ("declare types={'r.a': 'DOUBLE'}.", "declare --type r.a=DOUBLE."),
        ("declare categories={'r.a': [...]}", "declare --levels r.a=A,B,..."),
        ("declare bounds={'r.a': (low, high)}", "declare bounds={'r.a': (low, high)}"),
        ("one (unit={'items': 'order -> orders.id'})", "one (--unit 'items.order->orders.id')"),
        ("categories['v.g'] is", "categories['v.g'] is"),
        ("set coverage='any'", "set coverage='any' in Python"),
        ("set coverage='any' in Python", "set coverage='any' in Python"),
        ("--levels must be NAME=A,B, got age=18", "--levels must be NAME=A,B, got age=18"),
    ],
)
def test_notes_name_the_options_of_their_command(text: str, shown: str) -> None:
    options = argparse.Namespace(
        missing="error", hard=False, clipped_share=False, seed=1, type=None, levels=None, key=None, unit=None
    )
    assert spell(text, options) == shown


@pytest.mark.parametrize(
    ("parameter", "shown"),
    [
        ("random_state", "--seed"),
        ("keys['u']", "--key u"),
        ("types['t.age']", "--type t.age"),
        ("unit['items']", "--unit items"),
        ("solver", "solver"),
        ("--bounds", "--bounds"),
    ],
)
def test_errors_name_the_option_of_their_parameter(parameter: str, shown: str) -> None:
    options = argparse.Namespace(seed=1, type=None, key=None, unit=None, missing="error")
    error = refuse(parameter, given=-1, allowed="positive with missing='drop'", remedy="Or give seed=None.")
    words = "must be positive with --missing drop, got -1. Or give --seed None."
    assert in_options(error, options) == f"{shown} {words}"
