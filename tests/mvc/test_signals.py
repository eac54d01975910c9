"""SIGTERM ends the command within five seconds, also when compiled code does not look."""

import signal
import subprocess
import sys
import time

BUSY = """
import hashlib, sys
from mvc import cli

@cli.app.command("busy")
def busy() -> None:
    print("busy", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2_000_000_000)  # C that never asks whether a signal came

sys.argv = ["mvc", "busy"]
cli.main()
"""


def test_code_that_does_not_listen_is_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "busy\n"
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
