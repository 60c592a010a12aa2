"""What a ledger shows of every command that charges it: what each charge was for, in the order of the charges."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpstats.cli import main
from dpstats.cli.output import KeptResults
from dpstats.privacy import PrivacyBudget
from tests.cli.commands import json_of
from tests.cli.test_same_file import COMMANDS, command_parser

QUERY = "SELECT COUNT(*) FROM t WHERE a = 'x'"
# By the command: its arguments, and the words that say what was read.
CHARGES: dict[str, tuple[list[str], list[str]]] = {
    "mean": (["--column", "b", "--column", "a", "--bounds", "0", "1"], ["b, a"]),
    "bounds": (["--column", "b", "--column", "a", "--epsilon", "9"], ["b, a"]),
    "sparse-mean": (["--column", "b", "--column", "a", "--nonzero", "1", "--clip", "6", "--std", "1"], ["b, a"]),
    "group-means": (["--column", "a", "--by", "g", "--groups", "u,v", "--bounds", "0", "1"], ["a", "g"]),
    "proportion": (["--column", "b"], ["b"]),
    "table": (["--levels", "h=u,v", "--levels", "g=u,v"], ["h, g"]),
    "survival": (["--time", "a", "--event", "b", "--horizon", "1", "--by", "g", "--groups", "u,v"], ["a, b, g"]),
    "histogram": (["--column", "g", "--categories", "u,v"], ["g"]),
    "quantile": (["--column", "a", "--quantile", "0.5", "--bounds", "0", "1", "--no-intervals"], ["a"]),
    "regress": (["--column", "a", "--outcome", "b", "--bounds", "0", "1", "b=0,1"], ["a", "b"]),
    "statistic": (
        ["--function", "numpy:std", "--column", "a", "--blocks", "60", "--bias", "none", "--bounds", "0", "1"],
        ["a"],
    ),
    "identity-test": (["--column", "b", "--mean", "0", "--test", "spatial-sign"], ["b"]),
    "ks": (["--column", "a", "--distribution", "uniform"], ["a"]),
    "conformal": (["--column", "a", "--prediction", "b", "--score-bounds", "9", "--training", "public"], ["a", "b"]),
    "sql": ([QUERY, "--table", "t=x.csv"], [QUERY]),
}


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    numbers = {"a": rng.random(60), "b": rng.integers(0, 2, 60)}
    words = {name: rng.choice(["u", "v"], 60) for name in "gh"}
    pd.DataFrame(numbers | words).to_csv("x.csv", index=False)
    PrivacyBudget(epsilon=100.0, delta=0.1, ledger=tmp_path / "b.db")
    return "b.db"


def test_every_charge_says_what_it_was_for(ledger: str, capsys: pytest.CaptureFixture[str]) -> None:
    charging = {words[0] for words in COMMANDS if any(a.dest == "label" for a in command_parser(words)._actions)}
    assert charging == CHARGES.keys()
    wanted = []
    for number, (name, (arguments, words)) in enumerate(CHARGES.items()):
        given = arguments if name == "sql" else ["x.csv", *arguments]
        # Every second one without a label of its own.
        label = ["--label", f"for paper {number}"] if number % 2 else []
        assert main([name, *given, "--budget", ledger, *label]) == 0, name
        wanted.append(["x.csv", *words, *label[1:]])
    capsys.readouterr()
    shown = json_of(["budget", "history", ledger], capsys)["charges"]
    assert len(shown) == len(wanted)
    for charge, words in zip(shown, wanted, strict=True):
        assert all(word in charge["label"] for word in words), (charge["label"], words)
    times = [charge["time"] for charge in shown]
    assert times == sorted(times)


def test_results_are_shown_in_the_order_of_their_release(ledger: str, capsys: pytest.CaptureFixture[str]) -> None:
    results = KeptResults(Path(ledger))
    results.check()
    for label in ("zebra", "ant", "mole"):
        results.add([{"label": label, "plan": "", "guarantee": "", "released": {}}])
    shown = json_of(["budget", "results", ledger], capsys)["results"]
    assert [result["releases"][0]["label"] for result in shown] == ["zebra", "ant", "mole"]
    assert [result["number"] for result in shown] == [1, 2, 3]
