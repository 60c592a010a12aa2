"""Verdicts: which of the four words are good news."""

from __future__ import annotations

from dpstats.simulation import table as verdicts


def test_two_of_the_four_verdicts_are_good() -> None:
    words = (verdicts.REPRODUCED, verdicts.FINITE_SIZE, verdicts.UNDECIDED, verdicts.NOT_REPRODUCED)
    assert len(set(words)) == 4
    assert [verdicts.reproduced(word) for word in words] == [True, True, False, False]
