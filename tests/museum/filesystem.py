"""The file system: links, pipes, devices, folders and files that are no files."""

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

from tests.museum.registry import exhibit, show
from tests.museum.support import overwrite

FILES = (
    "task.yaml",
    "submission.yaml",
    "splits.parquet",
    "predictions.parquet",
    "calibrators.json",
    "declaration.lock",
)
# Without its parameters a bundle is readable: the rule of step 3 misses them.
OWNER = {"calibrators.json": "MVC310"}


def outside(folder: Path) -> Path:
    """A file of the host's beside the bundle."""
    place = folder.with_name("secret.txt")
    place.write_text("password: canary-of-the-host\n")
    return place


def link(place: Path) -> None:
    place.symlink_to(outside(place.parent))


def device(place: Path) -> None:
    place.symlink_to("/dev/zero")


def loop(place: Path) -> None:
    place.symlink_to(place.name)


def nowhere(place: Path) -> None:
    place.symlink_to("nowhere")


def endpoint(place: Path) -> None:
    here = os.open(".", os.O_RDONLY)
    try:
        os.chdir(place.parent)  # the path of a socket may have 107 bytes
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(place.name)
    finally:
        os.fchdir(here)
        os.close(here)


KINDS: tuple[tuple[str, Callable[[Path], None], str], ...] = (
    ("absent", lambda place: None, "no file"),
    ("folder", Path.mkdir, "a folder"),
    ("pipe", lambda place: os.mkfifo(place), "a pipe that nobody writes to"),
    ("socket", endpoint, "a socket"),
    ("link", link, "a link to a file of the host's"),
    ("device", device, "a link to /dev/zero"),
    ("loop", loop, "a link to itself"),
    ("nowhere", nowhere, "a link to nowhere"),
)
for kind, turn, story in KINDS:
    for file in FILES:

        def instead(folder: Path, file: str = file, turn: Callable[[Path], None] = turn) -> None:
            (folder / file).unlink()
            turn(folder / file)

        rule = {**OWNER, **({"declaration.lock": "MVC604"} if kind == "absent" else {})}.get(file, "MVC001")
        show(f"{kind}_{file.replace('.', '_')}", f"{story} in the place of {file}", rule, make=instead)


@exhibit("MVC206")
def configs_elsewhere(folder: Path) -> None:
    """A folder of the bundle that is a link to one outside it."""
    (folder / "configs").rename(folder.with_name("elsewhere"))
    (folder / "configs").symlink_to(folder.with_name("elsewhere"))


@exhibit("MVC206")
def config_of_a_device(folder: Path) -> None:
    """A configuration file that is /dev/zero."""
    (folder / "configs/train.yaml").unlink()
    device(folder / "configs/train.yaml")


@exhibit("MVC004")
def config_of_60_gigabytes(folder: Path) -> None:
    """A configuration file of sixty gigabytes that takes no room on the disk."""
    with (folder / "configs/train.yaml").open("wb") as sink:
        sink.truncate(60 << 30)


@exhibit("MVC004")
def predictions_of_3_gigabytes(folder: Path) -> None:
    """Predictions of three gigabytes that take no room on the disk."""
    with (folder / "predictions.parquet").open("wb") as sink:
        sink.truncate(3 << 30)


@exhibit("MVC004")
def record_of_a_terabyte(folder: Path) -> None:
    """A record of a terabyte."""
    with (folder / "submission.yaml").open("wb") as sink:
        sink.truncate(1 << 40)


@exhibit("MVC001")
def two_predictions(folder: Path) -> None:
    """Two files of predictions: neither is chosen."""
    overwrite(folder, "predictions.csv", b"image_id\n")


@exhibit(usage=True)
def empty_folder(folder: Path) -> Path:
    """A folder with nothing in it."""
    (folder / "inside").mkdir()
    return folder / "inside"


@exhibit(usage=True)
def pipe_for_a_bundle(folder: Path) -> Path:
    """A pipe for a bundle."""
    os.mkfifo(folder.with_name("pipe"))
    return folder.with_name("pipe")


@exhibit(usage=True)
def device_for_a_bundle(folder: Path) -> Path:
    """A device for a bundle."""
    assert stat.S_ISCHR(os.stat("/dev/zero").st_mode)
    return Path("/dev/zero")


@exhibit(usage=True)
def part_for_a_bundle(folder: Path) -> Path:
    """A record for a bundle."""
    return folder / "task.yaml"


@exhibit(usage=True)
def nothing_for_a_bundle(folder: Path) -> Path:
    """A path that leads nowhere, with an escape sequence in it."""
    return folder / "\x1b[2J"


@exhibit("MVC001")
def program_for_a_bundle(folder: Path) -> Path:
    """A program for predictions."""
    overwrite(folder, "predictions.exe", b"MZ" + bytes(100))
    return folder / "predictions.exe"


@exhibit("MVC007")
def pickle_for_a_bundle(folder: Path) -> Path:
    """A pickle for predictions."""
    overwrite(folder, "predictions.pkl", b"\x80\x04.")
    return folder / "predictions.pkl"
