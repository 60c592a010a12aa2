"""The description of a picture fits the table that it shows."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from dpstats.inference.reports import picture_of
from dpstats.tables import ContingencyTable

WORDS = {1: "all cells", 2: "within groups", 3: "all cells"}


@pytest.mark.parametrize("attributes", WORDS)
def test_pictures_are_described_as_they_are(attributes: int) -> None:
    rows = np.random.default_rng(0).integers(0, 2, (200, attributes))
    table = ContingencyTable(levels=[[0, 1]] * attributes, random_state=0).fit(rows)
    found = picture_of(table)
    assert found is not None
    words, drawn = found
    figure = getattr(drawn, "figure", drawn)
    assert WORDS[attributes] in words and ("Left" in words) is (len(figure.axes) > 1)


def test_an_empty_group_without_noise_is_drawn_without_warnings() -> None:
    rows = np.array([["a", 0], ["a", 1], ["b", 0], ["b", 1]] * 2, dtype=object)
    table = ContingencyTable(levels=[["a", "b", "c"], [0, 1]], epsilon=1e5, random_state=0).fit(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert picture_of(table) is not None
