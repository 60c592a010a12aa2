"""dpstats survival: the table and the JSON are what was fitted; bad input is one line and costs nothing."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpstats.cli import main
from dpstats.cli.options import spell_notes
from dpstats.survival import PrivateSurvival
from tests.cli.commands import failed, json_of

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "person": [f"p{i}" for i in range(800)],
        "week": RNG.integers(1, 60, 800),
        "arrest": RNG.integers(2, size=800),
        "arm": RNG.choice(["old", "new"], 800),
    }
)
ASKED = ["--time", "week", "--event", "arrest", "--horizon", "52", "--bins", "13"]
BY = [*ASKED, "--by", "arm", "--groups", "old,new"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    FRAME.to_csv(path, index=False)
    return path


def test_it_prints_what_a_fit_says(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = {"horizon": 52, "bins": 13, "time": "week", "event": "arrest", "by": "arm", "groups": ["old", "new"]}
    model = PrivateSurvival(**options, random_state=1).fit(FRAME)
    assert main(["survival", str(file), *BY, "--seed", "1"]) == 0
    printed = capsys.readouterr().out
    for table in (model.summary(), model.log_rank().summary()):
        assert str(spell_notes(table, Namespace(seed=1, discrete=False))) in printed
    result = json_of(["survival", str(file), *BY, "--seed", "1"], capsys)
    assert result["log_rank"]["pvalue"] == model.log_rank().pvalue
    assert [row["name"] for row in result["medians"]] == ["old", "new"]
    assert len(result["life_table"]) == 26 and result["life_table"][3]["at_risk"] == model.at_risk_[0, 3]
    result = json_of(["survival", str(file), *BY, "--seed", "1", "--confidence", "0.8"], capsys)
    expected = model.life_table(confidence_level=0.8)
    assert [row["low"] for row in result["life_table"]] == expected["low"].tolist()


def test_units_discrete_times_and_pictures(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "curve.png"
    more = ["--unit", "person", "--discrete", "--seed", "1", "--plot", str(picture)]
    assert main(["survival", str(file), *ASKED, *more]) == 0
    assert "one person replaced" in capsys.readouterr().out and picture.exists()


def test_declared_edges_with_events_at_time_zero(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    times = ["survival", str(file), *ASKED[:4], "--seed", "1"]
    edges = [0, *range(4, 53, 4)]
    result = json_of([*times, "--edges", ",".join(map(str, edges)), "--discrete"], capsys)
    model = PrivateSurvival(edges=edges, discrete=True, time="week", event="arrest", random_state=1).fit(FRAME)
    assert [row["survival"] for row in result["life_table"]] == model.life_table()["survival"].tolist()
    assert [row["end"] for row in result["life_table"]] == edges
    assert "--edges must be increasing times" in failed([*times, "--edges", "4,x"], capsys)
    assert "bins must be None with edges" in failed([*times, "--bins", "3", "--edges", "4,8"], capsys)
    assert "horizon must be given" in failed(times, capsys)


VALUES = {
    "words": (("left", "relapse", "death, other"), ["--censored", "left", "--cause", 'relapse,"death, other"']),
    "two options": ((2, 1, 7), ["--censored", "2", "--cause", "1", "--cause", "7.0"]),
    "one cause": ((9, 3, 3), ["--censored", "9", "--cause", "3"]),
    "truth values": ((True, False, False), ["--censored", "true", "--cause", "false"]),
    "of the default": ((0, 1, 1), []),
}


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("case", VALUES)
def test_values_of_censored_times_and_of_causes_are_declared(
    tmp_path: Path, case: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    values, options = VALUES[case]
    codes = np.where(FRAME["arrest"] == 0, 0, 1 + np.arange(800) % 2)
    several = len(set(values)) == 3
    expected = PrivateSurvival(horizon=52, bins=13, causes=[1, 2] if several else None, random_state=1).fit(
        FRAME["week"], codes if several else codes > 0
    )
    path = tmp_path / f"rows.{kind}"
    frame = FRAME.assign(arrest=[values[code] for code in codes])
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path)
    result = json_of(["survival", str(path), *ASKED, *options, "--seed", "1"], capsys)
    assert [row["survival"] for row in result["life_table"]] == expected.survival_[1:].tolist()
    assert ("cumulative_incidences" in result) is several
    if several:
        first, second = result["cumulative_incidences"]
        assert (first["cause"], second["name"]) == (str(values[1]), "all")
        assert second["estimate"] == expected.cumulative_incidence(2).tolist()
        assert second["high"] == expected.incidence_interval(2).high.tolist()  # type: ignore[union-attr]
        assert main(["survival", str(path), *ASKED, *options, "--seed", "1"]) == 0
        printed = capsys.readouterr().out
        assert "Private cumulative incidences" in printed and f"{second['estimate'][-1]:.3f}" in printed


@pytest.mark.parametrize("words", [("0", " 1 ", "2.0"), ("left", "relapse", "death, other")])
def test_a_messy_file_with_causes_is_the_same_release(
    tmp_path: Path, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """A byte order mark, line ends of Windows, quotes, blanks beside numbers, and lines inside a note."""
    codes = np.where(FRAME["arrest"] == 0, 0, 1 + np.arange(800) % 2)
    expected = PrivateSurvival(horizon=52, bins=13, causes=[1, 2], random_state=1).fit(FRAME["week"], codes)
    entries = ['"a, ""b""\n of two lines"', ""]
    lines = ["\ufeffnote,week,arrest"]
    for i, (week, code) in enumerate(zip(FRAME["week"], codes, strict=True)):
        word = f'"{words[code]}"' if i % 3 or "," in words[code] else words[code]
        lines.append(f"{entries[i % 2]}, {week!r} ,{word}")
    path = tmp_path / "messy.csv"
    path.write_bytes("\r\n".join([*lines, ""]).encode())
    declared = ["--censored", words[0], "--cause", ",".join(f'"{word}"' for word in words[1:])]
    result = json_of(["survival", str(path), *ASKED, *declared, "--seed", "1"], capsys)
    assert [row["survival"] for row in result["life_table"]] == expected.survival_[1:].tolist()
    assert result["cumulative_incidences"][1]["estimate"] == expected.cumulative_incidence(2).tolist()
    # A value in other letters is none of the declared ones, and no message shows it.
    path.write_bytes("\r\n".join([*lines, "x,3.0,Unknown"]).encode())
    message = failed(["survival", str(path), *ASKED, *declared, "--seed", "1"], capsys)
    assert "nknown" not in message and len(message.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*ASKED, "--by", "arm"], "--by and --groups must be given together"),
        ([*ASKED, "--column", "week"], "--column must not be given"),
        ([*ASKED[:2], "--event", "week", *ASKED[4:]], "must name different columns"),
        ([*ASKED[:4], "--horizon", "-1"], "horizon must be"),
        ([*BY[:-1], "old"], "--groups must be two or more to be compared, got one"),
        (["--time", "arrest", "--event", "week", "--horizon", "5"], "event must hold declared values"),
        (["--time", "arrest", "--event", "week", "--horizon", "5"], "in causes or as censored"),
        ([*ASKED, "--cause", "dead"], "in causes or as censored"),
        ([*ASKED, "--cause", "0"], "must be distinct, got (0, 0) with one twice"),
        ([*ASKED, "--cause", ""], "--cause must not be empty"),
    ],
)
def test_bad_input_is_one_line(
    file: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in failed(["survival", str(file), *arguments], capsys)


def test_a_subject_with_several_rows_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "twice.csv"
    FRAME.assign(person="p").to_csv(path, index=False)
    assert "one row for each subject" in failed(["survival", str(path), *ASKED, "--unit", "person"], capsys)


def test_medians_and_restricted_means_are_told_apart(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--epsilon", "1e6", "--seed", "1"]
    result = json_of(["survival", str(file), *BY, *options], capsys)
    model = PrivateSurvival(
        horizon=52, bins=13, time="week", event="arrest", by="arm", groups=["old", "new"], epsilon=1e6, random_state=1
    ).fit(FRAME)
    for name, found in (("medians", model.median()), ("restricted_means", model.rmst())):
        assert [row["estimate"] for row in result[name]] == pytest.approx(
            np.ravel(found.estimate).tolist(), nan_ok=True
        )
