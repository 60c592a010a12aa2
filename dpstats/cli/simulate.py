"""``dpstats simulate``: an estimator or a test on simulated data, and what the theory says."""

from __future__ import annotations

import argparse
import json
from typing import Any

from dpstats.cli.exits import epilog
from dpstats.cli.files import opened, output, shows_progress
from dpstats.cli.options import add_options, add_output
from dpstats.errors import InvalidParameter, refuse

_STUDY = """
    name NAME
        mean-rate, sparse-rate, coverage or power
    --grid JSON
        lists of public parameters in place of the study's: '{"n": [100, 400]}'
    --reps N, int
        datasets in every cell of the grid
    --jobs J, int, default 1
        processes; -1 is one per core
    --out FILE, path
        keep (and resume) the rows in this file
    --retry-failed
        run the failed replications of --out again
    --seed SEED, int, default 0
    --report FILE, path
        write a self-contained HTML page
"""


def add_simulate(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "simulate",
        help="measure an estimator or a test on simulated data, and compare with the theory",
        description="Run a named study: simulated data and simulated noise, never a release. With --out the rows are "
        "kept in a file as they finish, and a study that was interrupted goes on where it was.",
        epilog=epilog(),
    )
    add_options(parser, _STUDY)
    add_output(parser)
    parser.set_defaults(run=_simulate)


def _simulate(options: argparse.Namespace) -> None:
    from dpstats.simulation.catalogue import named_study

    entry = named_study(options.name)
    study = entry.study(options.name, _grid(options.grid), options.reps, options.seed)
    # Opened before the work, so that a path that cannot be written is refused at once.
    with output(options) as show, opened("--report", options.report) as write_page:
        results = _run(study, options)
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
        if write_page is not None:
            from dpstats.simulation import study_report

            pictures = {entry.title: entry.picture(results)}
            report = study_report(results, title=entry.title, findings=findings, pictures=pictures)
            write_page(report.as_html())


def _grid(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise refuse("--grid", given=text, allowed="JSON, such as '{\"n\": [100]}'") from None


def _run(study: Any, options: argparse.Namespace) -> Any:
    from dpstats.simulation.store import StudyFileError

    try:
        return study.run(
            options.out,
            n_jobs=options.jobs,
            progress=shows_progress(options),
            retry_failed=options.retry_failed,
        )
    except StudyFileError as error:
        raise InvalidParameter(f"--out {error}" if options.out is not None else str(error)) from None
