"""Build the paper: tables and a figure from validation/results, then the PDF where LaTeX is installed.

python docs/paper/make.py FOLDER
"""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

HERE = Path(__file__).parent
RESULTS = HERE.parents[1] / "validation" / "results"
SOURCES = ("paper.tex", "references.bib")

Row = dict[str, str]


def records(name: str) -> list[Row]:
    """Return the rows of a file of results."""
    with (RESULTS / name).open(encoding="utf-8") as lines:
        return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def in_latex(text: str) -> str:
    """Return text with the special characters of LaTeX escaped."""
    return re.sub(r"([&%$#_{}])", r"\\\1", text)


def shown(error: float) -> str:
    """Return an error with three digits, or as a whole number."""
    return f"{error:,.0f}" if error >= 100 else f"{error:.3g}"


def as_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table for the package booktabs."""
    lines = [" & ".join(map(in_latex, row)) + r" \\" for row in rows]
    columns = "l" + "r" * (len(header) - 1)
    head = " & ".join(map(in_latex, header)) + r" \\"
    return "\n".join(
        [
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            head,
            r"\midrule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    )


def coverage() -> str:
    """Return the table of the coverage of means and variances, where the stated assumptions hold."""
    cells = [row for row in records("interval_coverage.csv") if row["holds"] == "True"]
    rows = []
    for estimator, estimand in sorted({(row["estimator"], row["estimand"]) for row in cells}):
        found = [
            float(row["coverage"]) for row in cells if (row["estimator"], row["estimand"]) == (estimator, estimand)
        ]
        low = sum(value < 0.93 for value in found)
        rows.append([estimator, estimand, f"{len(found):,}", f"{np.mean(found):.3f}", f"{min(found):.3f}", f"{low:,}"])
    return as_table(["Estimator", "Estimand", "Cells", "Mean", "Least", "Below 0.93"], rows)


def regressions() -> str:
    """Return the table of the errors of linear regressions, divided by the errors of least squares."""
    methods = (
        "PrivateLinearRegression",
        "SufficientStatisticsRegression",
        "FunctionalMechanismRegression",
        "AdaSSP",
        "noisy gradient descent",
    )
    cells = [row for row in records("regression.csv") if (row["design"], row["d"]) == ("isotropic", "10")]
    rows = []
    for epsilon in sorted({float(row["epsilon"]) for row in cells if row["method"] in methods}):
        for n in sorted({int(row["n"]) for row in cells}):
            errors = [
                next(
                    (
                        shown(float(row["error"]))
                        for row in cells
                        if row["method"] == method and float(row["epsilon"]) == epsilon and int(row["n"]) == n
                    ),
                    "--",
                )
                for method in methods
            ]
            rows.append([f"{epsilon:g}", f"{n:,}", *errors])
    header = ["epsilon", "n", "Linear", "Sufficient", "Functional", "AdaSSP", "Gradient"]
    return as_table(header, rows)


def audits() -> str:
    """Return the table of the audits of right releases and of planted bugs."""
    text = (RESULTS / "audit.md").read_text(encoding="utf-8")
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    rows = []
    for words, version in (("Right releases", "right"), ("Planted bugs", "planted bug")):
        found = [row[6] for row in cells if len(row) == 7 and row[1].startswith(version)]
        refuted = len(found) - found.count("passes") if version == "right" else found.count("caught")
        rows.append([words, f"{len(found)}", f"{refuted}"])
    return as_table(["Version", "Audits", "Refuted"], rows)


def draw_coverage(path: Path) -> None:
    """Draw the coverage of every cell against the number of rows."""
    cells = [row for row in records("interval_coverage.csv") if row["holds"] == "True"]
    figure = Figure(figsize=(6.0, 2.6), layout="constrained")
    axes = figure.subplots(1, 3, sharey=True)
    for axis, n in zip(axes, sorted({int(row["n"]) for row in cells}), strict=True):
        values = [float(row["coverage"]) for row in cells if int(row["n"]) == n]
        axis.hist(values, bins=np.arange(0.85, 1.0051, 0.01), color="0.55")
        axis.axvline(0.95, color="black", linewidth=1)
        axis.set(title=f"n = {n:,}", xlabel="coverage")
    axes[0].set_ylabel("cells")
    figure.savefig(path, metadata={"CreationDate": None})


def write_parts(folder: Path) -> list[str]:
    """Write the sources, the tables and the figure of the paper into a folder, and return their names."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = {"coverage.tex": coverage(), "regressions.tex": regressions(), "audits.tex": audits()}
    for name, text in tables.items():
        (folder / name).write_text(text, encoding="utf-8")
    draw_coverage(folder / "coverage.pdf")
    for name in SOURCES:
        shutil.copyfile(HERE / name, folder / name)
    return [*tables, "coverage.pdf", *SOURCES]


def main(folder: Path) -> None:
    write_parts(folder)
    if shutil.which("pdflatex") is None or shutil.which("bibtex") is None:
        print(f"LaTeX is not installed: pdflatex and bibtex make the paper of {folder}/paper.tex")
        return
    latex = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"]
    for command in (latex, ["bibtex", "paper"], latex, latex):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(done.stdout[-2000:])
    print(f"{folder}/paper.pdf")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
