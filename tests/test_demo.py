"""The demonstration: its public bounds hold the real data, its intervals cover their means."""

from __future__ import annotations

import numpy as np

from dpstats import demo


def test_public_bounds_hold_the_data() -> None:
    # The bounds are stated beforehand; this documents how many of these public rows they clip.
    data = demo.load()
    assert data.shape == (20_190, len(demo.COLUMNS))
    clipped = {c.name: int(((data[c.name] < c.low) | (data[c.name] > c.high)).sum()) for c in demo.COLUMNS}
    assert clipped == {"mdvis": 12, "disea": 0, "physlm": 0, "hlthg": 0, "hlthf": 0, "hlthp": 0}


def test_demo_intervals_cover_the_non_private_means() -> None:
    data = demo.load()
    fitted = demo.estimator(random_state=1).fit(data)
    low, high = fitted.confidence_interval(1 - 1e-9)
    truth = data.clip([c.low for c in demo.COLUMNS], [c.high for c in demo.COLUMNS], axis=1).mean()
    assert np.all((low <= truth) & (truth <= high))
