"""The released number of rows, and estimators that treat it as private."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.groups import GroupMeans, MeanPerRow
from dpstats.means import ClippedMean, PrivateVariance
from dpstats.means.ratio import RowsNoise
from dpstats.release.additive import ReleasedSize, has_private_size
from dpstats.tables import ContingencyTable

BOX: dict[str, Any] = {"bounds": (0, 1), "neighbors": "add_or_remove"}
KINDS: dict[str, tuple[Any, Any]] = {
    "mean": (ClippedMean(**BOX), None),
    "mean, Gaussian": (ClippedMean(**BOX, delta=1e-6), None),
    "variance": (PrivateVariance(**BOX), None),
    "groups": (GroupMeans(groups=[0, 1], **BOX, delta=0.0), np.arange(300) % 2),
    "units": (MeanPerRow(max_rows=2, **BOX), np.arange(300)),
    "table": (ContingencyTable(levels=[[0, 1]], neighbors="add_or_remove"), None),
}


def test_an_interval_ends_at_zero() -> None:
    low, high = ReleasedSize(-1.0, RowsNoise(2.0)).interval()
    assert low == 0 and high == pytest.approx(2.92, abs=0.01)
    assert ReleasedSize(-9.0, RowsNoise(2.0)).interval(0.5).high == 0


@pytest.mark.parametrize("name", KINDS)
def test_the_interval_covers_the_number_of_rows(name: str) -> None:
    estimator, y = KINDS[name]
    covered = 0
    for seed in range(200):
        fit = estimator.set_params(random_state=seed).fit(np.zeros((300, 1)), y)
        low, high = pickle.loads(pickle.dumps(fit)).n_interval(0.9)
        covered += low <= 300 <= high
    # At coverage 0.9 fewer than 160 or all of 200 have probability 1e-5 at most; whole numbers cover more.
    assert covered >= 160 and (covered < 200 or name == "table")


def test_the_relation_of_an_estimator() -> None:
    assert has_private_size(ClippedMean(**BOX)) and not has_private_size(ClippedMean(bounds=(0, 1)))
    assert not has_private_size(object())
    public = ClippedMean(bounds=(0, 1), random_state=0).fit(np.zeros((5, 1)))
    with pytest.raises(InvalidParameter, match="neighbors must"):
        public.n_interval()
