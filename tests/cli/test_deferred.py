"""Modules of a command that load at their first use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

MADE = "import sys; sys.path.insert(0, {folder!r}); from dpstats.cli.options import defer; defer('slow', 'absent')\n"


def run(folder: Path, text: str) -> list[str]:
    (folder / "slow").mkdir()
    (folder / "slow" / "__init__.py").write_text("print('loaded')\nvalue = 1\n")
    (folder / "slow" / "part.py").write_text("other = 2\n")
    done = subprocess.run(
        [sys.executable, "-c", MADE.format(folder=str(folder)) + text], capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_a_module_loads_at_its_first_use(tmp_path: Path) -> None:
    text = (
        "import slow\nprint('imported')\nprint(slow.value)\n"
        "import slow as again\nprint(again is sys.modules['slow'], again.value)"
    )
    assert run(tmp_path, text) == ["imported", "loaded", "1", "True", "1"]


def test_a_part_or_a_name_of_a_module_loads_it(tmp_path: Path) -> None:
    text = "import slow\nprint('imported')\nfrom slow.part import other\nfrom slow import value\nprint(other, value)"
    assert run(tmp_path, text) == ["imported", "loaded", "2", "1"]


def test_a_module_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    text = "try:\n    import absent\nexcept ImportError:\n    print('absent')"
    assert run(tmp_path, text) == ["absent"]


def test_a_mean_loads_no_module_that_it_does_not_use(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("age\n" + "\n".join(map(str, range(200))) + "\n")
    text = (
        "import atexit, sys\n"
        "slow = ('pandas.core', 'scipy.stats._stats_py', 'scipy.optimize._optimize', 'scipy.signal._signaltools')\n"
        "slow += ('scipy.fft._basic', 'numpy.f2py.crackfortran', 'numpy.testing._private', 'asyncio.events')\n"
        "atexit.register(lambda: print('slow:', *(name for name in slow if name in sys.modules)))\n"
        "sys.argv = ['dpstats', 'mean', 'people.csv', '--column', 'age', '--bounds', '0', '100', '--seed', '1']\n"
        "from dpstats.cli import main\nmain()\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.splitlines()[-1].split() == ["slow:"]
