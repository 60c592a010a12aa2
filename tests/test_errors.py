"""Exceptions: what they are besides ours, so that callers catch them by habit."""

from __future__ import annotations

import inspect

import pytest

from dpstats import errors

OURS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if kind.__module__ == errors.__name__ and issubclass(kind, Exception)
]


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.__name__)
def test_every_exception_is_ours_and_says_what_it_is_for(kind: type[Exception]) -> None:
    assert issubclass(kind, errors.DPStatsError) and kind.__doc__
    with pytest.raises(errors.DPStatsError, match="what was given"):
        raise kind("what was given")


def test_bad_input_is_a_value_error() -> None:
    assert issubclass(errors.InvalidParameter, ValueError) and issubclass(errors.InvalidData, ValueError)
