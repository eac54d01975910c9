"""One zip of a sealed bundle, as it is uploaded to the host of its task."""

import shutil
import zipfile
from collections.abc import Iterable
from pathlib import Path

from protocol.facts import Problem
from submission.archive import unpack


def pack(folder: Path, names: Iterable[str], target: Path, scratch: Path) -> tuple[Problem, ...]:
    """Zip the files ``names`` of ``folder`` to ``target``: the same bytes for the same files.

    The zip is unpacked into the empty folder ``scratch`` as a host would do it; problems are what it would say.
    """
    with zipfile.ZipFile(target, "w") as archive:
        for name in sorted(names):
            member = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            member.external_attr = 0o100644 << 16
            # Parquet is compressed already
            member.compress_type = zipfile.ZIP_STORED if name.endswith(".parquet") else zipfile.ZIP_DEFLATED
            with (folder / name).open("rb") as source, archive.open(member, "w", force_zip64=True) as sink:
                shutil.copyfileobj(source, sink, 1 << 20)
    return unpack(target, scratch)[0]
