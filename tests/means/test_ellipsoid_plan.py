"""Plans whose first stages find an ellipsoid: their walk, and the rows that it reads."""

from __future__ import annotations

import numpy as np

from dpstats.covariance import HotellingTest
from dpstats.data.rows import Table
from dpstats.means.ellipsoids import Ellipsoid, Step, round_names, shrunk_sums
from dpstats.release.session import Session


def test_a_report_walks_as_the_release_did() -> None:
    X = np.random.default_rng(0).normal(size=(400, 2))
    estimator = HotellingTest(bounds=(-4, 4), epsilon=20.0)
    plan = estimator.plan(400, 2)
    seen: list[Step] = []
    with Session.simulated(plan, np.random.default_rng(1)) as session:

        def release(step: Step):
            seen.append(step)
            session.add(step.name, shrunk_sums(Table(X), plan.frame, step))
            return step.extension.read(step.name, session.released[step.name], plan)

        ellipsoid = plan.find(release)
        session.skip(plan.stages[-1].name, "a test of the rounds")
    again = plan.find(plan.reading(session.released))
    assert tuple(step.name for step in seen) == round_names()
    np.testing.assert_array_equal(ellipsoid.whitening, again.whitening)


def test_rows_are_clipped_to_the_bounds_only_where_the_test_is_of_clipped_rows() -> None:
    rows = np.array([[9.0, 0.5]])
    step_of = Ellipsoid.first(2)
    for assume, first in (("mean", 1.0), ("symmetric", 9.0 / np.hypot(9.0, 0.5))):
        plan = HotellingTest(bounds=(-1, 1), assume=assume).plan(2, 2)
        step = Step("round 1", plan.extension, step_of, np.asarray(2.0 if assume == "mean" else 1.0))
        sums = shrunk_sums(Table(rows), plan.frame, step)["round 1, diagonal"]
        scale = plan.extension.radius * (0.5 if assume == "mean" else 1.0)
        assert abs(np.sqrt(float(sums[1])) / scale - first) < 1e-3
