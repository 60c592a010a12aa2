"""A plan that needs more memory than there is, is refused before its charge; plans state their memory."""

from __future__ import annotations

import io
from typing import Any

import pytest

from dpstats.errors import NotEnoughMemory
from dpstats.means import ClippedMean
from dpstats.privacy import PrivacyBudget
from dpstats.privacy import plan as memory
from dpstats.privacy.plan import available_memory, describe_bytes
from dpstats.queries import Domain, WorkloadAnswers


def test_a_release_that_does_not_fit_is_refused_before_its_charge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda: 2 * 10**6)
    monkeypatch.setattr(memory, "_SMALL", 0)
    budget = PrivacyBudget(1.0, 1e-6)
    wide = WorkloadAnswers(domain=Domain({"z": 20_000}), workload=1, epsilon=1.0, budget=budget)
    with pytest.raises(NotEnoughMemory, match=r"available memory, about 2 MB, got .* needs about 6\.6 MB\. Nothing"):
        wide.fit([[0]] * 10)
    assert budget.history() == ()
    # A simulation is not refused: it charges nothing.
    WorkloadAnswers(domain=Domain({"z": 10_000}), workload=1, random_state=0).fit([[0]] * 10)


def test_every_plan_states_its_memory() -> None:
    plan = ClippedMean(bounds=(0, 1)).plan(1000, 50_000)
    assert plan.memory == 200 * 100_000
    assert "memory: about 20 MB" in " ".join(str(plan.summary()).split()).replace("Memory", "memory")
    assert describe_bytes(10) == "less than 1 MB" and describe_bytes(3 * 10**9) == "about 3 GB"


def test_the_least_of_all_limits_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {
        "/proc/meminfo": "MemTotal: 900 kB\nMemAvailable: 500 kB\nSwapFree: 100 kB\n",
        "/sys/fs/cgroup/memory.max": "400000\n",
    }

    def opening(path: str, *arguments: Any, **options: Any) -> io.StringIO:
        if path not in texts:
            raise FileNotFoundError(path)
        return io.StringIO(texts[path])

    monkeypatch.setattr(memory, "open", opening, raising=False)
    assert available_memory() == 400_000
    texts["/sys/fs/cgroup/memory.max"] = "max\n"
    assert available_memory() == 600 * 1024


def test_memory_of_this_machine_is_known() -> None:
    found = available_memory()
    assert found is None or found > 1 << 20
