"""A share of the net of neighbors, and planted faults that it notices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.outside.neighbors import net as nets
from tests.outside.neighbors.net import Net
from tests.outside.seeds import daily_seed, replay


def test_no_row_moves_more_than_its_plan_says() -> None:
    net = Net(daily_seed()).run(8)
    assert not net.faults, (replay(net.seed), net.faults)
    assert net.counts.total() >= 10


def test_rows_that_decide_how_others_are_computed_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def plain(law: Any, rows: Any) -> Any:
        return (np.asarray(law.cdf(rows)),)

    monkeypatch.setattr(nets, "find_probabilities", plain)
    net = Net(3)
    for case in range(4000):
        random = nets.Random(net.seed * 1_000_003 + case)
        net._try_law(case, random)
        if net.faults:
            return
    raise AssertionError("nobody noticed")
