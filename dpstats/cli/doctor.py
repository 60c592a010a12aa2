"""``dpstats doctor``: checks of an installation, in a table or in JSON.

Every check takes well under a second. No check reads the user's data, and no file remains.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from dpstats import __version__
from dpstats.checks import Check
from dpstats.cli.exits import epilog
from dpstats.cli.options import QUIET, add_options
from dpstats.cli.verify import tell_checks

REQUIRED = (
    "numpy",
    "scipy",
    "scikit-learn",
    "threadpoolctl",
    "statsmodels",
    "opendp",
    "dp-accounting",
    "joblib",
    "tqdm",
    "narwhals",
)
OPTIONAL = {
    "matplotlib": "plot",
    "duckdb": "sql",
    "sqlglot": "sql",
    "psycopg": "postgres",
    "formulaic": "formula",
    "pyarrow": "parquet",
    "dask": "distributed",
    "pyspark": "spark",
    "pandas": "",
    "polars": "",
}
"""Packages and the extra of dpstats that installs each; some have none."""

_DRAWS = 1000
_FALSE_ALARM = 1e-9


def diagnose(folder: Path | str = ".") -> list[Check]:
    """Return the result of every check.

    Parameters
    ----------
    folder : path
        Folder of the ledgers.

    Examples
    --------
    >>> import tempfile
    >>> from dpstats.cli.doctor import diagnose
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checks = diagnose(folder)
    >>> all(check.passed for check in checks)
    True
    >>> [check.name for check in checks][:3]
    ['dpstats', 'required packages', 'optional packages']
    """
    return list(_checks(Path(folder)))


def _checks(folder: Path) -> Iterator[Check]:
    yield Check(
        "dpstats", True, f"{__version__}, Python {platform.python_version()}, {platform.platform(terse=True)}"
    )
    versions = {name: _version(name) for name in REQUIRED}
    missing = [name for name, version in versions.items() if version is None]
    listed = ", ".join(f"{name} {version or 'missing'}" for name, version in versions.items())
    yield Check("required packages", not missing, listed)
    yield Check(
        "optional packages", True, ", ".join(_optional(name, extra) for name, extra in OPTIONAL.items())
    )
    checks: dict[str, Callable[[], tuple[bool, str]]] = {
        "random numbers": _entropy,
        "linear algebra": _linear_algebra,
        "exact noise": _exact_noise,
        "ledger": lambda: _ledger(folder),
    }
    for name, check in checks.items():
        try:
            yield Check(name, *check())
        except Exception as error:  # an installation may be broken in any way
            yield Check(name, False, f"{type(error).__name__}: {error}")


def _version(package: str) -> str | None:
    import importlib.metadata

    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _optional(package: str, extra: str) -> str:
    version = _version(package)
    if version is not None:
        return f"{package} {version}"
    return f"{package} missing" + (f" (pip install 'dpstats[{extra}]')" if extra else "")


def _entropy() -> tuple[bool, str]:
    first, second = os.urandom(32), os.urandom(32)
    bits = sum(byte.bit_count() for byte in first + second)
    # Of 512 fair bits, fewer than 150 or more than 362 have a probability of 1e-20.
    return first != second and 150 <= bits <= 362, "the operating system's generator answers"


def _linear_algebra() -> tuple[bool, str]:
    import numpy as np
    from threadpoolctl import threadpool_info

    rows = np.arange(12.0).reshape(4, 3)
    right = bool(np.array_equal(rows.T @ rows, np.einsum("ij,ik->jk", rows, rows)))
    pools = sorted(
        {
            f"{pool['internal_api']} {pool['version'] or ''}, {pool['num_threads']} "
            f"thread{'s' * (pool['num_threads'] != 1)}"
            for pool in threadpool_info()
        }
    )
    return right, "; ".join(pools) or "no pool of threads"


def _exact_noise() -> tuple[bool, str]:
    """Compare the noise of one release with its distribution, by Kolmogorov and Smirnov's distance."""
    import numpy as np

    from dpstats.mechanisms import LaplaceMechanism

    released = np.sort(LaplaceMechanism(sensitivity=1.0, epsilon=1.0).release(np.zeros(_DRAWS)))
    exact = np.where(released < 0, np.exp(released) / 2, 1 - np.exp(-released) / 2)
    places = np.arange(_DRAWS + 1) / _DRAWS
    distance = float(max(np.max(exact - places[:-1]), np.max(places[1:] - exact)))
    limit = math.sqrt(math.log(2 / _FALSE_ALARM) / (2 * _DRAWS))
    repeated = len(np.unique(released)) < _DRAWS
    return distance <= limit and not repeated, (
        f"{_DRAWS:,} draws of Laplace noise: distance {distance:.3f} from their distribution, limit {limit:.3f}"
    )


def _ledger(folder: Path) -> tuple[bool, str]:
    import tempfile

    from dpstats.privacy import PrivacyBudget

    with tempfile.TemporaryDirectory(prefix="dpstats-doctor-", dir=folder) as inside:
        path = Path(inside) / "ledger.db"
        PrivacyBudget(0.25, ledger=path)
        kept = path.stat().st_size > 0 and PrivacyBudget(0.25, ledger=path).remaining.epsilon == 0.25
    return kept, f"a ledger can be written and read in {str(folder.resolve())!r}"


_BROKEN = 6
_FOLDER = """
    --folder FOLDER, default .
        folder of the ledgers (default: the current one)
    --json
        print JSON in place of the table
"""


def add_doctor(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "doctor",
        help="check the installation: versions, randomness, exact noise, a ledger",
        description="Check versions, the source of random numbers, linear algebra and its threads, optional packages, "
        "one exact release against its distribution, and that a ledger can be written. No file remains.",
        epilog=epilog(),
    )
    add_options(parser, _FOLDER + QUIET)
    parser.set_defaults(run=_doctor)


def _doctor(options: argparse.Namespace) -> int:
    return tell_checks(diagnose(options.folder), options, _BROKEN)
