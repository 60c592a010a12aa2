"""Makes dpstats/sql/statistics.parquet, a file whose statistics must not be believed.

    python -m tests.sql.statistics_file

As writers do, pyarrow leaves NaN out of the least and the greatest entry of a part. In the footer, the greatest entries
of ``n`` and ``s`` are replaced by smaller ones: a reader that leaves out parts by them misses rows.
"""

from __future__ import annotations

import io
import math
import struct
from pathlib import Path

PATH = Path(__file__).resolve().parents[2] / "dpstats" / "sql" / "statistics.parquet"
PARTS = (
    {"x": [20.0, 20.0, 1.5], "y": [1.0, 2.0, 3.0], "n": [1, 2, 3], "s": ["a", "a", "a"]},
    {
        "x": [20.0, math.nan, None, math.nan, 20.0],
        "y": [math.inf, 2.0, -math.inf, None, 3.0],
        "n": [4, 987654321, 987654321, None, 4],
        "s": ["a", "zyxwvut", "zyxwvut", None, "a"],
    },
)
"""Rows of the two parts: no NaN and no infinity in the first one."""
FALSE = {struct.pack("<q", 987654321): struct.pack("<q", 4), b"zyxwvut": b"aaaaaaa"}
"""Bytes of the greatest entries, and what the footer says in their place."""


def make() -> bytes:
    """Return the bytes of the file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([("x", pa.float64()), ("y", pa.float64()), ("n", pa.int64()), ("s", pa.string())])
    made = io.BytesIO()
    with pq.ParquetWriter(made, schema, store_schema=False, use_dictionary=False) as writer:
        for part in PARTS:
            writer.write_table(pa.table(part, schema=schema))
    found = made.getvalue()
    # The footer is in front of its own length and of four letters.
    start = len(found) - 8 - int.from_bytes(found[-8:-4], "little")
    footer = found[start:]
    for true, false in FALSE.items():
        assert footer.count(true) >= 1
        footer = footer.replace(true, false)
    return found[:start] + footer


if __name__ == "__main__":
    PATH.write_bytes(make())
