"""Run all nets, and write what they counted: ``python -m tests.outside --minutes 60``."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from tests.outside.seeds import VARIABLE, daily_seed

NETS = {
    "files": "Random tables, by every writer, in every reader. A row that is not a record, an entry with another "
    "meaning, and a row that changes with another record are faults.",
    "charges": "Calls after a charge fail one by one. A charge with neither an answer nor an error that states it is a "
    "fault.",
    "messages": "Private containers in every slot. An entry in a message, a repr, a plan or a file is a fault.",
    "neighbors": "Random estimators, options and hostile rows, of which one differs. What moves more than the plan "
    "declares, and a row that decides how others are computed, is a fault.",
    "statements": "Random populations, estimators and questions. An answer that is wrong more often than it says, and "
    "whose output does not name the reason, is a fault.",
}
PAGE = Path(__file__).with_name("measured.md")


def run() -> int:
    """Run the nets one after the other, each for its share of the time; 1 if one of them found a fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=daily_seed())
    parser.add_argument("--no-write", action="store_true", help="print only")
    options = parser.parse_args()
    page = [
        "# Cases from outside",
        "",
        f"Made by `make outside MINUTES={options.minutes:g}` with {VARIABLE}={options.seed}, on "
        f"{datetime.now(UTC):%Y-%m-%d}. The seed draws the same cases again.",
    ]
    found = 0
    for net, words in NETS.items():
        command = [sys.executable, "-m", f"tests.outside.{net}", "--minutes", f"{options.minutes / len(NETS):g}"]
        seeded = os.environ | {VARIABLE: str(options.seed)}
        done = subprocess.run(command, capture_output=True, text=True, env=seeded)
        print(f"{net}\n{done.stdout}{done.stderr[-2000:]}", flush=True)
        found |= done.returncode
        page += ["", f"## {net.capitalize()}", "", words, "", "```text", done.stdout.rstrip(), "```"]
    if not options.no_write:
        PAGE.write_text("\n".join(page) + "\n", encoding="utf-8")
    return int(bool(found))


raise SystemExit(run())
