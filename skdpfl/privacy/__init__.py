"""Privacy guarantees and accounting."""

from skdpfl._lazy import lazy

#: public name -> the module that has it; loaded on first use
_WHERE = {
    "PrivacyLedger": "spending.ledger",
    "PrivacyPlan": "plan",
    "PrivacySpent": "spending.spent",
    "SecureAggregation": "secure_aggregation",
    "audit_epsilon": "skdpfl.inspection.audits",  # it fits estimators
    "check_independent": "skdpfl.independence",  # it knows algorithms, losses and models
    "epsilon_of": "accounting",
    "epsilon_per_record": "spending.groups",
    "n_steps_for": "accounting",
    "noise_multiplier_for": "accounting",
    "published": "published",
}

__all__ = sorted(_WHERE)
__getattr__, __dir__ = lazy(__name__, _WHERE)
