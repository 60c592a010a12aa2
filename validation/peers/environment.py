"""Run a script beside peers that cannot share an environment with dpstats."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ENVIRONMENT = Path(__file__).resolve().parents[2] / ".venv-peers"
REQUIREMENTS = ["diffprivlib>=0.6.6", "scikit-learn<1.6"]


def run_in_peers(script: Path, *arguments: str) -> dict[str, Any]:
    """Run a script in .venv-peers, built where it is missing, and return the JSON that it prints."""
    if not ENVIRONMENT.exists():
        subprocess.run([sys.executable, "-m", "venv", ENVIRONMENT], check=True)
    python = ENVIRONMENT / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", *REQUIREMENTS]
    subprocess.run([python, *install], check=True, stdout=sys.stderr)
    done = subprocess.run([python, script, *arguments], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)
