"""Calibrations: caches in memory and on disk, and what they do not depend on."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from dpstats.errors import InvalidParameter
from dpstats.identity import RowDistanceTest, SpatialSignTest
from dpstats.identity import calibration as null
from tests.identity.every_test import FAST, NULL_ROWS


def test_calibrations_are_cached_in_memory_and_on_disk(tmp_path, monkeypatch) -> None:
    calls = []
    simulated = null.simulate_blocks
    monkeypatch.setattr(null, "simulate_blocks", lambda *a: calls.append(1) or simulated(*a))
    test = SpatialSignTest(random_state=0, epsilon=0.77, cache_dir=tmp_path, **FAST)
    first = test.fit(NULL_ROWS).threshold_
    assert SpatialSignTest(random_state=9, epsilon=0.77, mean=5.0, **FAST).fit(NULL_ROWS).threshold_ == first
    assert len(calls) == 1 and len(list(tmp_path.iterdir())) == 1
    null.forget()
    assert test.fit(NULL_ROWS).threshold_ == first and len(calls) == 1
    # A damaged file is simulated again, to the same numbers.
    null.forget()
    file = next(tmp_path.iterdir())
    file.write_bytes(file.read_bytes()[:-8])
    assert test.fit(NULL_ROWS).threshold_ == first and len(calls) == 2
    assert np.load(file).shape == (199,)
    # Any public number that changes the law is part of the key.
    for other in ({"epsilon": 0.78}, {"radius": 1.0}, {"n_calibration": 399}):
        clone(test).set_params(**other).fit(NULL_ROWS)
    assert len(calls) == 5


def test_a_poisoned_file_serves_only_its_directory(tmp_path, monkeypatch) -> None:
    options = {"random_state": 0, "epsilon": 0.79, **FAST}
    plan = SpatialSignTest(**options).plan(60, 3)
    known = SpatialSignTest(cache_dir=tmp_path, **options)._null_statistics(plan)
    file = next(tmp_path.iterdir())
    for poison in (np.nan, np.inf, -np.inf):
        null.forget()
        np.save(file, np.where(np.arange(199) == 7, poison, known))
        assert np.array_equal(SpatialSignTest(cache_dir=tmp_path, **options)._null_statistics(plan), known)
    null.forget()
    np.save(file, known + 1e6)
    assert SpatialSignTest(cache_dir=tmp_path, **options)._null_statistics(plan)[0] > 1e5
    assert np.array_equal(SpatialSignTest(**options)._null_statistics(plan), known)


def test_a_known_calibration_checks_its_workers_too() -> None:
    test = SpatialSignTest(random_state=0, **FAST).fit(NULL_ROWS)
    for options, named in (({"n_jobs": "x"}, "n_jobs"), ({"progress": "x"}, "progress")):
        with pytest.raises(InvalidParameter, match=named):
            null.null_statistics("", 1, lambda size, generator: np.zeros(size), **options)
        with pytest.raises(InvalidParameter, match=named):
            clone(test).set_params(**options).power(1.0, 60, 3, n_simulations=1)
        fitted = clone(test).fit(NULL_ROWS).set_params(**options)
        with pytest.raises(InvalidParameter, match=named):
            fitted.distance_interval(n_simulations=1)


def test_calibration_depends_on_neither_threads_nor_the_user_seed(capsys) -> None:
    thresholds = []
    for jobs, seed in [(None, 1), (2, None), (-1, 3)]:
        null.forget()
        test = RowDistanceTest(n_jobs=jobs, random_state=seed, progress=jobs == 2, **FAST)
        thresholds.append(test.fit(NULL_ROWS).threshold_)
    assert len(set(thresholds)) == 1
    assert "null distribution" in capsys.readouterr().err


def test_a_kept_calibration_of_another_size_is_not_used(tmp_path) -> None:
    options = {"random_state": 0, "epsilon": 0.81, **FAST}
    plan = SpatialSignTest(**options).plan(60, 3)
    known = SpatialSignTest(cache_dir=tmp_path, **options)._null_statistics(plan)
    null.forget()
    np.save(next(tmp_path.iterdir()), known[:50])
    assert np.array_equal(SpatialSignTest(cache_dir=tmp_path, **options)._null_statistics(plan), known)


class _Planted:
    """An object that runs code where it is unpickled."""

    def __init__(self, place) -> None:
        self.place = place

    def __reduce__(self):
        return (open, (str(self.place), "w"))


def test_a_file_of_the_cache_never_runs_code(tmp_path) -> None:
    options = {"random_state": 0, "epsilon": 0.81, **FAST}
    plan = SpatialSignTest(**options).plan(60, 3)
    cache = tmp_path / "cache"
    known = SpatialSignTest(cache_dir=cache, **options)._null_statistics(plan)
    null.forget()
    np.save(next(cache.iterdir()), np.array([_Planted(tmp_path / "ran")] * 199, dtype=object))
    assert np.array_equal(SpatialSignTest(cache_dir=cache, **options)._null_statistics(plan), known)
    assert not (tmp_path / "ran").exists()


def test_the_last_digits_of_a_key_do_not_change_the_draws() -> None:
    def drawn(key: str) -> np.ndarray:
        return null.null_statistics(key, 5, lambda size, generator: generator.normal(size=size))

    first = drawn("a 0.1.0 [(349525.3333333334, 9.5367431640625e-07)]")
    assert np.array_equal(first, drawn("a 0.1.0 [(349525.3333333333, 9.53674316406249e-07)]"))
    assert not np.array_equal(first, drawn("a 0.1.0 [(349525.3433333334, 9.5367431640625e-07)]"))
    assert not np.array_equal(first, drawn("b 0.1.0 [(349525.3333333334, 9.5367431640625e-07)]"))


def test_a_slow_calibration_is_kept_with_the_compiled_code(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(null, "_own_file", lambda digest: tmp_path / "made" / f"{digest}.npy")
    calls: list[int] = []

    def simulate(size: int, generator: np.random.Generator) -> np.ndarray:
        calls.append(size)
        return generator.normal(size=size)

    def fetch(seconds: float) -> np.ndarray:
        null.forget()
        return null.null_statistics("kept", 7, simulate, seconds=seconds)

    quick = fetch(null.SLOW / 2)
    assert not list(tmp_path.iterdir())
    first = fetch(null.SLOW)
    assert len(calls) == 2 and len(list((tmp_path / "made").iterdir())) == 1
    assert np.array_equal(fetch(null.SLOW), first) and np.array_equal(first, quick) and len(calls) == 2
    # A folder that cannot be written to keeps nothing.
    (tmp_path / "file").touch()
    monkeypatch.setattr(null, "_own_file", lambda digest: tmp_path / "file" / "none.npy")
    assert np.array_equal(fetch(null.SLOW), first) and len(calls) == 3


def test_another_version_of_the_package_has_files_of_its_own(monkeypatch) -> None:
    file = null._own_file("a")
    assert file.parent.name == "__pycache__" and file != null._own_file("b")
    monkeypatch.setattr(null, "_sources", lambda: "other")
    assert null._own_file("a") != file


def test_the_plan_says_how_long_a_slow_calibration_takes() -> None:
    test = RowDistanceTest()
    assert "s of processor time" in test.plan(5000, 50).notes()[1]
    assert len(test.plan(300, 5).notes()) == 1
    assert test.plan(5000, 50).calibration_seconds == test.calibration_seconds(5000, 50) > null.SLOW
