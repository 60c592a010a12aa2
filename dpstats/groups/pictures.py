"""The picture of groups: their means with intervals, a forest plot."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpstats.groups.group_means import GroupMeans
from dpstats.report import picture_of

_MOST_GROUPS = 60


@picture_of.register
def _of_groups(means: GroupMeans) -> tuple[str, Any] | None:
    if len(means.groups_) > _MOST_GROUPS:
        return None
    return "The mean of every group with its 95% interval, a panel for each column.", np.ravel(means.plot())[
        0
    ].figure
