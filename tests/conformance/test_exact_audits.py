"""Audits of what users call, with exact noise: real releases of every class, and the bugs that only exact noise has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from registry import ENTRIES, Entry
from registry.entry import traits_of
from test_exact_path import half_on_the_way_to_opendp, half_where_nothing_is_simulated, one_draw_too_few

from dpstats.auditing import audit_outputs
from dpstats.privacy import Comparisons
from dpstats.release.estimator import PrivateEstimator
from dpstats.sql import PrivateSQL

RELEASES = 1000


def chosen() -> Iterator[Entry]:
    """Yield the entries whose real releases are audited: those that say so, or the first of their class."""
    for kind in dict.fromkeys(entry.covers for entry in ENTRIES):
        own = [entry for entry in ENTRIES if entry.covers is kind and entry.public is not None]
        if "exact audit" not in traits_of(kind).excused:
            yield from [entry for entry in own if entry.exact_audit] or own[:1]


# Others go through the same path: tests/conformance/test_exact_path.py has all.
EXACT = list(chosen())
# All audits of right releases together raise a false alarm with probability at most 0.001.
CONFIDENCE = 1 - 0.001 / len(EXACT)


def view(entry: Entry, output: Any) -> Any:
    """Return what an attacker looks at: numbers as they are; of a stream which answers are above, as a number."""
    if any(isinstance(stage, Comparisons) for stage in entry.plan.stages) and np.ndim(output):
        return float((np.asarray(output) > 0) @ 2.0 ** np.arange(len(output)))
    return np.nan_to_num(np.ravel(output).astype(float), posinf=1e9)


@contextmanager
def planned_once(kind: type) -> Iterator[None]:
    """Make the plan of many fits with the same parameters once: it is public, and a good part of their time."""
    with pytest.MonkeyPatch.context() as patch:
        if issubclass(kind, PrivateEstimator):
            plan, made = kind.plan, {}

            def kept(self: Any, n_samples: int, n_features: int) -> Any:
                key = n_samples, n_features
                if key not in made:
                    made[key] = plan(self, n_samples, n_features)
                return made[key]

            patch.setattr(kind, "plan", kept)
        yield


def enough(entry: Entry) -> int:
    """Return how many releases show that a fit has no noise: 76 of a claim of 1, 184 of one of 2.

    One of 3 takes 482. That noise is drawn at all is seen of each in test_exact_path.py.
    """
    return 200 if 1 < entry.claim.epsilon <= 2 else 100


def audited(entry: Entry, dataset: Any, neighbor: Any, releases: int = RELEASES) -> Any:
    """Audit real releases of two datasets."""
    with planned_once(entry.covers):
        outputs = [[view(entry, entry.public(data, None)[1]) for _ in range(releases)] for data in (dataset, neighbor)]
    claim = entry.claim
    return audit_outputs(*outputs, epsilon=claim.epsilon, delta=claim.delta, confidence=CONFIDENCE)


def test_every_class_has_an_exact_audit() -> None:
    audited_classes = {entry.covers for entry in EXACT}
    missing = {entry.covers for entry in ENTRIES} - audited_classes
    assert {kind for kind in missing if "exact audit" not in traits_of(kind).excused} == set()
    # Few are excused, and each is one of several that draw in the same way.
    assert len(missing) <= 5 and len(audited_classes) > 40


@pytest.mark.parametrize("entry", EXACT, ids=lambda entry: entry.name)
def test_real_releases_are_not_accused(entry: Entry) -> None:
    # A fit takes ten to a hundred times as long as a mechanism's one draw, and is attacked as often below; a query too.
    slow = issubclass(entry.covers, PrivateEstimator | PrivateSQL)
    result = audited(entry, entry.dataset, entry.neighbor, enough(entry) if slow else RELEASES)
    assert not result.violated
    # That it has power is seen below, and with more runs in test_conformance.py.
    assert result.epsilon_lower >= 0


def caught(
    name: str, pair: tuple[Any, Any] | None, bug: Callable[..., None], monkeypatch: Any, releases: int = 2 * RELEASES
) -> bool:
    (entry,) = [entry for entry in EXACT if entry.name == name]
    dataset, neighbor = pair or (entry.dataset, entry.neighbor)
    bug(monkeypatch)
    return bool(audited(entry, dataset, neighbor, releases).violated)


@pytest.mark.parametrize(
    ("name", "bug", "releases"),
    # The epsilon that is shown, of a claim of 1, over 60 simulated audits of each: 1.43, 1.63 and 1.53, with standard
    # deviations of 0.09, 0.07 and 0.09; of the exponential mechanism 1.29 and 0.075 at 6000 releases, 0.97 at 2000.
    [
        ("Laplace mechanism, 1 number(s)", half_where_nothing_is_simulated, 2 * RELEASES),
        ("count", half_where_nothing_is_simulated, 2 * RELEASES),
        ("exponential mechanism", half_on_the_way_to_opendp, 8 * RELEASES),
        ("permute and flip, monotone", half_on_the_way_to_opendp, 3 * RELEASES),
    ],
)
def test_a_bug_of_the_exact_path_is_caught(
    name: str, bug: Callable[..., None], releases: int, monkeypatch: Any
) -> None:
    assert caught(name, None, bug, monkeypatch, releases)


def test_a_coin_that_two_rows_share_is_caught(monkeypatch: Any) -> None:
    # Their responses then differ if and only if their answers do.
    pair = (0, 0), (1, 0)
    assert caught("randomized response, 2 categories", pair, one_draw_too_few, monkeypatch)
