"""What the rows of a study were computed with: Python, this package and those it computes with."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from dpstats import __version__

Versions = Mapping[str, str]
"""By package, and "Python"."""

_PACKAGES = ("numpy", "scipy", "scikit-learn", "statsmodels", "joblib")


@cache
def versions() -> Versions:
    """Return the versions with which this process computes."""
    found = {"Python": platform.python_version(), "dpstats": __version__}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
