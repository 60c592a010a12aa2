"""List the pages of results that are older than the code that they measure.

A page measures the packages whose names its script imports, directly or through other scripts of this folder. It is
outdated if a module of these packages has changed since the commit that wrote the page. Comments, docstrings and the
layout of code do not count. A module that is listed need not change a figure: that is for the reader to judge.

    python validation/outdated.py              # every such page: its date, and the modules by package
    python validation/outdated.py survival     # with "survival" in its name
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
_RESULT = re.compile(r"`(\w+\.md)`")
_SCRIPT = re.compile(r"^\| `((?:studies|real|searches|benchmarks|peers)/[\w/]+\.py)` \|")


def find_scripts(table: str) -> dict[str, list[str]]:
    """Return the scripts of every page of results, from the table in validation/README.md."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in table.splitlines():
        if script := _SCRIPT.match(line):
            for page in _RESULT.findall(line.split("|")[4]):
                found[page].append(script[1])
    return dict(found)


def find_packages(script: Path, folder: Path) -> set[str]:
    """Return the packages that a script imports names from, also through other scripts below a folder."""
    beside: dict[str, list[Path]] = defaultdict(list)
    for path in folder.rglob("*.py"):
        beside[path.stem].append(path)
    found, waiting, read = set(), [script], set()
    while waiting:
        path = waiting.pop()
        if path in read:
            continue
        read.add(path)
        for module, name in imports(path.read_text(encoding="utf-8")):
            if module.split(".")[0] == "dpstats":
                found |= {find_package(module, name)} - {""}
            else:
                waiting += beside.get(module.split(".")[-1], [])
    return found


def imports(source: str) -> Iterator[tuple[str, str]]:
    """Yield the modules that a source imports, each with a name from it, or with ""."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((one.name, "") for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, one.name) for one in node.names)


def find_package(module: str, name: str) -> str:
    """Return the package of dpstats in which a name is defined; "" for dpstats itself and its version."""
    if module == "dpstats" and name:
        value = getattr(import_module(module), name)
        module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", module)
    return ".".join(module.split(".")[:2]) if "." in module else ""


@lru_cache(maxsize=4096)
def same_code(before: str, after: str) -> bool:
    """Say whether two sources differ in comments, docstrings and layout only."""
    return _bare(before) == _bare(after)


def _bare(source: str) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [one for one in node.body if not _is_text(one)] or [ast.Pass()]
    return ast.dump(tree)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def git(*arguments: str, root: Path = ROOT) -> str:
    """Return the output of git, and "" if it fails, for example for a file that is not in a commit."""
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False).stdout


def find_changes(page: str, packages: set[str], root: Path = ROOT) -> tuple[str, list[str]]:
    """Return the date on which a page was last committed, and the modules of packages whose code changed afterwards."""
    commit, _, date = git("log", "-1", "--format=%H %cs", "--", page, root=root).strip().partition(" ")
    places = [place for name in sorted(packages) for place in _places(name)]
    names = git("diff", "--name-only", commit, "--", *places, root=root).split() if commit and places else []
    return date, [
        name
        for name in names
        if not (root / name).exists()
        or not same_code(git("show", f"{commit}:{name}", root=root), (root / name).read_text(encoding="utf-8"))
    ]


def _places(package: str) -> tuple[str, str]:
    path = package.replace(".", "/")
    return f":(glob){path}/**/*.py", f"{path}.py"


def format_modules(names: list[str]) -> str:
    """Return modules as text, by package: "regression (base, path), parallel"."""
    found: dict[str, list[str]] = defaultdict(list)
    for name in names:
        *folders, file = Path(name).with_suffix("").parts[1:]
        found["/".join(folders)].append(file)
    alone = found.pop("", [])
    return ", ".join([*(f"{folder} ({', '.join(files)})" for folder, files in found.items()), *alone])


def main(arguments: list[str]) -> int:
    validation = ROOT / "validation"
    table, lines = (validation / "README.md").read_text(encoding="utf-8"), []
    for page, scripts in find_scripts(table).items():
        if arguments and not any(word in page for word in arguments):
            continue
        packages = set().union(*(find_packages(validation / script, validation) for script in scripts))
        date, names = find_changes(f"validation/results/{page}", packages)
        if names:
            lines.append(f"{date} {page}: {format_modules(names)}")
    print(*sorted(lines), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
