"""Checks of a private estimator by its author: the tests that every release of this package passes."""

from dpstats.testing.release_check import CheckItem, ReleaseCheck, check_release

__all__ = ["CheckItem", "ReleaseCheck", "check_release"]


def __dir__() -> list[str]:
    return sorted(__all__)
