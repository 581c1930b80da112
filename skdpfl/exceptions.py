"""The warnings and errors that are ours."""


class PrivacyLeakWarning(UserWarning):
    """Something was learnt from the data that no budget paid for.

    One warning per cause; its text names the cause and the way out.
    """


class UnseenSiloWarning(UserWarning):
    """A model predicts for silos that were not in its fit.

    Once per fitted model; its text names the silos. Not given where silos are left out on purpose:
    by :class:`~skdpfl.model_selection.LeaveOneSiloOut` or
    :class:`~skdpfl.model_selection.SiloKFold`, or scored one by one.
    """


class BudgetExceeded(ValueError):
    """A fit would spend more than its :class:`~skdpfl.privacy.PrivacyLedger` has left.

    Raised before the fit touches the data.
    """


class LedgerError(RuntimeError):
    """A :class:`~skdpfl.privacy.PrivacyLedger` cannot be opened or written, or is not what it was.

    No fit is admitted then. The text names the ledger's file and the way out.
    """
