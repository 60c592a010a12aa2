"""The ``dpstats`` command: private answers from files, in tables or JSON."""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from dpstats import __version__
from dpstats.errors import DPStatsError, InvalidParameter


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0, or 2 after one clear line about bad input."""
    given = sys.argv[1:] if arguments is None else arguments
    options = _parser().parse_args([_plain(word) for word in given])
    try:
        options.run(options)
    except (DPStatsError, OSError) as error:
        print(f"dpstats {options.command}: {error}", file=sys.stderr)
        return 2
    return 0


def _plain(word: str) -> str:
    """Return a number such as -1e3 as -1000: argparse takes the former for an option."""
    number = re.fullmatch(r"-(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", word)
    return word if number is None else format(Decimal(word), "f")


class _Parser(argparse.ArgumentParser):
    """A parser that says what is wrong in one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see '{self.prog} --help')\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="dpstats", description="Private statistical inference.")
    parser.add_argument("--version", action="version", version=f"dpstats {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    demo = commands.add_parser("demo", help="private means of real data, with a picture and a page")
    demo.add_argument("--out", type=Path, default=Path("demo-output"), help="folder to write to")
    demo.set_defaults(run=_demo)

    plan = commands.add_parser("plan", help="what a release would consist of and cost; needs no data")
    plans = plan.add_subparsers(dest="planned", required=True, metavar="COMMAND")
    for name, command in _releases().items():
        release = commands.add_parser(name, help=command.help, description=command.description)
        release.add_argument("file", type=Path, help="CSV or Parquet file with a header")
        _add_data_options(release, name)
        command.add(release)
        release.add_argument("--seed", type=int, help="simulate with this seed instead of releasing")
        release.add_argument(
            "--budget", type=Path, metavar="LEDGER", help="charge this ledger (see 'dpstats budget')"
        )
        _add_json(release)
        release.set_defaults(run=_release, build=command.build, report=command.report)

        planned = plans.add_parser(name, help=f"the plan of '{name}' with these parameters")
        planned.add_argument("--rows", type=int, required=True, metavar="N", help="number of rows")
        planned.add_argument("--columns", type=int, required=True, metavar="D", help="number of columns")
        command.add(planned)
        _add_json(planned)
        planned.set_defaults(run=_plan, build=command.build)

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
    _add_json(audit)
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
    _add_json(simulate)
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


class _Command(NamedTuple):
    """A command that releases: its parameters, its estimator, its report."""

    add: Callable[[argparse.ArgumentParser], None]
    build: Callable[[argparse.Namespace, int, int], Any]
    report: Callable[[Any, argparse.Namespace], tuple[Any, dict[str, Any]]]
    help: str
    description: str


def _releases() -> dict[str, _Command]:
    return {
        "mean": _Command(
            _add_mean,
            _build_mean,
            _report_mean,
            "private means of the columns of a CSV or Parquet file",
            "Release the private mean of each named column. The number of rows, the column names and "
            "the bounds are public; two files of the same size that differ in one row are neighbours.",
        ),
        "sparse-mean": _Command(
            _add_sparse_mean,
            _build_sparse_mean,
            _report_sparse_mean,
            "the few columns whose mean is not zero, and their private means",
            "Select the columns whose mean is not zero and release their means; all others count "
            "as 0. The number of rows, the column names and which columns are numeric are public.",
        ),
        "identity-test": _Command(
            _add_identity_test,
            _build_identity_test,
            _report_identity_test,
            "private test of whether the mean of the rows is a public one",
            "Test privately whether the rows are normal with a public mean and covariance (by default "
            "the identity). Pure privacy; the critical value is simulated, from public numbers only.",
        ),
    }


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json", metavar="FILE", help="write the result as JSON ('-': print it instead of the table)"
    )


def _add_data_options(parser: argparse.ArgumentParser, name: str) -> None:
    all_columns = name == "sparse-mean"
    parser.add_argument(
        "--column",
        action="append",
        required=not all_columns,
        metavar="NAME",
        help="column to use; repeatable" + (" (default: all numeric ones)" if all_columns else ""),
    )
    if name != "identity-test":
        parser.add_argument(
            "--confidence", type=float, default=0.95, help="confidence level of the intervals (default: 0.95)"
        )


def _add_privacy(parser: argparse.ArgumentParser, delta: float | None = None) -> None:
    parser.add_argument("--epsilon", type=float, default=1.0, help="(default: 1)")
    if delta is not None:
        parser.add_argument(
            "--delta",
            type=float,
            default=delta,
            help=f"(default: {delta:g}); 0 is pure privacy, with Laplace noise",
        )
    parser.add_argument(
        "--missing",
        choices=["error", "center"],
        default="error",
        help="refuse missing entries (default), or let them count as the centre, which is public",
    )


def _add_mean(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--method",
        choices=["clipped", "adaptive"],
        default="clipped",
        help="clipped (default): rows clipped to --bounds; adaptive: finds out where the rows are, and needs only "
        "--bound and --std",
    )
    parser.add_argument(
        "--bounds",
        action="append",
        nargs=2,
        type=float,
        metavar=("LO", "HI"),
        help="clipped: public bounds of the column; once for all columns, or once per column in the same order",
    )
    parser.add_argument(
        "--bound",
        action="append",
        type=float,
        metavar="B",
        help="adaptive: public bound on the size of the column's mean; once, or once per column",
    )
    parser.add_argument(
        "--std",
        action="append",
        help="public standard deviation, once or once per column; an upper bound with adaptive. With clipped also "
        "'private' (default: estimated, under the same guarantee) or 'none'",
    )
    parser.add_argument(
        "--tails",
        choices=["subgaussian", "symmetric", "variance"],
        help="adaptive: what bias and intervals assume about the rows (default: subgaussian)",
    )
    _add_privacy(parser, 0.0)


def _add_sparse_mean(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--nonzero", type=int, required=True, metavar="S", help="how many columns to select")
    parser.add_argument(
        "--clip", type=float, required=True, metavar="C", help="public bound on the size of an entry"
    )
    parser.add_argument(
        "--std", type=float, required=True, metavar="S", help="public standard deviation of the columns"
    )
    parser.add_argument(
        "--max-signal",
        type=float,
        default=1.0,
        metavar="M",
        help="public bound on the size of a mean, in standard deviations (default: 1)",
    )
    parser.add_argument(
        "--split",
        action="store_true",
        help="select on the first half of the rows and estimate on the second: gives intervals, if the rows are in "
        "no particular order",
    )
    _add_privacy(parser, 1e-6)


def _add_identity_test(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--mean",
        action="extend",
        nargs="+",
        type=float,
        required=True,
        metavar="M",
        help="mean under the null hypothesis: one number, or one per column",
    )
    spread = parser.add_mutually_exclusive_group()
    spread.add_argument(
        "--cov", type=Path, metavar="FILE", help="public covariance matrix: a CSV file of numbers, no header"
    )
    spread.add_argument(
        "--std",
        action="extend",
        nargs="+",
        type=float,
        metavar="S",
        help="public standard deviations of independent columns: one number, or one per column",
    )
    parser.add_argument("--level", type=float, default=0.05, help="(default: 0.05)")
    parser.add_argument(
        "--test",
        choices=["row-distance", "spatial-sign", "lipschitz", "auto"],
        default="auto",
        help="auto (default): row-distance where its calibration takes minutes at most, else spatial-sign",
    )
    _add_privacy(parser)


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


def _release(options: argparse.Namespace) -> None:
    """Fit what a command releases on the columns of a file, and report it."""
    from dpstats.privacy import PrivacyBudget
    from dpstats.validation import check_real

    if options.seed is not None and options.budget is not None:
        raise InvalidParameter("--seed and --budget cannot be given together: a simulation charges no budget")
    if options.seed is not None and options.seed < 0:
        raise InvalidParameter(f"--seed must be a non-negative integer, got {options.seed}")
    if "confidence" in options:
        check_real("--confidence", options.confidence, above=0, below=1)
    budget = None if options.budget is None else PrivacyBudget.open(options.budget)
    rows = _read(options.file, options.column)
    estimator = options.build(options, *rows.shape)
    estimator.set_params(random_state=options.seed, budget=budget)
    # Opened before anything is charged: an answer that is paid for must not be lost to a wrong path.
    with _output(options.json) as show:
        estimator.fit(rows)
        table, facts = options.report(estimator, options)
        plan = estimator.plan_
        sizes = {"n_samples": plan.n_samples, "n_features": plan.n_features}
        show(table, _named(estimator) | sizes | {"privacy": _guarantee(estimator.privacy_)} | facts)


def _plan(options: argparse.Namespace) -> None:
    """Print what a release would consist of, without data."""
    import numpy as np

    from dpstats.validation import check_integer

    n = check_integer("--rows", options.rows, at_least=2)
    d = check_integer("--columns", options.columns, at_least=1)
    estimator = options.build(options, n, d)
    plan = estimator.plan(n, d)
    facts = _named(estimator) | {
        "n_samples": n,
        "n_features": d,
        "privacy": _guarantee(plan.guarantee),
        **{
            kind: [
                {
                    "name": part.name,
                    "noise": part.noise,
                    "size": part.size,
                    "noise_scale": np.asarray(part.noise_scale).tolist(),
                }
                for part in parts
            ]
            for kind, parts in (("selections", plan.selections), ("stages", plan.stages))
        },
    }
    lines = [f"{type(estimator).__name__}: {plan}"]
    if "assumption" in facts:
        lines.append(f"  assumes that {facts['assumption']}")
    if "n_calibration" in vars(plan):
        facts["n_calibration"] = plan.n_calibration
        lines.append(f"  calibration: {plan.n_calibration:,} simulated null datasets, public")
    with _output(options.json) as show:
        show("\n".join(lines), facts)


def _build_mean(options: argparse.Namespace, n: int, d: int) -> Any:
    from dpstats.means import AdaptiveMean, ClippedMean

    adaptive = options.method == "adaptive"
    needed, foreign = (("bound", "std"), ("bounds",)) if adaptive else (("bounds",), ("bound", "tails"))
    for name in needed:
        if getattr(options, name) is None:
            raise InvalidParameter(f"--method {options.method} needs --{name}")
    for name in foreign:
        if getattr(options, name) is not None:
            raise InvalidParameter(f"--{name} does not go with --method {options.method}")
    shared = {"epsilon": options.epsilon, "delta": options.delta, "missing": options.missing}
    if adaptive:
        return AdaptiveMean(
            bound=_per_column("--bound", options.bound, d),
            std=_per_column("--std", _numbers(options.std, "a number"), d),
            tails=options.tails or "subgaussian",
            **shared,
        )
    for low, high in options.bounds:
        if not low < high:
            raise InvalidParameter(f"--bounds must be two numbers LO < HI, got {low:g} {high:g}")
    std: Any = options.std or ["private"]
    if std in (["private"], ["none"]):
        std = None if std == ["none"] else "private"
    else:
        std = _per_column("--std", _numbers(std, "'private', 'none' or a number"), d)
    return ClippedMean(
        clip=_per_column("--bounds", [(high - low) / 2 for low, high in options.bounds], d),
        center=_per_column("--bounds", [(high + low) / 2 for low, high in options.bounds], d),
        std=std,
        **shared,
    )


def _report_mean(mean: Any, options: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    interval = mean.confidence_interval(options.confidence)
    facts = {
        "noise": mean.plan_.stages[0].noise,
        "estimand": interval.estimand,
        "confidence_level": interval.confidence_level,
        "columns": _estimates(mean.feature_names_in_, mean.mean_, mean.noise_std_, interval),
    }
    return mean.summary(options.confidence), facts


def _build_sparse_mean(options: argparse.Namespace, n: int, d: int) -> Any:
    from dpstats.means import SparseMean
    from dpstats.validation import check_integer

    return SparseMean(
        n_nonzero=check_integer("--nonzero", options.nonzero, at_least=1, at_most=d),
        clip=options.clip,
        std=options.std,
        max_signal=options.max_signal,
        split=options.split,
        epsilon=options.epsilon,
        delta=options.delta,
        missing=options.missing,
    )


def _report_sparse_mean(mean: Any, options: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    import numpy as np

    plan, support = mean.plan_, mean.support_
    interval = mean.confidence_interval(options.confidence) if plan.disjoint else None
    facts: dict[str, Any] = {
        "noise": plan.stages[0].noise,
        "selection_threshold": plan.selection_threshold,
        "reliable_selection": plan.selection_threshold <= plan.max_signal,
    }
    if interval is not None:
        facts |= {"estimand": interval.estimand, "confidence_level": interval.confidence_level}
    errors = np.full(support.shape, plan.noise_std)
    facts["columns"] = _estimates(mean.feature_names_in_[support], mean.mean_[support], errors, interval)
    return mean.summary(options.confidence), facts


def _build_identity_test(options: argparse.Namespace, n: int, d: int) -> Any:
    from dpstats.identity import LipschitzExtensionTest, RowDistanceTest, SpatialSignTest
    from dpstats.identity.choice import automatic_test

    tests: dict[str, Any] = {
        "auto": automatic_test(n, d),
        "row-distance": RowDistanceTest,
        "spatial-sign": SpatialSignTest,
        "lipschitz": LipschitzExtensionTest,
    }
    return tests[options.test](
        mean=_per_column("--mean", options.mean, d),
        cov=_covariance(options, d),
        epsilon=options.epsilon,
        level=options.level,
        missing=options.missing,
        progress=True,
    )


def _covariance(options: argparse.Namespace, d: int) -> Any:
    """Return the public covariance of an identity test: None, variances or a matrix."""
    import numpy as np

    from dpstats.validation import check_columns

    if options.std is not None:
        std = check_columns("--std", _per_column("--std", options.std, d), d, above=0)
        return np.broadcast_to(std, (d,)) ** 2
    if options.cov is None:
        return None
    try:
        matrix = np.loadtxt(options.cov, delimiter=",", ndmin=2)
    except ValueError:
        raise InvalidParameter(
            f"--cov must be a CSV file of numbers without a header, got {options.cov.name}"
        ) from None
    if matrix.shape != (d, d):
        raise InvalidParameter(
            f"--cov must hold {d} lines of {d} numbers, one per column, got {matrix.shape[0]} of {matrix.shape[1]}"
        )
    return matrix


def _report_identity_test(test: Any, options: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    result = test.result_
    names = (
        "test",
        "null",
        "statistic",
        "threshold",
        "pvalue",
        "level",
        "reject",
        "n_calibration",
        "level_range",
    )
    return result.summary(), {name: getattr(result, name) for name in names}


def _audit(options: argparse.Namespace) -> None:
    from dataclasses import asdict

    from dpstats.auditing import audit_outputs

    if options.plot is not None and options.plot.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise InvalidParameter(f"--plot must name a png, pdf or svg file, got {options.plot}")
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
    with _output(options.json) as show:
        show(result, facts)


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
    # Opened before the work: results must not be lost to a wrong path.
    with _output(options.json) as show, _opened(options.report) as page:
        results = study.run(options.out, n_jobs=options.jobs, progress=True)
        findings, note = entry.conclusions(results)
        facts = {
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
        }
        show("\n\n".join([str(results), *(str(finding) for finding in findings), *note]), facts)
        if page is not None:
            from dpstats.simulation import study_report

            pictures = {entry.title: entry.picture(results)}
            report = study_report(results, title=entry.title, findings=findings, pictures=pictures)
            page.write(report.as_html())


def _opened(path: Any) -> contextlib.AbstractContextManager[Any]:
    """Open a file to write to; None for no path."""
    return contextlib.nullcontext() if path is None else open(path, "w", encoding="utf-8")


@contextlib.contextmanager
def _output(target: str | None) -> Iterator[Callable[[Any, dict[str, Any]], None]]:
    """Open what ``--json`` names; yield what shows a result there and on the screen."""
    with _opened(None if target == "-" else target) as file:

        def show(table: Any, facts: dict[str, Any]) -> None:
            text = json.dumps(facts, indent=2)
            print(text if target == "-" else table)
            if file is not None:
                file.write(text + "\n")

        yield show


def _per_column(option: str, values: list[float], d: int) -> Any:
    """Return one number for all columns, or a list of one number per column."""
    if len(values) not in (1, d):
        raise InvalidParameter(
            f"{option} must be given once, or once per column ({d}), got {len(values)} times"
        )
    return values[0] if len(values) == 1 else values


def _numbers(texts: list[str], words: str) -> list[float]:
    try:
        return [float(text) for text in texts]
    except ValueError:
        raise InvalidParameter(f"--std must be {words}, got {', '.join(map(repr, texts))}") from None


def _read(path: Path, columns: list[str] | None, option: str = "--column") -> Any:
    """Return the named columns of a file, or all numeric ones."""
    import pandas as pd

    if columns is not None and len(set(columns)) < len(columns):
        raise InvalidParameter(f"{option} must name each column once")
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
    if columns is None:
        numeric = frame.select_dtypes("number")
        if numeric.shape[1] == 0:
            raise InvalidParameter(f"{path.name} has no numeric columns")
        return numeric
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        known = ", ".join(map(str, frame.columns))
        raise InvalidParameter(
            f"{option} must name columns of {path.name} ({known}), got {', '.join(missing)}"
        )
    return frame[columns]


def _named(estimator: Any) -> dict[str, Any]:
    """Return which estimator it is, and what it assumes where that is for the user to know."""
    from dpstats.means.adaptive import ASSUMPTIONS

    facts = {"estimator": type(estimator).__name__}
    tails = getattr(estimator, "tails", None)
    return facts if tails is None else facts | {"tails": tails, "assumption": ASSUMPTIONS[tails]}


def _guarantee(privacy: Any) -> dict[str, Any]:
    return {
        "epsilon": privacy.epsilon,
        "delta": privacy.delta,
        "neighbors": privacy.neighbors.name,
        "simulated": privacy.simulated,
    }


def _estimates(names: Any, means: Any, errors: Any, interval: Any = None) -> list[dict[str, Any]]:
    """Return a record per column: estimate, noise, and the interval where there is one."""
    records: list[dict[str, Any]] = [
        {"name": str(name), "mean": value, "noise_std": error}
        for name, value, error in zip(names, means.tolist(), errors.tolist(), strict=True)
    ]
    if interval is not None:
        for record, low, high in zip(records, interval.low.tolist(), interval.high.tolist(), strict=True):
            record |= {"low": low, "high": high}
    return records
