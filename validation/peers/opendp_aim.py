"""OpenDP's AIM on tables of counts, as JSON; studies/query_release.py runs it in an environment of its own.

    python validation/peers/opendp_aim.py input.npz

The input has the counts of all cells (``counts``), the columns of each table as zeros and ones (``tables``), ``rho``
and the number of ``releases``. The output has the shares of all cells of all tables of each release, and its seconds.
OpenDP protects a row that is added or removed, at the same zero-concentrated rho: a weaker guarantee than a replaced
row, for which its noise would be larger.
"""

from __future__ import annotations

import json
import sys
import time
import warnings

import numpy as np


def main(source: str) -> None:
    import opendp.prelude as dp
    import polars as pl

    warnings.simplefilter("ignore")
    dp.enable_features("contrib")
    given = np.load(source)
    counts, rho = given["counts"], float(given["rho"])
    names = [f"c{j}" for j in range(counts.ndim)]
    tables = [tuple(name for name, used in zip(names, row, strict=True) if used) for row in given["tables"]]
    places = np.unravel_index(np.repeat(np.arange(counts.size), counts.ravel()), counts.shape)
    rows = pl.DataFrame(dict(zip(names, places, strict=True))).lazy()
    answers, seconds = [], []
    for _ in range(int(given["releases"])):
        start = time.perf_counter()
        context = dp.Context.compositor(
            data=rows, privacy_unit=dp.unit_of(contributions=1), privacy_loss=dp.loss_of(rho=rho), split_evenly_over=1
        )
        keys = {name: list(range(size)) for name, size in zip(names, counts.shape, strict=True)}
        algorithm = dp.mbi.AIM(queries=[dp.mbi.Count(by=table) for table in tables])
        model = context.query().select(*names).contingency_table(keys=keys, algorithm=algorithm).release()
        # Of every attribute OpenDP adds a last, empty level for missing values.
        known = (slice(-1),)
        shares = [np.asarray(model.project(table), dtype=float)[known * len(table)] for table in tables]
        answers.append(np.concatenate([share.ravel() / share.sum() for share in shares]).tolist())
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"answers": answers, "seconds": seconds}))


if __name__ == "__main__":
    main(*sys.argv[1:])
