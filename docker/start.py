"""Runs ``mvc``, or a program: ``start.py mvc ARGUMENTS`` or ``start.py program NAME ARGUMENTS``.

As process 1 it gets only signals that it asks for: SIGTERM, held back until here, ends it from now on.
"""

import atexit
import os
import signal
import sys
import traceback
from typing import NoReturn

signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])


def program(command: list[str]) -> NoReturn:
    """Become another program."""
    try:
        os.execvp(command[0], command)
    except OSError as error:
        print(f"mvc-scorer: {command[0]!a}: no command of mvc and no program ({error.strerror})", file=sys.stderr)
        sys.exit(2)


def mvc(arguments: list[str]) -> NoReturn:
    """Run a command and end at once: Python would take half a second to take its modules apart."""
    sys.argv = ["mvc", *arguments]
    try:
        from mvc.cli import main

        main()
    except KeyboardInterrupt:
        code = 130
    except SystemExit as end:
        if not isinstance(end.code, int):
            raise
        code = end.code
    except BaseException:  # a module that can't be loaded, a panic of compiled code: Python's 1 would be a rejection
        if os.environ.get("MVC_DEBUG"):
            traceback.print_exc()
        print("MVC UNDETERMINED the scorer itself can't run; this is not the submission's fault", file=sys.stderr)
        code = 3
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = code or 120  # as Python does
    os._exit(code)


if __name__ == "__main__":
    {"mvc": mvc, "program": program}[sys.argv[1]](sys.argv[2:])
