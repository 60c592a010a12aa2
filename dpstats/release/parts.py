"""Several releases as one: the stages of all of them in one plan, which is charged once.

Proof: docs/proofs/composition.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dpstats.errors import DPStatsError
from dpstats.privacy.plan import Plan
from dpstats.privacy.stages import AnyStage
from dpstats.release.session import Released, Session

_BETWEEN = ": "


def join_stages(plans: Mapping[str, Plan]) -> tuple[AnyStage, ...]:
    """Return the stages of several plans in order, each with the name of its plan before its own.

    Examples
    --------
    >>> from dpstats.groups import GroupMeans
    >>> from dpstats.release.parts import join_stages
    >>> plan = GroupMeans(groups=["a", "b"], bounds=(0, 10), epsilon=0.5).plan(5000, 1)
    >>> [stage.name for stage in join_stages({"age": plan, "height": plan})]
    ['age: totals of the groups', 'height: totals of the groups']
    """
    found: list[AnyStage] = []
    for name, plan in plans.items():
        # A release before the stages, such as one of bounds, would be forgotten.
        if getattr(plan, "counted", None) is not None or getattr(plan, "located", None) is not None:
            raise DPStatsError(f"the part {name!r} must have all of its stages in one plan")
        for stage in plan.stages:
            named: Any = stage  # each kind of stage has a name
            found.append(replace(named, name=f"{name}{_BETWEEN}{stage.name}"))
    return tuple(found)


def released_part(released: Released, name: str, plan: Plan) -> dict[str, Any]:
    """Return the released values of a part, by the names of the stages of its own plan."""
    return {stage.name: released[f"{name}{_BETWEEN}{stage.name}"] for stage in plan.stages}


class PartSession:
    """The session of a joint plan as one of its parts sees it: the stages have the names of the part's own plan.

    It draws through the whole session, which is charged, and has no other way to noise.
    """

    def __init__(self, session: Session, name: str, plan: Plan) -> None:
        self._session, self._name, self.plan = session, name, plan

    @property
    def size(self) -> int | None:
        """How many times everything is drawn; None is once."""
        return self._session.size

    def add(self, name: str, integers: Any, **options: Any) -> Any:
        """Release integers with the noise of a stage; see `Session.add`."""
        return self._session.add(f"{self._name}{_BETWEEN}{name}", integers, **options)

    def choose(self, name: str, parts: Any) -> Any:
        """Choose candidates by their utility; see `Session.choose`."""
        return self._session.choose(f"{self._name}{_BETWEEN}{name}", parts)
