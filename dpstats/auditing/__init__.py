"""Lower bounds on epsilon by attacking a release."""

from dpstats.auditing.attack import AuditResult, audit
from dpstats.auditing.bounds import epsilon_lower_bound

__all__ = ["AuditResult", "audit", "epsilon_lower_bound"]
