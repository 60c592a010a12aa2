"""Memory that another process writes to: whatever is read, the integers lie inside the region."""

import numpy as np
import pytest
import scipy.sparse

from dpstats.errors import InvalidData
from dpstats.lattice import BITS, BallLattice, BoxLattice, CrossLattice
from dpstats.lattice import sums as sums_module
from tests.lattice.rows import LATTICES

LATE = [np.nan, -np.nan, np.inf, -np.inf, 1.7e308, -1.7e308, 5e-324, -0.0]


def bounded(lattice, steps, squares):
    """Whether these column sums of n rows can be those of n rows inside the region."""
    bound = lattice.bound if isinstance(lattice, BoxLattice) else lattice.radius
    n = 6000
    inside = np.all(np.abs(steps) <= n * np.asarray(bound))
    return bool(inside and np.all(squares >= 0) and np.all(squares <= n * np.asarray(bound)))


@pytest.mark.parametrize("lattice", [*LATTICES.values(), CrossLattice.build(2.0, 0.3, 4)])
@pytest.mark.parametrize("late", LATE)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_that_change_after_the_finite_check_stay_inside(monkeypatch, lattice, late, order, dtype):
    # Checked while it is finite, read when it is not: of a NaN the clip of numbers makes a NaN, whose pattern is a
    # step 2^20 times beyond the bound.
    with np.errstate(over="ignore"):
        X = np.zeros((6000, 4), dtype=dtype, order=order)
        checked = sums_module.finite_or_center

        def then_written_to(rows, center, missing):
            X[...] = 0
            found = checked(rows, center, missing)
            rows[...] = late
            return found

        monkeypatch.setattr(sums_module, "finite_or_center", then_written_to)
        for threads in (1, 2):
            steps, squares = lattice.sums(X, squares=True, threads=threads, block=512)
            assert bounded(lattice, steps, squares)
        # Every single row, not their sum alone: nothing is averaged out.
        single = lattice.round_rows(np.full((3, 4), late, dtype=dtype))
        assert np.all(np.abs(single) <= np.asarray(getattr(lattice, "bound", 2**BITS)))
        if isinstance(lattice, BallLattice):
            norms = [sum(k * k for k in row) for row in single.tolist()]
            assert max(norms) <= lattice.radius**2


@pytest.mark.parametrize(
    ("name", "late"), [("indices", 0), ("indices", 7), ("indices", -1), ("indptr", 0), ("indptr", 9), ("data", np.nan)]
)
def test_a_stored_table_that_changed_after_its_check_is_refused_or_inside(monkeypatch, name, late):
    # Two entries of a row in one column, or one outside the table, would count twice, or elsewhere.
    table = scipy.sparse.csr_array((np.full(4, 9.0), np.array([0, 1, 0, 2]), np.array([0, 2, 3, 4])), shape=(3, 3))
    getattr(table, name)[1] = late
    lattice = BoxLattice.build(1.0, 0.0, 3, common=False)
    if name == "data":
        monkeypatch.setattr(sums_module, "finite_or_center", lambda values, center, missing: values)
        steps = lattice.stored_sums(table)
        assert np.all(np.abs(steps) <= np.array([2, 1, 1]) * 2**BITS)
        return
    if (name, late) == ("indptr", 0):
        # The first row is empty now, and the second one has columns 0, 1, 0.
        assert table.indptr.tolist() == [0, 0, 3, 4]
    with pytest.raises(InvalidData, match="X must"):
        lattice.stored_sums(table)
