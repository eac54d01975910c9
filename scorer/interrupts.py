"""Ctrl-C while DuckDB works."""

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """DuckDB turns Ctrl-C during a query into a RuntimeError; it is an interrupt, and nobody's fault."""
    try:
        yield
    except RuntimeError as error:
        if "interrupted" in str(error).lower():
            raise KeyboardInterrupt from None
        raise
