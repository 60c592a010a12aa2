"""The declared region: bounds, or a center and a clip."""

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.means.moments import Region, check_bounds


def test_a_pair_and_a_clip_are_the_same_region():
    pair = Region.check((-1, 3), "clip", None, 0.0, 2)
    clip = Region.check(None, "clip", 2.0, 1.0, 2)
    assert (pair.center, pair.clip, pair.low, pair.high, pair.hard) == (1.0, 2.0, -1.0, 3.0, False)
    assert (clip.center, clip.clip, clip.low, clip.high, clip.hard) == (1.0, 2.0, -1.0, 3.0, False)
    low, high = pair.ends(2)
    assert low.tolist() == [-1.0, -1.0] and high.tolist() == [3.0, 3.0]
    assert Region.check((0, 1), "hard", None, 0.0, 1).hard


@pytest.mark.parametrize("center", [0.5, [0.0, 1.0], "middle", None, True])
def test_a_center_beside_bounds_is_refused(center):
    with pytest.raises(InvalidParameter, match="center must"):
        Region.check((0, 1), "clip", None, center, 2)


def test_ends_are_kept_as_they_were_declared():
    # Ends that no center and half width give back in floating point.
    found = Region.check((0.1, 0.3), "clip", None, 0.0, 1)
    assert (found.low, found.high) == (0.1, 0.3)
    wide = Region.check((-1.7e308, 1.7e308), "clip", None, 0.0, 1)
    assert np.isfinite(wide.clip) and wide.center == 0.0


def test_a_pair_per_column():
    found = Region.check([(0, 1), (2, 6)], "clip", None, 0.0, 2)
    assert found.center.tolist() == [0.5, 4.0] and found.clip.tolist() == [0.5, 2.0]
    given = np.array([[0.0, 1.0], [2.0, 6.0]])
    low, _ = check_bounds("bounds", given, 2)
    low[0] = 9.0
    assert given[0, 0] == 0.0  # a copy


def test_pairs_by_name_go_by_place_where_there_are_no_names():
    low, high = check_bounds("bounds", {"b": (0, 1), "a": (2, 6)}, 2)
    assert low.tolist() == [0.0, 2.0] and high.tolist() == [1.0, 6.0]
    for wrong in ({}, {"a": (0, 1)}, {"a": (0, 1), "b": 3}):
        with pytest.raises(InvalidParameter, match=r"bounds must be a pair \(low, high\)"):
            check_bounds("bounds", wrong, 2)


@pytest.mark.parametrize(
    "bounds", [3, (1,), (1, 2, 3), "ab", (None, 1), [(0, 1)] * 3, {1, 2}, np.ma.masked_array([0.0, 1.0]), (0, np.nan)]
)
def test_what_is_no_pair_is_refused(bounds):
    with pytest.raises(InvalidParameter, match=r"bounds must be a pair \(low, high\)"):
        check_bounds("bounds", bounds, 2)


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ((0, 1), "0.5"),
        ([(0, 1), (0, 1)], "0.5"),
        ([(0, 1), (-4, 8)], "0.5, 2"),
        ([(k, k + 1) for k in range(7)], "0.5, 1.5, 2.5, 3.5, 4.5, 5.5, ..."),
    ],
)
def test_the_middle_in_words(bounds, words):
    region = Region.check(bounds, "clip", None, 0.0, 1 if isinstance(bounds, tuple) else len(bounds))
    assert region.middle == f"the center of the bounds ({words})"


def test_one_of_bounds_and_clip():
    with pytest.raises(InvalidParameter, match="clip must be None"):
        Region.check((0, 1), "clip", 1.0, 0.0, 1)
    with pytest.raises(InvalidParameter, match="bounds must"):
        Region.check(None, "clip", None, 0.0, 1)
    with pytest.raises(InvalidParameter, match="bounds_are must be one of"):
        Region.check((0, 1), True, None, 0.0, 1)
