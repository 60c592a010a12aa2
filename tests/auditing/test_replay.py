"""Two runs of a release: what is shared, compared, refused or left open."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dpstats.auditing import check_sensitivity, worst_neighbor
from dpstats.errors import InvalidParameter
from dpstats.means import ClippedMean
from dpstats.privacy import PrivacyBudget
from tests.auditing.pairs import NEAR, ROWS, X, Z, clipped_sum


def test_an_error_of_the_neighbor_shows_no_value() -> None:
    def refusing(x: Any, source: Any) -> Any:
        if x[0] > 5:
            raise ValueError(f"bad value {x[0]}")
        return source.laplace(x.sum(), sensitivity=100)

    check = check_sensitivity(refusing, np.zeros(2), np.array([77.25, 0.0]))
    assert check.violated and "ValueError" in check.course and "77" not in check.course


def test_what_cannot_be_compared_is_said() -> None:
    def released(x: Any, source: Any) -> Any:
        source.laplace(x.sum(), sensitivity=9.0)
        return object()

    assert "not compared" in check_sensitivity(released, X, Z).output


def test_no_output_passes_that_was_not_compared() -> None:
    def strange(x: Any, source: Any) -> Any:
        return clipped_sum(x, source), object()

    check = check_sensitivity(strange, ROWS, NEAR)
    assert check.verdict == "output not compared" and not check.ok and not check.violated
    assert "may hold more than was released" in str(check)

    class Leaking(ClippedMean):
        def _report(self, released: Any, plan: Any) -> None:
            super()._report(released, plan)
            self.result_ = self.kept

        def fit(self, X: Any, y: Any = None) -> Any:
            self.kept = SimpleNamespace(raw=float(np.mean(X)))
            return super().fit(X, y)

    assert check_sensitivity(ClippedMean(clip=1.0), X, Z).ok
    assert "differs" in check_sensitivity(Leaking(clip=1.0), X, Z).output


def test_a_release_that_does_not_repeat_itself_is_not_accused() -> None:
    rng = np.random.default_rng(0)

    def elsewhere(x: Any, source: Any) -> Any:
        source.statistic(np.clip(x, 0, 1).sum(), sensitivity=1.0)
        return {"noisy": rng.laplace(), "raw": x.mean() if raw else 0.0}

    raw = False
    for other in (ROWS, NEAR):
        check = check_sensitivity(elsewhere, ROWS, other)
        assert check.verdict == "output not compared" and "two runs on the same dataset" in check.output
    # What does repeat is compared.
    raw = True
    assert check_sensitivity(elsewhere, ROWS, NEAR).violated

    def noisy_before(x: Any, source: Any) -> Any:
        return source.laplace(rng.laplace(), sensitivity=1.0)

    with pytest.raises(InvalidParameter, match="must give the same result on the same dataset"):
        check_sensitivity(noisy_before, ROWS, NEAR)


def test_runs_share_neither_state_nor_rows() -> None:
    class Cached:
        def __call__(self, x: Any, source: Any) -> Any:
            if not hasattr(self, "top"):
                self.top = x.max()
            return source.laplace(x.sum(), sensitivity=self.top)

    assert "from the data" in str(check_sensitivity(Cached(), np.array([1.0, 2.0]), np.array([1.0, 3.0])))

    def in_place(x: Any, source: Any) -> Any:
        x /= 10
        return source.laplace(x.sum(), sensitivity=10.0)

    rows = np.array([5.0, 50.0])
    assert worst_neighbor(in_place, rows, [150.0]).ratio == pytest.approx(1.45)
    assert rows.tolist() == [5.0, 50.0]


def test_integers_are_compared_exactly() -> None:
    for release in (int, lambda t: [int(t), 0.5], lambda t: np.array([t])):
        check = check_sensitivity(release, 2**60, 2**60 + 100, sensitivity=1.0)
        assert check.violated and check.ratio == 100.0
    with pytest.raises(InvalidParameter, match="must be real numbers, got complex"):
        check_sensitivity(lambda t: np.array([t * 1j]), 0.0, 1.0, sensitivity=1.0)
    assert check_sensitivity(float, 0.0, 1e-200, sensitivity=1e-205, norm="l2").violated
    with pytest.raises(InvalidParameter, match="scale must"):
        check_sensitivity(lambda x, s: s.laplace(x.sum(), sensitivity=1, scale=0), ROWS, NEAR)


def test_bad_data_are_refused_and_other_errors_violate() -> None:
    bad = X.copy()
    bad[0] = np.nan
    for pair, which in (((X, bad), "the neighbor is refused"), ((bad, X), "the dataset is refused")):
        check = check_sensitivity(ClippedMean(clip=1.0), *pair)
        assert check.verdict == "refused" and not check.ok and not check.violated and which in check.course

    def fails(x: Any, source: Any) -> Any:
        if x[2] == 0.9:
            raise ZeroDivisionError
        return clipped_sum(x, source)

    for pair in ((ROWS, NEAR), (NEAR, ROWS)):
        check = check_sensitivity(fails, *pair)
        assert check.violated and "refused (ZeroDivisionError)" in check.course
    # On both, it is the call that is wrong.
    with pytest.raises(ZeroDivisionError):
        check_sensitivity(fails, ROWS, ROWS)


class _Uncopied(ClippedMean):
    """An estimator that has something in it that cannot be copied."""

    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("not copied")


@pytest.mark.parametrize("kind", [ClippedMean, _Uncopied])
def test_a_check_leaves_the_estimator_as_it_was(kind: Any) -> None:
    # Planted: the replay took away the budget of an estimator without a copy, so that the next fit was free.
    budget = PrivacyBudget(5.0)
    made = kind(clip=1.0, budget=budget)
    check_sensitivity(made, ROWS, NEAR)
    assert made.budget is budget and budget.history() == () and not hasattr(made, "mean_")
    made.fit(ROWS)
    assert len(budget.history()) == 1


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_the_declared_sensitivity_is_compared_and_not_the_scale(noise: str) -> None:
    def release(data: Any, witness: Any) -> Any:
        return getattr(witness, noise)(float(np.sum(data)), sensitivity=1.0, scale=50.0)

    # The sum moves by 3: a violation of the stated 1, however much noise there is.
    check = check_sensitivity(release, np.array([0.0, 1.0]), np.array([3.0, 1.0]))
    assert check.violated and check.ratio == pytest.approx(3.0)
