"""Work in blocks with separate seeds: the same results on any number of processes.

Simulations, calibrations and audits cut their runs into fixed blocks. A block's generator depends on its
place in the list, not on earlier blocks. So neither the number of processes nor their order changes a result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, TypeVar

import numpy as np

from dpstats.data.parameters import check_jobs, check_random_state

Result = TypeVar("Result")


def cut(total: int, size: int) -> list[int]:
    """Return the sizes of the blocks that ``total`` runs are cut into: all of ``size`` but the last.

    Examples
    --------
    >>> from dpstats.parallel import cut
    >>> cut(25, 10)
    [10, 10, 5]
    """
    return [min(size, total - start) for start in range(0, total, size)]


def seed_sequence(random_state: Any = None) -> np.random.SeedSequence:
    """Return the root of all seeds: fresh for None, fixed by an int, drawn from a Generator."""
    if random_state is None:
        return np.random.SeedSequence()
    generator = check_random_state(random_state)
    if generator is not random_state:
        return np.random.SeedSequence(int(random_state))
    return np.random.SeedSequence(generator.integers(2**32, size=8).tolist())


def run_blocks(
    work: Callable[..., Result],
    blocks: Sequence[tuple[Any, ...]],
    *,
    random_state: Any = None,
    n_jobs: int = 1,
    progress: bool = False,
    description: str = "blocks",
) -> list[Result]:
    """Return ``work(*block, rng)`` for every block, in order.

    Parameters
    ----------
    work : callable
        Its last argument is the block's own `numpy.random.Generator`, its only source of randomness. With
        several processes it is pickled in its current state, with its references: a generator that it
        contains would repeat itself in every block.
    blocks : sequence of tuple
        The other arguments of every call.
    random_state : None, int or numpy.random.Generator, default=None
        Seeds all blocks. A Generator is advanced.
    n_jobs : int, default=1
        Processes (joblib); -1 is one per core. The result does not depend on it.
    progress : bool, default=False
        Whether to show a bar.
    description : str
        Stands before the bar.

    Examples
    --------
    >>> from dpstats.parallel import run_blocks
    >>> def draw(size, rng):
    ...     return rng.integers(10, size=size).tolist()
    >>> run_blocks(draw, [(3,), (2,)], random_state=0) == run_blocks(draw, [(3,), (2,)], random_state=0)
    True
    """
    n_jobs = check_jobs(n_jobs)
    seeds = seed_sequence(random_state).spawn(len(blocks))
    results: Iterable[Result]
    if n_jobs == 1 or len(blocks) < 2:
        results = (_run(work, block, seed) for block, seed in zip(blocks, seeds, strict=True))
    else:
        from joblib import Parallel, delayed

        results = Parallel(n_jobs, return_as="generator")(
            delayed(_run)(work, block, seed) for block, seed in zip(blocks, seeds, strict=True)
        )
    if progress:
        from tqdm import tqdm

        results = tqdm(results, total=len(blocks), desc=description)
    return list(results)


def one_blas_thread() -> AbstractContextManager[Any]:
    """Return a context in which BLAS has one thread, because BLAS threads would block the threads of a caller."""
    return _libraries().limit(limits=1, user_api="blas")  # type: ignore[no-any-return]


@cache
def _libraries() -> Any:
    # The search takes as long as a small fit. SciPy loads its own BLAS with its linear algebra.
    import scipy.linalg  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _run(work: Callable[..., Result], block: tuple[Any, ...], seed: np.random.SeedSequence) -> Result:
    return work(*block, np.random.default_rng(seed))
