"""What dpstats does without the names that Python has on POSIX systems only: releases, ledgers, keys and commands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dpstats.errors import LedgerError
from dpstats.privacy import PrivacyBudget
from dpstats.privacy.kept_answers import may_run, new_owner

# Other packages are imported before the names go.
WITHOUT = """
import signal, sys, os
import numpy, scipy.stats, sklearn.base, joblib, opendp.prelude, dp_accounting, sqlite3, subprocess, pandas, narwhals
for name in ("fchmod", "fchown", "chown", "getuid", "geteuid", "getpgid", "killpg", "setsid", "register_at_fork",
             "sched_getaffinity", "sysconf", "uname", "mkfifo", "pread", "pwrite", "fork", "O_DIRECTORY", "O_CLOEXEC"):
    if hasattr(os, name):
        delattr(os, name)
for name in ("setitimer", "SIGPROF", "ITIMER_PROF", "SIGALRM", "SIGKILL", "SIGHUP"):
    delattr(signal, name)
for name in ("resource", "fcntl", "pwd", "grp", "termios"):
    sys.modules[name] = None
"""


def run(code: str, folder: Path) -> str:
    """Return what a program prints in a process without POSIX's names."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT + code], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_releases_and_ledgers_need_no_posix(tmp_path: Path) -> None:
    found = run(
        """
from dpstats.means import ClippedMean
from dpstats.privacy import PrivacyBudget
from dpstats.statistic import PrivateStatistic
budget = PrivacyBudget(2.0, 1e-6, ledger="rows.ledger")
x = numpy.arange(2000) / 2000
ClippedMean(bounds=(0, 1), epsilon=0.5, budget=budget.once("today")).fit(x[:, None])
PrivateStatistic(numpy.median, bounds=(0, 1), epsilon=1.0, budget=budget).fit(x)
print(budget.spent.epsilon)
""",
        tmp_path,
    )
    assert found.strip() == "1.5"


def test_a_command_charges_a_ledger_without_posix(tmp_path: Path) -> None:
    (tmp_path / "ages.csv").write_text("age\n" + "\n".join(str(20 + i % 60) for i in range(500)) + "\n")
    words = ["mean", "ages.csv", "--column", "age", "--bounds", "0", "100", "--epsilon", "0.5", "--budget", "b.ledger"]
    PrivacyBudget(1.0, ledger=tmp_path / "b.ledger")
    assert "age" in run(f"from dpstats.cli import main\nsys.exit(main({words!r}))", tmp_path)
    assert PrivacyBudget.open(tmp_path / "b.ledger").spent.epsilon == 0.5


def test_a_process_is_not_asked_with_a_signal_on_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    owner = new_owner()
    monkeypatch.setattr(os, "name", "nt")
    monkeypatch.setattr(os, "kill", lambda *given: pytest.fail("on Windows this ends the process"))
    assert may_run(owner)


def test_a_file_system_without_hard_links_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(LedgerError, match="has no hard links"):
        PrivacyBudget(1.0, ledger=tmp_path / "rows.ledger")
    assert list(tmp_path.iterdir()) == []
