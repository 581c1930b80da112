"""Audits: attacks on fits, whose success bounds epsilon from below."""

from skdpfl.inspection.audits.audit import audit_epsilon
from skdpfl.inspection.audits.judging import PrivacyAudit

__all__ = ["PrivacyAudit", "audit_epsilon"]
