"""Measures of the code that a newcomer meets: sizes, imports, what a fit walks through, arrows between packages.

python validation/house.py                 # or: make house
python validation/house.py --way           # also the modules on the way of one fit, with their calls
"""

from __future__ import annotations

import argparse
import ast
import inspect
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import dpstats
from dpstats.inference import HasEstimates  # noqa: F401  (loaded before the trace)
from dpstats.means import ClippedMean
from dpstats.regression import PrivateLinearRegression

ROOT = Path(dpstats.__file__).parent
GOALS = {
    "code lines per file": "250 to 400",
    "files": "at most 220",
    "lines": "at most 80,000",
    "lines that import": "at most 4%",
    "lines of a function": "12 to 20",
    "comment lines per code line": "4%",
    "files of fewer than 110 lines": "",
    "modules beside the packages": "at most 4",
    "arrows between packages": "at most 215",
    "files on the way of a clipped mean": "at most 18",
    "own classes above ClippedMean": "at most 4",
    "own classes above PrivateLinearRegression": "at most 4",
    "public attributes of a fitted mean": "at most 35",
    "private attributes of a fitted mean": "at most 30",
}


def find_files() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def count_lines(path: Path) -> Counter[str]:
    """Return the numbers of lines of code, imports and comments of a file, and of all lines."""
    with path.open("rb") as file:
        tokens = list(tokenize.tokenize(file.readline))
    comments = {token.start[0] for token in tokens if token.type == tokenize.COMMENT}
    skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    skipped |= {tokenize.ENCODING, tokenize.ENDMARKER}
    used = {line for token in tokens if token.type not in skipped for line in range(token.start[0], token.end[0] + 1)}
    tree = ast.parse(path.read_text(encoding="utf-8"))
    strings = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    imports = {
        line
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    every = len(path.read_text(encoding="utf-8").splitlines())
    return Counter(lines=every, code=len(used - strings), imports=len(imports), comments=len(comments - used))


def function_lengths(path: Path) -> Iterator[int]:
    """Yield the number of lines of each function without its docstring."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            documented = ast.get_docstring(node, clean=False) is not None
            first = node.body[0]
            told = (first.end_lineno or first.lineno) - first.lineno + 1 if documented else 0
            yield (node.end_lineno or node.lineno) - node.lineno + 1 - told


def package(module: str) -> str:
    """Return the package of a module, or the module that stands beside the packages."""
    return ".".join(module.split(".")[:2])


def arrows() -> set[tuple[str, str]]:
    """Return pairs of packages of which the first imports the second."""
    found = set()
    for path in find_files():
        own = ".".join(["dpstats", *path.relative_to(ROOT).with_suffix("").parts])
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dpstats"):
                names = (
                    [f"{node.module}.{one.name}" for one in node.names] if node.module == "dpstats" else [node.module]
                )
                found |= {(package(own), package(name or "")) for name in names}
    return {(a, b) for a, b in found if a != b and b != "dpstats"}


def walk(call: Any) -> Counter[str]:
    """Return the modules of the package that a call runs through, with the number of calls in each."""
    found: Counter[str] = Counter()

    def trace(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(ROOT)):
            found[str(Path(frame.f_code.co_filename).relative_to(ROOT))] += 1

    sys.setprofile(trace)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def classes_above(kind: type) -> list[str]:
    return [one.__name__ for one in kind.__mro__[1:] if one.__module__.startswith("dpstats")]


def fit_mean() -> ClippedMean:
    return ClippedMean(bounds=(0, 1), random_state=0).fit(np.linspace(0, 1, 500))


def measure() -> dict[str, Any]:
    files = find_files()
    lines = [count_lines(path) for path in files]
    total = sum(lines, Counter())
    lengths = [length for path in files for length in function_lengths(path)]
    fit_mean()  # what is loaded once is not on the way
    model = fit_mean()
    public = {name for name in {*vars(model), *dir(type(model))} if not name.startswith("_")}
    private = {
        name
        for name in {*vars(model), *dir(type(model))}
        if name.startswith("_") and not name.startswith("__") and "sklearn" not in name
    }
    return {
        "code lines per file": round(total["code"] / len(files)),
        "files": len(files),
        "lines": f"{total['lines']:,}",
        "lines that import": f"{total['imports'] / total['code']:.1%}",
        "lines of a function": round(float(np.mean(lengths)), 1),
        "comment lines per code line": f"{total['comments'] / total['code']:.1%}",
        "files of fewer than 110 lines": sum(count["lines"] < 110 for count in lines),
        "modules beside the packages": len([*ROOT.glob("*.py")]) - 1,
        "arrows between packages": len(arrows()),
        "files on the way of a clipped mean": len(walk(fit_mean)),
        "own classes above ClippedMean": len(classes_above(ClippedMean)),
        "own classes above PrivateLinearRegression": len(classes_above(PrivateLinearRegression)),
        "public attributes of a fitted mean": len(public),
        "private attributes of a fitted mean": len(private),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=inspect.getdoc(sys.modules[__name__]))
    parser.add_argument("--way", action="store_true", help="also the modules on the way of one fit")
    given = parser.parse_args()
    print("| measure | now | goal |\n|---|---|---|")
    for name, value in measure().items():
        print(f"| {name} | {value} | {GOALS[name]} |")
    if given.way:
        print()
        for path, calls in sorted(walk(fit_mean).items()):
            print(f"{calls:5d}  {path}")


if __name__ == "__main__":
    main()
