"""What random cells show of each class: answers that hold, that are wrong and say so, that are wrong, or useless.

A cell is random rows, a random estimator with random parameters, and one of its questions. Each cell has at least 20
fits. `tests/outside/statements` draws and judges it.

    python validation/studies/random_cells.py --seed 1 --minutes 9
    python validation/studies/random_cells.py --seed 2 --minutes 9 --add
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import dpstats
from tests.outside.statements.net import KINDS, Net

RESULTS = Path(__file__).resolve().parents[1] / "results" / "random_cells.md"
HEAD = """# What random cells show

{runs}

A cell has random rows, an estimator with random parameters, and a question, such as an interval or a test. Numbers of
cells:

* **good**: answers are wrong at most as often as they state.
* **named**: they are wrong more often, and most outputs name the reason.
* **as others**: they are wrong more often, and the usual method without privacy is, too.
* **false**: they are wrong more often, by a test with one false alarm in 1,000 cells.
* **useless**: intervals are more than five times as long as by a public rule at the same privacy.
* **undecided**: no verdict in 1,000 fits, or in the time of a cell. **refused**: the plan or the fit was
  refused. **crash**: another error.

{table}
"""


def read_counts(page: str) -> Counter[tuple[str, str]]:
    """Return the counts by class and verdict of a page."""
    rows = {
        line.split("`")[1]: re.findall(r"(?<=\| )\d+", line)
        for line in page.splitlines()
        if line.startswith("| `")
    }
    return Counter(
        {(name, kind): int(n) for name, row in rows.items() for kind, n in zip(KINDS, row[1:], strict=True)}
    )


def write_table(counts: Counter[tuple[str, str]]) -> str:
    """Return the table of a page."""
    lines = [f"| class | cells | {' | '.join(KINDS)} |", "|---" * (len(KINDS) + 2) + "|"]
    for name in sorted({name for name, _ in counts}):
        row = [counts[name, kind] for kind in KINDS]
        lines.append(f"| `{name}` | {sum(row)} | {' | '.join(map(str, row))} |")
    return "\n".join(lines)


def main() -> None:
    """Try cells and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--add", action="store_true", help="add to the cells of the page")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    before = options.output.read_text(encoding="utf-8") if options.add else ""
    net = Net(options.seed).run(60 * options.minutes)
    run = (
        f"* {time.strftime('%Y-%m-%d')}, `python validation/studies/random_cells.py --seed {options.seed} "
        f"--minutes {options.minutes:g}`, dpstats {dpstats.__version__}: {sum(net.counts.values())} cells."
    )
    runs = [*re.findall(r"^\* 20.*$", before, re.MULTILINE), run]
    table = write_table(read_counts(before) + net.counts)
    options.output.write_text(HEAD.format(runs="\n".join(runs), table=table), encoding="utf-8")
    print(net.page())


if __name__ == "__main__":
    main()
