"""Plans whose first stages find an ellipsoid: their walk, and the rows that it reads."""

from __future__ import annotations

import numpy as np
import pytest

from dpstats.covariance import HotellingTest
from dpstats.data.rows import Table
from dpstats.lattice import products
from dpstats.means.ellipsoids import Ellipsoid, Extension, Frame, Step, round_names, shrunk_sums
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


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("clipped", [True, False])
def test_loops_add_up_the_same_integers(compiled: bool, clipped: bool, monkeypatch) -> None:
    if not compiled:
        monkeypatch.setattr(products, "_loop", lambda: products.add_rows)
        monkeypatch.setattr(products, "_LINE", 8)
    rng = np.random.default_rng(0)
    for n, d in ((1, 1), (130, 2), (200, 5)):
        X = rng.normal(size=(n, d))
        X[::7] *= 3
        X[::31] *= 1e5
        X[n // 2 :: 50] = 1e300
        half = rng.normal(size=(d, d)) / np.sqrt(d)
        covariance = half @ half.T + np.eye(d)
        found = Ellipsoid(rng.normal(size=d) / 10, np.linalg.inv(covariance), covariance, np.asarray(float(d)))
        signs = np.where(rng.random(n) < 0.5, 1.0, -1.0)
        frame = Frame(np.full(d, 0.3), np.full(d, 1.7), clipped, False, False)
        for bits, radius, sign in ((20, 0.3, 0.5), (9, 1.0, 0.0), (20, 10.0, 0.0)):
            extension = Extension(d, 0.5, sign, bits, count=0.1, norms=not sign)
            step = Step("s", extension, found, np.asarray(radius))
            table = Table(X, groups=None if not sign else np.where(signs > 0, 0, 1))
            sums = []
            for quick in (True, False):
                monkeypatch.setattr(products, "is_compiled", lambda X, quick=quick: quick)
                sums.append(shrunk_sums(table, frame, step))
            assert sums[0].keys() == sums[1].keys()
            for name, values in sums[0].items():
                assert np.array_equal(values, sums[1][name]), name
