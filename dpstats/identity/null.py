"""Public null distributions: simulate the released statistic, including noise, once, and store it."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import threading
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.parameters import check_flag, check_jobs
from dpstats.errors import attempt, refuse
from dpstats.parallel import cut, one_blas_thread, run_blocks

# The seed is fixed and independent of any user's seed. The same test of the same public size has the same critical
# value everywhere.

PUBLIC_SEED = 20_200_613
"""Public seed of all null simulations."""

_BLOCK = 50  # datasets with one seed
_KEPT = 256

_SCHEMA = 3  # version of keys and files; raise it if the same key gets other numbers

_DECIMAL = re.compile(r"\d+\.\d+(?:e[-+]?\d+)?|\d+e[-+]?\d+")

_memory: OrderedDict[tuple[str, str | None], NDArray[np.float64]] = OrderedDict()
"""Null statistics by key and cache directory. A test uses only the directory that it names."""

SLOW = 5.0
"""Seconds from which on a calibration is also kept with the compiled code of the package, for later processes."""

_lock = threading.Lock()

Simulate = Callable[[int, np.random.Generator], NDArray[np.float64]]


def null_statistics(
    key: str,
    size: int,
    simulate: Simulate,
    *,
    cache_dir: Any = None,
    n_jobs: int | None = None,
    progress: bool = False,
    infinite: bool = False,
    seconds: float = 0.0,
) -> NDArray[np.float64]:
    """Return ``size`` ascending draws of a released statistic under the null, from the cache if available.

    Parameters
    ----------
    key : str
        Everything that determines the distribution.
    size : int
    simulate : callable
        (size, generator) -> draws.
    cache_dir : path, optional
        Directory in which to store them, in a file named after the key.
    n_jobs : int, optional
        Threads; None is one, -1 one per core. The draws do not depend on it.
    progress : bool
        Whether to show a progress bar.
    infinite : bool
        Whether draws may be infinite, because an earlier stage may reject.
    seconds : float
        Approximate time of all draws. Slow ones are kept in a file of the package.
    """
    # Check before the cache, because a cached calibration uses neither parameter.
    check_jobs(n_jobs)
    check_flag("progress", progress)
    directory = None if cache_dir is None else _directory(cache_dir)
    digest = _sha256(f"{_SCHEMA} {key} {size} {PUBLIC_SEED}")
    place = (digest, None if directory is None else str(directory))
    known = _recalled(place)
    if known is not None:
        return known
    if directory is not None:
        known = _read(directory / f"{digest}.npy", size, infinite)
    if known is None:
        if directory is not None:
            _check_writable(directory)
            known = _recalled((digest, None))
        own = _own_file(digest) if seconds >= SLOW else None
        if known is None and own is not None:
            known = _read(own, size, infinite)
        if known is None:
            # Each distribution has a separate stream, the same on every processor: processors may differ in the last
            # digits of a sum or a root, so numbers have eight digits.
            rounded = _DECIMAL.sub(lambda found: f"{float(found.group()):.8g}", key)
            seed = np.random.default_rng([PUBLIC_SEED, int(_sha256(f"{rounded} {size}")[:16], 16)])
            known = np.sort(simulate_blocks(size, simulate, seed, n_jobs, progress, "null distribution"))
            known.setflags(write=False)
            _remember((digest, None), known)
            if own is not None:
                with suppress(OSError):  # a package that cannot be written to keeps nothing
                    own.parent.mkdir(exist_ok=True)
                    _write(own, known)
        if directory is not None:
            _write(directory / f"{digest}.npy", known)
    _remember(place, known)
    return known


def _own_file(digest: str) -> Path:
    """Return the file for a null distribution in the folder of the package's compiled code."""
    name = _sha256(f"{digest} {_sources()}")
    return Path(__file__).with_name("__pycache__") / f"null-{name[:32]}.npy"


@cache
def _sources() -> str:
    """Return a digest of this package, NumPy and SciPy: each combination of versions has its own files."""
    found = hashlib.sha256(f"{version('numpy')} {version('scipy')}".encode())
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()


def _recalled(place: tuple[str, str | None]) -> NDArray[np.float64] | None:
    with _lock:
        known = _memory.get(place)
        if known is not None:
            _memory.move_to_end(place)
        return known


def _remember(place: tuple[str, str | None], known: NDArray[np.float64]) -> None:
    with _lock:
        _memory[place] = known
        _memory.move_to_end(place)
        while len(_memory) > _KEPT:
            _memory.popitem(last=False)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def simulate_blocks(
    size: int,
    simulate: Simulate,
    seed: np.random.Generator,
    n_jobs: int | None,
    progress: bool = False,
    description: str = "",
) -> NDArray[np.float64]:
    """Return ``size`` draws in blocks with separate seeds, so that fewer draws are the first of more."""
    from joblib import parallel_config

    blocks = [(block,) for block in cut(size, _BLOCK)]
    # Use threads, because numpy takes most of the time. Each has one BLAS thread, because BLAS threads would block each
    # other.
    with one_blas_thread(), parallel_config(backend="threading"):
        parts = run_blocks(
            simulate,
            blocks,
            random_state=seed,
            n_jobs=check_jobs(n_jobs),
            progress=progress,
            description=description,
        )
    return np.concatenate(parts)


def _directory(cache_dir: Any) -> Path:
    # A path-like object may return bytes, which Path refuses.
    is_path = isinstance(cache_dir, str | os.PathLike)
    directory = attempt(lambda: Path(cache_dir).absolute(), TypeError) if is_path else None
    if directory is None:
        raise refuse("cache_dir", given=cache_dir, allowed="None or a path")
    return directory


def _check_writable(directory: Path) -> None:
    """Raise an error for a directory without write access, before the simulation starts."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except (OSError, ValueError) as error:
        raise refuse(
            "cache_dir",
            got=f"{str(directory)!r}: {error}",
            allowed="a directory that can be written to",
        ) from None


def _read(path: Path, size: int, infinite: bool) -> NDArray[np.float64] | None:
    """Return the statistics in a file, or None if it is missing or invalid."""
    try:
        known = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError, MemoryError, zipfile.BadZipFile):
        return None
    if not isinstance(known, np.ndarray) or known.shape != (size,) or known.dtype != np.float64:
        return None
    if not np.all(np.isfinite(known) | (infinite & (known == np.inf))):
        return None
    known = np.sort(known)
    known.setflags(write=False)
    return np.asarray(known)


def _write(path: Path, known: NDArray[np.float64]) -> None:
    """Write a file atomically."""
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    with os.fdopen(handle, "wb") as file:
        np.save(file, known)
    os.replace(name, path)
