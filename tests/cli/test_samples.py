"""dpstats plan samples: how many rows an error needs, or the power of a test."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpstats.cli import main
from dpstats.identity import RowDistanceTest, SpatialSignTest
from dpstats.means import AdaptiveMean, ClippedMean, SparseMean
from dpstats.tables import PrivateProportion
from tests.cli.commands import failed, json_of

SAMPLES: dict[str, tuple[list[str], Any, int, int]] = {
    "mean": (["--bounds", "0", "10", "--spread", "2"], ClippedMean(bounds=(0, 10)), 3, 3),
    "adaptive": (
        ["--method", "adaptive", "--bound", "9", "--std", "2", "--delta", "1e-6"],
        AdaptiveMean(bound=9.0, std=2.0),
        3,
        3,
    ),
    "sparse-mean": (["--nonzero", "2", "--clip", "9", "--std", "1"], SparseMean(n_nonzero=2, clip=9.0, std=1.0), 50, 2),
    "proportion": ([], PrivateProportion(), 1, 1),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_rows_for_an_error_are_the_fewest(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    given, estimator, d, share = SAMPLES[name]
    command = "mean" if name == "adaptive" else name
    columns = [] if name == "proportion" else ["--columns", str(d)]
    arguments = ["plan", "samples", command, "--target-error", "0.05", *columns, *given]
    found = json_of(arguments, capsys)
    n, spread = found["rows"], 2.0 if name == "mean" else None
    errors = [np.sqrt(estimator.plan(rows, d).expected_error(spread) / share) for rows in (n, n - 1)]
    assert errors[0] == pytest.approx(found["root_mean_square_error"]) and errors[0] <= 0.05 < errors[1]
    assert found["n_samples"] == n and found["command"] == f"plan samples {command}"
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{n:,} rows, for a root mean square error of") and "of the noise alone" not in out


def test_rows_for_an_error_without_a_spread_are_of_the_noise(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["plan", "samples", "mean", "--columns", "1", "--bounds", "0", "10"]
    assert main([*arguments, "--target-error", "0.01"]) == 0
    assert "of the noise alone: --spread adds the sampling error" in capsys.readouterr().out
    assert main([*arguments, "--target-error", "0.01", "--budget", "b.db", "--epsilon", "3"]) == 4
    assert "it cannot pay" in capsys.readouterr().out
    for given, message in (
        (["--target-error", "0"], "--target-error must be"),
        (["--target-error", "1e-12"], "--target-error must be reached by 2^32 rows"),
        (["--target-error", "1", "--spread", "1", "--spread", "2"], "--spread must be given once"),
        (["--target-error", "1", "--spread", "-1"], "std must be"),
    ):
        assert message in failed([*arguments, *given], capsys, 2)


IDENTITY = ["plan", "samples", "identity-test", "--mean", "0"]


def test_rows_for_a_power(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SpatialSignTest, "plan", _quick(SpatialSignTest.plan))
    arguments = [*IDENTITY, "--columns", "2", "--distance", "1", "--epsilon", "5", "--direction", "sparse"]
    assert main([*arguments, "--simulations", "400", "--power", "0.6"]) == 0
    rows, words = capsys.readouterr().out.splitlines()[0].split(" ", 1)
    assert words == "rows, for power 0.6 at distance 1 (sparse), to within 2%"
    test = SpatialSignTest(epsilon=5.0)
    # Five standard errors of the search's datasets, and one row.
    assert test.power(1.0, int(rows) + 1, 2, direction="sparse", n_simulations=400) > 0.6 - 5 * 0.5 / 20
    assert test.power(1.0, int(rows) - 2, 2, direction="sparse", n_simulations=400) < 0.6 + 5 * 0.5 / 20


def _quick(plan: Any) -> Any:
    return lambda self, n, d: replace(plan(self, n, d), n_calibration=199)


@pytest.mark.parametrize(
    ("columns", "needed", "expected"),
    [
        (3, {"SpatialSignTest": 500}, ("SpatialSignTest", 500)),
        (20, {"SpatialSignTest": 900, "RowDistanceTest": 600}, ("RowDistanceTest", 600)),
        # identity_test takes another test on so many rows.
        (20, {"SpatialSignTest": 50_000}, ("SpatialSignTest", 50_000)),
        (20, {"SpatialSignTest": 9_000, "RowDistanceTest": 12_000}, ("SpatialSignTest", 9_000)),
    ],
)
def test_automatic_is_the_test_that_would_run(
    columns: int,
    needed: dict[str, int],
    expected: tuple[str, int],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for test in (SpatialSignTest, RowDistanceTest):
        monkeypatch.setattr(test, "required_samples", lambda self, *given, **options: needed[type(self).__name__])
    found = json_of([*IDENTITY, "--columns", str(columns), "--distance", "0.1"], capsys)
    assert (found["estimator"], found["rows"]) == expected


def test_a_power_that_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for given, message in (
        (["--distance", "0"], "--distance must be"),
        (["--distance", "1", "--power", "1"], "--power must be"),
        (["--distance", "1", "--simulations", "0"], "--simulations must be"),
        (["--distance", "1", "--max-seconds", "-1"], "--max-seconds must be"),
        (["--distance", "1", "--rho", "0.1"], "--rho must be given with --test row-distance only"),
        (["--distance", "1e-7"], "--distance must be larger: it has less than power 0.8 at any n"),
        (["--distance", "1", "--max-seconds", "0.001"], "max_seconds"),
    ):
        assert message in failed([*IDENTITY, "--columns", "3", *given], capsys, 2)
