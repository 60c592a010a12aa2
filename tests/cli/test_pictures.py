"""Pictures of commands are drawn with the options that were given."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpstats.cli import main

COMMANDS = {
    "group-means": ["--column", "x", "--by", "g", "--groups", "a,b,c", "--bounds", "0", "9"],
    "quantile": ["--column", "x", "--quantile", "0.5", "--bounds", "0", "9"],
    "histogram": ["--column", "x", "--bins", *map(str, range(10))],
    "table": ["--levels", "g=a,b,c", "--levels", "h=u,v"],
    "survival": ["--time", "x", "--event", "e", "--horizon", "8", "--bins", "4"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_picture_has_the_level_that_was_asked(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {"x": rng.uniform(0, 9, 400), "g": rng.choice([*"abc"], 400), "h": rng.choice([*"uv"], 400), "e": 1}
    )
    table.to_csv(tmp_path / "t.csv", index=False)
    drawn = []
    for level in ("0.5", "0.99", "0.5"):
        picture = tmp_path / f"{len(drawn)}.png"
        files = [str(tmp_path / "t.csv"), "--plot", str(picture), "--quiet"]
        assert main([name, *files, *COMMANDS[name], "--seed", "1", "--confidence", level]) == 0
        drawn.append(picture.read_bytes())
    assert drawn[0] == drawn[2] != drawn[1]
