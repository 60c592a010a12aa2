"""Former names still work, with a warning that names the new one."""

from __future__ import annotations

import importlib

import pytest

from dpstats import inference


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("dpstats.tables", "Effect", inference.Estimates),
    ],
)
def test_a_former_name_is_the_new_class(module: str, old: str, new: type) -> None:
    with pytest.warns(
        DeprecationWarning, match=f"{old} has been replaced. Use {new.__module__}.{new.__name__}"
    ):
        assert getattr(importlib.import_module(module), old) is new


def test_other_names_are_unknown() -> None:
    with pytest.raises(AttributeError, match=r"'dpstats.tables' has no attribute 'Effects'"):
        importlib.import_module("dpstats.tables").Effects  # noqa: B018
