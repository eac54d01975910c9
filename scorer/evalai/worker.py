"""The worker's round: a message, its submission, one run of the scorer, one report, and the message is gone.

A message is deleted only after EvalAI took the report, so that a worker may be killed at any moment: the message comes
again, and the same file gets the same numbers. Tries of a submission are counted on disk; the fourth is no try but the
report that it was not scored.
"""

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from protocol.findings import plain
from scorer.evalai.api import Message, Phase, Report, Server, SetupError, Waiting
from scorer.evalai.reports import FILES, LOG_FILE, fault, left_in, report_of
from scorer.evalai.runs import NotStartedError, Run, Scorer, name_of, scored
from scorer.evalai.web import MAX_FILE, RefusedError, TooLargeError, UnreachableError, WebError, download
from submission.files import write_atomic

MAX_TRIES = 3
SETTLED = ("finished", "failed", "cancelled", "archived")
STOPPED = (143, 130, -15, -2)  # exit codes of a scorer that somebody else stopped
KILLED = (137, -9)  # by somebody, or for want of memory, which may lie in the submission
ENDINGS = (".zip", ".csv", ".parquet")
TRIES_FILE, LOCK_FILE, WORK_FOLDER = "tries", ".lock", "work"


class TakenError(Exception):
    """Another worker uses the folder."""


class _LeftError(Exception):
    """This try came to nothing; another may do better."""


class _StoppedError(_LeftError):
    """Somebody stopped the scorer: that was no try."""


@dataclass
class Worker:
    """A worker for one challenge: ``annotation`` has the hidden labels, which it mounts and never opens.

    ``save`` keeps record.json, verdict.json and scorer.log of each submission in a folder of its number; ``host``, if
    given, gets a folder each for the scorer's own log and all numbers. ``split`` is the code name of the split, where a
    phase has several. ``say`` takes lines for the host's log.
    """

    server: Server
    scorer: Scorer
    annotation: Path
    save: Path
    host: Path | None = None
    split: str | None = None
    limit_s: float = 3600.0
    say: Callable[[str], None] = lambda line: None
    max_file: int = MAX_FILE
    _phases: dict[int, Phase] = field(default_factory=dict)
    _given_up: set[int] = field(default_factory=set)

    def run(self, *, once: bool = False, pause_s: float = 30.0) -> bool:
        """Handle what is queued, and go on, or end if ``once``; False where something was left in the queue.

        Raises SetupError and NotStartedError where nothing can be scored, RefusedError where the queue is refused,
        UnreachableError only if ``once``, TakenError where another worker uses ``save``, OSError where it can't be
        written.
        """
        with self._alone():
            left: set[int] = set()
            while True:
                try:
                    message = self.server.message()
                    again = message is not None and message.submission in left
                    if once and (message is None or again):
                        return not left
                    if message is None or again:
                        time.sleep(pause_s)
                    if message is None or message.submission in left & self._given_up:
                        continue
                    (left.discard if self._handle(message) else left.add)(message.submission)
                except UnreachableError as error:
                    if once:
                        raise
                    self.say(f"EvalAI does not answer; trying again in {pause_s:g} s: {error}")
                    time.sleep(pause_s)

    def _handle(self, message: Message) -> bool:
        """Work on ``message``; True where it is out of the queue."""
        pk = message.submission
        if message.challenge != self.server.challenge:
            self.say(f"submission {pk} belongs to challenge {message.challenge}: left in the queue")
            self._given_up.add(pk)
            return False
        try:
            waiting = self.server.submission(pk)
            if waiting.status not in SETTLED:
                self._settle(waiting)
            else:
                self.say(f"submission {pk} is {waiting.status} already")
            self.server.delete(message)
        except (RefusedError, _LeftError) as error:
            self.say(f"submission {pk}: {error}; left in the queue")
            if isinstance(error, RefusedError) and error.status == 404:
                self._given_up.add(pk)
            return False
        (self.save / str(pk) / TRIES_FILE).unlink(missing_ok=True)
        return True

    def _settle(self, waiting: Waiting) -> None:
        """Score ``waiting`` and report it.

        A try counts unless a stop, this machine, what the host has to mend or EvalAI's silence ended it.
        """
        folder = self.save / str(waiting.pk)
        folder.mkdir(mode=0o700, exist_ok=True)
        tries = _read(folder / TRIES_FILE)
        _write(folder / TRIES_FILE, tries + 1)
        try:
            if tries < MAX_TRIES:
                report = self._judged(waiting, folder)
            else:
                self._given_up.add(waiting.pk)  # where EvalAI refuses even this, it is not asked for ever
                report = fault(f"given up after {MAX_TRIES} tries")
            self.server.finished(waiting, report)
        except (UnreachableError, SetupError, NotStartedError, _StoppedError, OSError, SystemExit, KeyboardInterrupt):
            with contextlib.suppress(OSError):
                _write(folder / TRIES_FILE, tries)
            raise
        self.say(f"submission {waiting.pk}: {'FINISHED' if report.finished else 'FAILED'}, {report.why}")

    def _judged(self, waiting: Waiting, folder: Path) -> Report:
        """What the scorer makes of ``waiting``; its files are kept in ``folder``."""
        phase = self._phase(waiting.phase)
        if waiting.status != "running":
            self.server.started(waiting)
        self.say(f"submission {waiting.pk}: working on it")
        for name in (*FILES, LOG_FILE):
            (folder / name).unlink(missing_ok=True)
        with self._work(waiting, folder) as run:
            file = run.submission / f"submission{_ending(waiting.url)}"
            if not waiting.url:
                raise _LeftError("EvalAI names no file")
            try:
                download(waiting.url, file, limit=self.max_file, waits=self.server.waits)
            except TooLargeError as error:
                said = f"MVC REJECTED {error}; nothing was scored"
                return Report(False, stderr=f"{said}\n", why=said)
            except WebError as error:
                raise _LeftError(f"the file can't be downloaded: {error}") from None
            code = scored(self.scorer, run, folder / LOG_FILE, self.limit_s)
            if code in STOPPED:
                raise _StoppedError(f"somebody stopped the scorer (exit {code})")
            if code in KILLED:
                raise _LeftError(f"the scorer was killed, maybe for want of memory (exit {code})")
            left = left_in(run.output)
        for name, data in left.files.items():
            write_atomic(folder / name, data)
        return report_of(code, left, phase, folder / LOG_FILE)

    def _phase(self, pk: int) -> Phase:
        if pk not in self._phases:
            self._phases[pk] = self.server.phase(pk, self.split)
        return self._phases[pk]

    @contextlib.contextmanager
    def _work(self, waiting: Waiting, folder: Path) -> Iterator[Run]:
        """New folders for one run, gone afterwards."""
        root = folder / WORK_FOLDER
        shutil.rmtree(root, ignore_errors=True)
        host = None if self.host is None else self.host / str(waiting.pk)
        if host is not None:
            host.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            host.mkdir(mode=0o700, exist_ok=True)
        run = Run(root.resolve(), self.annotation.resolve(), host and host.resolve(), name_of(self.save, waiting.pk))
        run.root.mkdir(mode=0o700)  # around all of it; mkdir gives the folders between no mode
        run.submission.mkdir(mode=0o700, parents=True)
        run.output.mkdir(mode=0o700)
        try:
            yield run
        finally:
            shutil.rmtree(root, ignore_errors=True)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold ``save`` against other workers; the lock ends with this process, however it ends."""
        self.save.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(self.save / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise TakenError(f"another worker uses {plain(self.save)}; give each a folder of its own") from None
            yield
        finally:
            os.close(handle)


def _ending(url: str) -> str:
    """The ending of the file at ``url`` if it is one of ENDINGS, else ''."""
    try:
        ending = PurePosixPath(urlsplit(url).path).suffix.lower()
    except ValueError:
        return ""
    return ending if ending in ENDINGS else ""


def _read(path: Path) -> int:
    try:
        text = path.read_text(encoding="ascii").strip()
    except (FileNotFoundError, UnicodeDecodeError):
        return 0
    return int(text) if text.isdigit() and len(text) < 10 else 0


def _write(path: Path, tries: int) -> None:
    write_atomic(path, str(tries).encode())
