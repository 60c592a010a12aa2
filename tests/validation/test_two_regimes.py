"""The study of two regimes, on few studies."""

from __future__ import annotations

import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "validation" / "studies"))
import two_regimes


def test_a_break_is_seen_and_an_edge_is_not_determined() -> None:
    middle = two_regimes.broken(600.0, 100, 4)
    # Of four 95% intervals, fewer than one covers with probability below 1e-5.
    assert middle.tried == 1 and middle.determined == (1, 1) and min(middle.slopes) > 0 and middle.place > 0
    edge = two_regimes.broken(4800.0, 400, 2)
    assert edge.determined[0] == 1 and edge.determined[1] < 1
    alarm = two_regimes.false_alarms("chi-square, 4 degrees", 400, 20)
    assert alarm <= 0.25  # 6 of 20 at a rate of .01: 4e-8
    heavy = {("lognormal, sigma = 2", count): 0.5 for count in two_regimes.REPLICATIONS}
    alarms = {(law, count): math.nan for law in two_regimes.LAWS for count in two_regimes.REPLICATIONS} | heavy
    text = two_regimes.as_markdown(4, 60.0, {(600.0, 100): middle}, alarms)
    assert "| 600 | 100 | 1.000 |" in text and "| lognormal, sigma = 2 | 0.500 |" in text
