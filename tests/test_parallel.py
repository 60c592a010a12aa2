"""Blocks: the same results on any number of processes, and one seed a block."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from dpstats.errors import InvalidParameter
from dpstats.parallel import cut, one_blas_thread, run_blocks, seed_sequence


def draw(label, size, rng):
    return label, rng.random(size).tolist()


BLOCKS = [(i, 3) for i in range(5)]


def test_the_result_does_not_depend_on_the_number_of_processes() -> None:
    alone = run_blocks(draw, BLOCKS, random_state=7)
    assert alone == run_blocks(draw, BLOCKS, random_state=7, n_jobs=2)
    assert [label for label, _ in alone] == list(range(5))
    # Every block has a seed of its own, and the number of blocks after it does not matter.
    assert len({tuple(values) for _, values in alone}) == 5
    assert run_blocks(draw, BLOCKS[:2], random_state=7) == alone[:2]
    assert run_blocks(draw, BLOCKS, random_state=8) != alone


def test_seeds() -> None:
    assert seed_sequence(5).entropy == 5
    assert seed_sequence().entropy != seed_sequence().entropy
    # A generator gives its seeds from where it is, and moves on.
    first, second = (np.random.default_rng(1) for _ in range(2))
    assert seed_sequence(first).entropy == seed_sequence(second).entropy
    assert seed_sequence(first).entropy != np.random.default_rng(1).integers(2**32, size=8).tolist()


def test_cut() -> None:
    assert cut(0, 4) == [] and cut(8, 4) == [4, 4] and cut(9, 4) == [4, 4, 1]


def test_blas_has_one_thread_for_a_while() -> None:
    def threads() -> list[int]:
        return [found["num_threads"] for found in threadpool_info() if found["user_api"] == "blas"]

    before = threads()
    with one_blas_thread():
        assert {*threads()} == {1}
    assert threads() == before


def test_progress_is_a_bar(capsys: pytest.CaptureFixture[str]) -> None:
    run_blocks(draw, BLOCKS, random_state=0, progress=True, description="here")
    assert "here" in capsys.readouterr().err


@pytest.mark.parametrize("n_jobs", [0, -2, 1.5, True])
def test_bad_numbers_of_processes(n_jobs: object) -> None:
    with pytest.raises(InvalidParameter, match="n_jobs must be"):
        run_blocks(draw, BLOCKS, n_jobs=n_jobs)


def test_bad_seeds() -> None:
    with pytest.raises(InvalidParameter, match="random_state must be"):
        seed_sequence(-1)
