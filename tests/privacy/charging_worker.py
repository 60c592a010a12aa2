"""A process that charges a ledger until it is killed; run by test_ledger.py.

Forks workers that charge as fast as they can and note each label after the charge is acknowledged
(or, as a control, before it is made), and kills every one of them at a random moment.

    python charging_worker.py LEDGER ACKNOWLEDGED KILLS AT_ONCE after|before
"""

import os
import random
import signal
import sys
import time

from dpstats.errors import BudgetExceeded
from dpstats.privacy.budget import PrivacyBudget
from dpstats.privacy.guarantee import PrivacyGuarantee


def work(ledger: str, acknowledged: int, name: str, when: str) -> None:
    budget = PrivacyBudget.open(ledger)
    for number in range(10**9):
        label = f"{name}-{number}"
        if when == "before":
            os.write(acknowledged, f"{label}\n".encode())
        try:
            budget.charge(PrivacyGuarantee(0.001), label=label)
        except BudgetExceeded:
            return
        if when == "after":
            os.write(acknowledged, f"{label}\n".encode())


def main() -> None:
    ledger, notes, kills, at_once, when = sys.argv[1:]
    acknowledged = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    dice = random.Random(1)
    started, running = 0, []
    while started < int(kills) or running:
        while started < int(kills) and len(running) < int(at_once):
            child = os.fork()
            if child == 0:
                work(ledger, acknowledged, f"worker{started}", when)
                os._exit(0)
            started += 1
            running.append((child, time.monotonic() + dice.uniform(0.0, 0.06)))
        for child, deadline in list(running):
            if time.monotonic() >= deadline:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                running.remove((child, deadline))
        time.sleep(0.0005)


if __name__ == "__main__":
    main()
