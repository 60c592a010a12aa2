"""A file belongs to one study: what tells studies apart, in any process."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpstats.errors import InvalidParameter
from dpstats.means import ClippedMean
from dpstats.simulation import Adapter, Gaussian, Study, StudyFileError
from dpstats.simulation.store import describe

ESTIMATOR = ClippedMean(clip=1.0, delta=1e-6)
GRID = {"n": [20], "d": [2]}


def rows(n: int, d: int, rng: np.random.Generator, shift: float = 0.0) -> np.ndarray:
    return rng.normal(shift, 1.0, (n, d))


class Mine:
    def __init__(self, shift: Any) -> None:
        self.shift = shift

    def __call__(self, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
        return rows(n, d, rng, self.shift)


def shifted(shift: float) -> Any:
    return lambda n, d, rng: rows(n, d, rng, shift)


def with_a_default(shift: float) -> Any:
    return lambda n, d, rng, shift=shift: rows(n, d, rng, shift)


def one(fitted: Any, X: Any, truth: Any) -> float:
    return 1.0


def two(fitted: Any, X: Any, truth: Any) -> float:
    return 2.0


def mean_of(X: np.ndarray, rng: np.random.Generator, power: int = 1) -> np.ndarray:
    return (X**power).mean(axis=0)


def median_of(X: np.ndarray, rng: np.random.Generator, power: int = 1) -> np.ndarray:
    return np.median(X**power, axis=0)


def study(sampler: Any = rows, estimator: Any = ESTIMATOR, loss: Any = one, **options: Any) -> Study:
    return Study(sampler, estimator, GRID, 4, loss=loss, **options)


MANY = np.zeros(3000)
OTHER = np.where(np.arange(3000) == 1500, 1.0, 0.0)
PAIRS = {
    "partial": (functools.partial(rows, shift=0), functools.partial(rows, shift=5), "sampler"),
    "plain class": (Mine(0), Mine(5), "sampler"),
    "closure": (shifted(0), shifted(5), "sampler"),
    "default": (with_a_default(0), with_a_default(5), "sampler"),
    "lambdas of one line": (*(lambda n, d, rng: np.zeros((n, d)), lambda n, d, rng: np.ones((n, d))), "sampler"),
    "long array": (Gaussian(mean=MANY), Gaussian(mean=OTHER), "sampler"),
    "array inside": (Mine({"at": [MANY]}), Mine({"at": [OTHER]}), "sampler"),
    "bound methods": (Mine(0).__call__, Mine(5).__call__, "sampler"),
    "cached": (functools.lru_cache(shifted(0)), functools.lru_cache(shifted(5)), "sampler"),
}


@pytest.mark.parametrize("name", PAIRS)
def test_samplers_that_differ_are_other_studies(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # These are told apart, and need not draw rows of the right shape.
    monkeypatch.setattr(Study, "_check_runs", lambda self: None)
    first, second, word = PAIRS[name]
    study(first).run(tmp_path / "s.db")
    study(first).run(tmp_path / "s.db")  # the same one is resumed
    with pytest.raises(StudyFileError, match=f"holds another study: it differs in {word};"):
        study(second).run(tmp_path / "s.db")
    with pytest.raises(StudyFileError, match="holds another study"):
        study(second).load(tmp_path / "s.db")


def test_estimators_and_losses_that_differ_are_other_studies(tmp_path: Path) -> None:
    study(loss={"risk": one}, estimator=Adapter(mean_of)).run(tmp_path / "s.db")
    with pytest.raises(StudyFileError, match="it differs in loss;"):
        study(loss={"risk": two}, estimator=Adapter(mean_of)).run(tmp_path / "s.db")
    for other in (Adapter(median_of), Adapter(mean_of, power=2), Adapter(mean_of, "estimate_")):
        with pytest.raises(StudyFileError, match="it differs in estimator's parameters;"):
            study(loss={"risk": one}, estimator=other).run(tmp_path / "s.db")
    # A seed of its own is replaced in every replication.
    study(loss={"risk": one}, estimator=Adapter(mean_of).set_params(random_state=3)).run(tmp_path / "s.db")


def test_code_counts_with_the_helpers_and_globals_that_it_uses() -> None:
    def compiled(text: str) -> Any:
        names: dict[str, Any] = {"__name__": "a_module_of_mine"}
        exec(text, names)
        return describe("sampler", names["sampler"])

    text = "SHIFT = 0\ndef helper(x):\n    return x + SHIFT\ndef sampler(n, d, rng):\n    'Draw.'\n    return helper(n)"
    assert compiled(text) == compiled(text.replace("'Draw.'", "'Draw rows.'  # as before"))
    for changed in (text.replace("= 0", "= 5"), text.replace("x + ", "x - "), text.replace("(n)", "(d)")):
        assert compiled(changed) != compiled(text)
    text = "class sampler:\n    scale = 1\n    def draw(self):\n        return self.scale"
    assert compiled(text) == compiled(text)
    for changed in (text.replace("= 1", "= 2"), text.replace("self.scale", "-self.scale")):
        assert compiled(changed) != compiled(text)


def test_what_can_only_be_named_cannot_have_a_file(tmp_path: Path) -> None:
    lock = threading.Lock()
    for sampler in (Mine(lock), functools.partial(rows, shift=lock), shifted(lock), Mine({"in": [lock]})):
        with pytest.raises(
            InvalidParameter, match=r"sampler holds a lock, whose values a file cannot identify.*__repr__"
        ):
            study(sampler).run(tmp_path / "s.db")
    assert not (tmp_path / "s.db").exists()
    with pytest.raises(InvalidParameter, match="loss holds a lock"):
        study(loss=functools.partial(one, truth=threading.Lock())).run(tmp_path / "s.db")

    class Stated(Mine):
        def __repr__(self) -> str:
            return f"Stated({self.name})"

    stated = Stated(threading.Lock())
    stated.name = "a"
    first = describe("sampler", stated)
    assert first == describe("sampler", stated)
    stated.name = "b"
    assert first != describe("sampler", stated)
    # In memory nothing is compared.
    assert study(functools.partial(rows, shift=0.0), loss=Named(threading.Lock())).run().mean()[0] == 1.0


@dataclass
class Named:
    lock: Any
    __name__ = "named"

    def __call__(self, fitted: Any, X: Any, truth: Any) -> float:
        return 1.0


SCRIPT = """
import functools, json
import numpy as np
from scipy import stats
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from dpstats.simulation import Adapter, Gaussian, Study
LEVELS = {"a": {"x", "yy", "zzz"}, "b": (1, 2.5)}
class Law:
    def __init__(self): self.base, self.at = stats.norm(3), {"p", "q", "rrr"}
    def __call__(self, n, d, rng): return helper(n) or self.base.rvs((n, d), random_state=rng)
def helper(x): return x in {"s", "tt", "uuu"} and LEVELS
def loss(fitted, X, truth): return helper(X)
study = Study(Law(), make_pipeline(StandardScaler()), {"n": [5], "d": [1]}, 2, loss=functools.partial(loss))
print(json.dumps(study.description, sort_keys=True))
"""


def test_the_description_is_the_same_in_every_process(tmp_path: Path) -> None:
    script = tmp_path / "a_script.py"
    script.write_text(SCRIPT)
    said = set()
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        run = [sys.executable, str(script)]
        said.add(subprocess.run(run, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(said) == 1 and "a_script.Law" in json.loads(said.pop())["sampler"]["object"]["class"]


def of_parts(*values: int) -> Any:
    """Return an object whose class has a value in itself and in each of two bases."""
    first, second, own = values

    class First:
        one = first

    class Second:
        two = second

    class Both(First, Second):
        three = own

    return Both()


def test_every_base_of_a_class_tells_studies_apart() -> None:
    found = [str(describe("sampler", of_parts(*values))) for values in ((1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2))]
    assert len(set(found)) == 4


def test_showing_a_sampler_of_a_grid_does_not_change_it() -> None:
    sampler = Gaussian(mean=1.0)
    study = Study(sampler, ClippedMean(clip=1.0), {"n": [10], "d": [1], "sampler__mean": [0.0, 2.0]}, 1)
    study.run()
    assert sampler == Gaussian(mean=1.0)
