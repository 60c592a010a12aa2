"""A public bound on what simulations may cost: refused before they run, by an estimate from public sizes."""

from __future__ import annotations

import math
from types import TracebackType
from typing import Self

from dpstats.data.parameters import check_real
from dpstats.errors import InvalidParameter

MAX_SECONDS = 3600.0
"""Of one core, by default. The estimate is right to within a factor of a few."""


class Workload:
    """The simulations of one call: their estimated cost, which is bounded, and a progress bar.

    Parameters
    ----------
    max_seconds : None or float
        Bound on the total; None is none.
    cheaper : str
        What to do instead, for the error.
    description : str, optional
        Stands before the bar; without it there is none.
    """

    def __init__(self, max_seconds: float | None, cheaper: str, description: str | None = None) -> None:
        from tqdm import tqdm

        self._bound = math.inf if max_seconds is None else check_real("max_seconds", max_seconds, above=0)
        self._cheaper = cheaper
        self._seconds = 0.0
        self._bar = tqdm(desc=description, unit=" datasets", disable=description is None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.close()

    def add(self, datasets: int, seconds: float, n_samples: int) -> None:
        """Add the time of planned simulations, or raise an error if the total exceeds the limit."""
        self._seconds += datasets * seconds
        if self._seconds > self._bound:
            raise InvalidParameter(
                f"max_seconds = {self._bound:g} is too little: {datasets} simulated datasets of {n_samples} rows bring "
                f"this call to about {self._seconds:.2g} seconds of one core; {self._cheaper}, or give fewer "
                "n_simulations or a larger max_seconds"
            )

    def done(self, datasets: int) -> None:
        """Move the bar on."""
        self._bar.update(datasets)
