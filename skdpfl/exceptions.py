"""Warnings and errors of this package."""


class PrivacyLeakWarning(UserWarning):
    """Something is learnt from the data that the privacy cost does not cover.

    One warning per cause; its text names the cause and a remedy.
    """


class UnseenSiloWarning(UserWarning):
    """A model predicts for silos that were not in its fit.

    It appears once per fitted model and names the silos. It does not appear if silos are left out
    on purpose by :class:`~skdpfl.model_selection.LeaveOneSiloOut` or
    :class:`~skdpfl.model_selection.SiloKFold`, or scored one by one.
    """


class BudgetExceeded(ValueError):
    """A fit would spend more than its :class:`~skdpfl.privacy.PrivacyLedger` has left.

    Raised before the fit touches the data.
    """


class LedgerError(RuntimeError):
    """A :class:`~skdpfl.privacy.PrivacyLedger` cannot be opened or written, or is damaged.

    No fit is admitted then. The text names the ledger's file and a remedy.
    """
