"""Seeded numbers are as recorded: see `tests/nets/recorded.py`."""

from __future__ import annotations

import pytest

from tests.nets.recorded import SCENES, changes, record


@pytest.mark.parametrize("name", SCENES)
def test_numbers_are_as_recorded(name: str) -> None:
    found = changes(name)
    assert not found, "\n".join([*found[:20], "If this is meant: make record"])


def test_every_recorded_scene_is_played() -> None:
    assert record().keys() == SCENES.keys()
