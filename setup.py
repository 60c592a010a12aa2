"""Put the proof pages into the wheel, and make the source distribution the same on every machine."""

from __future__ import annotations

import gzip
import os
import shutil
import tarfile
from pathlib import Path
from typing import Any

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist


class BuildWithProofs(build_py):
    """Build the package with a copy of docs/proofs; an editable install reads the pages where they are.

    Receipts name the hashes of these pages, wherever the package is installed.
    """

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib) / "dpstats" / "proofs"
            target.mkdir(parents=True, exist_ok=True)
            for page in sorted(Path(__file__).parent.glob("docs/proofs/*.md")):
                shutil.copyfile(page, target / page.name)


class SameArchive(sdist):
    """Write the archive with the time of SOURCE_DATE_EPOCH, in the order of names, without an owner."""

    def make_archive(
        self, base_name: str, format: str, root_dir: Any = None, base_dir: Any = None, **options: Any
    ) -> str:
        if format != "gztar" or "SOURCE_DATE_EPOCH" not in os.environ:
            return super().make_archive(base_name, format, root_dir, base_dir, **options)
        path, time = f"{base_name}.tar.gz", int(os.environ["SOURCE_DATE_EPOCH"])
        with (
            open(path, "wb") as raw,
            gzip.GzipFile("", "wb", fileobj=raw, mtime=time) as packed,
            tarfile.open(fileobj=packed, mode="w") as archive,
        ):
            for file in sorted(file for file in Path(base_dir).rglob("*") if file.is_file()):
                entry = archive.gettarinfo(file)
                entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = time, 0, 0, "", ""
                entry.mode = 0o755 if entry.mode & 0o100 else 0o644
                with file.open("rb") as content:
                    archive.addfile(entry, content)
        return path


setup(cmdclass={"build_py": BuildWithProofs, "sdist": SameArchive})
