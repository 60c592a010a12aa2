"""Put the proof pages into the wheel, so that receipts can name their hashes wherever it is installed."""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithProofs(build_py):
    """Build the package with a copy of docs/proofs; an editable install reads the pages where they are."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib) / "dpstats" / "proofs"
            target.mkdir(parents=True, exist_ok=True)
            for page in sorted(Path(__file__).parent.glob("docs/proofs/*.md")):
                shutil.copyfile(page, target / page.name)


setup(cmdclass={"build_py": BuildWithProofs})
