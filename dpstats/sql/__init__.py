"""Private answers to SQL, over tables in DuckDB."""

from dpstats.sql.answers import PrivateAnswer, PrivateTable
from dpstats.sql.private_sql import PrivateSQL

__all__ = ["PrivateAnswer", "PrivateSQL", "PrivateTable"]


def __dir__() -> list[str]:
    return sorted(__all__)
