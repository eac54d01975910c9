"""A sealed bundle as one file to upload: what each platform takes, and names that it would not bring to its scorer."""

import re
import shutil
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from protocol.facts import Problem
from protocol.types import MANIFEST_FILE
from submission.archive import DAMAGE, unpack
from submission.bundle import TASK_FILE
from submission.carrier import carry, is_carrier

WANTED = "another name in the record"


@dataclass(frozen=True)
class Form:
    """One way to upload a bundle: what its file name ends with, and whether it is a carrier (CSV) in place of a zip.

    ``spoilt`` are patterns of member names that do not arrive as they were sent, each with what becomes of them.
    """

    ending: str
    carrier: bool = False
    spoilt: tuple[tuple[re.Pattern[str], str], ...] = ()


PLAIN = Form(".zip")
# Grand Challenge extracts a zip into the folder of its own inputs.json, without what looks like system junk
# (sagemaker_shim/extract.py). Codabench runs what holds a file metadata as code, and writes one beside any other
# upload (compute_worker.py: _run_program_directory, push_output).
FORMS = {
    "gc-zip": Form(
        ".gc.zip",
        spoilt=(
            (re.compile(r"^inputs\.json$"), "Grand Challenge writes its own file of this name"),
            (re.compile(r"__MACOSX|\.DS_Store|desktop.ini"), "Grand Challenge leaves out files of such names"),
        ),
    ),
    "gc-csv": Form(".predictions.csv", carrier=True),
    "codabench-zip": Form(
        ".codabench.zip",
        spoilt=((re.compile(r"^metadata(\.yaml)?$"), "Codabench takes an upload with this file for code to run"),),
    ),
}


def pack(folder: Path, names: Iterable[str], target: Path, scratch: Path, form: Form = PLAIN) -> tuple[Problem, ...]:
    """Pack the files ``names`` of ``folder`` into the new file ``target``: the same bytes for the same files.

    The zip is unpacked into the empty folder ``scratch`` as a host would do it; problems are what would be said of it,
    and what would not arrive. Raises OSError where a file can't be read or written.
    """
    members = sorted(names, key=lambda name: (name != TASK_FILE, name))  # by the first name some take it for no zip
    spoilt = [(name, saw) for name in members for pattern, saw in form.spoilt if pattern.search(name)]
    if spoilt:
        return tuple(Problem("unsafe-archive", name, saw, WANTED) for name, saw in spoilt)
    archive = target.with_name(f"{target.name}.zip") if form.carrier else target
    _zip(folder, members, archive)
    problems, _ = unpack(archive, scratch)
    if not problems:
        lost = [name for name in members if not (scratch / name).is_file()]
        problems = tuple(Problem("unsafe-archive", name, "taken for system junk and left out", WANTED) for name in lost)
    if form.carrier and not problems:
        carry(archive, target)
        archive.unlink()
    return problems


def sealed_before(path: Path, form: Form) -> bool:
    """Whether the file at ``path`` is what was packed at an earlier time; anything else is not ours to replace."""
    if form.carrier:
        return is_carrier(path)
    try:
        with zipfile.ZipFile(path) as archive:
            return MANIFEST_FILE in archive.namelist()
    except DAMAGE:
        return False


def _zip(folder: Path, members: Iterable[str], target: Path) -> None:
    with zipfile.ZipFile(target, "w") as archive:
        for name in members:
            member = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            member.external_attr = 0o100644 << 16
            # Parquet is compressed already
            member.compress_type = zipfile.ZIP_STORED if name.endswith(".parquet") else zipfile.ZIP_DEFLATED
            with (folder / name).open("rb") as source, archive.open(member, "w", force_zip64=True) as sink:
                shutil.copyfileobj(source, sink, 1 << 20)
