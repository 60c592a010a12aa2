"""Sparse tables of scipy: in canonical form, or refused where an entry is stored twice."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpstats.errors import InvalidData


def canonical(table: Any) -> Any:
    """Return a CSR table with sorted rows: the same arrays, or copies where a row has to be sorted.

    The flags of the table that came in are not trusted: they go stale when its arrays are written to.
    """
    from scipy.sparse import csr_array

    refuse_copies(table)
    fresh = csr_array((table.data, table.indices, table.indptr), shape=table.shape)
    return fresh if fresh.has_sorted_indices else fresh.sorted_indices()


def refuse_copies(table: Any) -> None:
    """Refuse a sparse table that stores an entry twice, or one outside itself, and add nothing up.

    The formats that are left out (LIL, DOK) cannot hold copies, or convert to CSR without adding any up.
    """
    from scipy.sparse import csr_array

    twice = False
    if table.format in ("csr", "csc", "bsr"):
        table.check_format(full_check=True)
        # A pattern of its own, of entries or of blocks: sorting it leaves the table as it is.
        lines, width = table.indptr.size - 1, int(max(table.shape))
        pattern = csr_array(
            (np.empty(table.indices.size, np.int8), table.indices, table.indptr), (lines, width)
        )
        if not pattern.has_sorted_indices:
            pattern = pattern.sorted_indices()
        same = pattern.indices[1:] == pattern.indices[:-1]
        starts = pattern.indptr[(pattern.indptr > 0) & (pattern.indptr < pattern.indices.size)]
        same[starts - 1] = False  # the last entry of one line, and the first of the next
        twice = bool(same.any())
    elif table.format == "coo" and table.ndim == 2:
        for indices, size in zip((table.row, table.col), table.shape, strict=True):
            if indices.size and not 0 <= indices.min() <= indices.max() < size:
                raise InvalidData("X must not store an entry outside its shape")
        order = np.lexsort((table.col, table.row))
        row, column = table.row[order], table.col[order]
        twice = bool(((row[1:] == row[:-1]) & (column[1:] == column[:-1])).any())
    elif table.format == "dia":
        twice = bool(np.unique(table.offsets).size < table.offsets.size)
    if twice:
        raise InvalidData(
            "X must not store an entry twice. X.sum_duplicates() adds the copies up, which is safe where their sums "
            "are exact (counts): the rounding of one row's sums may depend on how other rows are stored"
        )
