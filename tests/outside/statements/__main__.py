"""Run the net, ``python -m tests.outside.statements --minutes 15``, or one cell of it, ``--cell SEED:K``."""

from __future__ import annotations

import argparse
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from tests.outside.seeds import daily_seed
from tests.outside.statements.net import FAMILIES, FAULTS, SECONDS, Net, judge_cell

PAGE = Path(__file__).with_name("measured.md")
HEAD = """# Statements of random cells

Measured on {:%Y-%m-%d} by `{}`, at commit {}. `python -m tests.outside.statements --cell SEED:K` tries one cell again.

```text
{}
```

*False*: answers are wrong more often than they say, by a test with one false alarm in 1,000 cells, and most outputs do
not name the reason. *Named*: they do. *Useless*: an interval is more than 5 times as long as that of a public rule,
which is told the design or the sizes of groups, at the same privacy. *Undecided*: neither in 1,000 fits or in the
time of a cell. At an epsilon of 10,000, coefficients may differ from statsmodels by 2 standard errors, and means from
pandas by 0.1.
"""


def run() -> int:
    """Print what was found; 1 if a statement was false."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=daily_seed())
    parser.add_argument("--cells", type=int, default=10**9, help="at most this many cells")
    parser.add_argument("--first", type=int, default=0, help="number of the first cell")
    parser.add_argument("--family", choices=FAMILIES, nargs="+", default=[], help="no others; --cell needs them again")
    parser.add_argument("--jobs", type=int, default=1, help="so many processes")
    parser.add_argument("--cell", metavar="SEED:K", help="one cell, again")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name} beside the net")
    options = parser.parse_args()
    if options.cell:
        seed, k = map(int, options.cell.split(":"))
        _, drawn, verdict = judge_cell(seed, k, SECONDS, options.family)
        print(drawn, verdict, f"{verdict.seconds:.1f} s", sep="\n")
        for note, times in verdict.notes.most_common():
            print(f"{times:5} fits: {note}")
        return int(verdict.kind in FAULTS)
    cells = range(options.first, options.first + options.cells)
    net = Net(options.seed, options.family).run(60 * options.minutes, cells, jobs=options.jobs)
    print(net.page())
    if options.write:
        commit = subprocess.run(["git", "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True).stdout
        command = f"python -m tests.outside.statements --minutes {options.minutes:g} --seed {options.seed}"
        PAGE.write_text(HEAD.format(datetime.now(UTC), command, commit.strip(), net.page()), encoding="utf-8")
    return int(bool(net.faults))


raise SystemExit(run())
