"""Lower bounds on epsilon by attacking a release; sensitivities by replaying a neighboring dataset."""

from dpstats.auditing.movement import Movement, SensitivityCheck
from dpstats.auditing.release_check import CheckItem, ReleaseCheck, audit, audit_outputs, check_release
from dpstats.auditing.result import (
    AuditResult,
    ExactAuditResult,
    audit_probabilities,
    epsilon_lower_bound,
    exact_delta,
    exact_epsilon,
    kl_divergence,
)
from dpstats.auditing.sensitivity import check_sensitivity, worst_neighbor

__all__ = ["AuditResult", "CheckItem", "ExactAuditResult", "Movement", "ReleaseCheck", "SensitivityCheck"]
__all__ += ["audit", "audit_outputs", "audit_probabilities", "check_release", "check_sensitivity"]
__all__ += ["epsilon_lower_bound", "exact_delta", "exact_epsilon", "kl_divergence", "worst_neighbor"]


def __dir__() -> list[str]:
    return sorted(__all__)
