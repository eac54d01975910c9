"""A submit on a disk that is full or can't be written: run by ``unshare``, prints what was seen as JSON.

``python -m tests.scorer.small_disk BUNDLE PLACE WHAT FREE`` mounts a small disk at PLACE, in a mount namespace of its
own, puts WHAT there (bundle; ledger; tmp, the temporary files; or zip, those of a bundle that is one), leaves FREE
bytes (negative: the disk is read-only; odd: there is no ledger before), and submits. If it is the ledger, the disk is
then made large and writable, and the bundle submitted again.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from scorer.ledger import Ledger
from tests.scorer.fire import aside, contents, ended, events_of, start

LARGE = 64 << 20
BLOCK = 4096


def mount(place: Path, *options: str) -> None:
    """Mount a disk in memory at ``place``, or mount it again with other ``options``."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", ",".join(options), "none", str(place)], check=True)


def fill(place: Path, free: int) -> None:
    """Leave ``free`` bytes, in whole blocks."""
    state = os.statvfs(place)
    (place / "filler").write_bytes(bytes(max(0, state.f_bavail * state.f_bsize - free) // BLOCK * BLOCK))


def main(bundle: Path, place: Path, what: str, free: int) -> None:
    """Submit on the small disk, then on the large one."""
    mount(place, f"size={LARGE}")
    folder = Path(shutil.copytree(bundle, (place if what == "bundle" else bundle.parent) / "copy"))
    ledger = (place if what == "ledger" else bundle.parent) / "mvc.duckdb"
    if free % 2 == 0:
        with Ledger.open(ledger) as opened:
            opened.append("lock", submission="s", task="t", payload={})
    given = folder if what != "zip" else shutil.make_archive(str(bundle.parent / "bundle"), "zip", folder)
    environment = {"TMPDIR": str(place)} if what in ("tmp", "zip") else {}
    before, events = contents(folder), events_of(ledger) if ledger.exists() else ()
    if free < 0:
        mount(place, "remount", "ro")
    else:
        fill(place, free)
    first = ended(start("submit", given, "--ledger", ledger, environment=environment))
    seen = {
        "first": vars(first),
        "bundle unchanged": contents(folder) == before,
        "left aside": [path.name for path in aside(folder)],
        "left beside": sorted(path.name for path in place.iterdir() if path.name not in ("filler", "copy")),
        "ledger made": ledger.exists(),
        "events unchanged": (events_of(ledger) if ledger.exists() else ()) == events,
    }
    if what == "ledger":  # where a torn record could stand in the way
        if free < 0:
            mount(place, "remount", "rw")
        else:
            (place / "filler").unlink()
        seen["again"] = vars(ended(start("submit", given, "--ledger", ledger, environment=environment)))
        seen["events"] = [event.kind.value for event in events_of(ledger)]
    print(json.dumps(seen))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
