"""What audits report: tables with the claim, the bound and the verdict."""

from __future__ import annotations

import pytest

from dpstats.auditing import AuditResult, ExactAuditResult


@pytest.mark.parametrize(("violated", "words"), [(True, "violated"), (False, "not violated")])
def test_the_table_of_an_audit(violated: bool, words: str) -> None:
    result = AuditResult(
        epsilon_lower=0.98765,
        epsilon_claimed=0.5,
        delta=1e-3,
        violated=violated,
        confidence=0.95,
        n_trials=4000,
        event="output >= 1",
        counts=(1500, 20),
    )
    table = result.summary()
    assert table.rows == [("0.5", "0.001", "0.9877", words)]
    # Half of the runs chose the event, half counted it.
    assert "1,500 against 20 in 2,000 runs each" in str(result) and "output >= 1" in str(result)


def test_the_table_of_an_exact_audit() -> None:
    result = ExactAuditResult(
        epsilon_lower=1.0, epsilon_claimed=1.0, delta=0.0, violated=False, pair=(0, 1), n_pairs=162
    )
    assert result.confidence == 1.0 and "162, both ways" in str(result) and "not violated" in str(result)
