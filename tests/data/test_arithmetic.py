"""Arithmetic on private numbers: one cast to integers, which is defined for every float, and no warning."""

from __future__ import annotations

import ast
import warnings
from pathlib import Path

import numpy as np
import pytest

import dpstats
from dpstats.data.arithmetic import LARGEST, as_int64, quiet

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
        ("data/arithmetic.py", "array.astype(np.int64)"),
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
