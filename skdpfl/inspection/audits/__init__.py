"""Audits: attacks on fits, whose success gives lower bounds on epsilon."""

from skdpfl.inspection.audits.audit import audit_epsilon
from skdpfl.inspection.audits.judging import PrivacyAudit

__all__ = ["PrivacyAudit", "audit_epsilon"]
