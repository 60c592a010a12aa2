from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpstats.data.opening import open_source
from dpstats.data.parameters import check_integer
from dpstats.errors import refuse_data
from dpstats.exports import Records
from dpstats.report import Printed
from dpstats.results import Summary
from dpstats.statistic.blocks import BlockRows, block_rows
from dpstats.statistic.copies import Frozen, hide_modules
from dpstats.statistic.isolation import value_of
from dpstats.statistic.private_statistic import PrivateStatistic


@dataclass(frozen=True, slots=True)
class LocalityCheck(Printed):
    """Result of `check_locality`.

    Attributes
    ----------
    n_blocks : int
    failed : int
        Blocks for which the function raised an error or returned something other than finite numbers.
    first_error : str
        The first of these errors; the data are public here.
    changed : mapping of str to int
        For every way to repeat the computation, how many blocks had another value.

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.statistic import check_locality
    >>> check_locality(np.median, np.arange(100.0)).changed
    {'in the same order': 0, 'in reverse order': 0, 'after another first block': 0}
    """

    n_blocks: int
    failed: int
    first_error: str
    changed: dict[str, int]

    @property
    def local(self) -> bool:
        """Whether no block had another value."""
        return not any(self.changed.values())

    def _records(self) -> Records:
        facts = {key: getattr(self, key) for key in ("n_blocks", "failed", "first_error", "local")}
        return Records(list(self.changed), {"changed": list(self.changed.values())}, facts)

    def summary(self) -> Summary:
        """Return a table. It prints as text, and shows as HTML in a notebook."""
        notes = [
            "The check found no dependence on anything except the rows of a block."
            if self.local
            else "Warning: the function depends on more than the rows of its block. PrivateStatistic does not protect "
            "data with it. Remove state that outlives a call: variables of packages or of the environment, files."
        ]
        if self.failed:
            notes.append(
                f"{self.failed} of {self.n_blocks} blocks failed. The first error: {self.first_error}"
            )
        return Summary(
            "Locality of a function",
            [("Blocks", f"{self.n_blocks}"), ("Local", "yes" if self.local else "no")],
            ["repeated", "blocks with another value"],
            [(way, f"{count}") for way, count in self.changed.items()],
            notes,
        )


def check_locality(
    function: Callable[..., Any], X: Any, y: Any = None, *, n_outputs: int = 1, n_blocks: int = 10
) -> LocalityCheck:
    """Run a function on blocks of public data in several ways, and compare its values bit for bit.

    Parameters
    ----------
    function : callable
        As for `PrivateStatistic`.
    X : array or data frame
        Public or synthetic rows: values and errors are shown.
    y : sequence, optional
        Outcomes, for functions that take them.
    n_outputs : int, default=1
    n_blocks : int, default=10
        Number of blocks, of at least 5 rows each.

    Returns
    -------
    LocalityCheck

    Examples
    --------
    >>> import numpy as np
    >>> from dpstats.statistic import check_locality
    >>> X = np.random.default_rng(0).normal(size=(500, 1))
    >>> check_locality(lambda block: block.mean(), X).local
    True
    >>> import os
    >>> def remembers(block):
    ...     os.environ["SEEN"] = os.environ.get("SEEN", "") + "."
    ...     return len(os.environ["SEEN"])
    >>> check_locality(remembers, X).local
    False
    >>> del os.environ["SEEN"]
    """
    k = check_integer("n_blocks", n_blocks, at_least=2)
    estimator = PrivateStatistic(function, n_outputs=check_integer("n_outputs", n_outputs, at_least=1))
    source = open_source(X)
    schema, given = source.resolve(estimator._schema(), y)
    table = source.read(schema, given).whole()
    if len(table) < 5 * k:
        raise refuse_data("X", got=f"{len(table)}", allowed=f"have at least {5 * k} rows for {k} blocks")
    blocks, frozen = list(block_rows(table, np.arange(len(table)), k, False)), Frozen(function)

    def values(some: list[BlockRows]) -> NDArray[np.float64]:
        return np.array([value_of(frozen, block, None, n_outputs) for block in some])

    first = values(blocks)
    again, backwards = values(blocks), values(blocks[::-1])[::-1]
    # Another first block must change no other value.
    beside = np.concatenate([first[:1], values([blocks[-1], *blocks[1:]])[1:]])
    ways = {"in the same order": again, "in reverse order": backwards, "after another first block": beside}
    changed = {
        way: int((~np.all((found == first) | (np.isnan(found) & np.isnan(first)), axis=1)).sum())
        for way, found in ways.items()
    }
    failed = np.isnan(first).any(axis=1)
    error = _error_of(frozen, blocks[int(np.argmax(failed))]) if failed.any() else ""
    return LocalityCheck(k, int(failed.sum()), error, changed)


def _error_of(frozen: Frozen, block: BlockRows) -> str:
    (_, arguments) = next(block.subsets(None))
    function = frozen.thaw()
    try:
        with hide_modules():
            value = function(*arguments)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return f"it returned {value!r}"
