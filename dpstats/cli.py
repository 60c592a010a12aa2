"""The ``dpstats`` command: private answers from files, in tables or JSON."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dpstats import __version__
from dpstats.errors import DPStatsError, InvalidParameter


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0, or 2 after one clear line about bad input."""
    options = _parser().parse_args(arguments)
    try:
        options.run(options)
    except (DPStatsError, OSError) as error:
        print(f"dpstats {options.command}: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="dpstats", description="Private statistical inference.")
    parser.add_argument("--version", action="version", version=f"dpstats {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    demo = commands.add_parser("demo", help="private means of real data, with a picture and a page")
    demo.add_argument("--out", type=Path, default=Path("demo-output"), help="folder to write to")
    demo.set_defaults(run=_demo)

    mean = commands.add_parser(
        "mean",
        help="private means of the columns of a CSV or Parquet file",
        description="Release the private mean of each named column. The number of rows, the column names and "
        "the bounds are public; two files of the same size that differ in one row are neighbours.",
    )
    mean.add_argument("file", type=Path, help="CSV or Parquet file with a header")
    mean.add_argument(
        "--column", action="append", required=True, metavar="NAME", help="column to average; repeatable"
    )
    mean.add_argument(
        "--bounds",
        action="append",
        nargs=2,
        type=float,
        required=True,
        metavar=("LO", "HI"),
        help="public bounds of the column; once for all columns, or once per column in the same order",
    )
    mean.add_argument("--epsilon", type=float, default=1.0)
    mean.add_argument(
        "--delta", type=float, default=0.0, help="0 (the default) is pure privacy, with Laplace noise"
    )
    mean.add_argument("--std", default="private", help="'private' (default), 'none', or a public number")
    mean.add_argument("--confidence", type=float, default=0.95, help="confidence level of the intervals")
    mean.add_argument("--missing", choices=["error", "center"], default="error")
    mean.add_argument("--seed", type=int, help="simulate with this seed instead of releasing")
    mean.add_argument(
        "--budget", type=Path, metavar="LEDGER", help="charge this ledger (see 'dpstats budget')"
    )
    mean.add_argument(
        "--json", metavar="FILE", help="write the result as JSON ('-': print it instead of the table)"
    )
    mean.set_defaults(run=_mean)

    audit = commands.add_parser(
        "audit",
        help="what recorded outputs of a release prove about its epsilon",
        description="Bound epsilon from below by recorded outputs of a release on two neighbouring datasets, "
        "one run per line. The first half of the lines chooses the attack and the second half counts.",
    )
    audit.add_argument("file", type=Path, help="CSV or Parquet file with a header")
    audit.add_argument("--epsilon", type=float, required=True, help="the claim")
    audit.add_argument("--delta", type=float, default=0.0, help="of the claim (default: 0)")
    audit.add_argument("--confidence", type=float, default=0.95, help="of the lower bound")
    audit.add_argument(
        "--columns",
        nargs=2,
        default=["dataset", "neighbor"],
        metavar=("DATASET", "NEIGHBOR"),
        help="the columns that hold the outputs (default: dataset neighbor)",
    )
    audit.add_argument("--plot", type=Path, metavar="FILE", help="draw the trade-off curve (png, pdf or svg)")
    audit.add_argument(
        "--json", metavar="FILE", help="write the result as JSON ('-': print it instead of the table)"
    )
    audit.set_defaults(run=_audit)

    simulate = commands.add_parser(
        "simulate",
        help="measure an estimator or a test on simulated data, and compare with the theory",
        description="Run a named study: simulated data and simulated noise, never a release. With --out the rows are "
        "kept in a file as they finish, and a study that was interrupted goes on where it was.",
    )
    simulate.add_argument("name", metavar="NAME", help="mean-rate, sparse-rate, coverage or power")
    simulate.add_argument(
        "--grid",
        metavar="JSON",
        help="""lists of public parameters in place of the study's: '{"n": [100, 400]}'""",
    )
    simulate.add_argument("--reps", type=int, metavar="N", help="datasets in every cell of the grid")
    simulate.add_argument("--jobs", type=int, default=1, metavar="J", help="processes; -1 is one per core")
    simulate.add_argument("--out", type=Path, metavar="FILE", help="keep (and resume) the rows in this file")
    simulate.add_argument("--seed", type=int, default=0)
    simulate.add_argument("--report", type=Path, metavar="FILE", help="write a self-contained HTML page")
    simulate.add_argument(
        "--json", metavar="FILE", help="write the result as JSON ('-': print it instead of the table)"
    )
    simulate.set_defaults(run=_simulate)

    budget = commands.add_parser("budget", help="make, show and list the ledger of a privacy budget")
    actions = budget.add_subparsers(dest="action", required=True, metavar="ACTION")
    new = actions.add_parser("new", help="make a ledger")
    new.add_argument("file", type=Path)
    new.add_argument("--epsilon", type=float, required=True)
    new.add_argument("--delta", type=float, default=0.0)
    new.add_argument("--method", choices=["basic", "gdp", "zcdp"], default="basic", help="how charges add up")
    new.add_argument(
        "--neighbors",
        choices=["REPLACE_ONE", "ADD_OR_REMOVE_ONE"],
        default="REPLACE_ONE",
        help="relation of all charges",
    )
    new.set_defaults(run=_budget_new)
    show = actions.add_parser("show", help="what is spent and what is left")
    history = actions.add_parser("history", help="every charge, oldest first")
    for action, run in ((show, _budget_show), (history, _budget_history)):
        action.add_argument("file", type=Path)
        action.add_argument("--json", action="store_true", help="print JSON")
        action.set_defaults(run=run)
    return parser


def _budget_new(options: argparse.Namespace) -> None:
    from dpstats.privacy import Neighbors, PrivacyBudget

    if options.file.exists():
        raise InvalidParameter(f"{options.file} exists already")
    budget = PrivacyBudget(
        options.epsilon,
        options.delta,
        neighbors=Neighbors[options.neighbors],
        method=options.method,
        ledger=options.file,
    )
    print(f"Made {options.file}: {budget.total}, method {budget.method!r}")


def _budget_show(options: argparse.Namespace) -> None:
    from dpstats.privacy import PrivacyBudget

    budget = PrivacyBudget.open(options.file)
    charges = len(budget.history())
    amounts = {"total": budget.total, "spent": budget.spent, "remaining": budget.remaining}
    if options.json:
        numbers: dict[str, Any] = {
            name: {"epsilon": amount.epsilon, "delta": amount.delta} for name, amount in amounts.items()
        }
        facts = {"method": budget.method, "neighbors": budget.total.neighbors.name, "charges": charges}
        print(json.dumps(numbers | facts, indent=2))
        return
    print(f"Method:    {budget.method}\nCharges:   {charges}")
    for name, amount in amounts.items():
        print(f"{name.capitalize() + ':':<10} {amount}")


def _budget_history(options: argparse.Namespace) -> None:
    from datetime import UTC, datetime

    from dpstats.privacy import PrivacyBudget

    rows = [
        {
            "time": datetime.fromtimestamp(entry.time, UTC).isoformat(timespec="seconds"),
            "label": entry.label,
            "epsilon": entry.guarantee.epsilon,
            "delta": entry.guarantee.delta,
        }
        for entry in PrivacyBudget.open(options.file).history()
    ]
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    print(f"{'time (UTC)':<25}  {'epsilon':>10}  {'delta':>10}  label")
    for row in rows:
        label = json.dumps(row["label"], ensure_ascii=False)[1:-1]  # on one line, whatever it holds
        print(f"{row['time']:<25}  {row['epsilon']:>10.6g}  {row['delta']:>10.3g}  {label}")


def _demo(options: argparse.Namespace) -> None:
    from dpstats.demo import run

    print(run(options.out))


def _mean(options: argparse.Namespace) -> None:
    from dpstats.means import ClippedMean
    from dpstats.privacy import PrivacyBudget
    from dpstats.validation import check_real

    lows, highs = _bounds(options.bounds, options.column)
    if options.seed is not None and options.budget is not None:
        raise InvalidParameter("--seed and --budget cannot be given together: a simulation charges no budget")
    if options.seed is not None and options.seed < 0:
        raise InvalidParameter(f"--seed must be a non-negative integer, got {options.seed}")
    check_real("--confidence", options.confidence, above=0, below=1)
    budget = None if options.budget is None else PrivacyBudget.open(options.budget)
    rows = _read(options.file, options.column)
    # Opened before anything is charged: an answer that is paid for must not be lost to a wrong path.
    with contextlib.ExitStack() as stack:
        target = None
        if options.json not in (None, "-"):
            target = stack.enter_context(open(options.json, "w", encoding="utf-8"))
        mean = ClippedMean(
            epsilon=options.epsilon,
            delta=options.delta,
            clip=[(high - low) / 2 for low, high in zip(lows, highs, strict=True)],
            center=[(high + low) / 2 for low, high in zip(lows, highs, strict=True)],
            std=_std(options.std),
            missing=options.missing,
            random_state=options.seed,
            budget=budget,
        ).fit(rows)
        text = json.dumps(_as_json(mean, options.confidence), indent=2)
        print(text if options.json == "-" else mean.summary(options.confidence))
        if target is not None:
            target.write(text + "\n")


def _audit(options: argparse.Namespace) -> None:
    from dataclasses import asdict

    from dpstats.auditing import audit_outputs

    if options.plot is not None and options.plot.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise InvalidParameter(f"--plot must name a png, pdf or svg file, got {options.plot}")
    if options.columns[0] == options.columns[1]:
        raise InvalidParameter("--columns must name two different columns")
    frame = _read(options.file, options.columns, "--columns")
    if frame.isna().any(axis=None):
        raise InvalidParameter(
            f"--columns must hold one output per line of {options.file.name}, got empty cells: "
            "write a word where a release returns nothing"
        )
    outputs = [frame[name] for name in options.columns]
    result = audit_outputs(
        *(values.to_numpy() if values.dtype.kind in "biuf" else values.tolist() for values in outputs),
        epsilon=options.epsilon,
        delta=options.delta,
        confidence=options.confidence,
    )
    if options.plot is not None:
        from dpstats.plots import plot_audit

        plot_audit(result, title=options.file.name).savefig(options.plot, dpi=150)
    facts = asdict(result)
    del facts["curve"]
    text = json.dumps(facts, indent=2)
    print(text if options.json == "-" else result)
    if options.json not in (None, "-"):
        Path(options.json).write_text(text + "\n", encoding="utf-8")


def _simulate(options: argparse.Namespace) -> None:
    from dpstats.simulation.catalogue import named_study

    entry = named_study(options.name)
    grid = None
    if options.grid is not None:
        try:
            grid = json.loads(options.grid)
        except ValueError:
            raise InvalidParameter(
                f"--grid must be JSON, such as '{{\"n\": [100]}}', got {options.grid!r}"
            ) from None
    study = entry.study(options.name, grid, options.reps, options.seed)
    with contextlib.ExitStack() as stack:
        # Opened before the work: results must not be lost to a wrong path.
        targets = {
            name: stack.enter_context(open(path, "w", encoding="utf-8"))
            for name, path in (("json", options.json), ("report", options.report))
            if path not in (None, "-")
        }
        results = study.run(options.out, n_jobs=options.jobs, progress=True)
        findings, note = entry.conclusions(results)
        text = json.dumps(
            {
                "study": options.name,
                **{key.lower(): value for key, value in results.facts.items()},
                "simulated": True,
                "cells": results.as_records(),
                "failures": results.failure_notes(),
                "findings": [
                    {
                        "finding": table.title,
                        "verdict": finding.verdict,
                        "rows": [dict(zip(table.columns, row, strict=True)) for row in table.rows],
                    }
                    for finding in findings
                    for table in [finding.summary()]
                ],
            },
            indent=2,
        )
        if options.json == "-":
            print(text)
        else:
            print("\n\n".join([str(results), *(str(finding) for finding in findings), *note]))
        if "json" in targets:
            targets["json"].write(text + "\n")
        if "report" in targets:
            from dpstats.simulation import study_report

            pictures = {entry.title: entry.picture(results)}
            page = study_report(results, title=entry.title, findings=findings, pictures=pictures)
            targets["report"].write(page.as_html())


def _bounds(pairs: list[list[float]], columns: list[str]) -> tuple[list[float], list[float]]:
    if len(pairs) not in (1, len(columns)):
        raise InvalidParameter(
            f"--bounds must be given once, or once per --column ({len(columns)}), got {len(pairs)} times"
        )
    if len(set(columns)) < len(columns):
        raise InvalidParameter("--column must name each column once")
    pairs = pairs * len(columns) if len(pairs) == 1 else pairs
    for low, high in pairs:
        if not low < high:
            raise InvalidParameter(f"--bounds must be two numbers LO < HI, got {low:g} {high:g}")
    return [low for low, _ in pairs], [high for _, high in pairs]


def _std(text: str) -> Any:
    if text in ("private", "none"):
        return None if text == "none" else text
    try:
        return float(text)
    except ValueError:
        raise InvalidParameter(f"--std must be 'private', 'none' or a number, got {text!r}") from None


def _read(path: Path, columns: list[str], option: str = "--column") -> Any:
    import pandas as pd

    try:
        read = pd.read_parquet if path.suffix.lower() in (".parquet", ".pq") else pd.read_csv
        frame = read(path)
    except ImportError:
        raise InvalidParameter(f"reading {path.name} needs a Parquet reader: pip install pyarrow") from None
    except OSError:
        raise
    except Exception:
        # Whatever a parser says may quote the file.
        raise InvalidParameter(f"{path.name} is not a readable CSV or Parquet file with a header") from None
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        known = ", ".join(map(str, frame.columns))
        raise InvalidParameter(
            f"{option} must name columns of {path.name} ({known}), got {', '.join(missing)}"
        )
    return frame[columns]


def _as_json(mean: Any, confidence: float) -> dict[str, Any]:
    interval = mean.confidence_interval(confidence)
    names = [str(name) for name in mean.feature_names_in_]
    return {
        "estimator": type(mean).__name__,
        "n_samples": mean.plan_.n_samples,
        "privacy": {
            "epsilon": mean.privacy_.epsilon,
            "delta": mean.privacy_.delta,
            "neighbors": mean.privacy_.neighbors.name,
            "simulated": mean.privacy_.simulated,
        },
        "noise": mean.plan_.stages[0].noise,
        "estimand": interval.estimand,
        "confidence_level": interval.confidence_level,
        "columns": [
            {"name": name, "mean": value, "noise_std": error, "low": low, "high": high}
            for name, value, error, low, high in zip(
                names,
                mean.mean_.tolist(),
                mean.noise_std_.tolist(),
                interval.low.tolist(),
                interval.high.tolist(),
                strict=True,
            )
        ],
    }
