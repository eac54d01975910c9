"""The ledger under fire: kills, many submitters at once, full disks, folders that can't be written.

``make soak`` (MVC_SOAK=1) runs 200 kills and 8 x 5 submits; without it a few of each.
"""

import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from scorer.ledger import Ledger
from tests.builders import copy_of
from tests.scorer.fire import (
    ROOT,
    Ended,
    aside,
    assert_held,
    assert_sealed,
    contents,
    course_of,
    ended,
    events_of,
    kill_at,
    retitle,
    small_bundle,
    start,
    submit_to,
)

SOAK = os.environ.get("MVC_SOAK") == "1"
KILLS = 200 if SOAK else 6
SUBMITTERS = 8
TIMES = 5 if SOAK else 1
FOLLOWED = 4  # every fourth kill is followed by a submit that must succeed
OWN_DISK = ("unshare", "-rm")  # a mount namespace of its own, in which it is root
MERE_ROOT = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search")  # modes hold for it too


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small good bundle, not to be changed."""
    return small_bundle(tmp_path_factory.mktemp("fire") / "bundle")


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    """A small good bundle to be submitted."""
    return copy_of(written, tmp_path / "bundle")


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """A ledger with one event."""
    path = tmp_path / "mvc.duckdb"
    with Ledger.open(path) as opened:
        opened.append("lock", submission="s", task="t", payload={})
    return path


def test_kills_at_random_moments_lose_nothing(folder: Path, ledger: Path) -> None:
    seed = int(os.environ.get("MVC_FIRE_SEED") or random.SystemRandom().randrange(10**6))
    print(f"MVC_FIRE_SEED={seed}")
    rng = random.Random(seed)
    retitle(folder, 1)
    course = course_of(folder, ledger)
    seen: Counter[str] = Counter()
    for number in range(2, KILLS + 2):
        retitle(folder, number)
        before, events = contents(folder), events_of(ledger)
        # half anywhere, half around the recording
        trigger = ("start", "sealed", "start", "wal")[number % 4]
        delay = rng.uniform(0, {"start": course.whole, "sealed": course.whole - course.sealed, "wal": 0.05}[trigger])
        kill_at(start("submit", folder, "--ledger", ledger), folder, ledger, trigger, delay)
        print(f"round {number}: killed {delay:.4f} s after {trigger}")
        now = assert_held(folder, ledger, before, events)
        seen["recorded" if len(now) > len(events) else "not recorded"] += 1
        seen["left aside"] += bool(aside(folder))
        if SOAK or number % FOLLOWED == 0:
            verified = ended(start("ledger", "verify", "--ledger", ledger, "--head", events[-1].digest))
            assert (verified.code, verified.out[:12]) == (0, "ledger whole"), verified
        if number % FOLLOWED == 0 or number == KILLS + 1:
            after = submit_to(folder, ledger)
            assert after.code == 0, after
            assert_sealed(folder, events_of(ledger)[-1])
            assert len(events_of(ledger)) == len(now) + 1
    print(dict(seen))
    assert seen["not recorded"], "no kill came before the recording"
    assert not SOAK or min(seen["recorded"], seen["left aside"]) > 0, seen


def test_many_submitters_at_once_are_all_recorded(written: Path, ledger: Path, tmp_path: Path) -> None:
    folders = [copy_of(written, tmp_path / f"team{number}") for number in range(SUBMITTERS)]

    def submitter(folder: Path) -> list[Ended]:
        return [submit_to(folder, ledger) for _ in range(TIMES)]

    with ThreadPoolExecutor(SUBMITTERS) as pool:
        ends = [end for ends in pool.map(submitter, folders) for end in ends]
    assert [end.code for end in ends] == [0] * SUBMITTERS * TIMES, [end.err for end in ends if end.code]
    events = events_of(ledger)
    assert [event.kind.value for event in events] == ["lock"] + ["accepted"] * SUBMITTERS * TIMES
    for folder in folders:
        assert aside(folder) == []


# What lies on the small disk, bytes that are free there (odd: there is no ledger yet; negative: it can't be written),
# and what is said.
DISKS = [
    ("bundle", 0, "can't be written (No space left on device)"),
    ("ledger", 8192, "can't write to .*mvc.duckdb: no space left on device; nothing was recorded"),
    ("tmp", 100_000, "(No space left on device); free space, or set TMPDIR; nothing was recorded"),
]
MORE_DISKS = [
    *(("bundle", free, "can't be written (No space left on device)") for free in (200_000, 600_000, 1_000_000)),
    ("bundle", -2, "can't be written (Read-only file system)"),
    ("ledger", 0, "can't write to .*mvc.duckdb: no space left on device; nothing was recorded"),
    ("ledger", 100_000, "can't write to .*mvc.duckdb: no space left on device; nothing was recorded"),
    ("ledger", 1, "can't make a ledger at .*No space left on device"),
    ("ledger", -1, "can't make a ledger at .*Read-only file system"),
    ("ledger", -2, "mvc.duckdb may not be opened: read-only file system"),
    ("zip", 10_000, "(No space left on device); free space, or set TMPDIR; nothing was recorded"),
    ("tmp", 50_000, "(No space left on device); free space, or set TMPDIR; nothing was recorded"),
]


def _runs(*command: str) -> bool:
    """Whether ``command``, which starts another, can be used here."""
    try:
        return subprocess.run([*command, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.skipif(not _runs(*OWN_DISK), reason="this system lets us mount no disk of our own (unshare -rm)")
@pytest.mark.parametrize(("what", "free", "said"), DISKS + MORE_DISKS if SOAK else DISKS)
def test_a_full_or_read_only_disk_is_said_and_leaves_nothing(
    written: Path, tmp_path: Path, what: str, free: int, said: str
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    bundle = copy_of(written, tmp_path / "bundle")
    command = [*OWN_DISK, sys.executable, "-m", "tests.scorer.small_disk", str(bundle), str(place), what, str(free)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    _refused(Ended(**seen["first"]), said)
    assert seen["bundle unchanged"]
    assert seen["events unchanged"]
    assert seen["left aside"] == []
    assert set(seen["left beside"]) <= ({"mvc.duckdb", "mvc.duckdb.wal"} if free % 2 == 0 else set())
    if "again" in seen:
        assert seen["again"]["code"] == 0, seen["again"]
        assert seen["events"] == ["accepted"] if free % 2 else ["lock", "accepted"]


def _refused(end: Ended, said: str) -> None:
    """Exit code 2 and one line of error that says ``said`` (in which .* stands for anything), nothing else."""
    assert (end.code, end.out) == (2, ""), end
    assert re.search(re.escape(said).replace(r"\.\*", ".*"), end.err), end
    assert end.err.startswith("error: ")
    assert end.err.count("\n") == 1


def test_a_limit_on_file_size_is_said_and_leaves_nothing(folder: Path, ledger: Path) -> None:
    before, events = contents(folder), events_of(ledger)
    _refused(
        ended(start("submit", folder, "--ledger", ledger, file_bytes=200_000)), "can't be written (File too large)"
    )
    assert (contents(folder), events_of(ledger), aside(folder)) == (before, events, [])


def test_output_that_can_not_be_printed_is_said(folder: Path, ledger: Path) -> None:
    with open("/dev/full", "w") as full:
        end = ended(start("submit", folder, "--ledger", ledger, stdout=full.fileno()))
    _refused(end, "the output can't be written (No space left on device); mvc ledger list shows what was recorded")
    assert_sealed(folder, events_of(ledger)[-1])


# Modes of the bundle, of the ledger's folder and of the ledger (None: there is none), and what is said.
MODES: list[tuple[int, int, int | None, str]] = [
    (0o555, 0o777, 0o666, "can't be written (Permission denied); give --out FOLDER"),
    (0o777, 0o555, 0o666, "mvc.duckdb: permission denied; nothing was recorded"),
]
MORE_MODES: list[tuple[int, int, int | None, str]] = [
    (0o777, 0o777, 0o444, "mvc.duckdb may not be opened: permission denied"),
    (0o777, 0o555, None, "can't make a ledger at"),
]


@pytest.mark.parametrize(("bundle_mode", "home_mode", "ledger_mode", "said"), MODES + MORE_MODES if SOAK else MODES)
def test_what_may_not_be_written_is_said_and_stays(
    folder: Path, tmp_path: Path, bundle_mode: int, home_mode: int, ledger_mode: int | None, said: str
) -> None:
    if os.geteuid() == 0 and not _runs(*MERE_ROOT):
        pytest.skip("run as root, to whom nothing is forbidden, and setpriv can't change that")
    home = tmp_path / "home"
    home.mkdir()
    ledger = home / "mvc.duckdb"
    if ledger_mode is not None:
        with Ledger.open(ledger) as opened:
            opened.append("lock", submission="s", task="t", payload={})
        ledger.chmod(ledger_mode)
    folder.chmod(bundle_mode)
    home.chmod(home_mode)
    before = contents(folder), sorted(home.iterdir()), ledger.read_bytes() if ledger_mode is not None else b""
    end = ended(start("submit", folder, "--ledger", ledger, before=MERE_ROOT if os.geteuid() == 0 else ()))
    after = contents(folder), sorted(home.iterdir()), ledger.read_bytes() if ledger_mode is not None else b""
    folder.chmod(0o755)
    home.chmod(0o755)
    _refused(end, said)
    assert after == before
    assert aside(folder) == []
