"""Lower bounds on epsilon by attacking a release."""

from dpstats.auditing.attack import audit, audit_outputs
from dpstats.auditing.bounds import epsilon_lower_bound
from dpstats.auditing.exact import audit_probabilities, exact_delta, exact_epsilon
from dpstats.auditing.result import AuditResult, ExactAuditResult

__all__ = [
    "AuditResult",
    "ExactAuditResult",
    "audit",
    "audit_outputs",
    "audit_probabilities",
    "epsilon_lower_bound",
    "exact_delta",
    "exact_epsilon",
]


def __dir__() -> list[str]:
    return sorted(__all__)
