"""Check an installed package without its sources: `make dist` runs this file in a clean environment, with python -I."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import dpstats
from dpstats.means import ClippedMean
from dpstats.release.receipts import verify_receipt


def main() -> None:
    package = Path(dpstats.__file__).parent
    assert "site-packages" in package.parts, f"dpstats is imported from {package}"
    files = {str(path) for path in importlib.metadata.files("dpstats") or ()}
    beside = {name.split("/")[0] for name in files if not name.startswith(("dpstats", ".."))}
    assert not beside, f"the wheel has files beside the package: {sorted(beside)}"
    assert {"dpstats/py.typed", "dpstats/proofs/clipped-mean.md"} <= files

    fit = ClippedMean(clip=1.0, epsilon=1.0).fit(np.linspace(-1, 1, 1000)[:, None])
    key = "sixteen bytes or more"
    checks = verify_receipt(fit.receipt(key).to_json(), key)
    assert all(check.passed for check in checks), checks
    assert "clipped-mean.md" in {check.name: check.found for check in checks}["proofs"]

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "x.csv").write_text("age\n" + "".join(f"{i % 90}\n" for i in range(500)))
        command = [sys.executable, "-m", "dpstats"]
        subprocess.run([*command, "doctor"], cwd=folder, check=True)
        mean = [*command, "mean", "x.csv", "--column", "age", "--bounds", "0", "90", "--epsilon", "1", "--json"]
        printed = subprocess.run(mean, cwd=folder, check=True, capture_output=True, text=True).stdout
        json.loads(printed)
    print(f"dpstats {dpstats.__version__} works without its sources")


if __name__ == "__main__":
    main()
