"""``mvc score`` without options: find out which host this is, score, and write what it reads, in place."""

import contextlib
import errno
import logging
import os
import stat
from dataclasses import replace
from pathlib import Path

from protocol.findings import plain
from scorer.host_task import HostError
from scorer.hosted import HostedScore, Progress, failed, judged, read_side
from scorer.hosted_places import as_user, enough_memory, find_bundle, host_log, readable, usable
from scorer.layouts.platforms import LAYOUTS, Layout
from submission.bundle import TASK_FILE

log = logging.getLogger("mvc")

HOST_FOLDER, KEY_FILE, TRUTH_FILE = "host", "host.key", "truth.parquet"
UNSYNCED = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EROFS})  # of a file system that can't sync, not of a full one
HOST_LOG = "MVC_HOST_LOG"  # stderr: send the log there, whoever may see it


class LayoutError(HostError):
    """What is wrong with the folders themselves: it tells nothing of what is in them, so that anyone may know."""


def detect(root: Path = Path("/"), name: str | None = None) -> Layout:
    """The layout whose folder of labels lies below ``root``, or the one called ``name``; LayoutError in doubt."""
    known = {layout.name: layout for layout in LAYOUTS}
    if name is not None and name not in known:
        raise LayoutError(f"no layout is called {plain(name, 40)}; there are {', '.join(known)}")
    found = [layout for layout in LAYOUTS if (root / layout.labels).is_dir()]
    if name is not None:
        found = [layout for layout in found if layout.name == name]
    if len(found) > 1:
        said = ", ".join(f"/{layout.labels} ({layout.name})" for layout in found)
        raise LayoutError(f"labels lie in more than one place: {said}; mount one, or set MVC_HOST")
    if not found:
        asked = [known[name]] if name is not None else list(LAYOUTS)
        said = ", ".join(f"/{layout.labels} ({layout.name})" for layout in asked)
        raise LayoutError(f"no folder of labels is mounted: looked for {said}; or give --truth, --input, --output")
    for place, what in ((found[0].submission, "submission"), (found[0].output, "output")):
        if not (root / place).is_dir():
            raise LayoutError(f"no folder /{place} for the {what} of the layout {found[0].name}")
    return found[0]


def score_layout(
    layout: Layout,
    root: Path = Path("/"),
    *,
    now: str | None = None,
    progress: Progress = lambda step: None,
) -> HostedScore:
    """Judge and score what ``layout`` has below ``root``, and write what its platform reads.

    Files are written in place and never renamed onto: a platform may have mounted each of them. Raises HostError, with
    its reasons in the host's log: the folder /host where it is mounted, else standard error where that is private or
    MVC_HOST_LOG=stderr says so.
    """
    labels, output = root / layout.labels, root / layout.output
    host = root / HOST_FOLDER if (root / HOST_FOLDER).is_dir() else None
    if host is not None and not usable(host):
        raise LayoutError(f"{host} can't be written {_as_whom(host)}")
    for place in (labels, labels / TASK_FILE, labels / TRUTH_FILE):
        if os.path.lexists(place) and not readable(place):
            raise LayoutError(f"{place} can't be read {as_user()}")
    with host_log(host, log_on_stderr(layout) and host is None):
        _ready(output, layout.files)
        enough_memory()
        key = labels / KEY_FILE
        side = read_side(
            labels / TRUTH_FILE, labels / TASK_FILE, key if os.path.lexists(key) else None, host, now, sealed=True
        )
        place, notes = find_bundle(root / layout.submission, layout.sidecars)
        if layout.brings_files and place.is_dir() and not any(place.iterdir()):
            raise LayoutError(f"/{layout.submission} is empty: mount the upload there")
        done = judged(side, place, notes, progress)
        try:
            made = layout.made(side.task, done)
        except Exception:
            log.exception("what %s reads could not be made", layout.name)
            done = failed(side)
            made = layout.made(side.task, done)
        try:
            for name, data in made.items():
                _write(output / name, data)
        except BaseException as error:
            for name in made:
                with contextlib.suppress(OSError):
                    _cleared(output / name)
            if isinstance(error, OSError):
                raise HostError(f"{output} can't be written ({error.strerror})") from None
            raise
        return replace(done, files=tuple(output / name for name in made))


def log_on_stderr(layout: Layout) -> bool:
    """Whether the log may go to standard error, where there is no folder for it."""
    return layout.stderr_is_private or os.environ.get(HOST_LOG) == "stderr"


def _ready(output: Path, names: tuple[str, ...]) -> None:
    """Take away what an earlier run left; LayoutError where what is to be written can't be."""
    for name in names:
        path = output / name
        try:
            _cleared(path)
        except OSError as error:
            raise LayoutError(f"{path} can't be written ({error.strerror}) {_as_whom(output)}") from None
        if not os.path.lexists(path) and not usable(output):
            raise LayoutError(f"{output} can't be written {_as_whom(output)}")


def _as_whom(place: Path) -> str:
    """Why ``place`` can't be written, and the mend."""
    with contextlib.suppress(OSError):
        if os.statvfs(place).f_flag & os.ST_RDONLY and not place.is_file():
            return "since it is mounted read-only; mount it with :rw"
    return as_user()


def _cleared(path: Path) -> None:
    """Remove ``path``, or empty it where it is mounted or the folder is somebody else's."""
    if os.path.lexists(path):
        try:
            path.unlink()
        except OSError:
            _write(path, b"")


def _write(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path`` itself, a plain file that may be mounted there, and sync it."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # no link, and no pipe to wait for
    with os.fdopen(os.open(path, flags, 0o644), "wb") as sink:
        if not stat.S_ISREG(os.fstat(sink.fileno()).st_mode):
            raise OSError(errno.EINVAL, "no plain file")
        sink.truncate()
        sink.write(data)
        sink.flush()
        try:
            os.fsync(sink.fileno())
        except OSError as error:
            if error.errno not in UNSYNCED:
                raise
        with contextlib.suppress(OSError):  # somebody else's file, mounted
            os.fchmod(sink.fileno(), 0o644)
