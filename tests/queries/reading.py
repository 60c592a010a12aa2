"""Rows of a domain, or counts of its cells, as a fit reads them."""

from __future__ import annotations

from typing import Any

from dpstats.data.opening import open_source
from dpstats.data.rows import Rows
from dpstats.queries import Domain
from dpstats.queries.domain import domain_schema


def private_table(X: Any, domain: Domain, declared: bool) -> Rows:
    source = open_source(X)
    return source.read(domain_schema(domain, declared).resolve(source.names))
