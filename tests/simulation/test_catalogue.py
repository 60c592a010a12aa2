"""Named studies run and conclude."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.simulation.study_report import CATALOGUE, _mean_terms, named_study


@pytest.mark.parametrize("name", CATALOGUE)
def test_named_studies_run_and_conclude(name: str) -> None:
    entry = named_study(name)
    small = {"n": entry.grid["n"][:3] if name != "power" else [60]}
    results = entry.study(name, small, replications=20, seed=1).run()
    assert not results.failed_cells
    findings, note = entry.conclusions(results)
    assert findings and not note and all(finding.verdict for finding in findings)
    if name == "power":
        # A level below 0.05 is no failure.
        assert {finding.relation for finding in findings} == {"at_most"}
    assert entry.picture(results).axes
    one = entry.study(name, {"n": [60], "d": [5]}, replications=3).run()
    assert entry.conclusions(one) is not None


def test_the_terms_of_the_mean_are_those_of_its_plan() -> None:
    entry = named_study("mean-rate")
    terms = _mean_terms()
    # d coordinates, each with Laplace noise of sensitivity 2 d/n, or Gaussian noise of sensitivity 2 sqrt(d)/n.
    for d, law in ((3, "laplace"), (60, "gaussian")):
        study = entry.study("mean-rate", {"n": [100], "d": [d], "epsilon": [0.5]}, replications=3)
        plan = study.estimator.set_params(epsilon=0.5).plan(100, d)
        cell = {"n": 100, "d": d, "epsilon": 0.5}
        assert plan.distribution == law
        assert terms["privacy"](cell) == pytest.approx(d * float(np.max(plan.noise("clipped mean").std)) ** 2, rel=0.01)
        assert terms["sampling"](cell) == d / 100
