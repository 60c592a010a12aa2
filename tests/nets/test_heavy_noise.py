"""Noise of any size: a fit is refused before anything is released, or it reports everything that can be asked of it.

An error after a release would lose what was paid for, and would depend on private rows.
"""

from __future__ import annotations

from typing import Any

import pytest

from dpstats.errors import InvalidParameter
from dpstats.release.session import Session
from tests.nets.cases import CASES, Given
from tests.nets.numbers import report


@pytest.mark.parametrize(
    ("epsilon", "few", "draws"), [(0.0005, 0, 1), (0.05, 0, 1), (1e6, 0, 1), (0.05, 200, 1), (0.5, 24, 15), (1e6, 5, 1)]
)
@pytest.mark.parametrize("name", CASES)
def test_every_question_has_an_answer(
    name: str, epsilon: float, few: int, draws: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, (make, asked) = [], CASES[name]
    enter = Session.__enter__

    def noted(session: Any) -> Any:
        entered.append(session)
        return enter(session)

    monkeypatch.setattr(Session, "__enter__", noted)
    for draw in range(draws):
        try:
            fitted = make(Given(epsilon=epsilon, draw=draw, few=few))
        except InvalidParameter:
            assert not entered
            return
        report(fitted, asked)
        str(fitted.summary())
        entered.clear()
