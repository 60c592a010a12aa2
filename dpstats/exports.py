"""Forms of results: data frames and dictionaries for machines, and a self-contained HTML page in one file.

A subclass of `Exported` defines ``summary``, a table as text, and ``_records``, the numbers. The rest follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from dpstats.errors import DPStatsError


class Records(NamedTuple):
    """A table of numbers, for machines."""

    names: Sequence[str]  # names of the rows
    columns: Mapping[str, Sequence[Any]]
    facts: Mapping[str, Any]  # facts about all rows

    def as_frame(self) -> Any:
        """Return a data frame of pandas, a row for each name; its ``attrs`` have the facts."""
        try:
            import pandas as pd
        except ImportError:
            raise DPStatsError("a data frame needs pandas: install it, or use to_dict()") from None
        frame = pd.DataFrame(dict(self.columns), index=list(self.names))
        frame.attrs.update(self.facts)
        return frame

    def as_dict(self) -> dict[str, Any]:
        """Return the facts and a list of rows, as JSON has them: NaN is None."""
        rows = zip(self.names, *self.columns.values(), strict=True)
        keys = free_names(self.columns, ["name"])
        return {
            **self.facts,
            "rows": [
                {
                    "name": name,
                    **{key: None if cell != cell else cell for key, cell in zip(keys, cells, strict=True)},
                }
                for name, *cells in rows
            ],
        }


def free_names(names: Iterable[str], taken: Iterable[str]) -> list[str]:
    """Return distinct names of columns. Underscores follow a name that is taken or repeated.

    >>> free_names(["low", "city"], taken=["estimate", "low", "high"])
    ['low_', 'city']
    """
    known = set(taken)
    free = []
    for name in names:
        while name in known:
            name += "_"
        known.add(name)
        free.append(name)
    return free


class Table(Protocol):
    """Protocol of the parts and forms of a summary; see `dpstats.results.Summary`."""

    @property
    def title(self) -> str: ...
    @property
    def facts(self) -> Sequence[tuple[str, str]]: ...
    @property
    def columns(self) -> Sequence[str]: ...
    @property
    def notes(self) -> Sequence[str]: ...

    def aligned(self, blank: str) -> list[list[str]]:
        """Return the rows, decimal points of a column below each other."""

    def as_html(self) -> str:
        """Return the summary as an HTML fragment."""

    def to_latex(self) -> str:
        """Return the table as a LaTeX tabular."""

    def to_markdown(self) -> str:
        """Return the table in Markdown."""


class Exported:
    """Base of the results: a table to read, a data frame, a dictionary, LaTeX, Markdown, and HTML in a notebook.

    Examples
    --------
    >>> from dpstats.exports import Exported, Records
    >>> from dpstats.results import Summary
    >>> class Count(Exported):
    ...     def summary(self):
    ...         return Summary("Count", [], ["", "count"], [["yes", "71"]])
    ...
    ...     def _records(self):
    ...         return Records(["yes"], {"count": [71]}, {"simulated": True})
    >>> Count().to_dict()
    {'simulated': True, 'rows': [{'name': 'yes', 'count': 71}]}
    >>> print(Count().to_markdown())
    |  | count |
    | --- | ---: |
    | yes | 71 |
    """

    __slots__ = ()

    def summary(self) -> Table:
        """Return a table. It prints as text, and shows as HTML in a notebook."""
        raise TypeError(f"{type(self).__name__} does not define summary")

    def _records(self) -> Records:
        """Return the numbers."""
        raise TypeError(f"{type(self).__name__} does not define _records")

    def to_frame(self) -> Any:
        """Return the numbers as a data frame of pandas, a row for each name.

        Its ``attrs`` have the facts about all rows.
        """
        return self._records().as_frame()

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as JSON has them: facts, and a list of rows."""
        return self._records().as_dict()

    def to_latex(self) -> str:
        """Return the table of the summary as a LaTeX tabular, for the package booktabs."""
        return self.summary().to_latex()

    def to_markdown(self) -> str:
        """Return the table of the summary in Markdown."""
        return self.summary().to_markdown()

    def _repr_html_(self) -> str | None:
        return self.summary().as_html()
