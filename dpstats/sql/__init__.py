"""Private answers to SQL, over tables in DuckDB or Postgres."""

from dpstats.sql.answers import PrivateAnswer, PrivateTable
from dpstats.sql.private_sql import PrivateSQL
from dpstats.sql.quantiles import QuantileAnswers
from dpstats.sql.several import PrivateAnswers

__all__ = ["PrivateAnswer", "PrivateAnswers", "PrivateSQL", "PrivateTable", "QuantileAnswers"]


def __dir__() -> list[str]:
    return sorted(__all__)
