"""What a user of the baseline can mend."""


class BaselineError(ValueError):
    """A run can't be done as asked; the message says what was seen, what was wanted and the mend."""
