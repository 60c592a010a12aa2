"""A share of the net in `make test`, another one every day, and planted faults that it must notice."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpstats.cli import output as exits
from dpstats.cli.output import Delivery
from dpstats.errors import Account
from dpstats.release.session import Session
from tests.outside.charges.calls import Outcome, command_calls, folder, registered_calls
from tests.outside.charges.failpoints import CANARY, Failpoint, ours
from tests.outside.charges.net import Net, judge
from tests.outside.seeds import daily_seed

SECONDS = 4.0
"""Of each of two shares."""


@pytest.mark.parametrize("kind", ["registry", "commands"])
def test_no_charge_is_without_an_answer_or_words(kind: str, tmp_path: Path) -> None:
    with folder(tmp_path):
        calls = registered_calls() if kind == "registry" else command_calls()
        net = Net(calls, daily_seed())
        tally = net.run(SECONDS)
    assert not tally.faults, f"DPSTATS_OUTSIDE_SEED={daily_seed()}: " + "\n".join(tally.faults)
    assert tally.counts["charged, and said so"] > 0 and tally.counts["without opendp: refused"] > 0


def test_every_command_that_charges_is_tried() -> None:
    from dpstats.cli import RELEASES

    tried = {call.name.removeprefix("dpstats ").partition(",")[0] for call in command_calls()}
    assert tried == {command.name for command in RELEASES} | {"sql"}


# Planted faults


def unrehearsed(self: Session) -> None:
    """Rehearse nothing."""


def unchanged(self: Account, error: BaseException) -> BaseException:
    """Return the error as it was."""
    return error


told = Account.failure


def chained(self: Account, error: BaseException) -> BaseException:
    """Return an error that leads to the first one."""
    failure = told(self, error)
    failure.__cause__ = error
    return failure


def silent(self: Account) -> str:
    """Return words without the charge."""
    return "Try again."


@pytest.mark.parametrize(
    ("target", "name", "fault", "noticed"),
    [
        (Session, "_rehearse", unrehearsed, "without a library of noise"),
        (Account, "failure", unchanged, "shows data"),
        (Account, "failure", chained, "leads to one that may show data"),
        (Account, "explain", silent, "does not say so"),
    ],
)
def test_a_planted_fault_of_the_account_is_noticed(
    target: Any, name: str, fault: Callable[..., Any], noticed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target, name, fault)
    tally = Net(registered_calls()[:1], 1).run(60.0, rounds=5)
    assert any(noticed in found for found in tally.faults), tally


def test_planted_faults_of_commands_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with folder(tmp_path):
        mean = command_calls()[:1]
        with monkeypatch.context() as patch:
            patch.setattr(exits, "EXITS", [found for found in exits.EXITS if found.word != "charged"])
            assert any("does not say so" in found for found in Net(mean, 1).run(60.0, rounds=2).faults)
        with monkeypatch.context() as patch:
            patch.setattr(Delivery, "keep", lambda *arguments: None)
            point = Failpoint("lines", 10**9)
            assert mean[0].make(point.watching()).answered
            point = Failpoint("lines", point.passed)
            assert "Attribute released" in mean[0].make(point.watching()).said


def test_outcomes_are_judged() -> None:
    assert judge(Outcome(True, True, "", False, False)) == ""
    assert judge(Outcome(False, False, "words", False, False)) == ""
    assert judge(Outcome(False, True, "words", True, False)) == ""
    assert judge(Outcome(True, False, "", False, False)) == "an answer without a charge"
    assert judge(Outcome(False, True, "words", False, False)) == "charged, and the error does not say so"
    assert judge(Outcome(False, False, "", True, False)) == "the error states a charge that was not made"
    assert judge(Outcome(False, True, CANARY, True, False)) == "the message shows data"
    assert "leads to" in judge(Outcome(False, True, "", True, False, leaks=True))


def test_a_failpoint_counts_from_the_charge_to_the_answer() -> None:
    call = registered_calls()[0]
    for kind in ("calls", "lines"):
        call.make(contextlib.nullcontext())  # imports what it needs
        point = Failpoint(kind)
        assert call.make(point.watching()).answered and point.passed > 10
        again = Failpoint(kind, point.passed)
        call.make(again.watching())
        assert again.passed == again.place and again.hit
    assert not ours(None)
    Failpoint("calls", 1).pass_by("nothing is armed")
