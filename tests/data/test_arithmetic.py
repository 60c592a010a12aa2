"""Arithmetic on private numbers: one cast to integers, which is defined for every float, and no warning."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import dpstats
from dpstats import groups, identity, means, quantiles, ranks, regression, textbook
from dpstats.data.values import LARGEST, as_int64, quiet
from dpstats.errors import InvalidParameter
from dpstats.regression.engine import release_variation

PACKAGE = Path(dpstats.__file__).parent
INTEGERS = {"int64", "intp", "int32", "int16", "int8", "int_", "uint64", "uint32", "int"}


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16, np.longdouble])
def test_every_float_becomes_an_integer_without_a_warning(kind: type) -> None:
    top = float(np.finfo(kind).max)
    rows = np.array([np.nan, np.inf, -np.inf, top, -top, -0.0, 2.9, -2.9, 5e-324], dtype=kind)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = as_int64(rows)
    end = int(min(top, LARGEST))
    assert found.dtype == np.int64 and found.tolist() == [0, LARGEST, -LARGEST, end, -end, 0, 2, -2, 0]
    # What an entry becomes does not depend on the others.
    assert [int(as_int64(row)) for row in rows] == found.tolist()
    assert as_int64(rows[:0]).shape == (0,) and as_int64(rows[None, :]).shape == (1, rows.size)


def test_what_a_cast_gives_where_it_is_defined_stays() -> None:
    rng = np.random.default_rng(0)
    for scale in (1.0, 2.0**30, 2.0**53, 2.0**61):
        rows = rng.uniform(-scale, scale, 1000)
        assert np.array_equal(as_int64(rows), rows.astype(np.int64))
    for exact in (np.array([2**63 - 1, -(2**63)]), np.array([True, False]), np.array([7, 8], dtype=object)):
        assert np.array_equal(as_int64(exact), exact.astype(np.int64))
    assert as_int64(np.array(["2020-01-02"], dtype="M8[D]")).tolist() == [18263]


def test_a_quiet_context_may_be_inside_another() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with quiet(), quiet():
            assert np.isnan(np.float64(np.inf) - np.inf) and np.isinf(np.array([1e308]) * 10).all()
        with pytest.raises(RuntimeWarning):
            _ = np.array([1e308]) * 10


def _casts(tree: ast.AST) -> list[str]:
    """Return the casts of arrays to an integer type: ``x.astype(np.int64)``."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return [
        ast.unparse(call)
        for call in calls
        if isinstance(call.func, ast.Attribute)
        and call.func.attr == "astype"
        and any(_is_integer(kind) for kind in [*call.args, *(word.value for word in call.keywords)])
    ]


def _is_integer(kind: ast.expr) -> bool:
    name = getattr(kind, "attr", getattr(kind, "id", getattr(kind, "value", None)))
    return name in INTEGERS or name in ("i8", "i4")


def test_no_other_cast_of_an_array_to_integers() -> None:
    allowed = {
        ("data/values.py", "array.astype(np.int64)"),
        # Of integers: what ldexp takes as exponents.
        ("release/groups.py", "np.maximum(exponents, -2000).astype(np.int32)"),
    }
    found = {
        (path.relative_to(PACKAGE).as_posix(), cast)
        for path in PACKAGE.rglob("*.py")
        for cast in _casts(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert found == allowed
    planted = "a.astype(np.int64) + b.astype('int64', copy=False) + c.astype(dtype=int) + d.astype(float)"
    assert len(_casts(ast.parse(planted))) == 3


# Rows near the largest floats: no warning, and nothing else released of the others.

N = 40
LABELS = np.array(["a", "b"] * (N // 2))


def _rows(far: float) -> np.ndarray:
    rows = np.random.default_rng(0).random((N, 2))
    rows[0] = [far, -far]
    rows[1] = [far, far]
    return rows


def _first(X: np.ndarray) -> tuple[np.ndarray, ...]:
    return (X[:, 0],)


GIVEN: dict[str, tuple[Callable[[], Any], Callable[[np.ndarray], tuple[Any, ...]]]] = {
    "clipped": (lambda: means.ClippedMean(bounds=(0, 1), clipped_share=True, random_state=0), lambda X: (X,)),
    "ball": (lambda: means.ClippedMean(clip=1.0, clip_norm="l2", delta=1e-6, random_state=0), lambda X: (X,)),
    "adaptive": (lambda: means.AdaptiveMean(bound=1, std=1, cov=np.eye(2), delta=1e-6, random_state=0), lambda X: (X,)),
    "sparse": (lambda: means.SparseMean(n_nonzero=1, clip=1, std=1.0, delta=1e-6, random_state=0), lambda X: (X,)),
    "peeling": (lambda: means.SparseMean(n_nonzero=1, clip=1, std=1.0, random_state=0), lambda X: (X,)),
    "quantile": (lambda: quantiles.PrivateQuantile([0.5], bounds=(0, 1), random_state=0), _first),
    "step": (lambda: quantiles.PrivateQuantile([0.5], bounds=(0, 1), step=0.1, random_state=0), _first),
    "distribution": (lambda: quantiles.PrivateDistribution(bounds=(0, 1), random_state=0), _first),
    "groups": (
        lambda: groups.GroupMeans(groups=["a", "b"], bounds=(0, 1), delta=1e-6, random_state=0),
        lambda X: (X, LABELS),
    ),
    "per row": (
        lambda: groups.MeanPerRow(max_rows=3, bounds=(0, 1), delta=1e-6, random_state=0),
        lambda X: (X, np.arange(N) // 2),
    ),
    "signed rank": (lambda: ranks.SignedRankTest(n_simulations=99, random_state=0), _first),
    "two groups": (
        lambda: ranks.MannWhitneyTest(groups=["a", "b"], n_simulations=99, random_state=0),
        lambda X: (X[:, 0], LABELS),
    ),
    "spatial sign": (
        lambda: identity.SpatialSignTest(mean=0.5, cov=np.array([[1, 0.3], [0.3, 1]]), random_state=0),
        lambda X: (X,),
    ),
    "linear": (
        lambda: regression.PrivateLinearRegression(x_bounds=(0, 1), y_bounds=(0, 1), random_state=0),
        lambda X: (X, X[:, 0]),
    ),
    "sufficient": (
        lambda: regression.SufficientStatisticsRegression(x_bounds=(0, 1), y_bounds=(0, 1), random_state=0),
        lambda X: (X, X[:, 0]),
    ),
    "functional": (
        lambda: textbook.FunctionalMechanismRegression(x_bounds=(0, 1), y_bounds=(0, 1), random_state=0),
        lambda X: (X, X[:, 0]),
    ),
    "logistic": (
        lambda: regression.PrivateLogisticRegression(x_bounds=(0, 1), random_state=0),
        lambda X: (X, np.arange(N) % 2),
    ),
}


@pytest.mark.parametrize("far", [1.7e308, 9e307, 1e300])
@pytest.mark.parametrize("name", GIVEN)
def test_no_warning_tells_of_a_row(name: str, far: float) -> None:
    make, given = GIVEN[name]
    X = _rows(far)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = make().fit(*given(X))
        if hasattr(made, "predict") and name != "groups":
            made.predict(given(X)[0])
        if hasattr(made, "score"):
            made.score(*given(X))


@pytest.mark.parametrize("far", [1.7e308, -1.7e308, 1e305])
def test_a_prediction_that_is_no_number_is_the_largest_residual(far: float) -> None:
    # inf - inf is NaN, which a cast makes -2^63: the released mean residual was -4 million.
    seen: dict[str, Any] = {}

    class Kept:
        def add(self, name: str, given: Any) -> None:
            seen.update(given)

    with quiet():
        residuals = np.array([np.nan, far, -far, 0.25]) * np.array([1.0, 1e9, 1e9, 1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        release_variation(cast(Any, None), cast(Any, Kept()), residuals, np.zeros(4))
    whole = 2**30
    assert seen["means"].tolist() == [whole + whole // 4, 0]
    assert seen["squares"].tolist() == [3 * whole + whole // 16, 0]


@pytest.mark.parametrize("half", [1.4e-303, 1e-304, 1e-200, 9e-141, 5e-324])
@pytest.mark.parametrize("name", ["linear", "sufficient", "functional", "logistic"])
def test_half_widths_whose_squares_are_no_floats_are_refused(name: str, half: float) -> None:
    made = GIVEN[name][0]().set_params(x_bounds=(0.0, 2 * half))
    with pytest.raises(InvalidParameter, match="x_bounds must"):
        made.plan(N, 2)
    if name != "logistic":
        with pytest.raises(InvalidParameter, match="y_bounds must"):
            made.set_params(x_bounds=(0, 1), y_bounds=(0.0, 2 * half)).plan(N, 2)
        with pytest.raises(InvalidParameter, match=r"half-widths within a factor of") as error:
            made.set_params(x_bounds=(0, 1e-20), y_bounds=(0.0, 1e130)).plan(N, 2)
        assert error.value.parameter == "x_bounds"
    assert made.set_params(x_bounds=(0, 1e-100), **({} if name == "logistic" else {"y_bounds": (0, 1)})).plan(N, 2)
