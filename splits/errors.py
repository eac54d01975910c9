"""What a user of the split tools must mend."""


class SplitError(ValueError):
    """Input that can't be used as it is; the message says what was seen, what is wanted and how to mend it."""
