"""An error whose words may be sent to the other side."""


class Refused(ValueError):
    """A silo, or a server, declines what it was asked for; the text says why and what to do."""
