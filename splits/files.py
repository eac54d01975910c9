"""What can be read as a file at all."""

import stat
from pathlib import Path

from splits.errors import SplitError


def no_pipe(path: Path, what: str = "the table") -> None:
    """SplitError where ``path`` is a pipe or device: it would be waited for without end, and can be read once only.

    Raises ``OSError`` where there is nothing, or nothing that can be looked at.
    """
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise SplitError(f"{path} is a pipe or device; save {what} as a file")
