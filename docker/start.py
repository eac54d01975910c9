"""``mvc`` as process 1, which gets only signals it asks for: SIGTERM, held back until here, ends it from now on."""

import atexit
import os
import signal
import sys
from typing import NoReturn

signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])


def run() -> int:
    """Run the command; its exit code."""
    try:
        from mvc.cli import main

        main()
    except KeyboardInterrupt:
        return 130
    except SystemExit as end:
        if not isinstance(end.code, int):
            raise
        return end.code


def leave(code: int) -> NoReturn:
    """End at once: Python would take half a second to take its modules apart."""
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = code or 120  # as Python does
    os._exit(code)


if __name__ == "__main__":
    leave(run())
