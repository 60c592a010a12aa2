"""A session: the only access to noise. It is charged for a plan, and then draws each stage of the plan once.

The arguments of a source of noise come from the stages of the plan, which also determine the cost. Neither
can be changed without the other. The noise is drawn after the charge, by the name of a stage. An unknown
name, a second use, a wrong length and a forgotten stage are errors.
"""

from __future__ import annotations

import os
from contextlib import suppress

from dpstats.errors import NotEnoughMemory
from dpstats.privacy.plan import Plan, describe_bytes

_SMALL = 1 << 27  # bytes that are not compared: every machine has them

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Files with the limit of a container, of both versions of control groups."""


def available_memory() -> int | None:
    """Return the bytes that this process can still use, or None if the system does not say."""
    found: list[int] = []
    with suppress(OSError, ValueError, KeyError):
        with open("/proc/meminfo", encoding="ascii") as file:
            facts = dict(line.split(":", 1) for line in file)
        found.append(1024 * sum(int(facts[name].split()[0]) for name in ("MemAvailable", "SwapFree")))
    for path in _LIMITS:
        with suppress(OSError, ValueError), open(path, encoding="ascii") as file:
            found.append(int(file.read()))
    if not found:
        with suppress(OSError, ValueError, AttributeError):
            found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with suppress(ImportError, OSError, ValueError):
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            # The address space that this process has already, where Linux states it.
            with open("/proc/self/statm", encoding="ascii") as file:
                used = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
            found.append(max(limit - used, 0))
    return min(found) if found else None


def check_memory(plan: Plan) -> None:
    """Refuse a plan that needs more memory than is available."""
    needed = plan.memory
    if needed <= _SMALL:
        return
    available = available_memory()
    if available is not None and needed > available:
        raise NotEnoughMemory(
            f"the release must fit into the available memory, {describe_bytes(available)}, got a plan that needs "
            f"{describe_bytes(needed)}. Nothing was charged. Release fewer numbers, or use a larger machine."
        )
