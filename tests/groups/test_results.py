"""Results of comparisons read well, in text and in notebooks, for one column and for several."""

from __future__ import annotations

import dataclasses
import pickle
import re

import numpy as np
import pytest

from dpstats.groups import GroupMeans


def model(d: int) -> GroupMeans:
    rng = np.random.default_rng(0)
    y = rng.choice(["a", "b", "c"], 6000)
    X = rng.normal((y == "a")[:, None] * 1.0, 1.0, (6000, d))
    return GroupMeans(groups=["a", "b", "c"], bounds=(-5, 5), random_state=0).fit(X, y)


@pytest.mark.parametrize("d", [1, 2])
def test_they_read_well(d: int) -> None:
    made = model(d)
    asked = [made.difference("a", "b"), made.pairwise(), made.pairwise("holm"), made.anova(999), made.test(0.0)]
    for result in asked:
        text, page = str(result.summary()), result._repr_html_()
        assert "This uses the release alone" in text and page.startswith('<div class="dpstats-summary">')
        assert text.count("x0") == (0 if d == 1 and result in (asked[1], asked[2], asked[4]) else text.count("x0"))
        with pytest.raises(dataclasses.FrozenInstanceError):
            result.simulated = False
        again = pickle.loads(pickle.dumps(result))
        assert again.to_dict() == result.to_dict() and "statistic" in result.to_frame()
    lines = str(asked[1].summary()).splitlines()
    assert sum(line.startswith(("a - b", "a - c", "b - c")) for line in lines) == 3 * d
    assert re.search("Difference: +a less b", str(asked[0].summary()))


def test_one_sided_intervals_end_at_the_bounds() -> None:
    found = model(1).difference("a", "b", "less")
    assert found.confidence_interval().low[0] == -10.0 and "less" in str(found.summary())
