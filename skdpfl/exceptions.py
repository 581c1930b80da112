"""The warnings and errors that are ours."""


class PrivacyLeakWarning(UserWarning):
    """Something was learnt from the data that no budget paid for.

    One warning per cause; its text names the cause and the way out.
    """


class BudgetExceeded(ValueError):
    """A fit would spend more than its :class:`~skdpfl.privacy.PrivacyLedger` has left.

    Raised before the fit touches the data.
    """


class LedgerError(RuntimeError):
    """A :class:`~skdpfl.privacy.PrivacyLedger` cannot be opened or written, or is not what it was.

    No fit is admitted then. The text names the ledger's file and the way out.
    """
