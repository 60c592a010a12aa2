"""The R package in r/ passes its tests, where R and the packages that it needs are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
NEEDED = ("reticulate", "generics", "testthat")


def _run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "RETICULATE_PYTHON": sys.executable, "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run(words, capture_output=True, text=True, check=False, env=environment)


def test_the_package_for_r_passes_its_tests(tmp_path: Path) -> None:
    pytest.importorskip("formulaic")
    if shutil.which("Rscript") is None:
        pytest.skip("R is not installed")
    absent = [name for name in NEEDED if _run("Rscript", "-e", f"library({name})").returncode != 0]
    if absent:
        pytest.skip(f"R has no {', '.join(absent)}")
    shutil.copytree(ROOT / "r", tmp_path / "source")
    library = tmp_path / "library"
    library.mkdir()
    installed = _run("R", "CMD", "INSTALL", f"--library={library}", str(tmp_path / "source"))
    assert installed.returncode == 0, installed.stderr
    tests = tmp_path / "source" / "tests" / "testthat"
    code = f"testthat::test_dir('{tests}', package = 'dpstats', load_package = 'installed', reporter = 'check')"
    done = _run("Rscript", "-e", code, R_LIBS=str(library))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAIL 0" in done.stdout and "SKIP 0" in done.stdout
