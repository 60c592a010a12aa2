"""Right releases of every kind of output are seldom accused."""

from __future__ import annotations

import pytest

from dpstats.auditing import audit
from tests.auditing.releases import answers, number, vector, words

RIGHT = {
    "number": (number, 600, True),
    "words": (words, 600, True),
    "vector": (vector, 800, True),
    "object": (answers, 200, False),
}


@pytest.mark.parametrize("kind", RIGHT)
def test_false_alarms_are_at_most_the_stated_rate(kind: str) -> None:
    release, trials, batched = RIGHT[kind]
    options = {"epsilon": 1.0, "n_trials": trials, "confidence": 0.9, "batched": batched}
    alarms = sum(audit(release, 0, 1, random_state=seed, **options).violated for seed in range(200))
    # Binomial(200, p <= 0.1): more than 37 has probability below 1e-4.
    assert alarms <= 37
